//! The state of a column family: its options, memtables and files.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use arc_swap::ArcSwap;
use tidesdb_base::entry::SequenceNumber;
use tidesdb_base::error::Error;
use tidesdb_base::options::{FamilyOptions, SyncMode};
use tidesdb_lockfree::stripe::StripedSums;
use tidesdb_lockfree::sync::lock;

use super::CommitHookSlot;
use crate::memtable::Memtable;
use crate::version::Version;
use crate::write::DirectValueWriter;

/// What a reader of a family looks at, as one immutable whole.
#[derive(Clone, Debug)]
pub(crate) struct View {
    /// Takes the commits.
    pub active: Arc<Memtable>,
    /// Waiting to be written out, newest first.
    pub frozen: Vec<Arc<Memtable>>,
    /// The files.
    pub version: Arc<Version>,
}

impl View {
    /// Lowest sequence number that is in memory only; `u64::MAX` when there is none.
    pub(crate) fn first_unflushed(&self) -> SequenceNumber {
        let frozen = self.frozen.last().map_or(u64::MAX, |m| m.first_sequence());
        frozen.min(self.active.first_sequence())
    }
}

/// Counters of a family, for statistics.
#[derive(Debug, Default)]
pub(crate) struct FamilyCounters {
    /// Bytes of keys and values, and operations.
    pub user: StripedSums,
    pub flush_bytes: AtomicU64,
    pub flush_count: AtomicU64,
    pub compaction_bytes_written: AtomicU64,
    pub compaction_bytes_read: AtomicU64,
    pub compaction_count: AtomicU64,
}

/// One column family of an open database.
#[derive(Debug)]
pub(crate) struct FamilyState {
    /// Tells families of different databases apart: the address of what their files share.
    pub database: usize,
    pub id: u32,
    pub name: String,
    pub options: ArcSwap<FamilyOptions>,
    /// Bytes at which a memtable is frozen, for the write path.
    pub freeze_bytes: AtomicU64,
    /// The options ask for a sync of each commit; for the write path.
    pub syncs_commits: AtomicBool,
    /// Writers must wait until background work has made room. Follows from the view.
    pub stalled: AtomicBool,
    pub view: ArcSwap<View>,
    /// Held while the view is replaced, so that no change is lost.
    changing_view: Mutex<()>,
    /// Held while the active memtable is frozen.
    pub rotation: Mutex<()>,
    /// A flush of this family is queued or running; at most one at a time.
    pub flushing: AtomicBool,
    /// A merge of this family is queued or running; at most one at a time.
    pub compacting: AtomicBool,
    /// A look at whether the family is still being written is due.
    pub quiet_check: AtomicBool,
    /// Held while a merge runs, so that a manual one waits for it.
    pub merging: Mutex<()>,
    /// Why the last flush or merge failed; cleared by the next that works.
    pub background_error: Mutex<Option<Error>>,
    pub dropped: AtomicBool,
    pub direct_values: Mutex<Option<DirectValueWriter>>,
    pub commit_hook: CommitHookSlot,
    pub counters: FamilyCounters,
}

impl FamilyState {
    pub(crate) fn new(
        database: usize,
        id: u32,
        name: String,
        options: FamilyOptions,
        view: View,
    ) -> Self {
        Self {
            database,
            id,
            name,
            freeze_bytes: AtomicU64::new(freeze_bytes(&options)),
            syncs_commits: AtomicBool::new(options.sync_mode == SyncMode::Full),
            stalled: AtomicBool::new(is_stalled(&view, &options)),
            options: ArcSwap::from_pointee(options),
            view: ArcSwap::from_pointee(view),
            changing_view: Mutex::new(()),
            rotation: Mutex::new(()),
            flushing: AtomicBool::new(false),
            compacting: AtomicBool::new(false),
            quiet_check: AtomicBool::new(false),
            merging: Mutex::new(()),
            background_error: Mutex::new(None),
            dropped: AtomicBool::new(false),
            direct_values: Mutex::new(None),
            commit_hook: CommitHookSlot::default(),
            counters: FamilyCounters::default(),
        }
    }

    /// Replaces the view by what `change` makes of it.
    pub(crate) fn change_view(&self, change: impl FnOnce(&View) -> View) {
        let _one_at_a_time = lock(&self.changing_view);
        let next = change(&self.view.load());
        let stalled = is_stalled(&next, &self.options.load());
        self.view.store(Arc::new(next));
        // ORDERING: release, so that a writer let in again finds the view that made room.
        self.stalled.store(stalled, Ordering::Release);
    }

    /// True once the family was dropped.
    pub(crate) fn is_dropped(&self) -> bool {
        // ORDERING: acquire pairs with the release in `drop_family`.
        self.dropped.load(Ordering::Acquire)
    }
}

/// Runs of the first level, as a multiple of the trigger of merges, at which writers wait.
const STALLING_RUNS_PER_TRIGGER: usize = 9;

/// A memtable is frozen at three quarters of the write buffer: what comes in while it is written
/// out takes memory too, and a fast writer fills another half of a memtable meanwhile.
const fn freeze_bytes(options: &FamilyOptions) -> u64 {
    options.write_buffer_size as u64 / 4 * 3
}

/// Whether writers must wait for a flush or a merge.
fn is_stalled(view: &View, options: &FamilyOptions) -> bool {
    let young = view.version.runs.iter().filter(|run| run.level == 1).count();
    view.frozen.len() >= options.l0_queue_stall_threshold
        || young >= options.l1_file_count_trigger * STALLING_RUNS_PER_TRIGGER
}
