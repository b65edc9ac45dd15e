//! What background work may do while a database is being opened: on a simulated disk, with a
//! scheduler that runs each flush the moment it is queued, as an idle thread may.

#![expect(clippy::unwrap_used, reason = "test helpers fail by panicking")]

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use tidesdb::{Components, Db, DbOptions, FamilyOptions, ScanOptions, SyncMode};
use tidesdb_sim::{
    CrashProfile, FaultVfs, ManualClock, ManualScheduler, MutationKind, Op, Phase, SimVfs,
};
use tidesdb_sys::sched::{Job, Lane, LaneThreads, Scheduler, ThreadPool};
use tidesdb_sys::vfs::Vfs;

/// Only writers step it and callers who wait, except that an eager one does flushes at
/// once.
#[derive(Debug)]
struct Flusher {
    inner: ManualScheduler,
    eager: bool,
}

impl Flusher {
    fn new(eager: bool) -> Arc<Self> {
        Arc::new(Self { inner: ManualScheduler::new(1), eager })
    }
}

impl Scheduler for Flusher {
    fn submit(&self, lane: Lane, job: Job) {
        if self.eager && lane == Lane::Flush {
            job();
        } else {
            self.inner.submit(lane, job);
        }
    }

    fn submit_after(&self, lane: Lane, delay: Duration, job: Job) {
        self.inner.submit_after(lane, delay, job);
    }

    fn run_one_job(&self) -> bool {
        self.inner.run_one_job()
    }

    fn shutdown(&self) {
        self.inner.shutdown();
    }
}

#[test]
fn a_power_cut_leaves_a_new_directory_of_one_name() {
    let sim = SimVfs::new(1);
    let components = |sim: &Arc<SimVfs>| Components {
        vfs: Arc::clone(sim) as _,
        scheduler: Flusher::new(false),
        clock: Arc::new(ManualClock::new(1_000_000)),
    };
    let options = DbOptions::default().sync_mode(SyncMode::Full);
    let db = Db::open_with("mydb", options, components(&sim)).unwrap();
    db.create_family("f", FamilyOptions::default()).unwrap().put(b"k", b"v").unwrap();
    let image = sim.crash_image(CrashProfile::Nothing, 1);
    let options = DbOptions::default().create_if_missing(false);
    let db = Db::open_with("mydb", options, components(&image)).unwrap();
    assert_eq!(db.family("f").unwrap().get(b"k").unwrap().unwrap(), b"v");
}

fn open(sim: &Arc<SimVfs>, scheduler: Arc<Flusher>) -> Db {
    open_synced(sim, scheduler, SyncMode::Full)
}

fn open_synced(sim: &Arc<SimVfs>, scheduler: Arc<Flusher>, sync_mode: SyncMode) -> Db {
    let options = DbOptions::default().log_segment_bytes(64 << 10).sync_mode(sync_mode);
    let clock = Arc::new(ManualClock::new(1_000_000));
    Db::open_with("/db", options, Components { vfs: Arc::clone(sim) as _, scheduler, clock })
        .unwrap()
}

const FAMILIES: [&str; 3] = ["a", "b", "c"];
/// Enough for a frozen memtable.
const ENTRIES_OF_BUSY: u64 = 60;

/// A disk after a power cut: one family has more in the log than a memtable holds, the others
/// little, and nothing of all that is in tables.
fn with_log_of(busy: &str) -> Arc<SimVfs> {
    let sim = SimVfs::new(1);
    let small = FamilyOptions::default().write_buffer_size(16 << 10).min_disk_space(0);
    let db = open(&sim, Flusher::new(false));
    for name in FAMILIES {
        let family = db.create_family(name, small.clone()).unwrap();
        let entries = if name == busy { ENTRIES_OF_BUSY } else { 1 };
        (0..entries).for_each(|n| family.put(&n.to_be_bytes(), &[7; 250]).unwrap());
    }
    assert_eq!(db.stats().work.flush_tables_written, 0);
    sim.crash_image(CrashProfile::Nothing, 1)
}

fn check(sim: &Arc<SimVfs>, busy: &str, when: &str) {
    let db = open(sim, Flusher::new(false));
    for name in FAMILIES {
        let family = db.family(name).unwrap();
        let entries = if name == busy { ENTRIES_OF_BUSY } else { 1 };
        for n in 0..entries {
            let found = family.get(&n.to_be_bytes()).unwrap();
            assert!(found.is_some(), "{busy} is busy: '{name}' has lost entry {n} after {when}");
        }
    }
}

/// I-54. Families became known one after the other while the first was flushed already. That flush
/// found that no other family needs the log, and gave it up.
#[test]
fn a_flush_during_the_opening_leaves_the_log_to_families_that_come_later() {
    for busy in FAMILIES {
        let sim = with_log_of(busy);
        let images = Arc::new(Mutex::new(Vec::new()));
        let taking = Arc::clone(&images);
        sim.on_mutation(Some(Arc::new(move |sim, mutation| {
            if mutation.phase == Phase::After && mutation.kind != MutationKind::SegmentPiece {
                let when = format!("{:?} of {}", mutation.kind, mutation.path.display());
                for profile in [CrashProfile::Everything, CrashProfile::Nothing] {
                    taking.lock().unwrap().push((when.clone(), sim.crash_image(profile, 1)));
                }
            }
        })));
        let db = open(&sim, Flusher::new(true));
        assert_eq!(
            db.family(busy).unwrap().stats().work.flush_tables_written,
            1,
            "nothing was put to the test"
        );
        sim.on_mutation(None);
        let taken = std::mem::take(&mut *images.lock().unwrap());
        assert!(taken.len() > 20, "{}", taken.len());
        for (when, image) in taken {
            check(&image, busy, &when);
        }
        check(&sim.crash_image(CrashProfile::Everything, 1), busy, "the opening");
    }
}

/// The manifest knew that all through some byte between two records is in tables, and the log was
/// lost. The first segment of the new log, which starts at the next whole position, claimed that
/// the log was on disk up to there: an opening that ended with that, before the manifest named the
/// segment, was the last.
#[test]
fn an_opening_cut_short_after_a_lost_log_can_be_repeated() {
    let sim = SimVfs::new(1);
    let flusher = Flusher::new(false);
    let db = open_synced(&sim, Arc::clone(&flusher), SyncMode::None);
    let small = FamilyOptions::default().write_buffer_size(16 << 10);
    let (a, b) = (db.create_family("a", small.clone()).unwrap(), db.create_family("b", small));
    let mut entries = 0_u64;
    while flusher.inner.ready_in(Lane::Flush) == 0 {
        a.put(&entries.to_be_bytes(), &[7; 250]).unwrap();
        entries += 1;
    }
    // Behind what the flush needs of the log, so that nothing syncs it.
    b.unwrap().put(b"lost", b"with the log").unwrap();
    while flusher.inner.step_lane(Lane::Flush) {}
    assert_eq!(db.stats().work.flush_tables_written, 1);
    let lost = sim.crash_image(CrashProfile::Nothing, 1);

    let images = Arc::new(Mutex::new(Vec::new()));
    let taking = Arc::clone(&images);
    lost.on_mutation(Some(Arc::new(move |sim, mutation| {
        if mutation.phase == Phase::After {
            let when = format!("{:?} of {}", mutation.kind, mutation.path.display());
            taking.lock().unwrap().push((when, sim.crash_image(CrashProfile::Everything, 1)));
        }
    })));
    drop(open(&lost, Flusher::new(false)));
    lost.on_mutation(None);
    let taken = std::mem::take(&mut *images.lock().unwrap());
    assert!(taken.len() > 10, "{}", taken.len());
    for (when, image) in taken {
        let clock = Arc::new(ManualClock::new(1_000_000));
        let components =
            Components { vfs: Arc::clone(&image) as _, scheduler: Flusher::new(false), clock };
        let db = Db::open_with("/db", DbOptions::default(), components);
        let db = db.unwrap_or_else(|e| panic!("after {when}: {e}"));
        let a = db.family("a").unwrap();
        for n in 0..entries {
            assert!(a.get(&n.to_be_bytes()).unwrap().is_some(), "entry {n} after {when}");
        }
    }
}

/// What an opening waits for is syncs. One of a database that was closed, without the mark of that,
/// made six: the directory was synced for the name of the manifest, and again for that of the log
/// segment, and an edit named the segment.
#[test]
fn an_opening_makes_no_more_syncs_than_a_new_manifest_needs() {
    let sim = SimVfs::new(1);
    let db = open(&sim, Flusher::new(false));
    let family = db.create_family("a", FamilyOptions::default()).unwrap();
    family.put(b"k", b"in a table").unwrap();
    db.close().unwrap();
    drop(family);
    sim.remove(Path::new("/db/CLOSED")).unwrap();

    let (syncs, images) = (Arc::new(AtomicU64::new(0)), Arc::new(Mutex::new(Vec::new())));
    let (counting, taking) = (Arc::clone(&syncs), Arc::clone(&images));
    sim.on_mutation(Some(Arc::new(move |sim, mutation| {
        if mutation.phase == Phase::Before {
            return;
        }
        let kinds = [MutationKind::SyncDir, MutationKind::Sync, MutationKind::SegmentSync];
        counting.fetch_add(u64::from(kinds.contains(&mutation.kind)), Ordering::Relaxed);
        let when = format!("{:?} of {}", mutation.kind, mutation.path.display());
        for profile in [CrashProfile::Everything, CrashProfile::Nothing, CrashProfile::Random] {
            taking.lock().unwrap().push((when.clone(), sim.crash_image(profile, 7)));
        }
    })));
    let check = |db: Db, when: &str| {
        let family = db.family("a").unwrap();
        assert_eq!(family.get(b"k").unwrap().as_deref(), Some(&b"in a table"[..]), "{when}");
        family.put(b"k", b"in a table").unwrap();
    };
    let opened = open(&sim, Flusher::new(false));
    // The manifest, its name and that of the segment, CURRENT, and its name.
    assert_eq!(syncs.load(Ordering::Relaxed), 4);
    sim.on_mutation(None);
    check(opened, "the opening");
    for (when, image) in std::mem::take(&mut *images.lock().unwrap()) {
        check(open(&image, Flusher::new(false)), &when);
        check(open(&image, Flusher::new(false)), &when);
    }
}

/// Syncs that have no order between them wait for the disk together: the log, the new manifest,
/// `CURRENT.new` and the names of all. The rename comes behind all of them.
#[test]
fn an_opening_after_a_crash_waits_for_the_disk_twice() {
    const TOGETHER: usize = 4;
    let sim = SimVfs::new(1);
    let db = open_synced(&sim, Flusher::new(false), SyncMode::None);
    let family = db.create_family("a", FamilyOptions::default()).unwrap();
    family.put(b"k", b"in the log").unwrap();
    let disk = FaultVfs::new(sim.crash_image(CrashProfile::Everything, 1));

    let (syncs, begun) = (Arc::new((Mutex::new(0), Condvar::new())), Arc::new(Mutex::new(vec![])));
    let (counted, noted) = (Arc::clone(&syncs), Arc::clone(&begun));
    disk.before_calls(Some(Arc::new(move |op, path| {
        let (count, one_more) = &*counted;
        match op {
            Op::Rename => noted.lock().unwrap().push(*count.lock().unwrap()),
            Op::Sync | Op::SyncDir => {
                let mut under_way = count.lock().unwrap();
                *under_way += 1;
                one_more.notify_all();
                let is_alone = |under_way: &mut usize| *under_way < TOGETHER;
                let patience = Duration::from_secs(5);
                let waited = one_more.wait_timeout_while(under_way, patience, is_alone).unwrap();
                assert!(!waited.1.timed_out(), "{op:?} of {} is alone", path.display());
            }
            _ => {}
        }
    })));
    let threads = LaneThreads { flush: 1, compaction: TOGETHER - 1, sync: 1, housekeeping: 1 };
    let pool = ThreadPool::new("opening", threads, Arc::new(|_, _: &str| {})).unwrap();
    let (clock, vfs) = (Arc::new(ManualClock::new(1_000_000)), Arc::clone(&disk) as _);
    let options = DbOptions::default().compaction_threads(TOGETHER - 1);
    let components = Components { vfs, scheduler: Arc::new(pool), clock };
    let db = Db::open_with("/db", options, components).unwrap();
    disk.before_calls(None);
    assert_eq!(*begun.lock().unwrap(), [TOGETHER], "syncs in front of the rename");
    assert_eq!(*syncs.0.lock().unwrap(), TOGETHER + 1, "one more is that of the rename");
    let family = db.family("a").unwrap();
    assert_eq!(family.get(b"k").unwrap().as_deref(), Some(&b"in the log"[..]));
}

/// Bytes of all log segments on the disk.
fn log_bytes(sim: &SimVfs) -> u64 {
    let dir = Path::new("/db");
    let entries = sim.list(dir).unwrap().into_iter();
    let logs = entries.filter(|entry| entry.name.ends_with(".log"));
    logs.map(|entry| sim.content(&dir.join(entry.name)).unwrap().len() as u64).sum()
}

/// Bytes of a segment in the test below.
const SEGMENT: u64 = 1 << 20;

/// Writes more than an opening would wait for, and a process that dies before its first flush.
fn crash_with_log() -> Arc<SimVfs> {
    let sim = SimVfs::new(1);
    let db = open_with_segments(&sim);
    let family = db.create_family("f", FamilyOptions::default().min_disk_space(0)).unwrap();
    (0..4500u64).for_each(|n| family.put(&n.to_be_bytes(), &[7; 1000]).unwrap());
    sim.crash_image(CrashProfile::Everything, 1)
}

fn open_with_segments(sim: &Arc<SimVfs>) -> Db {
    let options = DbOptions::default().log_segment_bytes(SEGMENT).sync_mode(SyncMode::None);
    let (clock, scheduler) = (Arc::new(ManualClock::new(1_000_000)), Flusher::new(false));
    Db::open_with("/db", options, Components { vfs: Arc::clone(sim) as _, scheduler, clock })
        .unwrap()
}

/// One life that writes little and ends before a flush does. The disk then, unless the opening has
/// waited for a flush.
fn short_life(sim: &Arc<SimVfs>, number: u64) -> (Arc<SimVfs>, bool) {
    let db = open_with_segments(sim);
    let has_flushed = db.stats().work.flush_tables_written > 0;
    let family = db.family("f").unwrap();
    for n in 0..PUTS_OF_LIFE {
        family.put(&((number + 1) << 32 | n).to_be_bytes(), &[7; 1000]).unwrap();
    }
    (sim.crash_image(CrashProfile::Everything, 1), has_flushed)
}

/// More than fits into the small segment that such an opening begins with.
const PUTS_OF_LIFE: u64 = 100;

/// I-297. Each opening left a segment more, or two, as long as the first flush after it did not
/// end.
#[test]
fn processes_that_die_before_their_first_flush_do_not_pile_up_log() {
    let mut sim = crash_with_log();
    let (mut most, mut without) = (0, 0);
    for n in 0..60 {
        let (next, has_flushed) = short_life(&sim, n);
        sim = next;
        without += u64::from(!has_flushed);
        most = most.max(log_bytes(&sim));
    }
    println!("{without} openings did not wait, at most {} segments", most / SEGMENT);
    assert!(without > 10, "{without} openings did not wait for a flush");
    assert!(most < 24 * SEGMENT, "{most} bytes of log");
    let db = open_with_segments(&sim);
    let keys = db.family("f").unwrap().scan(ScanOptions::new()).unwrap().entries().count();
    assert_eq!(keys as u64, 4500 + 60 * PUTS_OF_LIFE);
}

/// I-297. The same when not even the opening ends.
#[test]
fn openings_that_are_cut_short_do_not_pile_up_log() {
    let mut sim = crash_with_log();
    // As long as the openings do not wait for a flush.
    for n in 0..40 {
        let before = sim.crash_image(CrashProfile::Everything, 1);
        let (next, has_flushed) = short_life(&sim, n);
        sim = if has_flushed { before } else { next };
        if has_flushed {
            break;
        }
    }
    let before = log_bytes(&sim);
    for cut in 0..20 {
        let image = Arc::new(Mutex::new(None));
        let taking = Arc::clone(&image);
        sim.on_mutation(Some(Arc::new(move |sim, mutation| {
            let is_table = mutation.path.to_string_lossy().ends_with(".klog");
            let mut image = taking.lock().unwrap();
            if is_table && mutation.phase == Phase::After && image.is_none() {
                *image = Some(sim.crash_image(CrashProfile::Everything, 1));
            }
        })));
        drop(open_with_segments(&sim));
        sim.on_mutation(None);
        let image = image.lock().unwrap().take();
        sim = image.unwrap_or_else(|| panic!("opening {cut} did not wait for a flush"));
    }
    let after = log_bytes(&sim);
    println!("{before} bytes of log before, {after} afterwards");
    assert!(after < before + 3 * SEGMENT, "{after} bytes of log where {before} were");
}
