//! The order of versions from lists alone.
//!
//! A key that is only ever appended to shows its whole history in each value: every list that is
//! read or written must be the beginning of the longest one, every committed append must be in
//! it, and its order is the order of versions. Commit numbers are checked against it.

use super::super::history::Operation;
use super::super::store::Key;
use super::facts::{Facts, PlacedRead, Version};
use super::{Phenomenon, Report, cast};

/// Replaces the order of versions of all keys by the one that lists show, checks commit numbers
/// against it, and places all point reads.
pub(super) fn order(facts: &mut Facts<'_>, report: &mut Report) -> Vec<PlacedRead> {
    let lists = all_lists(facts);
    for key in 0..facts.keys.len() {
        let of_key = lists.iter().filter(|list| list.key == facts.keys[key]);
        let longest = of_key.clone().max_by_key(|list| list.numbers.len());
        let Some(longest) = longest.cloned() else { continue };
        for list in of_key.filter(|list| !longest.numbers.starts_with(&list.numbers)) {
            report.add(Phenomenon::LostUpdate, || {
                let members = cast(facts.history, &[list.seen_by, longest.seen_by]);
                format!(
                    "lists of {} that do not continue each other: {:?} and {:?}{members}",
                    list.key, list.numbers, longest.numbers
                )
            });
        }
        reorder(facts, key, &longest, report);
    }
    let place = |read: &super::facts::ItemRead| {
        let versions = &facts.versions[read.key];
        let place = match read.version {
            0 => 0,
            version => versions.iter().position(|v| v.number == version)? + 1,
        };
        Some(PlacedRead { read: *read, earliest: place, latest: place })
    };
    facts.reads.iter().filter_map(place).collect()
}

/// A list as it was seen or written.
#[derive(Clone)]
struct List {
    key: Key,
    numbers: Vec<u64>,
    seen_by: usize,
}

/// The lists that committed transactions have read from others or written.
fn all_lists(facts: &Facts<'_>) -> Vec<List> {
    let mut lists = Vec::new();
    for (at, transaction) in facts.history.transactions.iter().enumerate() {
        for operation in &transaction.operations {
            let (key, numbers) = match operation {
                Operation::Read { key, seen, .. } if !seen.is_empty() => (*key, seen.clone()),
                Operation::Write { key, before, version, .. } if transaction.is_committed() => {
                    (*key, before.iter().copied().chain([*version]).collect())
                }
                _ => continue,
            };
            // What it has only for itself is judged when it is committed.
            let own = |number: &u64| facts.origins.get(number).is_some_and(|o| o.writer == at);
            if transaction.is_committed() || !numbers.iter().any(own) {
                lists.push(List { key, numbers, seen_by: at });
            }
        }
    }
    lists
}

fn reorder(facts: &mut Facts<'_>, key: usize, longest: &List, report: &mut Report) {
    let history = facts.history;
    let committed = std::mem::take(&mut facts.versions[key]);
    let place = |version: &Version| longest.numbers.iter().position(|n| *n == version.number);
    for lost in committed.iter().filter(|version| place(version).is_none()) {
        report.add(Phenomenon::LostUpdate, || {
            let members = cast(history, &[lost.writer, longest.seen_by]);
            format!("v{} of {} is in no final list{members}", lost.number, longest.key)
        });
    }
    let mut ordered: Vec<_> = committed.into_iter().filter(|v| place(v).is_some()).collect();
    ordered.sort_by_key(|version| place(version));
    for pair in ordered.windows(2).filter(|pair| pair[0].commit >= pair[1].commit) {
        report.add(Phenomenon::CommitOrder, || {
            let (first, second) = (pair[0], pair[1]);
            let members = cast(history, &[first.writer, second.writer]);
            format!(
                "the list of {} has v{} before v{}, the commit numbers say otherwise{members}",
                longest.key, first.number, second.number
            )
        });
    }
    facts.versions[key] = ordered;
}
