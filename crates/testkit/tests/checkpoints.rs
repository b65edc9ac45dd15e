//! Checkpoints and backups: copies that open, hold one point of the commit order, and change with
//! nothing that is done to their source.

#![expect(clippy::unwrap_used, reason = "test helpers fail by panicking")]

mod damaged;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use crate::common_support::copies::{Crashes, small};
use tidesdb::{Components, CopyOptions, Db, DbOptions, Error, ErrorKind, Family, WriteBatch};
use tidesdb_sim::{
    FaultError, FaultKind, FaultVfs, ManualClock, ManualScheduler, Op, OpSet, SimVfs,
};
use tidesdb_sys::vfs::Vfs;
use tidesdb_testkit::inspect::{self, read_forwards};
use tidesdb_testkit::oracle::Content;

const SOURCE: &str = "/db";
const COPY: &str = "/copy";

fn verified() -> CopyOptions {
    CopyOptions::default().verify_copy(true)
}

fn open_at(vfs: Arc<dyn Vfs>, path: &str, create_if_missing: bool) -> Result<Db, Error> {
    let components = Components {
        vfs,
        scheduler: Arc::new(ManualScheduler::new(1)),
        clock: Arc::new(ManualClock::new(1_000_000)),
    };
    let log_segment_bytes = 64 << 10;
    let options = DbOptions::default()
        .log_segment_bytes(log_segment_bytes)
        .create_if_missing(create_if_missing);
    Db::open_with(path, options, components)
}

fn open(sim: &Arc<SimVfs>, path: &str) -> Db {
    open_at(Arc::clone(sim) as _, path, true).unwrap()
}

/// Puts 100 keys of which every fourth has a value in a value log, and one that is written there
/// directly.
fn fill(family: &Family, round: u8) {
    for n in 0..100_u32 {
        let length = if n % 4 == 0 { 150 } else { 60 };
        family.put(&n.to_be_bytes(), &vec![round; length]).unwrap();
    }
    family.put(b"huge", &vec![round; 1 << 20]).unwrap();
}

/// A database of two families, some of it in memory, and its contents.
fn golden() -> (Arc<SimVfs>, [Content; 2]) {
    let sim = SimVfs::new(1);
    let db = open(&sim, SOURCE);
    let families = ["a", "b"].map(|name| db.create_family(name, small()).unwrap());
    fill(&families[0], 1);
    db.flush().unwrap();
    fill(&families[1], 2);
    families[0].delete_range(&3_u32.to_be_bytes(), &9_u32.to_be_bytes()).unwrap();
    db.sync_log().unwrap();
    let contents = contents(&db);
    (sim, contents)
}

fn contents(db: &Db) -> [Content; 2] {
    ["a", "b"].map(|name| read_forwards(&db.family(name).unwrap(), None).unwrap())
}

fn check(sim: &SimVfs, path: &str, expected: &[Content; 2]) {
    let db = open_at(sim.fork(), path, false).unwrap();
    assert_eq!(&contents(&db), expected);
    inspect::deep_check(&db, sim, Path::new(path)).unwrap();
    // It can be written, and closed.
    fill(&db.family("a").unwrap(), 9);
    db.compact().unwrap();
    db.close().unwrap();
}

type Copying = fn(&Db, &str, CopyOptions) -> Result<(), Error>;

const WAYS: [Copying; 2] =
    [|db, to, o| db.checkpoint_with(to, o), |db, to, o| db.backup_with(to, o)];

#[test]
fn a_copy_stays_as_it_was_whatever_becomes_of_its_source() {
    for copy in WAYS {
        let (sim, before) = golden();
        let db = open(&sim, SOURCE);
        copy(&db, COPY, verified()).unwrap();
        check(&sim, COPY, &before);
        for round in 3..6 {
            fill(&db.family("a").unwrap(), round);
            fill(&db.family("b").unwrap(), round);
            db.compact().unwrap();
        }
        db.drop_family("b").unwrap();
        db.close().unwrap();
        check(&sim, COPY, &before);
        // Nor does the source depend on the copy.
        for entry in sim.list(Path::new(COPY)).unwrap() {
            sim.remove(&Path::new(COPY).join(entry.name)).unwrap();
        }
        let db = open(&sim, SOURCE);
        assert_eq!(db.family_names(), ["a"]);
        inspect::deep_check(&db, sim.as_ref(), Path::new(SOURCE)).unwrap();
    }
}

#[test]
fn wrong_targets_are_refused_and_left_alone() {
    let (sim, before) = golden();
    let db = open(&sim, SOURCE);
    sim.create_dir(Path::new("/full")).unwrap();
    sim.create_dir(Path::new("/full/x")).unwrap();
    sim.create_dir(Path::new("/empty")).unwrap();
    for copy in WAYS {
        let kind = |path: &str| copy(&db, path, verified()).unwrap_err().kind();
        assert_eq!(kind("/full"), ErrorKind::Exists);
        assert_eq!(kind("/db"), ErrorKind::Invalid);
        assert_eq!(kind("/db/below"), ErrorKind::Invalid);
        assert_eq!(kind("/absent/below"), ErrorKind::Io);
        copy(&db, "/empty", verified()).unwrap();
        assert_eq!(kind("/empty"), ErrorKind::Exists);
        check(&sim, "/empty", &before);
        for entry in sim.list(Path::new("/empty")).unwrap() {
            sim.remove(&Path::new("/empty").join(entry.name)).unwrap();
        }
    }
    assert_eq!(sim.list(Path::new("/full")).unwrap().len(), 1);
}

#[test]
fn where_files_can_not_be_linked_they_are_copied() {
    let (sim, before) = golden();
    let faults = FaultVfs::new(Arc::clone(&sim) as _);
    let db = open_at(Arc::clone(&faults) as _, SOURCE, false).unwrap();
    faults.count_only(OpSet::of(&[Op::Link]));
    faults.reset();
    faults.fail_call(0, FaultKind::Forever, FaultError::Raw(18));
    db.checkpoint_with(COPY, verified()).unwrap();
    assert!(faults.fired() > 0);
    check(&sim, COPY, &before);
}

/// Every file call of a copy fails in turn: the copy is there, whole, or nothing is, and the source
/// is as it was.
#[test]
fn a_copy_that_fails_leaves_nothing() {
    let (golden, before) = golden();
    for copy in WAYS {
        for counted in [OpSet::CHANGES, OpSet::LOOKS] {
            let (mut call, mut failed) = (0, 0);
            loop {
                let sim = golden.fork();
                let faults = FaultVfs::new(Arc::clone(&sim) as _);
                let db = open_at(Arc::clone(&faults) as _, SOURCE, false).unwrap();
                faults.count_only(counted);
                faults.reset();
                faults.fail_call(call, FaultKind::Once, FaultError::NO_SPACE);
                let result = copy(&db, COPY, CopyOptions::default());
                let fired = faults.fired() > 0;
                faults.clear_faults();
                failed += u64::from(result.is_err());
                if result.is_ok() {
                    check(&sim, COPY, &before);
                } else {
                    assert!(sim.list(Path::new(COPY)).is_err(), "call {call}: {result:?}");
                }
                assert_eq!(contents(&db), before);
                // What failed in the background may be reported once more.
                let again = (0..4).find(|_| db.checkpoint("/second").is_ok());
                assert!(again.is_some(), "call {call}");
                check(&sim, "/second", &before);
                if !fired {
                    break;
                }
                call += 1;
            }
            assert!(call > 2 && failed > 0, "{call} calls, {failed} failed");
        }
    }
}

#[test]
fn a_crash_leaves_a_whole_copy_or_none() {
    for copy in WAYS {
        let (golden, before) = golden();
        let sim = golden.fork();
        let db = open(&sim, SOURCE);
        let crashes = Crashes::of(&sim);
        copy(&db, COPY, CopyOptions::default()).unwrap();
        let when_done = crashes.count();
        // The source goes on, and lets go of what the copy has.
        db.family("a").unwrap().put(b"k", b"v").unwrap();
        db.compact().unwrap();
        let images = crashes.end();
        let (mut whole, count) = (0, images.len());
        for (place, image) in images.into_iter().enumerate() {
            match open_at(Arc::clone(&image) as _, COPY, false) {
                Ok(db) => {
                    assert_eq!(contents(&db), before, "image {place}");
                    inspect::deep_check(&db, image.as_ref(), Path::new(COPY)).unwrap();
                    whole += 1;
                }
                Err(e) => assert!(place < when_done, "image {place} of {count}: {e}"),
            }
            let source = contents(&open(&image, SOURCE));
            assert_eq!(source[1], before[1]);
        }
        assert!(whole > count - when_done, "{whole} of {count}");
    }
}

/// What a power cut leaves of a copy is no obstacle to the next one, which clears it.
#[test]
fn after_a_crash_a_copy_to_the_same_place_works() {
    for copy in WAYS {
        let (golden, before) = golden();
        let sim = golden.fork();
        let db = open(&sim, SOURCE);
        let crashes = Crashes::of(&sim);
        copy(&db, COPY, CopyOptions::default()).unwrap();
        let images = crashes.end();
        let mut again = 0;
        for (place, image) in images.into_iter().enumerate() {
            if open_at(image.fork(), COPY, false).is_ok() {
                continue;
            }
            let source = open(&image, SOURCE);
            copy(&source, COPY, verified()).unwrap_or_else(|e| panic!("image {place}: {e}"));
            let copied = open_at(image.fork(), COPY, false).unwrap();
            assert_eq!(contents(&copied), contents(&source), "image {place}");
            assert_eq!(contents(&copied)[1], before[1], "image {place}");
            again += 1;
        }
        assert!(again > 20, "{again}");
    }
}

/// Another opening takes the copy as soon as it may. When it could do so while the copy was being
/// verified, the verification failed, and the copy was removed with what the other had committed.
#[test]
fn a_copy_that_is_being_verified_is_no_other_opening_s() {
    for copy in WAYS {
        let (sim, before) = golden();
        let faults = FaultVfs::new(Arc::clone(&sim) as _);
        let db = open_at(Arc::clone(&faults) as _, SOURCE, false).unwrap();
        let other = Arc::new(Mutex::new(None));
        let (place, disk) = (Arc::clone(&other), Arc::clone(&sim));
        faults.before_calls(Some(Arc::new(move |op, path| {
            let mut other = place.lock().unwrap();
            if op == Op::List && path == Path::new(COPY) && other.is_none() {
                *other = open_at(Arc::clone(&disk) as _, COPY, false).ok();
                if let Some(db) = other.as_ref() {
                    db.family("a").unwrap().put(b"theirs", b"value").unwrap();
                }
            }
        })));
        let copied = copy(&db, COPY, verified());
        faults.before_calls(None);
        let theirs = other.lock().unwrap().take();
        let taken = theirs.map(|db| db.close().unwrap()).is_some();
        let opened = open_at(sim.fork(), COPY, false).unwrap();
        let value = opened.family("a").unwrap().get(b"theirs").unwrap();
        assert_eq!(value.is_some(), taken);
        assert_eq!(contents(&opened)[1], before[1]);
        copied.unwrap();
    }
}

/// The copy was opened with a budget of its own, as large as that of the database.
#[test]
fn a_copy_is_verified_within_the_memory_of_its_database() {
    let (sim, _) = golden();
    let faults = FaultVfs::new(Arc::clone(&sim) as _);
    let db = Arc::new(open_at(Arc::clone(&faults) as _, SOURCE, false).unwrap());
    let (most, seen) = (Arc::new(Mutex::new(0)), Arc::downgrade(&db));
    let noted = Arc::clone(&most);
    faults.before_calls(Some(Arc::new(move |op, path| {
        if op == Op::Open && path.starts_with(COPY) && path.extension().is_some() {
            let Some(db) = seen.upgrade() else { return };
            let mut noted = noted.lock().unwrap();
            *noted = db.stats().memory.background_bytes.max(*noted);
        }
    })));
    db.checkpoint_with(COPY, verified()).unwrap();
    faults.before_calls(None);
    assert!(*most.lock().unwrap() >= 4 << 20, "{most:?}");
    assert!(db.stats().memory.background_bytes < 4 << 20);
}

/// Batches over two families, some with values that go straight to a value log, while copies are
/// made: each copy shows a prefix, the same in both.
#[test]
fn copies_under_writers_hold_one_point_of_the_commit_order() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path().join("db"), DbOptions::default()).unwrap();
    let families = ["a", "b"].map(|name| db.create_family(name, small()).unwrap());
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..3_u64 {
            let (db, families, stop) = (&db, &families, &stop);
            scope.spawn(move || {
                let mut n = 0_u64;
                while !stop.load(Ordering::Relaxed) {
                    n += 1;
                    let mut batch = WriteBatch::new();
                    let length = if n.is_multiple_of(50) && thread == 0 { 1 << 20 } else { 300 };
                    for family in families {
                        let mut value = vec![0; length];
                        value[..8].copy_from_slice(&n.to_le_bytes());
                        batch.put(family, &[thread as u8], &value).unwrap();
                        batch.put(family, &(n % 500).to_le_bytes(), &value).unwrap();
                    }
                    db.write(&batch).unwrap();
                }
            });
        }
        // The writers end also when a look at a copy panics.
        let _end = StopAtEnd(&stop);
        let mut last = 0;
        for round in 0..8 {
            let path = directory.path().join(format!("copy{round}"));
            if round % 2 == 0 {
                db.checkpoint_with(&path, verified()).unwrap();
            } else {
                db.backup_with(&path, verified()).unwrap();
            }
            db.rename_family("b", "c").unwrap();
            drop(db.clone_family("a", "copy").unwrap());
            db.rename_family("c", "b").unwrap();
            db.drop_family("copy").unwrap();
            let copy = Db::open(&path, DbOptions::default()).unwrap();
            assert_eq!(copy.family_names(), ["a", "b"]);
            let [a, b] = contents(&copy);
            assert_eq!(a, b, "round {round}");
            let newest = a.get([1_u8].as_slice());
            let newest = newest.map_or(0, |v| u64::from_le_bytes(v[..8].try_into().unwrap()));
            assert!(newest >= last, "round {round}");
            last = newest;
        }
        assert!(last > 0);
    });
}

struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
