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
//! The groups, and when each is due, are found once for a version and the oldest snapshot
//! ([`ExpiryOutlook`]): each look asks for them several times, and there may be very many tables.
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
use crate::family::{ExpiringGroup, ExpiryOutlook, ExpiryOutlooks};
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

/// What is known of the version's tables, whatever the time.
fn outlook(
    known: &ExpiryOutlooks,
    version: &Arc<Version>,
    rules: &ExpiryRules,
) -> Arc<ExpiryOutlook> {
    let make = || outlook_of(&tables(version), in_parts(version), rules);
    known.of(version, rules.oldest, rules.share, make)
}

/// The tables that can be removed, all at once, without being read.
pub(crate) fn expired_tables(
    known: &ExpiryOutlooks,
    version: &Arc<Version>,
    rules: &ExpiryRules,
) -> Vec<Arc<TableFile>> {
    if nothing_expired(version, rules) {
        return Vec::new();
    }
    match outlook(known, version, rules).first_unkept {
        Some(first) if first <= rules.now => expired_of(&tables(version), rules),
        _ => Vec::new(),
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
pub(crate) fn due_range(
    known: &ExpiryOutlooks,
    version: &Arc<Version>,
    rules: &ExpiryRules,
) -> Option<KeySpan> {
    match nothing_expired(version, rules) {
        true => None,
        false => due_of(&tables(version), &outlook(known, version, rules), rules),
    }
}

/// As [`due_range`], of the tables of each run, newest run first.
pub(super) fn due_of<T: ExpiringTable>(
    runs: &[&[T]],
    outlook: &ExpiryOutlook,
    rules: &ExpiryRules,
) -> Option<KeySpan> {
    let groups = &outlook.groups;
    let is_due = |group: &ExpiringGroup| group.due_at.is_some_and(|time| time <= rules.now);
    let due = groups.iter().enumerate().filter(|(_, group)| is_due(group));
    let (longest, _) = due.min_by_key(|(_, group)| group.due_at)?;
    let before = groups.get(..longest)?.iter().rev().take_while(|group| is_due(group)).count();
    let behind = groups.get(longest..)?.iter().take_while(|group| is_due(group)).count();
    let first_key = |at: usize| {
        let (run, table) = groups.get(at).filter(|_| at > 0)?.first;
        Some(runs.get(run)?.get(table)?.smallest_key().to_vec())
    };
    Some(KeySpan { from: first_key(longest - before), until: first_key(longest + behind) })
}

/// When more will have expired than now, so that tables may go or groups be due; a time in the far
/// future when something has and only waits. `None` when nothing ever expires.
pub(crate) fn next_look(
    known: &ExpiryOutlooks,
    version: &Arc<Version>,
    rules: &ExpiryRules,
) -> Option<u64> {
    let first = first_expiry(version)?;
    if first > rules.now {
        return Some(first);
    }
    let outlook = outlook(known, version, rules);
    let due_at = outlook.groups.iter().filter_map(|group| group.due_at);
    let due_at = due_at.filter(|&time| time > rules.now).min();
    let all = &outlook.all_expired;
    let all_at = all.get(all.partition_point(|&time| time <= rules.now)).copied();
    due_at.into_iter().chain(all_at).min().or(Some(u64::MAX))
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

/// What the tables of each run, newest run first, will come to. The time does not matter.
pub(super) fn outlook_of<T: ExpiringTable>(
    runs: &[&[T]],
    in_parts: bool,
    rules: &ExpiryRules,
) -> ExpiryOutlook {
    let tables = || runs.iter().flat_map(|run| run.iter());
    let unkept = tables().filter(|table| !rules.is_held(*table));
    let first_unkept = unkept.filter_map(|table| table.expiry().all_expired_at()).min();
    let all_expired = tables().filter_map(|table| table.expiry().all_expired_at());
    let mut all_expired: Vec<u64> = all_expired.collect();
    all_expired.sort_unstable();
    all_expired.dedup();
    let groups = groups(runs, in_parts).into_iter();
    let groups = groups
        .map(|(first, tables)| ExpiringGroup { first, due_at: due_at(&tables, rules) })
        .collect();
    ExpiryOutlook { groups, all_expired, first_unkept }
}

/// The tables of all runs in groups that have no key in common, by key, each with the run and the
/// place of its first table. All are one group while a part of the keys can't be merged alone.
fn groups<'t, T: ExpiringTable>(
    runs: &[&'t [T]],
    in_parts: bool,
) -> Vec<((usize, usize), Vec<&'t T>)> {
    let placed = runs.iter().enumerate().flat_map(|(run, tables)| {
        tables.iter().enumerate().map(move |(at, table)| ((run, at), table))
    });
    let mut tables: Vec<((usize, usize), &T)> = placed.collect();
    // A stable sort merges what is in order already, and each run is.
    tables.sort_by(|(_, a), (_, b)| a.smallest_key().cmp(b.smallest_key()));
    let mut groups: Vec<((usize, usize), Vec<&T>)> = Vec::new();
    let mut largest: &[u8] = &[];
    for (place, table) in tables {
        match groups.last_mut() {
            Some((_, group)) if !in_parts || table.smallest_key() <= largest => group.push(table),
            _ => groups.push((place, vec![table])),
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
