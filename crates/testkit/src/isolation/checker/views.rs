//! Whether what is seen is the state after one commit, and the right one.
//!
//! Every statement (or every transaction, at levels with a snapshot) has seen the state after
//! some commit. Each of its reads says which commits that can have been: the version that it saw
//! was there and the next one was not. Their intersection is the window of the view. Real time
//! narrows it: what was over before the view was taken is in it, and what began after is not.
//! A window that is empty is a finding.

use super::super::store::Level;
use super::facts::{Facts, ItemRead};
use super::{Phenomenon, Report, cast};
use crate::isolation::history::Span;

/// The window of each view: the first and the last commit that it can be the state after.
#[derive(Debug)]
pub(super) struct Windows {
    of_statement: Vec<Option<(u64, u64)>>,
    of_transaction: Vec<Option<(u64, u64)>>,
}

impl Windows {
    /// The window of the view that a read belongs to.
    pub(super) fn of(&self, read: &ItemRead) -> Option<(u64, u64)> {
        self.of_statement[read.statement]
    }
}

/// Reads of one state.
struct View<'a> {
    transaction: usize,
    /// When the state was chosen.
    moment: Span,
    reads: &'a [ItemRead],
    /// The statement, unless it is the view of a whole transaction.
    statement: Option<usize>,
}

/// A bound of a window, and the read that it comes from.
type Bound = (u64, Option<ItemRead>);

/// What was known to be visible at which tick, as running maximum, with who knew it.
struct Timeline {
    /// Sorted by tick: tick, greatest commit number so far, transaction.
    known: Vec<(u64, u64, usize)>,
    /// Sorted by tick: start of a commit, least commit number from there on, transaction.
    begun: Vec<(u64, u64, usize)>,
}

impl Timeline {
    fn new(mut known: Vec<(u64, u64, usize)>, mut begun: Vec<(u64, u64, usize)>) -> Self {
        known.sort_unstable();
        let mut greatest = (0, 0);
        for (_, number, who) in &mut known {
            greatest = greatest.max((*number, *who));
            (*number, *who) = greatest;
        }
        begun.sort_unstable();
        let mut least = (u64::MAX, 0);
        for (_, number, who) in begun.iter_mut().rev() {
            least = least.min((*number, *who));
            (*number, *who) = least;
        }
        Self { known, begun }
    }

    /// The least commit that a view taken from `tick` on shows, and who knew.
    fn floor(&self, tick: u64) -> (u64, usize) {
        let before = self.known.partition_point(|(end, ..)| *end < tick);
        before.checked_sub(1).map_or((0, 0), |at| (self.known[at].1, self.known[at].2))
    }

    /// The first commit that a view taken until `tick` cannot show.
    fn ceiling(&self, tick: u64) -> (u64, usize) {
        let after = self.begun.partition_point(|(start, ..)| *start <= tick);
        self.begun.get(after).map_or((u64::MAX, 0), |(_, number, who)| (*number, *who))
    }
}

/// Commit numbers are unique and agree with real time.
pub(super) fn check_commit_order(facts: &Facts<'_>, report: &mut Report) {
    let history = facts.history;
    let numbered = |(at, t): (usize, &crate::isolation::history::Transaction)| {
        t.commit_number().map(|number| (at, t.end, number))
    };
    let commits: Vec<_> = history.transactions.iter().enumerate().filter_map(numbered).collect();
    let mut numbers: Vec<_> = commits.iter().map(|(at, _, number)| (*number, *at)).collect();
    numbers.sort_unstable();
    for pair in numbers.windows(2).filter(|pair| pair[0].0 == pair[1].0) {
        report.add(Phenomenon::CommitOrder, || {
            let members = cast(history, &[pair[0].1, pair[1].1]);
            format!("two commits have the number {}{members}", pair[0].0)
        });
    }
    let known = commits.iter().map(|(at, end, number)| (end.end, *number, *at)).collect();
    let timeline = Timeline::new(known, Vec::new());
    for (at, end, number) in &commits {
        let (floor, earlier) = timeline.floor(end.start);
        if floor > *number {
            report.add(Phenomenon::CommitOrder, || {
                let members = cast(history, &[*at, earlier]);
                format!("T{earlier} committed before T{at} began to, as a later one{members}")
            });
        }
    }
}

/// Every view is a state that there was, at the right time.
pub(super) fn check_views(facts: &Facts<'_>, report: &mut Report) -> Windows {
    let mut windows = Windows {
        of_statement: vec![None; facts.statements.len()],
        of_transaction: vec![None; facts.history.transactions.len()],
    };
    let views = all_views(facts);
    let contents: Vec<_> = views.iter().map(|view| content(facts, view.reads)).collect();
    let timeline = timeline(facts, &views, &contents);
    for (view, (low, high)) in views.iter().zip(contents) {
        if low.0 > high.0 {
            report.add(Phenomenon::ReadSkew, || describe_skew(facts, view, (low, high)));
            continue;
        }
        let (floor, knower) = timeline.floor(view.moment.start);
        let (ceiling, late) = timeline.ceiling(view.moment.end);
        let members = |other| cast(facts.history, &[view.transaction, other]);
        if floor > high.0 {
            report.add(Phenomenon::StaleRead, || {
                let old = explain(facts, high.1, "is gone");
                format!("{old}, but T{knower} made or saw commit {floor} before{}", members(knower))
            });
        } else if ceiling <= low.0 {
            report.add(Phenomenon::FutureRead, || {
                let new = explain(facts, low.1, "is there");
                let too_late = format!("commit {ceiling} of T{late} began after the view");
                format!("{new}, but {too_late}{}", members(late))
            });
        } else {
            let window = Some((low.0.max(floor), high.0.min(ceiling - 1)));
            match view.statement {
                Some(statement) => windows.of_statement[statement] = window,
                None => windows.of_transaction[view.transaction] = window,
            }
        }
    }
    for (at, statement) in facts.statements.iter().enumerate() {
        let window = windows.of_transaction[statement.transaction];
        windows.of_statement[at] = windows.of_statement[at].or(window);
    }
    windows
}

fn all_views<'a>(facts: &'a Facts<'_>) -> Vec<View<'a>> {
    let mut views = Vec::new();
    let mut reads: &[ItemRead] = &facts.reads;
    for (at, transaction) in facts.history.transactions.iter().enumerate() {
        let (own, rest) = reads.split_at(reads.partition_point(|read| read.transaction <= at));
        reads = rest;
        if transaction.level.has_snapshot() {
            let moment = transaction.begin;
            views.push(View { transaction: at, moment, reads: own, statement: None });
            continue;
        }
        for of_statement in own.chunk_by(|a, b| a.statement == b.statement) {
            let number = of_statement[0].statement;
            let statement = &facts.statements[number];
            // The view of an iterator may move while it reads uncommitted.
            let moves = statement.is_scan && transaction.level == Level::ReadUncommitted;
            let size = if moves { 1 } else { of_statement.len() };
            views.extend(of_statement.chunks(size).map(|reads| View {
                transaction: at,
                moment: statement.span,
                reads,
                statement: Some(number),
            }));
        }
    }
    views
}

fn timeline(facts: &Facts<'_>, views: &[View<'_>], contents: &[(Bound, Bound)]) -> Timeline {
    let mut known = Vec::new();
    let mut begun = Vec::new();
    for (at, transaction) in facts.history.transactions.iter().enumerate() {
        if let Some(number) = transaction.commit_number() {
            known.push((transaction.end.end, number, at));
            begun.push((transaction.end.start, number, at));
        }
    }
    for (view, (low, high)) in views.iter().zip(contents) {
        if low.0 <= high.0 {
            known.push((view.moment.end, low.0, view.transaction));
        }
    }
    Timeline::new(known, begun)
}

/// The first and the last commit after which all these reads come out as they did.
fn content(facts: &Facts<'_>, reads: &[ItemRead]) -> (Bound, Bound) {
    // One less than the number that stands for "never".
    let (mut low, mut high): (Bound, Bound) = ((0, None), (u64::MAX - 1, None));
    let certain = || reads.iter().filter(|read| !facts.uncertain[read.key]);
    for read in certain().filter(|read| read.version != 0) {
        let Some(place) = facts.place_of(read) else { continue };
        let versions = &facts.versions[read.key];
        if versions[place - 1].commit > low.0 {
            low = (versions[place - 1].commit, Some(*read));
        }
        if versions.get(place).is_some_and(|next| next.commit - 1 < high.0) {
            high = (versions[place].commit - 1, Some(*read));
        }
    }
    let absent: Vec<_> = certain().filter(|read| read.version == 0).collect();
    // Moving the bound out of the way of one key can put it in the way of another.
    while low.0 <= high.0 {
        let moved = absent.iter().find_map(|read| raise(facts, read, low.0));
        let Some(bound) = moved else { break };
        low = bound;
    }
    while low.0 <= high.0 {
        let moved = absent.iter().find_map(|read| lower(facts, read, high.0));
        let Some(bound) = moved else { break };
        high = bound;
    }
    (low, high)
}

/// The first commit from `low` on after which the key is absent, if that is not `low`.
fn raise(facts: &Facts<'_>, read: &ItemRead, low: u64) -> Option<Bound> {
    let place = facts.place_at(read.key, low);
    if facts.absent_at(read.key, place) {
        return None;
    }
    let later = facts.versions[read.key][place..].iter().find(|version| version.deletion);
    Some((later.map_or(u64::MAX, |version| version.commit), Some(*read)))
}

/// The last commit up to `high` after which the key is absent, if that is not `high`.
fn lower(facts: &Facts<'_>, read: &ItemRead, high: u64) -> Option<Bound> {
    let mut place = facts.place_at(read.key, high);
    if facts.absent_at(read.key, place) {
        return None;
    }
    while !facts.absent_at(read.key, place) {
        place -= 1;
    }
    Some((facts.versions[read.key][place].commit - 1, Some(*read)))
}

fn explain(facts: &Facts<'_>, read: Option<ItemRead>, what: &str) -> String {
    let Some(read) = read else { return "the view".to_owned() };
    let (transaction, key) = (read.transaction, facts.keys[read.key]);
    match read.version {
        0 => format!("T{transaction} saw {key} absent ({what})"),
        version => format!("T{transaction} saw v{version} of {key} ({what})"),
    }
}

fn describe_skew(facts: &Facts<'_>, view: &View<'_>, (low, high): (Bound, Bound)) -> String {
    let new = explain(facts, low.1, "new");
    let old = explain(facts, high.1, "old");
    let mut members = vec![view.transaction];
    for read in [low.1, high.1].into_iter().flatten() {
        let of_key = &facts.versions[read.key];
        let around = |number: u64| facts.place_at(read.key, number);
        let near = around(high.0).saturating_sub(1)..(around(low.0.min(u64::MAX - 1)) + 1);
        members.extend(
            of_key
                .iter()
                .enumerate()
                .filter(|(at, _)| near.contains(at))
                .take(4)
                .map(|(_, version)| version.writer),
        );
    }
    let what = if view.statement.is_some() { "statement" } else { "snapshot" };
    let shown = (low.0, high.0.wrapping_add(1));
    format!(
        "one {what} shows two states: {new} from commit {} on; {old} until commit {}{}",
        shown.0,
        shown.1,
        cast(facts.history, &members)
    )
}

/// What a level promises to have checked at commit has not changed since it was seen.
pub(super) fn check_commits(facts: &Facts<'_>, windows: &Windows, report: &mut Report) {
    for (at, transaction) in facts.history.transactions.iter().enumerate() {
        let first_wins = transaction.level >= Level::Snapshot;
        let Some(commit) = transaction.commit_number().filter(|_| first_wins) else { continue };
        let Some((_, high)) = windows.of_transaction[at] else { continue };
        for key in &facts.writes[at] {
            let between = facts.place_at(*key, high)..facts.place_at(*key, commit - 1);
            let lost = facts.versions[*key].get(between).unwrap_or(&[]);
            let Some(lost) = lost.iter().find(|version| version.writer != at) else { continue };
            report.add(Phenomenon::LostUpdate, || {
                let (key, writer) = (facts.keys[*key], lost.writer);
                let members = cast(facts.history, &[at, writer]);
                format!(
                    "T{at} wrote {key} over T{writer}, which committed after its snapshot{members}"
                )
            });
        }
    }
    for read in facts.reads.iter().filter(|read| read.version != 0 && read.tracked) {
        let reader = facts.transaction(read.transaction);
        if reader.level == Level::RepeatableRead && reader.is_committed() {
            check_unchanged(facts, read, report);
        }
    }
}

/// No version came between a read and the commit of its transaction.
fn check_unchanged(facts: &Facts<'_>, read: &ItemRead, report: &mut Report) {
    let at = read.transaction;
    let reader = facts.transaction(at);
    let next = facts.place_of(read).and_then(|place| facts.versions[read.key].get(place));
    let Some(next) = next.filter(|version| version.writer != at) else { return };
    let before = match reader.commit_number() {
        Some(commit) => next.commit < commit,
        None => facts.transaction(next.writer).end.end < reader.end.start,
    };
    if before {
        let written = facts.writes[at].contains(&read.key);
        let phenomenon = if written { Phenomenon::LostUpdate } else { Phenomenon::UnrepeatedRead };
        report.add(phenomenon, || {
            let (key, writer) = (facts.keys[read.key], next.writer);
            let members = cast(facts.history, &[at, writer]);
            format!("T{at} read {key}, which T{writer} changed before it committed{members}")
        });
    }
}
