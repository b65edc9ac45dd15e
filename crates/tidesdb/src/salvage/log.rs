//! The log of a damaged database: every record whose checksum matches and which was a commit.
//!
//! An opening replays the records in front of the first that it can't read. Here those behind it
//! are taken as well, where it is known that the log had been whole (`log/segments.rs`): where
//! records are damaged that had been on disk, the later ones are as good as ever. A commit is taken
//! whole or not at all.
//!
//! Keys and short values are kept in memory; longer values are read again when they are wanted.

mod headless;
mod segments;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidesdb_base::checksum;
use tidesdb_base::codec::varint_len;
use tidesdb_base::entry::{NEVER_EXPIRES, ValueKind};
use tidesdb_base::error::{Error, Result};
use tidesdb_base::range_tombstone::RangeTombstone;
use tidesdb_files::naming::FileKind;
use tidesdb_files::wal::segment::SYNC_MARK_BYTES;
use tidesdb_files::wal::{
    Operation, RECORD_HEADER_BYTES, RecordKind, SYNC_MARK_OFFSET, SegmentReader,
    SurvivingOperations,
};
use tidesdb_sys::vfs::File;

use self::headless::recover_header;
use self::segments::{Headless, Segment, read_if_there};
use crate::salvage::catalog::Catalog;
use crate::salvage::findings::Findings;
use crate::salvage::report::Loss;
use crate::salvage::source::Source;

/// Values up to this length are kept in memory.
const SHORT_VALUE_BYTES: usize = 512;
/// Most bytes of a segment that are read between two reports of progress.
const PROGRESS_BYTES: u64 = 4 << 20;

/// Where the value of an operation is.
#[derive(Clone, Debug)]
pub(crate) enum LogValue {
    Here(Vec<u8>),
    /// In a file of [`Log::files`]; its checksum as it was when the record was read.
    At {
        file: usize,
        offset: u64,
        len: usize,
        sum: u64,
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

/// The operations that were read from a damaged log, by family.
#[derive(Debug, Default)]
pub(crate) struct Log {
    pub(crate) operations: BTreeMap<u32, Vec<LogOperation>>,
    pub(crate) range_tombstones: BTreeMap<u32, Vec<Arc<RangeTombstone>>>,
    /// Every commit from this one on that an opening would replay was found in its place.
    pub(crate) live_from: u64,
    files: Vec<(PathBuf, Arc<dyn File>)>,
    places: u64,
}

/// What else is known when the log is read.
pub(crate) struct Known<'a> {
    pub(crate) catalog: &'a Catalog,
    /// Sequence numbers of commits that tables hold.
    pub(crate) published: &'a BTreeSet<u64>,
    /// No part of any table is missing.
    pub(crate) tables_are_whole: bool,
}

impl Log {
    /// Reads all segments. `progress` is called with bytes read.
    ///
    /// # Errors
    /// [`Error::Io`] that says nothing of the log; what `progress` returns.
    pub(crate) fn read(
        source: &Source,
        known: &Known<'_>,
        findings: &mut Findings,
        progress: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<Self> {
        let (mut segments, headless) = segments::open_all(source, findings, progress)?;
        place_headless(source, headless, &mut segments, (known, &mut *findings, &mut *progress))?;
        segments.sort_by_key(|segment| segment.header.number);
        segments::judge(&mut segments, known.catalog, known.published);
        note_missing_start(source, known.catalog, &segments, findings);
        let live = |segment: &&Segment| !known.catalog.is_dead_segment(segment.header.number);
        let first_live = segments.iter().find(live).filter(|_| known.catalog.whole);
        let live_from = first_live.map_or(u64::MAX, |segment| segment.header.base);
        let mut log = Self { live_from, ..Self::default() };
        for segment in &segments {
            findings.report.log_segments += 1;
            findings.report.bytes_read += segment.file_bytes;
            log.read_segment(segment, known, findings, progress)?;
        }
        for operations in log.operations.values_mut() {
            operations
                .sort_by(|a, b| (&a.key, b.sequence, b.place).cmp(&(&b.key, a.sequence, a.place)));
        }
        Ok(log)
    }

    /// Replaces `value` by the bytes of a value. Returns what is lost when they can't be read any
    /// more.
    ///
    /// # Errors
    /// [`Error::Io`] that says nothing of the log.
    pub(crate) fn read_value(
        &self,
        place: &LogValue,
        value: &mut Vec<u8>,
    ) -> Result<Result<(), Loss>> {
        value.clear();
        match place {
            LogValue::Here(bytes) => value.extend_from_slice(bytes),
            LogValue::At { file, offset, len, sum } => {
                let Some((path, file)) = self.files.get(*file) else { return Ok(Ok(())) };
                value.resize(*len, 0);
                let read = file.read_exact_at(value, *offset);
                read.map_err(|e| Error::io("read", path, e))?;
                if checksum::plain(value) != *sum {
                    let reason = "the value of a whole record could not be read once more";
                    return Ok(Err(Loss::new(path.clone(), *offset, *len as u64, reason)));
                }
            }
        }
        Ok(Ok(()))
    }

    /// Takes the records of a segment, as far as they count.
    fn read_segment(
        &mut self,
        segment: &Segment,
        known: &Known<'_>,
        findings: &mut Findings,
        progress: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<()> {
        let mut reader = segment.reader()?;
        self.files.push((segment.path.clone(), Arc::clone(&segment.file)));
        // Tables hold all of it.
        let is_dead = known.catalog.is_dead_segment(segment.header.number);
        let costs_nothing = is_dead && known.tables_are_whole;
        let mut reported = 0;
        loop {
            let start = reader.end().position;
            let offset = reader.offset_of(start);
            if offset.saturating_sub(reported) >= PROGRESS_BYTES {
                progress(offset - reported)?;
                reported = offset;
            }
            if let Some((record, end)) = reader.next_record()? {
                if end > segment.limit {
                    break;
                }
                if record.kind == RecordKind::Commit {
                    let place = (self.files.len() - 1, offset + RECORD_HEADER_BYTES as u64);
                    if !self.take(record.payload, end, place, known.catalog) {
                        let text =
                            "the operations of a commit do not decode: it was left out whole";
                        lose(findings, segment, costs_nothing, (offset, end - start, text));
                    }
                }
                continue;
            }
            let behind = reader.skip_break()?.map(|passed| start + passed);
            match behind.filter(|&behind| behind <= segment.proven) {
                Some(behind) => {
                    let text = format!("commits from log position {start} on: records damaged");
                    lose(findings, segment, costs_nothing, (offset, behind - start, &text));
                }
                None => {
                    if start < segment.proven {
                        let until = segment.proven;
                        let text = format!("the log ends here, but was whole through {until}");
                        lose(findings, segment, costs_nothing, (offset, until - start, &text));
                    }
                    if behind.is_some() && !is_dead {
                        warn_of_unproven(segment, start, reader, findings)?;
                    }
                    break;
                }
            }
        }
        progress(segment.file_bytes.saturating_sub(reported))
    }

    /// Takes the operations of a commit: all, or none and returns false when they do not decode.
    fn take(
        &mut self,
        payload: &[u8],
        sequence: u64,
        (file, payload_at): (usize, u64),
        catalog: &Catalog,
    ) -> bool {
        let mut operations = SurvivingOperations::new(payload);
        if operations.clone().any(|operation| operation.is_err()) {
            return false;
        }
        while let Some((at, Ok(operation))) = operations.next_with_offset() {
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
                let (len, sum) = (operation.value.len(), checksum::plain(operation.value));
                LogValue::At { file, offset, len, sum }
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

/// Notes what a segment has lost: offset, length, and what was found.
fn lose(
    findings: &mut Findings,
    segment: &Segment,
    costs_nothing: bool,
    (offset, bytes, reason): (u64, u64, &str),
) {
    if costs_nothing {
        findings.report.harmless.push(Error::corruption(&segment.path, offset, reason));
    } else {
        findings.lose(Loss::new(segment.path.clone(), offset, bytes, reason), &[]);
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

/// Adds the segments whose headers are damaged, as far as it can be found out what they are.
fn place_headless(
    source: &Source,
    headless: Headless,
    segments: &mut Vec<Segment>,
    (known, findings, progress): (&Known<'_>, &mut Findings, &mut dyn FnMut(u64) -> Result<()>),
) -> Result<()> {
    let highest = source.files.iter().filter_map(|(kind, _)| kind.number()).max().unwrap_or(0);
    let mut bases = BTreeSet::from([0, known.catalog.last_sequence.next_multiple_of(8)]);
    let add_bases = |bases: &mut BTreeSet<u64>, segment: &Segment| {
        // An opening goes on behind the whole file, wherever the records end.
        let behind = segment.header.base.saturating_add(segment.file_bytes);
        bases.extend([behind.next_multiple_of(8), segment.header.previous_end]);
        bases.extend(&segment.ends);
    };
    segments.iter().for_each(|segment| add_bases(&mut bases, segment));
    for (path, file) in headless {
        let likely: Vec<u64> = bases.iter().copied().collect();
        let found = recover_header((&path, &file), segments, (highest, &likely), progress)?;
        let Some(header) = found else {
            note_headless(&path, &file, findings)?;
            continue;
        };
        let detail = "the segment's header is damaged; its records were found";
        findings.report.harmless.push(Error::corruption(&path, 0, detail));
        let segment = Segment::new((path, file), header, false, progress)?;
        add_bases(&mut bases, &segment);
        segments.push(segment);
    }
    Ok(())
}

/// Says that the segment is missing with which an opening would begin.
fn note_missing_start(
    source: &Source,
    catalog: &Catalog,
    segments: &[Segment],
    findings: &mut Findings,
) {
    let kind = FileKind::LogSegment(catalog.log_start);
    let is_known = segments.iter().any(|segment| segment.header.number == catalog.log_start);
    // After a close there is none; one without a header is reported by itself.
    let none = catalog.log_start == 0 || catalog.log_start == u64::MAX;
    if catalog.whole && !none && !is_known && !source.has(kind) {
        let reason = "the segment with which the log begins is missing";
        findings.lose(Loss::new(source.path(kind), 0, 0, reason), &[]);
    }
}

/// Says how many commits lie behind a place up to which alone the log is known to have been whole.
fn warn_of_unproven(
    segment: &Segment,
    end: u64,
    mut reader: SegmentReader,
    findings: &mut Findings,
) -> Result<()> {
    let mut commits = 0;
    while let Some((record, end)) = reader.next_record()? {
        if end > segment.limit {
            break;
        }
        commits += u64::from(record.kind == RecordKind::Commit);
    }
    if commits > 0 {
        let name = segment.path.display();
        findings.warn(format!(
            "{commits} commits in {name} behind log position {end} were left out: a record in \
             front of them is not whole, and nothing shows that it was a commit and they were not \
             refused"
        ));
    }
    Ok(())
}

/// Says that a segment without a header is lost, if it was one that was in use.
fn note_headless(path: &Path, file: &Arc<dyn File>, findings: &mut Findings) -> Result<()> {
    let named = (path, file.as_ref());
    let mark = read_if_there::<SYNC_MARK_BYTES>(named, SYNC_MARK_OFFSET)?;
    let start = read_if_there::<64>(named, 0)?;
    if mark.is_some_and(|mark| mark != [0; 16]) || start.is_some_and(|start| start != [0; 64]) {
        let text = "the segment has no readable header, and no record in it could be placed";
        let len = file.len().map_err(|e| Error::io("read length", path, e))?;
        findings.lose(Loss::new(path.to_path_buf(), 0, len, text), &[]);
    }
    Ok(())
}
