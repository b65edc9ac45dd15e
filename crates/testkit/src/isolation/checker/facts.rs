//! What can be said of each read by itself, and the history in a form that the rest can use:
//! keys and transactions as indices, versions of each key in commit order, reads of committed
//! versions with own writes taken out.

use std::collections::{BTreeMap, HashMap};

use super::super::history::{History, Operation, Outcome, Span, Transaction};
use super::super::store::{Key, KeyRange};
use super::views::Windows;
use super::{Phenomenon, Report, cast};

/// A committed version of a key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Version {
    /// Commit number.
    pub(super) commit: u64,
    /// The transaction that wrote it.
    pub(super) writer: usize,
    /// The number in its value.
    pub(super) number: u64,
    /// Whether it is a deletion.
    pub(super) deletion: bool,
}

/// A read of a key by something else than its own write.
#[derive(Clone, Copy, Debug)]
pub(super) struct ItemRead {
    pub(super) transaction: usize,
    /// Which statement of all.
    pub(super) statement: usize,
    pub(super) key: usize,
    /// Number of the version; 0 when the key was absent.
    pub(super) version: u64,
    /// Whether it was read as part of a range.
    pub(super) ranged: bool,
    /// Whether the store was asked to remember it.
    pub(super) tracked: bool,
}

/// A read whose place among the versions of its key is known: the version at `latest` (0 is the
/// state before all) or one not before `earliest` that looks the same.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlacedRead {
    pub(super) read: ItemRead,
    pub(super) earliest: usize,
    pub(super) latest: usize,
}

/// A get or scan.
#[derive(Clone, Copy, Debug)]
pub(super) struct Statement {
    pub(super) transaction: usize,
    pub(super) span: Span,
    pub(super) is_scan: bool,
}

/// Where a version number comes from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    pub(super) key: Key,
    pub(super) writer: usize,
    /// Undone by a roll back to a savepoint.
    undone: bool,
    /// Overwritten by its own transaction.
    overwritten: bool,
}

/// The history, prepared.
#[derive(Debug)]
pub(super) struct Facts<'a> {
    pub(super) history: &'a History,
    pub(super) keys: Vec<Key>,
    /// Of each key, its committed versions in commit order.
    pub(super) versions: Vec<Vec<Version>>,
    pub(super) origins: HashMap<u64, Origin>,
    /// Of each transaction, the keys that it has written at its end.
    pub(super) writes: Vec<Vec<usize>>,
    pub(super) statements: Vec<Statement>,
    pub(super) reads: Vec<ItemRead>,
    /// Keys with a version whose commit number is not known.
    pub(super) uncertain: Vec<bool>,
}

/// The writes of a transaction while its operations are followed.
#[derive(Default)]
struct OwnWrites {
    /// Newest last: key, version, deletion.
    written: Vec<(Key, u64, bool)>,
    savepoints: Vec<(u8, usize)>,
    undone: Vec<u64>,
}

impl OwnWrites {
    fn newest(&self, key: Key) -> Option<(u64, bool)> {
        let mut newest_first = self.written.iter().rev();
        newest_first.find(|(k, ..)| *k == key).map(|(_, version, deletion)| (*version, *deletion))
    }

    fn follow(&mut self, operation: &Operation) {
        match operation {
            Operation::Write { key, version, deletion, .. } => {
                self.written.push((*key, *version, *deletion));
            }
            Operation::Savepoint(name) => {
                let at = self.written.len();
                match self.savepoints.iter_mut().find(|(known, _)| known == name) {
                    Some((_, mark)) => *mark = at,
                    None => self.savepoints.push((*name, at)),
                }
            }
            Operation::RollbackTo(name) => {
                let known = self.savepoints.iter().position(|(known, _)| known == name);
                let Some(at) = known else { return };
                let mark = self.savepoints[at].1.min(self.written.len());
                self.savepoints.truncate(at);
                self.undone.extend(self.written.drain(mark..).map(|(_, version, _)| version));
            }
            Operation::Read { .. } | Operation::Scan { .. } => {}
        }
    }
}

impl<'a> Facts<'a> {
    /// Prepares a history and reports what is wrong with single reads.
    pub(super) fn gather(history: &'a History, report: &mut Report) -> Self {
        let keys = all_keys(history);
        let mut facts = Self {
            history,
            versions: vec![Vec::new(); keys.len()],
            uncertain: vec![false; keys.len()],
            keys,
            origins: HashMap::new(),
            writes: Vec::with_capacity(history.transactions.len()),
            statements: Vec::new(),
            reads: Vec::new(),
        };
        for (at, transaction) in history.transactions.iter().enumerate() {
            facts.add_writes(at, transaction);
        }
        facts.versions.iter_mut().for_each(|of_key| of_key.sort_by_key(|v| v.commit));
        for (at, transaction) in history.transactions.iter().enumerate() {
            facts.add_reads(at, transaction, report);
        }
        facts
    }

    pub(super) fn transaction(&self, at: usize) -> &'a Transaction {
        &self.history.transactions[at]
    }

    pub(super) fn key_index(&self, key: Key) -> usize {
        self.keys.partition_point(|known| *known < key)
    }

    fn add_writes(&mut self, at: usize, transaction: &Transaction) {
        let mut own = OwnWrites::default();
        transaction.operations.iter().for_each(|operation| own.follow(operation));
        for operation in &transaction.operations {
            let Operation::Write { key, version, .. } = operation else { continue };
            let undone = own.undone.contains(version);
            let overwritten = own.newest(*key).is_none_or(|(newest, _)| newest != *version);
            self.origins.insert(*version, Origin { key: *key, writer: at, undone, overwritten });
        }
        let mut final_writes = BTreeMap::new();
        for (key, version, deletion) in &own.written {
            final_writes.insert(*key, (*version, *deletion));
        }
        let mut written = Vec::with_capacity(final_writes.len());
        for (key, (number, deletion)) in final_writes {
            let index = self.key_index(key);
            written.push(index);
            match transaction.outcome {
                Outcome::Committed(Some(commit)) => {
                    self.versions[index].push(Version { commit, writer: at, number, deletion });
                }
                Outcome::Committed(None) | Outcome::Unknown => self.uncertain[index] = true,
                Outcome::Aborted => {}
            }
        }
        self.writes.push(written);
    }

    fn add_reads(&mut self, at: usize, transaction: &Transaction, report: &mut Report) {
        let mut own = OwnWrites::default();
        for operation in &transaction.operations {
            match operation {
                Operation::Read { key, seen, tracked, span } => {
                    self.statements.push(Statement {
                        transaction: at,
                        span: *span,
                        is_scan: false,
                    });
                    let version = seen.last().copied().unwrap_or(0);
                    let read = (*key, version, false, *tracked);
                    self.add_read(at, read, &own, report);
                }
                Operation::Scan { range, forward, found, span } => {
                    self.statements.push(Statement { transaction: at, span: *span, is_scan: true });
                    self.check_shape(at, (*range, *forward), found, report);
                    self.add_scan(at, *range, found, (&own, report));
                }
                _ => own.follow(operation),
            }
        }
    }

    fn add_scan(
        &mut self,
        at: usize,
        range: KeyRange,
        found: &[(u16, u64)],
        (own, report): (&OwnWrites, &mut Report),
    ) {
        let first = self.key_index(Key { family: range.family, number: range.from });
        for index in first..self.keys.len() {
            let key = self.keys[index];
            if !range.contains(key) {
                break;
            }
            let seen = found.iter().find(|(number, _)| *number == key.number);
            let version = seen.map_or(0, |(_, version)| *version);
            self.add_read(at, (key, version, true, true), own, report);
        }
    }

    fn check_shape(
        &self,
        at: usize,
        (range, forward): (KeyRange, bool),
        found: &[(u16, u64)],
        report: &mut Report,
    ) {
        let ordered = found.windows(2).all(|pair| (pair[0].0 < pair[1].0) == forward)
            && found.windows(2).all(|pair| pair[0].0 != pair[1].0);
        let inside = found.iter().all(|(number, _)| (range.from..range.to).contains(number));
        if !ordered || !inside {
            report.add(Phenomenon::BadScan, || {
                format!("out of order or out of bounds: {found:?}{}", cast(self.history, &[at]))
            });
        }
    }

    /// A read of `(key, version, ranged, tracked)`.
    fn add_read(
        &mut self,
        at: usize,
        (key, version, ranged, tracked): (Key, u64, bool, bool),
        own: &OwnWrites,
        report: &mut Report,
    ) {
        if let Some((written, deletion)) = own.newest(key) {
            let expected = if deletion { 0 } else { written };
            if version != expected {
                report.add(Phenomenon::OwnWrites, || {
                    let members = cast(self.history, &[at]);
                    format!("T{at} wrote v{written} to {key} and then saw v{version}{members}")
                });
            }
            return;
        }
        let statement = self.statements.len() - 1;
        if version != 0 && !self.is_sound(at, statement, (key, version), report) {
            return;
        }
        let key = self.key_index(key);
        let transaction = at;
        self.reads.push(ItemRead { transaction, statement, key, version, ranged, tracked });
    }

    /// Whether a version could be read at all; reports it otherwise.
    fn is_sound(
        &self,
        at: usize,
        statement: usize,
        (key, version): (Key, u64),
        report: &mut Report,
    ) -> bool {
        let saw = format!("T{at} saw v{version} of {key}");
        let origin = self.origins.get(&version).filter(|origin| origin.key == key);
        let Some(origin) = origin else {
            report.add(Phenomenon::UnknownValue, || {
                format!("{saw}, which nobody wrote there{}", cast(self.history, &[at]))
            });
            return false;
        };
        let writer = origin.writer;
        let members = || cast(self.history, &[at, writer]);
        let source = self.transaction(writer);
        if source.outcome == Outcome::Aborted || origin.undone {
            let why = if origin.undone { "undone by a savepoint of" } else { "of the aborted" };
            report.add(Phenomenon::AbortedRead, || format!("{saw}, {why} T{writer}{}", members()));
            return false;
        }
        if origin.overwritten {
            report.add(Phenomenon::IntermediateRead, || {
                format!("{saw}, which T{writer} has overwritten itself{}", members())
            });
            return false;
        }
        if source.end.start > self.statements[statement].span.end {
            report.add(Phenomenon::DirtyRead, || {
                format!("{saw} before T{writer} began to commit{}", members())
            });
            return false;
        }
        // A commit of unknown outcome has no number: such a read says nothing about views.
        source.commit_number().is_some()
    }

    /// The place among the versions of a key at which a number stands, counted from 1.
    pub(super) fn place_of(&self, read: &ItemRead) -> Option<usize> {
        let versions = &self.versions[read.key];
        let writer = self.origins.get(&read.version)?.writer;
        let commit = self.transaction(writer).commit_number()?;
        Some(versions.partition_point(|version| version.commit < commit) + 1)
    }

    /// How many versions of a key are visible after the commit `number`.
    pub(super) fn place_at(&self, key: usize, number: u64) -> usize {
        self.versions[key].partition_point(|version| version.commit <= number)
    }

    /// Whether a key is absent at a place.
    pub(super) fn absent_at(&self, key: usize, place: usize) -> bool {
        place == 0 || self.versions[key][place - 1].deletion
    }

    /// All reads with their places; reads of absent keys get theirs from the window of the view.
    pub(super) fn placed_reads(&self, windows: &Windows) -> Vec<PlacedRead> {
        let mut placed = Vec::with_capacity(self.reads.len());
        for read in self.reads.iter().filter(|read| !self.uncertain[read.key]) {
            if read.version != 0 {
                placed.extend(self.place_of(read).map(|place| PlacedRead {
                    read: *read,
                    earliest: place,
                    latest: place,
                }));
            } else if let Some((low, high)) = windows.of(read) {
                let earliest = self.place_at(read.key, low);
                let latest = self.place_at(read.key, high);
                placed.push(PlacedRead { read: *read, earliest, latest });
            }
        }
        placed
    }
}

fn all_keys(history: &History) -> Vec<Key> {
    let mut keys = Vec::new();
    for operation in history.transactions.iter().flat_map(|t| &t.operations) {
        match operation {
            Operation::Read { key, .. } | Operation::Write { key, .. } => keys.push(*key),
            Operation::Scan { range, found, .. } => {
                let family = range.family;
                keys.extend(found.iter().map(|(number, _)| Key { family, number: *number }));
            }
            Operation::Savepoint(_) | Operation::RollbackTo(_) => {}
        }
    }
    keys.sort_unstable();
    keys.dedup();
    keys
}
