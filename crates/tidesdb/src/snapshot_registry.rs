//! The moments of all live snapshots: what compactions must not drop, because a reader may still
//! ask.
//!
//! A moment is a sequence number up to which a reader sees everything, and the time by which values
//! have expired for it. The time is part of what a reader sees: a value that it has met does not
//! expire under it. So compactions take for expired only what has expired for the oldest live
//! snapshot.

use std::collections::BTreeSet;
use std::sync::Mutex;

use tidesdb_base::entry::SequenceNumber;
use tidesdb_base::live_sequences::LiveSequences;
use tidesdb_lockfree::sync::lock;

/// As of when something is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    /// Everything committed up to here is seen.
    pub sequence: SequenceNumber,
    /// What expires by this Unix second is not seen.
    pub now: u64,
}

/// The moments of all live snapshots: 32 bytes for each that a reader has.
#[derive(Debug, Default)]
pub(crate) struct SnapshotRegistry(Mutex<Registry>);

#[derive(Debug, Default)]
struct Registry {
    live: LiveSequences,
    /// The Unix seconds of the same snapshots.
    times: LiveSequences,
    /// Of live snapshots whose end is waited for: few, and mostly none.
    watched: BTreeSet<SequenceNumber>,
    /// A caller waits for the oldest time to pass on.
    watches_time: bool,
}

impl SnapshotRegistry {
    /// Registers a snapshot of the moment that `now` returns. `now` is called with the registry
    /// locked, so that a compaction that lists the snapshots, or asks for their times, either sees
    /// this one or started before everything it can see.
    #[inline]
    pub(crate) fn register(&self, now: impl FnOnce() -> Moment) -> Moment {
        let mut registry = lock(&self.0);
        let moment = now();
        registry.live.add(moment.sequence);
        registry.times.add(moment.now);
        moment
    }

    /// Gives up a registration; true when no other reader holds the snapshot, or its time, and that
    /// was watched.
    #[inline]
    pub(crate) fn release(&self, moment: Moment) -> bool {
        let mut registry = lock(&self.0);
        registry.live.remove(moment.sequence);
        let was_oldest = registry.times.remove(moment.now);
        let passes_on = was_oldest && std::mem::take(&mut registry.watches_time);
        passes_on | (!registry.watched.is_empty() && registry.ends_watch(moment.sequence))
    }

    /// All live snapshots, oldest first.
    pub(crate) fn list(&self) -> Vec<SequenceNumber> {
        lock(&self.0).live.iter().collect()
    }

    /// The oldest live snapshot.
    pub(crate) fn oldest(&self) -> Option<SequenceNumber> {
        lock(&self.0).live.oldest()
    }

    /// The Unix second of the oldest live snapshot.
    pub(crate) fn oldest_time(&self) -> Option<u64> {
        lock(&self.0).times.oldest()
    }

    /// Makes [`SnapshotRegistry::release`] report when `oldest` is not the oldest time any more.
    /// False when it is not now.
    pub(crate) fn watch_time(&self, oldest: u64) -> bool {
        let mut registry = lock(&self.0);
        let is_oldest = registry.times.oldest() == Some(oldest);
        registry.watches_time |= is_oldest;
        is_oldest
    }

    /// Makes [`SnapshotRegistry::release`] report when one of these snapshots goes. False when one
    /// is gone already; none is watched then.
    pub(crate) fn watch(&self, sequences: &[SequenceNumber]) -> bool {
        let mut registry = lock(&self.0);
        let all_live = sequences.iter().all(|&sequence| registry.live.holds(sequence));
        if all_live {
            registry.watched.extend(sequences);
        }
        all_live
    }
}

impl Registry {
    #[cold]
    fn ends_watch(&mut self, sequence: SequenceNumber) -> bool {
        !self.live.holds(sequence) && self.watched.remove(&sequence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(sequence: u64) -> Moment {
        Moment { sequence, now: sequence * 10 }
    }

    #[test]
    fn a_snapshot_held_twice_is_listed_until_both_are_gone() {
        let registry = SnapshotRegistry::default();
        assert_eq!(registry.register(|| at(7)), at(7));
        registry.register(|| at(7));
        registry.register(|| at(9));
        assert!(registry.watch(&[7]));
        assert!(!registry.release(at(7)), "held once more");
        assert_eq!((registry.list(), registry.oldest_time()), (vec![7, 9], Some(70)));
        assert!(registry.release(at(7)));
        assert_eq!((registry.list(), registry.oldest_time()), (vec![9], Some(90)));
    }

    #[test]
    fn only_the_end_of_a_watched_snapshot_is_told_and_only_once() {
        let registry = SnapshotRegistry::default();
        for sequence in [3, 7, 9, 11] {
            registry.register(|| at(sequence));
        }
        assert!(!registry.watch(&[7, 8]), "there is no 8");
        assert!(registry.watch(&[7, 9]) && registry.watch(&[9]));
        assert!(!registry.release(at(3)) && registry.release(at(9)), "not the oldest, but watched");
        registry.register(|| at(9));
        assert!(!registry.release(at(9)) && !registry.release(at(11)) && registry.release(at(7)));
        assert!(!registry.watch(&[7]));
    }
}
