//! Gets on a loaded database, alone or mixed with overwrites.
//!
//! Every value is compared with the bytes it must have. In a mixed workload each thread flips a
//! coin per operation: reads ask for any record, writes overwrite one that the thread owns; the
//! generation table says which generations a reader may meet.

use super::check::show;
use super::write::BatchBuffer;
use super::{Dataset, Worker, share_of};
use crate::data::expect::Generations;
use crate::data::random::Random;
use crate::measure::recorder::Kind;

/// Gets, each of which must return generation 0.
pub(crate) fn read(
    dataset: &Dataset,
    stores_data: bool,
    worker: &mut Worker<'_, '_>,
) -> Result<(), String> {
    let shape = &dataset.shape;
    let mut chooser = dataset.chooser(worker.thread);
    let mut key = vec![0; dataset.keys.key_bytes()];
    let mut left = share_of(shape.operations, shape.threads, worker.thread);
    while left > 0 {
        let record = chooser.next();
        dataset.keys.encode(record, &mut key);
        let mut right = false;
        worker.recorder.begin();
        let found = worker
            .session
            .get(&key, &mut |value| right = dataset.values.check(record, value) == Some(0))
            .map_err(|error| format!("get: {error}"))?;
        let go_on = worker.recorder.end(Kind::Primary, 1);
        if stores_data && !(found && right) {
            worker.tally.wrong(|| {
                let what = if found { "wrong value" } else { "not found" };
                format!("get {}: {what}", show(&key))
            });
        }
        worker.done += 1;
        left -= 1;
        if !go_on {
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

/// Reads and overwrites interleaved; writes are the primary kind.
pub(crate) fn mixed(
    dataset: &Dataset,
    table: &Generations,
    stores_data: bool,
    worker: &mut Worker<'_, '_>,
) -> Result<(), String> {
    let shape = &dataset.shape;
    let mut chooser = dataset.chooser(worker.thread);
    let mut coin = Random::new(shape.seed, 2_000 + worker.thread);
    let mut batch = BatchBuffer::new(dataset, false);
    let mut key = vec![0; dataset.keys.key_bytes()];
    let mut left = share_of(shape.operations, shape.threads, worker.thread);
    while left > 0 {
        let record = chooser.next();
        let go_on = if coin.below(100) < shape.write_percent {
            let record = table.own(worker.thread, record);
            batch.add(record, table.begin(record));
            if batch.is_full() { commit(table, &mut batch, worker)? } else { true }
        } else {
            dataset.keys.encode(record, &mut key);
            get_checked(dataset, table, (record, &key, stores_data), worker)?
        };
        left -= 1;
        if !go_on {
            break;
        }
    }
    if !batch.records.is_empty() {
        commit(table, &mut batch, worker)?;
    }
    Ok(())
}

fn commit(
    table: &Generations,
    batch: &mut BatchBuffer<'_>,
    worker: &mut Worker<'_, '_>,
) -> Result<bool, String> {
    worker.recorder.begin();
    batch.commit(worker.session.as_mut())?;
    let go_on = worker.recorder.end(Kind::Primary, batch.records.len() as u64);
    batch.records.iter().for_each(|record| table.commit(*record));
    worker.tally.commits += 1;
    worker.tally.user_bytes += batch.user_bytes();
    worker.done += batch.records.len() as u64;
    batch.records.clear();
    Ok(go_on)
}

fn get_checked(
    dataset: &Dataset,
    table: &Generations,
    (record, key, stores_data): (u64, &[u8], bool),
    worker: &mut Worker<'_, '_>,
) -> Result<bool, String> {
    let committed = table.committed(record);
    let mut generation = None;
    worker.recorder.begin();
    let found = worker
        .session
        .get(key, &mut |value| generation = dataset.values.check(record, value))
        .map_err(|error| format!("get: {error}"))?;
    let go_on = worker.recorder.end(Kind::Secondary, 1);
    let right = generation.is_some_and(|generation| table.allows(record, committed, generation));
    if stores_data && !right {
        worker.tally.wrong(|| match (found, generation) {
            (false, _) => format!("get {}: not found", show(key)),
            (true, None) => format!("get {}: wrong value", show(key)),
            (true, Some(generation)) => format!(
                "get {}: generation {generation} after {} were committed",
                show(key),
                committed.saturating_sub(1)
            ),
        });
    }
    Ok(go_on)
}
