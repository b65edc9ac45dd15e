//! Applies operations to a database on a simulated disk and to the oracle, and compares.
//!
//! One thread does everything, background jobs included, so that a run is a function of its seed.
//! The runner keeps, for the crash harness, what a crash may leave now ([`Promises`]): hooks of
//! the disk read it in the middle of an operation.
//! Longer than 600 lines because operations, promises and checks share the state of one run.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidesdb_engine::{Components, Db, Error, Family, Snapshot, SyncMode, WriteOptions};
use tidesdb_sys::clock::{Clock, ManualClock};
use tidesdb_sys::rng::SplitMix64;
use tidesdb_sys::vfs::{SimVfs, Vfs};

use crate::Verdict;
use crate::faults::Faults;
use crate::inspect;
use crate::operations::{self, Operation, PlannedWrite, key_bytes};
use crate::oracle::{Contents, FamilyId, History, PrefixBounds, Transaction, contents_hash};
use crate::planned_commit::PlannedCommit;
use crate::settings::{SLOTS, Settings};
use crate::watch::WatchedScheduler;

/// What a crash at this moment may and may not take.
#[derive(Clone, Copy, Debug, Default)]
pub struct Promises {
    /// The last transaction that was acknowledged: a process kill must leave it.
    pub acknowledged: u64,
    /// The last transaction that was begun: nothing later may appear.
    pub started: u64,
    /// The last transaction that a power cut must leave.
    pub durable: u64,
    /// What will be durable when the log sync under way is done.
    pub syncing: u64,
    /// Per slot, the family that is known to be there.
    pub families: [Option<FamilyId>; SLOTS],
    /// Per slot, a family that may be there, or not, since a creation or a removal is under way.
    pub undecided: [Option<Option<FamilyId>>; SLOTS],
}

/// Promises shared with the hooks of the disk.
pub type SharedPromises = Arc<Mutex<Promises>>;

/// Locks, whatever happened to other holders.
pub fn locked<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The machine that a database runs on.
#[derive(Clone, Debug)]
pub struct World {
    /// The disk.
    pub sim: Arc<SimVfs>,
    /// What makes calls fail, if anything does.
    pub faults: Option<Arc<Faults>>,
    /// The time.
    pub clock: Arc<ManualClock>,
    /// All options.
    pub settings: Settings,
}

impl World {
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
        let sim = Arc::clone(&self.sim);
        let vfs: Arc<dyn Vfs> =
            self.faults.as_ref().map_or(sim as Arc<dyn Vfs>, |faults| faults.vfs());
        let components = Components {
            vfs,
            scheduler: Arc::clone(scheduler) as _,
            clock: Arc::clone(&self.clock) as _,
        };
        Db::open_with(Self::dir(), self.settings.database.clone(), components)
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
#[derive(Debug)]
pub struct Runner {
    /// The machine.
    pub world: World,
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
        world: World,
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
            world,
            history,
            promises,
            random,
            scheduler,
            db: None,
            handles: [const { None }; SLOTS],
            snapshots: Vec::new(),
            next_family,
            slices_before: 0,
            last_error: None,
        };
        runner.open()?;
        Ok(runner)
    }

    /// Opens the database after it was dropped.
    ///
    /// # Errors
    /// When it does not open although nothing was made to fail.
    pub fn open(&mut self) -> Verdict {
        self.scheduler = WatchedScheduler::new(self.random.next_u64());
        let opened = self.world.open(&self.scheduler);
        let db = match (opened, &self.world.faults) {
            (Ok(db), _) => db,
            (Err(e), Some(faults)) => {
                faults.excuse("open", &e)?;
                let _quiet = faults.suspend();
                self.scheduler = WatchedScheduler::new(self.random.next_u64());
                self.world
                    .open(&self.scheduler)
                    .map_err(|second| format!("open: {e}, and with the cause gone: {second}"))?
            }
            (Err(e), None) => return Err(format!("open: {e}")),
        };
        self.db = Some(db);
        self.take_handles()
    }

    /// Learns which families are there, where that was undecided.
    fn take_handles(&mut self) -> Verdict {
        let Some(db) = self.db.clone() else { return Ok(()) };
        let mut promises = locked(&self.promises);
        for slot in 0..SLOTS {
            let family = db.family(&family_name(slot)).ok();
            let known = promises.families[slot];
            if family.is_some() != known.is_some() {
                match promises.undecided[slot] {
                    Some(other) if other.is_some() == family.is_some() => {
                        promises.families[slot] = other;
                    }
                    _ => {
                        return Err(format!(
                            "family {slot} is {}, promised: {known:?}",
                            if family.is_some() { "there" } else { "missing" }
                        ));
                    }
                }
            }
            promises.undecided[slot] = None;
            self.handles[slot] = family;
        }
        Ok(())
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
        let batches = operations::load(&mut self.random, &self.world.settings);
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
        self.slices_before + families.map(|family| family.stats().compaction_slices).sum::<u64>()
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
            let operation = operations::next(&mut self.random, &self.world.settings);
            self.scheduler.begin();
            self.apply(&operation).map_err(|e| format!("step {step}, {operation:?}: {e}"))?;
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
                    let now = self.world.clock.unix_seconds();
                    self.snapshots.push(HeldSnapshot { snapshot: db.snapshot(), now, number });
                }
                Ok(())
            }
            Operation::CheckSnapshot => self.check_snapshot(),
            Operation::DropSnapshot => {
                self.snapshots.drain(..self.snapshots.len().min(1));
                Ok(())
            }
            Operation::Flush => self.durable_if("flush", db.flush()),
            Operation::Compact => {
                self.durable_if("compact", db.compact())?;
                self.check_snapshot()
            }
            Operation::SyncLog => self.durable_if("sync_log", db.sync_log()),
            Operation::FlushFamily(slot) => {
                let result = self.handles[*slot].as_ref().map_or(Ok(()), Family::flush);
                self.excuse("flush of a family", result)
            }
            Operation::CompactFamily(slot) => {
                let result = self.handles[*slot].as_ref().map_or(Ok(()), Family::compact);
                self.excuse("compaction of a family", result)?;
                self.check_snapshot()
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
                self.world.clock.advance(Duration::from_secs(*seconds));
                Ok(())
            }
            Operation::CreateOrDrop(slot) => self.create_or_drop(&db, *slot),
            Operation::Reopen { close } => self.reopen(db, *close),
            Operation::Check => self.check(),
        }
    }

    fn excuse(&self, what: &str, result: Result<(), Error>) -> Verdict {
        match (result, &self.world.faults) {
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

    fn commit(
        &mut self,
        db: &Db,
        planned: &[PlannedWrite],
        sync: Option<bool>,
        single: bool,
    ) -> Verdict {
        let number = locked(&self.promises).started + 1;
        let now = self.world.clock.unix_seconds();
        let families = locked(&self.promises).families;
        let mut transaction = Transaction { number, writes: Vec::new() };
        let mut batch =
            PlannedCommit::new(db, number, planned).map_err(|e| format!("begin: {e}"))?;
        let mut full = self.world.settings.database.sync_mode == SyncMode::Full;
        let mut alone = Ok(());
        for (place, write) in planned.iter().enumerate() {
            let (Some(id), Some(family)) = (families[write.slot], &self.handles[write.slot]) else {
                continue;
            };
            full |= family.options().sync_mode == SyncMode::Full;
            let (mut write, bytes) = write.materialize((number, place as u32), id, now);
            let earlier = &transaction.writes;
            write.single &= self.history.allows_single_deletion(earlier, id, &write.key);
            transaction.writes.push(write.clone());
            let added = batch.add(family, &write, &bytes);
            added.map_err(|e| format!("building a batch: {e}"))?;
            if single {
                self.history.push(transaction.clone());
                locked(&self.promises).started = number;
                alone = write.apply_to(family, &bytes);
            }
        }
        if transaction.writes.is_empty() {
            return Ok(());
        }
        let result = if single {
            alone
        } else {
            self.history.push(transaction);
            locked(&self.promises).started = number;
            batch.commit(db, sync.map_or_else(WriteOptions::new, |on| WriteOptions::new().sync(on)))
        };
        match result {
            Ok(()) => {
                let mut promises = locked(&self.promises);
                promises.acknowledged = number;
                // What was acknowledged after a drop that failed must not be lost to that drop.
                let there = planned.iter().filter(|write| families[write.slot].is_some());
                there.for_each(|write| promises.undecided[write.slot] = None);
                if sync.unwrap_or(full) {
                    promises.durable = number;
                }
                Ok(())
            }
            Err(e) => self.failed_commit(number, &e),
        }
    }

    /// A commit failed: it must have had no effect, unless what failed is the sync after it.
    fn failed_commit(&mut self, number: u64, error: &Error) -> Verdict {
        let Some(faults) = self.world.faults.clone() else {
            return Err(format!("transaction {number} failed: {error}"));
        };
        faults.excuse("commit", error)?;
        self.last_error = Some(error.clone());
        let _quiet = faults.suspend();
        let found = contents_hash(&self.read()?);
        let now = self.world.clock.unix_seconds();
        let live = self.live();
        let with = self.history.contents(&live, number, now);
        let without = self.history.contents(&live, number - 1, now);
        if found == contents_hash(&without) {
            self.history.pop();
            return Ok(());
        }
        if found != contents_hash(&with) {
            return Err(format!("transaction {number} failed ({error}) and is there in part"));
        }
        if crate::faults::is_failed_sync(error) {
            return Ok(());
        }
        Err(format!("transaction {number} failed ({error}) and is visible"))
    }

    /// Writes one key; says whether that worked, or there is no such family.
    ///
    /// # Errors
    /// When a failed write has an effect.
    pub fn try_write(&mut self, write: PlannedWrite) -> Verdict<bool> {
        let Some(db) = self.db.clone() else { return Err("no database is open".to_owned()) };
        self.scheduler.begin();
        let before = locked(&self.promises).acknowledged;
        self.commit(&db, &[write], None, true)?;
        Ok(self.handles[write.slot].is_none() || locked(&self.promises).acknowledged > before)
    }

    fn create_or_drop(&mut self, db: &Db, slot: usize) -> Verdict {
        let name = family_name(slot);
        let before = locked(&self.promises).families[slot];
        let after = match before {
            Some(_) => None,
            None => {
                self.next_family += 1;
                Some(self.next_family)
            }
        };
        locked(&self.promises).undecided[slot] = Some(after);
        let result = match after {
            None => db.drop_family(&name),
            Some(_) => {
                let options = self.world.settings.families[slot].clone();
                db.create_family(&name, options).map(drop)
            }
        };
        let worked = result.is_ok();
        self.excuse("create or drop a family", result)?;
        let there = db.family(&name).is_ok();
        if there != if worked { after.is_some() } else { before.is_some() } {
            return Err(format!("family {slot} is there: {there}, the call worked: {worked}"));
        }
        let mut promises = locked(&self.promises);
        if worked {
            promises.families[slot] = after;
            promises.undecided[slot] = None;
        }
        self.handles[slot] = db.family(&name).ok();
        Ok(())
    }

    /// Drops every handle.
    pub fn shut(&mut self) {
        self.slices_before = self.slices_merged();
        self.snapshots.clear();
        self.handles = [const { None }; SLOTS];
        self.db = None;
    }

    fn reopen(&mut self, db: Db, close: bool) -> Verdict {
        self.shut();
        if close {
            self.excuse("close", db.close())?;
        } else {
            drop(db);
        }
        self.open()?;
        if !self.world.faults.as_ref().is_some_and(|faults| faults.disk_is_full()) {
            self.durable_if("open", Ok(()))?;
        }
        self.check()
    }

    /// Reads all families.
    ///
    /// # Errors
    /// What the engine says.
    pub fn read(&self) -> Verdict<Contents> {
        let families = locked(&self.promises).families;
        let mut contents = Contents::new();
        for (slot, id) in families.iter().enumerate() {
            let (Some(id), Some(family)) = (id, &self.handles[slot]) else { continue };
            contents.insert(*id, inspect::read_forwards(family, None)?);
        }
        Ok(contents)
    }

    /// Compares everything with the oracle.
    ///
    /// # Errors
    /// What differs.
    pub fn check(&self) -> Verdict {
        let _quiet = self.world.faults.as_ref().map(|faults| faults.suspend());
        let found = self.read()?;
        let expected =
            self.history.contents(&self.live(), u64::MAX, self.world.clock.unix_seconds());
        if found != expected {
            let differences = self.history.differences(&expected, &found);
            return Err(format!("the database differs from the oracle: {differences}"));
        }
        Ok(())
    }

    /// Finds out which prefix of the history the database shows.
    ///
    /// # Errors
    /// When it shows none within the bounds.
    pub fn find_prefix(&self, lower: u64, upper: u64) -> Verdict<(u64, Contents)> {
        let found = self.read()?;
        let (live, now) = (self.live(), self.world.clock.unix_seconds());
        let hash = contents_hash(&found);
        let find = |lower, upper| {
            self.history.find_prefix(&live, hash, PrefixBounds { lower, upper, now })
        };
        if let Some(number) = find(lower, upper) {
            return Ok((number, found));
        }
        if let Some(number) = find(0, u64::MAX) {
            return Err(format!("recovered transactions 1..={number}, allowed {lower}..={upper}"));
        }
        let lowest = self.history.contents(&live, lower, now);
        let highest = self.history.contents(&live, upper, now);
        Err(format!(
            "no prefix of the history; against {lower}: {}\nagainst {upper}: {}",
            self.history.differences(&lowest, &found),
            self.history.differences(&highest, &found)
        ))
    }

    fn check_snapshot(&mut self) -> Verdict {
        let Some(held) = self.snapshots.first() else { return Ok(()) };
        let _quiet = self.world.faults.as_ref().map(|faults| faults.suspend());
        let families = locked(&self.promises).families;
        let now = held.now;
        for (slot, id) in families.iter().enumerate() {
            let (Some(id), Some(family)) = (id, &self.handles[slot]) else { continue };
            let found = inspect::read_forwards(family, Some(&held.snapshot))?;
            let found = Contents::from([(*id, found)]);
            let expected = self.history.contents(&[*id], held.number, now);
            if found != expected {
                let differences = self.history.differences(&expected, &found);
                return Err(format!("a snapshot at {} changed: {differences}", held.number));
            }
            let key = key_bytes(1 + self.random.below(self.world.settings.keys));
            let got = family.get_at(&held.snapshot, &key).map_err(|e| e.to_string())?;
            if got.as_ref() != expected.get(id).and_then(|content| content.get(&key)) {
                return Err(format!("get_at of {key:?} differs from a scan of the snapshot"));
            }
        }
        Ok(())
    }

    /// Reads everything in every way.
    ///
    /// # Errors
    /// What differs.
    pub fn check_all_ways(&mut self, contents: &Contents) -> Verdict {
        let families = locked(&self.promises).families;
        for (slot, id) in families.iter().enumerate() {
            let (Some(id), Some(family)) = (id, &self.handles[slot]) else { continue };
            let Some(content) = contents.get(id) else { continue };
            inspect::check_backwards(family, content)?;
            inspect::check_gets(family, content, self.world.settings.keys, &mut self.random)?;
        }
        Ok(())
    }

    /// Runs background jobs until none is ready.
    pub fn settle(&self) {
        self.scheduler.begin();
        self.scheduler.manual().run_until_idle();
    }
}
