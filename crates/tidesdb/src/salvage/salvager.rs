//! Writes a new database of everything that can be read of a damaged one.
//!
//! The steps: what is left of the manifest (`catalog`); which tables are used, whose they are, and
//! what of them is lost (`tables`); the records of the log (`log`); then, family by family, the
//! newest version that is left of each key (`merge`), its value (`values`), and the new database
//! (`destination`).
//!
//! | what | rule |
//! |---|---|
//! | versions | the one with the highest sequence number counts, wherever it was found |
//! | a version whose value is lost | the key is left out: an older value would be a wrong one |
//! | deletions | count like other versions; of ranges as far as manifest and log have them |
//! | the log | what tables have is taken from tables, and from the log where they are damaged |
//! | tables that the manifest does not name | used unless it proves them dead |
//! | halves of tables that it does not name | used where one family alone can have them |
//! | expiry | kept, as it was written: what has expired shows when the new database is read |

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use tidesdb_base::entry::ValueKind;
use tidesdb_base::error::{Error, Result};
use tidesdb_base::options::DbOptions;
use tidesdb_base::progress::Progress;
use tidesdb_files::naming::FileKind;

use crate::core::check_name;
use crate::salvage::catalog::Catalog;
use crate::salvage::destination::Destination;
use crate::salvage::family::{Salvaged, Tombstones, options_from};
use crate::salvage::findings::{Findings, Named};
use crate::salvage::log::{Known, Log};
use crate::salvage::merge::{Found, Merge, Version};
use crate::salvage::report::{Loss, SalvageReport, SalvagedFamily};
use crate::salvage::source::Source;
use crate::salvage::tables::{Tables, UNKNOWN_FAMILY, UsedTable};
use crate::salvage::values::Values;

/// Most bytes of work between two reports of progress.
const PROGRESS_BYTES: u64 = 4 << 20;

/// Reads what is left of the database in `source` and writes a new one to `destination`, which must
/// be absent or an empty directory. The source is not changed. `progress` is called with how far
/// the work is; an error that it returns ends the work, and the new database is removed then.
///
/// The report lists everything that was lost, with file, offset, length, family and range of keys,
/// as far as anything shows it.
///
/// # Errors
/// `NotEmpty` for the destination; `Locked` when the source is open for writing; `NotADatabase`
/// when no file of a database is there; `InvalidArgument` when the destination lies in the source,
/// or is a mount point; `Io` and the kind `Full` of the destination. Damage of the source is no
/// error, and neither are sectors that the disk can't read; `Io` of the source is one that says
/// nothing of its bytes, such as a permission or a descriptor that is missing.
pub fn salvage(
    source: &Path,
    destination: &Path,
    progress: &mut dyn FnMut(Progress) -> Result<()>,
) -> Result<SalvageReport> {
    salvage_with(source, destination, &DbOptions::default(), progress)
}

/// As [`salvage`], with memory, threads and limits of `options`.
///
/// # Errors
/// As [`salvage`]; `Invalid` for wrong options.
pub fn salvage_with(
    source: &Path,
    destination: &Path,
    options: &DbOptions,
    progress: &mut dyn FnMut(Progress) -> Result<()>,
) -> Result<SalvageReport> {
    let source = Source::open(source)?;
    source.check_is_elsewhere(destination)?;
    let made = Destination::create(destination, options)?;
    let (made, report) = salvage_into(made, &source, progress)?;
    made.finish().map(|()| report)
}

/// As [`salvage`], of a source that is open, and up to the moment when the new database gets its
/// place.
pub(crate) fn salvage_into(
    mut made: Destination,
    source: &Source,
    progress: &mut dyn FnMut(Progress) -> Result<()>,
) -> Result<(Destination, SalvageReport)> {
    let work = Work { source, progress, findings: Findings::default() };
    match work.run(&mut made) {
        Ok(report) => Ok((made, report)),
        Err(e) => {
            made.abandon();
            Err(e)
        }
    }
}

struct Work<'a> {
    source: &'a Source,
    progress: &'a mut dyn FnMut(Progress) -> Result<()>,
    findings: Findings,
}

impl Work<'_> {
    fn run(mut self, made: &mut Destination) -> Result<SalvageReport> {
        let catalog = Catalog::read(self.source)?;
        self.findings.report.unused = self.source.unused();
        self.warn_of_manifest(&catalog);
        let total = self.source.files.iter().map(|(_, len)| len).sum();
        let (mut done, progress) = (0, &mut *self.progress);
        let mut read = |bytes: u64| {
            done += bytes;
            progress(Progress::at("reading", done, total))
        };
        let tables = Tables::survey(self.source, &catalog, &mut self.findings, &mut read)?;
        let known = Known {
            catalog: &catalog,
            published: &tables.published,
            tables_are_whole: tables.are_whole(),
        };
        let log = Log::read(self.source, &known, &mut self.findings, &mut read)?;
        let mut values = Values::new(self.source);
        let mut names = BTreeMap::new();
        let mut taken = BTreeSet::new();
        let mut written = 0;
        for number in numbers_of_families(&catalog, &tables, &log) {
            let found = (&catalog, &tables, &log);
            let Some(family) = self.make_family(made, number, found, &mut taken)? else { continue };
            let (name, order) = (family.summary.name.clone(), family.order.clone());
            names.insert(number, Named { name, order });
            let used: Vec<&UsedTable> =
                tables.used.iter().filter(|table| table.families.contains(&number)).collect();
            let summary =
                self.write_family(made, family, (&used, &log), &mut values, &mut written)?;
            self.findings.report.families.push(summary);
        }
        Ok(self.findings.finish(&names))
    }

    fn warn_of_manifest(&mut self, catalog: &Catalog) {
        if catalog.whole {
            self.findings.report.harmless.extend(catalog.problems.iter().cloned());
        } else {
            catalog.problems.iter().for_each(|problem| self.findings.warn(problem.to_string()));
        }
        if catalog.families.is_empty() && !catalog.whole {
            self.findings.warn(
                "there is no readable manifest: deleted ranges of keys may be back, files that \
                 were about to be removed were used, copies of families (clone-family) and \
                 families without tables may be missing, and names and options are those with \
                 which tables were written",
            );
        } else if let Some(warning) = catalog.torn_warning() {
            self.findings.warn(warning);
        } else if !catalog.whole {
            self.findings.warn(
                "the manifest is damaged: families, their options and deleted ranges of keys are \
                 as far as the rest of it shows",
            );
        }
    }

    /// Says where the name of a family comes from, if not from the manifest.
    fn warn_of_name(&mut self, family: &SalvagedFamily, is_listed: bool, tables: &Tables) {
        let SalvagedFamily { name, number, .. } = family;
        if !family.name_is_known {
            self.findings.warn(format!("the name of family {number} is lost: it is '{name}' now"));
        } else if !is_listed {
            let table = tables.newest_origins.get(number).copied().unwrap_or_default();
            self.findings.warn(format!(
                "family '{name}' has the name that it has in table {table}, its newest: a later \
                 change of its name, or of its options, is lost"
            ));
        }
    }

    /// Makes the family of a number in the new database. `None` when its keys are unknown.
    fn make_family(
        &mut self,
        made: &Destination,
        number: u32,
        (catalog, tables, log): (&Catalog, &Tables, &Log),
        taken: &mut BTreeSet<String>,
    ) -> Result<Option<Salvaged>> {
        let known = catalog.families.get(&number).cloned().unwrap_or_default();
        let origin = tables.origins.get(&number);
        let mut names = known.name.iter().chain(origin.map(|origin| &origin.name));
        // What is in a file may be a name that no family can have.
        let name = names.find(|name| check_name(name).is_ok()).cloned();
        let mut summary = SalvagedFamily {
            name_is_known: name.is_some(),
            name: name.unwrap_or_else(|| made_up_name(number)),
            number,
            ..SalvagedFamily::default()
        };
        while !taken.insert(summary.name.clone()) {
            summary.name = match summary.name_is_known {
                true => made_up_name(number),
                false => format!("{}-{number}", summary.name),
            };
            summary.name_is_known = false;
        }
        let texts = known.options.as_deref().into_iter();
        let texts: Vec<&str> = texts.chain(origin.map(|origin| origin.options.as_str())).collect();
        let Some((options, options_are_known)) = options_from(&texts) else {
            let reason = format!(
                "the order of keys of family '{}' is not known to this build, so its keys can't be \
                 told from what is stored",
                summary.name
            );
            self.findings.lose(Loss::new(self.source.dir.clone(), 0, 0, reason), &[]);
            return Ok(None);
        };
        summary.options_are_known = options_are_known;
        let order = options.key_order.clone();
        let family = made.family(&summary.name, options)?;
        self.warn_of_name(&summary, known.name.is_some(), tables);
        if texts.is_empty() {
            let text = "it has the default, and its keys and values are as they were stored";
            self.findings
                .warn(format!("the options of family '{}' are lost: {text}", summary.name));
        } else if !options_are_known {
            let text = "can't be read as a whole: it has those that can";
            self.findings.warn(format!("the options of family '{}' {text}", summary.name));
        }
        let in_tables = origin.map_or(0, |origin| origin.in_tables_through);
        let in_tables_through =
            if catalog.whole { 0 } else { in_tables }.max(known.flushed_through);
        let of_log = log.range_tombstones.get(&number).map_or(&[][..], Vec::as_slice);
        let tombstones = Tombstones::new(catalog, &known, of_log, in_tables_through);
        let (lost, log_is_live_from) = (tables.lost_of(number), log.live_from);
        Ok(Some(Salvaged {
            number,
            family,
            order,
            summary,
            in_tables_through,
            log_is_live_from,
            tombstones,
            lost,
        }))
    }

    fn write_family(
        &mut self,
        made: &mut Destination,
        mut family: Salvaged,
        (tables, log): (&[&UsedTable], &Log),
        values: &mut Values<'_>,
        written: &mut u64,
    ) -> Result<SalvagedFamily> {
        let total = self.findings.report.bytes_read;
        let mut merge = Merge::new(tables, log, family.number)?;
        let (mut versions, mut value, mut unreported) = (Vec::new(), Vec::new(), 0);
        let mut losses = Vec::new();
        while merge.next_key(&mut versions)? {
            unreported += merge.take_read();
            if unreported >= PROGRESS_BYTES {
                *written += std::mem::take(&mut unreported);
                (self.progress)(Progress::at("writing", *written, total))?;
            }
            self.note_failed(&mut merge, &mut family);
            family.leave_out_dead(&mut versions);
            let Some(newest) = versions.first() else { continue };
            if newest.kind.is_tombstone() || family.tombstones.hide(newest) {
                family.summary.deleted += 1;
            } else if read_value(&versions, log, values, &mut value, &mut losses)? {
                let put = put(made, &family, newest, &value);
                match put {
                    Ok(bytes) => {
                        family.summary.entries += 1;
                        family.summary.bytes += bytes;
                    }
                    Err(Error::InvalidArgument(reason)) => {
                        losses.push(loss_of_key(self.source, newest, reason));
                    }
                    Err(other) => return Err(other),
                }
            } else {
                family.summary.values_lost += 1;
            }
        }
        self.note_failed(&mut merge, &mut family);
        values.finish(&mut losses);
        losses.into_iter().for_each(|loss| self.findings.lose(loss, &[family.number]));
        *written += unreported;
        Ok(family.summary)
    }

    /// Notes blocks that were whole when the table was surveyed, and can't be read any more.
    fn note_failed(&mut self, merge: &mut Merge<'_>, family: &mut Salvaged) {
        for (table, block) in merge.take_failed() {
            let (offset, len) = (block.handle.offset, u64::from(block.handle.len));
            let path = table.remains.path().to_path_buf();
            let mut loss = Loss::new(path, offset, len, block.reason);
            loss.first_key.clone_from(&block.range.first);
            loss.last_key.clone_from(&block.range.last);
            self.findings.lose(loss, &[family.number]);
            family.lost.push(block.range);
        }
    }
}

/// Writes the newest version of a key, as it was given: what is read are keys and values as they
/// are stored, and the copy stores them anew. Returns its bytes.
///
/// # Errors
/// [`Error::InvalidArgument`] when the key is none that the family stores; those of a commit.
fn put(
    made: &mut Destination,
    family: &Salvaged,
    newest: &Version<'_>,
    stored: &[u8],
) -> Result<u64> {
    let (order, mut key) = (&family.order, Vec::new());
    order.put_key(&newest.key, stored, &mut key);
    // Of a table whose family is not known the order of keys may be another.
    if key.is_empty() || *order.stored_key(&key) != *newest.key {
        let text = format!("a key is stored in another form than the order {order} does");
        return Err(Error::InvalidArgument(text));
    }
    let value = order.value(stored);
    made.put(&family.family, &key, value, newest.expires_at)?;
    Ok((key.len() + value.len()) as u64)
}

fn loss_of_key(source: &Source, version: &Version<'_>, reason: String) -> Loss {
    let file = match version.found {
        Found::InTable(table, _) => source.path(FileKind::Table(table.number)),
        Found::InLog(_) => source.dir.clone(),
    };
    let mut loss = Loss::new(file, 0, 0, reason);
    (loss.first_key, loss.last_key) = (Some(version.key.clone()), Some(version.key.clone()));
    loss.entries = Some(1);
    loss
}

/// Reads the value of the newest version, from any place that has it. False when none has it whole,
/// which is noted.
fn read_value(
    versions: &[Version<'_>],
    log: &Log,
    values: &mut Values<'_>,
    value: &mut Vec<u8>,
    losses: &mut Vec<Loss>,
) -> Result<bool> {
    let Some(newest) = versions.first() else { return Ok(false) };
    let copies = versions.iter().enumerate().filter(|(at, version)| {
        // Of the log the last operation of a commit counts alone.
        let is_copy = matches!(version.found, Found::InTable(..)) && newest.sequence != 0;
        *at == 0 || (is_copy && version.sequence == newest.sequence)
    });
    let (mut lost, mut log_loss) = (None, None);
    for (_, version) in copies {
        if version.kind.is_tombstone() {
            continue;
        }
        let mut pointer = Vec::new();
        let is_pointer = version.kind == ValueKind::ValuePointer;
        let into = if is_pointer { &mut pointer } else { &mut *value };
        match &version.found {
            Found::InTable(_, bytes) => into.clone_from(bytes),
            Found::InLog(place) => {
                if let Err(mut loss) = log.read_value(place, into)? {
                    loss.entries = Some(1);
                    log_loss = Some(loss);
                    continue;
                }
            }
        }
        if !is_pointer {
            return Ok(true);
        }
        match values.read(&pointer, value)? {
            Ok(()) => {
                values.found(&pointer, losses);
                return Ok(true);
            }
            Err(reason) => lost = Some((pointer, reason)),
        }
    }
    if let Some((pointer, reason)) = lost {
        values.lose(&pointer, &newest.key, reason, losses);
    } else if let Some(mut loss) = log_loss {
        (loss.first_key, loss.last_key) = (Some(newest.key.clone()), Some(newest.key.clone()));
        losses.push(loss);
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
