//! Ranges of keys in which nothing lives, remembered so that scans pass over them at once.
//!
//! A queue is popped by looking for its first key and deleting it. Deleted keys stay in memtables
//! and tables until a compaction drops them, so without more the next look would pass over all that
//! were popped before. Here a scan that has passed over many dead keys in a row leaves a *dead
//! range*, and later scans jump to its end.
//!
//! What makes that right is that a range is *watched*: a commit that puts a key cuts it out of the
//! range that it lies in, after it has reserved its place in the log and before it is published.
//! A range `[start, end)` goes through two states:
//!
//! 1. watched: a scan at some snapshot found nothing alive. Commits that had reserved their place
//!    before the range was registered may not have seen it. All of those end at or before
//!    `watched_from`, the end of what was reserved right after the registration.
//! 2. dead: a scan at a snapshot from `watched_from` on found nothing alive, and the range is still
//!    there. Of the puts into it, that scan has seen those at or below its snapshot, and the others
//!    would have cut the range. So nothing in it lives for any reader from that snapshot on, as
//!    long as the range is there when the reader looks, after it took its snapshot: a put that it
//!    sees was published before that, and had cut the range by then.
//!
//! With no commit under way, `watched_from` is the scan's own snapshot, and both happen at once.
//! Only versions decide, so freezing, flushes and compactions change nothing. What has expired is
//! dead for readers whose clock is not behind that of the scan; later deletions of any kind keep a
//! range dead.
//!
//! Threads: any. Puts pay one load while there is no range, else a search; readers take no lock,
//! and a scan that meets another one registering leaves nothing.
//!
//! Invariants: ranges are sorted and disjoint, and not empty.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwapOption;
use tidesdb_base::entry::SequenceNumber;
use tidesdb_lockfree::sync::lock;

/// Most ranges of a family.
const MOST_RANGES: usize = 256;

/// Bytes that the ranges of a family take at most.
const MOST_BYTES: usize = 64 << 10;

/// How often a range is cut before it is given up: keys that are put again one by one would pay.
const MOST_CUTS: u8 = 4;

/// Longer keys are not remembered.
const LONGEST_KEY_BYTES: usize = 1 << 10;

/// Keys in which nothing lives.
#[derive(Clone, Debug, PartialEq, Eq)]
struct DeadRange {
    start: Vec<u8>,
    /// The key behind the last one.
    end: Vec<u8>,
    /// Commits that end behind this have seen the range.
    watched_from: SequenceNumber,
    /// Dead for snapshots from here on; none while it is only watched.
    dead_from: Option<SequenceNumber>,
    /// Dead for readers who have this time, in seconds, or a later one.
    now: u64,
    /// About how many dead keys lie in it.
    weight: u64,
    cuts: u8,
}

type Ranges = Vec<Arc<DeadRange>>;

/// Who asks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader {
    pub snapshot: SequenceNumber,
    /// In seconds.
    pub now: u64,
}

impl DeadRange {
    fn is_dead_for(&self, reader: Reader) -> bool {
        self.dead_from.is_some_and(|from| from <= reader.snapshot) && self.now <= reader.now
    }

    /// Dead as well, if it was watched for long enough when a reader found nothing in it.
    fn confirmed_by(&self, reader: Reader) -> Self {
        let mut range = self.clone();
        if range.dead_from.is_none() && range.watched_from <= reader.snapshot {
            (range.dead_from, range.now) = (Some(reader.snapshot), reader.now);
        }
        range
    }

    /// This range and its neighbour as one. Only such of comparable weight become one: the later of
    /// two snapshots then counts for both, and readers between them should not lose a large range
    /// whenever a small one is added to it.
    fn joined_with(&self, next: &Self) -> Option<Self> {
        let heavier = self.weight.max(next.weight);
        let fits = self.end == next.start && 2 * self.weight.min(next.weight) >= heavier;
        let dead_from = self.dead_from?.max(next.dead_from?);
        fits.then(|| Self {
            start: self.start.clone(),
            end: next.end.clone(),
            watched_from: self.watched_from.max(next.watched_from),
            dead_from: Some(dead_from),
            now: self.now.max(next.now),
            weight: self.weight + next.weight,
            cuts: self.cuts.min(next.cuts),
        })
    }

    /// What is left of it in front of a key and behind it.
    fn without(&self, key: &[u8]) -> impl Iterator<Item = Arc<Self>> {
        let kept = self.cuts < MOST_CUTS;
        let part = |start: &[u8], end: &[u8]| {
            (kept && start < end).then(|| {
                Arc::new(Self {
                    start: start.to_vec(),
                    end: end.to_vec(),
                    weight: self.weight / 2,
                    cuts: self.cuts + 1,
                    ..self.clone()
                })
            })
        };
        let (front, back) = (part(&self.start, key), part(&successor(key), &self.end));
        front.into_iter().chain(back)
    }
}

/// The first key behind `key`.
pub(crate) fn successor(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

/// The dead ranges of a family.
#[derive(Debug, Default)]
pub(crate) struct DeadRanges {
    /// False while there is none.
    any: AtomicBool,
    ranges: ArcSwapOption<Ranges>,
    changing: Mutex<()>,
}

/// Dead keys that a scan has passed over, `[start, end)`.
#[derive(Debug)]
pub(crate) struct DeadRun {
    pub start: Vec<u8>,
    pub end: Vec<u8>,
    /// How many keys were looked at.
    pub passed: u64,
}

impl DeadRanges {
    /// Notes that a commit puts `key`. Called with its place in the log reserved and before it is
    /// complete.
    #[inline]
    pub(crate) fn note_put(&self, key: &[u8]) {
        // ORDERING: relaxed; a commit that was reserved behind `watched_from` of a range sees the
        // stores of its registration, see `CommitSequencer::reserved`.
        if self.any.load(Ordering::Relaxed) {
            self.cut_if_covered(key);
        }
    }

    #[cold]
    fn cut_if_covered(&self, key: &[u8]) {
        if self.ranges.load().as_ref().is_some_and(|ranges| covering(ranges, key).is_some()) {
            self.cut(key);
        }
    }

    fn cut(&self, key: &[u8]) {
        let _one_at_a_time = lock(&self.changing);
        let Some(before) = self.ranges.load_full() else { return };
        if let Some(at) = covering(&before, key) {
            let mut ranges = Ranges::with_capacity(before.len() + 1);
            ranges.extend_from_slice(&before[..at]);
            ranges.extend(before[at].without(key));
            ranges.extend_from_slice(&before[at + 1..]);
            self.store(ranges);
        }
    }

    /// What a scan finds there, for all of its life: what is dead for its snapshot stays so.
    pub(crate) fn known_to(&self, reader: Reader) -> KnownRanges {
        // ORDERING: relaxed; a range that is missed is only walked.
        let ranges = self.any.load(Ordering::Relaxed).then(|| self.ranges.load_full()).flatten();
        let behind = ranges.as_ref().map_or(0, |ranges| ranges.len());
        KnownRanges { ranges, reader, next: 0, behind }
    }

    /// Remembers that `reader` has found nothing alive in `run`. `reserved` returns the end of what
    /// commits have reserved; who reserves after its call sees what this thread did before it.
    pub(crate) fn remember(
        &self,
        run: &DeadRun,
        reader: Reader,
        reserved: impl FnOnce() -> SequenceNumber,
    ) {
        if run.start.len().max(run.end.len()) > LONGEST_KEY_BYTES || run.start >= run.end {
            return;
        }
        // A scan does not wait for the lock; the next one will pass here as well.
        let Ok(_one_at_a_time) = self.changing.try_lock() else { return };
        let before = self.ranges.load_full().unwrap_or_default();
        let from = before.partition_point(|range| range.end <= run.start);
        let to = before.partition_point(|range| range.start < run.end);
        let watched = watched_anew(&before[from..to], run);
        let with = |middle: &[Arc<DeadRange>]| [&before[..from], middle, &before[to..]].concat();
        self.store(with(&watched));
        let reserved = reserved();
        let confirmed = watched.iter().map(|range| {
            let watched_from = range.watched_from.min(reserved);
            Arc::new(DeadRange { watched_from, ..(**range).clone() }.confirmed_by(reader))
        });
        let mut ranges = joined(with(&confirmed.collect::<Ranges>()));
        while ranges.len() > MOST_RANGES || bytes_of(&ranges) > MOST_BYTES {
            let lightest = (0..ranges.len()).min_by_key(|&at| ranges[at].weight).unwrap_or(0);
            ranges.remove(lightest);
        }
        self.store(ranges);
    }

    /// Puts other ranges in force. The lock is held.
    fn store(&self, ranges: Ranges) {
        let any = !ranges.is_empty();
        self.ranges.store(any.then(|| Arc::new(ranges)));
        // ORDERING: relaxed; see `note_put`.
        self.any.store(any, Ordering::Relaxed);
    }
}

fn bytes_of(ranges: &Ranges) -> usize {
    let bytes = |range: &Arc<DeadRange>| {
        size_of::<DeadRange>() + range.start.capacity() + range.end.capacity()
    };
    ranges.iter().map(bytes).sum()
}

/// The place of the range that `key` lies in.
fn covering(ranges: &Ranges, key: &[u8]) -> Option<usize> {
    let at = ranges.partition_point(|range| range.end.as_slice() <= key);
    ranges.get(at).is_some_and(|range| range.start.as_slice() <= key).then_some(at)
}

/// The ranges that overlap a run, and new ones for what of the run none covers. What is only
/// watched ends at the run's ends: nothing says that scans come to the rest of it again.
fn watched_anew(overlapping: &[Arc<DeadRange>], run: &DeadRun) -> Ranges {
    let fresh = |start: &[u8], end: &[u8]| {
        Arc::new(DeadRange {
            start: start.to_vec(),
            end: end.to_vec(),
            watched_from: SequenceNumber::MAX,
            dead_from: None,
            now: 0,
            weight: run.passed,
            cuts: 0,
        })
    };
    let mut ranges = Ranges::new();
    let mut at = &run.start;
    for range in overlapping {
        if *at < range.start {
            ranges.push(fresh(at, &range.start));
        }
        ranges.push(if range.dead_from.is_some() {
            Arc::clone(range)
        } else {
            let start = range.start.clone().max(run.start.clone());
            let end = range.end.clone().min(run.end.clone());
            Arc::new(DeadRange { start, end, ..(**range).clone() })
        });
        at = at.max(&range.end);
    }
    if *at < run.end {
        ranges.push(fresh(at, &run.end));
    }
    ranges
}

/// Neighbours that fit made one.
fn joined(ranges: Ranges) -> Ranges {
    let mut result = Ranges::with_capacity(ranges.len());
    for mut range in ranges {
        while let Some(both) = result.last().and_then(|last| last.joined_with(&range)) {
            result.pop();
            range = Arc::new(both);
        }
        result.push(range);
    }
    result
}

/// The dead ranges as a scan that goes in one direction meets them.
#[derive(Clone, Debug)]
pub(crate) struct KnownRanges {
    ranges: Option<Arc<Ranges>>,
    reader: Reader,
    /// The first range that a scan going forward has not passed.
    next: usize,
    /// The place behind the last range that a scan going backward has not passed.
    behind: usize,
}

impl KnownRanges {
    /// Where what is dead around `key` ends, for a scan that only goes forward.
    #[inline]
    pub(crate) fn end_over(&mut self, key: &[u8]) -> Option<&[u8]> {
        let ranges = self.ranges.as_deref().map_or(&[][..], Vec::as_slice);
        let passed = |range: &Arc<DeadRange>| range.end.as_slice() <= key;
        while ranges.get(self.next).is_some_and(passed) {
            self.next += 1;
        }
        let mut end: Option<&[u8]> = None;
        while let Some(range) = ranges.get(self.next)
            && end.map_or(range.start.as_slice() <= key, |end| range.start == end)
            && range.is_dead_for(self.reader)
        {
            end = Some(&range.end);
            self.next += 1;
        }
        end
    }

    /// Where what is dead around `key` begins, for a scan that only goes backward.
    #[inline]
    pub(crate) fn start_over(&mut self, key: &[u8]) -> Option<&[u8]> {
        let ranges = self.ranges.as_deref().map_or(&[][..], Vec::as_slice);
        let passed = |range: &Arc<DeadRange>| range.start.as_slice() > key;
        while self.behind > 0 && ranges.get(self.behind - 1).is_some_and(passed) {
            self.behind -= 1;
        }
        let mut start: Option<&[u8]> = None;
        while let Some(range) = self.behind.checked_sub(1).and_then(|at| ranges.get(at))
            && start.map_or(range.end.as_slice() > key, |start| range.end == start)
            && range.is_dead_for(self.reader)
        {
            start = Some(&range.start);
            self.behind -= 1;
        }
        start
    }
}

#[cfg(test)]
mod tests;
