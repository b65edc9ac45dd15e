//! What a transaction's scans hold of its own writes.

use std::sync::Arc;
use std::time::Duration;

use tidesdb_base::options::{DbOptions, FamilyOptions};
use tidesdb_sim::ManualClock;

use crate::db::{Components, Db};
use crate::isolation::IsolationLevel;
use crate::iterator::ScanOptions;

/// The copy of a transaction's writes that its scans go over, as large as the writes, counted
/// nowhere.
#[test]
fn the_writes_that_a_scan_of_a_transaction_shows_count() {
    let db = Db::open_with("/db", DbOptions::default(), Components::simulated()).unwrap();
    let family = db.create_family("family", FamilyOptions::default()).unwrap();
    let transactions = || db.core().memory.budget.held().transactions;
    let before = transactions();
    let mut transaction = db.begin(IsolationLevel::ReadCommitted).unwrap();
    for n in 0..1000_u64 {
        transaction.put(&family, n.to_be_bytes(), [7; 1000]).unwrap();
    }
    let written = transactions();
    assert!(written - before >= 1_000_000, "{written} bytes");
    let mut scans = Vec::new();
    for n in 0..4_u64 {
        scans.push(transaction.scan(&family, ScanOptions::default()).unwrap());
        scans.push(transaction.scan(&family, ScanOptions::default()).unwrap());
        let copies = transactions() - written;
        // They share all but what was written in between.
        let more = n * 32_000;
        assert!((1_000_000 + more / 2..1_200_000 + more).contains(&copies), "{copies} bytes");
        transaction.put(&family, n.to_be_bytes(), [8; 1000]).unwrap();
    }
    transaction.rollback().unwrap();
    drop(transaction);
    assert!(transactions() - before >= 1_000_000, "the scans hold them");
    scans.clear();
    assert_eq!(transactions(), before);
}

/// Of a transaction that gets and puts nothing they counted nowhere.
#[test]
fn the_ranges_that_scans_of_a_transaction_have_read_count() {
    let db = Db::open_with("/db", DbOptions::default(), Components::simulated()).unwrap();
    let family = db.create_family("family", FamilyOptions::default()).unwrap();
    let key = |n: u64| [&n.to_be_bytes()[..], &[7; 10_000]].concat();
    for n in 0..400 {
        family.put(key(n), b"value").unwrap();
    }
    let transactions = || db.core().memory.budget.held().transactions;
    let before = transactions();
    let transaction = db.begin(IsolationLevel::Serializable).unwrap();
    for n in (0..400).step_by(2) {
        let mut scan = transaction.scan(&family, ScanOptions::default()).unwrap();
        scan.seek(key(n)).unwrap();
    }
    let held = transactions() - before;
    assert!((1_900_000..8_000_000).contains(&held), "{held} bytes");
    drop(transaction);
    assert_eq!(transactions(), before);
}

/// It was judged by the time of the snapshot, which is before it was written.
#[test]
fn an_own_write_expires_by_the_time_of_day_too() {
    let clock = Arc::new(ManualClock::new(1000));
    let components = Components { clock: clock.clone(), ..Components::simulated() };
    let db = Db::open_with("/db", DbOptions::default(), components).unwrap();
    let family = db.create_family("family", FamilyOptions::default()).unwrap();
    family.put(b"older", b"value").unwrap();
    for level in [IsolationLevel::ReadCommitted, IsolationLevel::Snapshot] {
        let mut transaction = db.begin(level).unwrap();
        assert!(transaction.get(&family, b"older").unwrap().is_some());
        clock.advance(Duration::from_secs(5));
        let now = db.core().env.clock.unix_seconds();
        transaction.put_expiring_at(&family, b"older", b"past", now - 1).unwrap();
        transaction.put_expiring_at(&family, b"soon", b"value", now + 2).unwrap();
        let keys = |transaction: &crate::Transaction| -> Vec<_> {
            let scan = transaction.scan(&family, ScanOptions::default()).unwrap();
            scan.keys().map(Result::unwrap).collect()
        };
        assert_eq!(transaction.get(&family, b"older").unwrap(), None, "{level:?}");
        assert!(transaction.get(&family, b"soon").unwrap().is_some());
        assert_eq!(keys(&transaction), [b"soon".to_vec()], "{level:?}");
        clock.advance(Duration::from_secs(2));
        assert_eq!(transaction.get(&family, b"soon").unwrap(), None, "{level:?}");
        assert!(keys(&transaction).is_empty(), "{level:?}");
        transaction.rollback().unwrap();
    }
}

/// The index by key counted with the next write only.
#[test]
fn the_index_of_writes_counts_as_soon_as_a_look_up_has_made_it() {
    let db = Db::open_with("/db", DbOptions::default(), Components::simulated()).unwrap();
    let family = db.create_family("family", FamilyOptions::default()).unwrap();
    let transactions = || db.core().memory.budget.held().transactions;
    let before = transactions();
    for way in 0..3 {
        let mut transaction = db.begin(IsolationLevel::Snapshot).unwrap();
        for n in 0..50_000_u64 {
            transaction.put(&family, n.to_be_bytes(), b"").unwrap();
        }
        let written = transactions();
        let key = 7_u64.to_be_bytes();
        match way {
            0 => drop(transaction.get(&family, key).unwrap().unwrap()),
            1 => drop(transaction.multi_get(&family, [key]).unwrap()),
            _ => drop(transaction.scan(&family, ScanOptions::default()).unwrap()),
        }
        // Eight bytes a slot, at most half of them used.
        let index = transactions().saturating_sub(written);
        assert!(index >= 16 * 50_000, "{way}: {index} bytes");
        drop(transaction);
        assert_eq!(transactions(), before);
    }
}
