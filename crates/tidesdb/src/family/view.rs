//! What a reader of a family loads: its memtables and files at one moment.

use std::sync::{Arc, Mutex};

use arc_swap::{ArcSwap, Guard};
use tidesdb_base::entry::SequenceNumber;
use tidesdb_lockfree::sync::lock;
use tidesdb_sys::sync_points::sync_point;

use crate::memtable::Memtable;
use crate::version::Version;

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

    /// Whether it may take the place of an earlier view: nothing that was in tables alone is in
    /// memory.
    fn follows(&self, earlier: &Self) -> bool {
        // In this order: concurrent commits lower what the earlier one returns.
        let first = self.first_unflushed();
        earlier.first_unflushed() <= first
    }

    /// Whether each frozen memtable ends before the next newer one begins.
    fn is_in_order(&self) -> bool {
        let newest_first = std::iter::once(&self.active).chain(&self.frozen);
        newest_first.is_sorted_by(|newer, older| older.sealed_through() < newer.first_sequence())
    }
}

/// The view in force.
#[derive(Debug)]
pub(crate) struct CurrentView {
    view: ArcSwap<View>,
    /// Held while the view is replaced, so that no change is lost.
    changing: Mutex<()>,
}

impl CurrentView {
    pub(super) fn new(view: View) -> Self {
        Self { view: ArcSwap::from_pointee(view), changing: Mutex::new(()) }
    }

    /// The view, for a moment.
    #[inline]
    pub(crate) fn load(&self) -> Guard<Arc<View>> {
        sync_point("before a look");
        let view = self.view.load();
        sync_point("after a look");
        view
    }

    /// The view, to keep.
    #[inline]
    pub(crate) fn load_full(&self) -> Arc<View> {
        sync_point("before a look");
        let view = self.view.load_full();
        sync_point("after a look");
        view
    }

    /// Replaces the view by what `change` makes of it, and calls `then` with the new one before any
    /// other takes its place.
    pub(super) fn change(&self, change: impl FnOnce(&View) -> View, then: impl FnOnce(&View)) {
        let _one_at_a_time = lock(&self.changing);
        let old = self.view.load();
        let next = Arc::new(change(&old));
        debug_assert!(next.is_in_order(), "frozen memtables are out of order");
        debug_assert!(next.follows(&old), "what was flushed is in memory again");
        drop(old);
        sync_point("view made");
        self.view.store(Arc::clone(&next));
        then(&next);
    }
}
