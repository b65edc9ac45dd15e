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
mod setting;
mod summary;

use self::setting::{device_traffic, page_cache_of_its_own, prepare, settle_after};
use self::summary::summarise;
use crate::engines;
use crate::measure::disk;
use crate::measure::observed::Observer;
use crate::measure::process::{Sample, Ticker};
use crate::measure::recorder::{Limits, Schedule};
use crate::spec::{JobResult, JobSpec, Settle, Shape, Status, Sync, Verify, Workload};
use crate::workload::check::verify_contents;
use crate::workload::scan_rate::scan_rate;
use crate::workload::trace::{Recording, verify_model};
use crate::workload::{Dataset, Tally};
use bench_compare::engine::{Capabilities, Engine, EngineError, EngineStats};
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

/// Runs a job; whatever goes wrong is in the result.
pub(crate) fn run(spec: &JobSpec, interrupted: &AtomicBool) -> JobResult {
    run_checked(spec, interrupted).unwrap_or_else(JobResult::failed)
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
    let mut observer = Observer::start(&spec.directory);
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

/// Reports to the parent that everything is written, and waits to be killed with the database open.
fn wait_for_kill(tally: Tally) -> Result<JobResult, String> {
    let status = if tally.errors == 0 { Status::Valid } else { Status::Failed };
    let result = JobResult { status, problems: tally.problems, ..JobResult::default() };
    answer(&result)?;
    // The time is only there in case the parent does not kill this process.
    std::thread::sleep(Duration::from_secs(60));
    Err("this process was to be killed".to_owned())
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

/// Runs the phase, with concurrent interval syncs where the engine needs them.
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
    if result.status == Status::Interrupted && result.problems.is_empty() {
        result.problems.push("ended before its work was done".to_owned());
    }
    if may_lack {
        openings::without_what_was_lost(result);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
