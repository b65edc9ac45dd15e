//! What a thread, or several together, have measured.

use std::time::{Duration, Instant};

use super::recorder::BUCKET_MILLIS;
use super::series::{KINDS, Kind, Series};

/// The measurements of one thread, or of several merged.
#[derive(Debug)]
pub(crate) struct Measured {
    /// One per kind, in the order of [`Kind::ALL`].
    pub(crate) series: [Series; KINDS],
    /// Operations of all kinds per [`BUCKET_MILLIS`].
    pub(crate) buckets: Vec<u64>,
    /// Longest time between two readings of the clock, whatever ended it.
    pub(crate) longest_gap: Duration,
    /// When that time ended.
    pub(crate) longest_gap_at: Instant,
    /// Processor time of the thread, or of all.
    pub(crate) cpu: Option<Duration>,
    /// When the thread began and ended.
    pub(crate) span: (Instant, Instant),
}

impl Measured {
    /// The series of a kind.
    pub(crate) fn of(&self, kind: Kind) -> &Series {
        &self.series[kind as usize]
    }

    /// Merges the measurements of several threads; `None` if there is none.
    pub(crate) fn merge(parts: Vec<Self>) -> Result<Option<Self>, String> {
        let mut parts = parts.into_iter();
        let Some(mut merged) = parts.next() else { return Ok(None) };
        for part in parts {
            for (series, other) in merged.series.iter_mut().zip(&part.series) {
                series.add(other)?;
            }
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
