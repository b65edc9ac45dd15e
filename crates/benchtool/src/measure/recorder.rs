//! One thread's measurements: latency histograms, completed operations, rate over time.
//!
//! Reading the clock costs tens of nanoseconds, as much as a fast engine needs for an operation, so
//! only one operation in `sample_every` is timed; the time between two samples is watched too,
//! so that a stall in an operation that was not timed still shows as the longest gap. Batches are
//! always timed one by one.
//!
//! A recorder belongs to one worker thread and is merged after the thread has ended. A phase ends
//! for a thread when [`Recorder::end`] returns false: time is up, or the run was interrupted.

use super::process::thread_cpu;
use hdrhistogram::Histogram;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Width of one bucket of the rate over time.
pub(crate) const BUCKET_MILLIS: u64 = 100;
const BUCKET: Duration = Duration::from_millis(BUCKET_MILLIS);
/// Latencies above ten minutes are counted as ten minutes.
const MAX_LATENCY_NANOS: u64 = 600_000_000_000;

/// Which histogram an operation belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The operation that names the workload.
    Primary,
    /// The reads of a mixed workload.
    Secondary,
}

/// Operations and latencies of one kind.
#[derive(Debug, Clone)]
pub(crate) struct Series {
    /// Latencies in nanoseconds, of one call (an operation, or a batch).
    pub(crate) histogram: Histogram<u64>,
    /// Operations completed.
    pub(crate) operations: u64,
}

/// When a phase ends and how it is sampled.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits<'a> {
    /// Longest time of the phase.
    pub(crate) time: Option<Duration>,
    /// Set when the user interrupts the run.
    pub(crate) interrupted: &'a AtomicBool,
    /// One call in this many is timed.
    pub(crate) sample_every: u32,
}

/// The measurements of one thread.
#[derive(Debug)]
pub(crate) struct Recorder<'a> {
    limits: Limits<'a>,
    start: Instant,
    call_start: Instant,
    last_sample: Instant,
    until_sample: u32,
    primary: Series,
    secondary: Series,
    buckets: Vec<u64>,
    bucket_end: Instant,
    counted: u64,
    longest_gap: Duration,
    longest_gap_at: Instant,
    cpu_start: Option<Duration>,
}

/// The measurements of one thread, or of several merged.
#[derive(Debug)]
pub(crate) struct Measured {
    /// The main operation.
    pub(crate) primary: Series,
    /// The other operation of a mixed workload.
    pub(crate) secondary: Series,
    /// Operations of both kinds per [`BUCKET_MILLIS`].
    pub(crate) buckets: Vec<u64>,
    /// Longest time between two readings of the clock.
    pub(crate) longest_gap: Duration,
    /// When that time ended.
    pub(crate) longest_gap_at: Instant,
    /// Processor time of the thread, or of all.
    pub(crate) cpu: Option<Duration>,
    /// When the thread began and ended.
    pub(crate) span: (Instant, Instant),
}

impl Series {
    fn new() -> Result<Self, String> {
        let histogram = Histogram::new_with_bounds(1, MAX_LATENCY_NANOS, 3)
            .map_err(|error| format!("latency histogram: {error}"))?;
        Ok(Self { histogram, operations: 0 })
    }

    fn add(&mut self, other: &Self) -> Result<(), String> {
        self.operations += other.operations;
        self.histogram.add(&other.histogram).map_err(|error| format!("latency histogram: {error}"))
    }
}

impl<'a> Recorder<'a> {
    /// Starts measuring now.
    pub(crate) fn start(limits: Limits<'a>) -> Result<Self, String> {
        let primary = Series::new()?;
        let secondary = Series::new()?;
        let cpu_start = thread_cpu();
        let start = Instant::now();
        Ok(Self {
            limits,
            start,
            call_start: start,
            last_sample: start,
            until_sample: 0,
            primary,
            secondary,
            buckets: Vec::with_capacity(1024),
            bucket_end: start + BUCKET,
            counted: 0,
            longest_gap: Duration::ZERO,
            longest_gap_at: start,
            cpu_start,
        })
    }

    /// Call right before the call into the engine.
    pub(crate) fn begin(&mut self) {
        if self.until_sample == 0 {
            self.call_start = Instant::now();
            let gap = self.call_start.duration_since(self.last_sample);
            self.note_gap(gap, self.call_start);
        }
    }

    fn note_gap(&mut self, gap: Duration, now: Instant) {
        if gap > self.longest_gap {
            self.longest_gap = gap;
            self.longest_gap_at = now;
        }
    }

    /// Call right after it, with the operations it completed; false means: stop.
    pub(crate) fn end(&mut self, kind: Kind, operations: u64) -> bool {
        let series = match kind {
            Kind::Primary => &mut self.primary,
            Kind::Secondary => &mut self.secondary,
        };
        series.operations += operations;
        if self.until_sample > 0 {
            self.until_sample -= 1;
            return true;
        }
        let now = Instant::now();
        let latency = now.duration_since(self.call_start);
        series.histogram.saturating_record(latency.as_nanos() as u64);
        self.note_gap(latency, now);
        self.last_sample = now;
        self.until_sample = self.limits.sample_every - 1;
        self.after_sample(now)
    }

    fn after_sample(&mut self, now: Instant) -> bool {
        if now >= self.bucket_end {
            self.close_bucket(now);
        }
        let time_left = self.limits.time.is_none_or(|time| now.duration_since(self.start) < time);
        // ORDERING: the flag carries no data; seeing it a little later is harmless.
        time_left && !self.limits.interrupted.load(Ordering::Relaxed)
    }

    /// Counts the operations since the last call into the bucket that has just ended.
    fn close_bucket(&mut self, now: Instant) {
        let completed = self.primary.operations + self.secondary.operations;
        let elapsed = self.bucket_end.duration_since(self.start).as_millis() as u64;
        let index = (elapsed / BUCKET_MILLIS).saturating_sub(1) as usize;
        self.buckets.resize(index + 1, 0);
        self.buckets[index] += completed - self.counted;
        self.counted = completed;
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
            primary: self.primary,
            secondary: self.secondary,
            buckets: self.buckets,
            longest_gap: self.longest_gap,
            longest_gap_at: self.longest_gap_at,
            cpu: cpu.map(|(end, start)| end.saturating_sub(start)),
            span: (self.start, now),
        }
    }
}

impl Measured {
    /// Merges the measurements of several threads; `None` if there is none.
    pub(crate) fn merge(parts: Vec<Self>) -> Result<Option<Self>, String> {
        let mut parts = parts.into_iter();
        let Some(mut merged) = parts.next() else { return Ok(None) };
        for part in parts {
            merged.primary.add(&part.primary)?;
            merged.secondary.add(&part.secondary)?;
            let length = merged.buckets.len().max(part.buckets.len());
            merged.buckets.resize(length, 0);
            for (sum, count) in merged.buckets.iter_mut().zip(&part.buckets) {
                *sum += count;
            }
            if part.longest_gap > merged.longest_gap {
                merged.longest_gap = part.longest_gap;
                merged.longest_gap_at = part.longest_gap_at;
            }
            merged.cpu = merged.cpu.zip(part.cpu).map(|(all, one)| all + one);
            merged.span = (merged.span.0.min(part.span.0), merged.span.1.max(part.span.1));
        }
        Ok(Some(merged))
    }

    /// From the first thread's start to the last thread's end.
    pub(crate) fn duration(&self) -> Duration {
        self.span.1.duration_since(self.span.0)
    }

    /// Operations per second in the slowest second (a sliding window over the buckets).
    pub(crate) fn slowest_second(&self) -> Option<f64> {
        let window = (1_000 / BUCKET_MILLIS) as usize;
        self.buckets.windows(window).map(|part| part.iter().sum::<u64>() as f64).reduce(f64::min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(interrupted: &AtomicBool, sample_every: u32) -> Limits<'_> {
        Limits { time: None, interrupted, sample_every }
    }

    #[test]
    fn counts_every_operation_and_samples_some() {
        let interrupted = AtomicBool::new(false);
        let mut recorder = Recorder::start(limits(&interrupted, 4)).unwrap();
        for _ in 0..100 {
            recorder.begin();
            assert!(recorder.end(Kind::Primary, 2));
        }
        recorder.begin();
        recorder.end(Kind::Secondary, 1);
        let measured = recorder.finish();
        assert_eq!(measured.primary.operations, 200);
        assert_eq!(measured.primary.histogram.len(), 25);
        assert_eq!(measured.secondary.operations, 1);
    }

    #[test]
    fn stops_when_interrupted() {
        let interrupted = AtomicBool::new(true);
        let mut recorder = Recorder::start(limits(&interrupted, 1)).unwrap();
        recorder.begin();
        assert!(!recorder.end(Kind::Primary, 1));
    }

    #[test]
    fn merging_adds_and_keeps_extremes() {
        let interrupted = AtomicBool::new(false);
        let part = |buckets: Vec<u64>, gap_millis| {
            let mut measured = Recorder::start(limits(&interrupted, 1)).unwrap().finish();
            measured.buckets = buckets;
            measured.longest_gap = Duration::from_millis(gap_millis);
            measured.primary.operations = 7;
            measured.primary.histogram.record(1_000 * gap_millis).unwrap();
            measured
        };
        let parts = vec![part(vec![10; 12], 3), part(vec![5; 11], 9)];
        let merged = Measured::merge(parts).unwrap().unwrap();
        assert_eq!(merged.primary.operations, 14);
        assert_eq!(merged.longest_gap, Duration::from_millis(9));
        assert_eq!(merged.primary.histogram.len(), 2);
        assert_eq!(merged.slowest_second(), Some(9.0 * 15.0 + 10.0));
    }

    #[test]
    fn buckets_hold_the_operations_of_their_time() {
        let interrupted = AtomicBool::new(false);
        let mut recorder = Recorder::start(limits(&interrupted, 1)).unwrap();
        recorder.primary.operations = 50;
        let start = recorder.start;
        recorder.after_sample(start + Duration::from_millis(120));
        recorder.primary.operations = 60;
        recorder.after_sample(start + Duration::from_millis(450));
        // The stall between the two samples is a hole of two empty buckets.
        recorder.primary.operations = 90;
        recorder.after_sample(start + Duration::from_millis(510));
        assert_eq!(recorder.buckets, [50, 10, 0, 0, 30]);
    }
}
