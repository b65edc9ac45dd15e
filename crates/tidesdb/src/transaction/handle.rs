//! The transaction that users hold.

use std::cell::{Cell, OnceCell};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tidesdb_base::entry::{NEVER_EXPIRES, ValueKind};
use tidesdb_base::error::{Error, Result};
use tidesdb_lockfree::snapshot_registry::{ReadPoint, Registration};
use tidesdb_lockfree::sync::lock;

use super::read_set::ReadSet;
use super::write_set::WriteSet;
use crate::core::{Core, OwnerShare};
use crate::family::FamilyState;
use crate::handles::Family;
use crate::isolation::{Dependencies, IsolationLevel};
use crate::write::Visible;
use crate::write::batch::expiry_after;

/// How often a transaction that begins waits for the last commit without the lock; others may have
/// committed meanwhile.
const MOST_WAITS: u32 = 4;

/// What may be done with a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Active,
    /// Committed and visible, but its durability failed: a commit may be tried again.
    Visible(Visible),
    Finished,
}

/// Reads of one snapshot and writes that take effect together, or not at all.
///
/// Nothing is visible to others, nor written anywhere, before [`Transaction::commit`]. A commit
/// that returns an error had no effect, unless it says otherwise, and leaves the transaction as it
/// was: it may be committed again, rolled back or dropped. Dropping rolls back. What each level
/// protects from is described at [`IsolationLevel`].
///
/// ```
/// # let directory = tempfile::tempdir()?;
/// use tidesdb::{Db, DbOptions, ErrorKind, FamilyOptions, IsolationLevel};
/// let db = Db::open(directory.path(), DbOptions::default())?;
/// let accounts = db.open_family("accounts", FamilyOptions::default())?;
/// accounts.put(b"ada", b"10")?;
///
/// let mut first = db.begin(IsolationLevel::Snapshot)?;
/// let mut second = db.begin(IsolationLevel::Snapshot)?;
/// first.put(&accounts, b"ada", b"11")?;
/// second.put(&accounts, b"ada", b"12")?;
/// assert_eq!(second.get(&accounts, b"ada")?, Some(b"12".to_vec()));
/// first.commit()?;
/// assert_eq!(second.commit().unwrap_err().kind(), ErrorKind::Conflict);
/// second.rollback()?;
/// second.reset(IsolationLevel::Snapshot)?;
/// assert_eq!(second.get(&accounts, b"ada")?, Some(b"11".to_vec()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Transaction {
    pub(super) owner: Arc<OwnerShare>,
    pub(super) level: IsolationLevel,
    pub(super) state: State,
    /// See [`Transaction::refuse_overwritten_reads`].
    pub(super) reads_must_stand: bool,
    /// Registered as long as it is there.
    pub(super) snapshot: Option<Registration>,
    /// Made by the first write, and kept.
    pub(super) writes: Option<Box<WriteSet>>,
    /// Made by the first read that is tracked, and kept.
    pub(super) reads: OnceCell<Arc<Mutex<ReadSet>>>,
    /// Memory that the database accounts for.
    pub(super) charged: Cell<usize>,
}

impl Transaction {
    #[inline]
    pub(crate) fn begin(owner: &Arc<OwnerShare>, level: IsolationLevel) -> Result<Self> {
        let snapshot = first_snapshot(owner.core(), level)?;
        // Built where it is returned: a transaction of one read is mostly the making of this.
        Ok(Self {
            owner: Arc::clone(owner),
            level,
            state: State::Active,
            reads_must_stand: false,
            snapshot,
            writes: None,
            reads: OnceCell::new(),
            charged: Cell::new(0),
        })
    }

    #[inline]
    pub(super) fn core(&self) -> &Arc<Core> {
        self.owner.core()
    }

    /// As of when it reads; none at the levels that always see the newest state.
    #[inline]
    pub(super) fn read_point(&self) -> Option<ReadPoint> {
        self.snapshot.map(Registration::read_point)
    }

    /// The level that the transaction was begun or last reset with.
    #[must_use]
    pub const fn isolation_level(&self) -> IsolationLevel {
        self.level
    }

    /// The commit up to which the transaction sees everything; none at the levels that always see
    /// the newest state, and when the transaction is finished.
    #[must_use]
    pub fn snapshot_sequence(&self) -> Option<u64> {
        self.snapshot.map(|snapshot| snapshot.sequence)
    }

    /// True until the transaction is committed or rolled back.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.state == State::Active
    }

    /// Stores a value under a key, replacing any other.
    ///
    /// # Errors
    /// `Invalid` for an empty key, sizes over the limits, a family of another database or a
    /// finished transaction; `Closed`, `ReadOnly`, `Broken`. Nothing has changed then.
    #[inline]
    pub fn put(
        &mut self,
        family: &Family,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.add(family, ValueKind::Value, NEVER_EXPIRES, key.as_ref(), value.as_ref())
    }

    /// As [`Transaction::put`]; the value expires `ttl` from now, never earlier and less than a
    /// second later: times of expiry are whole Unix seconds.
    ///
    /// # Errors
    /// As [`Transaction::put`].
    pub fn put_with_ttl(
        &mut self,
        family: &Family,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> Result<()> {
        let expires_at = expiry_after(self.core().env.clock.unix_millis(), ttl);
        self.put_expiring_at(family, key.as_ref(), value.as_ref(), expires_at)
    }

    /// As [`Transaction::put`]; the value expires at a Unix time in seconds, zero meaning never.
    ///
    /// # Errors
    /// As [`Transaction::put`].
    pub fn put_expiring_at(
        &mut self,
        family: &Family,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        expires_at_unix_seconds: u64,
    ) -> Result<()> {
        self.add(family, ValueKind::Value, expires_at_unix_seconds, key.as_ref(), value.as_ref())
    }

    /// Deletes a key. Deleting an absent key is no error.
    ///
    /// # Errors
    /// As [`Transaction::put`].
    #[inline]
    pub fn delete(&mut self, family: &Family, key: impl AsRef<[u8]>) -> Result<()> {
        self.add(family, ValueKind::Tombstone, NEVER_EXPIRES, key.as_ref(), &[])
    }

    /// Deletes a key that was put at most once since it was last deleted, by any method. See
    /// [`Family::single_delete`].
    ///
    /// # Errors
    /// As [`Transaction::put`].
    pub fn single_delete(&mut self, family: &Family, key: impl AsRef<[u8]>) -> Result<()> {
        self.add(family, ValueKind::SingleTombstone, NEVER_EXPIRES, key.as_ref(), &[])
    }

    #[inline]
    fn add(
        &mut self,
        family: &Family,
        kind: ValueKind,
        expires_at: u64,
        key: &[u8],
        value: &[u8],
    ) -> Result<()> {
        self.check_active()?;
        let family = family.state();
        self.core().check_writable(family)?;
        let writes = self.writes.get_or_insert_with(WriteSet::begin);
        writes.add(family, kind, expires_at, key, value)?;
        if writes.has_grown() {
            self.charge(None);
        }
        Ok(())
    }

    /// Gives up all writes and finishes the transaction. If a commit had failed after it was
    /// visible, it stays so.
    ///
    /// # Errors
    /// `Invalid` for a finished transaction; `Forked`.
    pub fn rollback(&mut self) -> Result<()> {
        self.core().health.check_not_forked()?;
        if self.state == State::Finished {
            return Err(Error::TransactionFinished);
        }
        self.finish();
        Ok(())
    }

    /// Begins anew with a finished transaction's memory.
    ///
    /// # Errors
    /// `Invalid` when the transaction is not finished, `Closed`.
    #[inline]
    pub fn reset(&mut self, level: IsolationLevel) -> Result<()> {
        if self.state != State::Finished {
            let text = "only a transaction that was committed or rolled back can be reset";
            return Err(Error::InvalidArgument(text.to_owned()));
        }
        self.snapshot = first_snapshot(self.core(), level)?;
        self.level = level;
        self.state = State::Active;
        Ok(())
    }

    /// Lets go of everything but some memory.
    #[inline]
    pub(super) fn finish(&mut self) {
        self.state = State::Finished;
        if let Some(snapshot) = self.snapshot.take() {
            self.give_up_snapshot(snapshot);
        }
        if let Some(writes) = &mut self.writes {
            writes.clear();
        }
        if self.reads.get().is_some() {
            self.forget_reads();
        }
        self.set_charge(0);
    }

    #[inline(never)]
    fn give_up_snapshot(&self, snapshot: Registration) {
        let core = self.core();
        if !core.health.is_opening_process() {
            return;
        }
        if self.level == IsolationLevel::Serializable {
            let mut dependencies = lock(&core.isolation.dependencies);
            dependencies.end(snapshot.sequence);
            core.memory.budget.set_dependencies(dependencies.memory_bytes());
        }
        core.release_snapshot(snapshot);
    }

    fn forget_reads(&mut self) {
        match self.reads.get_mut().and_then(Arc::get_mut) {
            Some(reads) => {
                reads.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner).clear();
            }
            // A scan that outlives the transaction goes on writing to it.
            None => self.reads = OnceCell::new(),
        }
    }

    #[inline]
    pub(super) fn check_active(&self) -> Result<()> {
        if self.state == State::Active { Ok(()) } else { Err(Error::TransactionFinished) }
    }

    /// For calls that touch nothing but the transaction, so that nothing else looks.
    pub(super) fn check_active_not_forked(&self) -> Result<()> {
        self.core().health.check_not_forked()?;
        self.check_active()
    }

    #[inline]
    pub(super) fn check_family(&self, family: &FamilyState) -> Result<()> {
        if self.core().env.identity != family.database {
            return Err(Error::InvalidArgument("the family is of another database".to_owned()));
        }
        Ok(())
    }

    pub(super) fn reads(&self) -> &Arc<Mutex<ReadSet>> {
        self.reads.get_or_init(Arc::default)
    }
}

/// The snapshot that a transaction begins with, if its level has one. It is registered.
///
/// # Errors
/// `Closed`.
#[inline]
fn first_snapshot(core: &Core, level: IsolationLevel) -> Result<Option<Registration>> {
    core.health.check_open()?;
    Ok(level.has_snapshot().then(|| take_snapshot(core, level)))
}

fn take_snapshot(core: &Core, level: IsolationLevel) -> Registration {
    match level {
        IsolationLevel::Serializable => {
            let mut dependencies = lock_when_published(core);
            let snapshot = core.register_snapshot();
            dependencies.begin(snapshot.sequence);
            snapshot
        }
        _ => core.register_snapshot(),
    }
}

/// The dependencies, locked, with all serializable commits visible that are recorded. A transaction
/// that begins sees these, so of them only the live ones matter.
fn lock_when_published(core: &Core) -> MutexGuard<'_, Dependencies> {
    let (log, dependencies) = (&core.storage.log, &core.isolation.dependencies);
    let mut locked = lock(dependencies);
    for _ in 0..MOST_WAITS {
        let last = locked.last_commit();
        if log.published() >= last {
            break;
        }
        // All other serializable transactions would wait too.
        drop(locked);
        log.wait_published(last);
        locked = lock(dependencies);
    }
    log.wait_published(locked.last_commit());
    locked
}

impl Drop for Transaction {
    #[inline]
    fn drop(&mut self) {
        if let Some(snapshot) = self.snapshot.take() {
            self.give_up_snapshot(snapshot);
        }
        if self.charged.get() > 0 {
            self.set_charge(0);
        }
        if let Some(writes) = self.writes.take() {
            writes.end();
        }
    }
}
