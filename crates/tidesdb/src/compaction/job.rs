//! A compaction under way: what it merges, and what its steps have read of that. Threads that do
//! parts of it share it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use tidesdb_base::error::{Error, Result};
use tidesdb_base::options::FamilyOptions;
use tidesdb_lockfree::sync::lock;
use tidesdb_sys::sched::Lane;

use super::plan::CompactionPlan;
use super::step_bounds::{StepSizes, tables_over};
use crate::core::Core;
use crate::family::{FamilyState, RunPlace, SliceBounds, interrupting};
use crate::output::key_partitions::KeySpan;
use crate::version::{Run, TableFile, Version};

/// A compaction that others interrupt goes on for this part of the time that each of them took.
const LEAST_SHARE: u64 = 4;

/// One compaction under way, shared by the threads that do its steps.
#[derive(Debug)]
pub(super) struct CompactionJob {
    pub family: Arc<FamilyState>,
    pub options: Arc<FamilyOptions>,
    pub plan: CompactionPlan,
    /// The runs that it merges, newest first.
    pub places: Vec<RunPlace>,
    /// Which keys of them it merges.
    pub range: KeySpan,
    /// Nothing older lies below the inputs.
    pub bottom: bool,
    /// Bytes of all inputs.
    pub bytes: u64,
    pub sizes: StepSizes,
    /// Entries of a table of the output, about.
    pub entries_per_table: u64,
    pub slice_bounds: SliceBounds,
    /// Value logs whose values are written anew.
    pub emptied: BTreeSet<u64>,
    /// Versions read of each table that was not let go of yet.
    pub read: Mutex<BTreeMap<u64, u64>>,
}

impl Core {
    /// Ends a compaction early when the database closes or the family is gone.
    pub(super) fn check_compaction_wanted(&self, family: &FamilyState) -> Result<()> {
        if family.is_dropped() {
            return Err(family.dropped_error());
        }
        if self.work.control.compactions_are_stopped() {
            return Err(Error::CompactionsStopped);
        }
        if self.health.is_closed() { Err(Error::Closed) } else { Ok(()) }
    }
}

impl CompactionJob {
    /// Lets a small compaction that waits for a thread have this one, when this compaction has gone
    /// on for a while since the last of these, and looks whether this compaction is wanted still.
    /// No lock is held.
    pub(super) fn pause_for_others(&self, core: &Core, next: &mut u64) -> Result<()> {
        let begun = core.env.clock.monotonic_nanos();
        if begun >= *next {
            core.env.scheduler.run_smaller_jobs(Lane::Compaction, interrupting(self.bytes));
            let ended = core.env.clock.monotonic_nanos();
            *next = ended + ended.saturating_sub(begun) / LEAST_SHARE;
        }
        core.check_compaction_wanted(&self.family)
    }

    /// The inputs in a version, newest first. One of which nothing is left is not there.
    pub(super) fn runs<'v>(&self, version: &'v Version) -> impl Iterator<Item = Option<&'v Run>> {
        let places = self.places.iter();
        places.map(|place| version.runs.iter().find(|run| run.place() == *place))
    }

    /// Of each input, newest first, the tables that may hold a key of the range.
    pub(super) fn tables(&self, version: &Version, range: &KeySpan) -> Vec<Vec<Arc<TableFile>>> {
        let tables = |run: &Run| tables_over(&run.tables, range).to_vec();
        self.runs(version).map(|run| run.map(tables).unwrap_or_default()).collect()
    }

    /// Notes how many versions a part of a step has read, of each table.
    pub(super) fn note_read(&self, counts: Vec<(u64, u64)>) {
        let mut read = lock(&self.read);
        for (table, versions) in counts {
            *read.entry(table).or_default() += versions;
        }
    }

    /// Makes sure that all of the tables was read, by this step and those before it.
    ///
    /// # Errors
    /// [`Error::Corruption`] of the table that holds another number of versions than its record
    /// says.
    pub(super) fn check_read(&self, tables: &[Arc<TableFile>]) -> Result<()> {
        let mut read = lock(&self.read);
        for table in tables {
            table.check_read(read.remove(&table.record.number).unwrap_or(0))?;
        }
        Ok(())
    }
}
