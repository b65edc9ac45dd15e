//! Flushing, compacting, pausing and verifying, as users ask for it.

use tidesdb_base::error::{Error, Result};
use tidesdb_base::options::RuntimeOptions;
use tidesdb_base::progress::Progress;

use super::Db;
use crate::core::Core;
use crate::verify::{VerifyReport, check_files};

impl Db {
    /// Writes the memory of all families to tables and waits for it.
    ///
    /// # Errors
    /// Why a flush failed; the data stays in memory and in the log then.
    pub fn flush(&self) -> Result<()> {
        self.core().each_family(Core::flush_family)
    }

    /// Compacts each family into one sorted run, and waits for it.
    ///
    /// # Errors
    /// Why a flush or a compaction failed; nothing is lost then. `Closed` also after
    /// [`Db::stop_compactions`]: all memory is in tables then, and no run was compacted.
    pub fn compact(&self) -> Result<()> {
        self.core().compact_all()
    }

    /// Waits until no flush and no compaction is queued or running, and compactions that wait for a
    /// quiet moment are done as well.
    ///
    /// # Errors
    /// Why background work failed; `Stalled` when it gets nowhere.
    pub fn wait_idle(&self) -> Result<()> {
        self.core().wait_idle()
    }

    /// Waits until no flush is queued or running and no compaction runs, before the database is
    /// closed: a close ends compactions that run, and their work is lost. From this call on no
    /// compaction begins by itself until the database is opened again, also none of those that are
    /// queued.
    ///
    /// # Errors
    /// `Stalled` when the work gets nowhere, `Closed`, `Broken`, `LogFailed`. Why a flush or a
    /// compaction failed is returned by [`Db::wait_idle`].
    pub fn finish_compactions(&self) -> Result<()> {
        self.core().finish_compactions()
    }

    /// As [`Db::compact`], and waits until no background work is left at all: also for compactions
    /// that others have queued, and those of what is written meanwhile. Goes on after a family that
    /// fails.
    ///
    /// # Errors
    /// The first error; the other families are compacted all the same.
    #[doc(alias = "purge")]
    pub fn compact_and_wait(&self) -> Result<()> {
        self.core().compact_and_wait()
    }

    /// Keeps flushes and compactions from starting, and returns when none runs any more. Calls that
    /// ask for some get an error of kind `Stalled`. Reads and writes go on; writers whose memtables
    /// are full wait, and get such an error in the end. A log that fails is not repaired meanwhile:
    /// writes are refused from then on. Calls add up: as many calls of [`Db::resume_background`]
    /// are needed.
    ///
    /// # Errors
    /// `Closed`; `Stalled` when what runs gets nowhere. Nothing is paused then.
    pub fn pause_background(&self) -> Result<()> {
        self.core().pause_background()
    }

    /// Takes one call of [`Db::pause_background`] back; a call too many does nothing.
    pub fn resume_background(&self) {
        self.core().resume_background();
    }

    /// Gives up all compactions that run, without effect, and starts no more until the database is
    /// opened again: calls that ask for some return [`Error::CompactionsStopped`], of kind
    /// `Closed`, also those that are under way. Flushes, reads and writes go on. Returns when no
    /// compaction runs any more.
    ///
    /// # Errors
    /// `Closed`; `Stalled` when a compaction has not ended within 30 seconds.
    #[doc(alias = "cancel_compactions")]
    #[doc(alias = "cancel_background_work")]
    #[doc(alias = "disable_manual_compaction")]
    pub fn stop_compactions(&self) -> Result<()> {
        self.core().stop_compactions()
    }

    /// Changes settings of the open database; they hold until it is closed.
    ///
    /// # Errors
    /// `Invalid` when a value is out of range (nothing has changed then), `Closed`.
    pub fn set_options(&self, options: RuntimeOptions) -> Result<()> {
        self.core().set_runtime_options(options)
    }

    /// Returns when everything committed so far survives a power cut.
    ///
    /// # Errors
    /// `NotDurable` when the log can neither be synced nor repaired; `Closed`.
    #[doc(alias = "sync_wal")]
    pub fn sync_log(&self) -> Result<()> {
        let core = self.core();
        core.health.check_open()?;
        if core.env.options.read_only {
            return Ok(());
        }
        core.sync_log()
    }

    /// Whether the file of each table and value log is there, as long as it must be. Returns what
    /// is wrong. No file is read: [`Db::verify`] does that.
    ///
    /// # Errors
    /// `Closed`; `Io` when the directory can't be listed.
    pub fn check_files(&self) -> Result<Vec<Error>> {
        let core = self.core();
        core.health.check_open()?;
        check_files(&core.env, &core.families)
    }

    /// Reads every table and value log and checks everything that can be checked. All that is
    /// damaged is listed, several places of one file as well.
    ///
    /// # Errors
    /// `Closed`; damage is not an error of the call but listed in the report.
    pub fn verify(&self) -> Result<VerifyReport> {
        self.verify_with_progress(&mut |_| Ok(()))
    }

    /// As [`Db::verify`]. `progress` is called now and then with how far the work is; an error
    /// that it returns ends the work.
    ///
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # use tidesdb::{Db, DbOptions};
    /// # let db = Db::open(directory.path(), DbOptions::default())?;
    /// let report = db.verify_with_progress(&mut |progress| {
    ///     println!("{} of {} bytes", progress.done, progress.total);
    ///     Ok(())
    /// })?;
    /// assert!(report.problems.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Db::verify`], and what `progress` returns.
    pub fn verify_with_progress(
        &self,
        progress: &mut dyn FnMut(Progress) -> Result<()>,
    ) -> Result<VerifyReport> {
        let core = self.core();
        core.health.check_open()?;
        VerifyReport::of((&core.env, &core.families, &core.storage), progress)
    }
}
