//! What holds writers up, what ends it, and what the database may take of memory: on a simulated
//! disk with background work that is stepped by hand, so that nothing depends on speed.

#![expect(clippy::unwrap_used, clippy::panic, reason = "test helpers fail by panicking")]

mod control;
mod events;
mod listeners;
mod no_wait;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidesdb::{
    Components, Compression, Db, DbOptions, Error, ErrorKind, Event, EventListener, Family,
    FamilyOptions, MemoryLevel, RuntimeOptions, ScanOptions, StallReason, SyncMode,
};
use tidesdb_sim::{ManualClock, ManualScheduler, MutationKind, Phase, SimVfs};
use tidesdb_sys::clock::Clock;
use tidesdb_sys::sched::{Job, Lane, Scheduler};
use tidesdb_sys::vfs::Vfs;

/// Background work by hand, with a disk that takes no flush while `stuck` is set. A caller that
/// waits for it passes the time. With `merges_last`, merges go on only when a caller waits and
/// nothing else is to be done.
#[derive(Debug)]
struct StuckDisk {
    inner: ManualScheduler,
    clock: Arc<ManualClock>,
    stuck: AtomicBool,
    merges_last: AtomicBool,
    /// A caller that waits for the disk panics.
    panics: AtomicBool,
}

impl Scheduler for StuckDisk {
    fn submit(&self, lane: Lane, job: Job) {
        self.inner.submit(lane, job);
    }

    fn submit_after(&self, lane: Lane, delay: Duration, job: Job) {
        self.inner.submit_after(lane, delay, job);
    }

    fn run_one_job(&self) -> bool {
        if self.panics.load(Ordering::SeqCst) {
            self.clock.advance(Duration::from_secs(60));
            panic!("this panic is part of the test");
        }
        if self.merges_last.load(Ordering::SeqCst) {
            let lanes = [Lane::Flush, Lane::Sync, Lane::Housekeeping, Lane::Compaction];
            return lanes.into_iter().any(|lane| self.inner.step_lane(lane));
        }
        if !self.stuck.load(Ordering::SeqCst) {
            return self.inner.run_one_job();
        }
        let others = [Lane::Compaction, Lane::Sync, Lane::Housekeeping];
        if !others.into_iter().any(|lane| self.inner.step_lane(lane)) {
            self.clock.advance(Duration::from_millis(200));
        }
        true
    }

    fn shutdown(&self) {
        self.inner.shutdown();
    }
}

struct Fixture {
    sim: Arc<SimVfs>,
    clock: Arc<ManualClock>,
    disk: Arc<StuckDisk>,
    events: Arc<Mutex<Vec<String>>>,
}

impl Fixture {
    fn new() -> Self {
        let clock = Arc::new(ManualClock::new(1_000_000));
        let disk = Self::scheduler(&clock);
        Self { sim: SimVfs::new(1), clock, disk, events: Arc::default() }
    }

    fn scheduler(clock: &Arc<ManualClock>) -> Arc<StuckDisk> {
        let (inner, clock) = (ManualScheduler::new(1), Arc::clone(clock));
        let (stuck, merges_last) = (AtomicBool::new(false), AtomicBool::new(false));
        let panics = AtomicBool::new(false);
        Arc::new(StuckDisk { inner, clock, stuck, merges_last, panics })
    }

    fn open(&mut self, options: DbOptions) -> Db {
        self.disk = Self::scheduler(&self.clock);
        let events = Arc::clone(&self.events);
        let listen = move |event: &Event| events.lock().unwrap().push(event.to_string());
        self.open_with(options, EventListener::new(listen))
    }

    fn open_with(&self, options: DbOptions, listener: EventListener) -> Db {
        let options = options.log_segment_bytes(64 << 10).event_listener(listener);
        let components = Components {
            vfs: Arc::clone(&self.sim) as _,
            scheduler: Arc::clone(&self.disk) as _,
            clock: Arc::clone(&self.clock) as _,
        };
        Db::open_with("/db", options, components).unwrap()
    }

    fn reported(&self, what: &str) -> usize {
        self.events.lock().unwrap().iter().filter(|line| line.contains(what)).count()
    }
}

fn small() -> FamilyOptions {
    FamilyOptions::default()
        .write_buffer_size(64 << 10)
        .l0_queue_stall_threshold(2)
        .min_disk_space(0)
}

/// Writes until the first error.
fn write_until_refused(family: &Family) -> tidesdb::Error {
    (0_u64..100_000).find_map(|n| family.put(&n.to_be_bytes(), &[7; 200]).err()).unwrap()
}

fn stall_count(db: &Db, reason: StallReason) -> u64 {
    db.stats().stalls.iter().find(|stall| stall.reason == reason).unwrap().count
}

fn longest_stall(db: &Db, reason: StallReason) -> u64 {
    db.stats().stalls.iter().find(|stall| stall.reason == reason).unwrap().longest_nanos
}

#[test]
fn a_disk_that_takes_nothing_ends_in_an_error_and_not_in_a_hang() {
    let mut fixture = Fixture::new();
    let db = fixture.open(DbOptions::default().stall_timeout_ms(5_000));
    let family = db.create_family("family", small()).unwrap();
    fixture.disk.stuck.store(true, Ordering::SeqCst);
    let error = write_until_refused(&family);
    assert_eq!(error.kind(), ErrorKind::Stalled, "{error}");
    assert!(error.to_string().contains("flush queue"), "{error}");
    assert!(stall_count(&db, StallReason::FlushQueue) > 0);
    assert!(db.stats().stall_nanos >= 5_000_000_000);
    assert!(fixture.reported("waited") > 0, "{:?}", fixture.events);
    let longest = longest_stall(&db, StallReason::FlushQueue);
    assert!((5_000_000_000..8_000_000_000).contains(&longest), "{longest} ns");
    // Refused without effect, and let in again as soon as the disk takes something.
    assert_eq!(family.put(b"refused", b"1").unwrap_err().kind(), ErrorKind::Stalled);
    assert_eq!(family.get(b"refused").unwrap(), None);
    assert!(db.stats().stall_nanos >= 10_000_000_000);
    assert_eq!(longest_stall(&db, StallReason::FlushQueue), longest, "each waits for as long");
    fixture.disk.stuck.store(false, Ordering::SeqCst);
    family.put(b"taken", b"1").unwrap();
    assert_eq!(family.get(&0_u64.to_be_bytes()).unwrap(), Some(vec![7; 200]));
    db.close().unwrap();
}

#[test]
fn an_explicit_flush_of_a_disk_that_takes_nothing_ends_in_an_error() {
    let mut fixture = Fixture::new();
    let db = fixture.open(DbOptions::default().stall_timeout_ms(5_000));
    let family = db.create_family("family", small()).unwrap();
    family.put(b"key", b"value").unwrap();
    fixture.disk.stuck.store(true, Ordering::SeqCst);
    for call in [Family::flush, Family::compact, Family::compact_and_wait] {
        let before = fixture.clock.monotonic_nanos();
        let error = call(&family).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Stalled, "{error}");
        assert!(error.to_string().contains("flush queue"), "{error}");
        let seconds = (fixture.clock.monotonic_nanos() - before) / 1_000_000_000;
        assert!((5..8).contains(&seconds), "{seconds} s");
    }
    assert_eq!(db.flush().unwrap_err().kind(), ErrorKind::Stalled);
    fixture.disk.stuck.store(false, Ordering::SeqCst);
    family.flush().unwrap();
    assert_eq!((family.stats().work.flush_tables_written, family.stats().frozen_memtables), (1, 0));
}

/// The flush was begun by a writer, and others wait for it without having asked for it.
#[test]
fn waiting_for_a_disk_that_takes_nothing_ends_in_an_error() {
    let mut fixture = Fixture::new();
    let db = fixture.open(DbOptions::default().stall_timeout_ms(5_000));
    let family = db.create_family("family", small()).unwrap();
    for round in 0_u64..3 {
        fixture.disk.stuck.store(true, Ordering::SeqCst);
        let mut n = 0_u64;
        while !family.is_flushing() {
            family.put(&n.to_be_bytes(), &[round as u8; 200]).unwrap();
            n += 1;
        }
        let call = [Db::wait_idle, Db::pause_background, Db::compact_and_wait][round as usize];
        let before = fixture.clock.monotonic_nanos();
        let error = call(&db).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Stalled, "{error}");
        assert!(error.to_string().contains("flush queue"), "{error}");
        let seconds = (fixture.clock.monotonic_nanos() - before) / 1_000_000_000;
        assert!((5..15).contains(&seconds), "{seconds} s");
        fixture.disk.stuck.store(false, Ordering::SeqCst);
        // Nothing is paused either.
        family.flush().unwrap();
        db.wait_idle().unwrap();
    }
    db.pause_background().unwrap();
    db.resume_background();
    db.close().unwrap();
}

/// While a merge is in the middle of something, here in creating its table, another is asked for.
#[test]
fn a_compaction_that_gets_nowhere_does_not_hold_up_others_without_end() {
    let mut fixture = Fixture::new();
    let db = fixture.open(DbOptions::default().stall_timeout_ms(5_000));
    let family = db.create_family("family", small()).unwrap();
    for n in 0_u64..2 {
        (0_u64..100).for_each(|key| family.put(&key.to_be_bytes(), &[n as u8; 20]).unwrap());
        family.flush().unwrap();
    }
    fixture.disk.stuck.store(true, Ordering::SeqCst);
    let (inner, errors) = (family.clone(), Arc::new(Mutex::new(Vec::new())));
    let met = Arc::clone(&errors);
    fixture.sim.on_mutation(Some(Arc::new(move |_, mutation| {
        let table = mutation.path.extension().is_some_and(|extension| extension == "klog");
        if table && mutation.kind == MutationKind::Create && mutation.phase == Phase::Before {
            met.lock().unwrap().push(inner.compact().unwrap_err());
        }
    })));
    family.compact().unwrap();
    fixture.sim.on_mutation(None);
    let errors = errors.lock().unwrap();
    let [error] = errors.as_slice() else { panic!("{errors:?}") };
    assert_eq!(error.kind(), ErrorKind::Stalled, "{error}");
    assert!(error.to_string().contains("compaction debt"), "{error}");
    assert_eq!(family.stats().read_amplification, 1);
    assert_eq!(family.get(&7_u64.to_be_bytes()).unwrap(), Some(vec![1; 20]));
}

/// Lengths of the tables and value logs in the directory, once those that were replaced are gone.
fn bytes_on_disk(fixture: &Fixture) -> u64 {
    while fixture.disk.inner.step_lane(Lane::Housekeeping) {}
    let entries = fixture.sim.list(Path::new("/db")).unwrap();
    let data = |name: &str| name.ends_with(".klog") || name.ends_with(".vlog");
    entries.iter().filter(|entry| data(&entry.name)).map(|entry| entry.len).sum()
}

/// Merges do nothing here unless a writer is held up.
#[test]
fn overwriting_is_slowed_before_garbage_passes_its_bound() {
    const KEYS: u64 = 5_000;
    // From which size on values lie in value logs -> bound on what is there for each live byte: a
    // value log may be half garbage.
    for (klog_value_threshold, bound) in [(512, 1.5), (64, 2.0)] {
        let mut fixture = Fixture::new();
        let db = fixture.open(DbOptions::default());
        let options = small()
            .l1_file_count_trigger(500)
            .klog_value_threshold(klog_value_threshold)
            .compression(Compression::None);
        assert!((options.max_space_amplification - 1.5).abs() < 1e-9);
        let family = db.create_family("family", options.clone()).unwrap();
        fixture.disk.merges_last.store(true, Ordering::SeqCst);
        let mut most = 0;
        for n in 0..40 * KEYS {
            let key = (n * 7919 % KEYS).to_be_bytes();
            family.put(&key, &[(n / KEYS) as u8; 100]).unwrap();
            if n % 50 == 0 {
                most = most.max(bytes_on_disk(&fixture));
            }
        }
        assert!(stall_count(&db, StallReason::SpaceAmplification) > 0, "{:?}", db.stats());
        assert!(fixture.reported("space amplification") > 0, "{:?}", fixture.events);
        family.compact().unwrap();
        let live = bytes_on_disk(&fixture);
        // And what is written while a merge runs.
        let allowed = live as f64 * bound + 6.0 * options.write_buffer_size as f64;
        assert!(most as f64 <= allowed, "{most} bytes were there for {live} live ones");
        assert_eq!(family.scan(ScanOptions::new()).unwrap().entries().count() as u64, KEYS);
        db.close().unwrap();
    }
}

#[test]
fn what_a_snapshot_holds_does_not_slow_writers() {
    const KEYS: u64 = 5_000;
    let mut fixture = Fixture::new();
    let db = fixture.open(DbOptions::default());
    let options = small().compression(Compression::None);
    let family = db.create_family("family", options).unwrap();
    let write_all = |value| {
        (0..KEYS).for_each(|n| family.put(&n.to_be_bytes(), &[value; 100]).unwrap());
        family.compact().unwrap();
    };
    write_all(1);
    let snapshot = db.snapshot();
    // As long as a run of their own holds them, the older versions are garbage like any other.
    write_all(2);
    let before = stall_count(&db, StallReason::SpaceAmplification);
    let entries: u64 = family.stats().levels.iter().map(|level| level.entries).sum();
    assert_eq!(entries, 2 * KEYS, "nothing was put to the test");
    (0..KEYS / 5).for_each(|n| family.put(&n.to_be_bytes(), &[3; 100]).unwrap());
    assert_eq!(stall_count(&db, StallReason::SpaceAmplification), before);
    assert_eq!(family.get_at(&snapshot, &7_u64.to_be_bytes()).unwrap(), Some(vec![1; 100]));
}

#[test]
fn a_budget_below_one_memtable_is_kept_and_writers_get_on() {
    let mut fixture = Fixture::new();
    let budget = 4 << 20;
    let db = fixture.open(DbOptions::default().max_memory_usage(budget));
    let options = FamilyOptions::default().min_disk_space(0);
    assert!(options.write_buffer_size as u64 > budget);
    let open = |n| db.create_family(&format!("family-{n}"), options.clone()).unwrap();
    let families: Vec<Family> = (0..3).map(open).collect();
    for n in 0_u64..60_000 {
        families[n as usize % 3].put(&n.to_be_bytes(), &[n as u8; 100]).unwrap();
        if n % 64 == 0 {
            let memory = db.stats().memory;
            assert!(memory.used_bytes < budget, "{n}: {memory:?}");
        }
    }
    let stats = db.stats();
    assert!(stats.work.flush_tables_written > 3, "{stats:?}");
    assert!(fixture.reported("memory is") > 0);
    for n in (0_u64..60_000).step_by(97) {
        let value = families[n as usize % 3].get(&n.to_be_bytes()).unwrap();
        assert_eq!(value, Some(vec![n as u8; 100]));
    }
    db.close().unwrap();
}

/// Memtables too small to be worth a flush took three times the budget.
#[test]
fn many_families_with_a_little_each_keep_to_the_budget() {
    let mut fixture = Fixture::new();
    let budget = 8 << 20;
    let db = fixture.open(DbOptions::default().max_memory_usage(budget));
    let options = FamilyOptions::default().min_disk_space(0);
    let names: Vec<String> = (0..3000).map(|n| format!("family-{n}")).collect();
    let wanted: Vec<_> = names.iter().map(|name| (name.as_str(), options.clone())).collect();
    let families = db.create_families(&wanted).unwrap();
    for (n, family) in families.iter().enumerate() {
        family.put(b"key", &n.to_be_bytes()).unwrap();
        if n % 16 == 0 {
            let memory = db.stats().memory;
            assert!(memory.used_bytes < budget, "{n}: {memory:?}");
        }
    }
    for (n, family) in families.iter().enumerate() {
        assert_eq!(family.get(b"key").unwrap(), Some(n.to_be_bytes().to_vec()));
    }
    assert!(db.stats().work.flush_tables_written > 0);
    db.close().unwrap();
}

#[test]
fn memory_that_no_flush_frees_slows_writers_and_does_not_stop_them() {
    let mut fixture = Fixture::new();
    let db = fixture.open(DbOptions::default().max_memory_usage(4 << 20));
    let options = FamilyOptions::default().min_disk_space(0);
    let family = db.create_family("family", options).unwrap();
    // Scans hold on to the memtables that they read, flushed or not.
    let mut scans = Vec::new();
    for n in 0_u64..40_000 {
        family.put(&n.to_be_bytes(), &[n as u8; 100]).unwrap();
        if n % 1000 == 0 {
            scans.push(family.scan(ScanOptions::new()).unwrap());
        }
    }
    let memory = db.stats().memory;
    assert_eq!(memory.level, MemoryLevel::Critical, "{memory:?}");
    assert!(stall_count(&db, StallReason::MemoryBudget) > 0);
    drop(scans);
    family.flush().unwrap();
    family.put(b"last", b"1").unwrap();
    let memory = db.stats().memory;
    assert!(memory.level < MemoryLevel::High, "{memory:?}");
}

#[test]
fn budgets_that_cannot_work_are_refused() {
    let mut fixture = Fixture::new();
    let db = fixture.open(DbOptions::default());
    let refused = RuntimeOptions::default().max_memory_usage(1 << 20);
    assert_eq!(db.set_options(refused).unwrap_err().kind(), ErrorKind::Invalid);
    let changed = RuntimeOptions::default()
        .max_memory_usage(8 << 20)
        .block_cache_bytes(1 << 20)
        .max_open_files(3);
    db.set_options(changed).unwrap();
    let stats = db.stats();
    assert_eq!((stats.memory.budget_bytes, stats.cache.capacity_bytes), (8 << 20, 1 << 20));
    // The log of a database with little memory has small segments, whatever the options say.
    assert!(DbOptions::default().max_memory_usage(4 << 20).validate().is_ok());
    assert!(DbOptions::default().max_memory_usage((4 << 20) - 1).validate().is_err());
}
