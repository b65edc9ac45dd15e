//! Lists the formats of a database's files: what an upgrade would have to do.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use tidesdb_base::error::{Error, Result};
use tidesdb_files::formats::Format;
use tidesdb_files::manifest::current;
use tidesdb_files::naming::FileKind;

use crate::salvage::source::Source;

/// Files of one format and version.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FoundFormat {
    /// What people call the format.
    pub format: &'static str,
    /// The version.
    pub version: u32,
    /// How many files have it.
    pub files: u64,
    /// The versions that this build reads; it writes the last.
    pub read: RangeInclusive<u32>,
}

impl FoundFormat {
    /// Whether this build reads the files.
    #[must_use]
    pub fn is_readable(&self) -> bool {
        self.read.contains(&self.version)
    }

    /// Whether this build writes such files.
    #[must_use]
    pub fn is_current(&self) -> bool {
        *self.read.end() == self.version
    }
}

/// The formats of a database's files.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct FormatReport {
    /// What was found, by format and version.
    pub found: Vec<FoundFormat>,
    /// Log segments that do not say their version where they should: they were reserved and never
    /// begun, or are damaged.
    pub without_version: Vec<PathBuf>,
    /// Files that can't be opened or read, or that say no version, each with the reason; `CURRENT`
    /// as well, where it names no manifest or is missing.
    pub unreadable: Vec<(PathBuf, Error)>,
}

/// Lists the formats of the files in the directory of a database, without opening it. A file that
/// can't be read is listed and keeps none of the others from being listed.
///
/// # Errors
/// [`tidesdb_base::Error::NotADatabase`], [`tidesdb_base::Error::Locked`],
/// [`tidesdb_base::Error::Io`].
pub fn formats_of(directory: &Path) -> Result<FormatReport> {
    let source = Source::open(directory)?;
    let mut counts: BTreeMap<(Format, u32), u64> = BTreeMap::new();
    let mut report = FormatReport::default();
    // It has no version. Without it, nothing says which manifest an opening would rewrite.
    let current = current::read_current(source.vfs.as_ref(), &source.dir);
    let current = current.and_then(|named| named.ok_or_else(|| source.missing_current()));
    if let Err(error) = current {
        report.unreadable.push((source.path(FileKind::Current), error));
    }
    for &(kind, _) in &source.files {
        let Some(format) = Format::of(kind) else { continue };
        let path = source.path(kind);
        let version = source.file(kind).and_then(|file| format.version_of(file.as_ref(), &path));
        match version {
            Ok(Some(version)) => *counts.entry((format, version)).or_default() += 1,
            Ok(None) if matches!(kind, FileKind::LogSegment(_)) => {
                report.without_version.push(path);
            }
            Ok(None) => {
                let detail =
                    format!("expected a version of the format {}, found none", format.name());
                report.unreadable.push((path.clone(), Error::corruption(path, 0, detail)));
            }
            Err(error) => report.unreadable.push((path, error)),
        }
    }
    let found = counts.into_iter().map(|((format, version), files)| FoundFormat {
        format: format.name(),
        version,
        files,
        read: format.versions(),
    });
    report.found = found.collect();
    Ok(report)
}
