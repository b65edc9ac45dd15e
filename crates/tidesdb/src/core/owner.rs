//! What keeps a database open.

use std::sync::Arc;

use tidesdb_lockfree::stripe::thread_number;
use tidesdb_lockfree::sync::CachePadded;

use super::Core;
use crate::family::RetiredHook;

/// Keeps the database running as long as a handle exists, and shuts it down with the last one.
#[derive(Debug)]
pub(crate) struct Owner {
    core: Arc<Core>,
    shut_down: ShutDown,
}

/// Shuts a database down, whether or not all memtables were flushed before, and returns the hooks
/// to be let go of. What does it lies above this module.
pub(crate) type ShutDown = fn(&Core, flushed: bool) -> Vec<RetiredHook>;

impl Owner {
    pub(crate) const fn new(core: Arc<Core>, shut_down: ShutDown) -> Self {
        Self { core, shut_down }
    }

    pub(crate) const fn core(&self) -> &Arc<Core> {
        &self.core
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        if !self.core.health.is_opening_process() {
            // The files, threads and locks are the parent's. What is left of the database here is
            // never dropped, so that nothing is done to them.
            std::mem::forget(Arc::clone(&self.core));
            return;
        }
        (self.shut_down)(&self.core, false).into_iter().for_each(RetiredHook::let_go);
    }
}

/// Counts of references to the owner besides its own: more than the threads that usually begin
/// transactions at once.
const SHARES: usize = 16;

/// A count of references to the owner that few threads share, on cache lines of its own.
/// Transactions, which are made and dropped all the time, count here: one count for all would be a
/// word that every thread writes to.
pub(crate) type OwnerShare = CachePadded<Arc<Owner>>;

/// The owner as the handles of a database hold it.
#[derive(Debug)]
pub(crate) struct SharedOwner {
    owner: Arc<Owner>,
    shares: [Arc<OwnerShare>; SHARES],
}

impl SharedOwner {
    pub(crate) fn new(owner: Owner) -> Self {
        let owner = Arc::new(owner);
        let shares = std::array::from_fn(|_| Arc::new(CachePadded(Arc::clone(&owner))));
        Self { owner, shares }
    }

    pub(crate) const fn owner(&self) -> &Arc<Owner> {
        &self.owner
    }

    /// The share of the calling thread.
    #[inline]
    pub(crate) fn share(&self) -> &Arc<OwnerShare> {
        &self.shares[thread_number() % SHARES]
    }
}
