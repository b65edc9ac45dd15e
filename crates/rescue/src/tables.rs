//! The tables of a damaged database: which are used, whose they are, and what of them is lost.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;

use tidesdb_base::error::{Error, Result};
use tidesdb_files::naming::FileKind;
use tidesdb_files::sstable::{BlockHandle, Part, RemainingEntry, TableOrigin, TableRemains};

use crate::catalog::Catalog;
use crate::report::{Loss, SalvageReport};
use crate::source::Source;

/// Number of the family that gets the tables of which nothing tells whose they are.
pub(crate) const UNKNOWN_FAMILY: u32 = u32::MAX;

/// Keys of a family that something is missing of. Bounds belong to the range; an absent one bounds
/// nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct LostRange {
    pub(crate) first: Option<Vec<u8>>,
    pub(crate) last: Option<Vec<u8>>,
}

/// A table that is used.
#[derive(Debug)]
pub(crate) struct UsedTable {
    pub(crate) number: u64,
    pub(crate) remains: Arc<TableRemains>,
    pub(crate) families: Vec<u32>,
}

/// The tables that are used, and what is known of families from them.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    pub(crate) used: Vec<UsedTable>,
    /// What tables say of the family that they were written for, the newest table's word.
    pub(crate) origins: BTreeMap<u32, TableOrigin>,
    /// By family.
    pub(crate) lost: BTreeMap<u32, Vec<LostRange>>,
}

impl Tables {
    /// Surveys all tables. `progress` is told of bytes read.
    ///
    /// # Errors
    /// What `progress` answers.
    pub(crate) fn survey(
        source: &Source,
        catalog: &Catalog,
        report: &mut SalvageReport,
        progress: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<Self> {
        let mut tables = Self::default();
        let mut numbers: Vec<u64> = source.tables().collect();
        numbers.sort_unstable();
        for number in numbers {
            let kind = FileKind::Table(number);
            let path = source.path(kind);
            let listed = catalog.families_of(number);
            let is_dead = catalog.removed_tables.contains(&number)
                || (catalog.lists_all && number < catalog.next_file);
            if listed.is_empty() && is_dead {
                report.unused.push((path, "the manifest knows that it is dead".to_owned()));
                continue;
            }
            let surveyed =
                source.file(kind).and_then(|file| TableRemains::survey(file, &path, number));
            match surveyed {
                Ok(remains) => {
                    progress(remains.file_len())?;
                    report.tables += 1;
                    report.bytes_read += remains.file_len();
                    tables.add(Arc::new(remains), listed, catalog, report)?;
                }
                Err(e) => tables.lose_file(path, number, &listed, catalog, (report, e.to_string())),
            }
        }
        for (family, known) in &catalog.families {
            for number in known.tables.keys() {
                let kind = FileKind::Table(*number);
                // A file that several families list is named once, with all of them.
                if !source.has(kind) && catalog.families_of(*number).first() == Some(family) {
                    let listed = catalog.families_of(*number);
                    let reason = (&mut *report, "the file is missing".to_owned());
                    tables.lose_file(source.path(kind), *number, &listed, catalog, reason);
                }
            }
        }
        Ok(tables)
    }

    fn add(
        &mut self,
        remains: Arc<TableRemains>,
        listed: Vec<u32>,
        catalog: &Catalog,
        report: &mut SalvageReport,
    ) -> Result<()> {
        let number = remains.identity();
        let origin = remains.summary().map(|summary| summary.origin.clone());
        let origin = origin.filter(|origin| !origin.name.is_empty());
        if let Some(origin) = &origin {
            let known = self.origins.entry(origin.family).or_default();
            let through = known.in_tables_through.max(origin.in_tables_through);
            // Tables come by their numbers, so the last word is the newest.
            *known = TableOrigin { in_tables_through: through, ..origin.clone() };
        }
        let families = match (listed, origin) {
            (listed, _) if !listed.is_empty() => listed,
            (_, Some(origin)) if catalog.is_dropped(origin.family) => {
                let reason = "its family was dropped".to_owned();
                report.unused.push((remains.path().to_path_buf(), reason));
                return Ok(());
            }
            (_, Some(origin)) => vec![origin.family],
            (_, None) => vec![only_family(catalog)],
        };
        if catalog.families_of(number).is_empty() && catalog.whole {
            let name = FileKind::Table(number).name();
            report.warnings.push(format!("{name} is not in the manifest, and was used"));
        }
        self.note_losses(&remains, &families, report);
        self.used.push(UsedTable { number, remains, families });
        Ok(())
    }

    /// Notes what of a table is lost, and damage that cost nothing.
    fn note_losses(
        &mut self,
        remains: &TableRemains,
        families: &[u32],
        report: &mut SalvageReport,
    ) {
        let parts = remains.parts();
        for (at, part) in parts.iter().enumerate() {
            let Part::Lost { offset, len } = *part else { continue };
            let (before, behind) = parts.split_at(at);
            let first = before.iter().rev().find_map(|part| edge(remains, part, true));
            let last = behind.iter().find_map(|part| edge(remains, part, false));
            let summary = remains.summary();
            let range = LostRange {
                first: first.or_else(|| summary.map(|summary| summary.min_key.clone())),
                last: last.or_else(|| summary.map(|summary| summary.max_key.clone())),
            };
            let reason = remains.problems().iter().find_map(|problem| match problem {
                Error::Corruption { offset: place, detail, .. } if *place == offset => Some(detail),
                _ => None,
            });
            let reason = reason.cloned().unwrap_or_else(|| "it can't be read".to_owned());
            let loss = Loss::new(remains.path().to_path_buf(), offset, len, reason);
            self.lose(loss, range, families, report);
        }
        let lost = |place: u64| {
            parts.iter().any(|part| matches!(part, Part::Lost { offset, .. } if *offset == place))
        };
        let harmless = remains.problems().iter().filter(|problem| match problem {
            Error::Corruption { offset, .. } => !lost(*offset),
            _ => true,
        });
        report.harmless.extend(harmless.cloned());
    }

    fn lose_file(
        &mut self,
        path: PathBuf,
        number: u64,
        families: &[u32],
        catalog: &Catalog,
        (report, reason): (&mut SalvageReport, String),
    ) {
        let records = catalog.families.values().find_map(|family| family.tables.get(&number));
        let mut loss = Loss::new(path, 0, records.map_or(0, |record| record.bytes), reason);
        loss.entries = records.map(|record| record.entries);
        let range = LostRange {
            first: records.map(|record| record.smallest_key.clone()),
            last: records.map(|record| record.largest_key.clone()),
        };
        self.lose(loss, range, families, report);
    }

    fn lose(
        &mut self,
        mut loss: Loss,
        range: LostRange,
        families: &[u32],
        report: &mut SalvageReport,
    ) {
        loss.first_key.clone_from(&range.first);
        loss.last_key.clone_from(&range.last);
        // Names are filled in when all are known.
        loss.families = families.iter().map(ToString::to_string).collect();
        for &family in families {
            self.lost.entry(family).or_default().push(range.clone());
        }
        report.losses.push(loss);
    }
}

/// The family of a table that does not say whose it is.
fn only_family(catalog: &Catalog) -> u32 {
    let mut families = catalog.families.keys();
    match (families.next(), families.next()) {
        (Some(&only), None) => only,
        _ => UNKNOWN_FAMILY,
    }
}

/// The last key of a data block, or the first one.
fn edge(remains: &TableRemains, part: &Part, last: bool) -> Option<Vec<u8>> {
    let Part::Data(handle) = part else { return None };
    let entries = remains.entries(*handle).ok()?;
    let entry = if last { entries.into_iter().next_back() } else { entries.into_iter().next() };
    entry.map(|entry| entry.key)
}

/// Walks the entries of a table that are left, in the table's order.
#[derive(Debug)]
pub(crate) struct TableCursor {
    remains: Arc<TableRemains>,
    /// Blocks that are not read yet.
    blocks: VecDeque<BlockHandle>,
    entries: VecDeque<RemainingEntry>,
}

impl TableCursor {
    pub(crate) fn new(remains: Arc<TableRemains>) -> Self {
        let data = remains.parts().iter().filter_map(|part| match part {
            Part::Data(handle) => Some(*handle),
            _ => None,
        });
        Self { blocks: data.collect(), entries: VecDeque::new(), remains }
    }

    /// The next entry, and the bytes of the block that was read for it, if one was.
    ///
    /// # Errors
    /// [`Error::Corruption`] or [`Error::Io`] when a block can't be read that could be before.
    pub(crate) fn next(&mut self) -> Result<(Option<RemainingEntry>, u64)> {
        let mut read = 0;
        while self.entries.is_empty() {
            let Some(handle) = self.blocks.pop_front() else { return Ok((None, read)) };
            self.entries = self.remains.entries(handle)?.into();
            read += u64::from(handle.len);
        }
        Ok((self.entries.pop_front(), read))
    }
}
