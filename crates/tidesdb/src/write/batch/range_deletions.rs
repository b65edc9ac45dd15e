//! Deletions of ranges of keys in a batch.

use tidesdb_base::entry::{NEVER_EXPIRES, ValueKind};
use tidesdb_base::error::{Error, Result};
use tidesdb_base::key_order::KeyOrder;
use tidesdb_base::key_ranges::{EVERYTHING, prefix_end};

use super::WriteBatch;
use crate::handles::Family;

impl WriteBatch {
    /// Adds the deletion of every key from `start` on that comes before `end`; what the batch puts
    /// into the range afterwards stays. The cost does not depend on the number of keys.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when a key is empty or `start` is not before `end`;
    /// [`Error::TooLarge`] as for [`WriteBatch::put`]. The batch is unchanged then.
    pub fn delete_range(
        &mut self,
        family: &Family,
        start: impl AsRef<[u8]>,
        end: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.add_range_deletion(family, start.as_ref(), end.as_ref())
    }

    fn add_range_deletion(&mut self, family: &Family, start: &[u8], end: &[u8]) -> Result<()> {
        if start.is_empty() || end.is_empty() {
            return Err(Error::InvalidArgument("a key of the range is empty".to_owned()));
        }
        let order = &family.state().keys.order;
        if let KeyOrder::Custom(_) = order {
            let text = "ranges of keys in an order of the application can't be deleted";
            return Err(Error::InvalidArgument(text.to_owned()));
        }
        let (start, end) = (&*order.stored_key(start), &*order.stored_key(end));
        if start >= end {
            let detail = "the range is empty: its start is not before its end";
            return Err(Error::InvalidArgument(detail.to_owned()));
        }
        self.add_stored(family.state(), ValueKind::RangeTombstone, NEVER_EXPIRES, start, end)
    }

    /// Adds the deletion of every key that starts with `prefix`, as [`WriteBatch::delete_range`].
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for an empty prefix, [`Error::TooLarge`]; the batch is unchanged
    /// then.
    pub fn delete_prefix(&mut self, family: &Family, prefix: impl AsRef<[u8]>) -> Result<()> {
        self.add_prefix_deletion(family, prefix.as_ref())
    }

    fn add_prefix_deletion(&mut self, family: &Family, prefix: &[u8]) -> Result<()> {
        if prefix.is_empty() {
            return Err(Error::InvalidArgument("the prefix is empty".to_owned()));
        }
        let prefix = &*family.state().keys.order.stored_prefix(prefix)?;
        // No end at all when the prefix is all ones, or nothing is left of it.
        let end = prefix_end(prefix).unwrap_or_default();
        // No stored key is empty, and this is the first of the others.
        let prefix = if prefix.is_empty() { EVERYTHING.0 } else { prefix };
        self.add_stored(family.state(), ValueKind::RangeTombstone, NEVER_EXPIRES, prefix, &end)
    }

    /// Adds the deletion of every key of a family, as [`WriteBatch::delete_range`].
    ///
    /// # Errors
    /// [`Error::TooLarge`]; the batch is unchanged then.
    #[doc(alias = "clear")]
    pub fn delete_all(&mut self, family: &Family) -> Result<()> {
        // From the smallest of all stored keys on, without an end.
        let (start, end) = EVERYTHING;
        self.add_stored(family.state(), ValueKind::RangeTombstone, NEVER_EXPIRES, start, end)
    }
}
