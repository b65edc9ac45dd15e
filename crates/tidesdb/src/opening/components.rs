//! The outside world that a database works with: its doors, as an opening is given them.

use std::sync::Arc;

use tidesdb_base::error::{Error, Result};
use tidesdb_base::options::DbOptions;
use tidesdb_sys::clock::{Clock, SystemClock};
use tidesdb_sys::descriptors::beside_standard;
use tidesdb_sys::sched::{LaneThreads, Scheduler, ThreadPool};
use tidesdb_sys::vfs::{RealVfs, Vfs};

/// The outside world that a database works with, for [`Db::open_with`](crate::Db::open_with).
///
/// Take those of the machine ([`Components::for_options`]) and put your own in the place of one, or
/// around it. Here a scheduler that counts jobs; `examples/own_components.rs` has a file system
/// that counts what is written, and a scheduler with a thread of its own.
///
/// ```
/// # let directory = tempfile::tempdir()?;
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use std::time::Duration;
///
/// use tidesdb::{Components, Db, DbOptions, FamilyOptions, Job, Lane, Scheduler};
///
/// #[derive(Debug)]
/// struct Counted {
///     inner: Arc<dyn Scheduler>,
///     jobs: AtomicU64,
/// }
///
/// impl Scheduler for Counted {
///     fn submit(&self, lane: Lane, job: Job) {
///         self.jobs.fetch_add(1, Ordering::Relaxed);
///         self.inner.submit(lane, job);
///     }
///     fn submit_after(&self, lane: Lane, delay: Duration, job: Job) {
///         self.inner.submit_after(lane, delay, job);
///     }
///     fn run_one_job(&self) -> bool {
///         self.inner.run_one_job()
///     }
///     fn shutdown(&self) {
///         self.inner.shutdown();
///     }
/// }
///
/// let options = DbOptions::default();
/// let machine = Components::for_options(&options)?;
/// let scheduler = Arc::new(Counted { inner: machine.scheduler, jobs: AtomicU64::new(0) });
/// let components =
///     Components { scheduler: Arc::clone(&scheduler) as Arc<dyn Scheduler>, ..machine };
/// let db = Db::open_with(directory.path(), options, components)?;
/// db.open_family("default", FamilyOptions::default())?.put(b"key", b"value")?;
/// db.flush()?;
/// db.close()?;
/// assert!(scheduler.jobs.load(Ordering::Relaxed) > 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Components {
    /// Where files are.
    pub vfs: Arc<dyn Vfs>,
    /// Who does the background work. It is shut down with the database.
    pub scheduler: Arc<dyn Scheduler>,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
}

impl Components {
    /// A simulated disk, a scheduler that is stepped and a clock that stands, for unit tests.
    #[cfg(test)]
    pub(crate) fn simulated() -> Self {
        use tidesdb_sim::{ManualClock, ManualScheduler, SimVfs};
        Self {
            vfs: SimVfs::new(1),
            scheduler: Arc::new(ManualScheduler::new(1)),
            clock: Arc::new(ManualClock::new(1000)),
        }
    }

    /// The machine's file system and clock, and threads as the options say.
    ///
    /// # Errors
    /// [`Error::InvalidOptions`]; [`Error::Io`] when threads can't be started.
    pub fn for_options(options: &DbOptions) -> Result<Self> {
        options.validate()?;
        // It reads the limits of the control group.
        let processors = beside_standard(std::thread::available_parallelism);
        let processors = processors.map_or(2, usize::from);
        let threads = LaneThreads {
            flush: match options.flush_threads {
                0 => processors.min(4),
                threads => threads,
            },
            compaction: options.resolved_compaction_threads(),
            sync: 1,
            housekeeping: 1,
        };
        let vfs: Arc<dyn Vfs> = if options.log_without_mapping {
            Arc::new(RealVfs::without_mapping())
        } else {
            Arc::new(RealVfs::new())
        };
        let report = Arc::new(|_lane, _message: &str| {});
        let pool = ThreadPool::new("tidesdb", threads, report)
            .map_err(|e| Error::io("start threads", "", e))?;
        Ok(Self { vfs, scheduler: Arc::new(pool), clock: Arc::new(SystemClock) })
    }
}
