//! Reads all edits of a manifest file.

use std::path::Path;

use tidesdb_base::checksum;
use tidesdb_base::codec::Decoder;
use tidesdb_base::error::{Error, Result};
use tidesdb_sys::memory::available_bytes;
use tidesdb_sys::vfs::File;

use super::edit::Edit;
use super::{HEADER_BYTES, MAGIC, OLDEST_VERSION, RECORD_HEADER_BYTES, VERSION};

/// Of a longer manifest it is asked first whether the machine has as much memory.
const LARGE_BYTES: u64 = 1 << 30;

/// Reads the edits of manifest `number`, each with its offset, and the offset behind the last one.
///
/// An unreadable record at the very end is what a power cut in the middle of an append leaves: the
/// edit was never acted upon and is left out. An unreadable record with a readable one behind it
/// is damage, and so is one behind which the search for others is given up.
///
/// # Errors
/// [`Error::Corruption`] for damage, [`Error::NotADatabase`] for another version,
/// [`Error::OutOfMemory`], [`Error::Io`].
pub fn read_manifest(file: &dyn File, path: &Path, number: u64) -> Result<(Vec<(u64, Edit)>, u64)> {
    let bytes = read_whole(file, path)?;
    check_header(&bytes, path, number)?;
    let mut edits = Vec::new();
    let mut offset = HEADER_BYTES;
    while let Some((body, end)) = record_at(&bytes, offset, number) {
        let edit = Edit::decode(body)
            .map_err(|_| Error::corruption(path, offset as u64, unknown_form(body)))?;
        edits.push((offset as u64, edit));
        offset = end;
    }
    if edits.is_empty() {
        return Err(damaged_record(&bytes, path, offset, number));
    }
    let mut search = Search::default();
    let found = (offset + 1..bytes.len()).any(|at| search.record_at(&bytes, at, number).is_some());
    // An edit that a power cut has torn never takes that long.
    if found || search.is_given_up() {
        return Err(damaged_record(&bytes, path, offset, number));
    }
    Ok((edits, offset as u64))
}

/// Whether a manifest of that many bytes can't be read for its length alone, where so much memory
/// is `available` as far as is known.
#[must_use]
pub fn exceeds_memory(length: u64, available: Option<u64>) -> bool {
    length > LARGE_BYTES && available.is_some_and(|available| length > available)
}

pub(super) fn read_whole(file: &dyn File, path: &Path) -> Result<Vec<u8>> {
    let length = file.len().map_err(|e| Error::io("read length", path, e))?;
    // The length is what a file says of itself, and one with holes takes no space.
    let no_memory = Error::OutOfMemory("the manifest");
    if exceeds_memory(length, available_bytes()) {
        return Err(no_memory);
    }
    let (length, mut bytes) = (usize::try_from(length).unwrap_or(usize::MAX), Vec::new());
    bytes.try_reserve_exact(length).map_err(|_| no_memory)?;
    bytes.resize(length, 0);
    file.read_exact_at(&mut bytes, 0).map_err(|e| Error::io("read", path, e))?;
    Ok(bytes)
}

pub(super) fn check_header(bytes: &[u8], path: &Path, number: u64) -> Result<()> {
    let damaged = |offset: u64, detail: String| Error::corruption(path, offset, detail);
    let mut decoder = Decoder::new(bytes);
    let cut_short =
        |_| damaged(0, format!("expected a header of {HEADER_BYTES} bytes, found {}", bytes.len()));
    let magic = decoder.u64().map_err(cut_short)?;
    if magic != MAGIC {
        return Err(damaged(0, format!("expected the magic {MAGIC:016x}, found {magic:016x}")));
    }
    let version = decoder.u32().map_err(cut_short)?;
    if !(OLDEST_VERSION..=VERSION).contains(&version) {
        let read = format!("this build reads {OLDEST_VERSION} to {VERSION}");
        return Err(Error::NotADatabase {
            path: path.to_path_buf(),
            reason: format!("manifest format version {version}; {read}"),
        });
    }
    let reserved = decoder.u32().map_err(cut_short)?;
    if reserved != 0 {
        return Err(damaged(12, format!("expected four bytes of zero, found {reserved:08x}")));
    }
    let named = decoder.u64().map_err(cut_short)?;
    if named != number {
        return Err(damaged(16, format!("expected manifest {number}, found {named}")));
    }
    Ok(())
}

/// What is wrong with a record whose checksum is right.
pub(super) fn unknown_form(body: &[u8]) -> String {
    format!("expected changes of format version {VERSION}, found {} other bytes", body.len())
}

/// What is wrong with the record at `offset`, which [`record_at`] does not return.
pub(super) fn damaged_record(bytes: &[u8], path: &Path, offset: usize, number: u64) -> Error {
    let rest = bytes.get(offset..).unwrap_or_default();
    let mut decoder = Decoder::new(rest);
    let found = match (decoder.u32(), decoder.u64()) {
        (Ok(length), Ok(sum)) => match decoder.take(length as usize) {
            Ok(body) => {
                let sum_of_body = checksum::placed(number, offset as u64, body);
                format!("{length} bytes with checksum {sum_of_body:016x}, expected {sum:016x}")
            }
            Err(_) => format!("a length of {length}, where {} bytes are left", rest.len()),
        },
        _ => format!("{} bytes", rest.len()),
    };
    Error::corruption(
        path,
        offset as u64,
        format!("expected a record of the manifest, found {found}"),
    )
}

/// The body of a whole record at `offset` and the offset behind it.
fn record_at(bytes: &[u8], offset: usize, number: u64) -> Option<(&[u8], usize)> {
    let (body, sum) = claimed_at(bytes, offset)?;
    let end = offset + RECORD_HEADER_BYTES + body.len();
    (checksum::placed(number, offset as u64, body) == sum).then_some((body, end))
}

/// What would be the body and the checksum of a record at `offset`. An empty body would let eight
/// chance bytes pass for a record; no edit is empty.
fn claimed_at(bytes: &[u8], offset: usize) -> Option<(&[u8], u64)> {
    let mut decoder = Decoder::new(bytes.get(offset..)?);
    let length = decoder.u32().ok()? as usize;
    let sum = decoder.u64().ok()?;
    let body = decoder.take(length).ok()?;
    (length > 0).then_some((body, sum))
}

/// Bytes whose checksum is calculated in vain before a search for records is given up.
const MOST_FAILED_BYTES: usize = 1 << 30;

/// A search for records among bytes that may be anything, those of names and options too: each may
/// look like the header of a long record, so the work is bounded.
#[derive(Debug)]
pub(super) struct Search {
    may_fail: usize,
}

impl Default for Search {
    fn default() -> Self {
        Self { may_fail: MOST_FAILED_BYTES }
    }
}

impl Search {
    /// The body of a whole record at `offset` and the offset behind it. None any more once the
    /// search was given up.
    pub(super) fn record_at<'b>(
        &mut self,
        bytes: &'b [u8],
        offset: usize,
        number: u64,
    ) -> Option<(&'b [u8], usize)> {
        let (body, _) = claimed_at(bytes, offset).filter(|_| self.may_fail > 0)?;
        let found = record_at(bytes, offset, number);
        if found.is_none() {
            self.may_fail = self.may_fail.saturating_sub(body.len());
        }
        found
    }

    /// Too many bytes were checked in vain.
    pub(super) const fn is_given_up(&self) -> bool {
        self.may_fail == 0
    }
}

#[cfg(test)]
mod tests {
    use tidesdb_sim::SimVfs;
    use tidesdb_sys::vfs::{OpenMode, Vfs};

    use super::super::{Change, ManifestWriter, SalvagedManifest};
    use super::*;

    #[test]
    fn damage_tells_what_was_expected_and_what_was_found() {
        let vfs = SimVfs::new(1);
        let (dir, path) = (Path::new("/db"), Path::new("/db/MANIFEST-000004"));
        vfs.create_dir(dir).unwrap();
        let changes = (1..9).map(|number| Change::NextFile { number });
        let edit = Edit::new(changes.collect());
        ManifestWriter::create(vfs.as_ref(), dir, 4, &edit).unwrap();
        let file = vfs.open(path, OpenMode::ReadWrite).unwrap();
        let reported = || read_manifest(file.as_ref(), path, 4).unwrap_err().to_string();
        let record = HEADER_BYTES as u64;
        let len = file.len().unwrap() - record;
        let body = len - RECORD_HEADER_BYTES as u64;
        for (at, bytes, expected, found, offset) in [
            (0, [0; 4], format!("magic {MAGIC:016x}"), "found".to_owned(), 0),
            (16, [5, 0, 0, 0], "manifest 4".to_owned(), "found 5".to_owned(), 16),
            (
                record,
                [0, 0, 1, 0],
                "a record".to_owned(),
                format!("length of 65536, where {len} bytes are left"),
                record,
            ),
            (
                record + RECORD_HEADER_BYTES as u64,
                [0xff; 4],
                "expected".to_owned(),
                format!("found {body} bytes with checksum"),
                record,
            ),
        ] {
            let mut before = [0; 4];
            file.read_exact_at(&mut before, at).unwrap();
            file.write_all_at(&bytes, at).unwrap();
            let reported = reported();
            let offset = format!("/db/MANIFEST-000004 is damaged at offset {offset}: ");
            assert!(reported.starts_with(&offset), "{reported}");
            assert!(reported.contains(&expected) && reported.contains(&found), "{reported}");
            file.write_all_at(&before, at).unwrap();
        }
        read_manifest(file.as_ref(), path, 4).unwrap();
    }

    /// A damaged record behind which bytes look like headers of long records, again and again.
    /// Each checked to its end would be a terabyte.
    #[test]
    fn bytes_that_look_like_records_do_not_make_the_search_behind_damage_long() {
        let vfs = SimVfs::new(1);
        let (dir, path) = (Path::new("/db"), Path::new("/db/MANIFEST-000004"));
        vfs.create_dir(dir).unwrap();
        let edit = Edit::new(vec![Change::NextFile { number: 9 }]);
        let writer = ManifestWriter::create(vfs.as_ref(), dir, 4, &edit).unwrap();
        let file = vfs.open(path, OpenMode::ReadWrite).unwrap();
        let forged: Vec<u8> = (2_u32 << 20).to_le_bytes().repeat(1 << 20);
        file.write_all_at(&forged, writer.bytes()).unwrap();
        // A search to the end would find no other record, and take the damage for a torn append.
        assert!(read_manifest(file.as_ref(), path, 4).unwrap_err().is_corruption());
        let remains = SalvagedManifest::survey(file.as_ref(), path, 4).unwrap();
        assert_eq!((remains.edits.len(), remains.is_whole()), (1, false));
    }

    /// Version 2 differs in its changes, each of which says what it is.
    #[test]
    fn manifests_of_known_versions_are_read_and_others_are_not_touched() {
        let vfs = SimVfs::new(1);
        vfs.create_dir(Path::new("/db")).unwrap();
        let edit = Edit::new(vec![Change::NextFile { number: 9 }]);
        ManifestWriter::create(vfs.as_ref(), Path::new("/db"), 4, &edit).unwrap();
        let path = Path::new("/db/MANIFEST-000004");
        let file = vfs.open(path, OpenMode::ReadWrite).unwrap();
        let read = |version: u32| {
            file.write_all_at(&version.to_le_bytes(), 8).unwrap();
            read_manifest(file.as_ref(), path, 4)
        };
        for version in [2, 3, 4] {
            assert_eq!(read(version).unwrap().0, [(HEADER_BYTES as u64, edit.clone())]);
        }
        for version in [0, 1, 5] {
            let error = read(version).unwrap_err();
            assert!(matches!(error, Error::NotADatabase { .. }), "{version}: {error}");
        }
    }
}
