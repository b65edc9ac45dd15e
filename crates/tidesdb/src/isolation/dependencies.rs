//! What serializable transactions have read and which of them are pivots: enough to refuse each
//! commit that could close a cycle.
//!
//! Serializable snapshot isolation: transactions read a snapshot, and the first committer of a key
//! wins. Such a history is serializable unless it contains a *dangerous structure*: three
//! transactions in a row, each of which read something that the next one overwrote, T1 → T2 → T3
//! (T1 and T3 may be the same), where T3 committed first of the three; and, if T1 wrote nothing,
//! before T1's snapshot. Of each such row the last to commit is refused. All commits are judged one
//! after the other, in the order of their sequence numbers, so T3 is always committed when the row
//! is complete:
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

mod pivots;
mod points;
mod ranges;

use tidesdb_base::live_sequences::LiveSequences;

use self::pivots::Pivots;
use self::points::Points;
use self::ranges::Ranges;
use super::out_conflicts::OutConflicts;

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
    /// Which commits have overwritten what it read.
    pub conflicts: &'a OutConflicts,
}

/// Why a commit could close a cycle: it would complete a dangerous structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DangerousStructure<'a> {
    /// It is the first of a row: a pivot has overwritten what it read.
    MeetsPivot,
    /// It is the second of a row, between those who have read this key and those who have
    /// overwritten what it read itself.
    IsPivot { family: u32, key: &'a [u8] },
}

/// What serializable transactions have read, live ones and those that were concurrent with them.
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
        self.points.clear();
        self.ranges.clear();
        self.pivots.clear();
        self.recording.clear();
        self.everything = 0;
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
        (self.points.bytes + self.ranges.bytes + self.pivots.memory_bytes()) as u64
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
    pub(crate) fn dangerous_structure<'a>(
        &self,
        candidate: Candidate<'_>,
        mut written: impl Iterator<Item = (u32, &'a [u8])>,
    ) -> Option<DangerousStructure<'a>> {
        self.structure_over(candidate, |first| {
            let mut scratch = Vec::new();
            written.find(|(family, key)| first <= self.limit(*family, key, &mut scratch))
        })
    }

    /// As [`Dependencies::dangerous_structure`], for many written keys, which are sorted: where
    /// less is recorded than is written, what is recorded is searched in what is written.
    pub(crate) fn dangerous_structure_of_many<'a>(
        &self,
        candidate: Candidate<'_>,
        written: &[(u32, &'a [u8])],
    ) -> Option<DangerousStructure<'a>> {
        if self.points.limits.len() + self.ranges.steps() >= written.len() {
            return self.dangerous_structure(candidate, written.iter().copied());
        }
        self.structure_over(candidate, |first| {
            if first <= self.limit_of_all() {
                return written.first().copied();
            }
            let point = self.points.any_of(first, written);
            point.or_else(|| self.ranges.any_of(first, written))
        })
    }

    /// Whether the candidate is in a row; `pivoting_key` finds a written key of which the limit is
    /// no less than a number, and which makes the candidate the second then.
    fn structure_over<'a>(
        &self,
        candidate: Candidate<'_>,
        pivoting_key: impl FnOnce(u64) -> Option<(u32, &'a [u8])>,
    ) -> Option<DangerousStructure<'a>> {
        // Nothing that it read was overwritten: it is neither of the first two of a row.
        if candidate.conflicts.is_empty() {
            return None;
        }
        if self.pivots.overwrote_reads_of(candidate) {
            return Some(DangerousStructure::MeetsPivot);
        }
        let (family, key) = pivoting_key(candidate.conflicts.oldest(candidate.snapshot)?)?;
        Some(DangerousStructure::IsPivot { family, key })
    }

    /// No key has a lower limit.
    fn limit_of_all(&self) -> u64 {
        self.everything.max(self.recording.iter().copied().max().unwrap_or(0))
    }

    fn limit(&self, family: u32, key: &[u8], scratch: &mut Vec<u8>) -> u64 {
        let point = self.points.limit(family, key, scratch);
        self.limit_of_all().max(self.ranges.limit(family, key)).max(point)
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
            && let Some(first) = candidate.conflicts.oldest(candidate.snapshot)
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
        self.points.raise(family, key, limit);
        if self.points.wants_sweep(self.most_bytes()) {
            self.points.sweep(self.oldest());
            if self.points.bytes > self.most_bytes() / 2 {
                let median = self.points.halve();
                self.raise_everything(median);
            }
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
        self.ranges.raise(family, (start, end), limit, oldest);
        if self.ranges.bytes > self.most_bytes() {
            self.ranges.sweep(oldest);
            if self.ranges.bytes > self.most_bytes() / 2 {
                let highest = self.ranges.take_highest();
                self.raise_everything(highest);
            }
        }
    }

    fn raise_everything(&mut self, limit: u64) {
        self.everything = self.everything.max(limit);
        self.coarsened += 1;
    }

    fn sweep_pivots(&mut self) {
        self.pivots.sweep(self.oldest());
        if self.pivots.memory_bytes() > self.most_bytes() {
            self.pivots.halve();
            self.coarsened += 1;
        }
    }

    /// Limits and pivots up to this sequence number say nothing any more.
    fn oldest(&self) -> u64 {
        self.live.oldest().unwrap_or(u64::MAX - 1)
    }
}

#[cfg(test)]
mod tests;
