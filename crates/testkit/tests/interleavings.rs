//! Two calls that meet at a chosen moment: on a simulated disk that stops one of them at a change
//! of its own until the other is where the test wants it.

#![expect(clippy::unwrap_used, reason = "test helpers fail by panicking")]

use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use tidesdb::testing::refuse_memtable_blocks;
use tidesdb::{Components, Db, DbOptions, ErrorKind, Family, FamilyOptions};
use tidesdb_sim::{ManualClock, ManualScheduler, Mutation, MutationKind, Phase, SimVfs};
use tidesdb_sys::sched::{Job, Lane, Scheduler};
use tidesdb_sys::vfs::{LockMode, Vfs};

/// How long one side of a test gives the other the time to do what it must not do. A right engine
/// does not do it however long that is, so nothing fails on a slow machine.
const GRACE: Duration = Duration::from_millis(200);

/// Hands the jobs of the flush lane to the test, and leaves others to callers that wait.
struct ByHand {
    inner: ManualScheduler,
    flushes: Mutex<VecDeque<Job>>,
}

impl ByHand {
    fn new() -> Arc<Self> {
        Arc::new(Self { inner: ManualScheduler::new(1), flushes: Mutex::default() })
    }

    fn take_flush(&self) -> Job {
        self.flushes.lock().unwrap().pop_front().unwrap()
    }
}

impl std::fmt::Debug for ByHand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ByHand").finish_non_exhaustive()
    }
}

/// Keeps a thread inside a change of the disk.
struct Held {
    arrived: Receiver<()>,
    go_on: Sender<()>,
}

impl Scheduler for ByHand {
    fn submit(&self, lane: Lane, job: Job) {
        if lane == Lane::Flush {
            self.flushes.lock().unwrap().push_back(job);
        } else {
            self.inner.submit(lane, job);
        }
    }

    fn submit_after(&self, lane: Lane, delay: Duration, job: Job) {
        self.inner.submit_after(lane, delay, job);
    }

    fn run_one_job(&self) -> bool {
        let job = self.flushes.lock().unwrap().pop_front();
        job.map(|job| job()).is_some() || self.inner.run_one_job()
    }

    fn shutdown(&self) {
        self.flushes.lock().unwrap().clear();
        self.inner.shutdown();
    }
}

fn open(sim: &Arc<SimVfs>, scheduler: Arc<dyn Scheduler>) -> Db {
    let clock = Arc::new(ManualClock::new(1_000_000));
    let options = DbOptions::default().log_segment_bytes(64 << 10);
    Db::open_with("/db", options, Components { vfs: Arc::clone(sim) as _, scheduler, clock })
        .unwrap()
}

fn small() -> FamilyOptions {
    FamilyOptions::default()
        .write_buffer_size(16 << 10)
        .l0_queue_stall_threshold(20)
        .min_disk_space(0)
}

fn creates_table(mutation: &Mutation<'_>) -> bool {
    mutation.kind == MutationKind::Create
        && mutation.phase == Phase::Before
        && mutation.path.extension().is_some_and(|extension| extension == "klog")
}

/// Holds the first thread that creates a table.
fn hold_next_table(sim: &SimVfs) -> Held {
    hold_next(sim, creates_table)
}

/// Holds the first thread that makes such a change.
fn hold_next(
    sim: &SimVfs,
    is_meant: impl Fn(&Mutation<'_>) -> bool + Send + Sync + 'static,
) -> Held {
    let (arrive, arrived) = channel();
    let (go_on, wait) = channel();
    let once = Mutex::new(Some((arrive, wait)));
    sim.on_mutation(Some(Arc::new(move |_, mutation| {
        if is_meant(mutation)
            && let Some((arrive, wait)) = once.lock().unwrap().take()
        {
            arrive.send(()).unwrap();
            wait.recv().unwrap();
        }
    })));
    Held { arrived, go_on }
}

fn tables_on_disk(sim: &SimVfs) -> usize {
    let entries = sim.list(Path::new("/db")).unwrap();
    entries.iter().filter(|entry| entry.name.ends_with(".klog")).count()
}

fn two_runs(family: &Family) {
    for value in 0..2_u8 {
        (0_u64..100).for_each(|n| family.put(&n.to_be_bytes(), &[value; 20]).unwrap());
        family.flush().unwrap();
    }
}

/// A caller's own merge that has come to its first table and waits there to be let go.
fn compact_in_the_middle(
    sim: &Arc<SimVfs>,
    family: &Family,
) -> (Held, thread::JoinHandle<tidesdb::Result<()>>) {
    let (held, family) = (hold_next_table(sim), family.clone());
    let merging = thread::spawn(move || family.compact());
    held.arrived.recv().unwrap();
    (held, merging)
}

/// A caller's own merge went on after a close had given the directory up: it would have removed
/// tables of the database that owns it then.
#[test]
fn closing_waits_for_a_compaction_that_a_caller_asked_for() {
    let sim = SimVfs::new(1);
    let db = open(&sim, ByHand::new());
    let family = db.create_family("family", small()).unwrap();
    two_runs(&family);
    let (held, merging) = compact_in_the_middle(&sim, &family);
    let (closed, when_closed) = channel();
    let closing = thread::spawn(move || {
        let result = db.close();
        closed.send(()).unwrap();
        result
    });
    let given_up = when_closed.recv_timeout(GRACE).is_ok();
    let locked = sim.lock(Path::new("/db/LOCK"), LockMode::Exclusive).is_err();
    held.go_on.send(()).unwrap();
    let merged = merging.join().unwrap();
    closing.join().unwrap().unwrap();
    assert!(locked && !given_up, "the directory was given up in the middle of a merge");
    assert!(merged.is_ok() || merged.as_ref().unwrap_err().kind() == ErrorKind::Closed);
    sim.on_mutation(None);
    assert_eq!(family.put(b"late", b"").unwrap_err().kind(), ErrorKind::Closed);

    let db = open(&sim, ByHand::new());
    let family = db.family("family").unwrap();
    for n in 0_u64..100 {
        assert_eq!(family.get(&n.to_be_bytes()).unwrap(), Some(vec![1; 20]));
    }
    assert!(db.verify().unwrap().problems.is_empty());
}

/// A writer of a large value went on appending, or cut off what it had appended, after the
/// directory was given up.
#[test]
fn closing_waits_for_a_value_that_is_written_to_a_value_log() {
    let sim = SimVfs::new(1);
    let db = open(&sim, ByHand::new());
    let family = db.create_family("family", small()).unwrap();
    let value = vec![7; 1 << 20];
    family.put(b"first", &value).unwrap();
    let held = hold_next(&sim, |mutation| {
        mutation.kind == MutationKind::Write
            && mutation.phase == Phase::Before
            && mutation.path.extension().is_some_and(|extension| extension == "vlog")
    });
    let writing = {
        let (family, value) = (family.clone(), value.clone());
        thread::spawn(move || family.put(b"second", &value))
    };
    held.arrived.recv().unwrap();
    let (closed, when_closed) = channel();
    let closing = thread::spawn(move || {
        db.close().unwrap();
        closed.send(()).unwrap();
    });
    let given_up = when_closed.recv_timeout(GRACE).is_ok();
    let locked = sim.lock(Path::new("/db/LOCK"), LockMode::Exclusive).is_err();
    held.go_on.send(()).unwrap();
    let written = writing.join().unwrap();
    closing.join().unwrap();
    assert!(locked && !given_up, "the directory was given up in the middle of a write");
    sim.on_mutation(None);

    let db = open(&sim, ByHand::new());
    let family = db.family("family").unwrap();
    assert_eq!(family.get(b"first").unwrap().as_ref(), Some(&value));
    assert_eq!(family.get(b"second").unwrap(), written.is_ok().then_some(value));
    assert!(db.verify().unwrap().problems.is_empty());
}

/// A caller's own merge went on, and others began, while background work was paused.
#[test]
fn a_pause_waits_for_a_compaction_that_a_caller_asked_for_and_refuses_the_next() {
    let sim = SimVfs::new(1);
    let db = open(&sim, ByHand::new());
    let family = db.create_family("family", small()).unwrap();
    two_runs(&family);
    let (held, merging) = compact_in_the_middle(&sim, &family);
    let (paused, when_paused) = channel();
    let pausing = {
        let db = db.clone();
        thread::spawn(move || {
            db.pause_background().unwrap();
            paused.send(()).unwrap();
        })
    };
    let early = when_paused.recv_timeout(GRACE).is_ok();
    held.go_on.send(()).unwrap();
    merging.join().unwrap().unwrap();
    pausing.join().unwrap();
    assert!(!early, "paused in the middle of a merge");
    sim.on_mutation(None);
    assert_eq!(family.stats().read_amplification, 1);
    assert_eq!(family.compact().unwrap_err().kind(), ErrorKind::Stalled);
    db.resume_background();
    family.compact().unwrap();
}

/// A family with a frozen memtable whose flush is queued, an active one with a newer value of
/// `key`, and a log that failed, whose repair is queued behind.
fn with_failed_log(sim: &Arc<SimVfs>) -> (Db, Family, Arc<ByHand>) {
    let scheduler = ByHand::new();
    let db = open(sim, Arc::clone(&scheduler) as _);
    let family = db.create_family("family", small()).unwrap();
    family.put(b"key", b"old").unwrap();
    let mut filled = 0_u64;
    while scheduler.flushes.lock().unwrap().is_empty() {
        family.put(&filled.to_be_bytes(), &[7; 200]).unwrap();
        filled += 1;
    }
    family.put(b"key", b"new").unwrap();
    // A failed sync would be repaired by the caller at once.
    refuse_memtable_blocks(&db, 0, 1);
    let refused = (0..100_u64).find_map(|n| family.put(&n.to_be_bytes(), &[7; 200]).err());
    assert_eq!(refused.unwrap().kind(), ErrorKind::Full);
    refuse_memtable_blocks(&db, 0, 0);
    assert_eq!(scheduler.flushes.lock().unwrap().len(), 2);
    (db, family, scheduler)
}

/// The repair of the log and the flush job of the family both wrote the older memtable. The job's
/// run was begun last, so that it counted as newer than that of the newer memtable.
#[test]
fn a_flush_beside_the_repair_of_the_log_does_not_bring_old_values_back() {
    let sim = SimVfs::new(1);
    let (db, family, scheduler) = with_failed_log(&sim);
    let (flush, repair) = (scheduler.take_flush(), scheduler.take_flush());
    let (flush, flusher) = (Mutex::new(Some(flush)), Mutex::new(None));
    let flusher = Arc::new(flusher);
    let (arrive, arrived) = channel();
    let (go_on, wait) = channel::<()>();
    let (arrived, wait) = (Mutex::new(arrived), Mutex::new(wait));
    let (started, created) = (Arc::clone(&flusher), AtomicU64::new(0));
    sim.on_mutation(Some(Arc::new(move |_, mutation| {
        if !creates_table(mutation) {
            return;
        }
        match created.fetch_add(1, Ordering::SeqCst) {
            0 => {}
            // The repair's second table: both runs of it are numbered.
            1 => {
                let flush = flush.lock().unwrap().take().unwrap();
                *started.lock().unwrap() = Some(thread::spawn(flush));
                let _ = arrived.lock().unwrap().recv_timeout(GRACE);
            }
            _ => {
                arrive.send(()).unwrap();
                wait.lock().unwrap().recv().unwrap();
            }
        }
    })));
    repair();
    let _ = go_on.send(());
    flusher.lock().unwrap().take().unwrap().join().unwrap();
    sim.on_mutation(None);
    assert_eq!(family.get(b"key").unwrap().as_deref(), Some(&b"new"[..]));
    assert_eq!(family.stats().read_amplification, 2, "a memtable was written twice");
    family.put(b"healed", b"").unwrap();
    db.close().unwrap();
}

/// Each try of a repair that failed half way left the tables of its first memtables behind.
#[test]
fn a_repair_of_the_log_that_fails_leaves_no_tables_behind() {
    let sim = SimVfs::new(1);
    let (db, family, scheduler) = with_failed_log(&sim);
    let (flush, repair) = (scheduler.take_flush(), scheduler.take_flush());
    let created = AtomicU64::new(0);
    sim.on_mutation(Some(Arc::new(move |sim, mutation| {
        if creates_table(mutation) && created.fetch_add(1, Ordering::SeqCst) == 1 {
            sim.set_capacity(Some(0));
        }
    })));
    repair();
    sim.on_mutation(None);
    assert_eq!(tables_on_disk(&sim), 0);
    assert!(family.put(b"refused", b"").is_err());
    sim.set_capacity(None);
    flush();
    db.wait_idle().unwrap();
    family.put(b"healed", b"").unwrap();
    assert_eq!(family.get(b"key").unwrap().as_deref(), Some(&b"new"[..]));
}

/// The manifest named the new segment of a repaired log before the segment's own name was on disk.
#[test]
fn the_name_of_the_new_segment_is_on_disk_before_the_manifest_tells_it() {
    let sim = SimVfs::new(1);
    let (_db, _family, scheduler) = with_failed_log(&sim);
    let (_flush, repair) = (scheduler.take_flush(), scheduler.take_flush());
    let seen = Arc::new(Mutex::new(Vec::new()));
    let note = Arc::clone(&seen);
    sim.on_mutation(Some(Arc::new(move |_, mutation| {
        let manifest = mutation.path.to_string_lossy().contains("MANIFEST");
        let matters = match mutation.kind {
            MutationKind::SegmentCreate | MutationKind::SyncDir => true,
            MutationKind::Sync => manifest,
            _ => false,
        };
        if matters && mutation.phase == Phase::After {
            note.lock().unwrap().push(mutation.kind);
        }
    })));
    repair();
    sim.on_mutation(None);
    let seen = seen.lock().unwrap();
    let expected = [MutationKind::SegmentCreate, MutationKind::SyncDir, MutationKind::Sync];
    assert!(seen.ends_with(&expected), "{seen:?}");
}

/// A family that is dropped while the database closes needs no flush, and is no failure.
#[test]
fn closing_goes_on_when_a_family_is_dropped_meanwhile() {
    let sim = SimVfs::new(1);
    let db = open(&sim, ByHand::new());
    for name in ["a", "b", "c"] {
        db.create_family(name, small()).unwrap().put(b"key", b"value").unwrap();
    }
    let other = db.clone();
    let once = AtomicU64::new(0);
    sim.on_mutation(Some(Arc::new(move |_, mutation| {
        if creates_table(mutation) && once.fetch_add(1, Ordering::SeqCst) == 0 {
            other.drop_family("b").unwrap();
        }
    })));
    db.close().unwrap();
    sim.on_mutation(None);
    let entries = sim.list(Path::new("/db")).unwrap();
    assert!(entries.iter().all(|entry| !entry.name.ends_with(".log")), "the log was kept");
    let db = open(&sim, ByHand::new());
    assert_eq!(db.family_names(), ["a", "c"]);
    assert_eq!(db.family("c").unwrap().get(b"key").unwrap().as_deref(), Some(&b"value"[..]));
}

/// A second close returned while the first was at work: its caller found the directory locked.
#[test]
fn a_second_close_returns_when_the_first_has_ended() {
    let sim = SimVfs::new(1);
    let db = open(&sim, ByHand::new());
    let family = db.create_family("family", small()).unwrap();
    family.put(b"key", b"value").unwrap();
    let other = db.clone();
    // The log is removed behind the mark that has all commits refused.
    let held = hold_next(&sim, |mutation| {
        mutation.kind == MutationKind::Remove
            && mutation.phase == Phase::Before
            && mutation.path.extension().is_some_and(|extension| extension == "log")
    });
    let first = thread::spawn(move || db.close());
    held.arrived.recv().unwrap();
    assert_eq!(family.put(b"late", b"").unwrap_err().kind(), ErrorKind::Closed);
    let (closed, when_closed) = channel();
    let second = thread::spawn(move || {
        let result = other.close();
        closed.send(()).unwrap();
        result
    });
    let early = when_closed.recv_timeout(GRACE).is_ok();
    held.go_on.send(()).unwrap();
    first.join().unwrap().unwrap();
    second.join().unwrap().unwrap();
    assert!(!early, "closed, and the directory is still in use");
    assert!(sim.lock(Path::new("/db/LOCK"), LockMode::Exclusive).is_ok());
}
