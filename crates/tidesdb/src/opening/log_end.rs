//! Whether the log may end where its records do.
//!
//! What is found on disk shows how far the log was known to be on disk: the sync marks of segments
//! and records. A mark behind the end of the chain proves that promised records are damaged or
//! missing. What the manifest knows of tables says nothing about that: a newer commit of one family
//! may be in a table while an older one of another family was in the log alone.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidesdb_base::error::{Error, Result};
use tidesdb_files::naming::FileKind;
use tidesdb_files::wal::record;
use tidesdb_files::wal::segment::{SYNC_MARK_BYTES, decode_sync_mark};
use tidesdb_files::wal::{RECORDS_OFFSET, SYNC_MARK_OFFSET, SegmentReader};
use tidesdb_sys::vfs::{File, Vfs};

use super::inventory::Inventory;
use super::replay_result::{Replayed, open};
use crate::version::NO_LOG;
use crate::wal::LeftOut;

/// File numbers that may have been given out since the manifest was last written.
const MOST_NUMBERS_AHEAD: u64 = 1000;

/// Segment numbers tried on a segment without a header.
const MOST_NUMBERS_TRIED: usize = 100_000;

/// Bytes of a segment without a header that are searched for records.
const SEARCHED_BYTES: u64 = 1 << 20;

/// Checksums calculated while they are searched, whatever the bytes are.
const MOST_RECORDS_TRIED: usize = 20_000;

/// Fails when a segment without a header has the sync mark of a live one: it is written after the
/// header is on disk, so the header was there.
pub(super) fn refuse_damaged_header(file: &dyn File, path: &Path, found: &Inventory) -> Result<()> {
    let mut mark = [0; SYNC_MARK_BYTES];
    if file.read_exact_at(&mut mark, SYNC_MARK_OFFSET).is_err() {
        return Ok(());
    }
    for number in possible_numbers(found) {
        if decode_sync_mark(number, &mark).is_some() {
            let detail = format!(
                "expected the header of log segment {number}, whose sync mark is there, found none"
            );
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
/// of synced ones behind that: then its first sector is lost. A segment of the same life as the one
/// before it begins where that one's records end, the first of a later life where that opening went
/// on. Of the one that the manifest names as the first it says where that begins (I-382); one of an
/// older build lets it be guessed. Nothing is known of a segment whose records all lay in its first
/// sector, nor of one whose first synced record behind that is not searched.
pub(super) fn refuse_lost_beginning(
    file: &Arc<dyn File>,
    path: &Path,
    found: &Inventory,
    replayed: &Replayed,
) -> Result<()> {
    let io = |e| Error::io("read", path, e);
    let bytes = file.len().map_err(io)?.saturating_sub(RECORDS_OFFSET).min(SEARCHED_BYTES);
    let mut searched = vec![0; usize::try_from(bytes).unwrap_or(0)];
    file.read_exact_at(&mut searched, RECORDS_OFFSET).map_err(io)?;
    let end = replayed.promised_at_most();
    let same_life = end;
    // As `Replayed::goes_on_at` had it, when this segment was not there yet.
    let spaces = replayed.retained.iter().map(|segment| segment.base + segment.file_bytes);
    let later_life = spaces.fold(replayed.newest, u64::max).next_multiple_of(8);
    // When the manifest says where the first one begins, that is where the log ends without it.
    let is_guessed = replayed.log_end.is_none() && replayed.first_base.is_none();
    let guessed = found.guessed_log_base.filter(|_| is_guessed).map(|base| (base, base));
    for (base, end) in [(same_life, end), (later_life, end)].into_iter().chain(guessed) {
        if let Some(number) = segment_that_promised(&searched, base, end, found) {
            let detail = format!(
                "expected the header of log segment {number} with base {base}, found records of it \
                 and no header"
            );
            return Err(Error::corruption(path, 0, detail));
        }
    }
    Ok(())
}

/// The number of the segment whose records, from position `base` on, are in `bytes`, if one of them
/// knew that the log was on disk beyond `end`.
fn segment_that_promised(bytes: &[u8], base: u64, end: u64, found: &Inventory) -> Option<u64> {
    let mut tries = MOST_RECORDS_TRIED;
    for at in (0..bytes.len()).step_by(8) {
        let (position, bytes) = (base + at as u64, bytes.get(at..).unwrap_or_default());
        // Records of an earlier life, which are many, never knew of anything behind the end.
        if record::sync_mark(bytes, position).is_none_or(|mark| mark <= end) {
            continue;
        }
        for number in possible_numbers(found).take(tries) {
            tries -= 1;
            if record::open(bytes, number, position).is_some() {
                return Some(number);
            }
        }
    }
    None
}

/// Fails when the manifest names a log and its first segment can't be there, or names none yet and
/// there are tables. A new segment's name is on disk before the manifest names it, nothing removes
/// the last one but a close that says so, and the first is named before there are families. A file
/// gets its name before the segment in it gets its number, so that one with a higher number in its
/// name is another segment, or was made ready and never used.
pub(super) fn refuse_missing_log(dir: &Path, found: &Inventory, has_first: bool) -> Result<()> {
    let start = found.state.log_start;
    let has = |wanted: fn(&FileKind) -> bool| found.files.keys().any(wanted);
    if start == 0 && has(|kind| matches!(kind, FileKind::Table(_) | FileKind::ValueLog(_))) {
        let name = FileKind::Manifest(found.manifest.number()).name();
        let detail = "expected an edit that names the log, since there are tables, found none";
        return Err(Error::corruption(dir.join(name), found.manifest.bytes(), detail));
    }
    let may_be_first = |kind: &FileKind| matches!(kind, FileKind::LogSegment(n) if *n < start);
    if start != 0 && start != NO_LOG && !has_first && !found.files.keys().any(may_be_first) {
        let name = FileKind::LogSegment(start).name();
        let detail = "expected the log from this segment on, found no file that may have it";
        return Err(Error::corruption(dir.join(name), 0, detail));
    }
    Ok(())
}

/// Fails when anything that was read proves synced records behind the end of the chain. Answers the
/// commits that lie behind it without such a proof.
pub(super) fn refuse_broken_promise(
    vfs: &dyn Vfs,
    readers: &mut [(SegmentReader, u64)],
    (last, found): (Option<usize>, &Inventory),
    replayed: &Replayed,
) -> Result<Option<LeftOut>> {
    let end = replayed.promised_at_most();
    let (mut commits, mut bytes) = (0, 0);
    let first_unread = last.map_or(0, |at| at + 1);
    let mut promised = 0;
    for (at, (reader, _)) in readers.iter_mut().enumerate() {
        let marked = match last {
            Some(last) if at < last => reader.end().synced,
            _ => {
                reader.resume(open(vfs, reader.path())?);
                let behind = reader.behind_break();
                reader.release();
                let behind = behind?;
                (commits, bytes) = (commits + behind.commits, bytes + behind.bytes);
                behind.synced
            }
        };
        // What an unread segment knew when it was started was known before its own first record.
        if at >= first_unread || last == Some(at) {
            promised = promised.max(marked);
        }
    }
    let (path, offset) = match last.and_then(|at| readers.get(at)) {
        Some((reader, _)) => (reader.path().to_path_buf(), reader.offset_of(end)),
        None => (missing_segment(readers, found), 0),
    };
    if promised <= end {
        let left_out = LeftOut { path, position: end, commits, bytes };
        return Ok(Some(left_out).filter(|left_out| left_out.commits > 0));
    }
    let detail = format!("the log ends at position {end} but was on disk through {promised}");
    Err(Error::corruption(path, offset, detail))
}

fn missing_segment(readers: &[(SegmentReader, u64)], found: &Inventory) -> PathBuf {
    let name = FileKind::LogSegment(found.state.log_start).name();
    readers.first().map_or_else(|| PathBuf::from(name), |(reader, _)| reader.path().to_path_buf())
}
