//! Reads the records of one segment in order and says why they end.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidesdb_base::error::{Error, Result};
use tidesdb_sys::vfs::File;

use super::record::{self, RECORD_HEADER_BYTES, RecordView};
use super::segment::{RECORDS_OFFSET, SYNC_MARK_BYTES, SYNC_MARK_OFFSET};
use super::segment::{SegmentHeader, decode_sync_mark};

/// Bytes read from the file at a time.
const CHUNK_BYTES: usize = 1 << 20;

/// Where the readable records of a segment end and what is known to have been promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentEnd {
    /// Log position behind the last whole record.
    pub position: u64,
    /// Highest sync mark found in the header, the mark and the records.
    pub synced: u64,
}

/// Reads one segment from its first record on.
#[derive(Debug)]
pub struct SegmentReader {
    file: Arc<dyn File>,
    path: PathBuf,
    header: SegmentHeader,
    file_bytes: u64,
    position: u64,
    synced: u64,
    buffer: Vec<u8>,
    /// Offset in the file of `buffer[0]`.
    buffer_offset: u64,
}

impl SegmentReader {
    /// Opens a segment. `None` when the file has no valid header: it was reserved or recycled,
    /// and never started.
    ///
    /// # Errors
    /// [`Error::Io`] when the file can't be read, [`Error::NotADatabase`] for an unknown version.
    pub fn open(file: Arc<dyn File>, path: &Path) -> Result<Option<Self>> {
        let file_bytes = file.len().map_err(|e| Error::io("read length", path, e))?;
        let mut start = [0; RECORDS_OFFSET as usize];
        let usable =
            read_up_to(file.as_ref(), &mut start, 0).map_err(|e| Error::io("read", path, e))?;
        let start = start.get(..usable).unwrap_or_default();
        let Some(header) = SegmentHeader::decode(start, path)? else { return Ok(None) };
        let mark = start
            .get(SYNC_MARK_OFFSET as usize..SYNC_MARK_OFFSET as usize + SYNC_MARK_BYTES)
            .and_then(|bytes| decode_sync_mark(header.number, bytes));
        Ok(Some(Self {
            file,
            path: path.to_path_buf(),
            header,
            file_bytes,
            position: header.base,
            synced: header.synced.max(mark.unwrap_or(0)),
            buffer: Vec::new(),
            buffer_offset: 0,
        }))
    }

    /// The segment's header.
    #[must_use]
    pub const fn header(&self) -> &SegmentHeader {
        &self.header
    }

    /// The segment's file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// File offset of a log position of this segment.
    #[must_use]
    pub const fn offset_of(&self, position: u64) -> u64 {
        RECORDS_OFFSET + position.saturating_sub(self.header.base)
    }

    /// The next record and the position at which it ends; `None` where the records end.
    ///
    /// # Errors
    /// [`Error::Io`] when the file can't be read.
    pub fn next_record(&mut self) -> Result<Option<(RecordView<'_>, u64)>> {
        let offset = self.offset_of(self.position);
        let Some(length) = self.claimed_length(offset)? else { return Ok(None) };
        if !self.fill(offset, length)? {
            return Ok(None);
        }
        let from = (offset - self.buffer_offset) as usize;
        let bytes = self.buffer.get(from..from + length).unwrap_or_default();
        let Some(view) = record::open(bytes, self.header.number, self.position) else {
            return Ok(None);
        };
        self.position += view.length as u64;
        self.synced = self.synced.max(view.synced);
        Ok(Some((view, self.position)))
    }

    /// Where the records read so far end.
    #[must_use]
    pub const fn end(&self) -> SegmentEnd {
        SegmentEnd { position: self.position, synced: self.synced }
    }

    /// Looks behind the break for records of this segment's present life and returns the highest
    /// sync mark among them. A slow neighbour leaves a hole in front of finished records; what
    /// they knew to be on disk decides whether the hole is legal.
    ///
    /// # Errors
    /// [`Error::Io`] when the file can't be read.
    pub fn synced_behind_break(&mut self) -> Result<u64> {
        let mut highest = self.synced;
        let mut offset = self.offset_of(self.position) + 8;
        while offset + RECORD_HEADER_BYTES as u64 <= self.file_bytes {
            let position = self.header.base + (offset - RECORDS_OFFSET);
            let Some(length) = self.claimed_length(offset)? else {
                offset += 8;
                continue;
            };
            if self.fill(offset, length)? {
                let from = (offset - self.buffer_offset) as usize;
                let bytes = self.buffer.get(from..from + length).unwrap_or_default();
                if let Some(view) = record::open(bytes, self.header.number, position) {
                    highest = highest.max(view.synced);
                    offset += view.length as u64;
                    continue;
                }
            }
            offset += 8;
        }
        Ok(highest)
    }

    fn claimed_length(&mut self, offset: u64) -> Result<Option<usize>> {
        if !self.fill(offset, RECORD_HEADER_BYTES)? {
            return Ok(None);
        }
        let from = (offset - self.buffer_offset) as usize;
        let position = self.header.base + (offset - RECORDS_OFFSET);
        let length =
            self.buffer.get(from..).and_then(|bytes| record::claimed_length(bytes, position));
        Ok(length.filter(|&length| offset + length as u64 <= self.file_bytes))
    }

    /// Makes `buffer` hold the bytes `[offset, offset + length)`; false when the file ends first.
    fn fill(&mut self, offset: u64, length: usize) -> Result<bool> {
        let buffered = self.buffer_offset..self.buffer_offset + self.buffer.len() as u64;
        let end = offset + length as u64;
        if offset >= buffered.start && end <= buffered.end {
            return Ok(true);
        }
        if end > self.file_bytes {
            return Ok(false);
        }
        let available = usize::try_from(self.file_bytes - offset).unwrap_or(usize::MAX);
        self.buffer.resize(length.max(CHUNK_BYTES).min(available), 0);
        self.buffer_offset = offset;
        let read = read_up_to(self.file.as_ref(), &mut self.buffer, offset)
            .map_err(|e| Error::io("read", &self.path, e))?;
        self.buffer.truncate(read);
        Ok(read >= length)
    }
}

/// Reads until `buffer` is full or the file ends.
fn read_up_to(file: &dyn File, buffer: &mut [u8], offset: u64) -> std::io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(filled)
}
