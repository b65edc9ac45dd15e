//! Orders of keys that the application compares by a function of its own.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::{KeyOrder, MAX_ORDER_NAME_BYTES};
use crate::error::{Error, Result};

/// How two keys compare in an order of the application. See [`KeyOrders`].
pub type CompareKeys = Arc<dyn Fn(&[u8], &[u8]) -> Ordering + Send + Sync>;

/// The application's own orders by their names.
///
/// A family of such an order keeps its keys by their bytes, and the function is called for scans
/// alone: the first positioning of a scan reads all keys that its prefix allows and sorts them in
/// memory, and each step then looks one key up. That is meant for families of moderate size. Keys
/// that the function calls equal but whose bytes differ are different keys all the same, next to
/// each other in a scan. A range of keys can't be deleted at once; a prefix can.
///
/// A function that panics, or that does not order keys consistently, makes the scan fail with an
/// error of kind `Invalid`, or show keys in some order. Nothing that is stored depends on it.
#[derive(Clone, Default)]
pub struct KeyOrders(BTreeMap<String, CompareKeys>);

impl KeyOrders {
    /// Adds an order.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a name that is empty, too long, that of a built-in order, or
    /// known already.
    pub fn register(&mut self, name: &str, compare: CompareKeys) -> Result<()> {
        if let Some(problem) = name_problem(name) {
            return Err(Error::InvalidArgument(problem));
        }
        if self.0.contains_key(name) {
            return Err(Error::InvalidArgument(format!(
                "key order '{name}' is registered already"
            )));
        }
        self.0.insert(name.to_owned(), compare);
        Ok(())
    }

    /// The function of an order.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&CompareKeys> {
        self.0.get(name)
    }
}

impl fmt::Debug for KeyOrders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// Equal when the same functions have the same names.
impl PartialEq for KeyOrders {
    fn eq(&self, other: &Self) -> bool {
        let same =
            |((name, one), (other_name, other)): ((&String, &CompareKeys), (_, &CompareKeys))| {
                name == other_name && Arc::ptr_eq(one, other)
            };
        self.0.len() == other.0.len() && self.0.iter().zip(&other.0).all(same)
    }
}

pub(super) fn name_problem(name: &str) -> Option<String> {
    let shown = name.escape_debug();
    if name.is_empty() || name.len() > MAX_ORDER_NAME_BYTES {
        return Some(format!(
            "name of a key order '{shown}' must be 1 to {MAX_ORDER_NAME_BYTES} bytes long"
        ));
    }
    if name.trim() != name || name.contains(['\n', '\r']) {
        return Some(format!("name of a key order '{shown}' has white space at an end, or lines"));
    }
    (KeyOrder::from_name(name).is_some())
        .then(|| format!("'{shown}' is the name of a built-in key order"))
}
