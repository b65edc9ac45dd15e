//! Deleting ranges of keys, through the public interface, on a real directory.
//!
//! Most tests keep an ordered map beside the database and read it in every way after each step:
//! from the memtable, after a flush, after a merge, and after opening again.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use tidesdb::{
    Db, DbOptions, Error, ErrorKind, Family, FamilyOptions, IsolationLevel, ScanOptions, Snapshot,
    WriteBatch,
};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn options() -> FamilyOptions {
    FamilyOptions::default()
        .write_buffer_size(64 << 10)
        .block_size(512)
        .target_table_bytes(4 << 10)
        .klog_value_threshold(300)
        .min_disk_space(0)
}

fn open(path: &Path) -> (Db, Family) {
    let db = Db::open(path, DbOptions::default().log_segment_bytes(256 << 10));
    let db = db.unwrap();
    let family = db.open_family("default", options()).unwrap();
    (db, family)
}

fn key(n: u64) -> Vec<u8> {
    format!("key-{n:06}").into_bytes()
}

fn value(n: u64) -> Vec<u8> {
    format!("value {n} ").into_bytes().into_iter().cycle().take(10 + n as usize % 400).collect()
}

/// A database and what it must hold.
struct Both {
    db: Db,
    family: Family,
    model: Model,
}

impl Both {
    fn new(path: &Path) -> Self {
        let (db, family) = open(path);
        Self { db, family, model: Model::new() }
    }

    fn put(&mut self, from: u64, to: u64) {
        for n in from..to {
            self.family.put(&key(n), &value(n)).unwrap();
            self.model.insert(key(n), value(n));
        }
    }

    fn delete_range(&mut self, from: u64, to: u64) {
        self.family.delete_range(&key(from), &key(to)).unwrap();
        self.model.retain(|k, _| *k < key(from) || *k >= key(to));
    }

    fn check(&self, about: &str) {
        check(&self.family, None, &self.model, about);
    }

    fn tables(&self) -> u64 {
        self.family.stats().levels.iter().map(|level| level.tables).sum()
    }
}

fn check(family: &Family, snapshot: Option<&Snapshot>, model: &Model, about: &str) {
    let options = |mut options: ScanOptions| {
        if let Some(snapshot) = snapshot {
            options = options.snapshot(snapshot);
        }
        options
    };
    let scan = family.scan(options(ScanOptions::new())).unwrap();
    let scanned: Vec<_> = scan.entries().collect::<Result<_, _>>().unwrap();
    let found: Vec<_> = scanned.iter().map(|(k, _)| String::from_utf8_lossy(k)).collect();
    let wanted: Vec<_> = model.keys().map(|k| String::from_utf8_lossy(k)).collect();
    assert_eq!(found, wanted, "{about}: forwards");
    assert!(scanned.iter().map(|(k, v)| (k, v)).eq(model.iter()), "{about}: values");
    let mut scan = family.scan(options(ScanOptions::new())).unwrap();
    scan.seek_to_last().unwrap();
    for (wanted, value) in model.iter().rev() {
        assert_eq!(scan.key(), wanted.as_slice(), "{about}: backwards");
        assert_eq!(scan.value().unwrap(), value.as_slice());
        scan.prev().unwrap();
    }
    assert!(!scan.valid(), "{about}: backwards goes on");
    for n in (0..2000).step_by(7) {
        let got = match snapshot {
            Some(snapshot) => family.get_at(snapshot, &key(n)).unwrap(),
            None => family.get(&key(n)).unwrap(),
        };
        assert_eq!(got.as_ref(), model.get(&key(n)), "{about}: key {n}");
        scan.seek(&key(n)).unwrap();
        let next = model.range(key(n)..).next();
        assert_eq!(scan.valid().then(|| scan.key().to_vec()).as_ref(), next.map(|(k, _)| k));
        scan.seek_for_prev(&key(n)).unwrap();
        let before = model.range(..=key(n)).next_back();
        assert_eq!(scan.valid().then(|| scan.key().to_vec()).as_ref(), before.map(|(k, _)| k));
    }
}

#[test]
fn a_range_is_gone_at_once_and_stays_gone() {
    let directory = tempfile::tempdir().unwrap();
    let mut both = Both::new(directory.path());
    both.put(0, 1500);
    both.delete_range(200, 900);
    both.check("in memory");
    both.put(300, 320);
    both.delete_range(310, 315);
    both.check("put again");
    both.db.flush().unwrap();
    both.check("flushed");
    both.put(850, 1200);
    both.delete_range(1100, 1400);
    both.check("tables and memory");
    both.db.wait_idle().unwrap();
    assert!(both.db.verify().unwrap().problems.is_empty());
    both.check("idle");
    let Both { db, family, model } = both;
    drop((db, family));
    let (db, family) = open(directory.path());
    check(&family, None, &model, "replayed");
    db.close().unwrap();
    drop(family);
    let (db, family) = open(directory.path());
    check(&family, None, &model, "opened after a close");
    db.compact().unwrap();
    check(&family, None, &model, "merged");
    assert_eq!(family.stats().range_tombstones, 0, "nothing is left to hide");
    assert!(db.verify().unwrap().problems.is_empty());
    drop((db, family));
    let (_db, family) = open(directory.path());
    check(&family, None, &model, "opened after a merge");
}

#[test]
fn snapshots_see_what_they_saw() {
    let directory = tempfile::tempdir().unwrap();
    let mut both = Both::new(directory.path());
    let mut moments: Vec<(Snapshot, Model)> = Vec::new();
    for round in 0..6 {
        both.put(round * 100, round * 100 + 500);
        moments.push((both.db.snapshot(), both.model.clone()));
        both.delete_range(round * 120, round * 120 + 300);
        moments.push((both.db.snapshot(), both.model.clone()));
        if round % 2 == 1 {
            both.db.flush().unwrap();
        }
        if round == 3 {
            both.db.compact().unwrap();
        }
        for (at, (snapshot, model)) in moments.iter().enumerate() {
            check(&both.family, Some(snapshot), model, &format!("round {round}, moment {at}"));
        }
        both.check("now");
    }
    while !moments.is_empty() {
        moments.swap_remove(moments.len() / 2);
        both.db.compact().unwrap();
        for (snapshot, model) in &moments {
            check(&both.family, Some(snapshot), model, "after a merge");
        }
        both.check("now");
    }
    assert_eq!(both.family.stats().range_tombstones, 0);
}

#[test]
fn a_scan_under_way_does_not_notice() {
    let directory = tempfile::tempdir().unwrap();
    let mut both = Both::new(directory.path());
    both.put(0, 1000);
    both.db.flush().unwrap();
    let mut scan = both.family.scan(ScanOptions::new()).unwrap();
    scan.seek(&key(10)).unwrap();
    both.delete_range(0, 1000);
    both.db.flush().unwrap();
    both.db.wait_idle().unwrap();
    for n in 10..1000 {
        assert_eq!(scan.key(), key(n).as_slice());
        assert_eq!(scan.value().unwrap(), value(n).as_slice());
        scan.next().unwrap();
    }
    assert!(!scan.valid());
    drop(scan);
    both.db.wait_idle().unwrap();
    assert_eq!(both.tables(), 0, "the scan was all that kept the tables");
}

#[test]
fn in_a_batch_the_order_decides() {
    let directory = tempfile::tempdir().unwrap();
    let (db, family) = open(directory.path());
    let other = db.create_family("other", options()).unwrap();
    family.put(b"c", b"older").unwrap();
    let large = vec![1; 2 << 20];
    let mut batch = WriteBatch::new();
    batch.put(&family, b"b", b"before").unwrap();
    batch.put(&family, b"d", &large).unwrap();
    batch.put(&other, b"b", b"another family").unwrap();
    batch.delete_range(&family, b"b", b"e").unwrap();
    batch.delete_range(&family, b"b", b"e").unwrap();
    batch.put(&family, b"c", b"after").unwrap();
    batch.put(&family, b"e", b"outside").unwrap();
    batch.put(&family, b"dd", &large).unwrap();
    db.write(&batch).unwrap();
    let look = |family: &Family, other: &Family| {
        assert_eq!(family.get(b"b").unwrap(), None);
        assert_eq!(family.get(b"c").unwrap().unwrap(), b"after");
        assert_eq!(family.get(b"d").unwrap(), None);
        assert_eq!(family.get(b"dd").unwrap().unwrap(), large);
        assert_eq!(family.get(b"e").unwrap().unwrap(), b"outside");
        assert_eq!(other.get(b"b").unwrap().unwrap(), b"another family");
        let keys = family.scan(ScanOptions::new()).unwrap().entries().map(|e| e.unwrap().0);
        assert_eq!(keys.collect::<Vec<_>>(), [b"c".to_vec(), b"dd".to_vec(), b"e".to_vec()]);
    };
    look(&family, &other);
    drop((db, family, other));
    let (db, family) = open(directory.path());
    let other = db.family("other").unwrap();
    look(&family, &other);
    db.compact().unwrap();
    look(&family, &other);
    batch.clear();
    batch.put(&family, b"x", b"1").unwrap();
    db.write(&batch).unwrap();
    assert_eq!(family.get(b"x").unwrap().unwrap(), b"1", "a cleared batch deletes no range");
}

#[test]
fn many_threads_delete_ranges_and_see_their_own_deletions() {
    let directory = tempfile::tempdir().unwrap();
    let (db, family) = open(directory.path());
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let family = family.clone();
            scope.spawn(move || {
                let key = |n: u64| format!("{thread}-{n:04}").into_bytes();
                for n in 0..1500u64 {
                    family.put(&key(n), &value(n)).unwrap();
                    if n % 10 == 9 {
                        family.delete_range(&key(n - 8), &key(n)).unwrap();
                        let mut scan = family.scan(ScanOptions::new()).unwrap();
                        scan.seek(&key(n - 9)).unwrap();
                        assert_eq!(scan.key(), key(n - 9));
                        scan.next().unwrap();
                        assert_eq!(scan.key(), key(n));
                        scan.prev().unwrap();
                        assert_eq!(scan.key(), key(n - 9));
                        assert_eq!(family.get(&key(n - 1)).unwrap(), None);
                        assert_eq!(family.get(&key(n)).unwrap().unwrap(), value(n));
                    }
                }
            });
        }
    });
    db.wait_idle().unwrap();
    assert_eq!(family.scan(ScanOptions::new()).unwrap().entries().count(), 4 * 300);
    db.compact().unwrap();
    assert_eq!(family.scan(ScanOptions::new()).unwrap().entries().count(), 4 * 300);
    assert!(db.verify().unwrap().problems.is_empty());
}

#[test]
fn prefixes_and_arguments() {
    let directory = tempfile::tempdir().unwrap();
    let (db, family) = open(directory.path());
    for key in [&b"a"[..], b"ab", b"ab\xff", b"ac", b"\xff", b"\xff\xff", b"\xff\xffz"] {
        family.put(key, b"v").unwrap();
    }
    let keys = |family: &Family| {
        let entries = family.scan(ScanOptions::new()).unwrap().entries();
        entries.map(|entry| entry.unwrap().0).collect::<Vec<_>>()
    };
    family.delete_prefix(b"ab").unwrap();
    assert_eq!(keys(&family), [&b"a"[..], b"ac", b"\xff", b"\xff\xff", b"\xff\xffz"]);
    family.delete_prefix(b"\xff\xff").unwrap();
    assert_eq!(keys(&family), [&b"a"[..], b"ac", b"\xff"]);
    db.flush().unwrap();
    assert_eq!(keys(&family), [&b"a"[..], b"ac", b"\xff"]);
    let long = vec![b'z'; 70_000];
    let bad = [
        (&b"b"[..], &b"b"[..]),
        (&b"b"[..], &b"a"[..]),
        (&b""[..], &b"a"[..]),
        (&b"a"[..], &b""[..]),
        (&b"a"[..], &long),
        (&long, &b"zzz"[..]),
    ];
    let mut batch = WriteBatch::new();
    for (start, end) in bad {
        assert_eq!(family.delete_range(start, end).unwrap_err().kind(), ErrorKind::Invalid);
        assert!(batch.delete_range(&family, start, end).is_err() && batch.is_empty());
    }
    assert_eq!(family.delete_prefix(b"").unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(keys(&family), [&b"a"[..], b"ac", b"\xff"]);
}

#[test]
fn covered_tables_go_without_being_read() {
    let directory = tempfile::tempdir().unwrap();
    let mut both = Both::new(directory.path());
    both.put(0, 2000);
    both.db.compact().unwrap();
    let (before, merged) = (both.tables(), both.db.stats());
    assert!(before >= 10, "{before} tables");
    both.delete_range(100, 1900);
    both.db.flush().unwrap();
    both.db.wait_idle().unwrap();
    let after = both.tables();
    // Those that hold one of the 200 keys left, of 2,000: some two or three at each end, as merges
    // cut.
    assert!(after * 4 <= before, "{after} of {before} tables are left");
    let stats = both.db.stats();
    // Of the tables at the ends a part is hidden: these may be merged, those that are covered not.
    let read = stats.work.compaction_bytes_read - merged.work.compaction_bytes_read;
    assert!(read * 10 <= merged.work.compaction_bytes_read, "{read} bytes were merged");
    both.check("without the tables");
    let snapshot = both.db.snapshot();
    let seen = both.model.clone();
    both.delete_range(0, 2000);
    both.db.flush().unwrap();
    both.db.wait_idle().unwrap();
    assert!(both.tables() > 0, "the snapshot sees them");
    check(&both.family, Some(&snapshot), &seen, "snapshot");
    both.check("all deleted");
    drop(snapshot);
    both.db.wait_idle().unwrap();
    assert_eq!((both.tables(), both.family.stats().range_tombstones), (0, 0));
    assert_eq!(both.family.stats().value_log_files, 0);
    let files = std::fs::read_dir(directory.path()).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let left: Vec<_> = names.filter(|n| n.ends_with(".klog") || n.ends_with(".vlog")).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_settled_key_under_an_old_deletion_is_not_hidden() {
    let directory = tempfile::tempdir().unwrap();
    let mut both = Both::new(directory.path());
    both.put(0, 400);
    both.db.compact().unwrap();
    let snapshot = both.db.snapshot();
    // The snapshot keeps tombstone and old versions; the new ones must not be settled to zero.
    both.delete_range(100, 300);
    both.put(150, 200);
    both.db.compact().unwrap();
    assert_eq!(both.family.stats().range_tombstones, 1);
    both.check("the deletion is still there");
    drop(snapshot);
    both.check("the snapshot is gone");
    both.db.compact().unwrap();
    assert_eq!(both.family.stats().range_tombstones, 0);
    both.check("the deletion is gone");
}

#[test]
fn transactions_conflict_with_a_deletion_of_what_they_touch() {
    let directory = tempfile::tempdir().unwrap();
    let (db, family) = open(directory.path());
    for flushed in [false, true] {
        let run = |level, from: &[u8], to: &[u8], reads: bool| {
            for key in [b"b", b"c", b"d"] {
                family.put(key, b"v").unwrap();
            }
            let mut transaction = db.begin(level).unwrap();
            if reads {
                transaction.get(&family, b"c").unwrap();
            } else {
                transaction.put(&family, b"c", b"mine").unwrap();
            }
            family.delete_range(from, to).unwrap();
            if flushed {
                db.flush().unwrap();
            }
            transaction.put(&family, b"x", b"too").unwrap();
            transaction.commit()
        };
        let conflicts = |result: Result<_, Error>| matches!(result, Err(Error::Conflict { .. }));
        assert!(conflicts(run(IsolationLevel::Snapshot, b"b", b"d", false)), "{flushed}");
        assert!(!conflicts(run(IsolationLevel::Snapshot, b"d", b"e", false)), "{flushed}");
        assert!(conflicts(run(IsolationLevel::RepeatableRead, b"b", b"d", true)), "{flushed}");
        assert!(!conflicts(run(IsolationLevel::RepeatableRead, b"d", b"e", true)), "{flushed}");
    }
}

#[test]
fn deletions_meet_expiry() {
    let directory = tempfile::tempdir().unwrap();
    let (db, family) = open(directory.path());
    family.put(b"a", b"old").unwrap();
    family.put_with_ttl(b"b", b"lives", Duration::from_secs(10_000)).unwrap();
    family.delete_range(b"a", b"c").unwrap();
    family.put_with_ttl(b"a", b"lives", Duration::from_secs(10_000)).unwrap();
    family.put_expiring_at(b"b", b"gone", 1).unwrap();
    for _ in 0..2 {
        assert_eq!(family.get(b"a").unwrap().unwrap(), b"lives");
        assert_eq!(family.get(b"b").unwrap(), None);
        db.compact().unwrap();
    }
}

#[test]
fn a_hundred_thousand_deletions_are_cheap() {
    const RANGES: u64 = 100_000;
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), DbOptions::default()).unwrap();
    let family = db.open_family("default", FamilyOptions::default()).unwrap();
    let number = |n: u64| n.to_be_bytes();
    for n in 0..RANGES {
        family.put(&number(n * 10 + 5), b"in a range").unwrap();
        family.put(&number(n * 10 + 9), b"between").unwrap();
    }
    db.flush().unwrap();
    let begun = Instant::now();
    for n in 0..RANGES {
        // In an order that is neither that of the keys nor its reverse.
        let n = n * 7919 % RANGES;
        family.delete_range(&number(n * 10), &number(n * 10 + 9)).unwrap();
    }
    let deleted = begun.elapsed();
    let count = |family: &Family| {
        let entries = family.scan(ScanOptions::new()).unwrap().entries();
        entries.map(|entry| assert_eq!(entry.unwrap().1, b"between")).count() as u64
    };
    assert_eq!(count(&family), RANGES);
    let scanned = begun.elapsed();
    db.flush().unwrap();
    let flushed = begun.elapsed();
    assert_eq!(count(&family), RANGES);
    assert_eq!(family.get(&number(55)).unwrap(), None);
    assert_eq!(family.get(&number(59)).unwrap().unwrap(), b"between");
    drop((db, family));
    let db = Db::open(directory.path(), DbOptions::default()).unwrap();
    let family = db.open_family("default", FamilyOptions::default()).unwrap();
    assert_eq!(count(&family), RANGES);
    let merging = Instant::now();
    db.compact().unwrap();
    println!(
        "deleted {deleted:?}, scanned {:?}, flushed {:?}, merged {:?}",
        scanned - deleted,
        flushed - scanned,
        merging.elapsed()
    );
    assert_eq!(count(&family), RANGES);
    assert_eq!(family.stats().range_tombstones, 0);
}

#[test]
fn a_queue_that_forgets_its_front_keeps_one_deletion() {
    let directory = tempfile::tempdir().unwrap();
    let mut both = Both::new(directory.path());
    both.put(0, 2000);
    both.db.flush().unwrap();
    for n in 1..500 {
        both.delete_range(0, n * 4 + 1);
        both.put(n * 4, n * 4 + 1);
        if n % 100 == 0 {
            both.db.flush().unwrap();
        }
    }
    both.db.flush().unwrap();
    both.check("flushed");
    both.db.wait_idle().unwrap();
    let left = both.family.stats().range_tombstones;
    assert!(left <= 5, "{left} deletions are left, each swallowed by the next");
    both.check("idle");
}
