//! Performing a merge: read the inputs in order, drop what nobody needs, write the outputs, make
//! them known, and let go of the inputs.
//!
//! The key space is cut into parts (`parts`), which free threads of the compaction lane do beside
//! the thread that has the merge. When the output is the oldest input, it is replaced piece by piece, as in
//! the granulated merges of Spooky: whenever a table of it is used up and enough was written, both are
//! exchanged in an edit of their own. So a merge needs little more space than its inputs. The newer
//! inputs stay until everything is merged; until then they shadow what was merged already with
//! the same versions, so every edit leaves a right state, and a merge that ends early for whatever
//! reason has lost nothing and may be begun again.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tidesdb_base::entry::SequenceNumber;
use tidesdb_base::error::{Error, Result};
use tidesdb_base::event::{Event, LogLevel};
use tidesdb_base::latency::TimedOperation;
use tidesdb_base::options::FamilyOptions;
use tidesdb_base::range_tombstone::RangeTombstoneSets;
use tidesdb_lockfree::sync::lock;
use tidesdb_sys::sched::Lane;

use super::drop_rules::DropRules;
use super::install::Merged;
use super::merge::{READAHEAD_BYTES, VersionMerge};
use super::parts::parts;
use super::plan::MergePlan;
use super::rewrite::{Rewriter, ValueRewrite};
use super::slices::tables_within;
use crate::core::Core;
use crate::counters::Work;
use crate::family::{FamilyState, SliceBounds, interrupting};
use crate::flow::{Holder, Lent, table_writer_bytes};
use crate::key_parts::{KeyParts, KeyRange};
use crate::spans::span;
use crate::table_output::{OutputPlace, TableOutput, Written, remove_written};
use crate::version::{Run, TableFile, Version, is_deleted_in_part};

/// Versions between two looks at whether the merge is still wanted, and two reports of progress.
const VERSIONS_PER_CHECK: u64 = 256;
/// Tables of a small family are smaller than the options allow, so that a merge of it can be done
/// in about this many pieces,
const PIECES: u64 = 16;
/// but not smaller than this.
pub(super) const LEAST_TABLE_BYTES: u64 = 4 << 20;
/// A table is left as it is when it has at least this share of the usual size: many small ones would
/// otherwise stay for ever.
const LEAST_LONE_SHARE: u64 = 8;

/// Value logs below this share of a write buffer are joined by merges, so that there are not very many:
/// each is a file, and a table knows all that it points into.
const SMALL_VALUE_LOG_SHARE: u64 = 16;

/// A merge that others interrupt goes on for this part of the time that each of them took.
const LEAST_SHARE: u64 = 4;

/// One merge under way, shared by the threads that do its parts.
#[derive(Debug)]
struct Merge {
    family: Arc<FamilyState>,
    options: Arc<FamilyOptions>,
    plan: MergePlan,
    /// Tables of each run, newest run first.
    runs: Vec<Vec<Arc<TableFile>>>,
    snapshots: Vec<SequenceNumber>,
    /// Nothing older lies below the inputs.
    bottom: bool,
    now: u64,
    /// Bytes of all inputs.
    bytes_read: u64,
    table_bytes: u64,
    slice_bounds: SliceBounds,
    rewrite: ValueRewrite,
    /// Range deletions that are applied to what is written.
    range_tombstones: RangeTombstoneSets,
    /// Versions read or stepped over, to be compared with the tables' counts.
    passed: AtomicU64,
    outcome: Mutex<Outcome>,
}

/// What the parts have done besides writing.
#[derive(Debug, Default)]
struct Outcome {
    moved: Vec<Arc<TableFile>>,
    /// Tables that need no change any more: exchanged already, or part of the output as they are.
    settled: BTreeSet<u64>,
}

impl Core {
    /// Merges runs of a family as planned from `version`, in which they are the newest, or what they
    /// have in `slice`, over whose ends none of their tables reaches. The caller has claimed them.
    /// Some `most_values` bytes of values are moved out of mostly dead value logs, and those of small ones.
    ///
    /// # Errors
    /// [`Error::Internal`] for a plan that was made from another version;
    /// [`Error::Corruption`] when an input is damaged; it is set aside then, so that the next plan
    /// does without it. [`Error::Io`]; [`Error::Closed`] and [`Error::FamilyDropped`] when the merge
    /// is not wanted any more. Nothing is lost then.
    pub(crate) fn merge_runs(
        &self,
        family: &Arc<FamilyState>,
        version: &Arc<Version>,
        plan: MergePlan,
        slice: &KeyRange,
        most_values: u64,
    ) -> Result<()> {
        let started = self.clock.monotonic_nanos();
        let inputs = inputs(version, plan)?;
        let tables = |run: &Run| tables_within(&run.tables, slice).to_vec();
        let runs: Vec<_> = inputs.iter().map(tables).collect();
        let merge = Arc::new(self.prepare_merge(family, version, runs, plan, most_values));
        let (name, bytes) = (family.name(), merge.bytes_read);
        let _span = span!(INFO, "merge", family = name, runs = plan.count, bytes = bytes);
        let result = merge.run(self).and_then(|written| merge.install(self, written));
        if let Err(why @ Error::Corruption { file, .. }) = &result {
            set_aside(version, file, why);
        }
        let counters = &family.counters;
        counters.add(Work::Merges, 1);
        counters.add(Work::MergedSlices, u64::from(*slice != KeyRange::default()));
        counters.add(Work::MergeFailures, u64::from(result.is_err()));
        let nanos = self.clock.monotonic_nanos().saturating_sub(started);
        self.watch.record(TimedOperation::Merge, nanos);
        counters.add(Work::MergeNanos, nanos);
        if result.is_ok() && self.events.are_told(LogLevel::Info) {
            let (family, bytes) = (family.name().to_string(), merge.bytes_read);
            self.events.tell(&Event::Merged { family, bytes, milliseconds: nanos / 1_000_000 });
        }
        counters.add(Work::MergeBytesRead, merge.bytes_read);
        result
    }

    fn prepare_merge(
        &self,
        family: &Arc<FamilyState>,
        version: &Arc<Version>,
        runs: Vec<Vec<Arc<TableFile>>>,
        plan: MergePlan,
        most_values: u64,
    ) -> Merge {
        let options = family.options.load_full();
        let bytes: u64 = runs.iter().flatten().map(|table| table.record.bytes).sum();
        let usual_bytes = (bytes / PIECES).max(LEAST_TABLE_BYTES);
        let small_bytes = options.write_buffer_size as u64 / SMALL_VALUE_LOG_SHARE;
        let mut files = version.mostly_dead_value_logs(most_values);
        files.extend(version.small_value_logs(runs.iter().flatten(), small_bytes));
        Merge {
            family: Arc::clone(family),
            table_bytes: options
                .target_table_bytes
                .min(usual_bytes)
                .min(self.largest_table_bytes()),
            options,
            plan,
            runs,
            bytes_read: bytes,
            slice_bounds: lock(&family.slice_bounds).clone(),
            // Listed before the first version is read: later snapshots see the newest of each key.
            snapshots: self.snapshots.list(),
            bottom: plan.count == version.runs.len(),
            now: self.expired_for_all(),
            rewrite: ValueRewrite { files, version: version.as_ref().clone() },
            range_tombstones: version.range_tombstones.clone(),
            passed: AtomicU64::new(0),
            outcome: Mutex::new(Outcome::default()),
        }
    }

    /// Ends a merge early when the database closes or the family is gone.
    pub(super) fn check_merge_wanted(&self, family: &FamilyState) -> Result<()> {
        if family.is_dropped() {
            return Err(family.dropped_error());
        }
        if self.control.merges_are_cancelled() {
            return Err(Error::Cancelled);
        }
        if self.health.is_closed() { Err(Error::Closed) } else { Ok(()) }
    }
}

/// The runs that `plan` merges, which must be runs of `version`.
fn inputs(version: &Version, plan: MergePlan) -> Result<&[Run]> {
    let inputs = version.runs.get(..plan.count).unwrap_or_default();
    let output = if plan.into_oldest {
        inputs.last().map(|run| run.id)
    } else {
        inputs.iter().map(|run| run.id).max()
    };
    if output == Some(plan.run) || cfg!(planted_bug = "planned_from_another_version") {
        return Ok(inputs);
    }
    let runs = version.runs.len();
    Err(Error::Internal(format!("a merge was planned from other runs than these {runs}: {plan:?}")))
}

/// Marks the file of the version that could not be read.
fn set_aside(version: &Version, path: &Path, why: &Error) {
    version.tables().filter(|table| table.path() == path).for_each(|table| table.set_aside(why));
    version.value_logs.values().filter(|file| file.path() == path).for_each(|f| f.set_aside());
}

impl Merge {
    /// Does all parts, with the help of other threads where there are any.
    fn run(self: &Arc<Self>, core: &Core) -> Result<Vec<Written>> {
        let threads = core.options.merging_threads();
        let parts =
            KeyParts::new(parts(&self.runs, self.table_bytes, threads, self.plan.into_oldest)?);
        let merge = Arc::clone(self);
        let work = move |core: &Core, range: &KeyRange| merge.merge_part(core, range.clone());
        let results = parts.run(core, &Arc::new(work));
        let Some(failure) = results.failure else { return Ok(results.done) };
        remove_written(core, &results.done);
        Err(failure)
    }

    fn merge_part(&self, core: &Core, range: KeyRange) -> Result<Written> {
        let oldest = self.runs.len() - 1;
        let in_pieces = self.may_exchange(&range);
        let _lent = self.buffers(core);
        let mut merge = VersionMerge::open(self.runs.clone(), range)?;
        let mut rewriter = self.rewriter(core);
        let mut used_up = Vec::new();
        let mut read = 0;
        let mut next_pause = 0;
        loop {
            if let Some((run, table)) = merge.lone_table()
                && (rewriter.last_key() != table.record.smallest_key.as_slice()
                    || cfg!(planted_bug = "shadowed_first_key_passed_over"))
                && self.may_stay(table)?
            {
                let table = Arc::clone(table);
                rewriter.end_table()?;
                self.passed.fetch_add(table.record.entries, Ordering::Relaxed);
                self.leave_as_it_is(table, run == oldest);
                merge.skip_table()?;
                self.pause_for_others(core, &mut next_pause)?;
                // ORDERING: as below.
                core.flow.merged.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            let Some((key, meta, value)) = merge.current() else { break };
            rewriter.push(key, meta, value)?;
            read += 1;
            if read % VERSIONS_PER_CHECK == 0 {
                self.pause_for_others(core, &mut next_pause)?;
                // ORDERING: relaxed; only whether it changes matters.
                core.flow.merged.fetch_add(VERSIONS_PER_CHECK, Ordering::Relaxed);
            }
            if let Some((run, table)) = merge.next()?
                && in_pieces
                && (run == oldest || cfg!(planted_bug = "newer_input_let_go_early"))
            {
                used_up.push(table);
                if rewriter.pending_bytes() >= self.table_bytes {
                    self.exchange(core, std::mem::take(&mut used_up), rewriter.complete()?)?;
                }
            }
        }
        // ORDERING: read after all parts have ended.
        self.passed.fetch_add(read, Ordering::Relaxed);
        rewriter.complete()
    }

    /// Whether a part may replace tables of the oldest run before all parts are done. One that begins within
    /// such a table writes keys that the table still holds, so that they would lie in the run twice.
    fn may_exchange(&self, range: &KeyRange) -> bool {
        let reaches = |from: &Vec<u8>, table: &Arc<TableFile>| {
            table.record.smallest_key < *from && *from <= table.record.largest_key
        };
        let mut tables = self.runs.iter().last().into_iter().flatten();
        let cut = range.from.as_ref().is_some_and(|from| tables.any(|table| reaches(from, table)));
        let ignored = cfg!(planted_bug = "pieces_beside_a_cut_table");
        self.plan.into_oldest && (!cut || ignored)
    }

    /// Lets a small merge that waits for a thread have this one, when this merge has gone on for a while
    /// since the last of these, and looks whether this merge is wanted still. No lock is held.
    fn pause_for_others(&self, core: &Core, next: &mut u64) -> Result<()> {
        let begun = core.clock.monotonic_nanos();
        if begun >= *next {
            core.scheduler.interlude(Lane::Compaction, interrupting(self.bytes_read));
            let ended = core.clock.monotonic_nanos();
            *next = ended + ended.saturating_sub(begun) / LEAST_SHARE;
        }
        core.check_merge_wanted(&self.family)
    }

    /// Entries of a table of the output, about.
    fn entries_per_table(&self) -> u64 {
        let entries: u64 = self.runs.iter().flatten().map(|table| table.record.entries).sum();
        let bytes: u64 = self.runs.iter().flatten().map(|table| table.record.bytes).sum();
        entries / bytes.div_ceil(self.table_bytes).max(1)
    }

    /// Notes the memory that a part of the merge takes.
    fn buffers(&self, core: &Core) -> Lent {
        let read = self.runs.len() as u64 * READAHEAD_BYTES as u64;
        let written = table_writer_bytes(&self.options, self.entries_per_table());
        core.budget.lend(Holder::Background, read + written)
    }

    fn rewriter<'a>(&'a self, core: &'a Core) -> Rewriter<'a> {
        let rules = DropRules::new(self.snapshots.clone(), self.bottom, self.now)
            .with_range_tombstones(self.range_tombstones.clone());
        let place = OutputPlace {
            level: self.plan.level,
            run: self.plan.run,
            table_bytes: self.table_bytes,
            range_deletes_applied_through: rules.range_deletes_applied_through(),
            expected_entries: usize::try_from(self.entries_per_table()).unwrap_or(0),
        };
        let bounds = Arc::clone(&self.slice_bounds);
        let output = TableOutput::new(core, &self.family, &self.options, place, bounds);
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
            || record.bytes < self.table_bytes / LEAST_LONE_SHARE
            || (self.bottom && record.tombstones > 0)
        {
            return Ok(false);
        }
        table.is_free_of_garbage(self.now)
    }

    fn leave_as_it_is(&self, table: Arc<TableFile>, of_oldest: bool) {
        let mut outcome = lock(&self.outcome);
        outcome.settled.insert(table.record.number);
        if !(self.plan.into_oldest && of_oldest) {
            outcome.moved.push(table);
        }
    }

    /// Puts what was written in place of the oldest run's tables that it replaces.
    fn exchange(&self, core: &Core, used_up: Vec<Arc<TableFile>>, written: Written) -> Result<()> {
        let merged = Merged {
            replaced: used_up,
            moved: Vec::new(),
            place: (self.plan.level, self.plan.run),
            written: vec![written],
            more_follows: true,
        };
        core.install_merged(&self.family, &merged)?;
        let numbers = merged.replaced.iter().map(|table| table.record.number);
        lock(&self.outcome).settled.extend(numbers);
        core.files.garbage.sweep();
        Ok(())
    }

    /// Makes known what the pieces did not yet, and lets go of the inputs.
    fn install(&self, core: &Core, written: Vec<Written>) -> Result<()> {
        let outcome = std::mem::take(&mut *lock(&self.outcome));
        let entries: u64 = self.runs.iter().flatten().map(|table| table.record.entries).sum();
        // ORDERING: all parts have ended.
        let passed = self.passed.load(Ordering::Relaxed);
        if passed != entries {
            remove_written(core, &written);
            // Which input is to blame is not known, so none of them is set aside.
            let detail = format!("a merge read {passed} entries of {entries}");
            return Err(Error::corruption(&core.path, 0, detail));
        }
        let left = self.runs.iter().flatten();
        let left = left.filter(|table| !outcome.settled.contains(&table.record.number));
        let merged = Merged {
            replaced: left.cloned().collect(),
            moved: outcome.moved,
            place: (self.plan.level, self.plan.run),
            written,
            more_follows: false,
        };
        core.install_merged(&self.family, &merged)
    }
}

#[cfg(test)]
mod tests;
