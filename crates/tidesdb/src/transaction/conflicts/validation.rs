//! The checks of a commit that has read, from its first look to its judgement.

use std::sync::MutexGuard;
use std::sync::atomic::Ordering;

use tidesdb_base::entry::SequenceNumber;
use tidesdb_base::error::{Error, Result};
use tidesdb_lockfree::snapshot_registry::ReadPoint;
use tidesdb_lockfree::sync::lock;
use tidesdb_sys::sync_points::sync_point;

use super::logged_changes::{Bounds, MOST_TRIES, MOST_WAITED_FOR_BYTES};
use super::read_conflicts::ReadConflicts;
use super::recording::{LockedDependencies, is_long, record_at_once, record_in_parts};
use super::window::Window;
use super::write_conflicts::{WriteConflicts, conflict, named, wait_for_conflicting};
use crate::core::Core;
use crate::family::FamilyState;
use crate::isolation::{Candidate, DangerousStructure, IsolationLevel, OutConflicts};
use crate::transaction::read_set::ReadSet;
use crate::wal::ANY_KEY;
use crate::write::WriteBatch;

/// How often a commit begins again at most that has written large values: it holds the value logs
/// of its families, for which other commits of large values, drops and copies wait.
const MOST_TRIES_WITH_VALUES: u32 = 1;

/// So little is looked at in the commit's place.
const FEW_BYTES: u64 = MOST_WAITED_FOR_BYTES / 4;

/// The checks of a commit that has read, or only read.
// More than a dozen fields: the state of one commit from its first look to its judgement.
pub(in crate::transaction) struct Validation<'t> {
    pub(super) core: &'t Core,
    level: IsolationLevel,
    pub(super) snapshot: ReadPoint,
    batch: Option<&'t WriteBatch>,
    /// At the levels that mind.
    write_conflicts: Option<WriteConflicts<'t>>,
    reads: Option<MutexGuard<'t, ReadSet>>,
    pub(super) read_conflicts: ReadConflicts,
    /// Serializable: what was read and then overwritten is a conflict by itself.
    pub(in crate::transaction) reads_must_stand: bool,
    dependencies: Option<LockedDependencies<'t>>,
    /// The limit of reads that are to be recorded after the commit.
    recording: Option<SequenceNumber>,
    /// Others wait for the place that the commit has in the log.
    pub(super) in_place: bool,
    /// The second look would have taken too long, and the place was given back.
    too_much: bool,
    tries: u32,
    /// How often it has looked again at what came in during a look.
    catch_ups: u32,
}

impl<'t> Validation<'t> {
    pub(in crate::transaction) fn new(
        core: &'t Core,
        level: IsolationLevel,
        snapshot: ReadPoint,
        batch: Option<&'t WriteBatch>,
        reads: Option<MutexGuard<'t, ReadSet>>,
    ) -> Self {
        let checked = batch.filter(|_| level.checks_writes());
        Self {
            core,
            level,
            snapshot,
            batch,
            write_conflicts: checked
                .map(|batch| WriteConflicts::new(core, batch, snapshot.sequence)),
            reads,
            read_conflicts: ReadConflicts::after(snapshot.sequence),
            reads_must_stand: false,
            dependencies: None,
            recording: None,
            in_place: false,
            too_much: false,
            tries: 0,
            catch_ups: 0,
        }
    }

    /// Looks without a place in the log, and again at what came in during a long look, as long as
    /// that is much: a few times in all, however often the commit takes a place.
    pub(in crate::transaction) fn look_first(&mut self) -> Result<()> {
        self.look_outside()?;
        self.catch_up(FEW_BYTES)?;
        // Now, and not while others wait for the judgement.
        self.read_conflicts.commits.sort();
        sync_point("looked");
        Ok(())
    }

    /// Looks again, without a place in the log, if a look at all takes long and more than so many
    /// bytes came in since the last: a few times in all.
    pub(in crate::transaction) fn catch_up(&mut self, most_bytes: u64) -> Result<()> {
        if let Some(conflicts) = self.many_written() {
            conflicts.order_keys();
        }
        while let Some(since) = self.wide_since()
            && self.catch_ups < MOST_TRIES
            && self.core.storage.log.published().saturating_sub(since) > most_bytes
        {
            self.catch_ups += 1;
            self.look_outside()?;
        }
        if self.many_written().is_some() {
            sync_point("caught up");
        }
        Ok(())
    }

    /// The check of what it writes, if that is many keys.
    fn many_written(&mut self) -> Option<&mut WriteConflicts<'t>> {
        self.write_conflicts.as_mut().filter(|conflicts| conflicts.are_many())
    }

    /// Up to where a look was made that takes long.
    fn wide_since(&mut self) -> Option<SequenceNumber> {
        let is_wide = self.read_conflicts.is_wide;
        let read = is_wide.then(|| self.read_conflicts.through.max(self.snapshot.sequence));
        let written = self.many_written().map(|conflicts| conflicts.through());
        read.into_iter().chain(written).min()
    }

    /// Looks at what was published since the last look, without a place in the log.
    ///
    /// Where reads are looked at, with a snapshot at the end of the look. Without, a flush could
    /// drop a change that the look has still to meet, because a newer one hides it. The second look
    /// would meet that one, unless a scan in between has found the key dead and remembers its
    /// range. And at serializable the age of the oldest change decides (I-289).
    fn look_outside(&mut self) -> Result<()> {
        if !self.level.tracks_reads() {
            return self.look(self.core.storage.log.published());
        }
        let snapshot = self.core.register_snapshot();
        sync_point("snapshot of a look");
        let looked = self.look(snapshot.sequence);
        self.core.release_snapshot(snapshot);
        looked
    }

    /// Takes the lock of the dependencies, if the level has any: before the commit takes its place.
    /// Until those in front of that are visible it is waited for with the lock held, so those that
    /// are under way are waited for without. What came in since the last look, to prepare and to
    /// wait may have taken long, is looked at if it is much.
    pub(in crate::transaction) fn lock_dependencies(&mut self) -> Result<()> {
        let locks = self.level == IsolationLevel::Serializable;
        if locks {
            self.core.storage.log.wait_for_announced();
        }
        self.catch_up(FEW_BYTES)?;
        if locks {
            self.dependencies = Some(self.dependencies());
        }
        Ok(())
    }

    /// Gives the lock of the dependencies back.
    pub(in crate::transaction) fn unlock_dependencies(&mut self) {
        self.dependencies = None;
    }

    /// The last look, of a commit that has this place in the log: what ends at or before `start`
    /// precedes the commit, everything else follows it. `end` is its sequence number.
    pub(in crate::transaction) fn look_in_place(
        &mut self,
        (start, end): (u64, SequenceNumber),
    ) -> Result<()> {
        let looked = self.write_conflicts.as_ref().map_or(u64::MAX, WriteConflicts::through);
        if start > looked.min(self.read_conflicts.through) {
            self.wait_for_conflicting(start);
        }
        self.in_place = true;
        let judged = self.look(start).and_then(|()| self.judge(Some(end)));
        if judged.is_err() {
            // What follows a refused commit may take long.
            self.unlock_dependencies();
        }
        judged
    }

    /// Whether a commit that was called off is to take another place, because its last look would
    /// have taken too long. It has looked again, without a place, then.
    ///
    /// # Errors
    /// What that look has found.
    pub(in crate::transaction) fn looks_again(&mut self) -> Result<bool> {
        self.tries += 1;
        self.in_place = false;
        if !std::mem::take(&mut self.too_much) {
            return Ok(false);
        }
        self.look_first()?;
        Ok(true)
    }

    /// The commit of a transaction that wrote nothing.
    pub(in crate::transaction) fn finish_reading(mut self) -> Result<()> {
        let Some(reads) = self.reads.take() else { return Ok(()) };
        if self.level == IsolationLevel::Serializable {
            self.record_reads_in_parts(&reads);
            // A commit that was judged already and overwrites what was read must be seen.
            let last = lock(&self.core.isolation.dependencies).last_commit();
            self.core.storage.log.wait_published(last);
            sync_point("reads recorded");
        }
        let snapshot = self.core.register_snapshot();
        let looked = match self.level {
            IsolationLevel::Serializable => self.note_read_conflicts(&reads, snapshot.sequence),
            _ => self.look_at_reads(&reads, snapshot.sequence),
        };
        self.core.release_snapshot(snapshot);
        looked?;
        if self.level == IsolationLevel::Serializable {
            self.read_conflicts.commits.sort();
            self.dependencies = Some(self.dependencies());
            // Its reads are recorded already.
            drop(reads);
            self.judge(None)?;
        }
        Ok(())
    }

    /// Records what was read by a transaction that wrote nothing. The lock is given back every now
    /// and then: others wait for it when they begin, and when they are judged.
    fn record_reads_in_parts(&self, reads: &ReadSet) {
        let candidate = Candidate {
            snapshot: self.snapshot.sequence,
            commit: None,
            conflicts: &OutConflicts::default(),
        };
        let limit = self.dependencies().record(candidate);
        if let Some(limit) = limit {
            record_in_parts(self.core, reads, limit);
        }
    }

    /// Records what a commit has read that was too much to be recorded when it was judged.
    pub(in crate::transaction) fn finish_recording(&mut self) {
        let (Some(limit), Some(reads)) = (self.recording.take(), &self.reads) else { return };
        record_in_parts(self.core, reads, limit);
        self.dependencies().end_recording(limit);
    }

    /// The dependencies, with the memory that they may take now.
    fn dependencies(&self) -> LockedDependencies<'t> {
        LockedDependencies::lock(self.core)
    }

    /// Waits for the commits in front of `start` that may have changed what is looked at. Until
    /// serializable commits are judged all of those must be visible.
    fn wait_for_conflicting(&self, start: u64) {
        let signature = match (self.level, &self.reads) {
            (IsolationLevel::Serializable, _) => ANY_KEY,
            (IsolationLevel::RepeatableRead, Some(reads)) => reads.signature(),
            _ => self.write_conflicts.as_ref().map_or(0, WriteConflicts::signature),
        };
        wait_for_conflicting(&self.core.storage.log, start, signature);
    }

    /// Looks at what was published since the last look, up to `through`.
    pub(super) fn look(&mut self, through: SequenceNumber) -> Result<()> {
        let looked = match &mut self.write_conflicts {
            Some(conflicts) if self.in_place => conflicts.look_with_lock(through)?,
            Some(conflicts) => conflicts.look(through).map(|()| true)?,
            None => true,
        };
        if !looked {
            let reason = self.give_place_back()?;
            let some_key = self.write_conflicts.as_ref();
            let refused = some_key.map(|conflicts| conflicts.conflict_at_some_key(reason));
            return Err(refused.unwrap_or_else(|| Error::Internal(reason.to_owned())));
        }
        let Some(reads) = self.reads.take() else { return Ok(()) };
        let looked = match self.level {
            IsolationLevel::RepeatableRead => self.look_at_reads(&reads, through),
            IsolationLevel::Serializable => self.note_read_conflicts(&reads, through),
            _ => Ok(()),
        };
        self.reads = Some(reads);
        looked
    }

    /// Has the commit look again without a place, since its second look would take too long. Why it
    /// is refused, if it has done so too often.
    ///
    /// # Errors
    /// One that no caller sees, when it begins again.
    pub(super) fn give_place_back(&mut self) -> Result<&'static str> {
        self.dependencies = None;
        let holds_value_logs = self.batch.is_some_and(|batch| !batch.direct.is_empty());
        let most_tries = if holds_value_logs { MOST_TRIES_WITH_VALUES } else { MOST_TRIES };
        self.too_much = self.tries < most_tries;
        if self.too_much {
            return Err(Error::Internal("a look at so many keys takes too long".to_owned()));
        }
        Ok("too much was committed while the many keys that it has read or written were looked at")
    }

    /// Serializable: notes who has changed what was read.
    fn note_read_conflicts(&mut self, reads: &ReadSet, through: SequenceNumber) -> Result<()> {
        let window = Window { since: self.read_conflicts.through, through };
        let alone = match &self.dependencies {
            Some(dependencies) => dependencies.is_alone(),
            None => lock(&self.core.isolation.dependencies).is_alone(),
        };
        // Others wait then, whatever was read and however often this commit had to begin again.
        let held = self.dependencies.is_some();
        // If another joins before the last look, that one looks at everything: one that had to give
        // its place back for that does not leave it to the last look again.
        let spared = alone && !self.reads_must_stand && (held || self.tries == 0);
        if spared || window.is_empty() {
            return Ok(());
        }
        let bounds = if held { Bounds::WAITED_FOR } else { Bounds::ALONE };
        // What a long look has seen need not be looked at once more.
        let logged_first =
            self.read_conflicts.through > self.snapshot.sequence && self.read_conflicts.is_wide;
        let (storage, of) = (&self.core.storage, (reads, self.snapshot));
        let (log, blocks, within) = (&storage.log, &storage.files.blocks, (window, bounds));
        let overwritten = &mut self.read_conflicts;
        let noted = (logged_first && overwritten.note_logged(log, of, within))
            || overwritten.note_versions(blocks, of, within)?
            || (held && !logged_first && overwritten.note_logged(log, of, within));
        #[cfg(test)]
        if held {
            crate::transaction::tests::steps::note_waited_for(overwritten.looked_at);
        }
        if self.reads_must_stand && !self.read_conflicts.commits.is_empty() {
            self.dependencies = None;
            let reason = "another commit has changed what it has read";
            return Err(self.serialization_conflict_at(self.read_conflicts.first.clone(), reason));
        }
        if noted {
            self.read_conflicts.through = through;
            return Ok(());
        }
        let reason = self.give_place_back()?;
        Err(self.serialization_conflict_at(self.read_conflicts.some_place(reads), reason))
    }

    /// Serializable: refuses a commit that could close a cycle, and records others.
    fn judge(&mut self, commit: Option<SequenceNumber>) -> Result<()> {
        sync_point("to be judged");
        let Some(mut dependencies) = self.dependencies.take() else { return Ok(()) };
        let (snapshot, conflicts) = (self.snapshot.sequence, &self.read_conflicts.commits);
        #[cfg(test)]
        crate::transaction::tests::steps::note_waited_for(conflicts.unsorted() as u64);
        let candidate = Candidate { snapshot, commit, conflicts };
        let many = self.write_conflicts.as_ref().and_then(WriteConflicts::keys);
        let danger = if let Some(many) = many {
            dependencies.dangerous_structure_of_many(candidate, many.as_slice())
        } else {
            let operations = self.batch.into_iter().flat_map(WriteBatch::operations);
            let written = operations.map(|operation| (operation.family, operation.key));
            dependencies.dangerous_structure(candidate, written)
        };
        if let Some(danger) = danger {
            drop(dependencies);
            return Err(self.serialization_conflict(danger));
        }
        // One that only read was recorded before it looked.
        if commit.is_none() {
            return Ok(());
        }
        let (Some(limit), Some(reads)) = (dependencies.record(candidate), &self.reads) else {
            return Ok(());
        };
        if is_long(reads) {
            // All others wait for this one now: for the lock, and for its place in the log.
            dependencies.begin_recording(limit);
            self.recording = Some(limit);
        } else {
            record_at_once(&mut dependencies, reads, limit);
        }
        Ok(())
    }

    #[cold]
    fn serialization_conflict(&self, danger: DangerousStructure<'_>) -> Error {
        let (place, reason) = match danger {
            DangerousStructure::MeetsPivot => {
                let reason = "it has read the key, which others have changed since, and no order of \
                    the serializable transactions would explain what it has read";
                (self.read_conflicts.first.clone(), reason)
            }
            DangerousStructure::IsPivot { family, key } => {
                let family = self.batch.and_then(|batch| batch.families.find(family));
                let reason = "others have read the key, which it writes, and changed what it has \
                    read, and no order of the serializable transactions would explain both";
                (family.map(|family| named(family, key)), reason)
            }
        };
        self.serialization_conflict_at(place, reason)
    }

    fn serialization_conflict_at(
        &self,
        place: Option<(String, Vec<u8>)>,
        reason: &'static str,
    ) -> Error {
        // ORDERING: a statistic.
        self.core.telemetry.counters.serialization_conflicts.fetch_add(1, Ordering::Relaxed);
        let (family, key) = place.unwrap_or_default();
        Error::Conflict { family, key, reason }
    }

    pub(super) fn conflict(&self, family: &FamilyState, key: &[u8], reason: &'static str) -> Error {
        conflict(self.core, family, key, reason)
    }
}
