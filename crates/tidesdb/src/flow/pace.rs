//! How fast a family may be written, decided from a few figures.
//!
//! While a memtable is being flushed, the room left for writes must last until its memory comes
//! back: the rate is that room divided by the time that the flush still takes at the measured
//! rate. So writers go at full speed while there is plenty of room, and are at the rate of the
//! flush when there is none, without a jump. They wait only when the room is used up, and only
//! for a flush that is under way. Merges never make them wait: the more runs lie in the first
//! level, and the more garbage the tables hold of what `max_space_amplification` allows, the slower
//! they go, down to a fiftieth of the rate of flushes.

use tidesdb_base::event::{MemoryLevel, StallReason};

/// Rate of flushes that is assumed until one was measured.
const ASSUMED_FLUSH_BYTES_PER_SECOND: u64 = 64 << 20;

/// Memtables of a family may take this much in any case: small ones cost nothing worth a wait.
const SMALL_BYTES: u64 = 16 << 20;

/// Runs of the first level, as multiples of the trigger of merges, between which writers are
/// slowed more and more.
const SLOWING_RUNS_PER_TRIGGER: u64 = 2;
const SLOWEST_RUNS_PER_TRIGGER: u64 = 9;

/// The same for all runs: merges of large ones, which small ones interrupt, must not fall behind
/// without end.
const SLOWING_ALL_RUNS_PER_TRIGGER: u64 = 8;
const SLOWEST_ALL_RUNS_PER_TRIGGER: u64 = 16;

/// The same for a large family that is read. Between a size at which runs count as for any other,
/// and eight times that, it goes from those bounds to these.
const LARGE_BYTES: u64 = 32 << 30;
const SLOWING_READ_RUNS_PER_TRIGGER: f64 = 1.5;
const SLOWEST_READ_RUNS_PER_TRIGGER: f64 = 4.0;

/// Parts of the write buffer that garbage may take in any case before writers are slowed, and
/// before they are slowest: they cost a small family little.
const SLOWING_GARBAGE_PART: u64 = 8;
const SLOWEST_GARBAGE_PART: u64 = 2;

/// Writers are never held to less than the rate of flushes divided by this.
const MOST_SLOWDOWN: u64 = 50;

/// Figures of a family that decide how fast it may be written.
// More than a dozen fields: all that the rules of flow control ask, as plain figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FamilySignals {
    /// `write_buffer_size` in bytes.
    pub write_buffer_bytes: u64,
    /// Bytes at which the active memtable is frozen.
    pub freeze_bytes: u64,
    /// `l0_queue_stall_threshold`.
    pub queue_limit: u64,
    /// `l1_file_count_trigger`.
    pub merge_trigger: u64,
    /// Bytes in the active memtable.
    pub active_bytes: u64,
    /// Memtables waiting for a flush, the one being flushed included.
    pub frozen: u64,
    /// Bytes in all of them.
    pub frozen_bytes: u64,
    /// Bytes in the oldest of them.
    pub oldest_frozen_bytes: u64,
    /// How many of those are written already.
    pub flushed_bytes: u64,
    /// Runs in the first level.
    pub young_runs: u64,
    /// Runs in all levels.
    pub runs: u64,
    /// The family is read, so that each run costs.
    pub is_read: bool,
    /// Bytes of the tables that count for the bound on space.
    pub table_bytes: u64,
    /// How many of these are no growth.
    pub settled_table_bytes: u64,
    /// How many of these there are when garbage begins to be collected.
    pub collected_table_bytes: u64,
    /// How many of these the bound allows.
    pub allowed_table_bytes: u64,
    /// Measured rate of flushes in bytes of memtable a second; 0 when none was measured.
    pub flush_bytes_per_second: u64,
}

/// How fast writers may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// As fast as they can.
    Free,
    /// At this rate, in bytes of memtable a second.
    Slow { bytes_per_second: u64, reason: StallReason },
    /// Not before a flush has made room.
    Wait(StallReason),
}

/// Whether writers of a family have to ask at all, as long as its view stays as it is: true
/// whenever [`family_pace`] may say anything but [`Pace::Free`].
pub(crate) fn is_held(signals: &FamilySignals) -> bool {
    signals.frozen > 0 || merge_pace(signals) != Pace::Free || space_pace(signals) != Pace::Free
}

/// Whether garbage slows writers.
pub(crate) fn is_slowed_by_garbage(signals: &FamilySignals) -> bool {
    space_pace(signals) != Pace::Free
}

/// Bytes that the memtables of a family may take together.
const fn memtable_limit(write_buffer_bytes: u64, queue_limit: u64) -> u64 {
    let queued = write_buffer_bytes.saturating_mul(queue_limit);
    let small = if queued < SMALL_BYTES { queued } else { SMALL_BYTES };
    if write_buffer_bytes > small { write_buffer_bytes } else { small }
}

fn flush_rate(measured: u64) -> u64 {
    if measured == 0 { ASSUMED_FLUSH_BYTES_PER_SECOND } else { measured.max(MOST_SLOWDOWN) }
}

/// How many threads a flush of `bytes` of memtable should have so that flushes are a fifth faster
/// than writers, who took `fill_nanos` to fill it; at least one, at most `most`.
pub(crate) fn flush_parts(
    bytes: u64,
    fill_nanos: u64,
    thread_bytes_per_second: u64,
    most: u64,
) -> u64 {
    let rate = u128::from(flush_rate(thread_bytes_per_second));
    let one_thread_nanos = u128::from(bytes) * 1_000_000_000 / rate;
    let wanted = (one_thread_nanos * 6 / 5).div_ceil(u128::from(fill_nanos.max(1)));
    u64::try_from(wanted).unwrap_or(u64::MAX).min(most).max(1)
}

fn at_rate(bytes: u64, per: u64, of: u64) -> u64 {
    let product = u128::from(bytes) * u128::from(per) / u128::from(of.max(1));
    u64::try_from(product).unwrap_or(u64::MAX)
}

/// How fast a family may be written.
pub(crate) fn family_pace(signals: &FamilySignals) -> Pace {
    let merges = slower(merge_pace(signals), space_pace(signals));
    slower(memtable_pace(signals), merges)
}

fn slower(first: Pace, second: Pace) -> Pace {
    match (first, second) {
        (Pace::Free, other) | (other, Pace::Free) => other,
        (wait @ Pace::Wait(_), _) | (_, wait @ Pace::Wait(_)) => wait,
        (Pace::Slow { bytes_per_second: a, .. }, Pace::Slow { bytes_per_second: b, .. }) => {
            if a <= b { first } else { second }
        }
    }
}

fn memtable_pace(signals: &FamilySignals) -> Pace {
    if signals.frozen == 0 {
        return Pace::Free;
    }
    let limit = memtable_limit(signals.write_buffer_bytes, signals.queue_limit);
    let held = signals.frozen_bytes.saturating_add(signals.active_bytes);
    let mut room = limit.saturating_sub(held);
    let mut reason = StallReason::MemtableBytes;
    if signals.frozen + 1 >= signals.queue_limit {
        // Freezing one more would fill the queue, so the active memtable has to last.
        let in_active = match signals.frozen < signals.queue_limit {
            true => signals.freeze_bytes.saturating_sub(signals.active_bytes),
            false => 0,
        };
        if in_active < room {
            (room, reason) = (in_active, StallReason::FlushQueue);
        }
    }
    if room == 0 {
        return Pace::Wait(reason);
    }
    let rate = flush_rate(signals.flush_bytes_per_second);
    let left = signals.oldest_frozen_bytes.saturating_sub(signals.flushed_bytes);
    let bytes_per_second = at_rate(room, rate, left).max(rate / MOST_SLOWDOWN);
    Pace::Slow { bytes_per_second, reason }
}

fn merge_pace(signals: &FamilySignals) -> Pace {
    let (trigger, reason) = (signals.merge_trigger, StallReason::MergeDebt);
    let from = trigger * SLOWING_RUNS_PER_TRIGGER;
    let to = trigger * SLOWEST_RUNS_PER_TRIGGER;
    let by_young_runs = pace_between(signals, signals.young_runs, from, to, reason);
    let (from, to) = bounds_of_all_runs(signals);
    slower(by_young_runs, pace_between(signals, signals.runs, from, to, reason))
}

/// Numbers of runs between which writers are slowed. In a small family the merges that keep them
/// few are soon done. In a large one they take long, and writers that nothing holds go on until
/// readers meet three times as many runs.
fn bounds_of_all_runs(signals: &FamilySignals) -> (u64, u64) {
    let trigger = signals.merge_trigger as f64;
    let doublings = (signals.table_bytes as f64 / LARGE_BYTES as f64).max(1.0).log2();
    let large = if signals.is_read { (doublings / 3.0).min(1.0) } else { 0.0 };
    let between = |small: u64, read: f64| {
        let small = small as f64;
        ((small - (small - read) * large) * trigger) as u64
    };
    (
        between(SLOWING_ALL_RUNS_PER_TRIGGER, SLOWING_READ_RUNS_PER_TRIGGER),
        between(SLOWEST_ALL_RUNS_PER_TRIGGER, SLOWEST_READ_RUNS_PER_TRIGGER),
    )
}

/// Free up to `from`, at the rate of flushes half way to `to`, and slowest from there on.
fn pace_between(
    signals: &FamilySignals,
    debt: u64,
    from: u64,
    to: u64,
    reason: StallReason,
) -> Pace {
    if debt <= from {
        return Pace::Free;
    }
    let rate = flush_rate(signals.flush_bytes_per_second);
    let bytes_per_second = at_rate(rate, to.saturating_sub(debt), debt - from);
    Pace::Slow { bytes_per_second: bytes_per_second.max(rate / MOST_SLOWDOWN), reason }
}

fn space_pace(signals: &FamilySignals) -> Pace {
    let settled = signals.settled_table_bytes;
    let garbage = signals.table_bytes.saturating_sub(settled);
    let allowed = signals.allowed_table_bytes.saturating_sub(settled);
    let collected = signals.collected_table_bytes.saturating_sub(settled);
    let from = collected.max(signals.write_buffer_bytes / SLOWING_GARBAGE_PART);
    let to = allowed.max(signals.write_buffer_bytes / SLOWEST_GARBAGE_PART);
    pace_between(signals, garbage, from, to, StallReason::SpaceAmplification)
}

/// How fast the whole database may be written at a level of memory use. `room_bytes` is what is
/// left before writers have to wait, `flushing_bytes` what flushes that are under way will free.
pub(crate) fn memory_pace(
    level: MemoryLevel,
    room_bytes: u64,
    flushing_bytes: u64,
    flush_bytes_per_second: u64,
) -> Pace {
    let rate = flush_rate(flush_bytes_per_second);
    let reason = StallReason::MemoryBudget;
    match level {
        MemoryLevel::Normal | MemoryLevel::Elevated => Pace::Free,
        MemoryLevel::Critical if flushing_bytes > 0 => Pace::Wait(reason),
        // Waiting would not help: what holds the memory is not freed by any flush.
        MemoryLevel::Critical => Pace::Slow { bytes_per_second: rate / MOST_SLOWDOWN, reason },
        MemoryLevel::High => {
            let bytes_per_second =
                at_rate(room_bytes, rate, flushing_bytes).max(rate / MOST_SLOWDOWN);
            Pace::Slow { bytes_per_second, reason }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn usual() -> FamilySignals {
        FamilySignals {
            write_buffer_bytes: 64 * MIB,
            freeze_bytes: 40 * MIB,
            queue_limit: 10,
            merge_trigger: 4,
            active_bytes: 0,
            frozen: 1,
            frozen_bytes: 40 * MIB,
            oldest_frozen_bytes: 40 * MIB,
            flushed_bytes: 0,
            young_runs: 0,
            runs: 0,
            is_read: false,
            table_bytes: 0,
            settled_table_bytes: 0,
            collected_table_bytes: 0,
            allowed_table_bytes: 0,
            flush_bytes_per_second: 100 * MIB,
        }
    }

    fn rate(pace: Pace) -> u64 {
        match pace {
            Pace::Free => u64::MAX,
            Pace::Slow { bytes_per_second, .. } => bytes_per_second,
            Pace::Wait(_) => 0,
        }
    }

    #[test]
    fn without_a_frozen_memtable_nothing_is_held() {
        let signals = FamilySignals {
            frozen: 0,
            frozen_bytes: 0,
            oldest_frozen_bytes: 0,
            active_bytes: 500 * MIB,
            ..usual()
        };
        assert_eq!(family_pace(&signals), Pace::Free);
        let held = |frozen, young_runs| is_held(&FamilySignals { frozen, young_runs, ..signals });
        assert!(!held(0, 8) && held(1, 0) && held(0, 9));
    }

    #[test]
    fn a_flush_gets_as_many_threads_as_writers_outrun() {
        let second = 1_000_000_000;
        // 100 MiB/s each: filled in a second, written in 0.4 s.
        assert_eq!(flush_parts(40 * MIB, second, 100 * MIB, 4), 1);
        assert_eq!(flush_parts(40 * MIB, second / 2, 100 * MIB, 4), 1);
        // As fast as one thread, or nearly: too close.
        assert_eq!(flush_parts(40 * MIB, second * 4 / 10, 100 * MIB, 4), 2);
        assert_eq!(flush_parts(40 * MIB, second / 10, 100 * MIB, 4), 4);
        assert_eq!(flush_parts(40 * MIB, second / 10, 100 * MIB, 8), 5);
        assert_eq!(flush_parts(40 * MIB, 0, 0, 3), 3);
        assert_eq!(flush_parts(0, 0, 0, 0), 1);
        assert_eq!(flush_parts(u64::MAX, 0, 1, u64::MAX), u64::MAX);
    }

    #[test]
    fn the_room_lasts_until_the_flush_is_done() {
        // 64 MiB in all, 40 taken: 24 MiB of room for the 0.4 s that the flush takes.
        assert_eq!(rate(family_pace(&usual())), 60 * MIB);
        // Half of it written: twice the rate.
        let halfway = FamilySignals { flushed_bytes: 20 * MIB, ..usual() };
        assert_eq!(rate(family_pace(&halfway)), 120 * MIB);
    }

    #[test]
    fn the_rate_falls_without_jumps_and_ends_in_a_wait() {
        let mut last = u64::MAX;
        for active in 0..=24 {
            let now = rate(family_pace(&FamilySignals { active_bytes: active * MIB, ..usual() }));
            assert!(now < last, "{active}: {now} after {last}");
            last = now;
        }
        assert_eq!(last, 0);
        let full = FamilySignals { active_bytes: 24 * MIB, ..usual() };
        assert_eq!(family_pace(&full), Pace::Wait(StallReason::MemtableBytes));
    }

    #[test]
    fn a_full_queue_is_met_smoothly_as_well() {
        // (queue limit, frozen, active MiB) -> (rate in MiB/s, reason)
        let table = [
            (2, 1, 0, 60, StallReason::MemtableBytes),
            (2, 1, 22, 5, StallReason::MemtableBytes),
            (1, 1, 0, 0, StallReason::FlushQueue),
            (2, 2, 0, 0, StallReason::FlushQueue),
        ];
        for (queue_limit, frozen, active, wanted, reason) in table {
            let signals =
                FamilySignals { queue_limit, frozen, active_bytes: active * MIB, ..usual() };
            let pace = family_pace(&signals);
            assert_eq!(rate(pace) / MIB, wanted, "{signals:?}");
            let found = match pace {
                Pace::Slow { reason, .. } | Pace::Wait(reason) => reason,
                Pace::Free => panic!("{signals:?}"),
            };
            assert_eq!(found, reason, "{signals:?}");
        }
    }

    #[test]
    fn small_write_buffers_may_queue_up() {
        let small = FamilySignals {
            write_buffer_bytes: 64 << 10,
            freeze_bytes: 48 << 10,
            frozen: 5,
            frozen_bytes: 5 * (48 << 10),
            oldest_frozen_bytes: 48 << 10,
            active_bytes: 40 << 10,
            ..usual()
        };
        assert!(matches!(family_pace(&small), Pace::Slow { .. }));
        let full = FamilySignals { frozen: 10, ..small };
        assert_eq!(family_pace(&full), Pace::Wait(StallReason::FlushQueue));
    }

    #[test]
    fn runs_slow_writers_more_and_more_but_never_stop_them() {
        let mut last = u64::MAX;
        for young_runs in 8..=36 {
            let signals = FamilySignals { frozen: 0, young_runs, ..usual() };
            let now = rate(family_pace(&signals));
            assert!(now <= last && now >= 2 * MIB, "{young_runs}: {now} after {last}");
            last = now;
        }
        for young_runs in [36, 37, 10_000] {
            let signals = FamilySignals { frozen: 0, young_runs, ..usual() };
            assert_eq!(rate(family_pace(&signals)), 2 * MIB);
        }
    }

    #[test]
    fn many_large_runs_slow_writers_as_well() {
        let slowed = |runs| family_pace(&FamilySignals { frozen: 0, runs, ..usual() });
        let reason = StallReason::MergeDebt;
        for (runs, wanted) in [
            (32, Pace::Free),
            (48, Pace::Slow { bytes_per_second: 100 * MIB, reason }),
            (56, Pace::Slow { bytes_per_second: 100 * MIB / 3, reason }),
            (1000, Pace::Slow { bytes_per_second: 2 * MIB, reason }),
        ] {
            assert_eq!(slowed(runs), wanted, "{runs}");
        }
    }

    #[test]
    fn a_large_family_that_is_read_has_its_writers_slowed_by_fewer_runs() {
        const GIB: u64 = 1 << 30;
        let bounds = |gib, is_read| {
            let table_bytes = gib * GIB;
            bounds_of_all_runs(&FamilySignals { table_bytes, is_read, ..usual() })
        };
        assert_eq!(bounds(32, true), (32, 64));
        assert_eq!(bounds(64, true), (23, 48));
        assert_eq!(bounds(256, true), (6, 16));
        assert_eq!(bounds(10_000, true), (6, 16));
        assert_eq!(bounds(10_000, false), (32, 64));
    }

    #[test]
    fn garbage_slows_writers_in_proportion_up_to_the_bound() {
        let reason = StallReason::SpaceAmplification;
        let slow = |mib| Pace::Slow { bytes_per_second: mib * MIB, reason };
        // tables and what is alive of them in MiB -> pace; the write buffer is 64 MiB, half of what
        // is alive may be garbage
        let table = [
            (0, 0, Pace::Free),
            (800, 600, Pace::Free),
            // An eighth of the write buffer slows no writer.
            (8, 0, Pace::Free),
            (18, 10, Pace::Free),
            // Half way between the bounds at the rate of flushes, and less from there on.
            (20, 0, slow(100)),
            (850, 600, slow(100)),
            (26, 0, slow(33)),
            (875, 600, slow(33)),
            (32, 0, slow(2)),
            (900, 600, slow(2)),
            (u64::MAX / MIB, 600, slow(2)),
        ];
        for (tables, live, wanted) in table {
            let signals = FamilySignals {
                frozen: 0,
                table_bytes: tables * MIB,
                settled_table_bytes: live * MIB,
                collected_table_bytes: live * MIB / 3 * 4,
                allowed_table_bytes: live * MIB / 2 * 3,
                ..usual()
            };
            let rounded = match family_pace(&signals) {
                Pace::Slow { bytes_per_second, reason } => {
                    Pace::Slow { bytes_per_second: bytes_per_second / MIB * MIB, reason }
                }
                other => other,
            };
            assert_eq!(rounded, wanted, "{tables} of {live}");
            assert_eq!(is_held(&signals), wanted != Pace::Free, "{tables} of {live}");
        }
    }

    #[test]
    fn the_rate_falls_without_jumps_as_garbage_grows() {
        let mut last = u64::MAX;
        for table_bytes in (0..9000).map(|n| n * MIB / 16) {
            let signals = FamilySignals {
                frozen: 0,
                table_bytes,
                settled_table_bytes: 300 * MIB,
                collected_table_bytes: 400 * MIB,
                allowed_table_bytes: 450 * MIB,
                ..usual()
            };
            let now = rate(family_pace(&signals));
            // Above what writers reach a jump does not matter.
            let (was, is) = (last.min(1 << 32), now.min(1 << 32));
            assert!(is <= was && is >= was / 2, "{table_bytes}: {now} after {last}");
            last = now;
        }
    }

    #[test]
    fn an_unknown_or_tiny_flush_rate_is_no_division_by_zero() {
        for flush_bytes_per_second in [0, 1, u64::MAX] {
            let signals = FamilySignals {
                flush_bytes_per_second,
                young_runs: 30,
                flushed_bytes: 48 * MIB,
                ..usual()
            };
            assert!(rate(family_pace(&signals)) > 0);
        }
    }

    #[test]
    fn memory_makes_writers_wait_only_for_a_flush() {
        let reason = StallReason::MemoryBudget;
        // level, room, flushing -> pace
        let table = [
            (MemoryLevel::Normal, 0, 0, Pace::Free),
            (MemoryLevel::Elevated, 0, MIB, Pace::Free),
            (
                MemoryLevel::High,
                10 * MIB,
                20 * MIB,
                Pace::Slow { bytes_per_second: 50 * MIB, reason },
            ),
            (MemoryLevel::High, 0, MIB, Pace::Slow { bytes_per_second: 2 * MIB, reason }),
            (MemoryLevel::Critical, 0, MIB, Pace::Wait(reason)),
            (MemoryLevel::Critical, 0, 0, Pace::Slow { bytes_per_second: 2 * MIB, reason }),
        ];
        for (level, room, flushing, wanted) in table {
            assert_eq!(memory_pace(level, room, flushing, 100 * MIB), wanted, "{level:?}");
        }
    }
}
