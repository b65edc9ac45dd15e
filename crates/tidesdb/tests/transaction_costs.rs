//! What transactions may cost: bytes for each open one, allocations for each commit, and no work
//! that grows with how many are open or finished.
//!
//! Bytes and allocations are counted exactly, for the calling thread. Times are compared as the
//! best of several rounds, with room for a busy machine: work that grew with a hundred thousand
//! transactions would be a hundred times as much.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(unsafe_code, reason = "a counting allocator can only be written so")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::{Duration, Instant};

use tidesdb::{Db, DbOptions, Family, FamilyOptions, IsolationLevel, ScanOptions, Transaction};

thread_local! {
    /// Bytes that this thread has allocated and not freed, and how often it has allocated.
    static BYTES: Cell<isize> = const { Cell::new(0) };
    static CALLS: Cell<u64> = const { Cell::new(0) };
    /// Bytes that it has allocated in all.
    static ALLOCATED: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: passes every call on to the system's allocator, which keeps the contract.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = BYTES.try_with(|bytes| bytes.set(bytes.get() + layout.size() as isize));
        let _ = CALLS.try_with(|calls| calls.set(calls.get() + 1));
        let _ = ALLOCATED.try_with(|bytes| bytes.set(bytes.get() + layout.size()));
        // SAFETY: the caller's promises are passed on unchanged.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        let _ = BYTES.try_with(|bytes| bytes.set(bytes.get() - layout.size() as isize));
        // SAFETY: the caller's promises are passed on unchanged.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn open() -> (tempfile::TempDir, Db, Family) {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), DbOptions::default()).unwrap();
    let family = db.open_family("default", FamilyOptions::default()).unwrap();
    (directory, db, family)
}

/// Allocations of this thread while `work` runs.
fn allocations(work: impl FnOnce()) -> u64 {
    let before = CALLS.get();
    work();
    CALLS.get() - before
}

/// The shortest time that `work` took in several rounds.
fn best(mut work: impl FnMut()) -> Duration {
    let time = |()| {
        let started = Instant::now();
        work();
        started.elapsed()
    };
    std::iter::repeat_n((), 7).map(time).min().unwrap()
}

#[test]
fn open_transactions_take_few_bytes_and_no_time_of_others() {
    const OPEN: usize = 100_000;
    let (_directory, db, family) = open();
    let commit_some = || {
        let mut transaction = db.begin(IsolationLevel::Snapshot).unwrap();
        for n in 0..500u32 {
            transaction.put(&family, &n.to_be_bytes(), b"value").unwrap();
            transaction.commit().unwrap();
            transaction.reset(IsolationLevel::Snapshot).unwrap();
        }
    };
    let alone = best(commit_some);

    let mut readers: Vec<Transaction> = Vec::with_capacity(OPEN);
    let mut bytes = 0;
    for n in 0..OPEN as u32 {
        // A moment of its own for each.
        family.put(&(n % 1000).to_be_bytes(), b"value").unwrap();
        let before = BYTES.get();
        let reader = db.begin(IsolationLevel::Snapshot).unwrap();
        assert!(reader.contains(&family, &(n % 1000).to_be_bytes()).unwrap());
        bytes += BYTES.get() - before;
        readers.push(reader);
    }
    let each = bytes / OPEN as isize + size_of::<Transaction>() as isize;
    println!("{each} bytes for each open transaction");
    assert!(each < 200, "{each} bytes for each open transaction");

    let among_many = best(commit_some);
    println!("500 commits: {alone:?} alone, {among_many:?} with {OPEN} open");
    assert!(among_many < alone * 8, "{alone:?} alone, {among_many:?} with {OPEN} open");

    // In any order, and without a scan each: that would be ten thousand million steps.
    let started = Instant::now();
    let before = BYTES.get();
    for n in (0..OPEN).rev().step_by(2) {
        readers.swap_remove(n);
    }
    drop(readers);
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    assert!(before - BYTES.get() > bytes / 2, "what they took is given back");
}

#[test]
fn a_transaction_that_is_used_again_allocates_nothing() {
    const TIMES: u64 = 2000;
    let (_directory, db, family) = open();
    for level in [IsolationLevel::ReadCommitted, IsolationLevel::Snapshot] {
        let mut transaction = db.begin(level).unwrap();
        let mut commit = |n: u64| {
            transaction.put(&family, &(n % 100).to_be_bytes(), &[7; 100]).unwrap();
            transaction.commit().unwrap();
            transaction.reset(level).unwrap();
        };
        (0..100).for_each(&mut commit);
        let writing = allocations(|| (0..TIMES).for_each(&mut commit));
        // The memtable takes a block now and then.
        assert!(writing < TIMES / 20, "{level:?}: {writing} allocations in {TIMES} commits");

        let mut read = |n: u64| {
            let key = (n % 200).to_be_bytes();
            let found = transaction.get_with(&family, &key, <[u8]>::len).unwrap();
            assert_eq!(found, (n % 200 < 100).then_some(100));
            transaction.commit().unwrap();
            transaction.reset(level).unwrap();
        };
        read(0);
        assert_eq!(allocations(|| (0..TIMES).for_each(&mut read)), 0, "{level:?}");
    }
}

/// Each of them allocated a list of its writes, their bytes, and a list of their families.
#[test]
fn transactions_that_are_begun_for_one_commit_allocate_nothing() {
    const TIMES: u64 = 2000;
    let (_directory, db, family) = open();
    let commit = |n: u64, value: &[u8]| {
        let mut transaction = db.begin(IsolationLevel::ReadCommitted).unwrap();
        transaction.put(&family, &(n % 100).to_be_bytes(), value).unwrap();
        transaction.commit().unwrap();
    };
    (0..100).for_each(|n| commit(n, &[7; 100]));
    let before = BYTES.get();
    let writing = allocations(|| (0..TIMES).for_each(|n| commit(n, &[7; 100])));
    // The memtable takes a block now and then.
    assert!(writing < TIMES / 20, "{writing} allocations in {TIMES} commits");
    // One that is abandoned, and much memory, are no different.
    let mut abandoned = db.begin(IsolationLevel::ReadCommitted).unwrap();
    abandoned.put(&family, b"key", &[7; 100]).unwrap();
    drop(abandoned);
    commit(1, &[7; 100_000]);
    let kept = BYTES.get() - before;
    assert!(kept < 8 << 10, "{kept} bytes are kept, of which the memtable's blocks are none");
    assert_eq!(family.get(b"key").unwrap(), None);
}

#[test]
fn commits_do_not_slow_down_with_the_number_of_finished_transactions() {
    let (_directory, db, family) = open();
    // As long as it lives, what the others have read must be remembered.
    let _oldest = db.begin(IsolationLevel::Serializable).unwrap();
    let mut next = 0u64;
    let mut commit_some = |count: u64| {
        for _ in 0..count {
            let mut transaction = db.begin(IsolationLevel::Serializable).unwrap();
            let (read, written) = (next.wrapping_mul(0x9e37_79b9_7f4a_7c15), next.reverse_bits());
            transaction.get(&family, &read.to_be_bytes()).unwrap();
            transaction.put(&family, &written.to_be_bytes(), b"value").unwrap();
            transaction.commit().unwrap();
            next += 1;
        }
    };
    let first = best(|| commit_some(500));
    commit_some(50_000);
    let later = best(|| commit_some(500));
    println!("500 commits: {first:?} at first, {later:?} after 50,000");
    assert!(later < first * 8, "500 commits: {first:?} at first, {later:?} after 50,000");
}

/// Each scan sorted and copied all own writes.
#[test]
fn a_scan_after_each_write_costs_what_the_write_does() {
    let (_directory, db, family) = open();
    let allocated = |writes: u64, held: usize| {
        let mut transaction = db.begin(IsolationLevel::Snapshot).unwrap();
        let mut scans = std::collections::VecDeque::new();
        let before = ALLOCATED.get();
        for n in 0..writes {
            let key = n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
            transaction.put(&family, &key, b"value").unwrap();
            let mut scan = transaction.scan(&family, ScanOptions::new()).unwrap();
            scan.seek(key).unwrap();
            assert_eq!(scan.value().unwrap(), b"value");
            scans.push_back(scan);
            if scans.len() > held {
                scans.pop_front();
            }
        }
        ALLOCATED.get() - before
    };
    for held in [0, 3] {
        let (few, many) = (allocated(2_000, held), allocated(16_000, held));
        println!("{few} bytes for 2,000 writes with a scan each, {many} for 16,000");
        assert!(many < few * 12, "{few} bytes for 2,000 writes, {many} for 16,000");
    }
}
