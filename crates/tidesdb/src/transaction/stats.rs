//! What the statistics say of transactions.

use std::sync::atomic::Ordering;

use tidesdb_lockfree::sync::lock;

use crate::core::Core;

/// Statistics of the transactions of a database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TransactionStats {
    /// Bytes of memory that open transactions hold, to within some ten kibibytes each, and that is
    /// taken by what has to be remembered of finished serializable ones while others are open.
    pub open_bytes: u64,
    /// Commits refused for a newer version of a key.
    pub conflicts: u64,
    /// Commits of serializable transactions refused for a possible cycle.
    pub serialization_conflicts: u64,
    /// Times that the memory for finished serializable transactions was bounded at the cost of
    /// conflicts that were not needed.
    pub coarsened: u64,
}

impl TransactionStats {
    pub(crate) fn of(core: &Core) -> Self {
        // ORDERING: statistics.
        Self {
            open_bytes: core.memory.budget.held().transactions,
            conflicts: core.telemetry.counters.transaction_conflicts.load(Ordering::Relaxed),
            serialization_conflicts: core
                .telemetry
                .counters
                .serialization_conflicts
                .load(Ordering::Relaxed),
            coarsened: lock(&core.isolation.dependencies).coarsened(),
        }
    }
}
