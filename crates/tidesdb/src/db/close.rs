//! Closing.

use tidesdb_base::error::{Error, ErrorKind, Result};
use tidesdb_base::event::Event;
use tidesdb_base::options::SyncMode;
use tidesdb_files::manifest::Change;
use tidesdb_lockfree::sync::lock;

use crate::core::Core;
use crate::family::RetiredHook;
use crate::telemetry::spans::span;
use crate::version::NO_LOG;
use crate::wal::Wal;

/// Puts on disk the log of what a full disk kept from being flushed.
fn keep_in_log(log: &Wal, cause: Error) -> Result<()> {
    // A log that failed may not hold all that is in memory.
    if log.failure().is_some() { Err(cause) } else { log.sync_through(log.published()) }
}

impl Core {
    /// Flushes everything and shuts down. When all is in tables the log is removed. On a full disk
    /// what is in memory stays in the log, which is synced: nothing is lost then, and the next
    /// opening reads it. A call during another close returns when that one has ended.
    ///
    /// # Errors
    /// Why the flush failed, or the sync of the log; the database is shut down all the same. A
    /// later call does not get the error. [`Error::CloseFromCallback`], and it stays open.
    pub(crate) fn close(&self) -> Result<()> {
        if !self.health.is_opening_process() {
            return Err(Error::Forked);
        }
        self.work.callers.refuse_own()?;
        // A caller that knows that the database is closed may open the directory again.
        let closing = lock(&self.health.closing);
        if self.health.is_closed() {
            return Ok(());
        }
        // What this reports may be answered by a call to close, which would wait for this one.
        let noted = self.work.callers.note_thread();
        let _span = span!(INFO, "close", path = self.env.path.display());
        let flushed = if self.env.options.read_only { Ok(()) } else { self.flush_for_close() };
        let in_tables = flushed.is_ok() && !self.env.options.read_only;
        let closed = match flushed {
            Err(cause) if cause.kind() == ErrorKind::Full => keep_in_log(&self.storage.log, cause),
            other => other,
        };
        let hooks = self.shut_down(in_tables);
        drop((closing, noted));
        // What they have captured may call the database when it is dropped.
        hooks.into_iter().for_each(RetiredHook::let_go);
        closed
    }

    fn flush_for_close(&self) -> Result<()> {
        self.health.check()?;
        self.work.control.end_pauses();
        self.each_family(Self::flush_family)
    }

    /// Stops background work and gives up the directory. A second call does nothing. No call is in
    /// the middle of a commit, a compaction or an edit of the manifest when the directory is given
    /// up: another handle may own it then. Returns the hooks, to be let go of without any lock.
    pub(crate) fn shut_down(&self, flushed: bool) -> Vec<RetiredHook> {
        if !self.health.is_opening_process() || !self.health.close() {
            return Vec::new();
        }
        self.work.progress.notify();
        self.env.scheduler.shutdown();
        self.work.callers.refuse();
        let healthy = self.storage.log.failure().is_none();
        // No commit has it begin any more.
        let has_log = self.storage.log.is_begun();
        self.storage.log.seal();
        let retired = flushed && healthy && self.retire_log(has_log);
        if !retired && self.syncs_at_intervals() {
            // There is no caller to report a failure to; what was synced before stays promised.
            let _ = self.storage.log.sync_sealed();
        }
        self.storage.files.obsolete.sweep();
        if retired {
            lock(&self.storage.catalog).leave_mark();
        }
        self.telemetry.events.write(&Event::Closed);
        self.storage.files.lock.give_up();
        // They may hold handles of this database, which would never be freed.
        let families = self.families.all();
        families.iter().map(|family| family.writes.commit_hook.exchange(None)).collect()
    }

    /// Whether commits are promised to be on disk a while after they were acknowledged.
    fn syncs_at_intervals(&self) -> bool {
        let families = self.families.all();
        let modes = families.iter().map(|family| family.options.load().sync_mode);
        let mut modes = modes.chain([self.env.options.sync_mode]);
        !self.env.options.read_only && modes.any(|mode| matches!(mode, SyncMode::Interval { .. }))
    }

    /// Removes the log, which is sealed, if there is one and no commit came after the flush. True
    /// when the manifest, on disk, says that there is none.
    fn retire_log(&self, has_log: bool) -> bool {
        let all_flushed = self
            .families
            .all()
            .iter()
            .all(|family| family.view.load().first_unflushed() == u64::MAX);
        if !all_flushed {
            return false;
        }
        let families = self.families.all();
        let mut closed = Vec::new();
        for family in &families {
            closed.extend(self.storage.close_direct_file(family));
            closed.extend(self.storage.close_growing_files(family));
        }
        let mut catalog = lock(&self.storage.catalog);
        let mut changes = catalog.still_listed(closed);
        if !has_log && changes.is_empty() && catalog.is_on_disk() {
            return true;
        }
        changes.push(Change::LogStart { segment: NO_LOG });
        changes.push(Change::LastSequence { sequence: self.storage.log.published() });
        let known = catalog.commit(changes).is_ok();
        drop(catalog);
        if known {
            self.storage.log.remove_all();
        }
        known
    }
}
