//! A disk that is full: what a refused call leaves behind, and that the next one finds the space.

#![expect(clippy::unwrap_used, reason = "test helpers fail by panicking")]

use std::path::Path;
use std::sync::Arc;

use tidesdb::{
    Components, Compression, Db, DbOptions, ErrorKind, Family, FamilyOptions, Result, WriteBatch,
};
use tidesdb_sim::{CrashProfile, ManualClock, ManualScheduler, SimVfs};
use tidesdb_sys::vfs::Vfs;

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
    for (closed, left) in [false, true].into_iter().flat_map(|closed| {
        [0, 40, 300, 600, 700, 4096, 20_000].into_iter().map(move |left| (closed, left))
    }) {
        let sim = SimVfs::new(1);
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
        let check = |db: &Db| {
            let family = db.family("family").unwrap();
            (0_u32..100).for_each(|n| {
                assert_eq!(family.get(&n.to_be_bytes()).unwrap(), Some(vec![1; 100]));
            });
            assert!(db.verify().unwrap().problems.is_empty());
            family
        };
        for _ in 0..5 {
            let db = try_open(&sim).unwrap();
            let family = check(&db);
            for _ in 0..3 {
                let refused = family.put(b"key", &[2; 100]).unwrap_err();
                assert_eq!(refused.kind(), ErrorKind::Full, "{refused}");
                assert_eq!(family.get(b"key").unwrap(), None);
            }
            // CURRENT.new may stay, and is written anew by the next open.
            assert!(names(&sim).len() <= before + 2, "{left} bytes left: {:?}", names(&sim));
        }
        let db = try_open(&sim).unwrap();
        let family = check(&db);
        sim.set_capacity(None);
        let worked = (0..4).any(|_| {
            // A refused one has the log started.
            let worked = family.put(b"key", &[2; 100]).is_ok();
            db.wait_idle().unwrap();
            worked
        });
        assert!(worked, "takes no writes although there is space");
        for open in 0..2 {
            let db = if open == 0 {
                db.clone()
            } else {
                try_open(&sim.crash_image(CrashProfile::Everything, 1)).unwrap()
            };
            assert_eq!(check(&db).get(b"key").unwrap(), Some(vec![2; 100]));
        }
    }
}
