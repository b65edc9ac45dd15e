//! Committing a transaction: what its level has checked first, and what follows.

use std::sync::Arc;

use tidesdb_base::error::{Error, Result};
use tidesdb_lockfree::snapshot_registry::ReadPoint;
use tidesdb_lockfree::sync::lock;
use tidesdb_sys::sync_points::sync_point;

use super::conflicts::{Validation, WriteConflicts};
use super::handle::{State, Transaction};
use super::write_set::WriteSet;
use crate::telemetry::events::HeldEvents;
use crate::telemetry::timing::Named;
use crate::wal::Reservation;
use crate::write::{Prepared, Visible, WriteOptions};

impl Transaction {
    /// At [`IsolationLevel::Serializable`], whether the commit conflicts as soon as another one has
    /// changed anything that was read: a key, found or not, or one in a range that was scanned. It
    /// does not unless asked for, since mostly there is an order of the transactions that explains
    /// what was read. To be said before the commit; it is kept over [`Transaction::reset`].
    ///
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// use tidesdb::{Db, DbOptions, ErrorKind, FamilyOptions, IsolationLevel};
    /// let db = Db::open(directory.path(), DbOptions::default())?;
    /// let stock = db.open_family("stock", FamilyOptions::default())?;
    /// stock.put("apples", "3")?;
    /// let mut order = db.begin(IsolationLevel::Serializable)?;
    /// order.refuse_overwritten_reads(true);
    /// order.get(&stock, "apples")?;
    /// stock.put("apples", "0")?;
    /// assert_eq!(order.commit().unwrap_err().kind(), ErrorKind::Conflict);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub const fn refuse_overwritten_reads(&mut self, refuse: bool) {
        self.reads_must_stand = refuse;
    }

    /// Makes all writes visible at once and as durable as the sync mode says, and finishes the
    /// transaction. Returns the sequence number of the commit; none when nothing was written.
    ///
    /// # Errors
    /// `Conflict` as the isolation level demands, `Invalid` for a finished transaction, `Closed`,
    /// `Forked`, `Full`, `Io`, `LogFailed`, `Broken`, `ReadOnly`; `Stalled` when no flush makes
    /// progress for `stall_timeout_ms`. Nothing was written then, and the transaction is as it was.
    /// Only after `NotDurable` the commit is visible, and stays so: committing again tries to make
    /// it durable, and all else but a rollback, which only lets go of the memory, is refused.
    #[inline]
    pub fn commit(&mut self) -> Result<Option<u64>> {
        self.commit_with(WriteOptions::default())
    }

    /// As [`Transaction::commit`], with a durability of its own, and perhaps without a wait for
    /// background work.
    ///
    /// # Errors
    /// As [`Transaction::commit`].
    #[inline]
    pub fn commit_with(&mut self, options: WriteOptions) -> Result<Option<u64>> {
        let options = options.without_ttl()?;
        if self.is_plain() {
            self.finish();
            return Ok(None);
        }
        if self.core().telemetry.latencies.is_due() {
            self.commit_timed(options)
        } else {
            self.commit_changes(options)
        }
    }

    /// Commits, and times it.
    ///
    /// # Errors
    /// As [`Transaction::commit`].
    #[cold]
    fn commit_timed(&mut self, options: WriteOptions) -> Result<Option<u64>> {
        let core = Arc::clone(self.core());
        let batch = self.writes.as_deref().map(WriteSet::batch);
        let size = batch.map_or((0, 0), |batch| (batch.user_bytes, batch.count as u64));
        let family = batch.and_then(|batch| batch.families.first().cloned());
        let family = family.as_deref().map(|family| family as &dyn Named);
        core.telemetry.timed_commit(family, size, || self.commit_changes(options))
    }

    fn commit_changes(&mut self, options: WriteOptions) -> Result<Option<u64>> {
        if !self.core().health.is_opening_process() {
            return Err(Error::Forked);
        }
        let (visible, again) = match self.state {
            State::Finished => return Err(Error::TransactionFinished),
            State::Visible(visible) => (Some(visible), true),
            State::Active => (self.make_visible(options)?, false),
        };
        if let (Some(visible), Some(writes)) = (visible, &self.writes) {
            self.state = State::Visible(visible);
            let (core, batch) = (self.core(), writes.batch());
            if again {
                // Hooks have been called.
                core.make_batch_durable(batch, visible, options)?;
            } else {
                core.finish_commit(batch, visible, options)?;
            }
        }
        self.finish();
        Ok(visible.map(|visible| visible.sequence))
    }

    fn make_visible(&self, options: WriteOptions) -> Result<Option<Visible>> {
        match (&self.writes, self.read_point()) {
            (Some(writes), None) if !writes.is_empty() => {
                self.core().commit_batch(writes.batch(), options).map(Some)
            }
            (_, None) => Ok(None),
            (_, Some(snapshot)) => self.check_and_commit(snapshot, options),
        }
    }

    #[inline(never)]
    fn check_and_commit(
        &self,
        snapshot: ReadPoint,
        options: WriteOptions,
    ) -> Result<Option<Visible>> {
        // A look may be reported as slow, and others wait for its end: with its place in the log
        // taken a commit of the listener would wait for this one.
        let _reported_later = HeldEvents::new();
        let batch = self.writes.as_deref().map(WriteSet::batch);
        let batch = batch.filter(|batch| !batch.is_empty());
        // A scan that outlives the transaction reads before the commit or after it.
        let reads = self.reads.get().map(|reads| lock(reads));
        let core = self.core();
        if let Some(batch) = batch
            && self.level.checks_writes()
            && reads.as_ref().is_none_or(|reads| reads.is_empty())
        {
            let mut check = WriteConflicts::new(core, batch, snapshot.sequence);
            check.look(core.storage.log.published())?;
            sync_point("looked");
            let prepared = core.prepare(batch, options)?;
            check.catch_up()?;
            let place = take_place_at_once(&prepared, &mut check)?;
            return match check.look_in_place(place.range().0) {
                Ok(()) => prepared.commit_in(place).map(Some),
                Err(conflict) => Err(prepared.call_off(place, conflict)),
            };
        }
        let mut check = Validation::new(core, self.level, snapshot, batch, reads);
        check.reads_must_stand = self.reads_must_stand;
        match batch {
            Some(batch) => {
                check.look_first()?;
                let prepared = core.prepare(batch, options)?;
                let committed = commit_if_valid(prepared, &mut check);
                check.finish_recording();
                committed.map(Some)
            }
            None => check.finish_reading().map(|()| None),
        }
    }
}

/// Takes a place, where only what is written is looked at.
#[inline(always)]
fn take_place_at_once<'a>(
    prepared: &Prepared<'a>,
    check: &mut WriteConflicts<'_>,
) -> Result<Reservation<'a>> {
    loop {
        match prepared.try_take_place()? {
            Ok(place) => return Ok(place),
            Err(full) => {
                prepared.follow_segment(full)?;
                // What was logged in the segment before can't be read back in the place.
                check.catch_up()?;
            }
        }
    }
}

/// Steps 3 to 6 of a put, with the last look between taking the place and writing: in another place
/// each time that the check has to look again without one.
fn commit_if_valid(prepared: Prepared<'_>, check: &mut Validation<'_>) -> Result<Visible> {
    loop {
        let place = take_place(&prepared, check)?;
        match check.look_in_place(place.range()) {
            Ok(()) => return prepared.commit_in(place),
            Err(refused) => {
                let refused = prepared.call_off(place, refused);
                if !check.looks_again()? {
                    return Err(refused);
                }
            }
        }
    }
}

/// Takes a place with the lock of the dependencies, if the level has any. Others wait for that
/// lock, so files of the log are created and synced without it.
fn take_place<'a>(prepared: &Prepared<'a>, check: &mut Validation<'_>) -> Result<Reservation<'a>> {
    loop {
        check.lock_dependencies()?;
        match prepared.try_take_place() {
            Ok(Ok(place)) => return Ok(place),
            Ok(Err(full)) => {
                check.unlock_dependencies();
                prepared.follow_segment(full)?;
                // What was logged in the segment before can't be read back in the place.
                check.catch_up(0)?;
            }
            Err(refused) => {
                check.unlock_dependencies();
                return Err(refused);
            }
        }
    }
}
