//! The new database that a salvage writes.
//!
//! It is written beside its place, under a name of its own, and gets its name when it is whole: what a
//! salvage that was interrupted leaves is never taken for its result. Records come in the order of
//! their keys and go through an ordinary database.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidesdb_base::error::{Error, Result};
use tidesdb_base::key_order::KeyOrder;
use tidesdb_base::options::{DbOptions, FamilyOptions};
use tidesdb_engine::{Db, Family, WriteBatch};
use tidesdb_files::naming;
use tidesdb_sys::vfs::{RealVfs, Vfs};

/// Bytes of records that are committed together.
const BATCH_BYTES: u64 = 4 << 20;

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Destination {
    vfs: Arc<dyn Vfs>,
    place: PathBuf,
    working: PathBuf,
    db: Db,
    batch: WriteBatch,
    batch_bytes: u64,
}

/// `path` with something behind its last name.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name: OsString = path.file_name().unwrap_or_default().to_owned();
    name.push(suffix);
    path.with_file_name(name)
}

/// The directory in which `path` lies.
pub(crate) fn parent_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Whether there is nothing at `path`, or a directory with nothing in it.
///
/// # Errors
/// [`Error::NotEmpty`] otherwise, [`Error::Io`].
pub(crate) fn check_vacant(vfs: &dyn Vfs, path: &Path) -> Result<bool> {
    match vfs.list(path) {
        Ok(entries) if entries.is_empty() => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Ok(_) => Err(Error::NotEmpty(path.to_path_buf())),
        Err(e) if e.kind() == io::ErrorKind::NotADirectory => {
            Err(Error::NotEmpty(path.to_path_buf()))
        }
        Err(e) => Err(Error::io("list", path, e)),
    }
}

impl Destination {
    /// Begins a database that will lie at `place`, which must be vacant. What an interrupted salvage to
    /// the same place left is removed.
    ///
    /// # Errors
    /// [`Error::NotEmpty`], and those of creating a database.
    pub(crate) fn create(place: &Path) -> Result<Self> {
        let vfs: Arc<dyn Vfs> = Arc::new(RealVfs::new());
        check_vacant(vfs.as_ref(), place)?;
        let working = beside(place, ".unfinished");
        remove_unfinished(vfs.as_ref(), &working)?;
        let db = Db::open(&working, DbOptions::default())?;
        let place = place.to_path_buf();
        Ok(Self { vfs, place, working, db, batch: WriteBatch::new(), batch_bytes: 0 })
    }

    /// Makes a family.
    ///
    /// # Errors
    /// Those of [`Db::create_family`].
    pub(crate) fn family(&self, name: &str, options: FamilyOptions) -> Result<Family> {
        // Nothing that is stored depends on how the application compares keys.
        if let KeyOrder::Custom(order) = &options.key_order {
            match self.db.register_key_order(order, <[u8]>::cmp) {
                // Another family has it.
                Ok(()) | Err(Error::InvalidArgument(_)) => {}
                Err(error) => return Err(error),
            }
        }
        self.db.create_family(name, options)
    }

    /// Writes a record.
    ///
    /// # Errors
    /// Those of a commit.
    pub(crate) fn put(
        &mut self,
        family: &Family,
        key: &[u8],
        value: &[u8],
        expires_at: u64,
    ) -> Result<()> {
        let bytes = (key.len() + value.len()) as u64;
        if self.batch_bytes > 0 && self.batch_bytes + bytes > BATCH_BYTES {
            self.commit()?;
        }
        self.batch.put_expiring(family, key, value, expires_at)?;
        self.batch_bytes += bytes + 64;
        Ok(())
    }

    fn commit(&mut self) -> Result<()> {
        self.db.write(&self.batch)?;
        self.batch.clear();
        self.batch_bytes = 0;
        Ok(())
    }

    /// Makes everything durable and gives the database its place.
    ///
    /// # Errors
    /// Those of a commit and of a flush; [`Error::Io`].
    pub(crate) fn finish(mut self) -> Result<()> {
        self.commit()?;
        self.db.flush()?;
        self.db.wait_idle()?;
        self.db.close()?;
        if check_vacant(self.vfs.as_ref(), &self.place)? {
            self.vfs.remove_dir(&self.place).map_err(|e| Error::io("remove", &self.place, e))?;
        }
        let renamed = self.vfs.rename(&self.working, &self.place);
        renamed.map_err(|e| Error::io("rename", &self.place, e))?;
        let parent = parent_of(&self.place);
        self.vfs.sync_dir(parent).map_err(|e| Error::io("sync", parent, e))
    }

    /// Removes what was written.
    pub(crate) fn abandon(self) {
        let (vfs, working) = (self.vfs, self.working);
        drop(self.batch);
        // Whatever it answers: the files go next.
        let _ = self.db.close();
        let _ = remove_unfinished(vfs.as_ref(), &working);
    }
}

/// Removes the directory of an unfinished copy, in which only files of a database may lie.
pub(crate) fn remove_unfinished(vfs: &dyn Vfs, dir: &Path) -> Result<()> {
    let entries = match vfs.list(dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(Error::io("list", dir, e)),
    };
    let ours = |name: &str| {
        naming::parse(name).is_some() || name == tidesdb_files::manifest::current::CURRENT_TEMPORARY
    };
    if entries.iter().any(|entry| entry.is_dir || !ours(&entry.name)) {
        return Err(Error::NotEmpty(dir.to_path_buf()));
    }
    // The name that makes it a database goes first.
    let current = naming::FileKind::Current.name();
    let (first, others): (Vec<_>, Vec<_>) = entries.iter().partition(|e| e.name == current);
    for entry in first.into_iter().chain(others) {
        let path = dir.join(&entry.name);
        vfs.remove(&path).map_err(|e| Error::io("remove", &path, e))?;
    }
    vfs.remove_dir(dir).map_err(|e| Error::io("remove", dir, e))
}
