//! Writes a new database of everything that can be read of a damaged one.
//!
//! The steps: what is left of the manifest (`catalog`); which tables are used, whose they are, and what
//! of them is lost (`tables`); the records of the log (`log`); then, family by family, the newest
//! version that is left of each key (`merge`), its value (`values`), and the new database
//! (`destination`).
//!
//! | what | rule |
//! |---|---|
//! | versions | the one with the highest sequence number counts, wherever it was found |
//! | a version whose value is lost | the key is left out: an older value would be a wrong one |
//! | deletions | count like other versions; those of ranges as far as manifest and log tell of them |
//! | the log | what tables have is taken from tables, and from the log where they are damaged |
//! | tables that the manifest does not name | used unless it proves them dead |
//! | expiry | kept; what has expired is left out |

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use tidesdb_base::entry::{ValueKind, is_expired};
use tidesdb_base::error::Result;
use tidesdb_base::options::FamilyOptions;
use tidesdb_base::range_tombstone::{RangeTombstone, RangeTombstones};
use tidesdb_engine::Family;
use tidesdb_sys::clock::{Clock, SystemClock};

use crate::catalog::{Catalog, KnownFamily};
use crate::destination::Destination;
use crate::log::Log;
use crate::merge::{Found, Merge, Version};
use crate::order::KeyOrder;
use crate::report::{Progress, SalvageReport, SalvagedFamily};
use crate::source::Source;
use crate::tables::{LostRange, Tables, UNKNOWN_FAMILY, UsedTable};
use crate::values::Values;

/// Most bytes of work between two reports of progress.
const PROGRESS_BYTES: u64 = 4 << 20;

/// Reads what is left of the database in `source` and writes a new one to `destination`, which must be
/// absent or an empty directory. The source is not changed. `progress` is told how far the work is; an
/// error that it answers ends the work, and the new database is removed then.
///
/// The report lists everything that was lost, with file, offset, length, family and range of keys.
///
/// # Errors
/// `NotEmpty` for the destination; `Locked` when the source is open for writing; `NotADatabase` when no
/// file of a database is there; `InvalidArgument` when the destination lies in the source; `Io` and the
/// kind `Full` of the destination. Damage of the source is no error.
pub fn salvage(
    source: &Path,
    destination: &Path,
    progress: &mut dyn FnMut(Progress) -> Result<()>,
) -> Result<SalvageReport> {
    let source = Source::open(source)?;
    source.check_is_elsewhere(destination)?;
    let mut made = Destination::create(destination)?;
    let work = Work { source: &source, progress, report: SalvageReport::default() };
    match work.run(&mut made) {
        Ok(report) => made.finish().map(|()| report),
        Err(e) => {
            made.abandon();
            Err(e)
        }
    }
}

struct Work<'a> {
    source: &'a Source,
    progress: &'a mut dyn FnMut(Progress) -> Result<()>,
    report: SalvageReport,
}

/// A family that is written to the new database.
struct Salvaged {
    number: u32,
    family: Family,
    summary: SalvagedFamily,
    /// Every commit up to this one was in tables.
    in_tables_through: u64,
    tombstones: Tombstones,
    lost: Vec<LostRange>,
}

/// Deletions of ranges.
struct Tombstones {
    /// They hide what is older.
    certain: RangeTombstones,
    /// They may have been applied long ago, so that versions which merges have settled to sequence number
    /// zero since may be newer. They hide other versions only.
    perhaps_applied: RangeTombstones,
}

impl Tombstones {
    fn hide(&self, version: &Version) -> bool {
        let hides = |tombstones: &RangeTombstones| {
            tombstones.hides(&version.key, version.sequence, u64::MAX)
        };
        hides(&self.certain) || (version.sequence != 0 && hides(&self.perhaps_applied))
    }
}

impl Work<'_> {
    fn run(mut self, made: &mut Destination) -> Result<SalvageReport> {
        let catalog = Catalog::read(self.source)?;
        self.report.unused = self.source.unused();
        self.warn_of_manifest(&catalog);
        let total = self.source.files.iter().map(|(_, len)| len).sum();
        let (mut done, progress) = (0, &mut *self.progress);
        let mut read = |bytes: u64| {
            done += bytes;
            progress(Progress { what: "reading", done, total })
        };
        let tables = Tables::survey(self.source, &catalog, &mut self.report, &mut read)?;
        let log = Log::read(self.source, &catalog, &mut self.report, &mut read)?;
        let mut values = Values::new(self.source);
        let mut names = BTreeMap::new();
        let mut taken = BTreeSet::new();
        let mut written = 0;
        for number in numbers_of_families(&catalog, &tables, &log) {
            let family = self.make_family(made, number, (&catalog, &tables, &log), &mut taken)?;
            names.insert(number, family.summary.name.clone());
            let used: Vec<&UsedTable> =
                tables.used.iter().filter(|table| table.families.contains(&number)).collect();
            let summary =
                self.write_family(made, family, (&used, &log), &mut values, &mut written)?;
            self.report.families.push(summary);
        }
        for loss in &mut self.report.losses {
            for family in &mut loss.families {
                let name = family.parse().ok().and_then(|number: u32| names.get(&number));
                if let Some(name) = name {
                    family.clone_from(name);
                }
            }
        }
        Ok(self.report)
    }

    fn warn_of_manifest(&mut self, catalog: &Catalog) {
        let mut warn = |text: &str| self.report.warnings.push(text.to_owned());
        self.report.harmless.extend(catalog.problems.iter().cloned());
        if catalog.families.is_empty() && !catalog.whole {
            warn(
                "there is no readable manifest: deleted ranges of keys may be back, and files that were \
                  about to be removed were used",
            );
        } else if !catalog.whole {
            warn(
                "the manifest is damaged: families, their options and deleted ranges of keys are as far \
                  as the rest of it tells",
            );
        } else if !catalog.lists_all {
            warn(
                "tables are missing that the manifest names, so others were used that it does not name",
            );
        }
    }

    fn make_family(
        &mut self,
        made: &Destination,
        number: u32,
        (catalog, tables, log): (&Catalog, &Tables, &Log),
        taken: &mut BTreeSet<String>,
    ) -> Result<Salvaged> {
        let known = catalog.families.get(&number).cloned().unwrap_or_default();
        let origin = tables.origins.get(&number);
        let name = known.name.clone().or_else(|| origin.map(|origin| origin.name.clone()));
        let options = known.options.clone().or_else(|| origin.map(|origin| origin.options.clone()));
        let mut summary = SalvagedFamily {
            name_is_known: name.is_some(),
            name: name.unwrap_or_else(|| made_up_name(number)),
            number,
            ..SalvagedFamily::default()
        };
        while !taken.insert(summary.name.clone()) {
            summary.name_is_known = false;
            summary.name.push_str(&format!("-{number}"));
        }
        let parsed = options.as_deref().map(FamilyOptions::from_text);
        summary.options_are_known = matches!(parsed, Some(Ok(_)));
        let options = parsed.and_then(Result::ok).unwrap_or_default();
        let family = made.family(&summary.name, options)?;
        if !summary.name_is_known {
            let text = format!("the name of family {number} is lost: it is '{}' now", summary.name);
            self.report.warnings.push(text);
        } else if !summary.options_are_known {
            let text =
                format!("the options of family '{}' are lost: it has the default", summary.name);
            self.report.warnings.push(text);
        }
        let in_tables = origin.map_or(0, |origin| origin.in_tables_through);
        let in_tables_through =
            if catalog.whole { 0 } else { in_tables }.max(known.flushed_through);
        let of_log = log.range_tombstones.get(&number).map_or(&[][..], Vec::as_slice);
        let tombstones = tombstones_of(catalog, &known, of_log, in_tables_through);
        let lost = tables.lost.get(&number).cloned().unwrap_or_default();
        Ok(Salvaged { number, family, summary, in_tables_through, tombstones, lost })
    }

    fn write_family(
        &mut self,
        made: &mut Destination,
        mut family: Salvaged,
        (tables, log): (&[&UsedTable], &Log),
        values: &mut Values<'_>,
        written: &mut u64,
    ) -> Result<SalvagedFamily> {
        let total = self.report.bytes_read;
        let now = SystemClock.unix_seconds();
        let mut merge = Merge::new(KeyOrder, tables, log, family.number)?;
        let (mut versions, mut value, mut untold) = (Vec::new(), Vec::new(), 0);
        // What is read are keys and values as they are stored; the copy stores them anew.
        let (order, mut key) = (family.family.options().key_order, Vec::new());
        let mut losses = Vec::new();
        while merge.next_key(&mut versions)? {
            untold += merge.take_read();
            if untold >= PROGRESS_BYTES {
                *written += std::mem::take(&mut untold);
                (self.progress)(Progress { what: "writing", done: *written, total })?;
            }
            family.leave_out_what_tables_have(&mut versions);
            let Some(newest) = versions.first() else { continue };
            let gone = newest.kind.is_tombstone() || is_expired(newest.expires_at, now);
            if gone || family.tombstones.hide(newest) {
                family.summary.deleted += 1;
                continue;
            }
            let before = losses.len();
            if read_value(&versions, log, values, &mut value, &mut losses)? {
                order.put_key(&newest.key, &value, &mut key);
                made.put(&family.family, &key, order.value(&value), newest.expires_at)?;
                family.summary.entries += 1;
                family.summary.bytes += (newest.key.len() + value.len()) as u64;
            } else {
                family.summary.values_lost += 1;
            }
            for loss in losses.iter_mut().skip(before) {
                loss.families = vec![family.summary.name.clone()];
            }
        }
        let before = losses.len();
        values.finish(&mut losses);
        for loss in losses.iter_mut().skip(before) {
            loss.families = vec![family.summary.name.clone()];
        }
        self.report.losses.append(&mut losses);
        *written += untold;
        Ok(family.summary)
    }
}

impl Salvaged {
    /// Leaves out versions of the log that are in tables, unless a table is damaged where they would be:
    /// what is in tables may have been deleted since, and the deletion be gone with what it deleted.
    fn leave_out_what_tables_have(&self, versions: &mut Vec<Version>) {
        let flushed = |version: &Version| {
            matches!(version.found, Found::InLog(_)) && version.sequence <= self.in_tables_through
        };
        if !versions.iter().any(flushed) {
            return;
        }
        let in_tables: Vec<u64> = versions
            .iter()
            .filter(|version| matches!(version.found, Found::InTable(_)))
            .map(|version| version.sequence)
            .collect();
        let key = versions.first().map(|version| version.key.clone()).unwrap_or_default();
        let lost = self.lost.iter().any(|range| {
            range.first.as_ref().is_none_or(|first| *first <= key)
                && range.last.as_ref().is_none_or(|last| key <= *last)
        });
        versions
            .retain(|version| lost || !flushed(version) || in_tables.contains(&version.sequence));
    }
}

/// Reads the value of the newest version, from any place that has it. False when none has it whole,
/// which is noted.
fn read_value(
    versions: &[Version],
    log: &Log,
    values: &mut Values<'_>,
    value: &mut Vec<u8>,
    losses: &mut Vec<crate::report::Loss>,
) -> Result<bool> {
    let Some(newest) = versions.first() else { return Ok(false) };
    let in_log = matches!(newest.found, Found::InLog(_));
    let copies = versions.iter().enumerate().filter(|(at, version)| {
        let copy = in_log && matches!(version.found, Found::InTable(_)) && newest.sequence != 0;
        *at == 0 || (copy && version.sequence == newest.sequence)
    });
    let mut lost = None;
    for (_, version) in copies {
        let bytes = match &version.found {
            Found::InTable(bytes) => bytes.clone(),
            Found::InLog(place) => log.value(place)?,
        };
        if version.kind != ValueKind::ValuePointer {
            *value = bytes;
            return Ok(true);
        }
        match values.read(&bytes, value) {
            Ok(()) => {
                values.found(&bytes, losses);
                return Ok(true);
            }
            Err(reason) => lost = Some((bytes, reason)),
        }
    }
    if let Some((pointer, reason)) = lost {
        values.lose(&pointer, &newest.key, reason, losses);
    }
    Ok(false)
}

fn numbers_of_families(catalog: &Catalog, tables: &Tables, log: &Log) -> BTreeSet<u32> {
    let mut numbers: BTreeSet<u32> = catalog.families.keys().copied().collect();
    numbers.extend(tables.used.iter().flat_map(|table| table.families.iter().copied()));
    numbers.extend(log.operations.keys().copied());
    numbers.retain(|&number| !catalog.is_dropped(number));
    numbers
}

fn made_up_name(number: u32) -> String {
    match number {
        UNKNOWN_FAMILY => "family-unknown".to_owned(),
        number => format!("family-{number}"),
    }
}

/// The deletions of ranges that are known.
fn tombstones_of(
    catalog: &Catalog,
    known: &KnownFamily,
    of_log: &[Arc<RangeTombstone>],
    in_tables_through: u64,
) -> Tombstones {
    let (mut certain, mut perhaps) = (Vec::new(), Vec::new());
    let of_manifest = known.range_tombstones.iter().cloned();
    if catalog.whole { &mut certain } else { &mut perhaps }.extend(of_manifest);
    for tombstone in of_log {
        if tombstone.sequence > in_tables_through {
            certain.push(Arc::clone(tombstone));
        } else if !catalog.whole {
            perhaps.push(Arc::clone(tombstone));
        }
    }
    Tombstones {
        certain: RangeTombstones::new(certain),
        perhaps_applied: RangeTombstones::new(perhaps),
    }
}
