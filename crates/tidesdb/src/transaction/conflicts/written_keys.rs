//! The keys that a commit writes, sorted: of one that writes more than others can wait for a look
//! at each.

use std::sync::Arc;

use tidesdb_base::key_ranges::ends_behind;

use crate::memory::{Holder, MemoryBudget, MemoryReservation};
use crate::write::WriteBatch;

/// A family's number and a key of it.
pub(super) type WrittenKey<'t> = (u32, &'t [u8]);

/// The keys of a batch in the order of families and keys.
#[derive(Debug)]
pub(super) struct WrittenKeys<'t> {
    keys: Vec<WrittenKey<'t>>,
    _memory: MemoryReservation,
}

impl<'t> WrittenKeys<'t> {
    pub(super) fn of(batch: &'t WriteBatch, budget: &Arc<MemoryBudget>) -> Self {
        let mut keys = Vec::with_capacity(batch.len());
        keys.extend(batch.operations().map(|operation| (operation.family, operation.key)));
        keys.sort_unstable();
        let bytes = keys.capacity() * size_of::<WrittenKey<'_>>();
        Self { keys, _memory: budget.reserve(Holder::Transactions, bytes as u64) }
    }

    /// All of them, in order; one that is written twice is there twice.
    pub(super) fn as_slice(&self) -> &[WrittenKey<'t>] {
        &self.keys
    }

    pub(super) fn find(&self, family: u32, key: &[u8]) -> Option<WrittenKey<'t>> {
        let at = self.keys.binary_search(&(family, key)).ok()?;
        self.keys.get(at).copied()
    }

    /// A key in the range `[start, end)` of a family; an empty end stands for no end.
    pub(super) fn find_in(&self, family: u32, start: &[u8], end: &[u8]) -> Option<WrittenKey<'t>> {
        let at = self.keys.partition_point(|known| *known < (family, start));
        let found = self.keys.get(at).filter(|(of, key)| *of == family && ends_behind(end, key));
        found.copied()
    }
}

#[cfg(test)]
mod tests {
    use tidesdb_base::options::{DbOptions, FamilyOptions};

    use super::*;
    use crate::db::{Components, Db};

    #[test]
    fn keys_are_found_by_themselves_and_in_ranges() {
        let db = Db::open_with("/db", DbOptions::default(), Components::simulated()).unwrap();
        let families = ["a", "b"].map(|name| {
            let family = db.create_family(name, FamilyOptions::default()).unwrap();
            (family.state().id, family)
        });
        let mut batch = WriteBatch::new();
        for key in ["m", "c", "x", "c"] {
            batch.put(&families[1].1, key, "").unwrap();
        }
        batch.delete(&families[0].1, "d").unwrap();
        let before = db.core().memory.budget.held_by(Holder::Transactions);
        let keys = WrittenKeys::of(&batch, &db.core().memory.budget);
        assert!(db.core().memory.budget.held_by(Holder::Transactions) > before);
        let [a, b] = [families[0].0, families[1].0];
        assert_eq!(keys.find(b, b"c"), Some((b, &b"c"[..])));
        assert_eq!((keys.find(a, b"c"), keys.find(b, b"d")), (None, None));
        let found = |family, start: &str, end: &str| {
            let found = keys.find_in(family, start.as_bytes(), end.as_bytes());
            found.map(|(_, key)| str::from_utf8(key).unwrap())
        };
        assert_eq!((found(b, "a", "m"), found(b, "d", "m")), (Some("c"), None));
        assert_eq!((found(b, "d", ""), found(b, "y", "")), (Some("m"), None));
        assert_eq!((found(a, "a", ""), found(a, "e", "")), (Some("d"), None));
    }
}
