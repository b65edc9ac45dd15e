//! Transactions used wrongly, or with something gone from under them.

use super::common::{LEVELS, options, place, small};
use tidesdb::IsolationLevel::{ReadCommitted, Serializable, Snapshot};
use tidesdb::{Db, Error, ErrorKind, ScanOptions, WriteBatch, limits};

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

fn refused<T: std::fmt::Debug>(result: Result<T, Error>, kind: ErrorKind) {
    assert_eq!(result.unwrap_err().kind(), kind);
}

#[test]
fn a_finished_transaction_refuses_everything_but_a_reset() {
    let place = place();
    for level in LEVELS {
        for commit in [true, false] {
            let mut transaction = place.db.begin(level).unwrap();
            transaction.put(&place.family, b"k", b"v").unwrap();
            assert!(transaction.is_active());
            if commit {
                transaction.commit().unwrap();
            } else {
                transaction.rollback().unwrap();
            }
            assert!(!transaction.is_active());
            let family = &place.family;
            refused(transaction.put(family, b"k", b"v"), ErrorKind::Invalid);
            refused(transaction.delete(family, b"k"), ErrorKind::Invalid);
            let ttl = Duration::from_secs(9);
            refused(transaction.put_with_ttl(family, b"k", b"v", ttl), ErrorKind::Invalid);
            refused(transaction.put_expiring_at(family, b"k", b"v", 0), ErrorKind::Invalid);
            refused(transaction.single_delete(family, b"k"), ErrorKind::Invalid);
            refused(transaction.get(family, b"k"), ErrorKind::Invalid);
            refused(transaction.get_with(family, b"k", <[u8]>::len), ErrorKind::Invalid);
            refused(transaction.get_untracked(family, b"k"), ErrorKind::Invalid);
            refused(transaction.contains(family, b"k"), ErrorKind::Invalid);
            refused(transaction.scan(family, ScanOptions::new()), ErrorKind::Invalid);
            refused(transaction.savepoint("s"), ErrorKind::Invalid);
            refused(transaction.rollback_to_savepoint("s"), ErrorKind::Invalid);
            refused(transaction.release_savepoint("s"), ErrorKind::Invalid);
            refused(transaction.commit(), ErrorKind::Invalid);
            refused(transaction.rollback(), ErrorKind::Invalid);
            transaction.reset(level).unwrap();
            refused(transaction.reset(level), ErrorKind::Invalid);
            transaction.put(family, b"k", b"v").unwrap();
            transaction.commit().unwrap();
        }
    }
}

#[test]
fn wrong_arguments_change_nothing() {
    let place = place();
    let mut transaction = place.db.begin(Snapshot).unwrap();
    transaction.put(&place.family, b"k", b"v").unwrap();
    refused(transaction.put(&place.family, b"", b"v"), ErrorKind::Invalid);
    refused(transaction.get(&place.family, b""), ErrorKind::Invalid);
    let long = vec![b'k'; limits::MAX_KEY_BYTES + 1];
    refused(transaction.put(&place.family, &long, b"v"), ErrorKind::Invalid);
    refused(transaction.rollback_to_savepoint("nothing"), ErrorKind::NotFound);
    refused(transaction.release_savepoint("nothing"), ErrorKind::NotFound);
    let options = ScanOptions::new().snapshot(&place.db.snapshot());
    refused(transaction.scan(&place.family, options), ErrorKind::Invalid);
    transaction.commit().unwrap();
    assert_eq!(place.family.get(b"k").unwrap().as_deref(), Some(&b"v"[..]));
}

#[test]
fn families_of_other_databases_are_refused() {
    let (here, there) = (place(), place());
    let mut transaction = here.db.begin(Serializable).unwrap();
    refused(transaction.put(&there.family, b"k", b"v"), ErrorKind::Invalid);
    refused(transaction.get(&there.family, b"k"), ErrorKind::Invalid);
    refused(transaction.scan(&there.family, ScanOptions::new()), ErrorKind::Invalid);
}

#[test]
fn a_family_dropped_under_a_transaction_is_an_error_of_its_own() {
    for level in LEVELS {
        let place = place();
        let other = place.db.create_family("other", small()).unwrap();
        other.put(b"k", b"v").unwrap();
        let mut transaction = place.db.begin(level).unwrap();
        assert!(transaction.get(&other, b"k").unwrap().is_some());
        transaction.put(&place.family, b"k", b"v").unwrap();
        transaction.put(&other, b"k", b"w").unwrap();
        let mut scan = transaction.scan(&other, ScanOptions::new()).unwrap();
        scan.seek_to_first().unwrap();
        place.db.drop_family("other").unwrap();
        assert_eq!(scan.key(), b"k");
        drop(scan);
        refused(transaction.get(&other, b"k"), ErrorKind::Closed);
        refused(transaction.commit(), ErrorKind::Closed);
        assert_eq!(place.family.get(b"k").unwrap(), None, "half of a commit");
        transaction.rollback().unwrap();
        transaction.reset(level).unwrap();
        transaction.put(&place.family, b"k", b"v").unwrap();
        transaction.commit().unwrap();
    }
}

#[test]
fn a_closed_database_answers_closed() {
    for level in LEVELS {
        let place = place();
        let mut transaction = place.db.begin(level).unwrap();
        transaction.put(&place.family, b"k", b"v").unwrap();
        let db = place.db.clone();
        place.db.close().unwrap();
        refused(transaction.put(&place.family, b"k", b"v"), ErrorKind::Closed);
        refused(transaction.get(&place.family, b"l"), ErrorKind::Closed);
        refused(transaction.commit(), ErrorKind::Closed);
        refused(db.begin(level), ErrorKind::Closed);
        transaction.rollback().unwrap();
        refused(transaction.reset(level), ErrorKind::Closed);
    }
}

#[test]
fn a_transaction_keeps_the_database_alive() {
    let place = place();
    let mut transaction = place.db.begin(Snapshot).unwrap();
    transaction.put(&place.family, b"k", b"v").unwrap();
    drop((place.db, place.family));
    assert_eq!(Db::open(place.directory.path(), options()).unwrap_err().kind(), ErrorKind::Locked);
    transaction.commit().unwrap();
    drop(transaction);
    let db = Db::open(place.directory.path(), options()).unwrap();
    assert!(db.family("default").unwrap().contains(b"k").unwrap());
}

#[test]
fn a_scan_outlives_its_transaction() {
    let place = place();
    place.family.put(b"a", b"1").unwrap();
    let mut transaction = place.db.begin(Serializable).unwrap();
    transaction.put(&place.family, b"b", b"2").unwrap();
    let mut scan = transaction.scan(&place.family, ScanOptions::new()).unwrap();
    scan.seek_to_first().unwrap();
    transaction.put(&place.family, b"c", b"3").unwrap();
    transaction.commit().unwrap();
    transaction.reset(Serializable).unwrap();
    drop(transaction);
    place.family.delete(b"a").unwrap();
    let mut seen = Vec::new();
    while scan.valid() {
        seen.push((scan.key().to_vec(), scan.value().unwrap().to_vec()));
        scan.next().unwrap();
    }
    assert_eq!(seen, [(b"a".to_vec(), b"1".to_vec()), (b"b".to_vec(), b"2".to_vec())]);
}

#[test]
fn a_scan_that_outlives_its_transaction_does_not_read_for_the_next() {
    let place = place();
    for key in [b"a", b"b", b"c"] {
        place.family.put(key, b"1").unwrap();
    }
    let mut transaction = place.db.begin(Serializable).unwrap();
    let mut scan = transaction.scan(&place.family, ScanOptions::new()).unwrap();
    transaction.rollback().unwrap();
    transaction.reset(Serializable).unwrap();
    // Two who read what the other one writes: one of them would be refused.
    let mut other = place.db.begin(Serializable).unwrap();
    other.get(&place.family, b"mine").unwrap();
    scan.seek_to_first().unwrap();
    while scan.valid() {
        scan.next().unwrap();
    }
    other.put(&place.family, b"b", b"2").unwrap();
    transaction.put(&place.family, b"mine", b"2").unwrap();
    other.commit().unwrap();
    transaction.commit().unwrap();
}

#[test]
fn whatever_is_dropped_last_lets_the_database_go() {
    for level in LEVELS {
        let place = place();
        place.family.put(b"k", b"v").unwrap();
        let mut transaction = place.db.begin(level).unwrap();
        transaction.put(&place.family, b"l", b"v").unwrap();
        let mut scan = transaction.scan(&place.family, ScanOptions::new()).unwrap();
        scan.seek_to_first().unwrap();
        drop((place.db, place.family));
        drop(transaction);
        // A scan keeps what it reads, and keeps no process from opening the directory.
        let reopened = Db::open(place.directory.path(), options());
        assert_eq!(scan.key(), b"k");
        let _ = scan.next();
        drop(scan);
        let db = reopened.or_else(|_| Db::open(place.directory.path(), options())).unwrap();
        let family = db.family("default").unwrap();
        assert!(family.contains(b"k").unwrap() && !family.contains(b"l").unwrap());
        assert_eq!(db.transaction_stats().open_bytes, 0);
    }
}

#[test]
fn families_come_and_go_under_commits_without_a_torn_one_or_a_deadlock() {
    const ROUNDS: u64 = 60;
    let place = place();
    let done = AtomicBool::new(false);
    let commit_all = |level| {
        let mut transaction = place.db.begin(level).unwrap();
        let mut committed = 0u64;
        // ORDERING: a flag.
        while !done.load(Ordering::Relaxed) {
            let Ok(other) = place.db.family("other") else { continue };
            let key = format!("{level:?}{committed:08}");
            let tried = transaction
                .put(&place.family, key.as_bytes(), b"v")
                .and_then(|()| transaction.put(&other, key.as_bytes(), b"v"))
                .and_then(|()| transaction.get(&other, b"k"))
                .and_then(|_| transaction.commit());
            match tried {
                Ok(_) => committed += 1,
                Err(e) => {
                    assert_eq!(e.kind(), ErrorKind::Closed, "{e}");
                    transaction.rollback().unwrap();
                    assert!(!place.family.contains(key.as_bytes()).unwrap(), "half of a commit");
                }
            }
            transaction.reset(level).unwrap();
        }
        committed
    };
    let committed: u64 = std::thread::scope(|scope| {
        let commit_all = &commit_all;
        let threads = LEVELS.map(|level| scope.spawn(move || commit_all(level)));
        for _ in 0..ROUNDS {
            let other = place.db.create_family("other", small()).unwrap();
            while other.scan(ScanOptions::new()).unwrap().entries().count() < 3 {
                std::thread::yield_now();
            }
            place.db.drop_family("other").unwrap();
        }
        done.store(true, Ordering::Relaxed);
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    let there = place.family.scan(ScanOptions::new()).unwrap().entries().count();
    assert_eq!(there as u64, committed, "what was acknowledged, and nothing else");
    assert_eq!(place.db.transaction_stats().open_bytes, 0);
}

#[test]
fn what_is_too_large_is_refused_before_anything_is_written() {
    let place = place();
    let mut transaction = place.db.begin(ReadCommitted).unwrap();
    let value = vec![7; (limits::DIRECT_VALUE_BYTES) - 1];
    let mut added = 0usize;
    let error = loop {
        let key = format!("{added:08}");
        match transaction.put(&place.family, key.as_bytes(), &value) {
            Ok(()) => added += 1,
            Err(e) => break e,
        }
        assert!(added * value.len() <= limits::MAX_BATCH_BYTES);
    };
    assert!(matches!(error, Error::TooLarge { .. }), "{error}");
    assert!(place.db.transaction_stats().open_bytes >= (added * value.len()) as u64);
    transaction.rollback().unwrap();
    assert_eq!(place.db.transaction_stats().open_bytes, 0);
    assert_eq!(place.family.get(b"00000000").unwrap(), None);
}

#[test]
fn single_deletes_hide_like_deletes_and_survive_a_reopening() {
    let place = place();
    for n in 0..4u32 {
        place.family.put(format!("k{n}").as_bytes(), b"v").unwrap();
    }
    place.family.flush().unwrap();
    place.family.single_delete(b"k0").unwrap();
    let mut batch = WriteBatch::new();
    batch.single_delete(&place.family, b"k1").unwrap();
    place.db.write(&batch).unwrap();
    let mut transaction = place.db.begin(Snapshot).unwrap();
    transaction.single_delete(&place.family, b"k2").unwrap();
    assert_eq!(transaction.get(&place.family, b"k2").unwrap(), None);
    transaction.commit().unwrap();
    drop(transaction);
    drop((place.db, place.family));
    let db = Db::open(place.directory.path(), options()).unwrap();
    let family = db.family("default").unwrap();
    let left: Vec<_> = family.scan(ScanOptions::new()).unwrap().entries().collect();
    assert_eq!(left.len(), 1);
    family.compact().unwrap();
    assert_eq!(family.scan(ScanOptions::new()).unwrap().entries().count(), 1);
}
