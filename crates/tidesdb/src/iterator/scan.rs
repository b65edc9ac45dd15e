//! Scans of stored keys: what is visible in the merged sources, within bounds.

mod dead_runs;
mod instrumented;
mod sources;

use std::sync::Arc;

use tidesdb_base::entry::{NEVER_EXPIRES, ValueKind};
use tidesdb_base::error::{Error, Result};
use tidesdb_sys::forks::ProcessMark;

use self::dead_runs::DEAD_KEYS_IN_A_ROW;
pub(crate) use self::instrumented::{OfTransaction, RangesRead};
use self::sources::ScanSources;
use super::merge::Direction;
use super::options::Bounds;
use super::scanned_values::ScannedValues;
use super::source::Source;
use crate::core::Owner;
use crate::family::FamilyState;
use crate::memory::{Holder, MemoryReservation};
use crate::telemetry::counters::Hot;

/// Where to go.
#[derive(Clone, Copy, Debug)]
pub(super) enum Movement<'k> {
    Next,
    Prev,
    /// To the first key at or after this one.
    To(&'k [u8]),
    /// To the last key at or before this one.
    ToOrBefore(&'k [u8]),
    First,
    Last,
}

impl Movement<'_> {
    /// It depends on where the scan stands.
    #[inline]
    pub(super) const fn is_step(&self) -> bool {
        matches!(self, Self::Next | Self::Prev)
    }
}

/// Where a scan is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// On a key with its value at hand.
    OnValue,
    /// On a key whose value lies in a value log.
    OnPointer,
    /// Nowhere yet: no seek since the scan was made or refreshed.
    Unpositioned,
    /// Beyond the first or the last key: a seek found nothing, a step left the keys, or a call
    /// failed.
    Outside,
}

impl Place {
    /// On a key whose version is of this kind, which is no tombstone.
    #[inline]
    const fn on(kind: ValueKind) -> Self {
        if matches!(kind, ValueKind::ValuePointer) { Self::OnPointer } else { Self::OnValue }
    }
}

/// Walks the stored keys of a family in the order of bytes, both ways, as of one moment: what a
/// [`super::Scan`] is made of. What that says of its methods holds for those of the same name.
#[derive(Debug)]
pub(super) struct StoredScan {
    /// Keeps the directory, in which files that the scan has still to open must stay.
    owner: Arc<Owner>,
    /// Beside what each step reads; as of the database.
    opened_in: ProcessMark,
    family: Arc<FamilyState>,
    bounds: Bounds,
    /// What a transaction adds, if the scan is one's.
    transaction: Option<OfTransaction>,
    sources: ScanSources,
    /// Movements have to be recorded for the transaction, or may have to be timed.
    instrumented: bool,
    place: Place,
    values: ScannedValues,
}

impl StoredScan {
    pub(super) fn new(
        owner: Arc<Owner>,
        family: Arc<FamilyState>,
        bounds: Bounds,
        transaction: Option<OfTransaction>,
    ) -> Result<Self> {
        let own = transaction.as_ref().and_then(|part| part.own.as_ref());
        let recorded = transaction.as_ref().is_some_and(|part| part.reads.is_some());
        Ok(Self {
            sources: ScanSources::open(&owner, &family, &bounds, own)?,
            instrumented: recorded || owner.core().telemetry.latencies.is_on(),
            values: ScannedValues::new(&owner),
            opened_in: owner.core().health.opened_in(),
            owner,
            family,
            bounds,
            transaction,
            place: Place::Unpositioned,
        })
    }

    pub(super) fn refresh(&mut self) -> Result<()> {
        // Also when that fails: the place was one of the old snapshot.
        self.place = Place::Unpositioned;
        let own = self.transaction.as_ref().and_then(|part| part.own.as_ref());
        self.sources.refresh(&self.owner, &self.family, &self.bounds, own)?;
        self.values.forget();
        Ok(())
    }

    /// No seek since the scan was made or refreshed.
    pub(super) fn is_unpositioned(&self) -> bool {
        self.place == Place::Unpositioned
    }

    #[inline]
    pub(super) const fn valid(&self) -> bool {
        matches!(self.place, Place::OnValue | Place::OnPointer)
    }

    #[inline]
    pub(super) fn key(&self) -> &[u8] {
        if self.valid() { self.sources.merge.current().map_or(&[], Source::key) } else { &[] }
    }

    // A row of a walk asks once: a call and its result in memory would take a third of that.
    #[inline(always)]
    pub(super) fn value(&self) -> Result<&[u8]> {
        self.check_not_forked()?;
        match self.place {
            Place::OnValue => Ok(self.sources.merge.current().map_or(&[], Source::value)),
            Place::OnPointer => self.fetch(),
            Place::Unpositioned | Place::Outside => Ok(&[]),
        }
    }

    #[inline(always)]
    pub(super) fn key_value(&self) -> Result<(&[u8], &[u8])> {
        self.check_not_forked()?;
        match self.place {
            Place::OnValue => match self.sources.merge.current() {
                Some(source) => Ok(source.key_value()),
                None => Ok((&[], &[])),
            },
            Place::OnPointer => Ok((self.key(), self.fetch()?)),
            Place::Unpositioned | Place::Outside => Ok((&[], &[])),
        }
    }

    #[inline(always)]
    pub(super) fn key_value_at_hand(&self) -> Option<(&[u8], &[u8])> {
        match self.place {
            Place::OnValue => self.sources.merge.current().map(Source::key_value),
            Place::OnPointer | Place::Unpositioned | Place::Outside => None,
        }
    }

    #[inline(never)]
    fn fetch(&self) -> Result<&[u8]> {
        let pointer = self.sources.merge.current().map_or(&[][..], Source::value);
        self.values.fetch(&self.sources.view.version, pointer)
    }

    pub(super) fn expires_at_unix_seconds(&self) -> Option<u64> {
        let source = if self.valid() { self.sources.merge.current() } else { None };
        source.map(Source::expires_at).filter(|&second| second != NEVER_EXPIRES)
    }

    /// Counts memory of the database's budget.
    pub(super) fn reserve(&self, bytes: u64) -> MemoryReservation {
        self.owner.core().memory.budget.reserve(Holder::Scans, bytes)
    }

    /// In a forked child files are those of the parent, and locks may be locked for good.
    #[inline]
    fn check_not_forked(&self) -> Result<()> {
        if self.opened_in.is_here() { Ok(()) } else { Err(Error::Forked) }
    }

    /// Moves. A step of a scan that is not valid does nothing.
    ///
    /// # Errors
    /// `Corruption` or `Io`; the scan is not valid then. `Forked`.
    #[inline]
    pub(super) fn go(&mut self, movement: Movement<'_>) -> Result<()> {
        self.check_not_forked()?;
        if movement.is_step() {
            if !self.valid() {
                return Ok(());
            }
        } else if self.moves_with_commits() {
            self.refresh()?;
        }
        if self.instrumented && self.needs_instruments() {
            self.go_instrumented(movement)
        } else {
            self.go_plain(movement)
        }
    }

    /// As [`StoredScan::go`] to the next key. Always inlined: most movements are this one, in
    /// loops, and what only the others need would be passed by each time.
    #[inline(always)]
    pub(super) fn next(&mut self) -> Result<()> {
        self.check_not_forked()?;
        if !self.valid() {
            return Ok(());
        }
        if self.instrumented && self.needs_instruments() {
            return self.go_instrumented(Movement::Next);
        }
        self.place = Place::Outside;
        self.values.leave();
        self.sources.merge.next()?;
        self.skip_to_visible()
    }

    #[inline]
    fn go_plain(&mut self, movement: Movement<'_>) -> Result<()> {
        self.place = Place::Outside;
        self.values.leave();
        if !movement.is_step() {
            self.family.counters.hot.add(Hot::Seeks, 1);
        }
        let (merge, bounds) = (&mut self.sources.merge, &self.bounds);
        match movement {
            Movement::Next => merge.next()?,
            Movement::To(key) => match &bounds.lower {
                Some(lower) if lower.as_slice() > key => merge.seek(lower)?,
                _ => merge.seek(key)?,
            },
            Movement::First => match &bounds.lower {
                Some(lower) => merge.seek(lower)?,
                None => merge.seek_to_first()?,
            },
            Movement::Prev => {
                merge.prev()?;
                return self.skip_to_visible_backward();
            }
            Movement::ToOrBefore(key) => {
                match &bounds.upper {
                    Some(upper) if upper.as_slice() <= key => merge.seek_before(upper)?,
                    _ => merge.seek_for_prev(key)?,
                }
                return self.skip_to_visible_backward();
            }
            Movement::Last => {
                match &bounds.upper {
                    Some(upper) => merge.seek_before(upper)?,
                    None => merge.seek_to_last()?,
                }
                return self.skip_to_visible_backward();
            }
        }
        self.skip_to_visible()
    }

    #[inline(always)]
    fn skip_to_visible(&mut self) -> Result<()> {
        let mut dead = 0;
        while let Some(source) = self.sources.merge.current() {
            if self.bounds.upper.as_ref().is_some_and(|upper| source.key() >= upper.as_slice()) {
                return Ok(());
            }
            if let Some(kind) = self.sources.shown(source) {
                self.place = Place::on(kind);
                return Ok(());
            }
            if dead >= DEAD_KEYS_IN_A_ROW && !source.is_own() {
                self.pass_dead_run(Direction::Forward)?;
                dead = 0;
            } else {
                dead += 1;
                self.sources.merge.next()?;
            }
        }
        Ok(())
    }

    fn skip_to_visible_backward(&mut self) -> Result<()> {
        let mut dead = 0;
        while let Some(source) = self.sources.merge.current() {
            if self.bounds.lower.as_ref().is_some_and(|lower| source.key() < lower.as_slice()) {
                return Ok(());
            }
            if let Some(kind) = self.sources.shown(source) {
                self.place = Place::on(kind);
                return Ok(());
            }
            if dead >= DEAD_KEYS_IN_A_ROW && !source.is_own() {
                self.pass_dead_run(Direction::Backward)?;
                dead = 0;
            } else {
                dead += 1;
                self.sources.merge.prev()?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
