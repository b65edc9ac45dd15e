//! A hash index over entries that lie somewhere else and are known by a 32-bit number.
//!
//! It keeps the numbers only: four bytes an entry, at most half of the slots in use, linear
//! probing. Whoever uses it says how an entry hashes and whether it is the one looked for, so keys
//! are compared whole and a hash never decides.

use tidesdb_files::filter::key_hash;

const FEWEST_SLOTS: usize = 16;

/// Numbers of entries, found by hash. No entry has the number zero.
#[derive(Debug, Default)]
pub(super) struct OffsetIndex {
    /// Zero marks a free slot. The length is a power of two, or zero.
    slots: Vec<u32>,
    used: usize,
}

/// Hash of a key of a family.
pub(super) fn hash_of(family: u32, key: &[u8]) -> u64 {
    key_hash(key) ^ u64::from(family).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl OffsetIndex {
    /// The entry with this hash for which `same` holds.
    pub(super) fn find(&self, hash: u64, same: impl Fn(u32) -> bool) -> Option<u32> {
        let mask = self.slots.len().checked_sub(1)?;
        let mut at = hash as usize & mask;
        loop {
            match self.slots.get(at) {
                None | Some(0) => return None,
                Some(&entry) if same(entry) => return Some(entry),
                Some(_) => at = (at + 1) & mask,
            }
        }
    }

    /// Puts an entry in, in the place of the one for which `same` holds.
    pub(super) fn put(
        &mut self,
        hash: u64,
        entry: u32,
        same: impl Fn(u32) -> bool,
        hash_of_entry: impl Fn(u32) -> u64,
    ) {
        if (self.used + 1) * 2 > self.slots.len() {
            self.grow(hash_of_entry);
        }
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        while self.slots[at] != 0 && !same(self.slots[at]) {
            at = (at + 1) & mask;
        }
        self.used += usize::from(self.slots[at] == 0);
        self.slots[at] = entry;
    }

    fn grow(&mut self, hash_of_entry: impl Fn(u32) -> u64) {
        let length = (self.slots.len() * 4).max(FEWEST_SLOTS);
        let old = std::mem::replace(&mut self.slots, vec![0; length]);
        for entry in old.into_iter().filter(|&entry| entry != 0) {
            let mut at = hash_of_entry(entry) as usize & (length - 1);
            while self.slots[at] != 0 {
                at = (at + 1) & (length - 1);
            }
            self.slots[at] = entry;
        }
    }

    /// All entries, in no order.
    pub(super) fn entries(&self) -> impl Iterator<Item = u32> {
        self.slots.iter().copied().filter(|&entry| entry != 0)
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
        self.slots.capacity() * size_of::<u32>()
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
                index.put(7, entry, same, |_| 7);
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
