//! The handle that users hold: opening, writing, reading at a snapshot, closing.
//!
//! | file | what |
//! |---|---|
//! | `families` | column families: creating, finding, renaming, dropping |
//! | `copies` | checkpoints and backups |
//! | `maintenance` | flush, compact, pause, verify |
//! | `statistics` | statistics |

mod copies;
mod families;
mod maintenance;
mod statistics;

use std::path::Path;
use std::sync::Arc;

use tidesdb_base::error::Result;
use tidesdb_base::options::DbOptions;

use crate::core::{Core, SharedOwner};
use crate::handles::Snapshot;
use crate::isolation::IsolationLevel;
use crate::opening::{Components, open_core};
use crate::transaction::Transaction;
use crate::write::{WriteBatch, WriteOptions};

/// An open database: a directory of tables, a log, and the column families in them.
///
/// Cloning is cheap and any number of threads may use one handle. The database is shut down when
/// the last `Db`, `Family`, `Scan` and `Transaction` of it is dropped; a `Snapshot` or
/// `PinnedValue` does not keep it open. Nothing is lost then, as nothing is lost when the process
/// dies. [`Db::close`] also writes memory to tables, so that the next open has nothing to replay.
///
/// A handle works in the process that opened the database. In a child made by `fork` calls return
/// an error of kind `Forked` and change nothing, dropping the handle does nothing, and the child
/// does not share the lock on the directory. What has no error to return (statistics, names of
/// families, [`Db::snapshot`]) must not be called in the child, where a lock may be held by a
/// thread that is not there. Forks are noticed by `pthread_atfork`; a child made by a bare `clone`
/// must execute another program.
///
/// Handles may be used and dropped in destructors of thread-local values. What the engine keeps for
/// a thread may be gone by then: the call works without it, is a little slower, and an event
/// listener is called at once where the call would have had it wait.
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
    /// something else, or a repair of it was killed: see [`crate::salvage::finish_repair`]),
    /// `Locked` when another process or handle has it open to write, or for reading when this one
    /// would write; `Corruption` when what was promised to be on disk is damaged, `Io`. Nothing on
    /// disk has changed then, but that part of a log larger than memory may have been written to
    /// tables.
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
        let opened = open_core(path.as_ref(), options, components, Core::shut_down)?;
        Ok(Self { owner: Arc::new(SharedOwner::new(opened)) })
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        self.owner.owner().core()
    }

    /// The directory, as it was given to [`Db::open`].
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.core().env.path
    }

    /// Commits a batch: all of its operations become visible at once, and after a crash all of
    /// them are there or none.
    ///
    /// # Errors
    /// `Invalid` for a family of another database or a batch over the limits, `Full`, `Io`,
    /// `LogFailed`, `Broken`, `ReadOnly`, `Closed`, `Forked`; `Stalled` when no flush makes
    /// progress for `stall_timeout_ms`, and the call may be repeated. Nothing was written then.
    /// `NotDurable`: the batch is visible, but could not be made durable; see
    /// [`Family::put`](crate::Family::put).
    pub fn write(&self, batch: &WriteBatch) -> Result<()> {
        self.write_with(batch, WriteOptions::default())
    }

    /// As [`Db::write`], with a durability of its own, and perhaps without a wait for background
    /// work.
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

    /// A fixed view of everything that is committed now.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::take(self.core())
    }

    /// Writes memory to tables, stops the background work, and gives up the directory. Other
    /// handles return errors of kind `Closed` from then on. Of two calls at once, the second
    /// returns when the first has ended.
    ///
    /// # Errors
    /// Why the last flush failed. The database is closed all the same, and what was not flushed
    /// is replayed from the log by the next open. An error of kind `Invalid` on a thread that this
    /// would wait for, in a listener of events for one: the database stays open then.
    pub fn close(self) -> Result<()> {
        self.core().close()
    }
}
