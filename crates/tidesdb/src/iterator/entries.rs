//! Scans as Rust iterators, in either direction.

use tidesdb_base::error::Result;

use super::Scan;
use crate::read::copied;

/// A scan as a Rust iterator, with copied keys and values. It ends after the first error. Made by
/// [`Scan::entries`] and [`Scan::entries_rev`].
#[derive(Debug)]
pub struct ScanEntries {
    scan: Scan,
    direction: Direction,
    stage: Stage,
}

/// A scan as a Rust iterator over copied keys. It ends after the first error. Made by
/// [`Scan::keys`].
#[derive(Debug)]
pub struct ScanKeys {
    entries: ScanEntries,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Forward,
    Backward,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The scan is to be positioned at the end where it begins.
    NotStarted,
    /// The present entry, if there is one, is the next.
    Arrived,
    /// The present entry was given out.
    Given,
    Ended,
}

impl Scan {
    /// The entries from the present position on, as a Rust iterator of copied keys and values.
    /// From the first when the scan was not positioned yet; none when the last call found nothing
    /// or failed, so that a walk by pages ends.
    #[must_use]
    pub fn entries(self) -> ScanEntries {
        let stage = if self.is_unpositioned() { Stage::NotStarted } else { Stage::Arrived };
        ScanEntries { scan: self, direction: Direction::Forward, stage }
    }

    /// As [`Scan::entries`], without the values: those that lie in value logs are not read.
    ///
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// use tidesdb::{Db, DbOptions, FamilyOptions};
    /// let db = Db::open(directory.path(), DbOptions::default())?;
    /// let images = db.open_family("images", FamilyOptions::default())?;
    /// images.put("cat", vec![7; 100_000])?;
    /// images.put("dog", vec![8; 100_000])?;
    /// let names = images.iter()?.keys().collect::<Result<Vec<_>, _>>()?;
    /// assert_eq!(names, [b"cat".to_vec(), b"dog".to_vec()]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn keys(self) -> ScanKeys {
        ScanKeys { entries: self.entries() }
    }

    /// All entries that the scan covers from the last key to the first, wherever it stands.
    ///
    /// ```
    /// # let directory = tempfile::tempdir()?;
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
    pub const fn entries_rev(self) -> ScanEntries {
        ScanEntries { scan: self, direction: Direction::Backward, stage: Stage::NotStarted }
    }
}

impl Scan {
    /// As [`Scan::entries_rev`], for `family.range("a".."m")?.rev()`.
    #[must_use]
    pub const fn rev(self) -> ScanEntries {
        self.entries_rev()
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

impl ScanEntries {
    /// All entries that the scan covers, in the other direction and from that end, whatever was
    /// given out already: `family.iter()?.entries().rev()`.
    #[must_use]
    pub fn rev(self) -> Self {
        let direction = match self.direction {
            Direction::Forward => Direction::Backward,
            Direction::Backward => Direction::Forward,
        };
        Self { direction, stage: Stage::NotStarted, ..self }
    }

    /// Goes to the next entry, and has what `take` makes of it.
    fn step<T>(&mut self, take: impl FnOnce(&Scan) -> Result<T>) -> Option<Result<T>> {
        let step = self.go().and_then(|arrived| arrived.then(|| take(&self.scan)).transpose());
        self.stage = if matches!(step, Ok(Some(_))) { Stage::Given } else { Stage::Ended };
        step.transpose()
    }

    /// False at the end.
    fn go(&mut self) -> Result<bool> {
        match (self.stage, self.direction) {
            (Stage::Ended, _) => return Ok(false),
            (Stage::Arrived, _) => {}
            (Stage::NotStarted, Direction::Forward) => self.scan.seek_to_first()?,
            (Stage::NotStarted, Direction::Backward) => self.scan.seek_to_last()?,
            (Stage::Given, Direction::Forward) => self.scan.next()?,
            (Stage::Given, Direction::Backward) => self.scan.prev()?,
        }
        Ok(self.scan.valid())
    }
}

impl Iterator for ScanEntries {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step(|scan| {
            let (key, value) = scan.key_value()?;
            Ok((key.to_vec(), copied(value)?))
        })
    }
}

impl ScanKeys {
    /// All keys that the scan covers, in the other direction and from that end, as
    /// [`ScanEntries::rev`].
    #[must_use]
    pub fn rev(self) -> Self {
        Self { entries: self.entries.rev() }
    }
}

impl Iterator for ScanKeys {
    type Item = Result<Vec<u8>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.entries.step(|scan| Ok(scan.key().to_vec()))
    }
}
