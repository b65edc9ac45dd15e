//! What a salvage says of its work.

use std::fmt;
use std::path::PathBuf;

/// Something that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Loss {
    /// The file in which it lay.
    pub file: PathBuf,
    /// Offset of its first byte.
    pub offset: u64,
    /// How many bytes; 0 when only the file is known.
    pub bytes: u64,
    /// Families that it belonged to; none when that is not known.
    pub families: Vec<String>,
    /// All keys that are lost lie at or behind this one, in the order of their family. As it was
    /// given, in small letters where case does not count; as it is stored where the family is not
    /// known. `None` when nothing is known.
    pub first_key: Option<Vec<u8>>,
    /// All keys that are lost lie at or before this one, as [`Loss::first_key`]. `None` when
    /// nothing is known.
    pub last_key: Option<Vec<u8>>,
    /// How many entries; `None` when that is not known.
    pub entries: Option<u64>,
    /// What was found.
    pub reason: String,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at offset {}, {} bytes", self.file.display(), self.offset, self.bytes)?;
        if let Some(entries) = self.entries {
            write!(f, ", {entries} entries")?;
        }
        if !self.families.is_empty() {
            write!(f, " of {}", self.families.join(", "))?;
        }
        if let (Some(first), Some(last)) = (&self.first_key, &self.last_key) {
            write!(f, ", keys from '{}' to '{}'", first.escape_ascii(), last.escape_ascii())?;
        }
        write!(f, ": {}", self.reason)
    }
}

impl Loss {
    /// A loss of which no more than the place is known yet.
    pub(crate) fn new(file: PathBuf, offset: u64, bytes: u64, reason: impl Into<String>) -> Self {
        Self {
            file,
            offset,
            bytes,
            families: Vec::new(),
            first_key: None,
            last_key: None,
            entries: None,
            reason: reason.into(),
        }
    }
}

/// A family of the new database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SalvagedFamily {
    /// Its name.
    pub name: String,
    /// Its number in the damaged database.
    pub number: u32,
    /// Whether its name is the one that it had, rather than one that was made up.
    pub name_is_known: bool,
    /// Whether its options are those that it had, rather than the defaults.
    pub options_are_known: bool,
    /// Keys written to the new database, those that have expired among them.
    pub entries: u64,
    /// Bytes of those keys and their values.
    pub bytes: u64,
    /// Keys whose newest version is a deletion.
    pub deleted: u64,
    /// Keys whose newest version was found and whose value was not.
    pub values_lost: u64,
}

/// What a salvage did.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct SalvageReport {
    /// The families of the new database, by their numbers in the old one.
    pub families: Vec<SalvagedFamily>,
    /// Everything that was lost.
    pub losses: Vec<Loss>,
    /// Damage that cost nothing: of indexes, filters and headers.
    pub harmless: Vec<tidesdb_base::Error>,
    /// What is uncertain about the result, and what was done about it.
    pub warnings: Vec<String>,
    /// Files that were not used, each with the reason.
    pub unused: Vec<(PathBuf, String)>,
    /// Tables read.
    pub tables: u64,
    /// Log segments read.
    pub log_segments: u64,
    /// Bytes of tables and log segments read.
    pub bytes_read: u64,
}

impl SalvageReport {
    /// True when nothing is missing in the new database, as far as that can be known.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.losses.is_empty() && self.warnings.is_empty()
    }

    /// Keys written to the new database.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.families.iter().map(|family| family.entries).sum()
    }
}
