//! Transactions: reads of one moment and writes that take effect together, or not at all.
//!
//! A transaction keeps its writes to itself until it commits, so no other reader ever sees
//! uncommitted data, and takes no lock on keys: it is checked when it commits, and the first
//! committer wins. What it reads goes through the read path of `read/` and `iterator/`, under its
//! snapshot and with its own writes as the newest source; what it writes is a [`crate::WriteBatch`]
//! and goes through `write/`, with a last look (`validation`) between taking the place in the log
//! and writing. Below repeatable read there is neither snapshot nor look, and nothing shared is
//! written.
//!
//! | file | what |
//! |---|---|
//! | `handle` | the transaction that users hold: its life, writes, reads, savepoints |
//! | `reads` | reads of one key and of several |
//! | `write_set` | its writes in order, with an index by key made when one is looked up |
//! | `read_set` | the keys and ranges it read, as far as its level needs them |
//! | `offset_index` | the hash index of both: exact keys, four bytes an entry |
//! | `scan_reads` | what its iterators record in the read set |
//! | `changes` | which keys have newer versions than a snapshot |
//! | `second_look` | the same for many reads at once, from what was logged a moment ago |
//! | `range_index` | the ranges it read, sorted |
//! | `views` | the views of families that a commit looks at |
//! | `figures` | statistics |
//! | `commit` | the commit, from its checks to what follows it |
//! | `validation` | what is checked at commit, and when |
//! | `changed_reads` | the check of what a repeatable reader has read |
//! | `written_keys` | the check of written keys |
//! | `overwritten_reads` | what others have changed of what was read |
//!
//! The rules of serializable transactions are in `ssi`. A transaction is used by one thread at a
//! time and may be handed from one to another.

mod changed_reads;
mod changes;
mod commit;
mod figures;
mod handle;
mod offset_index;
mod overwritten_reads;
mod range_index;
mod read_set;
mod reads;
mod recording;
mod scan_reads;
mod second_look;
mod validation;
mod views;
mod write_set;
mod written_keys;

#[cfg(test)]
mod tests;

pub use self::figures::TransactionStats;
pub use self::handle::Transaction;

/// What a transaction is protected from.
///
/// Whatever the level, uncommitted data is never seen, a commit is visible at once or not at all,
/// and a transaction sees its own writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum IsolationLevel {
    /// Each read sees the newest committed state; so does each positioning of an iterator. Commits
    /// never conflict.
    ReadUncommitted = 0,
    /// Each read sees the newest committed state; an iterator keeps to the moment at which it was
    /// made. Commits never conflict, the last one wins.
    #[default]
    ReadCommitted = 1,
    /// Reads see the moment at which the transaction began. The commit conflicts if a key that was
    /// read and found has changed since, even when nothing was written. Keys found absent, and
    /// keys written without having been read, are not checked.
    RepeatableRead = 2,
    /// Reads see the moment at which the transaction began. The commit conflicts if a key that was
    /// written has been changed by another commit since. Reads never conflict, so write skew is
    /// possible.
    Snapshot = 3,
    /// As [`IsolationLevel::Snapshot`], and the outcome is that of running the serializable
    /// transactions one after the other, in an order that agrees with real time; ranges that were
    /// scanned count with the keys that were not there. Commits of other levels count as writes
    /// without reads. [`Transaction::refuse_overwritten_reads`] refuses more.
    Serializable = 4,
}

impl IsolationLevel {
    /// Reads see the moment at which the transaction began.
    const fn has_snapshot(self) -> bool {
        self as u8 >= Self::RepeatableRead as u8
    }

    /// Reads are remembered until the commit.
    const fn tracks_reads(self) -> bool {
        matches!(self, Self::RepeatableRead | Self::Serializable)
    }

    /// Written keys must not have changed since the snapshot.
    const fn checks_writes(self) -> bool {
        self as u8 >= Self::Snapshot as u8
    }
}
