//! One job, run in a process of its own: open, load if needed, measure, settle, verify, close.
//!
//! [`main`] is the hidden `child` subcommand: it reads a [`JobSpec`] from the first line of
//! standard input and prints one line, [`MARK`] and the [`JobResult`] as JSON. [`run`] does the
//! work and is what tests call. Memory and bytes are those of this process, so nothing else runs in
//! it.
//!
//! Order of events: sample, open, (load, settle,) (warm,) sample, measured phase (`phases`),
//! sample, settle, sample, verify, close. Openings are measured before all that (`openings`). An
//! interruption ends the measured phase; the rest still happens, except the verification.

mod openings;
mod phases;

use crate::engines;
use crate::measure::device::{Traffic, synced_traffic};
use crate::measure::disk;
use crate::measure::observed::{Observer, steps};
use crate::measure::process::{Sample, Ticker};
use crate::measure::recorder::{Kind, Limits, Measured, Schedule, Series};
use crate::spec::{
    JobResult, JobSpec, OperationResult, PageCache, Settle, Shape, Status, Sync, Verify, Workload,
    WorstThread,
};
use crate::workload::check::verify_contents;
use crate::workload::scan_rate::scan_rate;
use crate::workload::trace::{Recording, verify_model};
use crate::workload::{Dataset, Phase, Tally, read, write};
use bench_compare::engine::{Capabilities, Engine, EngineError, EngineStats, SessionMode};
use phases::{Check, Outcome};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::process::parent_id;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Starts the line that carries the result.
pub(crate) const MARK: &str = "BENCHTOOL-RESULT ";
/// Set by the first Ctrl-C.
pub(crate) static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// One operation in this many is timed when operations are not batched.
const SAMPLE_EVERY: u32 = 16;
/// Records between two gets of a warm-up: several per data block.
const WARM_STEP: u64 = 8;
const WARM_LIMIT: Duration = Duration::from_secs(20);
/// An engine's byte counters are believed from this many times their resolution on.
const COUNTER_STEPS: u64 = 20;
/// Operations and bytes per batch of a load inside the job.
const LOAD_BATCH: u64 = 1_000;
const LOAD_BATCH_BYTES: u64 = 16 << 20;

/// How often a job that was told to end looks whether its parent is still there.
const LOOK: Duration = Duration::from_millis(50);

/// Ends the job early when the parent closes its end of our standard input, and at once when the
/// parent is gone: then no process waits for the result.
fn watch_parent(parent: u32) {
    let mut rest = Vec::new();
    drop(std::io::stdin().read_to_end(&mut rest));
    // ORDERING: the flag carries no data.
    INTERRUPTED.store(true, Ordering::Relaxed);
    while parent_id() == parent {
        std::thread::sleep(LOOK);
    }
    std::process::exit(1);
}

/// Hands a result to the parent.
fn answer(result: &JobResult) -> Result<(), String> {
    let text = serde_json::to_string(result).map_err(|error| format!("result: {error}"))?;
    let mut output = std::io::stdout();
    writeln!(output, "{MARK}{text}").map_err(|error| format!("result: {error}"))
}

/// The `child` subcommand.
pub(crate) fn main() -> Result<(), String> {
    let parent = parent_id();
    let mut text = String::new();
    std::io::stdin().read_line(&mut text).map_err(|error| format!("job: {error}"))?;
    // The parent holds our standard input open as long as the job is to go on.
    std::thread::spawn(move || watch_parent(parent));
    let spec: JobSpec = serde_json::from_str(&text).map_err(|error| format!("job: {error}"))?;
    if let Some(group) = &spec.control_group {
        crate::machine::join(group)?;
    }
    answer(&run(&spec, &INTERRUPTED))
}

/// Runs a job; whatever goes wrong is in the result.
pub(crate) fn run(spec: &JobSpec, interrupted: &AtomicBool) -> JobResult {
    run_checked(spec, interrupted).unwrap_or_else(JobResult::failed)
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

/// What the job needs and the engine does not have.
fn lacks(spec: &JobSpec, engine: Capabilities) -> Option<&'static str> {
    let shape = &spec.shape;
    let needed = match shape.workload {
        Workload::Txn => (engine.transactions, "transactions"),
        Workload::Ttl => (engine.expiry, "expiry"),
        Workload::DeleteRange => (engine.range_delete, "deleting a range"),
        Workload::Families => (engine.families, "families"),
        Workload::Checkpoint => (engine.checkpoint, "a checkpoint"),
        Workload::Compact => (engine.compact, "a full compaction"),
        _ if shape.in_transactions => (engine.transactions, "transactions"),
        _ if shape.families > 1 => (engine.families, "families"),
        _ if shape.settle == Settle::Compact => (engine.compact, "a full compaction"),
        _ => (true, ""),
    };
    if spec.setup.tree_tables && !engine.tree_tables {
        return Some("a B+tree table format");
    }
    (!needed.0).then_some(needed.1)
}

fn open(spec: &JobSpec) -> Result<Box<dyn Engine>, String> {
    let engine = engines::open(spec).map_err(|error| format!("open: {error}"))?;
    match &spec.record {
        None => Ok(engine),
        Some(path) => match Recording::new(engine, path) {
            Ok(recording) => Ok(Box::new(recording)),
            Err(error) => Err(error.to_string()),
        },
    }
}

fn run_checked(spec: &JobSpec, interrupted: &AtomicBool) -> Result<JobResult, String> {
    let shape = &spec.shape;
    let dataset = Dataset::new(shape)?;
    fs::create_dir_all(&spec.directory).map_err(|error| format!("directory: {error}"))?;
    let mut notes = page_cache_of_its_own(spec);
    let openings = openings::before_the_job(spec)?;
    let base = Sample::now();
    let mut observer = Observer::start();
    let start = Instant::now();
    let engine = open(spec)?;
    let open = start.elapsed();
    if let Some(lacking) = lacks(spec, engine.capabilities()) {
        engine.close().map_err(|error| format!("close: {error}"))?;
        return Ok(JobResult::skipped(format!("{lacking}: not available in this engine")));
    }
    notes.extend(engine.differences());
    prepare(engine.as_ref(), &dataset, spec, &mut notes, interrupted)?;
    let failed = |error: EngineError| error.to_string();
    let traffic = device_traffic(spec, &mut notes);
    let stats_before = engine.stats().map_err(failed)?;
    let before = Sample::now();
    observer.phase_begins(&before);
    let outcome = match openings {
        Some(openings) => {
            let kept = engine.capabilities().survives_kill;
            openings.outcome(open, shape.workload == Workload::Recover && !kept)?
        }
        None => measure(engine.as_ref(), &dataset, spec, interrupted)?,
    };
    if spec.wait_for_kill {
        return wait_for_kill(outcome.tally);
    }
    let after = Sample::now();
    observer.phase_ends(&after, &outcome.measured, &spec.directory);
    let settle = settle_after(engine.as_ref(), spec, &mut observer)?;
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
    let later = traffic.and_then(|_| device_traffic(spec, &mut notes));
    observer.device(later.zip(traffic).map(|(later, earlier)| later.since(earlier)));
    result.notes = notes;
    let size = disk::size_of(&spec.directory);
    result.observed = observer.settled(&spec.directory);
    result.size_settled = size.length;
    result.size_allocated = size.allocated;
    verify(engine.as_ref(), &dataset, outcome, &mut result, interrupted)?;
    result.version = engines::version(spec);
    if shape.workload == Workload::Checkpoint && result.status == Status::Valid {
        openings::verify_checkpoint(spec, &dataset, &mut result)?;
    }
    engine.close().map_err(|error| format!("close: {error}"))?;
    result.size_closed = disk::size_of(&spec.directory).length;
    Ok(result)
}

/// Tells the parent that everything is written, and waits to be killed with the database open.
fn wait_for_kill(tally: Tally) -> Result<JobResult, String> {
    let status = if tally.errors == 0 { Status::Valid } else { Status::Failed };
    let result = JobResult { status, problems: tally.problems, ..JobResult::default() };
    answer(&result)?;
    // The time is only there in case the parent does not kill this process.
    std::thread::sleep(Duration::from_secs(60));
    Err("this process was to be killed".to_owned())
}

/// What the device has read and written so far, if the job asks for it and there is one.
fn device_traffic(spec: &JobSpec, notes: &mut Vec<String>) -> Option<Traffic> {
    if !spec.shape.device_counters {
        return None;
    }
    synced_traffic(&spec.directory)
        .map_err(|problem| notes.push(format!("no counters of the device: {problem}")))
        .ok()
}

/// Settles what the phase has left; returns how long that took, looking at sizes excluded.
fn settle_after(
    engine: &dyn Engine,
    spec: &JobSpec,
    observer: &mut Observer,
) -> Result<Duration, String> {
    let how = spec.shape.settle;
    if !spec.shape.workload.mutates() {
        return Ok(Duration::ZERO);
    }
    let start = Instant::now();
    if how != Settle::None {
        settle(engine, Settle::Flush)?;
    }
    let flushing = start.elapsed();
    if how != Settle::None {
        observer.flushed(&spec.directory);
    }
    let start = Instant::now();
    if !matches!(how, Settle::None | Settle::Flush) {
        settle(engine, how)?;
    }
    Ok(flushing + start.elapsed())
}

fn settle(engine: &dyn Engine, how: Settle) -> Result<(), String> {
    match how {
        Settle::None => Ok(()),
        Settle::Flush => engine.flush(),
        Settle::Idle => engine.settle(),
        Settle::Compact => engine.compact().and_then(|()| engine.settle()),
    }
    .map_err(|error| format!("settle: {error}"))
}

/// Page cache counts for the control group that filled it: what the load or the copy left there
/// would be read beside the limit of this job, so it is given up first. Returns why that failed.
fn page_cache_of_its_own(spec: &JobSpec) -> Vec<String> {
    if spec.control_group.is_none() || !spec.loaded {
        return Vec::new();
    }
    let forgotten = crate::machine::forget_files(&spec.directory);
    let note =
        |error| format!("files in the page cache do not count for the memory limit: {error}");
    forgotten.err().map(note).into_iter().collect()
}

/// Everything between opening and the measured phase.
fn prepare(
    engine: &dyn Engine,
    dataset: &Dataset,
    spec: &JobSpec,
    notes: &mut Vec<String>,
    interrupted: &AtomicBool,
) -> Result<(), String> {
    let shape = &spec.shape;
    if shape.workload.needs_data() && !spec.loaded {
        load(engine, shape, interrupted)?;
    }
    if shape.page_cache == PageCache::Drop
        && let Err(problem) = crate::machine::drop_page_cache(&spec.directory)
    {
        notes.push(format!("page cache kept: {problem}"));
    }
    if shape.verify == Verify::None {
        notes.push("results were not checked".to_owned());
    }
    if shape.warm {
        warm(engine, dataset, interrupted)?;
    }
    Ok(())
}

/// When operations are due, for each thread.
fn schedule(shape: &Shape) -> Schedule {
    let pace = &shape.pace;
    let per_call = match shape.workload {
        Workload::Multiget => shape.range_size,
        Workload::Txn | Workload::Read | Workload::Seek | Workload::Range | Workload::Iter => 1,
        _ => shape.batch,
    };
    let interval = pace
        .rate
        .filter(|rate| *rate > 0.0)
        .map(|rate| Duration::from_secs_f64((per_call * shape.threads) as f64 / rate));
    Schedule {
        interval,
        open_loop: pace.open_loop,
        warmup: Duration::from_secs_f64(pace.warmup_seconds.max(0.0)),
        warmup_operations: pace.warmup_operations,
    }
}

fn limits<'a>(shape: &Shape, interrupted: &'a AtomicBool) -> Limits<'a> {
    let long = matches!(shape.workload, Workload::Iter | Workload::Multiget | Workload::Txn);
    let single = shape.batch == 1 && !long;
    Limits {
        time: shape.seconds.map(Duration::from_secs_f64),
        interrupted,
        sample_every: if single { SAMPLE_EVERY } else { 1 },
        schedule: schedule(shape),
    }
}

/// Fills the database with the whole data set, untimed.
fn load(engine: &dyn Engine, shape: &Shape, interrupted: &AtomicBool) -> Result<(), String> {
    let record = (shape.key_size + shape.value_size) as u64;
    let shape = Shape {
        workload: Workload::Write,
        batch: if shape.families > 1 {
            1
        } else {
            (LOAD_BATCH_BYTES / record).clamp(1, LOAD_BATCH)
        },
        seconds: None,
        pace: crate::spec::Pace::default(),
        ..shape.clone()
    };
    let dataset = Dataset::new(&shape)?;
    let order = dataset.write_order();
    let limits = limits(&shape, interrupted);
    let phase = Phase { threads: shape.threads, mode: SessionMode::ReadWrite, limits };
    let (_, tally) =
        phase.run(engine, |worker| write::each(&dataset, &order, worker, write::Change::Put))?;
    // ORDERING: the flag carries no data.
    if interrupted.load(Ordering::Relaxed) {
        return Err("interrupted while loading".to_owned());
    }
    match tally.problems.first() {
        Some(problem) => Err(format!("load: {problem}")),
        None => settle(engine, shape.settle),
    }
}

fn warm(engine: &dyn Engine, dataset: &Dataset, interrupted: &AtomicBool) -> Result<(), String> {
    let limits = Limits {
        time: Some(WARM_LIMIT),
        interrupted,
        sample_every: SAMPLE_EVERY,
        schedule: Schedule::default(),
    };
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
        return phases::run(engine, dataset, spec, interrupted);
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
        phases::run(engine, dataset, spec, interrupted)
    });
    // ORDERING: the ticker thread has ended.
    if failed.load(Ordering::Relaxed) {
        return Err("a background sync failed".to_owned());
    }
    outcome
}

fn verify(
    engine: &dyn Engine,
    dataset: &Dataset,
    outcome: Outcome,
    result: &mut JobResult,
    interrupted: &AtomicBool,
) -> Result<(), String> {
    let mut tally = outcome.tally;
    let mut may_lack = false;
    // ORDERING: the flag carries no data.
    let stopped = interrupted.load(Ordering::Relaxed);
    let shape = &dataset.shape;
    let checkable = engine.capabilities().stores_data && tally.errors == 0;
    let wanted = shape.workload.mutates() && shape.verify != Verify::None;
    if checkable && !stopped && wanted {
        match &outcome.check {
            Check::Contents(expectation) => {
                let verified = verify_contents(engine, dataset, expectation)?;
                may_lack = expectation.may_lack();
                result.keys_expected = expectation.visible();
                result.keys_visible = Some(verified.visible);
                result.scan_per_second = Some(scan_rate(engine, shape.families as u32)?);
                tally.absorb(verified.tally);
            }
            Check::Models(models) => {
                let seen = verify_model(engine, &dataset.values, models, &mut tally)?;
                result.keys_expected = models.iter().map(|model| model.len() as u64).sum();
                result.keys_visible = Some(seen);
            }
            Check::Nothing => {}
        }
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
    if may_lack {
        openings::without_what_was_lost(result);
    }
    Ok(())
}

/// The operations of a phase, the main one first.
fn operations(shape: &Shape, outcome: &Outcome) -> Vec<OperationResult> {
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

fn summarise(spec: &JobSpec, outcome: &Outcome, marks: &Marks) -> JobResult {
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
fn hit_share(first: Option<(u64, u64)>, last: Option<(u64, u64)>) -> Option<f64> {
    let ((hits, misses), (earlier_hits, earlier_misses)) = (last?, first.unwrap_or_default());
    let hits = hits.saturating_sub(earlier_hits);
    let lookups = hits + misses.saturating_sub(earlier_misses);
    (lookups > 0).then(|| hits as f64 / lookups as f64)
}

fn describe(operation: &str, series: &Series, measured: &Measured) -> OperationResult {
    let seconds = measured.duration().as_secs_f64().max(1e-9);
    let longest_gap = measured.longest_gap;
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
        max_us: micros(histogram.max().max(longest_gap.as_nanos() as u64)),
        worst_thread: Some(WorstThread { p50_us, p95_us, p99_us, p999_us }),
        histogram: steps(histogram),
    }
}

#[cfg(test)]
mod tests;
