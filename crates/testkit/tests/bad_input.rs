//! Wrong arguments, wrong directories, wrong order of calls: each is refused with an error of the
//! right kind that names what is wrong, and nothing changes.

#![expect(clippy::unwrap_used, clippy::panic, reason = "test helpers fail by panicking")]

mod files;
mod handles;

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::common_support::directory::{assert_unchanged, files, picture};
use crate::common_support::small::{small_db, small_family};
use tidesdb::{
    Components, Db, DbOptions, Error, ErrorKind, Family, FamilyOptions, Result, ScanOptions,
    SyncMode, WriteBatch,
};
use tidesdb_sim::{FaultError, FaultKind, FaultVfs, ManualClock, ManualScheduler, OpSet, SimVfs};
use tidesdb_sys::clock::Clock;
use tidesdb_sys::vfs::{RealVfs, Vfs};

/// Opens the database in `path` with small settings.
fn open(path: &Path) -> Db {
    Db::open(path, small_db()).unwrap()
}

/// Fails unless `result` is an error of this kind whose text contains all of `words`.
#[track_caller]
fn refused<T>(result: Result<T>, kind: ErrorKind, words: &[&str]) {
    let Err(error) = result else { panic!("not refused; wanted {kind:?} with {words:?}") };
    assert_eq!(error.kind(), kind, "{error}");
    for word in words {
        assert!(error.to_string().contains(word), "{word:?} is missing in: {error}");
    }
}

fn two_families(path: &Path) -> (Db, Family, Family) {
    let db = open(path);
    let first = db.open_family("first", small_family()).unwrap();
    let second = db.open_family("second", small_family()).unwrap();
    (db, first, second)
}

#[test]
fn an_empty_key_is_invalid_everywhere() {
    let directory = tempfile::tempdir().unwrap();
    let (db, family, _) = two_families(directory.path());
    let mut batch = WriteBatch::new();
    refused(family.put(b"", b"v"), ErrorKind::Invalid, &["key"]);
    refused(family.put_with_ttl(b"", b"v", Duration::from_secs(9)), ErrorKind::Invalid, &["key"]);
    refused(family.put_expiring_at(b"", b"v", 9), ErrorKind::Invalid, &["key"]);
    refused(family.delete(b""), ErrorKind::Invalid, &["key"]);
    refused(family.get(b""), ErrorKind::Invalid, &["key"]);
    refused(family.get_at(&db.snapshot(), b""), ErrorKind::Invalid, &["key"]);
    refused(family.get_into(b"", &mut Vec::new()), ErrorKind::Invalid, &["key"]);
    refused(family.contains(b""), ErrorKind::Invalid, &["key"]);
    refused(batch.put(&family, b"", b"v"), ErrorKind::Invalid, &["key"]);
    refused(batch.put_expiring_at(&family, b"", b"v", 9), ErrorKind::Invalid, &["key"]);
    refused(batch.delete(&family, b""), ErrorKind::Invalid, &["key"]);
    assert!(batch.is_empty());
    assert_eq!(family.scan(ScanOptions::new()).unwrap().entries().count(), 0);
    // A scan's target need not be a key that could be stored.
    family.put(b"k", b"v").unwrap();
    let mut scan = family.scan(ScanOptions::new()).unwrap();
    scan.seek(b"").unwrap();
    assert_eq!(scan.key(), b"k");
    scan.seek_for_prev(b"").unwrap();
    assert!(!scan.valid());
}

#[test]
fn the_longest_key_is_stored_and_a_longer_one_refused() {
    let directory = tempfile::tempdir().unwrap();
    let (db, family, _) = two_families(directory.path());
    let (longest, longer) = (vec![7; 65_535], vec![7; 65_536]);
    let words = ["key", "65536", "65535"];
    let mut batch = WriteBatch::new();
    batch.put(&family, b"other", b"v").unwrap();
    refused(family.put(&longer, b"v"), ErrorKind::Invalid, &words);
    refused(family.delete(&longer), ErrorKind::Invalid, &words);
    refused(batch.put(&family, &longer, b"v"), ErrorKind::Invalid, &words);
    assert_eq!((batch.len(), batch.size_bytes()), (1, 6), "the batch is as before");
    batch.put(&family, &longest, b"v").unwrap();
    db.write(&batch).unwrap();
    for flushed in [false, true] {
        assert_eq!(family.get(&longest).unwrap().unwrap(), b"v", "flushed: {flushed}");
        assert_eq!(family.get(&longer).unwrap(), None);
        let mut scan = family.scan(ScanOptions::new()).unwrap();
        scan.seek(&longer).unwrap();
        assert_eq!(scan.key(), b"other");
        scan.seek_for_prev(&longer).unwrap();
        assert_eq!(scan.key(), longest);
        db.compact().unwrap();
    }
    drop((db, family, batch));
    let (db, family, _) = two_families(directory.path());
    assert_eq!(family.get(&longest).unwrap().unwrap(), b"v");
    assert!(db.verify().unwrap().problems.is_empty());
}

fn huge_value_round_trip(bytes: usize) {
    let directory = tempfile::tempdir().unwrap();
    let (db, family, _) = two_families(directory.path());
    let mut value = vec![0; bytes];
    for (at, byte) in value.iter_mut().enumerate() {
        *byte = (at as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes()[0];
    }
    family.put(b"huge", &value).unwrap();
    let same = |family: &Family| family.get_with(b"huge", |found| found == value).unwrap();
    assert_eq!(same(&family), Some(true));
    db.flush().unwrap();
    assert_eq!(same(&family), Some(true));
    drop((db, family));
    let (db, family, _) = two_families(directory.path());
    assert_eq!(same(&family), Some(true));
    assert!(db.verify().unwrap().problems.is_empty());
}

#[test]
fn a_value_of_64_mib_is_stored_whole() {
    huge_value_round_trip(64 << 20);
}

#[test]
#[ignore = "needs 20 GiB of memory and 4 GiB of disk"]
fn the_longest_value_is_stored_and_a_longer_one_refused() {
    huge_value_round_trip(u32::MAX as usize);
    let directory = tempfile::tempdir().unwrap();
    let (_db, family, _) = two_families(directory.path());
    let longer = vec![0; u32::MAX as usize + 1];
    refused(family.put(b"k", &longer), ErrorKind::Invalid, &["value", "4294967296", "4294967295"]);
}

#[test]
fn families_that_are_not_there_or_there_already_or_badly_named() {
    let directory = tempfile::tempdir().unwrap();
    let (db, ..) = two_families(directory.path());
    refused(db.family("third"), ErrorKind::NotFound, &["third"]);
    refused(db.drop_family("third"), ErrorKind::NotFound, &["third"]);
    refused(db.create_family("first", small_family()), ErrorKind::Exists, &["first"]);
    let long = "n".repeat(128);
    for bad in ["", ".", "..", "a/b", "a\\b", "a\nb", long.as_str()] {
        refused(db.create_family(bad, small_family()), ErrorKind::Invalid, &["name"]);
        refused(db.family(bad), ErrorKind::NotFound, &[]);
    }
    db.create_family(&"n".repeat(127), small_family()).unwrap();
    db.create_family("größe ☃", small_family()).unwrap();
    assert_eq!(db.family_names().len(), 4);
}

#[test]
fn wrong_options_are_refused_with_all_problems_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    let options = DbOptions::default()
        .log_segment_bytes(1)
        .flush_threads(1000)
        .compaction_threads(1000)
        .sync_mode(SyncMode::Interval { interval_us: 0 });
    let words = ["log_segment_bytes", "flush_threads", "compaction_threads", "interval"];
    let result = Db::open(&path, options);
    assert!(matches!(&result, Err(Error::InvalidOptions(all)) if all.len() == 4));
    refused(result, ErrorKind::Invalid, &words);
    assert!(!path.exists(), "a refused open made the directory");

    let db = open(&path);
    let options = FamilyOptions::default()
        .write_buffer_size(0)
        .klog_value_threshold(1)
        .block_size(1)
        .bloom_fpr(f64::NAN)
        .l0_queue_stall_threshold(0)
        .l1_file_count_trigger(0)
        .level_size_ratio(1)
        .target_table_bytes(0)
        .sync_mode(SyncMode::Interval { interval_us: 0 });
    let result = db.create_family("f", options.clone());
    assert!(matches!(&result, Err(Error::InvalidOptions(all)) if all.len() == 9), "{result:?}");
    refused(result, ErrorKind::Invalid, &["write_buffer_size", "bloom_fpr", "level_size_ratio"]);
    refused(db.open_family("f", options), ErrorKind::Invalid, &["block_size"]);
    refused(db.family("f"), ErrorKind::NotFound, &["'f'"]);
}

/// A closed database of two families with tables and value logs; with `log`, one that was not
/// closed but abandoned, every commit synced.
fn sample(path: &Path, log: bool) {
    let options = small_db().sync_mode(SyncMode::Full);
    let db = Db::open(path, options).unwrap();
    let first = db.open_family("first", small_family()).unwrap();
    let second = db.open_family("second", small_family()).unwrap();
    for n in 0..40u32 {
        let value = format!("{n:07}").repeat(if n % 4 == 0 { 40 } else { 3 });
        first.put(format!("key{n:03}").as_bytes(), value.as_bytes()).unwrap();
        second.put(format!("key{n:03}").as_bytes(), b"other").unwrap();
    }
    if !log {
        db.compact().unwrap();
        db.close().unwrap();
    }
}

#[test]
fn a_read_only_disk_serves_readers_and_refuses_writers() {
    let directory = tempfile::tempdir().unwrap();
    sample(directory.path(), true);
    let before = picture(directory.path());
    let disk = FaultVfs::new(Arc::new(RealVfs::new()));
    disk.count_only(OpSet::CHANGES.with(tidesdb_sim::Op::Lock));
    disk.fail_call(0, FaultKind::Forever, FaultError::Kind(std::io::ErrorKind::ReadOnlyFilesystem));
    let components = || Components {
        vfs: Arc::clone(&disk) as Arc<dyn Vfs>,
        scheduler: Arc::new(ManualScheduler::new(1)),
        clock: Arc::new(ManualClock::new(1_000)),
    };
    refused(Db::open_with(directory.path(), small_db(), components()), ErrorKind::Io, &["lock"]);
    assert_unchanged(directory.path(), &before);
    // A lock that is shared writes nothing.
    disk.count_only(OpSet::CHANGES);
    let options = small_db().read_only(true);
    let db = Db::open_with(directory.path(), options, components()).unwrap();
    let family = db.family("second").unwrap();
    assert_eq!(family.get(b"key007").unwrap().unwrap(), b"other");
    assert_eq!(family.scan(ScanOptions::new()).unwrap().entries().count(), 40);
    assert!(db.verify().unwrap().problems.is_empty());
    let mut batch = WriteBatch::new();
    batch.put(&family, b"k", b"v").unwrap();
    refused(family.put(b"k", b"v"), ErrorKind::ReadOnly, &["reading only"]);
    refused(family.delete(b"k"), ErrorKind::ReadOnly, &[]);
    refused(db.write(&batch), ErrorKind::ReadOnly, &[]);
    refused(db.create_family("third", small_family()), ErrorKind::ReadOnly, &[]);
    refused(db.drop_family("first"), ErrorKind::ReadOnly, &[]);
    refused(db.flush(), ErrorKind::ReadOnly, &[]);
    refused(db.compact(), ErrorKind::ReadOnly, &[]);
    db.close().unwrap();
    assert_unchanged(directory.path(), &before);
}

#[test]
fn opening_for_reading_only_changes_nothing_though_there_is_a_log_to_replay() {
    let directory = tempfile::tempdir().unwrap();
    sample(directory.path(), true);
    let before = picture(directory.path());
    let options = small_db().read_only(true);
    let db = Db::open(directory.path(), options).unwrap();
    assert_eq!(db.family("second").unwrap().get(b"key039").unwrap().unwrap(), b"other");
    refused(db.family("second").unwrap().put(b"k", b"v"), ErrorKind::ReadOnly, &[]);
    drop(db);
    assert_unchanged(directory.path(), &before);
}

#[test]
fn bounds_that_cross_cover_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let (_db, family, _) = two_families(directory.path());
    for key in [b"a", b"b", b"c"] {
        family.put(key, b"v").unwrap();
    }
    for (lower, upper) in [(b"c", b"a"), (b"b", b"b")] {
        let mut scan = family.scan(ScanOptions::new().lower(lower).upper(upper)).unwrap();
        scan.seek_to_first().unwrap();
        assert!(!scan.valid());
        scan.seek_to_last().unwrap();
        assert!(!scan.valid());
        for target in [b"a", b"b", b"c"] {
            scan.seek(target).unwrap();
            assert!(!scan.valid());
            scan.seek_for_prev(target).unwrap();
            assert!(!scan.valid());
        }
        scan.next().unwrap();
        scan.prev().unwrap();
        assert!(!scan.valid());
        assert_eq!((scan.key(), scan.value().unwrap()), (&b""[..], &b""[..]));
    }
}

#[test]
fn times_to_live_follow_the_time_that_passes_and_no_clock_that_jumps() {
    let disk = SimVfs::new(1);
    let clock = Arc::new(ManualClock::new(1_000));
    let open = || {
        let components = Components {
            vfs: Arc::clone(&disk) as _,
            scheduler: Arc::new(ManualScheduler::new(1)),
            clock: Arc::clone(&clock) as _,
        };
        Db::open_with("/db", small_db(), components).unwrap()
    };
    let db = open();
    let family = db.create_family("f", small_family()).unwrap();
    let visible = |family: &Family, when: &str| {
        let entries = family.scan(ScanOptions::new()).unwrap().entries();
        let scanned: Vec<_> = entries.map(|e| String::from_utf8(e.unwrap().0).unwrap()).collect();
        for key in ["brief", "kept", "long", "never", "over", "past"] {
            let found = family.get(key.as_bytes()).unwrap();
            assert_eq!(found.is_some(), scanned.iter().any(|k| k == key), "{key} {when}");
            assert!(key != "over" || found.is_none_or(|value| value == b"new"), "older value");
        }
        scanned.join(" ")
    };
    for flushed in [false, true] {
        family.put(b"kept", b"old").unwrap();
        family.put(b"over", b"old").unwrap();
        family.put_with_ttl(b"over", b"new", Duration::from_secs(10)).unwrap();
        family.put_with_ttl(b"brief", b"v", Duration::from_millis(1)).unwrap();
        family.put_with_ttl(b"long", b"v", Duration::MAX).unwrap();
        family.put_expiring_at(b"never", b"v", 0).unwrap();
        family.put_expiring_at(b"past", b"v", 1).unwrap();
        if flushed {
            db.flush().unwrap();
        }
        let at_first = "brief kept long never over";
        let began = clock.unix_seconds();
        assert_eq!(visible(&family, "at first"), at_first);
        clock.set_unix_seconds(u64::MAX - 1);
        assert_eq!(visible(&family, "with the clock far ahead"), at_first);
        db.compact().unwrap();
        assert_eq!(visible(&family, "merged with the clock far ahead"), at_first);
        clock.set_unix_seconds(0);
        assert_eq!(visible(&family, "with the clock set back"), at_first);
        clock.set_unix_seconds(began);
        for (pass, then) in
            [(1, "kept long never over"), (8, "kept long never over"), (1, "kept long never")]
        {
            clock.advance(Duration::from_secs(pass));
            assert_eq!(visible(&family, &format!("{pass} s later")), then);
        }
        clock.set_unix_seconds(0);
        assert_eq!(visible(&family, "set back again"), "kept long never");
        clock.set_unix_seconds(began + 10);
    }
    // What a merge dropped as expired stays away, and the value below stays shadowed.
    db.compact().unwrap();
    drop(family);
    db.close().unwrap();
    clock.set_unix_seconds(0);
    assert_eq!(visible(&open().family("f").unwrap(), "opened in the past"), "kept long never");
}
