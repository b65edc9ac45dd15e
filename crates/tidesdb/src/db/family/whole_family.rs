//! The whole family: its entries, its ends, and the deletion of everything.

use tidesdb_base::error::Result;

use crate::handles::Family;
use crate::iterator::{Scan, ScanOptions};
use crate::write::WriteOptions;

impl Family {
    /// A scan of all keys, not positioned yet; a `for` loop goes through it, and
    /// [`Scan::rev`] turns it round. As [`Family::range`] of `..`.
    ///
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// use tidesdb::{Db, DbOptions, FamilyOptions};
    /// let db = Db::open(directory.path(), DbOptions::default())?;
    /// let family = db.open_family("default", FamilyOptions::default())?;
    /// assert!(family.is_empty()?);
    /// family.put("a", "1")?;
    /// family.put("b", "2")?;
    /// for entry in family.iter()? {
    ///     let (key, value) = entry?;
    ///     println!("{key:?} {value:?}");
    /// }
    /// let (newest, _) = family.last_key_value()?.unwrap();
    /// assert_eq!(newest, b"b");
    /// family.delete_all()?;
    /// assert_eq!(family.first_key_value()?, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Family::scan`].
    pub fn iter(&self) -> Result<Scan> {
        self.scan(ScanOptions::new())
    }

    /// The first entry in the order of the family, copied; `None` when there is none.
    ///
    /// # Errors
    /// As [`Family::scan`].
    #[doc(alias = "first")]
    pub fn first_key_value(&self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.iter()?.entries().next().transpose()
    }

    /// The last entry in the order of the family, copied; `None` when there is none.
    ///
    /// # Errors
    /// As [`Family::scan`].
    #[doc(alias = "last")]
    pub fn last_key_value(&self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.iter()?.rev().next().transpose()
    }

    /// Whether the family shows no key: it was never written, or everything is deleted or expired.
    ///
    /// # Errors
    /// As [`Family::scan`].
    pub fn is_empty(&self) -> Result<bool> {
        let mut scan = self.iter()?;
        scan.seek_to_first()?;
        Ok(!scan.valid())
    }

    /// Deletes every key, as [`Family::delete_range`] deletes those of a range: one log record, and
    /// tables are removed without being read. The family stays, with its options; keys that are
    /// put afterwards stay as well.
    ///
    /// # Errors
    /// As [`Family::put`].
    #[doc(alias = "clear")]
    #[doc(alias = "truncate")]
    pub fn delete_all(&self) -> Result<()> {
        self.delete_all_with(WriteOptions::default())
    }

    /// As [`Family::delete_all`], as durable as the options say.
    ///
    /// # Errors
    /// As [`Family::put`]; `Invalid` also for options with a time to live.
    pub fn delete_all_with(&self, options: WriteOptions) -> Result<()> {
        self.write_with(options, |batch| batch.delete_all(self))
    }
}
