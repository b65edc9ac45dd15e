//! The block cache's hash table: slots that readers search and pin without a lock.
//!
//! A [`Table`] is open-addressed with linear probing. A slot is two words:
//!
//! ```text
//! tag   | upper 48 bits of the key's hash          | 16 bits: entries that probed past here |
//! word  | 16 bits: pins taken through this slot    | 48 bits: address of the entry, 0 = none |
//! ```
//!
//! One atomic add on `word` both takes a pin and says which entry was pinned, so there is no
//! moment at which a reader knows an entry it does not yet hold. Pins are given back on the
//! entry's own count, which lets a [`Pinned`] outlive the slot, the table and the cache.
//!
//! Called by `cache::shard` only. `find` runs on any thread at any time; all else runs under the
//! shard's lock.
//!
//! Invariants (the count of an entry is `references`):
//! * An entry in a slot has `references = BIAS + pins held - pins counted in the slot`, which is
//!   never 0. Taking it out of the slot moves the slot's count over and removes the bias, so from
//!   then on `references` is the number of pins held; the thread that gives back the last one frees
//!   it.
//! * An entry enters one slot once (moving to a bigger table goes through being taken out), so an
//!   address found in a slot while a pin on it is held is still the same entry.
//! * A tag is only a hint: who pins through it compares the entry's whole key.
//!
//! Checked by loom models (`loom_*`) in `slots/tests.rs`.
#![expect(unsafe_code, reason = "entries are counted by hand; invariants above")]

use std::alloc::{Layout, alloc, dealloc};
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::{self, NonNull};
use std::slice;

use super::CacheKey;
use crate::prefetch::{prefetch, prefetch_address};
use crate::sync::{AtomicU64, Ordering, fence};

/// How far from its home slot an entry may lie. Every slot is therefore probed past by fewer than
/// this many entries, which keeps that count inside its 16 bits.
const MAX_PROBE: usize = 128;

/// What processors load at a time.
const LINE_BYTES: usize = 64;

const PROBED_PAST: u64 = 0xffff;
const PIN: u64 = 1 << 48;
const ADDRESS: u64 = PIN - 1;

/// At this many pins a slot's count is moved to the entry, long before it could wrap around: that
/// would take as many threads between their two steps as are missing here.
const PINS_MOVED: u64 = 1 << 15;

/// Keeps the count of an entry in a slot away from 0. More than all pins a slot can count.
const BIAS: u64 = 1 << 32;

/// What is allocated for a value. Its tail lies behind it in the same allocation.
struct Entry<V> {
    references: AtomicU64,
    key: CacheKey,
    /// Bytes of the tail.
    tail_len: usize,
    value: V,
}

impl<V> Entry<V> {
    /// How an entry with a tail of so many bytes is allocated; `None` where no memory is so large.
    fn layout(tail_len: usize) -> Option<Layout> {
        let tail = Layout::array::<u8>(tail_len).ok()?;
        // The tail begins where the entry ends: a byte may lie anywhere.
        Layout::new::<Self>().extend(tail).ok().map(|(whole, _)| whole)
    }

    /// Where the tail of an entry begins.
    #[inline]
    fn tail(entry: NonNull<Self>) -> *mut u8 {
        entry.as_ptr().wrapping_add(1).cast()
    }
}

/// A value held in memory: like an `Arc`, but pinned through a cache slot.
///
/// The value stays valid for as long as the handle lives, whether or not the cache still knows
/// it. Evicted values that are pinned are not part of the cache's usage.
pub struct Pinned<V> {
    entry: NonNull<Entry<V>>,
    owns: PhantomData<Entry<V>>,
}

// SAFETY: a handle gives shared access to the value, on whichever thread it is, and the last
// handle drops the value there: what `Arc` requires, for the same reasons.
unsafe impl<V: Send + Sync> Send for Pinned<V> {}
// SAFETY: as above.
unsafe impl<V: Send + Sync> Sync for Pinned<V> {}

impl<V> Pinned<V> {
    /// Bytes of memory per value besides the value's own and what it points to.
    pub(super) const OVERHEAD_BYTES: usize =
        size_of::<Entry<V>>() - size_of::<V>() + ALLOCATION_HEADER_BYTES;

    /// A handle that no cache knows.
    #[cfg(test)]
    pub(super) fn new(key: CacheKey, value: V) -> Self {
        Self::with_tail(key, value, &[]).unwrap()
    }

    /// A handle that no cache knows, on a value with a copy of `tail` behind it; `None` where
    /// there is no memory for them.
    pub(super) fn with_tail(key: CacheKey, value: V, tail: &[u8]) -> Option<Self> {
        let layout = Entry::<V>::layout(tail.len())?;
        // SAFETY: the layout has a size: that of an entry, which has fields.
        let address = unsafe { alloc(layout) };
        let entry = NonNull::new(address.cast::<Entry<V>>())?;
        let content = Entry { references: AtomicU64::new(1), key, tail_len: tail.len(), value };
        // SAFETY: the allocation is new, aligned for an entry, and has room for one.
        unsafe { entry.write(content) };
        let to = Entry::tail(entry);
        // SAFETY: the allocation has room for the tail there, and is not what `tail` lends.
        unsafe { ptr::copy_nonoverlapping(tail.as_ptr(), to, tail.len()) };
        Some(Self { entry, owns: PhantomData })
    }

    /// The bytes that were inserted with the value.
    #[inline]
    #[must_use]
    pub fn tail(&self) -> &[u8] {
        let len = self.entry().tail_len;
        // SAFETY: so many bytes behind the entry were written by `with_tail`, in its allocation.
        // Nothing writes there again, and the handle keeps the allocation.
        unsafe { slice::from_raw_parts(Entry::tail(self.entry), len) }
    }

    #[inline]
    fn entry(&self) -> &Entry<V> {
        // SAFETY: the handle owns one of the entry's references, so it is not freed; no thread ever
        // has exclusive access to an entry with references.
        unsafe { self.entry.as_ref() }
    }

    /// The handle for a reference that the caller owns and passes on.
    #[inline]
    fn from_address(address: u64) -> Option<Self> {
        let entry = NonNull::new(std::ptr::with_exposed_provenance_mut(address as usize))?;
        Some(Self { entry, owns: PhantomData })
    }

    /// The entry's address as a slot stores it, or nothing if it does not fit (which no system we
    /// know does without being asked for it).
    fn address(&self) -> Option<u64> {
        let address = self.entry.as_ptr().expose_provenance() as u64;
        (address & !ADDRESS == 0).then_some(address)
    }

    /// The key under which the value was inserted.
    pub(super) fn key(&self) -> CacheKey {
        self.entry().key
    }

    #[cfg(test)]
    pub(super) fn references(&self) -> u64 {
        self.entry().references.load(Ordering::Relaxed)
    }

    #[cold]
    fn free(entry: NonNull<Entry<V>>) {
        // SAFETY: the caller gave back the last reference, so no other thread can reach the entry.
        let tail_len = unsafe { entry.as_ref() }.tail_len;
        // SAFETY: as above; nothing looks at the entry's content after this.
        unsafe { entry.drop_in_place() };
        // There is one: the entry was allocated with it.
        if let Some(layout) = Entry::<V>::layout(tail_len) {
            // SAFETY: allocated by `with_tail` with the layout for a tail of this length. A
            // destructor that panics has leaked the memory.
            unsafe { dealloc(entry.as_ptr().cast(), layout) };
        }
    }
}

/// What the allocator keeps per allocation, roughly.
const ALLOCATION_HEADER_BYTES: usize = 16;

impl<V> Deref for Pinned<V> {
    type Target = V;

    #[inline]
    fn deref(&self) -> &V {
        &self.entry().value
    }
}

impl<V> Clone for Pinned<V> {
    #[inline]
    fn clone(&self) -> Self {
        // ORDERING: relaxed; we hold a reference, so the count cannot reach 0 meanwhile, and
        // handing the clone to another thread orders that thread behind us.
        self.entry().references.fetch_add(1, Ordering::Relaxed);
        Self { entry: self.entry, owns: PhantomData }
    }
}

impl<V> Drop for Pinned<V> {
    #[inline]
    fn drop(&mut self) {
        // ORDERING: release, so that our reads of the value come before its end; the acquire
        // fence of the thread that gives back the last reference pairs with it.
        if self.entry().references.fetch_sub(1, GIVE_BACK) == 1 {
            fence(Ordering::Acquire);
            Self::free(self.entry);
        }
    }
}

const GIVE_BACK: Ordering = Ordering::Release;

impl<V: std::fmt::Debug> std::fmt::Debug for Pinned<V> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("Pinned").field(&**self).finish()
    }
}

#[derive(Default)]
struct Slot {
    tag: AtomicU64,
    word: AtomicU64,
}

/// A hash table of a fixed number of slots.
pub(super) struct Table<V> {
    slots: Box<[Slot]>,
    owns: PhantomData<Pinned<V>>,
}

impl<V> Table<V> {
    pub(super) const BYTES_PER_SLOT: usize = size_of::<Slot>();

    /// `slots` must be a power of two.
    pub(super) fn new(slots: usize) -> Self {
        debug_assert!(slots.is_power_of_two());
        Self { slots: (0..slots).map(|_| Slot::default()).collect(), owns: PhantomData }
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    #[inline]
    fn slot(&self, home: usize, step: usize) -> &Slot {
        &self.slots[(home + step) & (self.slots.len() - 1)]
    }

    /// Pins and returns the entry of `key`, whose hash is `hash`.
    ///
    /// Lock-free. May miss an entry that is being inserted or moved at this moment.
    #[inline]
    pub(super) fn find(&self, hash: u64, key: CacheKey) -> Option<Pinned<V>> {
        let home = home(hash);
        for step in 0..MAX_PROBE.min(self.slots.len()) {
            let slot = self.slot(home, step);
            // ORDERING: relaxed; a hint, see the module's third invariant.
            let tag = slot.tag.load(Ordering::Relaxed);
            if (tag ^ hash) & !PROBED_PAST == 0
                && let Some(pinned) = slot.pin::<V>()
                && pinned.key() == key
            {
                return Some(pinned);
            }
            if tag & PROBED_PAST == 0 {
                return None;
            }
        }
        None
    }

    /// Asks the processor to load the slot in which [`Table::find`] begins.
    #[inline]
    pub(super) fn prefetch(&self, hash: u64) {
        if let Some(slot) = self.slots.get(home(hash) & self.slots.len().wrapping_sub(1)) {
            prefetch(slot);
        }
    }

    /// Asks the processor to load the entry that [`Table::find`] comes to first. The entry may be
    /// gone by then: nothing is read of it.
    #[inline]
    pub(super) fn prefetch_entry(&self, hash: u64) {
        let home = home(hash);
        for step in 0..MAX_PROBE.min(self.slots.len()) {
            let slot = self.slot(home, step);
            // ORDERING: relaxed, both; hints, and the address is not followed.
            let tag = slot.tag.load(Ordering::Relaxed);
            if (tag ^ hash) & !PROBED_PAST == 0 {
                let address = (slot.word.load(Ordering::Relaxed) & ADDRESS) as usize;
                prefetch_address(std::ptr::without_provenance(address));
                // Of a small value an entry lies in one line, or in two, as the allocator has it.
                let end = address + size_of::<Entry<V>>() - 1;
                prefetch_address(std::ptr::without_provenance(end));
            } else if tag & PROBED_PAST != 0 {
                continue;
            }
            return;
        }
    }

    /// Puts an entry into a free slot, as near to its home as possible, and returns the slot's
    /// index. Gives the handle back if there is no slot within reach.
    ///
    /// Needs the shard's lock; the key must not be in the table.
    pub(super) fn place(&self, hash: u64, pinned: &Pinned<V>) -> Option<usize> {
        let address = pinned.address()?;
        let home = home(hash);
        let steps = MAX_PROBE.min(self.slots.len());
        // ORDERING: relaxed loads here and below; slots change only under the lock we hold, but
        // for the pin counts, which do not matter here.
        let step = (0..steps)
            .find(|&step| self.slot(home, step).word.load(Ordering::Relaxed) & ADDRESS == 0)?;
        for passed in 0..step {
            // ORDERING: relaxed; a reader that misses this misses the entry, as it may.
            self.slot(home, passed).tag.fetch_add(1, Ordering::Relaxed);
        }
        let slot = self.slot(home, step);
        // ORDERING: relaxed; our handle keeps the count above 0 throughout.
        pinned.entry().references.fetch_add(BIAS, Ordering::Relaxed);
        // A swap, not a store, although the old content (pins of readers who came too late) is of
        // no interest: loom does not know that a store comes after an add that did not see it.
        // ORDERING: release hands the entry's content to those who pin it through `word`.
        slot.word.swap(address, Ordering::Release);
        let passed = slot.tag.load(Ordering::Relaxed) & PROBED_PAST;
        slot.tag.store(hash & !PROBED_PAST | passed, Ordering::Relaxed);
        Some((home + step) & (self.slots.len() - 1))
    }

    /// Takes the entry out of a slot. Readers that pinned it keep it; later ones don't find it.
    ///
    /// Needs the shard's lock. Nothing if the slot was empty.
    pub(super) fn take(&self, index: usize) -> Option<Pinned<V>> {
        let slot = &self.slots[index];
        // ORDERING: acquire pairs with the release in `move_pins`: a thread that sees a count
        // without the moved pins must find them in the entry's count.
        let word = slot.word.swap(0, Ordering::Acquire);
        let pinned = Pinned::<V>::from_address(word & ADDRESS)?;
        // The handle made here is one reference, the slot's pins are the others.
        // ORDERING: relaxed; the count stays above 0, since the handle's reference is in it.
        pinned.entry().references.fetch_sub(BIAS - word / PIN - 1, Ordering::Relaxed);
        let tag = slot.tag.load(Ordering::Relaxed);
        // A tag of an empty slot is kept: it costs a reader one look at an empty word, and saves
        // every reader a special case.
        let mut passed = home(tag) & (self.slots.len() - 1);
        while passed != index {
            // ORDERING: relaxed; the entry that probed past here is gone.
            self.slots[passed].tag.fetch_sub(1, Ordering::Relaxed);
            passed = (passed + 1) & (self.slots.len() - 1);
        }
        Some(pinned)
    }

    /// The slot's count of pins, modulo 2^16: it has changed if the entry was hit.
    pub(super) fn pins(&self, index: usize) -> u16 {
        // ORDERING: relaxed; feeds the eviction policy only.
        (self.slots[index].word.load(Ordering::Relaxed) / PIN) as u16
    }

    /// The hash under which the slot's entry was placed, without its lower 16 bits.
    pub(super) fn hash(&self, index: usize) -> u64 {
        // ORDERING: relaxed; tags change only under the lock the caller holds.
        self.slots[index].tag.load(Ordering::Relaxed) & !PROBED_PAST
    }
}

impl<V> Drop for Table<V> {
    fn drop(&mut self) {
        for index in 0..self.slots.len() {
            drop(self.take(index));
        }
    }
}

/// The slot, modulo the table's size, at which the search for a hash begins.
#[inline]
fn home(hash: u64) -> usize {
    (hash >> 16) as usize
}

impl Slot {
    /// Pins whatever entry is in the slot.
    #[inline]
    fn pin<V>(&self) -> Option<Pinned<V>> {
        // On an empty slot the add leaves a count that is overwritten when the slot is filled; it
        // can't reach the address bits below it.
        // ORDERING: acquire pairs with the release in `place`.
        let word = self.word.fetch_add(PIN, Ordering::Acquire);
        let pinned = Pinned::<V>::from_address(word & ADDRESS)?;
        // A reader goes on from the entry to the line behind it.
        prefetch_address(pinned.entry.as_ptr().cast::<u8>().wrapping_add(LINE_BYTES));
        if word / PIN >= PINS_MOVED {
            self.move_pins(&pinned);
        }
        Some(pinned)
    }

    /// Moves part of the slot's count to the entry's.
    #[cold]
    fn move_pins<V>(&self, pinned: &Pinned<V>) {
        let references = &pinned.entry().references;
        // Added before it is subtracted in the slot, so that the count is never too low.
        // ORDERING: relaxed; our own pin keeps the count above 0.
        references.fetch_add(PINS_MOVED, Ordering::Relaxed);
        let address = pinned.entry.as_ptr().addr() as u64;
        // ORDERING: release, so that the thread that takes the entry out sees our addition first.
        // That the word still hands on the entry's content follows from this being one in a chain
        // of read-modify-writes that begins with the release in `place`.
        let moved = self.word.fetch_update(Ordering::Release, Ordering::Relaxed, |word| {
            (word & ADDRESS == address && word / PIN >= PINS_MOVED).then(|| word - PINS_MOVED * PIN)
        });
        if moved.is_err() {
            // Another thread moved them, or the entry was taken out with all its pins.
            references.fetch_sub(PINS_MOVED, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests;
