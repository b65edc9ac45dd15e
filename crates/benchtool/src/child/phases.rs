//! The measured phase of each workload, and what has to be checked after it.
//!
//! One function per family of workloads; all end in an [`Outcome`]. Which one it is follows from
//! the workload and from whether the pattern draws with replacement.

use super::limits;
use crate::data::expect::{Expectation, Progress};
use crate::measure::measured::Measured;
use crate::measure::recorder::Recorder;
use crate::measure::series::Kind;
use crate::spec::{JobSpec, Verify, Workload};
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

/// What every kind of phase needs.
struct Stage<'a> {
    engine: &'a dyn Engine,
    dataset: &'a Dataset,
    phase: Phase<'a>,
    /// Whether results can be checked, and are to be.
    checks: bool,
}

/// Runs the measured phase of a job.
pub(super) fn run(
    engine: &dyn Engine,
    dataset: &Dataset,
    spec: &JobSpec,
    interrupted: &AtomicBool,
) -> Result<Outcome, String> {
    let shape = &dataset.shape;
    let keeps = !shape.workload.mutates() && shape.iter_reuse;
    let mode = if keeps { SessionMode::ReadOnly } else { SessionMode::ReadWrite };
    let stage = Stage {
        engine,
        dataset,
        phase: Phase { threads: shape.threads, mode, limits: limits(shape, interrupted) },
        checks: engine.capabilities().stores_data && shape.verify != Verify::None,
    };
    match shape.workload {
        Workload::Mixed | Workload::Overwrite | Workload::DeleteRange | Workload::Txn => {
            stage.changing()
        }
        Workload::Write | Workload::Delete if shape.pattern.draws() => stage.changing(),
        Workload::Write | Workload::Delete | Workload::Ttl | Workload::WriteThenRead => {
            stage.once_each()
        }
        Workload::Replay => stage.replay(spec),
        Workload::Families => stage.families(),
        Workload::Checkpoint => {
            let directory = checkpoint_directory(spec);
            stage.single_step(|| engine.checkpoint(&directory))
        }
        Workload::Compact => stage.single_step(|| engine.compact()),
        _ => stage.reading(),
    }
}

/// Where a checkpoint of a job's database goes.
pub(super) fn checkpoint_directory(spec: &JobSpec) -> PathBuf {
    spec.directory.with_extension("checkpoint")
}

impl Stage<'_> {
    /// Phases in which a record may be changed more than once.
    fn changing(&self) -> Result<Outcome, String> {
        let Self { dataset, checks, .. } = *self;
        let workload = dataset.shape.workload;
        let table = dataset.generations();
        let interleaved = mixed::Shared::new(dataset, &table, checks);
        let transacted = transactions::Shared::new(dataset, &table, checks);
        let measured = self.phase.run(self.engine, |worker| match workload {
            Workload::Mixed => interleaved.run(worker),
            Workload::Txn => transacted.run(worker),
            Workload::Delete => write::drawn(dataset, &table, worker, write::Change::Delete),
            Workload::DeleteRange => write::delete_ranges(dataset, &table, worker),
            _ => write::drawn(dataset, &table, worker, write::Change::Put),
        })?;
        if workload == Workload::Txn {
            transacted.enter_commits();
        }
        Ok(Outcome::new(measured, Check::Contents(Expectation::Generations(table))))
    }

    /// Phases that write or delete each record once, and perhaps read it back.
    fn once_each(&self) -> Result<Outcome, String> {
        let Self { engine, dataset, ref phase, checks } = *self;
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

    fn reading(&self) -> Result<Outcome, String> {
        let Self { dataset, checks, .. } = *self;
        let shape = &dataset.shape;
        let measured = self.phase.run(self.engine, |worker| match shape.workload {
            Workload::Seek => scan::ranges(dataset, 1, checks, worker),
            Workload::Range => scan::ranges(dataset, shape.range_size, checks, worker),
            Workload::Iter => scan::passes(dataset, checks, worker),
            Workload::Multiget => read::multi_get(dataset, checks, worker),
            _ => read::read(dataset, checks, worker),
        })?;
        Ok(Outcome::new(measured, Check::Nothing))
    }

    fn families(&self) -> Result<Outcome, String> {
        let Self { engine, dataset, phase, checks } = *self;
        let phase = Phase { threads: 1, ..phase };
        let measured =
            phase.run(engine, |worker| families::lifecycle(dataset, engine, checks, worker))?;
        Ok(Outcome::new(measured, Check::Nothing))
    }

    fn replay(&self, spec: &JobSpec) -> Result<Outcome, String> {
        let Self { dataset, checks, .. } = *self;
        let path = spec.replay.as_ref().ok_or("a replay needs a trace")?;
        let lines = read_lines(path)?;
        let models = Mutex::new(Vec::new());
        let measured = self.phase.run(self.engine, |worker| {
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
        &self,
        step: impl FnOnce() -> bench_compare::engine::Result<()>,
    ) -> Result<Outcome, String> {
        let mut recorder = Recorder::start(self.phase.limits)?;
        recorder.time_all();
        recorder.begin();
        step().map_err(|error| error.to_string())?;
        recorder.end(Kind::Primary, 1);
        let expectation = Expectation::Full { count: self.dataset.shape.num };
        let measured = (recorder.finish(), Tally::default());
        Ok(Outcome::new(measured, Check::Contents(expectation)))
    }
}
