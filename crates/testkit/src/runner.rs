//! Applies operations to a database on a simulated disk and to the oracle, and compares.
//!
//! One thread does everything, background jobs included, so that a run is a function of its seed.
//! The runner keeps, for the crash harness, what a crash may leave now ([`Promises`]): hooks of
//! the disk read it in the middle of an operation.

mod callbacks;
mod checks;
mod commits;
mod copies;
mod families;
mod promises;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidesdb::{Components, Db, Error, Family, Snapshot};
use tidesdb_sim::rng::SplitMix64;
use tidesdb_sim::{LogForm, ManualClock, SimVfs};
use tidesdb_sys::clock::Clock;
use tidesdb_sys::vfs::Vfs;

use crate::Verdict;
use crate::faults::Faults;
use crate::operations::{self, Operation};
use crate::oracle::{FamilyId, History};
use crate::settings::{SLOTS, Settings};
use crate::watch::WatchedScheduler;

use self::copies::KeptCopy;
pub use self::promises::{Promises, SharedPromises};

/// Locks, whatever happened to other holders.
pub fn locked<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The machine that a database runs on.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The disk.
    pub sim: Arc<SimVfs>,
    /// What makes calls fail, if anything does.
    pub faults: Option<Arc<Faults>>,
    /// The time.
    pub clock: Arc<ManualClock>,
    /// All options.
    pub settings: Settings,
}

impl Machine {
    /// A machine with an empty disk.
    #[must_use]
    pub fn new(seed: u64, settings: Settings) -> Self {
        let clock = Arc::new(ManualClock::new(1_700_000_000));
        Self { sim: SimVfs::new(seed), faults: None, clock, settings }
    }

    /// The same machine with another disk.
    #[must_use]
    pub fn with_disk(&self, sim: Arc<SimVfs>) -> Self {
        let clock = Arc::new(ManualClock::new(self.clock.unix_seconds()));
        Self { sim, faults: None, clock, settings: self.settings.clone() }
    }

    /// The database's directory.
    #[must_use]
    pub fn dir() -> PathBuf {
        PathBuf::from("/db")
    }

    /// Opens the database.
    ///
    /// # Errors
    /// What the engine says.
    pub fn open(&self, scheduler: &Arc<WatchedScheduler>) -> Result<Db, Error> {
        self.open_at(&Self::dir(), false, scheduler)
    }

    /// Opens a database of this machine, perhaps only for reading.
    fn open_at(
        &self,
        path: &Path,
        read_only: bool,
        scheduler: &Arc<WatchedScheduler>,
    ) -> Result<Db, Error> {
        let written = self.settings.database.log_without_mapping;
        self.sim.set_log_form(if written { LogForm::Written } else { LogForm::Mapped });
        let sim = Arc::clone(&self.sim);
        let vfs: Arc<dyn Vfs> =
            self.faults.as_ref().map_or(sim as Arc<dyn Vfs>, |faults| faults.vfs());
        let components = Components {
            vfs,
            scheduler: Arc::clone(scheduler) as _,
            clock: Arc::clone(&self.clock) as _,
        };
        Db::open_with(path, self.settings.database.clone().read_only(read_only), components)
    }
}

#[derive(Debug)]
struct HeldSnapshot {
    snapshot: Snapshot,
    /// The time at which it was taken.
    now: u64,
    number: u64,
}

/// A workload under way.
// More than a dozen fields: the database, its oracle, and what a run may still do.
#[derive(Debug)]
pub struct Runner {
    /// The machine.
    pub machine: Machine,
    /// All transactions so far.
    pub history: History,
    /// What a crash may leave.
    pub promises: SharedPromises,
    pub(crate) random: SplitMix64,
    scheduler: Arc<WatchedScheduler>,
    pub(crate) db: Option<Db>,
    handles: [Option<Family>; SLOTS],
    snapshots: Vec<HeldSnapshot>,
    next_family: FamilyId,
    /// Families that may come with something in them: begun as copies of others, or gone by what a
    /// full disk shows.
    returning: Vec<FamilyId>,
    kept_copy: Option<KeptCopy>,
    /// What hooks and listeners use.
    callbacks: Arc<Mutex<callbacks::Shared>>,
    /// Merges of slices in openings that are over.
    slices_before: u64,
    /// What the last failed commit said.
    pub last_error: Option<Error>,
}

/// Name of the family of a slot.
#[must_use]
pub fn family_name(slot: usize) -> String {
    format!("family{slot}")
}

impl Runner {
    /// Opens a database, new or not. `history` is what it holds at most, `promises` what it holds
    /// at least.
    ///
    /// # Errors
    /// When the database does not open.
    pub fn start(
        machine: Machine,
        seed: u64,
        history: History,
        promises: SharedPromises,
    ) -> Verdict<Self> {
        let mut random = SplitMix64::new(seed);
        let scheduler = WatchedScheduler::new(random.next_u64());
        let (known, undecided) = {
            let promises = locked(&promises);
            (promises.families, promises.undecided)
        };
        let named = known.iter().chain(undecided.iter().flatten()).flatten().copied();
        let next_family = named.chain(history.families()).max().map_or(0, |highest| highest + 1);
        let mut runner = Self {
            kept_copy: None,
            callbacks: Arc::default(),
            machine,
            history,
            promises,
            random,
            scheduler,
            db: None,
            handles: [const { None }; SLOTS],
            snapshots: Vec::new(),
            next_family,
            returning: Vec::new(),
            slices_before: 0,
            last_error: None,
        };
        if runner.machine.settings.callbacks {
            let listener = callbacks::listener(&runner.callbacks);
            runner.machine.settings.database.event_listener = Some(listener);
        }
        runner.open()?;
        Ok(runner)
    }

    /// Opens the database after it was dropped.
    ///
    /// # Errors
    /// When it does not open although nothing was made to fail.
    pub fn open(&mut self) -> Verdict {
        self.scheduler = WatchedScheduler::new(self.random.next_u64());
        let opened = self.machine.open(&self.scheduler);
        let db = match (opened, &self.machine.faults) {
            (Ok(db), _) => db,
            (Err(e), Some(faults)) => {
                faults.excuse("open", &e)?;
                let _quiet = faults.suspend();
                self.scheduler = WatchedScheduler::new(self.random.next_u64());
                self.machine
                    .open(&self.scheduler)
                    .map_err(|second| format!("open: {e}, and with the cause gone: {second}"))?
            }
            (Err(e), None) => return Err(format!("open: {e}")),
        };
        if let Some(faults) = &self.machine.faults {
            faults.give_memory(&db);
        }
        self.db = Some(db);
        self.take_handles()
    }

    /// Creates the families that are missing.
    ///
    /// # Errors
    /// When that fails.
    pub fn create_all(&mut self) -> Verdict {
        for slot in 0..SLOTS {
            if self.handles[slot].is_none() {
                self.apply(&Operation::CreateOrDrop(slot))?;
            }
        }
        Ok(())
    }

    /// Fills the families and merges each into one run.
    ///
    /// # Errors
    /// When something fails.
    pub fn load(&mut self) -> Verdict {
        self.create_all()?;
        let batches = operations::load(&mut self.random, &self.machine.settings);
        for operation in batches.into_iter().chain([Operation::Compact]) {
            self.scheduler.begin();
            self.apply(&operation).map_err(|e| format!("loading, {operation:?}: {e}"))?;
        }
        Ok(())
    }

    /// Merges of slices of the key space so far.
    #[must_use]
    pub fn slices_merged(&self) -> u64 {
        let families = self.handles.iter().flatten();
        self.slices_before
            + families.map(|family| family.stats().work.compaction_slices).sum::<u64>()
    }

    /// The families that are there.
    #[must_use]
    pub fn live(&self) -> Vec<FamilyId> {
        locked(&self.promises).families.iter().flatten().copied().collect()
    }

    /// Applies `count` random operations.
    ///
    /// # Errors
    /// The first finding, with the operation.
    pub fn run(&mut self, count: usize, mut after_each: impl FnMut(&Self) -> Verdict) -> Verdict {
        for step in 0..count {
            let operation = operations::next(&mut self.random, &self.machine.settings);
            self.scheduler.begin();
            let applied = self.apply(&operation).and_then(|()| self.findings_of_hooks());
            applied.map_err(|e| format!("step {step}, {operation:?}: {e}"))?;
            after_each(self).map_err(|e| format!("after step {step}, {operation:?}: {e}"))?;
        }
        Ok(())
    }

    /// Applies one operation.
    ///
    /// # Errors
    /// What is wrong.
    pub fn apply(&mut self, operation: &Operation) -> Verdict {
        let Some(db) = self.db.clone() else { return Err("no database is open".to_owned()) };
        match operation {
            Operation::Single(write) => self.commit(&db, &[*write], None, true),
            Operation::Batch { writes, sync } => self.commit(&db, writes, *sync, false),
            Operation::TakeSnapshot => {
                let number = locked(&self.promises).started;
                if self.snapshots.len() < 3 {
                    let now = self.machine.clock.unix_seconds();
                    self.snapshots.push(HeldSnapshot { snapshot: db.snapshot(), now, number });
                }
                Ok(())
            }
            Operation::CheckSnapshot => self.check_snapshots(),
            Operation::DropSnapshot => {
                self.snapshots.drain(..self.snapshots.len().min(1));
                Ok(())
            }
            Operation::Flush => self.durable_if("flush", db.flush()),
            Operation::Compact => {
                self.durable_if("compact", db.compact())?;
                self.check_snapshots()
            }
            Operation::SyncLog => self.durable_if("sync_log", db.sync_log()),
            Operation::FlushFamily(slot) => {
                let result = self.handles[*slot].as_ref().map_or(Ok(()), Family::flush);
                self.excuse("flush of a family", result)
            }
            Operation::CompactFamily(slot) => {
                let result = self.handles[*slot].as_ref().map_or(Ok(()), Family::compact);
                self.excuse("compaction of a family", result)?;
                self.check_snapshots()
            }
            Operation::Step(count) => {
                for _ in 0..*count {
                    self.scheduler.manual().step();
                }
                Ok(())
            }
            Operation::FireTimer => {
                self.scheduler.manual().fire_timer();
                self.scheduler.manual().step();
                Ok(())
            }
            Operation::Advance(seconds) => {
                self.machine.clock.advance(Duration::from_secs(*seconds));
                Ok(())
            }
            Operation::CreateOrDrop(slot) => self.create_or_drop(&db, *slot),
            Operation::Rename(from, to) => self.rename(&db, *from, *to),
            Operation::CopyFamily(from, to) => self.copy_family(&db, *from, *to),
            Operation::ChangeOptions(slot) => self.change_options(*slot),
            Operation::CopyDatabase { backup } => self.copy_database(&db, *backup),
            Operation::OpenBeside => self.open_beside(),
            Operation::Reopen { close } => self.reopen(db, *close),
            Operation::Check => self.check_in_any_way(),
        }
    }

    fn excuse(&self, what: &str, result: Result<(), Error>) -> Verdict {
        match (result, &self.machine.faults) {
            (Ok(()), _) => Ok(()),
            (Err(e), Some(faults)) => faults.excuse(what, &e),
            (Err(e), None) => Err(format!("{what}: {e}")),
        }
    }

    /// After these calls a power cut must leave everything.
    fn durable_if(&self, what: &str, result: Result<(), Error>) -> Verdict {
        let worked = result.is_ok();
        self.excuse(what, result)?;
        if worked {
            let mut promises = locked(&self.promises);
            promises.durable = promises.acknowledged;
        }
        Ok(())
    }

    /// Drops every handle.
    pub fn shut(&mut self) {
        self.slices_before = self.slices_merged();
        self.stop_calling_back();
        self.snapshots.clear();
        self.handles = [const { None }; SLOTS];
        self.db = None;
    }

    fn reopen(&mut self, db: Db, close: bool) -> Verdict {
        let stale = self.stale_batch();
        self.shut();
        if close {
            self.excuse("close", db.close())?;
        } else {
            drop(db);
        }
        // It takes as long as an opening, of which there are many.
        if locked(&self.promises).started.is_multiple_of(3) {
            self.read_without_writing()?;
        }
        self.open()?;
        stale.map_or(Ok(()), |batch| self.refuse_stale(&batch))?;
        if !self.machine.faults.as_ref().is_some_and(|faults| faults.disk_is_full()) {
            self.durable_if("open", Ok(()))?;
        }
        self.check()
    }

    /// Runs background jobs until none is ready.
    pub fn settle(&self) {
        self.scheduler.begin();
        self.scheduler.manual().run_until_idle();
    }
}
