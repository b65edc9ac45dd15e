//! Conflicts of serializable transactions over ranges, in each order of keys.

use std::sync::Arc;

use tidesdb::{
    Components, Db, DbOptions, ErrorKind, Family, FamilyOptions, IsolationLevel, KeyOrder,
    ScanOptions, Transaction,
};
use tidesdb_sim::{ManualClock, ManualScheduler, SimVfs};

use super::model::{compare_of, orders, registered};

/// Of the keys of [`keys`], those that a scan of these tests reads: 2, 3 and 4.
const SCANNED: std::ops::Range<usize> = 2..5;

/// Seven keys in the order.
fn keys(order: &KeyOrder) -> Vec<Vec<u8>> {
    let numbers = [-300_i64, -1, 0, 1, 255, 256, 70_000];
    let texts = ["a", "Bb", "c", "DD", "e", "ff", "GGg"];
    let mut keys: Vec<Vec<u8>> = match order {
        KeyOrder::Uint64 | KeyOrder::Int64 => numbers.map(|n| n.to_ne_bytes().to_vec()).into(),
        _ => texts.map(|text| text.as_bytes().to_vec()).into(),
    };
    let compare = compare_of(order);
    keys.sort_by(|one, other| compare(one, other));
    keys
}

struct Place {
    db: Db,
    family: Family,
    keys: Vec<Vec<u8>>,
    /// Another family, with the key `k`.
    other: Family,
}

/// A family with every other key: 0, 2, 4 and 6.
fn filled(order: &KeyOrder) -> Place {
    let options = DbOptions::default().key_orders(registered());
    let components = Components {
        vfs: SimVfs::new(1),
        scheduler: Arc::new(ManualScheduler::new(1)),
        clock: Arc::new(ManualClock::new(1_000_000)),
    };
    let db = Db::open_with("/db", options, components).unwrap();
    let options = FamilyOptions::default().key_order(order.clone());
    let family = db.create_family("f", options).unwrap();
    let other = db.create_family("other", FamilyOptions::default()).unwrap();
    let keys = keys(order);
    for key in keys.iter().step_by(2) {
        family.put(key, b"value").unwrap();
    }
    other.put(b"k", b"value").unwrap();
    db.flush().unwrap();
    Place { db, family, keys, other }
}

impl Place {
    fn begin(&self) -> Transaction {
        self.db.begin(IsolationLevel::Serializable).unwrap()
    }

    /// Reads the keys of [`SCANNED`], in one direction, and says how many there are.
    fn scan(&self, transaction: &Transaction, backwards: bool) -> usize {
        let (from, to) = (&self.keys[SCANNED.start], &self.keys[SCANNED.end]);
        let options = ScanOptions::new().lower(from).upper(to);
        let scan = transaction.scan(&self.family, options).unwrap();
        if backwards { scan.entries_rev().count() } else { scan.entries().count() }
    }

    /// Whether `change` counts as one of what a transaction has scanned. That alone is no conflict:
    /// the transaction has written what a third one had read, which commits last. It saw nothing of
    /// the scanner, the scanner nothing of the change, and the change was there first.
    fn meets(&self, backwards: bool, flushed: bool, change: impl FnOnce(&Family)) -> bool {
        let (mut last, mut scanner) = (self.begin(), self.begin());
        last.get(&self.other, b"k").unwrap();
        self.scan(&scanner, backwards);
        scanner.put(&self.other, b"k", b"of the scanner").unwrap();
        last.put(&self.other, b"of the last", b"").unwrap();
        change(&self.family);
        if flushed {
            self.family.flush().unwrap();
        }
        let committed = scanner.commit().and_then(|_| last.commit()).map_err(|e| e.kind());
        assert!(matches!(committed, Ok(_) | Err(ErrorKind::Conflict)), "{committed:?}");
        committed.is_err()
    }
}

#[test]
fn a_change_within_what_was_scanned_is_a_conflict_in_each_order_and_no_other_is() {
    for order in orders() {
        for (backwards, flushed) in [(false, false), (false, true), (true, false), (true, true)] {
            for at in 0..7 {
                let place = filled(&order);
                let key = place.keys[at].clone();
                // A scan in an order of the application's own reads all keys, and sorts them.
                let is_read = SCANNED.contains(&at) || matches!(order, KeyOrder::Custom(_));
                // Where there is none: a phantom.
                let put = place.meets(backwards, flushed, |f| f.put(&key, b"other").unwrap());
                let what = format!("{order}, key {at}, backwards {backwards}, flushed {flushed}");
                assert_eq!(put, is_read, "{what}: put");
                let deleted = place.meets(backwards, flushed, |f| f.delete(&key).unwrap());
                assert_eq!(deleted, is_read, "{what}: deleted");
            }
        }
    }
}

#[test]
fn a_deleted_range_that_meets_what_was_scanned_is_a_conflict_in_each_order() {
    for order in orders().into_iter().filter(|order| !matches!(order, KeyOrder::Custom(_))) {
        for (from, to) in [(0, 1), (0, 2), (0, 3), (3, 5), (4, 6), (1, 6), (5, 6)] {
            for flushed in [false, true] {
                let place = filled(&order);
                let (start, end) = (place.keys[from].clone(), place.keys[to].clone());
                let meets = place.meets(false, flushed, |family| {
                    family.delete_range(&start, &end).unwrap();
                });
                let overlaps = from < SCANNED.end && to > SCANNED.start;
                assert_eq!(meets, overlaps, "{order}, keys {from} to {to}, flushed {flushed}");
            }
        }
    }
}

/// Each adds a key to what the other has scanned.
#[test]
fn two_scans_that_write_into_each_other_are_not_both_committed_in_any_order() {
    for order in orders() {
        for backwards in [false, true] {
            let place = filled(&order);
            let [mut one, mut other] = [place.begin(), place.begin()];
            assert_eq!(
                (place.scan(&one, backwards), place.scan(&other, backwards)),
                (2, 2),
                "{order}"
            );
            one.put(&place.family, &place.keys[3], b"of one").unwrap();
            other.delete(&place.family, &place.keys[4]).unwrap();
            one.commit().unwrap();
            assert_eq!(other.commit().unwrap_err().kind(), ErrorKind::Conflict, "{order}");
        }
    }
}
