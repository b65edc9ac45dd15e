//! The block pool: memory that memtables of one database pass on to each other.
//!
//! Touching fresh memory for the first time costs more than the insert that fills it, so full-size
//! blocks are not given back to the system when a memtable is dropped but kept, up to a cap, for
//! the next one. [`BlockPool::warm`] lets a background thread prepare blocks ahead of need.
//!
//! Threads: any; a mutex protects the list and is held for a push or a pop only.
//!
//! Invariants: an idle block is of [`BLOCK_BYTES`] and has every page touched; a block is owned by
//! the pool, by one arena, or by none. Smaller and larger blocks pass straight through.

use std::alloc::{Layout, alloc, dealloc};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

/// Size of the blocks that are recycled, in bytes: one huge page on the usual machines.
pub const BLOCK_BYTES: usize = 2 << 20;
const PAGE_BYTES: usize = 4 << 10;
/// Blocks from this size on are mapped.
const LEAST_MAPPED_BYTES: usize = 64 << 10;
const LINE_BYTES: usize = 64;

/// What a pool keeps for reuse and what arenas use, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PoolUsage {
    /// Kept for reuse.
    pub idle_bytes: u64,
    /// In the hands of arenas.
    pub used_bytes: u64,
}

/// Owned, uninitialised memory of a fixed place.
#[derive(Debug)]
pub(super) struct Block {
    address: NonNull<u8>,
    layout: Layout,
}

// SAFETY: a block is plain owned memory, bound to no thread.
unsafe impl Send for Block {}

impl Block {
    fn new(bytes: usize) -> Option<Self> {
        let align = if bytes >= BLOCK_BYTES { BLOCK_BYTES } else { LINE_BYTES };
        let layout = Layout::from_size_align(bytes, align).ok()?;
        if bytes == 0 {
            return None;
        }
        if is_mapped(layout) {
            return Some(Self { address: map(layout)?, layout });
        }
        // SAFETY: the layout's size is not zero.
        let address = unsafe { alloc(layout) };
        Some(Self { address: NonNull::new(address)?, layout })
    }

    /// First byte of the block.
    pub(super) fn address(&self) -> *mut u8 {
        self.address.as_ptr()
    }

    /// Makes the system back every page with memory now, in huge pages where it has them.
    fn populate_huge(&mut self) {
        // Huge pages save a quarter of a look-up's time, but faulting one in costs so much that it
        // must not happen on the write path: hence here only. Refusal changes nothing but speed.
        #[cfg(all(target_os = "linux", not(miri)))]
        // SAFETY: advice about memory that this block owns; contents are not affected.
        unsafe {
            libc::madvise(self.address.as_ptr().cast(), self.layout.size(), libc::MADV_HUGEPAGE);
        }
        self.populate();
    }

    /// Makes the system back every page with memory now.
    fn populate(&mut self) {
        // One call instead of a fault for each page. Kernels before 5.14 do not know it.
        #[cfg(all(target_os = "linux", not(miri)))]
        {
            let (address, bytes) = (self.address.as_ptr().cast(), self.layout.size());
            // SAFETY: memory that this block owns, of whole pages; contents are not affected.
            if unsafe { libc::madvise(address, bytes, libc::MADV_POPULATE_WRITE) } == 0 {
                return;
            }
        }
        for at in (0..self.layout.size()).step_by(PAGE_BYTES) {
            let byte = self.address.as_ptr().wrapping_add(at);
            // SAFETY: `at` lies within the block, which no other thread can reach.
            unsafe { byte.write_volatile(0) };
        }
    }
}

/// Whether a block of this layout is mapped. The allocator of the C library lets each of its arenas
/// keep as much free memory as the largest piece that was ever given back to it, and twice that:
/// what comes and goes in megabytes must not be its own.
const fn is_mapped(layout: Layout) -> bool {
    cfg!(all(target_os = "linux", not(miri))) && layout.size() >= LEAST_MAPPED_BYTES
}

const fn mapped_bytes(layout: Layout) -> usize {
    layout.size().next_multiple_of(PAGE_BYTES)
}

/// New memory for a mapped block; `None` when the system has none.
#[cfg(all(target_os = "linux", not(miri)))]
fn map(layout: Layout) -> Option<NonNull<u8>> {
    let bytes = mapped_bytes(layout);
    // A mapping begins at any page: so much more holds a place that is aligned.
    let spare = layout.align().saturating_sub(PAGE_BYTES);
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let all = bytes.checked_add(spare)?;
    // SAFETY: a new mapping at an address of the kernel's choice touches nothing else.
    let begin = unsafe { libc::mmap(std::ptr::null_mut(), all, protection, flags, -1, 0) };
    if begin == libc::MAP_FAILED {
        return None;
    }
    let begin = begin.cast::<u8>();
    let before = begin.addr().next_multiple_of(layout.align().max(PAGE_BYTES)) - begin.addr();
    let address = begin.wrapping_add(before);
    unmap(begin, before);
    unmap(address.wrapping_add(bytes), spare - before);
    NonNull::new(address)
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn map(_layout: Layout) -> Option<NonNull<u8>> {
    None
}

/// Gives pages back that only the caller has: whole ones, and possibly none.
#[cfg(all(target_os = "linux", not(miri)))]
fn unmap(begin: *mut u8, bytes: usize) {
    if bytes > 0 {
        // SAFETY: the pages were mapped by `map`, and the caller never uses them again.
        let _ = unsafe { libc::munmap(begin.cast(), bytes) };
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        #[cfg(all(target_os = "linux", not(miri)))]
        if is_mapped(self.layout) {
            unmap(self.address.as_ptr(), mapped_bytes(self.layout));
            return;
        }
        // SAFETY: allocated in `new` with this very layout, and freed once, here.
        unsafe { dealloc(self.address.as_ptr(), self.layout) };
    }
}

fn lock_refusals(refusals: &Mutex<Refusals>) -> MutexGuard<'_, Refusals> {
    // Two counts cannot be half changed, so poison says nothing.
    refusals.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Recycles blocks among arenas.
#[derive(Debug)]
pub struct BlockPool {
    idle: Mutex<Vec<Block>>,
    idle_cap_bytes: AtomicU64,
    used_bytes: AtomicU64,
    largest_block_bytes: AtomicU64,
    populates: AtomicBool,
    refusals: Mutex<Refusals>,
}

/// Blocks that are refused although there is memory, for tests.
#[derive(Debug, Default)]
struct Refusals {
    given_before: u64,
    refused: u64,
}

impl BlockPool {
    /// A pool that keeps at most `idle_cap_bytes` of unused blocks. It starts with none.
    pub fn new(idle_cap_bytes: u64) -> Arc<Self> {
        Arc::new(Self {
            idle: Mutex::new(Vec::new()),
            idle_cap_bytes: AtomicU64::new(idle_cap_bytes),
            used_bytes: AtomicU64::new(0),
            largest_block_bytes: AtomicU64::new(BLOCK_BYTES as u64),
            populates: AtomicBool::new(false),
            refusals: Mutex::default(),
        })
    }

    /// Behaves like a system that runs out of memory: of the blocks asked for from now on the first
    /// `given` are given, the next `refused` are not. For tests; replaces an earlier order.
    pub fn refuse_blocks(&self, given: u64, refused: u64) {
        *lock_refusals(&self.refusals) = Refusals { given_before: given, refused };
    }

    fn refuses(&self) -> bool {
        let mut refusals = lock_refusals(&self.refusals);
        if refusals.refused == 0 {
            return false;
        }
        let gives = refusals.given_before > 0;
        let counter = if gives { &mut refusals.given_before } else { &mut refusals.refused };
        *counter -= 1;
        !gives
    }

    /// What the pool keeps and what arenas use right now.
    pub fn usage(&self) -> PoolUsage {
        PoolUsage {
            idle_bytes: (self.lock_idle().len() * BLOCK_BYTES) as u64,
            used_bytes: self.used_bytes.load(Ordering::Relaxed),
        }
    }

    /// Bytes in the hands of arenas, without taking the lock that [`BlockPool::usage`] takes.
    #[inline]
    pub fn used_bytes(&self) -> u64 {
        self.used_bytes.load(Ordering::Relaxed)
    }

    /// Keeps arenas from growing in blocks larger than this where smaller ones will do, for
    /// an owner that has little memory to share out. [`BLOCK_BYTES`] at first.
    pub fn set_largest_block_bytes(&self, bytes: u64) {
        self.largest_block_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Whether new blocks of [`BLOCK_BYTES`] have every page touched before an arena gets them, as
    /// the idle ones have. That holds an arena up for as long as it takes, and saves who fills many
    /// blocks at once, like recovery, more than that. False at first.
    pub fn set_populates(&self, populates: bool) {
        // ORDERING: a matter of speed only.
        self.populates.store(populates, Ordering::Relaxed);
    }

    /// See [`BlockPool::set_largest_block_bytes`].
    pub(super) fn largest_block_bytes(&self) -> u64 {
        self.largest_block_bytes.load(Ordering::Relaxed)
    }

    /// Changes the cap on unused bytes and frees at once what lies above it.
    pub fn set_idle_cap_bytes(&self, idle_cap_bytes: u64) {
        self.idle_cap_bytes.store(idle_cap_bytes, Ordering::Relaxed);
        let surplus = {
            let mut idle = self.lock_idle();
            let keep = self.idle_cap_blocks().min(idle.len());
            idle.split_off(keep)
        };
        // Freed outside the lock: giving pages back to the system takes its time.
        drop(surplus);
    }

    /// Frees all unused blocks; those that come back later are kept as before.
    pub fn release_idle(&self) {
        let idle = std::mem::take(&mut *self.lock_idle());
        // Freed outside the lock, as in `set_idle_cap_bytes`.
        drop(idle);
    }

    /// Prepares memory until `blocks` blocks of [`BLOCK_BYTES`] lie idle or the cap is reached.
    /// Slow (it touches every page): for a background thread. Returns how many blocks it added.
    pub fn warm(&self, blocks: usize) -> usize {
        let mut added = 0;
        while self.lock_idle().len() < blocks.min(self.idle_cap_blocks()) {
            let Some(mut block) = Block::new(BLOCK_BYTES) else { break };
            block.populate_huge();
            if !self.keep(block) {
                break;
            }
            added += 1;
        }
        added
    }

    /// A block of exactly `bytes`, or none when the system has no memory left.
    pub(super) fn take(&self, bytes: usize) -> Option<Block> {
        if self.refuses() {
            return None;
        }
        let recycled = if bytes == BLOCK_BYTES { self.lock_idle().pop() } else { None };
        let block = match recycled {
            Some(block) => block,
            None => {
                let mut block = Block::new(bytes)?;
                // ORDERING: see `set_populates`.
                if bytes == BLOCK_BYTES && self.populates.load(Ordering::Relaxed) {
                    block.populate();
                }
                block
            }
        };
        self.used_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        Some(block)
    }

    /// Takes a block back from an arena: kept when it is of the recycled size and below the cap.
    pub(super) fn give_back(&self, block: Block) {
        let bytes = block.layout.size();
        self.used_bytes.fetch_sub(bytes as u64, Ordering::Relaxed);
        if bytes == BLOCK_BYTES {
            self.keep(block);
        }
    }

    /// Keeps the block for the next memtable if there is room; whether it did. A drop ends here: in
    /// a forked child, where a thread that is not there may hold the lock for good, it must not
    /// wait (I-238). So a block is freed when the lock is taken.
    fn keep(&self, block: Block) -> bool {
        let mut idle = match self.idle.try_lock() {
            Ok(idle) => idle,
            // As in `lock_idle`.
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        let room = idle.len() < self.idle_cap_blocks();
        if room {
            idle.push(block);
        } else {
            drop(idle);
            drop(block);
        }
        room
    }

    fn idle_cap_blocks(&self) -> usize {
        (self.idle_cap_bytes.load(Ordering::Relaxed) / BLOCK_BYTES as u64) as usize
    }

    pub(super) fn lock_idle(&self) -> MutexGuard<'_, Vec<Block>> {
        // A list of blocks cannot be half changed, so poison says nothing.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
