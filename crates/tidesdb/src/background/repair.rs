//! Repair of a log that failed, so that nothing has to be reopened.
//!
//! A write or a sync of the log failed, a commit broke off half way, or there was no space for a
//! segment when the database was opened. From that moment on no commit is let in
//! (`wal/state.rs`). What is published stays visible and is made durable here, by writing it to
//! tables; what is not was refused, and vanishes with its memtables. Then the log goes on in
//! another segment. The steps are numbered in [`Core::restart_log`]; a failure of any of them
//! leaves the log as it was, and the next writer has the repair tried again.
//!
//! **A sync that fails** meets commits that are visible already, and stay so. A caller that waits
//! for one to be durable then waits for a repair ([`Core::sync_by_repair`]), and its answer is the
//! outcome of that: done, or `NotDurable`. Any other error of a commit means that it has no effect.
//!
//! **A pause** holds repairs back like any flush: until it ends commits are refused, and those that
//! were visible when their sync failed are `NotDurable`. A pause waits for a repair that has begun
//! (I-298).

use std::cell::Cell;
use std::sync::Arc;

use tidesdb_base::entry::SequenceNumber;
use tidesdb_base::error::{Error, Result};
use tidesdb_lockfree::sync::lock;
use tidesdb_sys::sched::Lane;

use crate::core::Core;
use crate::telemetry::spans::span;
use crate::version::begin_log_with;

impl Core {
    /// Queues the repair of a log that failed, unless one is queued or running.
    pub(super) fn queue_log_repair(&self) {
        let may_repair = !self.work.control.is_paused() && self.storage.log.failure().is_some();
        if may_repair && self.storage.log.begin_repair() {
            self.submit(Lane::Flush, |core| core.repair_log());
        }
    }

    /// Repairs a log that failed in this thread, unless another does.
    pub(super) fn repair_log_now(&self) {
        if self.storage.log.failure().is_some() && self.storage.log.begin_repair() {
            self.repair_log();
        }
    }

    /// Makes durable, by a repair, what is visible up to `sequence` and could not be synced, and
    /// waits for that. `cause` says why the sync failed.
    ///
    /// # Errors
    /// [`Error::NotDurable`] when the log could not be repaired either, or the database is being
    /// closed.
    #[cold]
    pub(super) fn repair_and_sync(&self, sequence: SequenceNumber, cause: Error) -> Result<()> {
        // A listener that the repair itself calls can't wait for it.
        if !REPAIRING.get() {
            self.wait_for_repair();
        }
        let healed = self.storage.log.synced() >= sequence;
        if healed { Ok(()) } else { Err(Error::NotDurable(Arc::new(cause))) }
    }

    /// Waits until a log that failed is repaired, where there is space for that by now. The repair
    /// that the failed commit has queued may have met a full disk still.
    pub(super) fn wait_for_repaired_log(&self) {
        for _ in 0..2 {
            if self.storage.log.failure().is_some() && !REPAIRING.get() {
                self.wait_for_repair();
            }
        }
    }

    /// Returns when one repair has ended: this thread's, or one that was queued or running.
    fn wait_for_repair(&self) {
        if let Ok(_at_work) = self.work.callers.enter()
            && self.storage.log.begin_repair()
        {
            return self.repair_log();
        }
        let mut stall_timer = self.stall_timer_with_all_work();
        loop {
            let seen = self.work.progress.now();
            // A repair that was queued when the database was closed never begins.
            if !self.storage.log.is_under_repair() || self.health.is_closed() {
                return;
            }
            if self.wait_for_work(&mut stall_timer, seen).is_err() {
                return;
            }
        }
    }

    fn repair_log(&self) {
        let _span = span!(WARN, "log_repair");
        let mut repair = Repair { core: self, healed: false };
        REPAIRING.set(true);
        // A caller that pauses sets the mark first and looks for a repair second. A failure leaves
        // the log as it was; the next writer starts another try.
        repair.healed = !self.work.control.is_paused() && self.restart_log().is_ok();
    }

    fn restart_log(&self) -> Result<()> {
        // 1. Commits that were let in before the failure end here; no others are let in. A crash
        //    here, and after each step up to 4: recovery reads the old log up to where it broke,
        //    and skips what is in tables. What lies behind was refused, and is not read.
        drop(self.storage.log.close_gate());
        // 2. All memory that commits went to is frozen, at the last published position.
        for family in &self.families.all() {
            self.freeze_and_flush(family, 0);
        }
        // 3. It goes to tables, in one edit of the manifest: the failed log is not on disk as far
        //    as one family's tables would need it for the sake of the others. Refused commits lie
        //    above the boundary of their memtable, are left out, and are gone with it.
        self.flush_everything_at_once()?;
        // 4. Another segment, whose positions begin behind all that was ever reserved. A crash
        //    here: nothing refers to it, and it holds no record.
        let successor = self.storage.log.begin_successor()?;
        // 5. Its name is durable before the manifest names it.
        let named = self.storage.log.sync_names();
        if let Err(e) = named {
            let _ = self.env.vfs.remove(&successor.path());
            return Err(e);
        }
        // 6. The manifest says where the log begins: the failed segment may end anywhere, so that
        //    recovery could not go on from it. A crash here: recovery finds an empty log.
        let position = successor.position();
        let changes = begin_log_with(successor.number(), position).to_vec();
        lock(&self.storage.catalog).commit_files(changes, || vec![successor.path()])?;
        // 7. The log goes on. Only now may a commit be let in, when the repair ends.
        self.storage.log.go_on(successor);
        // 8. The old segments are dead by the manifest.
        self.storage.log.remove_before(position);
        Ok(())
    }
}

thread_local! {
    /// This thread repairs a log.
    static REPAIRING: Cell<bool> = const { Cell::new(false) };
}

/// The right to repair the log, given back however the repair ends.
struct Repair<'a> {
    core: &'a Core,
    healed: bool,
}

impl Drop for Repair<'_> {
    fn drop(&mut self) {
        REPAIRING.set(false);
        self.core.storage.log.end_repair(self.healed);
        self.core.work.progress.notify();
    }
}
