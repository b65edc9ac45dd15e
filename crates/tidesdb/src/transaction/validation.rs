//! Committing a transaction: what is checked, and when.
//!
//! A commit is checked twice. First before it takes its place in the log, against everything
//! published by then; most conflicts end here and cost other threads nothing. Then, with its place
//! taken, against what came in between: it waits until every commit in front of it is complete
//! that may touch the same keys, which none of those does for one behind itself, and looks at
//! versions that are newer than the first look and older than itself. Between two such commits no
//! third can slip in, so the first committer wins whatever the others are: transactions, batches
//! or single puts. A conflict found at the second look leaves a void record.
//!
//! Serializable commits that have read take the lock of the dependencies before they take their
//! place and give it back before they write: they are judged one at a time, in the order of their
//! sequence numbers. One that only wrote can only be the last of a dangerous row, like a plain
//! write, which others find in the data: it is checked as at snapshot.
//!
//! A commit that wrote nothing has no place in the log and looks once. It registers a snapshot for
//! the moment of its look, and so does a serializable commit for its first one: the views of its
//! families are loaded one after the other, and without the snapshot a flush in between could drop
//! the change that it looks for, because a newer one hides it. A serializable one that wrote
//! nothing first has its reads recorded (`recording`). A transaction that is judged later meets
//! them; one that was judged before is visible at the moment of the look.
//!
//! | level | wrote | looks at | when | lock of the dependencies |
//! |---|---|---|---|---|
//! | repeatable read | yes | what it read | before its place, and in it | - |
//! | repeatable read | no | what it read | once | - |
//! | snapshot | yes | what it wrote | before its place, and in it | - |
//! | serializable, nothing read | yes | what it wrote | before its place, and in it | - |
//! | serializable | yes | what it wrote and read | before its place, in it | second look, judgement |
//! | serializable | no | what it read | once | recording in parts, judgement |
//!
//! A serializable transaction may ask for its reads to stand: it conflicts, whether or not it would
//! be judged dangerous, as soon as a look finds that others have changed something that it read.
//!
//! Other commits are not checked.

use std::sync::MutexGuard;
use std::sync::atomic::Ordering;

use tidesdb_base::entry::SequenceNumber;
use tidesdb_base::error::{Error, Result};
use tidesdb_lockfree::snapshot_registry::Moment;
use tidesdb_lockfree::sync::lock;
use tidesdb_sys::steps::step;

use super::IsolationLevel;
use super::changes::Window;
use super::overwritten_reads::OverwrittenReads;
use super::read_set::ReadSet;
use super::recording::{Remembered, is_long, record_at_once, record_in_parts};
use super::second_look::{Bounds, MOST_TRIES, MOST_WAITED_FOR_BYTES};
use super::written_keys::{WrittenKeys, conflict, named, wait_for_conflicting};
use crate::core::Core;
use crate::family::FamilyState;
use crate::ssi::{Candidate, Danger, Overwritten};
use crate::wal::ANY_KEY;
use crate::write::{CommitCheck, WriteBatch};

/// The checks of a commit that has read, or only read.
// More than a dozen fields: the state of one commit from its first look to its judgement.
pub(super) struct Validation<'t> {
    pub(super) core: &'t Core,
    level: IsolationLevel,
    pub(super) snapshot: Moment,
    batch: Option<&'t WriteBatch>,
    /// At the levels that mind.
    written: Option<WrittenKeys<'t>>,
    reads: Option<MutexGuard<'t, ReadSet>>,
    pub(super) overwritten: OverwrittenReads,
    /// Serializable: what was read and then overwritten is a conflict by itself.
    pub(super) reads_must_stand: bool,
    dependencies: Option<Remembered<'t>>,
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

impl CommitCheck for Validation<'_> {
    fn before_reserving(&mut self) {
        if self.level == IsolationLevel::Serializable {
            self.dependencies = Some(Remembered::lock(self.core));
        }
    }

    fn without_place(&mut self) {
        self.dependencies = None;
    }

    fn check(&mut self, start: u64, end: SequenceNumber) -> Result<()> {
        let checked = self.check_in_place(start, end);
        if checked.is_err() {
            // What the caller cleans up may take long.
            self.dependencies = None;
        }
        checked
    }

    /// Only if the second look would have taken too long.
    fn looks_again(&mut self) -> Result<bool> {
        self.tries += 1;
        self.in_place = false;
        if !std::mem::take(&mut self.too_much) {
            return Ok(false);
        }
        self.look_first()?;
        Ok(true)
    }
}

impl<'t> Validation<'t> {
    fn check_in_place(&mut self, start: u64, end: SequenceNumber) -> Result<()> {
        let looked = self.written.as_ref().map_or(u64::MAX, WrittenKeys::through);
        if start > looked.min(self.overwritten.through) {
            self.wait_for_conflicting(start);
        }
        self.in_place = true;
        self.look(start)?;
        self.judge(Some(end))
    }

    pub(super) fn new(
        core: &'t Core,
        level: IsolationLevel,
        snapshot: Moment,
        batch: Option<&'t WriteBatch>,
        reads: Option<MutexGuard<'t, ReadSet>>,
    ) -> Self {
        let checked = batch.filter(|_| level.checks_writes());
        Self {
            core,
            level,
            snapshot,
            batch,
            written: checked.map(|batch| WrittenKeys::new(core, batch, snapshot.sequence)),
            reads,
            overwritten: OverwrittenReads::after(snapshot.sequence),
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
    pub(super) fn look_first(&mut self) -> Result<()> {
        self.look_outside()?;
        while self.overwritten.is_wide && self.catch_ups < MOST_TRIES {
            let published = self.core.storage.log.published();
            let since = self.overwritten.through.max(self.snapshot.sequence);
            if published.saturating_sub(since) <= MOST_WAITED_FOR_BYTES / 4 {
                break;
            }
            self.catch_ups += 1;
            self.look_outside()?;
        }
        step("looked");
        Ok(())
    }

    /// Looks at what was published since the last look, without a place in the log.
    ///
    /// Where reads are looked at, with a snapshot at the end of the look. Without, a flush could
    /// drop a change that the look has still to meet, because a newer one hides it. The second look
    /// would meet that one, unless a scan in between has found the key dead and remembers its
    /// range. And at serializable the age of the oldest change decides (I-289).
    pub(super) fn look_outside(&mut self) -> Result<()> {
        if !self.level.tracks_reads() {
            return self.look(self.core.storage.log.published());
        }
        let moment = self.core.register_snapshot();
        step("snapshot of a look");
        let looked = self.look(moment.sequence);
        self.core.release_snapshot(moment);
        looked
    }

    /// The commit of a transaction that wrote nothing.
    pub(super) fn finish_reading(mut self) -> Result<()> {
        let Some(reads) = self.reads.take() else { return Ok(()) };
        if self.level == IsolationLevel::Serializable {
            self.record_reads_in_parts(&reads);
            // A commit that was judged already and overwrites what was read must be seen.
            let last = lock(&self.core.isolation.dependencies).last_commit();
            self.core.storage.log.wait_published(last);
            step("reads recorded");
        }
        let moment = self.core.register_snapshot();
        let looked = match self.level {
            IsolationLevel::Serializable => self.note_overwritten(&reads, moment.sequence),
            _ => self.look_at_reads(&reads, moment.sequence),
        };
        self.core.release_snapshot(moment);
        looked?;
        if self.level == IsolationLevel::Serializable {
            self.overwritten.commits.sort();
            self.before_reserving();
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
            overwritten: &Overwritten::default(),
        };
        let limit = self.dependencies().record(candidate);
        if let Some(limit) = limit {
            record_in_parts(self.core, reads, limit);
        }
    }

    /// Records what a commit has read that was too much to be recorded when it was judged.
    pub(super) fn finish_recording(&mut self) {
        let (Some(limit), Some(reads)) = (self.recording.take(), &self.reads) else { return };
        record_in_parts(self.core, reads, limit);
        self.dependencies().end_recording(limit);
    }

    /// The dependencies, with the memory that they may take now.
    fn dependencies(&self) -> Remembered<'t> {
        Remembered::lock(self.core)
    }

    /// Waits for the commits in front of `start` that may have changed what is looked at. Until
    /// serializable commits are judged all of those must be visible.
    fn wait_for_conflicting(&self, start: u64) {
        let signature = match (self.level, &self.reads) {
            (IsolationLevel::Serializable, _) => ANY_KEY,
            (IsolationLevel::RepeatableRead, Some(reads)) => reads.signature(),
            _ => self.written.as_ref().map_or(0, WrittenKeys::signature),
        };
        wait_for_conflicting(&self.core.storage.log, start, signature);
    }

    /// Looks at what was published since the last look, up to `through`.
    pub(super) fn look(&mut self, through: SequenceNumber) -> Result<()> {
        if let Some(written) = &mut self.written {
            written.look(through)?;
        }
        let Some(reads) = self.reads.take() else { return Ok(()) };
        let looked = match self.level {
            IsolationLevel::RepeatableRead => self.look_at_reads(&reads, through),
            IsolationLevel::Serializable => self.note_overwritten(&reads, through),
            _ => Ok(()),
        };
        self.reads = Some(reads);
        looked
    }

    /// Has the commit begin again, with nothing held, since its second look would take too long.
    /// Why it is refused, if it has done so too often.
    ///
    /// # Errors
    /// One that no caller sees, when it begins again.
    pub(super) fn give_place_back(&mut self) -> Result<&'static str> {
        self.dependencies = None;
        self.too_much = self.tries < MOST_TRIES;
        if self.too_much {
            return Err(Error::Internal("a look at what was read takes too long".to_owned()));
        }
        Ok("too much was committed while the many keys that it has read were looked at")
    }

    /// Serializable: notes who has changed what was read.
    fn note_overwritten(&mut self, reads: &ReadSet, through: SequenceNumber) -> Result<()> {
        let window = Window { since: self.overwritten.through, through };
        let alone = match &self.dependencies {
            Some(dependencies) => dependencies.is_alone(),
            None => lock(&self.core.isolation.dependencies).is_alone(),
        };
        // If another joins before the last look, that one looks at everything.
        if (alone && !self.reads_must_stand) || window.is_empty() {
            return Ok(());
        }
        // Others wait then, whatever was read and however often this commit had to begin again.
        let held = self.dependencies.is_some();
        let bounds = if held { Bounds::WAITED_FOR } else { Bounds::ALONE };
        // What a long look has seen need not be looked at once more.
        let logged_first =
            self.overwritten.through > self.snapshot.sequence && self.overwritten.is_wide;
        let (storage, of) = (&self.core.storage, (reads, self.snapshot));
        let (log, blocks, within) = (&storage.log, &storage.files.blocks, (window, bounds));
        let overwritten = &mut self.overwritten;
        let noted = (logged_first && overwritten.note_logged(log, of, within))
            || overwritten.note_versions(blocks, of, within)?
            || (held && !logged_first && overwritten.note_logged(log, of, within));
        #[cfg(test)]
        if held {
            super::tests::steps::note_waited_for(overwritten.looked_at);
        }
        if self.reads_must_stand && !self.overwritten.commits.is_empty() {
            self.dependencies = None;
            let reason = "another commit has changed what it has read";
            return Err(self.serialization_conflict_at(self.overwritten.first.clone(), reason));
        }
        if noted {
            self.overwritten.through = through;
            return Ok(());
        }
        let reason = self.give_place_back()?;
        Err(self.serialization_conflict_at(self.overwritten.some_place(reads), reason))
    }

    /// Serializable: refuses a commit that could close a cycle, and records others.
    fn judge(&mut self, commit: Option<SequenceNumber>) -> Result<()> {
        step("to be judged");
        let Some(mut dependencies) = self.dependencies.take() else { return Ok(()) };
        let (snapshot, overwritten) = (self.snapshot.sequence, &self.overwritten.commits);
        let candidate = Candidate { snapshot, commit, overwritten };
        let operations = self.batch.into_iter().flat_map(WriteBatch::operations);
        let written = operations.map(|operation| (operation.family, operation.key));
        if let Some(danger) = dependencies.danger(candidate, written) {
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
    fn serialization_conflict(&self, danger: Danger<'_>) -> Error {
        let (place, reason) = match danger {
            Danger::MeetsPivot => {
                let reason = "it has read the key, which others have changed since, and no order of \
                    the serializable transactions would explain what it has read";
                (self.overwritten.first.clone(), reason)
            }
            Danger::IsPivot { family, key } => {
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
