//! What a transaction says of itself, the positions at which snapshots read, and reads that the
//! commit does not mind.

use tidesdb::{ErrorKind, IsolationLevel, ScanOptions};

use super::common::{LEVELS, place};

#[test]
fn a_transaction_knows_its_level_and_whether_it_has_savepoints() {
    let place = place();
    for level in LEVELS {
        let mut transaction = place.db.begin(level).unwrap();
        assert_eq!(transaction.isolation_level(), level);
        assert!(!transaction.has_savepoints());
        transaction.savepoint("one").unwrap();
        assert!(transaction.has_savepoints());
        transaction.put(&place.family, b"key", b"value").unwrap();
        transaction.savepoint("two").unwrap();
        transaction.rollback_to_savepoint("two").unwrap();
        assert!(transaction.has_savepoints(), "the first is still there");
        transaction.release_savepoint("one").unwrap();
        assert!(!transaction.has_savepoints());
        transaction.savepoint("three").unwrap();
        transaction.commit().unwrap();
        assert_eq!(transaction.isolation_level(), level, "also when it is finished");
        for next in LEVELS {
            transaction.reset(next).unwrap();
            assert_eq!(transaction.isolation_level(), next);
            assert!(!transaction.has_savepoints());
            transaction.rollback().unwrap();
        }
    }
}

#[test]
fn an_untracked_read_lends_the_value_and_conflicts_with_nothing() {
    let place = place();
    let (db, family) = (&place.db, &place.family);
    family.put(b"key", b"value").unwrap();
    for tracked in [false, true] {
        let mut transaction = db.begin(IsolationLevel::RepeatableRead).unwrap();
        let length = match tracked {
            true => transaction.get_with(family, b"key", <[u8]>::len),
            false => transaction.get_untracked_with(family, b"key", <[u8]>::len),
        };
        assert_eq!(length.unwrap(), Some(5));
        let first = |key: &[u8]| transaction.get_untracked_with(family, key, |value| value[0]);
        assert_eq!(first(b"absent").unwrap(), None);
        assert_eq!(first(b"").unwrap_err().kind(), ErrorKind::Invalid);
        transaction.put(family, b"mine", b"own").unwrap();
        let first = |key: &[u8]| transaction.get_untracked_with(family, key, |value| value[0]);
        assert_eq!(first(b"mine").unwrap(), Some(b'o'));
        family.put(b"key", b"value").unwrap();
        family.put(b"absent", b"now").unwrap();
        family.delete(b"absent").unwrap();
        let committed = transaction.commit().map_err(|error| error.kind());
        assert_eq!(committed.err(), tracked.then_some(ErrorKind::Conflict));
    }
}

#[test]
fn positions_of_snapshots_are_those_of_commits_and_listed_while_they_live() {
    let place = place();
    let (db, family) = (&place.db, &place.family);
    let begin = db.sequence();
    assert_eq!(db.live_snapshots(), []);
    family.put(b"key", b"1").unwrap();
    let first = db.sequence();
    assert!(first > begin);
    let one = db.snapshot();
    assert_eq!((one.sequence(), db.sequence()), (first, first), "a snapshot is no commit");
    family.put(b"key", b"2").unwrap();
    let second = db.sequence();
    assert!(second > first);
    let transaction = db.begin(IsolationLevel::Snapshot).unwrap();
    assert_eq!(db.live_snapshots(), [first, second]);
    family.put(b"key", b"3").unwrap();
    let scan = family.scan(ScanOptions::new()).unwrap();
    let copy = one.clone();
    assert_eq!(db.live_snapshots(), [first, second, db.sequence()]);
    drop(one);
    assert_eq!(db.live_snapshots().len(), 3, "its copy reads there");
    assert_eq!(family.get_at(&copy, b"key").unwrap(), Some(b"1".to_vec()));
    assert_eq!(transaction.get(family, b"key").unwrap(), Some(b"2".to_vec()));
    drop(copy);
    assert_eq!(db.live_snapshots(), [second, db.sequence()]);
    drop((transaction, scan));
    assert_eq!(db.live_snapshots(), []);
    assert_eq!(db.sequence(), db.stats().sequence);
}
