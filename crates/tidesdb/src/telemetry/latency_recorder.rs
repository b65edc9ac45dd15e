//! What is timed: the histograms of latencies, which operations count for them, and what a thread
//! has waited for. `timing` takes the times.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use tidesdb_base::event::StallReason;
use tidesdb_base::latency::{LatencyHistogram, TimedOperation};
use tidesdb_base::options::DbOptions;

use crate::telemetry::latency::LatencyMeter;

/// Slow operations are reported at most this often, in nanoseconds; those between are counted.
const REPORT_EVERY_NANOS: u64 = 100_000_000;

/// What an operation of this thread has waited for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Waits {
    pub stall_nanos: u64,
    pub stall_reason: Option<StallReason>,
    pub sync_nanos: u64,
}

/// When the next operation of a thread is timed.
#[derive(Clone, Copy, Debug)]
struct Countdown {
    left: u32,
    random: u32,
}

thread_local! {
    static COUNTDOWN: Cell<Countdown> =
        const { Cell::new(Countdown { left: 1, random: 0x9e37_79b9 }) };
    static WAITS: Cell<Waits> = const {
        Cell::new(Waits { stall_nanos: 0, stall_reason: None, sync_nanos: 0 })
    };
}

/// What is timed, how long it took, and what of it was slow.
#[derive(Debug)]
pub(crate) struct LatencyRecorder {
    /// Any operation of a user's is timed.
    on: bool,
    /// One of so many is, unless all are; 0 for none.
    sampling: u32,
    /// An operation that takes so long is reported.
    slow_nanos: u64,
    meters: [LatencyMeter; TimedOperation::ALL.len()],
    slow: AtomicU64,
    /// When a slow operation was last reported, and how many were not since.
    reported_nanos: AtomicU64,
    suppressed: AtomicU64,
}

impl LatencyRecorder {
    pub(crate) fn new(options: &DbOptions) -> Self {
        let slow_nanos = match options.slow_operation_us {
            0 => u64::MAX,
            micros => micros.saturating_mul(1000),
        };
        Self {
            on: options.latency_sampling != 0 || slow_nanos != u64::MAX,
            sampling: options.latency_sampling,
            slow_nanos,
            meters: Default::default(),
            slow: AtomicU64::new(0),
            reported_nanos: AtomicU64::new(0),
            suppressed: AtomicU64::new(0),
        }
    }

    /// Whether anything that users call is timed at all.
    pub(crate) const fn is_on(&self) -> bool {
        self.on
    }

    /// Whether this operation of a user's is timed.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.on && self.is_chosen()
    }

    /// One in so many on average. Which is random: where calls of two kinds take turns, both come
    /// up.
    #[inline]
    fn is_chosen(&self) -> bool {
        if self.slow_nanos != u64::MAX || self.sampling <= 1 {
            return true;
        }
        let chosen = COUNTDOWN.try_with(|countdown| {
            let Countdown { left, mut random } = countdown.get();
            if left > 1 {
                countdown.set(Countdown { left: left - 1, random });
                return false;
            }
            random ^= random << 13;
            random ^= random >> 17;
            random ^= random << 5;
            let left = 1 + random % self.sampling.saturating_mul(2).saturating_sub(1);
            countdown.set(Countdown { left, random });
            true
        });
        chosen.unwrap_or(false)
    }

    /// Records a time of background work.
    pub(crate) fn record(&self, operation: TimedOperation, nanos: u64) {
        if let Some(meter) = self.meters.get(operation as usize) {
            meter.record(nanos);
        }
    }

    /// Operations that took longer than the bound.
    pub(crate) fn slow_operations(&self) -> u64 {
        // ORDERING: a statistic.
        self.slow.load(Ordering::Relaxed)
    }

    /// Whether an operation that took so long is to be reported.
    pub(crate) const fn is_slow(&self, nanos: u64) -> bool {
        nanos >= self.slow_nanos
    }

    /// Counts a slow operation. Returns how many were not reported since the last, when this one
    /// is.
    pub(crate) fn count_slow(&self, now_nanos: u64) -> Option<u64> {
        // ORDERING: a statistic.
        self.slow.fetch_add(1, Ordering::Relaxed);
        self.may_report(now_nanos)
    }

    /// The times of an operation since the last reset.
    pub(crate) fn histogram(&self, operation: TimedOperation) -> LatencyHistogram {
        let meter = self.meters.get(operation as usize);
        meter.map(LatencyMeter::histogram).unwrap_or_default()
    }

    /// Clears all histograms.
    pub(crate) fn reset(&self) {
        self.meters.iter().for_each(LatencyMeter::reset);
    }

    /// Whether a slow operation is reported now, and how many were not since the last.
    fn may_report(&self, now_nanos: u64) -> Option<u64> {
        // ORDERING: relaxed; the exchange lets one caller win, and orders nothing.
        let last = self.reported_nanos.load(Ordering::Relaxed);
        let due = last == 0 || now_nanos.saturating_sub(last) >= REPORT_EVERY_NANOS;
        let (set, fail) = (Ordering::Relaxed, Ordering::Relaxed);
        let won =
            || self.reported_nanos.compare_exchange(last, now_nanos.max(1), set, fail).is_ok();
        if due && won() {
            return Some(self.suppressed.swap(0, Ordering::Relaxed));
        }
        self.suppressed.fetch_add(1, Ordering::Relaxed);
        None
    }
}

/// What the thread's operation has waited for.
pub(crate) fn waits() -> Waits {
    WAITS.try_with(Cell::get).unwrap_or_default()
}

/// Another operation of the thread begins.
pub(crate) fn forget_waits() {
    note_wait(|waits| *waits = Waits::default());
}

/// Adds to what the thread's operation has waited for.
fn note_wait(change: impl FnOnce(&mut Waits)) {
    // A thread that is ending records nothing.
    let _ = WAITS.try_with(|waits| {
        let mut now = waits.get();
        change(&mut now);
        waits.set(now);
    });
}

/// Notes that the thread was held up.
pub(crate) fn note_stall(reason: StallReason, nanos: u64) {
    note_wait(|waits| {
        waits.stall_nanos += nanos;
        waits.stall_reason = Some(reason);
    });
}

/// Notes that the thread waited for a sync.
pub(crate) fn note_sync(nanos: u64) {
    note_wait(|waits| waits.sync_nanos += nanos);
}
