//! Who read what of the serializable transactions: enough to refuse each commit that could close a
//! cycle.
//!
//! Serializable snapshot isolation: transactions read a snapshot, and the first committer of a key
//! wins. Such a history is serializable unless it contains three transactions in a row, each of
//! which read something that the next one overwrote, T1 → T2 → T3 (T1 and T3 may be the same),
//! where T3 committed first of the three; and, if T1 wrote nothing, before T1's snapshot. Of each
//! such row the last to commit is refused. All commits are judged one after the other, in the order
//! of their sequence numbers, so T3 is always committed when the row is complete:
//!
//! * T2 last: it finds its own reads overwritten (the caller looks into the data for that), the
//!   oldest time by T3, and here who had read what it writes. Of those only the *limit* counts, up
//!   to which T3 would have been first: T1's sequence number, or its snapshot if it only read.
//! * T1 last: it finds its reads overwritten by T2, and here that T2 was such a *pivot*.
//!
//! So the state is a number per key and per range read, and one per pivot. Numbers up to the oldest
//! live snapshot say nothing any more: they need not be removed at a given time, and they are swept
//! out when a table has doubled. When what is alive itself outgrows its bound, one number for all
//! keys takes the place of the tables: conflicts that are not needed may follow, but none is
//! missed.
//!
//! Pure: called by the transactions' commits with its lock held, and knows nothing of the engine.

mod overwritten;

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

use tidesdb_base::live_sequences::LiveSequences;

pub(crate) use self::overwritten::Overwritten;

/// Entries of a table that are not worth a sweep.
const FEW_ENTRIES: usize = 256;

/// Bytes that points, ranges and pivots may take each at most: a millisecond to sweep.
const MOST_BYTES: usize = 1 << 20;

/// About what an entry takes besides its key.
const ENTRY_BYTES: usize = 64;

/// A transaction that is about to commit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate<'a> {
    /// What it read as of.
    pub snapshot: u64,
    /// The sequence number it will have; none when it wrote nothing.
    pub commit: Option<u64>,
    pub overwritten: &'a Overwritten,
}

/// Why a commit could close a cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Danger<'a> {
    /// It is the first of a row: a pivot has overwritten what it read.
    MeetsPivot,
    /// It is the second of a row, between those who have read this key and those who have
    /// overwritten what it read itself.
    IsPivot { family: u32, key: &'a [u8] },
}

/// Limits of ranges of one family: each entry holds from its key up to the next entry's.
#[derive(Debug, Default)]
struct RangeLimits {
    steps: BTreeMap<Vec<u8>, u64>,
    /// Number of steps after the last sweep.
    kept: usize,
}

/// About what the steps of a family take.
fn bytes_of(ranges: &RangeLimits) -> usize {
    ranges.steps.keys().map(|key| key.len() + ENTRY_BYTES).sum()
}

impl RangeLimits {
    fn limit(&self, key: &[u8]) -> u64 {
        let below = (Bound::Unbounded, Bound::Included(key));
        self.steps.range::<[u8], _>(below).next_back().map_or(0, |(_, &limit)| limit)
    }

    /// Raises the limit of `[start, end)` to at least `limit`.
    fn raise(&mut self, start: &[u8], end: Option<&[u8]>, limit: u64) {
        if end.is_some_and(|end| end <= start) {
            return;
        }
        if let Some(end) = end {
            let behind = self.limit(end);
            self.steps.entry(end.to_vec()).or_insert(behind);
        }
        let before = self.limit(start);
        self.steps.entry(start.to_vec()).or_insert(before);
        let covered = (Bound::Included(start), end.map_or(Bound::Unbounded, Bound::Excluded));
        let mut last = None;
        let mut merged = Vec::new();
        for (key, step) in self.steps.range_mut::<[u8], _>(covered) {
            *step = limit.max(*step);
            if last == Some(*step) {
                merged.push(key.clone());
            }
            last = Some(*step);
        }
        for key in merged {
            self.steps.remove(&key);
        }
    }

    fn sweep(&mut self, oldest: u64) {
        let mut last = 0;
        self.steps.retain(|_, limit| {
            if *limit <= oldest {
                *limit = 0;
            }
            let needed = *limit != last;
            last = *limit;
            needed
        });
        self.kept = self.steps.len();
    }
}

/// Keys that were read.
#[derive(Debug, Default)]
struct Points {
    /// Limits of keys, each behind its family's number.
    limits: HashMap<Box<[u8]>, u64>,
    /// About what they take.
    bytes: usize,
    /// Number of keys after the last sweep.
    kept: usize,
}

/// Ranges that were read.
#[derive(Debug, Default)]
struct Ranges {
    /// By the family's number.
    of: HashMap<u32, RangeLimits>,
    /// About what they take; not less.
    bytes: usize,
}

/// Commits that were the second of a row.
#[derive(Debug, Default)]
struct Pivots {
    /// Sequence number of T2, and of the oldest T3.
    rows: BTreeMap<u64, u64>,
    /// Every commit up to this one counts as a pivot.
    through: u64,
}

/// What serializable transactions have read, live ones and those that finished beside them.
#[derive(Debug, Default)]
pub(crate) struct Dependencies {
    /// Snapshots of the live serializable transactions.
    live: LiveSequences,
    /// Highest sequence number recorded.
    last_commit: u64,
    points: Points,
    ranges: Ranges,
    pivots: Pivots,
    /// Of [`MOST_BYTES`], what the memory budget allows; zero when it was not asked.
    most_bytes: usize,
    /// Limit of every key there is.
    everything: u64,
    /// Limits of commits whose reads are being recorded: until that is done each counts as one that
    /// has read everything.
    recording: Vec<u64>,
    /// There may be limits or pivots.
    has_records: bool,
    /// Times that a table was given up for one number.
    coarsened: u64,
    scratch: Vec<u8>,
}

impl Dependencies {
    /// A serializable transaction has taken its snapshot. Everything recorded is visible in it.
    #[inline]
    pub(crate) fn begin(&mut self, snapshot: u64) {
        self.live.add(snapshot);
    }

    /// A transaction is finished, and its commit published if it has one.
    #[inline]
    pub(crate) fn end(&mut self, snapshot: u64) {
        self.live.remove(snapshot);
        if self.has_records && self.live.is_empty() {
            self.forget_all();
        }
    }

    /// A transaction that begins next sees everything that was recorded.
    #[inline(never)]
    fn forget_all(&mut self) {
        self.has_records = false;
        self.points.limits.clear();
        self.points.limits.shrink_to(FEW_ENTRIES);
        self.ranges.of.clear();
        self.pivots.rows.clear();
        self.recording.clear();
        (self.everything, self.pivots.through) = (0, 0);
        (self.points.bytes, self.points.kept, self.ranges.bytes) = (0, 0, 0);
    }

    /// Bounds the memory: a third of `bytes` each for points, ranges and pivots.
    pub(crate) fn set_most_bytes(&mut self, bytes: u64) {
        self.most_bytes = usize::try_from(bytes / 3).unwrap_or(usize::MAX);
    }

    fn most_bytes(&self) -> usize {
        if self.most_bytes == 0 { MOST_BYTES } else { self.most_bytes.min(MOST_BYTES) }
    }

    /// About how many bytes of memory are held.
    pub(crate) fn memory_bytes(&self) -> u64 {
        (self.points.bytes + self.ranges.bytes + self.pivots.rows.len() * ENTRY_BYTES) as u64
    }

    /// Highest sequence number of a serializable commit.
    pub(crate) const fn last_commit(&self) -> u64 {
        self.last_commit
    }

    /// Times that memory was bounded at the cost of conflicts that were not needed.
    pub(crate) const fn coarsened(&self) -> u64 {
        self.coarsened
    }

    /// True when nothing that is recorded, and no transaction that is running, can conflict with
    /// the only live transaction.
    pub(crate) const fn is_alone(&self) -> bool {
        self.live.len() <= 1 && !self.has_records
    }

    /// Whether, and why, the commit of `candidate`, which writes the keys `written`, could close a
    /// cycle.
    pub(crate) fn danger<'a>(
        &self,
        candidate: Candidate<'_>,
        written: impl Iterator<Item = (u32, &'a [u8])>,
    ) -> Option<Danger<'a>> {
        // Nothing that it read was overwritten: it is neither of the first two of a row.
        if candidate.overwritten.is_empty() {
            return None;
        }
        if self.meets_pivot(candidate) {
            return Some(Danger::MeetsPivot);
        }
        self.pivoting_key(candidate, written).map(|(family, key)| Danger::IsPivot { family, key })
    }

    fn meets_pivot(&self, candidate: Candidate<'_>) -> bool {
        let oldest = candidate.overwritten.oldest(candidate.snapshot);
        if oldest.is_some_and(|oldest| oldest <= self.pivots.through) {
            return true;
        }
        if self.pivots.rows.is_empty() {
            return false;
        }
        // Of a transaction that only read, the row's end must have been there before its snapshot.
        let first = |last: u64| candidate.commit.is_some() || last <= candidate.snapshot;
        let Overwritten { commits, hidden_through, any_through, is_sorted, .. } =
            candidate.overwritten;
        let found = if *is_sorted && commits.len() > self.pivots.rows.len() {
            let is_known = |commit: &u64| commits.binary_search(commit).is_ok();
            self.pivots.rows.iter().any(|(commit, &last)| first(last) && is_known(commit))
        } else {
            commits.iter().filter_map(|commit| self.pivots.rows.get(commit)).copied().any(first)
        };
        if found {
            return true;
        }
        let through = *hidden_through.max(any_through);
        through > candidate.snapshot && {
            let span = candidate.snapshot + 1..=through;
            self.pivots.rows.range(span).any(|(_, &last)| first(last))
        }
    }

    /// A written key that makes the candidate a pivot.
    fn pivoting_key<'a>(
        &self,
        candidate: Candidate<'_>,
        mut written: impl Iterator<Item = (u32, &'a [u8])>,
    ) -> Option<(u32, &'a [u8])> {
        let first = candidate.overwritten.oldest(candidate.snapshot)?;
        let mut scratch = Vec::new();
        written.find(|(family, key)| first <= self.limit(*family, key, &mut scratch))
    }

    fn limit(&self, family: u32, key: &[u8], scratch: &mut Vec<u8>) -> u64 {
        let ranges = self.ranges.of.get(&family).map_or(0, |ranges| ranges.limit(key));
        set_point(scratch, family, key);
        let point = self.points.limits.get(scratch.as_slice()).copied().unwrap_or(0);
        let recording = self.recording.iter().copied().max().unwrap_or(0);
        self.everything.max(recording).max(ranges).max(point)
    }

    /// Puts off the recording of reads that are too many for one go: until
    /// [`Dependencies::end_recording`] the commit counts as one that has read everything.
    pub(crate) fn begin_recording(&mut self, limit: u64) {
        self.recording.push(limit);
    }

    /// All reads of the commit are recorded.
    pub(crate) fn end_recording(&mut self, limit: u64) {
        if let Some(at) = self.recording.iter().position(|&other| other == limit) {
            self.recording.swap_remove(at);
        }
    }

    /// Records a commit that was not dangerous, and says whether its reads are needed: then
    /// [`Dependencies::record_point`] and [`Dependencies::record_range`] follow for each.
    pub(crate) fn record(&mut self, candidate: Candidate<'_>) -> Option<u64> {
        self.last_commit = self.last_commit.max(candidate.commit.unwrap_or(0));
        // Alone: a transaction that begins later sees this commit.
        if self.live.len() <= 1 {
            return None;
        }
        self.has_records = true;
        if let Some(commit) = candidate.commit
            && let Some(first) = candidate.overwritten.oldest(candidate.snapshot)
        {
            self.pivots.rows.insert(commit, first);
            self.sweep_pivots();
        }
        let limit = candidate.commit.unwrap_or(candidate.snapshot);
        (limit > self.oldest()).then_some(limit)
    }

    /// Records that a key was read.
    pub(crate) fn record_point(&mut self, family: u32, key: &[u8], limit: u64) {
        if limit <= self.everything {
            return;
        }
        let mut point = std::mem::take(&mut self.scratch);
        set_point(&mut point, family, key);
        match self.points.limits.get_mut(point.as_slice()) {
            Some(known) => *known = limit.max(*known),
            None => {
                self.points.bytes += point.len() + ENTRY_BYTES;
                self.points.limits.insert(point.as_slice().into(), limit);
            }
        }
        self.scratch = point;
        let grown = self.points.limits.len() > 2 * self.points.kept + FEW_ENTRIES;
        if grown || self.points.bytes > self.most_bytes() {
            self.sweep_points();
        }
    }

    /// Records that the range `[start, end)` was read.
    pub(crate) fn record_range(
        &mut self,
        family: u32,
        start: &[u8],
        end: Option<&[u8]>,
        limit: u64,
    ) {
        let oldest = self.oldest();
        let ranges = self.ranges.of.entry(family).or_default();
        ranges.raise(start, end, limit);
        // Steps that went meanwhile are counted until the next sweep.
        self.ranges.bytes += start.len() + end.map_or(0, <[u8]>::len) + 2 * ENTRY_BYTES;
        if ranges.steps.len() > 2 * ranges.kept + FEW_ENTRIES {
            ranges.sweep(oldest);
            self.ranges.bytes = self.ranges.of.values().map(bytes_of).sum();
        }
        if self.ranges.bytes > self.most_bytes() {
            self.bound_ranges();
        }
    }

    #[cold]
    fn bound_ranges(&mut self) {
        let oldest = self.oldest();
        self.ranges.of.values_mut().for_each(|ranges| ranges.sweep(oldest));
        self.ranges.of.retain(|_, ranges| !ranges.steps.is_empty());
        self.ranges.bytes = self.ranges.of.values().map(bytes_of).sum();
        if self.ranges.bytes > self.most_bytes() / 2 {
            let limits = self.ranges.of.values().flat_map(|ranges| ranges.steps.values());
            let highest = limits.max().copied().unwrap_or(0);
            self.ranges.of = HashMap::new();
            self.ranges.bytes = 0;
            self.raise_everything(highest);
        }
    }

    fn sweep_points(&mut self) {
        let oldest = self.oldest();
        self.points.limits.retain(|_, limit| *limit > oldest);
        self.count_points();
        if self.points.bytes > self.most_bytes() / 2 {
            self.halve_points();
        }
    }

    /// Makes one number of the lower half of the limits: those who began lately are not concerned.
    #[cold]
    fn halve_points(&mut self) {
        let mut limits: Vec<u64> = self.points.limits.values().copied().collect();
        let middle = limits.len() / 2;
        let (_, &mut median, _) = limits.select_nth_unstable(middle);
        self.points.limits.retain(|_, limit| *limit > median);
        self.points.limits.shrink_to_fit();
        self.count_points();
        self.raise_everything(median);
    }

    fn count_points(&mut self) {
        self.points.kept = self.points.limits.len();
        self.points.bytes = self.points.limits.keys().map(|key| key.len() + ENTRY_BYTES).sum();
    }

    fn raise_everything(&mut self, limit: u64) {
        self.everything = self.everything.max(limit);
        self.coarsened += 1;
    }

    fn sweep_pivots(&mut self) {
        let oldest = self.oldest();
        while let Some(first) = self.pivots.rows.first_entry()
            && *first.key() <= oldest
        {
            first.remove();
        }
        if self.pivots.rows.len() * ENTRY_BYTES > self.most_bytes() {
            // The older half: those who began lately are not concerned.
            let middle =
                self.pivots.rows.keys().nth(self.pivots.rows.len() / 2).copied().unwrap_or(0);
            self.pivots.rows = self.pivots.rows.split_off(&(middle + 1));
            self.pivots.through = middle;
            self.coarsened += 1;
        }
    }

    /// Limits and pivots up to this sequence number say nothing any more.
    fn oldest(&self) -> u64 {
        self.live.oldest().unwrap_or(u64::MAX - 1)
    }
}

fn set_point(point: &mut Vec<u8>, family: u32, key: &[u8]) {
    point.clear();
    point.extend_from_slice(&family.to_be_bytes());
    point.extend_from_slice(key);
}

#[cfg(test)]
mod tests;
