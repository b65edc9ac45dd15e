//! Compactions that a failing call ends: what is left of them.

use tidesdb_sim::{CallRecord, FaultError, FaultKind, FaultVfs, OpSet};

use super::*;

/// What is left when one call of a compaction fails. Returns those that write the manifest.
fn compact_with(failing: Option<u64>) -> Vec<u64> {
    let sim = SimVfs::new(1);
    let faults = FaultVfs::new(Arc::clone(&sim) as _);
    let (db, _scheduler) = open_on(Arc::clone(&faults) as _);
    let family = db.create_family("family", family_options()).unwrap();
    let model = equal_runs(&family, 300);
    faults.count_only(OpSet::CHANGES);
    faults.reset();
    faults.record(true);
    if let Some(call) = failing {
        faults.fail_call(call, FaultKind::Once, FaultError::IO);
    }
    let compacted = family.compact();
    assert_eq!(compacted.is_err(), failing.is_some(), "call {failing:?}: {compacted:?}");
    let is_edit = |record: &&CallRecord| record.path.to_string_lossy().contains("MANIFEST");
    let edits = faults.records().iter().filter(is_edit).map(|record| record.index).collect();
    faults.clear_faults();
    assert!(contents(&family, None) == model, "call {failing:?}");
    drop((family, db));
    let (db, _scheduler) = open(&sim);
    assert!(contents(&db.family("family").unwrap(), None) == model, "call {failing:?}");
    deep_check(&db, sim.as_ref(), Path::new("/db")).unwrap();
    edits
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
