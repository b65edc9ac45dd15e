//! What the manifest says: the families and their files.
//!
//! Tables are shared with who describes them elsewhere, so that a copy of the state costs little
//! even where there are very many: it is made while the catalog is locked.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tidesdb_base::range_tombstone::RangeTombstone;
use tidesdb_files::manifest::{Change, Edit, TableRecord, ValueLogRecord};

/// Start of the log in the manifest of a database that was closed with everything in tables.
pub(crate) const NO_LOG: u64 = u64::MAX;

/// What the manifest says of one family.
#[derive(Clone, Debug, Default)]
pub(crate) struct FamilyRecord {
    pub name: String,
    /// Shared by families that have the same.
    pub options: Arc<str>,
    pub tables: BTreeMap<u64, Arc<TableRecord>>,
    pub value_logs: BTreeMap<u64, ValueLogRecord>,
    pub range_tombstones: BTreeSet<Arc<RangeTombstone>>,
    pub flushed_through: u64,
}

impl FamilyRecord {
    /// A family of this name with the same files. Of the value logs only those that its tables
    /// point into: commits of this family may point into others, and those of the copy never will.
    fn copied_as(&self, name: String) -> Self {
        let mut copy = Self { name, ..self.clone() };
        copy.keep_referenced_value_logs();
        copy
    }

    /// Forgets the value logs that no table points into.
    pub(crate) fn keep_referenced_value_logs(&mut self) {
        let references = self.tables.values().flat_map(|table| &table.value_references);
        let referenced: BTreeSet<u64> = references.map(|&(file, _)| file).collect();
        self.value_logs.retain(|file, _| referenced.contains(file));
    }
}

/// Everything the manifest says.
#[derive(Clone, Debug, Default)]
pub(crate) struct PersistedState {
    pub families: BTreeMap<u32, FamilyRecord>,
    pub next_family: u32,
    pub next_file: u64,
    pub log_start: u64,
    /// Position of the first record of that segment, as far as an edit says so.
    pub log_base: Option<u64>,
    pub last_sequence: u64,
}

/// The changes that make a segment the first of the log, which an edit has to begin with. The
/// number in front of it says where the segment's records begin: recovery can tell a segment that
/// has lost its header from one that was never written. Builds that know nothing of that see a
/// sequence number which changes nothing (I-382).
pub(crate) const fn begin_log_with(segment: u64, base: u64) -> [Change; 2] {
    [Change::LastSequence { sequence: base }, Change::LogStart { segment }]
}

impl PersistedState {
    /// Applies an edit. False when it contradicts the state, which only damage can cause.
    #[must_use]
    pub(crate) fn apply(&mut self, edit: &Edit) -> bool {
        let log_start = self.log_start;
        let applies = edit.changes.iter().all(|change| self.apply_change(change).is_some());
        if let [Change::LastSequence { sequence }, Change::LogStart { .. }, ..] = edit.changes[..] {
            self.log_base = Some(sequence);
        } else if self.log_start != log_start {
            // Of a build that did not say so, or there is no log.
            self.log_base = None;
        }
        applies
    }

    fn apply_change(&mut self, change: &Change) -> Option<()> {
        match change {
            Change::CreateFamily { family, name, options } => {
                let record = FamilyRecord {
                    name: name.clone(),
                    options: Arc::clone(options),
                    ..FamilyRecord::default()
                };
                return self.families.insert(*family, record).is_none().then_some(());
            }
            Change::DropFamily { family } => {
                self.families.remove(family)?;
            }
            Change::RenameFamily { family, name } => {
                self.families.get_mut(family)?.name.clone_from(name);
            }
            Change::CopyFamily { family, source, name } => {
                let copy = self.families.get(source)?.copied_as(name.clone());
                return self.families.insert(*family, copy).is_none().then_some(());
            }
            Change::SetOptions { family, options } => {
                self.families.get_mut(family)?.options = Arc::clone(options);
            }
            Change::AddTable { family, table } => {
                let tables = &mut self.families.get_mut(family)?.tables;
                return tables.insert(table.number, Arc::clone(table)).is_none().then_some(());
            }
            Change::RemoveTable { family, number } => {
                self.families.get_mut(family)?.tables.remove(number)?;
            }
            Change::AddValueLog { family, file } => {
                self.families.get_mut(family)?.value_logs.insert(file.number, *file);
            }
            Change::RemoveValueLog { family, number } => {
                self.families.get_mut(family)?.value_logs.remove(number)?;
            }
            Change::FlushedThrough { family, sequence } => {
                self.families.get_mut(family)?.flushed_through = *sequence;
            }
            Change::AddRangeTombstone { family, tombstone } => {
                self.families.get_mut(family)?.range_tombstones.insert(Arc::clone(tombstone));
            }
            Change::RemoveRangeTombstone { family, tombstone } => {
                let known = &mut self.families.get_mut(family)?.range_tombstones;
                return known.remove(tombstone).then_some(());
            }
            Change::LogStart { segment } => self.log_start = *segment,
            Change::NextFile { number } => self.next_file = self.next_file.max(*number),
            Change::NextFamily { family } => self.next_family = *family,
            Change::LastSequence { sequence } => {
                self.last_sequence = self.last_sequence.max(*sequence);
            }
        }
        Some(())
    }

    /// One edit that restates everything.
    pub(crate) fn restate(&self) -> Edit {
        let mut changes = match self.log_base {
            Some(base) => begin_log_with(self.log_start, base).to_vec(),
            None => vec![Change::LogStart { segment: self.log_start }],
        };
        changes.extend([
            Change::LastSequence { sequence: self.last_sequence },
            Change::NextFamily { family: self.next_family },
            Change::NextFile { number: self.next_file },
        ]);
        for (&family, record) in &self.families {
            let (name, options) = (record.name.clone(), Arc::clone(&record.options));
            changes.push(Change::CreateFamily { family, name, options });
            for table in record.tables.values() {
                changes.push(Change::AddTable { family, table: Arc::clone(table) });
            }
            for &file in record.value_logs.values() {
                changes.push(Change::AddValueLog { family, file });
            }
            for tombstone in &record.range_tombstones {
                let tombstone = Arc::clone(tombstone);
                changes.push(Change::AddRangeTombstone { family, tombstone });
            }
            changes.push(Change::FlushedThrough { family, sequence: record.flushed_through });
        }
        Edit::new(changes)
    }
}
