//! The mark of a repaired database that has not got its name yet.
//!
//! Names alone don't say it: an earlier repair that was killed, or the user, may have left a
//! directory of that name. The mark is written when the repair is about to give the names, and
//! holds the name under which the damaged database is kept. It means something only while nothing
//! has the database's name, and is removed as soon as something has.

use std::io;
use std::path::Path;

use tidesdb_base::error::{Error, Result};
use tidesdb_sys::vfs::{OpenMode, Vfs};

/// The file, in the repaired database.
pub(crate) const NAME: &str = "REPAIRED";

/// More bytes than a name of a directory has.
const MOST_BYTES: u64 = 4096;

/// Marks the database in `repaired`, and has that on disk. The damaged one will have the name of
/// `kept`.
///
/// # Errors
/// [`Error::Io`].
pub(super) fn write(vfs: &dyn Vfs, repaired: &Path, kept: &Path) -> Result<()> {
    let path = repaired.join(NAME);
    let name = kept.file_name().unwrap_or_default().as_encoded_bytes();
    let file = vfs.open(&path, OpenMode::CreateNew).map_err(|e| Error::io("create", &path, e))?;
    file.write_all_at(name, 0).map_err(|e| Error::io("write", &path, e))?;
    file.sync_all().map_err(|e| Error::io("sync", &path, e))?;
    vfs.sync_dir(repaired).map_err(|e| Error::io("sync", repaired, e))
}

/// The name in the mark of the database in `repaired`; `None` when it has none.
///
/// # Errors
/// [`Error::Io`].
pub(super) fn read(vfs: &dyn Vfs, repaired: &Path) -> Result<Option<String>> {
    let path = repaired.join(NAME);
    let io = |e| Error::io("read", &path, e);
    let file = match vfs.open(&path, OpenMode::Read) {
        Err(e) if is_absent(&e) => return Ok(None),
        other => other.map_err(io)?,
    };
    let len = file.len().map_err(io)?.min(MOST_BYTES);
    let mut name = vec![0; usize::try_from(len).unwrap_or(0)];
    file.read_exact_at(&mut name, 0).map_err(io)?;
    Ok(Some(String::from_utf8_lossy(&name).into_owned()))
}

/// Removes the mark, if there is one.
///
/// # Errors
/// [`Error::Io`].
pub(super) fn remove(vfs: &dyn Vfs, directory: &Path) -> Result<()> {
    let path = directory.join(NAME);
    match vfs.remove(&path) {
        Err(e) if !is_absent(&e) => Err(Error::io("remove", &path, e)),
        _ => Ok(()),
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}
