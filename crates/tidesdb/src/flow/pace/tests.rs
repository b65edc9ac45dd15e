//! Rates at chosen numbers.

use super::*;

const MIB: u64 = 1 << 20;

fn usual() -> FamilySignals {
    FamilySignals {
        write_buffer_bytes: 64 * MIB,
        freeze_bytes: 40 * MIB,
        queue_limit: 10,
        compaction_trigger: 4,
        active_bytes: 0,
        frozen: 1,
        frozen_bytes: 40 * MIB,
        oldest_frozen_bytes: 40 * MIB,
        flushed_bytes: 0,
        paced: true,
        young_runs: 0,
        runs: 0,
        runs_before_reads: 0,
        run_bytes: 0,
        favours_readers: false,
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

/// What fits into memory was slowed to the rate of the flush in front of it.
#[test]
fn a_burst_is_not_slowed_until_an_eighth_of_the_room_is_left() {
    let first = FamilySignals { paced: false, ..usual() };
    let after = |active| FamilySignals { active_bytes: active * MIB, ..first };
    for active in [0, 10, 20] {
        assert_eq!(family_pace(&after(active)), Pace::Free, "{active} of 24 MiB");
    }
    assert_eq!(rate(family_pace(&after(21))), 3 * 100 / 40 * MIB + MIB / 2);
    // The active memtable is what must last.
    let queue_limit = 2;
    assert_eq!(family_pace(&FamilySignals { queue_limit, ..after(20) }), Pace::Free);
    // A slow disk: they would be slow for a second then.
    let slow = FamilySignals { flush_bytes_per_second: 40 * MIB, ..first };
    assert_eq!(rate(family_pace(&slow)), 24 * MIB);
    assert_eq!(family_pace(&FamilySignals { flushed_bytes: 24 * MIB, ..slow }), Pace::Free);
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
        let signals = FamilySignals { queue_limit, frozen, active_bytes: active * MIB, ..usual() };
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
    let reason = StallReason::CompactionDebt;
    for (runs, wanted) in [
        (32, Pace::Free),
        (64, Pace::Slow { bytes_per_second: 100 * MIB, reason }),
        (80, Pace::Slow { bytes_per_second: 100 * MIB / 3, reason }),
        (1000, Pace::Slow { bytes_per_second: 2 * MIB, reason }),
    ] {
        assert_eq!(slowed(runs), wanted, "{runs}");
    }
}

/// Compactions of a family of large values are as long as its keys are many.
#[test]
fn bytes_of_tables_alone_make_a_family_large() {
    let reason = StallReason::CompactionDebt;
    let (run_bytes, table_bytes) = (10 << 30, 1000 << 30);
    let values =
        FamilySignals { run_bytes, table_bytes, settled_table_bytes: table_bytes, ..usual() };
    let read = |runs| FamilySignals { favours_readers: true, frozen: 0, runs, ..values };
    assert_eq!(family_pace(&read(12)), Pace::Free);
    let halfway = Pace::Slow { bytes_per_second: 100 * MIB, reason };
    assert_eq!(family_pace(&read(18)), halfway);
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
        (MemoryLevel::High, 10 * MIB, 20 * MIB, Pace::Slow { bytes_per_second: 50 * MIB, reason }),
        (MemoryLevel::High, 0, MIB, Pace::Slow { bytes_per_second: 2 * MIB, reason }),
        (MemoryLevel::Critical, 0, MIB, Pace::Wait(reason)),
        (MemoryLevel::Critical, 0, 0, Pace::Slow { bytes_per_second: 2 * MIB, reason }),
    ];
    for (level, room, flushing, wanted) in table {
        assert_eq!(memory_pace(level, room, flushing, 100 * MIB), wanted, "{level:?}");
    }
}

/// A database of gigabytes was loaded, and then read: its writers were held to a fiftieth of the
/// rate of flushes until everything was compacted.
#[test]
fn runs_from_before_the_reads_slow_no_writer() {
    let signals =
        FamilySignals { frozen: 0, runs: 33, run_bytes: 3 << 30, favours_readers: true, ..usual() };
    assert_eq!(rate(family_pace(&signals)), 2 * MIB);
    let with = |runs, runs_before_reads| {
        rate(family_pace(&FamilySignals { runs, runs_before_reads, ..signals }))
    };
    assert_eq!(with(33, 33), u64::MAX);
    // What comes on top does, as it would on top of twelve.
    assert_eq!(with(39, 33), with(18, 0));
    assert_eq!(with(45, 33), 2 * MIB);
    // Fewer than the bound are no reason to allow less.
    assert_eq!(with(18, 5), with(18, 0));
    // Compactions are urgent all the same, and a family that is not read has bounds of its own.
    assert!(has_many_runs(&FamilySignals { runs_before_reads: 33, ..signals }));
    let unread =
        FamilySignals { favours_readers: false, runs: 96, runs_before_reads: 96, ..signals };
    assert_eq!(rate(family_pace(&unread)), 2 * MIB);
}
