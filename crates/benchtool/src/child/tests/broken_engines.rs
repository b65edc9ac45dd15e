//! Engines that do something wrong are caught.

use super::*;

#[test]
fn dropped_writes_are_caught() {
    for workload in WORKLOADS {
        let mut spec = spec("broken-drops", workload, Pattern::Random);
        // Reading once around meets every key; a full pass has to end by itself.
        spec.shape.operations = Some(60_000);
        spec.shape.seconds = (workload == Workload::Iter).then_some(0.0);
        // A dropped write that is overwritten before anyone reads it leaves no trace: enough are
        // dropped that some stay, and one thread does the same at every run.
        if matches!(workload, Workload::Mixed | Workload::Overwrite | Workload::Txn) {
            spec.shape.operations = Some(600_000);
            spec.shape.threads = 1;
        }
        // A deletion of a dropped write hides it, so only few of the rows are deleted.
        if workload == Workload::Delete {
            spec.shape.num = 300_000;
            spec.shape.seconds = Some(0.003);
        }
        if workload == Workload::DeleteRange {
            // One range of each thread, since the model engine looks at every row for each of them.
            spec.shape.num = 100_000;
            spec.shape.range_size = 1_000;
            spec.shape.seconds = Some(0.0);
        }
        if workload == Workload::Ttl {
            // No check misses a dropped write that had expired before: enough that some had not,
            // the same ones at every run.
            spec.shape.num = 200_000;
            spec.shape.threads = 1;
        }
        let result = run_in_memory(spec);
        assert_eq!(result.status, Status::Invalid, "{workload:?}");
        assert!(result.wrong > 0 && !result.problems.is_empty());
    }
}

#[test]
fn stale_values_are_caught() {
    for pattern in [Pattern::Zipfian, Pattern::Uniform] {
        for workload in [Workload::Write, Workload::Mixed] {
            let mut spec = spec("broken-stale", workload, pattern);
            // Whether a stale value is overwritten in time must not depend on chance.
            spec.shape.threads = 1;
            let result = run_in_memory(spec);
            assert_eq!(result.status, Status::Invalid, "{workload:?} {pattern:?}");
        }
    }
}

#[test]
fn ignored_deletes_are_caught() {
    for pattern in PATTERNS {
        let result = run_in_memory(spec("broken-deletes", Workload::Delete, pattern));
        assert_eq!(result.status, Status::Invalid, "{pattern:?}");
        assert_eq!(result.keys_visible, Some(30_000));
    }
}

#[test]
fn a_late_seek_is_caught() {
    for workload in [Workload::Seek, Workload::Range] {
        let result = run_in_memory(spec("broken-seek", workload, Pattern::Random));
        assert_eq!(result.status, Status::Invalid);
    }
}

#[test]
fn failures_and_interruptions_are_told() {
    let result = run_in_memory(spec("no-such-engine", Workload::Write, Pattern::Seq));
    assert_eq!(result.status, Status::Failed);
    let mut interrupted = spec("memory", Workload::Write, Pattern::Seq);
    let directory = tempfile::tempdir().unwrap();
    interrupted.directory = directory.path().to_path_buf();
    let result = run(&interrupted, &AtomicBool::new(true));
    assert_eq!(result.status, Status::Interrupted);
    assert_eq!(result.problems, ["ended before its work was done"]);
    assert!(result.operations[0].operations < 30_000);
    let mut tiny = spec("memory", Workload::Write, Pattern::Seq);
    tiny.shape.value_size = 3;
    assert_eq!(run_in_memory(tiny).status, Status::Failed);
}

/// A family whose only row was dropped is noticed.
#[test]
fn a_family_that_lost_its_row_is_caught() {
    for (engine, status) in [("memory", Status::Valid), ("broken-drops", Status::Invalid)] {
        let mut spec = spec(engine, Workload::Families, Pattern::Random);
        spec.shape.families = 10_001;
        let result = run_in_memory(spec);
        assert_eq!(result.status, status, "{:?}", result.problems);
    }
}
