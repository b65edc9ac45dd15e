//! A hand-stepped scheduler that notices when the engine waits for something that never comes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tidesdb_sim::ManualScheduler;
use tidesdb_sys::sched::{Job, Lane, Scheduler};

/// Calls for help within one operation, with a job run each time, after which it counts as hung.
const MOST_HELP: u64 = 20_000;

/// The same without any job to run; the engine sleeps a little between two of them.
const MOST_VAIN_HELP: u64 = 60;

/// [`ManualScheduler`] with a limit on how long one operation may wait.
#[derive(Debug)]
pub struct WatchedScheduler {
    inner: ManualScheduler,
    helped: AtomicU64,
    in_vain: AtomicU64,
}

impl WatchedScheduler {
    /// A scheduler whose choices are determined by `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Arc<Self> {
        let inner = ManualScheduler::interleaving(seed);
        Arc::new(Self { inner, helped: AtomicU64::new(0), in_vain: AtomicU64::new(0) })
    }

    /// Another operation begins.
    pub fn begin(&self) {
        self.helped.store(0, Ordering::Relaxed);
        self.in_vain.store(0, Ordering::Relaxed);
    }

    /// The scheduler to step.
    #[must_use]
    pub const fn manual(&self) -> &ManualScheduler {
        &self.inner
    }
}

impl Scheduler for WatchedScheduler {
    fn submit(&self, lane: Lane, job: Job) {
        self.inner.submit(lane, job);
    }

    fn submit_after(&self, lane: Lane, delay: Duration, job: Job) {
        self.inner.submit_after(lane, delay, job);
    }

    fn run_one_job(&self) -> bool {
        let ran = self.inner.run_one_job();
        let (counter, limit) =
            if ran { (&self.helped, MOST_HELP) } else { (&self.in_vain, MOST_VAIN_HELP) };
        let count = counter.fetch_add(1, Ordering::Relaxed);
        assert!(
            count < limit,
            "hang: an operation asked for help {limit} times (a job each: {ran})"
        );
        ran
    }

    fn submit_urgent(&self, lane: Lane, job: Job) -> bool {
        self.inner.submit_urgent(lane, job)
    }

    fn run_smaller_jobs(&self, lane: Lane, most: u64) {
        self.inner.run_smaller_jobs(lane, most);
    }

    fn shutdown(&self) {
        self.inner.shutdown();
    }
}
