//! Nothing large comes from the allocator of the C library once a database is open.
//!
//! It keeps what large pieces leave in each of its arenas, so that a process takes more than the
//! memory budget says; see `LargeVec`. Counted are the pieces of all threads, background work too.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(unsafe_code, reason = "a counting allocator can only be written so")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::backtrace::Backtrace;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use tidesdb::{Db, DbOptions, Family, FamilyOptions, FilterKind, ScanOptions, WriteBatch};

/// From here on memory is to be mapped by the engine.
const LARGE_BYTES: usize = 64 << 10;

static COUNTS: AtomicBool = AtomicBool::new(false);
/// Where large pieces were asked for, how many and how many bytes.
static ASKED: Mutex<BTreeMap<String, (u64, usize)>> = Mutex::new(BTreeMap::new());

thread_local! {
    /// This thread is at noting a piece.
    static NOTES: Cell<bool> = const { Cell::new(false) };
}

struct Counting;

/// Notes a piece by the functions of the engine that asked for it. What the test itself takes is
/// small.
fn note(bytes: usize) {
    // ORDERING: relaxed; a switch.
    if bytes < LARGE_BYTES || !COUNTS.load(Ordering::Relaxed) || NOTES.replace(true) {
        return;
    }
    let trace = Backtrace::force_capture().to_string();
    let ours = trace.lines().map(str::trim).filter(|line| line.contains("tidesdb"));
    let ours: Vec<_> = ours.filter(|line| !line.starts_with("at ")).skip(1).take(6).collect();
    let mut asked = ASKED.lock().unwrap();
    let count = asked.entry(ours.join("\n    ")).or_default();
    *count = (count.0 + 1, count.1 + bytes);
    drop(asked);
    NOTES.set(false);
}

// SAFETY: passes every call on to the system's allocator, which keeps the contract.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: the caller's promises are passed on unchanged.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on unchanged.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn key(n: u64) -> [u8; 16] {
    let mixed = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut key = *b"user............";
    key[4..12].copy_from_slice(&mixed.to_be_bytes());
    key
}

/// Puts, batches, gets, many keys, scans, flushes and merges.
fn work(family: &Family, db: &Db, value_bytes: usize) {
    let value = |n: u64| n.to_le_bytes().repeat(value_bytes / 8);
    let records = 24_000_000 / (value_bytes as u64 + 16);
    for n in 0..records {
        family.put(&key(n), &value(n)).unwrap();
        if n % 1000 == 0 {
            let mut batch = WriteBatch::new();
            for other in 0..5.min(n) {
                batch.put(family, &key(other), &value(other)).unwrap();
            }
            db.write(&batch).unwrap();
        }
    }
    family.flush().unwrap();
    family.compact().unwrap();
    for n in 0..records / 4 {
        assert!(family.get(&key(n)).unwrap().is_some());
    }
    let keys: Vec<_> = (0..100).map(key).collect();
    let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
    assert!(family.multi_get(&keys).unwrap().iter().all(Option::is_some));
    let mut scan = family.scan(ScanOptions::new()).unwrap();
    scan.seek_to_first().unwrap();
    while scan.valid() {
        assert_eq!(scan.value().unwrap().len(), value_bytes);
        scan.next().unwrap();
    }
}

#[test]
fn nothing_large_comes_from_the_allocator() {
    let directory = tempfile::tempdir().unwrap();
    let options = DbOptions::default().max_memory_usage(96 << 20);
    let db = Db::open(directory.path(), options).unwrap();
    let small = FamilyOptions::default();
    let ribbon = FamilyOptions::default().filter_kind(FilterKind::Ribbon);
    let kinds = [("small", small.clone(), 96), ("ribbon", ribbon, 96), ("large", small, 8000)];
    for (name, options, value_bytes) in kinds {
        let family = db.open_family(name, options).unwrap();
        ASKED.lock().unwrap().clear();
        COUNTS.store(true, Ordering::Relaxed);
        work(&family, &db, value_bytes);
        COUNTS.store(false, Ordering::Relaxed);
        let asked = ASKED.lock().unwrap();
        let line = |(place, (count, bytes)): (&String, &(u64, usize))| {
            format!("{count} pieces, {} KiB\n    {place}\n", bytes >> 10)
        };
        assert!(asked.is_empty(), "{name}: {}", asked.iter().map(line).collect::<String>());
    }
}
