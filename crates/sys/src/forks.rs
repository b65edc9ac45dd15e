//! Telling a process from the one that it was forked from.
//!
//! A forked child has copies of its parent's memory, of its descriptors and of no thread but the
//! one that forked. What works on files in the name of the parent must not go on in the child: it
//! would write where the parent writes, and wait for threads that are not there. So an owner of
//! such a thing keeps a [`ProcessMark`] of where it was made, and does nothing elsewhere.
//!
//! A fork is noticed by handlers of `pthread_atfork`, which the C library calls for `fork`.
//! Children made in other ways (`vfork`, `posix_spawn`, `clone`) are expected to execute another
//! program.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use crate::clock::{Clock, SystemClock};
use crate::{os_calls, vfs};

/// Forks between the process that first asked and this one.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// Set while a thread must not be forked away from, and while the process forks.
static KEPT: AtomicBool = AtomicBool::new(false);

/// How often a thread that waits yields before it sleeps, and for how long.
const YIELDS: u32 = 32;
const PAUSE: Duration = Duration::from_micros(100);

/// The process that something was made in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessMark(u32);

impl ProcessMark {
    /// The mark of this process.
    #[must_use]
    pub fn of_this() -> Self {
        watch();
        // ORDERING: relaxed; it changes only while a process has a single thread.
        Self(GENERATION.load(Ordering::Relaxed))
    }

    /// A mark of a process that is not this one, for tests of what forked children do.
    #[must_use]
    pub fn of_another() -> Self {
        Self(u32::MAX)
    }

    /// Whether the calling process is the one that was marked.
    #[inline]
    #[must_use]
    pub fn is_here(self) -> bool {
        // ORDERING: as in `of_this`.
        GENERATION.load(Ordering::Relaxed) == self.0
    }
}

impl Default for ProcessMark {
    fn default() -> Self {
        Self::of_this()
    }
}

/// Notices forks from now on.
pub(crate) fn watch() {
    static WATCHING: Once = Once::new();
    WATCHING.call_once(|| os_calls::at_fork(before, after_in_parent, after_in_child));
}

/// Does something in the course of which the process does not fork, and no other thread does such a
/// thing: a lock that is taken in it alone is free in a forked child. It must be short, must not
/// fork, and must not do this again.
pub fn keep_out<R>(work: impl FnOnce() -> R) -> R {
    watch();
    // A handler of a signal on this thread may fork, and would wait for this very thread.
    let _signals = os_calls::block_signals();
    enter();
    let kept = Kept;
    let result = work();
    drop(kept);
    result
}

struct Kept;

impl Drop for Kept {
    fn drop(&mut self) {
        leave();
    }
}

fn enter() {
    // ORDERING: acquire pairs with the release in `leave`.
    for tries in 1_u32.. {
        if KEPT.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok() {
            return;
        }
        // A thread of real-time priority yields to none that has less.
        if tries < YIELDS { std::thread::yield_now() } else { SystemClock.sleep(PAUSE) }
    }
}

fn leave() {
    // ORDERING: release publishes what was done meanwhile.
    KEPT.store(false, Ordering::Release);
}

extern "C" fn before() {
    enter();
}

extern "C" fn after_in_parent() {
    leave();
}

extern "C" fn after_in_child() {
    // ORDERING: relaxed; the child has no other thread yet.
    GENERATION.fetch_add(1, Ordering::Relaxed);
    vfs::let_go_of_locks_in_child();
    leave();
}
