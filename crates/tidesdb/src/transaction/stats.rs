//! What the statistics say of transactions.

use std::fmt::{Display, Formatter, Result};
use std::sync::atomic::Ordering;

use tidesdb_lockfree::sync::lock;

use crate::core::Core;
use crate::stats::{Bytes, line, some};

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

impl Display for TransactionStats {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let Self { open_bytes, conflicts, serialization_conflicts, coarsened } = self;
        some(f, "open transactions", *open_bytes, &Bytes(*open_bytes))?;
        line(f, "conflicts", conflicts)?;
        some(f, "serialization conflicts", *serialization_conflicts, serialization_conflicts)?;
        some(f, "memory bounded, times", *coarsened, coarsened)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_reads_what_happened() {
        let mut stats = TransactionStats { conflicts: 3, ..TransactionStats::default() };
        assert_eq!(stats.to_string(), "conflicts                  3\n");
        stats.open_bytes = 1 << 20;
        assert!(stats.to_string().starts_with("open transactions          1.0 MiB\n"), "{stats}");
    }
}
