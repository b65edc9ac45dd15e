//! What all handles, jobs and iterators of an open database share: `Core`, made of parts with one
//! job each.
//!
//! | file | what |
//! |---|---|
//! | `environment` | what the database was opened with |
//! | `storage` | what it has on disk: log, catalog, files |
//! | `families`, `snapshots` | the families, and the snapshots that are registered |
//! | `health`, `owner`, `callers` | whether it serves, what keeps it open, calls that change files |
//! | `background_work`, `background_control` | work in the background, and what users have asked of it |
//! | `jobs`, `progress_signal` | what of it is queued or runs, and how callers wait for it |
//! | `requests` | how lower layers ask for that work |
//! | `disk_space` | how much space is left for whom |

mod background_control;
mod background_work;
mod callers;
mod disk_space;
mod environment;
mod families;
mod health;
mod jobs;
mod owner;
mod progress_signal;
mod requests;
mod snapshots;
mod storage;

use std::sync::{Arc, Weak};

use tidesdb_base::error::{Error, Result};

pub(crate) use self::background_control::{BackgroundControl, SyncTimer};
pub(crate) use self::background_work::BackgroundWork;
pub(crate) use self::callers::{CallerAtWork, Callers};
pub(crate) use self::disk_space::RoomForCopy;
pub(crate) use self::environment::{Environment, lies_in};
pub(crate) use self::families::{Families, check_name, check_number_of_families};
pub(crate) use self::health::Health;
pub(crate) use self::jobs::Jobs;
pub(crate) use self::owner::{Owner, OwnerShare, SharedOwner, ShutDown};
pub(crate) use self::progress_signal::ProgressSignal;
pub(crate) use self::requests::{BackgroundRequests, TryCommit};
pub(crate) use self::storage::Storage;
use crate::family::FamilyState;
use crate::flow::DatabaseFlow;
use crate::isolation::Isolation;
use crate::memory::Memory;
use crate::telemetry::Telemetry;

/// The inside of an open database: its parts, which jobs and handles share.
pub(crate) struct Core {
    /// Itself, for the jobs that it queues.
    pub this: Weak<Self>,
    pub env: Environment,
    pub health: Health,
    pub storage: Storage,
    pub families: Families,
    pub memory: Memory,
    pub isolation: Isolation,
    /// How fast writers may go.
    pub flow: DatabaseFlow,
    pub work: BackgroundWork,
    pub telemetry: Telemetry,
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Core").field("path", &self.env.path).finish_non_exhaustive()
    }
}

impl Core {
    /// Refuses writes to a closed, failed or read-only database or to a dropped family.
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::FamilyDropped`], [`Error::Broken`],
    /// [`Error::ReadOnly`]; [`Error::InvalidArgument`] for a family of another database.
    #[inline]
    pub(crate) fn check_writable(&self, family: &FamilyState) -> Result<()> {
        self.health.check_readable(family)?;
        if self.env.options.read_only {
            return Err(Error::ReadOnly);
        }
        self.health.check()?;
        if self.env.identity != family.database {
            return Err(Error::InvalidArgument("the family is of another database".to_owned()));
        }
        Ok(())
    }

    /// Whether files of the directory may be changed at all.
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::ReadOnly`], [`Error::Broken`].
    pub(crate) fn check_changeable(&self) -> Result<()> {
        self.health.check_open()?;
        if self.env.options.read_only {
            return Err(Error::ReadOnly);
        }
        self.health.check()
    }

    /// Does something with all families. One that was dropped meanwhile needs nothing any more.
    ///
    /// # Errors
    /// [`Error::Forked`]; the first of `work`, which ends it.
    pub(crate) fn each_family(
        &self,
        work: impl Fn(&Self, &Arc<FamilyState>) -> Result<()>,
    ) -> Result<()> {
        // The lock of the families may be held for good in a forked child.
        self.health.check_not_forked()?;
        self.families.all().iter().try_for_each(|family| match work(self, family) {
            Err(Error::FamilyDropped(_)) => Ok(()),
            other => other,
        })
    }
}
