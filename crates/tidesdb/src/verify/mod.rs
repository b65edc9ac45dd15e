//! Deep verification: everything on disk is read and checked against everything that is known
//! of it.

mod damage;
mod lengths;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tidesdb_base::entry::ValueKind;
use tidesdb_base::error::{Error, Result};
use tidesdb_base::progress::{Progress, Step};
use tidesdb_files::sstable::{Readahead, TableIterator, Uncached};
use tidesdb_files::vlog::ValuePointer;

use crate::core::{Environment, Families, Storage};
use crate::family::View;
use crate::memtable::kind_of;
use crate::stats::memtable_keys;
use crate::version::{Run, TableFile, ValueLogFile};

pub(crate) use self::lengths::check_files;

/// Bytes of a table read at a time.
const READAHEAD_BYTES: usize = 256 << 10;

/// What a verification found.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct VerifyReport {
    /// Column families checked.
    pub families: u64,
    /// Tables read.
    pub tables: u64,
    /// Blocks read.
    pub blocks: u64,
    /// Entries read.
    pub entries: u64,
    /// Keys in memory: of the log that was replayed, and of commits since.
    pub keys_in_memory: u64,
    /// Bytes of tables and value logs read.
    pub bytes: u64,
    /// Value-log files read.
    pub value_log_files: u64,
    /// Everything that is wrong; empty for a sound database.
    pub problems: Vec<Error>,
    /// What may be lost, or may never have been there: commits that the opening left out of the
    /// log, since a record in front of them was not whole, and bytes at the end of the manifest
    /// that are no edit.
    pub warnings: Vec<String>,
}

/// Files that one family after the other has met: several may have the same.
#[derive(Debug, Default)]
struct SeenFiles {
    tables: BTreeSet<u64>,
    value_logs: BTreeSet<u64>,
    /// Those that are sound as a whole, whatever points into them.
    /// By number, with the length up to which each was read.
    sound_value_logs: BTreeMap<u64, u64>,
}

impl VerifyReport {
    /// Checks everything and reports to `progress` how far that is.
    ///
    /// # Errors
    /// What `progress` returns, which ends the work. Damage is in the report.
    pub(crate) fn of(
        (env, families, storage): (&Environment, &Families, &Storage),
        progress: &mut dyn FnMut(Progress) -> Result<()>,
    ) -> Result<Self> {
        let (mut report, mut seen) = (Self::default(), SeenFiles::default());
        report.warnings.extend(storage.torn.iter().map(ToString::to_string));
        report.warnings.extend(storage.left_out.iter().map(ToString::to_string));
        report.keys_in_memory = families.all().iter().map(|family| memtable_keys(family)).sum();
        let views: Vec<_> =
            families.all().into_iter().map(|family| family.view.load_full()).collect();
        let mut step = Step::new("checking", bytes_of(&views), progress);
        for view in &views {
            report.families += 1;
            report.check_family(env, view, &mut seen, &mut step);
            if let Some(error) = step.ended() {
                return Err(error.clone());
            }
        }
        report.name_each_problem_once();
        Ok(report)
    }

    /// Several families may have the same file.
    fn name_each_problem_once(&mut self) {
        let mut named = BTreeSet::new();
        self.problems.retain(|problem| named.insert(problem.to_string()));
    }

    fn check_family(
        &mut self,
        env: &Environment,
        view: &View,
        seen: &mut SeenFiles,
        step: &mut Step<'_>,
    ) {
        let version = &view.version;
        for run in &version.runs {
            self.check_run(run);
            for table in run.tables.iter().filter(|table| seen.tables.insert(table.record.number)) {
                self.tables += 1;
                let checked = self.check_table(table, step);
                if step.ended().is_some() {
                    return;
                }
                if let Err(first) = checked {
                    self.problems.extend(damage::of_table(&env.vfs, table, first));
                }
            }
        }
        self.check_value_logs(view, seen, step);
    }

    fn check_table(&mut self, file: &Arc<TableFile>, step: &mut Step<'_>) -> Result<()> {
        let open = file.table()?;
        let Some(table) = open.as_ref() else { return Ok(()) };
        let mut left = file.record.bytes;
        table.verify_with_progress(&mut |bytes| {
            let bytes = bytes.min(left);
            left -= bytes;
            step.add(bytes)
        })?;
        // Index and filters.
        step.add(left)?;
        self.blocks += table.block_count() as u64;
        self.entries += table.summary().entries;
        self.bytes += file.record.bytes;
        let (held, recorded) = (table.summary(), &file.record);
        let keys = (key_range(&held.min_key, &held.max_key), held.tombstones, held.max_seq);
        let expected = (
            key_range(&recorded.smallest_key, &recorded.largest_key),
            recorded.tombstones,
            recorded.highest_sequence,
        );
        if keys != expected {
            let detail = format!(
                "expected keys, deletions and last sequence {expected:?}, as the manifest says, \
                 found {keys:?}"
            );
            return Err(Error::corruption(file.path(), 0, detail));
        }
        Ok(())
    }

    fn check_run(&mut self, run: &Run) {
        for pair in run.tables.windows(2) {
            let [left, right] = pair else { continue };
            if left.record.largest_key >= right.record.smallest_key {
                let behind = left.record.largest_key.escape_ascii();
                let found = right.record.smallest_key.escape_ascii();
                let detail = format!(
                    "expected keys behind '{behind}', where the table before it in the run ends, \
                     found '{found}'"
                );
                self.problems.push(Error::corruption(right.path(), 0, detail));
            }
        }
    }

    fn check_value_logs(&mut self, view: &View, seen: &mut SeenFiles, step: &mut Step<'_>) {
        let version = &view.version;
        let referenced: BTreeSet<u64> = version
            .tables()
            .flat_map(|table| table.record.value_references.iter().map(|&(file, _)| file))
            .collect();
        for number in referenced {
            if !version.value_logs.contains_key(&number) {
                let name = tidesdb_files::naming::FileKind::ValueLog(number).name();
                let detail = "tables point into the file, the manifest does not list it";
                self.problems.push(Error::corruption(name, 0, detail));
            }
        }
        // Those that nothing has closed since they were appended to, with their lengths.
        let mut unclosed = BTreeMap::new();
        for file in version.value_logs.values() {
            // Read first: values may be appended to the file while it is verified.
            let known = file.life().whole_bytes();
            let sound = seen.sound_value_logs.get(&file.number);
            if sound.is_some_and(|&sound| known > 0 && known <= sound) {
                continue;
            }
            self.value_log_files += u64::from(seen.value_logs.insert(file.number));
            if step.ended().is_some() {
                return;
            }
            let mut left = known;
            let checked = file.with_reader(|reader| {
                reader.verify_with_progress(&mut |bytes| {
                    left = left.saturating_sub(bytes);
                    step.add(bytes)
                })
            });
            match checked.and_then(|found| step.add(left).map(|()| found)) {
                Ok(found) if found.file_len < known => {
                    let detail = format!("the file ends early, it had {known} bytes");
                    let problem = Error::corruption(file.path(), found.file_len, detail);
                    self.problems.push(problem);
                }
                Ok(found) => {
                    self.bytes += found.file_len;
                    if known == 0 {
                        unclosed.insert(file.number, (file, found.file_len));
                    } else {
                        seen.sound_value_logs.insert(file.number, known);
                    }
                }
                Err(Error::Corruption { offset, .. }) if offset >= known => {
                    // Behind what is known to be whole lies what a power cut or a failed write
                    // left of commits that never were; only what is pointed at must be whole.
                    self.bytes += known;
                    let checked = check_pointers_into(view, file, step);
                    if step.ended().is_some() {
                        return;
                    }
                    self.problems.extend(checked.err());
                }
                Err(_) if step.ended().is_some() => return,
                Err(first) => self.problems.extend(damage::of_value_log(file, known, first)),
            }
        }
        self.check_lengths(view, unclosed, step);
    }

    /// Looks whether value logs, which are whole up to some length, are as long as what points into
    /// them asks for. The manifest does not say how long they must be.
    fn check_lengths(
        &mut self,
        view: &View,
        mut unclosed: BTreeMap<u64, (&Arc<ValueLogFile>, u64)>,
        step: &mut Step<'_>,
    ) {
        let numbers: BTreeSet<u64> = unclosed.keys().copied().collect();
        if numbers.is_empty() {
            return;
        }
        // A table that can't be read is reported where it was checked.
        let _ = each_pointer_into(view, &numbers, step, &mut |pointer| {
            let end = pointer.offset.saturating_add(pointer.record_bytes());
            if let Some((file, bytes)) = unclosed.get(&pointer.file)
                && end > *bytes
            {
                let detail = format!("the file ends early, a value needs {end} bytes of it");
                self.problems.push(Error::corruption(file.path(), *bytes, detail));
                unclosed.remove(&pointer.file);
            }
            Ok(())
        });
    }
}

/// Bytes of all tables and value logs, each once.
fn bytes_of(families: &[Arc<View>]) -> u64 {
    let mut files = BTreeMap::new();
    for version in families.iter().map(|view| &view.version) {
        let tables = version.tables().map(|table| (table.record.number, table.record.bytes));
        let logs = version.value_logs.values().map(|log| (log.number, log.life().whole_bytes()));
        files.extend(tables.chain(logs));
    }
    files.values().sum()
}

/// Reads every value of a file that tables or memtables point at.
fn check_pointers_into(view: &View, file: &ValueLogFile, step: &mut Step<'_>) -> Result<()> {
    let mut value = Vec::new();
    let numbers = BTreeSet::from([file.number]);
    let mut read = |pointer: &ValuePointer| file.read(pointer, &mut value);
    each_pointer_into(view, &numbers, step, &mut read)
}

/// Calls `check` with each pointer of tables and memtables into the value logs of these numbers.
/// Ends with the first error; goes on with the next table where one can't be read, and returns why.
fn each_pointer_into(
    view: &View,
    numbers: &BTreeSet<u64>,
    step: &mut Step<'_>,
    check: &mut dyn FnMut(&ValuePointer) -> Result<()>,
) -> Result<()> {
    let mut check = |kind: ValueKind, encoded: &[u8]| match ValuePointer::decode(encoded) {
        Ok(pointer) if kind == ValueKind::ValuePointer && numbers.contains(&pointer.file) => {
            check(&pointer)
        }
        _ => Ok(()),
    };
    for memtable in std::iter::once(&view.active).chain(&view.frozen) {
        let mut cursor = memtable.cursor();
        cursor.seek_to_first();
        while cursor.valid() {
            for version in cursor.versions() {
                check(kind_of(&version), version.value)?;
            }
            cursor.next();
        }
    }
    let points = |table: &&Arc<TableFile>| {
        table.record.value_references.iter().any(|(number, _)| numbers.contains(number))
    };
    let mut unreadable = Ok(());
    for table in view.version.tables().filter(points) {
        step.add(0)?;
        let open = match table.table() {
            Ok(open) => open.as_ref().map(Arc::clone),
            Err(e) => {
                unreadable = Err(e);
                continue;
            }
        };
        let Some(open) = open else { continue };
        let mut entries = TableIterator::new(open, Uncached, Readahead::Bytes(READAHEAD_BYTES));
        let mut moved = entries.seek_to_first();
        while moved.is_ok() && entries.valid() {
            check(entries.meta().kind, entries.value())?;
            moved = entries.next();
        }
        if moved.is_err() {
            unreadable = moved;
        }
    }
    unreadable
}

/// A range of keys as it is reported.
fn key_range(first: &[u8], last: &[u8]) -> String {
    format!("{}..={}", first.escape_ascii(), last.escape_ascii())
}
