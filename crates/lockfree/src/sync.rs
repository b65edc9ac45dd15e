//! Synchronisation primitives: the standard library's, or loom's twins when built with
//! `--cfg loom`.
//!
//! Every module of this crate takes its atomics, locks and threads from here, so that the very
//! code that ships is what the model checker explores. `CachePadded` keeps two hot words out of
//! each other's cache line. `fence_for_loom` stands in, in models only, for the total order of
//! sequentially consistent accesses, which loom does not model (it treats them as
//! acquire/release, but does model sequentially consistent fences).
//!
//! Nothing here owns state. Any thread may use any of it.

use std::ops::{Deref, DerefMut};

#[cfg(loom)]
pub use loom::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
#[cfg(loom)]
pub use loom::sync::{Arc, Condvar, Mutex, MutexGuard};
#[cfg(loom)]
pub use loom::{hint, thread};

#[cfg(not(loom))]
pub use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
#[cfg(not(loom))]
pub use std::sync::{Arc, Condvar, Mutex, MutexGuard};
#[cfg(not(loom))]
pub use std::{hint, thread};

/// A value on cache lines of its own (two of them: processors prefetch lines in pairs).
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct CachePadded<T>(pub T);

impl<T> Deref for CachePadded<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for CachePadded<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

/// Locks a mutex whose data stays valid at every point where its holder could unwind, so that
/// poisoning carries no information.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Waits on a condition variable; like [`lock`], it looks through poisoning.
pub fn wait<'a, T>(condvar: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    condvar.wait(guard).unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// In a loom model a sequentially consistent fence, otherwise nothing.
///
/// Placed between two sequentially consistent accesses whose place in the single total order
/// matters. In a real build that order holds by itself and costs no extra instruction.
#[inline(always)]
pub fn fence_for_loom() {
    #[cfg(loom)]
    fence(Ordering::SeqCst);
}
