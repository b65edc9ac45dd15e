//! Gets on a loaded database, one by one or several in a call.
//!
//! Every value is compared with the bytes it must have; a share of the gets may ask for keys that
//! are absent, which must not be found. [`back`] reads what the same thread has written before.

use super::check::show;
use super::{Dataset, Worker, share_of};
use crate::data::expect::Progress;
use crate::data::order::Permutation;
use crate::data::random::Random;
use crate::measure::series::Kind;

/// Seed stream of the choice between present and absent keys.
const COIN: u64 = 3_000;

/// Gets, each of which must return generation 0.
pub(crate) fn read(
    dataset: &Dataset,
    checks: bool,
    worker: &mut Worker<'_, '_>,
) -> Result<(), String> {
    let shape = &dataset.shape;
    let mut chooser = dataset.chooser(worker.thread);
    let mut coin = Random::new(shape.seed, COIN + worker.thread);
    let mut key = vec![0; dataset.keys.key_bytes()];
    let mut left = share_of(shape.operations, shape.threads, worker.thread);
    while left > 0 {
        let record = chooser.next();
        let absent = shape.missing > 0 && coin.below(100) < shape.missing;
        if absent {
            dataset.keys.encode_absent(record, &mut key);
        } else {
            dataset.keys.encode(record, &mut key);
        }
        if shape.families > 1 {
            let family = dataset.family_of(record);
            worker.session.use_family(family).map_err(|error| format!("family: {error}"))?;
        }
        left -= 1;
        if !get(dataset, worker, (record, &key), checks, absent)? {
            break;
        }
    }
    Ok(())
}

/// One timed and checked get; returns whether to go on.
fn get(
    dataset: &Dataset,
    worker: &mut Worker<'_, '_>,
    (record, key): (u64, &[u8]),
    checks: bool,
    absent: bool,
) -> Result<bool, String> {
    let mut right = false;
    worker.recorder.begin();
    let found = worker
        .session
        .get(key, &mut |value| right = !checks || dataset.check_value(record, value) == Some(0))
        .map_err(|error| format!("get: {error}"))?;
    let go_on = worker.recorder.end(Kind::Primary, 1);
    worker.done += 1;
    worker.tally.not_found += u64::from(!found);
    let as_expected = if absent { !found } else { found && right };
    if checks && !as_expected {
        worker.tally.wrong(|| {
            let what = match (found, absent) {
                (true, true) => "found, but was never written",
                (true, false) => "wrong value",
                (false, _) => "not found",
            };
            format!("get {}: {what}", show(key))
        });
    }
    Ok(go_on)
}

/// Gets of `range_size` keys in one call.
pub(crate) fn multi_get(
    dataset: &Dataset,
    checks: bool,
    worker: &mut Worker<'_, '_>,
) -> Result<(), String> {
    let shape = &dataset.shape;
    let mut chooser = dataset.chooser(worker.thread);
    let count = shape.range_size as usize;
    let mut bytes = vec![0; count * shape.key_size];
    let mut records = vec![0; count];
    let mut left = share_of(shape.operations, shape.threads, worker.thread);
    while left > 0 {
        for (record, key) in records.iter_mut().zip(bytes.chunks_mut(shape.key_size)) {
            *record = chooser.next();
            dataset.keys.encode(*record, key);
        }
        let keys: Vec<&[u8]> = bytes.chunks(shape.key_size).collect();
        let mut right = 0;
        worker.recorder.begin();
        worker
            .session
            .multi_get(&keys, &mut |position, value| {
                right += u64::from(dataset.check_value(records[position], value) == Some(0));
            })
            .map_err(|error| format!("multi-get: {error}"))?;
        let go_on = worker.recorder.end(Kind::Primary, shape.range_size);
        if checks && right != shape.range_size {
            let wrong = shape.range_size - right.min(shape.range_size);
            worker.tally.wrong(|| format!("multi-get: {wrong} of {count} values wrong or absent"));
        }
        worker.done += shape.range_size;
        left = left.saturating_sub(shape.range_size);
        if !go_on {
            break;
        }
    }
    Ok(())
}

/// Gets of the records that this thread has written in an earlier phase, in an order of its own.
pub(crate) fn back(
    dataset: &Dataset,
    written: &Progress,
    checks: bool,
    worker: &mut Worker<'_, '_>,
) -> Result<(), String> {
    let shape = &dataset.shape;
    let done = written.done[worker.thread as usize];
    let steps = Permutation::new(done.max(1), shape.seed ^ 0x6261_636b);
    let mut key = vec![0; dataset.keys.key_bytes()];
    for turn in 0..done {
        let threads = shape.threads;
        let step = steps.at(turn);
        let position = written.split.position(written.count, threads, worker.thread, step);
        let record = written.order.at(position);
        dataset.keys.encode(record, &mut key);
        if !get(dataset, worker, (record, &key), checks, false)? {
            break;
        }
    }
    Ok(())
}

/// Reads every `step`-th record once, to bring the data set into the caches.
pub(crate) fn warm(
    dataset: &Dataset,
    step: u64,
    worker: &mut Worker<'_, '_>,
) -> Result<(), String> {
    let mut key = vec![0; dataset.keys.key_bytes()];
    let mut record = worker.thread * step;
    while record < dataset.keys.count() {
        dataset.keys.encode(record, &mut key);
        worker.recorder.begin();
        worker.session.get(&key, &mut |_| {}).map_err(|error| format!("get: {error}"))?;
        if !worker.recorder.end(Kind::Primary, 1) {
            break;
        }
        record += step * dataset.shape.threads;
    }
    Ok(())
}
