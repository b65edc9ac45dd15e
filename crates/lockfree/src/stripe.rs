//! Thread numbers for striped counters.
//!
//! A structure that every thread writes to keeps one copy of the written word per stripe, each on
//! cache lines of its own, and each thread uses the stripe of its number. Threads may share a
//! stripe, so stripes are still atomics; they are just rarely contended. Used by the commit gate,
//! the block cache's hit counters and the handles of transactions. Any thread may ask at any time.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::sync::CachePadded;

/// Numbers below this belong to one living thread each.
const OWN_NUMBERS: usize = u64::BITS as usize;

/// The numbers below [`OWN_NUMBERS`] that living threads have, one bit each. No lock: a forked
/// child may begin while another thread is at it, and then lacks the numbers of threads that it
/// lacks.
static TAKEN: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The calling thread's number, once it has asked. Has no destructor, so that it may be asked
    /// for at any time.
    static NUMBER: Cell<usize> = const { Cell::new(NOT_ASKED) };
    /// Gives the number back when the thread ends.
    static HELD: HeldNumber = const { HeldNumber };
}

const NOT_ASKED: usize = usize::MAX;

struct HeldNumber;

impl Drop for HeldNumber {
    fn drop(&mut self) {
        // What comes later in the thread's end shares.
        let number = NUMBER.replace(shared_number());
        if number < OWN_NUMBERS {
            // ORDERING: release; what the thread has counted comes before what the next thread of
            // the number counts.
            TAKEN.fetch_and(!(1 << number), Ordering::Release);
        }
    }
}

/// The calling thread's number: the lowest that no living thread has when the thread first asks,
/// or, with many threads, one from 64 on that others may have as well. A thread that is being torn
/// down has one of the latter.
#[inline]
#[must_use]
pub fn thread_number() -> usize {
    match NUMBER.get() {
        NOT_ASKED => first_number(),
        number => number,
    }
}

/// The calling thread's number for work that adds to several sets of counters, which then do not
/// ask for it again. To be used before the call that asked for it returns: a thread that ends gives
/// its number to others.
#[derive(Clone, Copy, Debug)]
pub struct ThisThread {
    number: usize,
    /// It is this thread's and no other's.
    _of_thread: PhantomData<*const ()>,
}

impl ThisThread {
    /// The calling thread.
    #[inline]
    #[must_use]
    pub fn get() -> Self {
        Self { number: thread_number(), _of_thread: PhantomData }
    }

    /// Its [`thread_number`].
    #[inline]
    #[must_use]
    pub const fn number(self) -> usize {
        self.number
    }
}

#[cold]
fn first_number() -> usize {
    // Of a thread that ends nothing is given back any more.
    let will_be_given_back = HELD.try_with(|_| ()).is_ok();
    let number = will_be_given_back.then(take_number).flatten().unwrap_or_else(shared_number);
    NUMBER.set(number);
    number
}

fn take_number() -> Option<usize> {
    // ORDERING: relaxed; compared below.
    let mut taken = TAKEN.load(Ordering::Relaxed);
    while taken != u64::MAX {
        let number = taken.trailing_ones();
        let with_it = taken | 1 << number;
        // ORDERING: acquire pairs with the release of the number's last thread.
        match TAKEN.compare_exchange_weak(taken, with_it, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => return Some(number as usize),
            Err(now) => taken = now,
        }
    }
    None
}

fn shared_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    // ORDERING: relaxed; any spread will do.
    OWN_NUMBERS + NEXT.fetch_add(1, Ordering::Relaxed) % OWN_NUMBERS
}

/// Threads of numbers below this have a stripe of a [`StripedCounters`] each.
const OWN_STRIPES: usize = 32;
/// Stripes that all other threads share.
const SHARED_STRIPES: usize = 8;

/// Counters that many threads add to together, each thread mostly on cache lines of its own.
///
/// Made for statistics on hot paths: adding is a load and a store for threads of low numbers, which
/// share their stripe with no other, and an uncontended atomic addition for the others.
/// [`StripedCounters::totals`] adds up what it finds while others go on adding. A set of
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
        self.of(ThisThread::get())
    }

    /// As [`StripedCounters::mine`], where the thread's number is known.
    #[inline]
    #[must_use]
    pub fn of(&self, thread: ThisThread) -> MyStripe<'_, N> {
        let thread = thread.number();
        let owned = thread < OWN_STRIPES;
        let at = if owned { thread } else { OWN_STRIPES + thread % SHARED_STRIPES };
        let known = self.stripes.get().and_then(|stripes| stripes.0[at].get());
        let counters = known.map(Box::as_ref).unwrap_or_else(|| self.first_of(at));
        MyStripe { counters, owned, _of_thread: PhantomData }
    }

    /// The stripe at this place, which is made if there is none.
    #[cold]
    fn first_of(&self, at: usize) -> &CachePadded<[AtomicU64; N]> {
        self.stripes.get_or_init(Self::no_stripes).0[at].get_or_init(Self::new_stripe)
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
            // No other living thread has this number, so no other writes here.
            let before = counter.load(Ordering::Relaxed);
            counter.store(before.wrapping_add(amount), Ordering::Relaxed);
        } else if amount > 0 {
            counter.fetch_add(amount, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::{Barrier, Mutex};

    use super::*;

    /// Numbers of many threads, each of which begins when the one before has ended.
    #[test]
    fn threads_that_have_ended_leave_their_numbers_to_others() {
        let number = || std::thread::spawn(thread_number).join().unwrap();
        // Other tests may have all of them for a moment. Without reuse there are no more than
        // `OWN_NUMBERS` in all.
        let numbers = std::iter::repeat_with(number).take(100 * OWN_NUMBERS);
        let own = numbers.filter(|&number| number < OWN_NUMBERS).take(2 * OWN_NUMBERS).count();
        assert_eq!(own, 2 * OWN_NUMBERS);
    }

    #[test]
    fn living_threads_have_different_numbers() {
        let (numbers, together) = (Mutex::new(Vec::new()), Barrier::new(OWN_STRIPES));
        std::thread::scope(|scope| {
            for _ in 0..OWN_STRIPES {
                scope.spawn(|| {
                    numbers.lock().unwrap().push(thread_number());
                    assert_eq!(thread_number(), thread_number());
                    together.wait();
                });
            }
        });
        let numbers = numbers.into_inner().unwrap();
        let own: Vec<_> = numbers.iter().filter(|&&number| number < OWN_NUMBERS).collect();
        assert_eq!(own.iter().collect::<HashSet<_>>().len(), own.len(), "{numbers:?}");
    }

    /// Asks for its number when it is dropped, which may be before the number is given back or
    /// after it.
    struct AsksAtTheEnd<'a>(&'a Mutex<Vec<usize>>);

    impl Drop for AsksAtTheEnd<'_> {
        fn drop(&mut self) {
            let number = thread_number();
            self.0.lock().unwrap().push(number);
        }
    }

    #[test]
    fn a_thread_that_ends_has_a_number_of_its_own_or_a_shared_one() {
        static NUMBERS: Mutex<Vec<usize>> = Mutex::new(Vec::new());
        thread_local! {
            static EARLY: Cell<Option<AsksAtTheEnd<'static>>> = const { Cell::new(None) };
            static LATE: Cell<Option<AsksAtTheEnd<'static>>> = const { Cell::new(None) };
        }
        let asked = std::thread::spawn(|| {
            EARLY.set(Some(AsksAtTheEnd(&NUMBERS)));
            let number = thread_number();
            LATE.set(Some(AsksAtTheEnd(&NUMBERS)));
            number
        });
        let own = asked.join().unwrap();
        let at_the_end = NUMBERS.lock().unwrap();
        assert_eq!(at_the_end.len(), 2);
        assert!(at_the_end.iter().all(|&number| number == own || number >= OWN_NUMBERS));
    }

    /// More threads than there are stripes, a few at a time: none is lost when they pass them on.
    #[test]
    fn additions_of_threads_that_follow_each_other_are_all_counted() {
        let counters = StripedCounters::<1>::default();
        for _ in 0..100 {
            std::thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| (0..100).for_each(|_| counters.mine().add(0, 1)));
                }
            });
        }
        assert_eq!(counters.totals(), [30_000]);
    }

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
