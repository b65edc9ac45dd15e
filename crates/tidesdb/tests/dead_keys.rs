//! Scans over many deleted keys: what is remembered of them never hides a key that is alive.
//!
//! Gets of a snapshot know nothing of that, so they show what a scan of the snapshot must show.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tidesdb::{Db, DbOptions, Family, FamilyOptions, IsolationLevel, ScanOptions, Snapshot};

const KEYS: u64 = 400;

fn key(n: u64) -> Vec<u8> {
    format!("{n:06}").into_bytes()
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Puts keys and soon deletes them, so that most keys are dead and few are alive.
fn churn(family: &Family, seed: u64, stop: &AtomicBool) {
    let mut random = Random(seed);
    let mut alive = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let n = random.below(KEYS);
        match random.below(40) {
            0 => family.delete_range(&key(n), &key(n + 20)).unwrap(),
            1 => family.flush().unwrap(),
            _ => {
                family.put(&key(n), b"v").unwrap();
                alive.push(n);
            }
        }
        while alive.len() > 3 {
            let n = alive.swap_remove(random.below(alive.len() as u64) as usize);
            family.delete(&key(n)).unwrap();
        }
    }
}

/// Every way over a snapshot's keys shows what gets find.
fn check(family: &Family, snapshot: &Snapshot, context: &str) -> usize {
    let all = (0..KEYS + 20).map(key);
    let alive: Vec<_> = all.filter(|key| family.get_at(snapshot, key).unwrap().is_some()).collect();
    let mut scan = family.scan(ScanOptions::new().snapshot(snapshot)).unwrap();
    let (mut forward, mut backward) = (Vec::new(), Vec::new());
    scan.seek_to_last().unwrap();
    while scan.valid() {
        backward.push(scan.key().to_vec());
        scan.prev().unwrap();
    }
    backward.reverse();
    scan.seek_to_first().unwrap();
    while scan.valid() {
        forward.push(scan.key().to_vec());
        scan.next().unwrap();
    }
    assert_eq!(forward, alive, "forward; {context}");
    assert_eq!(backward, alive, "backward; {context}");
    let from = key(KEYS / 2);
    scan.seek(&from).unwrap();
    assert_eq!(scan.key(), alive.iter().find(|key| **key >= from).map_or(&[][..], |key| key));
    scan.seek_for_prev(&from).unwrap();
    assert_eq!(scan.key(), alive.iter().rfind(|key| **key <= from).map_or(&[][..], |key| key));
    alive.len()
}

#[test]
fn scans_show_what_gets_find_while_keys_come_and_go() {
    let seed = u64::from(std::process::id());
    println!("seed {seed}");
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), DbOptions::default()).unwrap();
    let family = db.open_family("churned", FamilyOptions::default()).unwrap();
    let (stop, seen) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for writer in 0..3 {
            let (family, stop) = (&family, &stop);
            scope.spawn(move || churn(family, seed * 7 + writer, stop));
        }
        let checkers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let end = Instant::now() + Duration::from_secs(4);
                    // Some snapshots are looked at again when the ranges are those of later ones.
                    let mut kept = Vec::new();
                    while Instant::now() < end && !stop.load(Ordering::Relaxed) {
                        let snapshot = db.snapshot();
                        let found = check(&family, &snapshot, &format!("seed {seed}"));
                        seen.fetch_add(found as u64, Ordering::Relaxed);
                        kept.push(snapshot);
                        if kept.len() == 8 {
                            for old in &kept {
                                check(&family, old, "again");
                            }
                            kept.clear();
                        }
                    }
                })
            })
            .collect();
        let ended: Vec<_> = checkers.into_iter().map(thread::ScopedJoinHandle::join).collect();
        stop.store(true, Ordering::Relaxed);
        ended.into_iter().for_each(|checker| checker.unwrap());
    });
    assert!(seen.into_inner() > 0, "nothing was ever alive");
}

/// Workers take from the head of a queue while jobs are put at its tail and, more urgent ones, in
/// front; in transactions, so that each job is taken once.
#[test]
fn each_job_of_a_queue_is_taken_once_and_none_is_left() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), DbOptions::default()).unwrap();
    let family = db.open_family("queue", FamilyOptions::default()).unwrap();
    let jobs: u64 = 3000;
    for n in 0..jobs {
        family.put(&key(2 * n), b"").unwrap();
    }
    family.flush().unwrap();
    let put = AtomicU64::new(jobs);
    let worker = || {
        let mut taken = Vec::new();
        loop {
            let mut transaction = db.begin(IsolationLevel::Snapshot).unwrap();
            let mut scan = transaction.scan(&family, ScanOptions::new()).unwrap();
            scan.seek_to_first().unwrap();
            if !scan.valid() {
                return taken;
            }
            let job = scan.key().to_vec();
            drop(scan);
            transaction.delete(&family, &job).unwrap();
            if transaction.commit().is_err() {
                continue;
            }
            taken.push(job);
            let n = put.fetch_add(1, Ordering::Relaxed);
            if n < 2 * jobs {
                // Every third one lies among those that are taken already.
                let place = if n.is_multiple_of(3) { 2 * (n - jobs) / 3 + 1 } else { 2 * n };
                family.put(&[key(place), key(n)].concat(), b"").unwrap();
            }
        }
    };
    let taken = thread::scope(|scope| {
        let workers: Vec<_> = (0..3).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect::<Vec<_>>()
    });
    assert_eq!(taken.len(), 2 * jobs as usize);
    assert_eq!(taken.iter().collect::<BTreeSet<_>>().len(), taken.len(), "taken twice");
}

/// With keys that are put among the dead ones all the time, and expire.
#[test]
fn a_key_put_among_dead_ones_is_found_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), DbOptions::default()).unwrap();
    let family = db.open_family("keys", FamilyOptions::default()).unwrap();
    for n in 0..KEYS {
        family.put(&key(n), b"").unwrap();
    }
    family.delete_range(&key(0), &key(KEYS / 2)).unwrap();
    (KEYS / 2..KEYS).for_each(|n| family.delete(&key(n)).unwrap());
    let first = || {
        let mut scan = family.scan(ScanOptions::new()).unwrap();
        scan.seek_to_first().unwrap();
        scan.key().to_vec()
    };
    for n in (0..KEYS).chain((0..KEYS).rev()) {
        assert_eq!(first(), b"");
        assert_eq!(first(), b"");
        family.put(&key(n), b"").unwrap();
        assert_eq!(first(), key(n));
        family.delete(&key(n)).unwrap();
        if n % 100 == 0 {
            family.flush().unwrap();
        }
    }
}

/// A commit that has read the head of a queue looks for changes of what it went over. That must not
/// be all that were taken before, when others commit meanwhile.
#[test]
fn a_queue_is_popped_in_linear_time_by_transactions_that_check_what_they_read() {
    for level in [IsolationLevel::RepeatableRead, IsolationLevel::Serializable] {
        let directory = tempfile::tempdir().unwrap();
        let db = Db::open(directory.path(), DbOptions::default()).unwrap();
        let family = db.open_family("queue", FamilyOptions::default()).unwrap();
        let elsewhere = db.open_family("elsewhere", FamilyOptions::default()).unwrap();
        let jobs = 20_000;
        (0..jobs as u64).for_each(|n| family.put(&key(n), b"").unwrap());
        // Of each quarter the fastest stretch, so that what else the machine does is left out.
        let mut times = [Duration::MAX; 4];
        let stretch = 250;
        for first in (0..jobs).step_by(stretch) {
            let begun = Instant::now();
            for n in first as u64..(first + stretch) as u64 {
                let beside = db.begin(level).unwrap();
                let mut transaction = db.begin(level).unwrap();
                let mut scan = transaction.scan(&family, ScanOptions::new()).unwrap();
                scan.seek_to_first().unwrap();
                assert_eq!(scan.key(), key(n));
                drop(scan);
                transaction.delete(&family, &key(n)).unwrap();
                elsewhere.put(b"k", b"").unwrap();
                transaction.commit().unwrap();
                drop(beside);
            }
            let quarter = &mut times[first * 4 / jobs];
            *quarter = begun.elapsed().min(*quarter);
        }
        println!("{level:?}: {times:?}");
        // It took seven times as long in the last quarter as in the first.
        assert!(times[3] < times[0] * 3 + Duration::from_millis(5), "{level:?}: {times:?}");
    }
}

/// The same by scans and deletions without a transaction. Blocks that scans look at are counted:
/// each job's scan went over all that were taken before.
#[test]
fn a_queue_is_popped_with_as_many_looks_at_its_end_as_at_its_head() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), DbOptions::default()).unwrap();
    let family = db.open_family("queue", FamilyOptions::default()).unwrap();
    let jobs = 20_000;
    (0..jobs).for_each(|n| family.put(&key(n), b"").unwrap());
    family.compact().unwrap();
    let looks = || {
        let reads = family.stats().reads;
        reads.blocks_cached + reads.blocks_read
    };
    let mut counts = Vec::new();
    for quarter in 0..4 {
        let before = looks();
        for n in quarter * jobs / 4..(quarter + 1) * jobs / 4 {
            let mut scan = family.scan(ScanOptions::new()).unwrap();
            scan.seek_to_first().unwrap();
            assert_eq!(scan.key(), key(n));
            drop(scan);
            family.delete(&key(n)).unwrap();
        }
        counts.push(looks() - before);
    }
    println!("{counts:?}");
    // Every scan looks at one block, and some at the next.
    assert!(counts[0] >= jobs / 4, "{counts:?}");
    assert!(counts[3] <= 3 * jobs / 4, "{counts:?}");
}

/// What was remembered as dead hides no change from a commit: neither a key that was put there
/// since, nor that one was deleted which the snapshot had.
#[test]
fn changes_among_dead_keys_are_conflicts() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), DbOptions::default()).unwrap();
    let family = db.open_family("keys", FamilyOptions::default()).unwrap();
    for n in 0..KEYS {
        family.put(&key(n), b"").unwrap();
        family.delete(&key(n)).unwrap();
    }
    family.put(&key(KEYS), b"last").unwrap();
    let first = |transaction: &tidesdb::Transaction| {
        let mut scan = transaction.scan(&family, ScanOptions::new()).unwrap();
        scan.seek_to_first().unwrap();
        scan.key().to_vec()
    };
    let serializable = || db.begin(IsolationLevel::Serializable).unwrap();
    for n in (0..KEYS).step_by(7) {
        // Each has read what the other writes; one of them must go.
        let (mut one, mut other) = (serializable(), serializable());
        assert_eq!((first(&one), first(&other)), (key(KEYS), key(KEYS)));
        one.put(&family, &key(n), b"").unwrap();
        other.put(&family, &key(n + 1), b"").unwrap();
        one.commit().unwrap();
        assert!(other.commit().is_err(), "{n}");
        // Found, and deleted behind its back.
        let mut reader = db.begin(IsolationLevel::RepeatableRead).unwrap();
        assert_eq!(first(&reader), key(n));
        family.delete(&key(n)).unwrap();
        let mut later = db.begin(IsolationLevel::RepeatableRead).unwrap();
        assert_eq!(first(&later), key(KEYS));
        assert!(reader.commit().is_err(), "{n}");
        later.commit().unwrap();
    }
}

/// What a transaction has deleted is dead for it alone, and what it has put among dead keys lives.
#[test]
fn own_writes_among_dead_keys_are_shown_and_leave_no_dead_range() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), DbOptions::default()).unwrap();
    let family = db.open_family("f", FamilyOptions::default()).unwrap();
    for n in 0..1000 {
        family.put(&key(n), b"v").unwrap();
        if !(100..103).contains(&n) && n != 900 {
            family.delete(&key(n)).unwrap();
        }
    }
    let alive: Vec<_> = [100, 101, 102, 900].map(key).into();
    let forward = |scan: tidesdb::Scan| -> Vec<Vec<u8>> {
        scan.entries().map(|entry| entry.unwrap().0).collect()
    };
    let backward = |scan: tidesdb::Scan| -> Vec<Vec<u8>> {
        let mut keys: Vec<_> = scan.entries_rev().map(|entry| entry.unwrap().0).collect();
        keys.reverse();
        keys
    };
    // Once while nothing is remembered, and again after that.
    for round in 0..3 {
        let mut transaction = db.begin(IsolationLevel::Snapshot).unwrap();
        for n in 100..103 {
            transaction.delete(&family, &key(n)).unwrap();
        }
        transaction.delete(&family, &key(300)).unwrap();
        transaction.put(&family, &key(50), b"own").unwrap();
        transaction.put(&family, &key(500), b"own").unwrap();
        let own = || transaction.scan(&family, ScanOptions::new()).unwrap();
        let wanted: Vec<_> = [50, 500, 900].map(key).into();
        assert_eq!(forward(own()), wanted, "round {round}");
        assert_eq!(backward(own()), wanted, "round {round}");
        let mut scan = own();
        scan.seek(&key(51)).unwrap();
        assert_eq!(scan.key(), key(500));
        scan.prev().unwrap();
        assert_eq!(scan.key(), key(50));
        scan.seek_for_prev(&key(499)).unwrap();
        assert_eq!(scan.key(), key(50));
        scan.next().unwrap();
        assert_eq!(scan.key(), key(500));
        transaction.rollback().unwrap();
        assert_eq!(forward(family.scan(ScanOptions::new()).unwrap()), alive);
        assert_eq!(backward(family.scan(ScanOptions::new()).unwrap()), alive);
    }
}
