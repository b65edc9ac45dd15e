//! The tables of a damaged database: which are used, whose they are, and what of them is lost.

mod blocks;
mod cursor;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidesdb_base::error::{Error, Result};
use tidesdb_files::manifest::TableRecord;
use tidesdb_files::naming::FileKind;
use tidesdb_files::sstable::{Part, SalvagedTable, TableOrigin};
use tidesdb_sys::vfs::File;

use self::blocks::Blocks;
pub(crate) use self::cursor::{FailedBlock, TableCursor};
use crate::salvage::catalog::Catalog;
use crate::salvage::findings::Findings;
use crate::salvage::report::Loss;
use crate::salvage::source::Source;

/// Number of the family that gets the tables of which nothing says whose they are.
pub(crate) const UNKNOWN_FAMILY: u32 = u32::MAX;

/// Most bytes of a table that are read between two reports of progress, but for a stretch that is
/// searched.
const PROGRESS_BYTES: u64 = 4 << 20;

/// What is said of tables that no edit of a whole manifest ever named, and that can't be used.
const OF_A_KILLED_JOB: &str = "no edit ever named it: a flush or compaction was killed";

/// Keys of a family that something is missing of. Bounds belong to the range; an absent one bounds
/// nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct LostRange {
    pub(crate) first: Option<Vec<u8>>,
    pub(crate) last: Option<Vec<u8>>,
}

impl LostRange {
    fn holds(&self, key: &[u8]) -> bool {
        self.first.as_deref().is_none_or(|first| first <= key)
            && self.last.as_deref().is_none_or(|last| key <= last)
    }
}

/// Whether any of the ranges holds a key.
pub(crate) fn is_lost(ranges: &[LostRange], key: &[u8]) -> bool {
    ranges.iter().any(|range| range.holds(key))
}

/// What is known of a table that is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// The manifest names it, in this run: a higher one is newer.
    Listed { run: u64 },
    /// The manifest, or what is left of it, does not name it: it may have been removed.
    Stray,
}

/// A table that is used.
#[derive(Debug)]
pub(crate) struct UsedTable {
    pub(crate) number: u64,
    /// Its parts are taken.
    pub(crate) remains: SalvagedTable,
    blocks: Blocks,
    /// No key that can be read is smaller. Empty, and so true of any, where that is not known.
    pub(crate) first_key: Vec<u8>,
    pub(crate) families: Vec<u32>,
    pub(crate) standing: Standing,
    /// Every commit of the family up to this one was in tables when the table was begun: versions
    /// that are settled in it are no older.
    pub(crate) begun_behind: u64,
}

/// The tables that are used, and what is known of families from them.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    pub(crate) used: Vec<UsedTable>,
    /// What tables say of the family that they were written for, the newest table's word.
    pub(crate) origins: BTreeMap<u32, TableOrigin>,
    /// The numbers of these newest tables.
    pub(crate) newest_origins: BTreeMap<u32, u64>,
    /// Sequence numbers of commits that tables hold. Nothing in front of them was ever refused.
    pub(crate) published: BTreeSet<u64>,
    /// By family.
    lost: BTreeMap<u32, Vec<LostRange>>,
    /// Of no family that is known: it may be any.
    lost_anywhere: Vec<LostRange>,
}

impl Tables {
    /// Surveys all tables. `progress` is called with bytes read.
    ///
    /// # Errors
    /// [`Error::Io`] that says nothing of the tables; what `progress` returns.
    pub(crate) fn survey(
        source: &Source,
        catalog: &Catalog,
        findings: &mut Findings,
        progress: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<Self> {
        let mut tables = Self::default();
        let records = catalog.families.values().flat_map(|family| family.tables.values());
        tables.published.extend(records.map(|record| record.highest_sequence));
        let mut numbers: Vec<u64> = source.tables().collect();
        numbers.sort_unstable();
        for number in numbers {
            let kind = FileKind::Table(number);
            let path = source.path(kind);
            let listed = catalog.families_of(number);
            if listed.is_empty() && catalog.is_dead(number) {
                let reason = "the manifest knows that it is dead".to_owned();
                findings.report.unused.push((path, reason));
                continue;
            }
            match source.file(kind) {
                Ok(file) => {
                    let remains = surveyed((file, &path, number), progress)?;
                    findings.report.tables += 1;
                    findings.report.bytes_read += remains.file_len();
                    tables.add(remains, listed, catalog, findings)?;
                }
                Err(e) if e.is_corruption() && catalog.never_installed(number) => {
                    findings.report.unused.push((path, OF_A_KILLED_JOB.to_owned()));
                }
                Err(e) if e.is_corruption() => {
                    tables.lose_file(path, number, &listed, catalog, (findings, e.to_string()));
                }
                Err(other) => return Err(other),
            }
        }
        for (family, known) in &catalog.families {
            for number in known.tables.keys() {
                let kind = FileKind::Table(*number);
                // A file that several families list is named once, with all of them.
                if !source.has(kind) && catalog.families_of(*number).first() == Some(family) {
                    let listed = catalog.families_of(*number);
                    let reason = (&mut *findings, "the file is missing".to_owned());
                    tables.lose_file(source.path(kind), *number, &listed, catalog, reason);
                }
            }
        }
        Ok(tables)
    }

    /// The keys of a family of which something is missing.
    pub(crate) fn lost_of(&self, family: u32) -> Vec<LostRange> {
        let own = self.lost.get(&family).into_iter().flatten();
        own.chain(&self.lost_anywhere).cloned().collect()
    }

    /// Whether no part of any table is missing.
    pub(crate) fn are_whole(&self) -> bool {
        self.lost.is_empty() && self.lost_anywhere.is_empty()
    }

    fn add(
        &mut self,
        mut remains: SalvagedTable,
        listed: Vec<u32>,
        catalog: &Catalog,
        findings: &mut Findings,
    ) -> Result<()> {
        let number = remains.identity();
        let record = catalog.record_of(number);
        let origin = remains.summary().map(|summary| summary.origin.clone());
        let origin = origin.filter(|origin| !origin.name.is_empty());
        let never_installed = catalog.never_installed(number);
        let has_data = remains.parts().iter().any(|part| matches!(part, Part::Data(_)));
        let is_cut = never_installed && origin.is_none();
        if is_cut && (!has_data || only_family(catalog) == UNKNOWN_FAMILY) {
            let unused = (remains.path().to_path_buf(), OF_A_KILLED_JOB.to_owned());
            findings.report.unused.push(unused);
            return Ok(());
        }
        origin.iter().for_each(|origin| self.note_origin(number, origin));
        let highest = remains.summary().map_or(0, |summary| summary.max_seq);
        self.published.insert(highest);
        let highest = highest.max(record.map_or(0, |record| record.highest_sequence));
        let begun_behind = origin.as_ref().map_or(highest, |origin| origin.in_tables_through);
        let standing = match record {
            Some(record) => Standing::Listed { run: record.run },
            None => Standing::Stray,
        };
        let families = match (listed, origin) {
            (listed, _) if !listed.is_empty() => listed,
            (_, Some(origin)) if catalog.is_dropped(origin.family) => {
                let reason = "its family was dropped".to_owned();
                findings.report.unused.push((remains.path().to_path_buf(), reason));
                return Ok(());
            }
            (_, Some(origin)) => vec![origin.family],
            (_, None) if has_data => vec![only_family(catalog)],
            (_, None) => Vec::new(),
        };
        if !never_installed {
            self.note_losses(&remains, (&families, record), findings)?;
        } else if !is_cut {
            // The database had all of it elsewhere. An end that was never written is no damage.
            findings.report.harmless.extend(remains.problems().iter().cloned());
        }
        if !has_data {
            return Ok(());
        }
        if record.is_none() && !catalog.families.is_empty() {
            let name = FileKind::Table(number).name();
            findings.warn(format!("{name} is not in the manifest, and was used"));
        }
        if families == [UNKNOWN_FAMILY] {
            // The family that it belongs to lacks all of it.
            self.lost_anywhere.push(LostRange::default());
        }
        let blocks = Blocks::among(&remains.take_parts());
        let first_key = blocks.first_key(&remains)?;
        self.used.push(UsedTable {
            number,
            remains,
            blocks,
            first_key,
            families,
            standing,
            begun_behind,
        });
        Ok(())
    }

    /// Notes what a table says of its family. Tables come by their numbers, so the last word is the
    /// newest.
    fn note_origin(&mut self, number: u64, origin: &TableOrigin) {
        self.newest_origins.insert(origin.family, number);
        let known = self.origins.entry(origin.family).or_default();
        let through = known.in_tables_through.max(origin.in_tables_through);
        *known = TableOrigin { in_tables_through: through, ..origin.clone() };
    }

    /// Notes what of a table is lost, and damage that cost nothing.
    fn note_losses(
        &mut self,
        remains: &SalvagedTable,
        (families, record): (&[u32], Option<&TableRecord>),
        findings: &mut Findings,
    ) -> Result<()> {
        let parts = remains.parts();
        let (smallest, largest) = bounds_of(remains, record);
        for (at, part) in parts.iter().enumerate() {
            let Part::Lost { offset, len } = *part else { continue };
            let (before, behind) = parts.split_at(at);
            let first = first_edge(remains, before.iter().rev(), true)?;
            let last = first_edge(remains, behind.iter(), false)?;
            let range = LostRange {
                first: first.or_else(|| smallest.clone()),
                last: last.or_else(|| largest.clone()),
            };
            let reason = remains.problems().iter().find_map(|problem| match problem {
                Error::Corruption { offset: place, detail, .. } if *place == offset => Some(detail),
                _ => None,
            });
            let reason = reason.cloned().unwrap_or_else(|| "it can't be read".to_owned());
            let loss = Loss::new(remains.path().to_path_buf(), offset, len, reason);
            self.lose(loss, range, families, findings);
        }
        if let Some(record) = record
            && record.bytes > remains.file_len()
            && entries_in(remains)? < record.entries
        {
            let (offset, end) = (remains.file_len(), record.bytes);
            let path = remains.path().to_path_buf();
            let reason = format!("the file ends here, and had {end} bytes");
            let first = first_edge(remains, parts.iter().rev(), true)?.or(smallest);
            let range = LostRange { first, last: largest };
            self.lose(Loss::new(path, offset, end - offset, reason), range, families, findings);
        }
        let lost = |place: u64| {
            parts.iter().any(|part| matches!(part, Part::Lost { offset, .. } if *offset == place))
        };
        let harmless = remains.problems().iter().filter(|problem| match problem {
            Error::Corruption { offset, .. } => !lost(*offset),
            _ => true,
        });
        findings.report.harmless.extend(harmless.cloned());
        Ok(())
    }

    fn lose_file(
        &mut self,
        path: PathBuf,
        number: u64,
        families: &[u32],
        catalog: &Catalog,
        (findings, reason): (&mut Findings, String),
    ) {
        let records = catalog.record_of(number);
        let mut loss = Loss::new(path, 0, records.map_or(0, |record| record.bytes), reason);
        loss.entries = records.map(|record| record.entries);
        let range = LostRange {
            first: records.map(|record| record.smallest_key.clone()),
            last: records.map(|record| record.largest_key.clone()),
        };
        self.lose(loss, range, families, findings);
    }

    fn lose(
        &mut self,
        mut loss: Loss,
        range: LostRange,
        families: &[u32],
        findings: &mut Findings,
    ) {
        loss.first_key.clone_from(&range.first);
        loss.last_key.clone_from(&range.last);
        findings.lose(loss, families);
        if families.is_empty() {
            self.lost_anywhere.push(range);
            return;
        }
        for &family in families {
            self.lost.entry(family).or_default().push(range.clone());
        }
    }
}

/// Surveys a table; `progress` is called with bytes read.
fn surveyed(
    (file, path, number): (Arc<dyn File>, &Path, u64),
    progress: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<SalvagedTable> {
    let (mut reported, mut unreported) = (0, 0);
    let remains = SalvagedTable::survey_in_steps(file, path, number, &mut |bytes| {
        unreported += bytes;
        if unreported < PROGRESS_BYTES {
            return Ok(());
        }
        reported += unreported;
        progress(std::mem::take(&mut unreported))
    })?;
    progress(remains.file_len().saturating_sub(reported))?;
    Ok(remains)
}

/// The first and the last key of a table, as far as it or the manifest says.
fn bounds_of(
    remains: &SalvagedTable,
    record: Option<&TableRecord>,
) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
    match (remains.summary(), record) {
        (Some(summary), _) => (Some(summary.min_key.clone()), Some(summary.max_key.clone())),
        (None, Some(record)) => {
            (Some(record.smallest_key.clone()), Some(record.largest_key.clone()))
        }
        (None, None) => (None, None),
    }
}

/// How many entries are left.
fn entries_in(remains: &SalvagedTable) -> Result<u64> {
    let mut entries = 0;
    for part in remains.parts() {
        let Part::Data(handle) = part else { continue };
        match remains.entries(*handle) {
            Err(e) if e.is_corruption() => {}
            other => entries += other?.len() as u64,
        }
    }
    Ok(entries)
}

/// The family of a table that does not say whose it is.
fn only_family(catalog: &Catalog) -> u32 {
    let mut families = catalog.families.keys();
    match (families.next(), families.next()) {
        (Some(&only), None) => only,
        _ => UNKNOWN_FAMILY,
    }
}

/// The last key, or the first one, of the first of these parts that is a data block.
fn first_edge<'a>(
    remains: &SalvagedTable,
    parts: impl Iterator<Item = &'a Part>,
    last: bool,
) -> Result<Option<Vec<u8>>> {
    for part in parts {
        let Part::Data(handle) = part else { continue };
        let entries = match remains.entries(*handle) {
            Err(e) if e.is_corruption() => continue,
            other => other?,
        };
        let entry = if last { entries.into_iter().next_back() } else { entries.into_iter().next() };
        if let Some(entry) = entry {
            return Ok(Some(entry.key));
        }
    }
    Ok(None)
}
