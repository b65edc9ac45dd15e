//! Giving back the space of what has expired, also of a family that is not written any more.
//!
//! The record of each table says by when how much of it has expired (`ExpiryOctiles`). From that,
//! the time and the oldest live snapshot follow, by pure functions of a version:
//!
//! - *Tables that go unread* ([`expired_tables`]). Everything in them has expired, every snapshot
//!   sees that, and nothing that stays lies below them: an expired version hides older ones until
//!   it goes (I-25).
//! - *Compactions* ([`due_range`]). Expired versions can go only where nothing older lies below, so
//!   what is merged are tables of all runs: those that overlap each other, a *group*, when enough
//!   of the group has expired. Groups that are due and lie side by side are merged at once.
//! - *When to look again* ([`next_look`]), if nothing else has the family looked at before.
//!
//! What a live snapshot may hold does not count as expired until that is gone ([`first_held`]), and
//! a compaction drops all that counts. So what was merged is not due again before more of it has
//! expired (I-59).
//!
//! The time is that of `SteadyClock`, here as in compactions: it never goes back, so what was
//! dropped stays expired while the database is open.

use std::collections::BTreeSet;
use std::sync::Arc;

use tidesdb_base::entry::SequenceNumber;
use tidesdb_files::sstable::ExpiryOctiles;

use super::step_bounds::{StepTable, tables_between};
use crate::output::key_partitions::KeySpan;
use crate::version::{TableFile, Version};

/// What has to be known of a table to see what of it has expired. The simulation of large databases
/// has tables that are nothing but that.
pub(super) trait ExpiringTable: StepTable {
    /// Bytes in value logs that it points at.
    fn value_bytes(&self) -> u64;
    fn expiry(&self) -> &ExpiryOctiles;
    fn highest_sequence(&self) -> SequenceNumber;
    fn is_damaged(&self) -> bool;
}

impl ExpiringTable for Arc<TableFile> {
    fn value_bytes(&self) -> u64 {
        self.record.value_bytes()
    }

    fn expiry(&self) -> &ExpiryOctiles {
        &self.record.expiry
    }

    fn highest_sequence(&self) -> SequenceNumber {
        self.record.highest_sequence
    }

    fn is_damaged(&self) -> bool {
        TableFile::is_damaged(self)
    }
}

/// By what the expiry of a version is judged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExpiryRules {
    /// In Unix seconds.
    pub now: u64,
    /// The oldest live snapshot.
    pub oldest: Option<SequenceNumber>,
    /// The share of the bytes of a group from which it is merged.
    pub share: f64,
}

impl ExpiryRules {
    /// A snapshot may see what an expired version of the table hides, so that compactions keep it;
    /// and a transaction that began before the version must meet it when it commits (I-40).
    fn is_held(&self, table: &impl ExpiringTable) -> bool {
        self.oldest.is_some_and(|oldest| oldest < table.highest_sequence())
    }

    fn has_expired(&self, table: &impl ExpiringTable) -> bool {
        let all = table.expiry().all_expired_at();
        let held = self.is_held(table);
        all.is_some_and(|time| time <= self.now) && !held
    }
}

/// When the first eighth of a table has expired, the first of all tables.
pub(crate) fn first_expiry(version: &Version) -> Option<u64> {
    version.runs.iter().filter_map(|run| run.totals.counts.first_expiry).min()
}

/// Most versions are done with here, without a look at their tables.
fn nothing_expired(version: &Version, rules: &ExpiryRules) -> bool {
    // What compactions do not drop must not be planned for them either.
    first_expiry(version).is_none_or(|first| first > rules.now)
}

/// The tables that can be removed, all at once, without being read.
pub(crate) fn expired_tables(version: &Version, rules: &ExpiryRules) -> Vec<Arc<TableFile>> {
    match nothing_expired(version, rules) {
        true => Vec::new(),
        false => expired_of(&tables(version), rules),
    }
}

/// As [`expired_tables`], of the tables of each run, newest run first.
pub(super) fn expired_of<T: ExpiringTable>(runs: &[&[T]], rules: &ExpiryRules) -> Vec<T> {
    let (mut expired, mut numbers) = (Vec::new(), BTreeSet::new());
    for (at, run) in runs.iter().enumerate().rev() {
        let older = runs.get(at + 1..).unwrap_or_default();
        for table in run.iter().filter(|table| rules.has_expired(*table)) {
            let (smallest, largest) = (table.smallest_key(), table.largest_key());
            let mut below = older.iter().flat_map(|run| tables_between(run, smallest, largest));
            if below.all(|table| numbers.contains(&table.number())) {
                numbers.insert(table.number());
                expired.push(table.clone());
            }
        }
    }
    expired
}

/// The tables of each run.
fn tables(version: &Version) -> Vec<&[Arc<TableFile>]> {
    version.runs.iter().map(|run| &*run.tables).collect()
}

/// Whether a part of the keys can be merged alone: the oldest run has to take the others in, so it
/// must have been merged before.
fn in_parts(version: &Version) -> bool {
    version.runs.last().is_some_and(|oldest| oldest.level > 1)
}

/// The keys of groups that are to be merged, down to the oldest run: the one that is due the
/// longest and its neighbours that are due.
pub(crate) fn due_range(version: &Version, rules: &ExpiryRules) -> Option<KeySpan> {
    match nothing_expired(version, rules) {
        true => None,
        false => due_of(&tables(version), in_parts(version), rules),
    }
}

/// As [`due_range`], of the tables of each run, newest run first.
pub(super) fn due_of<T: ExpiringTable>(
    runs: &[&[T]],
    in_parts: bool,
    rules: &ExpiryRules,
) -> Option<KeySpan> {
    let groups = groups(runs, in_parts);
    let due_at: Vec<_> = groups.iter().map(|group| due_at(group, rules)).collect();
    let is_due = |due_at: &Option<u64>| due_at.is_some_and(|time| time <= rules.now);
    let due = due_at.iter().enumerate().filter(|(_, due_at)| is_due(due_at));
    let (longest, _) = due.min_by_key(|(_, due_at)| **due_at)?;
    let before = due_at.get(..longest)?.iter().rev().take_while(|due_at| is_due(due_at)).count();
    let behind = due_at.get(longest..)?.iter().take_while(|due_at| is_due(due_at)).count();
    let first_key = |at: usize| {
        let table = groups.get(at).and_then(|group| group.first());
        table.filter(|_| at > 0).map(|table| table.smallest_key().to_vec())
    };
    Some(KeySpan { from: first_key(longest - before), until: first_key(longest + behind) })
}

/// When more will have expired than now, so that tables may go or groups be due; a time in the far
/// future when something has and only waits. `None` when nothing ever expires.
pub(crate) fn next_look(version: &Version, rules: &ExpiryRules) -> Option<u64> {
    let first = first_expiry(version)?;
    if first > rules.now {
        return Some(first);
    }
    let groups = groups(&tables(version), in_parts(version));
    let due_at = groups.iter().filter_map(|group| due_at(group, rules));
    let all_at = version.tables().filter_map(|table| table.record.expiry.all_expired_at());
    due_at.chain(all_at).filter(|&time| time > rules.now).min().or(Some(u64::MAX))
}

/// Of the tables that hold something expired which only snapshots keep, the lowest of the sequence
/// numbers through which these must all have gone.
pub(crate) fn first_held(version: &Version, rules: &ExpiryRules) -> Option<SequenceNumber> {
    if rules.oldest.is_none() || nothing_expired(version, rules) {
        return None;
    }
    let expires = |table: &&Arc<TableFile>| {
        let first = table.record.expiry.times().first();
        first.is_some_and(|&time| time <= rules.now) && rules.is_held(*table)
    };
    version.tables().filter(expires).map(|table| table.record.highest_sequence).min()
}

/// The tables of all runs in groups that have no key in common, by key. All are one group while a
/// part of the keys can't be merged alone.
fn groups<'t, T: ExpiringTable>(runs: &[&'t [T]], in_parts: bool) -> Vec<Vec<&'t T>> {
    let mut tables: Vec<&T> = runs.iter().flat_map(|run| run.iter()).collect();
    tables.sort_by(|a, b| a.smallest_key().cmp(b.smallest_key()));
    let mut groups: Vec<Vec<&T>> = Vec::new();
    let mut largest: &[u8] = &[];
    for table in tables {
        match groups.last_mut() {
            Some(group) if !in_parts || table.smallest_key() <= largest => group.push(table),
            _ => groups.push(vec![table]),
        }
        largest = largest.max(table.largest_key());
    }
    groups
}

/// When enough of the group has expired to be worth a compaction; `None` when that never comes, or
/// when it can't be merged.
fn due_at<T: ExpiringTable>(group: &[&T], rules: &ExpiryRules) -> Option<u64> {
    if group.iter().any(|table| table.is_damaged()) {
        return None;
    }
    let bytes = |table: &T| table.bytes() + table.value_bytes();
    let all: u64 = group.iter().map(|table| bytes(table)).sum();
    let counted = group.iter().filter(|table| !rules.is_held(**table));
    let mut eighths: Vec<(u64, u64)> = counted
        .flat_map(|table| table.expiry().times().iter().map(|&time| (time, bytes(table))))
        .collect();
    eighths.sort_unstable();
    let mut expired = 0.0;
    let reached = eighths.into_iter().find(|&(_, bytes)| {
        expired += bytes as f64 / 8.0;
        expired >= all as f64 * rules.share
    });
    reached.map(|(time, _)| time)
}

#[cfg(test)]
mod tests;
