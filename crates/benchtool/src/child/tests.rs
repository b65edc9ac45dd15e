//! Jobs on the in-memory engine: sound ones pass every check, broken ones are caught.

use super::*;
use crate::cli::default_setup;
use crate::data::keys::Layout;
use std::path::PathBuf;

fn spec(engine: &str, workload: Workload, pattern: Pattern) -> JobSpec {
    JobSpec {
        test: "test".to_owned(),
        engine: engine.to_owned(),
        repetition: 0,
        shape: Shape {
            workload,
            pattern,
            num: 30_000,
            threads: 2,
            batch: 1,
            key_size: 16,
            value_size: 100,
            range_size: 50,
            write_percent: 50,
            layout: Layout::Scattered,
            compress_ratio: 0.5,
            theta: 0.99,
            reverse: false,
            operations: Some(20_000),
            seconds: None,
            warm: false,
            seed: 1,
        },
        setup: default_setup(),
        directory: PathBuf::new(),
        loaded: false,
    }
}

fn run_in_memory(mut spec: JobSpec) -> JobResult {
    let directory = tempfile::tempdir().unwrap();
    spec.directory = directory.path().to_path_buf();
    run(&spec, &AtomicBool::new(false))
}

const WORKLOADS: [Workload; 7] = [
    Workload::Write,
    Workload::Read,
    Workload::Mixed,
    Workload::Delete,
    Workload::Seek,
    Workload::Range,
    Workload::Iter,
];
const PATTERNS: [Pattern; 4] = [Pattern::Seq, Pattern::Random, Pattern::Zipfian, Pattern::Uniform];

#[test]
fn a_sound_engine_passes_everything() {
    for workload in WORKLOADS {
        for pattern in PATTERNS {
            for (batch, reverse) in [(1, false), (7, true)] {
                let mut spec = spec("memory", workload, pattern);
                spec.shape.batch = batch;
                spec.shape.reverse = reverse;
                spec.shape.num = 5_000;
                spec.shape.seconds = (workload == Workload::Iter).then_some(0.0);
                let result = run_in_memory(spec);
                let problems = &result.problems;
                assert_eq!(result.status, Status::Valid, "{workload:?} {pattern:?} {problems:?}");
                assert!(result.throughput() > 0.0);
            }
        }
    }
}

#[test]
fn phases_that_end_early_are_still_checked() {
    for workload in [Workload::Write, Workload::Delete, Workload::Mixed] {
        for pattern in PATTERNS {
            let mut spec = spec("memory", workload, pattern);
            spec.shape.num = 200_000;
            spec.shape.operations = None;
            spec.shape.seconds = Some(0.02);
            let result = run_in_memory(spec);
            assert_eq!(result.status, Status::Valid, "{workload:?} {:?}", result.problems);
            assert_eq!(result.keys_visible, Some(result.keys_expected));
            if workload == Workload::Write {
                assert!(result.keys_expected < 200_000);
            }
        }
    }
}

#[test]
fn dropped_writes_are_caught() {
    for workload in WORKLOADS {
        let mut spec = spec("broken-drops", workload, Pattern::Random);
        // Reading once around meets every key; a full pass has to end by itself.
        spec.shape.operations = Some(60_000);
        spec.shape.seconds = (workload == Workload::Iter).then_some(0.0);
        // A dropped write that is overwritten before anyone reads it leaves no trace, which
        // happens to nearly half of them here: enough are dropped that some stay.
        if workload == Workload::Mixed {
            spec.shape.operations = Some(1_200_000);
        }
        // Deleting everything leaves nothing that could be missing.
        if workload == Workload::Delete {
            spec.shape.seconds = Some(0.003);
        }
        let result = run_in_memory(spec);
        if workload == Workload::Delete && result.keys_expected == 0 {
            continue;
        }
        assert_eq!(result.status, Status::Invalid, "{workload:?}");
        assert!(result.wrong > 0 && !result.problems.is_empty());
    }
}

#[test]
fn stale_values_are_caught() {
    for pattern in [Pattern::Zipfian, Pattern::Uniform] {
        for workload in [Workload::Write, Workload::Mixed] {
            let result = run_in_memory(spec("broken-stale", workload, pattern));
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
    assert!(result.operations[0].operations < 30_000);
    let mut tiny = spec("memory", Workload::Write, Pattern::Seq);
    tiny.shape.value_size = 3;
    assert_eq!(run_in_memory(tiny).status, Status::Failed);
}

#[test]
fn amplification_follows_from_known_counters() {
    let spec = spec("memory", Workload::Write, Pattern::Seq);
    let dataset = Dataset::new(&spec.shape).unwrap();
    let engine = engines::open(&spec).unwrap();
    let interrupted = AtomicBool::new(false);
    let outcome = measured_phase(engine.as_ref(), &dataset, &interrupted).unwrap();
    let user_bytes = 30_000 * 116;
    let stats = |bytes, syncs| EngineStats {
        log_bytes: Some(bytes),
        flush_bytes: Some(bytes / 2),
        compaction_bytes: Some(0),
        log_syncs: Some(syncs),
        resolution_bytes: 1,
    };
    let sample = |written_bytes, cpu_user| Sample { written_bytes, cpu_user, ..Sample::default() };
    let marks = Marks {
        base: sample(0, 0.0),
        before: sample(1_000, 1.0),
        after: sample(2_000, 2.0),
        settled: sample(1_000 + 2 * user_bytes, 3.5),
        stats_before: stats(100, 5),
        stats_after: stats(100 + 2 * user_bytes, 15),
        settle: Duration::from_secs(2),
        open: Duration::ZERO,
        peak_anonymous: 7,
    };
    let result = summarise(&spec, &outcome, &marks);
    assert_eq!(result.user_bytes, user_bytes);
    assert_eq!(result.write_amplification, Some(2.0));
    assert_eq!(result.engine_write_amplification, Some(3.0));
    assert_eq!(result.commits_per_sync, Some(3_000.0));
    assert_eq!((result.cpu_user, result.settle), (2.5, 2.0));
    assert_eq!(result.operations[0].operations, 30_000);
}
