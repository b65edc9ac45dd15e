//! Named places at which a test may stop a thread.
//!
//! What goes wrong between two statements because of another thread is found by stopping one of
//! them there. The engine calls [`step`] where that is worth it: in the checks of a commit, and
//! between a look at a family's view and the use of what that names. Without the feature `steps`,
//! which only tests ask for, a call is nothing; with it, a thread stops that has a hook.

#[cfg(feature = "steps")]
use std::{cell::RefCell, rc::Rc};

/// What a thread calls at each of its steps, with the name of the place.
#[cfg(feature = "steps")]
pub type StepHook = Rc<dyn Fn(&'static str)>;

#[cfg(feature = "steps")]
thread_local! {
    static HOOK: RefCell<Option<StepHook>> = const { RefCell::new(None) };
}

/// The calling thread comes to a place.
#[cfg(not(feature = "steps"))]
#[inline]
pub const fn step(_place: &'static str) {}

/// The calling thread comes to a place.
#[cfg(feature = "steps")]
pub fn step(place: &'static str) {
    // Of a thread that is ending nothing is asked any more.
    let hook = HOOK.try_with(|hook| hook.borrow().clone());
    if let Some(hook) = hook.ok().flatten() {
        hook(place);
    }
}

/// Has the calling thread call `hook` at each of its steps, or none.
#[cfg(feature = "steps")]
pub fn on_steps(hook: Option<StepHook>) {
    HOOK.set(hook);
}
