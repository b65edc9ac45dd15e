//! What all handles, jobs and iterators of an open database share.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, RwLock, Weak};
use std::time::Duration;

use tidesdb_base::error::{Error, Result};
use tidesdb_base::event::{Event, LogLevel};
use tidesdb_base::key_order::KeyOrders;
use tidesdb_base::options::DbOptions;
use tidesdb_lockfree::arena::BlockPool;
use tidesdb_lockfree::stripe::thread_number;
use tidesdb_lockfree::sync::{CachePadded, lock, wait};
use tidesdb_sys::clock::Clock;
use tidesdb_sys::forks::ProcessMark;
use tidesdb_sys::sched::Scheduler;
use tidesdb_sys::vfs::Vfs;

use crate::counters::Counted;
use crate::dependencies::Dependencies;
use crate::event_log::EventLog;
use crate::family::{FamilyState, RunningMerges};
use crate::flow::{DatabaseFlow, MemoryBudget};
use crate::log::Log;
use crate::numbers::FileNumbers;
use crate::snapshot::SnapshotRegistry;
use crate::spans;
use crate::spare_buffers::SpareBuffers;
use crate::version::{Catalog, FileContext};
use crate::watch::Watch;

/// Tells the databases that a process has opened apart: no two have had the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DatabaseId(u64);

impl DatabaseId {
    /// An identity that no database has had before.
    pub(crate) fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        // ORDERING: relaxed; only that numbers differ matters.
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// The inside of an open database.
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
    /// Orders of keys of the application's own.
    pub key_orders: Mutex<KeyOrders>,
    pub files: Arc<FileContext>,
    pub memory: Arc<BlockPool>,
    pub spare_buffers: SpareBuffers,
    pub budget: Arc<MemoryBudget>,
    pub flow: DatabaseFlow,
    pub counters: CoreCounters,
    pub watch: Watch,
    pub event_log: Option<EventLog>,
    pub control: Control,
    pub snapshots: SnapshotRegistry,
    /// What serializable transactions have read. Taken before the commit gate is entered.
    pub dependencies: Mutex<Dependencies>,
    pub health: Health,
    /// Held while families come, go or get other names, and while all have to stay as they are.
    pub changing_families: Mutex<()>,
    /// Held during a close.
    pub closing: Mutex<()>,
    pub callers: Callers,
    pub progress: Progress,
    /// Background jobs queued or running.
    pub jobs: AtomicU64,
    /// When timers go off that look for what has expired, in Unix seconds.
    pub expiry_timers: Mutex<BTreeSet<u64>>,
    /// Merges that started by themselves and run, of all families.
    pub running_merges: RunningMerges,
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
    /// Whether an event of this level is told to any listener.
    pub(crate) fn tells(&self, level: LogLevel) -> bool {
        let listener = &self.options.event_listener;
        spans::wants(level)
            || self.event_log.as_ref().is_some_and(|log| log.wants(level))
            || (listener.is_some() && level >= self.options.event_listener_level)
    }

    /// Writes an event to the log of events, and passes it on to `tracing` and to the listener, if
    /// there are any. Events that the listener itself causes are not passed on: it would be called
    /// within itself.
    #[cold]
    pub(crate) fn tell(&self, event: &Event) {
        thread_local! {
            static LISTENING: Cell<bool> = const { Cell::new(false) };
        }
        if let Some(log) = &self.event_log {
            log.write(event);
        }
        call_out(|| spans::tell(event));
        let Some(listener) = &self.options.event_listener else { return };
        if event.level() < self.options.event_listener_level {
            return;
        }
        if !LISTENING.replace(true) {
            call_out(|| listener.tell(event));
            LISTENING.set(false);
        }
    }

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

/// Calls a function of the user's. A panic ends here: it must neither undo what the engine has done
/// nor meet another one. The process's panic hook has reported it by then.
pub(crate) fn call_out(function: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(function));
}

/// What users have told background work to do.
#[derive(Debug, Default)]
pub(crate) struct Control {
    /// Callers that want no flush and no merge to start.
    paused: AtomicU64,
    /// No merge runs any more until the database is reopened.
    cancelled: AtomicBool,
    /// Number of the timer of interval syncs that is in force; others end.
    sync_timer: AtomicU64,
    /// A job that lets the log be shortened is queued or running.
    pub log_is_trimmed: AtomicBool,
}

// ORDERING: SeqCst throughout: set before the flags of running work are read, and read by that
// work after it has set its flag, so that one of the two sees the other.
impl Control {
    /// No flush and no merge starts any more until as many calls of [`Control::resume`].
    pub(crate) fn pause(&self) {
        self.paused.fetch_add(1, Ordering::SeqCst);
    }

    /// Takes one call of [`Control::pause`] back; true when it was the last.
    pub(crate) fn resume(&self) -> bool {
        let less_one = |paused: u64| paused.checked_sub(1);
        let before = self.paused.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less_one);
        before == Ok(1)
    }

    /// Takes all calls of [`Control::pause`] back.
    pub(crate) fn end_pauses(&self) {
        self.paused.store(0, Ordering::SeqCst);
    }

    /// True while no flush and no merge may start.
    pub(crate) fn is_paused(&self) -> bool {
        self.paused.load(Ordering::SeqCst) > 0
    }

    /// No merge runs any more.
    pub(crate) fn cancel_merges(&self) {
        self.cancelled.store(true, Ordering::SeqCst);
    }

    /// True once merges were cancelled.
    pub(crate) fn merges_are_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::SeqCst)
    }

    /// Puts another timer of interval syncs in force.
    pub(crate) fn next_sync_timer(&self) -> u64 {
        self.sync_timer.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Whether that timer is in force.
    pub(crate) fn is_sync_timer(&self, number: u64) -> bool {
        self.sync_timer.load(Ordering::SeqCst) == number
    }
}

/// The families of a database, by name and by number.
#[derive(Debug, Default)]
pub(crate) struct Families(RwLock<BTreeMap<String, Arc<FamilyState>>>);

impl Families {
    /// The family of that name.
    pub(crate) fn by_name(&self, name: &str) -> Option<Arc<FamilyState>> {
        self.read(|families| families.get(name).cloned())
    }

    /// All families, by name.
    pub(crate) fn all(&self) -> Vec<Arc<FamilyState>> {
        self.read(|families| families.values().cloned().collect())
    }

    /// Names of all families, in order.
    pub(crate) fn names(&self) -> Vec<String> {
        self.read(|families| families.keys().cloned().collect())
    }

    /// Makes a family known.
    pub(crate) fn insert(&self, family: Arc<FamilyState>) {
        let mut families = self.0.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        families.insert(family.name().to_string(), family);
    }

    /// Makes a family known by another name, in one step.
    pub(crate) fn rename(&self, old: &str, new: &str) {
        let mut families = self.0.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(family) = families.remove(old) {
            family.set_name(new);
            families.insert(new.to_owned(), family);
        }
    }

    /// Forgets a family.
    pub(crate) fn remove(&self, name: &str) {
        let mut families = self.0.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        families.remove(name);
    }

    fn read<R>(&self, look: impl FnOnce(&BTreeMap<String, Arc<FamilyState>>) -> R) -> R {
        look(&self.0.read().unwrap_or_else(std::sync::PoisonError::into_inner))
    }
}

/// Whether the database still serves.
#[derive(Debug, Default)]
pub(crate) struct Health {
    /// The process that opened the database; in its forked children every call is refused.
    home: ProcessMark,
    closed: AtomicBool,
    failed: AtomicBool,
    cause: Mutex<Option<Error>>,
}

impl Health {
    /// Refuses all writes from now on.
    pub(crate) fn fail(&self, cause: Error) {
        lock(&self.cause).get_or_insert(cause);
        // ORDERING: release publishes the cause.
        self.failed.store(true, Ordering::Release);
    }

    /// Why writes are refused, if they are.
    ///
    /// # Errors
    /// [`Error::ReadOnly`] with the first failure.
    #[inline]
    pub(crate) fn check(&self) -> Result<()> {
        // ORDERING: acquire pairs with the release in `fail`.
        if self.failed.load(Ordering::Acquire) { self.cause() } else { Ok(()) }
    }

    #[cold]
    fn cause(&self) -> Result<()> {
        match lock(&self.cause).clone() {
            Some(cause) => Err(Error::ReadOnly(Arc::new(cause))),
            None => Ok(()),
        }
    }

    /// Marks the database closed; false when it was already.
    pub(crate) fn close(&self) -> bool {
        // ORDERING: what happened before closing is visible to a thread that sees it closed.
        !self.closed.swap(true, Ordering::AcqRel)
    }

    /// Whether this is the process that opened the database, and not a fork of it.
    #[inline]
    pub(crate) fn is_at_home(&self) -> bool {
        self.home.is_here()
    }

    /// Refuses calls of a closed database, and of a process that did not open it.
    ///
    /// # Errors
    /// [`Error::Forked`], [`Error::Closed`].
    #[inline]
    pub(crate) fn check_open(&self) -> Result<()> {
        if !self.is_at_home() {
            return Err(Error::Forked);
        }
        if self.is_closed() { Err(Error::Closed) } else { Ok(()) }
    }

    /// True once the database was closed.
    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        // ORDERING: acquire pairs with the swap in `close`.
        self.closed.load(Ordering::Acquire)
    }
}

/// Callers who change files of the directory on their own threads: a merge that was asked for, a
/// family that is made or dropped. Closing waits for them, since another handle may own the
/// directory from then on.
#[derive(Debug, Default)]
pub(crate) struct Callers {
    at_work: Mutex<AtWork>,
    left: Condvar,
}

#[derive(Debug, Default)]
struct AtWork {
    count: usize,
    refused: bool,
}

impl Callers {
    /// Counts the caller until the guard is dropped.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub(crate) fn enter(&self) -> Result<CallerAtWork<'_>> {
        let mut at_work = lock(&self.at_work);
        if at_work.refused {
            return Err(Error::Closed);
        }
        at_work.count += 1;
        Ok(CallerAtWork(self))
    }

    /// Lets no caller enter any more, and waits until all have left.
    pub(crate) fn refuse(&self) {
        let mut at_work = lock(&self.at_work);
        at_work.refused = true;
        while at_work.count > 0 {
            at_work = wait(&self.left, at_work);
        }
    }
}

/// A caller who is at work.
#[derive(Debug)]
#[must_use = "dropping it ends the work"]
pub(crate) struct CallerAtWork<'a>(&'a Callers);

impl Drop for CallerAtWork<'_> {
    fn drop(&mut self) {
        lock(&self.0.at_work).count -= 1;
        self.0.left.notify_all();
    }
}

/// A bell that rings whenever background work has got somewhere.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    rings: Mutex<u64>,
    bell: Condvar,
}

impl Progress {
    /// Number of rings so far.
    pub(crate) fn now(&self) -> u64 {
        *lock(&self.rings)
    }

    /// Wakes everyone who waits.
    pub(crate) fn ring(&self) {
        *lock(&self.rings) += 1;
        self.bell.notify_all();
    }

    /// Waits until the bell has rung since `seen`, or `longest` has passed.
    pub(crate) fn wait(&self, seen: u64, longest: Duration) {
        let rings = lock(&self.rings);
        let waited = self.bell.wait_timeout_while(rings, longest, |rings| *rings == seen);
        drop(waited.unwrap_or_else(std::sync::PoisonError::into_inner));
    }
}

/// Keeps the database running as long as a handle exists, and shuts it down with the last one.
#[derive(Debug)]
pub(crate) struct Owner(Arc<Core>);

impl Owner {
    pub(crate) const fn new(core: Arc<Core>) -> Self {
        Self(core)
    }

    pub(crate) const fn core(&self) -> &Arc<Core> {
        &self.0
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        if !self.0.health.is_at_home() {
            // The files, threads and locks are the parent's. What is left of the database here is
            // never dropped, so that nothing is done to them.
            std::mem::forget(Arc::clone(&self.0));
            return;
        }
        self.0.shut_down(false);
    }
}

/// Counts of references to the owner besides its own: more than the threads that usually begin
/// transactions at once.
const SHARES: usize = 16;

/// A count of references to the owner that few threads share, on cache lines of its own.
/// Transactions, which are made and dropped all the time, count here: one count for all would be a
/// word that every thread writes to.
pub(crate) type OwnerShare = CachePadded<Arc<Owner>>;

/// The owner as the handles of a database hold it.
#[derive(Debug)]
pub(crate) struct SharedOwner {
    owner: Arc<Owner>,
    shares: [Arc<OwnerShare>; SHARES],
}

impl SharedOwner {
    pub(crate) fn new(core: Arc<Core>) -> Self {
        let owner = Arc::new(Owner::new(core));
        let shares = std::array::from_fn(|_| Arc::new(CachePadded(Arc::clone(&owner))));
        Self { owner, shares }
    }

    pub(crate) const fn owner(&self) -> &Arc<Owner> {
        &self.owner
    }

    /// The share of the calling thread.
    #[inline]
    pub(crate) fn share(&self) -> &Arc<OwnerShare> {
        &self.shares[thread_number() % SHARES]
    }
}
