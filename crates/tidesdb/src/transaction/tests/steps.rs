//! Steps that a test has taken in the middle of a commit, by the thread that commits.

use std::cell::{Cell, RefCell};
use std::thread::LocalKey;

type Step = RefCell<Option<Box<dyn FnMut()>>>;

thread_local! {
    /// Before each view that a look for changes loads.
    pub(in crate::transaction) static BEFORE_A_VIEW: Step = const { RefCell::new(None) };
    /// Before each part of many reads is recorded.
    pub(in crate::transaction) static BEFORE_A_PART: Step = const { RefCell::new(None) };
}

thread_local! {
    /// The most keys and ranges that a look has taken while others waited.
    static MOST_WAITED_FOR: Cell<u64> = const { Cell::new(0) };
}

/// Notes what a look has taken while others waited.
pub(in crate::transaction) fn note_waited_for(looked_at: u64) {
    MOST_WAITED_FOR.set(MOST_WAITED_FOR.get().max(looked_at));
}

/// The most that was noted by this thread since it asked last.
pub(super) fn take_most_waited_for() -> u64 {
    MOST_WAITED_FOR.take()
}

/// Has `step` taken there by this thread; it may use the database.
pub(super) fn put(place: &'static LocalKey<Step>, step: impl FnMut() + 'static) {
    place.set(Some(Box::new(step)));
}

/// Removes the steps that are taken there.
pub(super) fn remove(place: &'static LocalKey<Step>) {
    place.set(None);
}

/// Takes the step, unless it is under way.
pub(in crate::transaction) fn take(place: &'static LocalKey<Step>) {
    if let Some(mut step) = place.take() {
        step();
        place.set(Some(step));
    }
}
