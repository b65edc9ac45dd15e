//! Scans of a transaction.

use std::sync::Arc;

use tidesdb_base::error::{Error, Result};

use super::Transaction;
use super::read_set::ScanReads;
use crate::handles::{Family, Snapshot};
use crate::isolation::IsolationLevel;
use crate::iterator::{KeyRange, OfTransaction, Scan, ScanOptions};

impl Transaction {
    /// An iterator over a family as the transaction sees it, its own writes up to now included; not
    /// positioned yet. It does not borrow the transaction, which may write while it goes on:
    ///
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// use tidesdb::{Db, DbOptions, FamilyOptions, IsolationLevel, ScanOptions};
    /// let db = Db::open(directory.path(), DbOptions::default())?;
    /// let jobs = db.open_family("jobs", FamilyOptions::default())?;
    /// jobs.put(b"1", b"done")?;
    /// let mut transaction = db.begin(IsolationLevel::Snapshot)?;
    /// for entry in transaction.scan(&jobs, ScanOptions::new())? {
    ///     transaction.delete(&jobs, &entry?.0)?;
    /// }
    /// transaction.commit()?;
    /// assert!(!jobs.contains(b"1")?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Family::scan`]; `Invalid` for a family of another database, options with a snapshot,
    /// or a finished transaction.
    pub fn scan(&self, family: &Family, mut options: ScanOptions) -> Result<Scan> {
        self.check_active()?;
        let family = family.state();
        self.check_family(family)?;
        if options.snapshot.is_some() {
            let text = "the iterator of a transaction can't have a snapshot of its own";
            return Err(Error::InvalidArgument(text.to_owned()));
        }
        // Before the registry of snapshots, of which a lock may be held for good in a forked child.
        self.core().health.check_readable(family)?;
        options.snapshot = self.snapshot.map(|snapshot| Snapshot::again(self.core(), snapshot));
        let own = self.writes.as_deref().filter(|writes| !writes.is_empty());
        let own = own.map(|writes| {
            let own = writes.in_order(family.id, &self.core().memory.budget);
            self.charge_index(writes);
            own
        });
        let own = own.filter(|own| !own.is_empty());
        let tracks = self.level.tracks_reads();
        let reads = tracks.then(|| {
            let reads = Box::new(ScanReads::new(self.reads(), family)) as _;
            // What the scans before it have read: they have no part in the account.
            self.charge(None);
            reads
        });
        let moving = self.level == IsolationLevel::ReadUncommitted;
        let is_plain = own.is_none() && reads.is_none() && !moving;
        let part = (!is_plain).then_some(OfTransaction { own, reads, moving });
        Scan::new(Arc::clone(&**self.owner), family, options, part)
    }

    /// A scan of all keys of a family as the transaction sees it. See [`Transaction::scan`].
    ///
    /// # Errors
    /// As [`Transaction::scan`].
    pub fn iter(&self, family: &Family) -> Result<Scan> {
        self.scan(family, ScanOptions::new())
    }

    /// As [`Transaction::scan`], of the keys that start with `prefix`.
    ///
    /// # Errors
    /// As [`Transaction::scan`].
    pub fn prefix(&self, family: &Family, prefix: impl AsRef<[u8]>) -> Result<Scan> {
        self.scan(family, ScanOptions::new().prefix(prefix))
    }

    /// As [`Transaction::scan`], of the keys in a range, as [`ScanOptions::range`] takes it.
    ///
    /// # Errors
    /// As [`Transaction::scan`].
    pub fn range(&self, family: &Family, range: impl KeyRange) -> Result<Scan> {
        self.scan(family, ScanOptions::new().range(range))
    }
}
