//! Reads the records of one segment in order and says why they end.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidesdb_base::entry::MAX_SEQUENCE;
use tidesdb_base::error::{Error, Result};
use tidesdb_sys::vfs::File;

use super::record::{self, RECORD_HEADER_BYTES, RecordKind, RecordView};
use super::segment::{RECORDS_OFFSET, SYNC_MARK_BYTES, SYNC_MARK_OFFSET};
use super::segment::{SegmentHeader, decode_sync_mark};

/// Bytes read from the file at a time.
const CHUNK_BYTES: usize = 1 << 20;

/// What lies in front of the records, and where the sync mark lies in it.
#[expect(clippy::cast_possible_truncation, reason = "a few hundred bytes")]
const HEADER_BYTES: usize = RECORDS_OFFSET as usize;
#[expect(clippy::cast_possible_truncation, reason = "a few hundred bytes")]
const SYNC_MARK_AT: usize = SYNC_MARK_OFFSET as usize;

/// How many times the bytes behind a break are read and checked in vain before that ends.
const FAILED_FACTOR: u64 = 8;

/// Bytes that are checked in vain in any case.
const LEAST_FAILED_BYTES: u64 = 16 << 20;

/// Where the readable records of a segment end and what is known to have been promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentEnd {
    /// Log position behind the last whole record.
    pub position: u64,
    /// Highest sync mark found in the header, the mark and the records.
    pub synced: u64,
}

/// What lies behind the place where the records of a segment end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BehindBreak {
    /// Highest sync mark found, those in front of the break included.
    pub synced: u64,
    /// Whole records of commits.
    pub commits: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Reads one segment from its first record on.
#[derive(Debug)]
pub struct SegmentReader {
    /// None while it was let go of.
    file: Option<Arc<dyn File>>,
    path: PathBuf,
    header: SegmentHeader,
    file_bytes: u64,
    position: u64,
    synced: u64,
    /// Bytes that [`SegmentReader::skip_break`] may still check in vain.
    may_fail: u64,
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
        let mut start = [0; HEADER_BYTES];
        let usable =
            read_up_to(file.as_ref(), &mut start, 0).map_err(|e| Error::io("read", path, e))?;
        let start = start.get(..usable).unwrap_or_default();
        let Some(header) = SegmentHeader::decode(start, path)? else { return Ok(None) };
        let mark = start
            .get(SYNC_MARK_AT..SYNC_MARK_AT + SYNC_MARK_BYTES)
            .and_then(|bytes| decode_sync_mark(header.number, bytes));
        Ok(Some(Self {
            file: Some(file),
            path: path.to_path_buf(),
            header,
            file_bytes,
            position: header.base,
            synced: header.synced.max(mark.unwrap_or(0)),
            may_fail: may_fail(file_bytes),
            buffer: Vec::new(),
            buffer_offset: 0,
        }))
    }

    /// Opens a segment whose header is damaged, and known from elsewhere.
    ///
    /// # Errors
    /// [`Error::Io`] when the file can't be read.
    pub fn with_header(file: Arc<dyn File>, path: &Path, header: SegmentHeader) -> Result<Self> {
        let file_bytes = file.len().map_err(|e| Error::io("read length", path, e))?;
        Ok(Self {
            file: Some(file),
            path: path.to_path_buf(),
            file_bytes,
            position: header.base,
            synced: header.synced,
            may_fail: may_fail(file_bytes),
            header,
            buffer: Vec::new(),
            buffer_offset: 0,
        })
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

    /// Bytes of the file behind the records read so far.
    #[must_use]
    pub const fn bytes_left(&self) -> u64 {
        self.file_bytes.saturating_sub(self.offset_of(self.position))
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
        let bytes = Self::within(&self.buffer, self.buffer_offset, offset, length);
        let Some(view) = record::open(bytes, self.header.number, self.position) else {
            return Ok(None);
        };
        let end = self.position + view.length as u64;
        if end > MAX_SEQUENCE {
            // No commit has such a number.
            return Ok(None);
        }
        self.position = end;
        self.synced = self.synced.max(view.synced);
        Ok(Some((view, self.position)))
    }

    /// Where the records read so far end.
    #[must_use]
    pub const fn end(&self) -> SegmentEnd {
        SegmentEnd { position: self.position, synced: self.synced }
    }

    /// Looks behind the break for whole records of this segment's present life. A slow neighbour
    /// leaves a hole in front of finished records; what they knew to be on disk decides whether the
    /// hole is legal.
    ///
    /// Any bytes may look like the header of a long record, those of values too, so the work is
    /// bounded: after checksums that failed over eight times the bytes there are, or 16 MiB where
    /// that is more, the search ends. Records of an earlier life make up for one time.
    ///
    /// # Errors
    /// [`Error::Io`] when the file can't be read.
    pub fn behind_break(&mut self) -> Result<BehindBreak> {
        let mut found = BehindBreak { synced: self.synced, ..BehindBreak::default() };
        let mut may_fail = may_fail(self.bytes_left());
        // At the break itself there is a whole record if none was read.
        let mut offset = self.offset_of(self.position);
        while offset + RECORD_HEADER_BYTES as u64 <= self.file_bytes {
            let position = self.header.base + (offset - RECORDS_OFFSET);
            let Some(length) = self.claimed_length(offset)? else {
                offset += 8;
                continue;
            };
            if self.fill(offset, length)? {
                let bytes = self.buffered(offset, length);
                if let Some(view) = record::open(bytes, self.header.number, position) {
                    found.synced = found.synced.max(view.synced);
                    if view.kind == RecordKind::Commit {
                        found.commits += 1;
                        found.bytes += view.length as u64;
                    }
                    offset += view.length as u64;
                    continue;
                }
                may_fail = may_fail.saturating_sub(length as u64);
                if may_fail == 0 {
                    break;
                }
            }
            offset += 8;
        }
        Ok(found)
    }

    /// Goes on behind a break, to the next whole record of this segment's present life, and returns
    /// how many bytes were passed over. `None`, with the place unchanged, when there is none, or
    /// when the search for it was given up, as [`SegmentReader::behind_break`] does: the
    /// bytes that may be checked in vain are those of all calls together.
    ///
    /// # Errors
    /// [`Error::Io`] when the file can't be read.
    pub fn skip_break(&mut self) -> Result<Option<u64>> {
        let start = self.offset_of(self.position);
        let mut offset = start + 8;
        while offset + RECORD_HEADER_BYTES as u64 <= self.file_bytes && self.may_fail > 0 {
            let position = self.header.base + (offset - RECORDS_OFFSET);
            if let Some(length) = self.claimed_length(offset)?
                && self.fill(offset, length)?
            {
                let bytes = self.buffered(offset, length);
                if record::open(bytes, self.header.number, position).is_some() {
                    self.position = position;
                    return Ok(Some(offset - start));
                }
                self.may_fail = self.may_fail.saturating_sub(length as u64);
            }
            offset += 8;
        }
        Ok(None)
    }

    fn claimed_length(&mut self, offset: u64) -> Result<Option<usize>> {
        if !self.fill(offset, RECORD_HEADER_BYTES)? {
            return Ok(None);
        }
        let position = self.header.base + (offset - RECORDS_OFFSET);
        let bytes = self.buffered(offset, RECORD_HEADER_BYTES);
        let length = record::claimed_length(bytes, position);
        Ok(length.filter(|&length| offset + length as u64 <= self.file_bytes))
    }

    /// Lets go of the file and of the memory of what was read: a log may have thousands of
    /// segments. What is known of them stays; nothing is read before [`SegmentReader::resume`].
    pub fn release(&mut self) {
        self.file = None;
        self.buffer = Vec::new();
    }

    /// Reads on in the same file, which was opened again.
    pub fn resume(&mut self, file: Arc<dyn File>) {
        self.file = Some(file);
    }

    /// Passes over the records in front of `position`, at which one ends, if it is of this segment.
    pub fn pass_over(&mut self, position: u64) {
        self.position = self.position.max(position);
    }

    /// Bytes of the file that are in `buffer`.
    fn buffered(&self, offset: u64, length: usize) -> &[u8] {
        Self::within(&self.buffer, self.buffer_offset, offset, length)
    }

    /// The bytes at an offset of the file, of a buffer that begins at another; none where it has
    /// not all of them.
    fn within(buffer: &[u8], buffer_offset: u64, offset: u64, length: usize) -> &[u8] {
        let from = offset.checked_sub(buffer_offset).and_then(|from| usize::try_from(from).ok());
        let range = from.and_then(|from| Some(from..from.checked_add(length)?));
        range.and_then(|range| buffer.get(range)).unwrap_or_default()
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
        let wanted = length.max(CHUNK_BYTES).min(available);
        // A record may be as large as a batch.
        let more = wanted.saturating_sub(self.buffer.len());
        self.buffer.try_reserve(more).map_err(|_| Error::OutOfMemory("a record of the log"))?;
        self.buffer.resize(wanted, 0);
        self.buffer_offset = offset;
        let Some(file) = &self.file else {
            let detail = format!("log segment {} is read and not open", self.header.number);
            return Err(Error::Internal(detail));
        };
        let read = read_up_to(file.as_ref(), &mut self.buffer, offset)
            .map_err(|e| Error::io("read", &self.path, e))?;
        self.buffer.truncate(read);
        Ok(read >= length)
    }
}

/// Bytes that may be checked in vain behind breaks of a file of this length.
fn may_fail(file_bytes: u64) -> u64 {
    LEAST_FAILED_BYTES.max(FAILED_FACTOR.saturating_mul(file_bytes))
}

/// Reads until `buffer` is full or the file ends.
fn read_up_to(file: &dyn File, buffer: &mut [u8], offset: u64) -> std::io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        let rest = buffer.get_mut(filled..).unwrap_or_default();
        match file.read_at(rest, offset + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wal::record::{RecordPlace, commit_header, record_bytes};
    use tidesdb_sim::SimVfs;
    use tidesdb_sys::vfs::{OpenMode, Vfs};

    fn segment(header: &SegmentHeader, records: &[u8]) -> SegmentReader {
        let sim = SimVfs::new(1);
        let path = Path::new("/wal");
        let file = sim.open(path, OpenMode::CreateNew).unwrap();
        file.write_all_at(&header.encode(), 0).unwrap();
        file.write_all_at(records, RECORDS_OFFSET).unwrap();
        SegmentReader::open(file, path).unwrap().unwrap()
    }

    fn record(payload: &[u8], place: RecordPlace) -> Vec<u8> {
        let mut record = commit_header(payload, place).to_vec();
        record.extend_from_slice(payload);
        record.resize(record_bytes(payload.len()), 0);
        record
    }

    /// What looks like the header of a long record, again and again, in a record that is damaged.
    /// Each checked to its end would be a hundred thousand times two MiB.
    #[test]
    fn values_that_look_like_records_do_not_make_the_search_behind_a_break_long() {
        let header = SegmentHeader { number: 3, base: 1 << 40, previous_end: 1 << 40, synced: 0 };
        let fake = |at: usize| {
            let mut bytes = [0; 16];
            bytes[4..8].copy_from_slice(
                &((4_u32 << 20).saturating_sub(at as u32 + 64).max(1)).to_le_bytes(),
            );
            bytes[8..].copy_from_slice(&((1 << 56) | 1_u64 << 39).to_le_bytes());
            bytes
        };
        let payload: Vec<u8> = (0..4 << 20).step_by(16).flat_map(fake).collect();
        let place = |position| RecordPlace { segment: 3, position, synced: 0 };
        let mut records = record(&payload, place(header.base));
        records[20] ^= 1;
        let mut reader = segment(&header, &records);
        assert!(reader.next_record().unwrap().is_none());
        let started = std::time::Instant::now();
        assert_eq!(reader.behind_break().unwrap(), BehindBreak::default());
        assert!(started.elapsed().as_secs() < 10, "{:?}", started.elapsed());
    }

    #[test]
    fn a_record_that_ends_behind_all_sequence_numbers_is_none() {
        let base = MAX_SEQUENCE - 151;
        let header = SegmentHeader { number: 3, base, previous_end: base, synced: 0 };
        let place = |position| RecordPlace { segment: 3, position, synced: 0 };
        let mut records = record(&[7; 100], place(base));
        assert_eq!(records.len(), 120);
        records.extend(record(&[7; 100], place(base + 120)));
        let mut reader = segment(&header, &records);
        let (_, sequence) = reader.next_record().unwrap().unwrap();
        assert_eq!(sequence, base + 120);
        assert!(reader.next_record().unwrap().is_none());
        assert_eq!(reader.end().position, base + 120);
    }

    #[test]
    fn a_record_behind_a_break_is_found() {
        let header = SegmentHeader { number: 3, base: 4096, previous_end: 4096, synced: 0 };
        let mut records = Vec::new();
        for n in 0..100_u64 {
            let position = 4096 + records.len() as u64;
            let place = RecordPlace { segment: 3, position, synced: position.min(8000) };
            records.extend(record(&[n as u8; 100], place));
        }
        records[20] ^= 1;
        let mut reader = segment(&header, &records);
        assert!(reader.next_record().unwrap().is_none());
        let found = reader.behind_break().unwrap();
        assert_eq!((found.synced, found.commits, found.bytes), (8000, 99, 99 * 120));
    }
}
