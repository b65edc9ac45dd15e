//! Appends edits to a manifest file.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidesdb_base::checksum;
use tidesdb_base::codec::{put_u32, put_u64};
use tidesdb_base::error::{Error, Result};
use tidesdb_sys::vfs::{File, FileStamp, OpenMode, Vfs};

use super::edit::Edit;
use super::{HEADER_BYTES, MAGIC, RECORD_HEADER_BYTES, Unsynced, VERSION};
use crate::naming;

/// Where the record of a snapshot is cut. The limit of a record is four gigabytes, which all tables
/// of very many copied families can pass. Only what does not fit into one record is in several: a
/// file that lost its end has no whole snapshot then, and can't be taken for that of a smaller
/// database. No change takes as much as a quarter of the limit.
const SNAPSHOT_RECORD_BYTES: usize = 3 << 30;

/// The open manifest file. One thread appends at a time.
#[derive(Debug)]
pub struct ManifestWriter {
    file: Arc<dyn File>,
    path: PathBuf,
    number: u64,
    offset: u64,
}

impl ManifestWriter {
    /// Creates manifest `number` in `dir` that begins with `snapshot`, in one record or, if it is
    /// very large, in some, and syncs it. The caller still has to make it the current one.
    ///
    /// # Errors
    /// [`Error::Io`] when a file operation fails; the file may then be left behind and is removed
    /// by the next open.
    pub fn create(vfs: &dyn Vfs, dir: &Path, number: u64, snapshot: &Edit) -> Result<Self> {
        let (writer, written) = Self::write_new(vfs, dir, number, snapshot)?;
        written.sync()?;
        Ok(writer)
    }

    /// As [`ManifestWriter::create`], but leaves the sync to the caller. Until that has succeeded
    /// nothing must be appended, and nothing refer to the manifest.
    ///
    /// # Errors
    /// As [`ManifestWriter::create`].
    pub fn write_new(
        vfs: &dyn Vfs,
        dir: &Path,
        number: u64,
        snapshot: &Edit,
    ) -> Result<(Self, Unsynced)> {
        let path = dir.join(naming::FileKind::Manifest(number).name());
        let file =
            vfs.open(&path, OpenMode::CreateNew).map_err(|e| Error::io("create", &path, e))?;
        let mut header = Vec::with_capacity(HEADER_BYTES);
        put_u64(&mut header, MAGIC);
        put_u32(&mut header, VERSION);
        put_u32(&mut header, 0);
        put_u64(&mut header, number);
        file.write_all_at(&header, 0).map_err(|e| Error::io("write", &path, e))?;
        let mut writer = Self { file, path, number, offset: HEADER_BYTES as u64 };
        writer.write_snapshot(snapshot, SNAPSHOT_RECORD_BYTES)?;
        let unsynced = Unsynced::new(writer.path.clone(), Arc::clone(&writer.file));
        Ok((writer, unsynced))
    }

    /// Goes on behind the last whole record of an existing manifest.
    #[must_use]
    pub const fn resume(file: Arc<dyn File>, path: PathBuf, number: u64, offset: u64) -> Self {
        debug_assert!(offset >= HEADER_BYTES as u64, "records lie behind the header");
        Self { file, path, number, offset }
    }

    /// Number of the file.
    #[must_use]
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// Length of the file in bytes.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.offset
    }

    /// What tells the file from its copies, if it ends with the last whole record.
    ///
    /// # Errors
    /// `InvalidData` when it does not, or as [`File::stamp`].
    pub(super) fn stamp_if_whole(&self) -> io::Result<FileStamp> {
        if self.file.len()? != self.offset {
            return Err(io::ErrorKind::InvalidData.into());
        }
        self.file.stamp()
    }

    /// Appends one edit and syncs it. When this returns, the edit survives a power cut.
    ///
    /// # Errors
    /// [`Error::Io`] when the write or the sync fails. Whether the edit is on disk is then
    /// unknown, so the caller must not append to this file again: it starts another one.
    pub fn append(&mut self, edit: &Edit) -> Result<()> {
        self.append_all(std::slice::from_ref(edit))
    }

    /// Appends edits, a record each, with one write and one sync. Of several, a power cut before it
    /// returns may leave the first few.
    ///
    /// # Errors
    /// As [`ManifestWriter::append`].
    pub fn append_all(&mut self, edits: &[Edit]) -> Result<()> {
        if edits.is_empty() {
            return Ok(());
        }
        let end = self.write(edits)?;
        self.file.sync_data().map_err(|e| Error::io("sync", &self.path, e))?;
        self.offset = end;
        Ok(())
    }

    /// Writes the changes of an edit to records that are cut at so many bytes.
    fn write_snapshot(&mut self, snapshot: &Edit, record_bytes: usize) -> Result<()> {
        let mut changes = snapshot.changes.iter();
        loop {
            let mut record = vec![0; RECORD_HEADER_BYTES];
            let is_all = Edit::encode_some(&mut changes, record_bytes, &mut record);
            seal(&mut record, self.number, self.offset)?;
            self.file
                .write_all_at(&record, self.offset)
                .map_err(|e| Error::io("write", &self.path, e))?;
            self.offset += record.len() as u64;
            if is_all {
                return Ok(());
            }
        }
    }

    /// Writes edits behind the last record. Returns where they end.
    fn write(&self, edits: &[Edit]) -> Result<u64> {
        let mut records = Vec::new();
        for edit in edits {
            let begin = records.len();
            records.resize(begin + RECORD_HEADER_BYTES, 0);
            edit.encode_into(&mut records);
            let at = self.offset + begin as u64;
            if let Some(record) = records.get_mut(begin..) {
                seal(record, self.number, at)?;
            }
        }
        self.file
            .write_all_at(&records, self.offset)
            .map_err(|e| Error::io("write", &self.path, e))?;
        Ok(self.offset + records.len() as u64)
    }
}

/// Fills in the header of a record at `offset` of manifest `number`.
fn seal(record: &mut [u8], number: u64, offset: u64) -> Result<()> {
    let Some((header, body)) = record.split_at_mut_checked(RECORD_HEADER_BYTES) else {
        return Err(Error::Internal("a manifest record without a header".to_owned()));
    };
    let length = u32::try_from(body.len()).map_err(|_| Error::TooLarge {
        what: "manifest edit",
        size: body.len() as u64,
        limit: u64::from(u32::MAX),
    })?;
    let (place_of_length, place_of_sum) = header.split_at_mut(size_of::<u32>());
    place_of_length.copy_from_slice(&length.to_le_bytes());
    place_of_sum.copy_from_slice(&checksum::placed(number, offset, body).to_le_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use tidesdb_sim::SimVfs;

    use super::*;
    use crate::manifest::{Change, read_manifest};

    #[test]
    fn a_snapshot_may_take_several_records() {
        let changes: Vec<_> = (0..100).map(|number| Change::NextFile { number }).collect();
        let snapshot = Edit::new(changes.clone());
        for (number, record_bytes, records) in
            [(1, 1 << 20, 1), (2, RECORD_HEADER_BYTES + 40, 5), (3, 1, 100)]
        {
            let (vfs, dir) = (SimVfs::new(1), Path::new("/db"));
            vfs.create_dir(dir).unwrap();
            let (mut writer, _) =
                ManifestWriter::write_new(vfs.as_ref(), dir, number, &Edit::new(Vec::new()))
                    .unwrap();
            writer.offset = HEADER_BYTES as u64;
            writer.write_snapshot(&snapshot, record_bytes).unwrap();
            writer.append(&Edit::new(vec![Change::NextFile { number: 100 }])).unwrap();
            let path = dir.join(naming::FileKind::Manifest(number).name());
            let file = vfs.open(&path, OpenMode::Read).unwrap();
            let (edits, end) = read_manifest(file.as_ref(), &path, number).unwrap();
            assert_eq!((edits.len(), end), (records + 1, writer.bytes()));
            let read: Vec<_> = edits.into_iter().flat_map(|(_, edit)| edit.changes).collect();
            assert_eq!(read.len(), 101);
            assert_eq!(read[..100], changes);
        }
    }
}
