//! One thread's measurements: latency histograms, completed operations, rate over time, pace.
//!
//! Reading the clock costs tens of nanoseconds, as much as a fast engine needs for an operation, so
//! while operations are that fast only one in `sample_every` is timed, and counts as so many in the
//! histogram. The time between two samples is watched too, so that a stall in an operation that was
//! not timed still shows as the longest gap. Slow operations and batches are timed one by one, and
//! so is everything that runs at a given rate.
//!
//! With a rate, operation `n` of a thread is due at a fixed time after the start. A closed loop
//! waits for that time and measures from the issue; an open loop measures from the time when the
//! operation was due, so that waiting behind a slow one counts.
//!
//! A recorder belongs to one worker thread and is merged after the thread has ended. A phase ends
//! for a thread when [`Recorder::end`] returns false: time is up, or the run was interrupted.

use super::measured::Measured;
use super::process::thread_cpu;
use super::series::{KINDS, Kind, Series, all_series};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Width of one bucket of the rate over time.
pub(crate) const BUCKET_MILLIS: u64 = 100;
const BUCKET: Duration = Duration::from_millis(BUCKET_MILLIS);
/// If every other call takes longer, all are timed: the clock and the histogram are then a
/// hundredth or two of them. An average would not do, as it is long too where other processes want
/// the processor.
const SLOW_CALL: Duration = Duration::from_micros(5);
/// When operations are due.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Schedule {
    /// Time between two calls of this thread; `None`: one after another.
    pub(crate) interval: Option<Duration>,
    /// Measure from when a call was due.
    pub(crate) open_loop: bool,
    /// Time that is not measured.
    pub(crate) warmup: Duration,
    /// Operations that are not measured.
    pub(crate) warmup_operations: u64,
}

/// When a phase ends and how it is sampled.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits<'a> {
    /// Longest time of the phase.
    pub(crate) time: Option<Duration>,
    /// Set when the user interrupts the run.
    pub(crate) interrupted: &'a AtomicBool,
    /// One call in this many is timed while calls are fast.
    pub(crate) sample_every: u32,
    /// Rate and warm-up.
    pub(crate) schedule: Schedule,
}

/// The measurements of one thread.
// More than a dozen fields: what one thread measures, each number by itself.
#[derive(Debug)]
pub(crate) struct Recorder<'a> {
    limits: Limits<'a>,
    start: Instant,
    call_start: Instant,
    last_sample: Instant,
    /// Time between the last timed call and this one.
    gap_before: Duration,
    due: Instant,
    until_sample: u32,
    /// One call in this many is timed now.
    sample_every: u32,
    /// Calls timed in this bucket, and those of them that were slow.
    timed: u32,
    timed_slow: u32,
    series: [Series; KINDS],
    buckets: Vec<u64>,
    bucket_end: Instant,
    counted: u64,
    longest_gap: Duration,
    longest_gap_at: Instant,
    cpu_start: Option<Duration>,
    warming: bool,
}

impl<'a> Recorder<'a> {
    /// Starts measuring now.
    pub(crate) fn start(limits: Limits<'a>) -> Result<Self, String> {
        let series = all_series()?;
        let cpu_start = thread_cpu();
        let start = Instant::now();
        let schedule = limits.schedule;
        let sample_every = if schedule.interval.is_some() { 1 } else { limits.sample_every };
        Ok(Self {
            limits: Limits { sample_every, ..limits },
            start,
            call_start: start,
            last_sample: start,
            gap_before: Duration::ZERO,
            due: start,
            until_sample: 0,
            // How fast calls are is known after the first tenth of a second.
            sample_every: 1,
            timed: 0,
            timed_slow: 0,
            series,
            buckets: Vec::with_capacity(1024),
            bucket_end: start + BUCKET,
            counted: 0,
            longest_gap: Duration::ZERO,
            longest_gap_at: start,
            cpu_start,
            warming: schedule.warmup > Duration::ZERO || schedule.warmup_operations > 0,
        })
    }

    /// Times every call from now on.
    pub(crate) fn time_all(&mut self) {
        (self.limits.sample_every, self.sample_every) = (1, 1);
        self.until_sample = 0;
    }

    /// Call right before the call into the engine.
    #[inline]
    pub(crate) fn begin(&mut self) {
        if self.until_sample == 0 {
            self.begin_sample();
        }
    }

    #[cold]
    fn begin_sample(&mut self) {
        let mut now = Instant::now();
        if let Some(interval) = self.limits.schedule.interval {
            if self.due > now {
                // Waiting for the time of the next call is what a rate means.
                std::thread::sleep(self.due - now);
                now = Instant::now();
            }
            self.last_sample = now;
            self.call_start = if self.limits.schedule.open_loop { self.due } else { now };
            self.due += interval;
            return;
        }
        self.call_start = now;
        self.gap_before = now.duration_since(self.last_sample);
        self.note_gap(self.gap_before, now);
    }

    fn note_gap(&mut self, gap: Duration, now: Instant) {
        if gap > self.longest_gap {
            self.longest_gap = gap;
            self.longest_gap_at = now;
        }
    }

    /// Call right after it, with the operations it completed; false means: stop.
    #[inline]
    pub(crate) fn end(&mut self, kind: Kind, operations: u64) -> bool {
        let series = &mut self.series[kind as usize];
        series.operations += operations;
        if self.until_sample > 0 {
            self.until_sample -= 1;
            return true;
        }
        self.end_sample(kind)
    }

    #[cold]
    fn end_sample(&mut self, kind: Kind) -> bool {
        let series = &mut self.series[kind as usize];
        let now = Instant::now();
        let latency = now.duration_since(self.call_start);
        let nanos = latency.as_nanos() as u64;
        series.longest_gap = series.longest_gap.max(latency).max(self.gap_before);
        series.histogram.saturating_record_n(nanos, u64::from(self.sample_every));
        self.timed += 1;
        self.timed_slow += u32::from(latency > SLOW_CALL);
        self.note_gap(latency, now);
        self.last_sample = now;
        self.until_sample = self.sample_every - 1;
        self.after_sample(now)
    }

    fn after_sample(&mut self, now: Instant) -> bool {
        if self.warming {
            self.warm_up(now);
        }
        if now >= self.bucket_end {
            self.close_bucket(now);
        }
        let time_left = self.limits.time.is_none_or(|time| now.duration_since(self.start) < time);
        // ORDERING: the flag carries no data; seeing it a little later is harmless.
        time_left && !self.limits.interrupted.load(Ordering::Relaxed)
    }

    /// Forgets everything so far when the warm-up is over.
    fn warm_up(&mut self, now: Instant) {
        let schedule = &self.limits.schedule;
        let warm = now.duration_since(self.start) >= schedule.warmup
            && self.completed() >= schedule.warmup_operations;
        if !warm {
            return;
        }
        self.warming = false;
        self.series.iter_mut().for_each(Series::clear);
        self.buckets.clear();
        self.counted = 0;
        self.longest_gap = Duration::ZERO;
        self.longest_gap_at = now;
        self.cpu_start = thread_cpu();
        self.start = now;
        self.bucket_end = now + BUCKET;
    }

    fn completed(&self) -> u64 {
        self.series.iter().map(|series| series.operations).sum()
    }

    /// Counts the operations since the last call into the bucket that has just ended.
    fn close_bucket(&mut self, now: Instant) {
        let completed = self.completed();
        let elapsed = self.bucket_end.duration_since(self.start).as_millis() as u64;
        let index = (elapsed / BUCKET_MILLIS).saturating_sub(1) as usize;
        self.buckets.resize(index + 1, 0);
        self.buckets[index] += completed - self.counted;
        self.counted = completed;
        let slow = self.timed_slow > self.timed / 2;
        self.sample_every = if slow { 1 } else { self.limits.sample_every };
        self.until_sample = self.until_sample.min(self.sample_every - 1);
        (self.timed, self.timed_slow) = (0, 0);
        while self.bucket_end <= now {
            self.bucket_end += BUCKET;
        }
    }

    /// Ends measuring.
    pub(crate) fn finish(mut self) -> Measured {
        let now = Instant::now();
        self.note_gap(now.duration_since(self.last_sample), now);
        let cpu = thread_cpu().zip(self.cpu_start);
        Measured {
            series: self.series,
            buckets: self.buckets,
            longest_gap: self.longest_gap,
            longest_gap_at: self.longest_gap_at,
            cpu: cpu.map(|(end, start)| end.saturating_sub(start)),
            span: (self.start, now),
        }
    }
}

#[cfg(test)]
mod tests;
