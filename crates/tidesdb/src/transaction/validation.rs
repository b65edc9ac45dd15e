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
//! A commit that wrote nothing has no place in the log. It looks once, at a moment for which it
//! registers a snapshot: the views of its families are loaded one after the other, and without the
//! snapshot a flush in between could drop the change that it looks for, because a newer one hides
//! it. At serializable it first has its reads recorded (`recording`). A transaction that is judged
//! later meets them; one that was judged before is visible at the moment of the look.
//!
//! | level | wrote | looks at | when | lock of the dependencies |
//! |---|---|---|---|---|
//! | repeatable read | yes | what it read | before its place, and in it | - |
//! | repeatable read | no | what it read | once | - |
//! | snapshot | yes | what it wrote | before its place, and in it | - |
//! | serializable, nothing read | yes | what it wrote | before its place, and in it | - |
//! | serializable | yes | what it wrote and read | before its place, and in it | second look, judgement |
//! | serializable | no | what it read | once | recording in parts, judgement |
//!
//! Other commits are not checked.

use std::sync::MutexGuard;
use std::sync::atomic::Ordering;

use tidesdb_base::entry::SequenceNumber;
use tidesdb_base::error::{Error, Result};
use tidesdb_lockfree::sync::lock;

use super::IsolationLevel;
use super::changes::{Window, changes_of_key, changes_of_range, deletion_in_range};
use super::handle::{State, Transaction};
use super::range_index::RangeIndex;
use super::read_set::ReadSet;
use super::recording::{Remembered, is_long, record_at_once, record_in_parts};
use super::second_look::{
    MOST_KEYS, MOST_LOGGED_BYTES, MOST_TRIES, MOST_WAITED_FOR_BYTES, logged_changes,
};
use super::views::Views;
use crate::core::Core;
use crate::dependencies::{Candidate, Danger, Overwritten};
use crate::family::FamilyState;
use crate::log::{ANY_KEY, Log};
use crate::moments::Moment;
use crate::write::{CommitCheck, Unchecked, Visible, WriteBatch, WriteOptions};

impl Transaction {
    /// Makes all writes visible at once and as durable as the sync mode says, and finishes the
    /// transaction. Answers the sequence number of the commit; none when nothing was written.
    ///
    /// # Errors
    /// `Conflict` as the isolation level demands, `Invalid` for a finished transaction, `Closed`,
    /// `Full`, `Io`, `ReadOnly`: nothing was written, and the transaction is as it was. Only after
    /// `Doubtful` the commit is visible, and stays so: committing again tries to make it durable,
    /// and all else but a rollback, which only lets go of the memory, is refused.
    #[inline]
    pub fn commit(&mut self) -> Result<Option<u64>> {
        self.commit_with(WriteOptions::default())
    }

    /// As [`Transaction::commit`], with a durability of its own.
    ///
    /// # Errors
    /// As [`Transaction::commit`].
    #[inline]
    pub fn commit_with(&mut self, options: WriteOptions) -> Result<Option<u64>> {
        if self.is_plain() {
            self.finish();
            return Ok(None);
        }
        if self.core().telemetry.watch.is_due() {
            self.commit_timed(options)
        } else {
            self.commit_changes(options)
        }
    }

    pub(super) fn commit_changes(&mut self, options: WriteOptions) -> Result<Option<u64>> {
        if !self.core().health.is_at_home() {
            return Err(Error::Forked);
        }
        let (visible, again) = match self.state {
            State::Finished => return Err(Error::TransactionFinished),
            State::Visible(visible) => (Some(visible), true),
            State::Active => (self.make_visible()?, false),
        };
        if let (Some(visible), Some(writes)) = (visible, &self.writes) {
            self.state = State::Visible(visible);
            let (core, batch) = (self.core(), writes.batch());
            if again {
                // Hooks have been called.
                core.make_batch_durable(batch, visible, options)?;
            } else {
                core.settle_batch(batch, visible, options)?;
            }
        }
        self.finish();
        Ok(visible.map(|visible| visible.sequence))
    }

    fn make_visible(&self) -> Result<Option<Visible>> {
        match (&self.writes, self.snapshot) {
            (Some(writes), None) if !writes.is_empty() => {
                self.core().commit_batch(writes.batch(), &mut Unchecked).map(Some)
            }
            (_, None) => Ok(None),
            (_, Some(snapshot)) => self.check_and_commit(snapshot),
        }
    }

    #[inline(never)]
    fn check_and_commit(&self, snapshot: Moment) -> Result<Option<Visible>> {
        let batch = self.writes.as_deref().map(super::write_set::WriteSet::batch);
        let batch = batch.filter(|batch| !batch.is_empty());
        // A scan that outlives the transaction reads before the commit or after it.
        let reads = self.reads.get().map(|reads| lock(reads));
        let core = self.core();
        if let Some(batch) = batch
            && self.level.checks_writes()
            && reads.as_ref().is_none_or(|reads| reads.is_empty())
        {
            let mut check = WrittenKeys { core, batch, through: snapshot.sequence };
            check.look(core.storage.log.published())?;
            return core.commit_batch(batch, &mut check).map(Some);
        }
        let mut check = Validation::new(core, self.level, snapshot, batch, reads);
        match batch {
            Some(batch) => {
                let committed = loop {
                    check.look(core.storage.log.published())?;
                    check.catch_up()?;
                    let committed = core.commit_batch(batch, &mut check);
                    if !check.begin_again() {
                        break committed;
                    }
                };
                check.finish_recording();
                committed.map(Some)
            }
            None => check.finish_reading().map(|()| None),
        }
    }
}

/// First committer wins: no other commit may have changed a written key.
struct WrittenKeys<'t> {
    core: &'t Core,
    batch: &'t WriteBatch,
    /// Changes up to here were looked for.
    through: SequenceNumber,
}

impl CommitCheck for WrittenKeys<'_> {
    #[inline]
    fn before_reserving(&mut self) {}

    #[inline]
    fn check(&mut self, start: u64, _end: SequenceNumber) -> Result<()> {
        if start > self.through {
            wait_for_rivals(&self.core.storage.log, start, self.batch.signature);
            self.look(start)?;
        }
        Ok(())
    }
}

impl WrittenKeys<'_> {
    /// Looks at what was published since the last look, up to `through`.
    #[inline]
    fn look(&mut self, through: SequenceNumber) -> Result<()> {
        let window = Window { since: self.through, through };
        if window.is_empty() {
            return Ok(());
        }
        self.through = through;
        self.look_at_keys(window)
    }

    #[inline(never)]
    fn look_at_keys(&self, window: Window) -> Result<()> {
        let mut views = Views::new(&self.batch.families);
        for operation in self.batch.operations() {
            let Some(family) = views.enter(operation.family) else { continue };
            let mut newest = None;
            changes_of_key(
                &self.core.storage.files.blocks,
                family.view(),
                operation.key,
                window,
                |change| {
                    newest = Some(change);
                    false
                },
            )?;
            if newest.is_some() {
                return Err(conflict(
                    self.core,
                    family.state,
                    operation.key,
                    "somebody else has changed a key that it writes",
                ));
            }
        }
        Ok(())
    }
}

/// Waits for the commits in front of `start` that may touch what `signature` stands for.
fn wait_for_rivals(log: &Log, start: u64, signature: u64) {
    match signature {
        0 => {}
        ANY_KEY => log.wait_published(start),
        some => log.wait_for_rivals(start, some),
    }
}

/// A family's name and the key that is stored as `key`, for an error.
fn named(family: &FamilyState, key: &[u8]) -> (String, Vec<u8>) {
    (family.name().to_string(), family.keys.order.key(key))
}

/// A conflict at a stored key.
fn conflict(core: &Core, family: &FamilyState, key: &[u8], reason: &'static str) -> Error {
    // ORDERING: a statistic.
    core.telemetry.counters.transaction_conflicts.fetch_add(1, Ordering::Relaxed);
    let (family, key) = named(family, key);
    Error::Conflict { family, key, reason }
}

// More than a dozen fields: all that one commit learns from its two looks.
/// The checks of a commit that has read, or only read.
struct Validation<'t> {
    core: &'t Core,
    level: IsolationLevel,
    snapshot: Moment,
    batch: Option<&'t WriteBatch>,
    /// At the levels that mind.
    written: Option<WrittenKeys<'t>>,
    reads: Option<MutexGuard<'t, ReadSet>>,
    /// Changes of what was read were looked for up to here.
    reads_through: SequenceNumber,
    overwritten: Overwritten,
    dependencies: Option<Remembered<'t>>,
    /// The first key that was read and found overwritten, with its family's name.
    first_overwritten: Option<(String, Vec<u8>)>,
    /// The limit of reads that are to be recorded after the commit.
    recording: Option<SequenceNumber>,
    /// The ranges among the reads, sorted when that is worth it.
    ranges: Option<RangeIndex>,
    /// So much was read that a look at all of it takes long.
    is_wide: bool,
    /// The second look would have taken too long, and the place was given back.
    too_much: bool,
    tries: u32,
}

impl CommitCheck for Validation<'_> {
    fn before_reserving(&mut self) {
        if self.level == IsolationLevel::Serializable {
            self.dependencies = Some(Remembered::lock(self.core));
        }
    }

    fn check(&mut self, start: u64, end: SequenceNumber) -> Result<()> {
        let looked = self.written.as_ref().map_or(u64::MAX, |written| written.through);
        if start > looked.min(self.reads_through) {
            self.wait_for_rivals(start);
        }
        self.look(start)?;
        self.judge(Some(end))
    }
}

impl<'t> Validation<'t> {
    fn new(
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
            written: checked.map(|batch| WrittenKeys { core, batch, through: snapshot.sequence }),
            reads,
            reads_through: snapshot.sequence,
            overwritten: Overwritten::default(),
            dependencies: None,
            first_overwritten: None,
            recording: None,
            ranges: None,
            is_wide: false,
            too_much: false,
            tries: 0,
        }
    }

    /// Serializable: looks at what came in during a long look, as long as that is much.
    fn catch_up(&mut self) -> Result<()> {
        for _ in 0..MOST_TRIES {
            if !self.is_wide {
                break;
            }
            let published = self.core.storage.log.published();
            let since = self.reads_through.max(self.snapshot.sequence);
            if published.saturating_sub(since) <= MOST_WAITED_FOR_BYTES / 4 {
                break;
            }
            self.look(published)?;
        }
        Ok(())
    }

    /// Whether the commit failed only because its second look would have taken too long.
    fn begin_again(&mut self) -> bool {
        self.tries += 1;
        std::mem::take(&mut self.too_much)
    }

    /// The commit of a transaction that wrote nothing.
    fn finish_reading(mut self) -> Result<()> {
        let Some(reads) = self.reads.take() else { return Ok(()) };
        if self.level == IsolationLevel::Serializable {
            self.record_reads_in_parts(&reads);
            // A commit that was judged already and overwrites what was read must be seen.
            let last = lock(&self.core.isolation.dependencies).last_commit();
            self.core.storage.log.wait_published(last);
        }
        let moment = self.core.register_snapshot();
        let looked = match self.level {
            IsolationLevel::Serializable => self.note_overwritten(&reads, moment.sequence),
            _ => self.look_at_reads(&reads, moment.sequence),
        };
        self.core.release_snapshot(moment);
        looked?;
        if self.level == IsolationLevel::Serializable {
            self.overwritten.sort();
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
    fn finish_recording(&mut self) {
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
    fn wait_for_rivals(&self, start: u64) {
        let signature = match (self.level, &self.reads) {
            (IsolationLevel::Serializable, _) => ANY_KEY,
            (IsolationLevel::RepeatableRead, Some(reads)) => reads.signature(),
            _ => self.written.as_ref().map_or(0, |written| written.batch.signature),
        };
        wait_for_rivals(&self.core.storage.log, start, signature);
    }

    /// Looks at what was published since the last look, up to `through`.
    fn look(&mut self, through: SequenceNumber) -> Result<()> {
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

    /// Repeatable read: no other commit may have changed a key that was read and found.
    fn look_at_reads(&mut self, reads: &ReadSet, through: SequenceNumber) -> Result<()> {
        const REASON: &str = "somebody else has changed a key that it has read";
        let window = Window { since: self.reads_through, through };
        if window.is_empty() {
            return Ok(());
        }
        self.reads_through = through;
        let mut views = Views::new(reads.families());
        for (family, key) in reads.points() {
            let Some(family) = views.enter(family) else { continue };
            let mut newest = None;
            changes_of_key(
                &self.core.storage.files.blocks,
                family.view(),
                key,
                window,
                |change| {
                    newest = Some(change);
                    false
                },
            )?;
            if newest.is_some() {
                return Err(self.conflict(family.state, key, REASON));
            }
        }
        for range in reads.ranges() {
            let Some(family) = views.enter(range.family) else { continue };
            // Whether it found any of the keys is not asked: such a deletion is rare.
            if deletion_in_range(family.view(), range, window).is_some() {
                return Err(self.conflict(family.state, &range.start, REASON));
            }
            let dead = family.dead_before(window, self.snapshot);
            let mut all = u64::MAX;
            let (view, within) = (family.view(), (&dead, &mut all));
            changes_of_range(
                &self.core.storage.files.blocks,
                view,
                range,
                window,
                within,
                |key, _| {
                    let was_there =
                        self.core.get_stored(family.state, Some(self.snapshot), key, |_| ())?;
                    match was_there {
                        Some(()) => Err(self.conflict(family.state, key, REASON)),
                        None => Ok(()),
                    }
                },
            )?;
        }
        Ok(())
    }

    /// Serializable: notes who has changed what was read.
    fn note_overwritten(&mut self, reads: &ReadSet, through: SequenceNumber) -> Result<()> {
        let window = Window { since: self.reads_through, through };
        let alone = match &self.dependencies {
            Some(dependencies) => dependencies.is_alone(),
            None => lock(&self.core.isolation.dependencies).is_alone(),
        };
        // If another joins before the last look, that one looks at everything.
        if alone || window.is_empty() {
            return Ok(());
        }
        let others_wait = self.dependencies.is_some() && self.tries < MOST_TRIES;
        let budget = if others_wait { MOST_KEYS } else { u64::MAX };
        // What a long look has seen need not be looked at once more.
        let logged_first = self.reads_through > self.snapshot.sequence && self.is_wide;
        let noted = (logged_first && self.note_logged(reads, window))
            || self.note_versions(reads, window, budget)?
            || (others_wait && !logged_first && self.note_logged(reads, window));
        if noted {
            self.reads_through = through;
            return Ok(());
        }
        self.too_much = true;
        self.dependencies = None;
        Err(Error::Internal("a look at what was read takes too long".to_owned()))
    }

    /// As [`Validation::note_overwritten`], from what was logged. False when that does not tell it.
    fn note_logged(&mut self, reads: &ReadSet, window: Window) -> bool {
        let ranges = self.ranges.get_or_insert_with(|| RangeIndex::of(reads));
        let held = self.dependencies.is_some();
        let most_bytes = if held { MOST_WAITED_FOR_BYTES } else { MOST_LOGGED_BYTES };
        let (overwritten, first) = (&mut self.overwritten, &mut self.first_overwritten);
        let (of, bounds) = ((reads, &*ranges), (window, most_bytes));
        logged_changes(&self.core.storage.log, of, bounds, self.snapshot, |id, key, sequence| {
            if first.is_none() {
                let family = reads.families().iter().find(|family| family.id == id);
                *first = family.map(|family| named(family, key));
            }
            overwritten.add(sequence, false);
        })
    }

    /// As [`Validation::note_overwritten`], from the versions of what was read. False when that is
    /// more than `most` keys.
    fn note_versions(&mut self, reads: &ReadSet, window: Window, most: u64) -> Result<bool> {
        let mut budget = most;
        let mut views = Views::new(reads.families());
        for (family, key) in reads.points() {
            let Some(left) = budget.checked_sub(1) else { return Ok(false) };
            budget = left;
            let Some(family) = views.enter(family) else { continue };
            let (overwritten, first) = (&mut self.overwritten, &mut self.first_overwritten);
            changes_of_key(
                &self.core.storage.files.blocks,
                family.view(),
                key,
                window,
                |change| {
                    first.get_or_insert_with(|| named(family.state, key));
                    overwritten.add(change.sequence, change.hides);
                    true
                },
            )?;
        }
        for range in reads.ranges() {
            let Some(family) = views.enter(range.family) else { continue };
            if let Some(change) = deletion_in_range(family.view(), range, window) {
                let named = || named(family.state, &range.start);
                self.first_overwritten.get_or_insert_with(named);
                self.overwritten.add(change.sequence, change.hides);
            }
            let dead = family.dead_before(window, self.snapshot);
            let (overwritten, first) = (&mut self.overwritten, &mut self.first_overwritten);
            let (view, within) = (family.view(), (&dead, &mut budget));
            let all = changes_of_range(
                &self.core.storage.files.blocks,
                view,
                range,
                window,
                within,
                |key, change| {
                    first.get_or_insert_with(|| named(family.state, key));
                    overwritten.add(change.sequence, change.hides);
                    Ok(())
                },
            )?;
            if !all {
                return Ok(false);
            }
        }
        self.is_wide |= most - budget > MOST_KEYS;
        Ok(true)
    }

    /// Serializable: refuses a commit that could close a cycle, and records others.
    fn judge(&mut self, commit: Option<SequenceNumber>) -> Result<()> {
        let Some(mut dependencies) = self.dependencies.take() else { return Ok(()) };
        let (snapshot, overwritten) = (self.snapshot.sequence, &self.overwritten);
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
        // ORDERING: a statistic.
        self.core.telemetry.counters.serialization_conflicts.fetch_add(1, Ordering::Relaxed);
        let (family, key, reason) = match danger {
            Danger::MeetsPivot => {
                let (family, key) = self.first_overwritten.clone().unwrap_or_default();
                let reason = "it has read the key, which others have changed since, and no order of \
                    the serializable transactions would explain what it has read";
                (family, key, reason)
            }
            Danger::IsPivot { family, key } => {
                let families = self.batch.map_or(&[][..], |batch| &batch.families);
                let family = families.iter().find(|known| known.id == family);
                let reason = "others have read the key, which it writes, and changed what it has \
                    read, and no order of the serializable transactions would explain both";
                let (family, key) = family.map(|family| named(family, key)).unwrap_or_default();
                (family, key, reason)
            }
        };
        Error::Conflict { family, key, reason }
    }

    fn conflict(&self, family: &FamilyState, key: &[u8], reason: &'static str) -> Error {
        conflict(self.core, family, key, reason)
    }
}
