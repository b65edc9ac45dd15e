//! Commits of a workload, and what those that fail must leave.

use tidesdb::{Db, Error, ErrorKind, SyncMode, WriteOptions};
use tidesdb_sys::clock::Clock;

use super::{Runner, locked};
use crate::Verdict;
use crate::operations::PlannedWrite;
use crate::oracle::{Transaction, contents_hash};
use crate::planned_commit::PlannedCommit;

impl Runner {
    pub(super) fn commit(
        &mut self,
        db: &Db,
        planned: &[PlannedWrite],
        sync: Option<bool>,
        single: bool,
    ) -> Verdict {
        let number = locked(&self.promises).started + 1;
        let now = self.machine.clock.unix_seconds();
        let families = locked(&self.promises).families;
        let mut transaction = Transaction { number, writes: Vec::new() };
        let mut batch =
            PlannedCommit::new(db, number, planned).map_err(|e| format!("begin: {e}"))?;
        let mut full = self.machine.settings.database.sync_mode == SyncMode::Full;
        let mut alone = Ok(());
        for (place, write) in planned.iter().enumerate() {
            let (Some(id), Some(family)) = (families[write.slot], &self.handles[write.slot]) else {
                continue;
            };
            // Not what the engine says: it may have lost a change of the options.
            full |= locked(&self.promises).syncs_commits(id);
            let key_order = family.options().key_order;
            let of = (id, &key_order);
            let (mut write, bytes) = write.materialize((number, place as u32), of, now);
            let earlier = &transaction.writes;
            write.single &= self.history.allows_single_deletion(earlier, id, &write.place);
            transaction.writes.push(write.clone());
            let added = batch.add(family, &write, &bytes);
            added.map_err(|e| format!("building a batch: {e}"))?;
            if single {
                self.history.push(transaction.clone());
                locked(&self.promises).started = number;
                alone = write.apply_to(family, &bytes);
            }
        }
        if transaction.writes.is_empty() {
            return Ok(());
        }
        let result = if single {
            alone
        } else {
            self.history.push(transaction);
            locked(&self.promises).started = number;
            batch.commit(db, sync.map_or_else(WriteOptions::new, |on| WriteOptions::new().sync(on)))
        };
        match result {
            Ok(()) => {
                let mut promises = locked(&self.promises);
                promises.acknowledged = number;
                // What was acknowledged after a drop that failed must not be lost to that drop.
                let there = planned.iter().filter(|write| families[write.slot].is_some());
                there.for_each(|write| promises.undecided[write.slot] = None);
                if sync.unwrap_or(full) {
                    promises.durable = number;
                }
                Ok(())
            }
            Err(e) => self.failed_commit(number, &e),
        }
    }

    /// A commit failed: it must have had no effect, unless it is not durable, and then all of it.
    fn failed_commit(&mut self, number: u64, error: &Error) -> Verdict {
        let Some(faults) = self.machine.faults.clone() else {
            return Err(format!("transaction {number} failed: {error}"));
        };
        faults.excuse("commit", error)?;
        self.last_error = Some(error.clone());
        let _quiet = faults.suspend();
        let found = contents_hash(&self.read()?);
        let now = self.machine.clock.unix_seconds();
        let live = self.live();
        let with = self.history.contents(&live, number, now);
        let without = self.history.contents(&live, number - 1, now);
        let (with, without) = (contents_hash(&with), contents_hash(&without));
        if error.kind() == ErrorKind::NotDurable {
            if found == with {
                return Ok(());
            }
            return Err(format!("transaction {number} is not durable ({error}) and not visible"));
        }
        if found == without {
            self.history.pop();
            return Ok(());
        }
        let how = if found == with { "visible" } else { "there in part" };
        Err(format!("transaction {number} failed ({error}) and is {how}"))
    }

    /// Writes one key; says whether that worked, or there is no such family.
    ///
    /// # Errors
    /// When a failed write has an effect.
    pub fn try_write(&mut self, write: PlannedWrite) -> Verdict<bool> {
        let Some(db) = self.db.clone() else { return Err("no database is open".to_owned()) };
        self.scheduler.begin();
        let before = locked(&self.promises).acknowledged;
        self.commit(&db, &[write], None, true)?;
        Ok(self.handles[write.slot].is_none() || locked(&self.promises).acknowledged > before)
    }
}
