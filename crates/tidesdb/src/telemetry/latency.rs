//! Histograms of times that many threads record together.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use tidesdb_base::latency::{BUCKETS, LatencyHistogram, bucket_of};
use tidesdb_lockfree::stripe::StripedCounters;
use tidesdb_lockfree::sync::lock;

/// A counter for each bucket, and the sum of the times behind them.
const COUNTERS: usize = BUCKETS + 1;
const SUM: usize = BUCKETS;

/// Times of one kind of operation. Takes five kilobytes for each thread that records one.
#[derive(Debug, Default)]
pub(crate) struct LatencyMeter {
    counters: StripedCounters<COUNTERS>,
    max_nanos: AtomicU64,
    /// What the counters said at the last reset. They only grow, since each is its thread's.
    before: Mutex<Vec<u64>>,
}

impl LatencyMeter {
    /// Records a time.
    pub(crate) fn record(&self, nanos: u64) {
        let mine = self.counters.mine();
        mine.add(bucket_of(nanos), 1);
        mine.add(SUM, nanos);
        // ORDERING: relaxed; a statistic. A load first: nearly every time is shorter.
        if self.max_nanos.load(Ordering::Relaxed) < nanos {
            self.max_nanos.fetch_max(nanos, Ordering::Relaxed);
        }
    }

    /// The times since the last reset.
    pub(crate) fn histogram(&self) -> LatencyHistogram {
        let mut totals = self.counters.totals();
        for (total, before) in totals.iter_mut().zip(lock(&self.before).iter()) {
            *total = total.wrapping_sub(*before);
        }
        let (counts, sum) = totals.split_at(SUM);
        // ORDERING: as in `record`.
        let max = self.max_nanos.load(Ordering::Relaxed);
        LatencyHistogram::of(counts, sum.first().copied().unwrap_or(0), max)
    }

    /// Begins anew. A time that is recorded meanwhile may be lost.
    pub(crate) fn reset(&self) {
        let mut before = lock(&self.before);
        *before = self.counters.totals().to_vec();
        // ORDERING: as in `record`.
        self.max_nanos.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_all_threads_count_until_the_reset() {
        let meter = LatencyMeter::default();
        assert_eq!(meter.histogram(), LatencyHistogram::default());
        std::thread::scope(|scope| {
            for thread in 1..=4_u64 {
                let meter = &meter;
                scope.spawn(move || (0..100).for_each(|_| meter.record(thread * 1000)));
            }
        });
        let histogram = meter.histogram();
        assert_eq!((histogram.count(), histogram.max_nanos()), (400, 4000));
        assert_eq!(histogram.sum_nanos(), 1_000_000);
        meter.reset();
        assert_eq!(meter.histogram(), LatencyHistogram::default());
        meter.record(5);
        let histogram = meter.histogram();
        assert_eq!((histogram.count(), histogram.sum_nanos(), histogram.max_nanos()), (1, 5, 5));
    }
}
