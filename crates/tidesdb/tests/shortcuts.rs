//! Calls that spare a program a few lines, against what they stand for.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::borrow::Cow;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tidesdb::{
    Db, DbOptions, ErrorKind, Family, FamilyOptions, IsolationLevel, Scan, ScanOptions, SyncMode,
    WriteBatch, WriteOptions,
};

fn open() -> (TempDir, Db, Family) {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), DbOptions::default()).unwrap();
    let family = db.open_family("default", FamilyOptions::default()).unwrap();
    (directory, db, family)
}

fn filled() -> (TempDir, Db, Family) {
    let (directory, db, family) = open();
    for key in ["a", "ab", "b", "ba", "c"] {
        family.put(key.as_bytes(), key.as_bytes()).unwrap();
    }
    (directory, db, family)
}

fn keys(scan: Scan) -> Vec<String> {
    scan.into_iter().map(|entry| String::from_utf8(entry.unwrap().0).unwrap()).collect()
}

fn keys_rev(scan: Scan) -> Vec<String> {
    scan.entries_rev().map(|entry| String::from_utf8(entry.unwrap().0).unwrap()).collect()
}

#[test]
fn keys_and_values_are_anything_that_is_bytes() {
    let (_directory, db, family) = open();
    let (text, bytes, shared) = ("text".to_owned(), vec![1_u8, 2], Arc::<[u8]>::from(&b"s"[..]));
    family.put("str", "value").unwrap();
    family.put(&text, text.clone()).unwrap();
    family.put(&bytes, []).unwrap();
    family.put(7_u32.to_be_bytes(), 7_u64.to_le_bytes()).unwrap();
    family.put(&shared, Cow::Borrowed(&b"cow"[..])).unwrap();
    family.put_with_ttl("ttl", "x", Duration::from_secs(600)).unwrap();
    family.put_expiring_at("past", "x", 1).unwrap();
    assert_eq!(family.get(text).unwrap().as_deref(), Some(&b"text"[..]));
    assert_eq!(family.get(bytes).unwrap().as_deref(), Some(&[][..]));
    assert_eq!(family.get_with(7_u32.to_be_bytes(), <[u8]>::len).unwrap(), Some(8));
    assert!(family.contains(&*shared).unwrap() && !family.contains("past").unwrap());
    let mut value = Vec::new();
    assert!(family.get_into("str", &mut value).unwrap());
    let pinned = family.get_pinned("str").unwrap().unwrap();
    family.put("copy", &pinned).unwrap();
    assert_eq!(family.get_at(&db.snapshot(), "copy").unwrap(), Some(value));

    let mut batch = WriteBatch::new();
    batch.put(&family, "a", String::from("1")).unwrap();
    batch.put_with_ttl(&family, "b", "2", Duration::from_secs(600)).unwrap();
    batch.delete(&family, "copy").unwrap();
    batch.delete_range(&family, "s", String::from("t")).unwrap();
    batch.delete_prefix(&family, "tt").unwrap();
    db.write(&batch).unwrap();
    family.single_delete("a").unwrap();
    family.delete_prefix_with("b", WriteOptions::new().sync(true)).unwrap();
    assert_eq!(keys(family.prefix("").unwrap()).len(), 3, "text and two of raw bytes");

    let mut transaction = db.begin(IsolationLevel::Snapshot).unwrap();
    transaction.put(&family, "x", "1").unwrap();
    transaction.delete(&family, "text").unwrap();
    assert!(transaction.contains(&family, "x").unwrap());
    assert_eq!(transaction.get(&family, String::from("text")).unwrap(), None);
    assert_eq!(transaction.get_untracked(&family, "x").unwrap().as_deref(), Some(&b"1"[..]));
    let mut scan = transaction.scan(&family, ScanOptions::new().lower("t").upper("y")).unwrap();
    scan.seek("u").unwrap();
    assert_eq!(scan.key(), b"x");
    transaction.commit().unwrap();
    let mut scan = family.scan(ScanOptions::new().prefix("x")).unwrap();
    scan.seek_for_prev(String::from("z")).unwrap();
    assert_eq!(scan.key(), b"x");
    family.compact_range("a".."m").unwrap();
    assert!(family.range_cost("a", "z") > 0.0);
}

#[test]
fn ranges_and_prefixes_in_both_directions() {
    let (_directory, _db, family) = filled();
    assert_eq!(keys(family.prefix("a").unwrap()), ["a", "ab"]);
    assert_eq!(keys(family.range("ab".."ba").unwrap()), ["ab", "b"]);
    assert_eq!(keys(family.range("ab"..="ba").unwrap()), ["ab", "b", "ba"]);
    assert_eq!(keys(family.range(b"b"..).unwrap()), ["b", "ba", "c"]);
    assert_eq!(keys(family.range(..vec![b'b']).unwrap()), ["a", "ab"]);
    assert_eq!(keys(family.range(..).unwrap()).len(), 5);
    let between = (Bound::Excluded("a"), Bound::Included("b"));
    assert_eq!(keys(family.range(between).unwrap()), ["ab", "b"]);
    assert_eq!(keys_rev(family.prefix("b").unwrap()), ["ba", "b"]);
    assert_eq!(keys_rev(family.range("ab"..="ba").unwrap()), ["ba", "b", "ab"]);
    let mut scan = family.range("a".."b").unwrap();
    scan.seek(b"zzz").unwrap();
    assert_eq!(keys_rev(scan), ["ab", "a"], "wherever it stood");
    let mut ended = family.prefix("x").unwrap().entries_rev();
    assert!(ended.next().is_none() && ended.next().is_none());
}

#[test]
fn many_keys_are_answered_in_their_order() {
    let (_directory, db, family) = filled();
    let snapshot = db.snapshot();
    family.delete(b"ab").unwrap();
    family.put(b"x", b"new").unwrap();
    let asked = ["x", "c", "ab", "c", "absent"];
    let value = |text: &str| Some(text.as_bytes().to_vec());
    let now = [value("new"), value("c"), None, value("c"), None];
    assert_eq!(family.multi_get(asked).unwrap(), now);
    assert_eq!(
        family.multi_get_at(&snapshot, asked).unwrap(),
        [None, value("c"), value("ab"), value("c"), None]
    );
    assert!(family.multi_get(Vec::<Vec<u8>>::new()).unwrap().is_empty());
    assert_eq!(family.multi_get(["a", ""]).unwrap_err().kind(), ErrorKind::Invalid);
    assert!(family.contains_at(&snapshot, "ab").unwrap());
    assert!(!family.contains_at(&snapshot, "x").unwrap());
    assert_eq!(family.get_with_at(&snapshot, "ab", <[u8]>::len).unwrap(), Some(2));

    let mut reader = db.begin(IsolationLevel::Serializable).unwrap();
    assert_eq!(reader.multi_get(&family, asked).unwrap(), now);
    let mut other = db.begin(IsolationLevel::Serializable).unwrap();
    assert_eq!(other.get(&family, b"mine").unwrap(), None);
    other.put(&family, b"absent", b"").unwrap();
    reader.put(&family, b"mine", b"").unwrap();
    other.commit().unwrap();
    assert_eq!(reader.commit().unwrap_err().kind(), ErrorKind::Conflict, "tracked like gets");
}

#[test]
fn many_pinned_values_are_those_of_the_snapshot_and_stay() {
    let (_directory, db, family) = filled();
    let large = vec![7; 100_000];
    family.put("large", &large).unwrap();
    family.flush().unwrap();
    let snapshot = db.snapshot();
    family.put("a", "new").unwrap();
    family.delete("b").unwrap();
    family.put("x", "new").unwrap();
    let asked = ["x", "large", "b", "a", "b"];
    let found = family.multi_get_pinned_at(&snapshot, asked).unwrap();
    drop(snapshot);
    db.compact().unwrap();
    family.delete("large").unwrap();
    db.compact().unwrap();
    let found: Vec<_> = found.iter().map(|value| value.as_ref().map(AsRef::as_ref)).collect();
    let expected = [None, Some(&large[..]), Some(b"b"), Some(b"a"), Some(b"b")];
    assert_eq!(found, expected);
    let error = family.multi_get_pinned_at(&db.snapshot(), ["a", ""]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let now = family.multi_get_pinned_at(&db.snapshot(), asked).unwrap();
    let now: Vec<_> = now.iter().map(|value| value.as_ref().map(|value| value.len())).collect();
    assert_eq!(now, [Some(3), None, None, Some(3), None]);
}

#[test]
fn single_writes_take_options() {
    let (_directory, db, family) = open();
    let before = db.stats().synced_commits;
    family.put_with("k", "v", WriteOptions::new().sync(true)).unwrap();
    assert_eq!(db.stats().synced_commits, before + 1);
    let short = WriteOptions::new().ttl(Duration::ZERO);
    family.put_with("gone", "v", short).unwrap();
    family.put_with("stays", "v", WriteOptions::new().ttl(Duration::from_secs(600))).unwrap();
    let mut scan = family.prefix("stays").unwrap();
    scan.seek_to_first().unwrap();
    assert!(scan.expires_at_unix_seconds().is_some());
    let sync = WriteOptions::new().sync(true);
    family.delete_with("k", sync).unwrap();
    family.put(b"once", b"").unwrap();
    family.single_delete_with("once", sync).unwrap();
    family.delete_range_with("s", "t", sync).unwrap();
    assert_eq!(db.stats().synced_commits, before + 4);
    for key in ["k", "once", "stays"] {
        assert!(!family.contains(key.as_bytes()).unwrap(), "{key}");
    }
    assert_eq!(family.delete_with("k", short).unwrap_err().kind(), ErrorKind::Invalid);
    let mut batch = WriteBatch::new();
    batch.put_with_ttl(&family, b"b", b"v", Duration::from_secs(600)).unwrap();
    assert_eq!(db.write_with(&batch, short).unwrap_err().kind(), ErrorKind::Invalid);
    let copy = batch.clone();
    batch.clear();
    db.write(&copy).unwrap();
    assert!(family.contains(b"b").unwrap());
}

#[test]
fn a_transaction_is_tried_until_it_commits() {
    let (_directory, db, family) = open();
    let count = |db: &Db| {
        db.transaction(IsolationLevel::Snapshot, |transaction| {
            let count = transaction.get(&family, b"n")?.map_or(0, |value| value[0]) + 1;
            transaction.put(&family, b"n", &[count])?;
            Ok(())
        })
    };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..50).for_each(|_| count(&db).unwrap()));
        }
    });
    assert_eq!(family.get(b"n").unwrap(), Some(vec![200]));

    let mut attempts = 0;
    let refused = db.transaction(IsolationLevel::Snapshot, |transaction| {
        attempts += 1;
        transaction.put(&family, b"n", b"mine")?;
        family.put(b"n", b"theirs")
    });
    assert_eq!((refused.unwrap_err().kind(), attempts), (ErrorKind::Conflict, 100));
    let left = db.transaction(IsolationLevel::Snapshot, |transaction| {
        transaction.put(&family, b"n", b"mine")?;
        transaction.rollback()?;
        Ok("left")
    });
    assert_eq!((left.unwrap(), family.get(b"n").unwrap()), ("left", Some(b"theirs".to_vec())));
}

#[test]
fn a_transaction_that_is_tried_again_commits_with_the_options_it_was_given() {
    let directory = tempfile::tempdir().unwrap();
    // Every commit is synced unless it says otherwise.
    let options = DbOptions::default().sync_mode(SyncMode::Full);
    let db = Db::open(directory.path(), options).unwrap();
    let family = db.open_family("default", FamilyOptions::default()).unwrap();
    let put = |options, conflicts: u32| {
        let before = db.stats().synced_commits;
        let mut attempts = 0;
        db.transaction_with(IsolationLevel::Snapshot, options, |transaction| {
            transaction.put(&family, b"n", b"mine")?;
            attempts += 1;
            if attempts <= conflicts {
                family.put_with(b"n", b"theirs", WriteOptions::new().sync(false))?;
            }
            Ok(())
        })
        .unwrap();
        assert_eq!(attempts, conflicts + 1);
        db.stats().synced_commits - before
    };
    for conflicts in [0, 2] {
        assert_eq!(put(WriteOptions::new(), conflicts), 1);
        assert_eq!(put(WriteOptions::new().sync(false), conflicts), 0);
    }
    let mut calls = 0;
    let short = WriteOptions::new().ttl(Duration::from_secs(1));
    let refused = db.transaction_with(IsolationLevel::Snapshot, short, |_| {
        calls += 1;
        Ok(())
    });
    assert_eq!((refused.unwrap_err().kind(), calls), (ErrorKind::Invalid, 0));
}

#[test]
fn a_transaction_deletes_what_it_scans() {
    let (_directory, db, family) = filled();
    let mut transaction = db.begin(IsolationLevel::Serializable).unwrap();
    for entry in transaction.scan(&family, ScanOptions::new().prefix(b"a")).unwrap() {
        transaction.delete(&family, &entry.unwrap().0).unwrap();
    }
    transaction.commit().unwrap();
    assert_eq!(keys(family.range(..).unwrap()), ["b", "ba", "c"]);
    const fn is_send<T: Send>() {}
    is_send::<Scan>();
}

#[test]
fn what_is_printed_for_debugging_is_short() {
    let (directory, db, family) = open();
    assert_eq!(db.path(), directory.path());
    assert!(format!("{db:?}").len() < 30 + directory.path().display().to_string().len());
    assert_eq!(format!("{family:?}"), "Family { name: \"default\", .. }");
}
