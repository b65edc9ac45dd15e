//! Committing several writes of a workload: as a batch or as a transaction.

use tidesdb_engine::{Db, Error, Family, IsolationLevel, WriteBatch, WriteOptions};

/// What several writes are committed with: every other time a transaction, of each level in turn.
pub(crate) enum PlannedCommit {
    Batch(WriteBatch),
    Transaction(Box<tidesdb_engine::Transaction>),
}

impl PlannedCommit {
    pub(crate) fn new(db: &Db, number: u64) -> Result<Self, Error> {
        let level = match number % 10 {
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
        key: &[u8],
        value: Option<&[u8]>,
        expires_at: u64,
    ) -> Result<(), Error> {
        match (self, value) {
            (Self::Batch(batch), None) => batch.delete(family, key),
            (Self::Batch(batch), Some(value)) => batch.put_expiring(family, key, value, expires_at),
            (Self::Transaction(transaction), None) => transaction.delete(family, key),
            (Self::Transaction(transaction), Some(value)) => {
                transaction.put_expiring(family, key, value, expires_at)
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
