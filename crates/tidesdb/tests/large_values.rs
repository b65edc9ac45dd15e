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

/// Sizes of the write buffer: one that a minute of normal use fills, and the default.
const WRITE_BUFFERS: [usize; 2] = [4 << 20, 64 << 20];

fn open(path: &Path, write_buffer: usize) -> (Db, Family) {
    let db = Db::open(path, DbOptions::default()).unwrap();
    let options = FamilyOptions::default().write_buffer_size(write_buffer);
    let family = db.open_family("default", options).unwrap();
    (db, family)
}

/// Bytes of all files, the log's included.
fn directory_bytes(path: &Path) -> u64 {
    let files = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().metadata().unwrap());
    files.filter(|file| file.is_file()).map(|file| file.len()).sum()
}

/// A database that was opened again, and of which all values but one were deleted then.
fn all_but_one_deleted(path: &Path, write_buffer: usize) -> (Db, Family) {
    let (db, family) = open(path, write_buffer);
    (0..VALUES).for_each(|n| family.put(&n.to_be_bytes(), &value(n)).unwrap());
    drop(family);
    db.close().unwrap();
    let (db, family) = open(path, write_buffer);
    assert!(directory_bytes(path) >= VALUES * MIB);
    (0..VALUES).filter(|n| *n != LEFT).for_each(|n| family.delete(&n.to_be_bytes()).unwrap());
    (db, family)
}

fn check_what_is_left(path: &Path, (db, family): (Db, Family)) {
    assert_eq!(family.get(&LEFT.to_be_bytes()).unwrap(), Some(value(LEFT)));
    drop((family, db));
    let (db, family) = open(path, WRITE_BUFFERS[0]);
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
    let (db, family) = all_but_one_deleted(path, WRITE_BUFFERS[0]);
    family.compact().unwrap();
    let bytes = directory_bytes(path);
    println!("compacted: {bytes} bytes");
    assert!(bytes <= MOST, "{bytes} bytes");
    check_what_is_left(path, (db, family));
}

/// Normal use: gets and puts, which fill the small write buffer within the minute, and not the
/// default one.
#[test]
#[ignore = "writes 600 MiB, and waits for up to two minutes"]
fn the_space_of_deleted_values_of_a_mebibyte_comes_back_within_a_minute() {
    for write_buffer in WRITE_BUFFERS {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        let (db, family) = all_but_one_deleted(path, write_buffer);
        let (started, mut least, mut puts) = (Instant::now(), u64::MAX, 0_u64);
        while started.elapsed() < Duration::from_secs(60) && least > MOST {
            puts += 1;
            let value = puts.to_le_bytes().repeat(100);
            family.put(format!("small {}", puts % 1000), value).unwrap();
            assert!(family.get(LEFT.to_be_bytes()).unwrap().is_some());
            std::thread::sleep(Duration::from_millis(2));
            if puts.is_multiple_of(20) {
                least = least.min(directory_bytes(path));
            }
        }
        println!("{write_buffer}: {puts} puts in {:?}: {least} bytes", started.elapsed());
        assert!(least <= MOST, "{least} bytes with a write buffer of {write_buffer}");
        check_what_is_left(path, (db, family));
    }
}

/// Ten values, overwritten again and again: their commits take a hundred bytes each of a memtable
/// of 32 MiB.
#[test]
#[ignore = "writes 1.5 GiB"]
fn overwritten_values_of_a_mebibyte_take_bounded_space() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let (db, family) = open(path, WRITE_BUFFERS[1]);
    let mut most = 0;
    for n in 0..1500_u64 {
        family.put((n % 10).to_be_bytes(), value(n)).unwrap();
        most = most.max(directory_bytes(path));
    }
    println!("at most {most} bytes");
    assert!(most <= 640 * MIB, "{most} bytes");
    for n in 1490..1500_u64 {
        assert_eq!(family.get((n % 10).to_be_bytes()).unwrap(), Some(value(n)));
    }
    db.close().unwrap();
}
