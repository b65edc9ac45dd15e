//! Plans and the versions that they are made for.

use std::sync::Arc;

use tidesdb_base::compress::Compression;
use tidesdb_base::error::Error;
use tidesdb_base::options::{DbOptions, FamilyOptions};
use tidesdb_sim::{ManualClock, ManualScheduler, SimVfs};

use crate::compaction::plan;
use crate::compaction::state::summarize;
use crate::db::{Components, Db};
use crate::output::key_partitions::KeySpan;
use crate::version::LivenessRules;

#[test]
fn a_plan_for_other_runs_is_refused_and_changes_nothing() {
    let scheduler = Arc::new(ManualScheduler::new(1));
    let components = Components {
        vfs: SimVfs::new(1),
        scheduler: Arc::clone(&scheduler) as _,
        clock: Arc::new(ManualClock::new(1000)),
    };
    let db = Db::open_with("/db", DbOptions::default(), components).unwrap();
    let family = db.open_family("plans", FamilyOptions::default()).unwrap();
    let state = family.state();
    let flushed = |value: &[u8]| {
        family.put(b"key", value).unwrap();
        family.flush().unwrap();
        state.current_version()
    };
    let (one, two, three) = (flushed(b"1"), flushed(b"2"), flushed(b"3"));
    assert_eq!([one.runs.len(), two.runs.len(), three.runs.len()], [1, 2, 3]);
    let options = state.options.load();
    // What a flush between reading the version and planning would do, in all its forms: more runs
    // than there are, as many as there are, and fewer.
    for (version, planned_from, count) in [(&one, &three, 2), (&two, &three, 2), (&two, &three, 1)]
    {
        let plan = plan::compact_newest(
            &summarize(planned_from, &options, LivenessRules::default()),
            count,
        )
        .unwrap();
        let result =
            db.core().compact_runs(state, Arc::clone(version), plan, &KeySpan::default(), u64::MAX);
        assert!(matches!(result, Err(Error::Internal(_))), "{plan:?}: {result:?}");
    }
    assert_eq!(state.current_version().runs.len(), 3);
    let plan =
        plan::compact_newest(&summarize(&three, &options, LivenessRules::default()), 3).unwrap();
    db.core().compact_runs(state, Arc::clone(&three), plan, &KeySpan::default(), u64::MAX).unwrap();
    assert_eq!(state.current_version().runs.len(), 1);
    assert_eq!(family.get(b"key").unwrap().as_deref(), Some(&b"3"[..]));
}

/// A compaction that empties a value log looked at the option alone, which may ask for values of
/// any size in tables: the block was as large as the value.
#[test]
fn large_values_that_a_compaction_takes_out_of_a_value_log_go_to_another() {
    let db = Db::open_with("/db", DbOptions::default(), Components::simulated()).unwrap();
    let options = FamilyOptions::default()
        .klog_value_threshold(1 << 30)
        .min_disk_space(0)
        .compression(Compression::None);
    let family = db.create_family("values", options).unwrap();
    let value = |n: u8| vec![n; 3 << 20];
    for n in 0..4 {
        family.put(&[n + 1], &value(n)).unwrap();
    }
    family.flush().unwrap();
    (1..4).for_each(|n| family.delete(&[n + 1]).unwrap());
    family.flush().unwrap();
    let logs = || family.state().current_version().value_logs.keys().copied().collect::<Vec<_>>();
    let before = logs();
    family.compact().unwrap();
    let after = logs();
    assert!(after.iter().all(|log| !before.contains(log)), "nothing was put to the test");
    let version = family.state().current_version();
    let tables: u64 = version.tables().map(|table| table.record.bytes).sum();
    assert!(tables < 64 << 10 && after.len() == 1, "{tables} bytes of tables, logs {after:?}");
    assert_eq!(family.get(&[1]).unwrap(), Some(value(0)));
}

/// The first of the inputs was set aside, and the damaged one was compacted again and again.
#[test]
fn of_the_inputs_the_one_that_holds_another_number_of_versions_is_set_aside() {
    let db = Db::open_with("/db", DbOptions::default(), Components::simulated()).unwrap();
    let family = db.create_family("counts", FamilyOptions::default()).unwrap();
    let state = family.state();
    for run in 0..3_u8 {
        (0..10).for_each(|n| family.put(&[n], &[run]).unwrap());
        family.flush().unwrap();
    }
    let version = state.current_version();
    let summary = summarize(&version, &state.options.load(), LivenessRules::default());
    let plan = plan::compact_newest(&summary, 3).unwrap();
    let tables: Vec<_> = version.tables().cloned().collect();
    assert_eq!(tables.len(), 3);
    for guilty in &tables {
        let all = KeySpan::default();
        let job = db.core().prepare_compaction(state, &version, plan, &all, u64::MAX).unwrap();
        let missing = |number| u64::from(number == guilty.record.number);
        let read = tables.iter().map(|table| {
            (table.record.number, table.record.entries - missing(table.record.number))
        });
        job.note_read(read.collect());
        let error = job.check_read(&tables).unwrap_err();
        let Error::Corruption { file, .. } = &error else { panic!("{error}") };
        assert_eq!(&**file, guilty.path());
        version.set_aside(&error);
        assert!(guilty.is_damaged());
        let damaged = tables.iter().filter(|table| table.is_damaged()).count();
        assert_eq!(damaged, 1 + tables.iter().position(|table| table.path() == &**file).unwrap());
    }
}
