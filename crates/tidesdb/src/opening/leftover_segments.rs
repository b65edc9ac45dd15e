//! What a recovery leaves of the log until it is in tables.
//!
//! Each opening after a crash starts a segment of its own. Processes that open, write little and
//! die before a flush of what was replayed has ended would pile them up. So when there are several,
//! the memory is written to tables at once, and the opening waits for that when it is little, or
//! when the files are much larger than what is in them; and its first segment is small, in case
//! that it is cut short as well (I-297).

use std::sync::Arc;

use super::replay_result::Replayed;
use crate::core::Core;
use crate::wal::LogConfig;
use tidesdb_base::limits::MIN_LOG_SEGMENT_BYTES;

/// Segments left over from which on they are released.
const MOST_SEGMENTS: usize = 4;

/// With fewer bytes of records than this, the open waits until they are in tables.
const LITTLE_BYTES: u64 = 4 << 20;

/// The files may be so many times as large as their records, and so many segments more, before the
/// open waits however large they are.
const MOST_TIMES: u64 = 2;
const MOST_SEGMENTS_MORE: u64 = 8;

/// How many segments a replay leaves, and whether they are too many.
#[derive(Debug)]
pub(super) struct LeftoverSegments {
    segments: usize,
    record_bytes: u64,
    file_bytes: u64,
    /// Bytes of a usual segment.
    segment_bytes: u64,
}

impl LeftoverSegments {
    pub(super) fn of(replayed: &Replayed, segment_bytes: u64) -> Self {
        let retained = || replayed.retained.iter();
        Self {
            segments: retained().count(),
            record_bytes: retained().map(|segment| segment.end - segment.base).sum(),
            file_bytes: retained().map(|segment| segment.file_bytes).sum(),
            segment_bytes,
        }
    }

    /// Lets the log begin with a small segment, if several are left over. Also returns how large
    /// those after it may be.
    pub(super) fn begin_small(&self, config: LogConfig) -> (LogConfig, u64) {
        let most = config.most_segment_bytes;
        let small = if self.segments < MOST_SEGMENTS { most } else { MIN_LOG_SEGMENT_BYTES };
        (LogConfig { most_segment_bytes: most.min(small), ..config }, most)
    }

    /// Writes what was recovered to tables, so that its log can go.
    pub(super) fn release(&self, core: &Arc<Core>) {
        if core.env.options.read_only || self.segments < MOST_SEGMENTS {
            return;
        }
        for family in core.families.all() {
            core.freeze_and_flush(&family, 0);
        }
        if self.record_bytes < LITTLE_BYTES || self.is_mostly_empty() {
            // In one edit, since there may be very many families. A failure leaves the log as it
            // is; the flushes that are queued meet it again.
            let _ = core.flush_everything_at_once();
        }
    }

    const fn is_mostly_empty(&self) -> bool {
        let full = self.record_bytes.saturating_mul(MOST_TIMES);
        let some = self.segment_bytes.saturating_mul(MOST_SEGMENTS_MORE);
        self.file_bytes > full.saturating_add(some)
    }
}
