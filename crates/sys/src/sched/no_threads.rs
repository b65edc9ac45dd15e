//! The scheduler of a database that has nothing to do in the background.

use std::time::Duration;

use super::{Job, Lane, Scheduler};

/// Runs no job: each is dropped when it is submitted. For openings that only read, whose jobs are
/// offers of help at most.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoThreads;

impl Scheduler for NoThreads {
    fn submit(&self, _lane: Lane, _job: Job) {}

    fn submit_after(&self, _lane: Lane, _delay: Duration, _job: Job) {}

    fn run_one_job(&self) -> bool {
        false
    }

    fn shutdown(&self) {}
}
