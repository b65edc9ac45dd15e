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
//! | `read_back` | which keys were logged a moment ago |
//! | `segments` | the files: creating, recycling, retiring |
//! | `state` | whether commits are let in |
//! | `sync` | making published commits durable |
//!
//! **What may be acknowledged.** [`Log::acknowledged_through`] is the one answer. Without
//! durability: whatever is published. A record that could not be written, or whose commit broke
//! off, is a hole, and the published position never passes one; so what lies behind it is never
//! visible, never synced and never acknowledged, however the threads meet. With durability:
//! whatever is synced, which is never more.
//!
//! After a failure no commit is let in until a repair (`background/repair.rs`) has written all that
//! is published to tables and the log goes on in another segment, behind all that was reserved.
//!
//! Longer than 600 lines because the commit path and what stops it are one argument.

mod read_back;
mod segments;
mod state;
mod sync;

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use arc_swap::ArcSwap;
use tidesdb_base::entry::SequenceNumber;
use tidesdb_base::error::{Error, Result};
use tidesdb_files::filter::key_hash;
use tidesdb_files::wal::record::{self, RECORD_HEADER_BYTES, RecordPlace};
use tidesdb_files::wal::{RECORDS_OFFSET, SegmentHeader};
use tidesdb_lockfree::gate::{ClosedGuard, CommitGate};
use tidesdb_lockfree::group_sync::GroupSync;
use tidesdb_lockfree::publish::CommitSequencer;
use tidesdb_lockfree::sync::lock;
use tidesdb_sys::clock::Clock;
use tidesdb_sys::vfs::{LogSegment, Vfs};

use self::segments::SegmentFiles;
use self::state::{Condition, Fault};
use crate::latency::LatencyMeter;
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

/// Where a log stands that has no segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NoSegmentAt {
    /// Stands for its number; an edit of the manifest that names it says that no log is needed.
    pub number: u64,
    /// Position behind all that was recovered.
    pub position: u64,
    /// How far what was recovered is on disk.
    pub synced: u64,
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
    /// Segments are no larger than this at first; see [`Log::limit_segments`].
    pub most_segment_bytes: u64,
    pub numbers: Arc<FileNumbers>,
    pub clock: Arc<dyn Clock>,
}

/// The segment with which a log that failed is to go on.
#[derive(Debug)]
pub(crate) struct Successor(ActiveSegment);

impl Successor {
    /// Number in its header.
    pub(crate) const fn number(&self) -> u64 {
        self.0.header.number
    }

    /// Position at which its records begin.
    pub(crate) const fn position(&self) -> SequenceNumber {
        self.0.header.base
    }

    /// Its file.
    pub(crate) fn path(&self) -> PathBuf {
        self.0.path.clone()
    }
}

/// Counters of the log, for statistics.
#[derive(Debug, Default)]
pub(crate) struct LogCounters {
    pub syncs: AtomicU64,
    pub synced_commits: AtomicU64,
    pub sync_times: LatencyMeter,
}

/// A range of the log that was given to one commit. However the commit ends, the range is completed
/// or made a hole: otherwise those behind it would wait for it without end.
struct Reservation<'a> {
    log: &'a Log,
    active: &'a ActiveSegment,
    start: u64,
    end: u64,
    settled: bool,
}

impl Reservation<'_> {
    /// The record is there, and what it holds is in the memtables.
    #[inline]
    fn complete(mut self) {
        self.settled = true;
        self.log.sequencer.complete(self.start, self.end);
    }

    /// Leaves a hole: the commit has no effect, nor has any behind it. `may_be_whole` says that the
    /// record was written, and only the rest did not work.
    #[cold]
    fn break_off(&mut self, cause: Error, may_be_whole: bool) {
        self.settled = true;
        let (io, offset) = (&self.active.io, self.active.offset_of(self.start));
        // CRASH: what is refused must not come back. Recovery stops at a record without a header.
        // A write that failed leaves no whole record, so that trying is enough.
        let unmade = io.write(offset, &[0; RECORD_HEADER_BYTES]);
        let mut fault = Fault::Hole;
        if may_be_whole && unmade.and_then(|()| io.sync(offset)).is_err() {
            fault = Fault::Sync;
        }
        self.log.condition.fail(fault, cause);
        self.log.sequencer.break_at(self.start);
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        if !self.settled {
            self.break_off(Error::Internal("a commit broke off half way".to_owned()), true);
        }
    }
}

/// What a caller that committed waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Acknowledge {
    /// That others see it, and that it survives the death of the process.
    Visible,
    /// That it survives a power cut too.
    Durable,
}

/// The write-ahead log of an open database.
#[derive(Debug)]
pub(crate) struct Log {
    config: LogConfig,
    sequencer: CommitSequencer,
    gate: CommitGate,
    active: ArcSwap<ActiveSegment>,
    files: Mutex<SegmentFiles>,
    group: GroupSync,
    /// Segment files whose names are durable, in the order of their creation.
    named: AtomicU64,
    condition: Condition,
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
        let mut files = SegmentFiles::new(&config, retained);
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
        let files = SegmentFiles::new(&config, Vec::new());
        Self::over(config, (position, position), files, active)
    }

    /// A log for which there was no space, which `cause` tells. It takes no commits until a repair
    /// has started a segment.
    pub(crate) fn without_segment(
        config: LogConfig,
        NoSegmentAt { number, position, synced }: NoSegmentAt,
        retained: Vec<Retained>,
        cause: Error,
    ) -> Self {
        let header = SegmentHeader { number, base: position, previous_end: position, synced };
        let io = Arc::new(NoSegment);
        let active = ActiveSegment { header, limit: position, path: config.dir.clone(), io };
        let places = (position, synced);
        let files = SegmentFiles::new(&config, retained);
        let log = Self::over(config, places, files, active);
        log.condition.fail(Fault::NoSegment, cause);
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
            gate: CommitGate::new(),
            active: ArcSwap::from_pointee(active),
            files: Mutex::new(files),
            // CRASH: marks promise this, so it is no position that recovery can't read up to.
            group: GroupSync::new(on_disk_through),
            named: AtomicU64::new(0),
            condition: Condition::open(),
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
    /// into the memtables under the sequence number it is given. Returns the sequence number once
    /// the commit is visible.
    ///
    /// `signature` tells others what the commit touches, see [`signature_of`]. `check` is called
    /// with the reserved range, inside the gate, before anything is written; it may wait until
    /// everything in front of the range is published, since no earlier commit ever waits for a
    /// later one. When it refuses, the space is left as a void record.
    ///
    /// # Errors
    /// What `check` answers; the failure that stopped the log, which may be what `apply` answers;
    /// [`Error::Io`] when the next segment can't be created. The commit has no effect then: what
    /// `apply` has done is never visible, and gone before the log takes commits again.
    pub(crate) fn commit(
        &self,
        payload: &[u8],
        signature: u64,
        check: impl FnOnce(u64, SequenceNumber) -> Result<()>,
        apply: impl FnOnce(SequenceNumber) -> Result<()>,
    ) -> Result<SequenceNumber> {
        let length = record::record_bytes(payload.len()) as u64;
        // A commit that is inside stays until it knows how it ended: a repair, which goes on at a
        // position behind all that was reserved, would make a lost commit pass for published.
        let (start, _inside, active) = loop {
            let inside = self.gate.enter();
            self.condition.check()?;
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
        let mut reservation =
            Reservation { log: self, active: &active, start, end, settled: false };
        let checked = check(start, end);
        let offset = active.offset_of(start);
        let written = if checked.is_ok() {
            active.io.write_two(offset, &record::commit_header(payload, place), payload)
        } else {
            active.io.write(offset, &record::void_header(payload.len(), place))
        };
        match written {
            Ok(()) => {
                let applied = if checked.is_ok() { apply(end) } else { Ok(()) };
                match applied {
                    Ok(()) => reservation.complete(),
                    Err(cause) => reservation.break_off(cause, true),
                }
            }
            Err(e) => reservation.break_off(Error::io("write", &active.path, e), false),
        }
        checked?;
        if self.sequencer.wait_published(end) { Ok(end) } else { Err(self.lost()) }
    }

    /// Why a commit behind a hole, or that left one, is refused.
    #[cold]
    fn lost(&self) -> Error {
        let told = || Error::Internal("a commit was lost without a cause".to_owned());
        self.condition.check().err().unwrap_or_else(told)
    }

    /// Up to where commits may be acknowledged.
    #[inline]
    pub(crate) fn acknowledged_through(&self, what: Acknowledge) -> SequenceNumber {
        match what {
            Acknowledge::Visible => self.sequencer.published(),
            Acknowledge::Durable => self.group.synced(),
        }
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

    /// Returns once everything in front of a log position is complete and visible, or can't be
    /// any more.
    #[inline]
    pub(crate) fn wait_published(&self, position: u64) {
        self.sequencer.wait_published(position);
    }

    /// Everything up to this sequence number is visible, and nothing behind it.
    #[inline]
    pub(crate) fn published(&self) -> SequenceNumber {
        self.acknowledged_through(Acknowledge::Visible)
    }

    /// The end of what commits have reserved; see [`CommitSequencer::reserved`].
    pub(crate) fn reserved(&self) -> SequenceNumber {
        self.sequencer.reserved()
    }

    /// Everything up to this sequence number survives a power cut.
    pub(crate) fn synced(&self) -> SequenceNumber {
        self.acknowledged_through(Acknowledge::Durable)
    }

    /// Creates and warms the segment that will be needed next, unless a repair will. In the
    /// background.
    pub(crate) fn prepare_next(&self) {
        // A failure is met again, and reported, by the commit that needs the segment.
        let prepare = |()| SegmentFiles::prepare(&self.files, &self.config);
        let _ = self.condition.check().and_then(prepare);
    }

    /// Makes segments no larger than this from now on, and prepares none if that is less than
    /// usual.
    pub(crate) fn limit_segments(&self, bytes: u64) {
        lock(&self.files).limit(bytes);
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
        let surplus = lock(&self.files).retire_before(&self.config, position);
        for path in surplus {
            // A file that stays behind is dead by the manifest and removed at the next open.
            let _ = self.config.vfs.remove(&path);
        }
    }

    /// As [`Log::retire_before`] of a log that failed. No file is used again: what a failed sync
    /// left in it, and whether the disk is sound there, is not known.
    pub(crate) fn remove_before(&self, position: u64) {
        let dead = lock(&self.files).take_before(position);
        dead.iter().for_each(|path| drop(self.config.vfs.remove(path)));
    }

    /// Gives the disk back what is kept for writers, when there are none.
    pub(crate) fn remove_free_segments(&self) {
        let free = lock(&self.files).take_all_free();
        for path in free {
            // A file that stays behind is dead by the manifest and removed at the next open.
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
        self.condition.check()?;
        if self.active.load().header.number != full {
            return Ok(());
        }
        files.ensure_prepared(&self.config, needed)?;
        let closed = self.gate.close();
        // A write may have failed while those inside were waited for.
        self.condition.check()?;
        let next = self.begin_segment(&mut files, self.sequencer.published(), needed)?;
        self.switch(&mut files, next);
        drop(closed);
        Ok(())
    }

    /// Starts another segment, whose records begin at `position`.
    fn begin_segment(
        &self,
        files: &mut SegmentFiles,
        position: u64,
        needed: u64,
    ) -> Result<ActiveSegment> {
        let header = SegmentHeader {
            number: 0,
            base: position,
            previous_end: position,
            synced: self.group.synced(),
        };
        files.activate(&self.config, header, needed)
    }

    /// Has commits go to another segment. The gate is closed.
    fn switch(&self, files: &mut SegmentFiles, next: ActiveSegment) {
        let (old, end) = (self.active.load_full(), self.sequencer.published());
        if old.io.capacity() > 0 {
            let unsynced = self.group.synced() < end;
            files.retain(Retained {
                number: old.header.number,
                base: old.header.base,
                end,
                path: old.path.clone(),
                file_bytes: old.io.capacity(),
                unsynced: unsynced.then(|| Arc::clone(&old.io)),
            });
            files.leave_full(&old.io);
        }
        let position = next.header.base;
        self.active.store(Arc::new(next));
        self.consumed.store(true, Ordering::Relaxed);
        // No commit is inside the gate, and none outside of it waits for a range of its own.
        self.sequencer.reset(position);
    }

    /// Refuses all commits from now on; those under way are finished, and so is a sync.
    pub(crate) fn seal(&self) {
        // The order of locks of `next_segment`.
        let files = lock(&self.files);
        let closed = self.gate.close();
        self.condition.seal();
        drop(closed);
        drop(files);
        self.group.wait_for_leader();
    }

    /// The failure that stopped the log, if one did.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.condition.failure()
    }

    /// Takes the right to repair a log that failed; false when it is in order, sealed or under
    /// repair.
    pub(crate) fn begin_repair(&self) -> bool {
        self.condition.begin_repair()
    }

    /// Whether a thread has taken the right to repair the log.
    pub(crate) fn is_under_repair(&self) -> bool {
        self.condition.is_under_repair()
    }

    /// Creates the segment with which a log that failed goes on, once everything published is in
    /// tables. Its records begin behind all that was ever reserved. Nothing refers to it yet.
    ///
    /// # Errors
    /// [`Error::Io`] when it can't be created.
    pub(crate) fn begin_successor(&self) -> Result<Successor> {
        let mut files = lock(&self.files);
        files.discard_prepared(&self.config);
        files.ensure_prepared(&self.config, 0)?;
        // No commit is let in: what has been reserved stays as it is.
        let reserved = self.sequencer.tail().max(self.sequencer.published());
        let next = self.begin_segment(&mut files, reserved.next_multiple_of(8), 0)?;
        Ok(Successor(next))
    }

    /// Goes on with a segment that the manifest, on disk, names as the first that is needed.
    pub(crate) fn go_on(&self, successor: Successor) {
        let mut files = lock(&self.files);
        let closed = self.gate.close();
        let position = successor.position();
        self.switch(&mut files, successor.0);
        files.mark_all_synced();
        self.group.advance(position);
        drop(closed);
    }

    /// Ends a repair. Unless it has `healed` the log, another one may be tried.
    pub(crate) fn end_repair(&self, healed: bool) {
        self.condition.end_repair(healed);
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
