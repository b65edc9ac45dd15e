//! What is left of a manifest that may be damaged anywhere, and of `CURRENT`.
//!
//! Records are found behind damage by their checksums, which are seeded with the file and the
//! offset. What the edits amount to is for the caller to judge: between two of them some may be
//! missing.

use std::path::Path;

use tidesdb_base::codec::Decoder;
use tidesdb_base::error::{Error, Result};
use tidesdb_sys::vfs::File;

use super::edit::Edit;
use super::reader::{Search, check_header, damaged_record, read_whole, unknown_form};
use super::{HEADER_BYTES, MAGIC};
use crate::naming::{self, FileKind};

/// One record that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SalvagedEdit {
    /// Offset of the record in the file.
    pub offset: u64,
    /// Its length in bytes, with its header.
    pub len: u64,
    /// The changes.
    pub edit: Edit,
}

/// What is left of a manifest.
#[derive(Clone, Debug, Default)]
pub struct SalvagedManifest {
    /// Length of the file in bytes.
    pub file_len: u64,
    /// Format version that the header has, if it can be read.
    pub version: Option<u32>,
    /// The edits that were read, in order.
    pub edits: Vec<SalvagedEdit>,
    /// Stretches between records, or in front of the first, that can't be read: offset and length.
    pub gaps: Vec<(u64, u64)>,
    /// Bytes behind the last record: what a crash cut short, or damage.
    pub tail: u64,
    /// What is wrong. A tail is not.
    pub problems: Vec<Error>,
}

impl SalvagedManifest {
    /// Reads manifest `number`, called `path` in reports.
    ///
    /// # Errors
    /// [`Error::Io`] when the file can't be read. Damage is no error.
    pub fn survey(file: &dyn File, path: &Path, number: u64) -> Result<Self> {
        let bytes = read_whole(file, path)?;
        let mut remains = Self { file_len: bytes.len() as u64, ..Self::default() };
        remains.version = version_of(&bytes);
        if let Err(problem) = check_header(&bytes, path, number) {
            remains.problems.push(problem);
        }
        let mut at = HEADER_BYTES.min(bytes.len());
        let (mut sound, mut search) = (at, Search::default());
        while at < bytes.len() {
            let Some((body, end)) = search.record_at(&bytes, at, number) else {
                at += 1;
                continue;
            };
            if at > sound {
                remains.gaps.push((sound as u64, (at - sound) as u64));
                remains.problems.push(damaged_record(&bytes, path, sound, number));
            }
            match Edit::decode(body) {
                Ok(edit) => remains.edits.push(SalvagedEdit {
                    offset: at as u64,
                    len: (end - at) as u64,
                    edit,
                }),
                Err(_) => {
                    remains.gaps.push((at as u64, (end - at) as u64));
                    remains.problems.push(Error::corruption(path, at as u64, unknown_form(body)));
                }
            }
            (at, sound) = (end, end);
        }
        remains.tail = (bytes.len() - sound) as u64;
        if search.is_given_up() {
            remains.problems.push(damaged_record(&bytes, path, sound, number));
        }
        if remains.edits.is_empty() {
            let text = format!("expected a record, found none in {} bytes", bytes.len());
            remains.problems.push(Error::corruption(path, HEADER_BYTES as u64, text));
        }
        Ok(remains)
    }

    /// Whether everything up to the last record was read.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.problems.is_empty()
    }

    /// The number of the manifest that claims to lie in `file`; nothing confirms it.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn claimed_number(file: &dyn File, path: &Path) -> Result<Option<u64>> {
        let mut bytes = [0; HEADER_BYTES];
        if file.len().map_err(|e| Error::io("read length", path, e))? < HEADER_BYTES as u64 {
            return Ok(None);
        }
        file.read_exact_at(&mut bytes, 0).map_err(|e| Error::io("read", path, e))?;
        let number = bytes.get(16..).and_then(|rest| rest.first_chunk());
        Ok(number.copied().map(u64::from_le_bytes).filter(|_| version_of(&bytes).is_some()))
    }
}

fn version_of(bytes: &[u8]) -> Option<u32> {
    let mut decoder = Decoder::new(bytes);
    (decoder.u64() == Ok(MAGIC)).then(|| decoder.u32().ok()).flatten()
}

/// The manifest that the text of a damaged `CURRENT` seems to name.
#[must_use]
pub fn named_by(text: &[u8]) -> Option<u64> {
    let name = text.split(|&byte| byte == b' ' || byte == b'\n').next()?;
    match naming::parse(std::str::from_utf8(name).ok()?) {
        Some(FileKind::Manifest(number)) => Some(number),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use tidesdb_sim::SimVfs;
    use tidesdb_sys::vfs::{OpenMode, Vfs};

    use super::super::{Change, ManifestWriter};
    use super::*;

    #[test]
    fn edits_around_damage_are_read() {
        let vfs = SimVfs::new(1);
        vfs.create_dir(Path::new("/db")).unwrap();
        let edit = |number| Edit::new(vec![Change::NextFile { number }]);
        let dir = Path::new("/db");
        let mut writer = ManifestWriter::create(vfs.as_ref(), dir, 4, &edit(1)).unwrap();
        let mut starts = vec![HEADER_BYTES as u64];
        for number in 2..6 {
            starts.push(writer.bytes());
            writer.append(&edit(number)).unwrap();
        }
        let path = Path::new("/db/MANIFEST-000004");
        let file = vfs.open(path, OpenMode::ReadWrite).unwrap();
        let whole = SalvagedManifest::survey(file.as_ref(), path, 4).unwrap();
        assert!(whole.is_whole() && whole.edits.len() == 5 && whole.version == Some(4));
        file.write_all_at(&[0xff], starts[2] + 13).unwrap();
        let remains = SalvagedManifest::survey(file.as_ref(), path, 4).unwrap();
        assert_eq!(remains.gaps, [(starts[2], starts[3] - starts[2])]);
        assert_eq!(
            remains.edits.iter().map(|e| e.offset).collect::<Vec<_>>(),
            [starts[0], starts[1], starts[3], starts[4]]
        );
        assert!(!remains.is_whole());
        // A record that a crash cut short at the end is no damage.
        file.set_len(writer.bytes() - 1).unwrap();
        let remains = SalvagedManifest::survey(file.as_ref(), path, 4).unwrap();
        assert_eq!((remains.edits.len(), remains.problems.len()), (3, 1));
        assert_eq!(remains.tail, writer.bytes() - 1 - starts[4]);
        assert_eq!(named_by(b"MANIFEST-000004 0123"), Some(4));
        assert_eq!(named_by(b"MANIFEST-0000x4 0123"), None);
    }
}
