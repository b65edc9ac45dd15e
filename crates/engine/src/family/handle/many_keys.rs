//! Reads of several keys, and at a snapshot.

use tidesdb_base::error::{Error, Result};

use super::Family;
use crate::iterator::{KeyRange, Scan, ScanOptions};
use crate::read::in_key_order;
use crate::snapshot::Snapshot;

impl Family {
    /// A scan of the keys that start with `prefix`, not positioned yet; a `for` loop goes through
    /// it.
    ///
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # use tidesdb_engine as tidesdb;
    /// use tidesdb::{Db, DbOptions, FamilyOptions};
    /// let db = Db::open(directory.path(), DbOptions::default())?;
    /// let family = db.open_family("default", FamilyOptions::default())?;
    /// family.put(b"user:1", b"ada")?;
    /// family.put(b"user:2", b"alan")?;
    /// for entry in family.prefix("user:")? {
    ///     let (key, value) = entry?;
    ///     println!("{key:?} {value:?}");
    /// }
    /// assert_eq!(family.range("user:1".."user:2")?.into_iter().count(), 1);
    /// assert_eq!(family.range("user:1"..="user:2")?.into_iter().count(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Family::scan`].
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Result<Scan> {
        self.scan(ScanOptions::new().prefix(prefix.as_ref()))
    }

    /// A scan of the keys in a range, as [`ScanOptions::range`] takes it. See [`Family::prefix`].
    ///
    /// # Errors
    /// As [`Family::scan`].
    pub fn range(&self, range: impl KeyRange) -> Result<Scan> {
        self.scan(ScanOptions::new().range(range))
    }

    /// The values of several keys as of one moment, in the order of the keys.
    ///
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # use tidesdb_engine as tidesdb;
    /// use tidesdb::{Db, DbOptions, FamilyOptions};
    /// let db = Db::open(directory.path(), DbOptions::default())?;
    /// let family = db.open_family("default", FamilyOptions::default())?;
    /// family.put(b"a", b"1")?;
    /// assert_eq!(family.multi_get(["b", "a"])?, [None, Some(b"1".to_vec())]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Family::get`]; an error of one key is the error of the call.
    pub fn multi_get<K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Vec<Option<Vec<u8>>>> {
        self.multi_get_at(&Snapshot::take(self.core()), keys)
    }

    /// As [`Family::multi_get`], in a snapshot.
    ///
    /// # Errors
    /// As [`Family::get_at`].
    pub fn multi_get_at<K: AsRef<[u8]>>(
        &self,
        snapshot: &Snapshot,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Vec<Option<Vec<u8>>>> {
        in_key_order(keys, |key| self.get_at(snapshot, key))
    }

    /// Calls `read` with the value of a key in a snapshot, borrowed where it lies.
    ///
    /// # Errors
    /// As [`Family::get_at`].
    pub fn get_with_at<R>(
        &self,
        snapshot: &Snapshot,
        key: impl AsRef<[u8]>,
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        if !snapshot.belongs_to(self.core()) {
            return Err(Error::InvalidArgument("the snapshot is of another database".to_owned()));
        }
        self.core().get_with(&self.state, Some(snapshot.moment()), key.as_ref(), read)
    }

    /// True when the key has a value in a snapshot.
    ///
    /// # Errors
    /// As [`Family::get_at`].
    pub fn contains_at(&self, snapshot: &Snapshot, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.get_with_at(snapshot, key, |_| ())?.is_some())
    }
}
