//! The segments of the log, and how far the records of each can be relied upon.
//!
//! A hole in the log is damage, or the place of a record that was never written. What lies behind
//! one of the latter kind was refused, or no writer learned of it, so it must not come back. So
//! records behind a hole count only where something proves that the log had been whole over it:
//!
//! | proof | why |
//! |---|---|
//! | a sync mark of the segment, or in the next one's header | the log was on disk through there |
//! | the next segment, if it has records and no repair came between | all in front was published |
//! | a table that holds a commit | nothing in front of a published commit is missing |
//!
//! Where a later segment says at which position the log ended when it was begun, what lies behind
//! that was discarded by an opening, or is of an earlier life, and is left out.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidesdb_base::error::{Error, Result};
use tidesdb_files::naming::FileKind;
use tidesdb_files::wal::segment::{SYNC_MARK_BYTES, decode_sync_mark};
use tidesdb_files::wal::{RECORDS_OFFSET, SYNC_MARK_OFFSET, SegmentHeader, SegmentReader};
use tidesdb_sys::vfs::File;

use crate::salvage::catalog::Catalog;
use crate::salvage::findings::Findings;
use crate::salvage::report::Loss;
use crate::salvage::source::Source;

/// Records between two looks at whether the work is to end.
const RECORDS_BETWEEN_LOOKS: u64 = 4096;

/// A segment that can be read.
#[derive(Debug)]
pub(super) struct Segment {
    pub path: PathBuf,
    pub file: Arc<dyn File>,
    pub file_bytes: u64,
    pub header: SegmentHeader,
    /// The header was read. Otherwise its number and first position were found out, and the rest is
    /// not known.
    pub header_read: bool,
    /// Highest sync mark in header, mark and records.
    marked: u64,
    holds_records: bool,
    /// Positions at which records end, in front of each hole.
    pub ends: Vec<u64>,
    /// No record that ends behind this one counts.
    pub limit: u64,
    /// The log is known to have been whole through here.
    pub proven: u64,
}

impl Segment {
    /// A segment with this header, which is looked through once.
    ///
    /// # Errors
    /// [`Error::Io`]; what `progress` returns.
    pub(super) fn new(
        (path, file): (PathBuf, Arc<dyn File>),
        header: SegmentHeader,
        header_read: bool,
        progress: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<Self> {
        let file_bytes = file.len().map_err(|e| Error::io("read length", &path, e))?;
        let mut segment = Self {
            path,
            file,
            file_bytes,
            header,
            header_read,
            marked: 0,
            holds_records: false,
            ends: Vec::new(),
            limit: u64::MAX,
            proven: 0,
        };
        let mut reader = segment.reader()?;
        let mut records = 0_u64;
        loop {
            if reader.next_record()?.is_some() {
                records += 1;
                if records.is_multiple_of(RECORDS_BETWEEN_LOOKS) {
                    progress(0)?;
                }
                continue;
            }
            segment.ends.push(reader.end().position);
            progress(0)?;
            if reader.skip_break()?.is_none() {
                break;
            }
        }
        segment.holds_records = records > 0;
        let named = (segment.path.as_path(), segment.file.as_ref());
        let mark = read_if_there::<SYNC_MARK_BYTES>(named, SYNC_MARK_OFFSET)?;
        let mark = mark.and_then(|mark| decode_sync_mark(header.number, &mark));
        segment.marked = reader.end().synced.max(mark.unwrap_or(0));
        Ok(segment)
    }

    /// Reads its records from the first on.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(super) fn reader(&self) -> Result<SegmentReader> {
        SegmentReader::with_header(Arc::clone(&self.file), &self.path, self.header)
    }

    /// Behind the last position that a record in it can have.
    pub(super) fn end_of_space(&self) -> u64 {
        let bytes = self.file_bytes.saturating_sub(RECORDS_OFFSET);
        self.header.base.saturating_add(bytes)
    }
}

/// The first `N` bytes from an offset on; none of a file that is shorter.
///
/// # Errors
/// [`Error::Io`].
pub(super) fn read_if_there<const N: usize>(
    (path, file): (&Path, &dyn File),
    at: u64,
) -> Result<Option<[u8; N]>> {
    let mut bytes = [0; N];
    match file.read_exact_at(&mut bytes, at) {
        Ok(()) => Ok(Some(bytes)),
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(e) => Err(Error::io("read", path, e)),
    }
}

/// Files of segments whose header can't be read.
pub(super) type Headless = Vec<(PathBuf, Arc<dyn File>)>;

/// Opens all segments.
///
/// # Errors
/// [`Error::Io`] that says nothing of a segment; what `progress` returns.
pub(super) fn open_all(
    source: &Source,
    findings: &mut Findings,
    progress: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<(Vec<Segment>, Headless)> {
    let (mut segments, mut headless) = (Vec::new(), Vec::new());
    for &(kind, _) in &source.files {
        if !matches!(kind, FileKind::LogSegment(_)) {
            continue;
        }
        let path = source.path(kind);
        let opened = source.file(kind).and_then(|file| {
            let reader = SegmentReader::open(Arc::clone(&file), &path)?;
            Ok((file, reader.map(|reader| *reader.header())))
        });
        match opened {
            Ok((file, Some(header))) => {
                segments.push(Segment::new((path, file), header, true, progress)?);
            }
            Ok((file, None)) => headless.push((path, file)),
            Err(e @ (Error::Corruption { .. } | Error::NotADatabase { .. })) => {
                findings.lose(Loss::new(path, 0, 0, e.to_string()), &[]);
            }
            Err(other) => return Err(other),
        }
    }
    Ok((segments, headless))
}

/// Finds out how far the records of each segment count. They are sorted by number; `published` are
/// sequence numbers of commits that tables hold.
pub(super) fn judge(segments: &mut [Segment], catalog: &Catalog, published: &BTreeSet<u64>) {
    let mut limit = u64::MAX;
    let mut next: Option<(SegmentHeader, bool)> = None;
    for segment in segments.iter_mut().rev() {
        let mut proven = segment.marked;
        if let Some((header, in_use)) = next {
            limit = limit.min(header.previous_end);
            proven = proven.max(header.synced);
            // A repair goes on in a segment that says the same of refused commits. The manifest
            // begins with that one before it has records.
            let repaired = !catalog.whole || catalog.log_start > segment.header.number;
            if in_use && !repaired {
                proven = proven.max(header.previous_end);
            }
        }
        let in_tables = published.range(..=segment.end_of_space().min(limit)).next_back();
        proven = proven.max(in_tables.copied().unwrap_or(0));
        (segment.limit, segment.proven) = (limit, proven.min(limit));
        if segment.header_read {
            next = Some((segment.header, segment.holds_records));
        }
    }
}
