//! What others wait for while a serializable commit is under way, and how often it is done.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use tidesdb_base::limits::DIRECT_VALUE_BYTES;
use tidesdb_sim::{FaultVfs, Op};
use tidesdb_sys::sync_points::on_sync_points;

use super::*;

const KEYS: u64 = 3_000;

/// What takes long on a busy disk.
const FILE_WORK: [Op; 8] = [
    Op::Create,
    Op::Rename,
    Op::Remove,
    Op::Sync,
    Op::SyncDir,
    Op::SegmentCreate,
    Op::SegmentReuse,
    Op::SegmentSync,
];

fn open_with(faults: &Arc<FaultVfs>) -> (Db, [Family; 3]) {
    let components = Components { vfs: Arc::clone(faults) as _, ..Components::simulated() };
    let db = Db::open_with("/db", options(SyncMode::None), components).unwrap();
    // What was read stays in the memtable, where a look goes through it.
    let families = FAMILIES.map(|name| db.open_family(name, FamilyOptions::default()).unwrap());
    (db, families)
}

/// Segments were created and synced with the lock of the dependencies held.
#[test]
fn no_serializable_transaction_waits_for_files_of_the_log() {
    let faults = FaultVfs::new(SimVfs::new(1) as _);
    let (db, [a, b, _]) = open_with(&faults);
    let (calls, held) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (called, with_lock, inside) = (Arc::clone(&calls), Arc::clone(&held), db.clone());
    faults.before_calls(Some(Arc::new(move |op, _| {
        if FILE_WORK.contains(&op) {
            called.fetch_add(1, Ordering::Relaxed);
            let is_held = inside.core().isolation.dependencies.try_lock().is_err();
            with_lock.fetch_add(u64::from(is_held), Ordering::Relaxed);
        }
    })));
    for n in 0..200_u64 {
        let mut transaction = db.begin(IsolationLevel::Serializable).unwrap();
        transaction.get(&a, n.to_be_bytes()).unwrap();
        transaction.put(&b, n.to_be_bytes(), [7; 5000]).unwrap();
        transaction.commit().unwrap();
    }
    faults.before_calls(None);
    assert!(calls.load(Ordering::Relaxed) > 10, "no segment was begun");
    assert_eq!(held.load(Ordering::Relaxed), 0, "others waited for the disk");
}

/// A commit that was outrun looked five times at each of five places at all that it had read, and
/// wrote its large values anew for each.
#[test]
fn a_commit_that_is_outrun_looks_a_few_times_and_writes_its_values_once() {
    let faults = FaultVfs::new(SimVfs::new(1) as _);
    let (db, [a, b, c]) = open_with(&faults);
    let mut batch = WriteBatch::new();
    (0..KEYS).for_each(|n| batch.put(&a, &n.to_be_bytes(), b"old").unwrap());
    db.write(&batch).unwrap();
    let oldest = db.begin(IsolationLevel::Serializable).unwrap();
    c.put(b"unrelated", b"").unwrap();
    let mut long = db.begin(IsolationLevel::Serializable).unwrap();
    (0..KEYS).for_each(|n| assert!(long.contains(&a, n.to_be_bytes()).unwrap()));
    long.put(&b, b"large", vec![7; DIRECT_VALUE_BYTES]).unwrap();
    c.put(b"unrelated", b"").unwrap();
    let views = Rc::new(Cell::new(0));
    let (counted, other, filled) = (Rc::clone(&views), db.clone(), c.clone());
    steps::put(&steps::BEFORE_A_VIEW, move || {
        // Not in the place of the commit, which this thread would wait for.
        let log = &other.core().storage.log;
        if log.reserved() == log.published() {
            counted.set(counted.get() + 1);
            (0..4).for_each(|_| filled.put(b"filler", &[7; 256 << 10]).unwrap());
        }
    });
    let written = Arc::new(AtomicU64::new(0));
    let syncs = Arc::clone(&written);
    faults.before_calls(Some(Arc::new(move |op, path| {
        let is_value_log = path.extension().is_some_and(|extension| extension == "vlog");
        syncs.fetch_add(u64::from(op == Op::Sync && is_value_log), Ordering::Relaxed);
    })));
    let committed = long.commit();
    steps::remove(&steps::BEFORE_A_VIEW);
    faults.before_calls(None);
    drop(oldest);
    let error = committed.expect_err("the commit was not outrun");
    assert!(error.to_string().contains("too much was committed"), "{error}");
    // Of what it writes and of what it read.
    assert!(views.get() <= 2 * 9, "{} views were looked at", views.get());
    // The new file, and its value.
    assert_eq!(written.load(Ordering::Relaxed), 2, "the value was written again and again");
    assert_eq!(b.get(b"large").unwrap(), None);
}

/// Commits, and stops until it may go on once the transaction is judged and has its place.
fn commit_in_two(mut slow: Transaction, stopped: Sender<()>, may_go_on: Receiver<()>) {
    let stops = Cell::new(true);
    on_sync_points(Some(Rc::new(move |place| {
        if place == "checked" && stops.take() {
            stopped.send(()).unwrap();
            may_go_on.recv().unwrap();
        }
    })));
    slow.commit().unwrap();
    on_sync_points(None);
}

/// One that began, and one that committed, held the lock of the dependencies while it waited for a
/// commit in front to become visible. All others waited with it, to begin and to end.
#[test]
fn the_lock_is_not_held_while_a_commit_in_front_takes_long() {
    for commits in [false, true] {
        let (db, families) = open(&SimVfs::new(1), SyncMode::None);
        let [a, b, c] = [0, 1, 2].map(|n| families[n].clone());
        let begin = || db.begin(IsolationLevel::Serializable).unwrap();
        let (ends, mut slow, mut waits) = (begin(), begin(), begin());
        slow.get(&a, b"read").unwrap();
        slow.put(&a, b"slow", b"").unwrap();
        waits.get(&b, b"read").unwrap();
        waits.put(&b, b"waits", b"").unwrap();
        c.put(b"unrelated", b"").unwrap();
        let (stopped, is_stopped) = channel();
        let (go_on, may_go_on) = channel();
        let (ended, has_ended) = channel();
        thread::scope(|scope| {
            scope.spawn(move || commit_in_two(slow, stopped, may_go_on));
            is_stopped.recv().unwrap();
            let others = db.clone();
            scope.spawn(move || match commits {
                true => drop(waits.commit().unwrap()),
                false => drop(others.begin(IsolationLevel::Serializable).unwrap()),
            });
            thread::sleep(Duration::from_millis(100));
            scope.spawn(move || {
                drop(ends);
                ended.send(()).unwrap();
            });
            let in_time = has_ended.recv_timeout(Duration::from_secs(5));
            go_on.send(()).unwrap();
            in_time.expect("a transaction could not end");
        });
    }
}

/// It was looked at in the commit's place only, took too long there, and cost the place.
#[test]
fn what_a_commit_of_many_keys_has_waited_for_is_looked_at_before_it_takes_its_place() {
    // All that is committed here has room in one segment of the log.
    let db = Db::open_with("/db", DbOptions::default(), Components::simulated()).unwrap();
    let [a, b, c] = FAMILIES.map(|name| db.open_family(name, FamilyOptions::default()).unwrap());
    let begin = || db.begin(IsolationLevel::Serializable).unwrap();
    let (oldest, mut slow, mut many) = (begin(), begin(), begin());
    slow.get(&c, b"read").unwrap();
    slow.put(&c, b"slow", vec![7; 300 << 10]).unwrap();
    many.get(&b, b"read").unwrap();
    (0..KEYS).for_each(|n| many.put(&a, n.to_be_bytes(), b"new").unwrap());
    let (stopped, is_stopped) = channel();
    let (go_on, may_go_on) = channel();
    let places = thread::scope(|scope| {
        scope.spawn(move || commit_in_two(slow, stopped, may_go_on));
        is_stopped.recv().unwrap();
        let committed = scope.spawn(move || {
            let places = Rc::new(Cell::new(0));
            let counted = Rc::clone(&places);
            on_sync_points(Some(Rc::new(move |place| {
                counted.set(counted.get() + u32::from(place == "place taken"));
            })));
            many.commit().unwrap();
            on_sync_points(None);
            places.get()
        });
        thread::sleep(Duration::from_millis(100));
        go_on.send(()).unwrap();
        committed.join().unwrap()
    });
    assert_eq!(places, 1);
    drop(oldest);
}
