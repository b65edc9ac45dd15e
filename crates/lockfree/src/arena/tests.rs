use super::*;

const NO_LIMIT: u64 = u64::MAX;

#[test]
fn empty_arena_holds_no_block_and_is_small() {
    let arena = Arena::new(BlockPool::new(0), NO_LIMIT);
    assert_eq!((arena.allocated_bytes(), arena.used_bytes()), (0, 0));
    assert!(size_of::<Arena>() < 2 << 10, "{}", size_of::<Arena>());
    arena.allocate(1).unwrap();
    assert_eq!(arena.allocated_bytes(), 4 << 10);
}

/// I-238. A forked child may drop an arena, and a thread that held the lock is not there.
#[test]
fn an_arena_is_dropped_without_waiting_for_the_pool() {
    let pool = BlockPool::new(4 * BLOCK_BYTES as u64);
    let arena = Arena::new(Arc::clone(&pool), NO_LIMIT);
    // Blocks that the pool would keep.
    while arena.allocated_bytes() < 4 * BLOCK_BYTES as u64 {
        arena.allocate(1000).unwrap();
    }
    let held = pool.lock_idle();
    let (ended, end) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        drop(arena);
        ended.send(()).unwrap();
    });
    assert!(end.recv_timeout(std::time::Duration::from_secs(10)).is_ok(), "it waits");
    drop(held);
    assert_eq!(pool.usage(), PoolUsage::default());
}

#[test]
fn use_is_counted_to_the_byte() {
    let arena = Arena::new(BlockPool::new(0), NO_LIMIT);
    let mut expected = 0;
    let sizes = [1, 8, 9, 100, 4000, 50_000, 600_000, 3 << 20, 7, 200_000, 64];
    for round in 0..30 {
        let bytes = sizes[round % sizes.len()] + round;
        arena.allocate(bytes).unwrap();
        expected += bytes.next_multiple_of(UNIT_BYTES) as u64;
        assert_eq!(arena.used_bytes(), expected);
        assert!(arena.allocated_bytes() >= expected);
    }
}

#[test]
fn allocations_are_apart_aligned_and_wholly_usable() {
    let arena = Arena::new(BlockPool::new(0), NO_LIMIT);
    let mut all = Vec::new();
    let bound = if cfg!(miri) { 100 } else { 5000 };
    for number in 0..bound {
        let huge = if number % 1000 == 77 && !cfg!(miri) { 5 << 20 } else { 0 };
        let bytes = 1 + (number * 7919) % 3000 + huge;
        let offset = if number % 5 == 0 {
            arena.allocate_lines(bytes).unwrap()
        } else {
            arena.allocate(bytes).unwrap()
        };
        let address = arena.resolve(offset);
        let align = if number % 5 == 0 { 64 } else { UNIT_BYTES };
        assert_eq!(address.addr() % align, 0);
        // SAFETY: the allocation has this many bytes and belongs to this test.
        unsafe { address.write_bytes(number as u8, bytes) };
        all.push((address, bytes, number as u8));
    }
    for (address, bytes, mark) in all {
        // SAFETY: written above.
        let memory = unsafe { std::slice::from_raw_parts(address, bytes) };
        assert!(memory.iter().all(|byte| *byte == mark));
    }
}

#[test]
fn inside_of_a_huge_allocation_resolves_too() {
    let arena = Arena::new(BlockPool::new(0), NO_LIMIT);
    let offset = arena.allocate(5 << 20).unwrap();
    let step = (3 << 20) / UNIT_BYTES as u32;
    let inside = Offset::from_raw(offset.raw() + step).unwrap();
    assert_eq!(arena.resolve(inside).addr(), arena.resolve(offset).addr() + (3 << 20));
}

#[test]
fn limit_is_kept_and_refusals_do_not_add_up() {
    let arena = Arena::new(BlockPool::new(0), 20 << 10);
    let mut taken = 0;
    while arena.allocate(100).is_ok() {
        taken += 104;
    }
    let used = arena.used_bytes();
    assert_eq!(used, taken, "the last block counts once");
    for _ in 0..1000 {
        assert_eq!(arena.allocate(100_000), Err(ArenaFull));
    }
    assert_eq!((arena.used_bytes(), arena.allocated_bytes()), (used, 20 << 10));
    assert!(Cursor::unpack(arena.ends.cursor.load(Ordering::Relaxed)).unit < 1 << 20);
    assert_eq!(arena.allocate(usize::MAX), Err(ArenaFull));
}

#[test]
fn blocks_beyond_the_inline_table_work() {
    if cfg!(miri) {
        return;
    }
    let arena = Arena::new(BlockPool::new(0), NO_LIMIT);
    let offsets: Vec<_> =
        (0..INLINE_BLOCKS + 20).map(|_| arena.allocate(BLOCK_BYTES).unwrap()).collect();
    for (number, offset) in offsets.iter().enumerate() {
        // SAFETY: the first byte of an allocation of this test.
        unsafe { arena.resolve(*offset).write(number as u8) };
    }
    for (number, offset) in offsets.iter().enumerate() {
        // SAFETY: written above.
        assert_eq!(unsafe { arena.resolve(*offset).read() }, number as u8);
    }
}

#[test]
fn pool_recycles_up_to_its_cap() {
    let pool = BlockPool::new(3 * BLOCK_BYTES as u64);
    assert_eq!(pool.warm(2), 2);
    assert_eq!(pool.warm(9), 1, "the cap holds for warming too");
    let arena = Arena::new(Arc::clone(&pool), NO_LIMIT);
    for _ in 0..8 {
        arena.allocate(OWN_BLOCK_BYTES).unwrap();
    }
    while arena.allocated_bytes() < 5 * BLOCK_BYTES as u64 {
        arena.allocate(OWN_BLOCK_BYTES).unwrap();
    }
    assert_eq!(pool.usage(), PoolUsage { idle_bytes: 0, used_bytes: arena.allocated_bytes() });
    drop(arena);
    let expected = PoolUsage { idle_bytes: 3 * BLOCK_BYTES as u64, used_bytes: 0 };
    assert_eq!(pool.usage(), expected);
    pool.set_idle_cap_bytes(BLOCK_BYTES as u64);
    assert_eq!(pool.usage().idle_bytes, BLOCK_BYTES as u64);
}

#[test]
fn threads_never_share_memory_and_every_byte_is_counted() {
    const THREADS: usize = 4;
    let rounds = if cfg!(miri) { 60 } else { 20_000 };
    let arena = Arena::new(BlockPool::new(0), NO_LIMIT);
    let per_thread: Vec<Vec<(usize, usize)>> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS)
            .map(|thread| {
                let arena = &arena;
                scope.spawn(move || {
                    let place = |round: usize| {
                        let bytes = 8 * (1 + (round * 31 + thread * 7) % 60);
                        (arena.resolve(arena.allocate(bytes).unwrap()).addr(), bytes)
                    };
                    (0..rounds).map(place).collect()
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).collect()
    });
    let mut all: Vec<_> = per_thread.into_iter().flatten().collect();
    all.sort_unstable();
    assert!(all.is_sorted_by(|left, right| left.0 + left.1 <= right.0), "overlap");
    let total: usize = all.iter().map(|(_, bytes)| bytes).sum();
    assert_eq!(arena.used_bytes(), total as u64);
}

#[test]
fn blocks_stay_as_small_as_the_pool_asks_for() {
    let pool = BlockPool::new(0);
    pool.set_largest_block_bytes(100 << 10);
    let arena = Arena::new(Arc::clone(&pool), NO_LIMIT);
    let mut last = 0;
    for _ in 0..20_000 {
        arena.allocate(64).unwrap();
        let grown = arena.allocated_bytes() - last;
        assert!(grown <= 64 << 10, "{grown}");
        last = arena.allocated_bytes();
    }
    // What does not fit into such a block still finds room.
    arena.allocate(OWN_BLOCK_BYTES).unwrap();
    arena.allocate(2 * BLOCK_BYTES).unwrap();
    pool.set_largest_block_bytes(BLOCK_BYTES as u64);
    let before = arena.allocated_bytes();
    while arena.allocated_bytes() == before {
        arena.allocate(64).unwrap();
    }
    assert!(arena.allocated_bytes() - before >= 64 << 10);
}
