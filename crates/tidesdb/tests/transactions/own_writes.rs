//! Reading one's own writes, savepoints, and what a commit leaves behind.

use std::collections::BTreeMap;
use std::time::Duration;

use super::common::{LEVELS, Numbers, Place, options, place, small};
use tidesdb::IsolationLevel::{ReadCommitted, RepeatableRead, Serializable, Snapshot};
use tidesdb::{Db, ErrorKind, Family, Scan, ScanOptions, Transaction, limits};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn get(transaction: &Transaction, family: &Family, key: &[u8]) -> Option<Vec<u8>> {
    transaction.get(family, key).unwrap()
}

#[test]
fn the_last_write_of_a_key_wins() {
    let place = place();
    for level in LEVELS {
        place.family.put(b"k", b"committed").unwrap();
        let mut transaction = place.db.begin(level).unwrap();
        assert_eq!(get(&transaction, &place.family, b"k").unwrap(), b"committed");
        transaction.put(&place.family, b"k", b"1").unwrap();
        assert_eq!(get(&transaction, &place.family, b"k").unwrap(), b"1");
        transaction.delete(&place.family, b"k").unwrap();
        assert_eq!(get(&transaction, &place.family, b"k"), None);
        assert!(!transaction.contains(&place.family, b"k").unwrap());
        transaction.put(&place.family, b"k", b"").unwrap();
        assert_eq!(get(&transaction, &place.family, b"k").unwrap(), b"");
        // Enough others for the index to be used.
        for n in 0..50u8 {
            transaction.put(&place.family, &[b'x', n], &[n]).unwrap();
            transaction.put(&place.family, &[b'x', n], &[n, n]).unwrap();
        }
        assert_eq!(get(&transaction, &place.family, b"k").unwrap(), b"");
        assert_eq!(get(&transaction, &place.family, b"x\x07").unwrap(), [7, 7]);
        transaction.commit().unwrap();
        assert_eq!(place.family.get(b"k").unwrap().unwrap(), b"");
        assert_eq!(place.family.get(b"x\x07").unwrap().unwrap(), [7, 7]);
    }
}

#[test]
fn an_own_write_that_has_expired_is_hidden() {
    let place = place();
    place.family.put(b"k", b"committed").unwrap();
    let mut transaction = place.db.begin(ReadCommitted).unwrap();
    transaction.put_expiring_at(&place.family, b"k", b"past", 1).unwrap();
    transaction.put_with_ttl(&place.family, b"l", b"future", Duration::from_secs(3600)).unwrap();
    assert_eq!(get(&transaction, &place.family, b"k"), None);
    let scan = transaction.scan(&place.family, ScanOptions::new()).unwrap();
    let keys: Vec<_> = scan.entries().map(|entry| entry.unwrap().0).collect();
    assert_eq!(keys, [b"l"]);
    transaction.commit().unwrap();
    assert_eq!(place.family.get(b"k").unwrap(), None);
    assert!(place.family.contains(b"l").unwrap());
}

#[test]
fn savepoints_nest_move_and_go() {
    let place = place();
    let mut transaction = place.db.begin(Snapshot).unwrap();
    let family = &place.family;
    transaction.put(family, b"a", b"1").unwrap();
    transaction.savepoint("outer").unwrap();
    transaction.put(family, b"a", b"2").unwrap();
    transaction.savepoint("inner").unwrap();
    transaction.delete(family, b"a").unwrap();
    assert_eq!(get(&transaction, family, b"a"), None);
    transaction.rollback_to_savepoint("inner").unwrap();
    assert_eq!(get(&transaction, family, b"a").unwrap(), b"2");
    assert!(
        transaction.rollback_to_savepoint("inner").is_err(),
        "a rollback consumes its savepoint"
    );
    transaction.rollback_to_savepoint("outer").unwrap();
    assert_eq!(get(&transaction, family, b"a").unwrap(), b"1");
    assert!(transaction.release_savepoint("outer").is_err());

    // A name used again moves, and stays where it is in the order.
    transaction.savepoint("first").unwrap();
    transaction.put(family, b"b", b"1").unwrap();
    transaction.savepoint("second").unwrap();
    transaction.put(family, b"b", b"2").unwrap();
    transaction.savepoint("first").unwrap();
    transaction.put(family, b"b", b"3").unwrap();
    transaction.rollback_to_savepoint("first").unwrap();
    assert_eq!(get(&transaction, family, b"b").unwrap(), b"2");
    assert!(transaction.rollback_to_savepoint("second").is_err(), "it was created after the first");

    transaction.savepoint("kept").unwrap();
    transaction.put(family, b"c", b"1").unwrap();
    transaction.release_savepoint("kept").unwrap();
    assert!(transaction.rollback_to_savepoint("kept").is_err());
    transaction.commit().unwrap();
    assert!(family.contains(b"c").unwrap());
    transaction.reset(Snapshot).unwrap();
    assert!(
        transaction.rollback_to_savepoint("first").is_err(),
        "savepoints end with their transaction"
    );
}

#[test]
fn what_was_read_behind_a_savepoint_stays_read() {
    let place = place();
    let family = &place.family;
    for level in [RepeatableRead, Serializable] {
        family.put(b"read", b"old").unwrap();
        let mut transaction = place.db.begin(level).unwrap();
        transaction.savepoint("before").unwrap();
        assert_eq!(get(&transaction, family, b"read").unwrap(), b"old");
        transaction.put(family, b"given up", b"v").unwrap();
        transaction.rollback_to_savepoint("before").unwrap();
        // Each has read what the other one writes.
        let mut other = place.db.begin(level).unwrap();
        assert_eq!(get(&other, family, b"kept"), None);
        other.put(family, b"read", b"new").unwrap();
        other.commit().unwrap();
        transaction.put(family, b"kept", b"v").unwrap();
        assert_eq!(transaction.commit().unwrap_err().kind(), ErrorKind::Conflict);
    }
}

#[test]
fn large_values_and_families_come_with_a_transaction() {
    let place = place();
    let other = place.db.create_family("other", small()).unwrap();
    let large = |n: u8| vec![n; limits::DIRECT_VALUE_BYTES + usize::from(n)];
    let mut transaction = place.db.begin(Serializable).unwrap();
    transaction.put(&place.family, b"large", &large(1)).unwrap();
    transaction.put(&other, b"large", &large(2)).unwrap();
    transaction.savepoint("s").unwrap();
    transaction.put(&other, b"large", b"small").unwrap();
    transaction.put(&place.family, b"gone", &large(4)).unwrap();
    assert_eq!(get(&transaction, &other, b"large").unwrap(), b"small");
    transaction.rollback_to_savepoint("s").unwrap();
    assert_eq!(get(&transaction, &other, b"large").unwrap(), large(2));
    transaction.put(&place.family, b"large", &large(3)).unwrap();
    for n in 0..20u8 {
        transaction.put(&other, &[n], &[n]).unwrap();
    }
    assert_eq!(get(&transaction, &place.family, b"large").unwrap(), large(3));
    assert_eq!(get(&transaction, &place.family, b"gone"), None);
    let mut scan = transaction.scan(&other, ScanOptions::new()).unwrap();
    scan.seek_to_last().unwrap();
    assert!(scan.key() == b"large" && scan.value().unwrap() == large(2));
    drop(scan);
    transaction.commit().unwrap();
    let check = |db: &Db| {
        let family = db.family("default").unwrap();
        let other = db.family("other").unwrap();
        assert!(family.get(b"large").unwrap().unwrap() == large(3));
        assert!(other.get(b"large").unwrap().unwrap() == large(2));
        assert!(!family.contains(b"gone").unwrap() && other.contains(&[19]).unwrap());
    };
    check(&place.db);
    drop((transaction, other, place.family, place.db));
    check(&Db::open(place.directory.path(), options()).unwrap());
}

#[test]
fn a_transaction_larger_than_the_memtable_is_one_commit() {
    let place = place();
    let mut transaction = place.db.begin(Snapshot).unwrap();
    for n in 0..5000u32 {
        transaction.put(&place.family, &n.to_be_bytes(), &[7; 100]).unwrap();
    }
    transaction.commit().unwrap();
    place.db.wait_idle().unwrap();
    assert_eq!(place.family.scan(ScanOptions::new()).unwrap().entries().count(), 5000);
    drop((transaction, place.family, place.db));
    let db = Db::open(place.directory.path(), options()).unwrap();
    let family = db.family("default").unwrap();
    assert_eq!(family.scan(ScanOptions::new()).unwrap().entries().count(), 5000);
}

fn key(n: u64) -> Vec<u8> {
    format!("key-{n:03}").into_bytes()
}

/// One random movement of a scan and of a model; they must agree on where they are.
fn step(
    numbers: &mut Numbers,
    scan: &mut Scan,
    entries: &[(Vec<u8>, Vec<u8>)],
    at: &mut Option<usize>,
) {
    let target = key(numbers.below(130));
    let (all, before) = (entries.len(), entries.partition_point(|(k, _)| *k < target));
    let through = entries.partition_point(|(k, _)| *k <= target);
    match numbers.below(10) {
        0 => {
            scan.seek(&target).unwrap();
            *at = (before < all).then_some(before);
        }
        1 => {
            scan.seek_for_prev(&target).unwrap();
            *at = through.checked_sub(1);
        }
        2 => {
            scan.seek_to_first().unwrap();
            *at = (all > 0).then_some(0);
        }
        3 => {
            scan.seek_to_last().unwrap();
            *at = all.checked_sub(1);
        }
        4..=6 => {
            scan.next().unwrap();
            *at = at.filter(|&at| at + 1 < all).map(|at| at + 1);
        }
        _ => {
            scan.prev().unwrap();
            *at = at.and_then(|at| at.checked_sub(1));
        }
    }
    match at.and_then(|at| entries.get(at)) {
        Some((key, value)) => {
            assert!(scan.valid());
            assert_eq!((scan.key(), scan.value().unwrap()), (&key[..], &value[..]));
        }
        None => assert!(!scan.valid() && scan.key().is_empty()),
    }
}

fn write(numbers: &mut Numbers, transaction: &mut Transaction, family: &Family, own: &mut Model) {
    let key = key(numbers.below(120));
    if numbers.below(3) == 0 {
        transaction.delete(family, &key).unwrap();
        own.remove(&key);
    } else {
        let value = format!("own-{}", numbers.below(1000)).into_bytes();
        transaction.put(family, &key, &value).unwrap();
        own.insert(key, value);
    }
}

/// A transaction with random writes, savepoints and scans; what it leaves if it commits.
fn one_transaction(numbers: &mut Numbers, place: &Place, committed: &Model) -> Option<Model> {
    let level = LEVELS[numbers.below(5) as usize];
    let mut transaction = place.db.begin(level).unwrap();
    let mut own = committed.clone();
    let mut saved: Option<Model> = None;
    for _ in 0..numbers.below(40) {
        write(numbers, &mut transaction, &place.family, &mut own);
        match numbers.below(12) {
            0 => {
                transaction.savepoint("s").unwrap();
                saved = Some(own.clone());
            }
            1 if saved.is_some() => {
                transaction.rollback_to_savepoint("s").unwrap();
                own = saved.take().unwrap();
            }
            2..=4 => {
                let key = key(numbers.below(120));
                let found = transaction.get(&place.family, &key).unwrap();
                assert_eq!(found.as_ref(), own.get(&key));
            }
            5 => {
                let (mut lower, mut upper) = (key(numbers.below(120)), key(numbers.below(130)));
                if lower > upper {
                    std::mem::swap(&mut lower, &mut upper);
                }
                let entries: Vec<_> = own
                    .range(lower.clone()..upper.clone())
                    .map(|(k, v)| (k.clone(), v.clone()))
                    .collect();
                let options = ScanOptions::new().lower(&lower).upper(&upper);
                let mut scan = transaction.scan(&place.family, options).unwrap();
                let mut at = None;
                for _ in 0..numbers.below(40) {
                    step(numbers, &mut scan, &entries, &mut at);
                }
            }
            _ => {}
        }
    }
    if numbers.below(4) == 0 {
        transaction.rollback().unwrap();
        return None;
    }
    transaction.commit().unwrap();
    Some(own)
}

#[test]
fn random_transactions_do_what_an_ordered_map_does() {
    let mut numbers = Numbers::seeded();
    let place = place();
    let mut model = Model::new();
    for round in 0..400 {
        if let Some(next) = one_transaction(&mut numbers, &place, &model) {
            model = next;
        }
        match round % 40 {
            13 => place.family.flush().unwrap(),
            39 => place.family.compact().unwrap(),
            _ => {}
        }
        let scan = place.family.scan(ScanOptions::new()).unwrap();
        let found: Model = scan.entries().map(|entry| entry.unwrap()).collect();
        assert!(found == model, "round {round}");
    }
    assert_eq!(place.db.transaction_stats().conflicts, 0, "nobody else was there");
    assert_eq!(place.db.transaction_stats().open_bytes, 0);
}
