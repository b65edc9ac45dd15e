//! Histories written by hand, one for each phenomenon, and for what must not be taken for one.

use super::super::history::{History, Operation, Outcome, Span, Transaction};
use super::super::store::{Key, KeyRange, Level};
use super::{Phenomenon, check, check_lists};

const fn k(number: u16) -> Key {
    Key { family: 0, number }
}

const fn at(start: u64, end: u64) -> Span {
    Span { start, end }
}

/// A serializable transaction that begins and ends at these ticks.
struct Script(Transaction);

impl Script {
    fn new(begin: u64, end: u64) -> Self {
        Self(Transaction {
            level: Level::Serializable,
            session: 0,
            begin: at(begin, begin + 1),
            operations: Vec::new(),
            end: at(end, end + 1),
            outcome: Outcome::Aborted,
        })
    }

    fn level(mut self, level: Level) -> Self {
        self.0.level = level;
        self
    }

    /// Reads a list, empty meaning absent, at a tick.
    fn read(mut self, key: u16, seen: &[u64], tick: u64) -> Self {
        let (key, seen, span) = (k(key), seen.to_vec(), at(tick, tick + 1));
        self.0.operations.push(Operation::Read { key, seen, tracked: true, span });
        self
    }

    fn scan(mut self, to: u16, found: &[(u16, u64)], tick: u64) -> Self {
        let range = KeyRange { family: 0, from: 0, to };
        let (found, span) = (found.to_vec(), at(tick, tick + 1));
        self.0.operations.push(Operation::Scan { range, forward: true, found, span });
        self
    }

    /// Writes a version, behind others when it is a list.
    fn write(mut self, key: u16, version: u64, before: &[u64]) -> Self {
        let before = before.to_vec();
        let key = k(key);
        self.0.operations.push(Operation::Write { key, version, deletion: false, before });
        self
    }

    fn delete(mut self, key: u16, version: u64) -> Self {
        let (key, before) = (k(key), Vec::new());
        self.0.operations.push(Operation::Write { key, version, deletion: true, before });
        self
    }

    fn ends(mut self, outcome: Outcome) -> Transaction {
        self.0.outcome = outcome;
        self.0
    }

    fn commits(self, number: u64) -> Transaction {
        self.ends(Outcome::Committed(Some(number)))
    }

    fn only_read(self) -> Transaction {
        self.ends(Outcome::Committed(None))
    }
}

fn found(transactions: Vec<Transaction>) -> Vec<Phenomenon> {
    let report = check(&History { transactions });
    report.findings.iter().map(|finding| finding.phenomenon).collect()
}

fn found_in_lists(transactions: Vec<Transaction>) -> Vec<Phenomenon> {
    let report = check_lists(&History { transactions });
    report.findings.iter().map(|finding| finding.phenomenon).collect()
}

#[test]
fn transactions_one_after_the_other_are_no_finding() {
    let first = Script::new(0, 10).write(1, 101, &[]).write(2, 102, &[]).commits(1);
    let second = Script::new(20, 30).read(1, &[101], 22).write(1, 103, &[]).commits(2);
    let third = Script::new(40, 50).delete(2, 104).read(1, &[103], 45).commits(3);
    let last = Script::new(60, 70).scan(9, &[(1, 103)], 62).read(2, &[], 65).only_read();
    assert_eq!(found(vec![first, second, third, last]), []);
}

#[test]
fn versions_that_cannot_be_read_are_told_apart() {
    let aborted = Script::new(0, 10).write(1, 101, &[]).ends(Outcome::Aborted);
    let twice = Script::new(0, 10).write(2, 102, &[]).write(2, 103, &[]).commits(1);
    let reader = |key, version| Script::new(20, 30).read(key, &[version], 22).only_read();
    let with = |reader| found(vec![aborted.clone(), twice.clone(), reader]);
    assert_eq!(with(reader(1, 101)), [Phenomenon::AbortedRead]);
    assert_eq!(with(reader(2, 102)), [Phenomenon::IntermediateRead]);
    assert_eq!(with(reader(2, 103)), []);
    assert_eq!(with(reader(3, 103)), [Phenomenon::UnknownValue]);
    assert_eq!(with(reader(2, 999)), [Phenomenon::UnknownValue]);
    let early = Script::new(1, 30).read(2, &[103], 4).level(Level::ReadCommitted).only_read();
    assert_eq!(with(early), [Phenomenon::DirtyRead,]);
}

#[test]
fn reads_of_two_states_are_read_skew() {
    let first = Script::new(0, 10).write(1, 101, &[]).write(2, 102, &[]).commits(1);
    let second = Script::new(12, 20).write(1, 103, &[]).write(2, 104, &[]).commits(2);
    let reader = |level| {
        Script::new(11, 30).level(level).read(1, &[101], 14).read(2, &[104], 25).only_read()
    };
    let with = |reader| found(vec![first.clone(), second.clone(), reader]);
    for level in [Level::RepeatableRead, Level::Snapshot] {
        assert!(with(reader(level)).contains(&Phenomenon::ReadSkew));
    }
    assert_eq!(with(reader(Level::ReadCommitted)), []);
    // One scan is one statement.
    let scan =
        |level| Script::new(11, 30).level(level).scan(9, &[(1, 101), (2, 104)], 14).only_read();
    let mut slow = scan(Level::ReadCommitted);
    if let Operation::Scan { span, .. } = &mut slow.operations[0] {
        span.end = 25;
    }
    assert_eq!(with(slow.clone()), [Phenomenon::ReadSkew]);
    slow.level = Level::ReadUncommitted;
    assert_eq!(with(slow), []);
}

#[test]
fn reads_that_do_not_agree_with_real_time_are_found() {
    let first = Script::new(0, 10).write(1, 101, &[]).commits(1);
    let second = Script::new(12, 20).write(1, 102, &[]).commits(2);
    let with = |reader| found(vec![first.clone(), second.clone(), reader]);
    for level in Level::ALL {
        let stale = Script::new(30, 40).level(level).read(1, &[101], 32).only_read();
        assert!(with(stale).contains(&Phenomenon::StaleRead), "{level:?}");
    }
    let late = Script::new(2, 40).level(Level::Snapshot).read(1, &[102], 32).only_read();
    assert!(with(late).contains(&Phenomenon::FutureRead));
    // What one has seen, another who begins later sees as well.
    let third = Script::new(25, 90).write(1, 103, &[]).commits(3);
    let saw = Script::new(50, 60).level(Level::ReadCommitted).read(1, &[103], 52).only_read();
    let missed = Script::new(70, 80).level(Level::ReadCommitted).read(1, &[102], 72).only_read();
    let mut third = third;
    third.end.start = 40;
    let all = vec![first.clone(), second.clone(), third, saw, missed];
    assert_eq!(found(all), [Phenomenon::StaleRead]);
}

#[test]
fn absent_keys_count_in_views() {
    let there = Script::new(0, 10).write(1, 101, &[]).commits(1);
    let gone = Script::new(12, 20).delete(1, 102).write(2, 103, &[]).commits(2);
    let back = Script::new(22, 30).write(1, 104, &[]).commits(3);
    let with = |reader| found(vec![there.clone(), gone.clone(), back.clone(), reader]);
    let reader = || Script::new(21, 40).level(Level::Snapshot);
    assert_eq!(with(reader().read(1, &[], 32).read(2, &[103], 34).only_read()), []);
    assert_eq!(with(reader().scan(9, &[(2, 103)], 32).only_read()), []);
    let skew = with(reader().scan(9, &[], 32).only_read());
    assert!(skew.contains(&Phenomenon::StaleRead), "{skew:?}");
    let late = Script::new(45, 60).level(Level::Snapshot).read(1, &[], 50).only_read();
    assert_eq!(with(late), [Phenomenon::StaleRead]);
}

#[test]
fn the_first_committer_wins_where_the_level_says_so() {
    let first = Script::new(0, 5).write(1, 101, &[]).commits(1);
    let winner = Script::new(10, 20).write(1, 102, &[]).commits(2);
    let loser = |level| Script::new(10, 30).level(level).write(1, 103, &[]).commits(3);
    let with = |loser| found(vec![first.clone(), winner.clone(), loser]);
    for level in [Level::Snapshot, Level::Serializable] {
        assert_eq!(with(loser(level)), [Phenomenon::LostUpdate]);
    }
    assert_eq!(with(loser(Level::RepeatableRead)), []);
    let read =
        |level| Script::new(10, 30).level(level).read(1, &[101], 12).write(2, 103, &[]).commits(3);
    let unrepeated = with(read(Level::RepeatableRead));
    assert!(unrepeated.contains(&Phenomenon::UnrepeatedRead), "{unrepeated:?}");
    assert_eq!(with(read(Level::Snapshot)), []);
}

#[test]
fn cycles_of_serializable_transactions_are_named() {
    let first = Script::new(0, 5).write(1, 101, &[]).write(2, 102, &[]).commits(1);
    let one = Script::new(10, 30).read(1, &[101], 12).read(2, &[102], 13).write(1, 103, &[]);
    let other = Script::new(10, 30).read(1, &[101], 12).read(2, &[102], 13).write(2, 104, &[]);
    let skew = vec![first.clone(), one.commits(2), other.commits(3)];
    assert_eq!(found(skew.clone()), [Phenomenon::WriteSkew]);
    let snapshot = History { transactions: skew }.judged_as(Level::Snapshot);
    assert!(check(&snapshot).findings.is_empty());

    let one = Script::new(10, 30).scan(5, &[(1, 101), (2, 102)], 12).write(3, 103, &[]);
    let other = Script::new(10, 30).scan(5, &[(1, 101), (2, 102)], 12).write(4, 104, &[]);
    let phantom = vec![first.clone(), one.commits(2), other.commits(3)];
    assert_eq!(found(phantom), [Phenomenon::Phantom]);
    // To delete what was not there is no change of a range, and to put behind that is one.
    let scan = |outcome: fn(Script) -> Transaction| {
        outcome(Script::new(10, 40).scan(5, &[(1, 101), (2, 102)], 12).write(1, 105, &[]))
    };
    let deleter = Script::new(10, 20).read(1, &[101], 12).delete(3, 103).commits(2);
    let writer = Script::new(10, 30).read(1, &[101], 12).write(3, 104, &[]).commits(3);
    let deleted = vec![first.clone(), deleter.clone(), scan(|script| script.commits(3))];
    assert_eq!(found(deleted), []);
    let put = vec![first.clone(), deleter, writer, scan(|script| script.commits(4))];
    assert!(found(put).contains(&Phenomenon::Phantom));

    // The plain commit counts as a write without reads.
    let reader = Script::new(10, 50).read(1, &[101], 12).write(5, 105, &[]).commits(4);
    let plain = Script::new(15, 20).level(Level::ReadCommitted).write(1, 103, &[]).commits(2);
    let relay = Script::new(25, 40).read(1, &[103], 26).read(5, &[], 27).only_read();
    assert_eq!(found(vec![first, reader, plain, relay]), [Phenomenon::WriteSkew]);
}

#[test]
fn a_circular_flow_of_information_is_named() {
    let one = Script::new(0, 10).level(Level::ReadCommitted).write(1, 101, &[]);
    let other = Script::new(0, 10).level(Level::ReadCommitted).write(2, 102, &[]);
    let one = one.read(2, &[102], 11).commits(1);
    let other = other.read(1, &[101], 11).commits(2);
    let found = found(vec![one, other]);
    assert!(found.contains(&Phenomenon::CircularFlow), "{found:?}");
}

#[test]
fn commit_numbers_must_agree_with_real_time() {
    let first = Script::new(0, 5).write(1, 101, &[]).commits(2);
    let second = Script::new(10, 20).write(2, 102, &[]).commits(1);
    let twice = Script::new(10, 20).write(2, 102, &[]).commits(2);
    assert!(found(vec![first.clone(), second]).contains(&Phenomenon::CommitOrder));
    assert!(found(vec![first, twice]).contains(&Phenomenon::CommitOrder));
}

#[test]
fn lists_are_judged_without_commit_numbers() {
    let last = |a: &[u64], b: &[u64]| Script::new(80, 90).read(1, a, 82).read(2, b, 83).only_read();
    let one = |first: &[u64], second: &[u64]| {
        Script::new(0, 10).write(1, 101, first).write(2, 102, second).commits(1)
    };
    let two = |first: &[u64], second: &[u64]| {
        Script::new(0, 10).write(1, 201, first).write(2, 202, second).commits(2)
    };
    let right = vec![one(&[], &[]), two(&[101], &[102]), last(&[101, 201], &[102, 202])];
    assert_eq!(found_in_lists(right), []);
    let crossed = vec![one(&[], &[202]), two(&[101], &[]), last(&[101, 201], &[202, 102])];
    let found = found_in_lists(crossed);
    assert!(found.contains(&Phenomenon::DirtyWrite), "{found:?}");
    assert!(found.contains(&Phenomenon::CommitOrder), "{found:?}");
    let lost = vec![one(&[], &[]), two(&[], &[102]), last(&[201], &[102, 202])];
    assert!(found_in_lists(lost).contains(&Phenomenon::LostUpdate));
    let appended = Script::new(0, 10).write(1, 101, &[]).commits(1);
    let stale = Script::new(20, 30).read(1, &[], 22).only_read();
    let all = vec![appended, stale, Script::new(80, 90).read(1, &[101], 82).only_read()];
    assert_eq!(found_in_lists(all), [Phenomenon::NotInRealTime]);
}

#[test]
fn own_writes_must_be_seen_and_what_is_undone_must_not() {
    let blind = Script::new(0, 10).write(1, 101, &[]).read(1, &[], 5).commits(1);
    assert_eq!(found(vec![blind]), [Phenomenon::OwnWrites]);
    let mut undone = Script::new(0, 10).write(1, 101, &[]).commits(1);
    undone.operations.push(Operation::Savepoint(1));
    undone.operations.extend(Script::new(0, 0).write(1, 102, &[]).0.operations);
    undone.operations.push(Operation::RollbackTo(1));
    undone.operations.extend(Script::new(0, 0).read(1, &[101], 6).0.operations);
    let reader = |version| Script::new(20, 30).read(1, &[version], 22).only_read();
    assert_eq!(found(vec![undone.clone(), reader(101)]), []);
    assert_eq!(found(vec![undone, reader(102)]), [Phenomenon::AbortedRead]);
}

#[test]
fn a_commit_of_unknown_outcome_counts_as_either() {
    let first = Script::new(0, 5).write(1, 101, &[]).commits(1);
    let unknown = Script::new(10, 20).write(1, 102, &[]).ends(Outcome::Unknown);
    for seen in [101, 102] {
        let reader = Script::new(30, 40).read(1, &[seen], 32).only_read();
        assert_eq!(found(vec![first.clone(), unknown.clone(), reader]), []);
    }
}

#[test]
fn scans_out_of_order_are_found() {
    let first = Script::new(0, 5).write(1, 101, &[]).write(2, 102, &[]).commits(1);
    let with = |entries: &[(u16, u64)]| {
        found(vec![first.clone(), Script::new(10, 20).scan(9, entries, 12).only_read()])
    };
    assert_eq!(with(&[(1, 101), (2, 102)]), []);
    assert_eq!(with(&[(2, 102), (1, 101)]), [Phenomenon::BadScan]);
    assert_eq!(with(&[(1, 101), (1, 101), (2, 102)]), [Phenomenon::BadScan]);
}
