//! The block cache's usage counter against what the allocator says. Counted is what the test's own
//! thread allocates: the thread that waits for it does so too, now and then.
#![cfg(not(loom))]
#![expect(unsafe_code, reason = "a counting allocator can only be written so")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use tidesdb_lockfree::cache::{BlockCache, CacheKey};

thread_local! {
    static ALLOCATED: Cell<usize> = const { Cell::new(0) };
    /// Allocations of so many bytes and more fail.
    static REFUSED_FROM: Cell<usize> = const { Cell::new(usize::MAX) };
}

fn allocated() -> usize {
    ALLOCATED.get()
}

struct Counting;

// SAFETY: passes every call on to the system's allocator, which keeps the contract.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() >= REFUSED_FROM.get() {
            return std::ptr::null_mut();
        }
        ALLOCATED.set(allocated().wrapping_add(layout.size()));
        // SAFETY: the caller's promises are passed on unchanged.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        ALLOCATED.set(allocated().wrapping_sub(layout.size()));
        // SAFETY: the caller's promises are passed on unchanged.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Bytes by which what is allocated may exceed the usage counter: the fixed part of the cache
/// (shards and counters), and one value on its way in.
fn allowance(shards: usize) -> usize {
    shards * 2048 + 16 * 1024
}

#[test]
fn the_budget_bounds_what_is_really_allocated() {
    let sizes = [64, 700, 4096, 30_000].map(|bytes| [(bytes, false), (bytes, true)]).concat();
    for (block_bytes, in_tail) in sizes {
        let (capacity, tail) = (16 << 20, vec![1; block_bytes]);
        let before = allocated();
        let cache: BlockCache<Vec<u8>> = BlockCache::new(capacity, 4096);
        let charge = block_bytes + size_of::<Vec<u8>>();
        let mut peak = 0;
        for n in 0..3 * (capacity / charge) as u64 {
            let key = CacheKey { file: n % 9, offset: n * 64 };
            if in_tail {
                drop(cache.insert_with_tail(key, Vec::new(), &tail, charge).unwrap());
            } else {
                drop(cache.insert(key, vec![1; block_bytes], charge));
            }
            let allocated = allocated().wrapping_sub(before);
            peak = peak.max(allocated);
            assert!(cache.usage_bytes() <= capacity);
            assert!(
                allocated <= cache.usage_bytes() + block_bytes + allowance(4),
                "{allocated} bytes allocated, {} accounted for",
                cache.usage_bytes()
            );
        }
        assert!(peak <= capacity + block_bytes + allowance(4));
        // The counter is not just a low bound: most of the budget holds values.
        let values = cache.entries() * charge;
        assert!(
            block_bytes < 700 || values > capacity / 2,
            "{values} bytes of values of {block_bytes} each"
        );
        drop(cache);
        assert_eq!(allocated(), before, "the cache leaks");
    }
}

/// The process was ended when there was no memory for a block's copy, which a read can do without.
#[test]
fn what_there_is_no_memory_for_is_not_inserted() {
    let cache: BlockCache<u64> = BlockCache::new(1 << 20, 4096);
    let (key, tail) = (CacheKey { file: 1, offset: 0 }, vec![1; 50_000]);
    drop(cache.insert(CacheKey { file: 2, offset: 0 }, 2, 100));
    REFUSED_FROM.set(tail.len());
    let refused = cache.insert_with_tail(key, 7, &tail, tail.len());
    REFUSED_FROM.set(usize::MAX);
    assert!(refused.is_none() && cache.get(key).is_none());
    assert_eq!(cache.entries(), 1);
    let inserted = cache.insert_with_tail(key, 7, &tail, tail.len()).unwrap();
    assert_eq!((*inserted, inserted.tail()), (7, tail.as_slice()));
}
