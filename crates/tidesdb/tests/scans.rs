//! Where scans begin and end: bounds, prefixes, and iterators from a position on.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use tidesdb::{Db, DbOptions, ErrorKind, Family, FamilyOptions, IsolationLevel, Scan, ScanOptions};

fn family_of(directory: &tempfile::TempDir, keys: &[&str]) -> (Db, Family) {
    let db = Db::open(directory.path(), DbOptions::default()).unwrap();
    let family = db.open_family("keys", FamilyOptions::default()).unwrap();
    for key in keys {
        family.put(key.as_bytes(), b"v").unwrap();
    }
    (db, family)
}

/// The keys of the scan's entries.
fn keys_of(scan: Scan) -> Vec<String> {
    scan.entries().map(|entry| String::from_utf8(entry.unwrap().0).unwrap()).collect()
}

/// Calls `check` with a plain scan and with one of a transaction that has written a key itself.
fn each_kind_of_scan(db: &Db, family: &Family, options: &ScanOptions, check: impl Fn(Scan)) {
    check(family.scan(options.clone()).unwrap());
    let mut transaction = db.begin(IsolationLevel::Snapshot).unwrap();
    transaction.put(family, b"b", b"own").unwrap();
    check(transaction.scan(family, options.clone()).unwrap());
}

#[test]
fn entries_after_a_seek_that_finds_nothing_are_none() {
    let directory = tempfile::tempdir().unwrap();
    let (db, family) = family_of(&directory, &["a", "b", "c"]);
    let none: Vec<String> = Vec::new();
    for options in [ScanOptions::new(), ScanOptions::new().lower(b"a").upper(b"d")] {
        each_kind_of_scan(&db, &family, &options, |mut scan| {
            scan.seek(b"zzz").unwrap();
            assert_eq!(keys_of(scan), none);
        });
        each_kind_of_scan(&db, &family, &options, |mut scan| {
            scan.seek_for_prev(b"A").unwrap();
            assert_eq!(keys_of(scan), none);
        });
        each_kind_of_scan(&db, &family, &options, |mut scan| {
            scan.seek(b"c").unwrap();
            scan.next().unwrap();
            scan.next().unwrap();
            assert_eq!(keys_of(scan), none);
        });
        each_kind_of_scan(&db, &family, &options, |mut scan| {
            scan.seek(b"a").unwrap();
            scan.prev().unwrap();
            assert_eq!(keys_of(scan), none);
        });
        each_kind_of_scan(&db, &family, &options, |mut scan| {
            scan.seek(b"zzz").unwrap();
            scan.seek_for_prev(b"bb").unwrap();
            assert_eq!(keys_of(scan), ["b", "c"]);
        });
        assert_eq!(keys_of(family.scan(options.clone()).unwrap()), ["a", "b", "c"]);
        let transaction = db.begin(IsolationLevel::Snapshot).unwrap();
        assert_eq!(keys_of(transaction.scan(&family, options).unwrap()), ["a", "b", "c"]);
    }
    each_kind_of_scan(&db, &family, &ScanOptions::new().prefix(b"x"), |mut scan| {
        scan.seek_to_first().unwrap();
        assert_eq!(keys_of(scan), none);
    });
    each_kind_of_scan(&db, &family, &ScanOptions::new().upper(b"c"), |mut scan| {
        scan.seek(b"c").unwrap();
        assert_eq!(keys_of(scan), none);
    });
}

#[test]
fn a_refreshed_scan_is_not_positioned() {
    let directory = tempfile::tempdir().unwrap();
    let (_db, family) = family_of(&directory, &["a", "b"]);
    let mut scan = family.scan(ScanOptions::new()).unwrap();
    scan.seek(b"zzz").unwrap();
    family.put(b"c", b"v").unwrap();
    scan.refresh().unwrap();
    assert_eq!(keys_of(scan), ["a", "b", "c"]);
}

#[test]
fn a_scan_that_can_not_be_refreshed_keeps_its_bounds() {
    let directory = tempfile::tempdir().unwrap();
    let (db, family) = family_of(&directory, &["a", "b", "c"]);
    let mut scan = family.scan(ScanOptions::new().upper(b"c")).unwrap();
    db.close().unwrap();
    assert_eq!(scan.refresh().unwrap_err().kind(), ErrorKind::Closed);
    scan.seek_to_last().unwrap();
    assert_eq!(scan.key(), b"b");
}

/// The usual way of paging: the next page begins behind the last key of the one before.
#[test]
fn a_walk_by_pages_ends() {
    let directory = tempfile::tempdir().unwrap();
    let (db, family) = family_of(&directory, &["a", "b", "c", "d", "e"]);
    let (mut plain, mut own) = (Vec::new(), Vec::new());
    for (seen, in_transaction) in [(&mut plain, false), (&mut own, true)] {
        let transaction = db.begin(IsolationLevel::Snapshot).unwrap();
        let mut cursor: Vec<u8> = Vec::new();
        loop {
            let page: Vec<_> = if in_transaction {
                let mut scan = transaction.scan(&family, ScanOptions::new()).unwrap();
                scan.seek(&cursor).unwrap();
                scan.entries().take(2).map(Result::unwrap).collect()
            } else {
                let mut scan = family.scan(ScanOptions::new()).unwrap();
                scan.seek(&cursor).unwrap();
                scan.entries().take(2).map(Result::unwrap).collect()
            };
            let Some((last, _)) = page.last() else { break };
            cursor = [last.as_slice(), b"\0"].concat();
            seen.extend(page.into_iter().map(|(key, _)| key));
            assert!(seen.len() <= 5, "the walk goes round: {seen:?}");
        }
    }
    assert_eq!(plain.len(), 5);
    assert_eq!(plain, own);
}

#[test]
fn bounds_and_prefixes_intersect_in_any_order() {
    let directory = tempfile::tempdir().unwrap();
    let (db, family) = family_of(&directory, &["a1", "b", "b1", "b2", "b3", "b4", "c1"]);
    let new = ScanOptions::new;
    let narrowed = [
        new().lower(b"b2").upper(b"b4").prefix(b"b"),
        new().prefix(b"b").lower(b"b2").upper(b"b4"),
        new().upper(b"b4").prefix(b"b").lower(b"b2"),
        new().lower(b"b2").lower(b"a").upper(b"b4").upper(b"z").prefix(b"b"),
        new().prefix(b"").lower(b"b2").upper(b"b4"),
    ];
    for options in narrowed {
        each_kind_of_scan(&db, &family, &options, |mut scan| {
            scan.seek_to_last().unwrap();
            assert_eq!(scan.key(), b"b3");
            scan.seek_to_first().unwrap();
            assert_eq!(keys_of(scan), ["b2", "b3"]);
        });
    }
    for nothing in [new().prefix(b"a").prefix(b"b"), new().lower(b"c").upper(b"b")] {
        each_kind_of_scan(&db, &family, &nothing.clone(), |mut scan| {
            for at in [b"a", b"b", b"c"] {
                scan.seek(at).unwrap();
                assert!(!scan.valid());
                scan.seek_for_prev(at).unwrap();
                assert!(!scan.valid());
            }
            scan.seek_to_last().unwrap();
            assert!(!scan.valid());
            assert_eq!(keys_of(scan), Vec::<String>::new());
        });
    }
}
