//! A table that is held in parts: what gets ask of it and find, and when it is held as a whole.
//!
//! Part of a filter is worth reading for the tables that it spares a get. Where no older table may
//! have the key, it spares the block alone, and that only when the key is not there at all. So the
//! block itself answers a get that comes to the last table, and the filter is not read; it would
//! take the place of others in the block cache, and the oldest run has most of the filters. A table
//! counts how many gets found nothing. When these are many, its filter is read again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tidesdb_base::error::Result;
use tidesdb_files::sstable::{BlockSource, HeldParts, Table};

use super::TableFile;
use crate::cache::{CountsSince, Wanted};

/// Gets of a table that is held in parts after which it is tried to hold it as a whole: reading all
/// of index and filter costs what some hundred reads of parts cost.
const ASKED_BEFORE_WHOLE: u32 = 1024;
/// Where that was tried in vain, it is tried again each time after so many.
const ASKED_BEFORE_NEXT_TRY: u32 = 8192;

/// A get of a key that the table does not have weighs as much as so many of keys that it has:
/// without the filter it costs a part of the index and a block, and with it a part of the filter.
const WEIGHT_OF_ABSENT: u32 = 3;
/// What these weights may add up to; above the half of it the filter is worth reading.
const MOST_ABSENT: u32 = 256;

/// What the filter of a table says of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FilterAnswer {
    /// There is no filter, or it is not worth reading.
    Unasked,
    /// The key may be there.
    Passes,
    /// The key is not there.
    Excludes,
}

/// What gets asked of a table while it was held in parts.
#[derive(Debug, Default)]
pub(super) struct AskedInParts {
    /// Gets that came to the table.
    gets: AtomicU32,
    counts_since: CountsSince,
    /// Rises by [`WEIGHT_OF_ABSENT`] with each get that did not find its key, and falls by one with
    /// each other.
    absent: AtomicU32,
}

impl AskedInParts {
    /// Notes a get; true when it is to be tried to hold the table as a whole.
    fn note_get(&self) -> bool {
        // ORDERING: relaxed; a count.
        let gets = self.gets.fetch_add(1, Ordering::Relaxed) + 1;
        gets == ASKED_BEFORE_WHOLE || gets.is_multiple_of(ASKED_BEFORE_NEXT_TRY)
    }

    /// Whether so many keys are not there that the filter is read for the last table, too.
    fn many_are_absent(&self) -> bool {
        // ORDERING: relaxed; a hint.
        self.absent.load(Ordering::Relaxed) > MOST_ABSENT / 2
    }

    fn note(&self, found: bool) {
        // ORDERING: relaxed; a hint, of which threads may lose a few.
        let before = self.absent.load(Ordering::Relaxed);
        let after = match found {
            true => before.saturating_sub(1),
            false => (before + WEIGHT_OF_ABSENT).min(MOST_ABSENT),
        };
        // Where all gets are alike, nothing is written.
        if before != after {
            self.absent.store(after, Ordering::Relaxed);
        }
    }
}

impl TableFile {
    /// Asks the filter of the open table for a key with this hash. `is_last` says whether no older
    /// table may have the key.
    ///
    /// # Errors
    /// As [`Table::may_contain_by_parts`].
    #[inline]
    pub(crate) fn ask_filter<S: BlockSource>(
        self: &Arc<Self>,
        table: &Table,
        hash: u64,
        is_last: impl FnOnce() -> bool,
        blocks: &S,
    ) -> Result<FilterAnswer> {
        if table.is_in_parts() {
            return self.ask_part(table, hash, is_last(), blocks);
        }
        Ok(match table.has_filter() {
            false => FilterAnswer::Unasked,
            true if table.may_contain(hash) => FilterAnswer::Passes,
            true => FilterAnswer::Excludes,
        })
    }

    #[cold]
    fn ask_part<S: BlockSource>(
        self: &Arc<Self>,
        table: &Table,
        hash: u64,
        is_last: bool,
        blocks: &S,
    ) -> Result<FilterAnswer> {
        if table.held_parts() == HeldParts::Filter {
            return Ok(self.ask_held(table, hash));
        }
        let is_spared = is_last && !self.asked_in_parts.many_are_absent();
        self.asked_in_parts(table, !is_spared);
        if is_spared {
            return Ok(FilterAnswer::Unasked);
        }
        if table.may_contain_by_parts(hash, blocks)? {
            return Ok(FilterAnswer::Passes);
        }
        self.found_in_parts(false);
        Ok(FilterAnswer::Excludes)
    }

    /// As [`TableFile::ask_filter`], of a table of which the filter is held. Only a get that comes
    /// to its index is one that more of the table would help.
    fn ask_held(self: &Arc<Self>, table: &Table, hash: u64) -> FilterAnswer {
        if !table.may_contain(hash) {
            return FilterAnswer::Excludes;
        }
        self.asked_in_parts(table, false);
        if table.has_filter() { FilterAnswer::Passes } else { FilterAnswer::Unasked }
    }

    /// Notes a get of the open table, which is held in parts: of many, more of it is held once
    /// there is room for that.
    pub(crate) fn asked_in_parts(self: &Arc<Self>, table: &Table, needs_filter: bool) {
        let asked = &self.asked_in_parts;
        if !asked.note_get() {
            return;
        }
        let memory = &self.file.context().table_memory;
        let (sizes, held) = (table.sizes(), table.held_parts());
        let wanted = Wanted { sizes, held, needs_filter };
        let room = memory.make_room_for_asked(wanted, self.claim(), &asked.counts_since);
        if room != held {
            // What keeps it from being read is an error of the reads that need it.
            let _ = self.open_as(|_| room);
        }
    }

    /// Notes whether a get found its key in the open table, which is held in parts.
    #[cold]
    pub(crate) fn found_in_parts(&self, found: bool) {
        self.asked_in_parts.note(found);
    }
}

#[cfg(test)]
mod tests {
    use tidesdb_base::options::{DbOptions, FamilyOptions};

    use super::*;
    use crate::cache::{HeldTable, TableMemory};
    use crate::db::{Components, Db};
    use crate::handles::Family;
    use crate::memory::Holder;

    const KEYS: u32 = 6_000;

    fn key(n: u32) -> [u8; 4] {
        n.to_be_bytes()
    }

    /// Blocks read by each of some gets, on average.
    fn read_by_each(family: &Family, keys: impl Iterator<Item = u32>, are_there: bool) -> f64 {
        let before = family.stats().reads.blocks_read;
        let mut gets = 0;
        for n in keys {
            assert_eq!(family.get(&key(n)).unwrap().is_some(), are_there, "{n}");
            gets += 1;
        }
        (family.stats().reads.blocks_read - before) as f64 / f64::from(gets)
    }

    /// A run with the keys that leave 0 when divided by four, and a newer one, over the same range,
    /// with some of those that leave 1.
    #[test]
    fn the_oldest_runs_filter_is_read_only_where_keys_are_absent() {
        let options = DbOptions::default().block_cache_bytes(0);
        let db = Db::open_with("/db", options, Components::simulated()).unwrap();
        let options = FamilyOptions::default().l1_file_count_trigger(1000).block_size(512);
        let family = db.create_family("keys", options).unwrap();
        for step in [4, 400] {
            (0..KEYS).step_by(step).for_each(|n| {
                family.put(&key(n + u32::from(step > 4)), b"value").unwrap();
            });
            family.flush().unwrap();
        }
        // No room for a table as a whole.
        let budget = &db.core().memory.budget;
        budget.take(Holder::Tables, budget.bytes());
        let version = family.state().current_version();
        assert_eq!(version.runs.len(), 2);
        let old = || (4..KEYS).step_by(4).skip(1).take(1000);
        let (new, absent) = ((1..KEYS).step_by(400), || (2..KEYS).step_by(4).take(1000));
        // The newer filter, a part of the older index, and a block.
        let read = read_by_each(&family, old(), true);
        assert!((3.0..3.1).contains(&read), "{read}");
        // The newer run is not the last: its filter is asked.
        let read = read_by_each(&family, new, true);
        assert!((3.0..3.1).contains(&read), "{read}");
        // Where keys are absent both filters are read, and no block but for wrong answers.
        read_by_each(&family, absent(), false);
        let read = read_by_each(&family, absent(), false);
        assert!((2.0..2.1).contains(&read), "{read}");
        // And again as before.
        read_by_each(&family, old(), true);
        let read = read_by_each(&family, old(), true);
        assert!((3.0..3.1).contains(&read), "{read}");
    }

    /// The filters of most tables had no room, and a get read a part of each that it asked.
    #[test]
    fn a_filter_is_held_where_the_index_has_no_room() {
        let options = DbOptions::default().block_cache_bytes(0);
        let db = Db::open_with("/db", options, Components::simulated()).unwrap();
        let options = FamilyOptions::default().l1_file_count_trigger(1000).block_size(128);
        let family = db.create_family("keys", options).unwrap();
        for step in [1, 2] {
            let keys = (0..KEYS).filter(|n| n % 4 < step);
            keys.for_each(|n| family.put(&key(n), &[7; 100]).unwrap());
            family.flush().unwrap();
        }
        let budget = &db.core().memory.budget;
        let version = family.state().current_version();
        let tables: Vec<_> = version.tables().collect();
        assert_eq!(tables.len(), 2);
        // Room for both filters, and not for an index besides.
        budget.take(Holder::Tables, budget.bytes());
        let in_parts = |file: &&Arc<TableFile>| {
            let open = file.table().unwrap();
            let table = open.as_ref().unwrap();
            assert_eq!(table.held_parts(), HeldParts::None);
            table.memory_bytes() as u64 + table.sizes().filter
        };
        let room = tables.iter().map(in_parts).sum::<u64>() + 1024;
        tables.iter().for_each(|file| file.close());
        budget.give_back(Holder::Tables, budget.bytes());
        budget.take(Holder::Tables, TableMemory::share_of(budget.bytes()) - room);
        let absent = || (3..KEYS).step_by(4);
        // The first that is opened finds room for its index. It gives way to the other's filter, at
        // the second try at the latest.
        for _ in 0..=2 * ASKED_BEFORE_NEXT_TRY / KEYS * 4 {
            read_by_each(&family, absent(), false);
        }
        let read = read_by_each(&family, absent(), false);
        assert!(read < 0.2, "{read}");
        let read = read_by_each(&family, (0..KEYS).step_by(4).take(1000), true);
        assert!((2.0..2.1).contains(&read), "{read}");
        let held = |file: &&Arc<TableFile>| file.if_open().as_ref().map(|t| t.held_parts());
        assert!(tables.iter().all(|file| held(file) == Some(HeldParts::Filter)));
        let bytes = budget.table_bytes();
        assert!(bytes <= TableMemory::share_of(budget.bytes()), "{bytes}");
    }

    /// A get meets the runs from the newest on: those that are small are held.
    #[test]
    fn a_small_run_takes_the_place_of_a_large_one() {
        let db = Db::open_with("/db", DbOptions::default(), Components::simulated()).unwrap();
        let options = FamilyOptions::default().l1_file_count_trigger(1000).block_size(512);
        let family = db.create_family("keys", options).unwrap();
        for step in [1, 100] {
            (0..KEYS).step_by(step).for_each(|n| family.put(&key(n), b"value").unwrap());
            family.flush().unwrap();
        }
        let version = family.state().current_version();
        let large = &version.runs[1].tables[0];
        let small = &version.runs[0].tables[0];
        let held = |file: &Arc<TableFile>| file.if_open().as_ref().map(|t| t.held_parts());
        drop(large.table().unwrap());
        // Without the large one, half of it has room.
        let budget = &db.core().memory.budget;
        let share = TableMemory::share_of(budget.bytes());
        budget.take(Holder::Tables, share - budget.table_bytes() / 2);
        assert_eq!(held(large), Some(HeldParts::All));
        for n in (1..KEYS).step_by(2).cycle().take(10_000) {
            assert!(family.get(&key(n)).unwrap().is_some());
        }
        assert_ne!(held(small), Some(HeldParts::None), "asked as often, and much smaller");
        assert_ne!(held(large), Some(HeldParts::All));
        for n in (1..KEYS).step_by(2).cycle().take(20_000) {
            assert!(family.get(&key(n)).unwrap().is_some());
        }
        assert_ne!(held(small), Some(HeldParts::None));
        assert_ne!(held(large), Some(HeldParts::All));
    }
}
