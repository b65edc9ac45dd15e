//! What all handles, jobs and iterators of an open database share.

mod callers;
mod control;
mod families;
mod health;
mod jobs;
mod owner;
mod progress;

use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, Weak};

use tidesdb_base::error::{Error, Result};
use tidesdb_base::options::DbOptions;
use tidesdb_lockfree::arena::BlockPool;
use tidesdb_lockfree::sync::lock;
use tidesdb_sys::clock::Clock;
use tidesdb_sys::sched::Scheduler;
use tidesdb_sys::vfs::Vfs;

pub(crate) use self::callers::{CallerAtWork, Callers};
pub(crate) use self::control::Control;
pub(crate) use self::families::Families;
pub(crate) use self::health::Health;
pub(crate) use self::jobs::Jobs;
pub(crate) use self::owner::{Owner, OwnerShare, SharedOwner};
pub(crate) use self::progress::Progress;
use crate::counters::Counted;
use crate::dependencies::Dependencies;
use crate::events::Events;
use crate::family::FamilyState;
use crate::flow::{DatabaseFlow, MemoryBudget};
use crate::log::Log;
use crate::moments::SnapshotRegistry;
use crate::numbers::{DatabaseId, FileNumbers};
use crate::spare_buffers::SpareBuffers;
use crate::version::{Catalog, FileContext};
use crate::watch::Watch;

/// The inside of an open database.
// More than a dozen fields: the parts that jobs and handles share, of a type each.
pub(crate) struct Core {
    /// Itself, for the jobs that it queues.
    pub this: Weak<Self>,
    pub identity: DatabaseId,
    pub path: PathBuf,
    pub options: DbOptions,
    pub vfs: Arc<dyn Vfs>,
    pub scheduler: Arc<dyn Scheduler>,
    pub clock: Arc<dyn Clock>,
    pub numbers: Arc<FileNumbers>,
    pub log: Log,
    /// Taken before any lock of a family's view.
    pub catalog: Mutex<Catalog>,
    pub families: Families,
    pub files: Arc<FileContext>,
    pub memory: Arc<BlockPool>,
    pub spare_buffers: SpareBuffers,
    pub budget: Arc<MemoryBudget>,
    pub flow: DatabaseFlow,
    pub counters: CoreCounters,
    pub watch: Watch,
    pub events: Events,
    pub control: Control,
    pub snapshots: SnapshotRegistry,
    /// What serializable transactions have read. Taken before the commit gate is entered.
    pub dependencies: Mutex<Dependencies>,
    pub health: Health,
    pub callers: Callers,
    pub progress: Progress,
    pub jobs: Jobs,
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Core").field("path", &self.path).finish_non_exhaustive()
    }
}

/// Counters of the database, for statistics.
#[derive(Debug, Default)]
pub(crate) struct CoreCounters {
    /// What families did that are dropped. Held while what all have done is added up.
    pub dropped: Mutex<Counted>,
    pub transaction_conflicts: AtomicU64,
    pub serialization_conflicts: AtomicU64,
}

impl Core {
    /// Refuses reads of a closed database or a dropped family.
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::FamilyDropped`].
    #[inline]
    pub(crate) fn check_readable(&self, family: &FamilyState) -> Result<()> {
        if family.is_dropped() {
            return Err(family.dropped_error());
        }
        self.health.check_open()
    }

    /// Refuses writes to a closed, failed or read-only database or to a dropped family.
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::FamilyDropped`], [`Error::ReadOnly`],
    /// [`Error::OpenedReadOnly`]; [`Error::InvalidArgument`] for a family of another database.
    #[inline]
    pub(crate) fn check_writable(&self, family: &FamilyState) -> Result<()> {
        self.check_readable(family)?;
        if self.options.read_only {
            return Err(Error::OpenedReadOnly);
        }
        self.health.check()?;
        if self.identity != family.database {
            return Err(Error::InvalidArgument("the family is of another database".to_owned()));
        }
        Ok(())
    }

    /// Refuses commits to a family while an opening may find a drop of it that failed.
    ///
    /// # Errors
    /// [`Error::Io`]: why there is no other manifest yet.
    #[inline]
    pub(crate) fn check_no_doubt(&self, family: &FamilyState) -> Result<()> {
        if family.drop_is_in_doubt() { self.settle_catalog() } else { Ok(()) }
    }

    /// As [`Core::check_no_doubt`], inside the commit gate: a drop that fails closes the gate once,
    /// so that each commit is over by then or is refused here. The next call has the doubt settled.
    ///
    /// # Errors
    /// [`Error::Io`].
    #[inline]
    pub(crate) fn refuse_doubt(&self, families: &[Arc<FamilyState>]) -> Result<()> {
        if families.iter().any(|family| family.drop_is_in_doubt()) { self.doubt() } else { Ok(()) }
    }

    #[cold]
    fn doubt(&self) -> Result<()> {
        let why = "a drop of the family failed, and an opening may find it";
        Err(Error::io("settle the manifest", &self.path, std::io::Error::other(why)))
    }

    /// Has another manifest written, in which there is no drop.
    #[cold]
    fn settle_catalog(&self) -> Result<()> {
        lock(&self.catalog).settle()
    }
}
