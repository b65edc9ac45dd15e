//! Flushes in parts, and those of a cut.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tidesdb_base::error::ErrorKind;
use tidesdb_base::options::{DbOptions, FamilyOptions};
use tidesdb_sim::rng::SplitMix64;
use tidesdb_sim::{ManualClock, ManualScheduler, MutationKind, Phase, SimVfs};
use tidesdb_sys::sched::Lane;
use tidesdb_sys::vfs::Vfs;

use crate::db::{Components, Db};

/// A database whose flushes are cut into as many parts as it has threads, since its clock stands
/// still.
fn open(vfs: &Arc<SimVfs>, scheduler: &Arc<ManualScheduler>) -> Db {
    let components = Components {
        vfs: Arc::clone(vfs) as _,
        scheduler: Arc::clone(scheduler) as _,
        clock: Arc::new(ManualClock::new(1000)),
    };
    let options = DbOptions::default().log_segment_bytes(1 << 20).compaction_threads(3);
    Db::open_with("/db", options, components).unwrap()
}

fn key(n: u32) -> [u8; 4] {
    n.wrapping_mul(0x9E37_79B1).to_be_bytes()
}

#[test]
fn a_flush_in_parts_is_one_run_and_keeps_no_memory() {
    let (vfs, scheduler) = (Arc::new(SimVfs::new(1)), Arc::new(ManualScheduler::new(1)));
    let db = open(&vfs, &scheduler);
    let options = FamilyOptions::default()
        .write_buffer_size(1 << 20)
        .target_table_bytes(64 << 10)
        .klog_value_threshold(400);
    let family = db.open_family("parts", options).unwrap();
    let value = |n: u32| vec![n as u8; 100 + (n as usize % 5) * 100];
    let mut count = 0;
    while scheduler.ready_in(Lane::Flush) == 0 {
        family.put(&key(count), &value(count)).unwrap();
        count += 1;
    }
    let before = db.stats().memory.memtable_bytes;
    while scheduler.step_lane(Lane::Flush) {}
    // Three helpers were called and none came: they wait behind what else there is to merge.
    assert!(scheduler.ready_in(Lane::Compaction) >= 3);
    let view = family.state().view.load_full();
    assert!(view.frozen.is_empty());
    assert_eq!(view.version.runs.len(), 1);
    assert!(view.version.runs.iter().all(|run| run.tables.len() >= 4));
    assert!(view.version.value_logs.len() >= 4);
    drop(view);
    let after = db.stats().memory.memtable_bytes;
    assert!(after * 2 < before, "{after} bytes of memtables after a flush, {before} before");
    scheduler.run_until_idle();
    for n in 0..count {
        assert_eq!(family.get(&key(n)).unwrap(), Some(value(n)), "{n}");
    }
}

/// A database whose family `a` has a value log that commits append to and no value is needed of.
fn with_a_dead_value_log(vfs: &Arc<SimVfs>, scheduler: &Arc<ManualScheduler>) -> Db {
    let db = open(vfs, scheduler);
    let family = db.create_family("a", FamilyOptions::default()).unwrap();
    family.put(b"key", &vec![1; 1 << 20]).unwrap();
    family.delete(b"key").unwrap();
    family.flush().unwrap();
    assert_eq!(family.state().view.load().version.value_logs.len(), 1);
    db
}

/// What it had frozen was left to the next writer of the family, and kept its log.
#[test]
fn what_a_failed_cut_has_frozen_is_flushed_when_there_is_space() {
    let (vfs, scheduler) = (Arc::new(SimVfs::new(1)), Arc::new(ManualScheduler::new(1)));
    let db = open(&vfs, &scheduler);
    let options = FamilyOptions::default().klog_value_threshold(1 << 20).min_disk_space(0);
    let family = db.create_family("a", options).unwrap();
    let mut value = vec![0; 100 << 10];
    SplitMix64::new(1).fill(&mut value);
    family.put(b"key", &value).unwrap();
    scheduler.run_until_idle();
    vfs.set_capacity(Some(1 << 40));
    let used = (1 << 40) - vfs.free_bytes(Path::new("/db")).unwrap();
    vfs.set_capacity(Some(used + (8 << 10)));
    let error = db.core().consistent_files().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Full, "{error}");
    let left = || family.state().view.load().frozen.len();
    assert_eq!(left(), 1);
    scheduler.run_until_idle();
    assert_eq!(left(), 1, "there is space after all");
    vfs.set_capacity(None);
    for _ in 0..10 {
        scheduler.fire_timer();
        scheduler.run_until_idle();
    }
    assert_eq!((left(), family.state().current_version().runs.len()), (0, 1));
}

/// Nothing else looked for compactions of a family that is not written to.
#[test]
fn runs_that_a_cut_has_written_are_compacted() {
    let (vfs, scheduler) = (Arc::new(SimVfs::new(1)), Arc::new(ManualScheduler::new(1)));
    let db = open(&vfs, &scheduler);
    let options = FamilyOptions::default().l1_file_count_trigger(2);
    let family = db.create_family("a", options).unwrap();
    for n in 0..4_u8 {
        family.put(&[n % 2], &[n; 500]).unwrap();
        drop(db.core().consistent_files().unwrap());
    }
    assert_eq!(family.state().current_version().runs.len(), 4);
    scheduler.run_until_idle();
    assert_eq!(family.state().current_version().runs.len(), 1);
}

/// Nothing is missing in the next life.
fn check_reopened(vfs: &Arc<SimVfs>) {
    let copy = vfs.fork();
    let components = Components {
        vfs: copy as _,
        scheduler: Arc::new(ManualScheduler::new(1)),
        clock: Arc::new(ManualClock::new(1000)),
    };
    let db = Db::open_with("/db", DbOptions::default().read_only(true), components).unwrap();
    assert_eq!(db.verify().unwrap().problems.len(), 0);
}

/// The file was removed by a compaction between its closing and the edit that told of it, which
/// listed it again.
#[test]
fn a_value_log_that_was_removed_is_not_listed_again() {
    let (vfs, scheduler) = (Arc::new(SimVfs::new(1)), Arc::new(ManualScheduler::new(1)));
    let db = with_a_dead_value_log(&vfs, &scheduler);
    let (core, family) = (db.core(), db.family("a").unwrap());
    let closed = core.storage.close_direct_file(family.state()).unwrap();
    core.schedule_compaction(family.state());
    while scheduler.step_lane(Lane::Compaction) {}
    assert_eq!(family.state().view.load().version.value_logs.len(), 0);
    core.storage.list_closed_files(family.state(), [closed]);
    check_reopened(&vfs);
}

/// The same while a cut writes the memtables of other families.
#[test]
fn a_value_log_that_was_removed_during_a_cut_is_not_listed_again() {
    let (vfs, scheduler) = (Arc::new(SimVfs::new(1)), Arc::new(ManualScheduler::new(1)));
    let db = with_a_dead_value_log(&vfs, &scheduler);
    let other = db.create_family("b", FamilyOptions::default()).unwrap();
    other.put(b"first", b"value").unwrap();
    let (core, a) = (Arc::clone(db.core()), Arc::clone(db.family("a").unwrap().state()));
    let (steps, tables) = (Arc::clone(&scheduler), AtomicUsize::new(0));
    vfs.on_mutation(Some(Arc::new(move |_, change| {
        let is_table = change.path.extension() == Some("klog".as_ref());
        let begins = change.kind == MutationKind::Create && change.phase == Phase::After;
        if !is_table || !begins || change.path.parent() != Some(Path::new("/db")) {
            return;
        }
        match tables.fetch_add(1, Ordering::Relaxed) {
            // For the memtable that the cut freezes.
            0 => drop(other.put(b"second", b"value")),
            _ => {
                core.schedule_compaction(&a);
                while steps.step_lane(Lane::Compaction) {}
            }
        }
    })));
    db.checkpoint("/copy").unwrap();
    vfs.on_mutation(None);
    let family = db.family("a").unwrap();
    assert_eq!(family.state().view.load().version.value_logs.len(), 0);
    check_reopened(&vfs);
}
