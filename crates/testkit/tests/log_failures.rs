//! Failures of the log that meet several threads at once, and memory that runs out half way through
//! a commit: a refused call is never seen, an acknowledged one never lost, and the database takes
//! writes again without being opened.

#![expect(clippy::unwrap_used, reason = "test helpers fail by panicking")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::Duration;

use tidesdb::{
    Components, Compression, Db, DbOptions, Error, ErrorKind, Family, FamilyOptions,
    IsolationLevel, Result, ScanOptions, SyncMode, WriteBatch, WriteOptions,
};
use tidesdb_sim::{
    CrashProfile, FaultError, FaultKind, FaultVfs, LogForm, ManualClock, ManualScheduler,
    MutationKind, Op, OpSet, SimVfs,
};
use tidesdb_sys::vfs::Vfs;

mod doubtful;
mod memory;
mod power_cuts;

use memory::Small;
use power_cuts::check_power_cuts;

/// Threads that commit at once.
const THREADS: u64 = 4;

/// Refused calls after which a thread stops.
const ENOUGH_REFUSALS: usize = 30;

/// Calls that a thread makes at most.
const MOST_CALLS: u64 = 1500;

fn options(sync_mode: SyncMode) -> DbOptions {
    DbOptions::default().log_segment_bytes(64 << 10).sync_mode(sync_mode)
}

fn family_options() -> FamilyOptions {
    FamilyOptions::default().write_buffer_size(64 << 10).min_disk_space(0)
}

fn open_on(vfs: Arc<dyn Vfs>, sync_mode: SyncMode) -> Result<Db> {
    let options = options(sync_mode);
    let components = Components { vfs, ..Components::for_options(&options)? };
    Db::open_with("/db", options, components)
}

fn families(db: &Db) -> [Family; 2] {
    ["one", "two"].map(|name| db.family(name).unwrap())
}

/// What a scan shows.
fn content(family: &Family) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut scan = family.scan(ScanOptions::default()).unwrap();
    let mut found = Vec::new();
    scan.seek_to_first().unwrap();
    while scan.valid() {
        found.push((scan.key().to_vec(), scan.value().unwrap().to_vec()));
        scan.next().unwrap();
    }
    found
}

/// What became of the commits of one thread. Each writes keys of its own.
#[derive(Default)]
struct Outcome {
    acknowledged: Vec<(u64, [bool; 2])>,
    refused: Vec<(u64, [bool; 2], Error)>,
}

/// The value of key `n`. Some records reach over a page or two, in which a write may stop.
fn value(n: u64) -> Vec<u8> {
    vec![n as u8; if n / THREADS % 5 == 1 { 6000 } else { 100 }]
}

/// One commit of key `n`: a put, a batch over both families, or a transaction that is tried again.
fn commit(db: &Db, families: &[Family; 2], n: u64) -> ([bool; 2], Result<()>) {
    let (key, value) = (n.to_be_bytes(), value(n));
    match n % 3 {
        0 => ([true, false], families[0].put(&key, &value)),
        1 => {
            let mut batch = WriteBatch::new();
            families.iter().for_each(|family| batch.put(family, &key, &value).unwrap());
            ([true, true], db.write(&batch))
        }
        _ => {
            let mut transaction = db.begin(IsolationLevel::Snapshot).unwrap();
            transaction.put(&families[1], &key, &value).unwrap();
            let mut committed = transaction.commit();
            for _ in 0..2 {
                if committed.is_err() {
                    committed = transaction.commit();
                }
            }
            ([false, true], committed.map(|_| ()))
        }
    }
}

fn commit_until_refused(db: &Db, thread: u64, start: &Barrier) -> Outcome {
    let families = families(db);
    let mut outcome = Outcome::default();
    start.wait();
    for step in 0..MOST_CALLS {
        let n = step * THREADS + thread;
        match commit(db, &families, n) {
            (into, Ok(())) => outcome.acknowledged.push((n, into)),
            (into, Err(e)) => {
                outcome.refused.push((n, into, e));
                thread::sleep(Duration::from_micros(200));
            }
        }
        if outcome.refused.len() >= ENOUGH_REFUSALS {
            break;
        }
    }
    outcome
}

/// Commits that are not durable are visible as long as the database is open, and after a kill. What
/// a power cut leaves of them is asked by [`check_power_cuts`].
fn check(db: &Db, outcomes: &[Outcome], when: &str) {
    let families = families(db);
    let expect = |n: u64, into: [bool; 2], there: bool| {
        for (family, written) in families.iter().zip(into) {
            let found = family.get(&n.to_be_bytes()).unwrap();
            let wanted = (written && there).then(|| value(n));
            assert_eq!(found, wanted, "{when}: key {n} of {}", family.name());
        }
    };
    for outcome in outcomes {
        outcome.acknowledged.iter().for_each(|&(n, into)| expect(n, into, true));
        for (n, into, error) in &outcome.refused {
            expect(*n, *into, error.kind() == ErrorKind::NotDurable);
        }
    }
    let scanned: usize = families.iter().map(|family| content(family).len()).sum();
    let keys = |into: [bool; 2]| into.iter().filter(|written| **written).count();
    let acknowledged = outcomes.iter().flat_map(|outcome| &outcome.acknowledged);
    let refused = outcomes.iter().flat_map(|outcome| &outcome.refused);
    let doubtful = refused.filter(|(_, _, error)| error.kind() == ErrorKind::NotDurable);
    let visible = acknowledged.map(|(_, into)| into).chain(doubtful.map(|(_, into, _)| into));
    let visible: usize = visible.map(|into| keys(*into)).sum();
    assert_eq!(scanned, visible, "{when}: a scan sees other keys than it should");
}

/// What goes wrong while threads commit.
#[derive(Clone, Copy, Debug)]
enum Trouble {
    /// This one of the calls that are counted fails, and others as the kind says.
    Calls { counted: OpSet, call: u64, kind: FaultKind, error: FaultError },
    /// The disk takes so many bytes more than there were at first.
    Full { left: u64 },
}

/// A disk that gets into trouble under the threads of a database.
struct Troubled {
    sim: Arc<SimVfs>,
    vfs: Arc<FaultVfs>,
    form: LogForm,
    trouble: Trouble,
}

impl Troubled {
    fn new(form: LogForm, trouble: Trouble) -> Self {
        let seed = match trouble {
            Trouble::Calls { call, .. } => call,
            Trouble::Full { left } => left,
        };
        let sim = SimVfs::new(seed);
        sim.set_log_form(form);
        Self { vfs: FaultVfs::new(Arc::clone(&sim) as _), sim, form, trouble }
    }

    /// A disk that is to be full needs values that take space.
    fn family_options(&self) -> FamilyOptions {
        match self.trouble {
            Trouble::Calls { .. } => family_options(),
            Trouble::Full { .. } => family_options().compression(Compression::None),
        }
    }

    fn begin(&self) {
        match self.trouble {
            Trouble::Calls { counted, call, kind, error } => {
                self.vfs.count_only(counted);
                self.vfs.reset();
                self.vfs.fail_call(call, kind, error);
            }
            Trouble::Full { left } => self.sim.set_capacity(Some(used(&self.sim) + left)),
        }
    }

    /// The disk after the death of the process: the cause is still there.
    fn killed(&self) -> Arc<FaultVfs> {
        let sim = self.sim.crash_image(CrashProfile::Everything, 1);
        sim.set_log_form(self.form);
        let image = FaultVfs::new(Arc::clone(&sim) as _);
        match self.trouble {
            // What rewrites blocks needs space as well where blocks are never overwritten.
            Trouble::Calls { counted, kind: kind @ FaultKind::Forever, error, .. }
                if error == FaultError::NO_SPACE =>
            {
                image.count_only(counted.with(Op::Sync).with(Op::SegmentSync));
                image.fail_call(0, kind, error);
            }
            Trouble::Calls { .. } => {}
            Trouble::Full { .. } => sim.set_capacity(Some(used(&sim))),
        }
        image
    }

    fn end(&self) {
        self.vfs.clear_faults();
        self.sim.set_capacity(None);
    }
}

/// Bytes that the files of a disk take.
fn used(sim: &SimVfs) -> u64 {
    const ROOMY: u64 = 1 << 40;
    sim.set_capacity(Some(ROOMY));
    let free = sim.free_bytes(Path::new("/db")).unwrap();
    sim.set_capacity(None);
    ROOMY - free
}

/// Commits from several threads to a database whose disk is in trouble, and looks at it before
/// and after the cause is gone, after a kill and after a reopening. Returns how many calls were
/// refused.
fn fail(sync_mode: SyncMode, form: LogForm, trouble: Trouble) -> usize {
    let disk = Troubled::new(form, trouble);
    let (sim, vfs) = (&disk.sim, &disk.vfs);
    let db = open_on(Arc::clone(vfs) as _, sync_mode).unwrap();
    let options = disk.family_options();
    let _ = ["one", "two"].map(|name| db.create_family(name, options.clone()).unwrap());
    disk.begin();
    let start = Barrier::new(THREADS as usize);
    let outcomes: Vec<Outcome> = thread::scope(|scope| {
        let threads = (0..THREADS).map(|n| (n, &db, &start));
        let threads =
            threads.map(|(n, db, start)| scope.spawn(move || commit_until_refused(db, n, start)));
        let threads: Vec<_> = threads.collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let refusals: usize = outcomes.iter().map(|outcome| outcome.refused.len()).sum();
    let is_full = matches!(trouble, Trouble::Full { .. });
    assert!(is_full || vfs.fired() > 0, "{form:?}, {trouble:?}: no call failed");
    for (n, _, error) in outcomes.iter().flat_map(|outcome| &outcome.refused) {
        let kinds = [ErrorKind::Full, ErrorKind::Io, ErrorKind::LogFailed, ErrorKind::NotDurable];
        assert!(kinds.contains(&error.kind()), "key {n}: {error}");
    }
    let check = |db: &Db, when: &str| check(db, &outcomes, &format!("{form:?}: {when}"));
    let cut = |in_doubt: bool, when: &str| {
        let when = format!("{form:?}: power cut {when}");
        check_power_cuts(sim, sync_mode, &outcomes, in_doubt, &when);
    };
    check(&db, "amid the trouble");
    // What was written but not synced is there.
    let after = open_on(disk.killed(), sync_mode).unwrap();
    check(&after, "after a kill");
    drop(after);
    cut(true, "amid the trouble");
    disk.end();
    let works = || families(&db).iter().all(|family| family.put(b"after", b"value").is_ok());
    let healed = (0..20_000).any(|_| {
        works() || {
            thread::sleep(Duration::from_millis(5));
            false
        }
    });
    assert!(healed, "takes no writes although the cause is gone");
    families(&db).iter().for_each(|family| family.delete(b"after").unwrap());
    check(&db, "after the trouble");
    cut(false, "after the trouble");
    families(&db).iter().for_each(|family| family.flush().unwrap());
    check(&db, "after a flush");
    drop(db);
    let db = open_on(Arc::clone(sim) as _, sync_mode).unwrap();
    check(&db, "reopened");
    assert!(db.verify().unwrap().problems.is_empty());
    refusals
}

/// Both ways in which the log is written.
const FORMS: [LogForm; 2] = [LogForm::Mapped, LogForm::Written];

/// Writes of the log are among what a full disk refuses: its blocks are never overwritten in place.
const SPACE_OF_ALL_WRITES: OpSet = OpSet::SPACE.with(Op::SegmentWrite);

fn no_space(counted: OpSet, call: u64) -> Trouble {
    Trouble::Calls { counted, call, kind: FaultKind::Forever, error: FaultError::NO_SPACE }
}

fn io_error(counted: OpSet, call: u64, kind: FaultKind) -> Trouble {
    Trouble::Calls { counted, call, kind, error: FaultError::IO }
}

#[test]
fn a_disk_that_is_full_for_the_log_shows_no_refused_commit() {
    for (call, mode) in [(300, SyncMode::None), (377, SyncMode::Full), (1001, SyncMode::None)] {
        for form in FORMS {
            let refusals = fail(mode, form, no_space(SPACE_OF_ALL_WRITES, call));
            assert!(refusals > ENOUGH_REFUSALS, "only {refusals} calls were refused");
        }
    }
}

/// The disk itself says what fits: of a record whose write finds no space a part is written, and
/// others were on their way behind it.
#[test]
fn a_disk_that_threads_fill_shows_no_refused_commit() {
    let cases = [(600, SyncMode::None), (1500, SyncMode::Full), (3000, SyncMode::None)];
    for (left, mode) in cases.map(|(kib, mode)| (kib << 10, mode)) {
        for form in FORMS {
            let refusals = fail(mode, form, Trouble::Full { left });
            assert!(refusals > ENOUGH_REFUSALS, "only {refusals} calls were refused");
        }
    }
}

#[test]
fn writes_of_the_log_that_fail_in_two_threads_at_once_show_no_refused_commit() {
    let writes = OpSet::of(&[Op::SegmentWrite]);
    let mut refusals = 0;
    for call in (100..2000).step_by(149) {
        let mode = if call % 2 == 0 { SyncMode::None } else { SyncMode::Full };
        let trouble = io_error(writes, call, FaultKind::Times(1 + call % 3));
        refusals += fail(mode, FORMS[(call / 2 % 2) as usize], trouble);
    }
    assert!(refusals > 10, "only {refusals} calls were refused");
}

/// As a log that is written with `pwrite` meets a device that is gone.
#[test]
fn writes_of_the_log_that_fail_from_then_on_show_no_refused_commit() {
    let writes = OpSet::of(&[Op::SegmentWrite]);
    for (call, mode) in [(100, SyncMode::None), (437, SyncMode::Full), (1203, SyncMode::None)] {
        let refusals = fail(mode, LogForm::Written, io_error(writes, call, FaultKind::Forever));
        assert!(refusals >= ENOUGH_REFUSALS, "only {refusals} calls were refused");
    }
}

/// Writes to a mapped log go on as if nothing had happened; all else is refused.
#[test]
fn a_volume_that_turns_read_only_under_a_mapped_log_shows_no_refused_commit() {
    let counted = OpSet::CHANGES.without(Op::SegmentWrite);
    let error = FaultError::Kind(std::io::ErrorKind::ReadOnlyFilesystem);
    for (call, mode) in [(10, SyncMode::Full), (31, SyncMode::None), (45, SyncMode::Full)] {
        let trouble = Trouble::Calls { counted, call, kind: FaultKind::Forever, error };
        let refusals = fail(mode, LogForm::Mapped, trouble);
        assert!(refusals > 0, "call {call}: nothing was refused");
    }
}

#[test]
fn syncs_that_fail_in_two_threads_at_once_lose_nothing_acknowledged() {
    for call in (10..200).step_by(31) {
        for form in FORMS {
            fail(SyncMode::Full, form, io_error(OpSet::SYNCS, call, FaultKind::Times(2)));
            let trouble = io_error(OpSet::SYNCS, call, FaultKind::Forever);
            let refusals = fail(SyncMode::Full, form, trouble);
            assert!(refusals > 0, "call {call}: nothing was refused");
        }
    }
}

/// A barrier: what was acknowledged without a sync survives a power cut once it returns.
#[test]
fn an_empty_batch_with_a_sync_is_a_barrier() {
    let small = Small::open(SimVfs::new(1));
    let [one, _] = families(&small.db);
    one.put(b"k", b"v").unwrap();
    let barrier = |db: &Db| db.write_with(&WriteBatch::new(), WriteOptions::new().sync(true));
    barrier(&small.db).unwrap();
    let image = small.sim.crash_image(CrashProfile::Nothing, 1);
    assert_eq!(families(&Small::open(image).db)[0].get(b"k").unwrap(), Some(b"v".to_vec()));
    small.db.clone().close().unwrap();
    assert_eq!(barrier(&small.db).unwrap_err().kind(), ErrorKind::Closed);
}

/// With syncs at intervals, what was acknowledged shortly before the last handle went was not on
/// disk, and nothing was left to put it there.
#[test]
fn dropping_a_database_that_syncs_at_intervals_syncs_a_last_time() {
    let sim = SimVfs::new(1);
    let components = Components {
        vfs: Arc::clone(&sim) as _,
        scheduler: Arc::new(ManualScheduler::new(1)),
        clock: Arc::new(ManualClock::new(1_000_000)),
    };
    let mode = SyncMode::Interval { interval_us: 1_000_000 };
    let db = Db::open_with("/db", options(mode), components).unwrap();
    let family = db.create_family("one", family_options()).unwrap();
    db.create_family("two", family_options()).unwrap();
    family.put(b"k", b"v").unwrap();
    drop((db, family));
    let image = sim.crash_image(CrashProfile::Nothing, 1);
    assert_eq!(families(&Small::open(image).db)[0].get(b"k").unwrap(), Some(b"v".to_vec()));
}

/// What a failed sync left in a segment's file, and whether the disk is sound there, is not known.
#[test]
fn a_segment_whose_sync_failed_is_not_used_again() {
    let sim = SimVfs::new(1);
    let vfs = FaultVfs::new(Arc::clone(&sim) as _);
    let scheduler = Arc::new(ManualScheduler::new(1));
    let components = Components {
        vfs: Arc::clone(&vfs) as _,
        scheduler: Arc::clone(&scheduler) as _,
        clock: Arc::new(ManualClock::new(1_000_000)),
    };
    let db = Db::open_with("/db", options(SyncMode::Full), components).unwrap();
    let family = db.create_family("one", family_options()).unwrap();
    family.put(b"key", b"value").unwrap();
    scheduler.run_until_idle();
    vfs.count_only(OpSet::of(&[Op::SegmentSync]));
    vfs.reset();
    vfs.record(true);
    vfs.fail_call(0, FaultKind::Once, FaultError::IO);
    family.put(b"key", b"other").unwrap();
    assert_eq!(vfs.fired(), 1);
    let failed = vfs.records()[0].path.to_path_buf();
    let renamed = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&renamed);
    sim.on_mutation(Some(Arc::new(move |_, mutation| {
        if mutation.kind == MutationKind::Rename {
            seen.lock().unwrap().push(mutation.path.to_path_buf());
        }
    })));
    for n in 0..2000_u64 {
        scheduler.run_until_idle();
        family.put(&n.to_be_bytes(), &[7; 200]).unwrap();
    }
    sim.on_mutation(None);
    let renamed = renamed.lock().unwrap();
    assert!(!renamed.is_empty(), "no segment was used again");
    assert!(!renamed.contains(&failed), "{} was used again", failed.display());
    let entries = sim.list(Path::new("/db")).unwrap();
    assert!(!entries.iter().any(|entry| failed.ends_with(&entry.name)));
}
