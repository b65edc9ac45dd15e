//! About how many keys lie in a range.

use std::sync::Arc;

use tidesdb_base::entry::{SequenceNumber, is_expired};
use tidesdb_base::error::Result;
use tidesdb_files::filter::key_hash;

use super::estimates::place_between;
use crate::cache::{BlockCache, CachedBlocks};
use crate::core::Core;
use crate::family::{FamilyState, View};
use crate::memtable::{Memtable, kind_of};
use crate::version::{LivenessCount, TableFile, Version};

/// The end of the order of commits.
const NOW: SequenceNumber = SequenceNumber::MAX;

/// Keys from one on and before another; open where there is none.
#[derive(Clone, Copy, Debug)]
struct Range<'a> {
    from: Option<&'a [u8]>,
    to: Option<&'a [u8]>,
}

/// See [`crate::Family::approximate_count`].
///
/// # Errors
/// `Corruption` or `Io` when a table can't be opened.
pub(crate) fn approximate_count(
    core: &Core,
    family: &FamilyState,
    from: Option<&[u8]>,
    to: Option<&[u8]>,
) -> Result<u64> {
    let (view, range) = (family.view.load(), Range { from, to });
    if let (Some(from), Some(to)) = (from, to)
        && from >= to
    {
        return Ok(0);
    }
    let now = core.env.clock.unix_seconds();
    let mut versions = 0.0;
    for table in view.version.tables().filter(|table| table.overlaps(from, to)) {
        versions += table.record.entries as f64 * share_of(table, range)?;
    }
    let in_tables = (versions * live_share(&view.version, now)).round() as i64;
    let in_memory = change_by_memtables(&core.storage.files.blocks, &view, range, now)?;
    Ok(u64::try_from(in_tables + in_memory).unwrap_or(0))
}

/// The part of the versions in tables that are the newest of a key that lives.
fn live_share(version: &Version, now: u64) -> f64 {
    let mut count = LivenessCount::new(version.liveness_rules(&[], now));
    version.runs.iter().for_each(|run| count.add_run(run));
    let liveness = count.liveness(true);
    (liveness.needed as f64 / liveness.versions.max(1) as f64).min(1.0)
}

/// The part of a table's entries that lies in the range: to within a block at each end.
fn share_of(file: &Arc<TableFile>, range: Range<'_>) -> Result<f64> {
    let (smallest, largest) = (&file.record.smallest_key, &file.record.largest_key);
    let from = range.from.filter(|from| *from > smallest.as_slice());
    let to = range.to.filter(|to| *to <= largest.as_slice());
    if from.is_none() && to.is_none() {
        return Ok(1.0);
    }
    let open = file.table()?;
    let Some(table) = open.as_ref() else { return Ok(0.0) };
    let end = [largest.as_slice(), b"\0"].concat();
    let all = table.bytes_before(&end).max(1) as f64;
    let before = from.map_or(0.0, |from| table.bytes_before(from) as f64);
    let through = to.map_or(all, |to| table.bytes_before(to) as f64);
    let share = (through - before) / all;
    if share > 0.0 {
        return Ok(share.min(1.0));
    }
    // Within one block: as if the keys of the table were spread evenly.
    let place = |key: &[u8]| place_between(key, smallest, largest);
    let even = to.map_or(1.0, place) - from.map_or(0.0, place);
    let block = 1.0 / table.block_count().max(1) as f64;
    Ok(even.clamp(0.0, block))
}

/// About how many bytes tables and value logs have of the keys from `start` on and before `end`, if
/// there is one. Tables that a range tombstone covers do not count.
///
/// # Errors
/// `Corruption` or `Io` when a table can't be opened.
pub(crate) fn bytes_between(version: &Version, start: &[u8], end: Option<&[u8]>) -> Result<u64> {
    let range = Range { from: Some(start), to: end };
    let is_gone = |table: &TableFile| version.is_covered_for(&table.record, &[]);
    let mut bytes = 0.0;
    for table in version.tables_between(range.from, range.to).filter(|table| !is_gone(table)) {
        let values: u64 = table.record.value_bytes();
        bytes += table.record.bytes.saturating_add(values) as f64 * share_of(table, range)?;
    }
    Ok(bytes as u64)
}

/// By how many keys the memtables change what is in tables, as the filters of the tables show.
fn change_by_memtables(
    blocks: &Arc<BlockCache>,
    view: &View,
    range: Range<'_>,
    now: u64,
) -> Result<i64> {
    let blocks = CachedBlocks::uncounted(blocks);
    let memtables: Vec<&Arc<Memtable>> =
        std::iter::once(&view.active).chain(&view.frozen).collect();
    let mut change = 0;
    for (at, memtable) in memtables.iter().enumerate() {
        let newer = memtables.get(..at).unwrap_or_default();
        let mut cursor = memtable.cursor();
        match range.from {
            Some(from) => cursor.seek(from),
            None => cursor.seek_to_first(),
        }
        while cursor.valid() && range.to.is_none_or(|to| cursor.key() < to) {
            let key = cursor.key();
            let is_newest = newer.iter().all(|newer| newer.get(key, NOW).is_none());
            if let Some(version) = cursor.versions().next().filter(|_| is_newest) {
                let deleted = kind_of(&version).is_tombstone()
                    || (version.expires_at != 0 && is_expired(version.expires_at, now))
                    || memtables.iter().any(|memtable| memtable.hides(key, version.seq, NOW));
                change += match (deleted, is_in_tables(&view.version, key, &blocks)?) {
                    (false, false) => 1,
                    (true, true) => -1,
                    _ => 0,
                };
            }
            cursor.next();
        }
    }
    Ok(change)
}

/// Whether a table seems to have the key.
fn is_in_tables(version: &Version, key: &[u8], blocks: &CachedBlocks) -> Result<bool> {
    let hash = key_hash(key);
    for file in version.runs.iter().filter_map(|run| run.table_for(key)) {
        let open = file.table()?;
        if let Some(table) = open.as_ref()
            && table.may_contain(hash)
            && table.may_contain_by_parts(hash, blocks)?
        {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use tidesdb_base::options::{DbOptions, FamilyOptions};

    use crate::db::{Components, Db};
    use crate::handles::Family;

    fn key(n: u32) -> Vec<u8> {
        format!("user:{n:08}").into_bytes()
    }

    fn open() -> (Db, Family) {
        let db = Db::open_with("/db", DbOptions::default(), Components::simulated()).unwrap();
        let options =
            FamilyOptions::default().l1_file_count_trigger(100).max_space_amplification(100.0);
        let family = db.create_family("f", options).unwrap();
        (db, family)
    }

    fn write(family: &Family, keys: impl Iterator<Item = u32>) {
        keys.for_each(|n| family.put(&key(n), b"some value of a few bytes").unwrap());
    }

    #[test]
    fn keys_written_once_are_counted_to_within_two_blocks() {
        let (_db, family) = open();
        assert_eq!(family.approximate_count(..).unwrap(), 0);
        write(&family, 0..20_000);
        assert_eq!(family.approximate_count(..).unwrap(), 20_000, "in memory");
        assert_eq!(family.approximate_count(key(10)..key(500)).unwrap(), 490, "in memory");
        family.flush().unwrap();
        assert_eq!(family.approximate_count(..).unwrap(), 20_000);
        // A block has 4096 bytes, an entry at least 25.
        let two_blocks = 2 * 4096 / 25;
        for (from, to) in [(0, 20_000), (0, 1), (5000, 5001), (100, 19_000), (19_990, 30_000)] {
            let truth = i64::from(to.min(20_000) - from);
            let reported = family.approximate_count(key(from)..key(to)).unwrap() as i64;
            assert!(
                (reported - truth).abs() <= two_blocks,
                "{from} to {to}: {reported} for {truth}"
            );
        }
        assert_eq!(family.approximate_count(key(7)..key(7)).unwrap(), 0);
        assert_eq!(family.approximate_count("v".."w").unwrap(), 0);
    }

    #[test]
    fn overwritten_and_deleted_keys_are_counted_to_within_a_fifth() {
        let (_db, family) = open();
        for _ in 0..4 {
            write(&family, 0..10_000);
            family.flush().unwrap();
        }
        (5000..10_000).for_each(|n| family.delete(&key(n)).unwrap());
        // In memory the filters of the tables show them.
        let near = |reported: u64, truth: f64| {
            let error = (reported as f64 - truth).abs() / truth;
            assert!(error < 0.2, "{reported} for {truth}");
        };
        near(family.approximate_count(..).unwrap(), 5000.0);
        family.flush().unwrap();
        near(family.approximate_count(..).unwrap(), 5000.0);
        // What is overwritten in memory is not counted twice.
        write(&family, 0..5000);
        near(family.approximate_count(..).unwrap(), 5000.0);
        family.compact().unwrap();
        assert_eq!(family.approximate_count(..).unwrap(), 5000);
    }
}
