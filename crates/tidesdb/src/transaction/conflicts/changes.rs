//! Which keys have changed since a transaction took its snapshot.
//!
//! Memtables are asked for the keys in question, tables only when they hold anything newer than the
//! snapshot at all. The snapshot is registered, so flushes and compactions keep the sequence number
//! of every version that is newer, though of several only the newest may be left in a table.
//!
//! Of a range, keys that were dead before the window are passed over where that is remembered
//! (`dead_ranges`): a put would have cut what is remembered, and to delete what is not there
//! changes nothing. Else each pop of a queue would look at all that were popped before.

use std::ops::Bound;
use std::sync::Arc;

use tidesdb_base::entry::SequenceNumber;
use tidesdb_base::error::Result;
use tidesdb_base::range_tombstone::RangeTombstones;
use tidesdb_files::filter::key_hash;
use tidesdb_files::sstable::{Readahead, TableIterator};
use tidesdb_lockfree::snapshot_registry::ReadPoint;
use tidesdb_lockfree::stripe::ThisThread;

use super::views::{Viewed, Views};
use super::window::Window;
use crate::cache::{BlockCache, CachedBlocks, TalliedBlocks};
use crate::family::dead_ranges::KnownRanges;
use crate::family::{FamilyState, View};
use crate::memtable::Memtable;
use crate::telemetry::counters::ReadTally;
use crate::transaction::read_set::{ReadRange, ReadSet};
use crate::version::TableFile;

/// Bytes read at a time when a long range of a table is looked through.
const READAHEAD_BYTES: usize = 64 << 10;

/// A version in the window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    pub sequence: SequenceNumber,
    /// It comes from a table, which may have had more versions in the window, older than this one.
    pub hides: bool,
}

/// Memtables of a view that can hold changes.
fn memtables(view: &View, window: Window) -> impl Iterator<Item = &Arc<Memtable>> {
    let frozen = view.frozen.iter().filter(move |m| m.sealed_through() > window.since);
    std::iter::once(&view.active).chain(frozen)
}

fn is_new(table: &TableFile, window: Window) -> bool {
    table.record.highest_sequence > window.since
}

/// Whether a range deletion in the window is one that `matches`, as far as memtables and files have
/// it. A family remembers those that they have no more.
fn any_range_deleted(
    view: &View,
    window: Window,
    matches: impl Fn(&RangeTombstones) -> bool,
) -> bool {
    let in_memory = memtables(view, window).any(|memtable| {
        let sets = memtable.range_tombstones();
        sets.as_slice().iter().any(|set| matches(set))
    });
    in_memory || view.version.range_tombstones.as_slice().iter().any(|set| matches(set))
}

/// Whether a range deletion that was forgotten meets a range of keys in the window. Asked after the
/// view was loaded, so that each deletion is met here or there.
fn was_deleted(family: &FamilyState, within: (&[u8], Bound<&[u8]>), window: Window) -> bool {
    family.reads.forgotten_deletions.meet(within, (window.since, window.through))
}

/// What a range deletion in the window counts as: there may have been more than one.
const fn deletion(window: Window) -> Change {
    Change { sequence: window.through, hides: true }
}

/// Calls `found` with the changes of a key, newest first, until it returns false.
///
/// # Errors
/// `Corruption` or `Io` when a table can't be read.
pub(super) fn changes_of_key(
    blocks: &Arc<BlockCache>,
    viewed: &Viewed<'_>,
    key: &[u8],
    window: Window,
    mut found: impl FnMut(Change) -> bool,
) -> Result<()> {
    let (Window { since, through }, view) = (window, viewed.view());
    let deleted = memtables(view, window).any(|memtable| memtable.hides(key, since, through))
        || view.version.range_tombstones.hides(key, since, through)
        || was_deleted(viewed.state, (key, Bound::Included(key)), window);
    if deleted && !found(deletion(window)) {
        return Ok(());
    }
    for memtable in memtables(view, window) {
        for version in memtable.versions(key) {
            if version.seq <= window.since {
                // What lies below is older still, in every memtable and table.
                return Ok(());
            }
            let change = Change { sequence: version.seq, hides: false };
            if window.holds(version.seq) && !found(change) {
                return Ok(());
            }
        }
    }
    for run in &view.version.runs {
        let Some(file) = run.table_for(key).filter(|file| is_new(file, window)) else { continue };
        let open = file.table()?;
        let hash = key_hash(key);
        let Some(table) = open.as_ref().filter(|table| table.may_contain(hash)) else { continue };
        let tally = ReadTally::default();
        let (cache, thread) = (blocks.as_ref(), ThisThread::get());
        let blocks = TalliedBlocks { cache, tally: &tally, thread };
        if !table.may_contain_by_parts(hash, &blocks)? {
            continue;
        }
        let version = table.lookup(key, window.through, &blocks)?;
        if let Some(sequence) = version.map(|version| version.meta().seq)
            && window.holds(sequence)
        {
            found(Change { sequence, hides: true });
            return Ok(());
        }
    }
    Ok(())
}

/// The change that range deletions in the window made to a range of keys, if any of them meets it.
fn deletion_in_range(viewed: &Viewed<'_>, range: &ReadRange, window: Window) -> Option<Change> {
    let within = (range.start.as_slice(), range.end.bound());
    let deletes = |set: &RangeTombstones| set.meets_range(within, window.since, window.through);
    let deleted = any_range_deleted(viewed.view(), window, deletes)
        || was_deleted(viewed.state, within, window);
    deleted.then(|| deletion(window))
}

/// A change of something that a transaction has read.
pub(super) struct ReadChange<'a> {
    pub family: &'a FamilyState,
    /// The key; of a range deletion over a range that was read, where that begins.
    pub key: &'a [u8],
    pub change: Change,
    /// The key lies in a range that was read, and may not have been found there.
    pub in_range: bool,
}

/// Calls `found` with the changes in the window of all that was read, until it returns an error.
/// Each key and range that is looked at is taken from `budget`; false when that was not enough.
///
/// # Errors
/// What `found` returns; `Corruption` or `Io` when a table can't be read.
pub(super) fn changes_of_reads(
    blocks: &Arc<BlockCache>,
    (reads, snapshot): (&ReadSet, ReadPoint),
    window: Window,
    budget: &mut u64,
    mut found: impl FnMut(ReadChange<'_>) -> Result<()>,
) -> Result<bool> {
    let mut views = Views::new(reads.families());
    for (family, key) in reads.points() {
        let Some(left) = budget.checked_sub(1) else { return Ok(false) };
        *budget = left;
        let Some(viewed) = views.enter(family) else { continue };
        let mut outcome = Ok(());
        changes_of_key(blocks, viewed, key, window, |change| {
            outcome = found(ReadChange { family: viewed.state, key, change, in_range: false });
            outcome.is_ok()
        })?;
        outcome?;
    }
    // A seek beyond the bounds of its scan leaves a range that ends in front of its start.
    for range in reads.ranges().filter(|range| range.end.admits(&range.start)) {
        let Some(left) = budget.checked_sub(1) else { return Ok(false) };
        *budget = left;
        let Some(viewed) = views.enter(range.family) else { continue };
        let family = viewed.state;
        // Whether it found any of the keys is not asked: such a deletion is rare.
        if let Some(change) = deletion_in_range(viewed, range, window) {
            found(ReadChange { family, key: &range.start, change, in_range: false })?;
        }
        let dead = viewed.dead_before(window, snapshot);
        let within = (&dead, &mut *budget);
        let all = changes_of_range(blocks, viewed.view(), range, window, within, |key, change| {
            found(ReadChange { family, key, change, in_range: true })
        })?;
        if !all {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Calls `found` with the changes of all keys in a range, but for [`deletion_in_range`], in no
/// order, until it returns an error. `dead` is what nothing lived in when the window began, loaded
/// with everything in the window complete. Each key that is looked at is taken from `budget`;
/// false when that was not enough.
///
/// # Errors
/// What `found` returns; `Corruption` or `Io` when a table can't be read.
fn changes_of_range(
    blocks: &Arc<BlockCache>,
    view: &View,
    range: &ReadRange,
    window: Window,
    (dead, budget): (&KnownRanges, &mut u64),
    mut found: impl FnMut(&[u8], Change) -> Result<()>,
) -> Result<bool> {
    for memtable in memtables(view, window) {
        let mut cursor = memtable.cursor();
        cursor.seek(&range.start);
        let mut dead = dead.clone();
        while cursor.valid() && range.end.admits(cursor.key()) {
            let Some(left) = budget.checked_sub(1) else { return Ok(false) };
            *budget = left;
            if let Some(end) = dead.end_over(cursor.key()) {
                cursor.seek(end);
                continue;
            }
            for version in cursor.versions().take_while(|version| version.seq > window.since) {
                if window.holds(version.seq) {
                    let change = Change { sequence: version.seq, hides: false };
                    found(cursor.key(), change)?;
                }
            }
            cursor.next();
        }
    }
    let overlapping = view.version.tables().filter(|file| {
        is_new(file, window)
            && range.end.admits(&file.record.smallest_key)
            && range.start.as_slice() <= file.record.largest_key.as_slice()
    });
    let blocks = CachedBlocks::uncounted(blocks);
    for file in overlapping {
        let Some(table) = file.table()?.as_ref().map(Arc::clone) else { continue };
        let readahead = Readahead::Auto(READAHEAD_BYTES);
        let mut iterator = TableIterator::new(table, blocks.clone(), readahead);
        iterator.seek(&range.start)?;
        let mut dead = dead.clone();
        while iterator.valid() && range.end.admits(iterator.key()) {
            let Some(left) = budget.checked_sub(1) else { return Ok(false) };
            *budget = left;
            if let Some(end) = dead.end_over(iterator.key()) {
                iterator.seek(end)?;
                continue;
            }
            if window.holds(iterator.seq()) {
                let change = Change { sequence: iterator.seq(), hides: true };
                found(iterator.key(), change)?;
            }
            iterator.next()?;
        }
    }
    Ok(true)
}
