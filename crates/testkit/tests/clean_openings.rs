//! Openings after a clean close: nothing is written before the first edit, and what was spared is
//! there whatever fails and whenever the power is cut (I-360 to I-362).

#![expect(clippy::unwrap_used, reason = "test helpers fail by panicking")]

use std::path::{Path, PathBuf};
use std::sync::{Arc, Barrier, Mutex};

use tidesdb::{
    Components, Db, DbOptions, ErrorKind, Family, FamilyOptions, IsolationLevel, ScanOptions,
    SyncMode, WriteBatch, WriteOptions,
};
use tidesdb_sim::{
    CrashProfile, FaultError, FaultKind, FaultVfs, ManualClock, ManualScheduler, MutationKind,
    OpSet, Phase, SimVfs,
};
use tidesdb_sys::vfs::{OpenMode, Vfs};

const MARK: &str = "/db/CLOSED";

fn try_open_on(vfs: Arc<dyn Vfs>, sync_mode: SyncMode) -> tidesdb::Result<Db> {
    let options = DbOptions::default().log_segment_bytes(64 << 10).sync_mode(sync_mode);
    let (scheduler, clock) =
        (Arc::new(ManualScheduler::new(1)), Arc::new(ManualClock::new(1_000_000)));
    Db::open_with("/db", options, Components { vfs, scheduler, clock })
}

fn open(sim: &Arc<SimVfs>) -> Db {
    try_open_on(Arc::clone(sim) as _, SyncMode::None).unwrap()
}

fn family(db: &Db) -> Family {
    db.family("family").unwrap()
}

/// A disk with a database of one key that was closed.
fn closed() -> Arc<SimVfs> {
    let sim = SimVfs::new(1);
    let db = open(&sim);
    db.create_family("family", FamilyOptions::default().min_disk_space(0)).unwrap();
    family(&db).put(b"old", b"value").unwrap();
    db.close().unwrap();
    sim
}

fn content(db: &Db) -> Vec<(Vec<u8>, Vec<u8>)> {
    let scan = family(db).scan(ScanOptions::new()).unwrap();
    scan.entries().map(Result::unwrap).collect()
}

fn has(db: &Db, key: &[u8]) -> bool {
    family(db).get(key).unwrap().is_some()
}

/// Files of the database but for the mark.
fn names(sim: &SimVfs) -> Vec<String> {
    let names = sim.list(Path::new("/db")).unwrap().into_iter().map(|entry| entry.name);
    names.filter(|name| name != "CLOSED").collect()
}

fn manifest(sim: &SimVfs) -> PathBuf {
    let name = names(sim).into_iter().find(|name| name.starts_with("MANIFEST-")).unwrap();
    Path::new("/db").join(name)
}

/// Gives a file this content, under a number of its own, as a copying program does.
fn write_anew(sim: &SimVfs, path: &Path, bytes: &[u8]) {
    sim.remove(path).unwrap();
    sim.open(path, OpenMode::CreateNew).unwrap().write_all_at(bytes, 0).unwrap();
}

#[test]
fn what_only_reads_changes_nothing_and_syncs_nothing() {
    let sim = closed();
    let before = sim.mutations();
    for life in 0..4 {
        let db = open(&sim);
        assert!(has(&db, b"old"));
        let barrier = WriteOptions::new().sync(true);
        db.write_with(&WriteBatch::new(), barrier).unwrap();
        let mut transaction = db.begin(IsolationLevel::Serializable).unwrap();
        assert!(transaction.get(&family(&db), b"old").unwrap().is_some());
        transaction.commit().unwrap();
        db.wait_idle().unwrap();
        assert!(db.verify().unwrap().problems.is_empty());
        if life % 2 == 0 {
            family(&db).flush().unwrap();
            db.close().unwrap();
        }
    }
    assert_eq!(sim.mutations(), before);
    // What was spared may be spared after a power cut, too.
    let cut = sim.crash_image(CrashProfile::Everything, 1);
    let before = cut.mutations();
    assert!(has(&open(&cut), b"old"));
    assert_eq!(cut.mutations(), before);
}

/// The disk whenever something changes while `work` runs.
fn images(sim: &Arc<SimVfs>, work: impl FnOnce()) -> Vec<(String, Arc<SimVfs>)> {
    let images = Arc::new(Mutex::new(Vec::new()));
    let taking = Arc::clone(&images);
    sim.on_mutation(Some(Arc::new(move |sim, mutation| {
        if mutation.phase == Phase::After {
            let what = format!("{:?} of {}", mutation.kind, mutation.path.display());
            for profile in CrashProfile::ALL {
                let image = sim.crash_image(profile, mutation.index);
                taking.lock().unwrap().push((format!("{what}, {profile:?}"), image));
            }
        }
    })));
    work();
    sim.on_mutation(None);
    std::mem::take(&mut *images.lock().unwrap())
}

#[test]
fn a_crash_anywhere_in_the_first_commit_leaves_what_was_there() {
    let sim = closed();
    let db = try_open_on(Arc::clone(&sim) as _, SyncMode::Full).unwrap();
    let images = images(&sim, || family(&db).put(b"new", b"value").unwrap());
    assert!(images.len() > 50, "{}", images.len());
    for (when, image) in images {
        for life in 0..3 {
            let db = open(&image);
            assert!(has(&db, b"old"), "life {life} after {when}");
            if life == 1 {
                family(&db).put(b"other", b"value").unwrap();
                db.close().unwrap();
            }
        }
        assert!(has(&open(&image), b"other"), "after {when}");
    }
    for profile in CrashProfile::ALL {
        let db = open(&sim.crash_image(profile, 1));
        assert!(has(&db, b"old") && has(&db, b"new"), "{profile:?}");
    }
}

/// The manifest, its name and that of the segment, CURRENT, and its name.
#[test]
fn the_first_commit_makes_the_syncs_that_the_opening_did_not() {
    let sim = closed();
    let db = open(&sim);
    let syncs = |images: Vec<(String, _)>| {
        let kinds = [MutationKind::SyncDir, MutationKind::Sync, MutationKind::SegmentSync];
        let kinds = kinds.map(|kind| format!("{kind:?} of "));
        let is_sync = |what: &str| kinds.iter().any(|kind| what.starts_with(kind));
        images.iter().filter(|(what, _)| is_sync(what)).count() / CrashProfile::ALL.len()
    };
    assert_eq!(syncs(images(&sim, || family(&db).put(b"new", b"value").unwrap())), 4);
    assert_eq!(syncs(images(&sim, || family(&db).put(b"newer", b"value").unwrap())), 0);
}

/// One thing that is done first in a database that was opened clean.
type First = fn(&Db);

const FIRSTS: [(&str, First); 15] = [
    ("nothing", |_| ()),
    ("flush", |db| family(db).flush().unwrap()),
    ("compaction", |db| family(db).compact().unwrap()),
    ("creation", |db| drop(db.create_family("second", FamilyOptions::default()).unwrap())),
    ("creation and drop", |db| {
        db.create_family("second", FamilyOptions::default()).unwrap();
        db.drop_family("second").unwrap();
    }),
    ("clone", |db| drop(db.clone_family("family", "second").unwrap())),
    ("checkpoint", |db| db.checkpoint("/copy").unwrap()),
    ("backup", |db| db.backup("/copy").unwrap()),
    ("pause", |db| db.pause_background().unwrap()),
    ("barrier", |db| {
        db.write_with(&WriteBatch::new(), WriteOptions::new().sync(true)).unwrap();
    }),
    ("synced put", |db| {
        let mut batch = WriteBatch::new();
        batch.put(&family(db), b"first", b"value").unwrap();
        db.write_with(&batch, WriteOptions::new().sync(true)).unwrap();
    }),
    ("large put", |db| family(db).put(b"first", vec![7; 1 << 20]).unwrap()),
    ("range deletion", |db| family(db).delete_range(b"x", b"y").unwrap()),
    ("transaction", |db| {
        let mut transaction = db.begin(IsolationLevel::Serializable).unwrap();
        assert!(transaction.get(&family(db), b"old").unwrap().is_some());
        transaction.put(&family(db), b"first", b"value").unwrap();
        transaction.commit().unwrap();
    }),
    ("options", |db| {
        family(db).set_options(FamilyOptions::default().min_disk_space(1)).unwrap();
    }),
];

#[test]
fn whatever_comes_first_commits_go_on_and_survive() {
    for (what, first) in FIRSTS {
        let sim = closed();
        let db = open(&sim);
        first(&db);
        assert!(has(&db, b"old"), "{what}");
        assert!(has(&open(&sim.crash_image(CrashProfile::Everything, 1)), b"old"), "{what}");
        family(&db).put(b"new", b"value").unwrap();
        let expected = content(&db);
        let killed = sim.crash_image(CrashProfile::Everything, 1);
        assert_eq!(content(&open(&killed)), expected, "{what}");
        db.close().unwrap();
        let cut = sim.crash_image(CrashProfile::Nothing, 1);
        let before = sim.mutations();
        for sim in [&cut, &sim] {
            assert_eq!(content(&open(sim)), expected, "{what}");
        }
        assert_eq!(sim.mutations(), before, "{what}");
    }
}

#[test]
fn a_close_behind_whatever_came_first_can_be_built_upon() {
    for (what, first) in FIRSTS {
        let sim = closed();
        let db = open(&sim);
        first(&db);
        let expected = content(&db);
        db.close().unwrap();
        let cut = sim.crash_image(CrashProfile::Nothing, 1);
        assert_eq!(content(&open(&cut)), expected, "{what}");
        let before = sim.mutations();
        let db = open(&sim);
        assert_eq!(content(&db), expected, "{what}");
        assert_eq!(sim.mutations(), before, "{what}");
        family(&db).put(b"new", b"value").unwrap();
        assert!(has(&open(&sim.crash_image(CrashProfile::Everything, 1)), b"new"), "{what}");
    }
}

#[test]
fn a_mark_that_is_gone_or_torn_or_was_copied_spares_nothing() {
    type Spoil = fn(&SimVfs);
    let spoils: [(&str, Spoil); 5] = [
        ("gone", |sim| sim.remove(Path::new(MARK)).unwrap()),
        ("empty", |sim| write_anew(sim, Path::new(MARK), b"")),
        ("cut", |sim| {
            let text = sim.content(Path::new(MARK)).unwrap();
            write_anew(sim, Path::new(MARK), &text[..text.len() - 1]);
        }),
        ("torn", |sim| {
            let mut text = sim.content(Path::new(MARK)).unwrap();
            *text.last_mut().unwrap() = 0;
            write_anew(sim, Path::new(MARK), &text);
        }),
        // All of the directory is copied like this, and nothing of it may be on disk.
        ("copied", |sim| {
            let manifest = manifest(sim);
            let bytes = sim.content(&manifest).unwrap();
            write_anew(sim, &manifest, &bytes);
        }),
    ];
    for (what, spoil) in spoils {
        let sim = closed();
        spoil(&sim);
        let before = manifest(&sim);
        let db = open(&sim);
        assert_ne!(manifest(&sim), before, "{what}");
        assert!(has(&db, b"old"), "{what}");
        for profile in CrashProfile::ALL {
            assert!(has(&open(&sim.crash_image(profile, 1)), b"old"), "{what}, {profile:?}");
        }
    }
}

/// A process of an earlier build, which knows of no mark, or one that was killed.
#[test]
fn a_mark_that_stayed_while_others_wrote_spares_nothing() {
    let sim = closed();
    let text = sim.content(Path::new(MARK)).unwrap();
    let db = open(&sim);
    family(&db).put(b"new", b"value").unwrap();
    db.close().unwrap();
    write_anew(&sim, Path::new(MARK), &text);
    let before = manifest(&sim);
    assert!(has(&open(&sim), b"new"));
    assert_ne!(manifest(&sim), before);
}

#[test]
fn an_opening_that_finds_remains_spares_nothing() {
    for name in ["CURRENT.new", "000900.klog", "000001.klog", "wal-000900.log", "MANIFEST-000900"] {
        let sim = closed();
        let path = Path::new("/db").join(name);
        drop(sim.open(&path, OpenMode::CreateNew).unwrap());
        let before = manifest(&sim);
        let db = open(&sim);
        assert_ne!(manifest(&sim), before, "{name}");
        assert!(has(&db, b"old") && !names(&sim).contains(&name.to_owned()), "{name}");
    }
}

/// What an opening shows after a close in which a call failed can't be taken back by a power cut.
#[test]
fn a_close_in_which_a_call_fails_leaves_no_mark_of_what_is_not_on_disk() {
    for kind in [FaultKind::Once, FaultKind::Forever] {
        for call in 0.. {
            let sim = closed();
            let faults = FaultVfs::new(Arc::clone(&sim) as _);
            let db = try_open_on(Arc::clone(&faults) as _, SyncMode::None).unwrap();
            family(&db).put(b"new", b"value").unwrap();
            faults.count_only(OpSet::CHANGES);
            faults.reset();
            faults.fail_call(call, kind, FaultError::IO);
            let closing = db.close();
            if faults.fired() == 0 {
                assert!(call > 10, "{call} calls");
                break;
            }
            for _ in 0..2 {
                let db = open(&sim);
                let shown = content(&db);
                assert!(closing.is_err() || shown.len() == 2, "call {call}");
                for profile in CrashProfile::ALL {
                    let cut = sim.crash_image(profile, call);
                    assert_eq!(content(&open(&cut)), shown, "call {call}, {profile:?}");
                }
            }
        }
    }
}

#[test]
fn a_first_commit_in_which_a_call_fails_has_no_effect_and_may_be_repeated() {
    for kind in [FaultKind::Once, FaultKind::Forever] {
        for call in 0.. {
            let sim = closed();
            let faults = FaultVfs::new(Arc::clone(&sim) as _);
            let db = try_open_on(Arc::clone(&faults) as _, SyncMode::None).unwrap();
            faults.count_only(OpSet::CHANGES);
            faults.reset();
            faults.fail_call(call, kind, FaultError::IO);
            let first = family(&db).put(b"new", b"value");
            if faults.fired() == 0 {
                assert!(call > 5, "{call} calls");
                break;
            }
            assert_eq!(has(&db, b"new"), first.is_ok(), "call {call}");
            for profile in CrashProfile::ALL {
                let db = open(&sim.crash_image(profile, call));
                assert!(has(&db, b"old"), "call {call}, {profile:?}");
                assert!(first.is_ok() || !has(&db, b"new"), "call {call}, {profile:?}");
            }
            faults.clear_faults();
            let repeated = (0..3).any(|_| {
                // A write to the log may have failed, which a repair mends.
                let worked = family(&db).put(b"newer", b"value").is_ok();
                db.wait_idle().unwrap();
                worked
            });
            assert!(repeated, "call {call}");
            db.close().unwrap();
            for profile in CrashProfile::ALL {
                let db = open(&sim.crash_image(profile, call));
                assert!(has(&db, b"old") && has(&db, b"newer"), "call {call}, {profile:?}");
            }
        }
    }
}

#[test]
fn a_first_commit_without_space_is_told_so_and_works_when_there_is_some() {
    let sim = closed();
    let before = names(&sim);
    sim.set_capacity(Some(1 << 40));
    let used = (1 << 40) - sim.free_bytes(Path::new("/db")).unwrap();
    for left in [0, 300, 4096] {
        sim.set_capacity(Some(used + left));
        let db = open(&sim);
        for _ in 0..3 {
            let refused = family(&db).put(b"new", vec![7; 100_000]).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Full, "{refused}");
        }
        assert!(has(&db, b"old"));
        db.close().unwrap();
    }
    assert_eq!(names(&sim), before);
    sim.set_capacity(Some(used));
    let db = open(&sim);
    assert!(family(&db).put(b"new", b"value").is_err());
    sim.set_capacity(None);
    family(&db).put(b"new", b"value").unwrap();
    assert!(has(&open(&sim.crash_image(CrashProfile::Everything, 1)), b"new"));
}

/// On threads: who comes first has the log begun, and the others go on with it.
#[test]
fn several_first_commits_at_once_and_a_close_lose_nothing() {
    for round in 0..20 {
        let sim = closed();
        let options = DbOptions::default().log_segment_bytes(64 << 10);
        let components =
            Components { vfs: Arc::clone(&sim) as _, ..Components::for_options(&options).unwrap() };
        let db = Db::open_with("/db", options, components).unwrap();
        let start = Barrier::new(5);
        let acknowledged = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for thread in 0..4_u8 {
                let (db, start, acknowledged) = (&db, &start, &acknowledged);
                scope.spawn(move || {
                    let family = family(db);
                    start.wait();
                    for n in 0..20_u8 {
                        if family.put([thread, n], b"value").is_err() {
                            break;
                        }
                        acknowledged.lock().unwrap().push([thread, n]);
                    }
                });
            }
            start.wait();
            if round % 2 == 0 {
                db.clone().close().unwrap();
            }
        });
        let image = sim.crash_image(CrashProfile::Everything, 1);
        let logs = names(&image).into_iter().filter(|name| name.ends_with(".log")).count();
        assert!(logs <= 2, "{logs} segments");
        let found = content(&open(&image));
        for key in acknowledged.into_inner().unwrap() {
            assert!(found.iter().any(|(found, _)| *found == key), "{key:?} in round {round}");
        }
    }
}
