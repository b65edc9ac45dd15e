//! Compactions that a failing call ends: what is left of them, and what gets look into then.

use tidesdb_sim::{CallRecord, FaultError, FaultKind, FaultVfs, OpSet};

use super::*;

/// Compacts until the call `failing` fails. Returns the calls that write the manifest.
fn edits_until(
    faults: &FaultVfs,
    failing: Option<u64>,
    compact: impl FnOnce() -> tidesdb::Result<()>,
) -> Vec<u64> {
    faults.count_only(OpSet::CHANGES);
    faults.reset();
    faults.record(true);
    if let Some(call) = failing {
        faults.fail_call(call, FaultKind::Once, FaultError::IO);
    }
    let compacted = compact();
    assert_eq!(compacted.is_err(), failing.is_some(), "call {failing:?}: {compacted:?}");
    let is_edit = |record: &&CallRecord| record.path.to_string_lossy().contains("MANIFEST");
    let edits = faults.records().iter().filter(is_edit).map(|record| record.index).collect();
    faults.clear_faults();
    edits
}

/// What is left when one call of a compaction fails. Returns those that write the manifest.
fn compact_with(failing: Option<u64>) -> Vec<u64> {
    let sim = SimVfs::new(1);
    let faults = FaultVfs::new(Arc::clone(&sim) as _);
    let (db, _scheduler) = open_on(Arc::clone(&faults) as _);
    let family = db.create_family("family", family_options()).unwrap();
    let model = equal_runs(&family, 300);
    let edits = edits_until(&faults, failing, || family.compact());
    assert!(contents(&family, None) == model, "call {failing:?}");
    drop((family, db));
    let (db, _scheduler) = open(&sim);
    assert!(contents(&db.family("family").unwrap(), None) == model, "call {failing:?}");
    deep_check(&db, sim.as_ref(), Path::new("/db")).unwrap();
    edits
}

/// Filters that gets of a hundred keys from `first` on ask, for each.
fn asked_by_each(family: &Family, model: &Model, first: u64) -> f64 {
    let before = family.stats().reads.filters_asked;
    for key in (first..first + 100).map(u64::to_be_bytes) {
        assert_eq!(family.get(&key).unwrap().as_ref(), model.get(key.as_slice()));
    }
    (family.stats().reads.filters_asked - before) as f64 / 100.0
}

/// Compacts runs of which all but the oldest have one table until the call `failing` fails. Returns
/// the calls that write the manifest, and what gets of the lowest and the highest keys ask.
fn asked_after(failing: Option<u64>) -> (Vec<u64>, [f64; 2]) {
    const KEYS: u64 = 300;
    let sim = SimVfs::new(1);
    let faults = FaultVfs::new(Arc::clone(&sim) as _);
    let (db, _scheduler) = open_on(Arc::clone(&faults) as _);
    let family = db.create_family("family", family_options()).unwrap();
    let mut model = equal_runs(&family, KEYS);
    family.compact().unwrap();
    family.set_options(family_options().target_table_bytes(1 << 20)).unwrap();
    for run in 1..RUNS {
        for key in (run..KEYS * RUNS).step_by(10).map(u64::to_be_bytes) {
            family.put(&key, b"new").unwrap();
            model.insert(key.to_vec(), b"new".to_vec());
        }
        family.flush().unwrap();
    }
    family.set_options(family_options()).unwrap();
    let edits = edits_until(&faults, failing, || family.compact());
    let asked = [0, KEYS * RUNS - 100].map(|first| asked_by_each(&family, &model, first));
    (edits, asked)
}

/// Tables of newer runs stay as long as they reach beyond what is merged.
#[test]
fn gets_look_for_what_is_merged_in_the_oldest_run_alone() {
    let (edits, asked) = asked_after(None);
    assert_eq!(asked, [1.0, 1.0]);
    let (_, before) = asked_after(edits.first().copied());
    let (_, asked) = asked_after(edits.get(edits.len() / 2).copied());
    assert!(before[0] > 3.0 && before[1] > 3.0, "{before:?}");
    assert_eq!(asked, [1.0, before[1]]);
}

/// An edit that fails may be on the disk or not: the inputs stay until it is known to be.
#[test]
fn inputs_stay_where_an_edit_of_a_compaction_fails() {
    let edits = compact_with(None);
    assert!(edits.len() >= 4, "few edits: {edits:?}");
    for call in edits {
        compact_with(Some(call));
    }
}
