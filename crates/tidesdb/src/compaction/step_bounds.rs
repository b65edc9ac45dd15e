//! Where the steps of a compaction end, and which tables a step lets go of. Pure functions of
//! tables.
//!
//! A step merges what all inputs hold of some keys. Tables of newer inputs that reach beyond its
//! end stay as they are until a later step has merged the rest of them; until then their versions
//! lie in the output as well, which they hide with the same versions. The oldest input has the
//! output in it, so none of its tables may lie beside that: one that is cut by an end is written
//! anew as a whole.
//!
//! The simulation of large databases cuts its compactions here as well: it has tables that are
//! nothing but [`StepTable`]s.

use std::collections::BTreeSet;

use crate::output::key_partitions::KeySpan;
use crate::output::slices::LEAST_TABLE_BYTES;

/// What has to be known of a table to cut a compaction into steps.
pub(super) trait StepTable: Clone {
    fn number(&self) -> u64;
    fn bytes(&self) -> u64;
    fn smallest_key(&self) -> &[u8];
    fn largest_key(&self) -> &[u8];
}

/// Tables of a small family are smaller than the options allow, so that a compaction of it can be
/// done in several steps with several tables each.
const TABLES_PER_COMPACTION: u64 = 16;

/// A compaction has about so many steps, within the two bounds below.
const STEPS_PER_COMPACTION: u64 = 8;
/// A step is not smaller than so many tables for each thread.
const LEAST_TABLES_PER_STEP: u64 = 2;
/// A step is not larger than so many tables of the family's usual size: a gigabyte by default.
const MOST_TABLES_PER_STEP: u64 = 16;

/// How large the parts of a compaction are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StepSizes {
    /// Bytes of a table of the output.
    pub table_bytes: u64,
    /// Bytes that a step reads.
    pub step_bytes: u64,
}

impl StepSizes {
    /// For a compaction of so many bytes, where a table may have `most_table_bytes`.
    pub(super) fn of(merged_bytes: u64, most_table_bytes: u64, threads: usize) -> Self {
        let usual_bytes = (merged_bytes / TABLES_PER_COMPACTION).max(LEAST_TABLE_BYTES);
        let table_bytes = most_table_bytes.min(usual_bytes);
        let least = table_bytes * LEAST_TABLES_PER_STEP * threads as u64;
        let most = most_table_bytes.saturating_mul(MOST_TABLES_PER_STEP);
        let step_bytes = (merged_bytes / STEPS_PER_COMPACTION).max(least).min(most);
        Self { table_bytes, step_bytes }
    }
}

/// What a step does.
#[derive(Clone, Debug)]
pub(super) struct Cut<T> {
    /// The keys that it merges.
    pub range: KeySpan,
    /// Tables of each input with keys among them, newest run first.
    pub runs: Vec<Vec<T>>,
    /// What else is written anew of the oldest input.
    pub rests: Vec<KeySpan>,
}

impl<T: StepTable> Cut<T> {
    /// The first step of what is left of a compaction into its oldest input: `runs` are the tables
    /// of each input that may have keys in `range`, newest run first.
    pub(super) fn first(runs: Vec<Vec<T>>, range: KeySpan, step_bytes: u64) -> Self {
        let border = next_border(&runs, &range, step_bytes);
        Self::ending_at(border, runs, range)
    }

    /// As [`Cut::first`], but with as few keys as a step can have.
    pub(super) fn smallest(runs: Vec<Vec<T>>, range: KeySpan) -> Self {
        let border = nearest_border(&runs, &range);
        Self::ending_at(border, runs, range)
    }

    fn ending_at(border: Option<Vec<u8>>, mut runs: Vec<Vec<T>>, mut range: KeySpan) -> Self {
        range.until = border.or(range.until);
        for tables in &mut runs {
            let within = tables_over(tables, &range).len();
            tables.truncate(within);
        }
        let rests = rests(runs.last().map_or(&[], Vec::as_slice), &range);
        Self { range, runs, rests }
    }

    /// What `bytes_of` says of the tables, added up: the parts of them that are merged, and the
    /// rests of those that are cut and have to be written anew as a whole.
    pub(super) fn bytes_by(&self, bytes_of: impl Fn(&T) -> u64) -> (u64, u64) {
        let (mut merged, mut rests) = (0, 0);
        for (at, tables) in self.runs.iter().enumerate() {
            let is_oldest = at + 1 == self.runs.len();
            for table in tables_over(tables, &self.range) {
                let all = bytes_of(table);
                let part = part_within(all, table, &self.range);
                merged += part;
                // What is left of newer tables stays as it is.
                rests += if is_oldest { all - part } else { 0 };
            }
        }
        (merged, rests)
    }
}

/// A step may have this many times the bytes that are wanted, if it ends between tables of the
/// oldest input then.
const MOST_OVER: u64 = 2;

/// A step has this many times the bytes of the tables that reach over its beginning, or more. These
/// are read however soon it ends, and those of the oldest input are written anew as a whole if it
/// ends in them: so it goes on until as much again begins.
const LEAST_OF_REACHING: u64 = 2;

/// The tables that may hold a key of the range.
pub(super) fn tables_over<'a, T: StepTable>(tables: &'a [T], range: &KeySpan) -> &'a [T] {
    let ends_before =
        |from: &Vec<u8>| tables.partition_point(|table| table.largest_key() < from.as_slice());
    let begins_before =
        |until: &Vec<u8>| tables.partition_point(|table| table.smallest_key() < until.as_slice());
    let from = range.from.as_ref().map_or(0, ends_before);
    let until = range.until.as_ref().map_or(tables.len(), begins_before);
    tables.get(from..until).unwrap_or_default()
}

/// The tables that may hold a key from `smallest` to `largest`.
pub(super) fn tables_between<'a, T: StepTable>(
    tables: &'a [T],
    smallest: &[u8],
    largest: &[u8],
) -> &'a [T] {
    let tables = tables.get(tables.partition_point(|table| table.largest_key() < smallest)..);
    let tables = tables.unwrap_or_default();
    let begins = tables.partition_point(|table| table.smallest_key() <= largest);
    tables.get(..begins).unwrap_or_default()
}

/// Whether all keys of the table lie in the range.
pub(super) fn holds(range: &KeySpan, table: &impl StepTable) -> bool {
    let begins = |from: &[u8]| table.smallest_key() >= from;
    range.from.as_deref().is_none_or(begins) && range.is_before_end(table.largest_key())
}

/// About as many bytes as tables of the runs have in the range.
pub(super) fn bytes_within<T: StepTable>(runs: &[Vec<T>], range: &KeySpan) -> u64 {
    let tables = runs.iter().flat_map(|tables| tables_over(tables, range));
    tables.map(|table| part_within(table.bytes(), table, range)).sum()
}

/// About as many of a table's `bytes` as belong to keys in the range.
fn part_within(bytes: u64, table: &impl StepTable, range: &KeySpan) -> u64 {
    if holds(range, table) { bytes } else { bytes / 2 }
}

/// Where a step ends that begins where `range` does and has about `step_bytes`; `None` where the
/// range ends. Between tables of the oldest run if possible, so that none of them is cut. `runs`
/// are given newest first.
///
/// What reaches over the beginning may be more than a step by itself: then the step is a multiple
/// of that (I-237).
fn next_border<T: StepTable>(runs: &[Vec<T>], range: &KeySpan, step_bytes: u64) -> Option<Vec<u8>> {
    let firsts = || runs.iter().filter_map(|tables| tables_over(tables, range).first());
    let lowest = firsts().map(StepTable::smallest_key).min()?;
    let beginning = range.from.as_deref().unwrap_or_default().max(lowest);
    let reaching = firsts().filter(|table| table.smallest_key() <= beginning);
    let mut bytes: u64 = reaching.map(|table| part_within(table.bytes(), table, range)).sum();
    let step_bytes = step_bytes.max(bytes.saturating_mul(LEAST_OF_REACHING));
    let most = step_bytes.saturating_mul(MOST_OVER);
    let mut begins = Vec::new();
    for (at, tables) in runs.iter().enumerate() {
        let mut of_run = 0;
        for table in tables_over(tables, range).iter().skip_while(|t| t.smallest_key() <= beginning)
        {
            begins.push((table.smallest_key(), table.bytes(), at + 1 == runs.len()));
            of_run += table.bytes();
            if of_run > most {
                break;
            }
        }
    }
    begins.sort_unstable();
    let (mut of_oldest, mut anywhere) = (None, None);
    for (key, table_bytes, is_oldest) in begins {
        let fits = bytes <= step_bytes;
        if bytes > most {
            break;
        }
        if fits || anywhere.is_none() {
            anywhere = Some(key);
        }
        if is_oldest && (fits || of_oldest.is_none()) {
            of_oldest = Some(key);
        }
        bytes += table_bytes;
    }
    let border = of_oldest.or(anywhere).filter(|_| bytes > step_bytes);
    border.map(<[u8]>::to_vec)
}

/// The first key at which a step can end that begins where `range` does; `None` where the range
/// ends.
fn nearest_border<T: StepTable>(runs: &[Vec<T>], range: &KeySpan) -> Option<Vec<u8>> {
    let begins =
        || runs.iter().flat_map(|tables| tables_over(tables, range)).map(StepTable::smallest_key);
    let lowest = begins().min()?;
    let is_within = |key: &&[u8]| *key > lowest && range.from.as_deref().is_none_or(|f| *key > f);
    begins().filter(is_within).min().map(<[u8]>::to_vec)
}

/// What has to be written anew beside a step, of tables of the oldest input that reach beyond its
/// ends.
fn rests(oldest: &[impl StepTable], step: &KeySpan) -> Vec<KeySpan> {
    let mut rests = Vec::new();
    for table in tables_over(oldest, step) {
        let (smallest, largest) = (table.smallest_key(), table.largest_key());
        if let Some(from) = step.from.as_ref().filter(|from| smallest < from.as_slice()) {
            rests.push(KeySpan { from: Some(smallest.to_vec()), until: Some(from.clone()) });
        }
        if let Some(until) = step.until.as_ref().filter(|until| largest >= until.as_slice()) {
            let mut past = largest.to_vec();
            past.push(0);
            rests.push(KeySpan { from: Some(until.clone()), until: Some(past) });
        }
    }
    rests
}

/// The tables of newer inputs, newest first, that a compaction lets go of when all of `merged` is
/// merged.
///
/// A table goes when all of it is merged and none stays that is older and may hold a key of it:
/// what the table hides there would show again. So of each key the newest versions stay, or none
/// (I-170).
pub(super) fn released<T: StepTable>(
    newer: &[Vec<T>],
    merged: &KeySpan,
    settled: &BTreeSet<u64>,
) -> Vec<T> {
    let mut released = Vec::new();
    let mut staying: Vec<&T> = Vec::new();
    for tables in newer.iter().rev() {
        let older = staying.len();
        let tables = tables_over(tables, merged).iter();
        for table in tables.filter(|table| !settled.contains(&table.number())) {
            let (smallest, largest) = (table.smallest_key(), table.largest_key());
            let mut below = staying.iter().take(older);
            let hides = below.any(|o| o.smallest_key() <= largest && o.largest_key() >= smallest);
            if holds(merged, table) && !hides {
                released.push(table.clone());
            } else {
                staying.push(table);
            }
        }
    }
    released
}

#[cfg(test)]
mod tests;
