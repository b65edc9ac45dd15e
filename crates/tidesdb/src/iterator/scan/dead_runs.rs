//! Many dead keys in a row: jumping over those that are remembered, and remembering more.
//!
//! The few deleted keys that most scans meet are passed by the loop of the scan itself.

use tidesdb_base::error::Result;

use super::{Direction, StoredScan};
use crate::family::dead_ranges::{DeadRun, KnownRanges, Reader, successor};

/// After so many dead keys a scan asks what is remembered.
pub(super) const DEAD_KEYS_IN_A_ROW: u32 = if cfg!(debug_assertions) { 1 } else { 8 };

/// Runs of fewer keys are not worth remembering. Few in debug builds, for the tests.
const REMEMBERED_FROM: u64 = if cfg!(debug_assertions) { 3 } else { 64 };

impl StoredScan {
    /// Goes on over dead keys, from one of them, until there is one that may be shown. Ends at an
    /// own write of the transaction that scans: what that says of its key holds for no other
    /// reader, so it belongs to no run that is remembered, and a jump must not pass it.
    #[cold]
    pub(super) fn pass_dead_run(&mut self, direction: Direction) -> Result<()> {
        let reader = Reader { snapshot: self.sources.snapshot.sequence(), now: self.sources.now };
        let known = self.family.reads.dead_ranges.known_to(reader);
        let run = match direction {
            Direction::Forward => self.pass_forward(known)?,
            Direction::Backward => self.pass_backward(known)?,
        };
        if run.passed >= REMEMBERED_FROM {
            self.family
                .reads
                .dead_ranges
                .remember(&run, reader, || self.owner.core().storage.log.reserved());
        }
        Ok(())
    }

    fn pass_forward(&mut self, mut known: KnownRanges) -> Result<DeadRun> {
        let mut run = DeadRun { start: self.dead_key(), end: Vec::new(), passed: 0 };
        // Stepped on to a dead key last, which is kept in place of the end.
        let mut stepped = false;
        while let Some(source) = self.sources.merge.current() {
            let key = source.key();
            if self.bounds.upper.as_ref().is_some_and(|upper| key >= upper.as_slice()) {
                break;
            }
            if source.is_own() || self.sources.shown(source).is_some() {
                break;
            }
            run.passed += 1;
            run.end.clear();
            if let Some(end) = known.end_over(key) {
                run.end.extend_from_slice(end);
                stepped = false;
                self.sources.merge.pass_committed(end)?;
            } else {
                run.end.extend_from_slice(key);
                stepped = true;
                self.sources.merge.next()?;
            }
        }
        if stepped {
            run.end.push(0);
        }
        Ok(run)
    }

    fn pass_backward(&mut self, mut known: KnownRanges) -> Result<DeadRun> {
        let end = successor(&self.dead_key());
        let mut run = DeadRun { start: Vec::new(), end, passed: 0 };
        while let Some(source) = self.sources.merge.current() {
            let key = source.key();
            if self.bounds.lower.as_ref().is_some_and(|lower| key < lower.as_slice()) {
                break;
            }
            if source.is_own() || self.sources.shown(source).is_some() {
                break;
            }
            run.passed += 1;
            run.start.clear();
            if let Some(start) = known.start_over(key) {
                run.start.extend_from_slice(start);
                self.sources.merge.pass_committed_back(start)?;
            } else {
                run.start.extend_from_slice(key);
                self.sources.merge.prev()?;
            }
        }
        Ok(run)
    }

    fn dead_key(&self) -> Vec<u8> {
        self.sources.merge.current().map_or_else(Vec::new, |source| source.key().to_vec())
    }
}
