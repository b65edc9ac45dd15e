//! Commit hooks in C.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::Arc;

use tidesdb::{CommitHook, CommittedKind, CommittedOperation};

use crate::engine_log::{self, Level, LogNumber};
use crate::types::{CommitHookFn, CommitOp};

/// The caller's pointer, which the hook gets back on whichever thread commits.
struct Context(*mut c_void);

// SAFETY: by the interface the caller has the hook called on any thread with this pointer.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Context {
    const fn pointer(&self) -> *mut c_void {
        self.0
    }
}

/// An operation as the interface has it.
fn in_c(operation: &CommittedOperation<'_>) -> CommitOp {
    let is_put = operation.kind == CommittedKind::Put;
    let value = if is_put { operation.value } else { &[] };
    CommitOp {
        key: operation.key.as_ptr(),
        key_size: operation.key.len(),
        value: if is_put { value.as_ptr() } else { ptr::null() },
        value_size: value.len(),
        ttl: libc::time_t::try_from(operation.expires_at_unix_seconds).unwrap_or(libc::time_t::MAX),
        is_delete: c_int::from(!is_put),
    }
}

/// A hook of the engine that calls one of the interface. What it can't do is told in the log of its
/// database.
pub fn commit_hook(hook: CommitHookFn, context: *mut c_void, log: LogNumber) -> CommitHook {
    let context = Context(context);
    Arc::new(move |batch| {
        let mut operations: Vec<CommitOp> = Vec::new();
        if operations.try_reserve_exact(batch.operations.len()).is_err() {
            let family = batch.family;
            let text = format_args!("no memory to call the commit hook of '{family}'");
            return engine_log::write(Some(log), Level::Error, text);
        }
        operations.extend(batch.operations.iter().map(in_c));
        let count = c_int::try_from(operations.len()).unwrap_or(c_int::MAX);
        // SAFETY: the caller's function, with operations that live during the call.
        let answer = unsafe { hook(operations.as_ptr(), count, batch.sequence, context.pointer()) };
        if answer != 0 {
            let family = batch.family;
            let text = format_args!("the commit hook of '{family}' answered {answer}");
            engine_log::write(Some(log), Level::Warn, text);
        }
    })
}
