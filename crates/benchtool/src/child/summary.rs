//! The result of a job, from what was measured.

use super::Marks;
use super::phases::Outcome;
use crate::measure::measured::Measured;
use crate::measure::observed::steps;
use crate::measure::series::{Kind, Series};
use crate::spec::{JobResult, JobSpec, OperationResult, Shape, Status, Workload, WorstThread};

/// An engine's byte counters are believed from this many times their resolution on.
const COUNTER_STEPS: u64 = 20;

/// The operations of a phase, the main one first.
pub(super) fn operations(shape: &Shape, outcome: &Outcome) -> Vec<OperationResult> {
    let measured = &outcome.measured;
    let mut kinds: Vec<Kind> =
        Kind::ALL.into_iter().filter(|kind| measured.of(*kind).operations > 0).collect();
    if shape.writers > 0 {
        // The readers are what such a test is about.
        kinds.sort_by_key(|kind| *kind == Kind::Put);
    }
    if kinds.is_empty() {
        kinds.push(Kind::Primary);
    }
    let described = kinds.into_iter().map(|kind| {
        let name = if kind == Kind::Primary { shape.workload.operation() } else { kind.name() };
        let mut operation = describe(name, measured.of(kind), measured);
        if shape.workload == Workload::Families && operation.average_us > 0.0 {
            // Steps follow one another; each has a rate of its own.
            operation.per_second = 1e6 / operation.average_us;
        }
        operation
    });
    let mut operations: Vec<OperationResult> = described.collect();
    if let Some(second) = &outcome.second {
        operations.push(describe("GET", second.of(Kind::Primary), second));
    }
    operations
}

pub(super) fn summarise(spec: &JobSpec, outcome: &Outcome, marks: &Marks) -> JobResult {
    let Outcome { measured, tally, .. } = outcome;
    let shape = &spec.shape;
    let seconds = measured.duration().as_secs_f64().max(1e-9);
    let operations = operations(shape, outcome);
    let delta = |after: Option<u64>, before: Option<u64>| {
        after.map(|after| after.saturating_sub(before.unwrap_or(0)))
    };
    let (first, last) = (&marks.stats_before, &marks.stats_after);
    let log_bytes = delta(last.log_bytes, first.log_bytes);
    let flush_bytes = delta(last.flush_bytes, first.flush_bytes);
    let compaction_bytes = delta(last.compaction_bytes, first.compaction_bytes);
    let log_syncs = delta(last.log_syncs, first.log_syncs);
    let written_bytes = marks.settled.written_bytes.saturating_sub(marks.before.written_bytes);
    let per_user_byte =
        |bytes: u64| (tally.user_bytes > 0).then(|| bytes as f64 / tally.user_bytes as f64);
    let engine_bytes = log_bytes
        .zip(flush_bytes)
        .zip(compaction_bytes)
        .map(|((log, flush), compaction)| log + flush + compaction)
        .filter(|bytes| *bytes >= last.resolution_bytes.saturating_mul(COUNTER_STEPS));
    JobResult {
        status: Status::Valid,
        operations,
        duration: seconds,
        settle: marks.settle.as_secs_f64(),
        open: marks.open.as_secs_f64(),
        slowest_second: measured.slowest_second(),
        rate: measured.buckets.clone(),
        rows: tally.rows,
        not_found: tally.not_found,
        conflicts: tally.conflicts,
        user_bytes: tally.user_bytes,
        written_bytes,
        read_bytes: marks.after.read_bytes.saturating_sub(marks.before.read_bytes),
        write_amplification: per_user_byte(written_bytes),
        engine_write_amplification: engine_bytes.and_then(per_user_byte),
        log_bytes,
        flush_bytes,
        compaction_bytes,
        log_syncs,
        failed_calls: tally.errors,
        sorted_runs: last.sorted_runs,
        cache_hits: hit_share(first.cache, last.cache),
        commits_per_sync: log_syncs
            .filter(|syncs| *syncs > 0)
            .map(|syncs| tally.commits as f64 / syncs as f64),
        peak_rss: marks.settled.peak_rss,
        peak_anonymous: marks.peak_anonymous.max(marks.after.rss_anonymous),
        rss_file: marks.after.rss_file,
        base_rss: marks.base.peak_rss,
        peak_virtual: marks.settled.peak_virtual,
        cpu_user: marks.settled.cpu_user - marks.before.cpu_user,
        cpu_system: marks.settled.cpu_system - marks.before.cpu_system,
        ..JobResult::default()
    }
}

/// Hits over lookups between two readings of an engine's counters.
pub(super) fn hit_share(first: Option<(u64, u64)>, last: Option<(u64, u64)>) -> Option<f64> {
    let ((hits, misses), (earlier_hits, earlier_misses)) = (last?, first.unwrap_or_default());
    let hits = hits.saturating_sub(earlier_hits);
    let lookups = hits + misses.saturating_sub(earlier_misses);
    (lookups > 0).then(|| hits as f64 / lookups as f64)
}

pub(super) fn describe(operation: &str, series: &Series, measured: &Measured) -> OperationResult {
    let seconds = measured.duration().as_secs_f64().max(1e-9);
    let histogram = &series.histogram;
    let micros = |nanos: u64| nanos as f64 / 1_000.0;
    let quantile = |quantile: f64| micros(histogram.value_at_quantile(quantile));
    let [p50_us, p95_us, p99_us, p999_us] = series.worst_thread().map(micros);
    OperationResult {
        operation: operation.to_owned(),
        operations: series.operations,
        per_second: series.operations as f64 / seconds,
        average_us: histogram.mean() / 1_000.0,
        stddev_us: histogram.stdev() / 1_000.0,
        min_us: if histogram.is_empty() { 0.0 } else { micros(histogram.min()) },
        p50_us: quantile(0.5),
        p90_us: quantile(0.9),
        p95_us: quantile(0.95),
        p99_us: quantile(0.99),
        p999_us: quantile(0.999),
        p9999_us: quantile(0.9999),
        max_us: micros(histogram.max().max(series.longest_gap.as_nanos() as u64)),
        worst_thread: Some(WorstThread { p50_us, p95_us, p99_us, p999_us }),
        histogram: steps(histogram),
    }
}
