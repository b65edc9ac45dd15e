//! Background work: who runs flushes, merges, log syncs and housekeeping.
//!
//! The engine hands closures to a [`Scheduler`] and never starts a thread itself.
//! [`ThreadPool`] runs them on named threads, one queue and one set of threads per [`Lane`], so
//! that a long compaction never delays a flush. `ManualScheduler` of `crates/sim` runs them on a
//! test's own thread, one at a time, in an order drawn from a seed.
//!
//! A thread that waits for background progress calls [`Scheduler::run_one_job`] in its waiting loop
//! and blocks only when that returns false: under that one there is no other thread to do the work.

mod no_threads;
mod pool;

use std::fmt::Debug;
use std::time::Duration;

pub use no_threads::NoThreads;
pub use pool::{LaneThreads, PanicReport, ThreadPool};

/// A piece of background work, run once.
pub type Job = Box<dyn FnOnce() + Send>;

/// Which queue a job waits in; jobs of different lanes never delay each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Lane {
    /// Memtables to tables.
    Flush,
    /// Compactions of tables and of value logs.
    Compaction,
    /// Log syncs, which must not wait behind anything long.
    Sync,
    /// Everything else: warming segments, deleting files, statistics.
    Housekeeping,
}

impl Lane {
    /// All lanes.
    pub const ALL: [Self; 4] = [Self::Flush, Self::Compaction, Self::Sync, Self::Housekeeping];

    /// Short name, used for threads and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Flush => "flush",
            Self::Compaction => "compact",
            Self::Sync => "sync",
            Self::Housekeeping => "house",
        }
    }
}

/// Runs background jobs. Any thread, also a running job, may call any method.
pub trait Scheduler: Send + Sync + Debug {
    /// Queues `job`. After [`Scheduler::shutdown`] the job is dropped unrun.
    fn submit(&self, lane: Lane, job: Job);

    /// Queues `job` once `delay` has passed. A stepped scheduler ignores how long that is and
    /// lets the test decide when its timers fire.
    fn submit_after(&self, lane: Lane, delay: Duration, job: Job);

    /// Runs one queued job on the calling thread if this scheduler has no threads of its own.
    /// Returns whether it did; a pool always returns false.
    fn run_one_job(&self) -> bool;

    /// As [`Scheduler::submit`], for a job that takes time in proportion to `size`. Of these the
    /// smallest goes first, behind jobs without a size, and every now and then the one that has
    /// waited longest.
    fn submit_sized(&self, lane: Lane, size: u64, job: Job) {
        let _ = size;
        self.submit(lane, job);
    }

    /// As [`Scheduler::submit`], for a job that threads of the application wait for: it runs with
    /// their priority. Returns whether a thread for such jobs is free to begin it at once. Where
    /// there is no such thread at all, the job is one of the lane like any other.
    fn submit_urgent(&self, lane: Lane, job: Job) -> bool {
        self.submit(lane, job);
        false
    }

    /// Called by a long job of `lane` now and then, while it holds no lock: runs the smallest
    /// waiting job of the lane that has a size, if that is at most `most`, on the calling thread.
    /// So a lane whose threads are all at something large does what is small all the same. Only
    /// threads of the lane do that, and only a few jobs deep. A stepped scheduler may run any job,
    /// as if a thread were free.
    fn run_smaller_jobs(&self, lane: Lane, most: u64) {
        let _ = (lane, most);
    }

    /// Accepts no more jobs, drops those still queued without running them, and waits for those
    /// running. Called from inside a job, it does not wait for that job. A second call does
    /// nothing.
    fn shutdown(&self);
}
