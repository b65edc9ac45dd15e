//! Doing the parts of some work with whatever threads are free while a database is opened.
//!
//! Helpers are jobs of the compaction lane. A part that was not begun is done by the caller, so
//! that a busy scheduler, or one that is stepped, only means that the caller does everything.
//!
//! Invariants: when [`Workers::run`] returns, every part has been done, or it returns an error; a
//! helper that comes later finds nothing to do and keeps nothing alive.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

use tidesdb_base::error::{Error, Result};
use tidesdb_lockfree::sync::lock;
use tidesdb_sys::sched::{Lane, Scheduler};

/// The threads that may help, and how much they do at a time.
#[derive(Debug)]
pub(crate) struct Workers {
    scheduler: Arc<dyn Scheduler>,
    /// Threads besides the caller's.
    helpers: usize,
    /// Bytes of log that are decoded at a time, about, while as many are read.
    pub chunk_bytes: usize,
    /// Bytes of notes of what was decoded from which on memtables are made of it.
    pub decoded_bytes: usize,
}

/// Threads that help at most.
const MOST_HELPERS: usize = 15;

/// Least and most bytes of log that are decoded at a time: what is read should still be in a cache
/// when it is decoded.
const CHUNK_BYTES: (u64, u64) = (1 << 20, 4 << 20);

/// Least and most bytes of notes.
const DECODED_BYTES: (u64, u64) = (1 << 20, 256 << 20);

impl Workers {
    /// A workers of the scheduler's threads that merge, for a database with this memory budget.
    pub(crate) fn new(scheduler: &Arc<dyn Scheduler>, helpers: usize, budget_bytes: u64) -> Self {
        let part = |(least, most): (u64, u64), part: u64| {
            usize::try_from((budget_bytes / part).clamp(least, most)).unwrap_or(usize::MAX)
        };
        Self {
            scheduler: Arc::clone(scheduler),
            helpers: helpers.min(MOST_HELPERS),
            chunk_bytes: part(CHUNK_BYTES, 32),
            // Twice as many are there while they are sorted.
            decoded_bytes: part(DECODED_BYTES, 32),
        }
    }

    /// Threads that work at once.
    pub(super) const fn threads(&self) -> usize {
        1 + self.helpers
    }

    /// Calls `work` with each number below `count`, on as many threads as are free, and waits until
    /// all calls have returned. The calling thread runs `first` before it takes part.
    ///
    /// # Errors
    /// [`Error::Internal`] when a call panicked on a helping thread.
    pub(super) fn run<R>(
        &self,
        count: usize,
        work: impl Fn(usize) + Send + Sync + 'static,
        first: impl FnOnce() -> R,
    ) -> Result<R> {
        let (left, ended) = (Mutex::new(Left { next: 0, running: 0, done: 0 }), Condvar::new());
        let parts = Arc::new(Parts { count, work, left, ended });
        let helpers = if count > 1 { self.helpers.min(count) } else { 0 };
        for _ in 0..helpers {
            // Weak: a helper that comes when all is done must not keep what the work holds.
            let parts = Arc::downgrade(&parts);
            let job = move || {
                if let Some(parts) = parts.upgrade() {
                    parts.do_waiting();
                }
            };
            self.scheduler.submit(Lane::Compaction, Box::new(job));
        }
        let result = first();
        parts.do_waiting();
        let mut left = lock(&parts.left);
        while left.running > 0 {
            left = parts.ended.wait(left).unwrap_or_else(PoisonError::into_inner);
        }
        if left.done < count {
            return Err(Error::Internal("a thread that replays the log panicked".to_owned()));
        }
        Ok(result)
    }
}

struct Parts<W> {
    count: usize,
    work: W,
    left: Mutex<Left>,
    ended: Condvar,
}

struct Left {
    next: usize,
    running: usize,
    done: usize,
}

impl<W: Fn(usize)> Parts<W> {
    fn do_waiting(&self) {
        loop {
            let mut left = lock(&self.left);
            let part = left.next;
            if part >= self.count {
                return;
            }
            left.next += 1;
            left.running += 1;
            drop(left);
            let running = Running { left: &self.left, ended: &self.ended };
            (self.work)(part);
            lock(&self.left).done += 1;
            drop(running);
        }
    }
}

/// Counts a part as running until it has ended, in whatever way.
struct Running<'a> {
    left: &'a Mutex<Left>,
    ended: &'a Condvar,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        lock(self.left).running -= 1;
        self.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use tidesdb_sim::ManualScheduler;
    use tidesdb_sys::sched::{LaneThreads, ThreadPool};

    fn sum(scheduler: Arc<dyn Scheduler>) -> usize {
        let workers = Workers::new(&scheduler, 3, u64::MAX);
        let total = Arc::new(AtomicUsize::new(0));
        let shared = Arc::clone(&total);
        // ORDERING: read when all parts have ended.
        let work = move |part| {
            shared.fetch_add(part, Ordering::Relaxed);
        };
        assert_eq!(workers.run(100, work, || "first").unwrap(), "first");
        scheduler.shutdown();
        total.load(Ordering::Relaxed)
    }

    #[test]
    fn every_part_is_done_once_with_threads_and_without() {
        let threads = LaneThreads { flush: 1, compaction: 3, sync: 1, housekeeping: 1 };
        let pool = ThreadPool::new("workers", threads, Arc::new(|_, _: &str| {})).unwrap();
        assert_eq!(sum(Arc::new(pool)), 4950);
        assert_eq!(sum(Arc::new(ManualScheduler::new(1))), 4950);
    }

    #[test]
    fn a_part_that_panics_elsewhere_is_an_error() {
        let threads = LaneThreads { flush: 1, compaction: 1, sync: 1, housekeeping: 1 };
        let pool = ThreadPool::new("workers", threads, Arc::new(|_, _: &str| {})).unwrap();
        let scheduler: Arc<dyn Scheduler> = Arc::new(pool);
        let workers = Workers::new(&scheduler, 1, u64::MAX);
        let (entered, enter) = std::sync::mpsc::channel();
        let owner = std::thread::current().id();
        let work = move |_| {
            if std::thread::current().id() != owner {
                entered.send(()).unwrap();
                panic!("on purpose");
            }
        };
        let outcome = workers.run(2, work, || enter.recv().unwrap());
        assert!(outcome.is_err());
        scheduler.shutdown();
    }
}
