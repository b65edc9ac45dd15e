//! What is in a batch, as it was given.

use super::WriteBatch;
use crate::family::CommittedOperation;

impl WriteBatch {
    /// Calls `visit` with the name of the family and each operation, in the order in which they
    /// were added. A time to live is shown as the Unix second at which it ends.
    ///
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// use tidesdb::{CommittedKind, Db, DbOptions, FamilyOptions, WriteBatch};
    /// let db = Db::open(directory.path(), DbOptions::default())?;
    /// let users = db.open_family("users", FamilyOptions::default())?;
    /// let mut batch = WriteBatch::new();
    /// batch.put(&users, "ada", "lovelace")?;
    /// batch.delete(&users, "alan")?;
    /// let mut deleted = Vec::new();
    /// batch.for_each_operation(|family, operation| {
    ///     if operation.kind == CommittedKind::Delete {
    ///         deleted.push((family.to_owned(), operation.key.to_vec()));
    ///     }
    /// });
    /// assert_eq!(deleted, [("users".to_owned(), b"alan".to_vec())]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "iterate")]
    pub fn for_each_operation(&self, mut visit: impl FnMut(&str, &CommittedOperation<'_>)) {
        for operation in self.operations() {
            let Some(family) = self.families.find(operation.family) else { continue };
            let name = family.name();
            family.with_given(std::iter::once(operation), |given| {
                given.iter().for_each(|operation| visit(&name, operation));
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use tidesdb_base::key_order::KeyOrder;
    use tidesdb_base::options::{DbOptions, FamilyOptions};

    use crate::db::{Components, Db};
    use crate::family::CommittedKind;
    use crate::write::WriteBatch;

    #[test]
    fn a_batch_shows_what_it_was_given_in_that_order() {
        let db = Db::open_with("/db", DbOptions::default(), Components::simulated()).unwrap();
        let plain = db.create_family("plain", FamilyOptions::default()).unwrap();
        let options = FamilyOptions::default().key_order(KeyOrder::Reverse);
        let reverse = db.create_family("reverse", options).unwrap();
        let large = vec![7; 1 << 20];
        let mut batch = WriteBatch::new();
        batch.put(&reverse, "a", "1").unwrap();
        batch.put(&plain, "large", &large).unwrap();
        batch.put_expiring_at(&plain, "b", "2", 4_000_000_000).unwrap();
        batch.delete_range(&plain, "c", "d").unwrap();
        batch.delete_prefix(&reverse, "p").unwrap();
        batch.single_delete(&reverse, "s").unwrap();
        let mut seen = Vec::new();
        batch.for_each_operation(|family, it| {
            let (key, second) = (it.key.to_vec(), it.expires_at_unix_seconds);
            seen.push((family.to_owned(), it.kind, key, it.value.len(), second));
        });
        let expected = [
            ("reverse", CommittedKind::Put, "a", 1, 0),
            ("plain", CommittedKind::Put, "large", 1 << 20, 0),
            ("plain", CommittedKind::Put, "b", 1, 4_000_000_000),
            ("plain", CommittedKind::DeleteRange, "c", 1, 0),
            ("reverse", CommittedKind::DeletePrefix, "p", 0, 0),
            ("reverse", CommittedKind::SingleDelete, "s", 0, 0),
        ];
        let expected = expected.map(|(family, kind, key, bytes, second)| {
            (family.to_owned(), kind, key.as_bytes().to_vec(), bytes, second)
        });
        assert_eq!(seen, expected);
    }
}
