//! Reads all edits of a manifest file.

use std::path::Path;

use tidesdb_base::checksum;
use tidesdb_base::codec::Decoder;
use tidesdb_base::error::{Error, Result};
use tidesdb_sys::vfs::File;

use super::edit::Edit;
use super::{HEADER_BYTES, MAGIC, OLDEST_VERSION, RECORD_HEADER_BYTES, VERSION};

/// Reads the edits of manifest `number`, and the offset behind the last one.
///
/// An unreadable record at the very end is what a power cut in the middle of an append leaves: the
/// edit was never acted upon and is left out. An unreadable record with a readable one behind it
/// is damage.
///
/// # Errors
/// [`Error::Corruption`] for damage, [`Error::NotADatabase`] for another version, [`Error::Io`].
pub fn read_manifest(file: &dyn File, path: &Path, number: u64) -> Result<(Vec<Edit>, u64)> {
    let bytes = read_whole(file, path)?;
    check_header(&bytes, path, number)?;
    let mut edits = Vec::new();
    let mut offset = HEADER_BYTES;
    while let Some((body, end)) = record_at(&bytes, offset, number) {
        let edit = Edit::decode(body).map_err(|_| {
            Error::corruption(path, offset as u64, "manifest edit of an unknown form")
        })?;
        edits.push(edit);
        offset = end;
    }
    if edits.is_empty() {
        return Err(Error::corruption(
            path,
            offset as u64,
            "the manifest's first record is damaged",
        ));
    }
    let behind = (offset + 1..bytes.len()).find(|&at| record_at(&bytes, at, number).is_some());
    if behind.is_some() {
        return Err(Error::corruption(path, offset as u64, "manifest record checksum mismatch"));
    }
    Ok((edits, offset as u64))
}

pub(super) fn read_whole(file: &dyn File, path: &Path) -> Result<Vec<u8>> {
    let length = file.len().map_err(|e| Error::io("read length", path, e))?;
    let length = usize::try_from(length)
        .ok()
        .filter(|&length| length <= 1 << 32)
        .ok_or_else(|| Error::corruption(path, 0, format!("manifest of {length} bytes")))?;
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, 0).map_err(|e| Error::io("read", path, e))?;
    Ok(bytes)
}

pub(super) fn check_header(bytes: &[u8], path: &Path, number: u64) -> Result<()> {
    let damaged = |detail: &str| Error::corruption(path, 0, detail.to_owned());
    let mut decoder = Decoder::new(bytes);
    if decoder.u64() != Ok(MAGIC) {
        return Err(damaged("no manifest header"));
    }
    let version = decoder.u32().map_err(|_| damaged("manifest header cut short"))?;
    if !(OLDEST_VERSION..=VERSION).contains(&version) {
        let read = format!("this build reads {OLDEST_VERSION} to {VERSION}");
        return Err(Error::NotADatabase {
            path: path.to_path_buf(),
            reason: format!("manifest format version {version}; {read}"),
        });
    }
    if decoder.u32() != Ok(0) || decoder.u64() != Ok(number) {
        return Err(damaged("the manifest header names another file"));
    }
    Ok(())
}

/// The body of a whole record at `offset` and the offset behind it.
pub(super) fn record_at(bytes: &[u8], offset: usize, number: u64) -> Option<(&[u8], usize)> {
    let mut decoder = Decoder::new(bytes.get(offset..)?);
    let length = decoder.u32().ok()? as usize;
    let sum = decoder.u64().ok()?;
    let body = decoder.take(length).ok()?;
    // An empty body would let eight chance bytes pass for a record; no edit is empty.
    let valid = length > 0 && checksum::placed(number, offset as u64, body) == sum;
    valid.then_some((body, offset + RECORD_HEADER_BYTES + length))
}

#[cfg(test)]
mod tests {
    use tidesdb_sim::SimVfs;
    use tidesdb_sys::vfs::{OpenHow, Vfs};

    use super::super::{Change, ManifestWriter};
    use super::*;

    /// Version 2 differs in its changes, each of which says what it is.
    #[test]
    fn manifests_of_known_versions_are_read_and_others_are_not_touched() {
        let vfs = SimVfs::new(1);
        vfs.create_dir(Path::new("/db")).unwrap();
        let edit = Edit::new(vec![Change::NextFile { number: 9 }]);
        ManifestWriter::create(vfs.as_ref(), Path::new("/db"), 4, &edit).unwrap();
        let path = Path::new("/db/MANIFEST-000004");
        let file = vfs.open(path, OpenHow::ReadWrite).unwrap();
        let read = |version: u32| {
            file.write_all_at(&version.to_le_bytes(), 8).unwrap();
            read_manifest(file.as_ref(), path, 4)
        };
        for version in [2, 3, 4] {
            assert_eq!(read(version).unwrap().0, std::slice::from_ref(&edit));
        }
        for version in [0, 1, 5] {
            let error = read(version).unwrap_err();
            assert!(matches!(error, Error::NotADatabase { .. }), "{version}: {error}");
        }
    }
}
