//! Thread numbers for striped counters.
//!
//! A structure that every thread writes to keeps one copy of the written word per stripe, each on
//! cache lines of its own, and each thread uses the stripe of its number. Threads may share a
//! stripe, so stripes are still atomics; they are just rarely contended. Used by the commit gate,
//! the block cache's hit counters and the handles of transactions. Any thread may ask at any time.

use std::marker::PhantomData;
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

/// The first so many threads have a stripe of a [`StripedCounters`] each, ...
const OWN_STRIPES: usize = 32;
/// ... and all later ones share these.
const SHARED_STRIPES: usize = 8;

/// Counters that many threads add to together, each thread mostly on cache lines of its own.
///
/// Made for statistics on hot paths: adding is a load and a store for the first threads of the
/// process, which share their stripe with no other, and an uncontended atomic addition for later
/// ones. [`StripedCounters::totals`] adds up what it finds while others go on adding. A set of
/// counters takes next to nothing before the first addition, and then a stripe for each thread that
/// adds.
///
/// ```
/// use tidesdb_lockfree::stripe::StripedCounters;
/// let counters = StripedCounters::<2>::default();
/// let mine = counters.mine();
/// mine.add(0, 3);
/// mine.add(1, 1);
/// mine.add(0, 4);
/// assert_eq!(counters.totals(), [7, 1]);
/// ```
#[derive(Debug, Default)]
pub struct StripedCounters<const N: usize> {
    stripes: OnceLock<Box<Stripes<N>>>,
}

type Stripe<const N: usize> = OnceLock<Box<CachePadded<[AtomicU64; N]>>>;

#[derive(Debug)]
struct Stripes<const N: usize>([Stripe<N>; OWN_STRIPES + SHARED_STRIPES]);

/// The stripe of the calling thread, to be used before the call that asked for it returns.
#[derive(Clone, Copy, Debug)]
pub struct MyStripe<'a, const N: usize> {
    counters: &'a [AtomicU64; N],
    /// No other thread ever writes to it.
    owned: bool,
    /// It is this thread's and no other's.
    _of_thread: PhantomData<*const ()>,
}

impl<const N: usize> StripedCounters<N> {
    /// The calling thread's stripe.
    #[inline]
    #[must_use]
    pub fn mine(&self) -> MyStripe<'_, N> {
        let stripes = self.stripes.get_or_init(Self::no_stripes);
        let thread = thread_number();
        let owned = thread < OWN_STRIPES;
        let at = if owned { thread } else { OWN_STRIPES + thread % SHARED_STRIPES };
        let counters = stripes.0[at].get_or_init(Self::new_stripe);
        MyStripe { counters, owned, _of_thread: PhantomData }
    }

    #[cold]
    fn no_stripes() -> Box<Stripes<N>> {
        Box::new(Stripes([const { OnceLock::new() }; OWN_STRIPES + SHARED_STRIPES]))
    }

    #[cold]
    fn new_stripe() -> Box<CachePadded<[AtomicU64; N]>> {
        Box::new(CachePadded([const { AtomicU64::new(0) }; N]))
    }

    /// Sums over all threads, in the order of the counters.
    #[must_use]
    pub fn totals(&self) -> [u64; N] {
        let mut totals = [0; N];
        let stripes = self.stripes.get().into_iter().flat_map(|stripes| &stripes.0);
        for stripe in stripes.filter_map(OnceLock::get) {
            for (total, counter) in totals.iter_mut().zip(&stripe.0) {
                // ORDERING: relaxed; statistics order nothing.
                *total += counter.load(Ordering::Relaxed);
            }
        }
        totals
    }
}

impl<const N: usize> MyStripe<'_, N> {
    /// What the thread has added, and others with it if they share its stripe.
    #[must_use]
    pub fn get(&self, counter: usize) -> u64 {
        // ORDERING: relaxed; statistics order nothing.
        self.counters.get(counter).map_or(0, |counter| counter.load(Ordering::Relaxed))
    }

    /// Adds to a counter; does nothing when there is no such one.
    #[inline]
    pub fn add(&self, counter: usize, amount: u64) {
        let Some(counter) = self.counters.get(counter) else { return };
        // ORDERING: relaxed; statistics order nothing.
        if self.owned {
            // Thread numbers are never used twice, so no other thread writes here.
            let before = counter.load(Ordering::Relaxed);
            counter.store(before.wrapping_add(amount), Ordering::Relaxed);
        } else {
            counter.fetch_add(amount, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn additions_of_more_threads_than_there_are_stripes_are_all_counted() {
        let counters = StripedCounters::<3>::default();
        assert_eq!(counters.totals(), [0; 3]);
        std::thread::scope(|scope| {
            for _ in 0..OWN_STRIPES + 2 * SHARED_STRIPES {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        counters.mine().add(0, 1);
                        counters.mine().add(2, 5);
                    }
                });
            }
        });
        let threads = (OWN_STRIPES + 2 * SHARED_STRIPES) as u64;
        assert_eq!(counters.totals(), [1000 * threads, 0, 5000 * threads]);
        counters.mine().add(3, 1);
        assert_eq!(counters.totals()[0], 1000 * threads, "there is no such counter");
    }
}
