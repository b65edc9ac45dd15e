//! Thread numbers for striped counters.
//!
//! A structure that every thread writes to keeps one copy of the written word per stripe, each on
//! cache lines of its own, and each thread uses the stripe of its number. Threads may share a
//! stripe, so stripes are still atomics; they are just rarely contended. Used by the commit gate
//! and the block cache's hit counters. Any thread may ask at any time.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The calling thread's number: consecutive from 0 in the order of first use, never used twice.
/// A thread that is being torn down may get a number that no other thread will have, either.
#[inline]
pub(crate) fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static NUMBER: usize = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    // While a thread is being torn down its number may be gone.
    NUMBER.try_with(|number| *number).unwrap_or_else(|_| NEXT.fetch_add(1, Ordering::Relaxed))
}
