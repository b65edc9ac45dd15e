//! Reads values from one value log.
//!
//! Every read checks the record against its pointer and its checksum before anything is believed.
//! Small and compressed records are fetched with one read; a large value that is stored as it is
//! is read straight to where the caller gets it. Immutable, shared by all threads, and good for a
//! file that is still being appended to.

use super::record::{FILE_HEADER_BYTES, RECORD_HEADER_BYTES, RecordHeader, file_header};
use super::{RecordReadahead, ValuePointer, VlogSummary};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tidesdb_base::compress::Compression;
use tidesdb_base::{Error, Result};
use tidesdb_sys::vfs::File;

/// Up to this many stored bytes, one read and a copy are cheaper than two reads.
const ONE_READ_BYTES: usize = 16 << 10;
/// First and largest piece of [`VlogReader::read_along`].
const FIRST_PIECE_BYTES: usize = 4 << 10;
pub(super) const LARGEST_PIECE_BYTES: usize = 32 << 10;
/// Larger lengths are compared with the file's before that much is allocated.
const TRUSTED_BYTES: u32 = 1 << 20;

/// Reads values from one value log.
#[derive(Debug)]
pub struct VlogReader {
    file: Arc<dyn File>,
    path: PathBuf,
    number: u64,
}

impl VlogReader {
    /// Opens the value log in `file`, called `path` in errors, that was written as `number`.
    ///
    /// # Errors
    /// [`Error::Corruption`] when its header is not that of this value log, or [`Error::Io`].
    pub fn open(file: Arc<dyn File>, path: &Path, number: u64) -> Result<Self> {
        let reader = Self { file, path: path.to_path_buf(), number };
        let mut header = [0; FILE_HEADER_BYTES];
        reader.read_exact(&mut header, 0)?;
        if header == file_header(number) {
            return Ok(reader);
        }
        Err(reader.damaged(0, {
            let found = header.escape_ascii();
            format!("expected the header of value log {number}, found '{found}'")
        }))
    }

    /// Opens the value log `number` without a look at its header, which may be damaged: each record
    /// is sealed by itself.
    #[must_use]
    pub fn without_header(file: Arc<dyn File>, path: &Path, number: u64) -> Self {
        Self { file, path: path.to_path_buf(), number }
    }

    /// The number of the value log that lies in `file`, from its header; `None` when that is
    /// damaged.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn claimed_number(file: &dyn File, path: &Path) -> Result<Option<u64>> {
        let mut header = [0; FILE_HEADER_BYTES];
        if file.len().map_err(|e| Error::io("read length", path, e))? < header.len() as u64 {
            return Ok(None);
        }
        file.read_exact_at(&mut header, 0).map_err(|e| Error::io("read", path, e))?;
        let number = header.get(16..).and_then(|rest| rest.first_chunk());
        let number = number.copied().map(u64::from_le_bytes);
        Ok(number.filter(|&number| header == file_header(number)))
    }

    /// Number of the file.
    #[must_use]
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// The path the value log was opened as.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The value at `pointer`.
    ///
    /// # Errors
    /// [`Error::Corruption`] when the record is not what the pointer says, [`Error::Io`], or
    /// [`Error::Internal`] for a pointer into another file.
    pub fn read(&self, pointer: &ValuePointer) -> Result<Vec<u8>> {
        let mut value = Vec::new();
        self.read_into(pointer, &mut Vec::new(), &mut value)?;
        Ok(value)
    }

    /// Replaces `value` by the value at `pointer`; `scratch` holds the stored bytes meanwhile.
    /// Both keep their allocations.
    ///
    /// # Errors
    /// As [`VlogReader::read`]; `value` is unspecified then.
    pub fn read_into(
        &self,
        pointer: &ValuePointer,
        scratch: &mut Vec<u8>,
        value: &mut Vec<u8>,
    ) -> Result<()> {
        self.check_range(pointer)?;
        let stored_len = pointer.stored_len as usize;
        if stored_len > ONE_READ_BYTES && pointer.stored_len == pointer.raw_len {
            return self.read_in_place(pointer, value);
        }
        resize(scratch, RECORD_HEADER_BYTES + stored_len)?;
        self.read_exact(scratch, pointer.offset)?;
        self.decode(pointer, scratch, value)
    }

    /// Asks the system to begin reading the value at `pointer`.
    pub fn start_reading(&self, pointer: &ValuePointer) {
        self.file.start_reading(pointer.offset, pointer.record_bytes());
    }

    /// As [`VlogReader::read_into`], for one of many values that are read in the order in which
    /// they lie: such reads fetch what follows as well, and most of them find their value in
    /// `ahead`.
    ///
    /// # Errors
    /// As [`VlogReader::read_into`].
    pub fn read_along(
        &self,
        pointer: &ValuePointer,
        ahead: &mut RecordReadahead,
        scratch: &mut Vec<u8>,
        value: &mut Vec<u8>,
    ) -> Result<()> {
        self.check_range(pointer)?;
        let wanted = pointer.record_bytes();
        let in_order = ahead.follows(pointer);
        ahead.next = pointer.offset.saturating_add(wanted);
        if let Some(record) = ahead.record(pointer, self.number)
            && self.decode(pointer, record, value).is_ok()
        {
            return Ok(());
        }
        ahead.piece = if in_order { (ahead.piece * 2).max(FIRST_PIECE_BYTES) } else { 0 };
        ahead.piece = ahead.piece.min(LARGEST_PIECE_BYTES);
        ahead.len = 0;
        if wanted >= ahead.piece as u64 {
            return self.read_into(pointer, scratch, value);
        }
        if ahead.bytes.len() < ahead.piece {
            // What is there is read over next: a larger buffer takes nothing along.
            ahead.bytes.clear();
            ahead.bytes.resize(ahead.piece, 0)?;
        }
        let buffer = ahead.bytes.get_mut(..ahead.piece).unwrap_or_default();
        // What can't be read may lie behind the record: that alone is read then.
        ahead.len = self.file.read_at(buffer, pointer.offset).unwrap_or(0);
        (ahead.file, ahead.start) = (self.number, pointer.offset);
        match ahead.record(pointer, self.number) {
            Some(record) => self.decode(pointer, record, value),
            // The system may give less than there is, or nothing.
            None => self.read_into(pointer, scratch, value),
        }
    }

    /// Checks the record at `pointer`, whose bytes these are, and replaces `value` by its value.
    fn decode(&self, pointer: &ValuePointer, record: &[u8], value: &mut Vec<u8>) -> Result<()> {
        let Some((bytes, stored)) = record.split_first_chunk() else {
            return Err(self.damaged(
                pointer.offset,
                format!(
                    "expected a record of {RECORD_HEADER_BYTES} bytes and more, found {}",
                    record.len()
                ),
            ));
        };
        let header = self.check(bytes, pointer, stored)?;
        if header.codec == Compression::None {
            value.clear();
            value.try_reserve(stored.len()).map_err(|_| NO_MEMORY)?;
            value.extend_from_slice(stored);
            return Ok(());
        }
        resize(value, pointer.raw_len as usize)?;
        header.codec.decompress(stored, value).map_err(|_| {
            let (stored, raw) = (stored.len(), pointer.raw_len);
            let text =
                format!("expected a value of {raw} bytes, found {stored} stored bytes of none");
            self.damaged(pointer.offset, text)
        })
    }

    /// Reads a value that is stored as it is without copying it.
    fn read_in_place(&self, pointer: &ValuePointer, value: &mut Vec<u8>) -> Result<()> {
        let mut header = [0; RECORD_HEADER_BYTES];
        self.read_exact(&mut header, pointer.offset)?;
        resize(value, pointer.stored_len as usize)?;
        self.read_exact(value, pointer.offset + RECORD_HEADER_BYTES as u64)?;
        let parsed = self.check(&header, pointer, value)?;
        if parsed.codec == Compression::None {
            return Ok(());
        }
        Err(self.damaged(pointer.offset, "record is compressed where its pointer says it is not"))
    }

    /// Refuses pointers into another file, and bounds what a wrong length can make us allocate.
    fn check_range(&self, pointer: &ValuePointer) -> Result<()> {
        if pointer.file != self.number {
            let text = format!("pointer into value log {} used on {}", pointer.file, self.number);
            return Err(Error::Internal(text));
        }
        if pointer.stored_len <= TRUSTED_BYTES && pointer.raw_len <= TRUSTED_BYTES {
            return Ok(());
        }
        let len = self.file.len().map_err(|error| Error::io("read length", &self.path, error))?;
        let inside = pointer.raw_len == pointer.stored_len
            && pointer.offset.checked_add(pointer.record_bytes()).is_some_and(|end| end <= len);
        if inside {
            return Ok(());
        }
        Err(self.damaged(pointer.offset, {
            let end = pointer.offset.saturating_add(pointer.record_bytes());
            format!("expected a record that ends at {end}, found a file of {len} bytes")
        }))
    }

    fn check(
        &self,
        bytes: &[u8; RECORD_HEADER_BYTES],
        pointer: &ValuePointer,
        stored: &[u8],
    ) -> Result<RecordHeader> {
        let at = pointer.offset;
        let header = RecordHeader::parse(bytes).map_err(|_| self.damaged(at, no_header(bytes)))?;
        let (found, pointed) =
            ((header.raw_len, header.stored_len), (pointer.raw_len, pointer.stored_len));
        if found != pointed {
            let text = format!("record has lengths {found:?}, expected {pointed:?}");
            return Err(self.damaged(at, text));
        }
        if !header.matches(bytes, pointer, stored) {
            let expected = header.encode(pointer.file, pointer.offset, stored);
            let sum = |bytes: &[u8; RECORD_HEADER_BYTES]| {
                bytes.last_chunk::<8>().map_or(0, |sum| u64::from_le_bytes(*sum))
            };
            let (found, expected) = (sum(bytes), sum(&expected));
            let text = format!("record checksum is {found:016x}, expected {expected:016x}");
            return Err(self.damaged(at, text));
        }
        Ok(header)
    }

    /// The pointer to the record that starts at `offset` (the first one at 0), as its header has
    /// it; `None` at the end of the file. Reading the pointer checks the record.
    ///
    /// # Errors
    /// [`Error::Corruption`] when no whole record is there, or [`Error::Io`].
    pub fn record_at(&self, offset: u64) -> Result<Option<ValuePointer>> {
        let offset = offset.max(FILE_HEADER_BYTES as u64);
        let len = self.file.len().map_err(|error| Error::io("read length", &self.path, error))?;
        if offset == len {
            return Ok(None);
        }
        let mut bytes = [0; RECORD_HEADER_BYTES];
        self.read_exact(&mut bytes, offset)?;
        let header =
            RecordHeader::parse(&bytes).map_err(|_| self.damaged(offset, no_header(&bytes)))?;
        let RecordHeader { raw_len, stored_len, .. } = header;
        let pointer = ValuePointer { file: self.number, offset, stored_len, raw_len };
        if offset.checked_add(pointer.record_bytes()).is_none_or(|end| end > len) {
            let wanted = pointer.record_bytes();
            let text = format!("expected a record of {wanted} bytes, found a file of {len}");
            return Err(self.damaged(offset, text));
        }
        Ok(Some(pointer))
    }

    /// Reads and checks every record from the front.
    ///
    /// # Errors
    /// [`Error::Corruption`] at the first damage, or [`Error::Io`].
    pub fn verify(&self) -> Result<VlogSummary> {
        self.verify_with_progress(&mut |_| Ok(()))
    }

    /// As [`VlogReader::verify`]. `progress` is called with the bytes of each record that was
    /// checked; an error that it returns ends the check.
    ///
    /// # Errors
    /// As [`VlogReader::verify`], and what `progress` returns.
    pub fn verify_with_progress(
        &self,
        progress: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<VlogSummary> {
        let (mut scratch, mut value) = (Vec::new(), Vec::new());
        let mut summary =
            VlogSummary { file_len: FILE_HEADER_BYTES as u64, ..VlogSummary::default() };
        while let Some(pointer) = self.record_at(summary.file_len)? {
            self.read_into(&pointer, &mut scratch, &mut value)?;
            summary.records += 1;
            summary.raw_bytes += u64::from(pointer.raw_len);
            summary.file_len += pointer.record_bytes();
            progress(pointer.record_bytes())?;
        }
        Ok(summary)
    }

    pub(super) fn file_len(&self) -> Result<u64> {
        self.file.len().map_err(|error| Error::io("read length", &self.path, error))
    }

    /// So many bytes from `at` on.
    pub(super) fn window(&self, at: u64, len: u64) -> Result<Vec<u8>> {
        let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
        self.read_exact(&mut bytes, at)?;
        Ok(bytes)
    }

    fn read_exact(&self, buffer: &mut [u8], at: u64) -> Result<()> {
        self.file.read_exact_at(buffer, at).map_err(|error| {
            if error.kind() == io::ErrorKind::UnexpectedEof {
                return self.damaged(at, error.to_string());
            }
            Error::io("read", &self.path, error)
        })
    }

    #[cold]
    fn damaged(&self, offset: u64, detail: impl Into<String>) -> Error {
        Error::corruption(&self.path, offset, detail)
    }
}

#[cold]
fn no_header(found: &[u8; RECORD_HEADER_BYTES]) -> String {
    format!("expected the header of a record, found '{}'", found.escape_ascii())
}

/// Gives `buffer` that length; what it holds is overwritten next. Fresh memory comes zeroed from
/// the system at no cost, so a buffer that is too small is replaced rather than grown. For a large
/// value memory is asked for twice, since what gives zeroed memory ends the process when there is
/// none.
///
/// # Errors
/// [`Error::OutOfMemory`].
fn resize(buffer: &mut Vec<u8>, len: usize) -> Result<()> {
    if buffer.capacity() >= len {
        buffer.resize(len, 0);
        return Ok(());
    }
    // Not together with what it takes the place of.
    *buffer = Vec::new();
    if len > TRUSTED_BYTES as usize {
        Vec::<u8>::new().try_reserve_exact(len).map_err(|_| NO_MEMORY)?;
    }
    *buffer = vec![0; len];
    Ok(())
}

const NO_MEMORY: Error = Error::OutOfMemory("a value");
