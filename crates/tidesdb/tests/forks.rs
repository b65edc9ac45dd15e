//! What a forked child does to the database of its parent: nothing.
//!
//! Each test forks in a process of its own, so that the threads of the test's own process play no
//! part.
#![expect(unsafe_code, reason = "forking has no safe form")]
#![expect(clippy::unwrap_used, reason = "test helpers fail by panicking")]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tidesdb::{
    Clock, Components, Db, DbOptions, ErrorKind, Family, FamilyOptions, IsolationLevel,
    PinnedValue, Result, RuntimeOptions, Scan, ScanOptions, Snapshot, Transaction, WriteBatch,
};

const DIRECTORY: &str = "TIDESDB_TEST_FORK_DIRECTORY";

/// Ends the process without running anything of it, as a child that only looked should.
fn leave(code: i32) -> ! {
    // SAFETY: ends the process; nothing runs after it.
    unsafe { libc::_exit(code) }
}

/// Forks; `child` runs in the child, whose process number is returned.
fn fork(child: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child does what the tests are about, and then ends.
    let answer = unsafe { libc::fork() };
    if answer == 0 {
        let code = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child));
        leave(code.unwrap_or(99));
    }
    assert!(answer > 0, "fork failed");
    answer
}

/// The child's exit code; `None` when it had to be killed.
fn wait(child: i32) -> Option<i32> {
    let started = Instant::now();
    loop {
        let mut status = 0;
        // SAFETY: the status is a live integer.
        let ended = unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) };
        if ended == child {
            return libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status));
        }
        if started.elapsed() > Duration::from_secs(20) {
            kill(child);
            return None;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn kill(process: i32) {
    // SAFETY: sends a signal to a process that this test started.
    unsafe { libc::kill(process, libc::SIGKILL) };
}

fn run(test: &str, path: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--ignored", "--nocapture", "--test-threads=1"]);
    command.env(DIRECTORY, path);
    command
}

fn small() -> FamilyOptions {
    FamilyOptions::default().write_buffer_size(64 << 10)
}

/// The number of the first of the calls that a child is not refused, counted from `base`, or 0.
fn first_not_refused(base: i32, calls: &[Result<()>]) -> i32 {
    let refused =
        |call: &Result<()>| call.as_ref().is_err_and(|error| error.kind() == ErrorKind::Forked);
    calls.iter().position(|call| !refused(call)).map_or(0, |at| at as i32 + base)
}

/// Calls of the database. What some of them would make lies in `directory`.
fn of_the_database(db: &Db, family: &Family, directory: &Path) -> Vec<Result<()>> {
    let mut batch = WriteBatch::new();
    batch.put(family, b"child", b"x").unwrap();
    let options = RuntimeOptions::default();
    vec![
        db.write(&batch),
        db.begin(IsolationLevel::Serializable).map(drop),
        db.transaction(IsolationLevel::ReadCommitted, |_| Ok(())),
        db.family("f").map(drop),
        db.create_family("g", small()).map(drop),
        db.ensure_family("g", small()).map(drop),
        db.rename_family("f", "g"),
        db.clone_family("f", "g").map(drop),
        db.drop_family("f"),
        db.register_key_order("own", <[u8]>::cmp),
        db.checkpoint(directory.join("checkpoint")),
        db.backup(directory.join("backup")),
        db.flush(),
        db.compact(),
        db.compact_and_wait(),
        db.wait_idle(),
        db.sync_log(),
        db.pause_background(),
        db.stop_compactions(),
        db.set_options(options),
        db.check_files().map(drop),
        db.verify().map(drop),
        db.clone().close(),
    ]
}

fn of_a_family(family: &Family, snapshot: &Snapshot) -> Vec<Result<()>> {
    vec![
        family.put(b"child", b"x"),
        family.put(b"child", &vec![0; 2 << 20]),
        family.delete(b"k"),
        family.single_delete(b"k"),
        family.delete_range(b"a", b"z"),
        family.delete_prefix(b"k"),
        family.get(b"k").map(drop),
        family.get_at(snapshot, b"k").map(drop),
        family.get_pinned(b"k").map(drop),
        family.multi_get(&[b"k"]).map(drop),
        family.contains(b"k").map(drop),
        family.expiry(b"k").map(drop),
        family.first_key_value().map(drop),
        family.approximate_count(..).map(drop),
        family.scan(ScanOptions::new()).map(drop),
        family.set_options(small()),
        family.flush(),
        family.start_flush(),
        family.compact(),
        family.compact_range(..),
        family.compact_and_wait(),
        family.tree_stats().map(drop),
    ]
}

/// Handles that are in use at the fork.
struct InUse {
    transaction: Transaction,
    scan: Scan,
    snapshot: Snapshot,
    pinned: PinnedValue,
}

impl InUse {
    fn new(db: &Db, family: &Family) -> Self {
        let mut transaction = db.begin(IsolationLevel::Serializable).unwrap();
        transaction.put(family, b"child", b"x").unwrap();
        transaction.savepoint("s").unwrap();
        let mut scan = family.scan(ScanOptions::new()).unwrap();
        scan.seek_to_first().unwrap();
        let pinned = family.get_pinned(b"k").unwrap().unwrap();
        Self { transaction, scan, snapshot: db.snapshot(), pinned }
    }

    fn calls(&mut self, family: &Family) -> Vec<Result<()>> {
        let Self { transaction, scan, .. } = self;
        vec![
            scan.value().map(drop),
            scan.next(),
            scan.prev(),
            scan.seek(b"k"),
            scan.seek_for_prev(b"k"),
            scan.seek_to_first(),
            scan.seek_to_last(),
            scan.refresh(),
            transaction.get(family, b"k").map(drop),
            transaction.multi_get(family, &[b"k"]).map(drop),
            transaction.scan(family, ScanOptions::new()).map(drop),
            transaction.put(family, b"child", b"x"),
            transaction.delete(family, b"k"),
            transaction.savepoint("s"),
            transaction.rollback_to_savepoint("s"),
            transaction.release_savepoint("s"),
            transaction.rollback(),
        ]
    }
}

/// A clock that forks when it is asked while a snapshot is registered: then a lock of the registry
/// is held, by the thread that goes on in the child.
#[derive(Debug)]
struct ForkingClock {
    inner: Arc<dyn Clock>,
    forks: AtomicBool,
    child: AtomicI32,
    /// What the child does; its number is returned, or that of the call that was not refused.
    in_child: Mutex<Option<InChild>>,
}

/// Handles whose calls would take the lock.
struct InChild {
    db: Db,
    family: Family,
    reads: Transaction,
    reads_and_writes: Transaction,
}

impl std::fmt::Debug for InChild {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InChild").finish_non_exhaustive()
    }
}

impl InChild {
    fn calls(&mut self) -> Vec<Result<()>> {
        let Self { db, family, reads, reads_and_writes } = self;
        let mut calls = vec![
            family.multi_get(&[b"k", b"l"]).map(drop),
            family.scan(ScanOptions::new()).map(drop),
            db.begin(IsolationLevel::Snapshot).map(drop),
        ];
        for transaction in [reads, reads_and_writes] {
            calls.push(transaction.multi_get(family, &[b"k", b"l"]).map(drop));
            calls.push(transaction.scan(family, ScanOptions::new()).map(drop));
            calls.push(transaction.prefix(family, b"k").map(drop));
            calls.push(transaction.get(family, b"k").map(drop));
        }
        calls
    }
}

impl Clock for ForkingClock {
    fn unix_seconds(&self) -> u64 {
        // ORDERING: relaxed; one thread uses it.
        if self.forks.swap(false, Ordering::Relaxed) {
            let mut in_child = self.in_child.lock().unwrap().take().unwrap();
            let child = fork(|| first_not_refused(1, &in_child.calls()));
            self.child.store(child, Ordering::Relaxed);
            // Dropped here they would wait for the lock.
            *self.in_child.lock().unwrap() = Some(in_child);
        }
        self.inner.unix_seconds()
    }

    fn unix_millis(&self) -> u64 {
        self.inner.unix_millis()
    }

    fn monotonic_nanos(&self) -> u64 {
        self.inner.monotonic_nanos()
    }

    fn sleep(&self, duration: Duration) {
        self.inner.sleep(duration);
    }
}

#[test]
#[ignore = "runs in a process of its own"]
fn process_that_forks_while_a_lock_is_held() {
    let Ok(path) = std::env::var(DIRECTORY) else { return };
    let options = DbOptions::default();
    let machine = Components::for_options(&options).unwrap();
    let clock = Arc::new(ForkingClock {
        inner: Arc::clone(&machine.clock),
        forks: AtomicBool::new(false),
        child: AtomicI32::new(0),
        in_child: Mutex::default(),
    });
    let components = Components { clock: Arc::clone(&clock) as _, ..machine };
    let db = Db::open_with(&path, options, components).unwrap();
    let family = db.create_family("f", small()).unwrap();
    family.put(b"k", b"v").unwrap();
    for level in [IsolationLevel::ReadCommitted, IsolationLevel::Serializable] {
        let mut reads_and_writes = db.begin(level).unwrap();
        reads_and_writes.put(&family, b"child", b"x").unwrap();
        let (reads, db, family) = (db.begin(level).unwrap(), db.clone(), family.clone());
        let in_child = InChild { db: db.clone(), family, reads, reads_and_writes };
        *clock.in_child.lock().unwrap() = Some(in_child);
        // ORDERING: relaxed; one thread uses it.
        clock.forks.store(true, Ordering::Relaxed);
        drop(db.snapshot());
        let child = clock.child.swap(0, Ordering::Relaxed);
        assert!(child > 0, "nothing was put to the test");
        assert_eq!(wait(child), Some(0), "{level:?}: number of the call that was not refused");
    }
    assert_eq!(family.get(b"child").unwrap(), None);
}

/// A lock that another thread of the parent holds at the fork is held for good in the child: calls
/// that took it before they asked whether they are in a child hung there.
#[test]
fn a_child_is_refused_though_a_lock_was_held_at_the_fork() {
    let directory = tempfile::tempdir().unwrap();
    let output = run("process_that_forks_while_a_lock_is_held", directory.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Everything that a child of this process tries. Returns 0, or which call had an effect.
fn try_all(db: &Db, family: &Family, in_use: &mut InUse) -> i32 {
    let path = std::env::var(DIRECTORY).unwrap();
    let beside = Path::new(&path).with_extension("copies");
    let refused = [
        first_not_refused(1, &of_the_database(db, family, &beside)),
        first_not_refused(101, &of_a_family(family, &in_use.snapshot)),
        first_not_refused(151, &in_use.calls(family)),
        i32::from(in_use.transaction.commit().is_ok_and(|sequence| sequence.is_some())) * 201,
        i32::from(Db::open(&path, DbOptions::default()).is_ok()) * 202,
        i32::from(beside.exists()) * 203,
        i32::from(&*in_use.pinned != b"v") * 204,
    ];
    refused.into_iter().find(|refused| *refused != 0).unwrap_or(0)
}

#[test]
#[ignore = "runs in a process of its own"]
fn process_with_children() {
    let Ok(path) = std::env::var(DIRECTORY) else { return };
    let db = Db::open(&path, DbOptions::default()).unwrap();
    let family = db.create_family("f", small()).unwrap();
    family.put(b"k", b"v").unwrap();
    for round in 0..5_u32 {
        for n in 0..2000_u32 {
            family.put(format!("{round} {n}").as_bytes(), &[b'v'; 100]).unwrap();
        }
        let mut in_use = InUse::new(&db, &family);
        let handles = (db.clone(), family.clone());
        let child = fork(move || {
            let (db, family) = handles;
            let refused = try_all(&db, &family, &mut in_use);
            drop((in_use, family, db));
            refused
        });
        // The child runs while the parent goes on.
        for n in 0..2000_u32 {
            family.put(format!("{round} beside {n}").as_bytes(), &[b'v'; 100]).unwrap();
        }
        assert_eq!(wait(child), Some(0), "number of the call that was not refused");
    }
    db.flush().unwrap();
    family.put(b"last", b"v").unwrap();
    drop((family, db));
}

#[test]
fn a_child_does_nothing_to_its_parents_database() {
    let directory = tempfile::tempdir().unwrap();
    let output = run("process_with_children", directory.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let db = Db::open(directory.path(), DbOptions::default()).unwrap();
    let family = db.family("f").unwrap();
    assert_eq!(family.get(b"child").unwrap(), None);
    assert_eq!(family.scan(ScanOptions::new()).unwrap().entries().count(), 20_002);
    assert!(db.verify().unwrap().problems.is_empty());
}

#[test]
#[ignore = "runs in a process of its own"]
fn process_that_leaves_a_child() {
    let Ok(path) = std::env::var(DIRECTORY) else { return };
    let db = Db::open(&path, DbOptions::default()).unwrap();
    db.create_family("f", small()).unwrap().put(b"k", b"v").unwrap();
    let child = fork(|| {
        std::thread::sleep(Duration::from_secs(30));
        0
    });
    println!("\nchild {child}");
    leave(0);
}

#[test]
fn a_child_does_not_keep_the_lock_of_a_parent_that_is_gone() {
    let directory = tempfile::tempdir().unwrap();
    let mut parent = run("process_that_leaves_a_child", directory.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(parent.stdout.take().unwrap()).lines();
    let child = lines.find_map(|line| line.unwrap().strip_prefix("child ")?.parse().ok()).unwrap();
    parent.wait().unwrap();
    // The child lives and has copies of everything else. It lets go of the lock as its first act.
    let opened = (0..1_500).find_map(|_| {
        std::thread::sleep(Duration::from_millis(10));
        Db::open(directory.path(), DbOptions::default()).ok()
    });
    // SAFETY: signal 0 only asks whether the process is there.
    let lives = unsafe { libc::kill(child, 0) } == 0;
    kill(child);
    assert!(lives, "the child ended before it mattered");
    let db = opened.unwrap();
    assert_eq!(db.family("f").unwrap().get(b"k").unwrap().unwrap(), b"v");
}

#[test]
#[ignore = "runs in a process of its own"]
fn process_whose_children_open_databases() {
    let Ok(path) = std::env::var(DIRECTORY) else { return };
    let path = Path::new(&path);
    let db = Db::open(path.join("parent"), DbOptions::default()).unwrap();
    let family = db.create_family("f", small()).unwrap();
    let running = AtomicBool::new(true);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // ORDERING: relaxed; nothing else hangs on it.
            for n in 0_u32.. {
                if !running.load(Ordering::Relaxed) {
                    break;
                }
                family.put(&n.to_be_bytes(), &[b'v'; 1000]).unwrap();
            }
        });
        for round in 0..20 {
            // Scans of memtables and tables that are gone when the child drops them.
            let scans: Vec<_> = (0..10)
                .map(|_| {
                    std::thread::sleep(Duration::from_millis(3));
                    let mut scan = family.scan(ScanOptions::new()).unwrap();
                    scan.seek_to_first().unwrap();
                    scan
                })
                .collect();
            let child = fork(|| {
                drop(scans);
                let path = path.join(format!("child {round}"));
                let db = Db::open(&path, DbOptions::default()).unwrap();
                let own = db.create_family("f", small()).unwrap();
                (0..2000_u32).for_each(|n| own.put(&n.to_be_bytes(), &[b'c'; 100]).unwrap());
                db.flush().unwrap();
                let all = own.scan(ScanOptions::new()).unwrap().entries().count();
                drop(own);
                db.close().unwrap();
                i32::from(all != 2000)
            });
            assert_eq!(wait(child), Some(0), "round {round}");
        }
        // ORDERING: as above.
        running.store(false, Ordering::Relaxed);
    });
    assert!(db.verify().unwrap().problems.is_empty());
}

/// I-238.
#[test]
fn a_child_of_a_busy_parent_opens_a_database_of_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = run("process_whose_children_open_databases", directory.path());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let db = Db::open(directory.path().join("child 7"), DbOptions::default()).unwrap();
    assert_eq!(db.family("f").unwrap().scan(ScanOptions::new()).unwrap().entries().count(), 2000);
}
