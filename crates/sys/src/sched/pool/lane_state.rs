//! The jobs that wait in a lane, and which of them is next.

use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::time::{Duration, Instant};

use super::Job;

/// One in this many jobs with a size is the one that has waited longest, however large.
pub(super) const LONGEST_WAITING_EVERY: u64 = 4;

#[derive(Default)]
pub(super) struct LaneState {
    pub(super) ready: VecDeque<Job>,
    /// By size, then by submission.
    pub(super) sized: BTreeMap<(u64, u64), Job>,
    sized_taken: u64,
    pub(super) delayed: BinaryHeap<Delayed>,
    /// The last job was one that had become due.
    took_timer: bool,
    pub(super) submitted: u64,
    /// Threads that wait for a job.
    pub(super) idle: usize,
    pub(super) closed: bool,
}

/// A job with the time it becomes ready; ordered so that the heap's top is the earliest.
pub(super) struct Delayed {
    pub(super) due: Instant,
    pub(super) order: u64,
    pub(super) job: Job,
}

impl LaneState {
    /// The next job. What is due and what was queued take turns: in a lane that never runs empty
    /// neither waits for the end of the other.
    pub(super) fn take(&mut self, is_due: bool) -> Option<Job> {
        self.took_timer = is_due && !self.took_timer;
        let timer = |state: &mut Self| state.delayed.pop().map(|delayed| delayed.job);
        if self.took_timer {
            return timer(self);
        }
        let queued = self.ready.pop_front().or_else(|| self.pop_sized());
        queued.or_else(|| if is_due { timer(self) } else { None })
    }

    /// Takes no more jobs. Gives those that waited, for the caller to drop.
    pub(super) fn close(&mut self) -> Self {
        let closed = Self { idle: self.idle, closed: true, ..Self::default() };
        std::mem::replace(self, closed)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ready.is_empty() && self.sized.is_empty() && self.delayed.is_empty()
    }

    /// How long until the next timer is due; `None` without timers.
    pub(super) fn until_next_timer(&self, now: Instant) -> Option<Duration> {
        let next = self.delayed.peek()?;
        Some(next.due.saturating_duration_since(now))
    }

    /// The smallest job that has a size, and now and then the one that has waited longest, which
    /// small ones would keep waiting without end.
    fn pop_sized(&mut self) -> Option<Job> {
        self.sized_taken += 1;
        if self.sized_taken.is_multiple_of(LONGEST_WAITING_EVERY) {
            let longest = *self.sized.keys().min_by_key(|(_, order)| *order)?;
            return self.sized.remove(&longest);
        }
        self.sized.pop_first().map(|(_, job)| job)
    }
}

impl PartialEq for Delayed {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Delayed {}

impl PartialOrd for Delayed {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Delayed {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (other.due, other.order).cmp(&(self.due, self.order))
    }
}
