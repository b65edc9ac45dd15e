//! A hash index over entries that lie somewhere else and are known by a 32-bit number.
//!
//! It keeps the numbers and half of the hashes: eight bytes a slot, at most half of the slots in
//! use, linear probing. The caller says whether an entry is the one looked for, so keys are
//! compared whole and a hash never decides; it only spares most of the other entries the look.

use tidesdb_files::filter::key_hash;

const FEWEST_SLOTS: usize = 16;

/// Numbers of entries, found by hash. The highest number is not to be used.
#[derive(Debug, Default)]
pub(super) struct OffsetIndex {
    /// Zero is free; otherwise the lower half of the hash, then the number and one. The length is a
    /// power of two, or zero.
    slots: Vec<u64>,
    used: usize,
}

const fn slot_of(hash: u64, entry: u32) -> u64 {
    hash << 32 | (entry + 1) as u64
}

/// The entry in a slot that is in use.
const fn entry_of(slot: u64) -> u32 {
    (slot as u32).wrapping_sub(1)
}

/// Hash of a key of a family.
pub(super) fn hash_of(family: u32, key: &[u8]) -> u64 {
    key_hash(key) ^ u64::from(family).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl OffsetIndex {
    /// The entry with this hash for which `same` holds.
    #[inline]
    pub(super) fn find(&self, hash: u64, same: impl Fn(u32) -> bool) -> Option<u32> {
        let slot = *self.slots.get(self.place_of(hash, same)?)?;
        (slot != 0).then(|| entry_of(slot))
    }

    /// Puts an entry in, in the place of the one for which `same` holds.
    pub(super) fn put(&mut self, hash: u64, entry: u32, same: impl Fn(u32) -> bool) {
        if (self.used + 1) * 2 > self.slots.len() {
            self.grow();
        }
        if let Some(place) = self.place_of(hash, same)
            && let Some(slot) = self.slots.get_mut(place)
        {
            self.used += usize::from(*slot == 0);
            *slot = slot_of(hash, entry);
        }
    }

    /// The slot of the entry with this hash for which `same` holds, or else the free one where it
    /// would be.
    #[inline]
    fn place_of(&self, hash: u64, same: impl Fn(u32) -> bool) -> Option<usize> {
        let mask = self.slots.len().checked_sub(1)?;
        let mut at = hash as usize & mask;
        loop {
            let slot = *self.slots.get(at)?;
            if slot == 0 || ((slot >> 32) as u32 == hash as u32 && same(entry_of(slot))) {
                return Some(at);
            }
            at = (at + 1) & mask;
        }
    }

    fn grow(&mut self) {
        let length = (self.slots.len() * 4).max(FEWEST_SLOTS);
        let old = std::mem::replace(&mut self.slots, vec![0; length]);
        for slot in old.into_iter().filter(|&slot| slot != 0) {
            let mut at = (slot >> 32) as usize & (length - 1);
            while self.slots[at] != 0 {
                at = (at + 1) & (length - 1);
            }
            self.slots[at] = slot;
        }
    }

    /// All entries, in no order.
    pub(super) fn entries(&self) -> impl Iterator<Item = u32> {
        self.slots.iter().filter(|&&slot| slot != 0).map(|&slot| entry_of(slot))
    }

    /// Forgets all entries and keeps the memory, unless there is much more of it than was used.
    pub(super) fn clear(&mut self) {
        if self.used * 16 < self.slots.len() && self.slots.len() > 1024 {
            self.slots = Vec::new();
        }
        if self.used > 0 {
            self.slots.fill(0);
        }
        self.used = 0;
    }

    /// Bytes of memory held.
    pub(super) const fn memory_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_found_by_whole_keys_whatever_they_hash_to() {
        // Everything collides.
        let keys: Vec<String> = (0..300).map(|n| format!("key-{n}")).collect();
        let mut index = OffsetIndex::default();
        for round in 0..2 {
            for (at, key) in keys.iter().enumerate() {
                let entry = (round * 1000 + at + 1) as u32;
                let same = |e: u32| keys[(e as usize - 1) % 1000] == *key;
                index.put(7, entry, same);
            }
        }
        assert_eq!(index.entries().count(), keys.len());
        for (at, key) in keys.iter().enumerate() {
            let found = index.find(7, |e| keys[(e as usize - 1) % 1000] == *key);
            assert_eq!(found, Some(1001 + at as u32), "the later entry took the place");
        }
        assert_eq!(index.find(7, |_| false), None);
        index.clear();
        assert_eq!((index.entries().count(), index.find(7, |_| true)), (0, None));
    }
}
