//! What is left of the manifest: which families there are, and which tables are theirs.
//!
//! Edits are applied as far as they go. Where some are missing, what the others say still holds: a
//! table that was added was one of its family, and one that was removed is dead. [`Catalog::whole`]
//! says whether the list of tables can be relied upon, so that one that is not on it is dead as
//! well. What can't be read at the end of a manifest is an append that a crash cut short, or edits
//! that were in force and are damaged: the manifest is not relied upon then.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use tidesdb_base::error::{Error, Result};
use tidesdb_base::range_tombstone::RangeTombstone;
use tidesdb_files::manifest::{
    Change, SalvagedManifest, TableRecord, current, exceeds_memory, named_by,
};
use tidesdb_files::naming::FileKind;
use tidesdb_sys::memory::available_bytes;

use crate::salvage::lenient::means_damage;
use crate::salvage::source::Source;
use crate::version::TornManifest;

/// What is known of a family from the manifest.
#[derive(Clone, Debug, Default)]
pub(crate) struct KnownFamily {
    pub(crate) name: Option<String>,
    pub(crate) options: Option<String>,
    pub(crate) tables: BTreeMap<u64, Arc<TableRecord>>,
    pub(crate) range_tombstones: BTreeSet<Arc<RangeTombstone>>,
    pub(crate) flushed_through: u64,
}

/// Families and files that the readable edits of a manifest name.
#[derive(Debug, Default)]
pub(crate) struct Catalog {
    pub(crate) families: BTreeMap<u32, KnownFamily>,
    pub(crate) dropped: BTreeSet<u32>,
    /// Tables that belonged to a family and do to none any more.
    pub(crate) removed_tables: BTreeSet<u64>,
    pub(crate) next_file: u64,
    pub(crate) next_family: u32,
    pub(crate) last_sequence: u64,
    /// The segment with which an opening would begin.
    pub(crate) log_start: u64,
    /// Every edit was read, and all of them fit together.
    pub(crate) whole: bool,
    /// Bytes at the end of the manifest that can't be read.
    pub(crate) torn_bytes: u64,
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
        let is_certain = named.is_some() || candidates.len() == 1;
        for (at, number) in candidates.into_iter().enumerate() {
            let remains = match survey(source, number) {
                Ok(remains) => remains,
                Err(problem) if problem.is_corruption() => {
                    catalog.problems.push(problem);
                    continue;
                }
                Err(other) => return Err(other),
            };
            // An older one does not know of what came since, and the newest, where no name says it
            // which was in force, may have been written beside that one and lack the last edits.
            let in_force = at == 0 && is_certain;
            catalog.torn_bytes = remains.tail;
            catalog.whole = remains.is_whole() && remains.tail == 0 && in_force;
            catalog.problems.extend(remains.problems.iter().cloned());
            if !remains.edits.is_empty() {
                catalog.apply_all(&remains, source, number);
                break;
            }
        }
        Ok(catalog)
    }

    /// What a family that lists a table says of it.
    pub(crate) fn record_of(&self, table: u64) -> Option<&TableRecord> {
        self.families.values().find_map(|family| family.tables.get(&table)).map(Arc::as_ref)
    }

    /// Whether a table with that number, which no family lists, is known not to be in use.
    pub(crate) fn is_dead(&self, table: u64) -> bool {
        self.removed_tables.contains(&table) || (self.whole && table < self.next_file)
    }

    /// Whether a table that [`Catalog::is_dead`] spares is known to be the output of a job that was
    /// killed before its edit.
    pub(crate) fn never_installed(&self, table: u64) -> bool {
        self.whole && self.record_of(table).is_none()
    }

    /// Whether everything in a segment of the log is known to be in tables.
    pub(crate) fn is_dead_segment(&self, segment: u64) -> bool {
        self.whole && segment < self.log_start
    }

    /// What is to be said of the end of a manifest that is whole otherwise.
    pub(crate) fn torn_warning(&self) -> Option<String> {
        let is_torn = !self.whole && self.torn_bytes > 0 && self.problems.is_empty();
        is_torn.then(|| TornManifest(self.torn_bytes).to_string())
    }

    fn read_current(&mut self, source: &Source) -> Result<Option<u64>> {
        match current::read_current(source.vfs.as_ref(), &source.dir) {
            Ok(Some(number)) => Ok(Some(number)),
            Ok(None) => {
                self.problems.push(source.missing_current());
                Ok(None)
            }
            // A copy that was not finished: what is there of it can be read.
            Err(problem @ Error::NotADatabase { .. }) => {
                self.problems.push(problem);
                Ok(None)
            }
            Err(problem) if means_damage(&problem) => {
                self.problems.push(problem);
                let mut text = [0; 64];
                let path = source.path(FileKind::Current);
                let read = match source.file(FileKind::Current) {
                    Ok(file) => file.read_at(&mut text, 0),
                    Err(problem) if problem.is_corruption() => Ok(0),
                    Err(other) => return Err(other),
                };
                let read = read.map_err(|e| Error::io("read", path, e))?;
                Ok(named_by(text.get(..read).unwrap_or_default()))
            }
            Err(other) => Err(other),
        }
    }

    fn apply_all(&mut self, remains: &SalvagedManifest, source: &Source, number: u64) {
        for edit in &remains.edits {
            // All of them, whatever becomes of one.
            let mut fits = true;
            for change in &edit.edit.changes {
                fits &= self.apply(change);
            }
            if !fits && self.whole {
                self.whole = false;
                let path = source.path(FileKind::Manifest(number));
                let text =
                    "expected an edit that goes with those before it, found one that does not";
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
                known.options = Some(options.to_string());
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
                self.families.entry(*family).or_default().options = Some(options.to_string());
            }
            Change::AddTable { family, table } => {
                let tables = &mut self.families.entry(*family).or_default().tables;
                return tables.insert(table.number, Arc::clone(table)).is_none();
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
            Change::LogStart { segment } => self.log_start = *segment,
            Change::AddValueLog { .. } | Change::RemoveValueLog { .. } => {}
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

fn survey(source: &Source, number: u64) -> Result<SalvagedManifest> {
    let kind = FileKind::Manifest(number);
    let (file, path) = (source.file(kind)?, source.path(kind));
    let surveyed = SalvagedManifest::survey(file.as_ref(), &path, number);
    surveyed.map_err(|problem| match problem {
        Error::OutOfMemory(_) => {
            let bytes = file.len().unwrap_or_default();
            without_memory(problem, (&path, bytes), available_bytes())
        }
        other => other,
    })
}

/// What it means that there was no memory for a manifest of that many bytes. The length is what the
/// file system says, and may be damaged as the rest is; one that fits into what is `available` says
/// that the process has too little.
fn without_memory(problem: Error, (path, bytes): (&Path, u64), available: Option<u64>) -> Error {
    if !exceeds_memory(bytes, available) {
        return problem;
    }
    Error::corruption(path, 0, format!("it has {bytes} bytes, too many for the memory"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_for_which_the_process_has_no_memory_is_damaged_only_if_the_machine_has_none() {
        let damaged = |bytes, available| {
            let of = (Path::new("MANIFEST-000001"), bytes);
            let problem = without_memory(Error::OutOfMemory("the manifest"), of, available);
            assert!(problem.is_corruption() || matches!(problem, Error::OutOfMemory(_)));
            problem.is_corruption()
        };
        const GIB: u64 = 1 << 30;
        assert!(damaged(1 << 43, Some(16 * GIB)));
        assert!(damaged(2 * GIB, Some(2 * GIB - 1)));
        assert!(!damaged(2 * GIB, Some(2 * GIB)));
        // A limit of the process, such as that of `ulimit -v`.
        assert!(!damaged(4096, Some(16 * GIB)));
        assert!(!damaged(GIB, Some(4096)));
        assert!(!damaged(1 << 43, None));
    }
}
