//! Families in other orders of keys: what users see at the edges.

#![expect(clippy::unwrap_used, reason = "test helpers fail by panicking")]

use std::sync::{Arc, Mutex};

use tempfile::TempDir;
use tidesdb::{
    CommittedKind, Db, DbOptions, Error, ErrorKind, Family, FamilyOptions, IsolationLevel,
    KeyOrder, ScanOptions,
};

fn open(order: KeyOrder) -> (TempDir, Db, Family) {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), DbOptions::default()).unwrap();
    let family = db.create_family("f", FamilyOptions::default().key_order(order)).unwrap();
    (directory, db, family)
}

fn keys(family: &Family) -> Vec<Vec<u8>> {
    let scan = family.scan(ScanOptions::new()).unwrap();
    scan.entries().map(|entry| entry.unwrap().0).collect()
}

#[test]
fn the_spelling_that_was_put_last_is_kept() {
    let (_directory, db, family) = open(KeyOrder::CaseInsensitive);
    family.put(b"Berlin", b"1").unwrap();
    family.put(b"bern", b"2").unwrap();
    family.put(b"BERLIN", b"3").unwrap();
    assert_eq!(keys(&family), [b"BERLIN".to_vec(), b"bern".to_vec()]);
    assert_eq!(family.get(b"berlin").unwrap(), Some(b"3".to_vec()));
    family.flush().unwrap();
    family.put(b"berlin", &[7; 3 << 20]).unwrap();
    assert_eq!(keys(&family), [b"berlin".to_vec(), b"bern".to_vec()]);
    db.compact().unwrap();
    assert_eq!(family.get_with(b"BERLIN", <[u8]>::len).unwrap(), Some(3 << 20));
    let snapshot = db.snapshot();
    family.delete(b"BerLin").unwrap();
    assert_eq!(keys(&family), [b"bern".to_vec()]);
    assert!(family.contains_at(&snapshot, b"bERLIN").unwrap());
    let (_directory, _db, family) = open(KeyOrder::Lexicographic);
    family.put(b"name\0", b"1").unwrap();
    family.put(b"name\0and more", b"2").unwrap();
    assert_eq!(keys(&family), [b"name\0and more".to_vec()]);
    assert_eq!(family.get(b"name").unwrap(), Some(b"2".to_vec()));
}

#[test]
fn hooks_are_told_of_a_key_that_begins_with_a_nul_by_a_name_that_reads_take() {
    let (_directory, _db, family) = open(KeyOrder::Lexicographic);
    let reported = Arc::new(Mutex::new(Vec::new()));
    let (log, handle) = (Arc::clone(&reported), family.clone());
    family.on_commit(move |batch| {
        for operation in batch.operations {
            let there = handle.contains(operation.key).map_err(|e| e.kind());
            log.lock().unwrap().push((operation.key.to_vec(), there));
        }
    });
    family.put(b"\0tail", b"value").unwrap();
    family.delete(b"\0other tail").unwrap();
    let expected = [(b"\0tail".to_vec(), Ok(true)), (b"\0".to_vec(), Ok(false))];
    assert_eq!(*reported.lock().unwrap(), expected);
}

#[test]
fn a_scan_in_an_order_of_the_application_counts_its_keys_while_it_reads_them() {
    const KEYS: u64 = 20_000;
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), DbOptions::default()).unwrap();
    let counted = Arc::new(Mutex::new((Some(db.clone()), None)));
    let first = Arc::clone(&counted);
    db.register_key_order("counting", move |one, other| {
        // Sorting begins when the last key has been read.
        if let (Some(db), counted @ None) = &mut *first.lock().unwrap() {
            *counted = Some(db.stats().memory.scan_bytes);
        }
        one.cmp(other)
    })
    .unwrap();
    let order = KeyOrder::Custom("counting".to_owned());
    let family = db.create_family("f", FamilyOptions::default().key_order(order)).unwrap();
    for number in 0..KEYS {
        family.put(format!("{number:040}"), b"").unwrap();
    }
    let mut scan = family.scan(ScanOptions::new()).unwrap();
    scan.seek_to_first().unwrap();
    let (_, at_first) = std::mem::take(&mut *counted.lock().unwrap());
    let at_first = at_first.unwrap();
    assert!(at_first > KEYS * 40, "{at_first} bytes of {} were counted", KEYS * 56);
    drop(scan);
    assert!(db.stats().memory.scan_bytes < KEYS * 8);
}

#[test]
fn hooks_are_told_of_keys_and_values_as_they_were_given() {
    for order in [KeyOrder::Reverse, KeyOrder::CaseInsensitive, KeyOrder::Int64] {
        let (_directory, _db, family) = open(order.clone());
        let reported = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&reported);
        family.on_commit(move |batch| {
            for operation in batch.operations {
                let (key, value) = (operation.key.to_vec(), operation.value.to_vec());
                log.lock().unwrap().push((operation.kind, key, value));
            }
        });
        let mut expected = Vec::new();
        let mut expect = |kind, key: &[u8], value: &[u8]| {
            expected.push((kind, key.to_vec(), value.to_vec()));
        };
        family.put(b"Eight by", b"value").unwrap();
        expect(CommittedKind::Put, b"Eight by", b"value");
        family.delete(b"eight by").unwrap();
        expect(CommittedKind::Delete, b"eight by", b"");
        let (start, end) = match order {
            KeyOrder::Reverse => (b"b", b"a"),
            _ => (b"a", b"b"),
        };
        family.delete_range(start, end).unwrap();
        expect(CommittedKind::DeleteRange, start, end);
        if order == KeyOrder::Reverse {
            family.delete_prefix(b"pre").unwrap();
            expect(CommittedKind::DeletePrefix, b"pre", b"");
        }
        assert_eq!(*reported.lock().unwrap(), expected, "{order}");
    }
}

#[test]
fn conflicts_name_keys_as_they_were_given() {
    let (_directory, db, family) = open(KeyOrder::Reverse);
    let mut one = db.begin(IsolationLevel::Snapshot).unwrap();
    one.put(&family, b"contended", b"1").unwrap();
    family.put(b"contended", b"2").unwrap();
    match one.commit() {
        Err(Error::Conflict { key, .. }) => assert_eq!(key, b"contended"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn transactions_of_other_spellings_meet() {
    let (_directory, db, family) = open(KeyOrder::CaseInsensitive);
    family.put(b"Key", b"0").unwrap();
    for level in [IsolationLevel::Snapshot, IsolationLevel::Serializable] {
        let mut one = db.begin(level).unwrap();
        one.put(&family, b"key", b"1").unwrap();
        assert_eq!(one.get(&family, b"KEY").unwrap(), Some(b"1".to_vec()));
        let mut other = db.begin(level).unwrap();
        other.put(&family, b"KEY", b"2").unwrap();
        other.commit().unwrap();
        assert_eq!(one.commit().unwrap_err().kind(), ErrorKind::Conflict);
    }
    let mut reader = db.begin(IsolationLevel::RepeatableRead).unwrap();
    assert!(reader.get(&family, b"kEY").unwrap().is_some());
    family.delete(b"key").unwrap();
    assert_eq!(reader.commit().unwrap_err().kind(), ErrorKind::Conflict);
}

#[test]
fn limits_hold_for_keys_as_they_are_stored() {
    let (_directory, db, family) = open(KeyOrder::Reverse);
    let longest = tidesdb::limits::MAX_KEY_BYTES;
    assert_eq!(family.put(&vec![0; longest - 1], b"v").unwrap_err().kind(), ErrorKind::Invalid);
    family.put(&vec![0; longest / 2 - 1], b"v").unwrap();
    family.put(&vec![b'a'; longest - 1], b"v").unwrap();
    assert_eq!(family.put(b"", b"v").unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(family.get(b"").unwrap_err().kind(), ErrorKind::Invalid);
    db.compact().unwrap();
    assert_eq!(keys(&family).len(), 2);
}

/// All keys that began with what stands in front of the NUL went.
#[test]
fn a_prefix_with_a_nul_is_that_of_one_c_string() {
    let (_directory, _db, family) = open(KeyOrder::Lexicographic);
    for key in [&b"user1\0"[..], b"user10\0", b"user1x"] {
        family.put(key, b"v").unwrap();
    }
    assert_eq!(family.prefix(b"user1\0").unwrap().entries().count(), 1);
    family.delete_prefix(b"\0").unwrap();
    assert_eq!(keys(&family).len(), 3);
    family.delete_prefix(b"user1\0").unwrap();
    assert_eq!(keys(&family), [b"user10\0".to_vec(), b"user1x".to_vec()]);
}

/// The end of `bob@` is a capital letter, which no key in this order has.
#[test]
fn the_hook_is_told_a_prefix_that_no_two_keys_bound() {
    let (_directory, _db, family) = open(KeyOrder::CaseInsensitive);
    let reported = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let note = std::sync::Arc::clone(&reported);
    family.on_commit(move |batch| {
        note.lock().unwrap().extend(batch.operations.iter().map(|o| (o.kind, o.key.to_vec())));
    });
    family.delete_prefix(b"bob@").unwrap();
    family.delete_prefix(b"bob").unwrap();
    let reported = reported.lock().unwrap();
    assert_eq!(reported[0], (tidesdb::CommittedKind::DeletePrefix, b"bob@".to_vec()));
    assert_eq!(reported[1], (tidesdb::CommittedKind::DeleteRange, b"bob".to_vec()));
}

#[test]
fn integers_are_in_order_and_have_no_prefixes() {
    let (_directory, _db, family) = open(KeyOrder::Int64);
    let numbers = [i64::MIN, -300, -1, 0, 1, 255, 256, i64::MAX];
    for number in numbers.iter().rev() {
        family.put(&number.to_ne_bytes(), b"v").unwrap();
    }
    family.put(b"other", b"v").unwrap();
    let mut expected: Vec<_> = numbers.iter().map(|number| number.to_ne_bytes().to_vec()).collect();
    expected.push(b"other".to_vec());
    assert_eq!(keys(&family), expected);
    let some = family.range((-300_i64).to_ne_bytes()..=0_i64.to_ne_bytes()).unwrap();
    assert_eq!(some.entries_rev().count(), 3);
    assert_eq!(family.prefix(b"o").unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(family.delete_prefix(b"o").unwrap_err().kind(), ErrorKind::Invalid);
}
