//! What transactions saw and did, as plain data.
//!
//! Times are ticks of one counter that all sessions share, so that "ended before the other
//! began" is a fact and not a guess about clocks. Versions of keys are named by the number that
//! their value carries. The checker reads nothing else.

use super::store::{Key, KeyRange, Level};

/// From before a call until after it, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Span {
    /// Drawn before the call.
    pub start: u64,
    /// Drawn after it returned.
    pub end: u64,
}

/// One operation of a transaction.
#[derive(Clone, Debug)]
pub enum Operation {
    /// A read of one key.
    Read {
        /// Which key.
        key: Key,
        /// The numbers that the value carried; empty when the key was absent.
        seen: Vec<u64>,
        /// Whether the store was asked to remember it.
        tracked: bool,
        /// When.
        span: Span,
    },
    /// A scan.
    Scan {
        /// What it has looked at: the bounds, cut off where it stopped early.
        range: KeyRange,
        /// Which way.
        forward: bool,
        /// Keys with the versions that it found, in the order in which it found them.
        found: Vec<(u16, u64)>,
        /// When.
        span: Span,
    },
    /// A put or deletion.
    Write {
        /// Which key.
        key: Key,
        /// The number of the new version; deletions have one too, which can't be seen.
        version: u64,
        /// Whether it is a deletion.
        deletion: bool,
        /// What the new value carries before its own number; empty unless it is a list.
        before: Vec<u64>,
    },
    /// A savepoint.
    Savepoint(u8),
    /// A roll back to a savepoint, which forgets it and all later ones.
    RollbackTo(u8),
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Committed; with its place in the order of commits if it wrote something.
    Committed(Option<u64>),
    /// Refused or rolled back.
    Aborted,
    /// The commit failed and may have happened.
    Unknown,
}

/// One transaction.
#[derive(Clone, Debug)]
pub struct Transaction {
    /// Its level.
    pub level: Level,
    /// Who ran it; transactions of one session follow each other.
    pub session: u32,
    /// The call that began it.
    pub begin: Span,
    /// What it did, in order.
    pub operations: Vec<Operation>,
    /// The call that ended it: the last try to commit, or the roll back.
    pub end: Span,
    /// How it ended.
    pub outcome: Outcome,
}

impl Transaction {
    /// Whether it is known to be committed.
    #[must_use]
    pub fn is_committed(&self) -> bool {
        matches!(self.outcome, Outcome::Committed(_))
    }

    /// Its place in the order of commits.
    #[must_use]
    pub fn commit_number(&self) -> Option<u64> {
        match self.outcome {
            Outcome::Committed(number) => number,
            Outcome::Aborted | Outcome::Unknown => None,
        }
    }
}

/// A history.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// The transactions, in any order.
    pub transactions: Vec<Transaction>,
}

impl History {
    /// The same history as if all its transactions had asked for `level`: what the checker then
    /// finds are the phenomena that happened, allowed or not.
    #[must_use]
    pub fn judged_as(&self, level: Level) -> Self {
        let mut other = self.clone();
        other.transactions.iter_mut().for_each(|transaction| transaction.level = level);
        other
    }
}

/// A transaction in short notation, as findings print it.
#[must_use]
pub fn describe(transaction: &Transaction) -> String {
    use std::fmt::Write as _;

    let mut text = format!("session {}, {:?}:", transaction.session, transaction.level);
    for operation in &transaction.operations {
        let written = match operation {
            Operation::Read { key, seen, tracked, .. } => {
                let how = if *tracked { "get" } else { "get_untracked" };
                match seen.last() {
                    Some(version) => write!(text, " {how}({key})=v{version}"),
                    None => write!(text, " {how}({key})=absent"),
                }
            }
            Operation::Scan { range, forward, found, .. } => {
                let way = if *forward { "" } else { " backwards" };
                let found: Vec<_> = found.iter().map(|(k, v)| format!("k{k}=v{v}")).collect();
                let (family, from, to) = (range.family, range.from, range.to);
                write!(text, " scan(f{family}, k{from}..k{to}{way})=[{}]", found.join(" "))
            }
            Operation::Write { key, version, deletion: false, .. } => {
                write!(text, " put({key}, v{version})")
            }
            Operation::Write { key, version, .. } => write!(text, " delete({key}, v{version})"),
            Operation::Savepoint(name) => write!(text, " savepoint({name})"),
            Operation::RollbackTo(name) => write!(text, " rollback_to({name})"),
        };
        debug_assert!(written.is_ok());
    }
    let end = match transaction.outcome {
        Outcome::Committed(Some(number)) => format!(" commit as {number}"),
        Outcome::Committed(None) => " commit".to_owned(),
        Outcome::Aborted => " aborted".to_owned(),
        Outcome::Unknown => " commit of unknown outcome".to_owned(),
    };
    text + &end
}
