//! Commit hooks.

use std::sync::{Arc, Mutex};

use super::common::{options, place, small};
use tidesdb::IsolationLevel::{ReadCommitted, Snapshot};
use tidesdb::{CommitHook, CommittedBatch, CommittedKind, Db, Family, WriteBatch, limits};

/// Family, sequence number, and kind, key and value of each operation.
type Seen = (String, u64, Vec<(CommittedKind, Vec<u8>, Vec<u8>)>);

fn recording(seen: &Arc<Mutex<Vec<Seen>>>) -> CommitHook {
    let seen = Arc::clone(seen);
    Arc::new(move |batch: &CommittedBatch<'_>| {
        let operations = batch
            .operations
            .iter()
            .map(|operation| (operation.kind, operation.key.to_vec(), operation.value.to_vec()));
        let entry = (batch.family.to_owned(), batch.sequence, operations.collect());
        seen.lock().unwrap().push(entry);
    })
}

fn put(key: &[u8], value: &[u8]) -> (CommittedKind, Vec<u8>, Vec<u8>) {
    (CommittedKind::Put, key.to_vec(), value.to_vec())
}

#[test]
fn a_hook_sees_all_operations_of_its_family_in_order() {
    let place = place();
    let other = place.db.create_family("other", small()).unwrap();
    let seen = Arc::default();
    place.family.set_commit_hook(Some(recording(&seen)));
    let mut transaction = place.db.begin(Snapshot).unwrap();
    transaction.put(&place.family, b"a", b"1").unwrap();
    transaction.put(&other, b"x", b"1").unwrap();
    let large = vec![9; limits::DIRECT_VALUE_BYTES];
    transaction.put(&place.family, b"b", &large).unwrap();
    transaction.put(&place.family, b"a", b"2").unwrap();
    transaction.delete(&place.family, b"c").unwrap();
    transaction.single_delete(&place.family, b"d").unwrap();
    let sequence = transaction.commit().unwrap().unwrap();
    let wanted = vec![
        put(b"a", b"1"),
        put(b"b", &large),
        put(b"a", b"2"),
        (CommittedKind::Delete, b"c".to_vec(), Vec::new()),
        (CommittedKind::SingleDelete, b"d".to_vec(), Vec::new()),
    ];
    assert!(*seen.lock().unwrap() == [("default".to_owned(), sequence, wanted)]);
}

#[test]
fn every_kind_of_commit_is_reported_once_and_in_order() {
    let place = place();
    let other = place.db.create_family("other", small()).unwrap();
    let seen = Arc::default();
    place.family.set_commit_hook(Some(recording(&seen)));
    other.set_commit_hook(Some(recording(&seen)));
    place.family.put(b"a", b"1").unwrap();
    place.family.delete(b"a").unwrap();
    let mut batch = WriteBatch::new();
    batch.put(&other, b"b", b"2").unwrap();
    batch.put(&place.family, b"b", b"2").unwrap();
    place.db.write(&batch).unwrap();
    let mut nothing = place.db.begin(ReadCommitted).unwrap();
    assert_eq!(nothing.commit().unwrap(), None);
    place.family.set_commit_hook(None);
    place.family.put(b"unseen", b"3").unwrap();
    let seen = seen.lock().unwrap();
    let families: Vec<_> = seen.iter().map(|(family, ..)| family.as_str()).collect();
    assert_eq!(families.len(), 4);
    assert_eq!(&families[..2], ["default", "default"]);
    assert!(0 < seen[0].1 && seen[0].1 < seen[1].1 && seen[1].1 < seen[2].1);
    assert_eq!(seen[2].1, seen[3].1, "the same in all families of one commit");
}

#[test]
fn a_hook_may_use_the_database_and_may_panic() {
    let place = place();
    let log = place.db.create_family("log", small()).unwrap();
    let (db, into): (_, Family) = (place.db.clone(), log.clone());
    place.family.set_commit_hook(Some(Arc::new(move |batch: &CommittedBatch<'_>| {
        let mut transaction = db.begin(Snapshot).unwrap();
        for operation in batch.operations {
            transaction.put(&into, operation.key, b"seen").unwrap();
        }
        transaction.commit().unwrap();
        assert!(batch.operations.len() != 1, "this panic is part of the test");
    })));
    place.family.put(b"k", b"v").unwrap();
    let mut transaction = place.db.begin(Snapshot).unwrap();
    transaction.put(&place.family, b"l", b"v").unwrap();
    transaction.commit().unwrap();
    assert!(log.contains(b"k").unwrap() && log.contains(b"l").unwrap());
    assert!(place.family.contains(b"l").unwrap());
}

/// A hook that holds the database was never dropped, and the directory stayed locked.
#[test]
fn closing_and_dropping_a_family_let_go_of_hooks() {
    let place = place();
    let other = place.db.create_family("other", small()).unwrap();
    let held = Arc::new(());
    for family in [&place.family, &other] {
        let all = (Arc::clone(&held), place.db.clone(), family.clone());
        family.set_commit_hook(Some(Arc::new(move |_: &CommittedBatch<'_>| {
            let _ = &all;
        })));
    }
    place.db.drop_family("other").unwrap();
    assert_eq!(Arc::strong_count(&held), 2);
    place.db.close().unwrap();
    assert_eq!(Arc::strong_count(&held), 1);
    drop(Db::open(place.directory.path(), options()).unwrap());
}

/// Writes to a family when it is dropped.
struct WritesWhenDropped(Family);

impl Drop for WritesWhenDropped {
    fn drop(&mut self) {
        self.0.put(b"dropped", b"").unwrap();
    }
}

/// The old hook was dropped with the lock held that a commit takes to call the new one.
#[test]
fn what_a_hook_has_captured_may_write_when_it_is_dropped() {
    let place = place();
    let captured = WritesWhenDropped(place.family.clone());
    place.family.set_commit_hook(Some(Arc::new(move |_: &CommittedBatch<'_>| {
        let _ = &captured;
    })));
    let seen = Arc::default();
    place.family.set_commit_hook(Some(recording(&seen)));
    assert!(place.family.contains(b"dropped").unwrap());
    assert_eq!(seen.lock().unwrap().len(), 1);
}
