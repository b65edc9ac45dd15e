//! The check of written keys: the first committer wins.
//!
//! With the commit's place taken others wait for the second look. So one that writes many keys
//! looks the other way round, as one that has read many: it reads back what was logged since its
//! last look, and searches what it writes for the keys of that (I-251).

use std::sync::atomic::Ordering;

use tidesdb_base::entry::{SequenceNumber, ValueKind};
use tidesdb_base::error::{Error, Result};
use tidesdb_files::wal::BatchReader;
use tidesdb_sys::sync_points::sync_point;

use super::changes::changes_of_key;
use super::logged_changes::{Bounds, MOST_KEYS, MOST_TRIES, MOST_WAITED_FOR_BYTES};
use super::views::Views;
use super::window::Window;
use super::written_keys::WrittenKeys;
use crate::core::Core;
use crate::family::FamilyState;
use crate::wal::{ANY_KEY, Wal};
use crate::write::WriteBatch;

/// First committer wins: no other commit may have changed a written key.
pub(in crate::transaction) struct WriteConflicts<'t> {
    core: &'t Core,
    batch: &'t WriteBatch,
    /// Changes up to here were looked for.
    through: SequenceNumber,
    /// The keys, if they are many and others commit at the same time.
    keys: Option<WrittenKeys<'t>>,
    /// How often it has looked again before it took a place.
    catch_ups: u32,
}

impl<'t> WriteConflicts<'t> {
    /// Changes up to `through` need not be looked for.
    pub(in crate::transaction) const fn new(
        core: &'t Core,
        batch: &'t WriteBatch,
        through: SequenceNumber,
    ) -> Self {
        Self { core, batch, through, keys: None, catch_ups: 0 }
    }

    /// Changes up to here were looked for.
    pub(super) const fn through(&self) -> SequenceNumber {
        self.through
    }

    /// What the written keys are known by, see [`crate::wal::signature_of`].
    pub(super) const fn signature(&self) -> u64 {
        self.batch.signature
    }

    /// Whether so many keys are written that a look at each takes long.
    pub(super) const fn are_many(&self) -> bool {
        self.batch.count as u64 > MOST_KEYS
    }

    /// The keys in order, if they were needed.
    pub(super) const fn keys(&self) -> Option<&WrittenKeys<'t>> {
        self.keys.as_ref()
    }

    /// The last look, of a commit whose place in the log begins at `start`: what ends at or before
    /// that precedes the commit, everything else follows it. Others wait for the place alone, and
    /// for the writes of the commit as well: a look at no more log than that is short beside it.
    #[inline]
    pub(in crate::transaction) fn look_in_place(&mut self, start: u64) -> Result<()> {
        if start > self.through {
            wait_for_conflicting(&self.core.storage.log, start, self.batch.signature);
            self.look_while_others_wait(start)?;
        }
        Ok(())
    }

    #[inline(never)]
    fn look_while_others_wait(&mut self, start: u64) -> Result<()> {
        let window = Window { since: self.through, through: start };
        let most_bytes = MOST_WAITED_FOR_BYTES.max(self.batch.record.len() as u64);
        let most_bytes = most_bytes.min(Bounds::ALONE.logged_bytes);
        if !self.look_at_log(window, most_bytes)? {
            #[cfg(test)]
            crate::transaction::tests::steps::note_waited_for(self.batch.count as u64);
            self.look_at_keys(window)?;
        }
        self.through = start;
        Ok(())
    }

    /// As [`WriteConflicts::look_in_place`], while others wait for the lock of the dependencies
    /// too, with all in front of `start` published. False when it would take too long.
    pub(super) fn look_with_lock(&mut self, start: u64) -> Result<bool> {
        let window = Window { since: self.through, through: start };
        if window.is_empty() {
            return Ok(true);
        }
        if !self.are_many() {
            #[cfg(test)]
            crate::transaction::tests::steps::note_waited_for(self.batch.count as u64);
            self.look_at_keys(window)?;
        } else if !self.look_at_log(window, MOST_WAITED_FOR_BYTES)? {
            return Ok(false);
        }
        self.through = start;
        Ok(true)
    }

    /// Looks at what was published since the last look, up to `through`, while no other waits.
    #[inline]
    pub(in crate::transaction) fn look(&mut self, through: SequenceNumber) -> Result<()> {
        if self.are_many() {
            self.order_keys();
        }
        let window = Window { since: self.through, through };
        if window.is_empty() {
            return Ok(());
        }
        self.through = through;
        // To search many for each that was logged costs less than to look for each of the many,
        // unless more was logged than is written.
        let most_bytes = Bounds::ALONE.logged_bytes.min(self.batch.record.len() as u64);
        if self.look_at_log(window, most_bytes)? {
            return Ok(());
        }
        self.look_at_keys(window)
    }

    /// Looks once more before the commit takes its place, at whatever came in, if the keys are
    /// many: a few times. Most of it is done with then while no other waits.
    #[inline]
    pub(in crate::transaction) fn catch_up(&mut self) -> Result<()> {
        if self.are_many() && self.catch_ups < MOST_TRIES {
            self.catch_ups += 1;
            self.look(self.core.storage.log.published())?;
            sync_point("caught up");
        }
        Ok(())
    }

    /// Sorts the many keys, if there is something to look for, or will be. Not while others wait.
    #[inline(never)]
    pub(super) fn order_keys(&mut self) {
        if self.keys.is_none() && self.core.storage.log.reserved() > self.through {
            self.keys = Some(WrittenKeys::of(self.batch, &self.core.memory.budget));
        }
    }

    /// Looks at what was logged in the window, all of which is published. False when that is more
    /// than `most_bytes`, the log does not have it all, or the keys were not sorted.
    fn look_at_log(&self, window: Window, most_bytes: u64) -> Result<bool> {
        let Some(keys) = &self.keys else { return Ok(false) };
        let (mut changed, mut whole) = (None, true);
        let (log, places) = (&self.core.storage.log, (window.since, window.through));
        let read = log.read_back(places, most_bytes, |payload, _| {
            for operation in BatchReader::new(payload) {
                let Ok(operation) = operation else {
                    whole = false;
                    return;
                };
                let (family, key) = (operation.family, operation.key);
                changed = changed.or_else(|| match operation.kind {
                    ValueKind::RangeTombstone => keys.find_in(family, key, operation.value),
                    _ => keys.find(family, key),
                });
            }
        });
        if let Some((family, key)) = changed
            && let Some(family) = self.batch.families.find(family)
        {
            return Err(self.changed(family, key));
        }
        Ok(read && whole)
    }

    #[inline(never)]
    fn look_at_keys(&self, window: Window) -> Result<()> {
        let mut views = Views::new(&self.batch.families);
        for operation in self.batch.operations() {
            let Some(family) = views.enter(operation.family) else { continue };
            let mut newest = None;
            changes_of_key(
                &self.core.storage.files.blocks,
                family,
                operation.key,
                window,
                |change| {
                    newest = Some(change);
                    false
                },
            )?;
            if newest.is_some() {
                return Err(self.changed(family.state, operation.key));
            }
        }
        Ok(())
    }

    fn changed(&self, family: &FamilyState, key: &[u8]) -> Error {
        conflict(self.core, family, key, "another commit has changed a key that it writes")
    }

    /// A conflict at one of the keys.
    pub(super) fn conflict_at_some_key(&self, reason: &'static str) -> Error {
        let first = self.batch.operations().next();
        let place = first.and_then(|first| {
            let family = self.batch.families.find(first.family)?;
            Some(conflict(self.core, family, first.key, reason))
        });
        let nowhere = || Error::Conflict { family: String::new(), key: Vec::new(), reason };
        place.unwrap_or_else(nowhere)
    }
}

/// Waits for the commits in front of `start` that may touch what `signature` stands for.
pub(super) fn wait_for_conflicting(log: &Wal, start: u64, signature: u64) {
    match signature {
        0 => {}
        ANY_KEY => log.wait_published(start),
        some => log.wait_for_conflicting(start, some),
    }
    sync_point("waited for others");
}

/// A family's name and the key that is stored as `key`, for an error.
pub(super) fn named(family: &FamilyState, key: &[u8]) -> (String, Vec<u8>) {
    (family.name().to_string(), family.keys.order.key(key))
}

/// A conflict at a stored key.
pub(super) fn conflict(
    core: &Core,
    family: &FamilyState,
    key: &[u8],
    reason: &'static str,
) -> Error {
    // ORDERING: a statistic.
    core.telemetry.counters.transaction_conflicts.fetch_add(1, Ordering::Relaxed);
    let (family, key) = named(family, key);
    Error::Conflict { family, key, reason }
}
