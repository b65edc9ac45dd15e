//! Jobs on the in-memory engine: sound ones pass every check, broken ones are caught.

use super::phases::run as run_phase;
use super::summary::{describe, hit_share};
use super::*;
use crate::data::keys::Layout;
use crate::measure::recorder::Recorder;
use crate::measure::series::Kind;
use crate::spec::{Isolation, Mix, Overlap, Pattern, RowCount, Setup, Sizes};
use std::path::PathBuf;

mod broken_engines;
mod derived_metrics;

fn spec(engine: &str, workload: Workload, pattern: Pattern) -> JobSpec {
    let shape = Shape {
        workload,
        pattern,
        num: 30_000,
        threads: 2,
        range_size: 50,
        operations: Some(20_000),
        seed: 1,
        ..Shape::default()
    };
    job(engine, shape)
}

fn job(engine: &str, shape: Shape) -> JobSpec {
    JobSpec {
        test: "test".to_owned(),
        engine: engine.to_owned(),
        repetition: 0,
        shape,
        setup: Setup::default(),
        directory: PathBuf::new(),
        loaded: false,
        record: None,
        replay: None,
        control_group: None,
        wait_for_kill: false,
    }
}

fn run_in_memory(mut spec: JobSpec) -> JobResult {
    let directory = tempfile::tempdir().unwrap();
    spec.directory = directory.path().to_path_buf();
    run(&spec, &AtomicBool::new(false))
}

const WORKLOADS: [Workload; 13] = [
    Workload::Write,
    Workload::Read,
    Workload::Mixed,
    Workload::Delete,
    Workload::Seek,
    Workload::Range,
    Workload::Iter,
    Workload::Overwrite,
    Workload::Multiget,
    Workload::WriteThenRead,
    Workload::Txn,
    Workload::Ttl,
    Workload::DeleteRange,
];
const PATTERNS: [Pattern; 13] = [
    Pattern::Seq,
    Pattern::SeqGlobal,
    Pattern::Reverse,
    Pattern::Random,
    Pattern::Sweep,
    Pattern::Zipfian,
    Pattern::ZipfSeed,
    Pattern::Uniform,
    Pattern::Latest,
    Pattern::Hotspot,
    Pattern::Exponential,
    Pattern::Prefix,
    Pattern::Mixgraph,
];

/// Every share of a mixed workload, with and without writers of their own, and room to insert.
#[test]
fn every_mix_is_checked_and_passes() {
    let everything = Mix { insert: 10, update: 15, modify: 10, delete: 10, scan: 15 };
    let reads = Mix::updates(0);
    let scans = Mix { scan: 60, ..reads };
    for (mix, writers, batch) in
        [(everything, 0, 1), (everything, 0, 7), (reads, 1, 20), (scans, 2, 5)]
    {
        for pattern in PATTERNS {
            for layout in [Layout::Dense, Layout::Scattered, Layout::Clustered] {
                let base = spec("memory", Workload::Mixed, pattern);
                let shape = Shape {
                    mix,
                    writers,
                    batch,
                    layout,
                    num: 4_000,
                    spare: 1_000,
                    operations: Some(3_000),
                    threads: 3,
                    missing: if layout == Layout::Scattered { 20 } else { 0 },
                    range_rows: RowCount::Uniform,
                    reverse: batch == 7,
                    value_min: 12,
                    value_sizes: Sizes::Pareto,
                    ..base.shape
                };
                let result = run_in_memory(job("memory", shape));
                let problems = &result.problems;
                assert_eq!(result.status, Status::Valid, "{mix:?} {pattern:?} {problems:?}");
                assert_eq!(result.keys_visible, Some(result.keys_expected));
                let first = result.operations[0].operation.as_str();
                assert_eq!(first, if writers > 0 { "GET" } else { "PUT" }, "{mix:?}");
            }
        }
    }
}

/// Our engine gives the same answers as a program in Rust uses it and with transactions alone.
#[test]
fn both_ways_to_use_our_engine_pass_every_workload() {
    for name in [crate::ours::NAME, crate::ours::TRANSACTIONS] {
        for workload in WORKLOADS {
            let base = spec(name, workload, Pattern::Random);
            let alone = [Workload::Write, Workload::Read, Workload::Overwrite, Workload::Delete];
            let families = if alone.contains(&workload) { 2 } else { 1 };
            let shape = Shape { num: 2_000, operations: Some(500), families, ..base.shape };
            let result = run_in_memory(job(name, shape));
            let (status, problems) = (result.status, &result.problems);
            if name == crate::ours::TRANSACTIONS && workload == Workload::DeleteRange {
                assert_eq!(status, Status::Skipped, "{problems:?}");
                continue;
            }
            assert_eq!(status, Status::Valid, "{name} {workload:?}: {problems:?}");
            let visible = result.keys_visible.unwrap_or(result.keys_expected);
            assert_eq!(visible, result.keys_expected, "{name} {workload:?}");
        }
    }
}

#[test]
fn families_are_told_apart() {
    for workload in [Workload::Write, Workload::Read, Workload::Overwrite, Workload::Delete] {
        for pattern in [Pattern::Random, Pattern::Uniform] {
            let mut spec = spec("memory", workload, pattern);
            spec.shape.families = 7;
            spec.shape.num = 5_000;
            let result = run_in_memory(spec);
            assert_eq!(result.status, Status::Valid, "{workload:?} {:?}", result.problems);
        }
    }
    let mut spec = spec("memory", Workload::Families, Pattern::Random);
    spec.shape.families = 20;
    let result = run_in_memory(spec);
    assert_eq!(result.status, Status::Valid, "{:?}", result.problems);
    let names: Vec<&str> = result.operations.iter().map(|o| o.operation.as_str()).collect();
    assert_eq!(names, ["CF_CREATE", "PUT", "GET", "CF_DROP"]);
    assert!(result.operations.iter().all(|operation| operation.operations == 20));
}

#[test]
fn transactions_conflict_and_lose_nothing() {
    let transact = |engine: &str, isolation, overlap| {
        let base = spec(engine, Workload::Txn, Pattern::Uniform);
        let shape = Shape { isolation, overlap, txn_size: 2, threads: 4, ..base.shape };
        run_in_memory(job(engine, shape))
    };
    for (engine, status) in [("memory", Status::Valid), ("broken-drops", Status::Invalid)] {
        let base = spec(engine, Workload::Write, Pattern::Random);
        let batched = Shape { in_transactions: true, batch: 10, threads: 4, ..base.shape };
        let result = run_in_memory(job(engine, batched));
        assert_eq!((result.status, result.conflicts), (status, 0), "{:?}", result.problems);
    }
    let disjoint = transact("memory", Isolation::Snapshot, Overlap::Disjoint);
    assert_eq!((disjoint.status, disjoint.conflicts), (Status::Valid, 0));
    for isolation in [Isolation::ReadCommitted, Isolation::Snapshot] {
        let hot = transact("memory", isolation, Overlap::Hot);
        assert_eq!(hot.status, Status::Valid, "{:?}", hot.problems);
    }
    let lost = transact("broken-updates", Isolation::Snapshot, Overlap::Hot);
    assert_eq!(lost.status, Status::Invalid);
}

#[test]
fn absent_keys_are_not_found_and_rates_are_kept() {
    let mut absent = spec("memory", Workload::Read, Pattern::Uniform);
    absent.shape.missing = 100;
    let result = run_in_memory(absent);
    assert_eq!((result.status, result.not_found), (Status::Valid, 20_000));
    let mut slow = spec("memory", Workload::Read, Pattern::Uniform);
    slow.shape.pace.rate = Some(2_000.0);
    slow.shape.operations = Some(200);
    // A thread that is held up catches up, so only a stall of a second would make it slower.
    let rates = || {
        let throughput = run_in_memory(slow.clone()).throughput();
        assert!(throughput < 2_100.0, "{throughput}");
        throughput
    };
    assert!(std::iter::repeat_with(rates).take(5).any(|rate| rate > 180.0));
}

#[test]
fn what_an_engine_lacks_is_skipped() {
    let mut spec = spec("memory", Workload::Read, Pattern::Uniform);
    spec.setup.tree_tables = true;
    let result = run_in_memory(spec);
    assert_eq!(result.status, Status::Skipped);
    assert!(result.problems[0].contains("B+tree"), "{:?}", result.problems);
}

/// What one run records, another repeats; a trace with wrong expectations notices.
#[test]
fn a_recorded_run_can_be_replayed() {
    let directory = tempfile::tempdir().unwrap();
    let trace = directory.path().join("trace");
    let mut recorded = spec("memory", Workload::Mixed, Pattern::Zipfian);
    recorded.shape.mix = Mix { insert: 0, update: 30, modify: 10, delete: 10, scan: 10 };
    recorded.shape.threads = 1;
    recorded.shape.num = 2_000;
    recorded.record = Some(trace.clone());
    assert_eq!(run_in_memory(recorded).status, Status::Valid);
    for (engine, status) in [("memory", Status::Valid), ("broken-stale", Status::Invalid)] {
        let mut replayed = spec(engine, Workload::Replay, Pattern::Random);
        replayed.shape.threads = 1;
        replayed.replay = Some(trace.clone());
        let result = run_in_memory(replayed);
        assert_eq!(result.status, status, "{:?}", result.problems);
        assert!(result.operations.len() >= 3, "{:?}", result.operations);
    }
    let mut threaded = spec("memory", Workload::Replay, Pattern::Random);
    threaded.replay = Some(trace);
    assert_eq!(run_in_memory(threaded).status, Status::Failed, "the load has batches");
}

#[test]
fn a_sound_engine_passes_everything() {
    for workload in WORKLOADS {
        for pattern in PATTERNS {
            for (batch, reverse) in [(1, false), (7, true)] {
                let mut spec = spec("memory", workload, pattern);
                spec.shape.batch = batch;
                spec.shape.reverse = reverse;
                spec.shape.num = 3_000;
                spec.shape.operations = Some(3_000);
                spec.shape.seconds = (workload == Workload::Iter).then_some(0.0);
                let result = run_in_memory(spec);
                let problems = &result.problems;
                assert_eq!(result.status, Status::Valid, "{workload:?} {pattern:?} {problems:?}");
                assert!(result.throughput() > 0.0, "{workload:?} {pattern:?}");
            }
        }
    }
}

#[test]
fn phases_that_end_early_are_still_checked() {
    for workload in [Workload::Write, Workload::Delete, Workload::Mixed] {
        for pattern in [Pattern::SeqGlobal, Pattern::Random, Pattern::Zipfian, Pattern::Prefix] {
            let mut spec = spec("memory", workload, pattern);
            spec.shape.num = 60_000;
            spec.shape.operations = None;
            spec.shape.seconds = Some(0.005);
            let result = run_in_memory(spec);
            assert_eq!(result.status, Status::Valid, "{workload:?} {:?}", result.problems);
            assert_eq!(result.keys_visible, Some(result.keys_expected));
            if workload == Workload::Write {
                assert!(result.keys_expected < 60_000);
            }
        }
    }
}

#[test]
fn draws_write_as_much_unchecked() {
    for verify in [Verify::Full, Verify::None] {
        let mut spec = spec("memory", Workload::Overwrite, Pattern::Uniform);
        spec.shape.verify = verify;
        let record = (spec.shape.key_size + spec.shape.value_size) as u64;
        let result = run_in_memory(spec);
        assert_eq!(result.status, Status::Valid, "{:?}", result.problems);
        assert_eq!(result.user_bytes, 20_000 * record);
        let looked = result.keys_visible.is_some();
        assert_eq!(looked, verify == Verify::Full);
    }
}

/// An engine whose adapter knows no settings of its own must not run as if it had taken them.
#[test]
fn settings_that_would_be_ignored_are_refused() {
    let mut spec = spec("memory", Workload::Write, Pattern::Random);
    spec.setup.engine_options = vec![("memory".into(), "block_size".into(), "1".into())];
    let result = run_in_memory(spec);
    assert_eq!(result.status, Status::Failed);
    assert!(result.problems[0].contains("--engine-opt"), "{:?}", result.problems);
}

/// What a synced commit costs is a sync, and the engine's own counter says so.
#[test]
fn synced_commits_are_synced_one_by_one() {
    for (sync, expected) in [(Sync::Full, 1), (Sync::None, 0)] {
        let shape = Shape { num: 40, operations: None, ..Shape::default() };
        let mut spec = job(crate::ours::NAME, shape);
        spec.setup.sync = sync;
        let result = run_in_memory(spec);
        assert_eq!(result.status, Status::Valid, "{:?}", result.problems);
        let syncs = result.log_syncs.unwrap();
        // Settling may sync the log once more on its own account.
        assert!((40 * expected..=40 * expected + 2).contains(&syncs), "{sync:?}: {syncs}");
    }
}
