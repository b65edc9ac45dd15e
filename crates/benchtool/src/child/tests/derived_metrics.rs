//! Metrics follow from known calls and files.

use super::*;

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
