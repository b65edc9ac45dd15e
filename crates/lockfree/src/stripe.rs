//! Thread numbers for striped counters.
//!
//! A structure that every thread writes to keeps one copy of the written word per stripe, each on
//! cache lines of its own, and each thread uses the stripe of its number. Threads may share a
//! stripe, so stripes are still atomics; they are just rarely contended. Used by the commit gate,
//! the block cache's hit counters and the handles of transactions. Any thread may ask at any time.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::sync::CachePadded;

/// The calling thread's number: consecutive from 0 in the order of first use, never used twice.
/// A thread that is being torn down may get a number that no other thread will have, either.
#[inline]
#[must_use]
pub fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static NUMBER: usize = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    // While a thread is being torn down its number may be gone.
    NUMBER.try_with(|number| *number).unwrap_or_else(|_| NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Stripes of a [`StripedSums`].
const SUM_STRIPES: usize = 8;

/// Two sums that many threads add to together, each thread mostly on a cache line of its own.
///
/// Made for statistics: [`StripedSums::totals`] adds up what it finds while others go on adding.
/// It takes a kilobyte from the first addition on, and next to nothing before.
#[derive(Debug, Default)]
pub struct StripedSums {
    stripes: OnceLock<Box<Stripes>>,
}

type Stripes = [CachePadded<[AtomicU64; 2]>; SUM_STRIPES];

impl StripedSums {
    /// Adds to both sums.
    #[inline]
    pub fn add(&self, first: u64, second: u64) {
        let stripes = self.stripes.get_or_init(Box::default);
        let [a, b] = &*stripes[thread_number() % SUM_STRIPES];
        // ORDERING: relaxed; statistics order nothing.
        a.fetch_add(first, Ordering::Relaxed);
        b.fetch_add(second, Ordering::Relaxed);
    }

    /// Both sums.
    #[must_use]
    pub fn totals(&self) -> (u64, u64) {
        self.stripes.get().into_iter().flat_map(|stripes| stripes.iter()).fold(
            (0, 0),
            |(first, second), stripe| {
                let [a, b] = &**stripe;
                // ORDERING: as in `add`.
                (first + a.load(Ordering::Relaxed), second + b.load(Ordering::Relaxed))
            },
        )
    }
}
