//! The outside world that a database works with: its doors, as an opening is given them.

use std::sync::Arc;

use tidesdb_base::error::{Error, Result};
use tidesdb_base::options::DbOptions;
use tidesdb_sys::clock::{Clock, SystemClock};
use tidesdb_sys::sched::{LaneThreads, Scheduler, ThreadPool};
use tidesdb_sys::vfs::{RealVfs, Vfs};

/// The outside world that a database works with.
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
        let processors = std::thread::available_parallelism().map_or(2, usize::from);
        let threads = LaneThreads {
            flush: match options.flush_threads {
                0 => processors.min(4),
                threads => threads,
            },
            compaction: options.merging_threads(),
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
