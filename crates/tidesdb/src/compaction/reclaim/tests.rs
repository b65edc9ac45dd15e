//! Where tables lie that were written anew.

mod shared;
mod unreadable;

use tidesdb_base::options::{DbOptions, FamilyOptions};
use tidesdb_sim::rng::SplitMix64;
use tidesdb_sim::{CallRecord, FaultError, FaultKind, FaultVfs, OpSet, SimVfs};

use super::*;
use crate::db::{Components, Db};
use crate::handles::Family;

fn put(family: &Family, prefix: char, random: &mut SplitMix64) {
    for n in 0..300 {
        let mut value = vec![0; 100];
        random.fill(&mut value);
        family.put(format!("{prefix}{n:03}"), value).unwrap();
    }
}

/// A compaction moves tables that overlap nothing. What is left of them later belongs where they
/// are, not where they were written: there it would lie above what is newer.
#[test]
fn what_is_left_of_a_moved_table_stays_in_its_run() {
    let db = Db::open_with("/db", DbOptions::default(), Components::simulated()).unwrap();
    let options = FamilyOptions::default().target_table_bytes(8 << 10);
    let family = db.create_family("family", options).unwrap();
    let mut random = SplitMix64::new(1);
    put(&family, 'a', &mut random);
    family.flush().unwrap();
    put(&family, 'a', &mut random);
    put(&family, 'z', &mut random);
    family.flush().unwrap();
    family.compact().unwrap();
    let state = family.state();
    let places = || -> Vec<_> { state.current_version().runs.iter().map(Run::place).collect() };
    let is_moved = |run: &Run| {
        let mut tables = run.tables.iter();
        tables.any(|table| (table.record.level, table.record.run) != run.place())
    };
    assert!(state.current_version().runs.iter().any(is_moved), "nothing was put to the test");
    let bytes = || state.current_version().tables().map(|table| table.record.bytes).sum::<u64>();
    // Most keys of each table, so that it is worth to be written anew.
    for n in (0..300).filter(|n| n % 10 > 0) {
        family.delete(format!("z{n:03}")).unwrap();
    }
    family.flush().unwrap();
    let (before, full) = (places(), bytes());
    db.core().reclaim_tables(state).unwrap();
    assert!(bytes() < full, "nothing was written anew");
    let places = places();
    assert!(places.iter().all(|place| before.contains(place)), "{before:?} {places:?}");
    assert_eq!(family.iter().unwrap().entries().count(), 330);
}

/// The older table gains too little to be written anew, and still has what was deleted.
#[test]
fn a_tombstone_stays_above_a_table_that_has_its_key() {
    let db = Db::open_with("/db", DbOptions::default(), Components::simulated()).unwrap();
    let options = FamilyOptions::default().l1_file_count_trigger(100);
    let family = db.create_family("family", options).unwrap();
    let mut random = SplitMix64::new(1);
    put(&family, 'a', &mut random);
    family.flush().unwrap();
    for key in ["a010", "a150", "a299"] {
        family.delete(key).unwrap();
    }
    put(&family, 'b', &mut random);
    family.flush().unwrap();
    put(&family, 'b', &mut random);
    family.flush().unwrap();
    let state = family.state();
    let numbers = || -> Vec<_> {
        state.current_version().tables().map(|table| table.record.number).collect()
    };
    let before = numbers();
    db.core().reclaim_tables(state).unwrap();
    let after = numbers();
    assert_eq!((before.len(), after.len()), (3, 3));
    let kept: Vec<_> = (0..3).map(|at| before.get(at) == after.get(at)).collect();
    assert_eq!(kept, [true, false, true], "only what lies between is written anew");
    assert_eq!(family.get("a150").unwrap(), None);
    assert_eq!(family.iter().unwrap().entries().count(), 597);
}

/// A database whose compaction ends when the manifest is written at call `failing`: of two runs
/// with the same keys the newer one is a single table.
fn compacted_until(failing: Option<u64>) -> (Db, Family, Vec<u64>) {
    let faults = FaultVfs::new(SimVfs::new(1) as _);
    let components = Components { vfs: Arc::clone(&faults) as _, ..Components::simulated() };
    let db = Db::open_with("/db", DbOptions::default(), components).unwrap();
    let options = FamilyOptions::default().target_table_bytes(4 << 10).block_size(512);
    let family = db.create_family("family", options.clone()).unwrap();
    let mut random = SplitMix64::new(1);
    ('a'..='h').for_each(|prefix| put(&family, prefix, &mut random));
    family.flush().unwrap();
    family.compact().unwrap();
    family.set_options(options.clone().target_table_bytes(1 << 20)).unwrap();
    ('a'..='h').for_each(|prefix| put(&family, prefix, &mut random));
    family.flush().unwrap();
    family.set_options(options).unwrap();
    faults.count_only(OpSet::CHANGES);
    faults.reset();
    faults.record(true);
    if let Some(call) = failing {
        faults.fail_call(call, FaultKind::Once, FaultError::IO);
    }
    assert_eq!(family.compact().is_err(), failing.is_some());
    let of_manifest = |record: &&CallRecord| record.path.to_string_lossy().contains("MANIFEST");
    let calls = faults.records().iter().filter(of_manifest).map(|record| record.index).collect();
    faults.clear_faults();
    (db, family, calls)
}

/// The tables of the output drop what a newer run has: gets look there.
#[test]
fn what_is_dropped_from_an_interrupted_compaction_is_found_above_it() {
    let (_, _, calls) = compacted_until(None);
    let (db, family, _) = compacted_until(calls.last().copied());
    let state = family.state();
    let version = state.current_version();
    assert_eq!(version.runs.len(), 2, "nothing was put to the test");
    drop(version);
    db.core().reclaim_tables(state).unwrap();
    for key in ('a'..='h').flat_map(|prefix| (0..300).map(move |n| format!("{prefix}{n:03}"))) {
        assert!(family.get(&key).unwrap().is_some(), "{key}");
    }
}
