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

use tidesdb_base::error::{Error, ErrorKind, Result};

use super::install::CompactionResult;
use super::table_rewrite::TableRewrite;
use crate::core::{BackgroundWork, Core};
use crate::family::{FamilyState, RunClaim};
use crate::output::written::remove_written;
use crate::version::{Run, TableFile, unreadable_file};

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
        // The manifest is not told: on a full disk that might fail.
        drop(self.storage.close_growing_files(family));
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
        let Some(rewrite) = TableRewrite::without_garbage(&version, table, emptied) else {
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
        drop(version);
        self.install_compaction(family, merged)?;
        Ok(Left::Nothing)
    }
}

#[cfg(test)]
mod tests;
