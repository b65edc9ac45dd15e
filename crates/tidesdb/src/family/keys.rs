//! Keys of a family as they are given and as they are stored.
//!
//! All that lies below the handles (log, memtables, tables, filters, checks of transactions, range
//! deletions) has stored keys and compares bytes; see [`tidesdb_base::key_order`]. A key is
//! transformed where it comes in: in a write batch, a get, a bound, a seek. It is transformed back
//! where it goes out: by scans, to commit hooks and in errors. In families in the order of bytes
//! both cost one branch.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use tidesdb_base::error::{Error, Result};
use tidesdb_base::key_order::{CompareKeys, KeyOrder};

/// How a family orders its keys.
pub(crate) struct FamilyKeys {
    /// Never changes.
    pub order: KeyOrder,
    /// The function of a custom order, from the first handle on that was given out.
    application: OnceLock<CompareKeys>,
}

impl std::fmt::Debug for FamilyKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FamilyKeys")
            .field("order", &self.order)
            .field("application", &self.application.get().is_some())
            .finish()
    }
}

impl FamilyKeys {
    pub(super) const fn new(order: KeyOrder) -> Self {
        Self { order, application: OnceLock::new() }
    }

    /// The application's function that orders the keys; none where the engine orders them. Every
    /// handle that there is was given out when it was known.
    pub(crate) fn application_order(&self) -> Option<&CompareKeys> {
        self.application.get()
    }

    /// Makes sure that the order of the keys is known, before a handle of `family` is given out.
    /// `registered` finds the function of a custom order.
    ///
    /// # Errors
    /// [`Error::KeyOrderNotRegistered`].
    pub(crate) fn find_order(
        &self,
        family: &str,
        registered: impl FnOnce(&str) -> Option<CompareKeys>,
    ) -> Result<()> {
        let KeyOrder::Custom(name) = &self.order else { return Ok(()) };
        if self.application.get().is_some() {
            return Ok(());
        }
        let Some(compare) = registered(name) else {
            return Err(not_registered(family, name));
        };
        self.application.get_or_init(|| compare);
        Ok(())
    }

    /// Orders the keys as another family does that has a handle.
    pub(crate) fn take_order_of(&self, other: &Self) {
        if let Some(compare) = other.application_order() {
            self.application.get_or_init(|| Arc::clone(compare));
        }
    }

    /// The bytes under which a key is stored.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for an empty key.
    #[inline]
    pub(crate) fn stored_key<'k>(&self, key: &'k [u8]) -> Result<Cow<'k, [u8]>> {
        if key.is_empty() {
            return Err(Error::InvalidArgument("the key is empty".to_owned()));
        }
        Ok(self.order.stored_key(key))
    }

    /// The bytes under which keys are stored; `None` where these are the keys themselves.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for an empty key.
    pub(crate) fn stored_keys<'k, K: AsRef<[u8]>>(
        &self,
        keys: &'k [K],
    ) -> Result<Option<Vec<Cow<'k, [u8]>>>> {
        if self.order.stores_keys_as_given() {
            return Ok(None);
        }
        keys.iter().map(|key| self.stored_key(key.as_ref())).collect::<Result<_>>().map(Some)
    }

    /// Makes values of stored values.
    pub(crate) fn take_off_spelling(&self, values: &mut [Option<Vec<u8>>]) {
        if self.order.keeps_spelling() {
            for value in values.iter_mut().flatten() {
                let spelling = value.len() - self.order.value(value).len();
                value.drain(..spelling);
            }
        }
    }
}

/// What is returned to those who ask for a family whose order is not known.
pub(crate) fn not_registered(family: &str, order: &str) -> Error {
    Error::KeyOrderNotRegistered { family: family.to_owned(), order: order.to_owned() }
}
