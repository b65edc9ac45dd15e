//! The iterator that users hold.

use std::sync::Arc;

use tidesdb_base::error::Result;

use super::ScanOptions;
use super::in_order::{InOrder, Movement};
use super::scan::StoredScan;
use crate::core::Owner;
use crate::family::FamilyState;

/// Walks the keys of a family in order, both ways, as of one moment.
///
/// A scan is not positioned until one of the `seek` methods is called. It holds a snapshot and
/// the files it reads, never a lock: it blocks no writer and no flush, however long it lives. Like any
/// other handle it keeps the database open; after [`crate::Db::close`] it answers `Closed` where it
/// needs a file that was not open.
/// After an error it is invalid until the next seek.
///
/// ```
/// # let directory = tempfile::tempdir()?;
/// # use tidesdb_engine as tidesdb;
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
    scan: InOrder<StoredScan>,
}

impl Scan {
    pub(crate) fn new(
        owner: Arc<Owner>,
        family: &Arc<FamilyState>,
        options: ScanOptions,
    ) -> Result<Self> {
        let (bounds, limits) = options.into_bounds(&family.key_order)?;
        let scan = StoredScan::new(owner, Arc::clone(family), bounds)?;
        Ok(Self { scan: InOrder::new(scan, family, limits) })
    }

    /// Takes up what was committed since; the scan is not positioned afterwards. A scan made with
    /// a snapshot stays at that snapshot.
    ///
    /// # Errors
    /// As [`crate::Family::scan`].
    pub fn refresh(&mut self) -> Result<()> {
        self.scan.refresh(StoredScan::refresh)
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
    /// `Corrupt` or `Io` when the value lies in a value log and can't be read.
    #[inline]
    pub fn value(&self) -> Result<&[u8]> {
        self.scan.value()
    }

    /// Unix second at which the present entry expires; `None` when it never does, or the scan is not
    /// valid.
    #[must_use]
    pub fn expires_at_unix_seconds(&self) -> Option<u64> {
        if self.valid() { self.scan.walk().expires_at_unix_seconds() } else { None }
    }

    /// Goes to the first key at or after `key`.
    ///
    /// # Errors
    /// `Corrupt` or `Io`; the scan is not valid then. Also `Invalid` where the application's own order
    /// of keys failed.
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
        self.scan.go(Movement::Next)
    }

    /// Goes to the key before. On a scan that is not valid it does nothing.
    ///
    /// # Errors
    /// As [`Scan::seek`].
    pub fn prev(&mut self) -> Result<()> {
        self.scan.go(Movement::Prev)
    }

    /// The entries from the present position on, as a Rust iterator of copied keys and values.
    /// From the first when the scan was not positioned yet; none when the last call found nothing
    /// or failed, so that a walk by pages ends.
    #[must_use]
    pub const fn entries(self) -> ScanEntries {
        ScanEntries { scan: self, started: false, failed: false }
    }
}

/// A scan as a Rust iterator. It ends after the first error.
#[derive(Debug)]
pub struct ScanEntries {
    scan: Scan,
    started: bool,
    failed: bool,
}

impl ScanEntries {
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

impl Iterator for ScanEntries {
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
