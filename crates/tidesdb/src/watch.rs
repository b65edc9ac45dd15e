//! Timing of operations: for the histograms of latencies, and to tell of slow ones.
//!
//! Background work is always timed. Of what users call one in so many is, or all of it when slow
//! operations are to be told; when neither is asked for, a call pays one load and one branch.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use tidesdb_base::event::{Event, OperationMet, StallReason};
use tidesdb_base::latency::{LatencyHistogram, TimedOperation};
use tidesdb_base::options::DbOptions;

use crate::core::Core;
use crate::family::FamilyState;
use crate::latency::LatencyMeter;

/// Slow operations are told at most this often, in nanoseconds; those between are counted.
const TELL_EVERY_NANOS: u64 = 100_000_000;

/// What an operation of this thread has waited for.
#[derive(Clone, Copy, Debug, Default)]
struct Waits {
    stall_nanos: u64,
    stall_reason: Option<StallReason>,
    sync_nanos: u64,
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
pub(crate) struct Watch {
    /// Any operation of a user's is timed.
    on: bool,
    /// One of so many is, unless all are; 0 for none.
    sampling: u32,
    /// An operation that takes so long is told.
    slow_nanos: u64,
    meters: [LatencyMeter; TimedOperation::ALL.len()],
    slow: AtomicU64,
    /// When a slow operation was last told, and how many were not since.
    told_nanos: AtomicU64,
    untold: AtomicU64,
}

/// An operation that is timed.
#[derive(Clone, Copy, Debug)]
#[must_use = "what begins ends"]
pub(crate) struct Started(u64);

/// An operation as it is told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told<'a> {
    pub operation: TimedOperation,
    pub family: Option<&'a FamilyState>,
    /// Of keys and values that are written, or of the key that is looked for.
    pub bytes: u64,
    pub operations: u64,
}

impl Watch {
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
            told_nanos: AtomicU64::new(0),
            untold: AtomicU64::new(0),
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

    /// Whether a slow operation is told now, and how many were not since the last.
    fn may_tell(&self, now_nanos: u64) -> Option<u64> {
        // ORDERING: relaxed; the exchange lets one caller win, and orders nothing.
        let told = self.told_nanos.load(Ordering::Relaxed);
        let due = told == 0 || now_nanos.saturating_sub(told) >= TELL_EVERY_NANOS;
        let (set, fail) = (Ordering::Relaxed, Ordering::Relaxed);
        let won = || self.told_nanos.compare_exchange(told, now_nanos.max(1), set, fail).is_ok();
        if due && won() {
            return Some(self.untold.swap(0, Ordering::Relaxed));
        }
        self.untold.fetch_add(1, Ordering::Relaxed);
        None
    }
}

/// Adds to what the thread's operation has waited for.
fn note_wait(change: impl FnOnce(&mut Waits)) {
    // A thread that is ending tells nothing.
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

impl Core {
    /// Begins to time an operation for which [`Watch::is_due`] is true.
    pub(crate) fn start_timing(&self) -> Started {
        note_wait(|waits| *waits = Waits::default());
        Started(self.clock.monotonic_nanos())
    }

    /// Ends it. `met` is asked for when the operation was slow.
    pub(crate) fn end_timing(
        &self,
        started: Started,
        told: Told<'_>,
        met: impl FnOnce() -> OperationMet,
    ) {
        let now = self.clock.monotonic_nanos();
        let nanos = now.saturating_sub(started.0);
        self.watch.record(told.operation, nanos);
        if nanos >= self.watch.slow_nanos {
            self.tell_slow(told, (now, nanos), met());
        }
    }

    #[cold]
    fn tell_slow(&self, told: Told<'_>, (now, nanos): (u64, u64), met: OperationMet) {
        // ORDERING: a statistic.
        self.watch.slow.fetch_add(1, Ordering::Relaxed);
        let Some(untold) = self.watch.may_tell(now) else { return };
        let waits = WAITS.try_with(Cell::get).unwrap_or_default();
        let mut met = met;
        met.stall_micros = waits.stall_nanos / 1000;
        met.stall_reason = waits.stall_reason;
        met.sync_micros = waits.sync_nanos / 1000;
        self.events.tell(&Event::SlowOperation {
            operation: told.operation,
            family: told.family.map(|family| family.name().to_string()).unwrap_or_default(),
            bytes: told.bytes,
            operations: told.operations,
            micros: nanos / 1000,
            met,
            untold,
        });
    }

    /// The times of an operation since the last reset.
    pub(crate) fn latencies(&self, operation: TimedOperation) -> LatencyHistogram {
        match operation {
            TimedOperation::Sync => self.log.counters.sync_times.histogram(),
            other => {
                let meter = self.watch.meters.get(other as usize);
                meter.map(LatencyMeter::histogram).unwrap_or_default()
            }
        }
    }

    /// Has all histograms begin anew.
    pub(crate) fn reset_latencies(&self) {
        self.watch.meters.iter().for_each(LatencyMeter::reset);
        self.log.counters.sync_times.reset();
    }
}

#[cfg(test)]
mod tests;
