//! Puts, overwrites and deletes, in batches.
//!
//! [`each`] takes every record of the thread's slice once, so the expected
//! contents follow from how far each thread came. [`overwrite`] and [`delete_drawn`] draw records with
//! replacement; they go through the generation table, where each record belongs to one thread.
//! Keys and values of a batch are made before the clock is read.

use super::{Chooser, Dataset, Worker, share_of};
use crate::data::expect::Generations;
use crate::data::order::{Order, slice_of};
use crate::measure::recorder::Kind;
use bench_compare::engine::{Op, Session};

/// Key and value bytes of the batch under construction, reused from batch to batch.
pub(crate) struct BatchBuffer<'a> {
    dataset: &'a Dataset,
    keys: Vec<u8>,
    values: Vec<u8>,
    deletes: bool,
    /// Records of the batch.
    pub(crate) records: Vec<u64>,
}

impl<'a> BatchBuffer<'a> {
    pub(crate) fn new(dataset: &'a Dataset, deletes: bool) -> Self {
        let batch = dataset.shape.batch as usize;
        let value_bytes = if deletes { 0 } else { dataset.values.value_bytes() };
        Self {
            dataset,
            keys: vec![0; batch * dataset.keys.key_bytes()],
            values: vec![0; batch * value_bytes],
            deletes,
            records: Vec::with_capacity(batch),
        }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.records.len() as u64 == self.dataset.shape.batch
    }

    /// Adds a put of a record's generation, or its delete.
    pub(crate) fn add(&mut self, record: u64, generation: u32) {
        let index = self.records.len();
        let key_bytes = self.dataset.keys.key_bytes();
        self.dataset.keys.encode(record, &mut self.keys[index * key_bytes..][..key_bytes]);
        if !self.deletes {
            let value_bytes = self.dataset.values.value_bytes();
            let value = &mut self.values[index * value_bytes..][..value_bytes];
            self.dataset.values.fill(record, generation, value);
        }
        self.records.push(record);
    }

    fn op(&self, index: usize) -> Op<'_> {
        let key_bytes = self.dataset.keys.key_bytes();
        let key = &self.keys[index * key_bytes..][..key_bytes];
        if self.deletes {
            return Op::Delete { key };
        }
        let value_bytes = self.dataset.values.value_bytes();
        Op::Put { key, value: &self.values[index * value_bytes..][..value_bytes] }
    }

    /// Hands the batch to the engine.
    pub(crate) fn commit(&self, session: &mut dyn Session) -> Result<(), String> {
        let outcome = if self.records.len() == 1 {
            session.write_batch(&[self.op(0)])
        } else {
            let ops: Vec<Op<'_>> = (0..self.records.len()).map(|index| self.op(index)).collect();
            session.write_batch(&ops)
        };
        outcome.map_err(|error| format!("write: {error}"))
    }

    /// Key and value bytes of the batch.
    pub(crate) fn user_bytes(&self) -> u64 {
        let record = if self.deletes {
            self.dataset.keys.key_bytes() as u64
        } else {
            self.dataset.record_bytes()
        };
        record * self.records.len() as u64
    }
}

/// Commits a batch with the clock running; returns whether to go on.
fn timed_commit(worker: &mut Worker<'_, '_>, batch: &mut BatchBuffer<'_>) -> Result<bool, String> {
    let operations = batch.records.len() as u64;
    worker.recorder.begin();
    batch.commit(worker.session.as_mut())?;
    let go_on = worker.recorder.end(Kind::Primary, operations);
    worker.done += operations;
    worker.tally.commits += 1;
    worker.tally.user_bytes += batch.user_bytes();
    batch.records.clear();
    Ok(go_on)
}

/// Puts, or deletes, each record of the thread's slice once.
pub(crate) fn each(
    dataset: &Dataset,
    order: &Order,
    worker: &mut Worker<'_, '_>,
    deletes: bool,
) -> Result<(), String> {
    let shape = &dataset.shape;
    let mut batch = BatchBuffer::new(dataset, deletes);
    let slice = slice_of(shape.num, shape.threads, worker.thread);
    for position in slice {
        batch.add(order.at(position), 0);
        if batch.is_full() && !timed_commit(worker, &mut batch)? {
            return Ok(());
        }
    }
    if !batch.records.is_empty() {
        timed_commit(worker, &mut batch)?;
    }
    Ok(())
}

/// Draws records and puts their next generation, as many operations as there are records.
pub(crate) fn overwrite(
    dataset: &Dataset,
    table: &Generations,
    worker: &mut Worker<'_, '_>,
) -> Result<(), String> {
    let mut chooser: Chooser = dataset.chooser(worker.thread);
    let mut batch = BatchBuffer::new(dataset, false);
    let mut left = share_of(Some(dataset.shape.num), dataset.shape.threads, worker.thread);
    while left > 0 {
        let record = table.own(worker.thread, chooser.next());
        batch.add(record, table.begin(record));
        left -= 1;
        if batch.is_full() || left == 0 {
            let written = batch.records.clone();
            let go_on = timed_commit(worker, &mut batch)?;
            written.iter().for_each(|record| table.commit(*record));
            if !go_on {
                break;
            }
        }
    }
    Ok(())
}

/// Draws records and deletes them, again where they are gone already.
pub(crate) fn delete_drawn(
    dataset: &Dataset,
    table: &Generations,
    worker: &mut Worker<'_, '_>,
) -> Result<(), String> {
    let mut chooser = dataset.chooser(worker.thread);
    let mut batch = BatchBuffer::new(dataset, true);
    let mut left = share_of(Some(dataset.shape.num), dataset.shape.threads, worker.thread);
    while left > 0 {
        batch.add(table.own(worker.thread, chooser.next()), 0);
        left -= 1;
        if batch.is_full() || left == 0 {
            let removed = batch.records.clone();
            let go_on = timed_commit(worker, &mut batch)?;
            removed.iter().for_each(|record| table.remove(*record));
            if !go_on {
                break;
            }
        }
    }
    Ok(())
}
