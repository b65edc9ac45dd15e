//! The state of a column family: its options, memtables and files.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use arc_swap::ArcSwap;
use tidesdb_base::entry::SequenceNumber;
use tidesdb_base::error::{Error, Result};
use tidesdb_base::options::FamilyOptions;
use tidesdb_lockfree::sync::lock;

use super::dead_ranges::DeadRanges;
use super::forgotten_deletions::ForgottenDeletions;
use super::keys::FamilyKeys;
use super::settings::{FamilySettings, freeze_bytes};
use super::space::SpaceForSnapshots;
use super::view::{CurrentView, View};
use super::{
    CommitHookSlot, DatabaseId, FamilyCompactions, FamilyFlushes, ReadActivity, WatchedDeletions,
};
use crate::flow::{FamilyFlow, FamilySignals, has_many_runs, is_held, is_slowed_by_garbage};
use crate::memory::{Holder, MemoryBudget, MemoryReservation};
use crate::telemetry::counters::FamilyCounters;
use crate::telemetry::timing::Named;
use crate::version::{
    GrowingValueLogs, InDoubt, SpaceEstimate, ValueLogAppender, ValueLogFile, Version,
    collected_from,
};

/// One column family of an open database.
// More than a dozen fields: what is written, read and done in the background has a part each.
#[derive(Debug)]
pub(crate) struct FamilyState {
    /// The database that the family is of.
    pub database: DatabaseId,
    pub id: u32,
    /// See [`FamilyState::name`].
    name: ArcSwap<Arc<str>>,
    life: FamilyLife,
    pub options: FamilySettings,
    pub keys: FamilyKeys,
    pub view: CurrentView,
    pub writes: FamilyWrites,
    pub reads: FamilyReads,
    pub flushes: FamilyFlushes,
    pub compactions: FamilyCompactions,
    /// Value logs that flushes and compactions append to.
    pub growing_value_logs: Arc<GrowingValueLogs>,
    pub counters: FamilyCounters,
    counted_memory: Mutex<CountedMemory>,
    _reservation: MemoryReservation,
}

/// What a family takes that is in use, about, besides what its memtable, its tables and its readers
/// take: this state, empty memtables, counters of some threads, and its place in the catalog.
const FAMILY_BYTES: u64 = 4 << 10;

/// Families take at most one part in so many of the budget. No flush gives their memory back, and
/// with more than that all commits would wait for flushes that free nothing.
const BUDGET_PART: u64 = 2;

/// Whether a family still is one of its database.
#[derive(Debug, Default)]
struct FamilyLife {
    dropped: AtomicBool,
    /// A change failed in such a way that an opening may find it. Where it is a drop, what is
    /// written might be lost; where it is another name or other options, an opening would look for
    /// what is written under the old ones.
    in_doubt: AtomicBool,
}

/// What the newest view takes, where the database counts it.
#[derive(Debug)]
struct CountedMemory {
    /// Of the range tombstones of its version, about.
    tombstones: MemoryReservation,
    frozen: MemoryReservation,
}

impl CountedMemory {
    fn new(view: &View, budget: &Arc<MemoryBudget>) -> Self {
        let [tombstones, frozen] =
            [Holder::RangeTombstones, Holder::Frozen].map(|holder| budget.reserve(holder, 0));
        let mut counted = Self { tombstones, frozen };
        counted.follow(view);
        counted
    }

    fn follow(&mut self, view: &View) {
        self.tombstones.change_to(view.version.range_tombstones.memory_bytes());
        self.frozen.change_to(view.frozen.iter().map(|memtable| memtable.allocated_bytes()).sum());
    }
}

/// What commits to a family meet besides its memtables.
#[derive(Debug, Default)]
pub(crate) struct FamilyWrites {
    /// How fast writers may go.
    pub flow: FamilyFlow,
    pub space: SpaceForSnapshots,
    /// Held while the active memtable is frozen.
    pub freezing: Mutex<()>,
    /// Few families have one.
    pub direct_values: Mutex<Option<Box<ValueLogAppender>>>,
    pub commit_hook: CommitHookSlot,
    pub deletions: WatchedDeletions,
}

/// What readers of a family leave for others.
#[derive(Debug, Default)]
pub(crate) struct FamilyReads {
    /// Whether the family is read.
    pub activity: ReadActivity,
    /// Where scans need not look.
    pub dead_ranges: DeadRanges,
    /// What transactions may still have to meet.
    pub forgotten_deletions: ForgottenDeletions,
}

impl Named for FamilyState {
    fn name(&self) -> Arc<str> {
        Self::name(self)
    }
}

impl FamilyState {
    pub(crate) fn new(
        database: DatabaseId,
        id: u32,
        name: &str,
        options: Arc<FamilyOptions>,
        view: View,
        budget: &Arc<MemoryBudget>,
    ) -> Self {
        let is_counted = budget.held_by(Holder::Families) < budget.bytes() / BUDGET_PART;
        let counted = if is_counted { FAMILY_BYTES } else { 0 };
        let counted_memory = CountedMemory::new(&view, budget);
        let signals = signals(&options, freeze_bytes(&options), &view, false);
        let flow = FamilyFlow {
            held: AtomicBool::new(is_held(&signals)),
            runs_before_reads: AtomicU64::new(signals.runs),
            ..FamilyFlow::default()
        };
        Self {
            database,
            id,
            name: ArcSwap::from_pointee(Arc::from(name)),
            life: FamilyLife::default(),
            keys: FamilyKeys::new(options.key_order.clone()),
            options: FamilySettings::new(options),
            view: CurrentView::new(view),
            writes: FamilyWrites { flow, ..FamilyWrites::default() },
            reads: FamilyReads::default(),
            flushes: FamilyFlushes::default(),
            compactions: FamilyCompactions::default(),
            growing_value_logs: Arc::default(),
            counted_memory: Mutex::new(counted_memory),
            counters: FamilyCounters::default(),
            _reservation: budget.reserve(Holder::Families, counted),
        }
    }

    /// Name of the family, until it gets another one.
    pub(crate) fn name(&self) -> Arc<str> {
        Arc::clone(&self.name.load())
    }

    /// Gives the family another name, by which the database knows it from now on.
    pub(crate) fn set_name(&self, name: &str) {
        self.name.store(Arc::new(Arc::from(name)));
    }

    /// What is returned to those who use the family once it is dropped.
    #[cold]
    pub(crate) fn dropped_error(&self) -> Error {
        Error::FamilyDropped(self.name().to_string())
    }

    /// The files of the family now. What one decision needs comes from one call of this: a flush
    /// may add a run between two.
    pub(crate) fn current_version(&self) -> Arc<Version> {
        Arc::clone(&self.view.load().version)
    }

    /// Whether the runs of this version, the newest, are kept few for readers although that slows
    /// writers: the family is read, and not deleted in bulk. Deletions end soon, and space is
    /// wanted.
    pub(crate) fn favours_readers(&self, version: &Version) -> bool {
        self.reads.activity.is_read() && !version.is_deleted_in_bulk()
    }

    /// Value logs into which no commit outside of tables points live from then on by what tables
    /// point into them.
    pub(crate) fn settle_value_logs(&self) {
        self.settle(&self.closed_value_logs());
    }

    /// The value logs to which nothing is appended any more, and that are not settled.
    fn closed_value_logs(&self) -> Vec<Arc<ValueLogFile>> {
        let view = self.view.load();
        let value_logs = view.version.value_logs.values();
        value_logs.filter(|file| file.life().is_closed()).cloned().collect()
    }

    /// Settles those of `closed` into which no commit in memory points. They were closed before:
    /// the commits that point into them were complete by then, so they are in the view that is
    /// loaded here, in memory or in a table. In an older view they may be missing (I-35).
    fn settle(&self, closed: &[Arc<ValueLogFile>]) {
        let first_unflushed = self.view.load().first_unflushed();
        for file in closed {
            file.change_life(|life| life.settle(first_unflushed));
        }
    }

    /// Replaces the view by what `change` makes of it.
    pub(crate) fn change_view(&self, change: impl FnOnce(&View) -> View) {
        self.view.change(change, |next| {
            let favours_readers = self.favours_readers(&next.version);
            let (options, freeze_bytes) = (self.options.load(), self.options.freeze_bytes());
            let signals = signals(&options, freeze_bytes, next, favours_readers);
            let before = &self.writes.flow.runs_before_reads;
            // ORDERING: relaxed; an estimate, changed by one thread at a time.
            let runs = match favours_readers {
                true => before.load(Ordering::Relaxed).min(signals.runs),
                false => signals.runs,
            };
            before.store(runs, Ordering::Relaxed);
            // ORDERING: release, so that a writer let in again finds the view that made room.
            self.writes.flow.held.store(is_held(&signals), Ordering::Release);
            lock(&self.counted_memory).follow(next);
        });
    }

    /// Puts other options in force.
    pub(crate) fn apply_options(&self, options: Arc<FamilyOptions>) {
        self.options.replace(options);
        // What holds writers up follows from the options as well.
        self.change_view(View::clone);
    }

    /// Why the last flush or compaction failed, if one did. It is returned once.
    pub(crate) fn take_background_error(&self) -> Option<Error> {
        self.flushes.failure.take().or_else(|| self.compactions.failure.take())
    }

    /// The numbers that decide how fast the family may be written. `snapshots` are those that are
    /// live, oldest first, asked for when it may matter what they hold.
    pub(crate) fn signals(
        &self,
        flush_bytes_per_second: u64,
        snapshots: impl FnOnce() -> Vec<SequenceNumber>,
    ) -> FamilySignals {
        let (options, view) = (self.options.load(), self.view.load());
        let mut signals = self.signals_of(&options, &view);
        if is_slowed_by_garbage(&signals) {
            let space = self.writes.space.of(&view.version, &snapshots());
            signals = signals_of_space(signals, &options, space);
        }
        FamilySignals {
            // ORDERING: relaxed; estimates.
            flushed_bytes: self.writes.flow.flushed_bytes.load(Ordering::Relaxed),
            flush_bytes_per_second,
            // ORDERING: as above.
            paced: self.writes.flow.paced.load(Ordering::Relaxed),
            ..signals
        }
    }

    /// Those of them that follow from options and view.
    fn signals_of(&self, options: &FamilyOptions, view: &View) -> FamilySignals {
        let (freeze_bytes, reads) = (self.options.freeze_bytes(), &view.version);
        let signals = signals(options, freeze_bytes, view, self.favours_readers(reads));
        // ORDERING: relaxed; an estimate.
        let taken_along = self.writes.flow.young_runs_taken_along.load(Ordering::Relaxed);
        FamilySignals {
            young_runs: signals.young_runs.saturating_sub(taken_along),
            // ORDERING: as above.
            runs_before_reads: self.writes.flow.runs_before_reads.load(Ordering::Relaxed),
            ..signals
        }
    }

    /// Whether it has so many runs that its compactions are urgent.
    pub(crate) fn has_many_runs(&self) -> bool {
        let (options, view) = (self.options.load(), self.view.load());
        has_many_runs(&self.signals_of(&options, &view))
    }

    /// True once the family was dropped.
    pub(crate) fn is_dropped(&self) -> bool {
        // ORDERING: acquire pairs with the release in `set_dropped`.
        self.life.dropped.load(Ordering::Acquire)
    }

    /// Refuses a dropped family. A read asks once it has loaded its view: that of a dropped family
    /// has nothing in it, and a drop marks the family before it takes its files out of the view.
    ///
    /// # Errors
    /// [`Error::FamilyDropped`].
    #[inline]
    pub(crate) fn check_view(&self) -> Result<()> {
        if self.is_dropped() { Err(self.dropped_error()) } else { Ok(()) }
    }

    /// The family is not in the manifest any more.
    pub(crate) fn set_dropped(&self) {
        // ORDERING: release pairs with the load in `is_dropped`.
        self.life.dropped.store(true, Ordering::Release);
    }

    /// True while an opening may find a drop, another name or other options of the family although
    /// that change failed.
    #[inline]
    pub(crate) fn is_in_doubt(&self) -> bool {
        // ORDERING: acquire pairs with the release below; commits come after the new manifest.
        self.life.in_doubt.load(Ordering::Acquire)
    }
}

impl InDoubt for FamilyState {
    fn set_in_doubt(&self, in_doubt: bool) {
        // ORDERING: see `is_in_doubt`.
        self.life.in_doubt.store(in_doubt, Ordering::Release);
    }
}

/// The numbers that follow from options and view alone.
fn signals(
    options: &FamilyOptions,
    freeze_bytes: u64,
    view: &View,
    favours_readers: bool,
) -> FamilySignals {
    let signals = FamilySignals {
        write_buffer_bytes: options.write_buffer_size as u64,
        freeze_bytes,
        queue_limit: options.l0_queue_stall_threshold as u64,
        compaction_trigger: options.l1_file_count_trigger as u64,
        active_bytes: view.active.used_bytes(),
        frozen: view.frozen.len() as u64,
        frozen_bytes: view.frozen.iter().map(|memtable| memtable.used_bytes()).sum(),
        oldest_frozen_bytes: view.frozen.last().map_or(0, |memtable| memtable.used_bytes()),
        young_runs: view.version.young_runs(),
        runs: view.version.mergeable_runs().count() as u64,
        run_bytes: view.version.mergeable_runs().map(crate::version::Run::bytes).sum(),
        favours_readers,
        ..FamilySignals::default()
    };
    signals_of_space(signals, options, view.version.space)
}

fn signals_of_space(
    signals: FamilySignals,
    options: &FamilyOptions,
    space: SpaceEstimate,
) -> FamilySignals {
    FamilySignals {
        table_bytes: space.bytes,
        settled_table_bytes: space.settled,
        collected_table_bytes: space.allowed_bytes(collected_from(options.max_space_amplification)),
        allowed_table_bytes: space.allowed_bytes(options.max_space_amplification),
        ..signals
    }
}

#[cfg(test)]
mod tests;
