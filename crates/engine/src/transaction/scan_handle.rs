//! The iterator of a transaction that users hold.

use tidesdb_base::error::Result;

use super::scan::StoredTransactionScan;
use crate::iterator::{InOrder, Movement};

/// Walks the keys of a family in order, both ways, as a transaction sees them.
///
/// Made by [`Transaction::scan`](crate::Transaction::scan); not positioned until one of the `seek`
/// methods is called. It shows the transaction's writes as they were when it was made, also when the
/// transaction has ended since; what it reads counts as read by the transaction until that ends.
/// After an error it is invalid until the next seek.
///
/// ```
/// # let directory = tempfile::tempdir()?;
/// # use tidesdb_engine as tidesdb;
/// use tidesdb::{Db, DbOptions, FamilyOptions, IsolationLevel, ScanOptions};
/// let db = Db::open(directory.path(), DbOptions::default())?;
/// let family = db.open_family("default", FamilyOptions::default())?;
/// family.put(b"a", b"1")?;
/// let mut transaction = db.begin(IsolationLevel::Serializable)?;
/// transaction.put(&family, b"b", b"2")?;
/// let mut scan = transaction.scan(&family, ScanOptions::new())?;
/// scan.seek_to_last()?;
/// assert_eq!(scan.key(), b"b");
/// scan.prev()?;
/// assert_eq!((scan.key(), scan.value()?), (&b"a"[..], &b"1"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct TransactionScan {
    scan: InOrder<StoredTransactionScan>,
}

impl TransactionScan {
    pub(super) const fn new(scan: InOrder<StoredTransactionScan>) -> Self {
        Self { scan }
    }

    /// True when the scan stands on a key.
    #[inline]
    #[must_use]
    pub fn valid(&self) -> bool {
        self.scan.valid()
    }

    /// The present key; empty when the scan is not valid.
    #[inline]
    #[must_use]
    pub fn key(&self) -> &[u8] {
        self.scan.key()
    }

    /// The present value; empty when the scan is not valid.
    ///
    /// # Errors
    /// `Corrupt` or `Io` when the value lies in a value log and can't be read.
    #[inline]
    pub fn value(&self) -> Result<&[u8]> {
        self.scan.value()
    }

    /// Goes to the first key at or after `key`.
    ///
    /// # Errors
    /// As [`Scan::seek`](crate::Scan::seek).
    pub fn seek(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.go(Movement::To(key.as_ref()))
    }

    /// Goes to the last key at or before `key`.
    ///
    /// # Errors
    /// As [`TransactionScan::seek`].
    pub fn seek_for_prev(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.go(Movement::ToOrBefore(key.as_ref()))
    }

    fn go(&mut self, movement: Movement<'_>) -> Result<()> {
        self.scan.go(movement)
    }

    /// Goes to the first key.
    ///
    /// # Errors
    /// As [`TransactionScan::seek`].
    pub fn seek_to_first(&mut self) -> Result<()> {
        self.scan.go(Movement::First)
    }

    /// Goes to the last key.
    ///
    /// # Errors
    /// As [`TransactionScan::seek`].
    pub fn seek_to_last(&mut self) -> Result<()> {
        self.scan.go(Movement::Last)
    }

    /// Goes to the next key. On a scan that is not valid it does nothing.
    ///
    /// # Errors
    /// As [`TransactionScan::seek`].
    #[inline]
    #[expect(clippy::should_implement_trait, reason = "a scan moves; entries() is the Iterator")]
    pub fn next(&mut self) -> Result<()> {
        self.scan.go(Movement::Next)
    }

    /// Goes to the key before. On a scan that is not valid it does nothing.
    ///
    /// # Errors
    /// As [`TransactionScan::seek`].
    pub fn prev(&mut self) -> Result<()> {
        self.scan.go(Movement::Prev)
    }

    /// The entries from the present position on, as a Rust iterator of copied keys and values.
    /// From the first when the scan was not positioned yet; none when the last call found nothing
    /// or failed, so that a walk by pages ends.
    #[must_use]
    pub const fn entries(self) -> TransactionEntries {
        TransactionEntries { scan: self, started: false, failed: false }
    }
}

/// A transaction's scan as a Rust iterator. It ends after the first error.
#[derive(Debug)]
pub struct TransactionEntries {
    scan: TransactionScan,
    started: bool,
    failed: bool,
}

impl TransactionEntries {
    fn step(&mut self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        if self.started {
            self.scan.next()?;
        } else {
            self.started = true;
            if self.scan.scan.is_unpositioned() {
                self.scan.seek_to_first()?;
            }
        }
        if !self.scan.valid() {
            return Ok(None);
        }
        Ok(Some((self.scan.key().to_vec(), self.scan.value()?.to_vec())))
    }
}

impl Iterator for TransactionEntries {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let step = self.step();
        self.failed = step.is_err();
        step.transpose()
    }
}

impl IntoIterator for TransactionScan {
    type Item = Result<(Vec<u8>, Vec<u8>)>;
    type IntoIter = TransactionEntries;

    /// As [`TransactionScan::entries`].
    fn into_iter(self) -> TransactionEntries {
        self.entries()
    }
}
