//! The log of a damaged database: every record whose checksum matches, of all segments.
//!
//! An opening replays the records in front of the first that it can't read. Here those behind it are
//! taken as well: where records are damaged that had been on disk, the later ones are as good as ever.
//! Where a later segment says at which position the log ended when it was begun, what lies behind that
//! was discarded by an opening, or is of an earlier life, and is left out.
//!
//! Keys and short values are kept in memory; longer values are read again when they are wanted.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidesdb_base::codec::varint_len;
use tidesdb_base::entry::{NEVER_EXPIRES, ValueKind};
use tidesdb_base::error::{Error, Result};
use tidesdb_base::range_tombstone::RangeTombstone;
use tidesdb_files::naming::FileKind;
use tidesdb_files::wal::segment::{SYNC_MARK_BYTES, decode_sync_mark};
use tidesdb_files::wal::{
    Operation, RECORD_HEADER_BYTES, RECORDS_OFFSET, RecordKind, SYNC_MARK_OFFSET, SegmentHeader,
    SegmentReader, SurvivingOperations, record,
};
use tidesdb_sys::vfs::File;

use crate::catalog::Catalog;
use crate::report::{Loss, SalvageReport};
use crate::source::Source;

/// Values up to this length are kept in memory.
const SHORT_VALUE_BYTES: usize = 512;
/// Numbers that a segment whose header is damaged may have, above the highest that is known.
const NUMBERS_AHEAD: u64 = 1000;

/// Where the value of an operation is.
#[derive(Clone, Debug)]
pub(crate) enum LogValue {
    Here(Vec<u8>),
    /// In a file of [`Log::files`].
    At {
        file: usize,
        offset: u64,
        len: usize,
    },
}

/// An operation on one key.
#[derive(Clone, Debug)]
pub(crate) struct LogOperation {
    pub(crate) key: Vec<u8>,
    pub(crate) sequence: u64,
    /// Place among the operations of all records; the later wins within a commit.
    pub(crate) place: u64,
    pub(crate) kind: ValueKind,
    pub(crate) expires_at: u64,
    pub(crate) value: LogValue,
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct Log {
    pub(crate) operations: BTreeMap<u32, Vec<LogOperation>>,
    pub(crate) range_tombstones: BTreeMap<u32, Vec<Arc<RangeTombstone>>>,
    files: Vec<Arc<dyn File>>,
    places: u64,
}

/// A segment whose header is known.
struct Segment {
    reader: SegmentReader,
    file: Arc<dyn File>,
    /// Highest sync mark that a record or the header told.
    synced: u64,
}

impl Log {
    /// Reads all segments. `progress` is told of bytes read.
    ///
    /// # Errors
    /// What `progress` answers.
    pub(crate) fn read(
        source: &Source,
        catalog: &Catalog,
        report: &mut SalvageReport,
        progress: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<Self> {
        let (mut segments, headless) = open_segments(source, report);
        let mut bases: Vec<u64> = vec![0, catalog.last_sequence];
        for segment in &segments {
            let header = segment.reader.header();
            let len = segment.file.len().unwrap_or(0);
            bases.push(header.base.saturating_add(len).next_multiple_of(8));
            bases.push(header.previous_end);
            bases.extend(ends_of(segment));
        }
        for (path, file) in headless {
            match recover_header(&path, &file, &segments, &bases) {
                Some(reader) => {
                    let detail = "the segment's header is damaged; its records were found";
                    report.harmless.push(Error::corruption(&path, 0, detail));
                    bases.extend(ends_of(&Segment {
                        synced: 0,
                        file: Arc::clone(&file),
                        reader: SegmentReader::with_header(
                            Arc::clone(&file),
                            &path,
                            *reader.header(),
                        )?,
                    }));
                    segments.push(Segment { synced: reader.header().synced, file, reader });
                }
                None => note_headless(&path, &file, report),
            }
        }
        segments.sort_by_key(|segment| segment.reader.header().number);
        let limits: Vec<Option<u64>> = (0..segments.len())
            .map(|at| segments.get(at + 1).map(|next| next.reader.header().previous_end))
            .collect();
        let mut log = Self::default();
        for (segment, limit) in segments.iter_mut().zip(limits) {
            let len = segment.file.len().unwrap_or(0);
            progress(len)?;
            report.log_segments += 1;
            report.bytes_read += len;
            log.read_segment(segment, limit, catalog, report);
        }
        for operations in log.operations.values_mut() {
            operations
                .sort_by(|a, b| (&a.key, b.sequence, b.place).cmp(&(&b.key, a.sequence, a.place)));
        }
        Ok(log)
    }

    /// The bytes of a value.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(crate) fn value(&self, value: &LogValue) -> Result<Vec<u8>> {
        match value {
            LogValue::Here(bytes) => Ok(bytes.clone()),
            LogValue::At { file, offset, len } => {
                let mut bytes = vec![0; *len];
                let file = self.files.get(*file);
                let read = file.map_or(Ok(()), |file| file.read_exact_at(&mut bytes, *offset));
                read.map_err(|e| Error::io("read", "the log", e))?;
                Ok(bytes)
            }
        }
    }

    /// Takes the records of a segment up to position `limit`, where the next one says that they end.
    fn read_segment(
        &mut self,
        segment: &mut Segment,
        limit: Option<u64>,
        catalog: &Catalog,
        report: &mut SalvageReport,
    ) {
        let path = segment.reader.path().to_path_buf();
        let base = segment.reader.header().base;
        let within = |position: u64| limit.is_none_or(|limit| limit < base || position <= limit);
        self.files.push(Arc::clone(&segment.file));
        let mut lose = |offset: u64, bytes: u64, reason: String| {
            report.losses.push(Loss::new(path.clone(), offset, bytes, reason));
        };
        loop {
            let start = segment.reader.end().position;
            let offset = segment.reader.offset_of(start);
            match segment.reader.next_record() {
                Ok(Some((record, end))) if within(end) => {
                    if record.kind == RecordKind::Commit {
                        let place = (self.files.len() - 1, offset + RECORD_HEADER_BYTES as u64);
                        if !self.take(record.payload, end, place, catalog) {
                            let text = "the operations of the record do not decode".to_owned();
                            lose(offset, end - start, text);
                        }
                    }
                }
                Ok(Some(_)) => break,
                Ok(None) => match segment.reader.skip_break() {
                    Ok(Some(passed)) if within(start + passed) => {
                        let text = format!("commits from log position {start} on: records damaged");
                        lose(offset, passed, text);
                    }
                    Ok(_) => {
                        let promised = segment.reader.end().synced.max(segment.synced);
                        let until = limit.filter(|&limit| limit > base).unwrap_or(promised);
                        if until > start && start < promised.max(limit.unwrap_or(0)) {
                            let text =
                                format!("the log ends here, but went on to position {until}");
                            lose(offset, until - start, text);
                        }
                        break;
                    }
                    Err(e) => {
                        lose(offset, 0, e.to_string());
                        break;
                    }
                },
                Err(e) => {
                    lose(offset, 0, e.to_string());
                    break;
                }
            }
        }
    }

    /// Takes the operations of a commit; false when they do not decode.
    fn take(
        &mut self,
        payload: &[u8],
        sequence: u64,
        (file, payload_at): (usize, u64),
        catalog: &Catalog,
    ) -> bool {
        let mut operations = SurvivingOperations::new(payload);
        while let Some((at, operation)) = operations.next_with_offset() {
            let Ok(operation) = operation else { return false };
            self.places += 1;
            if catalog.is_dropped(operation.family) {
                continue;
            }
            if operation.kind == ValueKind::RangeTombstone {
                let (start, end) = (operation.key.into(), operation.value.into());
                let tombstone = Arc::new(RangeTombstone { start, end, sequence });
                self.range_tombstones.entry(operation.family).or_default().push(tombstone);
                continue;
            }
            let value = if operation.value.len() <= SHORT_VALUE_BYTES {
                LogValue::Here(operation.value.to_vec())
            } else {
                let offset = payload_at + (at + bytes_before_value(&operation)) as u64;
                LogValue::At { file, offset, len: operation.value.len() }
            };
            self.operations.entry(operation.family).or_default().push(LogOperation {
                key: operation.key.to_vec(),
                sequence,
                place: self.places,
                kind: operation.kind,
                expires_at: operation.expires_at,
                value,
            });
        }
        true
    }
}

/// Length of an operation in front of its value.
fn bytes_before_value(operation: &Operation<'_>) -> usize {
    let expiry = if operation.expires_at == NEVER_EXPIRES { 0 } else { 8 };
    1 + varint_len(u64::from(operation.family))
        + varint_len(operation.key.len() as u64)
        + varint_len(operation.value.len() as u64)
        + expiry
        + operation.key.len()
}

type Headless = Vec<(PathBuf, Arc<dyn File>)>;

fn open_segments(source: &Source, report: &mut SalvageReport) -> (Vec<Segment>, Headless) {
    let (mut segments, mut headless) = (Vec::new(), Vec::new());
    for &(kind, _) in &source.files {
        if !matches!(kind, FileKind::LogSegment(_)) {
            continue;
        }
        let path = source.path(kind);
        let opened = source.file(kind).and_then(|file| {
            SegmentReader::open(Arc::clone(&file), &path).map(|reader| (file, reader))
        });
        match opened {
            Ok((file, Some(reader))) => {
                let synced = reader.end().synced;
                segments.push(Segment { reader, file, synced });
            }
            Ok((file, None)) => headless.push((path, file)),
            Err(e) => report.losses.push(Loss::new(path, 0, 0, e.to_string())),
        }
    }
    (segments, headless)
}

/// Positions at which the records of a segment end, damaged ones in between or not.
fn ends_of(segment: &Segment) -> Vec<u64> {
    let (file, header) = (Arc::clone(&segment.file), *segment.reader.header());
    let path = segment.reader.path();
    let Ok(mut reader) = SegmentReader::with_header(file, path, header) else { return Vec::new() };
    let mut ends = Vec::new();
    loop {
        match reader.next_record() {
            Ok(Some(_)) => {}
            Ok(None) => {
                ends.push(reader.end().position);
                if !matches!(reader.skip_break(), Ok(Some(_))) {
                    return ends;
                }
            }
            Err(_) => return ends,
        }
    }
}

/// Finds number and first position of a segment whose header is damaged. A guess is right when a record
/// opens by it.
fn recover_header(
    path: &Path,
    file: &Arc<dyn File>,
    segments: &[Segment],
    bases: &[u64],
) -> Option<SegmentReader> {
    let named = path.file_name().and_then(|name| name.to_str()).and_then(|name| {
        match tidesdb_files::naming::parse(name) {
            Some(FileKind::LogSegment(number)) => Some(number),
            _ => None,
        }
    });
    let mut mark = [0; SYNC_MARK_BYTES];
    let has_mark = file.read_exact_at(&mut mark, SYNC_MARK_OFFSET).is_ok();
    let known = segments.iter().map(|segment| segment.reader.header().number);
    let highest = known.chain(named).max().unwrap_or(0).saturating_add(NUMBERS_AHEAD);
    let marked =
        (1..=highest).rev().find(|&number| has_mark && decode_sync_mark(number, &mark).is_some());
    let numbers: Vec<u64> = marked.into_iter().chain(named).collect();
    let chained = chained_bases(file, segments);
    for &number in &numbers {
        for &base in bases.iter().chain(&chained) {
            let header = SegmentHeader { number, base, previous_end: base, synced: 0 };
            let open = || SegmentReader::with_header(Arc::clone(file), path, header).ok();
            let mut reader = open()?;
            let first = matches!(reader.next_record(), Ok(Some(_)));
            if first || matches!(reader.skip_break(), Ok(Some(_))) {
                return open();
            }
        }
    }
    None
}

/// Where a segment must begin whose records, going by their lengths alone, end where another one says
/// that the log ended when it was begun.
fn chained_bases(file: &Arc<dyn File>, segments: &[Segment]) -> Vec<u64> {
    let mut ends = Vec::new();
    let mut at = RECORDS_OFFSET;
    let mut header = [0; RECORD_HEADER_BYTES];
    while file.read_exact_at(&mut header, at).is_ok() {
        let Some(length) = record::claimed_length(&header, u64::MAX) else { break };
        at += length as u64;
        ends.push(at - RECORDS_OFFSET);
    }
    let previous = segments.iter().map(|segment| segment.reader.header().previous_end);
    let pairs = previous.flat_map(|end| ends.iter().map(move |len| end.checked_sub(*len)));
    pairs.flatten().collect()
}

/// Says that a segment without a header is lost, if it was one that was in use.
fn note_headless(path: &Path, file: &Arc<dyn File>, report: &mut SalvageReport) {
    let len = file.len().unwrap_or(0);
    let mut mark = [0; SYNC_MARK_BYTES];
    let marked = file.read_exact_at(&mut mark, SYNC_MARK_OFFSET).is_ok() && mark != [0; 16];
    let mut start = [0; 64];
    let begun = file.read_exact_at(&mut start, 0).is_ok() && start != [0; 64];
    if marked || begun {
        let text = "the segment has no readable header, and no record in it could be placed";
        report.losses.push(Loss::new(path.to_path_buf(), 0, len, text));
    }
}
