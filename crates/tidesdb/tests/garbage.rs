//! Space that deletions free: judged by the lengths of the files in the directory, and by what the
//! system says was written. `TIDESDB_TEST_SCALE=10` runs the volumes of two million keys.

#![expect(clippy::unwrap_used, reason = "test helpers fail by panicking")]

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tidesdb::{Db, DbOptions, Family, FamilyOptions, ScanOptions, StallReason, WriteBatch};

/// What a process has written is counted for all of its threads: one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keys at scale 1, a multiple of 100.
const KEYS: u64 = 200_000;

fn scale() -> f64 {
    let scale = std::env::var("TIDESDB_TEST_SCALE").ok().and_then(|text| text.parse().ok());
    scale.unwrap_or(1.0)
}

fn keys() -> u64 {
    ((KEYS / 100) as f64 * scale()) as u64 * 100
}

/// A database whose write buffer is to the usual one as its keys are to two million.
fn open(directory: &Path) -> (Db, Family) {
    let db = Db::open(directory, DbOptions::default()).unwrap();
    let usual = FamilyOptions::default();
    let write_buffer_size = (usual.write_buffer_size as f64 * scale() / 10.0) as usize;
    let options = usual.write_buffer_size(write_buffer_size);
    (db.clone(), db.open_family("default", options).unwrap())
}

fn key(n: u64) -> Vec<u8> {
    format!("key{n:012}").into_bytes()
}

/// Puts as many keys from `first` on, in no order, with values that do not compress. Returns how
/// many a second.
fn put(family: &Family, first: u64, count: u64) -> f64 {
    let begun = Instant::now();
    let mut value = [0; 96];
    for n in 0..count {
        let n = first + n * 7_368_787 % count;
        let mut random = n;
        for part in value.chunks_exact_mut(8) {
            random = (random ^ random >> 31).wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(1);
            part.copy_from_slice(&random.to_le_bytes());
        }
        family.put(&key(n), &value).unwrap();
    }
    count as f64 / begun.elapsed().as_secs_f64()
}

/// Bytes of all files but the log.
fn bytes_on_disk(directory: &Path) -> u64 {
    let files = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    let counted = files.filter(|file| file.path().extension().is_none_or(|kind| kind != "log"));
    // A file may go between the two calls.
    counted.filter_map(|file| Some(file.metadata().ok()?.len())).sum()
}

/// Bytes of all files but the log, once they stay as they are: what was replaced is removed by a
/// job soon after.
fn settled_bytes_on_disk(directory: &Path) -> u64 {
    let begun = Instant::now();
    let mut bytes = bytes_on_disk(directory);
    loop {
        std::thread::sleep(Duration::from_millis(500));
        let now = bytes_on_disk(directory);
        if now == bytes {
            return bytes;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{bytes} bytes became {now}");
        bytes = now;
    }
}

/// Waits until the files take at most `most` bytes, but for no more than so many milliseconds in
/// which the family has no background work under way: how long work takes is the machine's matter.
/// Returns what they took at last.
fn wait_for_bytes(directory: &Path, family: &Family, most: u64, idle_milliseconds: u64) -> u64 {
    let (begun, mut idle) = (Instant::now(), 0);
    loop {
        let bytes = bytes_on_disk(directory);
        let is_late = idle > idle_milliseconds || begun.elapsed() > Duration::from_secs(300);
        if bytes <= most || is_late {
            return bytes;
        }
        std::thread::sleep(Duration::from_millis(50));
        let works = family.is_compacting() || family.is_flushing();
        idle += if works { 0 } else { 50 };
    }
}

/// Opens the database again, which forgets what it knew of its garbage, and waits likewise.
fn wait_reopened(
    directory: &Path,
    db: Db,
    family: Family,
    most: u64,
    idle_milliseconds: u64,
) -> u64 {
    drop(family);
    db.close().unwrap();
    let (_db, family) = open(directory);
    wait_for_bytes(directory, &family, most, idle_milliseconds)
}

/// Bytes that the process has written by system calls, so without the log, which is mapped.
fn bytes_written() -> u64 {
    let io = std::fs::read_to_string("/proc/self/io").unwrap();
    let line = io.lines().find_map(|line| line.strip_prefix("wchar: ")).unwrap();
    line.parse().unwrap()
}

struct Deleted {
    puts_per_second: f64,
    written: u64,
    /// Bytes on the disk some seconds after the scan has ended.
    left: u64,
    /// Before anything was deleted.
    loaded: u64,
}

/// Deletes three keys of five, then puts others.
fn delete_and_put(with_scan: bool) -> Deleted {
    let directory = tempfile::tempdir().unwrap();
    let (db, family) = open(directory.path());
    put(&family, 0, keys());
    db.wait_idle().unwrap();
    let loaded = settled_bytes_on_disk(directory.path());
    let before = bytes_written();
    let mut scan = with_scan.then(|| family.scan(ScanOptions::new()).unwrap().entries());
    let mut seen = scan.iter_mut().filter_map(Iterator::next).count() as u64;
    for n in (0..keys()).filter(|n| n % 5 < 3) {
        family.delete(&key(n)).unwrap();
    }
    family.flush().unwrap();
    std::thread::sleep(Duration::from_secs(1));
    let puts_per_second = put(&family, keys(), keys() / 2);
    std::thread::sleep(Duration::from_secs(3));
    seen += scan.iter_mut().flatten().count() as u64;
    assert_eq!(seen, if with_scan { keys() } else { 0 });
    drop(scan);
    let live = loaded * 9 / 10;
    wait_for_bytes(directory.path(), &family, live * 3 / 2, 6_000);
    let written = bytes_written() - before;
    let left = wait_reopened(directory.path(), db, family, live * 3 / 2, 2_000);
    Deleted { puts_per_second, written, left, loaded }
}

/// Writers were slowed to a fiftieth, and everything was merged again and again in vain.
#[test]
fn deletions_under_a_scan_slow_no_writer_and_are_collected_after_it() {
    let _alone = alone();
    // Half as fast at full volume; what is short is measured badly beside other tests.
    let least = if scale() >= 10.0 { 0.5 } else { 0.2 };
    let keeps_up = |without: &Deleted, with: &Deleted| {
        with.puts_per_second >= least * without.puts_per_second
            && with.written <= 2 * without.written
    };
    let measure = || (delete_and_put(false), delete_and_put(true));
    let (mut without, mut with) = measure();
    for _ in 0..2 {
        // Another program may have had the processors in one of the two.
        if !keeps_up(&without, &with) {
            (without, with) = measure();
        }
    }
    for (when, of) in [("without a scan", &without), ("under a scan", &with)] {
        println!(
            "{when}: {:.0} puts a second, {} MiB written, {} MiB left of {}",
            of.puts_per_second,
            of.written >> 20,
            of.left >> 20,
            of.loaded >> 20
        );
    }
    assert!(keeps_up(&without, &with));
    // Two fifths and a half of the keys are alive, and half as much may be garbage.
    assert!(with.left <= with.loaded * 27 / 20, "{} of {}", with.left, with.loaded);
}

/// No merge came for deletions of ranges smaller than a table.
#[test]
fn small_range_deletions_give_space_back_in_seconds() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let (db, family) = open(directory.path());
    put(&family, 0, keys());
    db.wait_idle().unwrap();
    let loaded = settled_bytes_on_disk(directory.path());
    for first in (0..keys()).step_by(100) {
        family.delete_range(&key(first), &key(first + 90)).unwrap();
    }
    family.flush().unwrap();
    let begun = Instant::now();
    let left = wait_for_bytes(directory.path(), &family, loaded * 3 / 10, 10_000);
    println!("{} MiB left of {} after {:?}", left >> 20, loaded >> 20, begun.elapsed());
    assert!(left <= loaded * 3 / 10, "{left} of {loaded} bytes are left");
    assert_eq!(family.scan(ScanOptions::new()).unwrap().entries().count() as u64, keys() / 10);
    db.wait_idle().unwrap();
    // But for some that hide too little to be worth a merge, all hide nothing any more.
    let tombstones = family.stats().range_tombstones;
    assert!(tombstones <= keys() / 1000, "{tombstones} tombstones are left");
    let left = wait_reopened(directory.path(), db, family, loaded * 3 / 10, 2_000);
    assert!(left <= loaded * 3 / 10, "{left} of {loaded} bytes are left after a reopening");
}

/// Tombstones take little, and what is alive shrinks: that is no growth.
#[test]
fn deleting_everything_is_not_slowed_for_its_garbage() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let (db, family) = open(directory.path());
    put(&family, 0, keys());
    db.wait_idle().unwrap();
    let loaded = settled_bytes_on_disk(directory.path());
    let begun = Instant::now();
    for batch in 0..keys() / 100 {
        let mut deletions = WriteBatch::new();
        for n in 0..100 {
            deletions.delete(&family, &key((batch * 100 + n) * 7_368_787 % keys())).unwrap();
        }
        db.write(&deletions).unwrap();
    }
    let rate = keys() as f64 / begun.elapsed().as_secs_f64();
    let stalls = db.stats().stalls;
    let stall = stalls.iter().find(|stall| stall.reason == StallReason::SpaceAmplification);
    println!("{rate:.0} deletions a second, {stall:?}");
    assert_eq!(stall.map_or(0, |stall| stall.count), 0);
    family.flush().unwrap();
    // What takes less than a flush is not worth a merge for its garbage alone.
    let most = loaded / 10 + family.options().write_buffer_size as u64 / 2;
    let left = wait_for_bytes(directory.path(), &family, most, 10_000);
    assert!(left <= most, "{left} of {loaded} bytes are left");
    let left = wait_reopened(directory.path(), db, family, most, 2_000);
    assert!(left <= most, "{left} of {loaded} bytes are left");
}

/// Nothing is written when the snapshot goes: its end starts the merges, and nothing was merged in
/// vain before.
#[test]
fn what_a_snapshot_kept_of_deleted_ranges_goes_with_it() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let (db, family) = open(directory.path());
    put(&family, 0, keys());
    db.compact().unwrap();
    let loaded = settled_bytes_on_disk(directory.path());
    let snapshot = db.snapshot();
    for first in (0..keys()).step_by(100) {
        family.delete_range(&key(first), &key(first + 90)).unwrap();
    }
    family.put(b"last", b"value").unwrap();
    family.flush().unwrap();
    let before = bytes_written();
    std::thread::sleep(Duration::from_secs(4));
    let written = bytes_written() - before;
    assert!(written < loaded / 4, "{written} bytes were written in vain");
    assert!(bytes_on_disk(directory.path()) > loaded * 9 / 10);
    assert_eq!(family.get_at(&snapshot, &key(0)).unwrap().map(|value| value.len()), Some(96));
    drop(snapshot);
    let left = wait_for_bytes(directory.path(), &family, loaded * 3 / 10, 8_000);
    assert!(left <= loaded * 3 / 10, "{left} of {loaded} bytes are left");
    let left = wait_reopened(directory.path(), db, family, loaded * 3 / 10, 2_000);
    assert!(left <= loaded * 3 / 10, "{left} of {loaded} bytes are left after a reopening");
}
