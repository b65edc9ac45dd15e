//! Committing several writes of a workload: as a batch or as a transaction.

use tidesdb::{Db, Error, Family, IsolationLevel, WriteBatch, WriteOptions};

use crate::operations::PlannedWrite;
use crate::oracle::Write;

/// What several writes are committed with: every other time a transaction, of each level in turn.
pub(crate) enum PlannedCommit {
    Batch(WriteBatch),
    Transaction(Box<tidesdb::Transaction>),
}

impl PlannedCommit {
    pub(crate) fn new(db: &Db, number: u64, planned: &[PlannedWrite]) -> Result<Self, Error> {
        let level = match number % 10 {
            // Transactions have no range deletions.
            _ if planned.iter().any(|write| write.until.is_some()) => {
                return Ok(Self::Batch(WriteBatch::new()));
            }
            1 => IsolationLevel::ReadUncommitted,
            3 => IsolationLevel::ReadCommitted,
            5 => IsolationLevel::RepeatableRead,
            7 => IsolationLevel::Snapshot,
            9 => IsolationLevel::Serializable,
            _ => return Ok(Self::Batch(WriteBatch::new())),
        };
        db.begin(level).map(|transaction| Self::Transaction(Box::new(transaction)))
    }

    pub(crate) fn add(
        &mut self,
        family: &Family,
        write: &Write,
        bytes: &[u8],
    ) -> Result<(), Error> {
        match (self, write.value) {
            (Self::Batch(batch), _) => write.add_to(batch, family, bytes),
            (Self::Transaction(transaction), None) if write.single => {
                transaction.single_delete(family, &write.key)
            }
            (Self::Transaction(transaction), None) => transaction.delete(family, &write.key),
            (Self::Transaction(transaction), Some(value)) => {
                transaction.put_expiring_at(family, &write.key, bytes, value.expires_at)
            }
        }
    }

    pub(crate) fn commit(&mut self, db: &Db, options: WriteOptions) -> Result<(), Error> {
        match self {
            Self::Batch(batch) => db.write_with(batch, options),
            Self::Transaction(transaction) => transaction.commit_with(options).map(|_| ()),
        }
    }
}
