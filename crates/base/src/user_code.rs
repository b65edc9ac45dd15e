//! Calls of functions that the application has given the database.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

/// Calls a function of the user's. A panic ends here: it must neither undo what the engine has done
/// nor meet another one. The process's panic hook has reported it by then.
pub fn call_out(function: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(function));
}

/// A function of the user's that is called again and again: its first panic is reported by an
/// event, the others are not.
#[derive(Debug, Default)]
pub struct FirstPanic {
    was: AtomicBool,
}

impl FirstPanic {
    /// As [`call_out`]. True when the function panicked for the first time.
    pub fn call_out(&self, function: impl FnOnce()) -> bool {
        // ORDERING: relaxed; of two at once one is the first, and nothing else depends on it.
        catch_unwind(AssertUnwindSafe(function)).is_err() && !self.was.swap(true, Ordering::Relaxed)
    }

    /// Another function takes the place of this one.
    pub fn forget(&self) {
        // ORDERING: relaxed; as before.
        self.was.store(false, Ordering::Relaxed);
    }
}
