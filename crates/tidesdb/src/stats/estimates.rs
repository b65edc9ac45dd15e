//! Estimates of a family's content, made from what is in memory: no file is read.

use std::sync::Arc;

use tidesdb_base::key_order::KeyOrder;

use crate::family::FamilyState;
use crate::handles::Family;
use crate::version::TableFile;

/// What a page costs that has to be looked at, the unit of [`Family::range_cost`].
const PAGE_BYTES: f64 = 4096.0;
/// What an entry costs besides.
const ENTRY_COST: f64 = 0.01;
/// What going to another table costs.
const TABLE_COST: f64 = 0.5;
/// Pages in memory cost so much less.
const MEMORY_SHARE: f64 = 0.05;

impl Family {
    /// Keys of all memtables and tables, added up: never fewer than the family holds. A key that
    /// lies in several of them counts in each, and so does one whose newest version is a deletion;
    /// [`Family::approximate_count`] estimates the live ones. After [`Family::compact`] the number
    /// is exact, but for keys written since. Looks at no key: the time depends on the number of
    /// tables alone.
    #[must_use]
    pub fn estimated_key_count(&self) -> u64 {
        memtable_keys(self.state()) + table_entries(self.state())
    }

    /// Keys in the family's memtables, deleted ones included. Looks at none of them.
    #[must_use]
    pub fn memtable_keys(&self) -> u64 {
        memtable_keys(self.state())
    }

    /// What reading the keys between two bounds costs, about: a number without a unit, to be
    /// compared with others of the same family, as a query planner does. The bounds may be given in
    /// either order. Nothing is read: open tables know how their keys are spread, and those of
    /// others count as spread evenly.
    #[must_use]
    pub fn range_cost(&self, one: impl AsRef<[u8]>, other: impl AsRef<[u8]>) -> f64 {
        let (one, other) = (one.as_ref(), other.as_ref());
        let order = &self.state().keys.order;
        let (one, other) = (&*order.stored_key(one), &*order.stored_key(other));
        let (from, to) = if one <= other { (one, other) } else { (other, one) };
        let view = self.state().view.load();
        let memtables = std::iter::once(&view.active).chain(&view.frozen);
        let in_memory: f64 =
            memtables.map(|memtable| memtable.used_bytes() as f64 / PAGE_BYTES).sum();
        let in_memory = in_memory * MEMORY_SHARE;
        if let KeyOrder::Custom(_) = order {
            // A scan looks at all keys, wherever it goes.
            let whole = |table: &Arc<TableFile>| {
                table_cost(table, &table.record.smallest_key, &table.record.largest_key)
            };
            return in_memory + view.version.tables().map(whole).sum::<f64>();
        }
        let tables = view.version.runs.iter().flat_map(|run| run.tables_over(from, to));
        in_memory + tables.map(|table| table_cost(table, from, to)).sum::<f64>()
    }
}

pub(crate) fn memtable_keys(family: &FamilyState) -> u64 {
    let view = family.view.load();
    std::iter::once(&view.active).chain(&view.frozen).map(|memtable| memtable.keys()).sum()
}

/// Versions in the family's tables. A flush leaves out versions that nothing can see, so these are
/// the keys of each table unless a snapshot held older versions when it was written.
fn table_entries(family: &FamilyState) -> u64 {
    let view = family.view.load();
    let tables = view.version.runs.iter().flat_map(|run| run.tables.iter());
    tables.map(|table| table.record.entries).sum()
}

/// What the part of a table between two keys costs.
fn table_cost(table: &TableFile, from: &[u8], to: &[u8]) -> f64 {
    let record = &table.record;
    let place = |key| place_between(key, &record.smallest_key, &record.largest_key);
    let even = place(to) - place(from);
    let by_index = || share_by_index(table, from, to, even);
    let least = 1.0 / record.entries.max(1) as f64;
    let share = by_index().unwrap_or(even).max(least);
    let pages = record.bytes as f64 / PAGE_BYTES;
    TABLE_COST + share * (pages + ENTRY_COST * record.entries as f64)
}

/// The share of an open table's bytes that lies between two keys, by what of its index is in
/// memory; `None` if it is not open. `even` is the share if keys are spread evenly. It decides
/// within a piece of the index: it counts as if the table had a piece more that the keys share
/// evenly, so that a part of a range never costs more than all of it.
fn share_by_index(file: &TableFile, from: &[u8], to: &[u8], even: f64) -> Option<f64> {
    let open = file.if_open();
    let table = open.as_ref()?;
    let pieces = table.pieces_in_memory();
    if pieces < 2 {
        return Some(even);
    }
    let end = [file.record.largest_key.as_slice(), b"\0"].concat();
    let to = if to >= file.record.largest_key.as_slice() { &end } else { to };
    let before = |key: &[u8]| table.bytes_before(key) as f64;
    let piece = 1.0 / pieces as f64;
    let share = (before(to) - before(from)) / before(&end).max(1.0);
    Some((share + even * piece) / (1.0 + piece))
}

/// Where a key lies between two others, from 0 to 1, if keys are spread evenly.
pub(super) fn place_between(key: &[u8], smallest: &[u8], largest: &[u8]) -> f64 {
    if key <= smallest {
        return 0.0;
    }
    if key >= largest {
        return 1.0;
    }
    let shared = smallest.iter().zip(largest).take_while(|(one, other)| one == other).count();
    let number = |key: &[u8]| {
        let mut head = [0; 8];
        for (to, from) in head.iter_mut().zip(key.iter().skip(shared)) {
            *to = *from;
        }
        u64::from_be_bytes(head) as f64
    };
    let (low, high) = (number(smallest), number(largest));
    if high > low { ((number(key) - low) / (high - low)).clamp(0.0, 1.0) } else { 0.5 }
}

#[cfg(test)]
mod tests {
    use tidesdb_base::options::{DbOptions, FamilyOptions};

    use super::*;
    use crate::db::{Components, Db};

    #[test]
    fn places_are_in_order_and_within_the_bounds() {
        let (smallest, largest) = (b"user:1000".as_slice(), b"user:9999".as_slice());
        let mut before = 0.0;
        for key in ["a", "user:1000", "user:2", "user:5555", "user:55556", "user:9", "v"] {
            let place = place_between(key.as_bytes(), smallest, largest);
            assert!((before..=1.0).contains(&place), "{key} at {place}");
            before = place;
        }
        assert_eq!(before, 1.0);
        let middle = place_between(b"user:5500", smallest, largest);
        assert!((0.4..0.6).contains(&middle), "{middle}");
    }

    #[test]
    fn keys_are_counted_and_ranges_cost_in_proportion() {
        let db = Db::open_with("/db", DbOptions::default(), Components::simulated()).unwrap();
        let family = db.create_family("f", FamilyOptions::default()).unwrap();
        let key = |n: u32| format!("{n:06}").into_bytes();
        let empty = family.range_cost(b"a", b"b");
        for n in 0..3000 {
            family.put(&key(n), b"a value of some length").unwrap();
            family.put(&key(n), b"another value of some length").unwrap();
        }
        assert_eq!((family.estimated_key_count(), family.memtable_keys()), (3000, 3000));
        family.flush().unwrap();
        assert_eq!((family.estimated_key_count(), family.memtable_keys()), (3000, 0));
        let all = family.range_cost(&key(0), &key(2999));
        let half = family.range_cost(&key(1500), &key(0));
        let one = family.range_cost(&key(7), &key(8));
        let outside = family.range_cost(b"x", b"y");
        assert!(
            all > half && half > one && one > outside && outside >= empty,
            "{all} {half} {one}"
        );
        assert_eq!(half, family.range_cost(&key(0), &key(1500)));
        assert!((0.3..0.7).contains(&(half / all)), "{}", half / all);
        family.put(b"new", b"key").unwrap();
        family.delete(&key(5000)).unwrap();
        assert_eq!((family.estimated_key_count(), family.memtable_keys()), (3002, 2));
    }

    /// Of a small tree nothing is in memory that divides it.
    #[test]
    fn half_of_a_tree_of_one_node_costs_half() {
        let db = Db::open_with("/db", DbOptions::default(), Components::simulated()).unwrap();
        let options = FamilyOptions::default().enable_block_indexes(false);
        let family = db.create_family("f", options).unwrap();
        let key = |n: u32| format!("{n:06}");
        (0..10_000).for_each(|n| family.put(key(n), b"a value of some length").unwrap());
        family.flush().unwrap();
        assert!(family.get(key(7)).unwrap().is_some());
        let all = family.range_cost(key(0), key(9999));
        let half = family.range_cost(key(0), key(5000));
        assert!((0.3..0.7).contains(&(half / all)), "{half} of {all}");
    }

    /// As a column of a table of SQL has them where one row is null: nearly all keys differ only
    /// far behind the bytes in which the smallest and the largest do.
    #[test]
    fn keys_that_are_not_spread_evenly_cost_in_proportion() {
        let db = Db::open_with("/db", DbOptions::default(), Components::simulated()).unwrap();
        // The nodes of a tree are larger than blocks, and their places are all that is in memory.
        for (use_btree, off_by) in [(false, 0.02), (true, 0.2)] {
            let options = FamilyOptions::default().use_btree(use_btree);
            let family = db.create_family(&format!("{use_btree}"), options).unwrap();
            let key = |n: u32| [[1, 0x80, 0, 0].as_slice(), &n.to_be_bytes()].concat();
            family.put([0; 8], b"").unwrap();
            for n in 0..20_000 {
                family.put(&key(n), b"a value of some length").unwrap();
            }
            family.flush().unwrap();
            assert!(family.get(&key(7)).unwrap().is_some());
            let all = family.range_cost([0; 8], &key(19_999));
            let mut before = 0.0;
            for end in (0..20_000).step_by(50) {
                let cost = family.range_cost(&key(0), &key(end));
                assert!(cost >= before, "{end}: {cost} is less than {before}");
                let (share, real) = (cost / all, f64::from(end) / 20_000.0);
                assert!((share - real).abs() < off_by, "{end}: {share} of all is {real}");
                before = cost;
            }
        }
    }
}
