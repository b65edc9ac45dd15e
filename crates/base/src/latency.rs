//! Times of operations as histograms: a fixed number of buckets, whose width grows with the time.
//!
//! Buckets are log-linear: sixteen of equal width between one power of two and the next, so that a
//! time is known to within a sixteenth, from nanoseconds to a quarter of an hour, in five
//! kilobytes.

use std::fmt;

/// Buckets between one power of two and the next.
const STEPS: usize = 16;
/// Bits that say which of them.
const STEP_BITS: u32 = STEPS.trailing_zeros();
/// Times from 2^40 ns on, eighteen minutes, share the last bucket.
const MOST_BITS: u32 = 40;

/// Number of buckets of a [`LatencyHistogram`].
pub const BUCKETS: usize = (MOST_BITS - STEP_BITS + 1) as usize * STEPS;

/// The bucket of a time. A bucket holds its upper bound and not its lower one.
#[inline]
#[must_use]
#[expect(clippy::cast_possible_truncation, reason = "of a few bits, which the bounds leave")]
pub const fn bucket_of(nanos: u64) -> usize {
    let time = nanos.saturating_sub(1);
    if time < STEPS as u64 {
        return time as usize;
    }
    let bits = time.ilog2();
    if bits >= MOST_BITS {
        return BUCKETS - 1;
    }
    let shift = bits - STEP_BITS;
    (shift as usize + 1) * STEPS + (time >> shift) as usize - STEPS
}

/// The longest time in a bucket, in nanoseconds.
const fn longest_in(bucket: usize) -> u64 {
    if bucket < STEPS {
        return bucket as u64 + 1;
    }
    let shift = bucket / STEPS - 1;
    ((bucket % STEPS + STEPS + 1) as u64) << shift
}

/// What is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum TimedOperation {
    /// A get of one key, with what the caller's function does with the value.
    Get,
    /// A commit of a put, a deletion, a batch or a transaction, with the wait for a sync if it has
    /// one.
    Commit,
    /// A seek of a scan.
    Seek,
    /// A step of a scan to the next key or the one before.
    Step,
    /// A memtable written out.
    Flush,
    /// A compaction.
    Compaction,
    /// A sync of the log, which may be for many commits.
    Sync,
    /// An opening of the database, with the replay of its log.
    Open,
    /// A get of several keys at once.
    MultiGet,
}

impl TimedOperation {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 9] = [
        Self::Get,
        Self::Commit,
        Self::Seek,
        Self::Step,
        Self::Flush,
        Self::Compaction,
        Self::Sync,
        Self::Open,
        Self::MultiGet,
    ];

    /// Short name, used in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Commit => "commit",
            Self::Seek => "seek",
            Self::Step => "step",
            Self::Flush => "flush",
            Self::Compaction => "compaction",
            Self::Sync => "sync",
            Self::Open => "open",
            Self::MultiGet => "multi_get",
        }
    }
}

impl fmt::Display for TimedOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How long operations took. Histograms of several threads, databases or hours may be merged.
///
/// ```
/// # mod tidesdb { pub use tidesdb_base::latency::LatencyHistogram; }
/// use tidesdb::LatencyHistogram;
/// let mut fast = LatencyHistogram::default();
/// (0..99).for_each(|_| fast.record(1_000));
/// let mut slow = LatencyHistogram::default();
/// slow.record(5_000_000);
/// fast.merge(&slow);
/// assert_eq!((fast.count(), fast.max_nanos()), (100, 5_000_000));
/// assert!((1_000..1_070).contains(&fast.percentile(50.0)));
/// assert_eq!(fast.percentile(99.9), 5_000_000);
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct LatencyHistogram {
    counts: Vec<u64>,
    sum_nanos: u64,
    max_nanos: u64,
}

impl Default for LatencyHistogram {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS], sum_nanos: 0, max_nanos: 0 }
    }
}

impl LatencyHistogram {
    /// Of counts by bucket, the sum of all times and the longest.
    #[must_use]
    pub fn of(counts: &[u64], sum_nanos: u64, max_nanos: u64) -> Self {
        let mut histogram = Self { sum_nanos, max_nanos, ..Self::default() };
        histogram.counts.iter_mut().zip(counts).for_each(|(to, from)| *to = *from);
        histogram
    }

    /// Adds a time.
    pub fn record(&mut self, nanos: u64) {
        if let Some(count) = self.counts.get_mut(bucket_of(nanos)) {
            *count += 1;
        }
        self.sum_nanos = self.sum_nanos.saturating_add(nanos);
        self.max_nanos = self.max_nanos.max(nanos);
    }

    /// Adds all times of another histogram.
    pub fn merge(&mut self, other: &Self) {
        debug_assert_eq!(self.counts.len(), other.counts.len(), "buckets of different bounds");
        self.counts.iter_mut().zip(&other.counts).for_each(|(to, from)| *to += from);
        self.sum_nanos = self.sum_nanos.saturating_add(other.sum_nanos);
        self.max_nanos = self.max_nanos.max(other.max_nanos);
    }

    /// Number of times.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Sum of all times, in nanoseconds.
    #[must_use]
    pub const fn sum_nanos(&self) -> u64 {
        self.sum_nanos
    }

    /// The longest time, in nanoseconds; exact.
    #[must_use]
    pub const fn max_nanos(&self) -> u64 {
        self.max_nanos
    }

    /// The mean time, in nanoseconds; 0 of none.
    #[must_use]
    pub fn mean_nanos(&self) -> u64 {
        self.sum_nanos.checked_div(self.count()).unwrap_or(0)
    }

    /// The time in nanoseconds that `per_cent` of the operations did not exceed: at most a
    /// sixteenth more than the true one, and never less. 0 of none.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "a share of a count")]
    pub fn percentile(&self, per_cent: f64) -> u64 {
        let count = self.count();
        let wanted = ((per_cent.clamp(0.0, 100.0) / 100.0 * count as f64).ceil() as u64).max(1);
        let mut seen = 0;
        for (bucket, held) in self.counts.iter().enumerate() {
            seen += held;
            if seen >= wanted && bucket < BUCKETS - 1 {
                return longest_in(bucket).min(self.max_nanos);
            }
        }
        self.max_nanos
    }

    /// How many took at most `nanos`, which is exact for powers of two.
    #[must_use]
    pub fn count_through(&self, nanos: u64) -> u64 {
        let within = self.counts.iter().enumerate().filter(|(at, _)| longest_in(*at) <= nanos);
        within.map(|(_, count)| count).sum()
    }
}

impl fmt::Debug for LatencyHistogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, median, max) = (self.count(), self.percentile(50.0), self.max_nanos);
        write!(f, "LatencyHistogram({count} times, half within {median} ns, all within {max} ns)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_time_lies_within_its_bucket() {
        let mut before = 0;
        for bucket in 0..BUCKETS {
            let longest = longest_in(bucket);
            assert!(longest > before, "{bucket}");
            assert_eq!((bucket_of(before + 1), bucket_of(longest)), (bucket, bucket));
            let width = longest - before;
            assert!(width == 1 || width <= longest / 16, "{bucket}: {before} to {longest}");
            before = longest;
        }
        assert_eq!(before, 1 << MOST_BITS);
        assert_eq!((bucket_of(0), bucket_of(u64::MAX)), (0, BUCKETS - 1));
    }

    #[test]
    fn percentiles_are_those_of_the_sorted_times_and_a_sixteenth_more_at_most() {
        let mut histogram = LatencyHistogram::default();
        assert_eq!((histogram.percentile(50.0), histogram.mean_nanos()), (0, 0));
        let mut times: Vec<u64> = Vec::new();
        let mut state = 7_u64;
        for _ in 0..20_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            times.push((state >> 33) >> (state % 29));
        }
        times.iter().for_each(|&time| histogram.record(time));
        times.sort_unstable();
        for per_cent in [0.0, 1.0, 50.0, 95.0, 99.0, 99.9, 100.0] {
            let rank = (per_cent / 100.0 * times.len() as f64).ceil() as usize;
            let truth = times[rank.max(1) - 1];
            let reported = histogram.percentile(per_cent);
            let most = truth + truth / 16 + 1;
            assert!((truth..=most).contains(&reported), "{per_cent}: {reported} for {truth}");
        }
        assert_eq!(histogram.count(), 20_000);
        assert_eq!(histogram.sum_nanos(), times.iter().sum::<u64>());
        for bits in 8..35 {
            let through = times.iter().filter(|&&time| time <= 1 << bits).count() as u64;
            assert_eq!(histogram.count_through(1 << bits), through);
        }
    }

    #[test]
    fn times_beyond_the_last_bucket_are_told_by_the_longest() {
        let mut histogram = LatencyHistogram::default();
        histogram.record(u64::MAX);
        histogram.record(u64::MAX - 1);
        assert_eq!(histogram.percentile(50.0), u64::MAX);
        assert_eq!(histogram.sum_nanos(), u64::MAX);
    }
}
