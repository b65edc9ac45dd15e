//! Named places at which a test may stop a thread.
//!
//! What goes wrong between two statements because of another thread is found by stopping one of
//! them there. The engine calls [`sync_point`] where that is worth it: in the checks of a commit,
//! and between a look at a family's view and the use of what that names. Without the feature
//! `sync_points`, which only tests ask for, a call is nothing; with it, a thread stops that has a
//! hook.

#[cfg(feature = "sync_points")]
use std::{cell::RefCell, rc::Rc};

/// What a thread calls at each sync point, with the name of the place.
#[cfg(feature = "sync_points")]
pub type SyncPointHook = Rc<dyn Fn(&'static str)>;

#[cfg(feature = "sync_points")]
thread_local! {
    static HOOK: RefCell<Option<SyncPointHook>> = const { RefCell::new(None) };
}

/// The calling thread comes to a place.
#[cfg(not(feature = "sync_points"))]
#[inline]
pub const fn sync_point(_place: &'static str) {}

/// The calling thread comes to a place.
#[cfg(feature = "sync_points")]
pub fn sync_point(place: &'static str) {
    // Of a thread that is ending nothing is asked any more.
    let hook = HOOK.try_with(|hook| hook.borrow().clone());
    if let Some(hook) = hook.ok().flatten() {
        hook(place);
    }
}

/// Has the calling thread call `hook` at each sync point, or none.
#[cfg(feature = "sync_points")]
pub fn on_sync_points(hook: Option<SyncPointHook>) {
    HOOK.set(hook);
}
