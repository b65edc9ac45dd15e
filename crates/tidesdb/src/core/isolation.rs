//! What readers and transactions of a database rely on.

use std::sync::Mutex;

use tidesdb_lockfree::snapshot_registry::SnapshotRegistry;

use crate::ssi::Dependencies;

/// The moments that readers look at, and what transactions have read at them.
#[derive(Debug, Default)]
pub(crate) struct Isolation {
    pub snapshots: SnapshotRegistry,
    /// What serializable transactions have read. Taken before the commit gate is entered.
    pub dependencies: Mutex<Dependencies>,
}
