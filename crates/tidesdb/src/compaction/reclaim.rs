//! Writing a table anew without what is not needed of it: how a full disk gets its space back.
//!
//! A compaction gives its inputs back at its end, so it needs as much space as it writes. Here one
//! table at a time is read beside all that shares keys with it, and only its own versions are
//! written that stay, to the same run. So the space for one table is enough, and what it has freed
//! is there for the next. It costs more reading than a compaction, which is why it is done on full
//! disks only.
//!
//! A version goes when a newer one hides it, as in a compaction: whichever table that is in, it
//! stays where it is, or goes later with nothing left below. A tombstone goes when no older run
//! holds its key and all snapshots see it. Oldest runs come first, so that tombstones find nothing
//! below them any more (I-130).
//!
//! Values in value logs are freed log by log: what is left of one is written to another with its
//! tables.
//!
//! A file that another family names as well, or the directory of a checkpoint, leaves the disk only
//! with the last of them. Such a table or value log stays as it is: what replaces it would take
//! space and free none. Removing dead tables whole is not done here and costs an edit alone.
//!
//! Threads: all runs are claimed, so that no compaction reads the table. A pause ends it between
//! two tables.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidesdb_base::entry::ValueKind;
use tidesdb_base::error::{Error, ErrorKind, Result};
use tidesdb_files::sstable::EntryMeta;
use tidesdb_files::vlog::ValuePointer;
use tidesdb_lockfree::sync::lock;

use super::install::CompactionResult;
use super::merge::{READAHEAD_BYTES, VersionMerge};
use crate::core::{BackgroundWork, Core};
use crate::family::{FamilyState, RunClaim};
use crate::output::drop_rules::{DropRules, Verdict};
use crate::output::key_partitions::KeySpan;
use crate::output::table_output::{
    OutputParts, OutputPlace, Syncs, TableOutput, Written, remove_written,
};
use crate::version::{Run, TableFile, Version, is_deleted_in_part, read_pointer, unreadable_file};

/// How often to look whether compactions under way have ended.
const MOST_LOOKS: u32 = 100;

/// What must be gained by writing a table anew: a block of the file system.
const LEAST_GAIN_BYTES: u64 = 4096;

/// Claims all runs of a family once no compaction of it is under way. `None` when there is no
/// end to that, and when a pause begins.
fn claim_all_runs(work: &BackgroundWork, family: &Arc<FamilyState>) -> Option<RunClaim> {
    for _ in 0..MOST_LOOKS {
        if work.control.is_paused() {
            return None;
        }
        let seen = work.progress.now();
        let mut claims = family.compactions.lock();
        if claims.count() == 0 {
            let runs = family.current_version().runs.iter().map(Run::place).collect();
            return Some(claims.claim(family, runs, false));
        }
        drop(claims);
        work.progress.wait(seen);
    }
    None
}

/// A file that can't be read stays as it is, and the others are looked at; compactions report it.
///
/// # Errors
/// Any other error.
fn leave_unreadable(family: &FamilyState, error: Error) -> Result<()> {
    if unreadable_file(&error).is_none() {
        return Err(error);
    }
    family.current_version().set_aside(&error);
    Ok(())
}

/// What a collection on a full disk has left of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Left {
    /// Nothing that could free space.
    Nothing,
    /// Files that a clone or a checkpoint has as well: to write them anew would free nothing.
    Shared,
    /// Others, which could not be looked at, or did not fit, for now.
    Others,
}

impl Core {
    /// Removes from the family's tables what is not needed, one table at a time, and says what it
    /// has left.
    ///
    /// # Errors
    /// [`tidesdb_base::Error::Io`] for other reasons than a full disk; what was done stays done.
    pub(crate) fn reclaim_tables(&self, family: &Arc<FamilyState>) -> Result<Left> {
        self.drop_dead_tables(family)?;
        self.storage.files.obsolete.sweep();
        let Some(_claim) = claim_all_runs(&self.work, family) else { return Ok(Left::Others) };
        let left = self.reclaim_all(family)?;
        Ok(self.empty_value_logs(family)?.max(left))
    }

    fn reclaim_all(&self, family: &Arc<FamilyState>) -> Result<Left> {
        let version = family.current_version();
        let mut tables: Vec<_> =
            version.runs.iter().rev().flat_map(|r| r.tables.iter().cloned()).collect();
        drop(version);
        let mut left = Left::Nothing;
        loop {
            let count = tables.len();
            let mut postponed = Vec::new();
            for table in tables {
                match self.reclaim_table(family, &table, None) {
                    Ok(of_it) => left = left.max(of_it),
                    Err(e) if e.kind() == ErrorKind::Full => postponed.push(Arc::clone(&table)),
                    Err(e) => leave_unreadable(family, e)?,
                }
                self.storage.let_go_of(table);
            }
            // Others may have made room for those that did not fit.
            if postponed.is_empty() {
                return Ok(left);
            }
            if postponed.len() == count {
                return Ok(Left::Others);
            }
            tables = postponed;
        }
    }

    /// Writes what is left in value logs to others, one log after the other, as far as there is
    /// space.
    fn empty_value_logs(&self, family: &Arc<FamilyState>) -> Result<Left> {
        let mut left = Left::Nothing;
        for (live, number) in family.current_version().value_logs_with_garbage() {
            let version = family.current_version();
            match version.value_logs.get(&number).map(|file| file.is_shared()).transpose() {
                Ok(Some(false)) => {}
                Ok(Some(true)) => {
                    left = left.max(Left::Shared);
                    continue;
                }
                // It has gone with what pointed into it.
                Ok(None) => continue,
                Err(e) => {
                    leave_unreadable(family, e)?;
                    continue;
                }
            }
            let tables = version.tables().filter(|table| {
                table.record.value_references.iter().any(|(file, _)| *file == number)
            });
            let tables: Vec<_> = tables.cloned().collect();
            drop(version);
            let largest = tables.iter().map(|table| table.record.bytes).max().unwrap_or(0);
            // What is begun must be finished: until then the values take space twice.
            if self.env.vfs.free_bytes(&self.env.path).is_ok_and(|free| free < live + 2 * largest) {
                return Ok(Left::Others);
            }
            for table in tables {
                let rewritten = self.reclaim_table(family, &table, Some(number));
                self.storage.let_go_of(table);
                match rewritten {
                    Ok(_) => {}
                    // The other logs may be smaller.
                    Err(e) if e.kind() == ErrorKind::Full => {
                        left = Left::Others;
                        break;
                    }
                    Err(e) => {
                        leave_unreadable(family, e)?;
                        break;
                    }
                }
            }
        }
        Ok(left)
    }

    /// Writes a table anew, and with it its values in the value log of that number.
    fn reclaim_table(
        &self,
        family: &Arc<FamilyState>,
        table: &Arc<TableFile>,
        emptied: Option<u64>,
    ) -> Result<Left> {
        self.check_compaction_wanted(family)?;
        if self.work.control.is_paused() {
            return Err(Error::Paused);
        }
        let version = family.current_version();
        let Some(rewrite) = TableRewrite::of(&version, table, emptied) else {
            return Ok(Left::Nothing);
        };
        // Where a value log is emptied its space comes back, and all of its tables must go along.
        if emptied.is_none() && table.is_shared()? {
            return Ok(Left::Shared);
        }
        let written = rewrite.write(self, family)?;
        // Values that nothing points to any more are gained as well: their log can be emptied then.
        let values: u64 = written.tables.iter().map(|table| table.value_bytes()).sum();
        let before = table.record.bytes + table.record.value_bytes();
        if emptied.is_none() && written.bytes + values + LEAST_GAIN_BYTES > before {
            remove_written(self.env.vfs.as_ref(), &[written]);
            return Ok(Left::Nothing);
        }
        let merged = CompactionResult {
            replaced: vec![Arc::clone(table)],
            place: rewrite.place(),
            written: vec![written],
            ..CompactionResult::default()
        };
        drop(rewrite);
        drop(version);
        self.install_compaction(family, &merged)?;
        Ok(Left::Nothing)
    }
}

/// A table and what shares keys with it.
struct TableRewrite<'a> {
    version: &'a Version,
    table: &'a TableFile,
    /// Tables of each run with keys of the table's range, newest run first; of its own run it
    /// alone.
    runs: Vec<Vec<Arc<TableFile>>>,
    /// Which of the runs is the table's.
    own: usize,
    /// Number of a value log whose values are written to another.
    emptied: Option<u64>,
}

impl<'a> TableRewrite<'a> {
    /// `None` when there is nothing to remove from the table.
    fn of(version: &'a Version, table: &'a Arc<TableFile>, emptied: Option<u64>) -> Option<Self> {
        let record = &table.record;
        let (smallest, largest) = (&record.smallest_key, &record.largest_key);
        let has = |run: &Run| run.tables_over(smallest, largest).iter().any(|t| is(t, table));
        let own = version.runs.iter().position(has)?;
        let in_run = |(at, run): (usize, &Run)| match at == own {
            true => vec![Arc::clone(table)],
            false => run.tables_over(smallest, largest).to_vec(),
        };
        let runs: Vec<_> = version.runs.iter().enumerate().map(in_run).collect();
        let hidden = runs.iter().take(own).any(|newer| !newer.is_empty());
        let deleted = is_deleted_in_part(record, &version.range_tombstones);
        let any = hidden || deleted || record.tombstones > 0 || emptied.is_some();
        any.then_some(Self { version, table, runs, own, emptied })
    }

    /// Level and number of the run that the table is in. A compaction may have moved it since its
    /// record was written.
    fn place(&self) -> (u32, u64) {
        let record = &self.table.record;
        let run = self.version.runs.get(self.own);
        run.map_or((record.level, record.run), Run::place)
    }

    fn write(&self, core: &Core, family: &FamilyState) -> Result<Written> {
        let record = &self.table.record;
        let options = family.options.load_full();
        let snapshots = core.isolation.snapshots.list();
        let mut rules = DropRules::new(snapshots, false, core.expired_for_all())
            .with_range_tombstones(self.version.range_tombstones.clone());
        let (level, run) = self.place();
        let place = OutputPlace {
            level,
            run,
            table_bytes: options.target_table_bytes.min(core.env.largest_table_bytes()),
            range_deletes_applied_through: rules.range_deletes_applied_through(),
            expected_entries: usize::try_from(record.entries).unwrap_or(0),
            syncs: Syncs::Each,
        };
        let bounds = lock(&family.compactions.slice_bounds).clone();
        let parts = OutputParts { env: &core.env, memory: &core.memory, storage: &core.storage };
        let mut output = TableOutput::new(parts, family, &options, place, bounds);
        let mut past_largest = record.largest_key.clone();
        past_largest.push(0);
        let range = KeySpan { from: Some(record.smallest_key.clone()), until: Some(past_largest) };
        let mut merge = VersionMerge::open(self.runs.clone(), range, READAHEAD_BYTES)?;
        let (mut present, mut moved) = (Vec::new(), Vec::new());
        // A tombstone of the table that goes unless an older run holds its key.
        let mut tombstone = None;
        while let (Some(run), Some((key, meta, value))) = (merge.present_run(), merge.current()) {
            if key < present.as_slice() {
                let detail = format!("expected a key behind {present:02x?}, found {key:02x?}");
                return Err(Error::corruption(merge.present_path(), 0, detail));
            }
            if key != present.as_slice() {
                tombstone = None;
                rules.next_key(key);
                present.clear();
                present.extend_from_slice(key);
            }
            let verdict = rules.judge(meta.seq, meta.kind, meta.expires_at);
            if run > self.own
                && let Some(kept) = tombstone.take()
            {
                output.add(&present, kept, &[])?;
            }
            if run == self.own
                && let Verdict::Keep(_) = verdict
            {
                if meta.kind.is_tombstone() && rules.is_seen_by_all(meta.seq) {
                    tombstone = Some(meta);
                } else if self.is_moved(meta, value) {
                    read_pointer(self.version, value, &mut moved)?;
                    output.add(key, EntryMeta { kind: ValueKind::Value, ..meta }, &moved)?;
                } else {
                    output.add(key, meta, value)?;
                }
            }
            merge.next()?;
        }
        // The table goes when this is done.
        let read = merge.read().into_iter().find(|(table, _)| *table == record.number);
        self.table.check_read(read.map_or(0, |(_, versions)| versions))?;
        let written = output.complete()?;
        // ORDERING: relaxed; those who wait for compactions ask whether anything gets on.
        core.flow.merged.fetch_add(1, Ordering::Relaxed);
        Ok(written)
    }

    /// Whether a value lies in the value log that is emptied.
    fn is_moved(&self, meta: EntryMeta, value: &[u8]) -> bool {
        let pointer = || ValuePointer::decode(value).ok().map(|pointer| pointer.file);
        meta.kind == ValueKind::ValuePointer && self.emptied.is_some() && pointer() == self.emptied
    }
}

fn is(one: &TableFile, other: &TableFile) -> bool {
    one.record.number == other.record.number
}

#[cfg(test)]
mod tests;
