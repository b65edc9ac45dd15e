//! Latencies and counts of one kind of operations.

use std::time::Duration;

use hdrhistogram::Histogram;

/// Latencies above ten minutes are counted as ten minutes.
const MAX_LATENCY_NANOS: u64 = 600_000_000_000;
/// Quantiles that are kept of the slowest thread too.
const WORST: [f64; 4] = [0.5, 0.95, 0.99, 0.999];
/// Kinds of operations.
pub(super) const KINDS: usize = 7;

/// Which histogram an operation belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The operation that names the workload.
    Primary,
    /// Puts beside it.
    Put,
    /// Gets beside it.
    Get,
    /// A get and a put of the same record.
    Modify,
    /// Scans beside it.
    Scan,
    /// Deletes beside it.
    Delete,
    /// Drops of families.
    Drop,
}

impl Kind {
    /// All kinds, the main one first.
    pub(crate) const ALL: [Self; KINDS] =
        [Self::Primary, Self::Put, Self::Get, Self::Modify, Self::Scan, Self::Delete, Self::Drop];

    /// Name in reports; the main operation is named by its workload.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Primary => "",
            Self::Put => "PUT",
            Self::Get => "GET",
            Self::Modify => "RMW",
            Self::Scan => "SCAN",
            Self::Delete => "DELETE",
            Self::Drop => "CF_DROP",
        }
    }
}

/// Operations and latencies of one kind.
#[derive(Debug, Clone)]
pub(crate) struct Series {
    /// Latencies in nanoseconds, of one call (an operation, or a batch).
    pub(crate) histogram: Histogram<u64>,
    /// Operations completed.
    pub(crate) operations: u64,
    /// Longest time between two readings of the clock that one of these operations ended: of a call
    /// that was timed, or of those before it that were not.
    pub(crate) longest_gap: Duration,
    /// For each of [`WORST`] the highest latency of a single thread; `None`: of one thread anyway.
    worst: Option<[u64; WORST.len()]>,
}

impl Series {
    pub(super) fn new() -> Result<Self, String> {
        let histogram = Histogram::new_with_bounds(1, MAX_LATENCY_NANOS, 3)
            .map_err(|error| format!("latency histogram: {error}"))?;
        Ok(Self { histogram, operations: 0, longest_gap: Duration::ZERO, worst: None })
    }

    /// The medians, 95, 99 and 99.9 % of the threads, the highest of each, in nanoseconds.
    pub(crate) fn worst_thread(&self) -> [u64; WORST.len()] {
        self.worst.unwrap_or_else(|| match self.histogram.is_empty() {
            true => [0; WORST.len()],
            false => WORST.map(|quantile| self.histogram.value_at_quantile(quantile)),
        })
    }

    pub(super) fn add(&mut self, other: &Self) -> Result<(), String> {
        let (ours, theirs) = (self.worst_thread(), other.worst_thread());
        self.worst = Some(std::array::from_fn(|index| ours[index].max(theirs[index])));
        self.operations += other.operations;
        self.longest_gap = self.longest_gap.max(other.longest_gap);
        self.histogram.add(&other.histogram).map_err(|error| format!("latency histogram: {error}"))
    }

    pub(super) fn clear(&mut self) {
        self.operations = 0;
        self.longest_gap = Duration::ZERO;
        self.histogram.reset();
    }
}

/// An empty series of each kind.
pub(super) fn all_series() -> Result<[Series; KINDS], String> {
    // Made one by one, since a copy would touch all of a histogram's memory.
    Ok([
        Series::new()?,
        Series::new()?,
        Series::new()?,
        Series::new()?,
        Series::new()?,
        Series::new()?,
        Series::new()?,
    ])
}
