//! Statistics of reads, syncs and verification that are counted one by one.

use tidesdb::{SyncMode, WriteOptions};

use super::*;

#[test]
fn values_from_value_logs_are_counted_as_gets_fetch_them() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), DbOptions::default()).unwrap();
    let options = FamilyOptions::default().klog_value_threshold(100);
    let family = db.create_family("default", options).unwrap();
    for n in 0..20 {
        // Every other one is large.
        family.put(&key(n), &vec![7; if n % 2 == 0 { 300 } else { 30 }]).unwrap();
    }
    (0..20).for_each(|n| assert!(family.get(&key(n)).unwrap().is_some()));
    assert_eq!(family.stats().reads.values_read, 0, "they were in memory");
    family.flush().unwrap();
    (0..20).for_each(|n| assert!(family.get(&key(n)).unwrap().is_some()));
    assert_eq!(family.stats().reads.values_read, 10);
    assert_eq!(db.stats().reads.values_read, 10);
}

#[test]
fn the_share_of_blocks_that_were_cached_is_known() {
    let directory = tempfile::tempdir().unwrap();
    let open = || Db::open(directory.path(), DbOptions::default()).unwrap();
    let db = open();
    let family = db.create_family("default", FamilyOptions::default()).unwrap();
    family.put(b"key", b"value").unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    let db = open();
    let family = db.family("default").unwrap();
    let rate = || family.stats().reads.cache_hit_rate();
    assert_eq!(rate(), 0.0);
    for expected in [0.0, 0.5, 2.0 / 3.0, 0.75] {
        assert!(family.contains(b"key").unwrap());
        assert_eq!(rate(), expected);
    }
}

#[test]
fn syncs_of_the_log_are_counted() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), DbOptions::default().sync_mode(SyncMode::None)).unwrap();
    let family = db.create_family("default", FamilyOptions::default()).unwrap();
    family.put(b"key", b"value").unwrap();
    let before = db.stats();
    family.put(b"key", b"value").unwrap();
    assert_eq!(db.stats().log_syncs, before.log_syncs, "none was asked for");
    for n in 1..=5 {
        family.put_with(b"key", b"value", WriteOptions::new().sync(true)).unwrap();
        let stats = db.stats();
        assert_eq!(stats.log_syncs, before.log_syncs + n);
        assert_eq!(stats.synced_commits, before.synced_commits + n);
    }
    family.put(b"key", b"value").unwrap();
    db.sync_log().unwrap();
    let stats = db.stats();
    assert_eq!(stats.log_syncs, before.log_syncs + 6);
    assert_eq!(stats.synced_commits, before.synced_commits + 5, "no commit has waited");
}

#[test]
fn keys_in_memory_are_counted_when_a_database_is_verified() {
    let directory = tempfile::tempdir().unwrap();
    let open = || Db::open(directory.path(), DbOptions::default()).unwrap();
    let db = open();
    let one = db.create_family("one", FamilyOptions::default()).unwrap();
    let other = db.create_family("other", FamilyOptions::default()).unwrap();
    (0..7).for_each(|n| one.put(&key(n), b"value").unwrap());
    one.flush().unwrap();
    one.put(&key(1), b"again").unwrap();
    (0..3).for_each(|n| other.put(&key(n), b"value").unwrap());
    other.delete(&key(2)).unwrap();
    let report = db.verify().unwrap();
    assert_eq!((report.keys_in_memory, report.entries, report.tables), (4, 7, 1));
    db.flush().unwrap();
    assert_eq!(db.verify().unwrap().keys_in_memory, 0);
}
