//! Models of how commits, the freezing of memtables, and readers meet.
//!
//! The engine's protocol in miniature, with the very sequencer and gate that ship: a commit
//! enters the gate, takes its place in the log, puts its key into the active memtable of the
//! view, completes, leaves. A rotation closes the gate, notes the boundary, and swaps in a view
//! with a fresh active memtable. A reader loads the view first and the published position second
//! (a read of one key) or registers the published position first and loads the view second (a
//! snapshot). Loom tries every interleaving.

use loom::sync::atomic::{AtomicU64, Ordering};
use loom::sync::{Arc, Mutex};
use loom::thread;

use crate::gate::CommitGate;
use crate::publish::CommitSequencer;

const RECORD_BYTES: u64 = 32;

/// What every checked commit touches: the one key.
const SIGNATURE: u64 = 1;

/// A memtable for one key: the sequence number of its newest version, zero while it has none.
#[derive(Default)]
struct Memtable(AtomicU64);

#[derive(Clone)]
struct View {
    active: Arc<Memtable>,
    frozen: Vec<Arc<Memtable>>,
}

struct Engine {
    sequencer: CommitSequencer,
    gate: CommitGate,
    /// Stands for the engine's atomically swapped reference.
    view: Mutex<Arc<View>>,
}

/// Interleavings with at most two preemptions: a commit that waits for another takes many steps.
fn bounded(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(model);
}

impl Engine {
    fn new() -> Arc<Self> {
        let view = View { active: Arc::new(Memtable::default()), frozen: Vec::new() };
        Arc::new(Self {
            sequencer: CommitSequencer::new(0),
            gate: CommitGate::new(),
            view: Mutex::new(Arc::new(view)),
        })
    }

    fn load_view(&self) -> Arc<View> {
        Arc::clone(&self.view.lock().unwrap())
    }

    fn commit(&self) -> u64 {
        let inside = self.gate.enter();
        let start = self.sequencer.reserve(RECORD_BYTES);
        let end = start + RECORD_BYTES;
        let view = self.load_view();
        view.active.0.fetch_max(end, Ordering::Relaxed);
        self.sequencer.complete(start, end);
        drop(inside);
        self.sequencer.wait_published(end);
        end
    }

    /// As [`Engine::commit`] for a transaction that must not overwrite what is newer than its
    /// snapshot: with its place taken it waits for all in front of it and looks again. None when it
    /// was called off, which completes the place as well.
    fn commit_checked(&self, snapshot: u64) -> Option<u64> {
        let inside = self.gate.enter();
        let start = self.sequencer.reserve(RECORD_BYTES);
        let end = start + RECORD_BYTES;
        self.sequencer.announce(start, end, SIGNATURE);
        let view = self.load_view();
        self.sequencer.wait_for_conflicting(start, SIGNATURE);
        let newest = Self::find(&view, start);
        let allowed = newest <= snapshot;
        if allowed {
            view.active.0.fetch_max(end, Ordering::Relaxed);
        }
        self.sequencer.complete(start, end);
        drop(inside);
        self.sequencer.wait_published(end);
        allowed.then_some(end)
    }

    /// Returns the boundary: everything frozen is at or below it, everything later above.
    fn rotate(&self) -> u64 {
        let closed = self.gate.close();
        let boundary = self.sequencer.published();
        let old = self.load_view();
        let mut frozen = vec![Arc::clone(&old.active)];
        frozen.extend(old.frozen.iter().cloned());
        *self.view.lock().unwrap() =
            Arc::new(View { active: Arc::new(Memtable::default()), frozen });
        drop(closed);
        boundary
    }

    /// The newest version that a view holds at or below `snapshot`.
    fn find(view: &View, snapshot: u64) -> u64 {
        let memtables = std::iter::once(&view.active).chain(&view.frozen);
        memtables
            .map(|memtable| memtable.0.load(Ordering::Relaxed))
            .find(|&sequence| sequence != 0 && sequence <= snapshot)
            .unwrap_or(0)
    }
}

#[test]
fn loom_a_rotation_cuts_the_commits_cleanly_in_two() {
    loom::model(|| {
        let engine = Engine::new();
        let committer = {
            let engine = Arc::clone(&engine);
            thread::spawn(move || engine.commit())
        };
        let boundary = engine.rotate();
        committer.join().unwrap();
        let view = engine.load_view();
        let frozen = view.frozen[0].0.load(Ordering::Relaxed);
        let active = view.active.0.load(Ordering::Relaxed);
        assert!(frozen <= boundary, "a commit above the boundary went to the frozen memtable");
        assert!(active == 0 || active > boundary, "a commit below it went to the fresh one");
        assert_eq!(frozen.max(active), RECORD_BYTES, "the commit is lost");
    });
}

#[test]
fn loom_a_reader_finds_every_published_commit_across_a_rotation() {
    loom::model(|| {
        let engine = Engine::new();
        let first = engine.commit();
        let rotator = {
            let engine = Arc::clone(&engine);
            thread::spawn(move || {
                engine.rotate();
            })
        };
        // A read of one key: the view, then the position.
        let view = engine.load_view();
        let snapshot = engine.sequencer.published();
        assert_eq!(Engine::find(&view, snapshot), first);
        rotator.join().unwrap();
    });
}

#[test]
fn loom_a_snapshot_finds_what_was_published_when_it_was_taken() {
    loom::model(|| {
        let engine = Engine::new();
        let writer = {
            let engine = Arc::clone(&engine);
            thread::spawn(move || {
                let first = engine.commit();
                engine.rotate();
                first
            })
        };
        // A snapshot: the position, then the view, whatever has been rotated since.
        let snapshot = engine.sequencer.published();
        let view = engine.load_view();
        assert_eq!(Engine::find(&view, snapshot), snapshot);
        assert_eq!(writer.join().unwrap(), RECORD_BYTES);
    });
}

#[test]
fn loom_of_two_checked_commits_the_second_sees_the_first() {
    bounded(|| {
        let engine = Engine::new();
        let other = {
            let engine = Arc::clone(&engine);
            thread::spawn(move || engine.commit_checked(0))
        };
        let mine = engine.commit_checked(0);
        let theirs = other.join().unwrap();
        assert!(mine.is_some() != theirs.is_some(), "{mine:?} and {theirs:?}");
        assert_eq!(engine.sequencer.published(), 2 * RECORD_BYTES, "no hole is left");
    });
}

#[test]
fn loom_a_checked_commit_and_a_rotation_do_not_block_each_other() {
    bounded(|| {
        let engine = Engine::new();
        let first = engine.commit();
        let committer = {
            let engine = Arc::clone(&engine);
            thread::spawn(move || engine.commit_checked(0))
        };
        engine.rotate();
        assert_eq!(committer.join().unwrap(), None, "{first} is newer than the snapshot");
    });
}
