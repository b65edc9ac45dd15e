//! The memory budget: who holds how much, and what memtables may take.
//!
//! Memtables and the block cache count themselves; all others note here what they take and give
//! back. A plan (`levels`) is made when memtables reach the bound of the last one, or when the
//! others together have grown by a sixty-fourth of the budget since: by the thread that takes the
//! memory, so there is nothing to poll and no moment in which the budget is not watched.
//!
//! Any thread may call anything; no locks but those of cache and pool.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use tidesdb_base::event::MemoryLevel;
use tidesdb_base::options::{FamilyOptions, FilterKind};
use tidesdb_files::sstable::NodeMemory;
use tidesdb_lockfree::sync::{CachePadded, lock};

use tidesdb_lockfree::arena::BlockPool;

use super::levels::{MemoryPlan, MemoryUse, MemoryWish, plan};

/// Memory of retired memtables that is kept for the next ones, in bytes.
const RECYCLED_BYTES: u64 = 64 << 20;

/// Buffers of a table that is being written: blocks, index, compression, about.
const TABLE_WRITER_BYTES: u64 = 1 << 20;
/// What it keeps for each entry and Bloom filter until it is finished: a hash, and the filter.
const BLOOM_ENTRY_BYTES: u64 = 12;
/// As before, for a ribbon filter: a hash, an equation in two parts, and the filter.
const RIBBON_ENTRY_BYTES: u64 = 32;

/// What a thread of a compaction reads ahead, and what it needs to write a table, may take one part
/// in so many of the budget each.
const BUFFERS_SHARE: u64 = 32;
/// Tables have at least so many entries, however small the budget.
const LEAST_ENTRIES: u64 = 16 << 10;

/// What is kept for each entry of a table that is written.
fn entry_bytes(options: &FamilyOptions) -> u64 {
    let for_each = match options.filter_kind {
        FilterKind::Ribbon => RIBBON_ENTRY_BYTES,
        _ => BLOOM_ENTRY_BYTES,
    };
    let filters = u64::from(options.enable_bloom_filter) + u64::from(options.prefix_bytes > 0);
    filters * for_each
}

/// What the writing of a table of so many entries takes, about.
pub(crate) fn table_writer_bytes(options: &FamilyOptions, entries: u64) -> u64 {
    TABLE_WRITER_BYTES + entries * entry_bytes(options)
}

/// Index nodes that open tables hold may take one part in so many of the budget.
const INDEX_NODES_SHARE: u64 = 16;

/// Who holds memory that it notes by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    /// Indexes and filters of open tables.
    Tables,
    /// What is known of tables, open or not, the value logs that they point into included: counted
    /// up to one part in [`RECORD_PART`].
    TableRecords,
    /// Buffers of scans.
    Scans,
    /// Open transactions.
    Transactions,
    /// Buffers of flushes and compactions.
    Background,
    /// Families themselves, whatever they hold.
    Families,
    /// Range tombstones that lie in tables: counted up to one part in [`TOMBSTONE_PART`].
    RangeTombstones,
    /// Frozen memtables. The pool counts all memtables: this says how much flushes will give back.
    Frozen,
}

/// A cache whose size follows the plan.
pub(crate) trait BoundedCache: Debug + Send + Sync {
    /// Bytes that it holds.
    fn used_bytes(&self) -> u64;

    /// Bytes that it may hold.
    fn capacity_bytes(&self) -> u64;

    /// Changes what it may hold, and gives up what no longer fits.
    fn set_capacity(&self, bytes: u64);
}

/// Range tombstones in tables count up to one part in so many of the budget. No flush gives their
/// memory back, and with more than that all commits would wait for flushes that free nothing.
const TOMBSTONE_PART: u64 = 2;

/// What is known of tables that are not open counts up to one part in so many of the budget, for
/// the same reason: some 4,000 tables would fill the smallest, and a terabyte in value logs most.
const RECORD_PART: u64 = 4;

/// What memtables once took comes closer to what they take by one part in so many each minute.
const FORGOTTEN_PART: u64 = 16;
/// After so many minutes nothing is left of the difference.
const MOST_MINUTES: u64 = 1024;
const MINUTE_NANOS: u64 = 60_000_000_000;

/// What is left of `most` above `now` after so many minutes.
fn after_minutes(most: u64, now: u64, minutes: u64) -> u64 {
    let mut above = most.saturating_sub(now);
    for _ in 0..minutes.min(MOST_MINUTES) {
        above -= above.div_ceil(FORGOTTEN_PART);
    }
    now + above
}

/// Counts what is held by whom, and says when memory has to be given up.
// More than a dozen fields: counters that change each by itself, and what the last plan says.
#[derive(Debug)]
pub(crate) struct MemoryBudget {
    blocks: Arc<dyn BoundedCache>,
    memtables: Arc<BlockPool>,
    /// The budget in bytes; `u64::MAX` for none.
    budget: AtomicU64,
    /// What the options give the block cache.
    cache_wanted: AtomicU64,
    /// What the log's mapped segments take.
    log_bytes: u64,
    held: [AtomicU64; 8],
    /// What open tables hold of their index nodes; counts as held by tables as well.
    index_nodes: AtomicU64,
    /// What is remembered of finished serializable transactions.
    dependencies: AtomicU64,
    /// What holders took since the last plan, less what they gave back.
    grown: AtomicI64,
    /// The most that memtables took so far, as far as it was not forgotten since.
    most_memtables: AtomicU64,
    /// How far it was, in minutes of the monotonic clock.
    forgotten_minutes: AtomicU64,
    /// Bytes of memtables at which the next plan is due. Every commit reads it, so it lies apart
    /// from what others write.
    memtable_bound: CachePadded<AtomicU64>,
    /// Level of the last plan.
    level: Mutex<MemoryLevel>,
}

impl MemoryBudget {
    /// A budget of `bytes` over these and whatever is noted.
    pub(crate) fn new(
        bytes: u64,
        log_bytes: u64,
        blocks: Arc<dyn BoundedCache>,
        memtables: Arc<BlockPool>,
    ) -> Self {
        let budget = Self {
            cache_wanted: AtomicU64::new(blocks.capacity_bytes()),
            blocks,
            memtables,
            budget: AtomicU64::new(bytes),
            log_bytes,
            held: Default::default(),
            index_nodes: AtomicU64::new(0),
            dependencies: AtomicU64::new(0),
            grown: AtomicI64::new(0),
            most_memtables: AtomicU64::new(0),
            forgotten_minutes: AtomicU64::new(0),
            memtable_bound: CachePadded(AtomicU64::new(0)),
            level: Mutex::new(MemoryLevel::Normal),
        };
        budget.review();
        budget
    }

    /// The budget in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        // ORDERING: relaxed here and below; counters of the moment, each by itself.
        self.budget.load(Ordering::Relaxed)
    }

    /// What a thread of a compaction may take to read ahead.
    pub(crate) fn readahead_bytes(&self) -> u64 {
        self.bytes() / BUFFERS_SHARE
    }

    /// How many entries a table may have, for what its writing takes.
    pub(crate) fn entries_per_table(&self, options: &FamilyOptions) -> u64 {
        let room = (self.bytes() / BUFFERS_SHARE).saturating_sub(TABLE_WRITER_BYTES);
        (room / entry_bytes(options).max(1)).max(LEAST_ENTRIES)
    }

    /// Level of the last plan.
    pub(crate) fn level(&self) -> MemoryLevel {
        *lock(&self.level)
    }

    /// Changes the budget.
    pub(crate) fn set_bytes(&self, bytes: u64) {
        self.budget.store(bytes, Ordering::Relaxed);
        self.review();
    }

    /// Changes what the block cache may take when memory is not scarce.
    pub(crate) fn set_cache_wanted(&self, bytes: u64) {
        self.cache_wanted.store(bytes, Ordering::Relaxed);
        self.review();
    }

    /// True when memtables that take another `bytes` reach the bound of the last plan.
    #[inline]
    pub(crate) fn is_due(&self, bytes: u64) -> bool {
        self.memtables.used_bytes().saturating_add(bytes)
            > self.memtable_bound.load(Ordering::Relaxed)
    }

    /// Notes `bytes` more in use.
    pub(crate) fn take(&self, holder: Holder, bytes: u64) {
        // A scan begins with a loan of nothing, and all threads write to these counts.
        if bytes == 0 {
            return;
        }
        self.held[holder as usize].fetch_add(bytes, Ordering::Relaxed);
        if holder == Holder::Frozen {
            return;
        }
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX / 2);
        let grown = self.grown.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        if grown > 0 && grown.unsigned_abs() > self.bytes() / 64 {
            self.review();
            // The next writer takes part: what it may have to do, no other thread can.
            self.memtable_bound.store(0, Ordering::Relaxed);
        }
    }

    /// Notes `bytes` given back.
    pub(crate) fn give_back(&self, holder: Holder, bytes: u64) {
        if bytes == 0 {
            return;
        }
        self.held[holder as usize].fetch_sub(bytes, Ordering::Relaxed);
        if holder == Holder::Frozen {
            return;
        }
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX / 2);
        self.grown.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Notes what is remembered of finished serializable transactions: at most a small part of the
    /// budget, which the next plan takes into account.
    pub(crate) fn set_dependencies(&self, bytes: u64) {
        // Others read the word; it mostly stays zero.
        if self.dependencies.load(Ordering::Relaxed) != bytes {
            self.dependencies.store(bytes, Ordering::Relaxed);
        }
    }

    /// Counts `bytes` as held until the reservation is dropped. It never fails: what is over the
    /// budget slows writers down and shrinks the block cache.
    pub(crate) fn reserve(self: &Arc<Self>, holder: Holder, bytes: u64) -> MemoryReservation {
        self.take(holder, bytes);
        MemoryReservation { budget: Arc::clone(self), holder, bytes }
    }

    /// What one kind of holder has.
    pub(crate) fn held_by(&self, holder: Holder) -> u64 {
        // ORDERING: relaxed; an estimate.
        self.held[holder as usize].load(Ordering::Relaxed)
    }

    /// Who holds how much.
    pub(crate) fn held(&self) -> MemoryUse {
        let pool = self.memtables.usage();
        let held = |holder: Holder| self.held_by(holder);
        let tombstones = held(Holder::RangeTombstones).min(self.bytes() / TOMBSTONE_PART);
        let records = held(Holder::TableRecords).min(self.bytes() / RECORD_PART);
        MemoryUse {
            memtables: pool.used_bytes,
            recycled: pool.idle_bytes,
            block_cache: self.blocks.used_bytes(),
            tables: held(Holder::Tables) + records + tombstones,
            scans: held(Holder::Scans),
            transactions: held(Holder::Transactions) + self.dependencies.load(Ordering::Relaxed),
            background: held(Holder::Background),
            families: held(Holder::Families),
            log: self.log_bytes,
        }
    }

    /// What indexes and filters of open tables take.
    pub(crate) fn table_bytes(&self) -> u64 {
        self.held[Holder::Tables as usize].load(Ordering::Relaxed)
    }

    /// Lets what memtables once took come closer to what they take, by the monotonic clock: one
    /// burst must not keep the block cache small until the database is opened again. The next plan
    /// goes by it.
    pub(crate) fn forget_burst(&self, now_nanos: u64) {
        let minutes = now_nanos / MINUTE_NANOS;
        let through = self.forgotten_minutes.fetch_max(minutes, Ordering::Relaxed);
        if through >= minutes {
            return;
        }
        let (most, now) = (&self.most_memtables, self.memtables.used_bytes());
        let less = |most| Some(after_minutes(most, now, minutes - through));
        // Of two that change it at once, neither is lost.
        let _ = most.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    /// Forgets what memtables once took, where nothing is written any more. The next plan goes by
    /// it.
    pub(crate) fn forget_memtables(&self) {
        self.most_memtables.store(self.memtables.used_bytes(), Ordering::Relaxed);
    }

    /// Makes a plan from what is held now, and has block cache and recycled blocks follow it.
    pub(crate) fn review(&self) -> MemoryPlan {
        self.grown.store(0, Ordering::Relaxed);
        let held = self.held();
        let most = self.most_memtables.fetch_max(held.memtables, Ordering::Relaxed);
        let wanted = self.cache_wanted.load(Ordering::Relaxed);
        let wish = MemoryWish {
            budget: self.bytes(),
            cache: wanted,
            recycled: RECYCLED_BYTES,
            memtables: most.max(held.memtables),
        };
        let plan = plan(&held, &wish);
        let capacity = self.blocks.capacity_bytes();
        // Small changes are not worth a walk through the cache's shards, whose shares are rounded.
        let tolerance = if plan.cache_bytes == wanted { 64 } else { capacity / 32 };
        if plan.cache_bytes.abs_diff(capacity) > tolerance {
            self.blocks.set_capacity(plan.cache_bytes);
        }
        self.memtables.set_idle_cap_bytes(plan.recycled_bytes);
        self.memtables.set_largest_block_bytes(wish.budget / 32);
        self.memtable_bound.store(plan.memtable_bound, Ordering::Relaxed);
        *lock(&self.level) = plan.level;
        plan
    }
}

/// Index nodes of B+trees are held up to a share of the budget; what is beyond it goes through the
/// block cache.
impl NodeMemory for MemoryBudget {
    #[inline]
    fn has_room(&self) -> bool {
        self.index_nodes.load(Ordering::Relaxed) < self.bytes() / INDEX_NODES_SHARE
    }

    fn has_room_for(&self, bytes: u64) -> bool {
        let with_them = self.index_nodes.load(Ordering::Relaxed).saturating_add(bytes);
        with_them <= self.bytes() / INDEX_NODES_SHARE
    }

    fn take(&self, bytes: u64) {
        self.index_nodes.fetch_add(bytes, Ordering::Relaxed);
        Self::take(self, Holder::Tables, bytes);
    }

    fn give_back(&self, bytes: u64) {
        self.index_nodes.fetch_sub(bytes, Ordering::Relaxed);
        Self::give_back(self, Holder::Tables, bytes);
    }

    fn take_table(&self, bytes: u64) {
        Self::take(self, Holder::Tables, bytes);
    }

    fn give_back_table(&self, bytes: u64) {
        Self::give_back(self, Holder::Tables, bytes);
    }
}

/// Memory that counts in the budget until this is dropped.
#[derive(Debug)]
pub(crate) struct MemoryReservation {
    budget: Arc<MemoryBudget>,
    holder: Holder,
    bytes: u64,
}

impl MemoryReservation {
    /// Notes that it is so many bytes now.
    pub(crate) fn change_to(&mut self, bytes: u64) {
        if bytes > self.bytes {
            self.budget.take(self.holder, bytes - self.bytes);
        } else {
            self.budget.give_back(self.holder, self.bytes - bytes);
        }
        self.bytes = bytes;
    }

    /// What is noted, in bytes.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for MemoryReservation {
    fn drop(&mut self) {
        self.budget.give_back(self.holder, self.bytes);
    }
}

#[cfg(test)]
mod tests;
