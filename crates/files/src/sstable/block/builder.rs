//! Collects the entries of one block and lays them out.
//!
//! The prefix is known only when the last key is, so entries are staged (keys and values back to
//! back, the rest in an array) and copied once more by [`BlockBuilder::finish`]. The caller adds
//! entries in order; the builder does not check that. One thread.
#![expect(
    clippy::cast_possible_truncation,
    clippy::indexing_slicing,
    reason = "writes what it holds: a block is shorter than 4 GiB"
)]

use super::{
    EntryMeta, FLAG_WIDE_LENGTHS, HEAD_BYTES, HEADER_BYTES, TAG_HAS_EXPIRY, TAG_SEQ_SHIFT, head_of,
    split_head,
};
use crate::sstable::common_prefix_len;
use tidesdb_base::codec::{put_u32, put_varint, varint_len};

#[derive(Debug)]
struct Staged {
    meta: EntryMeta,
    key_at: usize,
    key_len: usize,
    value_len: usize,
}

/// Builds one block after the other, keeping its allocations.
#[derive(Debug, Default)]
pub(crate) struct BlockBuilder {
    bytes: Vec<u8>,
    entries: Vec<Staged>,
    prefix_len: usize,
    meta_bytes: usize,
    lengths: Vec<usize>,
    encoded: Vec<u8>,
}

impl BlockBuilder {
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Raw bytes of the block if this entry were added.
    pub(crate) fn len_with(&self, key: &[u8], value: &[u8]) -> usize {
        let prefix_len = self.prefix_len_with(key);
        let count = self.entries.len() + 1;
        let bytes = self.bytes.len() + key.len() + value.len() - (count - 1) * prefix_len;
        HEADER_BYTES + count * (HEAD_BYTES + 2) + self.meta_bytes + 4 + bytes
    }

    fn prefix_len_with(&self, key: &[u8]) -> usize {
        match self.entries.first() {
            Some(first) => {
                let prefix = &self.bytes[first.key_at..first.key_at + self.prefix_len];
                // Most keys of a block leave the prefix as it is.
                if key.starts_with(prefix) {
                    return prefix.len();
                }
                common_prefix_len(prefix, key)
            }
            None => key.len(),
        }
    }

    /// Adds an entry; key and sequence number are within the engine's limits.
    pub(crate) fn push(&mut self, key: &[u8], meta: EntryMeta, value: &[u8]) {
        self.prefix_len = self.prefix_len_with(key);
        self.meta_bytes += 1
            + seq_len(meta.seq)
            + varint_len(key.len() as u64)
            + varint_len(value.len() as u64)
            + if meta.expires_at == 0 { 0 } else { varint_len(meta.expires_at) };
        let staged =
            Staged { meta, key_at: self.bytes.len(), key_len: key.len(), value_len: value.len() };
        self.entries.push(staged);
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
    }

    /// Replaces `out` by the block's raw bytes and starts the next block. Must not be empty.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) {
        debug_assert!(!self.entries.is_empty(), "a block without entries");
        let prefix_len = self.prefix_len;
        self.lengths.clear();
        self.encoded.clear();
        out.clear();
        let count = self.entries.len();
        put_u32(out, count as u32);
        out.extend_from_slice(&(prefix_len as u16).to_le_bytes());
        out.extend_from_slice(&[0, 0]);
        for entry in &self.entries {
            let value_at = entry.key_at + entry.key_len;
            let suffix = &self.bytes[entry.key_at + prefix_len..value_at];
            put_u32(out, head_of(suffix));
            let start = self.encoded.len();
            let expiry = if entry.meta.expires_at == 0 { 0 } else { TAG_HAS_EXPIRY };
            let seq_bytes = seq_len(entry.meta.seq);
            self.encoded.push(entry.meta.kind as u8 | (seq_bytes as u8) << TAG_SEQ_SHIFT | expiry);
            self.encoded.extend_from_slice(&entry.meta.seq.to_le_bytes()[..seq_bytes]);
            if expiry != 0 {
                put_varint(&mut self.encoded, entry.meta.expires_at);
            }
            put_varint(&mut self.encoded, suffix.len() as u64);
            put_varint(&mut self.encoded, entry.value_len as u64);
            let end = value_at + entry.value_len;
            self.encoded.extend_from_slice(split_head(suffix).1);
            self.encoded.extend_from_slice(&self.bytes[value_at..end]);
            self.lengths.push(self.encoded.len() - start);
        }
        // The last entry's start must fit as well as each length.
        let wide = self.encoded.len() > usize::from(u16::MAX);
        if wide {
            out[6..8].copy_from_slice(&FLAG_WIDE_LENGTHS.to_le_bytes());
        }
        for &len in &self.lengths {
            if wide {
                put_u32(out, len as u32);
            } else {
                out.extend_from_slice(&(len as u16).to_le_bytes());
            }
        }
        out.extend_from_slice(&self.bytes[..prefix_len]);
        out.extend_from_slice(&self.encoded);
        self.clear();
    }

    /// Forgets the entries added since the last block.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.entries.clear();
        self.meta_bytes = 0;
        self.prefix_len = 0;
    }

    /// Bytes of memory held.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes.capacity()
            + self.encoded.capacity()
            + self.lengths.capacity() * size_of::<usize>()
            + self.entries.capacity() * size_of::<Staged>()
    }
}

/// Bytes of a sequence number without its high zero bytes; at most seven.
fn seq_len(seq: u64) -> usize {
    (8 - seq.leading_zeros() as usize / 8).min(7)
}
