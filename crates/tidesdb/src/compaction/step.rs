//! One step of a compaction: it reads a key range of all inputs in order, drops what is not needed,
//! writes the rest, and commits one manifest edit.
//!
//! A step is right by itself, whatever comes of the steps after it: it looks at the version, the
//! snapshots and the range tombstones of its own time. The key space of a step is cut into parts
//! (`subcompactions`), which free threads of the compaction lane do beside the thread that has the
//! compaction.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use tidesdb_base::entry::SequenceNumber;
use tidesdb_base::error::Result;
use tidesdb_base::range_tombstone::RangeTombstoneSets;
use tidesdb_lockfree::sync::lock;

use super::install::CompactionResult;
use super::job::CompactionJob;
use super::merge::{VersionMerge, readahead_bytes};
use super::step_bounds::{self, Cut, StepTable};
use super::subcompactions::subcompaction_ranges;
use crate::core::Core;
use crate::memory::{Holder, MemoryReservation, table_writer_bytes};
use crate::output::drop_rules::DropRules;
use crate::output::key_partitions::{KeyPartitions, KeySpan};
use crate::output::parts::OutputParts;
use crate::output::rewrite::{Rewriter, ValueRewrite};
use crate::output::table_output::{OutputPlace, TableOutput};
use crate::output::written::{Syncs, Written, remove_written};
use crate::version::{KeyCounts, LivenessCount, TableFile, Version, is_deleted_in_part};

/// Versions between two looks at whether the compaction is still wanted, and two reports of
/// progress.
const VERSIONS_PER_CHECK: u64 = 256;

/// A table is left as it is when it has at least this share of the usual size: many small ones
/// would otherwise stay.
const LEAST_LONE_SHARE: u64 = 8;

/// One step under way, shared by the threads that do its parts.
#[derive(Debug)]
pub(super) struct Step {
    pub job: Arc<CompactionJob>,
    pub version: Arc<Version>,
    pub cut: Cut<Arc<TableFile>>,
    pub snapshots: Vec<SequenceNumber>,
    pub now: u64,
    pub rewrite: ValueRewrite,
    /// Range deletions that are applied to what is written.
    pub range_tombstones: RangeTombstoneSets,
    pub outcome: Mutex<Outcome>,
}

/// What the parts have done besides writing.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    moved: Vec<Arc<TableFile>>,
    /// Tables that are part of the output as they are.
    settled: BTreeSet<u64>,
}

impl StepTable for Arc<TableFile> {
    fn number(&self) -> u64 {
        self.record.number
    }

    fn bytes(&self) -> u64 {
        self.record.bytes
    }

    fn smallest_key(&self) -> &[u8] {
        &self.record.smallest_key
    }

    fn largest_key(&self) -> &[u8] {
        &self.record.largest_key
    }
}

impl Step {
    /// Bytes of the tables that it reads.
    pub(super) fn bytes(&self) -> u64 {
        step_bounds::bytes_within(&self.cut.runs, &self.cut.range)
    }

    /// Bytes that it will write, about: what is needed of what it merges, the rests of tables that
    /// it cuts, and with both the values that leave their value logs.
    pub(super) fn expected_bytes(&self) -> u64 {
        let mut count = LivenessCount::new(self.version.liveness_rules(&self.snapshots, self.now));
        for tables in &self.cut.runs {
            count.add(tables, &KeyCounts::of(tables.iter().map(|table| &table.record)));
        }
        let liveness = count.liveness(self.job.bottom);
        let share = liveness.needed as f64 / liveness.versions.max(1) as f64;
        let (merged, rests) = self.cut.bytes_by(|table| table.record.bytes + self.moved(table));
        (merged as f64 * share.min(1.0)) as u64 + rests
    }

    /// Bytes of values in value logs that are written anew with the table.
    fn moved(&self, table: &TableFile) -> u64 {
        let references = table.record.value_references.iter();
        let moved = references.filter(|(file, _)| self.rewrite.files.contains(file));
        moved.map(|(_, bytes)| bytes).sum()
    }

    /// Does all parts, with the help of other threads where there are any, and makes the result
    /// known.
    ///
    /// # Errors
    /// As [`Core::compact_runs`]; nothing has changed then.
    pub(super) fn run(self: &Arc<Self>, core: &Core, is_last: bool) -> Result<()> {
        let threads = core.env.options.resolved_compaction_threads();
        let (table_bytes, into_oldest) = (self.job.sizes.table_bytes, self.job.plan.into_oldest);
        let mut ranges = subcompaction_ranges(
            &self.cut.runs,
            &self.cut.range,
            table_bytes,
            threads,
            into_oldest,
        )?;
        ranges.extend(self.cut.rests.iter().cloned());
        let step = Arc::clone(self);
        let work = move |core: &Core, range: &KeySpan| step.compact_part(core, range.clone());
        let (parts, work) = (KeyPartitions::new(ranges), Arc::new(work));
        let results = match self.job.family.has_many_runs() {
            true => parts.run_urgently(core, &work),
            false => parts.run(core, &work),
        };
        let checked = match results.failure {
            Some(failure) => Err(failure),
            None => self.result(is_last),
        };
        match checked {
            Ok(merged) => self.install(core, CompactionResult { written: results.done, ..merged }),
            Err(failure) => {
                remove_written(core.env.vfs.as_ref(), &results.done);
                Err(failure)
            }
        }
    }

    fn install(&self, core: &Core, merged: CompactionResult) -> Result<()> {
        let wrote = merged.written.iter().any(|written| !written.paths.is_empty());
        let changes = wrote || !merged.replaced.is_empty() || !merged.moved.is_empty();
        match changes || !merged.more_follows {
            true => core.install_compaction(&self.job.family, merged),
            false => Ok(()),
        }
    }

    fn compact_part(&self, core: &Core, range: KeySpan) -> Result<Written> {
        let oldest = self.cut.runs.len() - 1;
        let readahead = readahead_bytes(oldest + 1, core.memory.budget.readahead_bytes());
        let _reservation = self.buffers(core, readahead);
        let mut runs = self.cut.runs.clone();
        if self.cut.rests.contains(&range) {
            runs.iter_mut().take(oldest).for_each(Vec::clear);
        }
        let mut merge = VersionMerge::open(runs, range, readahead)?;
        let mut rewriter = self.rewriter(core);
        let mut read = 0;
        let mut next_pause = 0;
        loop {
            if let Some((run, table)) = merge.lone_table()
                && rewriter.last_key() < table.record.smallest_key.as_slice()
                && self.may_stay(table)?
            {
                let table = Arc::clone(table);
                rewriter.end_table()?;
                rewriter.passed_over(&table.record.largest_key);
                self.leave_as_it_is(table, run == oldest);
                merge.skip_table()?;
                self.job.pause_for_others(core, &mut next_pause)?;
                // ORDERING: as below.
                core.flow.merged.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            let Some(version) = merge.current() else { break };
            rewriter.push(version, || merge.present_path())?;
            read += 1;
            if read % VERSIONS_PER_CHECK == 0 {
                self.job.pause_for_others(core, &mut next_pause)?;
                // ORDERING: relaxed; only whether it changes matters.
                core.flow.merged.fetch_add(VERSIONS_PER_CHECK, Ordering::Relaxed);
            }
            merge.next()?;
        }
        self.job.note_read(merge.read());
        rewriter.complete()
    }

    /// Notes the memory that a part of the compaction takes.
    fn buffers(&self, core: &Core, readahead: usize) -> MemoryReservation {
        let read = self.cut.runs.len() as u64 * readahead as u64;
        let written = table_writer_bytes(&self.job.options, self.job.entries_per_table);
        core.memory.budget.reserve(Holder::Background, read + written)
    }

    fn rewriter<'a>(&'a self, core: &'a Core) -> Rewriter<'a> {
        let job = &self.job;
        let rules = DropRules::new(self.snapshots.clone(), job.bottom, self.now)
            .with_range_tombstones(self.range_tombstones.clone());
        let place = OutputPlace {
            level: job.plan.level,
            run: job.plan.run,
            table_bytes: job.sizes.table_bytes,
            range_deletes_applied_through: rules.range_deletes_applied_through(),
            expected_entries: usize::try_from(job.entries_per_table).unwrap_or(0),
            syncs: Syncs::Each,
        };
        let bounds = Arc::clone(&job.slice_bounds);
        let parts = OutputParts { env: &core.env, memory: &core.memory, storage: &core.storage };
        let output = TableOutput::new(parts, &job.family, &job.options, place, bounds);
        Rewriter::new(rules, output, &self.rewrite)
    }

    /// Whether a table that overlaps no other can be part of the output as it is: nothing of it
    /// could be dropped, and it is not too small.
    fn may_stay(&self, table: &Arc<TableFile>) -> Result<bool> {
        let record = &table.record;
        let rewritten =
            record.value_references.iter().any(|(file, _)| self.rewrite.files.contains(file));
        if rewritten
            || is_deleted_in_part(record, &self.range_tombstones)
            || record.bytes < self.job.sizes.table_bytes / LEAST_LONE_SHARE
            || (self.job.bottom && record.tombstones > 0)
        {
            return Ok(false);
        }
        table.is_free_of_garbage(self.now)
    }

    fn leave_as_it_is(&self, table: Arc<TableFile>, of_oldest: bool) {
        let mut outcome = lock(&self.outcome);
        outcome.settled.insert(table.record.number);
        if !(self.job.plan.into_oldest && of_oldest) {
            outcome.moved.push(table);
        }
    }

    /// What the step does to tables that are there.
    fn result(&self, is_last: bool) -> Result<CompactionResult> {
        let Outcome { moved, settled } = std::mem::take(&mut *lock(&self.outcome));
        let unsettled = |table: &&Arc<TableFile>| !settled.contains(&table.record.number);
        let replaced = match self.cut.runs.split_last() {
            Some((oldest, _)) if self.job.plan.into_oldest => {
                let merged = KeySpan {
                    from: self.job.range.from.clone(),
                    until: self.cut.range.until.clone(),
                };
                let newer = self.job.tables(&self.version, &merged);
                let newer = newer.get(..self.cut.runs.len() - 1).unwrap_or_default();
                let mut replaced = step_bounds::released(newer, &merged, &settled);
                replaced.extend(oldest.iter().filter(unsettled).cloned());
                replaced
            }
            _ => self.cut.runs.iter().flatten().filter(unsettled).cloned().collect(),
        };
        self.job.check_read(&replaced)?;
        let place = (self.job.plan.level, self.job.plan.run);
        Ok(CompactionResult { replaced, moved, place, written: Vec::new(), more_follows: !is_last })
    }
}
