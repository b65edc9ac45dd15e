//! The budget of open table files: each costs a descriptor, an index and a filter in memory.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};

use tidesdb_lockfree::sync::lock;

use crate::version::TableFile;

/// So many entries are not worth a look for those that point at nothing any more.
const LEAST_LOOKED_THROUGH: usize = 64;

/// Keeps the number of open tables within a bound by closing those not used lately (the CLOCK
/// rule: one more round for whoever was used since the hand passed).
#[derive(Debug)]
pub(crate) struct OpenTables {
    /// Zero means no bound.
    most: AtomicUsize,
    open: AtomicUsize,
    ring: Mutex<VecDeque<Weak<TableFile>>>,
}

impl OpenTables {
    pub(crate) const fn new(most: usize) -> Self {
        Self {
            most: AtomicUsize::new(most),
            open: AtomicUsize::new(0),
            ring: Mutex::new(VecDeque::new()),
        }
    }

    /// Changes the bound; it holds from the next table that is opened on.
    pub(crate) fn set_most(&self, most: usize) {
        // ORDERING: relaxed; a setting.
        self.most.store(most, Ordering::Relaxed);
    }

    /// Number of open tables.
    pub(crate) fn count(&self) -> usize {
        // ORDERING: a statistic and a soft bound.
        self.open.load(Ordering::Relaxed)
    }

    /// Notes that `table` was opened, and closes others that are over the bound.
    pub(crate) fn opened(&self, table: &Arc<TableFile>) {
        let mut ring = lock(&self.ring);
        ring.push_back(Arc::downgrade(table));
        // ORDERING: relaxed; changed with the lock held or by drops, a soft bound either way.
        let open = self.open.fetch_add(1, Ordering::Relaxed) + 1;
        if ring.len() > 2 * open + LEAST_LOOKED_THROUGH {
            // A table that is gone leaves its memory to whoever still points at it.
            ring.retain(|table| table.strong_count() > 0);
        }
        // ORDERING: relaxed; a setting.
        let most = self.most.load(Ordering::Relaxed);
        if most == 0 {
            return;
        }
        let mut passes = 2 * ring.len();
        while self.count() > most && passes > 0 {
            passes -= 1;
            let Some(weak) = ring.pop_front() else { break };
            let Some(candidate) = weak.upgrade() else { continue };
            if !Arc::ptr_eq(&candidate, table) && candidate.close_if_idle() {
                self.closed();
            } else {
                ring.push_back(weak);
            }
        }
    }

    /// Notes that an open table was closed.
    pub(crate) fn closed(&self) {
        // ORDERING: as in `opened`.
        self.open.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::version::test_tables::{context, table};

    /// Each left some 600 bytes behind, for ever when no bound was reached.
    #[test]
    fn tables_that_are_gone_are_forgotten() {
        let tables = OpenTables::new(0);
        let context = context();
        let kept: Vec<_> = (0..10).map(|number| table(&context, (1, 1), number, 0)).collect();
        kept.iter().for_each(|kept| tables.opened(kept));
        for number in 10..10_000 {
            let passing = table(&context, (1, 1), number, 0);
            tables.opened(&passing);
            tables.closed();
        }
        let ring = lock(&tables.ring);
        assert!(ring.len() <= 2 * kept.len() + LEAST_LOOKED_THROUGH + 2, "{}", ring.len());
        let found =
            |wanted: &Arc<TableFile>| ring.iter().any(|weak| weak.as_ptr() == Arc::as_ptr(wanted));
        assert!(kept.iter().all(found));
    }
}
