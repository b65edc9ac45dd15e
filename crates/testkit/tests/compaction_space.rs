//! Compactions on disks that are nearly full: what a step expects to write is what it writes,
//! compactions at one time share what is free, and a step is as small as it must be.

#![expect(clippy::unwrap_used, reason = "test helpers fail by panicking")]

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tidesdb::{
    Components, Compression, Db, DbOptions, ErrorKind, Family, FamilyOptions, ScanOptions, SyncMode,
};
use tidesdb_sim::{ManualClock, ManualScheduler, Mutation, MutationKind, Phase, SimVfs};
use tidesdb_sys::sched::Lane;
use tidesdb_sys::vfs::Vfs;
use tidesdb_testkit::inspect::deep_check;

const DIR: &str = "/db";
/// Free bytes that compactions leave alone.
const KEPT: u64 = 1 << 20;
const TABLE: u64 = 4 << 10;

struct Place {
    sim: Arc<SimVfs>,
    db: Db,
    scheduler: Arc<ManualScheduler>,
}

fn place() -> Place {
    let (sim, scheduler) = (SimVfs::new(1), Arc::new(ManualScheduler::new(1)));
    let options = DbOptions::default()
        .log_segment_bytes(1 << 20)
        .sync_mode(SyncMode::Full)
        .compaction_threads(2);
    let components = Components {
        vfs: Arc::clone(&sim) as _,
        scheduler: Arc::clone(&scheduler) as _,
        clock: Arc::new(ManualClock::new(1_000_000)),
    };
    Place { db: Db::open_with(DIR, options, components).unwrap(), sim, scheduler }
}

fn options() -> FamilyOptions {
    FamilyOptions::default()
        .write_buffer_size(4 << 20)
        .target_table_bytes(TABLE)
        .block_size(512)
        .compression(Compression::None)
        .min_disk_space(KEPT)
}

fn runs(family: &Family) -> u64 {
    family.stats().levels.iter().map(|level| level.runs).sum()
}

fn keys(family: &Family) -> usize {
    family.scan(ScanOptions::new()).unwrap().entries().map(Result::unwrap).count()
}

/// Bytes of the files of the database whose names contain `part`.
fn on_disk(sim: &SimVfs, part: &str) -> u64 {
    let entries = sim.list(Path::new(DIR)).unwrap().into_iter();
    let files = entries.filter(|entry| entry.name.contains(part));
    files.map(|entry| sim.content(&Path::new(DIR).join(entry.name)).unwrap().len() as u64).sum()
}

impl Place {
    /// Leaves so many bytes free on top of those that compactions leave alone.
    fn leave(&self, bytes: u64) {
        // The next log segment.
        while self.scheduler.step_lane(Lane::Housekeeping) {}
        self.sim.set_capacity(Some(1 << 40));
        let used = (1 << 40) - self.sim.free_bytes(Path::new(DIR)).unwrap();
        self.sim.set_capacity(Some(used + KEPT + bytes));
    }

    /// The fewest bytes that are free during `work`, not counted what the manifest takes, which is
    /// no part of what compactions write.
    fn least_free(&self, work: impl FnOnce()) -> u64 {
        let least = Arc::new(AtomicU64::new(u64::MAX));
        let noted = Arc::clone(&least);
        let manifest = on_disk(&self.sim, "MANIFEST");
        self.sim.on_mutation(Some(Arc::new(move |sim, _| {
            let free = sim.free_bytes(Path::new(DIR)).unwrap() + on_disk(sim, "MANIFEST");
            // ORDERING: relaxed, as below; one thread.
            noted.fetch_min(free.saturating_sub(manifest), Ordering::Relaxed);
        })));
        work();
        self.sim.on_mutation(None);
        // ORDERING: relaxed; one thread.
        least.load(Ordering::Relaxed)
    }

    /// Compacts the family with so much room each time, until it is done. How often it was refused.
    fn compact_with(&self, family: &Family, room: u64, most_tries: u32) -> u32 {
        for tries in 0..most_tries {
            self.leave(room);
            match family.compact() {
                Ok(()) => return tries,
                Err(e) => assert_eq!(e.kind(), ErrorKind::Full, "{e}"),
            }
        }
        most_tries
    }
}

/// What a table takes in addition to what is expected of it.
const SLACK: u64 = 4 * TABLE;

/// They were not counted, so that a compaction which empties a value log took far more than its
/// bound.
#[test]
fn values_that_a_step_moves_count() {
    let place = place();
    let family = place.db.create_family("values", options().klog_value_threshold(100)).unwrap();
    let put = |n: u32, round: u8| family.put(&n.to_be_bytes(), &[round; 1000]).unwrap();
    (0..400).for_each(|n| put(n, 0));
    family.flush().unwrap();
    (0..400).filter(|n| n % 4 > 0).for_each(|n| put(n, 1));
    family.flush().unwrap();
    place.leave(60 << 10);
    let values = on_disk(&place.sim, ".vlog");
    let least = place.least_free(|| {
        let compacted = family.compact();
        assert!(compacted.is_ok() || compacted.unwrap_err().kind() == ErrorKind::Full);
    });
    assert!(least.saturating_add(SLACK) >= KEPT, "{least} bytes were free where {KEPT} are kept");
    place.compact_with(&family, 200 << 10, 1);
    assert!(on_disk(&place.sim, ".vlog") < values * 2 / 3, "nothing was put to the test");
    assert_eq!(keys(&family), 400);
}

/// A table of the oldest run that a step cuts is written anew as a whole. Half of it was counted.
#[test]
fn the_rests_of_tables_that_a_step_cuts_count() {
    const LARGE: u64 = 100 << 10;
    let place = place();
    let family = place.db.create_family("rests", options().target_table_bytes(LARGE)).unwrap();
    let put = |n: u32| family.put(&n.to_be_bytes(), &[7; 100]).unwrap();
    (0..16_000).step_by(2).for_each(put);
    family.flush().unwrap();
    family.compact().unwrap();
    family.set_options(options()).unwrap();
    (1..16_000).step_by(5).for_each(put);
    family.flush().unwrap();
    let total = keys(&family);
    let mut refused = 0;
    let least = place.least_free(|| refused = place.compact_with(&family, LARGE * 3 / 4, 1));
    assert_eq!(refused, 1, "nothing was put to the test");
    assert!(least.saturating_add(SLACK) >= KEPT, "{least} bytes were free where {KEPT} are kept");
    let least = place.least_free(|| refused = place.compact_with(&family, LARGE * 4 / 3, 10));
    assert!(refused < 10, "a table and a third of one are room enough");
    assert!(least.saturating_add(SLACK) >= KEPT, "{least} bytes were free where {KEPT} are kept");
    assert_eq!((runs(&family), keys(&family)), (1, total));
    deep_check(&place.db, place.sim.as_ref(), Path::new(DIR)).unwrap();
}

/// The first one had looked at the space and written nothing yet when the second looked.
#[test]
fn compactions_at_once_share_the_space() {
    let place = place();
    let family = |name: &str| {
        let options = options().target_table_bytes(1 << 20).l1_file_count_trigger(100);
        let family = place.db.create_family(name, options).unwrap();
        for round in 0..2 {
            (0..2000u32)
                .for_each(|n| family.put(&(n * 2 + round).to_be_bytes(), &[7; 100]).unwrap());
            family.flush().unwrap();
        }
        family
    };
    let (a, b) = (family("a"), family("b"));
    assert_eq!((runs(&a), runs(&b)), (2, 2));
    // What it reads stays on the disk.
    let mut reader = b.scan(ScanOptions::new()).unwrap();
    assert!(reader.seek_to_first().is_ok());
    let bytes = on_disk(&place.sim, ".klog") / 2;
    place.leave(bytes * 3 / 2);
    let (least, second) = (Arc::new(AtomicU64::new(u64::MAX)), Arc::new(Mutex::new(None)));
    let (noted, answer, other) = (Arc::clone(&least), Arc::clone(&second), b.clone());
    let inside = AtomicBool::new(false);
    place.sim.on_mutation(Some(Arc::new(move |sim, mutation: &Mutation| {
        // ORDERING: relaxed throughout; one thread.
        noted.fetch_min(sim.free_bytes(Path::new(DIR)).unwrap(), Ordering::Relaxed);
        let begins = mutation.kind == MutationKind::Create && mutation.phase == Phase::After;
        let is_table = mutation.path.to_string_lossy().contains(".klog");
        if begins && is_table && !inside.swap(true, Ordering::Relaxed) {
            *answer.lock().unwrap() = Some(other.compact());
        }
    })));
    a.compact().unwrap();
    let second = second.lock().unwrap().take().unwrap();
    assert_eq!(second.unwrap_err().kind(), ErrorKind::Full, "there was room for one");
    b.compact().unwrap();
    place.sim.on_mutation(None);
    // ORDERING: relaxed; one thread.
    let least = least.load(Ordering::Relaxed);
    assert!(least.saturating_add(SLACK) >= KEPT, "{least} bytes were free where {KEPT} are kept");
    assert_eq!((runs(&a), runs(&b)), (1, 1));
    drop(reader);
    assert_eq!((keys(&a), keys(&b)), (4000, 4000));
}

/// With room for a few tables a step was made that has twice as many, and refused.
#[test]
fn a_step_is_as_small_as_the_space_asks_for() {
    for tables in [5, 6, 9] {
        compact_with_room_for(tables);
    }
}

fn compact_with_room_for(tables: u64) {
    let place = place();
    let family = place.db.create_family("small", options()).unwrap();
    for run in 0..4u32 {
        (0..2000u32).for_each(|n| family.put(&(n * 4 + run).to_be_bytes(), &[7; 100]).unwrap());
        family.flush().unwrap();
        if run == 0 {
            family.compact().unwrap();
        }
    }
    let mut tries = 0;
    let least = place.least_free(|| tries = place.compact_with(&family, tables * TABLE, 20));
    println!("room for {tables} tables: refused {tries} times");
    assert!(tries < 20, "there was room for {tables} tables");
    assert!(least.saturating_add(SLACK) >= KEPT, "{least} bytes were free where {KEPT} are kept");
    assert_eq!((runs(&family), keys(&family)), (1, 8000));
    deep_check(&place.db, place.sim.as_ref(), Path::new(DIR)).unwrap();
}

/// I-239. Nothing else wakes a compaction that found no space where no one writes.
#[test]
fn a_compaction_without_space_is_done_when_there_is_some() {
    let place = place();
    let options = options().target_table_bytes(1 << 20).l1_file_count_trigger(2);
    let family = place.db.create_family("waits", options).unwrap();
    let flush = |round: u32| {
        (0..500u32).for_each(|n| family.put(&(n * 4 + round).to_be_bytes(), &[7; 100]).unwrap());
        family.flush().unwrap();
        place.scheduler.run_until_idle();
    };
    (0..3).for_each(flush);
    place.leave(100 << 10);
    flush(3);
    let fire = || {
        place.scheduler.fire_timer();
        place.scheduler.run_until_idle();
    };
    // Whatever else looks for compactions has looked.
    (0..10).for_each(|_| fire());
    assert_eq!(runs(&family), 4, "there was space");
    place.sim.set_capacity(None);
    (0..40).for_each(|_| fire());
    assert_eq!((runs(&family), keys(&family)), (1, 2000));
}
