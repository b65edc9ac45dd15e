//! The judge of histories.
//!
//! Three kinds of evidence, from the plainest up:
//! * `facts`: each read by itself: values that no transaction wrote, of aborted or unfinished
//!   transactions, overwritten in their own transaction, own writes not seen;
//! * `views`: each statement or snapshot sees the state after one commit, which agrees with real
//!   time; what a level checks at commit has not changed in between;
//! * `graph` and `cycles`: dependencies (write-write, write-read, read-write of keys and of
//!   ranges, real time) have no forbidden cycle; the smallest one is named.
//!
//! The order of versions comes from commit numbers, or from lists alone ([`check_lists`]), which
//! cross-checks the numbers: a store that lies about its order would fool the first.
//!
//! What each level forbids, over all transactions whatever their mix: G0, G1a, G1b, G1c and reads
//! that do not agree with real time at every level; from repeatable read up, reads of more than
//! one state, and a commit after a key that was read and present has changed (repeatable read) or
//! after a key that it writes has changed (snapshot, serializable). Serializability is judged
//! among the serializable transactions; others take part as writes without reads.

mod cycles;
mod facts;
mod graph;
mod lists;
mod views;

use super::history::{History, describe};
use facts::Facts;
use graph::{Graph, Scope};

/// What can be wrong. The names are Adya's where there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phenomenon {
    /// A value that was not written, or was written to another key.
    UnknownValue,
    /// A scan out of order, out of bounds, or with a key twice.
    BadScan,
    /// A transaction does not see its own writes.
    OwnWrites,
    /// Commit numbers contradict real time, lists or each other.
    CommitOrder,
    /// G0: write-write cycle.
    DirtyWrite,
    /// G1a: a value of an aborted transaction, or one that a savepoint undid.
    AbortedRead,
    /// G1b: a value that its own transaction has overwritten.
    IntermediateRead,
    /// G1c: a cycle of write-write and write-read dependencies.
    CircularFlow,
    /// A value whose commit had not begun.
    DirtyRead,
    /// A read that misses a commit that was over, or goes back behind what was seen before.
    StaleRead,
    /// A snapshot that contains a commit that began after it.
    FutureRead,
    /// Reads that should be of one state are not: read skew, G-single.
    ReadSkew,
    /// A commit over a version that the transaction has not seen.
    LostUpdate,
    /// A commit after a key that was read has changed.
    UnrepeatedRead,
    /// G2-item: a cycle with read-write dependencies of keys, none of which is of a range.
    WriteSkew,
    /// G2: the same with ranges.
    Phantom,
    /// An order that exists, but not in real time.
    NotInRealTime,
}

/// One thing that is wrong, in words.
#[derive(Clone, Debug)]
pub struct Finding {
    /// What.
    pub phenomenon: Phenomenon,
    /// With which keys, versions and transactions.
    pub text: String,
}

/// Findings printed in full by [`Report::verdict`].
const SHOWN: usize = 5;

/// What the checker found.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// All that is wrong.
    pub findings: Vec<Finding>,
}

impl Report {
    fn add(&mut self, phenomenon: Phenomenon, text: impl FnOnce() -> String) {
        self.findings.push(Finding { phenomenon, text: text() });
    }

    /// Whether this was found.
    #[must_use]
    pub fn has(&self, phenomenon: Phenomenon) -> bool {
        self.findings.iter().any(|finding| finding.phenomenon == phenomenon)
    }

    /// The findings as an error.
    ///
    /// # Errors
    /// When there is one.
    pub fn verdict(&self) -> crate::Verdict {
        if self.findings.is_empty() {
            return Ok(());
        }
        let mut text = format!("{} findings:", self.findings.len());
        for finding in self.findings.iter().take(SHOWN) {
            text += &format!("\n{:?}: {}", finding.phenomenon, finding.text);
        }
        Err(text)
    }
}

/// Judges a history by commit numbers and real time.
#[must_use]
pub fn check(history: &History) -> Report {
    let mut report = Report::default();
    let facts = Facts::gather(history, &mut report);
    views::check_commit_order(&facts, &mut report);
    let windows = views::check_views(&facts, &mut report);
    views::check_commits(&facts, &windows, &mut report);
    let reads = facts.placed_reads(&windows);
    cycles::check_mixed(&Graph::build(&facts, &reads, Scope::Everyone), &facts, &mut report);
    cycles::check_serializable(
        &Graph::build(&facts, &reads, Scope::Serializable),
        &facts,
        &mut report,
    );
    report
}

/// Judges a history of lists, whose order is taken from their values alone, and the commit
/// numbers by that order. Every key must be a list, and read once after all appends.
#[must_use]
pub fn check_lists(history: &History) -> Report {
    let mut report = Report::default();
    let mut facts = Facts::gather(history, &mut report);
    let reads = lists::order(&mut facts, &mut report);
    cycles::check_mixed(&Graph::build(&facts, &reads, Scope::Everyone), &facts, &mut report);
    cycles::check_serializable(
        &Graph::build(&facts, &reads, Scope::Serializable),
        &facts,
        &mut report,
    );
    report
}

/// Transactions by number, one line each, for findings.
fn cast(history: &History, members: &[usize]) -> String {
    let mut members = members.to_vec();
    members.sort_unstable();
    members.dedup();
    let line = |at: &usize| format!("\n  T{at} {}", describe(&history.transactions[*at]));
    members.iter().map(line).collect()
}

#[cfg(test)]
mod tests;
