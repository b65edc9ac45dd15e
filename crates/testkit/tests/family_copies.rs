//! Families that get another name, and copies of families that share files with their source.

#![expect(clippy::unwrap_used, reason = "test helpers fail by panicking")]

use std::path::Path;
use std::sync::{Arc, Mutex};

use crate::common_support::copies::{Crashes, small};
use tidesdb::{Components, Db, DbOptions, Error, ErrorKind, Family};
use tidesdb_sim::{ManualClock, ManualScheduler, SimVfs};
use tidesdb_sys::vfs::Vfs;
use tidesdb_testkit::inspect::{self, read_forwards};
use tidesdb_testkit::oracle::Content;

const DIRECTORY: &str = "/db";

fn try_open(sim: &Arc<SimVfs>) -> Result<Db, Error> {
    let components = Components {
        vfs: Arc::clone(sim) as _,
        scheduler: Arc::new(ManualScheduler::new(1)),
        clock: Arc::new(ManualClock::new(1_000_000)),
    };
    let options = DbOptions::default().log_segment_bytes(64 << 10);
    Db::open_with(DIRECTORY, options, components)
}

fn open(sim: &Arc<SimVfs>) -> Db {
    try_open(sim).unwrap()
}

/// Puts 200 keys of which every fourth has a value in a value log.
fn fill(family: &Family, round: u8) {
    for n in 0..200_u32 {
        let length = if n % 4 == 0 { 150 } else { 60 };
        family.put(&n.to_be_bytes(), &vec![round; length]).unwrap();
    }
}

fn check(sim: &Arc<SimVfs>, db: &Db) {
    inspect::deep_check(db, sim.as_ref(), Path::new(DIRECTORY)).unwrap();
}

fn content(family: &Family) -> Content {
    read_forwards(family, None).unwrap()
}

/// Names of table and value-log files.
fn data_files(sim: &SimVfs) -> Vec<String> {
    let entries = sim.list(Path::new(DIRECTORY)).unwrap().into_iter();
    let names = entries.map(|entry| entry.name);
    names.filter(|name| name.ends_with(".klog") || name.ends_with(".vlog")).collect()
}

#[test]
fn a_renamed_family_is_the_same_family() {
    let sim = SimVfs::new(1);
    let db = open(&sim);
    let family = db.create_family("old", small()).unwrap();
    db.create_family("other", small()).unwrap();
    fill(&family, 1);
    let snapshot = db.snapshot();
    db.rename_family("old", "new").unwrap();
    assert_eq!(&*family.name(), "new");
    family.put(b"k", b"v").unwrap();
    assert_eq!(db.family("new").unwrap().get(b"k").unwrap(), Some(b"v".to_vec()));
    assert_eq!(family.get_at(&snapshot, b"k").unwrap(), None);
    let kind = |result: Result<(), Error>| result.unwrap_err().kind();
    assert_eq!(db.family("old").unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(kind(db.rename_family("old", "x")), ErrorKind::NotFound);
    assert_eq!(kind(db.rename_family("old", "old")), ErrorKind::NotFound);
    assert_eq!(kind(db.rename_family("new", "other")), ErrorKind::Exists);
    for bad in ["", ".", "..", "a/b", "a\nb", &"x".repeat(200)] {
        assert_eq!(kind(db.rename_family("new", bad)), ErrorKind::Invalid, "{bad:?}");
    }
    db.rename_family("new", "new").unwrap();
    // A name that is free again may be used again.
    db.create_family("old", small()).unwrap();
    assert_eq!(db.family_names(), ["new", "old", "other"]);
    let before = content(&family);
    drop((family, snapshot, db));
    let db = open(&sim);
    assert_eq!(db.family_names(), ["new", "old", "other"]);
    assert_eq!(content(&db.family("new").unwrap()), before);
}

#[test]
fn a_copy_holds_what_was_committed_and_is_independent() {
    let sim = SimVfs::new(1);
    let db = open(&sim);
    let source = db.create_family("source", small()).unwrap();
    fill(&source, 1);
    source.flush().unwrap();
    fill(&source, 2);
    source.delete_range(&10_u32.to_be_bytes(), &20_u32.to_be_bytes()).unwrap();
    source.put(b"huge", &vec![3; 1 << 20]).unwrap();
    let before = content(&source);
    let copy = db.clone_family("source", "copy").unwrap();
    assert_eq!(content(&copy), before);
    assert_eq!(copy.options().to_text(), source.options().to_text());
    // Each goes its own way, also through merges and values that become garbage.
    fill(&source, 4);
    source.put(b"huge", b"small").unwrap();
    source.compact().unwrap();
    source.compact().unwrap();
    assert_eq!(content(&copy), before);
    let problems = db.verify().unwrap().problems;
    assert!(problems.is_empty(), "the copy's files are gone: {problems:?}");
    let after = content(&source);
    copy.put(b"huge", &vec![5; 1 << 20]).unwrap();
    copy.delete(&30_u32.to_be_bytes()).unwrap();
    copy.compact().unwrap();
    assert_eq!(content(&source), after);
    let changed = content(&copy);
    assert_ne!(changed, before);
    drop((source, copy, db));
    let db = open(&sim);
    assert_eq!(content(&db.family("source").unwrap()), after);
    assert_eq!(content(&db.family("copy").unwrap()), changed);
    check(&sim, &db);
}

/// Whichever family goes first, and whether or not the database is opened again in between, the
/// other one keeps its files, and nothing is left when both are gone.
#[test]
fn shared_files_go_with_the_last_family() {
    for (first, second) in [("source", "copy"), ("copy", "source")] {
        for reopens in [false, true] {
            let sim = SimVfs::new(1);
            let mut db = open(&sim);
            let source = db.create_family("source", small()).unwrap();
            fill(&source, 1);
            source.put(b"huge", &vec![3; 1 << 20]).unwrap();
            let before = content(&source);
            drop(source);
            drop(db.clone_family("source", "copy").unwrap());
            let shared = data_files(&sim);
            let reopen = |db: Db| {
                if !reopens {
                    return db;
                }
                drop(db);
                open(&sim)
            };
            db = reopen(db);
            db.drop_family(first).unwrap();
            db = reopen(db);
            assert_eq!(data_files(&sim), shared, "{first} dropped");
            assert_eq!(content(&db.family(second).unwrap()), before);
            db.family(second).unwrap().compact().unwrap();
            assert_eq!(content(&db.family(second).unwrap()), before);
            check(&sim, &db);
            db.drop_family(second).unwrap();
            db = reopen(db);
            assert_eq!(data_files(&sim), Vec::<String>::new());
            drop(db);
        }
    }
}

/// A value log that commits of the source still append to is of no concern to flushes of the copy.
#[test]
fn flushes_of_a_copy_leave_the_values_of_its_source_alone() {
    let sim = SimVfs::new(1);
    let db = open(&sim);
    let source = db.create_family("source", small()).unwrap();
    source.put(b"1", &vec![1; 1 << 20]).unwrap();
    let copy = db.clone_family("source", "copy").unwrap();
    // In memory of the source alone; no table of it will point into the file after the merge.
    source.put(b"2", &vec![2; 1 << 20]).unwrap();
    source.delete(b"1").unwrap();
    copy.put(b"1", b"x").unwrap();
    copy.flush().unwrap();
    copy.compact().unwrap();
    source.compact().unwrap();
    source.compact().unwrap();
    assert_eq!(source.get(b"2").unwrap(), Some(vec![2; 1 << 20]));
    assert_eq!(copy.get(b"1").unwrap(), Some(b"x".to_vec()));
    check(&sim, &db);
    drop((source, copy, db));
    check(&sim, &open(&sim));
}

#[test]
fn what_can_not_be_copied_is_refused() {
    let sim = SimVfs::new(1);
    let db = open(&sim);
    db.create_family("source", small()).unwrap();
    let kind = |source: &str, name: &str| db.clone_family(source, name).unwrap_err().kind();
    assert_eq!(kind("absent", "x"), ErrorKind::NotFound);
    assert_eq!(kind("source", "source"), ErrorKind::Exists);
    assert_eq!(kind("source", "a/b"), ErrorKind::Invalid);
    assert_eq!(db.family_names(), ["source"]);
}

/// Runs `work` on a copy of the disk and has every crash around each change judged.
fn crash_everywhere(golden: &Arc<SimVfs>, work: impl Fn(&Db), judge: impl Fn(&Db)) {
    let sim = golden.fork();
    let db = open(&sim);
    let crashes = Crashes::of(&sim);
    work(&db);
    assert!(crashes.count() > 20, "{} images", crashes.count());
    for image in crashes.end() {
        let db = open(&image);
        judge(&db);
        check(&image, &db);
    }
}

fn golden() -> (Arc<SimVfs>, Content) {
    let sim = SimVfs::new(1);
    let db = open(&sim);
    let source = db.create_family("source", small()).unwrap();
    fill(&source, 1);
    source.put(b"huge", &vec![3; 1 << 20]).unwrap();
    source.flush().unwrap();
    fill(&source, 2);
    db.sync_log().unwrap();
    let content = content(&source);
    (sim, content)
}

#[test]
fn a_crash_leaves_the_old_name_or_the_new_one() {
    let (sim, before) = golden();
    let (olds, news) = (Mutex::new(0), Mutex::new(0));
    let work = |db: &Db| {
        db.rename_family("source", "new").unwrap();
        db.family("new").unwrap().flush().unwrap();
        db.rename_family("new", "newer").unwrap();
    };
    crash_everywhere(&sim, work, |db| {
        let names = db.family_names();
        assert_eq!(names.len(), 1, "{names:?}");
        let counter = if names[0] == "source" { &olds } else { &news };
        *counter.lock().unwrap() += 1;
        assert_eq!(content(&db.family(&names[0]).unwrap()), before);
    });
    assert!(*olds.lock().unwrap() > 0 && *news.lock().unwrap() > 0);
}

#[test]
fn a_crash_leaves_a_whole_copy_or_none() {
    let (sim, before) = golden();
    let copies = Mutex::new(0);
    let work = |db: &Db| {
        let copy = db.clone_family("source", "copy").unwrap();
        // The source lets go of what the copy keeps.
        fill(&db.family("source").unwrap(), 2);
        db.family("source").unwrap().compact().unwrap();
        assert_eq!(content(&copy), before);
    };
    crash_everywhere(&sim, work, |db| {
        assert_eq!(content(&db.family("source").unwrap()), before);
        if let Ok(copy) = db.family("copy") {
            *copies.lock().unwrap() += 1;
            assert_eq!(content(&copy), before);
            db.drop_family("source").unwrap();
            assert_eq!(content(&copy), before);
        }
    });
    assert!(*copies.lock().unwrap() > 0);
}
