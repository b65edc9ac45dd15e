//! The arena: memory of one memtable, handed out by bumping a cursor, freed all at once.
//!
//! An [`Arena`] cuts allocations from blocks that it takes from a [`BlockPool`] and gives back when
//! it is dropped. Nothing is freed earlier, so an `Offset` that was ever handed out stays valid
//! for the life of the arena: the ordered indexes rely on that to let readers follow stale links.
//! Offsets count units of eight bytes in 32 bits, so that links in index nodes are half the size
//! of pointers and an arena may hold 32 GiB.
//!
//! Threads: any thread may allocate; the common case is one `fetch_add`. Taking a new block holds
//! a mutex. Blocks start at 4 KiB and grow to [`BLOCK_BYTES`], so an idle arena costs nothing.
//!
//! Invariants: a block's address never changes; `cursor` names the block that is being filled and
//! how far; a table entry is written before any offset into its block exists.

#![expect(unsafe_code, reason = "hands out raw memory; the safe indexes are built on top of it")]

use std::fmt;
use std::num::NonZeroU32;
use std::ptr;
// The arena deliberately uses the standard atomics in loom models too: the models are about the
// indexes, and every look-up of a block address as a scheduling point would make them explode.
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

mod pool;
#[cfg(all(test, not(loom)))]
mod tests;

pub use pool::{BLOCK_BYTES, BlockPool, PoolUsage};

use pool::Block;

/// Bytes in one unit of an `Offset`; every allocation is a multiple of it and aligned to it.
pub const UNIT_BYTES: usize = 8;
const BLOCK_UNITS: u64 = (BLOCK_BYTES / UNIT_BYTES) as u64;
const BLOCK_SHIFT: u32 = BLOCK_UNITS.trailing_zeros();
/// Blocks an arena can address: 32 bits of offset less those that address within a block.
const MAX_BLOCKS: usize = 1 << (32 - BLOCK_SHIFT);
/// Blocks whose addresses lie in the arena itself; the rest need a table that most never grow.
const INLINE_BLOCKS: usize = 64;
/// Block sizes in the order in which an arena takes them; the last one repeats.
const CLASS_BYTES: [usize; 6] = [4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, BLOCK_BYTES];
/// Larger requests get a block of their own, so that the tail of a block is never a large waste.
const OWN_BLOCK_BYTES: usize = BLOCK_BYTES / 4;

/// Bytes of a [`Part`], and of an arena from which on there are any.
const PART_BYTES: usize = 32 << 10;
const LEAST_PARTED_BYTES: u64 = 4 << 20;

/// Memory of an arena that one thread hands out alone. What is left when it is dropped is not used.
#[derive(Debug, Default)]
pub struct Part {
    /// Offset of what is left, in units.
    next: u32,
    /// Units.
    left: usize,
}

/// The arena's limit (its own, or 32 GiB, or the machine's memory) leaves no room for the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArenaFull;

impl fmt::Display for ArenaFull {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("memtable arena is full")
    }
}

impl std::error::Error for ArenaFull {}

/// Where an allocation lies in its arena, in units of [`UNIT_BYTES`]; never zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Offset(NonZeroU32);

impl Offset {
    /// The offset that a link field holds, or none for an empty link.
    #[inline]
    pub(crate) fn from_raw(raw: u32) -> Option<Self> {
        NonZeroU32::new(raw).map(Self)
    }

    /// The offset as stored in a link field; zero never occurs.
    #[inline]
    pub(crate) fn raw(self) -> u32 {
        self.0.get()
    }
}

/// Block being filled, its size class and the units handed out, packed in one word so that one
/// `fetch_add` both claims room and learns in which block.
#[derive(Debug, Clone, Copy)]
struct Cursor {
    block: u64,
    class: u64,
    unit: u64,
}

impl Cursor {
    const UNIT_BITS: u32 = 40;
    const CLASS_BITS: u32 = 4;
    /// The class that stands for "no block yet": capacity zero.
    const NO_CLASS: u64 = (1 << Self::CLASS_BITS) - 1;
    const START: Self = Self { block: 0, class: Self::NO_CLASS, unit: 0 };

    #[inline]
    fn unpack(word: u64) -> Self {
        Self {
            block: word >> (Self::UNIT_BITS + Self::CLASS_BITS),
            class: (word >> Self::UNIT_BITS) & ((1 << Self::CLASS_BITS) - 1),
            unit: word & ((1 << Self::UNIT_BITS) - 1),
        }
    }

    fn pack(self) -> u64 {
        (self.block << (Self::UNIT_BITS + Self::CLASS_BITS))
            | (self.class << Self::UNIT_BITS)
            | self.unit
    }

    /// Units in the block; computed, so that the fast path reads nothing but the cursor.
    #[inline]
    fn capacity_units(self) -> u64 {
        match CLASS_BYTES.get(self.class as usize) {
            Some(&bytes) => (bytes / UNIT_BYTES) as u64,
            None => 0,
        }
    }
}

/// What the growth mutex protects.
struct Growth {
    blocks: Vec<Block>,
    /// Table entries taken so far; more than `blocks` when one block spans several entries.
    next_block: usize,
    next_class: usize,
}

/// What each insert of a key writes to: on one cache line, which it then has for the second write.
#[derive(Debug)]
#[repr(C, align(16))]
struct Ends {
    cursor: AtomicU64,
    /// Keys of the index.
    keys: AtomicU64,
}

/// A growing region of memory for one index.
pub struct Arena {
    ends: Ends,
    /// Bytes of sealed blocks and of blocks of their own that were handed out.
    sealed_bytes: AtomicU64,
    allocated_bytes: AtomicU64,
    limit_bytes: u64,
    inline_table: [AtomicPtr<u8>; INLINE_BLOCKS],
    overflow_table: OnceLock<Box<[AtomicPtr<u8>]>>,
    growth: Mutex<Growth>,
    pool: Arc<BlockPool>,
}

impl Arena {
    /// An empty arena that may take up to `limit_bytes` of blocks from `pool`. It takes none yet.
    pub fn new(pool: Arc<BlockPool>, limit_bytes: u64) -> Self {
        Self {
            ends: Ends { cursor: AtomicU64::new(Cursor::START.pack()), keys: AtomicU64::new(0) },
            sealed_bytes: AtomicU64::new(0),
            allocated_bytes: AtomicU64::new(0),
            limit_bytes,
            inline_table: [const { AtomicPtr::new(ptr::null_mut()) }; INLINE_BLOCKS],
            overflow_table: OnceLock::new(),
            // Block 0 does not exist: offset zero means "none".
            growth: Mutex::new(Growth { blocks: Vec::new(), next_block: 1, next_class: 0 }),
            pool,
        }
    }

    /// Bytes of the blocks this arena holds: what it costs the machine.
    pub fn allocated_bytes(&self) -> u64 {
        self.allocated_bytes.load(Ordering::Relaxed)
    }

    /// Bytes handed out, rounded up to units: what is left of the blocks is not counted. Exact
    /// whenever no allocation is under way; while a block is being changed it may lag by that
    /// block.
    pub fn used_bytes(&self) -> u64 {
        let cursor = Cursor::unpack(self.ends.cursor.load(Ordering::Relaxed));
        // Beyond its capacity the block was sealed, or is just being.
        let is_open = cursor.unit <= cursor.capacity_units();
        let current_units = if is_open { cursor.unit } else { 0 };
        self.sealed_bytes.load(Ordering::Relaxed) + current_units * UNIT_BYTES as u64
    }

    /// Notes so many more keys of the index whose memory this is, just after their allocation.
    #[inline]
    pub(crate) fn add_keys(&self, keys: u64) {
        // ORDERING: relaxed; a reader that has seen a commit sees what was counted before that was
        // published, and no more is promised.
        self.ends.keys.fetch_add(keys, Ordering::Relaxed);
    }

    /// Takes back a key that was counted and that another thread has inserted first.
    #[cold]
    pub(crate) fn remove_key(&self) {
        // ORDERING: as in `add_keys`.
        self.ends.keys.fetch_sub(1, Ordering::Relaxed);
    }

    /// Keys of the index, those included that are just being inserted.
    pub(crate) fn keys(&self) -> u64 {
        // ORDERING: as in `add_keys`.
        self.ends.keys.load(Ordering::Relaxed)
    }

    /// Claims `bytes` of uninitialised memory, aligned to [`UNIT_BYTES`].
    #[inline]
    pub(crate) fn allocate(&self, bytes: usize) -> Result<Offset, ArenaFull> {
        if bytes > OWN_BLOCK_BYTES {
            return self.allocate_own_block(bytes);
        }
        let units = bytes.div_ceil(UNIT_BYTES).max(1) as u64;
        loop {
            // ORDERING: Acquire pairs with the Release store that put the block in place, so the
            // table entry is visible to this thread, and through its publishing store to readers.
            let before = Cursor::unpack(self.ends.cursor.fetch_add(units, Ordering::Acquire));
            if before.unit + units <= before.capacity_units() {
                return Self::offset(before.block, before.unit);
            }
            self.next_block(before, units)?;
        }
    }

    /// Like [`Arena::allocate`], from a part that belongs to one thread: while it lasts nothing
    /// that others write is touched.
    #[inline]
    pub(crate) fn allocate_in(&self, part: &mut Part, bytes: usize) -> Result<Offset, ArenaFull> {
        let units = bytes.div_ceil(UNIT_BYTES).max(1);
        if units > part.left {
            // What is left over must be little compared with what there is.
            let is_small = self.allocated_bytes() < LEAST_PARTED_BYTES;
            if is_small || bytes > PART_BYTES / 8 {
                return self.allocate(bytes);
            }
            *part = Part { next: self.allocate(PART_BYTES)?.raw(), left: PART_BYTES / UNIT_BYTES };
        }
        let offset = Offset::from_raw(part.next).ok_or(ArenaFull)?;
        part.next += units as u32;
        part.left -= units;
        Ok(offset)
    }

    /// Like [`Arena::allocate`], on a cache-line boundary: for index nodes.
    pub(crate) fn allocate_lines(&self, bytes: usize) -> Result<Offset, ArenaFull> {
        const LINE_UNITS: u32 = 8;
        let room = bytes + (LINE_UNITS as usize - 1) * UNIT_BYTES;
        let raw = self.allocate(room)?.raw();
        Offset::from_raw(raw.next_multiple_of(LINE_UNITS)).ok_or(ArenaFull)
    }

    /// The address of an allocation. The offset must come from this arena.
    #[inline]
    pub(crate) fn resolve(&self, offset: Offset) -> *mut u8 {
        let raw = offset.raw();
        let block = (raw >> BLOCK_SHIFT) as usize;
        let unit = raw as usize & (BLOCK_UNITS as usize - 1);
        let base = match self.inline_table.get(block) {
            // ORDERING: Relaxed suffices: a thread that holds an offset got it through a
            // Release/Acquire chain that starts at the cursor, after the table entry was written.
            Some(entry) => entry.load(Ordering::Relaxed),
            None => self.overflow_base(block),
        };
        base.wrapping_add(unit * UNIT_BYTES)
    }

    #[cold]
    fn overflow_base(&self, block: usize) -> *mut u8 {
        let table = self.overflow_table.get();
        let entry = table.and_then(|entries| entries.get(block - INLINE_BLOCKS));
        // ORDERING: as in `resolve`.
        entry.map_or(ptr::null_mut(), |entry| entry.load(Ordering::Relaxed))
    }

    fn offset(block: u64, unit: u64) -> Result<Offset, ArenaFull> {
        let raw = (block << BLOCK_SHIFT) | unit;
        u32::try_from(raw).ok().and_then(Offset::from_raw).ok_or(ArenaFull)
    }

    fn lock_growth(&self) -> MutexGuard<'_, Growth> {
        // Nothing between lock and unlock can leave `Growth` half changed, so poison says nothing.
        self.growth.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts the next block in place, unless another thread has done so since `seen` was read.
    #[cold]
    fn next_block(&self, seen: Cursor, units: u64) -> Result<(), ArenaFull> {
        let mut growth = self.lock_growth();
        let capacity = seen.capacity_units();
        // The claims on a block follow one another, so exactly one of them crosses its end; where
        // that one starts is how much of the block was used.
        if seen.unit <= capacity && seen.class != Cursor::NO_CLASS {
            self.sealed_bytes.fetch_add(seen.unit * UNIT_BYTES as u64, Ordering::Relaxed);
        }
        let now = Cursor::unpack(self.ends.cursor.load(Ordering::Relaxed));
        if now.block != seen.block || now.class != seen.class {
            return Ok(());
        }
        let needed = units as usize * UNIT_BYTES;
        let fitting = CLASS_BYTES.iter().position(|&bytes| bytes >= needed * 2);
        let largest = self.pool.largest_block_bytes();
        let usual = CLASS_BYTES.iter().rposition(|&bytes| bytes as u64 <= largest).unwrap_or(0);
        let class = growth.next_class.min(usual).max(fitting.unwrap_or(CLASS_BYTES.len() - 1));
        let Ok(block) = self.take_block(&mut growth, CLASS_BYTES[class]) else {
            // Undo the pile of failed claims, or endless retries would overflow into the other
            // fields. Beyond the capacity by one, so that none of them counts as crossing again.
            let full = Cursor { unit: capacity + 1, ..now };
            self.ends.cursor.store(full.pack(), Ordering::Relaxed);
            return Err(ArenaFull);
        };
        growth.next_class = class + 1;
        let cursor = Cursor { block: block as u64, class: class as u64, unit: 0 };
        // ORDERING: Release publishes the table entry to a thread that claims room in the block.
        self.ends.cursor.store(cursor.pack(), Ordering::Release);
        Ok(())
    }

    #[cold]
    fn allocate_own_block(&self, bytes: usize) -> Result<Offset, ArenaFull> {
        let bytes = bytes.checked_next_multiple_of(UNIT_BYTES).ok_or(ArenaFull)?;
        let mut growth = self.lock_growth();
        let block = self.take_block(&mut growth, bytes)?;
        self.sealed_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        // The thread that allocated publishes the offset itself, so its own order is enough.
        Self::offset(block as u64, 0)
    }

    /// Takes a block of `bytes` from the pool and enters it in the table; returns its index.
    fn take_block(&self, growth: &mut Growth, bytes: usize) -> Result<usize, ArenaFull> {
        let index = growth.next_block;
        let end = index + bytes.div_ceil(BLOCK_BYTES);
        let allocated = self.allocated_bytes.load(Ordering::Relaxed);
        if end > MAX_BLOCKS || allocated.saturating_add(bytes as u64) > self.limit_bytes {
            return Err(ArenaFull);
        }
        let block = self.pool.take(bytes).ok_or(ArenaFull)?;
        for (piece, at) in (index..end).enumerate() {
            let entry = match self.inline_table.get(at) {
                Some(entry) => entry,
                None => {
                    &self.overflow_table.get_or_init(Self::new_overflow_table)[at - INLINE_BLOCKS]
                }
            };
            // ORDERING: published by the Release store of the cursor, or of the first link to it.
            entry.store(block.address().wrapping_add(piece * BLOCK_BYTES), Ordering::Relaxed);
        }
        growth.blocks.push(block);
        growth.next_block = end;
        self.allocated_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(index)
    }

    fn new_overflow_table() -> Box<[AtomicPtr<u8>]> {
        (INLINE_BLOCKS..MAX_BLOCKS).map(|_| AtomicPtr::new(ptr::null_mut())).collect()
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        let growth = self.growth.get_mut().unwrap_or_else(PoisonError::into_inner);
        for block in growth.blocks.drain(..) {
            self.pool.give_back(block);
        }
    }
}

impl fmt::Debug for Arena {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Arena")
            .field("allocated_bytes", &self.allocated_bytes())
            .field("used_bytes", &self.used_bytes())
            .finish_non_exhaustive()
    }
}
