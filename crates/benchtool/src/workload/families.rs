//! The life of many families: create them all, put one row in each, get it back, drop them all.
//!
//! One thread; every step is timed by itself, so the report has a rate and latencies for each of
//! the four. A row that comes back wrong, or from another family, is an error.

use super::{Dataset, Worker};
use crate::measure::series::Kind;
use bench_compare::engine::{Engine, EngineError, Op};

/// The body of the only thread.
pub(crate) fn lifecycle(
    dataset: &Dataset,
    engine: &dyn Engine,
    checks: bool,
    worker: &mut Worker<'_, '_>,
) -> Result<(), String> {
    let failed = |what: &'static str| move |error: EngineError| format!("{what}: {error}");
    let count = dataset.shape.families as u32;
    let mut key = vec![0; dataset.keys.key_bytes()];
    let mut value = vec![0; dataset.values.largest()];
    let row = |family: u32| u64::from(family) % dataset.keys.count();
    worker.recorder.time_all();
    for family in 1..=count {
        worker.recorder.begin();
        engine.create_family(family).map_err(failed("create"))?;
        worker.recorder.end(Kind::Primary, 1);
        worker.done += 1;
    }
    for family in 1..=count {
        let generation = family;
        dataset.keys.encode(row(family), &mut key);
        let size = dataset.values.fill(row(family), generation, &mut value);
        worker.recorder.begin();
        worker.session.use_family(family).map_err(failed("family"))?;
        worker
            .session
            .write_batch(&[Op::Put { key: &key, value: &value[..size] }])
            .map_err(failed("put"))?;
        worker.recorder.end(Kind::Put, 1);
        worker.tally.user_bytes += (key.len() + size) as u64;
        worker.tally.commits += 1;
    }
    for family in 1..=count {
        dataset.keys.encode(row(family), &mut key);
        let mut generation = None;
        worker.recorder.begin();
        worker.session.use_family(family).map_err(failed("family"))?;
        worker
            .session
            .get(&key, &mut |value| generation = dataset.check_value(row(family), value))
            .map_err(failed("get"))?;
        worker.recorder.end(Kind::Get, 1);
        if checks && generation != Some(family) {
            worker.tally.wrong(|| format!("family {family} returned {generation:?}"));
        }
    }
    worker.session.use_family(0).map_err(failed("family"))?;
    for family in 1..=count {
        worker.recorder.begin();
        engine.drop_family(family).map_err(failed("drop"))?;
        worker.recorder.end(Kind::Drop, 1);
    }
    Ok(())
}
