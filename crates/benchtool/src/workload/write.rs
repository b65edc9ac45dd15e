//! Puts, overwrites and deletes, in batches.
//!
//! [`each`] takes every record of the thread's part of an order once, so the expected contents
//! follow from how far each thread came. [`drawn`] draws records with replacement; they go through
//! the generation table, where each record belongs to one thread. Keys and values of a batch are
//! made before the clock is read.

use super::batch::BatchBuffer;
use super::{Dataset, Worker, share_of};
use crate::data::expect::Generations;
use crate::data::order::Order;
use crate::measure::series::Kind;
use crate::spec::Verify;
use bench_compare::engine::Op;

/// A time that no clock reaches, and one that all have passed.
const NEVER: u64 = 4_000_000_000;
const LONG_AGO: u64 = 1;

/// What is done with a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// Puts generation 0, or the next one of a record that was drawn.
    Put,
    /// Puts generation 0, which has expired already if the record's number is odd.
    Expire,
    /// Deletes.
    Delete,
}

/// Commits a batch with the clock running; returns whether to go on.
pub(crate) fn timed_commit(
    worker: &mut Worker<'_, '_>,
    batch: &mut BatchBuffer<'_>,
    kind: Kind,
) -> Result<bool, String> {
    let operations = batch.records.len() as u64;
    worker.recorder.begin();
    worker.tally.conflicts += batch.commit(worker.session.as_mut())?;
    let go_on = worker.recorder.end(kind, operations);
    worker.done += operations;
    worker.tally.commits += 1;
    worker.tally.user_bytes += batch.user_bytes();
    Ok(go_on)
}

/// Changes each record of the thread's part of the order once.
pub(crate) fn each(
    dataset: &Dataset,
    order: &Order,
    worker: &mut Worker<'_, '_>,
    change: Change,
) -> Result<(), String> {
    let shape = &dataset.shape;
    let (split, thread) = (dataset.split(), worker.thread);
    let mut batch = BatchBuffer::new(dataset);
    // Divisions belong before the loop: they cost as much as a key.
    let mut position = split.position(shape.num, shape.threads, thread, 0);
    let stride = split.stride(shape.threads);
    for _ in 0..split.length(shape.num, shape.threads, thread) {
        let record = order.at(position);
        position += stride;
        match change {
            Change::Put => batch.put(record, 0),
            Change::Expire if record.is_multiple_of(2) => batch.put_expiring_at(record, NEVER),
            Change::Expire => batch.put_expiring_at(record, LONG_AGO),
            Change::Delete => batch.delete(record),
        }
        if batch.is_full() {
            let go_on = timed_commit(worker, &mut batch, Kind::Primary)?;
            batch.clear();
            if !go_on {
                return Ok(());
            }
        }
    }
    if !batch.records.is_empty() {
        timed_commit(worker, &mut batch, Kind::Primary)?;
    }
    Ok(())
}

/// Operations of a thread that draws: as many as there are records, unless the test says.
fn draws(dataset: &Dataset, thread: u64) -> u64 {
    let shape = &dataset.shape;
    let unbounded = shape.seconds.is_some() && shape.workload.needs_data();
    let total = shape.operations.or((!unbounded).then_some(shape.num));
    share_of(total, shape.threads, thread)
}

/// Draws records and puts their next generation, or deletes them, again where they are gone
/// already. Where nothing is checked, a put has any value and the table stays as it is.
pub(crate) fn drawn(
    dataset: &Dataset,
    table: &Generations,
    worker: &mut Worker<'_, '_>,
    change: Change,
) -> Result<(), String> {
    let mut chooser = dataset.chooser(worker.thread);
    let mut batch = BatchBuffer::new(dataset);
    let mut left = draws(dataset, worker.thread);
    // The table costs cache misses, which are a tenth of a put.
    let checked = dataset.shape.verify != Verify::None;
    while left > 0 {
        let record = table.own(worker.thread, chooser.next_resident());
        match change {
            Change::Delete => {
                if checked {
                    table.begin_delete(record);
                }
                batch.delete(record);
            }
            _ if checked => batch.put(record, table.begin(record)),
            _ => batch.put_unchecked(record, left),
        }
        left -= 1;
        if batch.is_full() || left == 0 {
            let go_on = timed_commit(worker, &mut batch, Kind::Primary)?;
            if checked {
                batch.records.iter().for_each(|record| table.commit(*record));
            }
            batch.clear();
            if !go_on {
                break;
            }
        }
    }
    Ok(())
}

/// Deletes ranges of `range_size` records; the thread's slice is taken in steps of twice as many,
/// so that half of the records stay.
pub(crate) fn delete_ranges(
    dataset: &Dataset,
    table: &Generations,
    worker: &mut Worker<'_, '_>,
) -> Result<(), String> {
    let shape = &dataset.shape;
    let slice = crate::data::order::slice_of(shape.num, shape.threads, worker.thread);
    let (mut start_key, mut end_key) = (vec![0; shape.key_size], vec![0; shape.key_size]);
    let mut start = slice.start;
    while start + shape.range_size < slice.end {
        let end = start + shape.range_size;
        dataset.keys.encode(start, &mut start_key);
        dataset.keys.encode(end, &mut end_key);
        (start..end).for_each(|record| table.begin_delete(record));
        worker.recorder.begin();
        worker
            .session
            .write_batch(&[Op::DeleteRange { start: &start_key, end: &end_key }])
            .map_err(|error| format!("delete range: {error}"))?;
        let go_on = worker.recorder.end(Kind::Primary, 1);
        (start..end).for_each(|record| table.commit(record));
        worker.done += 1;
        worker.tally.commits += 1;
        worker.tally.user_bytes += 2 * shape.key_size as u64;
        start = end + shape.range_size;
        if !go_on {
            break;
        }
    }
    Ok(())
}
