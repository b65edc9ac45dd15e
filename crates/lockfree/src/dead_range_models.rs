//! A model of how scans remember ranges without live keys while commits put keys there.
//!
//! The engine's protocol in miniature, with the sequencer that ships and one key: a scan that finds
//! nothing registers the range, asks what is reserved, and calls the range dead when its snapshot
//! holds all of that. A commit that finds the range registered takes it away before it completes.
//! A reader that finds the range dead at its snapshot must see no key there.

use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use loom::sync::{Arc, Mutex};
use loom::thread;

use crate::publish::CommitSequencer;

const RECORD_BYTES: u64 = 32;
const NONE: u64 = u64::MAX;

struct Family {
    sequencer: CommitSequencer,
    /// Sequence number of the key's only version, zero while it has none.
    key: AtomicU64,
    any: AtomicBool,
    /// From when on the range is watched; `NONE`: it is not.
    watched_from: Mutex<u64>,
    dead_from: AtomicU64,
}

impl Family {
    fn put(&self) {
        let start = self.sequencer.reserve(RECORD_BYTES);
        let end = start + RECORD_BYTES;
        if self.any.load(Ordering::Relaxed) {
            let mut watched_from = self.watched_from.lock().unwrap();
            *watched_from = NONE;
            self.dead_from.store(NONE, Ordering::Release);
        }
        self.key.store(end, Ordering::Relaxed);
        self.sequencer.complete(start, end);
    }

    fn finds_key(&self, snapshot: u64) -> bool {
        (1..=snapshot).contains(&self.key.load(Ordering::Relaxed))
    }

    fn scan(&self) {
        let snapshot = self.sequencer.published();
        if self.finds_key(snapshot) {
            return;
        }
        let mut watched_from = self.watched_from.lock().unwrap();
        if *watched_from == NONE {
            self.any.store(true, Ordering::Relaxed);
            *watched_from = self.sequencer.reserved();
        }
        if *watched_from <= snapshot {
            self.dead_from.store(snapshot, Ordering::Release);
        }
    }

    fn check(&self) {
        let snapshot = self.sequencer.published();
        if self.dead_from.load(Ordering::Acquire) <= snapshot {
            assert!(!self.finds_key(snapshot), "a live key in a dead range");
        }
    }
}

fn model(test: impl Fn(Arc<Family>) + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        test(Arc::new(Family {
            sequencer: CommitSequencer::new(0),
            key: AtomicU64::new(0),
            any: AtomicBool::new(false),
            watched_from: Mutex::new(NONE),
            dead_from: AtomicU64::new(NONE),
        }));
    });
}

#[test]
fn loom_no_reader_finds_a_live_key_in_a_dead_range() {
    model(|family| {
        let writer = Arc::clone(&family);
        let writing = thread::spawn(move || writer.put());
        family.scan();
        family.scan();
        family.check();
        writing.join().unwrap();
        family.check();
    });
}

#[test]
fn loom_a_scan_a_put_and_a_reader_at_once() {
    model(|family| {
        let (scanner, reader) = (Arc::clone(&family), Arc::clone(&family));
        let scanning = thread::spawn(move || {
            scanner.scan();
            scanner.scan();
        });
        let reading = thread::spawn(move || reader.check());
        family.put();
        scanning.join().unwrap();
        reading.join().unwrap();
        family.check();
    });
}
