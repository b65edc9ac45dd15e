//! A cursor, and a version, that keep their index alive.
//!
//! Iterators of the engine outlive the function that made them and hold their memtable by an
//! [`Arc`]; a borrowing [`Cursor`] cannot live next to what it borrows from. [`OwnedCursor`] packs
//! the two together and hands keys and versions out for as long as it is borrowed itself.
//!
//! Threads: as the cursor inside; one thread at a time. A version may be shared.
//!
//! Invariant: the cursor, or the version, is dropped before the reference to the index is.

#![expect(unsafe_code, reason = "extends a borrow over the life of the Arc that is kept with it")]

use std::sync::Arc;

use super::{Cursor, OrderedIndex, ValueVersion, Versions};

/// A cursor together with a reference to its index.
pub struct OwnedCursor<I: OrderedIndex + 'static> {
    // Declared, and therefore dropped, before the index.
    cursor: I::Cursor<'static>,
    index: Arc<I>,
}

impl<I: OrderedIndex + 'static> OwnedCursor<I> {
    /// A cursor over `index`, at no key yet.
    pub fn new(index: Arc<I>) -> Self {
        let address: *const I = Arc::as_ptr(&index);
        // SAFETY: the index lies in the Arc's allocation, which does not move and lives until
        // `index` is dropped, after the cursor; no method lets the 'static lifetime out.
        let borrowed: &'static I = unsafe { &*address };
        Self { cursor: borrowed.cursor(), index }
    }

    /// The index this cursor walks.
    pub fn index(&self) -> &Arc<I> {
        &self.index
    }

    /// Moves to the first key that is at least `key`.
    pub fn seek(&mut self, key: &[u8]) {
        self.cursor.seek(key);
    }

    /// Moves to the last key that is at most `key`.
    pub fn seek_for_prev(&mut self, key: &[u8]) {
        self.cursor.seek_for_prev(key);
    }

    /// Moves to the smallest key.
    pub fn seek_to_first(&mut self) {
        self.cursor.seek_to_first();
    }

    /// Moves to the largest key.
    pub fn seek_to_last(&mut self) {
        self.cursor.seek_to_last();
    }

    /// Moves to the next larger key.
    pub fn next(&mut self) {
        self.cursor.next();
    }

    /// Moves to the next smaller key.
    pub fn prev(&mut self) {
        self.cursor.prev();
    }

    /// Whether the cursor is at a key.
    pub fn valid(&self) -> bool {
        self.cursor.valid()
    }

    /// The key; empty when the cursor is not valid.
    pub fn key(&self) -> &[u8] {
        self.cursor.key()
    }

    /// The key's versions, newest first.
    pub fn versions(&self) -> Versions<'_> {
        self.cursor.versions()
    }

    /// The key's newest version whose sequence number is at most `snapshot`.
    pub fn version_at(&self, snapshot: u64) -> Option<ValueVersion<'_>> {
        self.cursor.version_at(snapshot)
    }
}

/// A version of a key together with a reference to its index.
pub struct OwnedVersion<I: OrderedIndex + 'static> {
    // Declared, and therefore dropped, before the index.
    version: ValueVersion<'static>,
    index: Arc<I>,
}

impl<I: OrderedIndex + 'static> OwnedVersion<I> {
    /// The newest version of `key` in `index` whose sequence number is at most `snapshot`.
    pub fn get(index: &Arc<I>, key: &[u8], snapshot: u64) -> Option<Self> {
        let address: *const I = Arc::as_ptr(index);
        // SAFETY: the index lies in the Arc's allocation, which does not move and lives until the
        // reference kept beside the version is dropped, after the version; no method lets the
        // 'static lifetime out.
        let borrowed: &'static I = unsafe { &*address };
        let version = borrowed.get(key, snapshot)?;
        Some(Self { version, index: Arc::clone(index) })
    }

    /// The version.
    pub fn version(&self) -> &ValueVersion<'_> {
        &self.version
    }

    /// The index it lies in.
    pub fn index(&self) -> &Arc<I> {
        &self.index
    }
}
