//! Everything that a user does with one column family.

mod expiry;
mod many_keys;
mod whole_family;
mod with_options;

use std::sync::Arc;
use std::time::Duration;

use tidesdb_base::entry::{NEVER_EXPIRES, ValueKind};
use tidesdb_base::error::Result;
use tidesdb_base::options::FamilyOptions;
use tidesdb_lockfree::snapshot_registry::ReadPoint;

use crate::background::WaitLimit;
use crate::db::families::OptionsLifetime;
use crate::family::{CommitHook, CommittedBatch};
use crate::handles::{Family, Snapshot};
use crate::iterator::{KeyRange, Scan, ScanOptions};
use crate::read::{copied, copy_into};
use crate::stats::{FamilyStats, TreeStats};
use crate::write::WriteOptions;
use crate::write::batch::expiry_after;

impl Family {
    /// Name of the family; after [`crate::Db::rename_family`] the new one.
    #[must_use]
    pub fn name(&self) -> Arc<str> {
        self.state.name()
    }

    /// The family's present options.
    #[must_use]
    pub fn options(&self) -> FamilyOptions {
        self.state.options.load().as_ref().clone()
    }

    /// Changes the family's options while it is in use, and stores them with the data. Every option
    /// but [`FamilyOptions::key_order`] can be changed. Limits and the sync mode take effect at
    /// once; what shapes files (codec, block size, filters, thresholds of values) holds for files
    /// that are written from now on, and older ones stay readable.
    ///
    /// # Errors
    /// `Invalid` for wrong options, `ReadOnly`, `Broken`, `Closed`, `Io`; nothing has changed then.
    /// `ChangeUncertain` as for [`crate::Db::rename_family`].
    pub fn set_options(&self, options: FamilyOptions) -> Result<()> {
        self.core().set_family_options(&self.state, options, OptionsLifetime::Stored)
    }

    /// As [`Family::set_options`], until the database is closed or its process ends. An opening
    /// finds the options that were stored last, and so does one of a checkpoint or backup; a clone
    /// of the family has these until then as well.
    ///
    /// For settings of one phase of a program, such as a sync mode while much is loaded. A call of
    /// [`Family::set_options`] stores all options that it is given, those of this call too when
    /// they come from [`Family::options`].
    ///
    /// # Errors
    /// As [`Family::set_options`], without `ChangeUncertain` and those of the disk.
    pub fn set_options_until_close(&self, options: FamilyOptions) -> Result<()> {
        self.core().set_family_options(&self.state, options, OptionsLifetime::UntilClose)
    }

    /// Stores a value under a key, replacing any other.
    ///
    /// When this returns, the value is visible to every later read and survives the death of the
    /// process; whether it survives a power cut is a matter of the sync mode.
    ///
    /// # Errors
    /// `Invalid` for an empty key or sizes over the limits, `Full`, `Io`, `LogFailed`, `Broken`,
    /// `ReadOnly`, `Closed`, `Forked`; `Stalled` when no flush makes progress for
    /// `stall_timeout_ms`, and the call may be repeated. Nothing was written then, and no reader
    /// sees or ever saw it. `NotDurable`, only where the sync mode or the options ask for a sync:
    /// the value is visible and stays so, but a power cut may take it. A sync that fails is no
    /// error by itself: the call waits for the repair of the log, which makes the value durable by
    /// other means, and fails only if that fails too.
    #[inline]
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.core().write_one(
            &self.state,
            ValueKind::Value,
            NEVER_EXPIRES,
            key.as_ref(),
            value.as_ref(),
        )
    }

    /// As [`Family::put`]; the value expires `ttl` from now, never earlier and less than a
    /// second later: times of expiry are whole Unix seconds.
    ///
    /// # Errors
    /// As [`Family::put`].
    pub fn put_with_ttl(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> Result<()> {
        let expires_at = expiry_after(self.core().env.clock.unix_millis(), ttl);
        self.put_expiring_at(key.as_ref(), value.as_ref(), expires_at)
    }

    /// As [`Family::put`]; the value expires at a Unix time in seconds, zero meaning never. A time
    /// in the past hides the key at once.
    ///
    /// # Errors
    /// As [`Family::put`].
    pub fn put_expiring_at(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        expires_at_unix_seconds: u64,
    ) -> Result<()> {
        let kind = ValueKind::Value;
        self.core().write_one(
            &self.state,
            kind,
            expires_at_unix_seconds,
            key.as_ref(),
            value.as_ref(),
        )
    }

    /// Deletes a key. Deleting an absent key is no error.
    ///
    /// # Errors
    /// As [`Family::put`].
    #[inline]
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.core().write_one(&self.state, ValueKind::Tombstone, NEVER_EXPIRES, key.as_ref(), &[])
    }

    /// Deletes a key that was put at most once since it was last deleted, by any method; the
    /// expiry of a value deletes nothing. Readers see no difference to [`Family::delete`], but a
    /// put and a deletion that follow each other within one memtable may leave nothing behind.
    /// When the promise is broken an older value may show again.
    ///
    /// # Errors
    /// As [`Family::put`].
    pub fn single_delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.core().write_one(
            &self.state,
            ValueKind::SingleTombstone,
            NEVER_EXPIRES,
            key.as_ref(),
            &[],
        )
    }

    /// Has `hook` called after each commit to this family from now on, in place of an earlier hook;
    /// `None` removes it. It is called by the committing thread, after the commit is visible and
    /// durable as asked for, and outside of all locks: it may use the database. A commit that ends
    /// `NotDurable` is visible, and the hook is called as for any other: once for each commit that
    /// readers see. A commit of the hook's own to the same family calls it again, within itself. A
    /// panic of the hook is caught: it is reported by the process's panic hook, the first one by an
    /// event as well, and has no other effect. Hooks are not stored.
    ///
    /// A hook that holds a [`crate::Db`] or [`Family`] keeps the database open: dropping all other
    /// handles does not close it then. [`crate::Db::close`] and [`crate::Db::drop_family`] remove
    /// the hooks of what they end.
    pub fn set_commit_hook(&self, hook: Option<CommitHook>) {
        self.state.writes.commit_hook.exchange(hook).let_go();
    }

    /// As [`Family::set_commit_hook`], with a function as it is.
    ///
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// use std::sync::atomic::{AtomicU64, Ordering};
    /// use std::sync::Arc;
    /// use tidesdb::{Db, DbOptions, FamilyOptions};
    /// let db = Db::open(directory.path(), DbOptions::default())?;
    /// let family = db.open_family("default", FamilyOptions::default())?;
    /// let count = Arc::new(AtomicU64::new(0));
    /// let counter = Arc::clone(&count);
    /// family.on_commit(move |batch| {
    ///     counter.fetch_add(batch.operations.len() as u64, Ordering::Relaxed);
    /// });
    /// family.put(b"k", b"v")?;
    /// assert_eq!(count.load(Ordering::Relaxed), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on_commit(&self, hook: impl Fn(&CommittedBatch<'_>) + Send + Sync + 'static) {
        self.set_commit_hook(Some(Arc::new(hook)));
    }

    /// Deletes every key from `start` on that comes before `end`. One log record, whatever the
    /// number of keys; they are gone for readers at once, and from disk with later compactions: a
    /// table that lies wholly in the range is removed without being read.
    ///
    /// # Errors
    /// As [`Family::put`]; `Invalid` also when `start` is not before `end`.
    pub fn delete_range(&self, start: impl AsRef<[u8]>, end: impl AsRef<[u8]>) -> Result<()> {
        self.delete_range_with(start, end, WriteOptions::default())
    }

    /// Deletes every key that starts with `prefix`, as [`Family::delete_range`].
    ///
    /// # Errors
    /// As [`Family::put`]; `Invalid` also for an empty prefix.
    pub fn delete_prefix(&self, prefix: impl AsRef<[u8]>) -> Result<()> {
        self.delete_prefix_with(prefix, WriteOptions::default())
    }

    /// The value of a key, copied; `None` when it is absent, deleted or expired.
    ///
    /// # Errors
    /// `Invalid` for an empty key, `Corruption` when the bytes that decide it are damaged, `Io`,
    /// `Closed`.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.get_copied(None, key.as_ref())
    }

    /// Copies the value of a key into `out`, replacing its content; false when there is none.
    ///
    /// # Errors
    /// As [`Family::get`].
    pub fn get_into(&self, key: impl AsRef<[u8]>, out: &mut Vec<u8>) -> Result<bool> {
        out.clear();
        let read = self.get_with(key.as_ref(), |value| copy_into(value, out))?;
        Ok(read.transpose()?.is_some())
    }

    /// Calls `read` with the value of a key, borrowed from the memtable or the block cache. A value
    /// that lies in a value log is read, and decompressed, into a buffer that the thread keeps.
    ///
    /// # Errors
    /// As [`Family::get`].
    #[inline]
    pub fn get_with<R>(
        &self,
        key: impl AsRef<[u8]>,
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        self.core().get_with(&self.state, None, key.as_ref(), read)
    }

    /// The value of a key in a snapshot.
    ///
    /// # Errors
    /// As [`Family::get`]; `Invalid` for a snapshot of another database.
    pub fn get_at(&self, snapshot: &Snapshot, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.check_snapshot(snapshot)?;
        self.get_copied(Some(snapshot.read_point()), key.as_ref())
    }

    fn get_copied(&self, read_point: Option<ReadPoint>, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.core().get_with(&self.state, read_point, key, copied)?.transpose()
    }

    /// True when the key has a value.
    ///
    /// # Errors
    /// As [`Family::get`].
    pub fn contains(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.has(None, key.as_ref())
    }

    /// An iterator over the family, not positioned yet.
    ///
    /// # Errors
    /// `Corruption` or `Io` when a table can't be opened, `Closed`; `Invalid` for a snapshot of
    /// another database.
    #[doc(alias = "iterator")]
    pub fn scan(&self, options: ScanOptions) -> Result<Scan> {
        Scan::new(Arc::clone(&self.owner), &self.state, options, None)
    }

    /// Writes everything in memory to tables and waits for it.
    ///
    /// # Errors
    /// Why the flush failed; of kind `Stalled` when it got nowhere for `stall_timeout_ms`. The data
    /// stays in memory and in the log then.
    pub fn flush(&self) -> Result<()> {
        self.core().flush_family(&self.state)
    }

    /// Flushes, then compacts all tables into one sorted run, and waits for it.
    ///
    /// # Errors
    /// Why the flush or the compaction failed; of kind `Stalled` when the flush, or a compaction
    /// under way that is waited for, got nowhere for `stall_timeout_ms`. Of kind `Corruption`, each
    /// time, when a table can't be read; what lies above it is compacted all the same. Of kind
    /// `Closed` also after [`crate::Db::stop_compactions`]: what was in memory is in tables then.
    /// Nothing is lost in any case.
    pub fn compact(&self) -> Result<()> {
        self.core().compact_family(&self.state)
    }

    /// Queues the flush of everything in memory, and does not wait for it.
    ///
    /// # Errors
    /// `ReadOnly`, `Broken`, `Closed`.
    pub fn start_flush(&self) -> Result<()> {
        self.core().check_writable(&self.state)?;
        self.core().freeze_and_flush(&self.state, 0);
        Ok(())
    }

    /// Flushes, then compacts what the family holds of the keys in a range, such as `"a".."m"` or
    /// `"m"..`: tables that overlap it are written anew, and the oldest run that had keys of the
    /// range has all of them then. Where no table overlaps the range nothing is rewritten. If that
    /// oldest run is one that a flush made, it is compacted as a whole with all newer runs.
    ///
    /// # Errors
    /// As [`Family::compact`].
    pub fn compact_range(&self, range: impl KeyRange) -> Result<()> {
        self.compact_range_for(range, WaitLimit::WhileTheyGetOn)
    }

    /// As [`Family::compact_range`], for callers that can do without: waits no longer than
    /// `longest` for compactions of the family that are under way, however they get on.
    ///
    /// # Errors
    /// As [`Family::compact`]; [`crate::Error::Stalled`] with
    /// [`crate::StallReason::CompactionDebt`] when others are under way for longer. What was in
    /// memory is in tables then, and nothing was compacted.
    pub fn try_compact_range(&self, range: impl KeyRange, longest: Duration) -> Result<()> {
        let milliseconds = u64::try_from(longest.as_millis()).unwrap_or(u64::MAX);
        self.compact_range_for(range, WaitLimit::AtMost(milliseconds))
    }

    fn compact_range_for(&self, range: impl KeyRange, wait: WaitLimit) -> Result<()> {
        // What is left are limits in an order of the application's own: keys between them may lie
        // anywhere by bytes.
        let (bounds, _) = ScanOptions::new().range(range).into_bounds(&self.state.keys.order)?;
        let bounds = (bounds.lower.as_deref(), bounds.upper.as_deref());
        self.core().compact_family_range(&self.state, bounds, wait)
    }

    /// As [`Family::compact`], and waits until no background work of the family is left: also for
    /// compactions that others have queued, and those of what is written meanwhile.
    ///
    /// # Errors
    /// As [`Family::compact`].
    #[doc(alias = "purge")]
    pub fn compact_and_wait(&self) -> Result<()> {
        self.core().compact_family_and_wait(&self.state)
    }

    /// True once the family was dropped: what reads or writes it fails with `FamilyDropped` then.
    #[must_use]
    pub fn is_dropped(&self) -> bool {
        self.state.is_dropped()
    }

    /// True while a memtable waits to be written to tables, or is being written.
    #[must_use]
    pub fn is_flushing(&self) -> bool {
        self.state.is_flushing()
    }

    /// True while a compaction is queued or running.
    #[must_use]
    pub fn is_compacting(&self) -> bool {
        self.state.is_compacting()
    }

    /// Statistics of the family, which a person reads with [`std::fmt::Display`].
    ///
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// use tidesdb::{Db, DbOptions, FamilyOptions};
    /// let db = Db::open(directory.path(), DbOptions::default())?;
    /// let family = db.create_family("default", FamilyOptions::default())?;
    /// family.put(b"key", b"value")?;
    /// family.flush()?;
    /// family.get(b"key")?;
    /// let stats = family.stats();
    /// assert_eq!((stats.work.operations_written, stats.work.user_bytes_written), (1, 8));
    /// assert_eq!((stats.reads.table_gets, stats.reads.tables_per_get()), (1, 1.0));
    /// println!("{stats}");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn stats(&self) -> FamilyStats {
        FamilyStats::of(&self.state)
    }

    /// Statistics of those of the family's tables that are B+trees. Opens the tables that are not
    /// open, which reads their indexes.
    ///
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// use tidesdb::{Db, DbOptions, FamilyOptions};
    /// let db = Db::open(directory.path(), DbOptions::default())?;
    /// let family = db.create_family("default", FamilyOptions::default().use_btree(true))?;
    /// family.put(b"key", b"value")?;
    /// family.flush()?;
    /// let trees = family.tree_stats()?;
    /// // A leaf, an index node above it, and the root.
    /// assert_eq!((trees.tables(), trees.nodes(), trees.height()), (1, 3, 3));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `Corruption` or `Io` when a table can't be opened, `Closed`.
    pub fn tree_stats(&self) -> Result<TreeStats> {
        self.core().health.check_readable(&self.state)?;
        TreeStats::of(&self.state)
    }
}
