//! Taking keys out of newer runs when an older one has all that they hold of them.
//!
//! A compaction of a range merges what its inputs hold of the range into the oldest of them. Tables
//! of the others that reach beyond the range stay, and their versions in it would lie on the disk
//! twice, deletions among them, which scans of the range would go on to pass over. So these tables
//! are written anew without the range.
//!
//! Oldest runs come first: while a table has versions of a key, so have all newer ones that had
//! any, and the newest hides the others (I-170).

use std::sync::Arc;

use tidesdb_base::error::{Error, ErrorKind, Result};

use super::install::CompactionResult;
use super::step_bounds::tables_over;
use super::table_rewrite::TableRewrite;
use crate::core::Core;
use crate::family::FamilyState;
use crate::output::key_partitions::KeySpan;
use crate::version::{Run, TableFile};

impl Core {
    /// Takes the keys of `span` out of runs, which are given newest first and which the caller has
    /// claimed. What they hold of these keys lies in an older run.
    ///
    /// A full disk ends it, and is no error: then what is left stays twice. So does a disk on which
    /// `min_disk_space` would not be left.
    ///
    /// # Errors
    /// [`Error::Corruption`] or [`Error::Io`] for a table that can't be read, or written;
    /// [`Error::Closed`], [`Error::FamilyDropped`], [`Error::Paused`]. What is done stays done.
    pub(crate) fn leave_out(
        &self,
        family: &Arc<FamilyState>,
        places: &[(u32, u64)],
        span: &KeySpan,
    ) -> Result<()> {
        for place in places.iter().rev() {
            let version = family.current_version();
            let run = version.runs.iter().find(|run| run.place() == *place);
            let over = |run: &Run| tables_over(&run.tables, span).to_vec();
            let tables = run.map(over).unwrap_or_default();
            drop(version);
            for table in tables {
                self.check_compaction_wanted(family)?;
                if self.work.control.is_paused() {
                    return Err(Error::Paused);
                }
                let result = self.leave_out_of_table(family, &table, span);
                self.storage.let_go_of(table);
                match result {
                    Err(error) if error.kind() == ErrorKind::Full => return Ok(()),
                    Err(error) => {
                        family.current_version().set_aside(&error);
                        return Err(error);
                    }
                    Ok(()) => {}
                }
            }
        }
        Ok(())
    }

    fn leave_out_of_table(
        &self,
        family: &Arc<FamilyState>,
        table: &Arc<TableFile>,
        span: &KeySpan,
    ) -> Result<()> {
        let version = family.current_version();
        let Some(rewrite) = TableRewrite::without_keys(&version, table, span) else {
            return Ok(());
        };
        let (bytes, path) = (table.record.bytes, &self.env.path);
        let room = || self.room_for_compactions(family).unwrap_or(u64::MAX);
        let promised = self.flow.disk.promise(family.id, bytes, room);
        let _promised = promised.map_err(|short| short.error(path, bytes))?;
        let written = rewrite.write(self, family)?;
        let merged = CompactionResult {
            replaced: vec![Arc::clone(table)],
            place: rewrite.place(),
            written: vec![written],
            ..CompactionResult::default()
        };
        drop(version);
        self.install_compaction(family, merged)
    }
}

#[cfg(test)]
mod tests;
