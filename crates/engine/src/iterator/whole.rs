//! Scans as Rust iterators over all that they cover, in either direction.

use tidesdb_base::error::Result;

use super::{Scan, ScanEntries};

/// All entries that a scan covers from the last key to the first, with copied keys and values. It
/// ends after the first error. Made by [`Scan::entries_rev`].
#[derive(Debug)]
pub struct ScanEntriesRev {
    scan: Scan,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    NotStarted,
    Walking,
    Ended,
}

impl Scan {
    /// All entries that the scan covers from the last key to the first, wherever it stands.
    ///
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # use tidesdb_engine as tidesdb;
    /// use tidesdb::{Db, DbOptions, FamilyOptions};
    /// let db = Db::open(directory.path(), DbOptions::default())?;
    /// let family = db.open_family("default", FamilyOptions::default())?;
    /// for key in ["a1", "a2", "b1"] {
    ///     family.put(key.as_bytes(), b"")?;
    /// }
    /// let newest = family.prefix("a")?.entries_rev().next().transpose()?;
    /// assert_eq!(newest, Some((b"a2".to_vec(), Vec::new())));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub const fn entries_rev(self) -> ScanEntriesRev {
        ScanEntriesRev { scan: self, stage: Stage::NotStarted }
    }
}

impl IntoIterator for Scan {
    type Item = Result<(Vec<u8>, Vec<u8>)>;
    type IntoIter = ScanEntries;

    /// As [`Scan::entries`].
    fn into_iter(self) -> ScanEntries {
        self.entries()
    }
}

impl ScanEntriesRev {
    fn step(&mut self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        match self.stage {
            Stage::NotStarted => self.scan.seek_to_last()?,
            Stage::Walking => self.scan.prev()?,
            Stage::Ended => return Ok(None),
        }
        if !self.scan.valid() {
            return Ok(None);
        }
        Ok(Some((self.scan.key().to_vec(), self.scan.value()?.to_vec())))
    }
}

impl Iterator for ScanEntriesRev {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        let step = self.step();
        self.stage = if matches!(step, Ok(Some(_))) { Stage::Walking } else { Stage::Ended };
        step.transpose()
    }
}
