//! Freeing a disk that is full, by what is deleted.
//!
//! While only the reserve is left (`flow/disk.rs`), commits that hold deletions only go on, in
//! small log segments. When they have used up half of the reserve, when one finds no space all the
//! same, and when a put comes after them, the thread that meets it collects what they have deleted:
//! it writes all memory to tables, whatever `min_disk_space` says, which frees the log, drops the
//! tables that a range deletion covers, and writes the others anew one at a time without what is
//! deleted (`compaction/reclaim.rs`). Each step needs little space and frees more than it took.
//! After a crash the next opening removes what a step had written. What an opening has left of an
//! earlier life goes first of all, for puts as well.
//!
//! A commit of a transaction that holds deletions only is let in as well, but when it finds no
//! space it is refused, and the next deletion outside of transactions collects what it deleted.
//!
//! Threads: one collects at a time, and holds no lock that a commit needs; listeners are called
//! when it has ended. A pause waits for it, and it ends early for a pause.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidesdb_base::error::{Error, Result};
use tidesdb_lockfree::sync::lock;
use tidesdb_sys::clock::Clock;

use crate::compaction::reclaim::Left;
use crate::core::{CallerAtWork, Core, TryCommit};
use crate::family::FamilyState;
use crate::telemetry::events::HeldEvents;

/// How often a commit of deletions is tried that finds no space.
const MOST_TRIES: u32 = 4;

/// For how long puts don't collect once only files were left that a clone or a checkpoint has as
/// well. They stay until that goes.
const SHARED_PAUSE_NANOS: u64 = 10_000_000_000;

/// Until when puts don't collect: they have half of the time spent on it, at most.
fn half_of_the_time_since(clock: &dyn Clock, started: u64) -> u64 {
    let now = clock.monotonic_nanos();
    now + now.saturating_sub(started)
}

impl Core {
    /// Frees space for a commit that found none, for which `cause` is the error, and tries it
    /// again.
    ///
    /// # Errors
    /// What `commit` returns.
    pub(super) fn free_disk_and_retry(
        &self,
        deletes: bool,
        mut cause: Error,
        commit: TryCommit<'_>,
    ) -> Result<()> {
        let now = self.env.clock.monotonic_nanos();
        // ORDERING: relaxed; two that come at once have one wait for the other.
        let is_due = now >= self.flow.disk.next_reclaim_nanos.load(Ordering::Relaxed);
        if is_due && self.remove_orphans_now() {
            match commit() {
                Err(e) if e.is_disk_full() => cause = e,
                other => return other,
            }
        }
        let reserve = self.env.reserve_bytes();
        if !deletes && reserve > 0 && self.memory.pool.used_bytes() > reserve {
            // The log of what is in memory takes space that its tables will not take again.
            self.write_memory_out();
            match commit() {
                Err(e) if e.is_disk_full() => cause = e,
                other => return other,
            }
        }
        let tries = match deletes {
            true => MOST_TRIES,
            false => {
                let snapshots = || self.isolation.snapshots.list();
                u32::from(is_due && self.flow.disk.has_deletions(&snapshots()))
            }
        };
        for _ in 0..tries {
            self.reclaim_disk_now();
            match commit() {
                Err(e) if e.is_disk_full() => cause = e,
                other => return other,
            }
        }
        Err(cause)
    }

    /// Removes what the opening has left, and repairs a log that failed for want of space. False
    /// when nothing was left.
    fn remove_orphans_now(&self) -> bool {
        let _reported_later = HeldEvents::new();
        let Some(_at_work) = Reclaiming::begin(self) else { return false };
        let one_at_a_time = lock(&self.flow.disk.reclaim);
        let started = self.env.clock.monotonic_nanos();
        if !self.remove_orphans() {
            return false;
        }
        self.flow.disk.end_reclaim(half_of_the_time_since(self.env.clock.as_ref(), started));
        // A listener that a repair calls may wait for it.
        drop(one_at_a_time);
        self.wait_for_repaired_log();
        // The log is not needed any more that the failed one was.
        self.remove_orphans();
        self.review_disk(0);
        true
    }

    /// Removes what the opening has left, as far as it is certain that no manifest names it. False
    /// when nothing was left.
    fn remove_orphans(&self) -> bool {
        let mut left = lock(&self.storage.orphans);
        let Some(mut orphans) = left.take() else { return false };
        let (vfs, dir) = (self.env.vfs.as_ref(), &self.env.path);
        let settle = || {
            let mut catalog = lock(&self.storage.catalog);
            catalog.settle().ok().map(|()| catalog.state.next_file)
        };
        let settled = settle().or_else(|| {
            orphans.remove_unnamed(vfs, dir);
            settle()
        });
        let removed = settled.and_then(|next| orphans.remove_files(vfs, dir, next).ok());
        // CRASH: the log that is named by the manifest is one of those found until it goes on.
        let log_goes_on = self.storage.log.failure().is_none();
        if removed.is_none() || !log_goes_on || orphans.remove_rest(vfs, dir).is_err() {
            *left = Some(orphans);
        }
        true
    }

    /// Writes all memory to tables, as far as there is space for that, and lets go of its log.
    fn write_memory_out(&self) {
        // A listener may commit, and wait for another thread that does.
        let _reported_later = HeldEvents::new();
        let Some(_at_work) = Reclaiming::begin(self) else { return };
        let families = self.families.all();
        for family in &families {
            self.write_out(family);
        }
        self.storage.log.remove_free_segments();
        families.iter().for_each(|family| self.schedule_compaction(family));
    }

    /// Writes the family's memory to tables, until that fails or a pause begins. A failure is kept
    /// as that of a background flush, which is tried again when there is space (I-239): a family
    /// that no one writes to has nothing else to wake it.
    fn write_out(&self, family: &Arc<FamilyState>) {
        let flush_all = || {
            while !self.work.control.is_paused() && !family.is_dropped() {
                match self.flush_oldest(family) {
                    Ok(true) => {}
                    Ok(false) => return drop(family.flushes.failure.take()),
                    Err(e) => return self.flush_failed(family, e),
                }
            }
        };
        flush_all();
        // Where they find no space, each try would freeze a memtable more.
        if family.view.load().frozen.is_empty() && !self.work.control.is_paused() {
            self.freeze(family, 0);
            flush_all();
        }
    }

    /// Collects what is deleted. A failure leaves it for the next time.
    pub(super) fn reclaim_disk_now(&self) {
        let _reported_later = HeldEvents::new();
        let _one_at_a_time = lock(&self.flow.disk.reclaim);
        let Some(_at_work) = Reclaiming::begin(self) else { return };
        let started = self.env.clock.monotonic_nanos();
        let published = || self.storage.log.published();
        self.flow.disk.begin_reclaim(published, || self.isolation.snapshots.list());
        self.storage.log.remove_free_segments();
        self.remove_orphans();
        // In a log that failed for want of space nothing can be deleted.
        self.repair_log_now();
        let (families, mut left) = (self.families.all(), Left::Nothing);
        for family in &families {
            self.write_out(family);
            // What could be collected is; the rest stays as it is.
            let collected = self.reclaim_tables(family);
            let is_flushed = family.view.load().frozen.is_empty();
            left = left.max(collected.ok().filter(|_| is_flushed).unwrap_or(Left::Others));
            self.read_failed_files_later(family);
            self.storage.files.obsolete.sweep();
        }
        if left != Left::Nothing {
            self.flow.disk.leave_deletions();
        }
        self.storage.log.remove_free_segments();
        self.review_disk(0);
        let mut next = half_of_the_time_since(self.env.clock.as_ref(), started);
        if left == Left::Shared {
            next = next.max(started.saturating_add(SHARED_PAUSE_NANOS));
        }
        self.flow.disk.end_reclaim(next);
        // What was flushed meanwhile found all runs claimed.
        families.iter().for_each(|family| self.schedule_compaction(family));
    }
}

/// A thread that frees the disk: closing and pauses wait for it.
struct Reclaiming<'a> {
    core: &'a Core,
    _at_work: CallerAtWork<'a>,
}

impl<'a> Reclaiming<'a> {
    /// `None` while the database is closed, paused, or only read.
    fn begin(core: &'a Core) -> Option<Self> {
        let at_work = core.work.callers.enter().ok()?;
        core.work.control.reclaim_begins();
        let this = Self { core, _at_work: at_work };
        // A caller that pauses sets the mark first and looks at the count second.
        let may_work = !core.env.options.read_only && !core.work.control.is_paused();
        may_work.then_some(this)
    }
}

impl Drop for Reclaiming<'_> {
    fn drop(&mut self) {
        self.core.work.control.reclaim_ends();
        self.core.work.progress.notify();
    }
}

#[cfg(test)]
mod tests;
