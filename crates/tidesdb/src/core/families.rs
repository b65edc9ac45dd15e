//! The families of a database.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockWriteGuard};

use tidesdb_base::key_order::KeyOrders;

use crate::family::FamilyState;

/// The families of a database, by name and by number.
#[derive(Debug, Default)]
pub(crate) struct Families {
    known: RwLock<BTreeMap<String, Arc<FamilyState>>>,
    /// Held while families come, go or get other names, and while all have to stay as they are.
    pub changing: Mutex<()>,
    /// Orders of keys of the application's own.
    pub key_orders: Mutex<KeyOrders>,
}

impl Families {
    /// None yet, which may have these orders of keys.
    pub(crate) fn new(key_orders: KeyOrders) -> Self {
        Self { key_orders: Mutex::new(key_orders), ..Self::default() }
    }

    /// The family of that name.
    pub(crate) fn by_name(&self, name: &str) -> Option<Arc<FamilyState>> {
        self.read(|families| families.get(name).cloned())
    }

    /// All families, by name.
    pub(crate) fn all(&self) -> Vec<Arc<FamilyState>> {
        self.read(|families| families.values().cloned().collect())
    }

    /// Names of all families, in order.
    pub(crate) fn names(&self) -> Vec<String> {
        self.read(|families| families.keys().cloned().collect())
    }

    /// Makes a family known.
    pub(crate) fn insert(&self, family: Arc<FamilyState>) {
        self.write().insert(family.name().to_string(), family);
    }

    /// Makes a family known by another name, in one step.
    pub(crate) fn rename(&self, old: &str, new: &str) {
        let mut families = self.write();
        if let Some(family) = families.remove(old) {
            family.set_name(new);
            families.insert(new.to_owned(), family);
        }
    }

    /// Forgets a family.
    pub(crate) fn remove(&self, name: &str) {
        self.write().remove(name);
    }

    fn read<R>(&self, look: impl FnOnce(&BTreeMap<String, Arc<FamilyState>>) -> R) -> R {
        look(&self.known.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn write(&self) -> RwLockWriteGuard<'_, BTreeMap<String, Arc<FamilyState>>> {
        self.known.write().unwrap_or_else(PoisonError::into_inner)
    }
}
