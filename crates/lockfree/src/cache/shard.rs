//! One shard of the block cache: a growing hash table, and who has to leave it.
//!
//! Hits go straight to the table and take no lock. Everything that changes the shard (insert,
//! evict, erase, grow, resize) runs under one mutex; it comes with a disk read, so the mutex is
//! never what a thread waits for long.
//!
//! Eviction is S3-FIFO (Yang and others, SOSP 2023): new entries go through a small queue of a
//! tenth of the budget, from which only those hit at least once since reach the main queue, so a
//! scan washes through the small queue and leaves the rest alone. Main is a CLOCK with two-bit
//! counters. A ghost table remembers fingerprints of what left the small queue recently; such a
//! key goes straight to main when it comes back. Fingerprints only steer eviction: a collision
//! costs a little hit ratio. A caller that can use a value without the cache may ask first whether
//! it is worth keeping (`admits`): once the budget is full, only a key that the ghost table knows
//! is, so what is read once displaces nothing and costs no eviction. Hits are not recorded by the
//! reader at all: the hand compares a slot's pin count with what it was at its last visit.
//!
//! Called by `cache` from any thread.
//!
//! Invariants, whenever the lock is free:
//! * Each occupied slot of the current table is named by exactly one queue element.
//! * `usage` is the sum of the charges of all queue elements plus the shard's own tables and
//!   queues, and `usage <= capacity` unless tables alone exceed it (after `set_capacity`).
//! * Tables that were outgrown are empty; they live until the shard is dropped, since readers may
//!   still be searching them. Together they are smaller than the current one, and are counted.
//!
//! No value is dropped with the lock held, so a value's destructor may use the cache.

use std::collections::{BTreeSet, VecDeque};
use std::sync::OnceLock;

use super::CacheKey;
use super::slots::{Pinned, Table};
use crate::sync::{AtomicUsize, Mutex, MutexGuard, Ordering, lock};

/// How often a table can double: from the first size to more slots than memory could hold.
const TABLE_GENERATIONS: usize = 28;

#[cfg(not(loom))]
const FIRST_SLOTS: usize = 64;
#[cfg(loom)]
const FIRST_SLOTS: usize = 2;

/// Share of the budget that the small queue keeps when there is pressure, as a divisor.
const SMALL_SHARE: usize = 10;

const GHOSTS_PER_BUCKET: usize = 4;
const NO_GHOST: u32 = 0;

/// Highest value of an entry's counter.
const MOST_FREQUENT: u8 = 3;

/// An entry as the eviction queues see it.
#[derive(Clone, Copy)]
struct Resident {
    file: u64,
    charge_bytes: usize,
    slot: u32,
    /// The slot's pin count when the hand was last here.
    seen_pins: u16,
    frequency: u8,
}

#[derive(Default)]
struct State {
    small: VecDeque<Resident>,
    main: VecDeque<Resident>,
    small_bytes: usize,
    main_bytes: usize,
    /// Fingerprints (upper half of the hash) in buckets by hash.
    ghosts: Box<[u32]>,
    ghost_hand: usize,
    table_bytes: usize,
}

impl State {
    fn entries(&self) -> usize {
        self.small.len() + self.main.len()
    }

    /// Bytes of tables and queues.
    fn own_bytes(&self) -> usize {
        let queued = self.small.capacity() + self.main.capacity();
        self.table_bytes + queued * size_of::<Resident>() + size_of_val(&*self.ghosts)
    }

    fn usage(&self) -> usize {
        self.small_bytes + self.main_bytes + self.own_bytes()
    }

    fn push(&mut self, resident: Resident, to_main: bool) {
        if to_main {
            self.main_bytes += resident.charge_bytes;
            self.main.push_back(resident);
        } else {
            self.small_bytes += resident.charge_bytes;
            self.small.push_back(resident);
        }
    }

    fn ghost_bucket(&mut self, hash: u64) -> &mut [u32] {
        let buckets = self.ghosts.len() / GHOSTS_PER_BUCKET;
        let at = (hash >> 16) as usize & buckets.saturating_sub(1);
        self.ghosts.chunks_exact_mut(GHOSTS_PER_BUCKET).nth(at).unwrap_or_default()
    }

    fn is_ghost(&mut self, hash: u64) -> bool {
        self.ghost_bucket(hash).contains(&fingerprint(hash))
    }

    /// Forgets the ghost, and says whether there was one.
    fn take_ghost(&mut self, hash: u64) -> bool {
        let found = self.ghost_bucket(hash).iter_mut().find(|ghost| **ghost == fingerprint(hash));
        found.map(|ghost| *ghost = NO_GHOST).is_some()
    }

    fn remember_ghost(&mut self, hash: u64) {
        // Which one a full bucket loses changes from time to time: keys that are read in turn
        // would otherwise drive each other out again and again.
        self.ghost_hand = self.ghost_hand.wrapping_add(1);
        let victim = self.ghost_hand % GHOSTS_PER_BUCKET;
        let bucket = self.ghost_bucket(hash);
        let free = bucket.iter().position(|&ghost| ghost == NO_GHOST);
        if let Some(ghost) = bucket.get_mut(free.unwrap_or(victim)) {
            *ghost = fingerprint(hash);
        }
    }
}

fn fingerprint(hash: u64) -> u32 {
    (hash >> 32) as u32
}

/// Handles taken out under the lock, to be dropped after it. Usually one, so no allocation.
struct Evicted<V> {
    first: Option<Pinned<V>>,
    rest: Vec<Pinned<V>>,
}

impl<V> Evicted<V> {
    fn new() -> Self {
        Self { first: None, rest: Vec::new() }
    }

    fn push(&mut self, pinned: Pinned<V>) {
        if self.first.is_none() {
            self.first = Some(pinned);
        } else {
            self.rest.push(pinned);
        }
    }
}

/// What an insertion wants to be kept.
pub(super) struct Newcomer<'new, V> {
    pub(super) pinned: &'new Pinned<V>,
    pub(super) hash: u64,
    pub(super) charge_bytes: usize,
}

/// One independent part of the cache.
pub(super) struct Shard<V> {
    tables: [OnceLock<Table<V>>; TABLE_GENERATIONS],
    /// How many tables exist; the last one is current.
    generations: AtomicUsize,
    state: Mutex<State>,
    capacity_bytes: AtomicUsize,
    // Copies of counters that change under the lock, to be read without it.
    usage_bytes: AtomicUsize,
    entries: AtomicUsize,
    evictions: AtomicUsize,
}

impl<V> Shard<V> {
    pub(super) fn new(capacity_bytes: usize) -> Self {
        Self {
            tables: [const { OnceLock::new() }; TABLE_GENERATIONS],
            generations: AtomicUsize::new(0),
            state: Mutex::new(State::default()),
            capacity_bytes: AtomicUsize::new(capacity_bytes),
            usage_bytes: AtomicUsize::new(0),
            entries: AtomicUsize::new(0),
            evictions: AtomicUsize::new(0),
        }
    }

    pub(super) fn capacity_bytes(&self) -> usize {
        // ORDERING: relaxed here and in the three below; momentary values.
        self.capacity_bytes.load(Ordering::Relaxed)
    }

    pub(super) fn usage_bytes(&self) -> usize {
        self.usage_bytes.load(Ordering::Relaxed)
    }

    pub(super) fn entries(&self) -> usize {
        self.entries.load(Ordering::Relaxed)
    }

    pub(super) fn evictions(&self) -> usize {
        self.evictions.load(Ordering::Relaxed)
    }

    #[inline]
    fn table(&self) -> Option<&Table<V>> {
        // ORDERING: acquire pairs with the release in `grow` and hands on the new table. A thread
        // that sees an old count searches an outgrown table and just finds nothing there.
        let generations = self.generations.load(Ordering::Acquire);
        self.tables.get(generations.wrapping_sub(1))?.get()
    }

    /// Pins and returns the entry of `key`. Lock-free.
    #[inline]
    pub(super) fn find(&self, hash: u64, key: CacheKey) -> Option<Pinned<V>> {
        self.table()?.find(hash, key)
    }

    /// Asks the processor to load the slot in which a search for a hash begins.
    #[inline]
    pub(super) fn prefetch(&self, hash: u64) {
        if let Some(table) = self.table() {
            table.prefetch(hash);
        }
    }

    /// Asks the processor to load the entry that a search for a hash finds first.
    #[inline]
    pub(super) fn prefetch_entry(&self, hash: u64) {
        if let Some(table) = self.table() {
            table.prefetch_entry(hash);
        }
    }

    /// Keeps the newcomer if the budget allows it. If its key is there already, nothing changes
    /// and the handle of the present entry is returned.
    pub(super) fn insert(&self, newcomer: &Newcomer<'_, V>) -> Option<Pinned<V>> {
        let mut evicted = Evicted::new();
        let mut state = lock(&self.state);
        let present = self.find(newcomer.hash, newcomer.pinned.key());
        if present.is_none() {
            self.admit(&mut state, newcomer, &mut evicted);
            self.publish_figures(state);
        }
        present
    }

    /// Whether a missed value of that size is worth keeping. One that is not is remembered.
    pub(super) fn admits(&self, hash: u64, charge_bytes: usize) -> bool {
        let capacity = self.capacity_bytes();
        // It would be turned down by `admit`, however often it is missed.
        if charge_bytes > capacity {
            return false;
        }
        let mut state = lock(&self.state);
        let room = capacity.saturating_sub(state.usage());
        let admitted = charge_bytes <= room || state.is_ghost(hash);
        if !admitted {
            state.remember_ghost(hash);
        }
        admitted
    }

    fn admit(&self, state: &mut State, new: &Newcomer<'_, V>, evicted: &mut Evicted<V>) {
        let capacity = self.capacity_bytes();
        let Some(room) = capacity.checked_sub(new.charge_bytes) else {
            return;
        };
        self.evict_to(state, room, evicted);
        if !self.make_slot(state, room, evicted) {
            return;
        }
        let Some(slot) = self.table().and_then(|table| table.place(new.hash, new.pinned)) else {
            return;
        };
        let to_main = state.take_ghost(new.hash);
        let resident = Resident {
            file: new.pinned.key().file,
            charge_bytes: new.charge_bytes,
            slot: slot as u32,
            seen_pins: 0,
            frequency: 0,
        };
        state.push(resident, to_main);
        // The push may have doubled a queue.
        self.evict_to(state, capacity, evicted);
    }

    /// Makes sure that one more entry finds a slot: grows the table if it may, and evicts
    /// otherwise. Leaves at most `room` bytes in use.
    fn make_slot(&self, state: &mut State, room: usize, evicted: &mut Evicted<V>) -> bool {
        let slots = self.table().map_or(0, Table::len);
        if state.entries() < slots * 5 / 8 {
            return state.usage() <= room;
        }
        let grown = if slots == 0 { FIRST_SLOTS } else { slots * 2 };
        let grown_bytes = grown * Table::<V>::BYTES_PER_SLOT + grown / 2 * size_of::<u32>();
        // A table that eats the budget would hold nothing: entries are smaller than it then.
        if grown_bytes <= self.capacity_bytes() / 4 || slots == 0 {
            self.grow(state, grown, evicted);
        } else if let Some(pinned) = self.evict_one(state) {
            evicted.push(pinned);
        }
        self.evict_to(state, room, evicted);
        state.usage() <= room
    }

    /// Moves all entries to a new table. A reader that looks during the move may miss.
    fn grow(&self, state: &mut State, slots: usize, evicted: &mut Evicted<V>) {
        let old = self.table();
        let generation = self.generations.load(Ordering::Relaxed);
        let Some(cell) = self.tables.get(generation) else {
            return;
        };
        let new = cell.get_or_init(|| Table::new(slots));
        state.table_bytes += slots * Table::<V>::BYTES_PER_SLOT;
        state.ghosts = vec![0; slots / 2].into_boxed_slice();
        // ORDERING: release, see `table`.
        self.generations.store(generation + 1, Ordering::Release);
        let Some(old) = old else {
            return;
        };
        let State { small, main, small_bytes, main_bytes, .. } = state;
        for (queue, bytes) in [(small, small_bytes), (main, main_bytes)] {
            queue.retain_mut(|resident| {
                let homeless = Self::move_entry(old, new, resident);
                let moved = homeless.is_none();
                if let Some(pinned) = homeless {
                    *bytes -= resident.charge_bytes;
                    evicted.push(pinned);
                }
                moved
            });
        }
    }

    /// Moves one entry; gives it back if the new table has no slot for it within reach, which is
    /// all but impossible.
    fn move_entry(old: &Table<V>, new: &Table<V>, resident: &mut Resident) -> Option<Pinned<V>> {
        let old_slot = resident.slot as usize;
        let hit = old.pins(old_slot) != resident.seen_pins;
        let hash = old.hash(old_slot);
        let pinned = old.take(old_slot)?;
        let Some(slot) = new.place(hash, &pinned) else {
            return Some(pinned);
        };
        resident.slot = slot as u32;
        resident.seen_pins = 0;
        resident.frequency = (resident.frequency + u8::from(hit)).min(MOST_FREQUENT);
        None
    }

    /// Evicts until at most `bytes` are in use, or nothing is left to evict.
    fn evict_to(&self, state: &mut State, bytes: usize, evicted: &mut Evicted<V>) {
        while state.usage() > bytes {
            let Some(pinned) = self.evict_one(state) else {
                return;
            };
            evicted.push(pinned);
        }
    }

    /// Takes out the entry that can best be missed.
    fn evict_one(&self, state: &mut State) -> Option<Pinned<V>> {
        let table = self.table()?;
        // Concurrent hits could keep the hand going round; after this many visits it gives up
        // and takes what it finds.
        let mut patience = state.entries() * (MOST_FREQUENT as usize + 2);
        loop {
            let budget = self.capacity_bytes() / SMALL_SHARE;
            let from_small = state.main.is_empty() || state.small_bytes > budget;
            let queue = if from_small { &mut state.small } else { &mut state.main };
            let Some(mut resident) = queue.pop_front() else {
                // Main is empty, so it was small's turn, and that is empty too.
                return None;
            };
            let slot = resident.slot as usize;
            let pins = table.pins(slot);
            let hits = pins.wrapping_sub(resident.seen_pins).min(u16::from(MOST_FREQUENT)) as u8;
            resident.seen_pins = pins;
            resident.frequency = (resident.frequency + hits).min(MOST_FREQUENT);
            let bytes = if from_small { &mut state.small_bytes } else { &mut state.main_bytes };
            *bytes -= resident.charge_bytes;
            if resident.frequency == 0 || patience == 0 {
                if from_small {
                    state.remember_ghost(table.hash(slot));
                }
                self.evictions.fetch_add(1, Ordering::Relaxed);
                return table.take(slot);
            }
            patience -= 1;
            resident.frequency = if from_small { 0 } else { resident.frequency - 1 };
            state.push(resident, true);
        }
    }

    /// Takes out all entries of one file.
    pub(super) fn erase_files(&self, files: &BTreeSet<u64>) {
        let mut erased = Vec::new();
        let mut state = lock(&self.state);
        let Some(table) = self.table() else {
            return;
        };
        let State { small, main, small_bytes, main_bytes, .. } = &mut *state;
        for (queue, bytes) in [(small, small_bytes), (main, main_bytes)] {
            queue.retain(|resident| {
                let stays = !files.contains(&resident.file);
                if !stays {
                    *bytes -= resident.charge_bytes;
                    erased.extend(table.take(resident.slot as usize));
                }
                stays
            });
        }
        self.publish_figures(state);
    }

    pub(super) fn set_capacity(&self, capacity_bytes: usize) {
        let mut evicted = Evicted::new();
        let mut state = lock(&self.state);
        // ORDERING: relaxed; the thread that evicts by it holds the lock.
        self.capacity_bytes.store(capacity_bytes, Ordering::Relaxed);
        self.evict_to(&mut state, capacity_bytes, &mut evicted);
        if state.entries() == 0 {
            state.small = VecDeque::new();
            state.main = VecDeque::new();
        }
        self.publish_figures(state);
    }

    /// Copies the counters for readers without the lock, and lets go of the lock.
    fn publish_figures(&self, state: MutexGuard<'_, State>) {
        self.usage_bytes.store(state.usage(), Ordering::Relaxed);
        self.entries.store(state.entries(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
