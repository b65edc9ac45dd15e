//! What a database has on disk.

mod closed_value_logs;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use tidesdb_base::entry::SequenceNumber;
use tidesdb_base::error::{Error, Result};
use tidesdb_files::file_numbers::FileNumbers;
use tidesdb_lockfree::sync::lock;
use tidesdb_sys::sync_points::sync_point;

use crate::family::FamilyState;
use crate::version::{Catalog, FileContext, Orphans, TableFile, TornManifest};
use crate::wal::{LeftOut, Wal};

/// How often what changes a version is prepared without the lock of the catalog. Beside flushes and
/// compactions that change it all the time it would come to no end.
const MOST_UNLOCKED_TRIES: usize = 3;

/// The files of a database, as far as no family alone has them.
#[derive(Debug)]
pub(crate) struct Storage {
    pub numbers: Arc<FileNumbers>,
    pub log: Wal,
    /// While an opening replays the log in stretches: the last commit of those so far.
    pub replayed_through: ReplayedThrough,
    /// Taken before any lock of a family's view.
    pub catalog: Mutex<Catalog>,
    /// What open tables and value logs share.
    pub files: Arc<FileContext>,
    /// What the opening has left of what it found, for when the disk is full. Taken before the
    /// catalog.
    pub orphans: Mutex<Option<Orphans>>,
    /// Commits of the log that the opening passed over.
    pub left_out: Option<LeftOut>,
    /// What the opening found behind the edits of the manifest.
    pub torn: Option<TornManifest>,
}

/// How far the log was replayed. All of it, unless an opening says otherwise.
#[derive(Debug)]
pub(crate) struct ReplayedThrough(AtomicU64);

impl Default for ReplayedThrough {
    fn default() -> Self {
        Self(AtomicU64::new(SequenceNumber::MAX))
    }
}

impl ReplayedThrough {
    /// Notes the last commit that was replayed, or that all were.
    pub(crate) fn set(&self, last: Option<SequenceNumber>) {
        // ORDERING: relaxed; while it matters there is one thread, that of the opening.
        self.0.store(last.unwrap_or(SequenceNumber::MAX), Ordering::Relaxed);
    }
}

impl Storage {
    pub(crate) fn new(
        numbers: Arc<FileNumbers>,
        log: Wal,
        catalog: Catalog,
        files: Arc<FileContext>,
        (orphans, left_out, torn): (Option<Orphans>, Option<LeftOut>, Option<TornManifest>),
    ) -> Self {
        let (replayed_through, catalog) = (ReplayedThrough::default(), Mutex::new(catalog));
        let orphans = Mutex::new(orphans);
        Self { numbers, log, replayed_through, catalog, files, orphans, left_out, torn }
    }

    /// Locks the catalog with something `prepared` that is true of the versions in force: no other
    /// thread changes one then. It is prepared before, since a freeze, with all commits stopped,
    /// waits for the thread that holds the lock, and there may be very many tables. Where a version
    /// has changed meanwhile it is prepared again, the last time with the lock held.
    pub(crate) fn lock_prepared<P>(
        &self,
        mut prepared: P,
        is_current: impl Fn(&P) -> bool,
        prepare_again: impl Fn(&mut P),
    ) -> (MutexGuard<'_, Catalog>, P) {
        let lock_after = || {
            sync_point("prepared for the catalog");
            lock(&self.catalog)
        };
        for _ in 1..MOST_UNLOCKED_TRIES {
            let catalog = lock_after();
            if is_current(&prepared) {
                return (catalog, prepared);
            }
            drop(catalog);
            prepare_again(&mut prepared);
        }
        let catalog = lock_after();
        if !is_current(&prepared) {
            prepare_again(&mut prepared);
        }
        (catalog, prepared)
    }

    /// Gives a table that may have been replaced its space back, for the next one.
    pub(crate) fn let_go_of(&self, table: Arc<TableFile>) {
        // The file is noted for deletion by the last that holds it.
        drop(table);
        self.files.obsolete.sweep();
    }

    /// Refuses commits to a family while an opening may find a change of it that failed: that it is
    /// dropped, or has another name or other options.
    ///
    /// # Errors
    /// [`Error::Io`]: why there is no other manifest yet.
    #[inline]
    pub(crate) fn check_no_doubt(&self, family: &FamilyState) -> Result<()> {
        if family.is_in_doubt() { self.resolve_doubt() } else { Ok(()) }
    }

    /// Writes another manifest, in which there is no such change.
    #[cold]
    fn resolve_doubt(&self) -> Result<()> {
        lock(&self.catalog).settle()
    }

    /// As [`Storage::check_no_doubt`], inside the commit gate: a change that fails closes the gate
    /// once, so that each commit is over by then or is refused here. The next call has the doubt
    /// settled.
    ///
    /// # Errors
    /// [`Error::Io`].
    #[inline]
    pub(crate) fn refuse_doubt(&self, families: &[Arc<FamilyState>]) -> Result<()> {
        if families.iter().any(|family| family.is_in_doubt()) { self.doubt() } else { Ok(()) }
    }

    #[cold]
    fn doubt(&self) -> Result<()> {
        let why = "a change of the family failed, and an opening may find it";
        Err(Error::io("settle the manifest", self.files.lock.dir(), std::io::Error::other(why)))
    }

    /// Commits up to here are in memory or in tables: those that are published, except while an
    /// opening replays the log in stretches (I-240).
    pub(crate) fn applied_through(&self) -> SequenceNumber {
        // ORDERING: as in `set`.
        self.log.published().min(self.replayed_through.0.load(Ordering::Relaxed))
    }
}
