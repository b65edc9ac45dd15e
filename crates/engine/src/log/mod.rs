//! The live write-ahead log: reserve, copy, publish.
//!
//! A commit reserves its bytes with one atomic addition, copies its sealed record into the mapped
//! segment, applies itself to the memtables, and marks the range complete. Ranges are published
//! in log order, so a commit is acknowledged only when everything before it is complete: a
//! process killed between two writers can't leave a hole in front of an acknowledged commit.
//!
//! All of that happens inside the commit gate. Whatever must not meet a half-done commit
//! (starting another segment, freezing memtables) closes the gate first.
//!
//! | file | what |
//! |---|---|
//! | `mod` | the commit path, starting the next segment |
//! | `segments` | the files: creating, recycling, retiring |
//! | `sync` | group sync |
//!
//! A failed write or sync *poisons* the log: commits are refused from the failed position on,
//! until [`Log::restart`] starts a fresh segment after everything in memory was written to
//! tables.

mod segments;
mod sync;

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use arc_swap::ArcSwap;
use tidesdb_base::entry::SequenceNumber;
use tidesdb_base::error::{Error, Result};
use tidesdb_files::filter::key_hash;
use tidesdb_files::wal::record::{self, RecordPlace};
use tidesdb_files::wal::{RECORDS_OFFSET, SegmentHeader};
use tidesdb_lockfree::gate::{ClosedGuard, CommitGate};
use tidesdb_lockfree::publish::CommitSequencer;
use tidesdb_lockfree::sync::lock;
use tidesdb_sys::vfs::{LogSegment, Vfs};

use self::segments::SegmentFiles;
use self::sync::GroupSync;
use crate::numbers::FileNumbers;

pub(crate) use self::segments::Retained;

/// The segment that commits go to.
#[derive(Debug)]
struct ActiveSegment {
    header: SegmentHeader,
    /// Position at which the segment's space ends.
    limit: u64,
    path: PathBuf,
    io: Arc<dyn LogSegment>,
}

impl ActiveSegment {
    const fn offset_of(&self, position: u64) -> u64 {
        RECORDS_OFFSET + (position - self.header.base)
    }
}

/// Stands in for a segment where nothing may be written.
#[derive(Debug)]
struct NoSegment;

impl LogSegment for NoSegment {
    fn capacity(&self) -> u64 {
        0
    }

    fn write(&self, _at: u64, _bytes: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn sync(&self, _upto: u64) -> io::Result<()> {
        Ok(())
    }

    fn warm(&self, _from: u64, _to: u64) {}

    fn zero_fill(&self) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
}

/// Signature of a commit that may touch any key.
pub(crate) const ANY_KEY: u64 = u64::MAX;

/// Signature of a commit that touches a key: one bit, told by the key's hash. A commit that touches
/// several has the bits of all. Commits without a common bit touch no common key.
#[inline]
pub(crate) fn signature_of(family: u32, key: &[u8]) -> u64 {
    1 << ((key_hash(key) ^ u64::from(family).wrapping_mul(0x9e37_79b9_7f4a_7c15)) >> 58)
}

/// Where and how the log is written.
#[derive(Clone, Debug)]
pub(crate) struct LogConfig {
    pub vfs: Arc<dyn Vfs>,
    pub dir: PathBuf,
    pub segment_bytes: u64,
    pub numbers: Arc<FileNumbers>,
}

/// Counters of the log, for statistics.
#[derive(Debug, Default)]
pub(crate) struct LogCounters {
    pub syncs: AtomicU64,
    pub synced_commits: AtomicU64,
}

/// A range of the log that was given to one commit. However the commit ends, the range is
/// completed: otherwise nothing behind it would ever be published.
struct Reservation<'a> {
    log: &'a Log,
    start: u64,
    end: u64,
    filled: bool,
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        if !self.filled {
            // The hole stays in the log: nothing from here on may be acknowledged. A failed
            // write has said so already, with its cause.
            let cause = Error::Internal("a commit broke off half way".to_owned());
            self.log.set_poison(cause, self.start);
        }
        self.log.sequencer.complete(self.start, self.end);
    }
}

/// The write-ahead log of an open database.
#[derive(Debug)]
pub(crate) struct Log {
    config: LogConfig,
    sequencer: CommitSequencer,
    /// Position at which this opening of the log began.
    opened_at: u64,
    gate: CommitGate,
    active: ArcSwap<ActiveSegment>,
    files: Mutex<SegmentFiles>,
    group: GroupSync,
    /// Position from which nothing may be acknowledged any more; `u64::MAX` while healthy.
    poisoned_from: AtomicU64,
    poison: Mutex<Option<Error>>,
    /// Set while a restart after a failure is under way, so that it is tried once at a time.
    restarting: AtomicBool,
    /// A prepared segment was taken into use and no other was asked for yet.
    consumed: AtomicBool,
    pub counters: LogCounters,
}

impl Log {
    /// Starts the log at `position` with a new segment. All commits up to `on_disk_through` are on
    /// disk, in tables or in `retained`, the segments that recovery read.
    ///
    /// # Errors
    /// [`Error::Io`] when the first segment can't be created.
    pub(crate) fn start(
        config: LogConfig,
        position: u64,
        on_disk_through: u64,
        retained: Vec<Retained>,
    ) -> Result<Self> {
        // Recovery goes on from the segment before only where its records end exactly.
        let previous_end = retained.last().map_or(position, |segment| segment.end);
        let mut files = SegmentFiles::new(retained);
        // CRASH: the header may be on disk before the manifest knows of it, so it must not promise
        // more than was recovered: positions up to its own base may have been skipped.
        let synced = on_disk_through;
        let header = SegmentHeader { number: 0, base: position, previous_end, synced };
        let active = files.activate(&config, header, 0)?;
        Ok(Self::over(config, (position, on_disk_through), files, active))
    }

    /// A log that can't be written, of a database that is opened for reading only.
    pub(crate) fn read_only(config: LogConfig, position: u64) -> Self {
        let header =
            SegmentHeader { number: 0, base: position, previous_end: position, synced: position };
        let io = Arc::new(NoSegment);
        let active = ActiveSegment { header, limit: position, path: config.dir.clone(), io };
        Self::over(config, (position, position), SegmentFiles::new(Vec::new()), active)
    }

    /// A log for which there was no space, which `cause` tells. It takes no commits until a repair has
    /// started a segment. An edit that names its segment, `number`, says that none is needed.
    pub(crate) fn without_segment(
        config: LogConfig,
        (number, position): (u64, u64),
        on_disk_through: u64,
        retained: Vec<Retained>,
        cause: Error,
    ) -> Self {
        let header =
            SegmentHeader { number, base: position, previous_end: position, synced: position };
        let io = Arc::new(NoSegment);
        let active = ActiveSegment { header, limit: position, path: config.dir.clone(), io };
        let places = (position, on_disk_through);
        let log = Self::over(config, places, SegmentFiles::new(retained), active);
        log.set_poison(cause, position);
        log
    }

    fn over(
        config: LogConfig,
        (position, on_disk_through): (u64, u64),
        files: SegmentFiles,
        active: ActiveSegment,
    ) -> Self {
        Self {
            sequencer: CommitSequencer::new(position),
            opened_at: position,
            gate: CommitGate::new(),
            active: ArcSwap::from_pointee(active),
            files: Mutex::new(files),
            // CRASH: marks promise this, so it is no position that recovery can't read up to.
            group: GroupSync::new(on_disk_through),
            poisoned_from: AtomicU64::new(u64::MAX),
            poison: Mutex::new(None),
            restarting: AtomicBool::new(false),
            consumed: AtomicBool::new(true),
            counters: LogCounters::default(),
            config,
        }
    }

    /// File of the segment that commits go to.
    pub(crate) fn active_path(&self) -> PathBuf {
        self.active.load().path.clone()
    }

    /// Number of the segment that commits go to.
    pub(crate) fn active_segment(&self) -> u64 {
        self.active.load().header.number
    }

    /// Logs one commit and applies it. `payload` is that of its record; `apply` puts the operations
    /// into the memtables under the sequence number it is given, and can't fail. Returns the
    /// sequence number once the commit is visible.
    ///
    /// `signature` tells others what the commit touches, see [`signature_of`]. `check` is called
    /// with the reserved range, inside the gate, before anything is written; it may wait until
    /// everything in front of the range is published, since no earlier commit ever waits for a
    /// later one. When it refuses, the space is left as a void record.
    ///
    /// # Errors
    /// What `check` answers; the failure that poisoned the log; [`Error::Io`] when the next
    /// segment can't be created. Nothing happened then, unless `apply` was called.
    pub(crate) fn commit(
        &self,
        payload: &[u8],
        signature: u64,
        check: impl FnOnce(u64, SequenceNumber) -> Result<()>,
        apply: impl FnOnce(SequenceNumber),
    ) -> Result<SequenceNumber> {
        let length = record::record_bytes(payload.len()) as u64;
        let (start, inside, active) = loop {
            let inside = self.gate.enter();
            self.check_health()?;
            let active = self.active.load();
            let start = self.sequencer.reserve(length);
            if start + length <= active.limit {
                self.sequencer.announce(start, start + length, signature);
                break (start, inside, active);
            }
            // A reservation past the end is given up; every later one is past the end as well.
            let full = active.header.number;
            drop(active);
            drop(inside);
            self.next_segment(full, length)?;
        };
        let end = start + length;
        let place = RecordPlace {
            segment: active.header.number,
            position: start,
            synced: self.group.synced(),
        };
        let mut reservation = Reservation { log: self, start, end, filled: false };
        let checked = check(start, end);
        let offset = active.offset_of(start);
        let written = if checked.is_ok() {
            active.io.write_two(offset, &record::commit_header(payload, place), payload)
        } else {
            active.io.write(offset, &record::void_header(payload.len(), place))
        };
        match written {
            Ok(()) => {
                if checked.is_ok() {
                    apply(end);
                }
                reservation.filled = true;
            }
            Err(e) => self.set_poison(Error::io("write", &active.path, e), start),
        }
        drop(reservation);
        drop(inside);
        checked?;
        self.sequencer.wait_published(end);
        // ORDERING: acquire pairs with the release in `set_poison`; a failed write in front of us
        // was recorded before its range was completed, hence before ours was published.
        if end > self.poisoned_from.load(Ordering::Acquire) {
            self.check_health()?;
        }
        Ok(end)
    }

    /// Waits until no commit is under way and keeps new ones out while the guard lives.
    pub(crate) fn close_gate(&self) -> ClosedGuard<'_> {
        self.gate.close()
    }

    /// Returns once every commit in front of a log position that may touch what `signature` stands
    /// for is complete and visible.
    pub(crate) fn wait_for_rivals(&self, position: u64, signature: u64) {
        self.sequencer.wait_for_rivals(position, signature);
    }

    /// Returns once everything in front of a log position is complete and visible.
    #[inline]
    pub(crate) fn wait_published(&self, position: u64) {
        self.sequencer.wait_published(position);
    }

    /// Everything up to this sequence number is visible.
    pub(crate) fn published(&self) -> SequenceNumber {
        self.sequencer.published()
    }

    /// Bytes of records written since the log was opened.
    pub(crate) fn bytes_written(&self) -> u64 {
        self.published().saturating_sub(self.opened_at)
    }

    /// Everything up to this sequence number survives a power cut.
    pub(crate) fn synced(&self) -> SequenceNumber {
        self.group.synced()
    }

    /// Creates and warms the segment that will be needed next. Called in the background.
    pub(crate) fn prepare_next(&self) {
        // A failure is met again, and reported, by the commit that needs the segment.
        let _ = SegmentFiles::prepare(&self.files, &self.config);
    }

    /// True once after each time that a segment was taken into use: another should be prepared.
    #[inline]
    pub(crate) fn wants_preparation(&self) -> bool {
        // ORDERING: relaxed; a hint, and preparing twice does nothing.
        self.consumed.load(Ordering::Relaxed) && self.consumed.swap(false, Ordering::Relaxed)
    }

    /// Number of the oldest segment with records behind `position`, which recovery would need if
    /// everything up to `position` were in tables.
    pub(crate) fn first_needed_segment(&self, position: u64) -> u64 {
        let files = lock(&self.files);
        files.first_needed(position).unwrap_or_else(|| self.active.load().header.number)
    }

    /// Gives up the segments whose records all end at or before `position`. Only after the
    /// manifest, on disk, no longer needs them.
    pub(crate) fn retire_before(&self, position: u64) {
        let dead = lock(&self.files).retire_before(position);
        for path in dead {
            // A segment that stays behind is dead by the manifest and removed at the next open.
            let _ = self.config.vfs.remove(&path);
        }
    }

    /// Gives the disk back what is kept for writers, when there are none.
    pub(crate) fn remove_free_segments(&self) {
        let free = lock(&self.files).take_all_free();
        for path in free {
            // As in `retire_before`.
            let _ = self.config.vfs.remove(&path);
        }
    }

    /// Bytes of log that recovery would read.
    pub(crate) fn retained_bytes(&self) -> u64 {
        // The position last: it only grows, so that it lies behind whatever segment was found.
        let oldest = lock(&self.files).oldest_base();
        let oldest = oldest.unwrap_or_else(|| self.active.load().header.base);
        self.published() - oldest
    }

    fn next_segment(&self, full: u64, needed: u64) -> Result<()> {
        let mut files = lock(&self.files);
        self.check_health()?;
        if self.active.load().header.number != full {
            return Ok(());
        }
        files.ensure_prepared(&self.config, needed)?;
        let closed = self.gate.close();
        self.switch(&mut files, needed)?;
        drop(closed);
        Ok(())
    }

    /// Starts another segment at the published position. The gate is closed.
    fn switch(&self, files: &mut SegmentFiles, needed: u64) -> Result<()> {
        let old = self.active.load_full();
        let end = self.sequencer.published();
        let header =
            SegmentHeader { number: 0, base: end, previous_end: end, synced: self.group.synced() };
        let next = files.activate(&self.config, header, needed)?;
        if old.io.capacity() > 0 {
            let retained = Retained {
                number: old.header.number,
                base: old.header.base,
                end,
                path: old.path.clone(),
                file_bytes: old.io.capacity(),
                synced: self.group.synced() >= end,
            };
            files.retain(retained, &old.io);
        }
        self.active.store(Arc::new(next));
        self.consumed.store(true, Ordering::Relaxed);
        // No commit is inside the gate, and every waiter's range is published already.
        self.sequencer.reset(end);
        Ok(())
    }

    /// Refuses all commits from now on; those under way are finished.
    pub(crate) fn seal(&self) {
        // The order of locks of `next_segment`.
        let files = lock(&self.files);
        let closed = self.gate.close();
        self.set_poison(Error::Closed, self.published());
        drop(closed);
        drop(files);
    }

    #[inline]
    fn check_health(&self) -> Result<()> {
        // ORDERING: acquire pairs with the release in `set_poison`.
        if self.poisoned_from.load(Ordering::Acquire) == u64::MAX {
            return Ok(());
        }
        self.why_poisoned()
    }

    #[cold]
    fn why_poisoned(&self) -> Result<()> {
        match lock(&self.poison).as_ref() {
            Some(Error::Closed) => Err(Error::Closed),
            // It never had a segment, for want of space: nothing is wrong with the log.
            Some(cause) if self.active.load().io.capacity() == 0 => Err(cause.clone()),
            Some(cause) => Err(Error::ReadOnly(Arc::new(cause.clone()))),
            None => Ok(()),
        }
    }

    fn set_poison(&self, cause: Error, position: u64) {
        let mut poison = lock(&self.poison);
        // ORDERING: release publishes the cause to whoever sees the position.
        self.poisoned_from.fetch_min(position, Ordering::AcqRel);
        poison.get_or_insert(cause);
    }

    /// The failure that stopped the log, if one did.
    pub(crate) fn failure(&self) -> Option<Error> {
        lock(&self.poison).clone()
    }

    /// Takes the right to repair a poisoned log; false when it is healthy or under repair.
    pub(crate) fn begin_restart(&self) -> bool {
        // ORDERING: acquire and release order one repair after another.
        self.failure().is_some() && !self.restarting.swap(true, Ordering::AcqRel)
    }

    /// Starts another segment for a poisoned log, whose whole content is in tables. Commits are
    /// refused until [`Log::end_restart`]. Returns the segment's number and the position at which
    /// it begins.
    ///
    /// # Errors
    /// [`Error::Io`] when the new segment can't be created.
    pub(crate) fn restart(&self) -> Result<(u64, SequenceNumber)> {
        let mut files = lock(&self.files);
        files.discard_prepared(&self.config);
        files.ensure_prepared(&self.config, 0)?;
        let closed = self.gate.close();
        self.switch(&mut files, 0)?;
        let begun = (self.active.load().header.number, self.sequencer.published());
        drop(closed);
        Ok(begun)
    }

    /// Ends a repair. `healed` is the position returned by [`Log::restart`] when the manifest, on
    /// disk, names the new segment as the first that is needed; otherwise the log stays poisoned.
    pub(crate) fn end_restart(&self, healed: Option<SequenceNumber>) {
        if let Some(position) = healed {
            lock(&self.files).mark_all_synced();
            self.group.restarted_at(position);
            *lock(&self.poison) = None;
            // ORDERING: release; commits that see a healthy log see the new segment.
            self.poisoned_from.store(u64::MAX, Ordering::Release);
        }
        // ORDERING: as in `begin_restart`.
        self.restarting.store(false, Ordering::Release);
    }

    /// Removes every segment file; the tables hold everything.
    pub(crate) fn remove_all(&self) {
        let paths = lock(&self.files).take_all_paths();
        let active = self.active.load();
        for path in paths.iter().map(PathBuf::as_path).chain([active.path.as_path()]) {
            let _ = self.config.vfs.remove(path);
        }
    }
}

#[cfg(test)]
mod tests;
