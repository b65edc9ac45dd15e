//! Locking helpers of this crate and of what stands in for it in tests.
//!
//! A poisoned lock means that some thread panicked while it held the lock. Every structure
//! guarded here is left consistent between statements, and the panic itself is reported by the
//! thread that suffered it, so later users carry on instead of panicking in turn.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks `mutex`, ignoring poison.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
