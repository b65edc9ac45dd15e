//! The handle that users hold.

use std::cmp::Ordering;
use std::path::Path;
use std::sync::Arc;

use tidesdb_base::error::{Error, Result};
use tidesdb_base::event::Event;
use tidesdb_base::options::{DbOptions, FamilyOptions, RuntimeOptions};
use tidesdb_lockfree::sync::lock;

use super::copies::{CheckpointOptions, Sharing};
use super::open::{Components, open_core};
use crate::core::{Core, SharedOwner};
use crate::family::FamilyState;
use crate::family_handle::Family;
use crate::snapshot::Snapshot;
use crate::stats::{CacheStats, DbStats, LatencyStats, prometheus_page};
use crate::transaction::{IsolationLevel, Transaction, TransactionStats};
use crate::verify::VerifyReport;
use crate::write::{WriteBatch, WriteOptions};

/// An open database: a directory of tables, a log, and the column families in them.
///
/// Cloning is cheap and any number of threads may use one handle. The database is shut down when
/// the last handle of it or of its families is dropped; nothing is lost then, as nothing is lost
/// when the process dies. [`Db::close`] also writes memory to tables, so that the next open has
/// nothing to replay.
///
/// A handle works in the process that opened the database. In a child made by `fork` calls answer
/// an error of kind `Forked` and change nothing, dropping the handle does nothing, and the child
/// does not share the lock on the directory. What has no error to answer (statistics, names of
/// families) and a step of a scan must not be called in the child, where a lock may be held by a
/// thread that is not there. Forks are noticed by `pthread_atfork`; a child made by a bare `clone`
/// must execute another program.
///
/// ```
/// # let directory = tempfile::tempdir()?;
/// use tidesdb::{Db, DbOptions, FamilyOptions};
/// let db = Db::open(directory.path(), DbOptions::default())?;
/// let family = db.open_family("default", FamilyOptions::default())?;
/// family.put(b"hello", b"world")?;
/// db.close()?;
///
/// let db = Db::open(directory.path(), DbOptions::default())?;
/// assert_eq!(db.family("default")?.get(b"hello")?, Some(b"world".to_vec()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Db {
    owner: Arc<SharedOwner>,
}

impl std::fmt::Debug for Db {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Db").field("path", &self.path()).finish_non_exhaustive()
    }
}

impl Db {
    /// Opens the database in a directory, creating both if the options allow it.
    ///
    /// One handle at a time may have a directory open to write in it, in this process or another
    /// (clones of a handle count as one), or any number may have it open with
    /// [`DbOptions::read_only`]: a reader excludes writers, and a writer excludes readers. A reader
    /// needs no permission to write and changes nothing in the directory.
    ///
    /// The directory is held open: afterwards the process may change its own directory, and the
    /// directory may be renamed, without effect on the database.
    ///
    /// # Errors
    /// `Invalid` for wrong options, `NotFound` when there is no database (or the directory holds
    /// something else), `Locked` when another process or handle has it open to write, or
    /// for reading when this one would write; `Corrupt` when what
    /// was promised to be on disk is damaged, `Io`. Nothing on disk has changed then.
    pub fn open(path: impl AsRef<Path>, options: DbOptions) -> Result<Self> {
        let components = Components::for_options(&options)?;
        Self::open_with(path, options, components)
    }

    /// As [`Db::open`], with another file system, scheduler or clock than the machine's.
    ///
    /// # Errors
    /// As [`Db::open`].
    pub fn open_with(
        path: impl AsRef<Path>,
        options: DbOptions,
        components: Components,
    ) -> Result<Self> {
        let core = open_core(path.as_ref(), options, components)?;
        Ok(Self { owner: Arc::new(SharedOwner::new(core)) })
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        self.owner.owner().core()
    }

    fn handle(&self, state: Arc<FamilyState>) -> Family {
        Family { owner: Arc::clone(self.owner.owner()), state }
    }

    /// Registers an order of keys of the application's own, for families that are created with it
    /// from now on and those that have it already: until then, asking for one of these is an error
    /// of kind `NotFound`, and everything in it is kept. See [`KeyOrders`](crate::KeyOrders) for
    /// what such an order can do; [`DbOptions::key_orders`] takes them with the opening.
    ///
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// use tidesdb::{Db, DbOptions, FamilyOptions, KeyOrder, ScanOptions};
    /// let db = Db::open(directory.path(), DbOptions::default())?;
    /// db.register_key_order("by length", |one, other| one.len().cmp(&other.len()))?;
    /// let order = KeyOrder::Custom("by length".to_owned());
    /// let words = db.create_family("words", FamilyOptions::default().key_order(order))?;
    /// for word in ["pear", "fig", "banana"] {
    ///     words.put(word.as_bytes(), b"fruit")?;
    /// }
    /// let mut scan = words.scan(ScanOptions::new())?;
    /// scan.seek_to_first()?;
    /// assert_eq!(scan.key(), b"fig");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `Invalid` for a name that is empty, too long, that of a built-in order, or registered
    /// already.
    pub fn register_key_order(
        &self,
        name: &str,
        compare: impl Fn(&[u8], &[u8]) -> Ordering + Send + Sync + 'static,
    ) -> Result<()> {
        lock(&self.core().families.key_orders).register(name, Arc::new(compare))
    }

    /// Creates a column family. When this returns, the family survives a power cut.
    ///
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// use tidesdb::{Db, DbOptions, FamilyOptions, KeyOrder};
    /// let db = Db::open(directory.path(), DbOptions::default())?;
    /// let options = FamilyOptions::default().key_order(KeyOrder::Reverse);
    /// let versions = db.create_family("versions", options)?;
    /// versions.put(b"2024-01", b"old")?;
    /// versions.put(b"2024-07", b"new")?;
    /// let newest = versions.range("2024-12"..)?.entries().next().transpose()?;
    /// assert_eq!(newest, Some((b"2024-07".to_vec(), b"new".to_vec())));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `Exists`, `Invalid` for a bad name or wrong options, `NotFound` for an order of keys that is
    /// not registered, `ReadOnly`, `Closed`, `Io`.
    pub fn create_family(&self, name: &str, options: FamilyOptions) -> Result<Family> {
        let mut created = self.create_families(&[(name, options)])?;
        created.pop().ok_or_else(|| Error::FamilyNotFound(name.to_owned()))
    }

    /// Creates many column families at once, all of them or none: one wait for the disk instead
    /// of one each.
    ///
    /// # Errors
    /// As [`Db::create_family`]; none was created then.
    pub fn create_families(&self, families: &[(&str, FamilyOptions)]) -> Result<Vec<Family>> {
        let created = self.core().create_families(families)?;
        for family in &created {
            self.tell_created(family);
        }
        Ok(created.into_iter().map(|state| self.handle(state)).collect())
    }

    /// Gives a family another name, in one step that survives a power cut when this returns; a
    /// crash leaves the old name or the new one. Readers and writers go on, and handles stay valid:
    /// [`Family::name`] tells the new name from then on. Equal names change nothing.
    ///
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// use tidesdb::{Db, DbOptions, FamilyOptions};
    /// let db = Db::open(directory.path(), DbOptions::default())?;
    /// let family = db.create_family("next", FamilyOptions::default())?;
    /// db.rename_family("next", "current")?;
    /// assert_eq!(&*family.name(), "current");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `NotFound`, `Exists`, `Invalid` for a bad name, `ReadOnly`, `Closed`, `Io`; nothing has
    /// changed then.
    pub fn rename_family(&self, old: &str, new: &str) -> Result<()> {
        self.core().rename_family(old, new)?;
        if old != new {
            self.core()
                .telemetry
                .events
                .tell(&Event::FamilyRenamed { old: old.to_owned(), new: new.to_owned() });
        }
        Ok(())
    }

    /// Makes a family `name` that holds what `source` holds, with the same options. When this
    /// returns, it survives a power cut.
    ///
    /// The copy shares the files of its source, so that it costs one flush of the source's memory
    /// and one edit of the manifest, whatever the size, and no space at first. From then on both
    /// change independently: each lets go of shared files as its merges replace them, and a file
    /// goes with the last family that has it. The copy holds everything that was committed to the
    /// source before the call, and of what is committed meanwhile all up to one point of the order
    /// of commits. A snapshot that is older than the copy sees in it what it sees in the source. A
    /// commit hook is not copied.
    ///
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// use tidesdb::{Db, DbOptions, FamilyOptions};
    /// let db = Db::open(directory.path(), DbOptions::default())?;
    /// let orders = db.create_family("orders", FamilyOptions::default())?;
    /// orders.put(b"1", b"paid")?;
    /// let trial = db.clone_family("orders", "trial")?;
    /// trial.put(b"1", b"returned")?;
    /// assert_eq!(orders.get(b"1")?, Some(b"paid".to_vec()));
    /// assert_eq!(trial.get(b"1")?, Some(b"returned".to_vec()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `NotFound` when there is no `source`, `Exists`, `Invalid` for a bad name, `Stalled` while
    /// flushes are paused or get nowhere, `ReadOnly`, `Closed`, `Io`; there is no copy then.
    pub fn clone_family(&self, source: &str, name: &str) -> Result<Family> {
        let copy = self.core().clone_family(source, name)?;
        self.tell_created(&copy);
        Ok(self.handle(copy))
    }

    fn tell_created(&self, family: &FamilyState) {
        self.core()
            .telemetry
            .events
            .tell(&Event::FamilyCreated { family: family.name().to_string() });
    }

    /// Makes a copy of the database in another directory of the same file system, which shares its
    /// files: it costs a flush and a name per file, whatever the size, and no space at first. The
    /// copy is a database of its own: it shows all families at one point of the order of commits,
    /// no earlier than the call, and nothing that is done to one of the two changes the other.
    /// Where files can't have two names, on another file system for one, they are copied. Readers
    /// and writers go on meanwhile.
    ///
    /// `path` is an empty directory, or one that an interrupted copy left, or is created (one
    /// level). To go back to a copy, open it, or put a copy of its directory in the place of the
    /// database's; no other step is needed. When this returns, the copy survives a power cut. What
    /// one that was interrupted leaves never opens.
    ///
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// use tidesdb::{Db, DbOptions, FamilyOptions};
    /// let db = Db::open(directory.path().join("db"), DbOptions::default())?;
    /// let family = db.create_family("default", FamilyOptions::default())?;
    /// family.put(b"key", b"before")?;
    /// db.checkpoint(directory.path().join("copy"))?;
    /// family.put(b"key", b"after")?;
    /// let copy = Db::open(directory.path().join("copy"), DbOptions::default())?;
    /// assert_eq!(copy.family("default")?.get(b"key")?, Some(b"before".to_vec()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `Exists` when the directory is not empty, `Invalid` for the database's own directory and
    /// what lies in it, `Locked` when another process or handle uses it, `Full`, `Stalled` while
    /// flushes are paused or get nowhere, `ReadOnly`, `Closed`, `Io`. What was written of the copy
    /// is removed then.
    pub fn checkpoint(&self, path: impl AsRef<Path>) -> Result<()> {
        self.checkpoint_with(path, CheckpointOptions::default())
    }

    /// As [`Db::checkpoint`], with options.
    ///
    /// # Errors
    /// As [`Db::checkpoint`]; `Corrupt` when the copy does not verify.
    pub fn checkpoint_with(
        &self,
        path: impl AsRef<Path>,
        options: CheckpointOptions,
    ) -> Result<()> {
        self.core().copy_to(path.as_ref(), Sharing::Linked, options)
    }

    /// As [`Db::checkpoint`], and every byte is copied, so that the copy shares nothing with the
    /// database and may lie anywhere. It takes as long as reading and writing that much. Writers
    /// and merges go on; files that merges replace meanwhile stay until they are copied. Closing
    /// the database ends it with an error.
    ///
    /// # Errors
    /// As [`Db::checkpoint`].
    pub fn backup(&self, path: impl AsRef<Path>) -> Result<()> {
        self.backup_with(path, CheckpointOptions::default())
    }

    /// As [`Db::backup`], with options.
    ///
    /// # Errors
    /// As [`Db::checkpoint_with`].
    pub fn backup_with(&self, path: impl AsRef<Path>, options: CheckpointOptions) -> Result<()> {
        self.core().copy_to(path.as_ref(), Sharing::Copied, options)
    }

    /// The family of that name.
    ///
    /// # Errors
    /// `NotFound` when there is none, or when its order of keys is not registered
    /// ([`Error::KeyOrderNotRegistered`]); `Closed`.
    pub fn family(&self, name: &str) -> Result<Family> {
        self.core().health.check_open()?;
        Ok(self.handle(self.core().families.usable(name)?))
    }

    /// The family of that name, created with these options when there is none.
    ///
    /// **A family that exists keeps the options that it has**, which are stored with it, whatever
    /// is given here; [`Family::options`] tells them. [`Db::ensure_family`] changes them.
    ///
    /// # Errors
    /// As [`Db::create_family`], except `Exists`.
    pub fn open_family(&self, name: &str, options: FamilyOptions) -> Result<Family> {
        match self.family(name) {
            Err(Error::FamilyNotFound(_)) => match self.create_family(name, options) {
                Err(Error::FamilyExists(_)) => self.family(name),
                other => other,
            },
            other => other,
        }
    }

    /// The family of that name with these options: created when there is none, changed as
    /// [`Family::set_options`] does when it exists with others.
    ///
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// use tidesdb::{Compression, Db, DbOptions, FamilyOptions};
    /// let db = Db::open(directory.path(), DbOptions::default())?;
    /// db.create_family("logs", FamilyOptions::default())?;
    /// let mut options = FamilyOptions::default();
    /// options.compression = Compression::Zstd;
    /// let logs = db.open_family("logs", options.clone())?;
    /// assert_eq!(logs.options().compression, Compression::Lz4);
    /// let logs = db.ensure_family("logs", options)?;
    /// assert_eq!(logs.options().compression, Compression::Zstd);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Db::open_family`] and [`Family::set_options`].
    pub fn ensure_family(&self, name: &str, options: FamilyOptions) -> Result<Family> {
        let family = self.open_family(name, options.clone())?;
        if family.options() != options {
            family.set_options(options)?;
        }
        Ok(family)
    }

    /// Drops a family with everything in it. Snapshots and scans that read it keep their files
    /// until they are dropped themselves; a family of the same name can be created at once and
    /// starts empty.
    ///
    /// # Errors
    /// `NotFound`, `ReadOnly`, `Closed`, `Io`.
    pub fn drop_family(&self, name: &str) -> Result<()> {
        self.core().drop_family(name)?;
        self.core().telemetry.events.tell(&Event::FamilyDropped { family: name.to_owned() });
        Ok(())
    }

    /// The directory, as it was given to [`Db::open`].
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.core().env.path
    }

    /// Names of all families, in order.
    #[must_use]
    pub fn family_names(&self) -> Vec<String> {
        self.core().families.names()
    }

    /// Commits a batch: all of its operations become visible at once, and after a crash all of
    /// them are there or none.
    ///
    /// # Errors
    /// `Full`, `Io`, `ReadOnly`, `Closed`: nothing was written. `Doubtful`: the batch is visible,
    /// but could not be made durable; see [`Family::put`](crate::Family::put).
    pub fn write(&self, batch: &WriteBatch) -> Result<()> {
        self.write_with(batch, WriteOptions::default())
    }

    /// As [`Db::write`], with a durability of its own.
    ///
    /// # Errors
    /// As [`Db::write`]; `Invalid` for options with a time to live, which each put of a batch has
    /// for itself.
    pub fn write_with(&self, batch: &WriteBatch, options: WriteOptions) -> Result<()> {
        self.core().write(batch, options.without_ttl()?)
    }

    /// Begins a transaction. See [`Transaction`] for what it does and [`IsolationLevel`] for what
    /// it is protected from.
    ///
    /// # Errors
    /// `Closed`.
    #[inline]
    pub fn begin(&self, level: IsolationLevel) -> Result<Transaction> {
        Transaction::begin(self.owner.share(), level)
    }

    /// Figures of the transactions.
    #[must_use]
    pub fn transaction_stats(&self) -> TransactionStats {
        TransactionStats::of(self.core())
    }

    /// A fixed view of everything that is committed now.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::take(self.core())
    }

    /// Writes the memory of all families to tables and waits for it.
    ///
    /// # Errors
    /// Why a flush failed; the data stays in memory and in the log then.
    pub fn flush(&self) -> Result<()> {
        self.core().each_family(Core::flush_family)
    }

    /// Merges each family into one sorted run, and waits for it.
    ///
    /// # Errors
    /// Why a flush or a merge failed; nothing is lost then.
    pub fn compact(&self) -> Result<()> {
        self.core().each_family(Core::compact_family)
    }

    /// Waits until no flush and no merge is queued or running, and merges that wait for a quiet
    /// moment are done as well.
    ///
    /// # Errors
    /// Why background work failed; `Stalled` when it gets nowhere.
    pub fn wait_idle(&self) -> Result<()> {
        self.core().wait_idle()
    }

    /// Flushes and merges all families and waits until no background work is left.
    ///
    /// # Errors
    /// The first error; the other families are purged all the same.
    pub fn purge(&self) -> Result<()> {
        self.core().purge()
    }

    /// Keeps flushes and merges from starting, and returns when none runs any more. Calls that ask
    /// for some get an error of kind `Stalled`. Reads and writes go on; writers whose memtables are
    /// full wait, and get such an error in the end. Calls add up: as many calls of
    /// [`Db::resume_background`] are needed.
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

    /// Gives up all merges that run, without effect, and starts no more until the database is
    /// opened again: later calls of [`Db::compact`] only flush. Flushes, reads and writes go on.
    /// Returns when no merge runs any more.
    ///
    /// # Errors
    /// `Closed`; `Stalled` when a merge has not ended within 30 seconds.
    pub fn cancel_background_work(&self) -> Result<()> {
        self.core().cancel_merges()
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
    /// `Doubtful` when the log can neither be synced nor repaired; `Closed`.
    pub fn sync_log(&self) -> Result<()> {
        let core = self.core();
        core.health.check_open()?;
        if core.env.options.read_only {
            return Ok(());
        }
        core.sync_log()
    }

    /// Has the memory of memtables behave like that of a system that runs out of it: of the blocks
    /// that are asked for from now on the first `given` are given, the next `refused` are not.
    #[doc(hidden)]
    pub fn refuse_memtable_blocks(&self, given: u64, refused: u64) {
        self.core().memory.pool.refuse_blocks(given, refused);
    }

    /// Figures of the block cache alone, which cost next to nothing.
    #[must_use]
    pub fn cache_stats(&self) -> CacheStats {
        CacheStats::of(&self.core().storage.files.blocks)
    }

    /// How long operations took since the open or the last [`Db::reset_latencies`].
    ///
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// use tidesdb::{Db, DbOptions, FamilyOptions, TimedOperation};
    /// let options = DbOptions::default().latency_sampling(1);
    /// let db = Db::open(directory.path(), options)?;
    /// let family = db.create_family("default", FamilyOptions::default())?;
    /// family.put(b"key", b"value")?;
    /// let latencies = db.latencies();
    /// let commits = latencies.of_operation(TimedOperation::Commit);
    /// assert_eq!(commits.count(), 1);
    /// println!("half of all commits take at most {} ns", commits.percentile(50.0));
    /// println!("{latencies}");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn latencies(&self) -> LatencyStats {
        LatencyStats::of(self.core())
    }

    /// All figures in the text format of Prometheus (version 0.0.4, `text/plain; version=0.0.4`),
    /// for an application to serve. Figures of each family carry its name, so the page grows with
    /// the number of families.
    ///
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// use tidesdb::{Db, DbOptions, FamilyOptions};
    /// let db = Db::open(directory.path(), DbOptions::default())?;
    /// db.create_family("orders", FamilyOptions::default())?.put(b"key", b"value")?;
    /// let page = db.metrics_prometheus();
    /// assert!(page.contains("tidesdb_operations_written_total{family=\"orders\"} 1\n"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn metrics_prometheus(&self) -> String {
        prometheus_page(self.core())
    }

    /// Has [`Db::latencies`] begin anew. Counters stay.
    pub fn reset_latencies(&self) {
        self.core().reset_latencies();
    }

    /// Figures of the whole database, which a person reads with [`std::fmt::Display`].
    #[must_use]
    pub fn stats(&self) -> DbStats {
        DbStats::of(self.core())
    }

    /// Reads every table and value log and checks everything that can be checked.
    ///
    /// # Errors
    /// `Closed`; damage is not an error of the call but listed in the report.
    pub fn verify(&self) -> Result<VerifyReport> {
        self.core().health.check_open()?;
        Ok(VerifyReport::of(self.core()))
    }

    /// Writes memory to tables, stops the background work, and gives up the directory. Other
    /// handles answer errors of kind `Closed` from then on. Of two calls at once, the second
    /// returns when the first has ended.
    ///
    /// # Errors
    /// Why the last flush failed. The database is closed all the same, and what was not flushed
    /// is replayed from the log by the next open.
    pub fn close(self) -> Result<()> {
        self.core().close()
    }
}
