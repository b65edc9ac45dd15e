//! Whose failure is whose, and who makes way for whom.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidesdb_base::error::{Error, ErrorKind};
use tidesdb_base::options::{DbOptions, FamilyOptions};
use tidesdb_lockfree::sync::lock;
use tidesdb_sys::clock::ManualClock;
use tidesdb_sys::sched::ManualScheduler;
use tidesdb_sys::vfs::SimVfs;

use crate::compaction::plan::Pace;
use crate::db::{Components, Db};
use crate::family::Family;

fn open() -> Db {
    let components = Components {
        vfs: SimVfs::new(1),
        scheduler: Arc::new(ManualScheduler::new(1)),
        clock: Arc::new(ManualClock::new(1000)),
    };
    Db::open_with("/db", DbOptions::default(), components).unwrap()
}

fn with_runs(db: &Db, runs: u8) -> Family {
    let options = FamilyOptions { min_disk_space: 0, ..FamilyOptions::default() };
    let family = db.create_family("family", options).unwrap();
    for value in 0..runs {
        family.put(b"key", &[value]).unwrap();
        family.flush().unwrap();
    }
    family
}

/// Merges of a family that is written without a pause held its lock one after the other: a caller who
/// wanted one got no turn.
#[test]
fn merges_make_way_for_one_that_a_caller_waits_for() {
    let db = open();
    let family = with_runs(&db, 3);
    let (core, state) = (db.core(), family.state());
    let runs = || state.current_version().runs.len();
    state.merges_waiting.store(1, Ordering::Relaxed);
    core.run_merges(state, Pace::Quiet);
    assert_eq!(runs(), 3);
    state.merges_waiting.store(0, Ordering::Relaxed);
    core.run_merges(state, Pace::Quiet);
    assert_eq!(runs(), 1);
    assert_eq!(family.get(b"key").unwrap(), Some(vec![2]));
}

/// A merge that failed while a caller waited for a flush made the flush fail, and one that failed
/// before a flush worked was not told to anybody.
#[test]
fn a_failed_merge_is_no_failure_of_a_flush_and_is_told_after_one() {
    let db = open();
    let family = with_runs(&db, 1);
    let state = family.state();
    family.put(b"key", b"next").unwrap();
    db.core().freeze(state, 0);
    let damaged = || Error::corruption("table", 7, "it is damaged");
    *lock(&state.merge_error) = Some(damaged());
    family.flush().unwrap();
    assert_eq!(db.wait_idle().unwrap_err().kind(), ErrorKind::Corrupt);
    db.wait_idle().unwrap();
    *lock(&state.merge_error) = Some(damaged());
    db.close().unwrap();
}
