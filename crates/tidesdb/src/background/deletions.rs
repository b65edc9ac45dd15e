//! Deletions that lie in memory while what they hide lies on disk.
//!
//! No compaction knows of them before a flush, and a memtable of deletions fills slowly: a few
//! kilobytes of it may hide gigabytes of large values. So some time after a deletion the family's
//! memtable is looked at, and written out as if it were full where that frees much more than it
//! writes.
//!
//! - What is hidden is not guessed: some of the deleted keys are looked up in the tables. So
//!   deletions of keys that are not there never cause a flush, however many come.
//! - Only deletions set the timer, one for a family, and a look ends it; so does an opening that
//!   has replayed something. Families that are at rest, or only put to, cost nothing.
//! - A flush for this comes at most once in [`LOOK_AFTER`], and writes at most a part in
//!   [`FREED_PER_BYTE`] of what it may free.

mod ranges;

use std::sync::Arc;
use std::time::Duration;

use tidesdb_base::error::Result;
use tidesdb_sys::sched::Lane;

use self::ranges::{DeletedRange, union, without};

use crate::core::Core;
use crate::family::{FamilyState, View};
use crate::memtable::Memtable;
use crate::stats::bytes_between;
use crate::version::Version;

/// How long after a deletion the memtable is looked at.
const LOOK_AFTER: Duration = Duration::from_secs(20);

/// What is to be freed at least: a flush costs two waits for the disk and one more run.
const LEAST_FREED: u64 = 16 << 20;

/// Bytes that are to be freed for each byte of the memtable.
const FREED_PER_BYTE: u64 = 4;

/// Deleted keys that are looked up, fewer than twice as many, and deleted ranges.
const LOOKED_UP: usize = 32;

impl Core {
    /// Sets the timer for a look at the deletions in the family's memtable.
    pub(super) fn set_deletions_timer(&self, family: &Arc<FamilyState>) {
        if self.env.options.read_only {
            return;
        }
        let (core, family) = (self.this.clone(), Arc::downgrade(family));
        let look = move || {
            let (Some(core), Some(family)) = (core.upgrade(), family.upgrade()) else { return };
            core.look_at_deletions(&family);
        };
        self.env.scheduler.submit_after(Lane::Housekeeping, LOOK_AFTER, Box::new(look));
    }

    fn look_at_deletions(&self, family: &Arc<FamilyState>) {
        if self.health.is_closed() || family.is_dropped() {
            return;
        }
        // Before the look: a deletion that comes during it sets the next timer.
        family.writes.deletions.look_begins();
        let view = family.view.load_full();
        if is_worth_a_flush(&view, || self.hidden_bytes(family, &view)) {
            // In a pause it waits for the end of that.
            self.freeze_and_flush(family, 0);
        }
    }

    /// Bytes in tables and value logs that deletions in the active memtable hide, about.
    fn hidden_bytes(&self, family: &FamilyState, view: &View) -> Result<u64> {
        let by_keys = self.hidden_by_keys(family, view)?;
        Ok(by_keys.saturating_add(hidden_by_ranges(&view.active, &view.version)?))
    }

    fn hidden_by_keys(&self, family: &FamilyState, view: &View) -> Result<u64> {
        let deleted = view.active.deleted_keys(LOOKED_UP);
        let find = |key: &Vec<u8>| self.bytes_in_tables(family, &view.version, key);
        let found = deleted.sample.iter().map(find).collect::<Result<Vec<_>>>()?;
        Ok(estimate(&found, deleted.count))
    }
}

/// Whether writing the active memtable frees much more than it costs. `hidden_bytes` is asked for
/// when all that tables and value logs hold would be enough.
fn is_worth_a_flush(view: &View, hidden_bytes: impl FnOnce() -> Result<u64>) -> bool {
    if view.active.is_empty() {
        return false;
    }
    let wanted = view.active.used_bytes().saturating_mul(FREED_PER_BYTE).max(LEAST_FREED);
    let on_disk = view.version.space.bytes;
    // What can't be read is for readers and compactions to report.
    on_disk >= wanted && hidden_bytes().is_ok_and(|bytes| bytes.min(on_disk) >= wanted)
}

/// What range deletions hide, by where tables have their keys.
fn hidden_by_ranges(memtable: &Memtable, version: &Version) -> Result<u64> {
    let tombstones = memtable.range_tombstones();
    let deleted = union(tombstones.iter().map(|tombstone| DeletedRange::of(tombstone)));
    sum_of_some(&deleted, |range| hidden_by_range(*range, version))
}

/// What a range deletion hides that none which was flushed hides already: until a compaction comes,
/// that is still there, and a flush would not bring the compaction closer.
fn hidden_by_range(range: DeletedRange<'_>, version: &Version) -> Result<u64> {
    let tables = version.tables_between(Some(range.start), range.end);
    let newest = tables.map(|table| table.record.highest_sequence).max().unwrap_or(0);
    let flushed = version.range_tombstones.iter().filter(|flushed| flushed.sequence > newest);
    let near = flushed.map(|flushed| DeletedRange::of(flushed)).filter(|one| one.meets(range));
    let gone = union(near);
    let left = without(range, &gone);
    sum_of_some(&left, |part| bytes_between(version, part.start, part.end))
}

/// The sum of what `find` says of all, by some of them.
fn sum_of_some<T>(all: &[T], find: impl Fn(&T) -> Result<u64>) -> Result<u64> {
    let some = all.iter().step_by(all.len().div_ceil(LOOKED_UP).max(1));
    let found = some.map(find).collect::<Result<Vec<_>>>()?;
    Ok(estimate(&found, all.len() as u64))
}

/// The bytes of `count` deletions, of which some were looked up. The largest of these stands for
/// itself: one large value among many that are not there must not stand for all of them.
fn estimate(found: &[u64], count: u64) -> u64 {
    let largest = found.iter().copied().max().unwrap_or(0);
    let others = found.iter().map(|&bytes| u128::from(bytes)).sum::<u128>() - u128::from(largest);
    let all = others * u128::from(count) / (found.len().saturating_sub(1).max(1) as u128);
    u64::try_from(all).unwrap_or(u64::MAX).saturating_add(largest)
}

#[cfg(test)]
mod tests;
