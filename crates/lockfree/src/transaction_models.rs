//! Models of transactions over two keys: snapshots, checks at commit, publishing.
//!
//! The engine's protocol in miniature, with the very sequencer that ships: a transaction takes the
//! published position as its snapshot, reads, looks at what it writes, takes its place in the log
//! and announces its keys, waits for its rivals in front, looks again at what came in between, and
//! writes its keys one after the other, or none if another thread has changed one. What must hold
//! in every interleaving: of two commits to a key the later one has seen the earlier (the first
//! committer wins), and a snapshot sees both keys of a commit or neither.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

use crate::publish::CommitSequencer;

const RECORD_BYTES: u64 = 32;
const RING_SLOTS: usize = 4;

/// Keys, and what stands for each in a signature.
const FIRST: u64 = 1;
const SECOND: u64 = 2;
const BOTH: u64 = FIRST | SECOND;

/// Transactions of a model.
const MOST: usize = 3;

/// Two keys and the sequence numbers of their versions, one place per transaction; zero while it
/// has written none.
struct Store {
    sequencer: CommitSequencer,
    versions: [[AtomicU64; MOST]; 2],
}

/// A transaction that committed.
#[derive(Clone, Copy, Debug)]
struct Committed {
    keys: u64,
    snapshot: u64,
    sequence: u64,
}

impl Store {
    fn new() -> Arc<Self> {
        let version = |_| AtomicU64::new(0);
        let versions = [(); 2].map(|()| std::array::from_fn(version));
        Arc::new(Self { sequencer: CommitSequencer::with_ring(0, RING_SLOTS), versions })
    }

    /// The newest version at or below `snapshot` of each of the keys.
    fn newest(&self, keys: u64, snapshot: u64) -> impl Iterator<Item = u64> {
        let written = self.versions.iter().zip([FIRST, SECOND]);
        written.filter(move |(_, key)| keys & key != 0).map(move |(versions, _)| {
            // ORDERING: relaxed; what is at or below a published position was made visible by it.
            let versions = versions.iter().map(|version| version.load(Ordering::Relaxed));
            versions.filter(|&sequence| sequence <= snapshot).max().unwrap_or(0)
        })
    }

    fn has_changed(&self, keys: u64, since: u64, through: u64) -> bool {
        self.newest(keys, through).any(|sequence| sequence > since)
    }

    /// Transaction `number` writes these keys at snapshot isolation. None when it was refused.
    fn transact(&self, number: usize, keys: u64) -> Option<Committed> {
        let snapshot = self.sequencer.published();
        let through = self.sequencer.published();
        if self.has_changed(keys, snapshot, through) {
            return None;
        }
        let start = self.sequencer.reserve(RECORD_BYTES);
        let sequence = start + RECORD_BYTES;
        self.sequencer.announce(start, sequence, keys);
        self.sequencer.wait_for_conflicting(start, keys);
        let refused = self.has_changed(keys, through, start);
        for (versions, key) in self.versions.iter().zip([FIRST, SECOND]) {
            if !refused && keys & key != 0 {
                versions[number].store(sequence, Ordering::Relaxed);
            }
        }
        self.sequencer.complete(start, sequence);
        self.sequencer.wait_published(sequence);
        (!refused).then_some(Committed { keys, snapshot, sequence })
    }

    /// A snapshot of both keys, which all commits of the model write.
    fn read_both(&self) {
        let snapshot = self.sequencer.published();
        let seen: Vec<u64> = self.newest(BOTH, snapshot).collect();
        assert_eq!(seen[0], seen[1], "half of a commit is seen at {snapshot}");
        assert!(seen[0] <= snapshot);
    }
}

/// The first committer wins: of two that wrote a common key the later one has seen the earlier.
fn check(outcomes: &[Option<Committed>]) {
    for (at, one) in outcomes.iter().enumerate() {
        for other in &outcomes[at + 1..] {
            let (Some(one), Some(other)) = (one, other) else { continue };
            let (earlier, later) =
                if one.sequence < other.sequence { (one, other) } else { (other, one) };
            let rivals = earlier.keys & later.keys != 0;
            assert!(!rivals || later.snapshot >= earlier.sequence, "{earlier:?} and {later:?}");
        }
    }
}

/// Interleavings with at most so many preemptions.
fn bounded(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

#[test]
fn loom_a_snapshot_sees_both_keys_of_a_commit_or_neither() {
    bounded(3, || {
        let store = Store::new();
        let other = {
            let store = Arc::clone(&store);
            thread::spawn(move || store.transact(0, BOTH))
        };
        store.read_both();
        let mine = store.transact(1, BOTH);
        store.read_both();
        let theirs = other.join().unwrap();
        check(&[mine, theirs]);
        assert!(mine.is_some() || theirs.is_some(), "nobody won");
        store.read_both();
    });
}

#[test]
fn loom_of_transactions_that_share_a_key_the_first_wins() {
    bounded(3, || {
        let store = Store::new();
        let others = {
            let store = Arc::clone(&store);
            // On one thread: a third would make a thousand times as many interleavings.
            thread::spawn(move || [store.transact(0, FIRST), store.transact(1, SECOND)])
        };
        let both = store.transact(2, BOTH);
        let [first, second] = others.join().unwrap();
        check(&[both, first, second]);
        // The other two touch nothing that the other touches: each is refused for this one at most.
        assert!(both.is_some() || (first.is_some() && second.is_some()), "refused for nothing");
        assert_eq!(store.sequencer.published(), store.sequencer.tail(), "a hole is left");
    });
}
