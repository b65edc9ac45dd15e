//! The memory of a transaction, as the database accounts for it.

use std::cmp::Ordering::{Equal, Greater, Less};

use tidesdb_lockfree::sync::lock;

use super::Transaction;
use super::read_set::ReadSet;
use super::write_set::WriteSet;
use crate::memory::Holder;

/// Change of a transaction's memory that is worth accounting for.
const CHARGED_STEP_BYTES: usize = 16 << 10;

impl Transaction {
    /// Accounts for the memory that the transaction takes, in coarse steps. `reads` are its reads,
    /// when the caller has them locked.
    #[inline]
    pub(super) fn charge(&self, reads: Option<&ReadSet>) {
        let written = self.writes.as_ref().map_or(0, |writes| writes.memory_bytes());
        let read = match (reads, self.reads.get()) {
            (Some(reads), _) => reads.memory_bytes(),
            (None, Some(reads)) => lock(reads).memory_bytes(),
            (None, None) => 0,
        };
        if (written + read).abs_diff(self.charged.get()) >= CHARGED_STEP_BYTES {
            self.set_charge(written + read);
        }
    }

    /// Accounts for the index of the writes, if a look-up has made it or let it grow.
    #[inline]
    pub(super) fn charge_index(&self, writes: &WriteSet) {
        if writes.has_grown() {
            self.charge(None);
        }
    }

    #[inline]
    pub(super) fn set_charge(&self, bytes: usize) {
        let before = self.charged.replace(bytes);
        let budget = &self.core().memory.budget;
        match bytes.cmp(&before) {
            // A transaction that holds little writes to nothing that others share.
            Equal => {}
            Greater => budget.take(Holder::Transactions, (bytes - before) as u64),
            Less => budget.give_back(Holder::Transactions, (before - bytes) as u64),
        }
    }
}
