//! The version latch of a B+tree node: a lock for writers that doubles as a version for readers.
//!
//! The word's lowest bit says "locked", the rest counts changes. A reader notes the version, reads
//! the node's fields (all of them atomics), and asks whether the version is still the same; if not,
//! whatever it read may be a mix of two states and is thrown away. A writer turns the version it
//! read under into the lock by one compare-and-swap, so everything it found out before still holds.
//!
//! Threads: any. Readers write nothing. A reader that meets a locked node waits: the lock is held
//! for some dozens of nanoseconds, never across an allocation or a system call.
//!
//! Invariants: a version is never reused for a changed state; fields change only while locked.

use crate::sync::{AtomicU64, Ordering, fence, hint, thread};

const LOCKED: u64 = 1;
const STEP: u64 = 2;
/// Rounds of spinning before the waiter offers its time slice to the (preempted) holder.
const SPINS_PER_YIELD: u32 = 64;

/// A lock for writers of a node, and a count of its changes for readers.
#[derive(Debug)]
pub(super) struct Latch(AtomicU64);

/// A version under which a node was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen(u64);

impl Latch {
    pub(super) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Waits until the node is not locked and returns its version: the start of a read.
    #[inline]
    pub(super) fn begin(&self) -> Seen {
        // ORDERING: Acquire pairs with the Release in `unlock`: the reads that follow see at
        // least the state that this version stands for.
        let word = self.0.load(Ordering::Acquire);
        if word & LOCKED == 0 { Seen(word) } else { self.begin_slowly() }
    }

    #[cold]
    fn begin_slowly(&self) -> Seen {
        for round in 1_u32.. {
            if cfg!(loom) || round.is_multiple_of(SPINS_PER_YIELD) {
                thread::yield_now();
            } else {
                hint::spin_loop();
            }
            // ORDERING: as in `begin`.
            let word = self.0.load(Ordering::Acquire);
            if word & LOCKED == 0 {
                return Seen(word);
            }
        }
        Seen(LOCKED)
    }

    /// Whether the node is still as it was at `seen`, so that what was read since is consistent.
    #[inline]
    pub(super) fn unchanged(&self, seen: Seen) -> bool {
        // ORDERING: the Acquire fence pairs with the Release fence in `try_lock`: if any read
        // before it saw a store made under a lock, the load after it sees that lock or later.
        fence(Ordering::Acquire);
        self.0.load(Ordering::Relaxed) == seen.0
    }

    /// Locks the node if it is still as it was at `seen`. Never waits.
    #[inline]
    pub(super) fn try_lock(&self, seen: Seen) -> Option<Locked<'_>> {
        // ORDERING: the Acquire fence orders the reads made under `seen` before the exchange,
        // exactly as in `unchanged`.
        fence(Ordering::Acquire);
        let locked = seen.0 | LOCKED;
        // ORDERING: Acquire pairs with the Release in `unlock` of the writer before.
        self.0.compare_exchange(seen.0, locked, Ordering::Acquire, Ordering::Relaxed).ok()?;
        // ORDERING: orders the lock before the stores made under it, for `unchanged`.
        fence(Ordering::Release);
        Some(Locked { latch: self, seen })
    }
}

/// The right to change a node. Dropped without [`Locked::unlock`] it restores the old version,
/// which is right only as long as nothing was stored.
#[derive(Debug)]
#[must_use]
pub(super) struct Locked<'a> {
    latch: &'a Latch,
    seen: Seen,
}

impl Locked<'_> {
    /// Ends the change and gives the node a new version.
    #[inline]
    pub(super) fn unlock(self) {
        // ORDERING: Release publishes the changes to `begin` and `try_lock`.
        self.latch.0.store(self.seen.0.wrapping_add(STEP), Ordering::Release);
        std::mem::forget(self);
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        // ORDERING: Release, so that the next holder's Acquire pairs with something.
        self.latch.0.store(self.seen.0, Ordering::Release);
    }
}
