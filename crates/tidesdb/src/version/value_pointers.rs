//! From a pointer in a table or memtable to the value in a value log of the version.

use std::path::{Path, PathBuf};

use tidesdb_base::error::{Error, Result};
use tidesdb_files::naming::FileKind;
use tidesdb_files::vlog::ValuePointer;

use super::{ValueLogFile, Version};

/// Fetches the value that an encoded pointer of this version's tables or memtables points at.
///
/// # Errors
/// [`Error::Corruption`] when the pointer or the value is damaged; [`Error::Io`].
pub(crate) fn read_pointer(version: &Version, encoded: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let (pointer, file) = resolve(version, encoded)?;
    file.read(&pointer, out)
}

/// Where an encoded pointer of this version's tables or memtables points.
///
/// # Errors
/// [`Error::Corruption`] when the pointer is damaged or its file is unknown.
pub(crate) fn resolve<'v>(
    version: &'v Version,
    encoded: &[u8],
) -> Result<(ValuePointer, &'v ValueLogFile)> {
    let pointer = decode_pointer(version, encoded)?;
    let file = version.value_logs.get(&pointer.file);
    let file = file.ok_or_else(|| unknown_file(version, &pointer))?;
    Ok((pointer, file))
}

/// The pointer that is encoded so in tables and memtables of this version.
///
/// # Errors
/// [`Error::Corruption`].
pub(crate) fn decode_pointer(version: &Version, encoded: &[u8]) -> Result<ValuePointer> {
    ValuePointer::decode(encoded).map_err(|_| {
        let detail = format!("a pointer to a value, {encoded:02x?}, does not decode");
        Error::corruption(directory_of(version), 0, detail)
    })
}

/// The error for a pointer to a value log that the version does not have.
#[cold]
pub(crate) fn unknown_file(version: &Version, pointer: &ValuePointer) -> Error {
    let name = FileKind::ValueLog(pointer.file).name();
    let known: Vec<_> = version.value_logs.keys().collect();
    let detail = format!("the value log is unknown; known are those numbered {known:?}");
    Error::corruption(directory_of(version).join(name), pointer.offset, detail)
}

/// The directory that the files of a version lie in; empty when it has none.
fn directory_of(version: &Version) -> PathBuf {
    let tables = version.tables().map(|table| table.path());
    let mut paths = tables.chain(version.value_logs.values().map(|file| file.path()));
    let directory = paths.next().and_then(Path::parent);
    directory.map_or_else(PathBuf::new, Path::to_path_buf)
}
