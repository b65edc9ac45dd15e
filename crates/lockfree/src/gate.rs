//! A gate that many threads pass at once, and that a closer can shut and wait to be empty.
//!
//! The engine's commits run inside the gate; rotating the memtable or the log segment closes it
//! for a moment. It is a readers-writer lock tuned for one purpose: entering and leaving cost one
//! uncontended atomic add each, because every thread counts itself in a stripe of its own, and
//! closing is rare and may look at all stripes.
//!
//! Threads: any number of enterers and closers; closers take turns. A guard may be dropped by
//! another thread than the one that entered. Entering from inside (or closing from inside) the
//! gate on one thread deadlocks as soon as a closer waits, as with any such lock.
//!
//! Invariants:
//! * While a [`ClosedGuard`] lives, no [`GateGuard`] does.
//! * An enterer counts itself first and looks at `closed` second; a closer sets `closed` first
//!   and looks at the counts second (Dekker's protocol). At least one of them sees the other.
//! * A thread that leaves while `closed` is set wakes the closer; reopening wakes all newcomers.
//!
//! Checked by loom models (`loom_*`) in `gate/tests.rs`.

use crate::stripe::thread_number;
use crate::sync::{
    AtomicBool, AtomicUsize, CachePadded, Condvar, Mutex, Ordering, fence_for_loom, hint, lock,
    wait,
};

/// Counter stripes of a production gate: more than the threads that usually commit at once.
#[cfg(not(loom))]
const STRIPES: usize = 32;
#[cfg(loom)]
const STRIPES: usize = 2;

/// How often a thread that has to wait looks again before it sleeps.
#[cfg(not(loom))]
const SPINS: u32 = 64;
#[cfg(loom)]
const SPINS: u32 = 0;

const DEKKER: Ordering = Ordering::SeqCst;

/// Many enter, one closes.
///
/// ```
/// use tidesdb_lockfree::gate::CommitGate;
/// let gate = CommitGate::new();
/// let first = gate.enter();
/// let second = gate.enter(); // enterers do not exclude each other
/// drop((first, second));
/// let closed = gate.close(); // no thread is inside now, and none can enter
/// drop(closed);
/// ```
#[derive(Debug)]
pub struct CommitGate {
    inside: [CachePadded<AtomicUsize>; STRIPES],
    closed: CachePadded<AtomicBool>,
    /// Guards every wait and every notification; whether a closer is at work is in `closed`,
    /// which changes only with this lock held.
    turnstile: Mutex<()>,
    /// Newcomers and further closers wait here for `closed` to be cleared.
    reopened: Condvar,
    /// The closer waits here for the gate to become empty.
    left: Condvar,
}

impl Default for CommitGate {
    fn default() -> Self {
        Self::new()
    }
}

impl CommitGate {
    /// An open gate with no thread inside.
    #[must_use]
    pub fn new() -> Self {
        Self {
            inside: std::array::from_fn(|_| CachePadded(AtomicUsize::new(0))),
            closed: CachePadded(AtomicBool::new(false)),
            turnstile: Mutex::new(()),
            reopened: Condvar::new(),
            left: Condvar::new(),
        }
    }

    /// Enters the gate; waits while it is closed. The guard leaves on drop.
    #[inline]
    pub fn enter(&self) -> GateGuard<'_> {
        self.enter_stripe(thread_number())
    }

    #[inline]
    fn enter_stripe(&self, stripe: usize) -> GateGuard<'_> {
        let guard = GateGuard { gate: self, stripe: stripe % STRIPES };
        // ORDERING: sequentially consistent, before the load of `closed` in the total order, see
        // the module's second invariant. On success the load also acquires what the last closer
        // did, which it released by clearing `closed`.
        self.inside[guard.stripe].fetch_add(1, DEKKER);
        dekker_fence_for_loom();
        if self.closed.load(DEKKER) {
            return self.enter_slowly(guard);
        }
        guard
    }

    #[cold]
    fn enter_slowly<'gate>(&'gate self, mut guard: GateGuard<'gate>) -> GateGuard<'gate> {
        loop {
            let stripe = guard.stripe;
            // Leaves again, which wakes the closer if it counted us.
            drop(guard);
            self.wait_until_open();
            guard = GateGuard { gate: self, stripe };
            // ORDERING: as in `enter_stripe`.
            self.inside[stripe].fetch_add(1, DEKKER);
            dekker_fence_for_loom();
            if !self.closed.load(DEKKER) {
                return guard;
            }
        }
    }

    fn wait_until_open(&self) {
        for _ in 0..SPINS {
            // ORDERING: relaxed; only a hint that it is worth counting oneself again.
            if !self.closed.load(Ordering::Relaxed) {
                return;
            }
            hint::spin_loop();
        }
        let mut turnstile = lock(&self.turnstile);
        // ORDERING: relaxed; `closed` changes only under the lock we hold.
        while self.closed.load(Ordering::Relaxed) {
            turnstile = wait(&self.reopened, turnstile);
        }
    }

    /// Closes the gate, and returns once all threads inside have left. The guard reopens it on
    /// drop.
    ///
    /// Waits for other closers. Everything done by those who left is visible to the closer, and
    /// everything the closer does is visible to those who enter afterwards.
    pub fn close(&self) -> ClosedGuard<'_> {
        let mut turnstile = lock(&self.turnstile);
        // ORDERING: relaxed; `closed` changes only under the lock we hold.
        while self.closed.load(Ordering::Relaxed) {
            turnstile = wait(&self.reopened, turnstile);
        }
        // ORDERING: sequentially consistent, before the loads of the counts in the total order,
        // see the module's second invariant.
        self.closed.store(true, DEKKER);
        dekker_fence_for_loom();
        drop(turnstile);
        // Created first: if anything below unwinds, the gate opens again.
        let guard = ClosedGuard { gate: self };
        for stripe in &self.inside {
            self.wait_until_left(stripe);
        }
        guard
    }

    /// Waits until a stripe's count has been zero once: a thread that counts itself there later
    /// sees `closed` and leaves again without having been inside.
    fn wait_until_left(&self, stripe: &AtomicUsize) {
        for _ in 0..=SPINS {
            // ORDERING: sequentially consistent against `enter_stripe`; includes acquire, which
            // takes over what those who left did.
            if stripe.load(DEKKER) == 0 {
                return;
            }
            hint::spin_loop();
        }
        let mut turnstile = lock(&self.turnstile);
        // ORDERING: the same. A leaver whose decrement we don't see yet sees `closed`, and will
        // notify after we have begun to wait, since it takes the lock for that.
        while stripe.load(DEKKER) != 0 {
            turnstile = wait(&self.left, turnstile);
        }
    }

    #[cold]
    fn wake_closer(&self) {
        let _turnstile = lock(&self.turnstile);
        self.left.notify_all();
    }
}

/// Being inside a [`CommitGate`]; dropping it leaves.
#[derive(Debug)]
#[must_use = "dropping the guard leaves the gate"]
pub struct GateGuard<'gate> {
    gate: &'gate CommitGate,
    stripe: usize,
}

impl Drop for GateGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        // ORDERING: includes release, which hands what we did to the closer that sees the count;
        // sequentially consistent, before the load of `closed`: either the closer sees the
        // decrement, or we see that there is a closer to wake.
        self.gate.inside[self.stripe].fetch_sub(1, DEKKER);
        dekker_fence_for_loom();
        if self.gate.closed.load(DEKKER) {
            self.gate.wake_closer();
        }
    }
}

/// Holding a [`CommitGate`] closed and empty; dropping it reopens the gate.
#[derive(Debug)]
#[must_use = "dropping the guard reopens the gate"]
pub struct ClosedGuard<'gate> {
    gate: &'gate CommitGate,
}

impl Drop for ClosedGuard<'_> {
    fn drop(&mut self) {
        let _turnstile = lock(&self.gate.turnstile);
        // ORDERING: release hands what the closer did to those who enter.
        self.gate.closed.store(false, Ordering::Release);
        self.gate.reopened.notify_all();
    }
}

/// The total order of the Dekker accesses, for models; see [`fence_for_loom`].
#[inline(always)]
fn dekker_fence_for_loom() {
    fence_for_loom();
}

#[cfg(test)]
mod tests;
