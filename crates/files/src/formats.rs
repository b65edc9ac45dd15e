//! Which formats of files there are, and which versions of each this build reads and writes.
//!
//! The page is `docs/formats/README.md`. Versions are read from the first or last bytes of a file,
//! without a look at checksums: so that a newer file is told from a damaged one.

use std::ops::RangeInclusive;
use std::path::Path;

use tidesdb_base::{Error, Result};
use tidesdb_sys::vfs::File;

use crate::naming::FileKind;
use crate::{manifest, sstable, vlog, wal};

/// A format that says its version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Format {
    /// Sorted tables.
    Table,
    /// Value logs.
    ValueLog,
    /// Segments of the write-ahead log.
    Log,
    /// Manifests.
    Manifest,
}

impl Format {
    /// The format of a file of that kind.
    #[must_use]
    pub const fn of(kind: FileKind) -> Option<Self> {
        match kind {
            FileKind::Table(_) => Some(Self::Table),
            FileKind::ValueLog(_) => Some(Self::ValueLog),
            FileKind::LogSegment(_) => Some(Self::Log),
            FileKind::Manifest(_) => Some(Self::Manifest),
            FileKind::Current | FileKind::Closed | FileKind::Lock | FileKind::EventLog => None,
        }
    }

    /// What people call it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::ValueLog => "value log",
            Self::Log => "log",
            Self::Manifest => "manifest",
        }
    }

    /// The versions that this build reads. The last is the one that it writes.
    #[must_use]
    pub const fn versions(self) -> RangeInclusive<u32> {
        match self {
            Self::Table => sstable::OLDEST_VERSION..=sstable::FORMAT_VERSION,
            Self::ValueLog => vlog::OLDEST_VERSION..=vlog::FORMAT_VERSION,
            Self::Log => wal::segment::FORMAT_VERSION..=wal::segment::FORMAT_VERSION,
            Self::Manifest => manifest::OLDEST_VERSION..=manifest::VERSION,
        }
    }

    /// The version that a file says it has; `None` when it does not say so where it should: when
    /// that place is damaged, or of a log segment that was never begun.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn version_of(self, file: &dyn File, path: &Path) -> Result<Option<u32>> {
        let len = file.len().map_err(|e| Error::io("read length", path, e))?;
        let (magic, from_end, wide): (&[u8; 8], _, _) = match self {
            Self::Table => (b"TDBTABLE", sstable::FOOTER_LEN, false),
            Self::ValueLog => (b"TDBVALUE", len, false),
            Self::Log => (b"TDBWAL\r\n", len, true),
            Self::Manifest => (b"TDBMANI\n", len, true),
        };
        let Some(at) = len.checked_sub(from_end).filter(|at| len - at >= 12) else {
            return Ok(None);
        };
        let mut bytes = [0; 12];
        file.read_exact_at(&mut bytes, at).map_err(|e| Error::io("read", path, e))?;
        let (found, version) = bytes.split_at(8);
        let version = match version {
            &[a, b, c, d] if wide => u32::from_le_bytes([a, b, c, d]),
            &[first, ..] => u32::from(first),
            [] => return Ok(None),
        };
        Ok((found == magic).then_some(version))
    }
}
