//! Group sync: threads that wait for the same thing to be durable share one sync.
//!
//! One waiter at a time is the *leader*. It syncs as far as everything is published, notes how far
//! that was, and wakes the others; those that are not covered elect the next leader. The module
//! knows no file: what a sync does, and whether one may be tried, its callers say.
//!
//! Threads: any. Waiters that are covered already take no lock.
//!
//! Invariants:
//! * `synced` never decreases, and never passes what a leader has synced.
//! * At most one leader is at work. A leader that panics gives up its place like any other.
//!
//! Checked by loom models (`loom_*`) in `group_sync/tests.rs`, together with the sequencer.

use crate::sync::{AtomicU64, Condvar, Mutex, Ordering, lock, wait};

/// How far everything is durable, and who makes it so.
///
/// ```
/// use tidesdb_lockfree::group_sync::GroupSync;
/// let group = GroupSync::new(0);
/// let written = 96;
/// // Nothing forbids it, and the sync of everything written succeeds.
/// group.sync_through(64, || Ok::<_, ()>(()), || Ok(written)).unwrap();
/// assert_eq!(group.synced(), 96);
/// // Covered already: no further sync.
/// group.sync_through(96, || Err(()), || Err(())).unwrap();
/// ```
#[derive(Debug)]
pub struct GroupSync {
    synced: AtomicU64,
    leading: Mutex<bool>,
    done: Condvar,
}

/// The place of the leader, given up when it is dropped.
struct Leadership<'a>(&'a GroupSync);

impl Drop for Leadership<'_> {
    fn drop(&mut self) {
        *lock(&self.0.leading) = false;
        self.0.done.notify_all();
    }
}

impl GroupSync {
    /// Everything up to `synced` is durable.
    #[must_use]
    pub fn new(synced: u64) -> Self {
        Self { synced: AtomicU64::new(synced), leading: Mutex::new(false), done: Condvar::new() }
    }

    /// Everything up to this position is durable.
    #[must_use]
    pub fn synced(&self) -> u64 {
        // ORDERING: acquire; a thread that sees a position may rely on what the leader did before.
        self.synced.load(Ordering::Acquire)
    }

    /// Notes that everything up to `position` is durable by other means.
    pub fn advance(&self, position: u64) {
        // ORDERING: release pairs with the load in `synced`.
        self.synced.fetch_max(position, Ordering::AcqRel);
    }

    /// Returns once everything up to `position` is durable. `may_sync` is asked before each wait
    /// and before this thread leads, with a lock held; `sync` is called without it if this thread
    /// leads, and returns how far everything is durable then.
    ///
    /// # Errors
    /// What `may_sync` or this thread's own `sync` returns. A sync that reached less far than
    /// `position` is no error of its own: `may_sync` is asked again, and has to say why.
    pub fn sync_through<E>(
        &self,
        position: u64,
        may_sync: impl Fn() -> Result<(), E>,
        mut sync: impl FnMut() -> Result<u64, E>,
    ) -> Result<(), E> {
        while self.synced() < position {
            let Some(leader) = self.lead(position, &may_sync)? else { return Ok(()) };
            let reached = sync()?;
            self.advance(reached);
            drop(leader);
        }
        Ok(())
    }

    /// Waits until this thread leads, or everything up to `position` is durable.
    fn lead<E>(
        &self,
        position: u64,
        may_sync: &impl Fn() -> Result<(), E>,
    ) -> Result<Option<Leadership<'_>>, E> {
        let mut leading = lock(&self.leading);
        loop {
            if self.synced() >= position {
                return Ok(None);
            }
            may_sync()?;
            if !*leading {
                *leading = true;
                return Ok(Some(Leadership(self)));
            }
            leading = wait(&self.done, leading);
        }
    }

    /// Waits until no thread leads. Only for callers that make sure that none begins to.
    pub fn wait_for_leader(&self) {
        let mut leading = lock(&self.leading);
        while *leading {
            leading = wait(&self.done, leading);
        }
    }
}

#[cfg(test)]
mod tests;
