//! Brings what was found of a family together: of each key the versions that are left, newest
//! first.
//!
//! Versions are ordered by sequence number, whatever file they are of: files hold facts, and which
//! of them was above another does not matter any more. Compactions settle old versions to sequence
//! number zero; of several such that of the newest run counts, of tables without a known run that
//! of the later file.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use tidesdb_base::entry::ValueKind;
use tidesdb_base::error::Result;

use crate::salvage::log::{Log, LogOperation, LogValue};
use crate::salvage::tables::{FailedBlock, Standing, TableCursor, UsedTable};

/// Where a version was found.
#[derive(Clone, Debug)]
pub(crate) enum Found<'a> {
    /// In a table; the value, or its pointer.
    InTable(&'a UsedTable, Vec<u8>),
    /// In the log.
    InLog(&'a LogValue),
}

/// A version of a key.
#[derive(Clone, Debug)]
pub(crate) struct Version<'a> {
    pub(crate) key: Vec<u8>,
    pub(crate) sequence: u64,
    pub(crate) kind: ValueKind,
    pub(crate) expires_at: u64,
    pub(crate) found: Found<'a>,
    /// The later counts among equals.
    rank: (u8, u64, u64),
}

/// The next version of one source.
struct Head<'a> {
    version: Version<'a>,
    source: usize,
}

impl Ord for Head<'_> {
    /// The greatest comes first.
    fn cmp(&self, other: &Self) -> Ordering {
        let (own, other) = (&self.version, &other.version);
        let age = || (own.sequence, own.rank).cmp(&(other.sequence, other.rank));
        other.key.cmp(&own.key).then_with(age)
    }
}

impl PartialOrd for Head<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Head<'_> {}

/// Merges the tables of a family and its operations in the log.
pub(crate) struct Merge<'a> {
    tables: Vec<TableCursor<'a>>,
    /// The tables that no block was read of yet, by their first keys, the next one last: of those
    /// whose keys don't overlap few are read at a time.
    ahead: Vec<(&'a [u8], usize)>,
    operations: std::slice::Iter<'a, LogOperation>,
    heads: BinaryHeap<Head<'a>>,
    /// Blocks that were whole and can't be read now, each with its table.
    failed: Vec<(&'a UsedTable, FailedBlock)>,
    /// Bytes of blocks read since they were last asked for.
    read: u64,
}

impl<'a> Merge<'a> {
    /// Begins.
    ///
    /// # Errors
    /// [`tidesdb_base::Error::Io`] that says nothing of the tables.
    pub(crate) fn new(tables: &[&'a UsedTable], log: &'a Log, family: u32) -> Result<Self> {
        let operations = log.operations.get(&family).map_or(&[][..], Vec::as_slice);
        let first_key = |(source, table): (usize, &&'a UsedTable)| (&*table.first_key, source);
        let mut ahead: Vec<(&'a [u8], usize)> = tables.iter().enumerate().map(first_key).collect();
        ahead.sort_unstable_by(|one, other| other.cmp(one));
        let mut merge = Self {
            ahead,
            tables: tables.iter().copied().map(TableCursor::new).collect(),
            operations: operations.iter(),
            heads: BinaryHeap::new(),
            failed: Vec::new(),
            read: 0,
        };
        merge.advance(merge.tables.len())?;
        Ok(merge)
    }

    /// Begins with the tables that may have the next key.
    fn reach_tables(&mut self) -> Result<()> {
        while let Some(&(first_key, source)) = self.ahead.last() {
            if self.heads.peek().is_some_and(|head| *head.version.key < *first_key) {
                break;
            }
            self.ahead.pop();
            self.advance(source)?;
        }
        Ok(())
    }

    fn advance(&mut self, source: usize) -> Result<()> {
        let version = match self.tables.get_mut(source) {
            Some(cursor) => {
                let table = cursor.table;
                let mut failed = Vec::new();
                let (entry, read) = cursor.next(&mut failed)?;
                self.read += read;
                self.failed.extend(failed.into_iter().map(|block| (table, block)));
                entry.map(|entry| Version {
                    key: entry.key,
                    sequence: entry.meta.seq,
                    kind: entry.meta.kind,
                    expires_at: entry.meta.expires_at,
                    found: Found::InTable(table, entry.value),
                    rank: rank_of(table),
                })
            }
            None => self.operations.next().map(|operation| Version {
                key: operation.key.clone(),
                sequence: operation.sequence,
                kind: operation.kind,
                expires_at: operation.expires_at,
                found: Found::InLog(&operation.value),
                rank: (2, operation.place, 0),
            }),
        };
        if let Some(version) = version {
            self.heads.push(Head { version, source });
        }
        Ok(())
    }

    /// Fills `versions` with all versions of the next key, newest first. False when there is none.
    ///
    /// # Errors
    /// As [`Merge::new`].
    pub(crate) fn next_key(&mut self, versions: &mut Vec<Version<'a>>) -> Result<bool> {
        versions.clear();
        self.reach_tables()?;
        while let Some(head) = self.heads.peek() {
            if versions.first().is_some_and(|first| first.key != head.version.key) {
                break;
            }
            if let Some(head) = self.heads.pop() {
                self.advance(head.source)?;
                versions.push(head.version);
            }
        }
        Ok(!versions.is_empty())
    }

    /// The blocks that could not be read again since this was last asked.
    pub(crate) fn take_failed(&mut self) -> Vec<(&'a UsedTable, FailedBlock)> {
        std::mem::take(&mut self.failed)
    }

    /// Bytes of blocks read since this was last asked.
    pub(crate) fn take_read(&mut self) -> u64 {
        std::mem::take(&mut self.read)
    }
}

/// Which of several settled versions is newer. A table that a whole manifest does not name is no
/// older than those that it names; [`crate::salvage::family`] has left out those that are known to
/// be.
const fn rank_of(table: &UsedTable) -> (u8, u64, u64) {
    match table.standing {
        Standing::Listed { run } => (0, run, table.number),
        Standing::Stray => (1, table.number, 0),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use tidesdb_base::compress::Compression;
    use tidesdb_base::options::{DbOptions, FamilyOptions};

    use super::*;
    use crate::Db;
    use crate::salvage::catalog::Catalog;
    use crate::salvage::findings::Findings;
    use crate::salvage::source::Source;
    use crate::salvage::tables::Tables;

    #[test]
    fn of_tables_that_do_not_overlap_one_is_read_at_a_time() {
        const KEYS: u32 = 4000;
        let place = tempfile::tempdir().unwrap();
        let db = Db::open(place.path(), DbOptions::default()).unwrap();
        let options = FamilyOptions::default().target_table_bytes(64 << 10);
        let family = db.create_family("family", options.compression(Compression::None)).unwrap();
        let key = |number: u32| format!("{number:06}").into_bytes();
        for number in 0..KEYS {
            family.put(&key(number), &[7; 200]).unwrap();
        }
        family.flush().unwrap();
        // Another run, over a few of them.
        for number in 1000..1010 {
            family.put(&key(number), b"again").unwrap();
        }
        db.close().unwrap();
        let source = Source::open(place.path()).unwrap();
        let catalog = Catalog::read(&source).unwrap();
        let mut findings = Findings::default();
        let tables = Tables::survey(&source, &catalog, &mut findings, &mut |_| Ok(())).unwrap();
        let used: Vec<&UsedTable> = tables.used.iter().collect();
        assert!(used.len() > 8, "{}", used.len());
        let log = Log::default();
        let mut merge = Merge::new(&used, &log, 0).unwrap();
        let (mut versions, mut found, mut most, mut twice) = (Vec::new(), BTreeSet::new(), 0, 0);
        while merge.next_key(&mut versions).unwrap() {
            assert!(found.last() < Some(&versions[0].key));
            found.insert(versions[0].key.clone());
            twice += usize::from(versions.len() == 2);
            most = most.max(merge.heads.len());
        }
        assert_eq!((found.len(), twice), (KEYS as usize, 10));
        assert!(found.into_iter().eq((0..KEYS).map(key)));
        assert_eq!(most, 2, "tables were read at a time");
    }
}
