//! The graph of dependencies between committed transactions.
//!
//! An edge from A to B says that A comes before B in every order in which the transactions could
//! have run one after the other: B overwrote A (ww), B read what A wrote (wr), B overwrote what
//! A has read (rw, of a key or of a range), or A was over before B began (time). The last kind
//! goes through a chain of extra nodes, one per end of a transaction, so that there are few of
//! them. With transactions left out, an edge goes to the nearest version of one that takes part.

use super::super::history::Transaction;
use super::super::store::Level;
use super::facts::{Facts, PlacedRead, Version};

/// Kinds of edges, as bits of a mask.
pub(super) mod kind {
    /// The later one overwrote the earlier one.
    pub(in super::super) const WRITE_WRITE: u8 = 1;
    /// The later one read the earlier one.
    pub(in super::super) const WRITE_READ: u8 = 2;
    /// The later one overwrote what the earlier one read: a key.
    pub(in super::super) const READ_WRITE: u8 = 4;
    /// The same, read as part of a range.
    pub(in super::super) const RANGE_READ_WRITE: u8 = 8;
    /// The earlier one was over before the later one began.
    pub(in super::super) const TIME: u8 = 16;
}

/// Which transactions take part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// All, with the read-write edges that bind a repeatable read, and without real time.
    Everyone,
    /// The serializable ones with all edges, and of the others what they have written.
    Serializable,
}

/// An edge.
#[derive(Clone, Copy, Debug)]
pub(super) struct Edge {
    pub(super) to: usize,
    pub(super) kind: u8,
    /// The key; meaningless for time.
    pub(super) key: usize,
}

/// The graph; nodes are transactions, and behind them the extra nodes of the time chain.
#[derive(Debug)]
pub(super) struct Graph {
    pub(super) edges: Vec<Vec<Edge>>,
    pub(super) transactions: usize,
}

impl Graph {
    /// The graph of a history.
    pub(super) fn build(facts: &Facts<'_>, reads: &[PlacedRead], scope: Scope) -> Self {
        let transactions = facts.history.transactions.len();
        let mut graph = Self { edges: vec![Vec::new(); transactions], transactions };
        let committed = |(at, transaction): (usize, &Transaction)| {
            // What others do counts as writes without reads.
            let serializable = transaction.level == Level::Serializable;
            let counts = scope == Scope::Everyone || serializable || !facts.writes[at].is_empty();
            transaction.is_committed() && counts
        };
        let all = facts.history.transactions.iter().enumerate();
        let takes_part: Vec<bool> = all.map(committed).collect();
        for (key, versions) in facts.versions.iter().enumerate() {
            let writers = versions.iter().map(|version| version.writer);
            let writers: Vec<_> = writers.filter(|writer| takes_part[*writer]).collect();
            for pair in writers.windows(2) {
                graph.add(pair[0], Edge { to: pair[1], kind: kind::WRITE_WRITE, key });
            }
        }
        for placed in reads.iter().filter(|placed| takes_part[placed.read.transaction]) {
            graph.add_read(facts, placed, (scope, &takes_part));
        }
        if scope == Scope::Serializable {
            graph.add_time(facts, &takes_part);
        }
        graph
    }

    fn add(&mut self, from: usize, edge: Edge) {
        if from != edge.to {
            self.edges[from].push(edge);
        }
    }

    fn add_read(
        &mut self,
        facts: &Facts<'_>,
        placed: &PlacedRead,
        (scope, takes_part): (Scope, &[bool]),
    ) {
        let (reader, key) = (placed.read.transaction, placed.read.key);
        let level = facts.transaction(reader).level;
        if scope == Scope::Serializable && level != Level::Serializable {
            return;
        }
        let versions = &facts.versions[key];
        let (before, _) = versions.split_at(placed.earliest.min(versions.len()));
        if let Some(seen) = before.iter().rev().find(|version| takes_part[version.writer]) {
            self.add(seen.writer, Edge { to: reader, kind: kind::WRITE_READ, key });
        }
        let binds = match scope {
            Scope::Serializable => true,
            Scope::Everyone => {
                level == Level::RepeatableRead && placed.read.version != 0 && placed.read.tracked
            }
        };
        // What a transaction asks not to be remembered binds no other transaction.
        if !binds || !placed.read.tracked {
            return;
        }
        // A key that the range has shown is as good as read by itself.
        let phantom = placed.read.ranged && placed.read.version == 0;
        let kind = if phantom { kind::RANGE_READ_WRITE } else { kind::READ_WRITE };
        // To delete what a range has shown to be absent changes nothing of the range.
        let changes =
            |version: &Version| takes_part[version.writer] && !(phantom && version.deletion);
        let after = &versions[placed.latest.min(versions.len())..];
        if let Some(next) = after.iter().find(|version| changes(version)) {
            self.add(reader, Edge { to: next.writer, kind, key });
        }
    }

    fn add_time(&mut self, facts: &Facts<'_>, takes_part: &[bool]) {
        let spans = facts.history.transactions.iter().enumerate();
        let members: Vec<_> = spans.filter(|(at, _)| takes_part[*at]).collect();
        let mut ends: Vec<_> = members.iter().map(|(at, t)| (t.end.end, *at)).collect();
        ends.sort_unstable();
        let first = self.edges.len();
        self.edges.resize(first + ends.len(), Vec::new());
        let time = |to| Edge { to, kind: kind::TIME, key: 0 };
        for (place, (_, at)) in ends.iter().enumerate() {
            self.edges[*at].push(time(first + place));
            if place + 1 < ends.len() {
                self.edges[first + place].push(time(first + place + 1));
            }
        }
        for (at, transaction) in members {
            // Writes without reads begin when their commit does.
            let reads = transaction.level == Level::Serializable;
            let begin = if reads { transaction.begin } else { transaction.end };
            let over = ends.partition_point(|(end, _)| *end < begin.start);
            if over > 0 {
                self.edges[first + over - 1].push(time(at));
            }
        }
    }
}
