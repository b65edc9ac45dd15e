//! What isolates the readers and transactions of a database from each other.
//!
//! Readers read a snapshot: a point in the order of commits, registered as long as it is read, so
//! that compactions keep what it sees. Transactions have a level (`level`), which says what their
//! commit is checked for. Serializable ones also need what others have read (`dependencies`), and
//! which commits have overwritten what they read themselves (`out_conflicts`).
//!
//! This module has what is shared by all transactions of a database, and decides whether a
//! serializable commit could close a cycle. The read set and the write set of a transaction, and
//! the search of the data for conflicts with them, are in `transaction`.

mod dependencies;
mod level;
mod out_conflicts;

use std::sync::Mutex;

use tidesdb_base::entry::SequenceNumber;
use tidesdb_lockfree::snapshot_registry::SnapshotRegistry;

pub(crate) use self::dependencies::{Candidate, DangerousStructure, Dependencies};
pub use self::level::IsolationLevel;
pub(crate) use self::out_conflicts::OutConflicts;

/// The snapshots of a database, and the dependencies between its serializable transactions.
#[derive(Debug, Default)]
pub(crate) struct Isolation {
    pub snapshots: SnapshotRegistry,
    /// What serializable transactions have read. Taken before the commit gate is entered.
    pub dependencies: Mutex<Dependencies>,
}

impl Isolation {
    /// Watches the last snapshot that is older than the version of this sequence number.
    pub(crate) fn watch_snapshot_before(&self, sequence: SequenceNumber) {
        loop {
            let snapshots = self.snapshots.list();
            let older = snapshots.partition_point(|&snapshot| snapshot < sequence);
            // The last one: with it gone, those before it are found here again.
            let holder = older.checked_sub(1).and_then(|at| snapshots.get(at));
            if holder.is_none_or(|&holder| self.snapshots.watch(&[holder])) {
                return;
            }
        }
    }
}
