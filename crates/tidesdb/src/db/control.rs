//! Steering background work, and changing settings of an open database.

use std::cell::Cell;
use std::sync::Arc;

use tidesdb_base::error::{Error, Result};
use tidesdb_base::event::StallReason;
use tidesdb_base::options::RuntimeOptions;

use crate::core::Core;
use crate::family::FamilyState;
use crate::flow::StallTimer;
use crate::opening::memory_budget;

/// How long a call waits for running compactions to notice that they were cancelled.
const CANCEL_TIMEOUT_MS: u64 = 30_000;

impl Core {
    /// Changes settings of the open database.
    ///
    /// # Errors
    /// [`Error::InvalidOptions`]; nothing has changed then.
    pub(crate) fn set_runtime_options(&self, options: RuntimeOptions) -> Result<()> {
        self.health.check_open()?;
        if let Some(bytes) = options.max_memory_usage {
            self.env.options.validate_memory_budget(bytes)?;
            self.memory.budget.set_bytes(memory_budget(bytes));
            self.storage.files.table_memory.keep_to_share();
        }
        if let Some(bytes) = options.block_cache_bytes {
            self.memory.budget.set_cache_wanted(bytes as u64);
        }
        if let Some(most) = options.max_open_files {
            self.storage.files.open_files.set_most(most);
        }
        if !self.env.options.read_only {
            self.review_memory();
        }
        Ok(())
    }

    /// Keeps flushes and compactions from starting and waits until none runs.
    ///
    /// # Errors
    /// [`Error::Closed`]; [`Error::Stalled`] when what runs gets nowhere, [`Error::Broken`] when
    /// it broke off. Nothing is paused then.
    pub(crate) fn pause_background(&self) -> Result<()> {
        self.health.check_open()?;
        self.work.control.pause();
        let paused = self.wait_until_none_runs();
        if paused.is_err() {
            self.resume_background();
        }
        paused
    }

    fn wait_until_none_runs(&self) -> Result<()> {
        let mut stall_timer = self.stall_timer_with_all_work();
        loop {
            let seen = self.work.progress.now();
            self.health.check_open()?;
            let runs = self.families.all().iter().any(|family| family.has_running_work());
            let repairs = self.storage.log.is_under_repair();
            if !runs && !self.work.control.has_reclaims() && !repairs {
                return Ok(());
            }
            // A job that panicked leaves its family's flags as they were.
            self.health.check()?;
            self.wait_for_work(&mut stall_timer, seen)?;
        }
    }

    /// Lets flushes and compactions start again, and starts those that are due.
    pub(crate) fn resume_background(&self) {
        let works = !self.env.options.read_only && self.health.is_opening_process();
        if self.work.control.resume() && works {
            self.repair_log_later();
            for family in self.families.all() {
                self.schedule_flush(&family);
                self.schedule_compaction(&family);
            }
        }
    }

    /// Ends all compactions for good and waits until none runs.
    ///
    /// # Errors
    /// [`Error::Stalled`] when one does not end.
    pub(crate) fn stop_compactions(&self) -> Result<()> {
        self.health.check_open()?;
        self.work.control.stop_compactions();
        // Nothing but their end counts as progress.
        let mut stall_timer =
            StallTimer::new(CANCEL_TIMEOUT_MS, 0, self.env.clock.monotonic_nanos());
        loop {
            let seen = self.work.progress.now();
            self.health.check_open()?;
            if !self.families.all().iter().any(|family| family.is_compacting()) {
                return Ok(());
            }
            stall_timer.check(0, self.env.clock.monotonic_nanos(), StallReason::CompactionDebt)?;
            self.wait_for_progress(seen);
        }
    }

    /// Flushes and compacts a family, and waits until no more of that is queued.
    ///
    /// # Errors
    /// Why it failed; [`Error::Stalled`] when it gets nowhere.
    pub(crate) fn compact_family_and_wait(&self, family: &Arc<FamilyState>) -> Result<()> {
        let stopped = was_stopped(self.compact_family(family))?;
        let mut stall_timer = self.stall_timer_with_all_work();
        loop {
            let seen = self.work.progress.now();
            self.check_writable(family)?;
            if !family.has_running_work() {
                return unless(stopped);
            }
            family.take_background_error().map_or(Ok(()), Err)?;
            self.wait_for_work(&mut stall_timer, seen)?;
        }
    }

    /// As [`Core::compact_family_and_wait`] for all families; goes on after an error.
    ///
    /// # Errors
    /// The first; [`Error::CompactionsStopped`] where there is no other.
    pub(crate) fn compact_and_wait(&self) -> Result<()> {
        // As in [`Core::each_family`].
        self.health.check_not_forked()?;
        let families = self.families.all();
        let (mut first_error, mut stopped) = (Ok(()), false);
        for family in &families {
            match was_stopped(self.compact_family_and_wait(family)) {
                Ok(was_stopped) => stopped |= was_stopped,
                // One that was dropped meanwhile needs no compaction any more.
                Err(Error::FamilyDropped(_)) => {}
                Err(e) => first_error = first_error.and(Err(e)),
            }
        }
        first_error.and(self.wait_idle()).and(unless(stopped))
    }

    /// Compacts all families. Where compactions were stopped, what is in memory is written to
    /// tables all the same.
    ///
    /// # Errors
    /// The first, which ends it; [`Error::CompactionsStopped`] at its end.
    pub(crate) fn compact_all(&self) -> Result<()> {
        let stopped = Cell::new(false);
        self.each_family(|core, family| {
            let was_stopped = was_stopped(core.compact_family(family))?;
            stopped.set(stopped.get() | was_stopped);
            Ok(())
        })?;
        unless(stopped.get())
    }
}

/// Whether a compaction was not done because compactions are stopped. That is no failure, and hides
/// none of those that come later.
fn was_stopped(outcome: Result<()>) -> Result<bool> {
    match outcome {
        Ok(()) => Ok(false),
        Err(Error::CompactionsStopped) => Ok(true),
        Err(failure) => Err(failure),
    }
}

/// # Errors
/// [`Error::CompactionsStopped`].
const fn unless(stopped: bool) -> Result<()> {
    if stopped { Err(Error::CompactionsStopped) } else { Ok(()) }
}
