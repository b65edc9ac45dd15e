//! The writes of a transaction to one family, in key order, as they were when a scan was made.
//!
//! A copy: the scan goes on showing it when the transaction writes on or rolls back. It is kept in
//! chunks of neighbouring keys, which scans and the transaction share. What is written between two
//! scans goes into the chunks that it belongs to, so a scan after each write costs as much as the
//! write, and not as much as all writes before it. Only chunks that a scan still shows are copied.
//!
//! It counts as memory of transactions for as long as a scan or the transaction holds it.

use std::sync::Arc;

use tidesdb_base::entry::ValueKind;
use tidesdb_files::wal::Operation;

use crate::memory::{Holder, MemoryBudget, MemoryReservation};

/// Memory that is too little to be counted: counting writes to what all threads share.
const LITTLE_BYTES: usize = 4 << 10;

/// A chunk with more entries, or with several of more bytes together, is cut in two.
const MOST_ENTRIES: usize = 256;
const MOST_BYTES: usize = 16 << 10;

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Where key and value begin in the bytes, and where the value ends.
    key: usize,
    value: usize,
    end: usize,
    kind: ValueKind,
    expires_at: u64,
}

/// Own writes on neighbouring keys, at least one.
#[derive(Debug, Default)]
struct Chunk {
    bytes: Vec<u8>,
    /// In key order.
    entries: Vec<Entry>,
    /// Bytes that no entry has any more.
    dead: usize,
    reservation: Option<MemoryReservation>,
}

impl Chunk {
    fn with_capacity(bytes: usize, entries: usize) -> Self {
        let (bytes, entries) = (Vec::with_capacity(bytes), Vec::with_capacity(entries));
        Self { bytes, entries, ..Self::default() }
    }

    fn key_of(&self, entry: &Entry) -> &[u8] {
        self.bytes.get(entry.key..entry.value).unwrap_or_default()
    }

    fn first_key(&self) -> &[u8] {
        self.entries.first().map_or(&[], |entry| self.key_of(entry))
    }

    fn last_key(&self) -> &[u8] {
        self.entries.last().map_or(&[], |entry| self.key_of(entry))
    }

    fn is_too_large(&self) -> bool {
        let live = self.bytes.len() - self.dead;
        self.entries.len() > MOST_ENTRIES || (live > MOST_BYTES && self.entries.len() > 1)
    }

    /// Notes an operation in the bytes.
    fn entry_of(&mut self, operation: &Operation<'_>) -> Entry {
        let key = self.bytes.len();
        self.bytes.extend_from_slice(operation.key);
        let value = self.bytes.len();
        self.bytes.extend_from_slice(operation.value);
        let end = self.bytes.len();
        Entry { key, value, end, kind: operation.kind, expires_at: operation.expires_at }
    }

    /// Adds an operation, in the place of the one on the same key.
    fn put(&mut self, operation: &Operation<'_>) {
        let entry = self.entry_of(operation);
        let place = self.entries.binary_search_by(|entry| self.key_of(entry).cmp(operation.key));
        match place {
            Ok(at) => {
                if let Some(old) = self.entries.get_mut(at) {
                    self.dead += old.end - old.key;
                    *old = entry;
                }
                self.drop_dead();
            }
            Err(at) => self.entries.insert(at, entry),
        }
    }

    /// Takes the entry at a place out.
    fn remove(&mut self, at: usize) {
        let old = self.entries.remove(at);
        self.dead += old.end - old.key;
        self.drop_dead();
    }

    /// Lets go of bytes that no entry has, if these are most.
    fn drop_dead(&mut self) {
        if self.dead > self.bytes.len() / 2 {
            *self = Self {
                reservation: self.reservation.take(),
                ..self.copy_of(0, self.entries.len())
            };
        }
    }

    /// Some of the entries, with their bytes alone.
    fn copy_of(&self, from: usize, to: usize) -> Self {
        let entries = self.entries.get(from..to).unwrap_or_default();
        let bytes = entries.iter().map(|entry| entry.end - entry.key).sum();
        let mut copy = Self::with_capacity(bytes, entries.len());
        for entry in entries {
            let at = copy.bytes.len();
            copy.bytes.extend_from_slice(self.bytes.get(entry.key..entry.end).unwrap_or_default());
            let (value, end) = (at + (entry.value - entry.key), at + (entry.end - entry.key));
            copy.entries.push(Entry { key: at, value, end, ..*entry });
        }
        copy
    }

    /// Counts the memory that is held now.
    fn counted(mut self, budget: &Arc<MemoryBudget>) -> Arc<Self> {
        self.count(budget);
        Arc::new(self)
    }

    fn count(&mut self, budget: &Arc<MemoryBudget>) {
        let entries = self.entries.capacity() * size_of::<Entry>();
        let held = self.bytes.capacity() + entries;
        match &mut self.reservation {
            Some(reservation) if reservation.bytes() != held as u64 => {
                reservation.change_to(held as u64)
            }
            None if held > LITTLE_BYTES => {
                self.reservation = Some(budget.reserve(Holder::Transactions, held as u64));
            }
            _ => {}
        }
    }
}

/// The chunk to be changed: a copy if a scan shows it.
fn unshared(shared: &mut Arc<Chunk>) -> Option<&mut Chunk> {
    if Arc::get_mut(shared).is_none() {
        *shared = Arc::new(shared.copy_of(0, shared.entries.len()));
    }
    Arc::get_mut(shared)
}

/// Own writes, one per key.
#[derive(Clone, Debug)]
pub(crate) struct OwnWrites {
    /// In key order.
    chunks: Vec<Arc<Chunk>>,
}

impl OwnWrites {
    /// These operations, which are on different keys.
    pub(crate) fn new(mut operations: Vec<Operation<'_>>, budget: &Arc<MemoryBudget>) -> Self {
        operations.sort_unstable_by(|a, b| a.key.cmp(b.key));
        let mut chunks = Vec::new();
        let mut rest = operations.as_slice();
        while !rest.is_empty() {
            let (mut count, mut bytes) = (0, 0);
            for operation in rest.iter().take(MOST_ENTRIES) {
                let more = operation.key.len() + operation.value.len();
                if count > 0 && bytes + more > MOST_BYTES {
                    break;
                }
                (count, bytes) = (count + 1, bytes + more);
            }
            let (these, others) = rest.split_at(count);
            let mut chunk = Chunk::with_capacity(bytes, count);
            for operation in these {
                let entry = chunk.entry_of(operation);
                chunk.entries.push(entry);
            }
            chunks.push(chunk.counted(budget));
            rest = others;
        }
        Self { chunks }
    }

    /// Adds an operation, in the place of the one on the same key.
    pub(crate) fn put(&mut self, operation: &Operation<'_>, budget: &Arc<MemoryBudget>) {
        let behind = self.chunks.partition_point(|chunk| chunk.first_key() <= operation.key);
        let at = behind.saturating_sub(1);
        let is_last = behind == self.chunks.len();
        let Some(shared) = self.chunks.get_mut(at) else {
            *self = Self::new(vec![*operation], budget);
            return;
        };
        // Keys that are written in their order fill the chunks.
        let is_full = shared.entries.len() >= MOST_ENTRIES || shared.bytes.len() >= MOST_BYTES;
        if is_last && is_full && shared.last_key() < operation.key {
            let mut chunk = Chunk::default();
            chunk.put(operation);
            self.chunks.push(chunk.counted(budget));
            return;
        }
        let Some(chunk) = unshared(shared) else { return };
        chunk.put(operation);
        if chunk.is_too_large() {
            let half = chunk.entries.len() / 2;
            let upper = chunk.copy_of(half, chunk.entries.len()).counted(budget);
            let lower = chunk.copy_of(0, half).counted(budget);
            *shared = lower;
            self.chunks.insert(at + 1, upper);
        } else {
            chunk.count(budget);
        }
    }

    /// Takes the operation on a key out.
    pub(crate) fn remove(&mut self, key: &[u8], budget: &Arc<MemoryBudget>) {
        let behind = self.chunks.partition_point(|chunk| chunk.first_key() <= key);
        let Some(at) = behind.checked_sub(1) else { return };
        let Some(shared) = self.chunks.get_mut(at) else { return };
        let place = shared.entries.binary_search_by(|entry| shared.key_of(entry).cmp(key));
        let Ok(place) = place else { return };
        if shared.entries.len() == 1 {
            self.chunks.remove(at);
            return;
        }
        if let Some(chunk) = unshared(shared) {
            chunk.remove(place);
            chunk.count(budget);
        }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }
}

/// Walks own writes.
#[derive(Debug)]
pub(super) struct OwnSource {
    own: Arc<OwnWrites>,
    /// Chunk and entry; none when it is exhausted.
    at: Option<(usize, usize)>,
}

impl OwnSource {
    pub(super) const fn new(own: Arc<OwnWrites>) -> Self {
        Self { own, at: None }
    }

    fn chunk(&self) -> Option<&Chunk> {
        self.at.and_then(|(chunk, _)| self.own.chunks.get(chunk)).map(Arc::as_ref)
    }

    fn entry(&self) -> Option<&Entry> {
        self.at.and_then(|(_, entry)| self.chunk()?.entries.get(entry))
    }

    pub(super) const fn valid(&self) -> bool {
        self.at.is_some()
    }

    pub(super) fn key(&self) -> &[u8] {
        let key = |chunk| self.entry().map(|entry| Chunk::key_of(chunk, entry));
        self.chunk().and_then(key).unwrap_or_default()
    }

    pub(super) fn kind(&self) -> ValueKind {
        self.entry().map_or(ValueKind::Tombstone, |entry| entry.kind)
    }

    pub(super) fn expires_at(&self) -> u64 {
        self.entry().map_or(0, |entry| entry.expires_at)
    }

    pub(super) fn value(&self) -> &[u8] {
        match (self.chunk(), self.entry()) {
            (Some(chunk), Some(entry)) => {
                chunk.bytes.get(entry.value..entry.end).unwrap_or_default()
            }
            _ => &[],
        }
    }

    /// To the entry of a chunk, or the first of the next one.
    fn go_to(&mut self, chunk: usize, entry: usize) {
        let chunks = &self.own.chunks;
        let has = chunks.get(chunk).is_some_and(|chunk| entry < chunk.entries.len());
        let next = || (chunk + 1 < chunks.len()).then_some((chunk + 1, 0));
        self.at = if has { Some((chunk, entry)) } else { next() };
    }

    /// To the last entry in front of one of a chunk.
    fn go_before(&mut self, chunk: usize, entry: usize) {
        let last_of = |chunk: usize| {
            let last = self.own.chunks.get(chunk)?.entries.len().checked_sub(1)?;
            Some((chunk, last))
        };
        self.at = match entry.checked_sub(1) {
            Some(entry) => Some((chunk, entry)),
            None => chunk.checked_sub(1).and_then(last_of),
        };
    }

    /// Of the first key that is not `before`: the chunk that it is in if it does not begin one, and
    /// its place there.
    fn place(&self, before: impl Fn(&[u8]) -> bool) -> (usize, usize) {
        let behind = self.own.chunks.partition_point(|chunk| before(chunk.first_key()));
        let Some(at) = behind.checked_sub(1) else { return (0, 0) };
        let within =
            |chunk: &Arc<Chunk>| chunk.entries.partition_point(|e| before(chunk.key_of(e)));
        (at, self.own.chunks.get(at).map_or(0, within))
    }

    pub(super) fn seek(&mut self, key: &[u8]) {
        let (chunk, entry) = self.place(|other| other < key);
        self.go_to(chunk, entry);
    }

    pub(super) fn seek_for_prev(&mut self, key: &[u8]) {
        let (chunk, entry) = self.place(|other| other <= key);
        self.go_before(chunk, entry);
    }

    pub(super) fn seek_to_first(&mut self) {
        self.go_to(0, 0);
    }

    pub(super) fn seek_to_last(&mut self) {
        self.go_before(self.own.chunks.len(), 0);
    }

    pub(super) fn next(&mut self) {
        if let Some((chunk, entry)) = self.at {
            self.go_to(chunk, entry + 1);
        }
    }

    pub(super) fn prev(&mut self) {
        if let Some((chunk, entry)) = self.at {
            self.go_before(chunk, entry);
        }
    }
}

#[cfg(test)]
mod tests;
