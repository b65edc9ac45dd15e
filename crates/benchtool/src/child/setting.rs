//! What a job does around its measured phase: loading, warming, settling.

use super::{SAMPLE_EVERY, limits};
use crate::measure::device::{Traffic, synced_traffic};
use crate::measure::observed::Observer;
use crate::measure::recorder::{Limits, Schedule};
use crate::spec::{JobSpec, PageCache, Settle, Shape, Verify, Workload};
use crate::workload::{Dataset, Phase, read, write};
use bench_compare::engine::{Engine, SessionMode};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Records between two gets of a warm-up: several per data block.
const WARM_STEP: u64 = 8;
const WARM_LIMIT: Duration = Duration::from_secs(20);
/// Operations and bytes per batch of a load inside the job.
const LOAD_BATCH: u64 = 1_000;
const LOAD_BATCH_BYTES: u64 = 16 << 20;

/// What the device has read and written so far, if the job asks for it and there is one.
pub(super) fn device_traffic(spec: &JobSpec, notes: &mut Vec<String>) -> Option<Traffic> {
    if !spec.shape.device_counters {
        return None;
    }
    synced_traffic(&spec.directory)
        .map_err(|problem| notes.push(format!("no counters of the device: {problem}")))
        .ok()
}

/// Settles what the phase has left; returns how long that took, looking at sizes excluded.
pub(super) fn settle_after(
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

pub(super) fn settle(engine: &dyn Engine, how: Settle) -> Result<(), String> {
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
pub(super) fn page_cache_of_its_own(spec: &JobSpec) -> Vec<String> {
    if spec.control_group.is_none() || !spec.loaded {
        return Vec::new();
    }
    let forgotten = crate::machine::forget_files(&spec.directory);
    let note =
        |error| format!("files in the page cache do not count for the memory limit: {error}");
    forgotten.err().map(note).into_iter().collect()
}

/// Everything between opening and the measured phase.
pub(super) fn prepare(
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

/// Fills the database with the whole data set, untimed.
pub(super) fn load(
    engine: &dyn Engine,
    shape: &Shape,
    interrupted: &AtomicBool,
) -> Result<(), String> {
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

pub(super) fn warm(
    engine: &dyn Engine,
    dataset: &Dataset,
    interrupted: &AtomicBool,
) -> Result<(), String> {
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
