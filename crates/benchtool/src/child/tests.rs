//! Jobs on the in-memory engine: sound ones pass every check, broken ones are caught.

use super::phases::run as run_phase;
use super::summary::{describe, hit_share};
use super::*;
use crate::data::keys::Layout;
use crate::measure::recorder::Recorder;
use crate::measure::series::Kind;
use crate::spec::{Isolation, Mix, Overlap, Pattern, RowCount, Setup, Sizes};
use std::path::PathBuf;

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
    let mut outcome = run_phase(engine.as_ref(), &dataset, &spec, &interrupted).unwrap();
    outcome.tally.errors = 2;
    outcome.tally.not_found = 3;
    let user_bytes = 30_000 * 116;
    let stats = |bytes, syncs: u64| EngineStats {
        log_bytes: Some(bytes),
        flush_bytes: Some(bytes / 2),
        compaction_bytes: Some(0),
        log_syncs: Some(syncs),
        resolution_bytes: 1,
        sorted_runs: Some(syncs),
        cache: Some((3 * syncs, syncs)),
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
    assert_eq!((result.sorted_runs, result.cache_hits), (Some(15), Some(0.75)));
    assert_eq!((result.failed_calls, result.not_found, result.peak_anonymous), (2, 3, 7));
    assert_eq!(hit_share(None, None), None);
    assert_eq!(hit_share(Some((5, 5)), Some((5, 5))), None, "nothing was looked up");
    assert_eq!((result.cpu_user, result.settle), (2.5, 2.0));
    assert_eq!(result.operations[0].operations, 30_000);
}

/// Rates and latencies of a thousand calls of 1, 2, ... 1,000 microseconds in two seconds.
#[test]
fn latencies_and_rates_follow_from_known_calls() {
    let spec = spec("memory", Workload::Write, Pattern::Seq);
    let interrupted = AtomicBool::new(false);
    let mut measured = Recorder::start(limits(&spec.shape, &interrupted)).unwrap().finish();
    measured.span.1 = measured.span.0 + Duration::from_secs(2);
    // Another operation's.
    measured.longest_gap = Duration::from_secs(7);
    let series = &mut measured.series[Kind::Primary as usize];
    series.longest_gap = Duration::from_millis(7);
    series.operations = 4_000;
    for micros in 1..=1_000 {
        series.histogram.record(micros * 1_000).unwrap();
    }
    let operation = describe("PUT", measured.of(Kind::Primary), &measured);
    assert_eq!((operation.operations, operation.per_second), (4_000, 2_000.0));
    // The histogram keeps three digits.
    let figures = [
        (operation.average_us, 500.5),
        (operation.stddev_us, 288.675),
        (operation.min_us, 1.0),
        (operation.p50_us, 500.0),
        (operation.p90_us, 900.0),
        (operation.p95_us, 950.0),
        (operation.p99_us, 990.0),
        (operation.p999_us, 999.0),
        (operation.p9999_us, 1_000.0),
    ];
    for (figure, expected) in figures {
        assert!((figure / expected - 1.0).abs() < 0.002, "{figure} instead of {expected}");
    }
    let worst = operation.worst_thread.unwrap();
    assert_eq!(
        (worst.p50_us, worst.p999_us),
        (operation.p50_us, operation.p999_us),
        "the only one"
    );
    // A pause between two timed calls counts as a slow call.
    assert_eq!(operation.max_us, 7_000.0);
    assert_eq!(operation.histogram.iter().map(|step| step.count).sum::<u64>(), 1_000);
}

/// Sizes on the way, of a database that is really on disk.
#[test]
fn sizes_are_those_of_the_files() {
    let directory = tempfile::tempdir().unwrap();
    let shape = Shape { num: 20_000, batch: 100, ..Shape::default() };
    let mut spec = job(crate::ours::NAME, shape);
    spec.directory = directory.path().to_path_buf();
    let result = run(&spec, &AtomicBool::new(false));
    assert_eq!(result.status, Status::Valid, "{:?}", result.problems);
    assert_eq!(result.size_closed, disk::size_of(directory.path()).length);
    let observed = &result.observed;
    // Half of each value is random, so no codec makes the data smaller than that.
    let least = 20_000 * 50;
    let sizes = [observed.size_phase_end, observed.size_flushed.unwrap(), result.size_settled];
    assert!(sizes.into_iter().all(|size| size >= least), "{sizes:?}");
    assert!(result.size_settled - observed.log_size_settled >= least, "the log is apart");
    assert!(!observed.space.values.is_empty(), "space is seen on the way");
    assert_eq!(result.sorted_runs, Some(1), "one flush");
    assert!(result.scan_per_second.unwrap() > 0.0 && result.open > 0.0);
    assert_eq!(result.user_bytes, 20_000 * 116);
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
