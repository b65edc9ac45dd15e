//! Replaying the log into memtables.
//!
//! The segments that the manifest needs are followed by their positions: each must begin where
//! the one before it ended. This is the *chain*. Where it ends, the sync marks decide
//! (`log_end`): a mark behind the end proves that data was promised and is damaged, otherwise
//! the end is where the log ends.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidesdb_base::entry::SequenceNumber;
use tidesdb_base::error::{Error, Result};
use tidesdb_files::naming::FileKind;
use tidesdb_files::wal::{RecordKind, SegmentReader};
use tidesdb_sys::vfs::Vfs;

use super::inventory::{Inventory, check_number};
use super::log_chunk::{Failure, LogChunk};
use super::log_end;
use super::log_to_memtables::MemtableLoad;
use super::replay_result::{Replayed, open};
use super::replayed_families::ReplayedFamilies;
use super::workers::Workers;
use crate::version::NO_LOG;
use crate::wal::Retained;

/// Replays the log into the memtables of `targets`, as far as there is room. The rest is read as
/// well, to know that it is whole.
///
/// # Errors
/// [`Error::Corruption`] when promised data is damaged, [`Error::Io`], or that memory is short.
pub(crate) fn replay_log(
    vfs: &Arc<dyn Vfs>,
    dir: &Path,
    found: &Inventory,
    targets: ReplayedFamilies,
    workers: &Workers,
) -> Result<Replayed> {
    let (mut readers, headless) = open_segments(vfs, dir, found)?;
    let newest = found.state.last_sequence;
    let first_base = found.state.log_base.filter(|_| found.state.log_start != NO_LOG);
    // A family has no commit in the log that is not behind this.
    let beyond = found.state.families.values().map(|family| family.flushed_through).max();
    let beyond = beyond.unwrap_or(0);
    let mut replayed = Replayed { newest, first_base, beyond, ..Replayed::default() };
    for (reader, bytes) in &readers {
        replayed.beyond = replayed.beyond.max(reader.header().base.saturating_add(*bytes));
        replayed.highest_segment = replayed.highest_segment.max(reader.header().number);
    }
    let mut next = readers.iter().position(|(r, _)| r.header().number == found.state.log_start);
    let mut last = None;
    let mut replay = Replay::new(targets, workers, 0);
    let manifest = dir.join(FileKind::Manifest(found.manifest.number()).name());
    while let Some(at) = next {
        let Some((reader, bytes)) = readers.get_mut(at) else { break };
        reader.resume(open(vfs.as_ref(), reader.path())?);
        let read = replay.read_segment(reader);
        // The log may have thousands of segments.
        reader.release();
        if let Some((sequence, failure)) = replay.failure.take() {
            return Err(explain(failure, sequence, &readers, &manifest));
        }
        read?;
        last = Some(at);
        let retained = retained_of(reader, *bytes);
        let end = retained.end;
        replayed.log_end = Some(end);
        replayed.synced = replayed.synced.max(reader.end().synced);
        replayed.retained.push(retained);
        let later = readers.iter().skip(at + 1);
        next = later.into_iter().position(|(r, _)| r.header().previous_end == end);
        next = next.map(|offset| at + 1 + offset);
    }
    replay.finish()?;
    if let Some((sequence, failure)) = replay.failure.take() {
        return Err(explain(failure, sequence, &readers, &manifest));
    }
    replayed.loaded_through = replay.loaded_through;
    replayed.newest = replayed.newest.max(replayed.log_end.unwrap_or(0));
    log_end::refuse_missing_log(dir, found, last.is_some())?;
    for path in &headless {
        log_end::refuse_lost_beginning(&open(vfs.as_ref(), path)?, path, found, &replayed)?;
    }
    replayed.left_out =
        log_end::refuse_broken_promise(vfs.as_ref(), &mut readers, (last, found), &replayed)?;
    Ok(replayed)
}

/// Goes on behind the commit `after` with a log that [`replay_log`] has found whole. Returns the
/// last commit that there was room for, when that is not all of them.
///
/// # Errors
/// As [`replay_log`].
pub(crate) fn replay_rest(
    vfs: &Arc<dyn Vfs>,
    segments: &[Retained],
    (after, manifest): (SequenceNumber, &Path),
    targets: ReplayedFamilies,
    workers: &Workers,
) -> Result<Option<SequenceNumber>> {
    let mut replay = Replay::new(targets, workers, after);
    let mut readers = Vec::new();
    for segment in segments.iter().filter(|segment| segment.end > after) {
        let path = &segment.path;
        let file = open(vfs.as_ref(), path)?;
        let changed = |end: u64| {
            let expected = segment.end;
            let detail = format!("expected records up to {expected} as before, found {end}");
            Error::corruption(path, 0, detail)
        };
        let mut reader = SegmentReader::open(file, path)?.ok_or_else(|| changed(0))?;
        // Not again what earlier stretches have.
        reader.pass_over(after);
        let read = replay.read_segment(&mut reader);
        let end = reader.end().position;
        reader.release();
        readers.push((reader, segment.file_bytes));
        if let Some((sequence, failure)) = replay.failure.take() {
            return Err(explain(failure, sequence, &readers, manifest));
        }
        read?;
        if end != segment.end {
            return Err(changed(end));
        }
        if replay.loaded_through.is_some() {
            break;
        }
    }
    replay.finish()?;
    match replay.failure.take() {
        Some((sequence, failure)) => Err(explain(failure, sequence, &readers, manifest)),
        None => Ok(replay.loaded_through),
    }
}

fn retained_of(reader: &SegmentReader, file_bytes: u64) -> Retained {
    let header = reader.header();
    Retained {
        number: header.number,
        base: header.base,
        end: reader.end().position,
        path: reader.path().to_path_buf(),
        file_bytes,
        unsynced: None,
    }
}

/// The error of a commit that can't be applied.
fn explain(
    failure: Failure,
    sequence: SequenceNumber,
    readers: &[(SegmentReader, u64)],
    manifest: &Path,
) -> Error {
    match failure {
        Failure::Other(error) => error,
        Failure::UnknownFamily(family) => {
            let detail =
                format!("expected family {family}, which the log names, found no edit of it");
            Error::corruption(manifest, 0, detail)
        }
        Failure::Undecodable => {
            let detail = "the operations of the log record that ends here do not decode";
            let holds = |reader: &&SegmentReader| {
                reader.header().base < sequence && sequence <= reader.end().position
            };
            match readers.iter().map(|(reader, _)| reader).find(holds) {
                Some(reader) => {
                    Error::corruption(reader.path(), reader.offset_of(sequence), detail)
                }
                None => Error::corruption(manifest, 0, detail),
            }
        }
    }
}

/// Records on their way into the memtables: one chunk is read while the one before it is decoded.
struct Replay<'a> {
    workers: &'a Workers,
    load: Arc<MemtableLoad>,
    reading: LogChunk,
    /// Was read, and is to be decoded.
    waiting: Option<Arc<LogChunk>>,
    /// Were decoded. Their memory is used again when the helping threads have let go of them.
    decoded: Vec<Arc<LogChunk>>,
    failure: Option<(SequenceNumber, Failure)>,
    /// Commits up to here are in tables.
    after: SequenceNumber,
    /// The last commit that there was room for: those behind it are passed over.
    loaded_through: Option<SequenceNumber>,
}

impl<'a> Replay<'a> {
    fn new(targets: ReplayedFamilies, workers: &'a Workers, after: SequenceNumber) -> Self {
        let load = Arc::new(MemtableLoad::new(targets));
        let (reading, decoded) = (LogChunk::default(), Vec::new());
        let (waiting, failure, loaded_through) = (None, None, None);
        Self { workers, load, reading, waiting, decoded, failure, after, loaded_through }
    }

    /// Reads a segment to the end of its records. Ends early when there is a failure.
    fn read_segment(&mut self, reader: &mut SegmentReader) -> Result<()> {
        let (mut more, full) = (true, self.workers.chunk_bytes);
        while more && self.failure.is_none() {
            let mut chunk = std::mem::take(&mut self.reading);
            let read = self.decode_waiting(|| read_chunk(reader, &mut chunk, full));
            self.reading = chunk;
            more = read??;
            if self.reading.bytes() >= full {
                self.hand_over();
            }
        }
        Ok(())
    }

    /// Decodes what was read and is not decoded yet, and makes memtables of it all.
    fn finish(&mut self) -> Result<()> {
        self.decode_waiting(|| ())?;
        self.hand_over();
        self.decode_waiting(|| ())?;
        if self.failure.is_some() { Ok(()) } else { self.load.load(self.workers) }
    }

    /// Decodes the chunk that waits for it, if any, while this thread begins with `first`.
    fn decode_waiting<R>(&mut self, first: impl FnOnce() -> R) -> Result<R> {
        let Some(chunk) = self.waiting.take() else { return Ok(first()) };
        if self.loaded_through.is_some() {
            self.decoded.push(chunk);
            return Ok(first());
        }
        let shares = chunk.shares(self.workers.threads());
        let (load, shared) = (Arc::clone(&self.load), Arc::clone(&chunk));
        let result = self.workers.run(shares, move |n| load.decode(&shared, n, shares), first)?;
        let last = chunk.last_sequence();
        self.decoded.push(chunk);
        self.failure = self.load.failure();
        if self.failure.is_none() {
            // Each call gets on by a chunk at least.
            self.loaded_through = Some(last).filter(|&l| l > self.after && self.load.is_full());
            if self.loaded_through.is_some()
                || self.load.decoded_bytes() > self.workers.decoded_bytes
            {
                self.load.load(self.workers)?;
            }
        }
        Ok(result)
    }

    /// Queues the chunk that was read for being decoded, and takes memory for the next.
    fn hand_over(&mut self) {
        if self.reading.is_empty() {
            return;
        }
        self.waiting = Some(Arc::new(std::mem::take(&mut self.reading)));
        let free = self.decoded.iter().position(|chunk| Arc::strong_count(chunk) == 1);
        let free = free.and_then(|at| Arc::into_inner(self.decoded.swap_remove(at)));
        self.reading = free.map(LogChunk::emptied).unwrap_or_default();
    }
}

/// Segment files with a header and their lengths, and those without one. None is kept open: there
/// may be more than the process may have descriptors.
type Segments = (Vec<(SegmentReader, u64)>, Vec<PathBuf>);

/// The segments that the manifest does not know to be dead, in the order of their numbers.
fn open_segments(vfs: &Arc<dyn Vfs>, dir: &Path, found: &Inventory) -> Result<Segments> {
    let (mut readers, mut headless) = (Vec::new(), Vec::new());
    for (&kind, &bytes) in &found.files {
        if !matches!(kind, FileKind::LogSegment(_)) {
            continue;
        }
        let path = dir.join(kind.name());
        let file = open(vfs.as_ref(), &path)?;
        match SegmentReader::open(Arc::clone(&file), &path)? {
            Some(reader) if reader.header().number < found.state.log_start => {}
            Some(mut reader) => {
                check_number(&path, reader.header().number)?;
                reader.release();
                readers.push((reader, bytes));
            }
            None => {
                log_end::refuse_damaged_header(file.as_ref(), &path, found)?;
                headless.push(path);
            }
        }
    }
    readers.sort_by_key(|(reader, _)| reader.header().number);
    Ok((readers, headless))
}

/// Reads records until the chunk is full or the segment's records end; true when there may be more.
fn read_chunk(reader: &mut SegmentReader, chunk: &mut LogChunk, full: usize) -> Result<bool> {
    chunk.reserve(full, reader.bytes_left())?;
    while chunk.bytes() < full {
        let Some((record, sequence)) = reader.next_record()? else { return Ok(false) };
        if record.kind != RecordKind::Void {
            chunk.push(record.payload, sequence)?;
        }
    }
    Ok(true)
}
