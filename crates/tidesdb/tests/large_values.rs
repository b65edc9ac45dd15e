//! The space of deleted values of 1 MiB in a real directory, as the lengths of its files say.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::time::{Duration, Instant};

use tidesdb::{Db, DbOptions, Family, FamilyOptions};

const MIB: u64 = 1 << 20;
const VALUES: u64 = 300;

/// The value that stays.
const LEFT: u64 = 150;

/// Bytes that the directory may have then, the log's segments included.
const MOST: u64 = 40 * MIB;

/// Bytes that do not compress.
fn value(n: u64) -> Vec<u8> {
    let noise = |word: u64| {
        let mixed = (n << 32 | word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9).to_le_bytes()
    };
    (0..MIB / 8).flat_map(noise).collect()
}

fn open(path: &Path) -> (Db, Family) {
    let db = Db::open(path, DbOptions::default()).unwrap();
    let options = FamilyOptions::default().write_buffer_size(4 << 20);
    let family = db.open_family("default", options).unwrap();
    (db, family)
}

/// Bytes of all files, the log's included.
fn directory_bytes(path: &Path) -> u64 {
    let files = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().metadata().unwrap());
    files.filter(|file| file.is_file()).map(|file| file.len()).sum()
}

/// A database that was opened again, and of which all values but one were deleted then.
fn all_but_one_deleted(path: &Path) -> (Db, Family) {
    let (db, family) = open(path);
    (0..VALUES).for_each(|n| family.put(&n.to_be_bytes(), &value(n)).unwrap());
    drop(family);
    db.close().unwrap();
    let (db, family) = open(path);
    assert!(directory_bytes(path) >= VALUES * MIB);
    (0..VALUES).filter(|n| *n != LEFT).for_each(|n| family.delete(&n.to_be_bytes()).unwrap());
    (db, family)
}

fn check_what_is_left(path: &Path, (db, family): (Db, Family)) {
    assert_eq!(family.get(&LEFT.to_be_bytes()).unwrap(), Some(value(LEFT)));
    drop((family, db));
    let (db, family) = open(path);
    assert_eq!(family.get(&LEFT.to_be_bytes()).unwrap(), Some(value(LEFT)));
    assert_eq!(family.get(&0_u64.to_be_bytes()).unwrap(), None);
    db.wait_idle().unwrap();
    let bytes = directory_bytes(path);
    println!("opened again: {bytes} bytes");
    assert!(bytes <= MOST, "{bytes} bytes after another opening");
    assert!(db.verify().unwrap().problems.is_empty());
}

#[test]
#[ignore = "writes 300 MiB"]
fn a_compaction_gives_the_space_of_deleted_values_of_a_mebibyte_back() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let (db, family) = all_but_one_deleted(path);
    family.compact().unwrap();
    let bytes = directory_bytes(path);
    println!("compacted: {bytes} bytes");
    assert!(bytes <= MOST, "{bytes} bytes");
    check_what_is_left(path, (db, family));
}

/// Normal use: gets, and puts that fill a write buffer within the minute, since deletions that lie
/// in memory free nothing.
#[test]
#[ignore = "writes 300 MiB, and waits for up to a minute"]
fn the_space_of_deleted_values_of_a_mebibyte_comes_back_within_a_minute() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let (db, family) = all_but_one_deleted(path);
    let (started, mut least, mut puts) = (Instant::now(), u64::MAX, 0_u64);
    while started.elapsed() < Duration::from_secs(60) && least > MOST {
        puts += 1;
        family.put(format!("small {}", puts % 1000), puts.to_le_bytes().repeat(100)).unwrap();
        assert!(family.get(LEFT.to_be_bytes()).unwrap().is_some());
        std::thread::sleep(Duration::from_millis(2));
        if puts.is_multiple_of(20) {
            least = least.min(directory_bytes(path));
        }
    }
    println!("{puts} puts in {:?}: {least} bytes", started.elapsed());
    assert!(least <= MOST, "{least} bytes");
    check_what_is_left(path, (db, family));
}
