//! The writes of a transaction to one family, in key order, as they were when a scan was made.
//!
//! A copy: the scan goes on showing it when the transaction writes on or rolls back.

use tidesdb_base::entry::{ValueKind, is_expired};
use tidesdb_files::wal::Operation;

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
#[derive(Debug, Default)]
pub(super) struct Overlay {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
}

impl Overlay {
    /// The overlay of these operations, which are on different keys.
    pub(super) fn new(mut operations: Vec<Operation<'_>>) -> Self {
        operations.sort_unstable_by(|a, b| a.key.cmp(b.key));
        let bytes = operations.iter().map(|op| op.key.len() + op.value.len()).sum();
        let mut overlay = Self {
            bytes: Vec::with_capacity(bytes),
            entries: Vec::with_capacity(operations.len()),
        };
        for operation in &operations {
            let key = overlay.bytes.len();
            overlay.bytes.extend_from_slice(operation.key);
            let value = overlay.bytes.len();
            overlay.bytes.extend_from_slice(operation.value);
            let end = overlay.bytes.len();
            let (kind, expires_at) = (operation.kind, operation.expires_at);
            overlay.entries.push(Entry { key, value, end, kind, expires_at });
        }
        overlay
    }

    pub(super) const fn len(&self) -> usize {
        self.entries.len()
    }

    /// Number of keys before `key`.
    pub(super) fn before(&self, key: &[u8]) -> usize {
        self.entries.partition_point(|entry| self.slice(entry.key, entry.value) < key)
    }

    /// Number of keys before `key` and at it.
    pub(super) fn through(&self, key: &[u8]) -> usize {
        self.entries.partition_point(|entry| self.slice(entry.key, entry.value) <= key)
    }

    pub(super) fn key(&self, at: usize) -> &[u8] {
        self.entries.get(at).map_or(&[], |entry| self.slice(entry.key, entry.value))
    }

    pub(super) fn value(&self, at: usize) -> &[u8] {
        self.entries.get(at).map_or(&[], |entry| self.slice(entry.value, entry.end))
    }

    /// The write was a deletion, or has expired.
    pub(super) fn hides(&self, at: usize, now: u64) -> bool {
        self.entries
            .get(at)
            .is_none_or(|entry| entry.kind.is_tombstone() || is_expired(entry.expires_at, now))
    }

    fn slice(&self, from: usize, to: usize) -> &[u8] {
        self.bytes.get(from..to).unwrap_or_default()
    }
}
