//! Reads of several keys, and at a snapshot.

use tidesdb_base::error::{Error, Result};
use tidesdb_lockfree::snapshot_registry::ReadPoint;

use crate::handles::{Family, Snapshot};
use crate::iterator::{KeyRange, Scan, ScanOptions};
use crate::read::{Collect, PinnedValue, Pins};
use crate::stats::approximate_count;

impl Family {
    /// A scan of the keys that start with `prefix`, not positioned yet; a `for` loop goes through
    /// it.
    ///
    /// ```
    /// # let directory = tempfile::tempdir()?;
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
        self.scan(ScanOptions::new().prefix(prefix))
    }

    /// A scan of the keys in a range, as [`ScanOptions::range`] takes it. See [`Family::prefix`].
    ///
    /// # Errors
    /// As [`Family::scan`].
    pub fn range(&self, range: impl KeyRange) -> Result<Scan> {
        self.scan(ScanOptions::new().range(range))
    }

    /// About how many keys the family has in a range, `..` for all of it. Reads the indexes of
    /// tables that are not open and nothing else, and takes time in proportion to the tables and to
    /// the keys in memory.
    ///
    /// Of keys that were written once and lie in one run the number is wrong by at most the entries
    /// of two blocks (two index nodes, in B+trees), and exact where the range covers the tables.
    /// Where keys are overwritten or deleted, or lie in several runs, the sketches of the tables
    /// show how many are alive, for the family as a whole: their standard error is 6.5 %. Keys in
    /// memory are counted one by one, and filters show which of them are in tables as well. Range
    /// deletions in memory do not count for keys in tables. Where the application orders the keys
    /// by a function of its own, all keys are counted, whatever the range.
    ///
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// use tidesdb::{Db, DbOptions, FamilyOptions};
    /// let db = Db::open(directory.path(), DbOptions::default())?;
    /// let family = db.open_family("default", FamilyOptions::default())?;
    /// for n in 0..1000_u32 {
    ///     family.put(&n.to_be_bytes(), b"value")?;
    /// }
    /// assert_eq!(family.approximate_count(..)?, 1000);
    /// assert_eq!(family.approximate_count(5_u32.to_be_bytes()..10_u32.to_be_bytes())?, 5);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `Corruption` or `Io` when a table can't be opened, `Closed`.
    pub fn approximate_count(&self, range: impl KeyRange) -> Result<u64> {
        self.core().health.check_readable(&self.state)?;
        // What is left are limits in an order of the application's own.
        let (bounds, _) = ScanOptions::new().range(range).into_bounds(&self.state.keys.order)?;
        let (from, to) = (bounds.lower.as_deref(), bounds.upper.as_deref());
        approximate_count(self.core(), &self.state, from, to)
    }

    /// The values of several keys as of one moment, in the order of the keys. Faster than one get
    /// after the other: keys are looked up in their order, what several of them need is read once,
    /// and reads from the disk overlap.
    ///
    /// ```
    /// # let directory = tempfile::tempdir()?;
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
        self.multi_get_at(&self.snapshot()?, keys)
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
        let keys: Vec<K> = keys.into_iter().collect();
        let mut values = vec![None; keys.len()];
        self.collect_at(snapshot, &keys, &mut values)?;
        self.state.keys.take_off_spelling(&mut values);
        Ok(values)
    }

    /// As [`Family::multi_get`], without copies: the values where they lie. See [`PinnedValue`] for
    /// what they keep in memory; values of one block keep it together.
    ///
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// use tidesdb::{Db, DbOptions, FamilyOptions};
    /// let db = Db::open(directory.path(), DbOptions::default())?;
    /// let family = db.open_family("default", FamilyOptions::default())?;
    /// family.put("a", "1")?;
    /// let values = family.multi_get_pinned(["a", "b"])?;
    /// assert_eq!(values[0].as_deref(), Some(&b"1"[..]));
    /// assert!(values[1].is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Family::multi_get`].
    pub fn multi_get_pinned<K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Vec<Option<PinnedValue>>> {
        self.multi_get_pinned_at(&self.snapshot()?, keys)
    }

    /// As [`Family::multi_get_pinned`], in a snapshot.
    ///
    /// # Errors
    /// As [`Family::get_at`].
    pub fn multi_get_pinned_at<K: AsRef<[u8]>>(
        &self,
        snapshot: &Snapshot,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Vec<Option<PinnedValue>>> {
        let keys: Vec<K> = keys.into_iter().collect();
        let values = keys.iter().map(|_| None).collect();
        let mut pins = Pins { budget: &self.core().memory.budget, family: &self.state, values };
        self.collect_at(snapshot, &keys, &mut pins)?;
        Ok(pins.values)
    }

    /// What is there now. A lock of the registry of snapshots may be held for good in a forked
    /// child, so it is not asked there.
    fn snapshot(&self) -> Result<Snapshot> {
        self.core().health.check_readable(&self.state)?;
        Ok(Snapshot::take(self.core()))
    }

    fn collect_at<K: AsRef<[u8]>>(
        &self,
        snapshot: &Snapshot,
        keys: &[K],
        collect: &mut impl Collect,
    ) -> Result<()> {
        self.check_snapshot(snapshot)?;
        let (core, read_point) = (self.core(), snapshot.read_point());
        let wanted = (0..keys.len()).collect();
        match self.state.keys.stored_keys(keys)? {
            None => core.get_many(&self.state, read_point, (keys, wanted), collect),
            Some(keys) => core.get_many(&self.state, read_point, (&keys, wanted), collect),
        }
    }

    pub(super) fn check_snapshot(&self, snapshot: &Snapshot) -> Result<()> {
        if snapshot.belongs_to(self.core()) {
            return Ok(());
        }
        Err(Error::InvalidArgument("the snapshot is of another database".to_owned()))
    }

    /// The value of a key where it lies, without a copy; see [`PinnedValue`] for what it keeps in
    /// memory.
    ///
    /// # Errors
    /// As [`Family::get`].
    pub fn get_pinned(&self, key: impl AsRef<[u8]>) -> Result<Option<PinnedValue>> {
        self.core().get_pinned(&self.state, None, key.as_ref())
    }

    /// As [`Family::get_pinned`], in a snapshot.
    ///
    /// # Errors
    /// As [`Family::get_at`].
    pub fn get_pinned_at(
        &self,
        snapshot: &Snapshot,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<PinnedValue>> {
        self.check_snapshot(snapshot)?;
        self.core().get_pinned(&self.state, Some(snapshot.read_point()), key.as_ref())
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
        self.check_snapshot(snapshot)?;
        self.core().get_with(&self.state, Some(snapshot.read_point()), key.as_ref(), read)
    }

    pub(super) fn has(&self, read_point: Option<ReadPoint>, key: &[u8]) -> Result<bool> {
        Ok(self.core().get_with(&self.state, read_point, key, |_| ())?.is_some())
    }

    /// True when the key has a value in a snapshot.
    ///
    /// # Errors
    /// As [`Family::get_at`].
    pub fn contains_at(&self, snapshot: &Snapshot, key: impl AsRef<[u8]>) -> Result<bool> {
        self.check_snapshot(snapshot)?;
        self.has(Some(snapshot.read_point()), key.as_ref())
    }
}
