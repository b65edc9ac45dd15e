//! The space of what deletions in memory hide, judged by the files of the directory. The scheduler
//! is stepped, and timers go off when a test says.

use std::path::Path;
use std::sync::Arc;

use tidesdb_base::compress::Compression;
use tidesdb_base::options::{DbOptions, FamilyOptions};
use tidesdb_sim::{ManualClock, ManualScheduler, SimVfs};
use tidesdb_sys::vfs::Vfs;

use super::{LEAST_FREED, estimate};
use crate::db::{Components, Db};
use crate::handles::Family;

const VALUES: u64 = 24;
const MIB: u64 = 1 << 20;

struct Bench {
    vfs: Arc<SimVfs>,
    scheduler: Arc<ManualScheduler>,
    db: Db,
    family: Family,
}

impl Bench {
    /// Opened again, with `values` of `bytes` each in tables and value logs.
    fn with_values(values: u64, bytes: u64) -> Self {
        let bench = Self::open(SimVfs::new(1));
        (0..values).for_each(|n| {
            bench.family.put(key(n), vec![n as u8; bytes as usize]).unwrap();
        });
        let vfs = Arc::clone(&bench.vfs);
        let Self { db, family, .. } = bench;
        drop(family);
        db.close().unwrap();
        let bench = Self::open(vfs);
        bench.settle();
        assert!(bench.value_bytes() >= values * bytes, "{}", bench.value_bytes());
        bench
    }

    fn open(vfs: Arc<SimVfs>) -> Self {
        let scheduler = Arc::new(ManualScheduler::new(1));
        let components = Components {
            vfs: Arc::clone(&vfs) as _,
            scheduler: Arc::clone(&scheduler) as _,
            clock: Arc::new(ManualClock::new(1000)),
        };
        let options = DbOptions::default().log_segment_bytes(1 << 20);
        let db = Db::open_with("/db", options, components).unwrap();
        let options = FamilyOptions::default().min_disk_space(0).compression(Compression::None);
        let family = db.open_family("family", options).unwrap();
        Self { vfs, scheduler, db, family }
    }

    /// Has all timers go off that are set, and those that these set, a few times over.
    fn settle(&self) {
        for _ in 0..10 {
            self.scheduler.run_until_idle();
            self.scheduler.fire_timer();
        }
        self.scheduler.run_until_idle();
    }

    /// Bytes of tables and value logs in the directory.
    fn value_bytes(&self) -> u64 {
        let files = self.vfs.list(Path::new("/db")).unwrap().into_iter();
        let counted = files.filter(|file| {
            let extension = Path::new(&file.name).extension().and_then(|name| name.to_str());
            extension.is_some_and(|name| ["vlog", "klog"].contains(&name))
        });
        counted.map(|file| file.len).sum()
    }

    fn flushes(&self) -> u64 {
        self.db.stats().work.flushes
    }
}

fn key(n: u64) -> [u8; 8] {
    n.to_be_bytes()
}

/// 300 values of 1 MiB stayed for as long as no one wrote much: their tombstones did not fill a
/// memtable of 32 MiB, and no compaction knew of them.
#[test]
fn the_space_of_deleted_large_values_comes_back_though_the_memtable_is_not_full() {
    let bench = Bench::with_values(VALUES, MIB);
    (1..VALUES).for_each(|n| bench.family.delete(key(n)).unwrap());
    bench.settle();
    assert!(bench.value_bytes() < 3 * MIB, "{} bytes are left", bench.value_bytes());
    assert_eq!(bench.family.get(key(0)).unwrap(), Some(vec![0; MIB as usize]));
}

/// As many as half a write buffer: below that no garbage in tables is worth a compaction.
#[test]
fn the_space_of_a_deleted_range_comes_back_though_the_memtable_is_not_full() {
    const MANY: u64 = 36;
    let bench = Bench::with_values(MANY, MIB);
    bench.family.delete_range(key(1), key(MANY)).unwrap();
    bench.settle();
    assert!(bench.value_bytes() < 3 * MIB, "{} bytes are left", bench.value_bytes());
    assert_eq!(bench.family.get(key(0)).unwrap(), Some(vec![0; MIB as usize]));
}

#[test]
fn the_space_of_what_a_batch_deletes_comes_back_though_the_memtable_is_not_full() {
    let bench = Bench::with_values(VALUES, MIB);
    let mut batch = crate::WriteBatch::new();
    batch.put(&bench.family, b"other", b"value").unwrap();
    (1..VALUES).for_each(|n| batch.single_delete(&bench.family, key(n)).unwrap());
    bench.db.write(&batch).unwrap();
    bench.settle();
    assert!(bench.value_bytes() < 3 * MIB, "{} bytes are left", bench.value_bytes());
    assert_eq!(bench.family.get(key(0)).unwrap(), Some(vec![0; MIB as usize]));
}

/// What a killed process has deleted is in memory after the opening.
#[test]
fn deletions_that_an_opening_replays_are_looked_at() {
    let bench = Bench::with_values(VALUES, MIB);
    (1..VALUES).for_each(|n| bench.family.delete(key(n)).unwrap());
    let vfs = Arc::clone(&bench.vfs);
    drop(bench);
    let bench = Bench::open(vfs);
    assert_eq!(bench.family.get(key(1)).unwrap(), None);
    bench.settle();
    assert!(bench.value_bytes() < 3 * MIB, "{} bytes are left", bench.value_bytes());
}

/// A queue that is empty, or a cache whose keys are deleted in case they are there, would be
/// flushed with each look.
#[test]
fn deletions_that_hide_little_flush_nothing() {
    let bench = Bench::with_values(VALUES, MIB);
    let before = bench.flushes();
    for turn in 0..3 {
        (0..2000_u64).for_each(|n| bench.family.delete(key(1 << 32 | n)).unwrap());
        bench.family.delete_range(key(1 << 40), key(1 << 41)).unwrap();
        // What is there is too little to be worth it.
        bench.family.delete(key(turn)).unwrap();
        bench.settle();
    }
    assert_eq!(bench.flushes(), before);
    assert!(bench.value_bytes() >= VALUES * MIB);
}

/// What was deleted by ranges is counted once: it is still there until a compaction comes, and
/// ranges may overlap.
#[test]
fn ranges_that_hide_no_more_than_others_flush_nothing() {
    let bench = Bench::with_values(VALUES, MIB);
    let before = bench.flushes();
    for from in 0..10 {
        bench.family.delete_range(key(from), key(10)).unwrap();
    }
    bench.settle();
    assert_eq!(bench.flushes(), before, "nested ranges over ten values");
    // A snapshot keeps all of it where it is.
    let snapshot = bench.db.snapshot();
    bench.family.delete_range(key(0), key(VALUES - 1)).unwrap();
    bench.settle();
    assert_eq!(bench.flushes(), before + 1);
    for until in 10..VALUES {
        bench.family.delete_range(key(0), key(until)).unwrap();
        bench.settle();
    }
    assert_eq!(bench.flushes(), before + 1, "ranges that were deleted before");
    drop(snapshot);
}

/// With many puts in the memtable it is full soon, and a flush would write more than it frees.
#[test]
fn a_memtable_that_is_large_beside_what_it_hides_waits_until_it_is_full() {
    let bench = Bench::with_values(VALUES, MIB);
    let before = bench.flushes();
    (0..6000_u64).for_each(|n| bench.family.put(key(1 << 32 | n), [7; 1000]).unwrap());
    (1..VALUES).for_each(|n| bench.family.delete(key(n)).unwrap());
    bench.settle();
    assert_eq!(bench.flushes(), before);
}

#[test]
fn only_a_deletion_sets_a_timer_and_one_is_enough() {
    let bench = Bench::open(SimVfs::new(1));
    let timers = || bench.scheduler.timers();
    let before = timers();
    (0..100).for_each(|n| bench.family.put(key(n), b"value").unwrap());
    assert_eq!(timers(), before);
    (0..100).for_each(|n| bench.family.delete(key(n)).unwrap());
    assert_eq!(timers(), before + 1);
    bench.settle();
    assert_eq!(timers(), before, "a look does not set the next one");
    bench.family.delete(key(0)).unwrap();
    assert_eq!(timers(), before + 1);
}

#[test]
fn a_look_in_a_pause_comes_after_it() {
    let bench = Bench::with_values(VALUES, MIB);
    (1..VALUES).for_each(|n| bench.family.delete(key(n)).unwrap());
    bench.db.pause_background().unwrap();
    let before = bench.flushes();
    bench.settle();
    assert_eq!(bench.flushes(), before);
    assert!(bench.value_bytes() >= VALUES * MIB);
    bench.db.resume_background();
    bench.settle();
    assert!(bench.value_bytes() < 3 * MIB, "{} bytes are left", bench.value_bytes());
}

#[test]
fn a_part_stands_for_all() {
    assert_eq!([estimate(&[], 0), estimate(&[7], 1), estimate(&[10; 4], 100)], [0, 7, 1010]);
    assert_eq!(estimate(&[0, 0, 500, 0], 1000), 500);
    assert_eq!(estimate(&[u64::MAX; 2], 2), u64::MAX);
    const { assert!(LEAST_FREED < (VALUES - 1) * MIB) };
}
