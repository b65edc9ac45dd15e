//! Repair of a log that failed, so that nothing has to be reopened.
//!
//! A write or a sync of the log failed, a commit broke off half way, or there was no space for a
//! segment when the database was opened. From that moment on no commit is let in
//! (`log/state.rs`). What is published stays visible and is made durable here, by writing it to
//! tables; what is not was refused, and vanishes with its memtables. Then the log goes on in
//! another segment. The steps are numbered in [`Core::restart_log`]; a failure of any of them
//! leaves the log as it was, and the next writer has the repair tried again.

use tidesdb_base::error::Result;
use tidesdb_files::manifest::Change;
use tidesdb_lockfree::sync::lock;
use tidesdb_sys::sched::Lane;

use crate::core::Core;

impl Core {
    /// Queues the repair of a log that failed, unless one is queued or running.
    pub(crate) fn repair_log_later(&self) {
        if self.log.failure().is_some() && self.log.begin_repair() {
            self.submit(Lane::Flush, |core| core.repair_log());
        }
    }

    /// Repairs a log that failed in this thread, unless another does.
    pub(super) fn repair_log_now(&self) {
        if self.log.failure().is_some() && self.log.begin_repair() {
            self.repair_log();
        }
    }

    fn repair_log(&self) {
        let mut repair = Repair { core: self, healed: false };
        // A failure leaves the log as it was; the next writer has it tried again.
        repair.healed = self.restart_log().is_ok();
    }

    fn restart_log(&self) -> Result<()> {
        // 1. Commits that were let in before the failure end here; no others are let in. A crash
        //    here, and after each step up to 4: recovery reads the old log up to where it broke,
        //    and skips what is in tables. What lies behind was refused, and is not read.
        drop(self.log.close_gate());
        // 2. All memory that commits went to is frozen, at the last published position.
        for family in &self.families.all() {
            self.rotate(family, 0);
        }
        // 3. It goes to tables, in one edit of the manifest: the failed log is not on disk as far
        //    as one family's tables would need it for the sake of the others. Refused commits lie
        //    above the boundary of their memtable, are left out, and are gone with it.
        self.flush_everything_at_once()?;
        // 4. Another segment, whose positions begin behind all that was ever reserved. A crash
        //    here: nothing refers to it, and it holds no record.
        let successor = self.log.begin_successor()?;
        // 5. Its name is durable before the manifest names it.
        let named = self.log.sync_names();
        if let Err(e) = named {
            let _ = self.vfs.remove(&successor.path());
            return Err(e);
        }
        // 6. The manifest says where the log begins: the failed segment may end anywhere, so that
        //    recovery could not go on from it. A crash here: recovery finds an empty log.
        let changes = vec![
            Change::LogStart { segment: successor.number() },
            Change::LastSequence { sequence: successor.position() },
        ];
        let position = successor.position();
        lock(&self.catalog).commit_files(changes, || vec![successor.path()])?;
        // 7. The log goes on. Only now may a commit be let in, when the repair ends.
        self.log.go_on(successor);
        // 8. The old segments are dead by the manifest.
        self.log.remove_before(position);
        Ok(())
    }
}

/// The right to repair the log, given back however the repair ends.
struct Repair<'a> {
    core: &'a Core,
    healed: bool,
}

impl Drop for Repair<'_> {
    fn drop(&mut self) {
        self.core.log.end_repair(self.healed);
    }
}
