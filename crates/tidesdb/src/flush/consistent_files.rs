//! The files of all families at one point of the commit order.

use std::collections::BTreeSet;
use std::sync::Arc;

use tidesdb_base::error::Result;
use tidesdb_lockfree::sync::lock;
use tidesdb_sys::sync_points::sync_point;

use crate::core::Core;
use crate::family::FamilyState;
use crate::version::{PersistedState, Version};

/// Files that together hold all commits up to a point. They stay while this is held.
#[derive(Debug)]
pub(crate) struct ConsistentFiles {
    /// What a manifest of these files says. No log belongs to it.
    pub state: PersistedState,
    /// Numbers of the value logs that compactions append to now, behind what the state has of them.
    pub growing: BTreeSet<u64>,
    /// Keeps the files from being deleted.
    _versions: Vec<Arc<Version>>,
}

impl Core {
    /// Writes everything that is committed to tables, up to one point of the commit order, and
    /// returns the files at that point. Nothing is appended to any of them from then on, but for
    /// those that are said to grow. Holds flushes and large commits up: flush the families first.
    ///
    /// # Errors
    /// Those of a flush, and of the manifest.
    pub(crate) fn consistent_files(&self) -> Result<ConsistentFiles> {
        let families_stay = lock(&self.families.changing);
        let mut families = self.families.all();
        families.sort_by_key(|family| family.id);
        let cut = self.cut(&families);
        drop(families_stay);
        for family in &families {
            match &cut {
                Ok((_, flushed)) if flushed.contains(&family.id) => {
                    self.schedule_compaction(family)
                }
                Ok(_) => {}
                // What was frozen for the cut has nothing else to wake its flush, which is tried
                // again until there is space (I-239).
                Err(_) => self.schedule_flush(family),
            }
        }
        Ok(cut?.0)
    }

    /// The files of these families, which are all in the order of their numbers, and which of the
    /// families were flushed for it.
    fn cut(&self, families: &[Arc<FamilyState>]) -> Result<(ConsistentFiles, BTreeSet<u32>)> {
        // No commit may be on its way into a value log that the files of the cut belong to. First,
        // since such a commit may wait for a flush.
        let mut writers: Vec<_> =
            families.iter().map(|family| lock(&family.writes.direct_values)).collect();
        let writers_of = families.iter().zip(&mut writers);
        let closed = writers_of.filter_map(|(f, writer)| self.storage.close_locked(f, writer));
        let mut closed: Vec<_> = closed.collect();
        // No later commit gets into a table until the state was read.
        let _one_at_a_time: Vec<_> =
            families.iter().map(|family| lock(&family.flushes.writing_out)).collect();
        let through = self.freeze_all(families);
        drop(writers);
        sync_point("cut of all families");
        let flushed = self.write_frozen(families, through)?;
        let ids = flushed.iter().map(|flushed| flushed.family.id).collect();
        if !flushed.is_empty() {
            self.install(flushed)?;
        }
        closed.extend(families.iter().flat_map(|family| self.storage.close_growing_files(family)));
        let mut catalog = lock(&self.storage.catalog);
        let closed = catalog.still_listed(closed);
        if !closed.is_empty() {
            catalog.commit(closed)?;
        }
        let mut state = catalog.state.clone();
        state.last_sequence = state.last_sequence.max(through);
        // Commits of later times may point into the others.
        state.families.values_mut().for_each(|family| family.keep_referenced_value_logs());
        let versions: Vec<_> = families.iter().map(|family| family.current_version()).collect();
        let mut growing = BTreeSet::new();
        for (family, version) in families.iter().zip(&versions) {
            let Some(record) = state.families.get_mut(&family.id) else { continue };
            for file in version.growing_value_logs() {
                growing.insert(file.number);
                record.value_logs.insert(file.number, file);
            }
        }
        Ok((ConsistentFiles { state, growing, _versions: versions }, ids))
    }
}
