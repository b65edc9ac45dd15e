//! The families of a database.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockWriteGuard};

use tidesdb_base::error::{Error, Result};
use tidesdb_base::key_order::{KeyOrder, KeyOrders};
use tidesdb_base::limits::{MAX_FAMILIES, MAX_FAMILY_NAME_BYTES};
use tidesdb_base::options::FamilyOptions;
use tidesdb_lockfree::sync::lock;

use crate::family::{FamilyState, SharedOptions, not_registered};

/// The families of a database, by name and by number.
#[derive(Debug, Default)]
pub(crate) struct Families {
    known: RwLock<BTreeMap<Arc<str>, Arc<FamilyState>>>,
    /// Held while families come, go or get other names, and while all have to stay as they are.
    pub changing: Mutex<()>,
    /// Orders of keys of the application's own.
    pub key_orders: Mutex<KeyOrders>,
    pub shared_options: SharedOptions,
}

impl Families {
    /// None yet, which may have these orders of keys and share these options.
    pub(crate) fn new(key_orders: KeyOrders, shared_options: SharedOptions) -> Self {
        Self { key_orders: Mutex::new(key_orders), shared_options, ..Self::default() }
    }

    /// Makes sure that the order of a family's keys is known, before a handle of it is given out.
    ///
    /// # Errors
    /// [`Error::KeyOrderNotRegistered`].
    pub(crate) fn find_key_order(&self, family: &FamilyState) -> Result<()> {
        let registered = |order: &str| lock(&self.key_orders).get(order).cloned();
        family.keys.find_order(&family.name(), registered)
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
        self.read(|families| families.keys().map(|name| String::from(&**name)).collect())
    }

    /// Makes a family known.
    pub(crate) fn insert(&self, family: Arc<FamilyState>) {
        self.write().insert(family.name(), family);
    }

    /// Makes a family known by another name, in one step.
    pub(crate) fn rename(&self, old: &str, new: &str) {
        let mut families = self.write();
        if let Some(family) = families.remove(old) {
            family.set_name(new);
            families.insert(family.name(), family);
        }
    }

    /// Forgets a family.
    pub(crate) fn remove(&self, name: &str) {
        self.write().remove(name);
    }

    /// Whether families of these names and options may be made in addition to `present` others.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a bad name, [`Error::FamilyExists`],
    /// [`Error::InvalidOptions`], [`Error::KeyOrderNotRegistered`], [`Error::TooLarge`].
    pub(crate) fn check_new(&self, wanted: &[(&str, FamilyOptions)], present: usize) -> Result<()> {
        let mut names = BTreeSet::new();
        for (name, options) in wanted {
            self.check_new_name(name)?;
            options.validate()?;
            self.check_key_order(name, &options.key_order)?;
            if !names.insert(*name) {
                return Err(Error::FamilyExists((*name).to_owned()));
            }
        }
        check_number_of_families(present + wanted.len())
    }

    /// Refuses an order of the application's that is not registered.
    ///
    /// # Errors
    /// [`Error::KeyOrderNotRegistered`].
    fn check_key_order(&self, family: &str, order: &KeyOrder) -> Result<()> {
        match order {
            KeyOrder::Custom(name) if lock(&self.key_orders).get(name).is_none() => {
                Err(not_registered(family, name))
            }
            _ => Ok(()),
        }
    }

    /// The family of that name, if the order of its keys is known.
    ///
    /// # Errors
    /// [`Error::FamilyNotFound`], [`Error::KeyOrderNotRegistered`].
    pub(crate) fn usable(&self, name: &str) -> Result<Arc<FamilyState>> {
        let family = self.find(name)?;
        self.find_key_order(&family)?;
        Ok(family)
    }

    /// The family of that name, whether its keys can be put in order or not.
    ///
    /// # Errors
    /// [`Error::FamilyNotFound`].
    pub(crate) fn find(&self, name: &str) -> Result<Arc<FamilyState>> {
        self.by_name(name).ok_or_else(|| Error::FamilyNotFound(name.to_owned()))
    }

    /// Whether a family may be called that.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a bad name, [`Error::FamilyExists`].
    pub(crate) fn check_new_name(&self, name: &str) -> Result<()> {
        check_name(name)?;
        match self.by_name(name) {
            Some(_) => Err(Error::FamilyExists(name.to_owned())),
            None => Ok(()),
        }
    }

    /// Whether a power cut that takes the log's unsynced part, with a flush of `family` through
    /// `boundary` on disk, could tear a commit or leave a hole: some other family has commits in
    /// that part of the log.
    pub(crate) fn others_depend_on_log(&self, family: &Arc<FamilyState>, boundary: u64) -> bool {
        self.all().iter().any(|other| {
            !Arc::ptr_eq(other, family) && other.view.load().first_unflushed() <= boundary
        })
    }

    fn read<R>(&self, look: impl FnOnce(&BTreeMap<Arc<str>, Arc<FamilyState>>) -> R) -> R {
        look(&self.known.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn write(&self) -> RwLockWriteGuard<'_, BTreeMap<Arc<str>, Arc<FamilyState>>> {
        self.known.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Family names are stored and printed, and other tools make files of them.
///
/// # Errors
/// [`Error::InvalidArgument`].
pub(crate) fn check_name(name: &str) -> Result<()> {
    let problem = if name.is_empty() {
        "is empty"
    } else if name.len() > MAX_FAMILY_NAME_BYTES {
        "is longer than 127 bytes"
    } else if name == "." || name == ".." || name.contains(['/', '\\']) {
        "could be taken for a path"
    } else if name.chars().any(char::is_control) {
        "contains a control character"
    } else {
        return Ok(());
    };
    Err(Error::InvalidArgument(format!("the family name {name:?} {problem}")))
}

/// Whether there may be so many families.
///
/// # Errors
/// [`Error::TooLarge`].
pub(crate) fn check_number_of_families(count: usize) -> Result<()> {
    if count > MAX_FAMILIES {
        return Err(Error::TooLarge {
            what: "number of column families",
            size: count as u64,
            limit: MAX_FAMILIES as u64,
        });
    }
    Ok(())
}
