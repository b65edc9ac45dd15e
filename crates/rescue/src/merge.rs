//! Brings what was found of a family together: of each key the newest version that is left.
//!
//! Versions are ordered by sequence number, whatever file they are of: files hold facts, and which of
//! them was above another does not matter any more. Of two versions with the same number (merges settle
//! old ones to zero) that of the later file counts.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::Arc;

use tidesdb_base::entry::ValueKind;
use tidesdb_base::error::Result;

use crate::log::{Log, LogOperation, LogValue};
use crate::order::KeyOrder;
use crate::tables::{TableCursor, UsedTable};

/// Where a version was found.
#[derive(Clone, Debug)]
pub(crate) enum Found {
    /// In a table; the value, or its pointer.
    InTable(Vec<u8>),
    /// In the log.
    InLog(LogValue),
}

/// A version of a key.
#[derive(Clone, Debug)]
pub(crate) struct Version {
    pub(crate) key: Vec<u8>,
    pub(crate) sequence: u64,
    pub(crate) kind: ValueKind,
    pub(crate) expires_at: u64,
    pub(crate) found: Found,
    /// The later counts among equals.
    rank: (u64, u64),
}

/// The next version of one source.
struct Head {
    version: Version,
    source: usize,
    order: Arc<KeyOrder>,
}

impl Ord for Head {
    /// The greatest comes first.
    fn cmp(&self, other: &Self) -> Ordering {
        let keys = self.order.compare(&other.version.key, &self.version.key);
        let age = || {
            let (own, other) = (&self.version, &other.version);
            (own.sequence, own.rank).cmp(&(other.sequence, other.rank))
        };
        keys.then_with(age)
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Head {}

/// Merges the tables of a family and its operations in the log.
pub(crate) struct Merge<'a> {
    order: Arc<KeyOrder>,
    tables: Vec<(u64, TableCursor)>,
    operations: std::slice::Iter<'a, LogOperation>,
    heads: BinaryHeap<Head>,
    /// Bytes of blocks read since they were last asked for.
    read: u64,
}

impl<'a> Merge<'a> {
    /// Begins.
    ///
    /// # Errors
    /// [`tidesdb_base::Error::Corruption`] or `Io` when a block can't be read that could be before.
    pub(crate) fn new(
        order: KeyOrder,
        tables: &[&UsedTable],
        log: &'a Log,
        family: u32,
    ) -> Result<Self> {
        let cursor =
            |table: &&UsedTable| (table.number, TableCursor::new(Arc::clone(&table.remains)));
        let operations = log.operations.get(&family).map_or(&[][..], Vec::as_slice);
        let mut merge = Self {
            order: Arc::new(order),
            tables: tables.iter().map(cursor).collect(),
            operations: operations.iter(),
            heads: BinaryHeap::new(),
            read: 0,
        };
        for source in 0..=merge.tables.len() {
            merge.advance(source)?;
        }
        Ok(merge)
    }

    fn advance(&mut self, source: usize) -> Result<()> {
        let version = match self.tables.get_mut(source) {
            Some((number, cursor)) => {
                let (entry, read) = cursor.next()?;
                self.read += read;
                entry.map(|entry| Version {
                    key: entry.key,
                    sequence: entry.meta.seq,
                    kind: entry.meta.kind,
                    expires_at: entry.meta.expires_at,
                    found: Found::InTable(entry.value),
                    rank: (0, *number),
                })
            }
            None => self.operations.next().map(|operation| Version {
                key: operation.key.clone(),
                sequence: operation.sequence,
                kind: operation.kind,
                expires_at: operation.expires_at,
                found: Found::InLog(operation.value.clone()),
                rank: (1, operation.place),
            }),
        };
        if let Some(version) = version {
            self.heads.push(Head { version, source, order: Arc::clone(&self.order) });
        }
        Ok(())
    }

    /// Fills `versions` with all versions of the next key, newest first. False when there is none.
    ///
    /// # Errors
    /// As [`Merge::new`].
    pub(crate) fn next_key(&mut self, versions: &mut Vec<Version>) -> Result<bool> {
        versions.clear();
        while let Some(head) = self.heads.peek() {
            let other = versions.first().is_some_and(|first: &Version| {
                self.order.compare(&first.key, &head.version.key) != Ordering::Equal
            });
            if other {
                break;
            }
            if let Some(head) = self.heads.pop() {
                self.advance(head.source)?;
                versions.push(head.version);
            }
        }
        Ok(!versions.is_empty())
    }

    /// Bytes of blocks read since this was last asked.
    pub(crate) fn take_read(&mut self) -> u64 {
        std::mem::take(&mut self.read)
    }
}
