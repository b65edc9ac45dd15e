//! Where the steps of a merge end, and which tables a step lets go of. Pure functions of tables.
//!
//! A step merges what all inputs hold of some keys. Tables of newer inputs that reach beyond its
//! end stay as they are until a later step has merged the rest of them; until then their versions
//! lie in the output as well, which they hide with the same versions. The oldest input has the
//! output in it, so none of its tables may lie beside that: one that is cut by an end is written
//! anew as a whole.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::key_parts::KeyRange;
use crate::version::TableFile;

/// A step may have this many times the bytes that are wanted, if it ends between tables of the
/// oldest input then.
const MOST_OVER: u64 = 2;

/// The tables that may hold a key of the range.
pub(super) fn tables_over<'a>(
    tables: &'a [Arc<TableFile>],
    range: &KeyRange,
) -> &'a [Arc<TableFile>] {
    let ends_before = |from: &Vec<u8>| tables.partition_point(|t| t.record.largest_key < *from);
    let begins_before =
        |until: &Vec<u8>| tables.partition_point(|t| t.record.smallest_key < *until);
    let from = range.from.as_ref().map_or(0, ends_before);
    let until = range.until.as_ref().map_or(tables.len(), begins_before);
    tables.get(from..until).unwrap_or_default()
}

/// Whether all keys of the table lie in the range.
pub(super) fn holds(range: &KeyRange, table: &TableFile) -> bool {
    let begins = |from: &[u8]| table.record.smallest_key.as_slice() >= from;
    range.from.as_deref().is_none_or(begins) && range.is_before_end(&table.record.largest_key)
}

/// About as many bytes as tables of the runs have in the range.
pub(super) fn bytes_within(runs: &[Vec<Arc<TableFile>>], range: &KeyRange) -> u64 {
    let part = |table: &Arc<TableFile>| match holds(range, table) {
        true => table.record.bytes,
        false => table.record.bytes / 2,
    };
    runs.iter().flat_map(|tables| tables_over(tables, range)).map(part).sum()
}

/// Where a step ends that begins where `range` does and has about `step_bytes`; `None` where the
/// range ends. Between tables of the oldest run if possible, so that none of them is cut. `runs`
/// are given newest first.
pub(super) fn next_border(
    runs: &[Vec<Arc<TableFile>>],
    range: &KeyRange,
    step_bytes: u64,
) -> Option<Vec<u8>> {
    let most = step_bytes.saturating_mul(MOST_OVER);
    let (mut bytes, mut begins) = (0, Vec::new());
    for (at, tables) in runs.iter().enumerate() {
        let mut of_run = 0;
        for table in tables_over(tables, range) {
            let key = table.record.smallest_key.as_slice();
            if range.from.as_deref().is_none_or(|from| key > from) {
                begins.push((key, table.record.bytes, at + 1 == runs.len()));
            } else {
                bytes += bytes_within(&[vec![Arc::clone(table)]], range);
            }
            of_run += table.record.bytes;
            if of_run > most {
                break;
            }
        }
    }
    begins.sort_unstable();
    let first = begins.first().filter(|_| bytes == 0).map(|first| first.0);
    let (mut of_oldest, mut anywhere) = (None, None);
    for (key, table_bytes, is_oldest) in begins {
        let fits = bytes <= step_bytes;
        if bytes > most {
            break;
        }
        let ends = first != Some(key);
        if ends && (fits || anywhere.is_none()) {
            anywhere = Some(key);
        }
        if ends && is_oldest && (fits || of_oldest.is_none()) {
            of_oldest = Some(key);
        }
        bytes += table_bytes;
    }
    let border = of_oldest.or(anywhere).filter(|_| bytes > step_bytes);
    border.map(<[u8]>::to_vec)
}

/// What has to be written anew beside a step, of tables of the oldest input that reach beyond its
/// ends.
pub(super) fn rests(oldest: &[Arc<TableFile>], step: &KeyRange) -> Vec<KeyRange> {
    let mut rests = Vec::new();
    for table in tables_over(oldest, step) {
        let record = &table.record;
        if let Some(from) = step.from.as_ref().filter(|from| record.smallest_key < **from) {
            rests.push(KeyRange {
                from: Some(record.smallest_key.clone()),
                until: Some(from.clone()),
            });
        }
        if let Some(until) = step.until.as_ref().filter(|until| record.largest_key >= **until) {
            let mut past = record.largest_key.clone();
            past.push(0);
            rests.push(KeyRange { from: Some(until.clone()), until: Some(past) });
        }
    }
    rests
}

/// The tables of newer inputs, newest first, that a merge lets go of when all of `merged` is
/// merged.
///
/// A table goes when all of it is merged and none stays that is older and may hold a key of it:
/// what the table hides there would show again. So of each key the newest versions stay, or none
/// (I-170).
pub(super) fn released(
    newer: &[Vec<Arc<TableFile>>],
    merged: &KeyRange,
    settled: &BTreeSet<u64>,
) -> Vec<Arc<TableFile>> {
    let mut released = Vec::new();
    let mut staying: Vec<&Arc<TableFile>> = Vec::new();
    for tables in newer.iter().rev() {
        let older = staying.len();
        let tables = tables_over(tables, merged).iter();
        for table in tables.filter(|table| !settled.contains(&table.record.number)) {
            let (smallest, largest) = (&table.record.smallest_key, &table.record.largest_key);
            let mut below = staying.iter().take(older).map(|older| &older.record);
            let hides = below.any(|o| o.smallest_key <= *largest && o.largest_key >= *smallest);
            if holds(merged, table) && !hides {
                released.push(Arc::clone(table));
            } else {
                staying.push(table);
            }
        }
    }
    released
}

#[cfg(test)]
mod tests;
