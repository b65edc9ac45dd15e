//! What a repair that was killed leaves: a repaired database that has not got its name.
//!
//! A repair (`salvage`) writes a new database beside the damaged one and has the two change names.
//! Where the file system can't exchange names there is a moment when nothing has the database's
//! name. A database that began empty there would hide both.
//!
//! Names alone don't tell such a repair: an earlier one that was killed, or the user, may have left
//! directories of these names. So there is a mark, the file [`MARK`] in the new database. It is
//! written when the repair is about to give the names, and holds the name under which the damaged
//! database is kept. It means something only while nothing has the database's name, and is removed
//! as soon as something has. A file of that name that says anything else is the user's.
//!
//! Names are compared byte by byte: not all are UTF-8.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use tidesdb_base::error::{Error, Result};
use tidesdb_files::naming::FileKind;
use tidesdb_sys::vfs::{DirEntry, OpenMode, Vfs};

/// The mark, in the repaired database.
pub(crate) const MARK: &str = "REPAIRED";

/// Behind the name of a database: its repaired form until that has the name itself.
pub(crate) const REPAIRED: &str = ".repaired";
/// Behind the name of a database: the damaged form.
pub(crate) const KEPT: &str = ".damaged";

/// More bytes than a name of a directory has.
const MOST_BYTES: u64 = 4096;

/// `path` with something behind its last name.
pub(crate) fn sibling(path: &Path, suffix: &str) -> PathBuf {
    let mut name: OsString = path.file_name().unwrap_or_default().to_owned();
    name.push(suffix);
    path.with_file_name(name)
}

/// The directory in which `path` lies. That of one name, and of the root, is where the process is.
pub(crate) fn parent_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// The names for the repaired form of a database: `DIRECTORY.repaired`, and the same with numbers
/// behind it. Each opening that creates a database tries all of them, so they are few. Each is
/// taken by a repair that was killed when its work was done.
pub(crate) fn repaired_names(directory: &Path) -> impl Iterator<Item = PathBuf> {
    numbered(directory, REPAIRED).take(16)
}

/// The names for the damaged form of a database.
pub(crate) fn kept_names(directory: &Path) -> impl Iterator<Item = PathBuf> {
    numbered(directory, KEPT).take(1000)
}

fn numbered(directory: &Path, suffix: &str) -> impl Iterator<Item = PathBuf> {
    (0_u32..).map(move |number| match number {
        0 => sibling(directory, suffix),
        number => sibling(directory, &format!("{suffix}-{number}")),
    })
}

/// The repaired database that is to have the name `directory`, which nothing has: it is marked, and
/// the damaged one that its mark names is there.
///
/// # Errors
/// [`Error::Io`].
pub(crate) fn find(vfs: &dyn Vfs, directory: &Path) -> Result<Option<PathBuf>> {
    // Not by a listing: there may be very many other databases beside it.
    for repaired in repaired_names(directory) {
        let kept = marked(vfs, &repaired, directory)?;
        if kept.is_some_and(|kept| vfs.list(&kept).is_ok()) {
            return Ok(Some(repaired));
        }
    }
    Ok(None)
}

/// Whether nothing can have such a path: the names that are tried are longer than the database's.
fn is_absent(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidFilename, NotADirectory, NotFound};
    matches!(error.kind(), NotFound | NotADirectory | InvalidFilename)
}

/// Fails where a repaired database is to have the name `path`, which nothing has: an empty one must
/// not begin there.
///
/// # Errors
/// [`Error::NotADatabase`], [`Error::Io`].
pub(super) fn refuse(vfs: &dyn Vfs, path: &Path) -> Result<()> {
    let directory = vfs.canonical(path).unwrap_or_else(|_| path.to_path_buf());
    let Some(repaired) = find(vfs, &directory)? else { return Ok(()) };
    let (repaired, name) = (repaired.display(), directory.display());
    let reason = format!(
        "a repair of it was killed before {repaired} had this name, which `tidesdb repair --db \
         {name}` gives it"
    );
    Err(Error::NotADatabase { path: path.to_path_buf(), reason })
}

/// Whether a directory with these entries is as one that was just made, or in which an opening came
/// no further than to its lock.
pub(crate) fn is_vacant(entries: &[DirEntry]) -> bool {
    let lock = FileKind::Lock.name();
    entries.iter().all(|entry| entry.name == lock && !entry.is_dir && entry.len == 0)
}

/// Where the database that was at `directory` is kept, by the mark in `dir`. `None` without a mark,
/// and when it is none that a repair of that database has written.
///
/// # Errors
/// [`Error::Io`].
fn marked(vfs: &dyn Vfs, dir: &Path, directory: &Path) -> Result<Option<PathBuf>> {
    let path = dir.join(MARK);
    let file = match vfs.open(&path, OpenMode::Read) {
        Err(e) if is_absent(&e) => return Ok(None),
        other => other.map_err(|e| Error::io("read", &path, e))?,
    };
    let len = file.len().map_err(|e| Error::io("read length", &path, e))?.min(MOST_BYTES);
    let mut name = vec![0; usize::try_from(len).unwrap_or(0)];
    match file.read_exact_at(&mut name, 0) {
        Err(e) if e.kind() == io::ErrorKind::IsADirectory => return Ok(None),
        other => other.map_err(|e| Error::io("read", &path, e))?,
    }
    let is_named =
        |kept: &PathBuf| kept.file_name().is_some_and(|it| it.as_encoded_bytes() == name);
    Ok(kept_names(directory).find(is_named))
}

/// Removes the mark in `dir`, if a repair of the database at `directory` has written it.
///
/// # Errors
/// [`Error::Io`].
pub(crate) fn remove_mark(vfs: &dyn Vfs, dir: &Path, directory: &Path) -> Result<()> {
    match marked(vfs, dir, directory)? {
        Some(_) => unmark(vfs, dir),
        None => Ok(()),
    }
}

/// Removes the mark in `dir`, which a repair of this process has written, if it is there.
///
/// # Errors
/// [`Error::Io`].
pub(crate) fn unmark(vfs: &dyn Vfs, dir: &Path) -> Result<()> {
    let path = dir.join(MARK);
    match vfs.remove(&path) {
        Err(e) if !is_absent(&e) => Err(Error::io("remove", &path, e)),
        _ => Ok(()),
    }
}

/// Has the name of a repaired database on disk, and removes its mark. The caller has locked the
/// database: what is written to it before could be lost with the name.
///
/// # Errors
/// [`Error::Io`] of the name.
pub(crate) fn settle_name(vfs: &dyn Vfs, directory: &Path) -> Result<()> {
    let parent = parent_of(directory);
    vfs.sync_dir(parent).map_err(|e| Error::io("sync", parent, e))?;
    // CRASH: not before. Where a power cut takes the second of two renames back, the mark is what
    // says that the repaired database is to have the name. An opening removes it as well.
    let _ = remove_mark(vfs, directory, directory);
    Ok(())
}

/// Removes the mark of the database at `path`, which is open, when it is one of a repair of it.
pub(crate) fn forget(vfs: &dyn Vfs, path: &Path) {
    // It does no harm as long as there is a database at its name.
    let Ok(directory) = vfs.canonical(path) else { return };
    if marked(vfs, path, &directory).is_ok_and(|kept| kept.is_some()) {
        let _ = settle_name(vfs, &directory);
    }
}
