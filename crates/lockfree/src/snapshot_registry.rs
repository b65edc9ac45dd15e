//! The read points of all live snapshots: what compactions must not drop, because a reader may
//! still ask.
//!
//! A read point is a sequence number up to which a reader sees everything, and the time by which
//! values have expired for it. The time is part of what a reader sees: a value that it has met does
//! not expire under it. So compactions take for expired only what has expired for the oldest live
//! snapshot.
//!
//! Readers come and go all the time, and are looked for seldom. So the registry is made of stripes,
//! each with a lock of its own. A reader takes the lock of one stripe, that of its thread; a look
//! at all readers takes the locks of all stripes, in order, and holds them together.
//!
//! Invariants:
//! * A read point is taken and added under one lock of its stripe. A look holds all locks at one
//!   point in time: what was registered before it is seen, and what is registered later takes its
//!   read point later. So a look is one point in the order of all registrations, as with a single
//!   lock, and the oldest that it finds is never newer than one that lives.
//! * A registration ends in the stripe in which it began, whichever thread ends it.
//! * A watched snapshot is marked in each stripe that has it, in the look that found it alive.
//!   Whichever release takes the last one out of a marked stripe looks at all others. Where one has
//!   it still it marks those that do, and otherwise it takes all marks away and reports the end. So
//!   the end is reported, and once. The oldest time is watched in the same way.
//!
//! Checked by loom models (`loom_*`) in `snapshot_registry/tests.rs`.

use std::collections::BTreeSet;
use std::num::NonZeroU8;
use std::ops::Deref;

use tidesdb_base::entry::SequenceNumber;
use tidesdb_base::live_sequences::LiveSequences;

use crate::stripe::thread_number;
use crate::sync::{CachePadded, Mutex, MutexGuard, lock};

/// Stripes of a production registry: more than the threads that usually begin transactions at once.
#[cfg(not(loom))]
const STRIPES: usize = 16;
#[cfg(loom)]
const STRIPES: usize = 2;

/// As of when something is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadPoint {
    /// Everything committed up to here is seen.
    pub sequence: SequenceNumber,
    /// What expires by this Unix second is not seen.
    pub now: u64,
}

/// A read point that is registered. It is given back by [`SnapshotRegistry::release`], once.
#[derive(Clone, Copy, Debug)]
pub struct Registration {
    read_point: ReadPoint,
    /// Number of the stripe, counted from one, so that an option of it takes no more room.
    stripe: NonZeroU8,
}

impl Registration {
    /// The read point.
    #[inline]
    #[must_use]
    pub const fn read_point(self) -> ReadPoint {
        self.read_point
    }

    const fn stripe(self) -> usize {
        self.stripe.get() as usize - 1
    }
}

const _: () = assert!(size_of::<Option<Registration>>() == size_of::<Option<ReadPoint>>());
const _: () = assert!(STRIPES < u8::MAX as usize);

impl Deref for Registration {
    type Target = ReadPoint;
    fn deref(&self) -> &ReadPoint {
        &self.read_point
    }
}

/// The read points of all live snapshots: 32 bytes for each that a reader has.
///
/// ```
/// use tidesdb_lockfree::snapshot_registry::{ReadPoint, SnapshotRegistry};
/// let registry = SnapshotRegistry::default();
/// let seven = registry.register(|| ReadPoint { sequence: 7, now: 70 });
/// let nine = registry.register(|| ReadPoint { sequence: 9, now: 90 });
/// assert!(registry.watch(&[7]));
/// assert_eq!(registry.list(), [7, 9]);
/// assert!(registry.release(seven)); // a watched one is gone
/// assert_eq!((registry.oldest(), registry.oldest_time()), (Some(9), Some(90)));
/// # registry.release(nine);
/// ```
#[derive(Debug)]
pub struct SnapshotRegistry([CachePadded<Mutex<Stripe>>; STRIPES]);

#[derive(Debug, Default)]
struct Stripe {
    live: LiveSequences,
    /// The Unix seconds of the same snapshots.
    times: LiveSequences,
    /// Of live snapshots whose end is waited for: few, and mostly none.
    watched: BTreeSet<SequenceNumber>,
    /// A caller waits for the oldest time of this stripe to pass on.
    watches_time: bool,
}

impl Default for SnapshotRegistry {
    fn default() -> Self {
        Self(std::array::from_fn(|_| CachePadded(Mutex::new(Stripe::default()))))
    }
}

impl SnapshotRegistry {
    /// Registers a snapshot at the read point that `now` returns. `now` is called with the stripe
    /// locked, so that a compaction that lists the snapshots, or asks for their times, either sees
    /// this one or started before everything it can see.
    #[inline]
    pub fn register(&self, now: impl FnOnce() -> ReadPoint) -> Registration {
        self.register_in(thread_number() % STRIPES, now)
    }

    #[inline]
    fn register_in(&self, stripe: usize, now: impl FnOnce() -> ReadPoint) -> Registration {
        let mut registered = lock(&self.0[stripe]);
        let read_point = now();
        registered.live.add(read_point.sequence);
        registered.times.add(read_point.now);
        Registration { read_point, stripe: NonZeroU8::MIN.saturating_add(stripe as u8) }
    }

    /// Registers once more a snapshot that is not released meanwhile. It goes where the first one
    /// is, so that a watch of both ends once.
    #[inline]
    pub fn register_again(&self, registration: Registration) -> Registration {
        self.register_in(registration.stripe(), || registration.read_point)
    }

    /// Gives up a registration. True when no other reader holds the snapshot, or its time, and that
    /// was watched, which ends then.
    #[inline]
    pub fn release(&self, registration: Registration) -> bool {
        let read_point = registration.read_point;
        let mut stripe = lock(&self.0[registration.stripe()]);
        stripe.live.remove(read_point.sequence);
        let was_oldest = stripe.times.remove(read_point.now);
        let passes_on = was_oldest && stripe.watches_time;
        let ends = !stripe.watched.is_empty() && stripe.may_end_watch(read_point.sequence);
        drop(stripe);
        (passes_on || ends) && self.end_watches(read_point)
    }

    /// A reader that held the read point has gone from a stripe where it was watched. True when no
    /// other stripe holds it; those that do go on watching it.
    #[cold]
    fn end_watches(&self, ReadPoint { sequence, now }: ReadPoint) -> bool {
        let mut stripes = self.look();
        let is_live = stripes.iter().any(|stripe| stripe.live.holds(sequence));
        let oldest_time = stripes.iter().filter_map(|stripe| stripe.times.oldest()).min();
        let mut ended = false;
        let is_watched = stripes.iter().any(|stripe| stripe.watched.contains(&sequence));
        for stripe in stripes.iter_mut().filter(|_| is_watched) {
            if stripe.live.holds(sequence) {
                stripe.watched.insert(sequence);
            } else {
                ended |= stripe.watched.remove(&sequence) && !is_live;
            }
        }
        // Times from before are gone with the snapshots that had them.
        let is_time_watched = stripes.iter().any(|stripe| stripe.watches_time);
        let passes_on = oldest_time.is_none_or(|oldest| oldest > now);
        for stripe in stripes.iter_mut().filter(|_| is_time_watched) {
            stripe.watches_time = !passes_on && stripe.times.oldest() == oldest_time;
        }
        ended || (is_time_watched && passes_on)
    }

    /// All stripes at one point in time. The only place where more than one is locked.
    fn look(&self) -> [MutexGuard<'_, Stripe>; STRIPES] {
        std::array::from_fn(|at| lock(&self.0[at]))
    }

    /// All live snapshots, oldest first.
    #[must_use]
    pub fn list(&self) -> Vec<SequenceNumber> {
        let stripes = self.look();
        let mut live: Vec<_> = stripes.iter().flat_map(|stripe| stripe.live.iter()).collect();
        drop(stripes);
        live.sort_unstable();
        live.dedup();
        live
    }

    /// The oldest live snapshot.
    #[must_use]
    pub fn oldest(&self) -> Option<SequenceNumber> {
        self.look().iter().filter_map(|stripe| stripe.live.oldest()).min()
    }

    /// The Unix second of the oldest live snapshot.
    #[must_use]
    pub fn oldest_time(&self) -> Option<u64> {
        self.look().iter().filter_map(|stripe| stripe.times.oldest()).min()
    }

    /// Makes [`SnapshotRegistry::release`] report when `oldest` may not be the oldest time any
    /// more. False when it is not now.
    pub fn watch_time(&self, oldest: u64) -> bool {
        let mut stripes = self.look();
        let times = stripes.iter().filter_map(|stripe| stripe.times.oldest());
        let is_oldest = times.min() == Some(oldest);
        for stripe in &mut stripes {
            stripe.watches_time |= is_oldest && stripe.times.oldest() == Some(oldest);
        }
        is_oldest
    }

    /// Makes [`SnapshotRegistry::release`] report when one of these snapshots goes. False when one
    /// is gone already; none is watched then.
    pub fn watch(&self, sequences: &[SequenceNumber]) -> bool {
        let mut stripes = self.look();
        let is_live = |sequence| stripes.iter().any(|stripe| stripe.live.holds(sequence));
        let all_live = sequences.iter().copied().all(is_live);
        for stripe in stripes.iter_mut().filter(|_| all_live) {
            let Stripe { live, watched, .. } = &mut **stripe;
            watched.extend(sequences.iter().filter(|&&sequence| live.holds(sequence)));
        }
        all_live
    }
}

impl Stripe {
    #[cold]
    fn may_end_watch(&self, sequence: SequenceNumber) -> bool {
        !self.live.holds(sequence) && self.watched.contains(&sequence)
    }
}

#[cfg(test)]
mod tests;
