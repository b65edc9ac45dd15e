//! The measured phase of each workload, and what has to be checked after it.
//!
//! One function per family of workloads; all end in an [`Outcome`]. Which one it is follows from the
//! workload and from whether the pattern draws with replacement.

use super::limits;
use crate::data::expect::{Expectation, Progress};
use crate::measure::recorder::{Kind, Measured, Recorder};
use crate::spec::{JobSpec, Shape, Verify, Workload};
use crate::workload::trace::{Model, read_lines, replay};
use crate::workload::{Dataset, Phase, Tally, families, mixed, read, scan, transactions, write};
use bench_compare::engine::{Engine, SessionMode};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

/// What the measured phase left behind.
pub(super) struct Outcome {
    pub(super) measured: Measured,
    /// The gets of a second phase.
    pub(super) second: Option<Measured>,
    pub(super) tally: Tally,
    pub(super) check: Check,
}

/// What has to be compared with the database afterwards.
pub(super) enum Check {
    Contents(Expectation),
    Models(Vec<Model>),
    Nothing,
}

impl Outcome {
    fn new((measured, tally): (Measured, Tally), check: Check) -> Self {
        Self { measured, second: None, tally, check }
    }
}

fn checks(engine: &dyn Engine, shape: &Shape) -> bool {
    engine.capabilities().stores_data && shape.verify != Verify::None
}

/// Runs the measured phase of a job.
pub(super) fn run(
    engine: &dyn Engine,
    dataset: &Dataset,
    spec: &JobSpec,
    interrupted: &AtomicBool,
) -> Result<Outcome, String> {
    let shape = &dataset.shape;
    let mode =
        if shape.workload.mutates() { SessionMode::ReadWrite } else { SessionMode::ReadOnly };
    let phase = Phase { threads: shape.threads, mode, limits: limits(shape, interrupted) };
    match shape.workload {
        Workload::Mixed | Workload::Overwrite | Workload::DeleteRange | Workload::Txn => {
            changing_phase(engine, dataset, &phase)
        }
        Workload::Write | Workload::Delete if shape.pattern.draws() => {
            changing_phase(engine, dataset, &phase)
        }
        Workload::Write | Workload::Delete | Workload::Ttl | Workload::WriteThenRead => {
            once_each_phase(engine, dataset, &phase)
        }
        Workload::Replay => replay_phase(engine, dataset, spec, &phase),
        Workload::Families => {
            let checks = checks(engine, shape);
            let phase = Phase { threads: 1, ..phase };
            let measured =
                phase.run(engine, |worker| families::lifecycle(dataset, engine, checks, worker))?;
            Ok(Outcome::new(measured, Check::Nothing))
        }
        Workload::Checkpoint => {
            let directory = checkpoint_directory(spec);
            single_step(dataset, &phase, || engine.checkpoint(&directory))
        }
        Workload::Compact => single_step(dataset, &phase, || engine.compact()),
        _ => reading_phase(engine, dataset, &phase),
    }
}

/// Where a checkpoint of a job's database goes.
pub(super) fn checkpoint_directory(spec: &JobSpec) -> PathBuf {
    spec.directory.with_extension("checkpoint")
}

/// Phases in which a record may be changed more than once.
fn changing_phase(
    engine: &dyn Engine,
    dataset: &Dataset,
    phase: &Phase<'_>,
) -> Result<Outcome, String> {
    let shape = &dataset.shape;
    let checks = checks(engine, shape);
    let table = dataset.generations();
    let interleaved = mixed::Shared::new(dataset, &table, checks);
    let transacted = transactions::Shared::new(dataset, &table, checks);
    let measured = phase.run(engine, |worker| match shape.workload {
        Workload::Mixed => interleaved.run(worker),
        Workload::Txn => transacted.run(worker),
        Workload::Delete => write::delete_drawn(dataset, &table, worker),
        Workload::DeleteRange => write::delete_ranges(dataset, &table, worker),
        _ => write::overwrite(dataset, &table, worker),
    })?;
    if shape.workload == Workload::Txn {
        transacted.enter_commits();
    }
    Ok(Outcome::new(measured, Check::Contents(Expectation::Generations(table))))
}

/// Phases that write or delete each record once, and perhaps read it back.
fn once_each_phase(
    engine: &dyn Engine,
    dataset: &Dataset,
    phase: &Phase<'_>,
) -> Result<Outcome, String> {
    let shape = &dataset.shape;
    let change = match shape.workload {
        Workload::Delete => write::Change::Delete,
        Workload::Ttl => write::Change::Expire,
        _ => write::Change::Put,
    };
    let order = dataset.write_order();
    let (measured, mut tally) =
        phase.run(engine, |worker| write::each(dataset, &order, worker, change))?;
    let progress = Progress {
        order,
        count: shape.num,
        split: dataset.split(),
        done: tally.done.clone(),
        removed: change == write::Change::Delete,
    };
    let mut second = None;
    if shape.workload == Workload::WriteThenRead && tally.errors == 0 {
        let checks = checks(engine, shape);
        let (gets, found) =
            phase.run(engine, |worker| read::back(dataset, &progress, checks, worker))?;
        tally.absorb(found);
        second = Some(gets);
    }
    let expectation = if change == write::Change::Expire {
        Expectation::Even { count: shape.num, written: progress }
    } else {
        Expectation::Progress(progress)
    };
    Ok(Outcome { measured, second, tally, check: Check::Contents(expectation) })
}

fn reading_phase(
    engine: &dyn Engine,
    dataset: &Dataset,
    phase: &Phase<'_>,
) -> Result<Outcome, String> {
    let shape = &dataset.shape;
    let checks = checks(engine, shape);
    let measured = phase.run(engine, |worker| match shape.workload {
        Workload::Seek => scan::ranges(dataset, 1, checks, worker),
        Workload::Range => scan::ranges(dataset, shape.range_size, checks, worker),
        Workload::Iter => scan::passes(dataset, checks, worker),
        Workload::Multiget => read::multi_get(dataset, checks, worker),
        _ => read::read(dataset, checks, worker),
    })?;
    Ok(Outcome::new(measured, Check::Nothing))
}

fn replay_phase(
    engine: &dyn Engine,
    dataset: &Dataset,
    spec: &JobSpec,
    phase: &Phase<'_>,
) -> Result<Outcome, String> {
    let path = spec.replay.as_ref().ok_or("a replay needs a trace")?;
    let lines = read_lines(path)?;
    let checks = checks(engine, &dataset.shape);
    let models = Mutex::new(Vec::new());
    let measured = phase.run(engine, |worker| {
        let threads = dataset.shape.threads;
        let model = replay(&lines, &dataset.values, (threads, checks), worker)?;
        models.lock().map_err(|_| "a worker thread panicked".to_owned())?.push(model);
        Ok(())
    })?;
    let models = models.into_inner().map_err(|_| "a worker thread panicked".to_owned())?;
    Ok(Outcome::new(measured, Check::Models(models)))
}

/// One timed call on a database that holds everything before and after it.
fn single_step(
    dataset: &Dataset,
    phase: &Phase<'_>,
    step: impl FnOnce() -> bench_compare::engine::Result<()>,
) -> Result<Outcome, String> {
    let mut recorder = Recorder::start(phase.limits)?;
    recorder.time_all();
    recorder.begin();
    step().map_err(|error| error.to_string())?;
    recorder.end(Kind::Primary, 1);
    let expectation = Expectation::Full { count: dataset.shape.num };
    let measured = (recorder.finish(), Tally::default());
    Ok(Outcome::new(measured, Check::Contents(expectation)))
}
