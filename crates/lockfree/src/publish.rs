//! In-order publishing of log reservations.
//!
//! A commit reserves a range of log positions with one atomic add, fills it (log bytes, memtable
//! entries) in parallel with all others, and then calls [`CommitSequencer::complete`]. Commits
//! finish in any order; `published` moves over completed ranges in position order only, so that
//! "published" means: everything in front of this position is complete and visible. The thread that
//! completes a range also publishes the completed ranges behind it; none waits to hand over.
//!
//! A thread that must know whether commits in front of it touch what it touches itself need not
//! wait for all of them: each announces, right after its reservation, a *signature* of what it
//! touches, and [`CommitSequencer::wait_for_conflicting`] waits only for those whose signature
//! shares a bit.
//!
//! A range that could not be filled is a *hole* ([`CommitSequencer::break_at`]): nothing from it on
//! is ever published, and waits for what lies behind it end at once, in vain. Only `reset` goes on,
//! at a position behind all that was reserved.
//!
//! Called by the engine's write path, from any number of threads.
//!
//! Invariants:
//! * Each reservation is completed exactly once, or made a hole, unless the caller gives up on it
//!   and on all later ones (log segment full), lets the earlier ones finish, and calls `reset`.
//! * `published` never passes the lowest hole: the range that begins there is never completed.
//! * `published` is the end of the longest completed prefix, and never decreases between resets.
//! * A ring slot holds the end of a completed range, and is taken for the range starting at `p`
//!   only if it is greater than `p`. Ranges are disjoint, so a range that starts before `p` ends
//!   at or before `p`: whatever an earlier lap left in the slot is void without being cleared.
//! * A start enters the ring only within one window of `published`, so two unpublished starts
//!   never share a slot.
//!
//! * An announcement is an end, valid for start `p` if it is greater than `p`, by the same
//!   argument, and a signature stored before it. A start is announced only within the
//!   announcements' own window of `published`; of others it is not known what they touch, and
//!   rivals wait.
//!
//! Checked by loom models (`loom_*`) in `publish/tests.rs`.

use crate::sync::{
    AtomicU32, AtomicU64, CachePadded, Condvar, Mutex, Ordering, fence_for_loom, hint, lock,
    thread, wait,
};

/// Shortest range that may be reserved, in bytes. It is what keeps starts in separate ring slots.
pub const MIN_RESERVATION_BYTES: u64 = 32;

/// Ring slots of a production sequencer: commits up to half a mebibyte apart finish
/// independently, and the ring (128 KiB) stays in the second-level cache.
const RING_SLOTS: usize = 1 << 14;

/// Announcement slots: reservations up to 32 KiB behind the published position are announced.
#[cfg(not(loom))]
const ANNOUNCED: usize = 1 << 10;
#[cfg(loom)]
const ANNOUNCED: usize = 4;

/// How often a waiter looks again before it gives up its time slice, and then before it sleeps.
#[cfg(not(loom))]
const SPINS: u32 = 64;
#[cfg(not(loom))]
const YIELDS: u32 = 16;
// A model gains nothing from looking twice: every interleaving is explored anyway.
#[cfg(loom)]
const SPINS: u32 = 0;
#[cfg(loom)]
const YIELDS: u32 = 0;

/// Hands out log positions and publishes completed ranges in position order.
///
/// ```
/// use tidesdb_lockfree::publish::CommitSequencer;
/// let sequencer = CommitSequencer::new(0);
/// let first = sequencer.reserve(64);
/// let second = sequencer.reserve(32);
/// sequencer.complete(second, second + 32);
/// assert_eq!(sequencer.published(), 0); // the first range is still a hole
/// sequencer.complete(first, first + 64);
/// assert_eq!(sequencer.published(), 96);
/// ```
#[derive(Debug)]
pub struct CommitSequencer {
    tail: CachePadded<AtomicU64>,
    published: CachePadded<AtomicU64>,
    /// Start of the lowest range that is a hole; `u64::MAX` while there is none. Read only by those
    /// who wait.
    broken_from: AtomicU64,
    /// Threads asleep, or about to be, on `advanced`.
    sleepers: CachePadded<AtomicU32>,
    ring: Box<[AtomicU64]>,
    /// Signature and end of reservations that are announced.
    announced: Box<[[AtomicU64; 2]]>,
    sleep_lock: Mutex<()>,
    advanced: Condvar,
}

impl CommitSequencer {
    /// A sequencer whose next reservation starts at log position `start` (bytes), with everything
    /// before it published.
    #[must_use]
    pub fn new(start: u64) -> Self {
        Self::with_ring(start, RING_SLOTS)
    }

    /// `slots` must be a power of two and at least 2.
    pub(crate) fn with_ring(start: u64, slots: usize) -> Self {
        debug_assert!(slots.is_power_of_two() && slots >= 2);
        Self {
            tail: CachePadded(AtomicU64::new(start)),
            published: CachePadded(AtomicU64::new(start)),
            broken_from: AtomicU64::new(u64::MAX),
            sleepers: CachePadded(AtomicU32::new(0)),
            ring: (0..slots).map(|_| AtomicU64::new(0)).collect(),
            announced: (0..ANNOUNCED).map(|_| [AtomicU64::new(0), AtomicU64::new(0)]).collect(),
            sleep_lock: Mutex::new(()),
            advanced: Condvar::new(),
        }
    }

    /// Reserves `len_bytes` of log and returns the position of the first byte.
    ///
    /// `len_bytes` must be at least [`MIN_RESERVATION_BYTES`] and a multiple of 8. The caller owes
    /// one [`complete`](Self::complete) for the range: until then nothing behind it is published.
    #[inline]
    pub fn reserve(&self, len_bytes: u64) -> u64 {
        debug_assert!(len_bytes >= MIN_RESERVATION_BYTES && len_bytes.is_multiple_of(8));
        // ORDERING: acquire pairs with the release in `reserved`. What a range contains becomes
        // visible through `published`, never through `tail`.
        self.tail.fetch_add(len_bytes, Ordering::Acquire)
    }

    /// The end of what is reserved by now. A thread that reserves behind it sees everything that
    /// this thread did before the call, and so does a thread that learns of that.
    #[must_use]
    pub fn reserved(&self) -> u64 {
        // ORDERING: release pairs with the acquire in `reserve`. An exchange and not a load: of a
        // reservation behind it there is no doubt that it comes later. All changes of the tail are
        // exchanges, so that all that follow this one carry the release on.
        self.tail.fetch_add(0, Ordering::Release)
    }

    /// Announces what the reservation `start..end` will touch, before it waits for anything. Bits
    /// are the caller's business; all of them stand for anything.
    #[inline]
    pub fn announce(&self, start: u64, end: u64, signature: u64) {
        let window = (self.announced.len() as u64 - 1) * MIN_RESERVATION_BYTES;
        if start.saturating_sub(self.published()) > window {
            return;
        }
        let [known, known_end] = self.announcement(start);
        // ORDERING: release, after the acquiring load of `published` above: a reader that meets
        // this signature in place of the slot's earlier one also sees that the earlier range is
        // published, and does not use it.
        known.store(signature, Ordering::Release);
        // ORDERING: release; who sees the end sees the signature.
        known_end.store(end, Ordering::Release);
    }

    /// Returns once every range in front of `start` that may touch what `signature` stands for is
    /// published: all that announced a signature with a common bit, and all that announced none.
    /// Behind a hole it returns at once; what starts there is never published anyway.
    pub fn wait_for_conflicting(&self, start: u64, signature: u64) {
        let mut at = self.published();
        let mut looks = 0;
        while at < start {
            match self.announced_at(at) {
                Some((end, theirs)) if theirs & signature == 0 => at = end,
                Some((end, _)) => {
                    if !self.wait_published(end) {
                        return;
                    }
                    at = end;
                }
                None if looks < SPINS => {
                    looks += 1;
                    hint::spin_loop();
                }
                // Its owner was interrupted, or it lies outside of the window.
                None => {
                    self.wait_published(start);
                    return;
                }
            }
            at = at.max(self.published());
        }
    }

    /// Returns once the ranges that are announced by now are published, or behind a hole: those in
    /// front of the first that is not announced, since its reservation may have been given up. For
    /// threads that would rather wait here than later.
    pub fn wait_for_announced(&self) {
        let (mut at, until) = (self.published(), self.tail());
        while at < until {
            let Some((end, _)) = self.announced_at(at) else { return };
            if !self.wait_published(end) {
                return;
            }
            at = end.max(self.published());
        }
    }

    /// End and signature of the range that starts at `start`, if it is announced and was not
    /// published when the signature was read.
    fn announced_at(&self, start: u64) -> Option<(u64, u64)> {
        let [known, known_end] = self.announcement(start);
        // ORDERING: acquire pairs with the stores in `announce`, see there.
        let end = known_end.load(Ordering::Acquire);
        let signature = known.load(Ordering::Acquire);
        (end > start && self.published() <= start).then_some((end, signature))
    }

    #[inline]
    fn announcement(&self, start: u64) -> &[AtomicU64; 2] {
        let index = (start / MIN_RESERVATION_BYTES) as usize & (self.announced.len() - 1);
        &self.announced[index]
    }

    /// Marks the reserved range `start..end` as filled, and publishes as far as the completed
    /// prefix reaches, ranges of other threads included.
    ///
    /// Everything the caller wrote before is visible to a thread that sees a published position of
    /// at least `end`. Waits only if `start` is more than one window (half a mebibyte) ahead of the
    /// published position.
    #[inline]
    pub fn complete(&self, start: u64, end: u64) {
        debug_assert!(end >= start + MIN_RESERVATION_BYTES);
        // ORDERING: sequentially consistent, which includes release: it makes the caller's writes
        // visible to loads of `published`. The total order pairs it with the ring store of a
        // completer behind us: either our `advance` sees that store, or that completer's
        // `advance`, which comes after its store, sees this exchange. On failure nothing was read
        // that is used.
        let in_turn = self
            .published
            .compare_exchange(start, end, Ordering::SeqCst, Ordering::Relaxed)
            .is_ok();
        fence_for_loom();
        if !in_turn {
            self.enter_ring(start, end);
        }
        if self.advance() || in_turn {
            self.wake();
        }
    }

    /// Makes the reserved range that begins at `start` a hole: nothing from there on is published
    /// until a `reset`, and a thread that waits for it learns so. Takes the place of `complete`.
    #[cold]
    pub fn break_at(&self, start: u64) {
        // ORDERING: sequentially consistent against those about to sleep, see `wake`. It includes
        // release: a thread that learns of the hole sees what the caller wrote before, such as why.
        self.broken_from.fetch_min(start, Ordering::SeqCst);
        fence_for_loom();
        self.wake();
    }

    /// Returns true once everything before `end` is published, false once that can never be since
    /// there is a hole in front of `end`. Spins and yields briefly, then sleeps.
    #[inline]
    pub fn wait_published(&self, end: u64) -> bool {
        self.published() >= end || self.wait_published_slowly(end)
    }

    /// The position in front of which everything is complete, and visible to this thread.
    #[inline]
    #[must_use]
    pub fn published(&self) -> u64 {
        // ORDERING: acquire pairs with the exchanges on `published`, which release the
        // completers' writes.
        self.published.load(Ordering::Acquire)
    }

    /// The position at which the next reservation will start.
    #[inline]
    #[must_use]
    pub fn tail(&self) -> u64 {
        // ORDERING: relaxed; a momentary value.
        self.tail.load(Ordering::Relaxed)
    }

    /// Starts over at log position `position`, upwards or downwards, with everything before it
    /// published.
    ///
    /// Needs exclusive use: no reservation that will still be completed is open, and no other
    /// thread is in any call that reserves, completes or waits for rivals. Reservations that were
    /// given up are forgotten. A thread that waits for a position in front of `position` learns
    /// that it is published, also of one behind a hole.
    pub fn reset(&self, position: u64) {
        // ORDERING: relaxed suffices for the ring and the tail, since exclusive use means that
        // other threads are ordered with this one by what excludes them.
        for slot in &self.ring {
            // Needed only when going down, or after completing a range behind one given up: then
            // a slot can hold an end above the new positions, which would count as completed.
            if slot.load(Ordering::Relaxed) > position {
                slot.store(0, Ordering::Relaxed);
            }
        }
        for [_, end] in &self.announced {
            if end.load(Ordering::Relaxed) > position {
                end.store(0, Ordering::Relaxed);
            }
        }
        // ORDERING: an exchange, and acquire and release, for `reserved`.
        self.tail.swap(position, Ordering::AcqRel);
        // The position first: a waiter that finds neither would sleep.
        // ORDERING: sequentially consistent against those about to sleep, see `wake`; it includes
        // release, for threads that only read `published`.
        self.published.store(position, Ordering::SeqCst);
        self.broken_from.store(u64::MAX, Ordering::SeqCst);
        fence_for_loom();
        self.wake();
    }

    /// Puts a range that is not yet the next to publish into the ring.
    #[cold]
    fn enter_ring(&self, start: u64, end: u64) {
        // A start at most this far behind `published` shares its slot with no unpublished start:
        // starts of one slot differ by more than `(slots - 1) * 32`.
        let window = (self.ring.len() as u64 - 1) * MIN_RESERVATION_BYTES;
        if !self.wait_published(start.saturating_sub(window)) {
            // Behind a hole: it will never be published, and its slot may be another's.
            return;
        }
        // ORDERING: includes release, so that the thread that publishes this range passes on our
        // writes; sequentially consistent against the exchanges on `published`, see `complete`.
        self.slot(start).store(end, Ordering::SeqCst);
        fence_for_loom();
    }

    /// Publishes the ranges in the ring that are next in order. Says whether it published any.
    #[inline]
    fn advance(&self) -> bool {
        let mut advanced = false;
        loop {
            // ORDERING: sequentially consistent loads after our store (ring) or exchange
            // (`published`), see `complete`. The slot's load includes acquire: it takes over the
            // completer's writes, which the exchange below then releases.
            let from = self.published.load(Ordering::SeqCst);
            let end = self.slot(from).load(Ordering::SeqCst);
            if end <= from {
                return advanced;
            }
            // A slot of a later lap is possible if `published` has moved on since it was loaded,
            // but then this exchange fails.
            // ORDERING: as in `complete`.
            advanced |= self
                .published
                .compare_exchange(from, end, Ordering::SeqCst, Ordering::Relaxed)
                .is_ok();
            fence_for_loom();
        }
    }

    #[inline]
    fn slot(&self, start: u64) -> &AtomicU64 {
        let index = (start / MIN_RESERVATION_BYTES) as usize & (self.ring.len() - 1);
        &self.ring[index]
    }

    /// Wakes the sleepers after `published` has moved or a hole was made.
    #[inline]
    fn wake(&self) {
        // ORDERING: sequentially consistent, after the exchange on `published` or the change of
        // `broken_from`. Pairs with `sleep`: either we see the sleeper's increment, or it sees the
        // position that we published or broke.
        if self.sleepers.load(Ordering::SeqCst) != 0 {
            self.wake_slowly();
        }
    }

    #[cold]
    fn wake_slowly(&self) {
        // With the lock held, every counted sleeper is either waiting (and is notified) or has
        // yet to look at `published`.
        let _guard = lock(&self.sleep_lock);
        self.advanced.notify_all();
    }

    #[cold]
    fn wait_published_slowly(&self, end: u64) -> bool {
        for round in 0..SPINS + YIELDS {
            if round < SPINS {
                hint::spin_loop();
            } else {
                thread::yield_now();
            }
            if let Some(published) = self.outcome(end) {
                return published;
            }
        }
        self.sleep(end)
    }

    /// Whether everything before `end` is published, if that is decided.
    fn outcome(&self, end: u64) -> Option<bool> {
        // ORDERING: sequentially consistent against publishers and holes, see `wake`; it includes
        // acquire, see `published` and `break_at`.
        if self.published.load(Ordering::SeqCst) >= end {
            return Some(true);
        }
        (self.broken_from.load(Ordering::SeqCst) < end).then_some(false)
    }

    fn sleep(&self, end: u64) -> bool {
        let mut guard = lock(&self.sleep_lock);
        // ORDERING: sequentially consistent against the publisher, see `wake`.
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        fence_for_loom();
        let published = loop {
            if let Some(published) = self.outcome(end) {
                break published;
            }
            guard = wait(&self.advanced, guard);
        };
        // ORDERING: relaxed; a publisher that still sees the old count notifies in vain.
        self.sleepers.fetch_sub(1, Ordering::Relaxed);
        published
    }
}

#[cfg(test)]
mod tests;
