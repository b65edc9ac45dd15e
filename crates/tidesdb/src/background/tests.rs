//! Whose failure is whose, and who makes way for whom.

mod released;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tidesdb_base::compress::Compression;
use tidesdb_base::error::{Error, ErrorKind};
use tidesdb_base::options::{DbOptions, FamilyOptions, SyncMode};
use tidesdb_files::filter::key_hash;
use tidesdb_files::sstable::KeySketch;
use tidesdb_lockfree::sync::lock;
use tidesdb_sim::{ManualClock, ManualScheduler, MutationKind, Phase, SimVfs};
use tidesdb_sys::sched::Lane;
use tidesdb_sys::vfs::Vfs;

use super::manual_compactions::{Merge, WaitLimit};
use crate::compaction::plan::Activity;
use crate::db::{Components, Db};
use crate::handles::Family;
use crate::output::key_partitions::KeySpan;
use crate::testing::with_runs;
use crate::version::Version;

fn open() -> Db {
    open_stepped().0
}

fn open_stepped() -> (Db, Arc<ManualScheduler>) {
    open_on(&SimVfs::new(1), DbOptions::default())
}

fn open_on(sim: &Arc<SimVfs>, options: DbOptions) -> (Db, Arc<ManualScheduler>) {
    let scheduler = Arc::new(ManualScheduler::new(1));
    let components = Components {
        vfs: Arc::clone(sim) as _,
        scheduler: Arc::clone(&scheduler) as _,
        clock: Arc::new(ManualClock::new(1000)),
    };
    (Db::open_with("/db", options, components).unwrap(), scheduler)
}

/// Compactions of a family that is written without a pause held its lock one after the other: a
/// caller who wanted one got no turn.
#[test]
fn compactions_make_way_for_one_that_a_caller_waits_for() {
    let db = open();
    let family = with_runs(&db, 3);
    let (core, state) = (db.core(), family.state());
    let runs = || state.current_version().runs.len();
    state.compactions.caller_waits();
    core.run_compactions(state, Activity::RESTING, u64::MAX);
    assert_eq!(runs(), 3);
    state.compactions.caller_has_waited();
    core.run_compactions(state, Activity::RESTING, u64::MAX);
    assert_eq!(runs(), 1);
    assert_eq!(family.get(b"key").unwrap(), Some(vec![2]));
}

#[test]
fn after_a_job_that_panicked_only_another_opening_takes_writes() {
    let (db, scheduler) = open_stepped();
    let family = with_runs(&db, 1);
    db.core().submit(Lane::Housekeeping, |_| panic!("this panic is part of the test"));
    scheduler.run_until_idle();
    assert_eq!(family.put(b"refused", b"").unwrap_err().kind(), ErrorKind::Broken);
    assert_eq!(family.get(b"key").unwrap(), Some(vec![0]));
}

/// A compaction that was stopped on its way was reported to its caller as done.
#[test]
fn a_caller_is_told_that_its_compaction_was_given_up() {
    let db = open();
    let family = with_runs(&db, 2);
    let (core, state) = (db.core(), family.state());
    let stopped_on_the_way = |version: &Arc<Version>| {
        core.work.control.stop_compactions();
        Merge::of_newest(state, version, version.runs.len(), KeySpan::default())
    };
    let wait = WaitLimit::WhileTheyGetOn;
    let result = core.compact_chosen(state, wait, stopped_on_the_way, |_| Ok(()));
    assert!(matches!(result, Err(Error::CompactionsStopped)), "{result:?}");
    assert_eq!(state.current_version().runs.len(), 2);
}

/// Compactions that were stopped hid the failure of a flush behind them, and ended the flushes of
/// other families.
#[test]
fn stopped_compactions_hide_no_failure_and_end_no_flush() {
    let db = open();
    let first = with_runs(&db, 2);
    let second = db.create_family("second", FamilyOptions::default()).unwrap();
    db.stop_compactions().unwrap();
    for family in [&first, &second] {
        family.put(b"key", b"later").unwrap();
    }
    let result = db.compact();
    assert!(matches!(result, Err(Error::CompactionsStopped)), "{result:?}");
    for family in [&first, &second] {
        assert_eq!(family.stats().memtable_bytes, 0, "{} is in memory", family.name());
    }
    let damaged = || Error::corruption("table", 7, "it is damaged");
    second.state().compactions.failure.keep(damaged());
    assert_eq!(db.compact_and_wait().unwrap_err().kind(), ErrorKind::Corruption);
    let result = db.compact_and_wait();
    assert!(matches!(result, Err(Error::CompactionsStopped)), "{result:?}");
}

/// A compaction that failed while a caller waited for a flush made the flush fail, and one that
/// failed before a flush worked was reported to no caller.
#[test]
fn a_failed_compaction_is_no_failure_of_a_flush_and_is_told_after_one() {
    let db = open();
    let family = with_runs(&db, 1);
    let state = family.state();
    family.put(b"key", b"next").unwrap();
    db.core().freeze(state, 0);
    let damaged = || Error::corruption("table", 7, "it is damaged");
    state.compactions.failure.keep(damaged());
    family.flush().unwrap();
    assert_eq!(db.wait_idle().unwrap_err().kind(), ErrorKind::Corruption);
    db.wait_idle().unwrap();
    state.compactions.failure.keep(damaged());
    db.close().unwrap();
}

/// Families whose larger runs are merged when there are four or, not read, eight of a size.
fn family_of_tiers(db: &Db, name: &str) -> Family {
    let options = FamilyOptions::default()
        .min_disk_space(0)
        .l1_file_count_trigger(2)
        .compression(Compression::None);
    db.create_family(name, options).unwrap()
}

/// Puts new keys between all others, which are a run of their own then; returns the runs after
/// compactions.
fn flush_new_keys(family: &Family, scheduler: &ManualScheduler, turn: u64) -> usize {
    for key in 0..100 {
        family.put(&(key * 1000 + turn).to_be_bytes(), &[7; 500]).unwrap();
    }
    family.flush().unwrap();
    scheduler.run_until_idle();
    family.state().current_version().runs.len()
}

/// Fewer runs help readers, and a compaction costs as much as it writes.
#[test]
fn larger_runs_wait_for_readers() {
    let (db, scheduler) = open_stepped();
    let family = family_of_tiers(&db, "family");
    let runs = |turns: std::ops::Range<u64>, read: bool| -> usize {
        let after = turns.map(|turn| {
            if read {
                family.get(b"absent!!").unwrap();
            }
            flush_new_keys(&family, &scheduler, turn)
        });
        after.max().unwrap()
    };
    let found = [runs(0..31, false), runs(31..63, true), runs(63..127, false)];
    assert_eq!(found, [10, 8, 13], "runs at most, unread, read, and unread again");
    db.close().unwrap();
}

/// The family was loaded and never read, and is not written any more; another one is. Nothing had
/// it looked at again, and quiet was what the whole database had to be.
#[test]
fn a_family_at_rest_is_merged_for_its_readers_while_another_is_written() {
    let (db, scheduler) = open_stepped();
    let (family, other) = (family_of_tiers(&db, "family"), family_of_tiers(&db, "other"));
    (0..24).for_each(|turn| {
        flush_new_keys(&family, &scheduler, turn);
    });
    let runs = || family.state().current_version().runs.len();
    assert_eq!(runs(), 6, "nothing was put to the test");
    for turn in 0..20_u64 {
        other.put(&turn.to_be_bytes(), b"value").unwrap();
        scheduler.fire_timer();
        scheduler.run_until_idle();
    }
    assert_eq!(runs(), 1);
    db.close().unwrap();
}

/// What takes longer to merge than the family has rested waits until it has.
#[test]
fn a_family_is_looked_at_again_until_it_has_rested_for_long_enough() {
    let (db, scheduler) = open_stepped();
    let options = FamilyOptions::default()
        .min_disk_space(0)
        .compression(Compression::None)
        .write_buffer_size(256 << 20);
    let family = db.create_family("family", options).unwrap();
    for (first, keys) in [(0, 150_000_u64), (150_000, 30_000)] {
        for key in first..first + keys {
            family.put(&key.to_be_bytes(), &[7; 400]).unwrap();
        }
        family.flush().unwrap();
        scheduler.run_until_idle();
    }
    let runs = || {
        assert!(scheduler.fire_timer(), "nobody looks again");
        scheduler.run_until_idle();
        family.state().current_version().runs.len()
    };
    assert_eq!([runs(), runs()], [2, 1], "after two seconds and after four");
    db.close().unwrap();
}

/// Its memtable is empty at each look, which is not the same as not being written.
#[test]
fn a_family_that_is_written_and_flushed_is_not_at_rest() {
    let (db, scheduler) = open_stepped();
    let family = family_of_tiers(&db, "family");
    let runs = [0, 1, 2].map(|turn| flush_new_keys(&family, &scheduler, turn));
    assert_eq!(runs, [1, 2, 3]);
    // Due since there were two runs.
    assert!(scheduler.fire_timer());
    scheduler.run_until_idle();
    assert_eq!(family.state().current_version().runs.len(), 3);
    db.close().unwrap();
}

/// A table under a range deletion waited for the next flush when the snapshot that had kept it was
/// not the oldest one: only the end of that was noticed.
#[test]
fn covered_tables_go_with_the_last_snapshot_that_sees_them() {
    let (db, scheduler) = open_stepped();
    let options = FamilyOptions::default().min_disk_space(0);
    let (family, other) = (
        db.create_family("family", options.clone()).unwrap(),
        db.create_family("o", options).unwrap(),
    );
    let next = || other.put(b"key", b"moves the log on").unwrap();
    next();
    let before_all = db.snapshot();
    for _ in 0..2 {
        family.put(b"key", b"value").unwrap();
        let (older, newer) = (db.snapshot(), db.snapshot());
        next();
        let newest = db.snapshot();
        family.delete_range(b"a", b"z").unwrap();
        next();
        let behind_all = db.snapshot();
        family.flush().unwrap();
        db.wait_idle().unwrap();
        let tables = || {
            while scheduler.step().is_some() {}
            family.state().current_version().tables().count()
        };
        assert_eq!(tables(), 1);
        for in_the_way in [newest, older, newer] {
            assert_eq!(tables(), 1, "some snapshot sees the table");
            drop(in_the_way);
        }
        assert_eq!(tables(), 0);
        drop(behind_all);
    }
    drop(before_all);
}

/// What a long reader held stayed on disk until the next write: no rule of compactions looked into
/// a run, and nothing looked at all when a snapshot went.
#[test]
fn what_snapshots_held_goes_after_them_without_a_write() {
    const KEYS: u32 = 2_000;
    let (db, scheduler) = open_stepped();
    let options = FamilyOptions::default().min_disk_space(0).write_buffer_size(64 << 10);
    let family = db.create_family("family", options).unwrap();
    let write_all = || {
        for key in 0..KEYS {
            family.put(&key.to_be_bytes(), &[key as u8; 100]).unwrap();
        }
    };
    let versions = || {
        for _ in 0..10 {
            scheduler.run_until_idle();
            scheduler.fire_timer();
        }
        family.state().current_version().tables().map(|table| table.record.entries).sum::<u64>()
    };
    let mut snapshots = Vec::new();
    for _ in 0..3 {
        write_all();
        snapshots.push(db.snapshot());
    }
    write_all();
    family.compact().unwrap();
    assert_eq!(versions(), 4 * u64::from(KEYS));
    let last = snapshots.remove(1);
    drop(snapshots);
    assert_eq!(
        versions(),
        4 * u64::from(KEYS),
        "one of them may need some, and it is not known which"
    );
    drop(last);
    assert_eq!(versions(), u64::from(KEYS));
}

/// The estimate of a run's keys may be a fifth too low. A quiet family is not rewritten for that.
#[test]
fn a_wrong_estimate_has_no_quiet_family_rewritten() {
    const KEYS: u64 = 1_000;
    let key = |set: u64, n: u64| (set << 32 | n).to_be_bytes();
    let is_low = |&set: &u64| {
        let mut sketch = KeySketch::default();
        (0..KEYS).for_each(|n| sketch.add(key_hash(&key(set, n))));
        sketch.estimate() * 5 / 4 < KEYS
    };
    let set = (0..100_000).find(is_low).unwrap();
    let (db, scheduler) = open_stepped();
    let options = FamilyOptions::default()
        .min_disk_space(0)
        .write_buffer_size(64 << 10)
        .max_space_amplification(1.1)
        .compression(tidesdb_base::compress::Compression::None);
    let family = db.create_family("family", options).unwrap();
    (0..KEYS).for_each(|n| family.put(&key(set, n), &[n as u8; 100]).unwrap());
    family.compact().unwrap();
    let counted = || family.stats().work.compactions;
    let before = counted();
    db.core().schedule_compaction(family.state());
    for _ in 0..10 {
        scheduler.run_until_idle();
        scheduler.fire_timer();
    }
    assert_eq!(counted(), before);
}

/// A compaction that was asked for in a pause removed whole tables before it was refused.
#[test]
fn nothing_is_removed_by_a_call_that_is_refused_in_a_pause() {
    let (db, scheduler) = open_stepped();
    let options = FamilyOptions::default().min_disk_space(0);
    let family = db.create_family("family", options).unwrap();
    family.put(b"key", b"value").unwrap();
    family.put(b"other", b"value").unwrap();
    let snapshot = db.snapshot();
    family.flush().unwrap();
    family.delete_range(b"a", b"z").unwrap();
    family.flush().unwrap();
    scheduler.run_until_idle();
    db.pause_background().unwrap();
    drop(snapshot);
    let tables = || family.state().current_version().tables().count();
    assert_eq!(tables(), 1);
    assert!(matches!(family.compact(), Err(Error::Paused)));
    assert_eq!(tables(), 1);
}

/// I-298. A repair wrote all memory to tables in the middle of a pause, and began another log.
#[test]
fn a_pause_holds_back_the_repair_of_the_log() {
    let (sim, scheduler) = (SimVfs::new(1), Arc::new(ManualScheduler::new(1)));
    let components = Components {
        vfs: Arc::clone(&sim) as _,
        scheduler: Arc::clone(&scheduler) as _,
        clock: Arc::new(ManualClock::new(1000)),
    };
    let options = DbOptions::default().sync_mode(SyncMode::Full).log_segment_bytes(64 << 10);
    let db = Db::open_with("/db", options, components).unwrap();
    let family = db.create_family("family", FamilyOptions::default().min_disk_space(0)).unwrap();
    family.put(b"before", b"").unwrap();
    db.pause_background().unwrap();
    scheduler.run_until_idle();
    let names = || {
        let entries = sim.list(std::path::Path::new("/db")).unwrap().into_iter();
        entries.map(|entry| entry.name).collect::<std::collections::BTreeSet<_>>()
    };
    let before = names();
    sim.fail_sync_after(0);
    assert_eq!(family.put(b"visible", b"").unwrap_err().kind(), ErrorKind::NotDurable);
    for _ in 0..3 {
        assert_eq!(family.put(b"refused", b"").unwrap_err().kind(), ErrorKind::LogFailed);
        scheduler.run_until_idle();
    }
    assert_eq!(names(), before, "nothing was written in the pause");
    assert_eq!(db.stats().work.flush_tables_written, 0);
    db.resume_background();
    scheduler.run_until_idle();
    family.put(b"after", b"").unwrap();
    assert!(family.contains(b"visible").unwrap() && !family.contains(b"refused").unwrap());
    assert!(db.stats().work.flush_tables_written > 0);
}

/// I-298.
#[test]
fn a_pause_waits_for_a_repair_of_the_log() {
    let (db, scheduler) = open_stepped();
    let family = with_runs(&db, 0);
    family.put(b"key", b"value").unwrap();
    assert!(!db.core().storage.log.is_under_repair());
    let cause = Error::io("sync", "log", std::io::Error::other("planted"));
    db.core().storage.log.fail_for_tests(cause);
    db.core().repair_log_later();
    assert!(db.core().storage.log.is_under_repair());
    // It waits by doing what is queued.
    db.pause_background().unwrap();
    assert!(!db.core().storage.log.is_under_repair());
    assert!(family.put(b"key", b"other").is_err());
    db.resume_background();
    scheduler.run_until_idle();
    family.put(b"key", b"other").unwrap();
}

/// Each new family had the whole interval begin again.
#[test]
fn what_is_due_is_synced_however_often_intervals_change() {
    let (db, scheduler) = open_stepped();
    let every =
        |interval_us| FamilyOptions::default().sync_mode(SyncMode::Interval { interval_us });
    let family = db.create_family("family", every(1_000_000)).unwrap();
    family.put(b"key", b"value").unwrap();
    let log = &db.core().storage.log;
    assert!(log.synced() < log.published());
    for n in 0..50 {
        db.create_family(&format!("family-{n}"), every(1_000_000)).unwrap();
    }
    assert_eq!(scheduler.timers(), 1, "one that is in force goes on");
    assert!(scheduler.fire_timer());
    scheduler.run_until_idle();
    assert_eq!(log.synced(), log.published());
    // A longer one is waited for no longer than what was left, a shorter one at once.
    family.put(b"key", b"value").unwrap();
    let due = |db: &Db| lock(&db.core().work.control.sync_timer).due_nanos;
    let before = due(&db);
    for interval_us in [2_000_000, 1_500_000] {
        for name in db.family_names() {
            db.family(&name).unwrap().set_options(every(interval_us)).unwrap();
        }
        assert_eq!(due(&db), before);
    }
    family.set_options(every(1_000)).unwrap();
    assert!(due(&db) < before);
    while log.synced() < log.published() {
        assert!(scheduler.fire_timer());
        scheduler.run_until_idle();
    }
    for name in db.family_names() {
        db.family(&name).unwrap().set_options(FamilyOptions::default()).unwrap();
    }
    while scheduler.fire_timer() {
        scheduler.run_until_idle();
    }
    assert_eq!(scheduler.timers(), 0, "a timer of syncs goes on that nothing asks for");
}

/// A family that was written all the time kept the only thread of the lane to itself, and the log
/// that the others pinned grew.
#[test]
fn a_trim_of_the_log_ends_where_a_family_is_written_on_and_on() {
    const MOST_TURNS: u32 = 200;
    let sim = SimVfs::new(1);
    let options = DbOptions::default().log_segment_bytes(64 << 10);
    let (db, scheduler) = open_on(&sim, options.max_retained_log_bytes(128 << 10));
    let small = FamilyOptions::default().write_buffer_size(64 << 10).min_disk_space(0);
    let hot = db.create_family("hot", small.clone()).unwrap();
    let cold = db.create_family("cold", small).unwrap();
    hot.put(b"first", b"value").unwrap();
    cold.put(b"first", b"value").unwrap();
    let other = db.create_family("other", FamilyOptions::default()).unwrap();
    for n in 0..1000_u64 {
        other.put(&n.to_be_bytes(), &[7; 500]).unwrap();
    }
    let (turns, writer) = (Arc::new(AtomicU32::new(0)), hot.clone());
    let count = Arc::clone(&turns);
    sim.on_mutation(Some(Arc::new(move |_, mutation| {
        let begins = mutation.kind == MutationKind::Create && mutation.phase == Phase::Before;
        if begins && count.fetch_add(1, Ordering::SeqCst) < MOST_TURNS {
            for n in 0..60_u64 {
                writer.put(&n.to_be_bytes(), &[7; 500]).unwrap();
            }
        }
    })));
    db.core().trim_log();
    sim.on_mutation(None);
    let turns = turns.load(Ordering::SeqCst);
    assert!((1..MOST_TURNS).contains(&turns), "{turns} turns of one trim");
    assert!(cold.state().view.load().active.is_empty(), "the other family was not flushed");
    scheduler.run_until_idle();
    db.close().unwrap();
}
