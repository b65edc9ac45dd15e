//! What happens last: the end of hooks, of files that were read, of the log.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use tidesdb_base::event::{Event, EventListener, LogLevel};
use tidesdb_base::options::SyncMode;
use tidesdb_sim::{MutationKind, Phase};

use super::*;
use crate::db::CopyOptions;
use crate::iterator::{Scan, ScanOptions};

/// Calls the database when it is dropped, as a handle that cleans up behind itself does.
struct AtTheEnd<F: Fn()>(F);

impl<F: Fn()> Drop for AtTheEnd<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Fails when `work` does not return: what it waits for it holds itself.
fn returns(what: &str, work: impl FnOnce() + Send + 'static) {
    let (ended, end) = mpsc::channel();
    std::thread::spawn(move || {
        work();
        ended.send(()).unwrap();
    });
    end.recv_timeout(Duration::from_secs(20)).unwrap_or_else(|_| panic!("{what} hangs"));
}

fn with_hook(at_the_end: impl Fn(&Db) + Send + Sync + 'static) -> Db {
    let db = Db::open_with("/db", DbOptions::default(), Components::simulated()).unwrap();
    db.create_family("index", FamilyOptions::default()).unwrap();
    let users = db.create_family("users", FamilyOptions::default()).unwrap();
    let handle = db.clone();
    let held = AtTheEnd(move || at_the_end(&handle));
    users.on_commit(move |_| {
        let _ = &held;
    });
    db
}

#[test]
fn a_hook_may_call_the_database_when_it_is_dropped() {
    let db = with_hook(|db| db.drop_family("index").unwrap());
    let dropping = db.clone();
    returns("a drop in a drop", move || dropping.drop_family("users").unwrap());
    assert!(db.family_names().is_empty(), "{:?}", db.family_names());

    let db = with_hook(|db| db.clone().close().unwrap());
    returns("a close in a drop", move || db.drop_family("users").unwrap());

    let db = with_hook(|db| db.clone().close().unwrap());
    returns("a close in a close", move || db.close().unwrap());

    let db = with_hook(|_| panic!("on purpose"));
    returns("a panic in a close", move || db.close().unwrap());
}

/// The commit comes when its family was flushed for the close already.
#[test]
fn a_commit_during_a_close_is_synced_as_the_interval_promises() {
    let sim = SimVfs::new(1);
    let late = Arc::new(Mutex::new(None::<Family>));
    let (writes, done) = (Arc::clone(&late), AtomicBool::new(false));
    let listen = move |event: &Event| {
        if let (Event::Flushed { family, .. }, Some(first)) = (event, &*writes.lock().unwrap())
            && family == "second"
            && !done.swap(true, Ordering::SeqCst)
        {
            first.put(b"late", b"value").unwrap();
        }
    };
    let options = DbOptions::default()
        .sync_mode(SyncMode::Interval { interval_us: 1_000_000 })
        .event_listener(EventListener::new(listen))
        .event_listener_level(LogLevel::Info);
    let components = |sim: &Arc<SimVfs>| Components {
        vfs: Arc::clone(sim) as _,
        scheduler: Arc::new(ManualScheduler::new(1)),
        clock: Arc::new(ManualClock::new(1000)),
    };
    let db = Db::open_with("/db", options.clone(), components(&sim)).unwrap();
    let first = db.create_family("first", FamilyOptions::default()).unwrap();
    let second = db.create_family("second", FamilyOptions::default()).unwrap();
    second.put(b"key", b"value").unwrap();
    *late.lock().unwrap() = Some(first.clone());
    db.close().unwrap();
    *late.lock().unwrap() = None;
    let image = sim.crash_image(CrashProfile::Nothing, 1);
    let db = Db::open_with("/db", options, components(&image)).unwrap();
    assert_eq!(db.family("second").unwrap().get(b"key").unwrap(), Some(b"value".to_vec()));
    assert_eq!(db.family("first").unwrap().get(b"late").unwrap(), Some(b"value".to_vec()));
}

/// A family of one table, and a scan that reads the two that were compacted into it.
fn compacted_under_a_scan(db: &Db) -> (Family, Scan) {
    let family = db.create_family("family", FamilyOptions::default()).unwrap();
    for round in 0..2_u8 {
        family.put(b"key", [round]).unwrap();
        family.flush().unwrap();
    }
    let scan = family.scan(ScanOptions::new()).unwrap();
    family.compact().unwrap();
    (family, scan)
}

/// Files that a compaction left to a scan stayed for as long as the program only read.
#[test]
fn files_go_with_the_last_scan_that_needed_them() {
    let sim = SimVfs::new(1);
    let scheduler = Arc::new(ManualScheduler::new(1));
    let components = Components {
        vfs: Arc::clone(&sim) as _,
        scheduler: Arc::clone(&scheduler) as _,
        clock: Arc::new(ManualClock::new(1000)),
    };
    let db = Db::open_with("/db", DbOptions::default(), components).unwrap();
    let (_family, scan) = compacted_under_a_scan(&db);
    scheduler.run_until_idle();
    let tables = || {
        let names = sim.list(Path::new("/db")).unwrap().into_iter().map(|entry| entry.name);
        names.filter(|name| name.ends_with(".klog")).count()
    };
    assert_eq!(tables(), 3, "the scan keeps two");
    drop(scan);
    scheduler.run_until_idle();
    assert_eq!(tables(), 1);
}

/// The directory may be another's by then, with other files of these names.
#[test]
fn a_scan_that_outlives_its_database_removes_nothing() {
    let sim = SimVfs::new(1);
    let components = Components { vfs: Arc::clone(&sim) as _, ..Components::simulated() };
    let db = Db::open_with("/db", DbOptions::default(), components).unwrap();
    let (family, scan) = compacted_under_a_scan(&db);
    db.close().unwrap();
    let files = || sim.list(Path::new("/db")).unwrap();
    let before = files();
    drop(scan);
    drop(family);
    assert_eq!(files(), before);
}

#[test]
fn a_scan_that_can_not_be_refreshed_is_nowhere() {
    let db = Db::open_with("/db", DbOptions::default(), Components::simulated()).unwrap();
    let family = db.create_family("family", FamilyOptions::default()).unwrap();
    family.put(b"key", b"value").unwrap();
    let mut scan = family.scan(ScanOptions::new()).unwrap();
    scan.seek_to_first().unwrap();
    assert!(scan.valid());
    db.drop_family("family").unwrap();
    scan.refresh().unwrap_err();
    assert!(!scan.valid());
}

#[test]
fn a_time_to_live_of_a_commit_is_refused() {
    use crate::isolation::IsolationLevel;
    use crate::write::WriteOptions;
    let db = Db::open_with("/db", DbOptions::default(), Components::simulated()).unwrap();
    let family = db.create_family("family", FamilyOptions::default()).unwrap();
    let mut transaction = db.begin(IsolationLevel::Snapshot).unwrap();
    transaction.put(&family, b"key", b"value").unwrap();
    let options = WriteOptions::new().ttl(Duration::from_secs(60));
    let refused = transaction.commit_with(options).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    transaction.commit().unwrap();
    assert!(family.contains(b"key").unwrap());
}

/// The close waited for the call that it was made in.
#[test]
fn a_function_that_a_call_of_the_database_calls_can_not_close_it() {
    let place: Arc<Mutex<Option<Db>>> = Arc::default();
    let refused: Arc<Mutex<Vec<ErrorKind>>> = Arc::default();
    let (mine, noted) = (Arc::clone(&place), Arc::clone(&refused));
    let listen = move |event: &Event| {
        let db = mine.lock().unwrap().clone();
        if let (Event::Compacted { .. }, Some(db)) = (event, db) {
            noted.lock().unwrap().push(db.close().unwrap_err().kind());
        }
    };
    let options = DbOptions::default()
        .event_listener(EventListener::new(listen))
        .event_listener_level(LogLevel::Info);
    let db = Db::open_with("/db", options, Components::simulated()).unwrap();
    let family = db.create_family("family", FamilyOptions::default()).unwrap();
    *place.lock().unwrap() = Some(db.clone());
    for value in [b"1", b"2"] {
        family.put(b"key", value).unwrap();
        family.flush().unwrap();
    }
    let compacted = family.clone();
    returns("a close in a compaction", move || compacted.compact().unwrap());
    assert_eq!(std::mem::take(&mut *refused.lock().unwrap()), [ErrorKind::Invalid]);
    let (copied, noted) = (db.clone(), Arc::clone(&refused));
    returns("a close in a backup", move || {
        let copy = copied.backup_with_progress("/copy", CopyOptions::default(), &mut |_| {
            noted.lock().unwrap().push(copied.clone().close().unwrap_err().kind());
            Ok(())
        });
        copy.unwrap();
    });
    let kinds = std::mem::take(&mut *refused.lock().unwrap());
    assert!(!kinds.is_empty() && kinds.iter().all(|kind| *kind == ErrorKind::Invalid), "{kinds:?}");
    family.put(b"key", b"3").unwrap();
    *place.lock().unwrap() = None;
    db.close().unwrap();
}

/// The close that had begun waited for the thread of the listener, which waited for that close.
#[test]
fn a_listener_on_a_thread_of_the_engine_can_not_close_the_database() {
    let place: Arc<Mutex<Option<Db>>> = Arc::default();
    let refused: Arc<Mutex<Vec<ErrorKind>>> = Arc::default();
    let (mine, noted) = (Arc::clone(&place), Arc::clone(&refused));
    let (at_flush, flushing) = mpsc::channel();
    let (go_on, may_close) = mpsc::channel::<()>();
    let ends = Mutex::new((at_flush, may_close));
    let listen = move |event: &Event| {
        if matches!(event, Event::Flushed { .. })
            && let Some(db) = mine.lock().unwrap().take()
        {
            let ends = ends.lock().unwrap();
            ends.0.send(()).unwrap();
            ends.1.recv().unwrap();
            noted.lock().unwrap().push(db.close().unwrap_err().kind());
        }
    };
    let options = DbOptions::default()
        .event_listener(EventListener::new(listen))
        .event_listener_level(LogLevel::Info);
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), options).unwrap();
    let family = db.create_family("family", FamilyOptions::default()).unwrap();
    family.put(b"key", b"value").unwrap();
    *place.lock().unwrap() = Some(db.clone());
    let closing = std::thread::spawn(move || db.close());
    flushing.recv_timeout(Duration::from_secs(60)).unwrap();
    // The close has its turn first, most of the time.
    std::thread::sleep(Duration::from_millis(50));
    go_on.send(()).unwrap();
    returns("a close beside one of the listener", move || closing.join().unwrap().unwrap());
    assert_eq!(*refused.lock().unwrap(), [ErrorKind::Invalid]);
}

/// Its jobs stayed queued, and would have run in a directory that is another's.
#[test]
fn an_opening_that_loses_its_directory_leaves_no_work_behind() {
    let sim = SimVfs::new(1);
    let open = |scheduler: &Arc<ManualScheduler>| {
        let components = Components {
            vfs: Arc::clone(&sim) as _,
            scheduler: Arc::clone(scheduler) as _,
            clock: Arc::new(ManualClock::new(1000)),
        };
        let options = DbOptions::default().sync_mode(SyncMode::Interval { interval_us: 1000 });
        Db::open_with("/db", options, components)
    };
    let db = open(&Arc::new(ManualScheduler::new(1))).unwrap();
    db.create_family("family", FamilyOptions::default()).unwrap().put(b"key", b"value").unwrap();
    drop(db);
    sim.on_mutation(Some(Arc::new(|sim, mutation| {
        // The opening makes its manifest the one in force, and goes on.
        if mutation.phase == Phase::Before && mutation.kind == MutationKind::Rename {
            let _ = sim.remove(Path::new("/db/LOCK"));
        }
    })));
    let scheduler = Arc::new(ManualScheduler::new(1));
    let refused = open(&scheduler).unwrap_err();
    sim.on_mutation(None);
    assert_eq!(refused.kind(), ErrorKind::Locked, "{refused}");
    assert_eq!((scheduler.ready(), scheduler.timers()), (0, 0));
    let before = sim.mutations();
    scheduler.run_until_idle();
    assert_eq!(sim.mutations(), before);
}
