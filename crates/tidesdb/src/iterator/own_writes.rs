//! The writes of a transaction to one family, in key order, as they were when a scan was made.
//!
//! A copy: the scan goes on showing it when the transaction writes on or rolls back. It counts as
//! memory of transactions for as long as a scan or the transaction holds it.

use std::sync::Arc;

use tidesdb_base::entry::ValueKind;
use tidesdb_files::wal::Operation;

use crate::flow::{Holder, Lent, MemoryBudget};

/// Memory that is too little to be counted: counting writes to what all threads share.
const LITTLE_BYTES: usize = 4 << 10;

#[derive(Debug)]
struct Entry {
    /// Where key and value begin in the bytes, and where the value ends.
    key: usize,
    value: usize,
    end: usize,
    kind: ValueKind,
    expires_at: u64,
}

/// Own writes, one per key.
#[derive(Debug)]
pub(crate) struct OwnWrites {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
    _lent: Option<Lent>,
}

impl OwnWrites {
    /// These operations, which are on different keys.
    pub(crate) fn new(mut operations: Vec<Operation<'_>>, budget: &Arc<MemoryBudget>) -> Self {
        operations.sort_unstable_by(|a, b| a.key.cmp(b.key));
        let bytes = operations.iter().map(|op| op.key.len() + op.value.len()).sum();
        let held = bytes + operations.len() * size_of::<Entry>();
        let lent = || budget.lend(Holder::Transactions, held as u64);
        let mut own = Self {
            _lent: (held > LITTLE_BYTES).then(lent),
            bytes: Vec::with_capacity(bytes),
            entries: Vec::with_capacity(operations.len()),
        };
        for operation in &operations {
            let key = own.bytes.len();
            own.bytes.extend_from_slice(operation.key);
            let value = own.bytes.len();
            own.bytes.extend_from_slice(operation.value);
            let end = own.bytes.len();
            let (kind, expires_at) = (operation.kind, operation.expires_at);
            own.entries.push(Entry { key, value, end, kind, expires_at });
        }
        own
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn key_of(&self, entry: &Entry) -> &[u8] {
        self.bytes.get(entry.key..entry.value).unwrap_or_default()
    }
}

/// Walks own writes.
#[derive(Debug)]
pub(super) struct OwnSource {
    own: Arc<OwnWrites>,
    /// None when it is exhausted.
    at: Option<usize>,
}

impl OwnSource {
    pub(super) const fn new(own: Arc<OwnWrites>) -> Self {
        Self { own, at: None }
    }

    fn entry(&self) -> Option<&Entry> {
        self.at.and_then(|at| self.own.entries.get(at))
    }

    pub(super) const fn valid(&self) -> bool {
        self.at.is_some()
    }

    pub(super) fn key(&self) -> &[u8] {
        self.entry().map_or(&[], |entry| self.own.key_of(entry))
    }

    pub(super) fn kind(&self) -> ValueKind {
        self.entry().map_or(ValueKind::Tombstone, |entry| entry.kind)
    }

    pub(super) fn expires_at(&self) -> u64 {
        self.entry().map_or(0, |entry| entry.expires_at)
    }

    pub(super) fn value(&self) -> &[u8] {
        self.entry().and_then(|entry| self.own.bytes.get(entry.value..entry.end)).unwrap_or(&[])
    }

    fn to(&mut self, at: usize) {
        self.at = (at < self.own.entries.len()).then_some(at);
    }

    pub(super) fn seek(&mut self, key: &[u8]) {
        self.to(self.own.entries.partition_point(|entry| self.own.key_of(entry) < key));
    }

    pub(super) fn seek_for_prev(&mut self, key: &[u8]) {
        let through = self.own.entries.partition_point(|entry| self.own.key_of(entry) <= key);
        self.at = through.checked_sub(1);
    }

    pub(super) fn seek_to_first(&mut self) {
        self.to(0);
    }

    pub(super) fn seek_to_last(&mut self) {
        self.at = self.own.entries.len().checked_sub(1);
    }

    pub(super) fn next(&mut self) {
        if let Some(at) = self.at {
            self.to(at + 1);
        }
    }

    pub(super) fn prev(&mut self) {
        self.at = self.at.and_then(|at| at.checked_sub(1));
    }
}
