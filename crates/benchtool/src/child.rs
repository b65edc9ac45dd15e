//! One job, run in a process of its own: open, load if needed, measure, settle, verify, close.
//!
//! [`main`] is the hidden `child` subcommand: it reads a [`JobSpec`] from the first line of standard
//! input and prints one line, [`MARK`] and the [`JobResult`] as JSON. [`run`] does the work and is
//! what tests call.
//! Memory and bytes are those of this process, so nothing else runs in it.
//!
//! Order of events: sample, open, (load, settle,) (warm,) sample, measured phase, sample, settle,
//! sample, verify, close. An interruption ends the measured phase; the rest still happens, except
//! the verification.

use crate::data::expect::{Expectation, Generations, Progress};
use crate::engines;
use crate::measure::disk;
use crate::measure::observed::{Observer, steps};
use crate::measure::process::{Sample, Ticker};
use crate::measure::recorder::{Limits, Measured, Series};
use crate::spec::{JobResult, JobSpec, OperationResult, Pattern, Shape, Status, Sync, Workload};
use crate::workload::check::verify_contents;
use crate::workload::{Dataset, Phase, Tally, read, scan, write};
use bench_compare::engine::{Engine, EngineStats, SessionMode};
use std::fs;
use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Starts the line that carries the result.
pub(crate) const MARK: &str = "BENCHTOOL-RESULT ";
/// Set by the first Ctrl-C.
pub(crate) static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// One operation in this many is timed when operations are not batched.
const SAMPLE_EVERY: u32 = 8;
/// Records between two gets of a warm-up: several per data block.
const WARM_STEP: u64 = 8;
const WARM_LIMIT: Duration = Duration::from_secs(20);
/// An engine's byte counters are believed from this many times their resolution on.
const COUNTER_STEPS: u64 = 20;
/// Batch and limit of a load inside the job.
const LOAD_BATCH: u64 = 1_000;

/// The `child` subcommand.
pub(crate) fn main() -> Result<(), String> {
    let mut text = String::new();
    std::io::stdin().read_line(&mut text).map_err(|error| format!("job: {error}"))?;
    // The parent holds our standard input open; when it closes it, or dies, the job ends early.
    std::thread::spawn(|| {
        let mut rest = Vec::new();
        let ended = std::io::stdin().read_to_end(&mut rest);
        // ORDERING: the flag carries no data.
        INTERRUPTED.store(true, Ordering::Relaxed);
        drop(ended);
    });
    let spec: JobSpec = serde_json::from_str(&text).map_err(|error| format!("job: {error}"))?;
    let result = run(&spec, &INTERRUPTED);
    let text = serde_json::to_string(&result).map_err(|error| format!("result: {error}"))?;
    println!("{MARK}{text}");
    Ok(())
}

/// Runs a job; whatever goes wrong is in the result.
pub(crate) fn run(spec: &JobSpec, interrupted: &AtomicBool) -> JobResult {
    run_checked(spec, interrupted).unwrap_or_else(JobResult::failed)
}

/// What the measured phase left behind.
struct Outcome {
    measured: Measured,
    tally: Tally,
    expectation: Expectation,
}

/// Process samples and engine counters around the phase.
struct Marks {
    base: Sample,
    before: Sample,
    after: Sample,
    settled: Sample,
    stats_before: EngineStats,
    stats_after: EngineStats,
    settle: Duration,
    open: Duration,
    peak_anonymous: u64,
}

fn run_checked(spec: &JobSpec, interrupted: &AtomicBool) -> Result<JobResult, String> {
    let dataset = Dataset::new(&spec.shape)?;
    fs::create_dir_all(&spec.directory).map_err(|error| format!("directory: {error}"))?;
    let base = Sample::now();
    let mut observer = Observer::start();
    let start = Instant::now();
    let engine = engines::open(spec).map_err(|error| format!("open: {error}"))?;
    let open = start.elapsed();
    if spec.shape.workload.needs_data() && !spec.loaded {
        load(engine.as_ref(), &spec.shape, interrupted)?;
    }
    if spec.shape.warm {
        warm(engine.as_ref(), &dataset, interrupted)?;
    }
    let failed = |error: bench_compare::engine::EngineError| error.to_string();
    let stats_before = engine.stats().map_err(failed)?;
    let before = Sample::now();
    observer.phase_begins(&before);
    let outcome = measure(engine.as_ref(), &dataset, spec, interrupted)?;
    let after = Sample::now();
    observer.phase_ends(&after, &outcome.measured, &spec.directory);
    let start = Instant::now();
    if spec.shape.workload.mutates() {
        engine.settle().map_err(|error| format!("settle: {error}"))?;
    }
    let settle = start.elapsed();
    let marks = Marks {
        base,
        before,
        after,
        settled: Sample::now(),
        stats_before,
        stats_after: engine.stats().map_err(failed)?,
        settle,
        open,
        peak_anonymous: observer.peak_anonymous(),
    };
    let mut result = summarise(spec, &outcome, &marks);
    let size = disk::size_of(&spec.directory);
    result.observed = observer.settled(&spec.directory);
    result.size_settled = size.length;
    result.size_allocated = size.allocated;
    verify(engine.as_ref(), &dataset, outcome, &mut result, interrupted)?;
    result.version = engines::version(spec);
    engine.close().map_err(|error| format!("close: {error}"))?;
    result.size_closed = disk::size_of(&spec.directory).length;
    Ok(result)
}

fn limits<'a>(shape: &Shape, interrupted: &'a AtomicBool) -> Limits<'a> {
    let single = shape.batch == 1 && shape.workload != Workload::Iter;
    Limits {
        time: shape.seconds.map(Duration::from_secs_f64),
        interrupted,
        sample_every: if single { SAMPLE_EVERY } else { 1 },
    }
}

/// Fills the database with the whole data set, untimed.
fn load(engine: &dyn Engine, shape: &Shape, interrupted: &AtomicBool) -> Result<(), String> {
    let shape =
        Shape { workload: Workload::Write, batch: LOAD_BATCH, seconds: None, ..shape.clone() };
    let dataset = Dataset::new(&shape)?;
    let order = dataset.write_order();
    let limits = limits(&shape, interrupted);
    let phase = Phase { threads: shape.threads, mode: SessionMode::ReadWrite, limits };
    let (_, tally) = phase.run(engine, |worker| write::each(&dataset, &order, worker, false))?;
    // ORDERING: the flag carries no data.
    if interrupted.load(Ordering::Relaxed) {
        return Err("interrupted while loading".to_owned());
    }
    match tally.problems.first() {
        Some(problem) => Err(format!("load: {problem}")),
        None => engine.settle().map_err(|error| format!("settle: {error}")),
    }
}

fn warm(engine: &dyn Engine, dataset: &Dataset, interrupted: &AtomicBool) -> Result<(), String> {
    let limits = Limits { time: Some(WARM_LIMIT), interrupted, sample_every: SAMPLE_EVERY };
    let phase = Phase { threads: dataset.shape.threads, mode: SessionMode::ReadOnly, limits };
    let (_, tally) = phase.run(engine, |worker| read::warm(dataset, WARM_STEP, worker))?;
    tally.problems.first().map_or(Ok(()), |problem| Err(format!("warm-up: {problem}")))
}

/// Runs the phase, with interval syncs beside it where the engine needs them.
fn measure(
    engine: &dyn Engine,
    dataset: &Dataset,
    spec: &JobSpec,
    interrupted: &AtomicBool,
) -> Result<Outcome, String> {
    let ticks = spec.setup.sync == Sync::Interval
        && spec.shape.workload.mutates()
        && !engine.capabilities().native_interval_sync;
    if !ticks {
        return measured_phase(engine, dataset, interrupted);
    }
    let failed = AtomicBool::new(false);
    let period = Duration::from_micros(spec.setup.sync_interval_us);
    let outcome = std::thread::scope(|scope| {
        let failed = &failed;
        let _ticker = Ticker::start(scope, period, move || {
            if engine.sync_now().is_err() {
                // ORDERING: read after the scope has joined the ticker.
                failed.store(true, Ordering::Relaxed);
            }
        });
        measured_phase(engine, dataset, interrupted)
    });
    // ORDERING: the ticker thread has ended.
    if failed.load(Ordering::Relaxed) {
        return Err("a background sync failed".to_owned());
    }
    outcome
}

fn measured_phase(
    engine: &dyn Engine,
    dataset: &Dataset,
    interrupted: &AtomicBool,
) -> Result<Outcome, String> {
    let shape = &dataset.shape;
    let writes = shape.workload.mutates();
    let mode = if writes { SessionMode::ReadWrite } else { SessionMode::ReadOnly };
    let phase = Phase { threads: shape.threads, mode, limits: limits(shape, interrupted) };
    let drawn = matches!(shape.pattern, Pattern::Uniform | Pattern::Zipfian);
    match shape.workload {
        Workload::Mixed => overwriting_phase(engine, dataset, &phase),
        Workload::Write | Workload::Delete if drawn => overwriting_phase(engine, dataset, &phase),
        Workload::Write | Workload::Delete => once_each_phase(engine, dataset, &phase),
        _ => reading_phase(engine, dataset, &phase),
    }
}

/// Phases in which a record may be written more than once.
fn overwriting_phase(
    engine: &dyn Engine,
    dataset: &Dataset,
    phase: &Phase<'_>,
) -> Result<Outcome, String> {
    let shape = &dataset.shape;
    let stores_data = engine.capabilities().stores_data;
    let table = Generations::new(shape.num, shape.threads, shape.workload.needs_data());
    let (measured, tally) = phase.run(engine, |worker| match shape.workload {
        Workload::Mixed => read::mixed(dataset, &table, stores_data, worker),
        Workload::Delete => write::delete_drawn(dataset, &table, worker),
        _ => write::overwrite(dataset, &table, worker),
    })?;
    Ok(Outcome { measured, tally, expectation: Expectation::Generations(table) })
}

/// Phases that write or delete each record once.
fn once_each_phase(
    engine: &dyn Engine,
    dataset: &Dataset,
    phase: &Phase<'_>,
) -> Result<Outcome, String> {
    let removed = dataset.shape.workload == Workload::Delete;
    let order = dataset.write_order();
    let (measured, tally) =
        phase.run(engine, |worker| write::each(dataset, &order, worker, removed))?;
    let done = tally.done.clone();
    let progress = Progress { order, count: dataset.shape.num, done, removed };
    Ok(Outcome { measured, tally, expectation: Expectation::Progress(progress) })
}

fn reading_phase(
    engine: &dyn Engine,
    dataset: &Dataset,
    phase: &Phase<'_>,
) -> Result<Outcome, String> {
    let shape = &dataset.shape;
    let stores_data = engine.capabilities().stores_data;
    let (measured, tally) = phase.run(engine, |worker| match shape.workload {
        Workload::Seek => scan::ranges(dataset, 1, stores_data, worker),
        Workload::Range => scan::ranges(dataset, shape.range_size, stores_data, worker),
        Workload::Iter => scan::passes(dataset, stores_data, worker),
        _ => read::read(dataset, stores_data, worker),
    })?;
    Ok(Outcome { measured, tally, expectation: Expectation::Full { count: shape.num } })
}

fn verify(
    engine: &dyn Engine,
    dataset: &Dataset,
    outcome: Outcome,
    result: &mut JobResult,
    interrupted: &AtomicBool,
) -> Result<(), String> {
    let mut tally = outcome.tally;
    // ORDERING: the flag carries no data.
    let stopped = interrupted.load(Ordering::Relaxed);
    let checkable = engine.capabilities().stores_data && tally.errors == 0;
    if checkable && !stopped && dataset.shape.workload.mutates() {
        let verified = verify_contents(engine, dataset, &outcome.expectation)?;
        result.keys_expected = outcome.expectation.visible();
        result.keys_visible = Some(verified.visible);
        result.scan_per_second = Some(verified.rows_per_second);
        tally.absorb(verified.tally);
    }
    result.wrong = tally.wrong;
    result.status = if tally.errors > 0 {
        Status::Failed
    } else if tally.wrong > 0 {
        Status::Invalid
    } else if stopped {
        Status::Interrupted
    } else {
        Status::Valid
    };
    result.problems = tally.problems;
    Ok(())
}

fn summarise(spec: &JobSpec, outcome: &Outcome, marks: &Marks) -> JobResult {
    let Outcome { measured, tally, .. } = outcome;
    let shape = &spec.shape;
    let seconds = measured.duration().as_secs_f64().max(1e-9);
    let gap = measured.longest_gap;
    let mut operations =
        vec![describe(shape.workload.operation(), &measured.primary, seconds, gap)];
    if shape.workload == Workload::Mixed {
        operations.push(describe("GET", &measured.secondary, seconds, gap));
    }
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
        user_bytes: tally.user_bytes,
        written_bytes,
        read_bytes: marks.after.read_bytes.saturating_sub(marks.before.read_bytes),
        write_amplification: per_user_byte(written_bytes),
        engine_write_amplification: engine_bytes.and_then(per_user_byte),
        log_bytes,
        flush_bytes,
        compaction_bytes,
        log_syncs,
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

fn describe(
    operation: &str,
    series: &Series,
    seconds: f64,
    longest_gap: Duration,
) -> OperationResult {
    let histogram = &series.histogram;
    let micros = |nanos: u64| nanos as f64 / 1_000.0;
    let quantile = |quantile: f64| micros(histogram.value_at_quantile(quantile));
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
        max_us: micros(histogram.max().max(longest_gap.as_nanos() as u64)),
        histogram: steps(histogram),
    }
}

#[cfg(test)]
mod tests;
