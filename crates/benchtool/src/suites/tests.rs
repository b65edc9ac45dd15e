//! The tables are consistent, and every suite catches engines that lie.

use super::*;
use crate::child;
use crate::spec::{JobSpec, Status};
use presets::ALL_PROFILES;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

#[test]
fn suites_have_distinct_tests_that_end() {
    for name in names() {
        for profile in ALL_PROFILES {
            let tests = tests(name, profile, 0.01);
            assert!(!tests.is_empty(), "{name}");
            let distinct: BTreeSet<&str> = tests.iter().map(|test| test.name.as_str()).collect();
            assert_eq!(distinct.len(), tests.len(), "{name}");
            for test in &tests {
                let shape = &test.shape;
                let ends = shape.seconds.is_some()
                    || shape.operations.is_some()
                    || matches!(
                        shape.workload,
                        Workload::Write | Workload::Delete | Workload::DeleteRange | Workload::Iter
                    );
                assert!(ends && shape.num > 0, "{name} {}", test.name);
                let small = Shape { num: 100, spare: 10, value_size: 100, ..shape.clone() };
                let dataset = crate::workload::Dataset::new(&small);
                assert!(dataset.is_ok(), "{name} {}: {dataset:?}", test.name);
            }
        }
    }
    assert!(tests("nothing", Profile::Quick, 1.0).is_empty());
}

/// Data that is larger than memory stays so when it is scaled down.
#[test]
fn memory_shrinks_with_the_data() {
    let bytes = |test: &Test| test.shape.num * (test.shape.key_size + test.shape.value_size) as u64;
    for scale in [1.0, 0.25] {
        for test in tests("ltm", Profile::Quick, scale) {
            let limit = test.setup.memory_limit.unwrap();
            assert!(bytes(&test) > limit * 3 / 2, "{} at {scale}: {limit}", test.name);
            assert!(test.setup.cache + test.setup.memtable * 4 <= limit, "{}", test.name);
        }
    }
}

/// What the profiles promise for two engines on two cores.
#[test]
fn the_core_suite_fits_its_profiles() {
    let quick = budget(&tests("core", Profile::Quick, 1.0), 2) / 60.0;
    let standard = budget(&tests("core", Profile::Standard, 1.0), 2) / 60.0;
    assert!(quick < 10.0, "{quick} minutes");
    assert!(standard < 45.0, "{standard} minutes");
    assert!(quick > 3.0 && standard > 20.0, "the rows became too short: {quick}, {standard}");
}

#[test]
fn presets_are_possible() {
    for (name, ..) in presets::PRESETS {
        let shape = presets::shape(name, 5_000).unwrap();
        assert!(crate::workload::Dataset::new(&shape).is_ok(), "{name}");
    }
}

/// A test of a suite, cut down to what runs in a moment but is large enough for one write in ten
/// thousand to be dropped.
fn cut_down(test: &Test, engine: &str, directory: &std::path::Path) -> JobSpec {
    let shape = &test.shape;
    let num = 10_400;
    let scans = matches!(shape.workload, Workload::Range) || shape.mix.scan > 0;
    // Every key is met, a permutation being one; a range of a thousand meets many at once.
    // Of large transactions fewer: they write each key ten times still.
    let operations = if scans { 1_000 } else { 12_000 / (shape.txn_size / 10).max(1) };
    let full_pass = shape.workload == Workload::Iter;
    let shape = Shape {
        num,
        spare: if shape.spare > 0 { 2_000 } else { 0 },
        value_size: shape.value_size.min(100),
        key_size: 16,
        operations: (!full_pass).then_some(operations),
        seconds: full_pass.then_some(0.0),
        // With one thread, what a broken engine does and whether it shows follow from the seed
        // alone.
        threads: match engine {
            "memory" => shape.threads.min(2 + shape.writers),
            _ => 1 + shape.writers,
        },
        families: shape.families.min(16),
        warm: false,
        ..shape.clone()
    };
    JobSpec {
        test: test.name.clone(),
        engine: engine.to_owned(),
        repetition: 0,
        shape,
        setup: Setup { tree_tables: false, ..Setup::default() },
        directory: directory.to_path_buf(),
        loaded: false,
        record: None,
        replay: None,
        control_group: None,
        wait_for_kill: false,
    }
}

/// What became of a job; many suites have tests that are the same once they are cut down.
fn outcome(test: &Test, engine: &str) -> (Status, Vec<String>) {
    static KNOWN: Mutex<BTreeMap<String, (Status, Vec<String>)>> = Mutex::new(BTreeMap::new());
    let directory = tempfile::tempdir().unwrap();
    let spec = cut_down(test, engine, directory.path());
    let key = format!("{engine} {:?}", spec.shape);
    if let Some(known) = KNOWN.lock().unwrap().get(&key) {
        return known.clone();
    }
    let result = child::run(&spec, &AtomicBool::new(false));
    let outcome = (result.status, result.problems);
    KNOWN.lock().unwrap().insert(key, outcome.clone());
    outcome
}

/// Name, status and problems of each test of a suite, run as they are asked for.
fn statuses(
    suite: &str,
    engine: &str,
    wanted: fn(&Test) -> bool,
) -> impl Iterator<Item = (String, Status, Vec<String>)> + use<> {
    let engine = engine.to_owned();
    let run = move |test: Test| {
        let (status, problems) = outcome(&test, &engine);
        (test.name, status, problems)
    };
    possible(suite).filter(wanted).map(run)
}

/// Killing a process needs the program; checkpoints need files: `tests/program.rs` has these.
fn possible(suite: &str) -> impl Iterator<Item = Test> + use<> {
    let needs_more = |test: &Test| {
        matches!(test.shape.workload, Workload::Recover | Workload::Checkpoint | Workload::Reopen)
    };
    tests(suite, Profile::Quick, 1.0).into_iter().filter(move |test| !needs_more(test))
}

/// In two threads: with one, it would take as long as all other tests together.
#[test]
fn a_sound_engine_passes_every_suite() {
    let all = names().into_iter().flat_map(|suite| possible(suite).map(move |test| (suite, test)));
    let rest = Mutex::new(all);
    let passes = || {
        let next = || rest.lock().unwrap().next();
        while let Some((suite, test)) = next() {
            let (status, problems) = outcome(&test, "memory");
            assert_eq!(status, Status::Valid, "{suite} {}: {problems:?}", test.name);
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(passes);
        passes();
    });
}

/// Whether a test of a suite notices, chance excluded: tests with writers beside readers do not
/// count.
fn caught(suite: &str, engine: &str) -> bool {
    let alone = |test: &Test| test.shape.writers == 0;
    statuses(suite, engine, alone).any(|row| row.1 == Status::Invalid)
}

#[test]
fn every_suite_catches_dropped_writes() {
    for suite in names() {
        assert!(caught(suite, "broken-drops"), "{suite}");
    }
}

#[test]
fn every_suite_that_overwrites_catches_stale_values() {
    for suite in names() {
        let overwrites = tests(suite, Profile::Quick, 1.0).iter().any(|test| {
            let shape = &test.shape;
            shape.mix.update > 0 && shape.workload == Workload::Mixed
                || matches!(shape.workload, Workload::Overwrite | Workload::Txn)
                || shape.workload == Workload::Write && shape.pattern.draws()
        });
        assert_eq!(caught(suite, "broken-stale"), overwrites, "{suite}");
    }
}

#[test]
fn every_suite_that_deletes_catches_hidden_deletes() {
    for suite in names() {
        let deletes = tests(suite, Profile::Quick, 1.0).iter().any(|test| {
            matches!(test.shape.workload, Workload::Delete | Workload::DeleteRange)
                || test.shape.workload == Workload::Mixed && test.shape.mix.delete > 0
        });
        assert_eq!(caught(suite, "broken-deletes"), deletes, "{suite}");
    }
}

#[test]
fn lost_updates_and_late_expiry_are_caught() {
    assert!(caught("txn", "broken-updates"));
    assert!(caught("deletes", "broken-expiry"));
}

#[test]
fn names_match_with_stars() {
    assert!(is_named("write_b1", "write") && is_named("read_zipf", "read_*"));
    assert!(is_named("sync_b1_t8", "*_t8") && is_named("sync_b1_t8", "s*_b1*"));
    assert!(!is_named("write_read_x", "read_*") && !is_named("write_t8_b", "*_t8"));
}
