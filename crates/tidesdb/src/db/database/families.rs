//! Column families of a database: creating, finding, renaming, copying, dropping.

use std::cmp::Ordering;
use std::sync::Arc;

use tidesdb_base::error::{Error, Result};
use tidesdb_base::event::Event;
use tidesdb_base::options::FamilyOptions;
use tidesdb_lockfree::sync::lock;

use super::Db;
use crate::family::FamilyState;
use crate::handles::Family;

impl Db {
    fn handle(&self, state: Arc<FamilyState>) -> Family {
        Family { owner: Arc::clone(self.owner.owner()), state }
    }

    /// Registers an order of keys of the application's own, for families that are created with it
    /// from now on and those that have it already: until then, asking for one of these is an error
    /// of kind `NotFound`, and everything in it is kept. See [`KeyOrders`](crate::KeyOrders) for
    /// what such an order can do; [`DbOptions::key_orders`](crate::DbOptions::key_orders) takes
    /// them with the opening.
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
    /// already; `Forked`.
    pub fn register_key_order(
        &self,
        name: &str,
        compare: impl Fn(&[u8], &[u8]) -> Ordering + Send + Sync + 'static,
    ) -> Result<()> {
        // The lock may be held for good in a forked child.
        self.core().health.check_not_forked()?;
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
    /// not registered, `ReadOnly`, `Broken`, `Closed`, `Io`; there is no such family then.
    /// `ChangeUncertain`, only where the disk fails twice: there is none now either, but an opening
    /// after a crash may find an empty one, until another change of the set of files works.
    pub fn create_family(&self, name: &str, options: FamilyOptions) -> Result<Family> {
        let mut created = self.create_families(&[(name, options)])?;
        created.pop().ok_or_else(|| Error::FamilyNotFound(name.to_owned()))
    }

    /// Creates many column families at once, all of them or none: one wait for the disk instead
    /// of one each.
    ///
    /// # Errors
    /// As [`Db::create_family`]: none was created then; after `ChangeUncertain` an opening may find
    /// all.
    pub fn create_families(&self, families: &[(&str, FamilyOptions)]) -> Result<Vec<Family>> {
        let created = self.core().create_families(families)?;
        for family in &created {
            self.report_created(family);
        }
        Ok(created.into_iter().map(|state| self.handle(state)).collect())
    }

    /// Gives a family another name, in one step that survives a power cut when this returns; a
    /// crash leaves the old name or the new one. Readers and writers go on, and handles stay valid:
    /// [`Family::name`] returns the new name from then on. Equal names change nothing.
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
    /// `NotFound`, `Exists`, `Invalid` for a bad name, `ReadOnly`, `Broken`, `Closed`, `Io`;
    /// nothing has changed then. `ChangeUncertain`, only where the disk fails twice: it has the old
    /// name now, but an opening after a crash may find the new one. Commits to the family are
    /// refused until another change of the set of files works, which each of them tries.
    pub fn rename_family(&self, old: &str, new: &str) -> Result<()> {
        self.core().rename_family(old, new)?;
        if old != new {
            self.core()
                .telemetry
                .events
                .report(&Event::FamilyRenamed { old: old.to_owned(), new: new.to_owned() });
        }
        Ok(())
    }

    /// Makes a family `name` that holds what `source` holds, with the same options. When this
    /// returns, it survives a power cut.
    ///
    /// The copy shares the files of its source, so that it costs one flush of the source's memory
    /// and one edit of the manifest, whatever the size, and no space at first. From then on both
    /// change independently: each lets go of shared files as its compactions replace them, and a
    /// file goes with the last family that has it. The copy holds everything that was committed to
    /// the source before the call, and of what is committed meanwhile all up to one point of the
    /// order of commits. A snapshot that is older than the copy sees in it what it sees in the
    /// source. A commit hook is not copied.
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
    /// flushes are paused or get nowhere, `ReadOnly`, `Broken`, `Closed`, `Io`; there is no copy
    /// then. `ChangeUncertain`, only where the disk fails twice: there is none now either, but an
    /// opening after a crash may find it, until another change of the set of files works.
    pub fn clone_family(&self, source: &str, name: &str) -> Result<Family> {
        let copy = self.core().clone_family(source, name)?;
        self.report_created(&copy);
        Ok(self.handle(copy))
    }

    fn report_created(&self, family: &FamilyState) {
        self.core()
            .telemetry
            .events
            .report(&Event::FamilyCreated { family: family.name().to_string() });
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
    /// is given here; [`Family::options`] returns them. [`Db::ensure_family`] changes them.
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
        // Those that are in force until the close may be these, and others be stored.
        if family.options() != options || !self.core().are_stored(&family.state, &options) {
            family.set_options(options)?;
        }
        Ok(family)
    }

    /// Drops a family with everything in it. Snapshots and scans that read it keep their files
    /// until they are dropped themselves; a family of the same name can be created at once and
    /// starts empty.
    ///
    /// # Errors
    /// `NotFound`, `ReadOnly`, `Broken`, `Closed`, `Io`; the family is there as before then.
    /// `ChangeUncertain` as for [`Db::rename_family`]: an opening may find it gone.
    pub fn drop_family(&self, name: &str) -> Result<()> {
        self.core().drop_family(name)?;
        self.core().telemetry.events.report(&Event::FamilyDropped { family: name.to_owned() });
        Ok(())
    }

    /// Names of all families, in order.
    #[must_use]
    pub fn family_names(&self) -> Vec<String> {
        self.core().families.names()
    }
}
