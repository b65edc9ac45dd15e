//! Counters of a family's work, for statistics.
//!
//! What every put and get counts lies in stripes of the threads ([`HotCounters`]); a get tallies on
//! its stack first ([`ReadTally`]). What flushes and compactions count is shared. A family that is
//! dropped leaves its counts to the database, whose sums never fall.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidesdb_base::event::OperationProfile;
use tidesdb_lockfree::stripe::{StripedCounters, ThisThread};

/// What puts, gets and scans count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Hot {
    UserBytes,
    Operations,
    LogBytes,
    TableGets,
    Seeks,
    FiltersAsked,
    FiltersExcluded,
    FiltersWrong,
    TablesSearched,
    BlocksCached,
    BlocksRead,
    ValuesRead,
}

const HOT: usize = Hot::ValuesRead as usize + 1;

/// Counters of a family that its writers and readers change.
#[derive(Debug, Default)]
pub(crate) struct HotCounters(StripedCounters<HOT>);

impl HotCounters {
    /// Counts a commit: bytes of keys and values, operations, bytes of log.
    #[inline(always)]
    pub(crate) fn add_commit(&self, user_bytes: u64, operations: u64, log_bytes: u64) {
        let mine = self.0.mine();
        mine.add(Hot::UserBytes as usize, user_bytes);
        mine.add(Hot::Operations as usize, operations);
        mine.add(Hot::LogBytes as usize, log_bytes);
    }

    /// Counts something by the calling thread.
    #[inline]
    pub(crate) fn add(&self, what: Hot, amount: u64) {
        self.add_by(ThisThread::get(), what, amount);
    }

    /// As [`HotCounters::add`], where the thread's number is known.
    #[inline]
    pub(crate) fn add_by(&self, thread: ThisThread, what: Hot, amount: u64) {
        self.0.of(thread).add(what as usize, amount);
    }

    /// Counts gets that came to the tables.
    #[inline]
    pub(crate) fn add_table_gets(&self, thread: ThisThread, gets: u64, tally: &ReadTally) {
        let mine = self.0.of(thread);
        mine.add(Hot::TableGets as usize, gets);
        let add = |what: Hot, part: &Cell<u32>| mine.add(what as usize, u64::from(part.get()));
        add(Hot::FiltersAsked, &tally.filters_asked);
        add(Hot::FiltersExcluded, &tally.filters_excluded);
        add(Hot::FiltersWrong, &tally.filters_wrong);
        add(Hot::TablesSearched, &tally.tables_searched);
        add(Hot::BlocksCached, &tally.blocks_cached);
        add(Hot::BlocksRead, &tally.blocks_read);
    }

    /// Blocks that the thread has found in the cache, and that it has read.
    pub(crate) fn my_blocks(&self) -> [u64; 2] {
        let mine = self.0.mine();
        [Hot::BlocksCached, Hot::BlocksRead].map(|what| mine.get(what as usize))
    }

    /// Operations that writers have committed.
    pub(crate) fn operations(&self) -> u64 {
        self.0.totals()[Hot::Operations as usize]
    }
}

/// What one get has met. Counted without any shared write.
#[derive(Debug, Default)]
pub(crate) struct ReadTally {
    pub memtables_searched: Cell<u32>,
    pub filters_asked: Cell<u32>,
    pub filters_excluded: Cell<u32>,
    pub filters_wrong: Cell<u32>,
    pub tables_searched: Cell<u32>,
    pub blocks_cached: Cell<u32>,
    pub blocks_read: Cell<u32>,
    pub values_read: Cell<u32>,
}

impl ReadTally {
    /// The same in the form of reports.
    pub(crate) fn profile(&self) -> OperationProfile {
        let mut profile = OperationProfile::default();
        profile.memtables_searched = u64::from(self.memtables_searched.get());
        profile.tables_searched = u64::from(self.tables_searched.get());
        profile.filters_excluded = u64::from(self.filters_excluded.get());
        profile.blocks_cached = u64::from(self.blocks_cached.get());
        profile.blocks_read = u64::from(self.blocks_read.get());
        profile.values_read = u64::from(self.values_read.get());
        profile
    }
}

/// Adds one to a part of a tally.
#[inline]
pub(crate) fn tick(part: &Cell<u32>) {
    part.set(part.get() + 1);
}

/// What freezes, flushes and compactions count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Work {
    MemtablesFrozen,
    Flushes,
    FlushFailures,
    FlushNanos,
    FlushBytes,
    FlushTables,
    Compactions,
    CompactionFailures,
    CompactionNanos,
    CompactionSlices,
    CompactionSteps,
    CompactionTables,
    CompactionBytesWritten,
    CompactionBytesRead,
}

const WORK: usize = Work::CompactionBytesRead as usize + 1;

/// All counters of a family.
#[derive(Debug, Default)]
pub(crate) struct FamilyCounters {
    /// Shared with scans.
    pub hot: Arc<HotCounters>,
    work: [AtomicU64; WORK],
}

/// What the counters of a family, or of several, say.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counted {
    hot: [u64; HOT],
    work: [u64; WORK],
}

impl FamilyCounters {
    /// Counts background work.
    pub(crate) fn add(&self, what: Work, amount: u64) {
        // ORDERING: a statistic.
        self.work[what as usize].fetch_add(amount, Ordering::Relaxed);
    }

    /// What the counters say now.
    pub(crate) fn counted(&self) -> Counted {
        // ORDERING: statistics.
        let work = std::array::from_fn(|at| self.work[at].load(Ordering::Relaxed));
        Counted { hot: self.hot.0.totals(), work }
    }
}

impl Counted {
    /// Adds those of another family.
    pub(crate) fn add(&mut self, other: &Self) {
        let hot = self.hot.iter_mut().zip(other.hot);
        let work = self.work.iter_mut().zip(other.work);
        hot.chain(work).for_each(|(sum, more)| *sum += more);
    }

    pub(crate) const fn hot(&self, what: Hot) -> u64 {
        self.hot[what as usize]
    }

    pub(crate) const fn work(&self, what: Work) -> u64 {
        self.work[what as usize]
    }
}
