//! The scheduler for tests: one job at a time, on the caller's thread, in a seeded order.
//!
//! Jobs collect in a bag. [`ManualScheduler::step`] draws one at random and runs it to its end,
//! so that a workload's interleaving with background work is a function of the seed and of when
//! the test steps. Delayed jobs collect in a second bag and become ready only when the test
//! fires them, or when a waiting thread helps and nothing else is left.
//!
//! With [`ManualScheduler::interleaving`] other jobs also run in the middle of long ones, where
//! these allow it, so that what goes on at the same time in a pool is met by seeded tests as well.

use std::fmt;
use std::sync::Mutex;
use std::time::Duration;

use crate::rng::SplitMix64;
use tidesdb_sys::sched::{Job, Lane, Scheduler};
use tidesdb_sys::sync::lock;

/// Runs jobs when and where the test says. A job's panic reaches the caller that stepped.
pub struct ManualScheduler {
    state: Mutex<ManualState>,
}

struct ManualState {
    ready: Vec<(Lane, Job)>,
    // In order of firing: by delay, then by submission.
    timers: Vec<(Duration, Lane, Job)>,
    random: SplitMix64,
    closed: bool,
    interleaves: bool,
}

/// One in this many interludes runs another job.
const INTERLUDES_PER_JOB: usize = 4;

impl ManualScheduler {
    /// A scheduler whose choices are determined by `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let state = ManualState {
            ready: Vec::new(),
            timers: Vec::new(),
            random: SplitMix64::new(seed),
            closed: false,
            interleaves: false,
        };
        Self { state: Mutex::new(state) }
    }

    /// As [`ManualScheduler::new`]; other jobs run in the middle of long ones too.
    #[must_use]
    pub fn interleaving(seed: u64) -> Self {
        let scheduler = Self::new(seed);
        lock(&scheduler.state).interleaves = true;
        scheduler
    }

    /// Runs one ready job, chosen by the seed. Returns its lane, or `None` when none was ready.
    pub fn step(&self) -> Option<Lane> {
        let mut state = lock(&self.state);
        if state.ready.is_empty() {
            return None;
        }
        let count = state.ready.len();
        let chosen = state.random.index(count);
        let (lane, job) = state.ready.remove(chosen);
        drop(state);
        job();
        Some(lane)
    }

    /// Runs one ready job of `lane`, the oldest. Returns whether there was one.
    pub fn step_lane(&self, lane: Lane) -> bool {
        let mut state = lock(&self.state);
        let Some(chosen) = state.ready.iter().position(|(of, _)| *of == lane) else {
            return false;
        };
        let (_, job) = state.ready.remove(chosen);
        drop(state);
        job();
        true
    }

    /// Steps until no job is ready; returns how many ran. Timers do not fire, so that a job which
    /// arms itself again does not run without end.
    pub fn run_until_idle(&self) -> usize {
        let mut ran = 0;
        while self.step().is_some() {
            ran += 1;
        }
        ran
    }

    /// Makes the timer with the shortest delay ready; returns whether there was one.
    pub fn fire_timer(&self) -> bool {
        let mut state = lock(&self.state);
        if state.timers.is_empty() {
            return false;
        }
        let (_, lane, job) = state.timers.remove(0);
        state.ready.push((lane, job));
        true
    }

    /// Number of jobs ready to run.
    #[must_use]
    pub fn ready(&self) -> usize {
        lock(&self.state).ready.len()
    }

    /// Number of ready jobs in one lane.
    #[must_use]
    pub fn ready_in(&self, lane: Lane) -> usize {
        lock(&self.state).ready.iter().filter(|(of, _)| *of == lane).count()
    }

    /// Number of timers that have not fired.
    #[must_use]
    pub fn timers(&self) -> usize {
        lock(&self.state).timers.len()
    }
}

impl Scheduler for ManualScheduler {
    fn submit(&self, lane: Lane, job: Job) {
        let mut state = lock(&self.state);
        if !state.closed {
            state.ready.push((lane, job));
            return;
        }
        // The job's captured values may call back when they are dropped.
        drop(state);
        drop(job);
    }

    fn submit_after(&self, lane: Lane, delay: Duration, job: Job) {
        let mut state = lock(&self.state);
        if !state.closed {
            let at = state.timers.partition_point(|(other, _, _)| *other <= delay);
            state.timers.insert(at, (delay, lane, job));
            return;
        }
        drop(state);
        drop(job);
    }

    fn run_one_job(&self) -> bool {
        self.step().is_some() || (self.fire_timer() && self.step().is_some())
    }

    fn run_smaller_jobs(&self, _lane: Lane, _most: u64) {
        let mut state = lock(&self.state);
        if state.interleaves && state.random.index(INTERLUDES_PER_JOB) == 0 {
            drop(state);
            self.step();
        }
    }

    fn shutdown(&self) {
        let mut state = lock(&self.state);
        state.closed = true;
        let dropped = (std::mem::take(&mut state.ready), std::mem::take(&mut state.timers));
        drop(state);
        drop(dropped);
    }
}

impl fmt::Debug for ManualScheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (ready, timers) = (self.ready(), self.timers());
        f.debug_struct("ManualScheduler").field("ready", &ready).field("timers", &timers).finish()
    }
}

#[cfg(test)]
mod tests;
