//! The iterator that users hold.

use std::sync::Arc;

use tidesdb_base::error::Result;

use super::ScanOptions;
use super::family_order::OrderedScan;
use super::scan::{Movement, OfTransaction, StoredScan};
use crate::core::Owner;
use crate::family::FamilyState;

/// Walks the keys of a family in order, both ways, as of one moment.
///
/// Made by [`Family::scan`](crate::Family::scan) and, for a family as a transaction sees it, by
/// [`Transaction::scan`](crate::Transaction::scan). The latter shows the transaction's writes as
/// they were when it was made, also when the transaction has ended since; what it reads counts as
/// read by the transaction until that ends.
///
/// A scan is not positioned until one of the `seek` methods is called. It holds a snapshot and the
/// files it reads, never a lock: it blocks no writer and no flush, however long it lives. Like any
/// other handle it keeps the database open; after [`crate::Db::close`] it returns `Closed` where it
/// needs a file that was not open. After an error it is invalid until the next seek.
///
/// ```
/// # let directory = tempfile::tempdir()?;
/// use tidesdb::{Db, DbOptions, FamilyOptions, ScanOptions};
/// let db = Db::open(directory.path(), DbOptions::default())?;
/// let family = db.open_family("default", FamilyOptions::default())?;
/// for key in ["apple", "apricot", "banana"] {
///     family.put(key.as_bytes(), b"fruit")?;
/// }
/// let mut scan = family.scan(ScanOptions::new().prefix(b"ap"))?;
/// scan.seek_to_last()?;
/// assert_eq!(scan.key(), b"apricot");
/// scan.prev()?;
/// assert_eq!((scan.key(), scan.value()?), (&b"apple"[..], &b"fruit"[..]));
/// assert_eq!(family.scan(ScanOptions::new())?.entries().count(), 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Scan {
    scan: OrderedScan,
}

impl Scan {
    pub(crate) fn new(
        owner: Arc<Owner>,
        family: &Arc<FamilyState>,
        options: ScanOptions,
        transaction: Option<OfTransaction>,
    ) -> Result<Self> {
        let (bounds, limits) = options.into_bounds(&family.keys.order)?;
        let scan = StoredScan::new(owner, Arc::clone(family), bounds, transaction)?;
        Ok(Self { scan: OrderedScan::new(scan, family, limits) })
    }

    /// Takes up what was committed since; the scan is not positioned afterwards. A scan made with
    /// a snapshot stays at that snapshot, and one of a transaction at that of the transaction.
    ///
    /// # Errors
    /// As [`crate::Family::scan`].
    pub fn refresh(&mut self) -> Result<()> {
        self.scan.refresh()
    }

    /// No seek since the scan was made or refreshed.
    pub(super) fn is_unpositioned(&self) -> bool {
        self.scan.stored().is_unpositioned()
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

    /// The present value, borrowed where it lies; empty when the scan is not valid.
    ///
    /// # Errors
    /// `Corruption` or `Io` when the value lies in a value log and can't be read.
    #[inline(always)]
    pub fn value(&self) -> Result<&[u8]> {
        self.scan.value()
    }

    /// The present key and value, for less than [`Scan::key`] and [`Scan::value`] take one after
    /// the other; both empty when the scan is not valid.
    ///
    /// # Errors
    /// As [`Scan::value`].
    #[inline(always)]
    pub fn key_value(&self) -> Result<(&[u8], &[u8])> {
        self.scan.key_value()
    }

    /// The present key and value where they lie in memory as they are shown; `None` when the scan
    /// is not valid, and when [`Scan::key_value`] would have to read or transform something. Both
    /// stay where they are until the scan moves, is refreshed or dropped.
    #[inline(always)]
    #[must_use]
    pub fn key_value_at_hand(&self) -> Option<(&[u8], &[u8])> {
        self.scan.key_value_at_hand()
    }

    /// Unix second at which the present entry expires; `None` when it never does, or the scan is
    /// not valid.
    #[must_use]
    pub fn expires_at_unix_seconds(&self) -> Option<u64> {
        if self.valid() { self.scan.stored().expires_at_unix_seconds() } else { None }
    }

    /// Goes to the first key at or after `key`.
    ///
    /// # Errors
    /// `Corruption` or `Io`; the scan is not valid then. Also `Invalid` where the application's own
    /// order of keys failed.
    pub fn seek(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.go(Movement::To(key.as_ref()))
    }

    /// Goes to the last key at or before `key`.
    ///
    /// # Errors
    /// As [`Scan::seek`].
    pub fn seek_for_prev(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.go(Movement::ToOrBefore(key.as_ref()))
    }

    fn go(&mut self, movement: Movement<'_>) -> Result<()> {
        self.scan.go(movement)
    }

    /// Goes to the first key.
    ///
    /// # Errors
    /// As [`Scan::seek`].
    pub fn seek_to_first(&mut self) -> Result<()> {
        self.scan.go(Movement::First)
    }

    /// Goes to the last key.
    ///
    /// # Errors
    /// As [`Scan::seek`].
    pub fn seek_to_last(&mut self) -> Result<()> {
        self.scan.go(Movement::Last)
    }

    /// Goes to the next key. On a scan that is not valid it does nothing.
    ///
    /// # Errors
    /// As [`Scan::seek`].
    #[inline]
    #[expect(clippy::should_implement_trait, reason = "a scan moves; entries() is the Iterator")]
    pub fn next(&mut self) -> Result<()> {
        self.scan.next()
    }

    /// Goes to the key before. On a scan that is not valid it does nothing.
    ///
    /// # Errors
    /// As [`Scan::seek`].
    pub fn prev(&mut self) -> Result<()> {
        self.scan.go(Movement::Prev)
    }
}
