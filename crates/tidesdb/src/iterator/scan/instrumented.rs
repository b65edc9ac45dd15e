//! Movements that are timed, and those of a transaction, which may have to record them.

use std::fmt::Debug;
use std::ops::Bound;
use std::sync::Arc;

use tidesdb_base::error::Result;
use tidesdb_base::event::OperationProfile;
use tidesdb_base::latency::TimedOperation;

use super::{Movement, StoredScan};
use crate::iterator::own_writes::OwnWrites;
use crate::telemetry::timing::{Named, TimedCall};

/// What makes a scan one of a transaction.
#[derive(Debug)]
pub(crate) struct OfTransaction {
    /// Its writes to the family when the scan was made, if there are any.
    pub own: Option<Arc<OwnWrites>>,
    /// Records what the scan goes over, if the level asks for it.
    pub reads: Option<Box<dyn RangesRead>>,
    /// Each seek takes up what was committed since.
    pub moving: bool,
}

/// Records which stored keys a scan has gone over. What lies between two keys shown was read as
/// well.
pub(crate) trait RangesRead: Debug + Send + Sync {
    /// The scan leaves its place: what it went over up to now was read.
    fn leave(&self);
    /// The scan has gone over what lies between these keys, the first included.
    fn enter(&self, start: &[u8], end: Bound<&[u8]>);
    /// The scan has gone on forwards, as far as this.
    fn extend_end(&self, end: Bound<&[u8]>);
    /// The scan has gone on backwards, as far as this.
    fn extend_start(&self, start: &[u8]);
}

impl StoredScan {
    /// Each positioning takes up what was committed since.
    pub(in crate::iterator) fn moves_with_commits(&self) -> bool {
        self.transaction.as_ref().is_some_and(|part| part.moving)
    }

    fn reads(&self) -> Option<&dyn RangesRead> {
        self.transaction.as_ref().and_then(|part| part.reads.as_deref())
    }

    #[inline]
    pub(super) fn needs_instruments(&self) -> bool {
        self.reads().is_some() || self.owner.core().telemetry.latencies.is_due()
    }

    #[inline(never)]
    pub(super) fn go_instrumented(&mut self, movement: Movement<'_>) -> Result<()> {
        let Some(reads) = self.reads() else { return self.go_timed(movement) };
        if !movement.is_step() {
            reads.leave();
        }
        if self.owner.core().telemetry.latencies.is_due() {
            self.go_timed(movement)?;
        } else {
            self.go_plain(movement)?;
        }
        self.record(movement);
        Ok(())
    }

    fn go_timed(&mut self, movement: Movement<'_>) -> Result<()> {
        let (operation, key_bytes) = match movement {
            Movement::Next | Movement::Prev => (TimedOperation::Step, 0),
            Movement::First | Movement::Last => (TimedOperation::Seek, 0),
            Movement::To(key) | Movement::ToOrBefore(key) => (TimedOperation::Seek, key.len()),
        };
        let before = self.family.counters.hot.my_blocks();
        let started = self.owner.core().telemetry.start_timing();
        let result = self.go_plain(movement);
        let family: Option<&dyn Named> = Some(self.family.as_ref());
        let call = TimedCall { operation, family, bytes: key_bytes as u64, operations: 1 };
        self.owner.core().telemetry.end_timing(started, call, || self.profile(before));
        result
    }

    /// What the scan has met since its thread had counted as many blocks in the cache and read.
    fn profile(&self, [cached, read]: [u64; 2]) -> OperationProfile {
        let after = self.family.counters.hot.my_blocks();
        let mut profile = OperationProfile::default();
        profile.memtables_searched = 1 + self.sources.view.frozen.len() as u64;
        profile.tables_searched = self.sources.view.version.runs.len() as u64;
        profile.blocks_cached = after[0].saturating_sub(cached);
        profile.blocks_read = after[1].saturating_sub(read);
        profile
    }

    /// Records in the transaction how far the scan has come.
    fn record(&self, movement: Movement<'_>) {
        let Some(reads) = self.reads() else { return };
        let lower = self.bounds.lower.as_deref().unwrap_or(&[]);
        let upper = self.bounds.upper.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        // What is arrived at, or the bound where the keys ended.
        let first = if self.valid() { self.key() } else { lower };
        let last = if self.valid() { Bound::Included(self.key()) } else { upper };
        match movement {
            Movement::Next => reads.extend_end(last),
            Movement::Prev => reads.extend_start(first),
            Movement::To(key) => reads.enter(key.max(lower), last),
            Movement::First => reads.enter(lower, last),
            Movement::ToOrBefore(key) => {
                let beyond = self.bounds.upper.as_deref().is_some_and(|upper| upper <= key);
                reads.enter(first, if beyond { upper } else { Bound::Included(key) });
            }
            Movement::Last => reads.enter(first, upper),
        }
    }
}
