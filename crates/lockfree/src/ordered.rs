//! Ordered in-memory indexes: what a memtable is made of.
//!
//! An [`OrderedIndex`] maps keys (byte strings) to chains of versions, newest first. Writers insert
//! in parallel. Readers hold nothing that another thread waits for, and see a version only when it
//! is complete; in the B+tree a reader that meets a node while it is changed looks again until the
//! change is done, so it may wait for a writer that was interrupted within it. Nothing is ever
//! removed: a memtable only grows until it is dropped as a whole, so keys and values can be
//! borrowed for as long as the index lives.
//!
//! Two implementations share the records (`record`) and differ in how they find them:
//! [`BPlusTree`] is what the engine uses ([`MemtableIndex`]), [`SkipList`] is the simple reference
//! for tests and measurements. The engine's memtable and write path call this module.
//!
//! Threads: everything may be called from any thread at any time.
//!
//! Invariants: a key has one record; its versions are linked in descending sequence order; of two
//! versions with equal sequence the one inserted later comes first.

use std::fmt;

use crate::arena::{Arena, ArenaFull};
use crate::sync::Ordering;

pub mod btree;
mod owned;
mod record;
mod shortcut;
pub mod skiplist;
#[cfg(test)]
mod tests;

pub use btree::BPlusTree;
pub use owned::{OwnedCursor, OwnedVersion};
pub use record::Versions;
pub use skiplist::SkipList;

/// The index that the engine's memtables use: the winner of the measurements.
pub type MemtableIndex = BPlusTree;

/// Longest key an index accepts, in bytes.
pub const MAX_KEY_BYTES: usize = 16 << 20;

/// How a link to a record, version or node is published.
///
/// ORDERING: Release pairs with the Acquire loads of readers, who may follow a link before the
/// latch has confirmed it: what it names is filled.
const PUBLISH: Ordering = Ordering::Release;

/// A version to insert.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewVersion<'a> {
    /// Sequence number of the commit.
    pub seq: u64,
    /// What the version means (value, tombstone, ...); the index does not look at it.
    pub kind: u8,
    /// When the version expires, in the caller's unit; 0 means never.
    pub expires_at: u64,
    /// The value; may be empty.
    pub value: &'a [u8],
}

/// A version found; its value lies in the index and lives as long as that.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ValueVersion<'a> {
    /// Sequence number of the commit.
    pub seq: u64,
    /// What the version means, as given on insert.
    pub kind: u8,
    /// When the version expires, as given on insert; 0 means never.
    pub expires_at: u64,
    /// The value.
    pub value: &'a [u8],
}

impl fmt::Debug for ValueVersion<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ValueVersion")
            .field("seq", &self.seq)
            .field("kind", &self.kind)
            .field("expires_at", &self.expires_at)
            .field("value_bytes", &self.value.len())
            .finish()
    }
}

/// A concurrent ordered map from keys to versions.
pub trait OrderedIndex: Send + Sync {
    /// The cursor that [`OrderedIndex::cursor`] returns.
    type Cursor<'a>: Cursor<'a>
    where
        Self: 'a;

    /// An empty index whose memory comes from `arena`.
    fn with_arena(arena: Arena) -> Self
    where
        Self: Sized;

    /// Inserts a version. When (key, seq) is there already, the new one is found first.
    ///
    /// # Errors
    /// [`ArenaFull`] when the arena has no room, or when the key is longer than
    /// [`MAX_KEY_BYTES`]; the index is unchanged then.
    fn insert(&self, key: &[u8], version: NewVersion<'_>) -> Result<(), ArenaFull>;

    /// The newest version of `key` whose sequence number is at most `snapshot`.
    fn get(&self, key: &[u8], snapshot: u64) -> Option<ValueVersion<'_>>;

    /// All versions of `key`, newest first; none if the key was never inserted.
    fn versions(&self, key: &[u8]) -> Versions<'_>;

    /// A cursor over the distinct keys. It is at no key until it is positioned.
    fn cursor(&self) -> Self::Cursor<'_>;

    /// The arena, for its byte counts.
    fn arena(&self) -> &Arena;
}

/// A position among the distinct keys of an index.
///
/// A cursor sees every key whose insert returned before the positioning call; keys inserted later
/// may or may not appear. Of each key it sees the versions that are there when asked for.
pub trait Cursor<'a> {
    /// Moves to the first key that is at least `key`.
    fn seek(&mut self, key: &[u8]);
    /// Moves to the last key that is at most `key`.
    fn seek_for_prev(&mut self, key: &[u8]);
    /// Moves to the smallest key.
    fn seek_to_first(&mut self);
    /// Moves to the largest key.
    fn seek_to_last(&mut self);
    /// Moves to the next larger key; stays invalid when it is invalid.
    fn next(&mut self);
    /// Moves to the next smaller key; stays invalid when it is invalid.
    fn prev(&mut self);
    /// Whether the cursor is at a key.
    fn valid(&self) -> bool;
    /// The key; empty when the cursor is not valid.
    fn key(&self) -> &'a [u8];
    /// The key's versions, newest first; none when the cursor is not valid.
    fn versions(&self) -> Versions<'a>;
    /// The key's newest version whose sequence number is at most `snapshot`.
    fn version_at(&self, snapshot: u64) -> Option<ValueVersion<'a>> {
        self.versions().at(snapshot)
    }
}

/// The first eight bytes of `key` from `skip` on as a number that sorts like them; bytes beyond
/// the end count as zero, so equal heads say nothing and lead to a comparison of whole keys.
#[inline]
fn head_of(key: &[u8], skip: usize) -> u64 {
    let rest = key.get(skip..).unwrap_or(&[]);
    if let Some(bytes) = rest.first_chunk::<8>() {
        return u64::from_be_bytes(*bytes);
    }
    if let Some(bytes) = key.last_chunk::<8>() {
        // The last bytes of the key end with those wanted: shift the others out at the top. All of
        // them when none is wanted, which is more than a plain shift can do.
        let missing_bits = (8 - rest.len() as u32) * 8;
        return u64::from_be_bytes(*bytes).checked_shl(missing_bits).unwrap_or(0);
    }
    rest.iter()
        .zip((0..8).rev())
        .fold(0, |head, (byte, place)| head | u64::from(*byte) << (place * 8))
}
