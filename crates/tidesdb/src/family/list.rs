//! The families that a batch writes to, or a transaction has read: in the order in which they
//! came, each once.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use super::FamilyState;

/// Up to this many families are searched one by one, which costs less than a look into a map.
const FEW: usize = 8;

/// Families of one database, and where each lies. A search costs little however many there are.
#[derive(Clone, Debug, Default)]
pub(crate) struct FamilyList {
    families: Vec<Arc<FamilyState>>,
    /// Places of all families by their numbers, when there are more than a few; else empty.
    places: BTreeMap<u32, usize>,
}

impl FamilyList {
    /// Where the family of this number lies.
    #[inline]
    pub(crate) fn position(&self, id: u32) -> Option<usize> {
        if self.families.len() <= FEW {
            return self.families.iter().position(|family| family.id == id);
        }
        self.places.get(&id).copied()
    }

    /// The family of this number.
    #[inline]
    pub(crate) fn find(&self, id: u32) -> Option<&Arc<FamilyState>> {
        self.families.get(self.position(id)?)
    }

    /// Adds a family that is not in the list.
    pub(crate) fn push(&mut self, family: Arc<FamilyState>) {
        debug_assert!(self.position(family.id).is_none(), "each is there once");
        self.families.push(family);
        if self.families.len() <= FEW {
            return;
        }
        // All that have no place yet: most often the last alone.
        let known = self.places.len();
        let rest = self.families.iter().enumerate().skip(known);
        self.places.extend(rest.map(|(at, family)| (family.id, at)));
    }

    /// Removes the families behind the first `len`.
    pub(crate) fn truncate(&mut self, len: usize) {
        // Nearly every batch has few families, and all batches are cleared by this.
        if !self.places.is_empty() {
            self.forget_places(len);
        }
        self.families.truncate(len);
    }

    fn forget_places(&mut self, len: usize) {
        if len <= FEW {
            self.places.clear();
        } else {
            for family in self.families.iter().skip(len) {
                self.places.remove(&family.id);
            }
        }
    }

    /// Removes the family of this number and gives it back. The order of the others changes.
    pub(crate) fn swap_remove(&mut self, id: u32) -> Option<Arc<FamilyState>> {
        let at = self.position(id)?;
        let family = self.families.swap_remove(at);
        self.places.remove(&id);
        if self.families.len() <= FEW {
            self.places.clear();
        } else if let Some(moved) = self.families.get(at) {
            self.places.insert(moved.id, at);
        }
        Some(family)
    }

    /// Whether it has never held more than a few families.
    pub(crate) fn is_small(&self) -> bool {
        self.families.capacity() <= FEW
    }

    /// Removes all families.
    pub(crate) fn clear(&mut self) {
        self.truncate(0);
    }
}

impl Deref for FamilyList {
    type Target = [Arc<FamilyState>];

    #[inline]
    fn deref(&self) -> &Self::Target {
        &self.families
    }
}

#[cfg(test)]
mod tests {
    use tidesdb_base::options::{DbOptions, FamilyOptions};

    use super::*;
    use crate::db::{Components, Db};

    #[test]
    fn families_are_found_where_they_lie() {
        let db = Db::open_with("/db", DbOptions::default(), Components::simulated()).unwrap();
        let names: Vec<String> = (0..40).map(|n| n.to_string()).collect();
        let wanted: Vec<_> =
            names.iter().map(|name| (name.as_str(), FamilyOptions::default())).collect();
        let families = db.create_families(&wanted).unwrap();
        let all: Vec<_> = families.iter().map(|family| Arc::clone(family.state())).collect();
        let mut list = FamilyList::default();
        let check = |list: &FamilyList| {
            for family in &all {
                let there = list.iter().position(|one| one.id == family.id);
                assert_eq!(list.position(family.id), there, "{} of {}", family.id, list.len());
                let found = list.find(family.id);
                assert_eq!(found.map(|found| found.id), there.map(|_| family.id));
            }
        };
        for family in &all {
            list.push(Arc::clone(family));
            check(&list);
        }
        for id in [20, 0, 39, 7].map(|at: usize| all[at].id) {
            assert_eq!(list.swap_remove(id).map(|family| family.id), Some(id));
            assert!(list.swap_remove(id).is_none());
            check(&list);
        }
        for len in [36, 20, 9, 8, 3] {
            list.truncate(len);
            check(&list);
        }
        for family in &all[12..30] {
            if list.position(family.id).is_none() {
                list.push(Arc::clone(family));
            }
            check(&list);
        }
        list.clear();
        check(&list);
        assert!(list.is_empty());
    }
}
