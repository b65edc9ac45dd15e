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

    /// Puts an entry in, in the place of the one for which `same` holds, which it returns.
    #[inline]
    pub(super) fn put(&mut self, hash: u64, entry: u32, same: impl Fn(u32) -> bool) -> Option<u32> {
        if (self.used + 1) * 2 > self.slots.len() {
            self.grow();
        }
        let place = self.place_of(hash, same)?;
        let slot = self.slots.get_mut(place)?;
        let before = (*slot != 0).then(|| entry_of(*slot));
        self.used += usize::from(before.is_none());
        *slot = slot_of(hash, entry);
        before
    }

    /// Takes an entry out.
    pub(super) fn remove(&mut self, hash: u64, entry: u32) {
        let Some(mut free) = self.place_of(hash, |other| other == entry) else { return };
        if self.slots[free] == 0 {
            return;
        }
        self.used -= 1;
        // What lies behind it moves up, unless it would come before the place that it hashes to:
        // a search ends at the first free slot.
        let mask = self.slots.len() - 1;
        let mut at = free;
        loop {
            at = (at + 1) & mask;
            let slot = self.slots[at];
            if slot == 0 {
                break;
            }
            let home = (slot >> 32) as usize & mask;
            if at.wrapping_sub(home) & mask >= at.wrapping_sub(free) & mask {
                self.slots[free] = slot;
                free = at;
            }
        }
        self.slots[free] = 0;
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
    use std::collections::BTreeMap;

    use tidesdb_sim::rng::SplitMix64;

    use super::*;

    #[test]
    fn entries_come_and_go_as_in_a_map() {
        for seed in 0..50 {
            let mut rng = SplitMix64::new(seed);
            let (mut index, mut model) = (OffsetIndex::default(), BTreeMap::new());
            // Of hashes that differ in few bits, at the end of the table as well.
            let hash_of = |key: u32| u64::from(key % 7).wrapping_sub(3);
            for step in 0..2000_u32 {
                let key = rng.below(40) as u32;
                let hash = hash_of(key);
                if let Some(&entry) = model.get(&key)
                    && rng.chance(1, 2)
                {
                    index.remove(hash, entry);
                    model.remove(&key);
                } else {
                    let entry = step * 64 + key;
                    let before = index.put(hash, entry, |other| other % 64 == key);
                    assert_eq!(before, model.insert(key, entry), "seed {seed}");
                }
                index.remove(hash, u32::MAX - 1);
            }
            for key in 0..40 {
                let found = index.find(hash_of(key), |entry| entry % 64 == key);
                assert_eq!(found, model.get(&key).copied(), "seed {seed}");
            }
            assert_eq!(index.entries().count(), model.len());
        }
    }

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
