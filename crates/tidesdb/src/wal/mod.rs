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
//! | `mod` | opening; how far commits are visible and durable |
//! | `commit` | the path of one commit |
//! | `active` | the segment that commits go to, starting the next one |
//! | `read_back` | which keys were logged a moment ago |
//! | `repair` | going on after a failure |
//! | `retention` | which segments are kept |
//! | `segments` | the files: creating, recycling, retiring |
//! | `state` | whether commits are let in |
//! | `sync` | making published commits durable |
//!
//! **What may be acknowledged.** [`Wal::acknowledged_through`] is the one answer. Without
//! durability: whatever is published. A record that could not be written, or whose commit broke
//! off, is a hole, and the published position never passes one; so what lies behind it is never
//! visible, never synced and never acknowledged, however the threads meet. With durability:
//! whatever is synced, which is never more.
//!
//! After a failure no commit is let in until a repair (`background/repair.rs`) has written all that
//! is published to tables and the log goes on in another segment, behind all that was reserved.

mod active;
mod commit;
mod dropped_commits;
mod read_back;
mod repair;
mod retention;
mod segments;
mod state;
mod sync;

use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use arc_swap::ArcSwap;
use tidesdb_base::entry::SequenceNumber;
use tidesdb_base::error::{Error, Result};
use tidesdb_files::file_numbers::FileNumbers;
use tidesdb_files::wal::SegmentHeader;
use tidesdb_lockfree::gate::{ClosedGuard, CommitGate};
use tidesdb_lockfree::group_sync::GroupSync;
use tidesdb_lockfree::publish::CommitSequencer;
use tidesdb_sys::clock::Clock;
use tidesdb_sys::vfs::Vfs;

use self::active::{ActiveSegment, NoSegment};
use self::segments::SegmentFiles;
use self::state::{Condition, Fault};
use crate::telemetry::latency::LatencyMeter;

pub(crate) use self::active::NoSegmentAt;
pub(crate) use self::commit::{ANY_KEY, FullSegment, Reservation, signature_of};
pub(crate) use self::dropped_commits::LeftOut;
pub(crate) use self::segments::Retained;

/// Where and how the log is written.
#[derive(Clone, Debug)]
pub(crate) struct LogConfig {
    pub vfs: Arc<dyn Vfs>,
    pub dir: PathBuf,
    pub segment_bytes: u64,
    /// Segments are no larger than this at first; see [`Wal::limit_segments`].
    pub most_segment_bytes: u64,
    pub numbers: Arc<FileNumbers>,
    pub clock: Arc<dyn Clock>,
}

/// Counters of the log, for statistics.
#[derive(Debug, Default)]
pub(crate) struct LogCounters {
    pub syncs: AtomicU64,
    pub synced_commits: AtomicU64,
    pub sync_times: LatencyMeter,
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
pub(crate) struct Wal {
    config: LogConfig,
    sequencer: CommitSequencer,
    gate: CommitGate,
    active: ArcSwap<ActiveSegment>,
    files: Mutex<SegmentFiles>,
    group: GroupSync,
    /// Segment files whose names are durable, in the order of their creation.
    named: AtomicU64,
    condition: Condition,
    /// Once a commit has reached this position, the segment after the active one is asked for;
    /// `u64::MAX` when it was.
    prepare_from: AtomicU64,
    pub counters: LogCounters,
}

impl Wal {
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

    /// A log that can't be written, of a database that is opened for reading only. `retained` are
    /// the segments that recovery read.
    pub(crate) fn read_only(config: LogConfig, position: u64, retained: Vec<Retained>) -> Self {
        let header =
            SegmentHeader { number: 0, base: position, previous_end: position, synced: position };
        let io = Arc::new(NoSegment);
        let active = ActiveSegment { header, limit: position, path: config.dir.clone(), io };
        let files = SegmentFiles::new(&config, retained);
        Self::over(config, (position, position), files, active)
    }

    /// A log for which there was no space, for which `cause` is the error. It takes no commits
    /// until a repair has started a segment.
    pub(crate) fn without_segment(
        config: LogConfig,
        place: NoSegmentAt,
        retained: Vec<Retained>,
        cause: Error,
    ) -> Self {
        let log = Self::standing_at(config, place, retained);
        log.condition.fail(Fault::NoSegment, cause);
        log
    }

    /// A log that begins when the first commit comes. All that was ever committed is in tables.
    pub(crate) fn not_begun(config: LogConfig, place: NoSegmentAt) -> Self {
        Self { condition: Condition::not_begun(), ..Self::standing_at(config, place, Vec::new()) }
    }

    fn standing_at(
        config: LogConfig,
        NoSegmentAt { number, position, synced }: NoSegmentAt,
        retained: Vec<Retained>,
    ) -> Self {
        let header = SegmentHeader { number, base: position, previous_end: position, synced };
        let io = Arc::new(NoSegment);
        let active = ActiveSegment { header, limit: position, path: config.dir.clone(), io };
        let files = SegmentFiles::new(&config, retained);
        Self::over(config, (position, synced), files, active)
    }

    fn over(
        config: LogConfig,
        (position, on_disk_through): (u64, u64),
        files: SegmentFiles,
        active: ActiveSegment,
    ) -> Self {
        let prepare_from = AtomicU64::new(active.prepare_from());
        Self {
            sequencer: CommitSequencer::new(position),
            gate: CommitGate::new(),
            active: ArcSwap::from_pointee(active),
            files: Mutex::new(files),
            // CRASH: marks promise this, so it is no position that recovery can't read up to.
            group: GroupSync::new(on_disk_through),
            named: AtomicU64::new(0),
            condition: Condition::open(),
            prepare_from,
            counters: LogCounters::default(),
            config,
        }
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
    pub(crate) fn wait_for_conflicting(&self, position: u64, signature: u64) {
        self.sequencer.wait_for_conflicting(position, signature);
    }

    /// Returns once most of the commits that are under way now are complete and visible, those that
    /// have just begun perhaps excepted.
    pub(crate) fn wait_for_announced(&self) {
        self.sequencer.wait_for_announced();
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
}

#[cfg(test)]
mod tests;
