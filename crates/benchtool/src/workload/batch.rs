//! A batch under construction: keys and values are made before the clock is read.
//!
//! One buffer belongs to one thread and is reused from batch to batch. Entries are puts, deletes or
//! puts that expire; each remembers its record, so that the caller can mark it committed.

use super::Dataset;
use bench_compare::engine::{self, Commit, EngineError, Op, Session};

/// What an entry does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    /// A put of so many value bytes.
    Put(usize),
    /// A put of so many value bytes that vanishes at a Unix time.
    Expiring(usize, u64),
    Delete,
}

/// Key and value bytes of the batch under construction.
pub(crate) struct BatchBuffer<'a> {
    dataset: &'a Dataset,
    limit: usize,
    keys: Vec<u8>,
    values: Vec<u8>,
    changes: Vec<Change>,
    user_bytes: u64,
    /// Records of the batch.
    pub(crate) records: Vec<u64>,
}

impl<'a> BatchBuffer<'a> {
    /// A buffer for the test's batch size.
    pub(crate) fn new(dataset: &'a Dataset) -> Self {
        let limit = dataset.shape.batch as usize;
        Self {
            dataset,
            limit,
            keys: vec![0; limit * dataset.keys.key_bytes()],
            values: Vec::new(),
            changes: Vec::with_capacity(limit),
            user_bytes: 0,
            records: Vec::with_capacity(limit),
        }
    }

    /// Whether the batch has to be committed before the next entry.
    pub(crate) fn is_full(&self) -> bool {
        self.records.len() == self.limit
    }

    #[inline]
    fn add(&mut self, record: u64, change: Change, bytes: usize) {
        let index = self.records.len();
        let key_bytes = self.dataset.keys.key_bytes();
        self.dataset.keys.encode(record, &mut self.keys[index * key_bytes..][..key_bytes]);
        self.changes.push(change);
        self.records.push(record);
        self.user_bytes += (key_bytes + bytes) as u64;
    }

    /// Writes the value of the next entry; returns its size.
    #[inline]
    fn fill(&mut self, record: u64, generation: u32) -> usize {
        let (index, largest) = (self.records.len(), self.dataset.values.largest());
        if self.values.is_empty() {
            self.values = vec![0; self.limit * largest];
        }
        let value = &mut self.values[index * largest..][..largest];
        self.dataset.values.fill(record, generation, value)
    }

    /// Adds a put of a record's generation.
    pub(crate) fn put(&mut self, record: u64, generation: u32) {
        let bytes = self.fill(record, generation);
        self.add(record, Change::Put(bytes), bytes);
    }

    /// Adds a put of the value of any other record, for contents that are not checked: values of
    /// consecutive numbers come out of the processor's prefetcher.
    pub(crate) fn put_unchecked(&mut self, record: u64, number: u64) {
        let bytes = self.fill(number, 0);
        self.add(record, Change::Put(bytes), bytes);
    }

    /// Adds a put that vanishes at a Unix time.
    pub(crate) fn put_expiring_at(&mut self, record: u64, at: u64) {
        let bytes = self.fill(record, 0);
        self.add(record, Change::Expiring(bytes, at), bytes);
    }

    /// Adds a delete.
    pub(crate) fn delete(&mut self, record: u64) {
        self.add(record, Change::Delete, 0);
    }

    #[inline]
    fn op(&self, index: usize) -> Op<'_> {
        let key_bytes = self.dataset.keys.key_bytes();
        let key = &self.keys[index * key_bytes..][..key_bytes];
        let place = index * self.dataset.values.largest();
        match self.changes[index] {
            Change::Put(bytes) => Op::Put { key, value: &self.values[place..][..bytes] },
            Change::Expiring(bytes, at) => {
                Op::PutExpiring { key, value: &self.values[place..][..bytes], at }
            }
            Change::Delete => Op::Delete { key },
        }
    }

    /// Hands the batch to the engine; returns how often that met a conflict and was repeated.
    pub(crate) fn commit(&self, session: &mut dyn Session) -> Result<u64, String> {
        if self.dataset.shape.families > 1 {
            let family = self.dataset.family_of(self.records[0]);
            session.use_family(family).map_err(|error| format!("family: {error}"))?;
        }
        if self.dataset.shape.in_transactions {
            let mut conflicts = 0;
            while self.transact(session).map_err(|error| format!("transaction: {error}"))?
                == Commit::Conflict
            {
                conflicts += 1;
            }
            return Ok(conflicts);
        }
        let outcome = if self.records.len() == 1 {
            session.write_batch(&[self.op(0)])
        } else {
            let ops: Vec<Op<'_>> = (0..self.records.len()).map(|index| self.op(index)).collect();
            session.write_batch(&ops)
        };
        outcome.map(|()| 0).map_err(|error| format!("write: {error}"))
    }

    /// One try to commit the batch as a transaction.
    fn transact(&self, session: &mut dyn Session) -> engine::Result<Commit> {
        session.begin(self.dataset.shape.isolation.of_engines())?;
        for index in 0..self.records.len() {
            match self.op(index) {
                Op::Put { key, value } => session.put_in_transaction(key, value)?,
                _ => return Err(EngineError::unsupported("anything but puts in a transaction")),
            }
        }
        session.commit()
    }

    /// Key and value bytes of the batch.
    pub(crate) fn user_bytes(&self) -> u64 {
        self.user_bytes
    }

    /// Starts the next batch.
    pub(crate) fn clear(&mut self) {
        self.records.clear();
        self.changes.clear();
        self.user_bytes = 0;
    }
}
