//! Replaying the log into memtables.
//!
//! The segments that the manifest needs are followed by their positions: each must begin where
//! the one before it ended. Where the chain ends, the sync marks decide: a mark behind the end
//! proves that data was promised and is damaged, otherwise the end is where the log ends.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidesdb_base::entry::SequenceNumber;
use tidesdb_base::error::{Error, Result};
use tidesdb_files::naming::FileKind;
use tidesdb_files::wal::record;
use tidesdb_files::wal::segment::{SYNC_MARK_BYTES, decode_sync_mark};
use tidesdb_files::wal::{
    Operation, RECORDS_OFFSET, RecordKind, SYNC_MARK_OFFSET, SegmentReader, SurvivingOperations,
};
use tidesdb_sys::vfs::{File, OpenHow, Vfs};

use super::Inventory;
use crate::log::Retained;

/// Start of the log in the manifest of a database that was closed with everything in tables.
pub(crate) const NO_LOG: u64 = u64::MAX;

/// File numbers that may have been given out since the manifest was last written.
const MOST_NUMBERS_AHEAD: u64 = 1000;

/// Segment numbers tried on a segment without a header.
const MOST_NUMBERS_TRIED: usize = 100_000;

/// Bytes of a segment without a header that are searched for records.
const SEARCHED_BYTES: u64 = 1 << 20;

/// Checksums calculated while they are searched, whatever the bytes are.
const MOST_RECORDS_TRIED: usize = 20_000;

/// Bytes written over themselves at a time.
const REWRITE_BYTES: usize = 1 << 20;

/// What replaying found.
#[derive(Debug, Default)]
pub(crate) struct Replayed {
    /// Segments whose records may still be needed, oldest first, all of them on disk.
    pub retained: Vec<Retained>,
    /// Position behind the last record.
    pub end: u64,
    /// A position above all that any record, lost ones included, may have had.
    pub beyond: u64,
    /// Highest number of any segment, whatever its file is called.
    pub highest_segment: u64,
}

/// Replays the log, calling `apply` for each operation with its sequence number, in order.
///
/// # Errors
/// [`Error::Corruption`] when promised data is damaged, [`Error::Io`], or what `apply` answers.
pub(crate) fn replay_log(
    vfs: &Arc<dyn Vfs>,
    dir: &Path,
    found: &Inventory,
    mut apply: impl FnMut(SequenceNumber, &Operation<'_>) -> Result<()>,
) -> Result<Replayed> {
    let (mut readers, headless) = open_segments(vfs, dir, found)?;
    let mut replayed = Replayed { end: found.state.last_sequence, ..Replayed::default() };
    replayed.beyond = replayed.end;
    for (reader, bytes) in &readers {
        replayed.beyond = replayed.beyond.max(reader.header().base.saturating_add(*bytes));
        replayed.highest_segment = replayed.highest_segment.max(reader.header().number);
    }
    let mut next = readers.iter().position(|(r, _)| r.header().number == found.state.log_start);
    let mut last = None;
    while let Some(at) = next {
        let Some((reader, bytes)) = readers.get_mut(at) else { break };
        read_segment(reader, &mut apply)?;
        let header = *reader.header();
        let end = reader.end().position;
        replayed.end = replayed.end.max(end);
        replayed.retained.push(Retained {
            number: header.number,
            base: header.base,
            end,
            path: reader.path().to_path_buf(),
            file_bytes: *bytes,
            synced: true,
        });
        last = Some(at);
        let later = readers.iter().skip(at + 1);
        next = later.into_iter().position(|(r, _)| {
            r.header().previous_end == end || cfg!(planted_bug = "replay_past_a_gap")
        });
        next = next.map(|offset| at + 1 + offset);
    }
    refuse_missing_log(dir, found)?;
    for (file, path) in &headless {
        refuse_lost_beginning(file, path, found, replayed.end)?;
    }
    refuse_broken_promise(&mut readers, last, found, &replayed)?;
    Ok(replayed)
}

/// Segment files with a header and their lengths, and those without one.
type Segments = (Vec<(SegmentReader, u64)>, Vec<(Arc<dyn File>, PathBuf)>);

/// The segments that the manifest does not know to be dead, in the order of their numbers.
fn open_segments(vfs: &Arc<dyn Vfs>, dir: &Path, found: &Inventory) -> Result<Segments> {
    let (mut readers, mut headless) = (Vec::new(), Vec::new());
    for (&kind, &bytes) in &found.files {
        if !matches!(kind, FileKind::LogSegment(_)) {
            continue;
        }
        let path = dir.join(kind.name());
        let file = vfs.open(&path, OpenHow::Read).map_err(|e| Error::io("open", &path, e))?;
        match SegmentReader::open(Arc::clone(&file), &path)? {
            Some(reader) if reader.header().number < found.state.log_start => {}
            Some(reader) => readers.push((reader, bytes)),
            None => {
                refuse_damaged_header(file.as_ref(), &path, found)?;
                headless.push((file, path));
            }
        }
    }
    readers.sort_by_key(|(reader, _)| reader.header().number);
    Ok((readers, headless))
}

/// Fails when a segment without a header has the sync mark of a live one: it is written after the
/// header is on disk, so the header was there.
fn refuse_damaged_header(file: &dyn File, path: &Path, found: &Inventory) -> Result<()> {
    let mut mark = [0; SYNC_MARK_BYTES];
    if file.read_exact_at(&mut mark, SYNC_MARK_OFFSET).is_err() {
        return Ok(());
    }
    for number in possible_numbers(found) {
        if decode_sync_mark(number, &mark).is_some() {
            let detail = format!("the header of log segment {number} is damaged");
            return Err(Error::corruption(path, 0, detail));
        }
    }
    Ok(())
}

/// Numbers that a segment may have which is not known to be dead.
fn possible_numbers(found: &Inventory) -> impl Iterator<Item = u64> {
    // Numbers given out since the manifest was last written are few.
    let numbers = found.state.log_start..found.next_number().saturating_add(MOST_NUMBERS_AHEAD);
    numbers.rev().take(MOST_NUMBERS_TRIED)
}

/// Fails when a segment without a header, begun where the log seems to end, holds records that knew
/// of synced ones behind that: then its first sector is lost. Nothing can be told of a segment whose
/// only record lay in that sector.
fn refuse_lost_beginning(
    file: &Arc<dyn File>,
    path: &Path,
    found: &Inventory,
    end: u64,
) -> Result<()> {
    let io = |e| Error::io("read", path, e);
    let bytes = file.len().map_err(io)?.saturating_sub(RECORDS_OFFSET).min(SEARCHED_BYTES);
    let mut searched = vec![0; usize::try_from(bytes).unwrap_or(0)];
    file.read_exact_at(&mut searched, RECORDS_OFFSET).map_err(io)?;
    let mut tries = MOST_RECORDS_TRIED;
    for at in (0..searched.len()).step_by(8) {
        let (position, bytes) = (end + at as u64, searched.get(at..).unwrap_or_default());
        // Records of an earlier life, which are many, never knew of anything behind the end.
        if record::sync_mark(bytes, position).is_none_or(|mark| mark <= end) {
            continue;
        }
        for number in possible_numbers(found).take(tries) {
            tries -= 1;
            if record::open(bytes, number, position).is_some() {
                let detail = format!("the beginning of log segment {number} is lost");
                return Err(Error::corruption(path, 0, detail));
            }
        }
    }
    Ok(())
}

fn read_segment(
    reader: &mut SegmentReader,
    apply: &mut impl FnMut(SequenceNumber, &Operation<'_>) -> Result<()>,
) -> Result<()> {
    let path = reader.path().to_path_buf();
    loop {
        let offset = reader.offset_of(reader.end().position);
        let Some((record, sequence)) = reader.next_record()? else { return Ok(()) };
        if record.kind == RecordKind::Void {
            continue;
        }
        for operation in SurvivingOperations::new(record.payload) {
            let operation = operation.map_err(|_| {
                Error::corruption(&path, offset, "a log record's operations do not decode")
            })?;
            apply(sequence, &operation)?;
        }
    }
}

/// Fails when the manifest names a log and there is no segment at all, or names none yet and there
/// are tables. A new segment's name is on disk before the manifest names it, nobody removes the
/// last one but a close that says so, and the first is named before there are families.
fn refuse_missing_log(dir: &Path, found: &Inventory) -> Result<()> {
    let start = found.state.log_start;
    let has = |wanted: fn(&FileKind) -> bool| found.files.keys().any(wanted);
    if start == 0 && has(|kind| matches!(kind, FileKind::Table(_) | FileKind::ValueLog(_))) {
        let name = FileKind::Manifest(found.manifest.number()).name();
        let detail = "edits are missing: there are tables, and it knows of no log yet";
        return Err(Error::corruption(dir.join(name), found.manifest.bytes(), detail));
    }
    if start != 0 && start != NO_LOG && !has(|kind| matches!(kind, FileKind::LogSegment(_))) {
        let name = FileKind::LogSegment(start).name();
        return Err(Error::corruption(dir.join(name), 0, "the log is missing"));
    }
    Ok(())
}

/// Fails when anything that was read tells of synced records behind the end of the chain.
fn refuse_broken_promise(
    readers: &mut [(SegmentReader, u64)],
    last: Option<usize>,
    found: &Inventory,
    replayed: &Replayed,
) -> Result<()> {
    if cfg!(planted_bug = "silent_log_damage") {
        return Ok(());
    }
    let end = replayed.end;
    let first_unread = last.map_or(0, |at| at + 1);
    let mut promised = 0;
    for (at, (reader, _)) in readers.iter_mut().enumerate() {
        let marked = match last {
            Some(last) if at < last => reader.end().synced,
            _ => reader.synced_behind_break()?,
        };
        // What an unread segment knew when it was started was known before its own first record.
        if at >= first_unread || last == Some(at) {
            promised = promised.max(marked);
        }
    }
    if promised <= end {
        return Ok(());
    }
    let (path, offset) = match last.and_then(|at| readers.get(at)) {
        Some((reader, _)) => (reader.path().to_path_buf(), reader.offset_of(end)),
        None => (missing_segment(readers, found), 0),
    };
    let detail = format!("the log ends at position {end} but was on disk through {promised}");
    Err(Error::corruption(path, offset, detail))
}

fn missing_segment(readers: &[(SegmentReader, u64)], found: &Inventory) -> PathBuf {
    let name = FileKind::LogSegment(found.state.log_start).name();
    readers.first().map_or_else(|| PathBuf::from(name), |(reader, _)| reader.path().to_path_buf())
}

/// Puts on disk what was recovered: from here on it must not be lost to a power cut, since tables
/// and newer segments will build on it. Of a directory that can't be written nothing will be
/// built upon.
///
/// # Errors
/// [`Error::Io`].
pub(crate) fn make_durable(vfs: &dyn Vfs, dir: &Path, retained: &[Retained]) -> Result<()> {
    for segment in retained {
        let path = &segment.path;
        let file = match vfs.open(path, OpenHow::ReadWrite) {
            Err(e) if is_read_only(&e) => continue,
            other => other.map_err(|e| Error::io("open", path, e))?,
        };
        let bytes = segment.file_bytes.min(RECORDS_OFFSET + (segment.end - segment.base));
        let rewritten = rewrite(file.as_ref(), bytes).and_then(|()| file.sync_data());
        match rewritten {
            Err(e) if is_read_only(&e) => {}
            other => other.map_err(|e| Error::io("sync", path, e))?,
        }
    }
    if retained.is_empty() {
        return Ok(());
    }
    // The process that wrote them may have died before it made their names durable.
    match vfs.sync_dir(dir) {
        Err(e) if is_read_only(&e) => Ok(()),
        other => other.map_err(|e| Error::io("sync", dir, e)),
    }
}

fn is_read_only(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

/// Writes the first `bytes` of a file over themselves. A sync that failed in an earlier process
/// may have left them in the kernel's cache only, taken for written: syncing again would do
/// nothing. Every byte stays what it is, so an interruption does no harm.
fn rewrite(file: &dyn File, bytes: u64) -> io::Result<()> {
    let mut chunk = vec![0; REWRITE_BYTES.min(usize::try_from(bytes).unwrap_or(REWRITE_BYTES))];
    let mut at = 0;
    while at < bytes {
        let count = usize::try_from(bytes - at).map_or(chunk.len(), |left| left.min(chunk.len()));
        let part = chunk.get_mut(..count).unwrap_or_default();
        file.read_exact_at(part, at)?;
        file.write_all_at(part, at)?;
        at += count as u64;
    }
    Ok(())
}
