//! Counters of what held writers up, and the measured rate of flushes.

use std::sync::atomic::{AtomicU64, Ordering};

use tidesdb_base::event::StallReason;

/// Events of one kind are reported at most this often, in nanoseconds.
const REPORT_EVERY_NANOS: u64 = 10_000_000_000;

/// Flushes of less say more about waits for the disk than about how fast bytes are written.
const LEAST_MEASURED_BYTES: u64 = 1 << 20;

/// Waits for one reason.
#[derive(Debug, Default)]
struct Stall {
    count: AtomicU64,
    nanos: AtomicU64,
    longest_nanos: AtomicU64,
    /// Limits of how often it is reported that writers are slowed down, and that one waited.
    slowing_reports: Throttle,
    wait_reports: Throttle,
}

/// Waits by reason since the open.
#[derive(Debug, Default)]
pub(crate) struct Stalls {
    reasons: [Stall; StallReason::ALL.len()],
}

// ORDERING: relaxed throughout; statistics.
impl Stalls {
    /// Counts one wait.
    pub(crate) fn count(&self, reason: StallReason, nanos: u64) {
        let Some(stall) = self.reasons.get(reason as usize) else { return };
        stall.count.fetch_add(1, Ordering::Relaxed);
        stall.nanos.fetch_add(nanos, Ordering::Relaxed);
        stall.longest_nanos.fetch_max(nanos, Ordering::Relaxed);
    }

    /// Number of waits, their nanoseconds in all, and those of the longest.
    pub(crate) fn counters(&self, reason: StallReason) -> [u64; 3] {
        self.reasons.get(reason as usize).map_or([0; 3], |stall| {
            [&stall.count, &stall.nanos, &stall.longest_nanos]
                .map(|counter| counter.load(Ordering::Relaxed))
        })
    }

    /// Nanoseconds of all waits.
    pub(crate) fn nanos(&self) -> u64 {
        StallReason::ALL.into_iter().map(|reason| self.counters(reason)[1]).sum()
    }

    /// True when it should be reported that writers are slowed down for this reason: it was not for
    /// a while.
    pub(crate) fn should_report_slowing(&self, reason: StallReason, now_nanos: u64) -> bool {
        self.reasons
            .get(reason as usize)
            .is_some_and(|stall| stall.slowing_reports.is_due(now_nanos))
    }

    /// The same for a writer that waited.
    pub(crate) fn should_report_wait(&self, reason: StallReason, now_nanos: u64) -> bool {
        self.reasons.get(reason as usize).is_some_and(|stall| stall.wait_reports.is_due(now_nanos))
    }
}

/// Lets an event through now and then.
#[derive(Debug, Default)]
pub(crate) struct Throttle {
    /// When it last did; 0 for never.
    passed_nanos: AtomicU64,
}

impl Throttle {
    /// True for one caller if none was let through for a while.
    pub(crate) fn is_due(&self, now_nanos: u64) -> bool {
        // ORDERING: relaxed; the exchange lets one caller win, and orders nothing.
        let passed = self.passed_nanos.load(Ordering::Relaxed);
        let due = passed == 0 || now_nanos.saturating_sub(passed) >= REPORT_EVERY_NANOS;
        let exchange = |now| {
            let (set, fail) = (Ordering::Relaxed, Ordering::Relaxed);
            self.passed_nanos.compare_exchange(passed, now, set, fail)
        };
        due && exchange(now_nanos.max(1)).is_ok()
    }
}

/// How fast memtables are written out.
#[derive(Debug, Default)]
pub(crate) struct FlushMeter {
    /// Bytes of memtable a second, averaged; 0 until the first flush.
    bytes_per_second: AtomicU64,
    /// The same for one thread, of which several may do one flush.
    thread_bytes_per_second: AtomicU64,
    /// Bytes of all flushes, counted as they are written: any change is progress.
    progress_bytes: AtomicU64,
    /// When the flush that began last did, and how much all had written by then.
    begun_nanos: AtomicU64,
    begun_at_bytes: AtomicU64,
}

impl FlushMeter {
    /// Notes a finished flush of `bytes` of memtable. It took `nanos`; the threads that did it took
    /// `thread_nanos` together.
    pub(crate) fn finished(&self, bytes: u64, nanos: u64, thread_nanos: u64) {
        self.advanced(1);
        if bytes < LEAST_MEASURED_BYTES {
            return;
        }
        average(&self.bytes_per_second, bytes, nanos);
        average(&self.thread_bytes_per_second, bytes, thread_nanos);
    }

    /// Notes that a flush begins.
    pub(crate) fn begun(&self, now_nanos: u64) {
        // ORDERING: relaxed; an estimate.
        self.begun_at_bytes.store(self.progress(), Ordering::Relaxed);
        self.begun_nanos.store(now_nanos, Ordering::Relaxed);
    }

    /// Notes that a flush got on by `bytes`.
    pub(crate) fn advanced(&self, bytes: u64) {
        // ORDERING: relaxed; only whether it changes matters.
        self.progress_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes of memtable written out a second; 0 when that is not known yet. During the first flush
    /// it is that of what is written so far: a guess would hold writers of a fast disk back, or
    /// have those of a slow one wait.
    pub(crate) fn bytes_per_second(&self, now_nanos: u64) -> u64 {
        // ORDERING: relaxed; an estimate.
        match self.bytes_per_second.load(Ordering::Relaxed) {
            0 => self.rate_so_far(now_nanos),
            measured => measured,
        }
    }

    fn rate_so_far(&self, now_nanos: u64) -> u64 {
        // ORDERING: relaxed; an estimate.
        let written = self.progress().saturating_sub(self.begun_at_bytes.load(Ordering::Relaxed));
        let nanos = now_nanos.saturating_sub(self.begun_nanos.load(Ordering::Relaxed));
        if written < LEAST_MEASURED_BYTES { 0 } else { rate(written, nanos) }
    }

    /// The same for a flush by one thread.
    pub(crate) fn thread_bytes_per_second(&self) -> u64 {
        // ORDERING: relaxed; an estimate.
        self.thread_bytes_per_second.load(Ordering::Relaxed)
    }

    /// Changes whenever a flush gets on.
    pub(crate) fn progress(&self) -> u64 {
        // ORDERING: relaxed; see `advanced`.
        self.progress_bytes.load(Ordering::Relaxed)
    }
}

/// Bytes a second.
fn rate(bytes: u64, nanos: u64) -> u64 {
    let rate = u128::from(bytes) * 1_000_000_000 / u128::from(nanos.max(1));
    u64::try_from(rate).unwrap_or(u64::MAX).max(1)
}

fn average(average: &AtomicU64, bytes: u64, nanos: u64) {
    let latest = rate(bytes, nanos);
    // ORDERING: relaxed; an estimate.
    let before = average.load(Ordering::Relaxed);
    let after = if before == 0 { latest } else { before / 2 + latest / 2 };
    average.store(after.max(1), Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_counted_by_reason() {
        let stalls = Stalls::default();
        stalls.count(StallReason::CompactionDebt, 5);
        stalls.count(StallReason::CompactionDebt, 9);
        stalls.count(StallReason::MemoryBudget, 1);
        assert_eq!(stalls.counters(StallReason::CompactionDebt), [2, 14, 9]);
        assert_eq!(stalls.counters(StallReason::FlushQueue), [0; 3]);
        assert_eq!(stalls.nanos(), 15);
    }

    #[test]
    fn the_listener_hears_of_each_reason_now_and_then() {
        let stalls = Stalls::default();
        let reason = StallReason::CompactionDebt;
        assert!(stalls.should_report_slowing(reason, 0));
        assert!(!stalls.should_report_slowing(reason, REPORT_EVERY_NANOS / 2));
        assert!(stalls.should_report_wait(reason, REPORT_EVERY_NANOS / 2));
        assert!(stalls.should_report_slowing(StallReason::FlushQueue, REPORT_EVERY_NANOS / 2));
        assert!(stalls.should_report_slowing(reason, 2 * REPORT_EVERY_NANOS));
    }

    #[test]
    fn the_flush_rate_is_an_average_and_never_zero_again() {
        let meter = FlushMeter::default();
        assert_eq!(meter.bytes_per_second(9), 0);
        meter.finished(100 << 20, 1_000_000_000, 2_000_000_000);
        assert_eq!(meter.bytes_per_second(9), 100 << 20);
        assert_eq!(meter.thread_bytes_per_second(), 50 << 20);
        meter.finished(300 << 20, 1_000_000_000, 2_000_000_000);
        assert_eq!(meter.bytes_per_second(9), 200 << 20);
        assert_eq!(meter.thread_bytes_per_second(), 100 << 20);
        // A flush of next to nothing, which takes as long as the disk's answer, says nothing.
        meter.finished(100, 1_000_000_000, 1_000_000_000);
        assert_eq!(meter.bytes_per_second(9), 200 << 20);
        (0..99).for_each(|_| meter.finished(1 << 20, u64::MAX, u64::MAX));
        assert_eq!(meter.bytes_per_second(9), 1);
        meter.finished(u64::MAX, 0, 0);
    }

    /// A process that begins with many deletions or a load had its writers held to a guess until
    /// the first flush had ended.
    #[test]
    fn the_first_flush_is_measured_while_it_goes_on() {
        let meter = FlushMeter::default();
        meter.advanced(77 << 20);
        meter.begun(1_000_000_000);
        assert_eq!(meter.bytes_per_second(1_100_000_000), 0, "nothing is known");
        meter.advanced(30 << 20);
        assert_eq!(meter.bytes_per_second(1_100_000_000), 300 << 20);
        assert_eq!(meter.bytes_per_second(1_200_000_000), 150 << 20);
        meter.finished(40 << 20, 400_000_000, 400_000_000);
        assert_eq!(meter.bytes_per_second(9_000_000_000), 100 << 20);
    }
}
