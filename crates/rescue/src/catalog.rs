//! What is left of the manifest: which families there are, and which tables are theirs.
//!
//! Edits are applied as far as they go. Where some are missing, what the others say still holds: a table
//! that was added was one of its family, and one that was removed is dead. [`Catalog::lists_all`] says
//! whether the list of tables can be relied upon, so that one that is not on it is dead as well.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tidesdb_base::error::{Error, Result};
use tidesdb_base::range_tombstone::RangeTombstone;
use tidesdb_files::manifest::{Change, ManifestRemains, TableRecord, current, named_by};
use tidesdb_files::naming::FileKind;
use tidesdb_sys::vfs::{ReadOnlyVfs, RealVfs};

use crate::source::Source;

/// What is known of a family from the manifest.
#[derive(Clone, Debug, Default)]
pub(crate) struct KnownFamily {
    pub(crate) name: Option<String>,
    pub(crate) options: Option<String>,
    pub(crate) tables: BTreeMap<u64, TableRecord>,
    pub(crate) range_tombstones: BTreeSet<Arc<RangeTombstone>>,
    pub(crate) flushed_through: u64,
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct Catalog {
    pub(crate) families: BTreeMap<u32, KnownFamily>,
    pub(crate) dropped: BTreeSet<u32>,
    /// Tables that belonged to a family and do to none any more.
    pub(crate) removed_tables: BTreeSet<u64>,
    pub(crate) next_file: u64,
    pub(crate) next_family: u32,
    pub(crate) last_sequence: u64,
    /// Every edit was read, and all of them fit together.
    pub(crate) whole: bool,
    /// A table that it does not list, with a number that it had given out, is dead.
    pub(crate) lists_all: bool,
    /// What is wrong with `CURRENT` and the manifest.
    pub(crate) problems: Vec<Error>,
}

impl Catalog {
    /// Reads what is left.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(crate) fn read(source: &Source) -> Result<Self> {
        let mut catalog = Self::default();
        let named = catalog.read_current(source)?;
        let mut candidates: Vec<u64> = named.into_iter().collect();
        candidates.extend(source.manifests().into_iter().filter(|&number| Some(number) != named));
        for number in candidates {
            let kind = FileKind::Manifest(number);
            if !source.has(kind) {
                let text = "the file is missing";
                catalog.problems.push(Error::corruption(source.path(kind), 0, text));
                continue;
            }
            let file = source.file(kind)?;
            let remains = ManifestRemains::survey(file.as_ref(), &source.path(kind), number)?;
            let readable = !remains.edits.is_empty();
            // An older one does not know of what came since.
            let in_force = named.is_none_or(|named| named == number);
            catalog.whole = remains.is_whole() && in_force;
            catalog.problems.extend(remains.problems.iter().cloned());
            if readable {
                catalog.apply_all(&remains, source, number);
                break;
            }
        }
        let listed = catalog.families.values().flat_map(|family| family.tables.keys());
        let missing = listed.into_iter().any(|&number| !source.has(FileKind::Table(number)));
        catalog.lists_all = catalog.whole && !missing;
        Ok(catalog)
    }

    fn read_current(&mut self, source: &Source) -> Result<Option<u64>> {
        let vfs = ReadOnlyVfs::new(Arc::new(RealVfs::new()));
        match current::read_current(vfs.as_ref(), &source.dir) {
            Ok(Some(number)) => Ok(Some(number)),
            Ok(None) => {
                let path = source.path(FileKind::Current);
                self.problems.push(Error::corruption(path, 0, "the file is missing"));
                Ok(None)
            }
            Err(problem) => {
                self.problems.push(problem);
                let mut text = [0; 64];
                let read = source.file(FileKind::Current)?.read_at(&mut text, 0).unwrap_or(0);
                Ok(named_by(text.get(..read).unwrap_or_default()))
            }
        }
    }

    fn apply_all(&mut self, remains: &ManifestRemains, source: &Source, number: u64) {
        for edit in &remains.edits {
            // All of them, whatever becomes of one.
            let mut fits = true;
            for change in &edit.edit.changes {
                fits &= self.apply(change);
            }
            if !fits && self.whole {
                self.whole = false;
                let path = source.path(FileKind::Manifest(number));
                let text = "an edit contradicts the ones before it";
                self.problems.push(Error::corruption(path, edit.offset, text));
            }
        }
        let families = &self.families;
        self.removed_tables
            .retain(|number| !families.values().any(|family| family.tables.contains_key(number)));
    }

    /// Applies a change as far as it goes; false when it contradicts what is known.
    fn apply(&mut self, change: &Change) -> bool {
        match change {
            Change::CreateFamily { family, name, options } => {
                let known = self.families.entry(*family).or_default();
                let is_new = known.name.is_none();
                known.name = Some(name.clone());
                known.options = Some(options.clone());
                return is_new;
            }
            Change::DropFamily { family } => {
                self.dropped.insert(*family);
                let known = self.families.remove(family);
                let existed = known.is_some();
                self.removed_tables.extend(known.unwrap_or_default().tables.into_keys());
                return existed;
            }
            Change::RenameFamily { family, name } => {
                self.families.entry(*family).or_default().name = Some(name.clone());
            }
            Change::CopyFamily { family, source, name } => {
                let copied = self.families.get(source).cloned();
                let existed = copied.is_some();
                let copy = KnownFamily { name: Some(name.clone()), ..copied.unwrap_or_default() };
                return self.families.insert(*family, copy).is_none() && existed;
            }
            Change::SetOptions { family, options } => {
                self.families.entry(*family).or_default().options = Some(options.clone());
            }
            Change::AddTable { family, table } => {
                let tables = &mut self.families.entry(*family).or_default().tables;
                return tables.insert(table.number, table.clone()).is_none();
            }
            Change::RemoveTable { family, number } => {
                self.removed_tables.insert(*number);
                let known = self.families.entry(*family).or_default();
                return known.tables.remove(number).is_some();
            }
            Change::FlushedThrough { family, sequence } => {
                self.families.entry(*family).or_default().flushed_through = *sequence;
            }
            Change::AddRangeTombstone { family, tombstone } => {
                let known = self.families.entry(*family).or_default();
                known.range_tombstones.insert(Arc::clone(tombstone));
            }
            Change::RemoveRangeTombstone { family, tombstone } => {
                let known = self.families.entry(*family).or_default();
                return known.range_tombstones.remove(tombstone);
            }
            Change::NextFile { number } => self.next_file = self.next_file.max(*number),
            Change::NextFamily { family } => self.next_family = *family,
            Change::LastSequence { sequence } => {
                self.last_sequence = self.last_sequence.max(*sequence);
            }
            Change::AddValueLog { .. }
            | Change::RemoveValueLog { .. }
            | Change::LogStart { .. } => {}
        }
        true
    }

    /// The families that list a table.
    pub(crate) fn families_of(&self, table: u64) -> Vec<u32> {
        let lists = |(_, family): &(&u32, &KnownFamily)| family.tables.contains_key(&table);
        self.families.iter().filter(lists).map(|(&number, _)| number).collect()
    }

    /// Whether a family of that number existed once and does not any more.
    pub(crate) fn is_dropped(&self, family: u32) -> bool {
        let known = self.families.contains_key(&family);
        !known && (self.dropped.contains(&family) || (self.whole && family < self.next_family))
    }
}
