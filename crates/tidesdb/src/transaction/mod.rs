//! Transactions: reads of one snapshot and writes that take effect together, or not at all.
//!
//! A transaction keeps its writes to itself until it commits, so no other reader ever sees
//! uncommitted data, and takes no lock on keys: it is checked when it commits, and the first
//! committer wins. What it reads goes through the read path of `read/` and `iterator/`, under its
//! snapshot and with its own writes as the newest source; what it writes is a [`crate::WriteBatch`]
//! and goes through `write/`, with a last look (`conflicts`) between taking the place in the log
//! and writing. Below repeatable read there is neither snapshot nor look, and nothing shared is
//! written.
//!
//! | file | what |
//! |---|---|
//! | `handle` | the transaction that users hold: its life and its writes |
//! | `reads` | reads of one key and of several |
//! | `scans` | scans |
//! | `savepoints` | savepoints |
//! | `write_set` | its writes in order, with an index by key made when one is looked up |
//! | `read_set` | the keys and ranges it read, as far as its level needs them |
//! | `offset_index` | the hash index of both: exact keys, four bytes an entry |
//! | `conflicts` | what is checked at commit, and when |
//! | `commit` | the commit, from its checks to what follows it |
//! | `memory` | what it takes of the memory budget |
//! | `stats` | statistics |
//!
//! The levels, and the rules of serializable transactions, are in `isolation`. A transaction is
//! used by one thread at a time and may be handed from one to another.

mod commit;
mod conflicts;
mod handle;
mod memory;
mod offset_index;
mod read_set;
mod reads;
mod savepoints;
mod scans;
mod stats;
mod write_set;

#[cfg(test)]
mod tests;

pub use self::handle::Transaction;
pub use self::stats::TransactionStats;
