//! The files of the log: which are kept, which can be used again, which is ready to be next.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use tidesdb_base::error::{Error, ErrorKind, Result};
use tidesdb_files::naming;
use tidesdb_files::wal::{RECORDS_OFFSET, SegmentHeader};
use tidesdb_lockfree::sync::lock;
use tidesdb_sys::vfs::{LogSegment, SegmentMode};

use super::{ActiveSegment, LogConfig};

/// Retired files kept for reuse; beyond it they are removed. Only files of the usual size are kept,
/// so this bounds their bytes as well.
const MOST_FREE_FILES: usize = 8;

/// The same in bytes, for large segments; one file is always kept.
const MOST_FREE_BYTES: u64 = 128 << 20;

/// A segment that is full but whose records are not all in tables yet.
#[derive(Clone, Debug)]
pub(crate) struct Retained {
    /// Number in its header.
    pub number: u64,
    /// Position of its first record.
    pub base: u64,
    /// Position behind its last record.
    pub end: u64,
    /// Its file.
    pub path: PathBuf,
    /// Length of the file.
    pub file_bytes: u64,
    /// Unless all of its records are on disk: what syncs it. The file stays open until then, since
    /// the kernel reports bytes that it failed to write only to those who had it open.
    pub unsynced: Option<Arc<dyn LogSegment>>,
}

#[derive(Debug)]
struct Prepared {
    path: PathBuf,
    io: Arc<dyn LogSegment>,
}

/// All files of the log but the active one.
#[derive(Debug)]
pub(super) struct SegmentFiles {
    retained: VecDeque<Retained>,
    /// Retired files of the usual size, to be used again.
    pub(super) free: Vec<PathBuf>,
    prepared: Option<Prepared>,
    preparing: bool,
    /// How often the prepared and the free were discarded.
    discards: u64,
    /// Segments are no larger than this.
    most_bytes: u64,
    /// The segment that was full last, as long as its memory was not given back.
    full: Option<Arc<dyn LogSegment>>,
    /// Segment files created so far: their names are durable only after a sync of the directory.
    pub(super) created: u64,
}

impl SegmentFiles {
    pub(super) fn new(config: &LogConfig, retained: Vec<Retained>) -> Self {
        Self {
            retained: retained.into(),
            free: Vec::new(),
            prepared: None,
            preparing: false,
            discards: 0,
            most_bytes: config.most_segment_bytes,
            full: None,
            created: 0,
        }
    }

    pub(super) const fn wants_preparation(&self) -> bool {
        self.prepared.is_none() && !self.preparing
    }

    /// Bounds the size of segments that are created, but for records that are larger.
    pub(super) const fn limit(&mut self, bytes: u64) {
        self.most_bytes = bytes;
    }

    /// Makes a segment ready without holding the lock while the file is created and warmed. The
    /// memory of the segment that is full goes back first: it would stay for as long as a sync of
    /// it takes, and so much log in memory is not in the budget.
    pub(super) fn prepare(files: &Mutex<Self>, config: &LogConfig) -> Result<()> {
        let full = lock(files).full.take();
        if let Some(full) = full {
            full.cool();
        }
        let (recycled, discards) = {
            let mut files = lock(files);
            if !files.wants_preparation() || files.most_bytes < config.segment_bytes {
                return Ok(());
            }
            files.preparing = true;
            (files.free.pop(), files.discards)
        };
        let is_recycled = recycled.is_some();
        let opened = open_segment(config, config.segment_bytes, recycled);
        if let Ok(prepared) = &opened {
            prepared.io.warm(0, config.segment_bytes);
        }
        let mut files = lock(files);
        files.preparing = false;
        files.created += 1;
        let prepared = opened?;
        if is_recycled && files.discards != discards {
            // Whether the disk is sound under a file from before a failure is not known.
            let _ = config.vfs.remove(&prepared.path);
            return Ok(());
        }
        match files.prepared {
            None => files.prepared = Some(prepared),
            Some(_) => files.give_up(config, prepared.path, config.segment_bytes),
        }
        Ok(())
    }

    /// Makes sure that [`SegmentFiles::activate`] finds a segment with room for `needed` bytes.
    pub(super) fn ensure_prepared(&mut self, config: &LogConfig, needed: u64) -> Result<()> {
        let usual = config.segment_bytes.min(self.most_bytes);
        let wanted = wanted_bytes(usual, needed);
        if self.prepared.as_ref().is_some_and(|p| p.io.capacity() >= wanted) {
            return Ok(());
        }
        if let Some(small) = self.prepared.take() {
            self.give_up(config, small.path, small.io.capacity());
        }
        let recycled = if wanted == config.segment_bytes { self.free.pop() } else { None };
        self.created += 1;
        let opened = match open_segment(config, wanted, recycled) {
            // There may be space for the record alone.
            Err(e) if e.kind() == ErrorKind::Full && wanted > usual => {
                open_segment(config, usual.max(least_bytes(needed)), None)
            }
            other => other,
        };
        self.prepared = Some(opened?);
        Ok(())
    }

    /// Turns the prepared segment into the active one, under a fresh number.
    pub(super) fn activate(
        &mut self,
        config: &LogConfig,
        mut header: SegmentHeader,
        needed: u64,
    ) -> Result<ActiveSegment> {
        self.ensure_prepared(config, needed)?;
        let Some(prepared) = self.prepared.take() else {
            return Err(Error::Internal("no prepared log segment".to_owned()));
        };
        header.number = config.numbers.next();
        // CRASH: a recycled file whose new header is not on disk reads as its old self, which the
        // manifest knows to be dead, or as no segment at all.
        let started = prepared.io.write(0, &header.encode());
        if let Err(e) = started {
            // Not kept for reuse: it can't be written now, and if the disk is full its space is
            // missed.
            let _ = config.vfs.remove(&prepared.path);
            return Err(Error::io("write", &prepared.path, e));
        }
        let limit = header.base + (prepared.io.capacity() - RECORDS_OFFSET);
        Ok(ActiveSegment { header, limit, path: prepared.path, io: prepared.io })
    }

    /// Keeps a segment that takes no more records.
    pub(super) fn retain(&mut self, segment: Retained) {
        let before = self.retained.back().map_or(0, |before| before.end);
        debug_assert!(before <= segment.base && segment.base <= segment.end, "{segment:?}");
        self.retained.push_back(segment);
    }

    /// Notes which segment was full last, whose memory is to be given back.
    pub(super) fn leave_full(&mut self, io: &Arc<dyn LogSegment>) {
        // Segments are filled faster than they are prepared: the writer that fills them does it
        // all.
        if let Some(earlier) = self.full.replace(Arc::clone(io)) {
            earlier.cool();
        }
    }

    /// Keeps a file that no segment lives in for reuse. Returns it when it is to be removed:
    /// one that was made for a huge batch would hide its size behind a usual segment.
    fn keep_free(&mut self, config: &LogConfig, path: PathBuf, bytes: u64) -> Option<PathBuf> {
        if bytes != config.segment_bytes || self.free.len() >= most_free(config) {
            return Some(path);
        }
        self.free.push(path);
        None
    }

    fn give_up(&mut self, config: &LogConfig, path: PathBuf, bytes: u64) {
        if let Some(path) = self.keep_free(config, path, bytes) {
            // A file that stays behind is dead by the manifest and removed at the next open.
            let _ = config.vfs.remove(&path);
        }
    }

    pub(super) fn first_needed(&self, position: u64) -> Option<(u64, u64)> {
        self.retained.iter().find(|s| s.end > position).map(|s| (s.number, s.base))
    }

    /// Bytes of the files that are kept for their records.
    pub(super) fn retained_file_bytes(&self) -> u64 {
        self.retained.iter().map(|segment| segment.file_bytes).sum()
    }

    /// Behind this position lie the newest records that so many bytes of files hold; `None` when
    /// there are no others. Of a file that holds few records each stands for as many more.
    pub(super) fn newest_from(&self, mut bytes: u64) -> Option<u64> {
        for segment in self.retained.iter().rev() {
            if bytes < segment.file_bytes {
                let records = u128::from(segment.end - segment.base);
                let share = records * u128::from(bytes) / u128::from(segment.file_bytes);
                return Some(segment.end - u64::try_from(share).unwrap_or(0));
            }
            bytes -= segment.file_bytes;
        }
        None
    }

    pub(super) fn oldest_base(&self) -> Option<u64> {
        self.retained.front().map(|s| s.base)
    }

    pub(super) fn unsynced(&self) -> Vec<Retained> {
        self.retained.iter().filter(|s| s.unsynced.is_some()).cloned().collect()
    }

    /// The oldest segment whose file is open, when there are more than `most`.
    pub(super) fn oldest_unsynced_beyond(&self, most: usize) -> Option<Retained> {
        let mut unsynced = self.retained.iter().filter(|s| s.unsynced.is_some());
        let oldest = unsynced.next()?;
        (unsynced.count() >= most).then(|| oldest.clone())
    }

    pub(super) fn mark_synced(&mut self, number: u64) {
        for segment in &mut self.retained {
            if segment.number == number {
                segment.unsynced = None;
            }
        }
    }

    pub(super) fn mark_all_synced(&mut self) {
        for segment in &mut self.retained {
            segment.unsynced = None;
        }
    }

    /// Gives up dead segments. Their files are used again but for those that are answered, which
    /// are to be removed.
    pub(super) fn retire_before(&mut self, config: &LogConfig, position: u64) -> Vec<PathBuf> {
        let mut surplus = Vec::new();
        while self.retained.front().is_some_and(|front| front.end <= position) {
            if let Some(dead) = self.retained.pop_front() {
                surplus.extend(self.keep_free(config, dead.path, dead.file_bytes));
            }
        }
        surplus
    }

    /// Takes out the files of dead segments, which are not to be used again.
    pub(super) fn take_before(&mut self, position: u64) -> Vec<PathBuf> {
        let dead = self.retained.iter().take_while(|segment| segment.end <= position).count();
        self.retained.drain(..dead).map(|segment| segment.path).collect()
    }

    /// Takes the free files out.
    pub(super) fn take_all_free(&mut self) -> Vec<PathBuf> {
        std::mem::take(&mut self.free)
    }

    pub(super) fn discard_prepared(&mut self, config: &LogConfig) {
        self.discards += 1;
        if let Some(prepared) = self.prepared.take() {
            let _ = config.vfs.remove(&prepared.path);
        }
        for path in self.free.drain(..) {
            let _ = config.vfs.remove(&path);
        }
    }

    pub(super) fn take_all_paths(&mut self) -> Vec<PathBuf> {
        let mut paths: Vec<PathBuf> = self.retained.drain(..).map(|s| s.path).collect();
        paths.append(&mut self.free);
        paths.extend(self.prepared.take().map(|p| p.path));
        paths
    }
}

/// Bytes of the segment that is made for a record, where `usual` is what segments have. The first
/// to come gets the space: next to a large record there is as much for others as ever, so that they
/// don't crowd it out, and the space made for it is not left empty (I-305). A record of up to three
/// quarters has a usual segment: those are recycled, which writers of such records live on.
const fn wanted_bytes(usual: u64, needed: u64) -> u64 {
    let least = least_bytes(needed);
    if needed <= usual / 4 * 3 {
        return if usual > least { usual } else { least };
    }
    least + usual
}

/// Bytes of a segment for one record.
const fn least_bytes(needed: u64) -> u64 {
    (needed + RECORDS_OFFSET).next_multiple_of(4096)
}

/// How many retired files are kept.
fn most_free(config: &LogConfig) -> usize {
    let by_bytes = usize::try_from(MOST_FREE_BYTES / config.segment_bytes).unwrap_or(1).max(1);
    MOST_FREE_FILES.min(by_bytes)
}

/// Creates a segment file, or renames a retired one. Its name is made durable later, by the first
/// sync that relies on it: a directory sync takes long when the disk is busy.
fn open_segment(config: &LogConfig, bytes: u64, recycled: Option<PathBuf>) -> Result<Prepared> {
    let path = config.dir.join(naming::FileKind::LogSegment(config.numbers.next()).name());
    let Some(old) = recycled else {
        let io = config
            .vfs
            .log_segment(&path, bytes, SegmentMode::Create)
            .map_err(|e| Error::io("create", &path, e))?;
        return Ok(Prepared { path, io });
    };
    // CRASH: the rename need not be durable. Under either name the header says what it is.
    let renamed = config.vfs.rename(&old, &path).map_err(|e| Error::io("rename", &old, e));
    let reused = renamed.and_then(|()| {
        let io = config.vfs.log_segment(&path, bytes, SegmentMode::Reuse);
        io.map_err(|e| Error::io("open", &path, e))
    });
    match reused {
        Ok(io) => Ok(Prepared { path, io }),
        Err(e) => {
            // It is no longer among the free files, so no other code would ever remove it.
            let _ = config.vfs.remove(&path).or_else(|_| config.vfs.remove(&old));
            Err(e)
        }
    }
}
