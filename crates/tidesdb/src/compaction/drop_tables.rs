//! Removing whole tables, without reading them: those that a range deletion covers, and those in
//! which everything has expired. Value logs that nothing points into go with them.
//!
//! A table is covered when one flushed tombstone covers all of its keys, is newer than all of its
//! entries, and every live snapshot that sees an entry sees the tombstone
//! (`version/range_tombstones.rs`). When one may go that has expired, `expiry` says. Both go by one
//! manifest edit. They are looked for whenever compactions are, and again when a snapshot goes that
//! was in the way: the registry of snapshots watches one such snapshot for each table. What is
//! deleted or has expired in part waits for a compaction.
//!
//! Threads: the caller that removes has claimed all runs like a compaction of them, so that no
//! compaction reads the tables.

use std::collections::BTreeSet;
use std::sync::Arc;

use tidesdb_base::entry::SequenceNumber;
use tidesdb_base::error::Result;
use tidesdb_lockfree::sync::lock;

use super::expiry::{ExpiryRules, expired_tables};
use super::install::CompactionResult;
use super::plan::expired_share;
use crate::core::Core;
use crate::family::FamilyState;
use crate::version::{Run, TableFile, Version, collected_from, snapshots_in_the_way};

impl Core {
    /// By what the expiry of the family's tables is judged now.
    pub(crate) fn expiry_rules(&self, family: &FamilyState) -> ExpiryRules {
        ExpiryRules {
            now: self.expired_for_all(),
            oldest: self.isolation.snapshots.oldest(),
            share: expired_share(collected_from(family.options.load().max_space_amplification)),
        }
    }

    /// Removes the family's tables and value logs that are not needed, unless background work is
    /// paused or a compaction is under way, which may read them.
    ///
    /// # Errors
    /// [`tidesdb_base::Error::Io`] when the manifest can't be written; nothing has changed then.
    pub(crate) fn drop_dead_tables(&self, family: &Arc<FamilyState>) -> Result<()> {
        let mut claims = family.compactions.lock();
        if claims.count() > 0 {
            return Ok(());
        }
        let version = family.current_version();
        let (replaced, _) = self.droppable_tables(family, &version);
        family.growing_value_logs.settle_unused(|number| version.points_into(number));
        if replaced.is_empty() && version.dead_value_logs().is_empty() {
            return Ok(());
        }
        let runs = version.runs.iter().map(Run::place).collect();
        let _claim = claims.claim(family, runs, false);
        drop(claims);
        // A caller that pauses sets the mark first and looks at the claims second.
        if self.work.control.is_paused() {
            return Ok(());
        }
        self.install_compaction(
            family,
            CompactionResult { replaced, ..CompactionResult::default() },
        )
    }

    /// Tables of the version that are not needed, each once, and snapshots that keep others which
    /// range tombstones cover.
    fn droppable_tables(
        &self,
        family: &FamilyState,
        version: &Arc<Version>,
    ) -> (Vec<Arc<TableFile>>, Vec<SequenceNumber>) {
        let mut tables =
            expired_tables(&family.compactions.expiry, version, &self.expiry_rules(family));
        let covered = lock(&family.compactions.covered).of(version);
        if covered.is_empty() {
            return (tables, Vec::new());
        }
        let expired: BTreeSet<u64> = tables.iter().map(|table| table.record.number).collect();
        let snapshots = self.isolation.snapshots.list();
        let (unseen, seen): (Vec<_>, Vec<_>) = covered
            .into_iter()
            .partition(|table| version.is_covered_for(&table.record, &snapshots));
        tables.extend(unseen.into_iter().filter(|table| !expired.contains(&table.record.number)));
        (tables, snapshots_in_the_way(&seen, &snapshots))
    }

    /// True when tables or value logs can be removed now. When snapshots are all that keeps covered
    /// tables, compactions are scheduled again as these snapshots go.
    pub(crate) fn has_droppable_tables(&self, family: &FamilyState) -> bool {
        let version = family.current_version();
        let (tables, held_by) = self.droppable_tables(family, &version);
        let has_unused =
            || family.growing_value_logs.has_unused(|number| version.points_into(number));
        if !tables.is_empty() || !version.dead_value_logs().is_empty() || has_unused() {
            return true;
        }
        if held_by.is_empty() {
            return false;
        }
        family.compactions.await_snapshots();
        !self.isolation.snapshots.watch(&held_by)
    }
}
