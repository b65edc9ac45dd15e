//! Performing a compaction: read the inputs in order, drop what is not needed, write the outputs,
//! make them known, and let go of the inputs.
//!
//! A compaction into its oldest input goes by steps (`step`): of key ranges with a bounded number
//! of bytes, from the lowest keys to the highest, each made known by an edit of its own that lets
//! go of all it has used up, newer inputs as well (`step_bounds`). So what is beside the inputs at
//! any time is one step, and what a step has done stays, however the compaction ends: the next one
//! finds it done. This is the partitioned merge of Spooky (Dayan and others, PVLDB 15(11), 2022)
//! with ranges that follow from bytes. Flushed runs, which are small, become a new run in one step.
//!
//! Nothing is held between two steps but the claim on the runs, so that the files that a step has
//! used up leave the disk with it.

use std::sync::{Arc, Mutex};

use tidesdb_base::error::{Error, Result};
use tidesdb_base::event::{Event, LogLevel};
use tidesdb_base::latency::TimedOperation;
use tidesdb_lockfree::sync::lock;

use super::job::CompactionJob;
use super::plan::CompactionPlan;
use super::step::{Outcome, Step};
use super::step_bounds::{Cut, StepSizes, tables_over};
use crate::core::Core;
use crate::family::FamilyState;
use crate::flow::PromisedSpace;
use crate::output::key_partitions::KeySpan;
use crate::output::rewrite::ValueRewrite;
use crate::output::slices::tables_within;
use crate::telemetry::counters::Work;
use crate::telemetry::spans::span;
use crate::version::{Run, TableFile, Version};

/// Value logs below this share of a write buffer are joined by compactions, so that there are not
/// very many: each is a file, and a table knows all that it points into.
const SMALL_VALUE_LOG_SHARE: u64 = 16;

/// Below this share of a table, a step for which there is no space is made as small as can be.
const SMALLEST_STEP_SHARE: u64 = 8;

impl Core {
    /// Merges runs of a family as planned from `version`, in which they are the newest, or what
    /// they have in `slice`. The caller has claimed them, and holds no version. Some `most_values`
    /// bytes of values are moved out of mostly dead value logs, and those of small ones.
    ///
    /// # Errors
    /// [`Error::Internal`] for a plan that was made from another version;
    /// [`Error::Corruption`] when an input is damaged, [`Error::Io`] when the system can't read it;
    /// it is set aside then, so that the next plan does without it. [`Error::Closed`] and
    /// [`Error::FamilyDropped`] when the compaction is not wanted any more. Nothing is lost then,
    /// and the steps that are done stay so.
    pub(crate) fn compact_runs(
        &self,
        family: &Arc<FamilyState>,
        version: Arc<Version>,
        plan: CompactionPlan,
        slice: &KeySpan,
        most_values: u64,
    ) -> Result<()> {
        let started = self.env.clock.monotonic_nanos();
        let job = Arc::new(self.prepare_compaction(family, &version, plan, slice, most_values)?);
        let (name, bytes) = (family.name(), job.bytes);
        let _span = span!(INFO, "compaction", family = name, runs = plan.count, bytes = bytes);
        let result = job.run(self, version);
        if let Err(why) = &result {
            family.current_version().set_aside(why);
        }
        let counters = &family.counters;
        counters.add(Work::Compactions, 1);
        counters.add(Work::CompactionSlices, u64::from(*slice != KeySpan::default()));
        counters.add(Work::CompactionFailures, u64::from(result.is_err()));
        let nanos = self.env.clock.monotonic_nanos().saturating_sub(started);
        self.telemetry.latencies.record(TimedOperation::Compaction, nanos);
        counters.add(Work::CompactionNanos, nanos);
        if result.is_ok() && self.telemetry.events.are_wanted(LogLevel::Info) {
            let (family, bytes) = (family.name().to_string(), job.bytes);
            self.telemetry.events.report(&Event::Compacted {
                family,
                bytes,
                milliseconds: nanos / 1_000_000,
            });
        }
        let may_fit = self.flow.disk.take_may_fit();
        if !may_fit.is_empty() {
            // Families that had no space beside this compaction have nothing else that wakes them.
            let families = self.families.all();
            let refused = families.iter().filter(|family| may_fit.contains(&family.id));
            refused.for_each(|family| self.schedule_compaction(family));
        }
        result
    }

    fn prepare_compaction(
        &self,
        family: &Arc<FamilyState>,
        version: &Version,
        plan: CompactionPlan,
        slice: &KeySpan,
        most_values: u64,
    ) -> Result<CompactionJob> {
        let inputs = inputs(version, plan)?;
        let tables = || inputs.iter().flat_map(|run| tables_over(&run.tables, slice));
        let options = family.options.load_full();
        let bytes: u64 = tables().map(|table| table.record.bytes).sum();
        let entries: u64 = tables().map(|table| table.record.entries).sum();
        let most_entries = self.memory.budget.entries_per_table(&options);
        let most_bytes = options.target_table_bytes.min(self.env.largest_table_bytes());
        let most_bytes =
            most_bytes.min(most_entries.saturating_mul((bytes / entries.max(1)).max(1)));
        let sizes =
            StepSizes::of(bytes, most_bytes, self.env.options.resolved_compaction_threads());
        let small_bytes = options.write_buffer_size as u64 / SMALL_VALUE_LOG_SHARE;
        let mut emptied = version.mostly_dead_value_logs(plan.count, most_values);
        emptied.extend(version.small_value_logs(tables(), small_bytes));
        Ok(CompactionJob {
            family: Arc::clone(family),
            options,
            plan,
            places: inputs.iter().map(Run::place).collect(),
            range: slice.clone(),
            bottom: is_bottom(version, plan.count, slice),
            bytes,
            sizes,
            entries_per_table: entries / bytes.div_ceil(sizes.table_bytes).max(1),
            slice_bounds: lock(&family.compactions.slice_bounds).clone(),
            emptied,
            read: Mutex::default(),
        })
    }
}

/// Whether no run behind the newest `count` holds a key that their compaction in `slice` reads or
/// writes: then what hides older versions may go.
fn is_bottom(version: &Version, count: usize, slice: &KeySpan) -> bool {
    let inputs = version.runs.get(..count).unwrap_or_default();
    let older = version.runs.get(count..).unwrap_or_default();
    let mut keys = slice.clone();
    // Tables of the oldest input are written anew as a whole.
    let cut = inputs.last().map_or(&[][..], |oldest| tables_over(&oldest.tables, slice));
    if let (Some(first), Some(last)) = (cut.first(), cut.last()) {
        let (smallest, largest) = (&first.record.smallest_key, &last.record.largest_key);
        keys.from = keys.from.map(|from| from.min(smallest.clone()));
        let past_largest = [largest.as_slice(), b"\0"].concat();
        keys.until = keys.until.map(|until| until.max(past_largest));
    }
    older.iter().all(|run| tables_over(&run.tables, &keys).is_empty())
}

/// The runs that `plan` merges, which must be runs of `version`.
fn inputs(version: &Version, plan: CompactionPlan) -> Result<&[Run]> {
    let inputs = version.runs.get(..plan.count).unwrap_or_default();
    let output = if plan.into_oldest {
        inputs.last().map(|run| run.id)
    } else {
        inputs.iter().map(|run| run.id).max()
    };
    if output == Some(plan.run) {
        return Ok(inputs);
    }
    let runs = version.runs.len();
    Err(Error::Internal(format!("a plan names other runs than these {runs}: {plan:?}")))
}

impl CompactionJob {
    /// Does one step after the other, from the lowest keys to the highest. `version` is that of the
    /// first.
    fn run(self: &Arc<Self>, core: &Core, version: Arc<Version>) -> Result<()> {
        let mut version = Some(version);
        let mut from = self.range.from.clone();
        let mut next_pause = 0;
        loop {
            self.pause_for_others(core, &mut next_pause)?;
            let now = version.take().unwrap_or_else(|| self.family.current_version());
            let (step, promised) = self.next_step(core, now, from)?;
            let until = step.cut.range.until.clone();
            let is_last = !self.plan.into_oldest || until == self.range.until;
            self.family.counters.add(Work::CompactionBytesRead, step.bytes());
            step.run(core, is_last)?;
            self.family.counters.add(Work::CompactionSteps, 1);
            drop(step);
            core.storage.files.obsolete.try_sweep();
            drop(promised);
            if is_last {
                return Ok(());
            }
            core.work.progress.notify();
            from = until;
        }
    }

    /// The step that begins at `from`, as large as there is space for, and that space.
    fn next_step<'c>(
        self: &Arc<Self>,
        core: &'c Core,
        version: Arc<Version>,
        from: Option<Vec<u8>>,
    ) -> Result<(Arc<Step>, PromisedSpace<'c>)> {
        let mut step_bytes = self.sizes.step_bytes;
        loop {
            let cut = self.cut(&version, from.clone(), step_bytes);
            let step = self.step(core, Arc::clone(&version), cut);
            let expected = step.expected_bytes();
            let room = || core.room_for_compactions(&self.family).unwrap_or(u64::MAX);
            match core.flow.disk.promise(self.family.id, expected, room) {
                Ok(promised) => return Ok((Arc::new(step), promised)),
                Err(_) if self.plan.into_oldest && step_bytes > 0 => {
                    let least = self.sizes.table_bytes / SMALLEST_STEP_SHARE;
                    step_bytes = if step_bytes > least { step_bytes / 2 } else { 0 };
                }
                Err(short) => return Err(short.error(&core.env.path, expected)),
            }
        }
    }

    /// What the step from `from` on merges that has about `step_bytes`, or as few as can be if that
    /// is 0.
    fn cut(
        &self,
        version: &Version,
        from: Option<Vec<u8>>,
        step_bytes: u64,
    ) -> Cut<Arc<TableFile>> {
        if !self.plan.into_oldest {
            let tables = |run: &Run| tables_within(&run.tables, &self.range).to_vec();
            let runs = self.runs(version).map(|run| run.map(tables).unwrap_or_default());
            return Cut { range: KeySpan::default(), runs: runs.collect(), rests: Vec::new() };
        }
        let range = KeySpan { from, until: self.range.until.clone() };
        let runs = self.tables(version, &range);
        match step_bytes {
            0 => Cut::smallest(runs, range),
            bytes => Cut::first(runs, range, bytes),
        }
    }

    fn step(
        self: &Arc<Self>,
        core: &Core,
        version: Arc<Version>,
        cut: Cut<Arc<TableFile>>,
    ) -> Step {
        Step {
            // Listed before the first version is read: later snapshots see the newest of each key.
            snapshots: core.isolation.snapshots.list(),
            now: core.expired_for_all(),
            rewrite: ValueRewrite {
                files: self.emptied.clone(),
                version: version.as_ref().clone(),
            },
            range_tombstones: version.range_tombstones.clone(),
            job: Arc::clone(self),
            version,
            cut,
            outcome: Mutex::new(Outcome::default()),
        }
    }
}

#[cfg(test)]
mod tests;
