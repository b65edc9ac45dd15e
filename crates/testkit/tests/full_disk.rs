//! A disk that is full: what a refused call leaves behind, and that the next one finds the space.

#![expect(clippy::unwrap_used, reason = "test helpers fail by panicking")]

use std::path::Path;
use std::sync::{Arc, Mutex};

use tidesdb::{
    Components, Compression, Db, DbOptions, ErrorKind, Family, FamilyOptions, Result, WriteBatch,
};
use tidesdb_sim::{
    CrashProfile, LogForm, ManualClock, ManualScheduler, MutationKind, Phase, SimVfs,
};
use tidesdb_sys::vfs::{OpenMode, Vfs};

const MIB: usize = 1 << 20;

fn try_open(sim: &Arc<SimVfs>) -> Result<Db> {
    let options = DbOptions::default().log_segment_bytes(64 << 10);
    let components = Components {
        vfs: Arc::clone(sim) as _,
        scheduler: Arc::new(ManualScheduler::new(1)),
        clock: Arc::new(ManualClock::new(1_000_000)),
    };
    Db::open_with("/db", options, components)
}

fn open(sim: &Arc<SimVfs>) -> (Db, Family) {
    let db = try_open(sim).unwrap();
    let family = FamilyOptions::default().compression(Compression::None).min_disk_space(0);
    let family = db.open_family("family", family).unwrap();
    (db, family)
}

fn free(sim: &SimVfs) -> usize {
    sim.free_bytes(Path::new("/db")).unwrap() as usize
}

fn value_logs(sim: &SimVfs) -> usize {
    let entries = sim.list(Path::new("/db")).unwrap();
    entries.iter().filter(|entry| entry.name.ends_with(".vlog")).count()
}

#[test]
fn a_large_value_that_does_not_fit_takes_no_space() {
    let sim = SimVfs::new(1);
    sim.set_capacity(Some(8 * MIB as u64));
    let (db, family) = open(&sim);
    family.put(b"first", &vec![1; MIB]).unwrap();
    let before = free(&sim);
    for _ in 0..20 {
        let refused = family.put(b"large", &vec![2; before + 1]).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Full, "{refused}");
        assert!(free(&sim) + 4096 >= before, "{} bytes are left of {before}", free(&sim));
    }
    assert_eq!(value_logs(&sim), 1, "one file is enough for what was refused");
    // What would have fitted before fits still, without a flush.
    family.put(b"second", &vec![3; before - MIB]).unwrap();
    for _ in 0..2 {
        assert_eq!(family.get(b"first").unwrap(), Some(vec![1; MIB]));
        assert_eq!(family.get(b"second").unwrap(), Some(vec![3; before - MIB]));
        assert_eq!(family.get(b"large").unwrap(), None);
        assert!(db.verify().unwrap().problems.is_empty());
    }
    drop((db, family));
    let (db, family) = open(&sim);
    assert_eq!(family.get(b"first").unwrap(), Some(vec![1; MIB]));
    assert_eq!(family.get(b"second").unwrap(), Some(vec![3; before - MIB]));
    assert!(db.verify().unwrap().problems.is_empty());
}

#[test]
fn a_value_whose_record_does_not_fit_takes_no_space() {
    let sim = SimVfs::new(1);
    sim.set_capacity(Some(8 * MIB as u64));
    let (db, family) = open(&sim);
    family.put(b"first", &vec![1; MIB]).unwrap();
    // Small records until the log can't go on: the value itself still fits.
    sim.set_capacity(Some(8 * MIB as u64 - free(&sim) as u64));
    let full = (0_u32..10_000).find_map(|n| family.put(&n.to_be_bytes(), &[5; 500]).err());
    assert_eq!(full.unwrap().kind(), ErrorKind::Full);
    sim.set_capacity(Some(8 * MIB as u64));
    let before = free(&sim);
    // A record that needs a segment larger than what is left.
    let mut batch = WriteBatch::new();
    batch.put(&family, b"large", &vec![2; MIB]).unwrap();
    (0..before / (MIB / 2)).for_each(|n| {
        batch.put(&family, &n.to_be_bytes(), &vec![2; MIB / 2]).unwrap();
    });
    for _ in 0..20 {
        assert_eq!(db.write(&batch).unwrap_err().kind(), ErrorKind::Full);
    }
    assert!(free(&sim) + 64 * 1024 >= before, "{} bytes are left of {before}", free(&sim));
    family.put(b"second", &vec![3; MIB]).unwrap();
    assert_eq!(family.get(b"first").unwrap(), Some(vec![1; MIB]));
    assert_eq!(family.get(b"second").unwrap(), Some(vec![3; MIB]));
    assert_eq!(family.get(b"large").unwrap(), None);
}

/// Fills the disk but for `left` bytes.
fn fill(sim: &SimVfs, left: usize) {
    sim.set_capacity(Some(1 << 40));
    let used = (1 << 40) - free(sim);
    sim.set_capacity(Some((used + left) as u64));
}

fn names(sim: &SimVfs) -> Vec<String> {
    sim.list(Path::new("/db")).unwrap().into_iter().map(|entry| entry.name).collect()
}

/// Opening failed with `Full`, though nothing of what is there needs space to be read. Whether the
/// log is needed still, and however little fits: no manifest; a piece of one; the manifest and not
/// CURRENT; both and no log segment.
#[test]
fn what_is_there_can_be_read_on_a_full_disk() {
    for left in [0, 40, 300, 600, 700, 4096, 20_000] {
        for closed in [false, true] {
            for form in [LogForm::Mapped, LogForm::Written] {
                check_reading_on_a_full_disk(left, closed, form);
            }
        }
    }
}

/// Opens a database with a hundred keys on a disk with `left` bytes, again and again.
fn check_reading_on_a_full_disk(left: usize, closed: bool, form: LogForm) {
    let sim = SimVfs::new(1);
    sim.set_log_form(form);
    let (db, family) = open(&sim);
    (0_u32..100).for_each(|n| family.put(&n.to_be_bytes(), &[1; 100]).unwrap());
    drop(family);
    if closed {
        db.close().unwrap();
    } else {
        drop(db);
    }
    fill(&sim, left);
    let before = names(&sim).len();
    let mut there = None;
    for _ in 0..5 {
        let db = try_open(&sim).unwrap();
        let family = check_hundred(&db);
        for _ in 0..3 {
            match family.put(b"key", &[2; 100]) {
                // The log of a process that was killed has gone to a table, if there was room.
                Ok(()) => there = Some(vec![2; 100]),
                Err(refused) => assert_eq!(refused.kind(), ErrorKind::Full, "{refused}"),
            }
            assert_eq!(family.get(b"key").unwrap(), there);
        }
        assert!(there.is_none() || left == 20_000, "{form:?}, {left} bytes left");
        // CURRENT.new may stay, and is written anew by the next open.
        let few = names(&sim).len() <= before + 2;
        assert!(few || there.is_some(), "{form:?}, {left} bytes left: {:?}", names(&sim));
    }
    takes_writes_again(&sim);
}

/// A database with the keys of [`check_reading_on_a_full_disk`]; its family.
fn check_hundred(db: &Db) -> Family {
    let family = db.family("family").unwrap();
    (0_u32..100).for_each(|n| {
        assert_eq!(family.get(&n.to_be_bytes()).unwrap(), Some(vec![1; 100]));
    });
    assert!(db.verify().unwrap().problems.is_empty());
    family
}

/// What was opened on the full disk goes on without another opening when there is space.
fn takes_writes_again(sim: &Arc<SimVfs>) {
    let db = try_open(sim).unwrap();
    let family = check_hundred(&db);
    sim.set_capacity(None);
    let worked = (0..4).any(|_| {
        // A refused one has the log started.
        let worked = family.put(b"key", &[2; 100]).is_ok();
        db.wait_idle().unwrap();
        worked
    });
    assert!(worked, "takes no writes although there is space");
    let killed = try_open(&sim.crash_image(CrashProfile::Everything, 1)).unwrap();
    for db in [&db, &killed] {
        assert_eq!(check_hundred(db).get(b"key").unwrap(), Some(vec![2; 100]));
    }
}

/// So long that the values lie in tables.
const VALUE: usize = 400;

/// A disk that a process left which was killed when the outputs of a compaction were written and no
/// edit had named them. Beside it the names of the outputs.
fn killed_within_a_compaction(keys: u32) -> (Arc<SimVfs>, Vec<String>) {
    let sim = SimVfs::new(1);
    let (_db, family) = open(&sim);
    fill_two_runs(&family, keys);
    let before = names(&sim);
    let image = Arc::new(Mutex::new(None));
    let taking = Arc::clone(&image);
    sim.on_mutation(Some(Arc::new(move |sim, mutation| {
        let is_table = mutation.path.extension().is_some_and(|extension| extension == "klog");
        if is_table && mutation.phase == Phase::After && mutation.kind == MutationKind::Sync {
            *taking.lock().unwrap() = Some(sim.crash_image(CrashProfile::Everything, 1));
        }
    })));
    family.compact().unwrap();
    sim.on_mutation(None);
    let image = image.lock().unwrap().take().unwrap();
    let mut outputs = names(&image);
    outputs.retain(|name| name.ends_with(".klog") && !before.contains(name));
    assert!(!outputs.is_empty());
    (image, outputs)
}

/// Every key twice, in two runs of tables that no compaction has met yet.
fn fill_two_runs(family: &Family, keys: u32) {
    for run in 0..2 {
        (0..keys).for_each(|n| family.put(&n.to_be_bytes(), &[run; VALUE]).unwrap());
        family.flush().unwrap();
    }
}

/// Their numbers were given out by no edit, so they were only set aside, which frees nothing, or
/// stayed where they were: each opening found no space for a manifest or a log segment.
#[test]
fn outputs_of_a_killed_compaction_make_room_on_a_full_disk() {
    const KEYS: u32 = 3000;
    let (killed, outputs) = killed_within_a_compaction(KEYS);
    for (left, deletes) in [0, 40, 700, 20_000].into_iter().flat_map(|n| [(n, false), (n, true)]) {
        let sim = killed.crash_image(CrashProfile::Everything, 1);
        fill(&sim, left);
        let (db, family) = open(&sim);
        let written = match deletes {
            true => family.delete(&0_u32.to_be_bytes()),
            false => family.put(&0_u32.to_be_bytes(), b"new"),
        };
        assert!(written.is_ok(), "{left} bytes left: {written:?}");
        assert!(names(&sim).iter().all(|name| !outputs.contains(name)), "{:?}", names(&sim));
        for key in 0..KEYS {
            let put = if key == 0 { b"new".to_vec() } else { vec![1; VALUE] };
            let wanted = Some(put).filter(|_| key > 0 || !deletes);
            assert_eq!(family.get(&key.to_be_bytes()).unwrap(), wanted);
        }
        assert!(db.verify().unwrap().problems.is_empty());
        let again = sim.crash_image(CrashProfile::Nothing, 1);
        let (db, family) = open(&again);
        assert_eq!(family.get(&1_u32.to_be_bytes()).unwrap(), Some(vec![1; VALUE]));
        assert!(db.verify().unwrap().problems.is_empty());
    }
}

/// An edit that is cut short may be one that named them.
#[test]
fn outputs_stay_while_the_end_of_the_manifest_is_in_doubt() {
    let (sim, outputs) = killed_within_a_compaction(500);
    let is_manifest = |name: &&String| name.starts_with("MANIFEST-");
    let manifest = names(&sim).iter().find(is_manifest).unwrap().clone();
    let path = Path::new("/db").join(manifest);
    let file = sim.open(&path, OpenMode::ReadWrite).unwrap();
    file.write_all_at(&[7; 20], file.len().unwrap()).unwrap();
    file.sync_data().unwrap();
    fill(&sim, 0);
    let (_db, family) = open(&sim);
    assert_eq!(family.put(b"key", b"value").unwrap_err().kind(), ErrorKind::Full);
    assert!(outputs.iter().all(|output| names(&sim).contains(output)), "{:?}", names(&sim));
}

/// What was set aside at the opening takes as much space as it did before.
#[test]
fn what_was_set_aside_goes_when_the_disk_is_full() {
    let (sim, outputs) = killed_within_a_compaction(3000);
    let (db, family) = open(&sim);
    let aside = || sim.list(Path::new("/db/set-aside")).map_or(0, |entries| entries.len());
    assert_eq!(aside(), outputs.len());
    fill(&sim, 100 << 10);
    let put = |n: u32| family.put(&n.to_be_bytes(), &[2; VALUE]);
    // Half of what the outputs take fits, log and table of it.
    for n in 0..1000 {
        let put = put(n);
        assert!(put.is_ok(), "put {n}: {put:?}");
    }
    assert_eq!(aside(), 0);
    assert!(db.verify().unwrap().problems.is_empty());
}

/// The opening itself fails where there is nothing to read.
#[test]
fn a_database_without_families_opens_on_a_disk_that_its_leftovers_fill() {
    let (sim, outputs) = killed_within_a_compaction(500);
    let without = SimVfs::new(1);
    try_open(&without).unwrap().close().unwrap();
    for name in &outputs {
        let from = sim.open(&Path::new("/db").join(name), OpenMode::Read).unwrap();
        let mut bytes = vec![0; from.len().unwrap() as usize];
        from.read_exact_at(&mut bytes, 0).unwrap();
        let to = without.open(&Path::new("/db").join(name), OpenMode::CreateNew).unwrap();
        to.write_all_at(&bytes, 0).unwrap();
    }
    fill(&without, 0);
    assert_eq!(try_open(&without).unwrap_err().kind(), ErrorKind::Full);
    drop(try_open(&without).unwrap());
}

/// Without space for a manifest the names of log segments of a process that died are not synced.
/// The log goes on only when they are, so that what a power cut takes never passes for damage.
#[test]
fn a_power_cut_after_an_opening_on_a_full_disk_loses_only_the_end_of_the_log() {
    const KEYS: u32 = 100;
    let sim = SimVfs::new(1);
    let (db, family) = open(&sim);
    // Several segments, of which only the first has a name on disk.
    (0..KEYS).for_each(|n| family.put(&n.to_be_bytes(), &[1; 2000]).unwrap());
    let killed = sim.fork();
    drop((db, family));
    fill(&killed, 0);
    let db = try_open(&killed).unwrap();
    let images = Arc::new(Mutex::new(Vec::new()));
    let taken = Arc::clone(&images);
    killed.on_mutation(Some(Arc::new(move |sim, _| {
        let mut taken = taken.lock().unwrap();
        let seed = 4 * taken.len() as u64;
        taken.extend((seed..seed + 4).map(|seed| sim.crash_image(CrashProfile::Random, seed)));
    })));
    killed.set_capacity(None);
    let family = db.family("family").unwrap();
    assert!((0..20).any(|_| family.put(b"later", b"value").is_ok()));
    db.sync_log().unwrap();
    killed.on_mutation(None);
    let images = std::mem::take(&mut *images.lock().unwrap());
    assert!(images.len() > 20, "{} images", images.len());
    for image in images {
        let db = try_open(&image).unwrap();
        let family = db.family("family").unwrap();
        let there = |n: &u32| family.get(&n.to_be_bytes()).unwrap().is_some();
        let kept = (0..KEYS).take_while(there).count() as u32;
        assert!(!(kept..KEYS).any(|n| there(&n)), "no prefix");
        assert!(db.verify().unwrap().problems.is_empty());
    }
}
