//! The engine through its public interface, on a real directory.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use tidesdb::{Db, DbOptions, Error, ErrorKind, Family, FamilyOptions, ScanOptions, WriteBatch};

fn small() -> FamilyOptions {
    FamilyOptions::default()
        .write_buffer_size(32 << 10)
        .block_size(512)
        .target_table_bytes(16 << 10)
        .klog_value_threshold(300)
        .min_disk_space(0)
}

fn open(path: &std::path::Path) -> (Db, Family) {
    let db = Db::open(path, DbOptions::default().log_segment_bytes(64 << 10)).expect("open");
    let family = db.open_family("default", small()).expect("family");
    (db, family)
}

fn key(n: u64) -> Vec<u8> {
    format!("key-{:08}", n.wrapping_mul(2_654_435_761) % 100_000).into_bytes()
}

fn value(n: u64) -> Vec<u8> {
    let length = if n.is_multiple_of(7) { 900 } else { n % 50 };
    format!("value-{n}-").into_bytes().into_iter().cycle().take(length as usize).collect()
}

fn check(family: &Family, model: &BTreeMap<Vec<u8>, Vec<u8>>) {
    for n in 0..4000 {
        assert_eq!(family.get(&key(n)).unwrap().as_ref(), model.get(&key(n)), "key {n}");
    }
    let scanned: Vec<_> =
        family.scan(ScanOptions::new()).unwrap().entries().collect::<Result<_, _>>().unwrap();
    assert!(scanned.iter().map(|(k, v)| (k, v)).eq(model.iter()), "forward scan");
    let mut scan = family.scan(ScanOptions::new()).unwrap();
    scan.seek_to_last().unwrap();
    for (wanted_key, wanted_value) in model.iter().rev() {
        assert_eq!(scan.key(), wanted_key.as_slice());
        assert_eq!(scan.value().unwrap(), wanted_value.as_slice());
        scan.prev().unwrap();
    }
    assert!(!scan.valid());
}

#[test]
fn what_was_written_is_read_through_flush_merge_and_reopen() {
    let directory = tempfile::tempdir().unwrap();
    let (db, family) = open(directory.path());
    let mut model = BTreeMap::new();
    for n in 0..6000 {
        if n % 5 == 4 {
            family.delete(&key(n / 2)).unwrap();
            model.remove(&key(n / 2));
        } else {
            family.put(&key(n), &value(n)).unwrap();
            model.insert(key(n), value(n));
        }
    }
    check(&family, &model);
    db.flush().unwrap();
    check(&family, &model);
    db.wait_idle().unwrap();
    check(&family, &model);
    assert!(db.verify().unwrap().problems.is_empty());
    let (snapshot, before) = (db.snapshot(), family.get(&key(3)).unwrap());
    family.put(&key(3), b"changed").unwrap();
    db.compact().unwrap();
    assert_eq!(family.get_at(&snapshot, &key(3)).unwrap(), before);
    model.insert(key(3), b"changed".to_vec());
    check(&family, &model);
    drop((db, family, snapshot));
    let (db, family) = open(directory.path());
    check(&family, &model);
    db.close().unwrap();
    drop(family);
    let (db, family) = open(directory.path());
    check(&family, &model);
    assert!(db.verify().unwrap().problems.is_empty());
}

#[test]
fn large_values_and_batches_over_families() {
    let directory = tempfile::tempdir().unwrap();
    let (db, first) = open(directory.path());
    let second = db.create_family("second", small()).unwrap();
    let huge = vec![7u8; 3 << 20];
    let mut batch = WriteBatch::new();
    batch.put(&first, b"a", &huge).unwrap();
    batch.put(&second, b"b", b"small").unwrap();
    batch.put(&second, b"c", &huge).unwrap();
    db.write(&batch).unwrap();
    assert_eq!(first.get(b"a").unwrap().unwrap(), huge);
    db.flush().unwrap();
    assert_eq!(second.get(b"c").unwrap().unwrap(), huge);
    first.delete(b"a").unwrap();
    db.compact().unwrap();
    drop((db, first, second));
    let (db, first) = open(directory.path());
    let second = db.family("second").unwrap();
    assert_eq!(first.get(b"a").unwrap(), None);
    assert_eq!(second.get(b"c").unwrap().unwrap(), huge);
    db.drop_family("second").unwrap();
    assert!(matches!(db.family("second"), Err(Error::FamilyNotFound(_))));
    assert_eq!(second.get(b"b").unwrap_err().kind(), ErrorKind::Closed);
    let again = db.create_family("second", small()).unwrap();
    assert_eq!(again.get(b"b").unwrap(), None);
}

#[test]
fn many_threads_write_and_read_their_own_writes() {
    let directory = tempfile::tempdir().unwrap();
    let (db, family) = open(directory.path());
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let family = family.clone();
            scope.spawn(move || {
                for n in 0..5000u64 {
                    let key = format!("{:05}-{thread}", n % 500).into_bytes();
                    family.put(&key, &n.to_le_bytes()).unwrap();
                    assert_eq!(family.get(&key).unwrap().unwrap(), n.to_le_bytes());
                }
            });
        }
    });
    db.wait_idle().unwrap();
    assert_eq!(family.scan(ScanOptions::new()).unwrap().entries().count(), 2000);
    let expected = 4999u64.to_le_bytes();
    assert_eq!(family.get(b"00499-2").unwrap().unwrap(), expected);
}
