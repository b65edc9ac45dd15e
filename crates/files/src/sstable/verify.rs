//! Reads a whole table and compares everything it says with everything else it says.
//!
//! Besides checksums: the order of all entries, the exact layout of each block, heads, the index
//! (each separator lies between its neighbours), the filter (it lets every key through), and every
//! count and bound of footer and properties. Used by tests, by the command-line tool, and by the
//! engine when it is asked to check what it has written.

use super::block::BlockHolder;
use super::index::Leaves;
use super::iterator::{Readahead, TableIterator};
use super::properties::{TableSummary, ValueReferences};
use super::{Table, Uncached};
use crate::filter::key_hash;
use crate::vlog::ValuePointer;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use tidesdb_base::entry::is_expired;
use tidesdb_base::{Error, Result, ValueKind};

/// Read-ahead of a check.
const PIECE_BYTES: usize = 256 << 10;

/// Entries between two reports of how far a check is.
const ENTRIES_PER_REPORT: u64 = 1024;

impl Table {
    /// Reads everything and checks it against everything.
    ///
    /// # Errors
    /// [`Error::Corruption`] at the first damage or contradiction, or [`Error::Io`].
    pub fn verify(&self) -> Result<()> {
        self.verify_with_progress(&mut |_| Ok(()))
    }

    /// As [`Table::verify`]. `progress` is called now and then with the bytes of data blocks that
    /// were checked since; an error that it returns ends the check.
    ///
    /// # Errors
    /// As [`Table::verify`], and what `progress` returns.
    pub fn verify_with_progress(&self, progress: &mut dyn FnMut(u64) -> Result<()>) -> Result<()> {
        // Everything is read twice, and each time counts half.
        self.verify_blocks(progress)?;
        let counted = self.verify_entries(progress)?;
        let expected = self.summary();
        let counted = TableSummary {
            file_len: expected.file_len,
            data_blocks: self.block_count() as u64,
            index_nodes: expected.index_nodes,
            // Depends on when the table was written; `verify_entries` has checked what it promises.
            expiry: expected.expiry.clone(),
            origin: expected.origin.clone(),
            ..counted
        };
        if counted == *expected {
            return Ok(());
        }
        let text = format!("table holds {counted:?}, expected {expected:?}, which it says");
        Err(Error::corruption(self.path(), self.index.data_bytes(), text))
    }

    /// Checks the layout of each block, and that its keys lie between its neighbours' separators.
    fn verify_blocks(&self, progress: &mut dyn FnMut(u64) -> Result<()>) -> Result<()> {
        let mut scratch = Vec::new();
        let mut before: Option<Vec<u8>> = None;
        let mut leaves = Leaves::reading();
        let mut end = 0;
        for at in 0..self.block_count() {
            let Some(handle) = leaves.handle(self, &Uncached, at)? else { break };
            if handle.offset != end {
                let text = format!(
                    "block {at} is said to lie here, expected at {end}, where the one before ends"
                );
                return Err(Error::corruption(self.path(), handle.offset, text));
            }
            end = handle.offset + u64::from(handle.len);
            let damaged = |text: &str| Error::corruption(self.path(), handle.offset, text);
            let block = self.read_block(handle, &mut scratch)?;
            let block = block.view();
            if !block.is_exact() {
                return Err(self.malformed(handle));
            }
            let (Some(first), Some(last)) = (block.key(0), block.key(block.len() - 1)) else {
                return Err(self.malformed(handle));
            };
            let separator = leaves.separator(self, &Uncached, at)?;
            if last > separator {
                return Err(damaged(
                    "expected keys up to the separator in the index, found a last key above",
                ));
            }
            if self.index.separator_in_root(at).is_some_and(|in_root| in_root != separator) {
                return Err(damaged(
                    "expected one separator in root and node of the index, found two",
                ));
            }
            // Equal only where versions of one key straddle two blocks.
            if before.is_some_and(|before| before > first) {
                return Err(damaged(
                    "expected keys from the separator before on, found a first key below",
                ));
            }
            before = Some(separator);
            progress(u64::from(handle.len) / 2)?;
        }
        if end != self.index.data_bytes() {
            let text = format!("data blocks end here, expected at {}", self.index.data_bytes());
            return Err(Error::corruption(self.path(), end, text));
        }
        Ok(())
    }

    /// Walks all entries in order and adds up what they amount to.
    fn verify_entries(&self, progress: &mut dyn FnMut(u64) -> Result<()>) -> Result<TableSummary> {
        let share = self.index.data_bytes() / 2 / self.summary().entries.max(1);
        let mut entries = TableIterator::new(self, Uncached, Readahead::Bytes(PIECE_BYTES));
        let mut summary = TableSummary::default();
        let mut references = BTreeMap::new();
        let octiles = self.summary().expiry.times();
        let mut expired = vec![0; octiles.len()];
        let mut last: Option<(Vec<u8>, u64)> = None;
        entries.seek_to_first()?;
        while entries.valid() {
            let (key, meta) = (entries.key(), entries.meta());
            let order = last.as_ref().map(|(last_key, last_seq)| {
                last_key.as_slice().cmp(key).then_with(|| meta.seq.cmp(last_seq))
            });
            if order.is_some_and(|order| order != Ordering::Less) {
                return Err(self
                    .contradiction(key, "comes out of order, expected behind the one before it"));
            }
            let new_key = last.as_ref().is_none_or(|(last_key, _)| last_key.as_slice() != key);
            if new_key {
                let hash = key_hash(key);
                summary.keys.add(hash);
                if !self.filters_know(key, hash)? {
                    return Err(self.contradiction(
                        key,
                        "is expected in each filter, and one has not found it",
                    ));
                }
            }
            let mut bytes = (key.len() + entries.value().len()) as u64;
            if meta.kind == ValueKind::ValuePointer {
                let pointer = ValuePointer::decode(entries.value()).map_err(|_| {
                    self.contradiction(key, "has no value pointer where one is expected")
                })?;
                bytes += add_reference(&mut references, &pointer);
            }
            for (expired, &time) in expired.iter_mut().zip(octiles) {
                *expired += if is_expired(meta.expires_at, time) { bytes } else { 0 };
            }
            summary.distinct_keys += u64::from(new_key);
            add_entry(&mut summary, &entries);
            last = Some((key.to_vec(), meta.seq));
            if summary.entries.is_multiple_of(ENTRIES_PER_REPORT) {
                progress(share * ENTRIES_PER_REPORT)?;
            }
            entries.next()?;
        }
        summary.max_key = last.map(|(key, _)| key).unwrap_or_default();
        summary.value_references = references.into_values().collect();
        let all = summary.bytes_with_values();
        let too_early = |(eighths, expired): (u64, &u64)| expired.saturating_mul(8) < eighths * all;
        if (1..).zip(&expired).any(too_early) {
            let text = "table says that more of it expires than the expected share, which does";
            return Err(Error::corruption(self.path(), self.index.data_bytes(), text));
        }
        Ok(summary)
    }

    fn contradiction(&self, key: &[u8], what: &str) -> Error {
        let offset = self.bytes_before(key);
        Error::corruption(self.path(), offset, format!("key {} {what}", key.escape_ascii()))
    }
}

/// Counts a pointer, and returns how many bytes it stands for.
fn add_reference(references: &mut BTreeMap<u64, ValueReferences>, pointer: &ValuePointer) -> u64 {
    let none = ValueReferences { file: pointer.file, bytes: 0, count: 0 };
    let reference = references.entry(pointer.file).or_insert(none);
    reference.bytes += pointer.record_bytes();
    reference.count += 1;
    pointer.record_bytes()
}

fn add_entry(summary: &mut TableSummary, entry: &TableIterator<&Table, Uncached>) {
    let meta = entry.meta();
    if summary.entries == 0 {
        summary.min_key = entry.key().to_vec();
        summary.min_seq = meta.seq;
    }
    summary.entries += 1;
    summary.tombstones += u64::from(meta.kind.is_tombstone());
    summary.min_seq = summary.min_seq.min(meta.seq);
    summary.max_seq = summary.max_seq.max(meta.seq);
    summary.raw_bytes += (entry.key().len() + entry.value().len()) as u64;
    let sooner = summary.earliest_expiry == 0 || meta.expires_at < summary.earliest_expiry;
    if meta.expires_at != 0 && sooner {
        summary.earliest_expiry = meta.expires_at;
    }
}
