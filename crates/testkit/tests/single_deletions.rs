//! Single deletions, each of a key that was put at most once since it was last deleted: whatever
//! flushes and merges do with the two, an older copy of the put never shows again.

#![expect(clippy::unwrap_used, reason = "test helpers fail by panicking")]

use std::sync::{Arc, Mutex};

use tidesdb::{Components, Compression, Db, DbOptions, Family, FamilyOptions, SyncMode};
use tidesdb_sim::{CrashProfile, ManualClock, ManualScheduler, MutationKind, Phase, SimVfs};

/// Keys from here on are of newer runs alone, so that these can be merged without the oldest.
const BEYOND: u64 = 900;

fn open(sim: &Arc<SimVfs>) -> Db {
    let options = DbOptions::default()
        .log_segment_bytes(1 << 20)
        .sync_mode(SyncMode::Full)
        .compaction_threads(1);
    let components = Components {
        vfs: Arc::clone(sim) as _,
        scheduler: Arc::new(ManualScheduler::new(1)),
        clock: Arc::new(ManualClock::new(1_000_000)),
    };
    Db::open_with("/db", options, components).unwrap()
}

fn family_options() -> FamilyOptions {
    FamilyOptions::default()
        .write_buffer_size(1 << 20)
        .target_table_bytes(8 << 10)
        .block_size(256)
        .compression(Compression::None)
        .min_disk_space(0)
}

fn key(n: u64) -> Vec<u8> {
    format!("key-{n:04}").into_bytes()
}

fn runs(family: &Family) -> u64 {
    family.stats().levels.iter().map(|level| level.runs).sum()
}

/// The key has an older put in a table, so deletions of it must stay while it does.
#[test]
fn a_pair_within_a_memtable_leaves_what_deleted_the_key_before() {
    let sim = SimVfs::new(1);
    let db = open(&sim);
    let family = db.create_family("family", family_options()).unwrap();
    for n in 0..3 {
        family.put(&key(n), b"old").unwrap();
    }
    family.flush().unwrap();
    family.single_delete(&key(0)).unwrap();
    family.delete(&key(1)).unwrap();
    family.delete_range(&key(2), &key(3)).unwrap();
    for n in 0..3 {
        family.put(&key(n), b"new").unwrap();
        family.single_delete(&key(n)).unwrap();
    }
    family.flush().unwrap();
    for n in 0..3 {
        assert_eq!(family.get(&key(n)).unwrap(), None, "after the flush, {n}");
    }
    family.compact().unwrap();
    for n in 0..3 {
        assert_eq!(family.get(&key(n)).unwrap(), None, "after the merge, {n}");
    }
}

/// A merge into the oldest run that ends after some of its steps leaves puts of the newer run in
/// both. A deletion that meets the one above must stay for the other.
#[test]
fn a_put_that_an_interrupted_compaction_left_twice_does_not_come_back() {
    let sim = SimVfs::new(1);
    let db = open(&sim);
    let family = db.create_family("family", family_options()).unwrap();
    for n in (0..400).filter(|n| n % 2 == 0) {
        family.put(&key(n), &[b'o'; 200]).unwrap();
    }
    family.compact().unwrap();
    // Longer values, so that tables of the newer run reach over the ends of steps.
    for n in (0..400).filter(|n| n % 2 == 1).chain([BEYOND]) {
        family.put(&key(n), &[b'n'; 330]).unwrap();
    }
    family.flush().unwrap();
    let images = Arc::new(Mutex::new(Vec::new()));
    let taking = Arc::clone(&images);
    sim.on_mutation(Some(Arc::new(move |sim, mutation| {
        let is_manifest = mutation.path.to_string_lossy().contains("MANIFEST");
        if mutation.phase == Phase::After && mutation.kind == MutationKind::Sync && is_manifest {
            taking.lock().unwrap().push(sim.crash_image(CrashProfile::Nothing, 1));
        }
    })));
    family.compact().unwrap();
    sim.on_mutation(None);
    let mut images = std::mem::take(&mut *images.lock().unwrap());
    // After the last edit nothing is there twice.
    images.pop();
    assert!(images.len() > 3, "nothing was put to the test: {} edits", images.len());
    for (edits, image) in images.iter().enumerate() {
        let db = open(image);
        let family = db.family("family").unwrap();
        assert_eq!(runs(&family), 2);
        for n in (0..400).filter(|n| n % 2 == 1) {
            family.single_delete(&key(n)).unwrap();
        }
        family.put(&key(BEYOND + 1), b"as well").unwrap();
        family.flush().unwrap();
        assert_eq!(runs(&family), 3);
        family.compact_range(key(BEYOND)..).unwrap();
        assert_eq!(runs(&family), 2, "the newer runs become one");
        for n in (0..400).filter(|n| n % 2 == 1) {
            assert_eq!(family.get(&key(n)).unwrap(), None, "{n} after {edits} edits");
        }
        family.compact().unwrap();
        assert_eq!(family.stats().levels[0].entries, 202);
    }
}
