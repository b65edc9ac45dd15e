//! What a thread keeps of its last transaction.

use super::*;

/// A family that was dropped would stay in memory, with all of its memtables.
#[test]
fn a_transaction_that_is_over_keeps_no_family() {
    let (db, families) = open(&SimVfs::new(1), SyncMode::None);
    let count = |family: &Family| Arc::strong_count(family.state());
    let references = || families.iter().map(count).collect::<Vec<_>>();
    let before = references();
    for ends in 0..3 {
        let mut transaction = db.begin(IsolationLevel::ReadCommitted).unwrap();
        families.iter().for_each(|family| transaction.put(family, b"key", b"value").unwrap());
        match ends {
            0 => drop(transaction.commit().unwrap()),
            1 => transaction.rollback().unwrap(),
            _ => {}
        }
        drop(transaction);
        assert_eq!(references(), before, "{ends}");
    }
}

/// The next transaction of the thread has none of its writes, savepoints or families.
#[test]
fn a_transaction_that_is_abandoned_leaves_the_next_one_empty() {
    let (db, families) = open(&SimVfs::new(1), SyncMode::None);
    for is_large in [false, true] {
        let mut abandoned = db.begin(IsolationLevel::ReadCommitted).unwrap();
        abandoned.put(&families[0], b"key", vec![7; if is_large { 5000 } else { 50 }]).unwrap();
        abandoned.savepoint("here").unwrap();
        assert!(abandoned.get(&families[0], b"key").unwrap().is_some());
        drop(abandoned);
        let mut abandoned = db.begin(IsolationLevel::ReadCommitted).unwrap();
        abandoned.put(&families[0], b"key", b"value").unwrap();
        drop(abandoned);
        let mut next = db.begin(IsolationLevel::ReadCommitted).unwrap();
        assert_eq!(next.get(&families[0], b"key").unwrap(), None);
        next.delete(&families[1], b"other").unwrap();
        assert_eq!(next.get(&families[0], b"key").unwrap(), None);
        assert!(!next.has_savepoints());
        next.commit().unwrap();
        assert_eq!(families[0].get(b"key").unwrap(), None);
    }
}
