//! `CURRENT`: the small file that names the manifest in force.
//!
//! It is written to a temporary file, synced, renamed over the old one, and the directory synced:
//! a power cut leaves the old name or the new one.
//!
//! A copy of a database begins with a `CURRENT` that names none and says so
//! ([`begin_unfinished`]): no opening takes what an interrupted copy left for a database, or the
//! directory in which it had not written anything else for an empty one. [`set_current`] ends that.

use std::io;
use std::path::Path;

use tidesdb_base::checksum;
use tidesdb_base::error::{Error, Result};
use tidesdb_sys::vfs::{OpenMode, Vfs};

use super::Unsynced;
use crate::naming;

/// Name under which a new `CURRENT` is written before it takes the old one's place.
pub const CURRENT_TEMPORARY: &str = "CURRENT.new";
const LONGEST_BYTES: usize = 256;

/// Content of the `CURRENT` of a copy that is not finished.
const UNFINISHED: &[u8] = b"UNFINISHED-COPY\n";

/// Makes manifest `number` the one in force. When this returns, a power cut can't undo it.
///
/// # Errors
/// [`Error::Io`] when a file operation fails; which manifest is in force is then unknown.
pub fn set_current(vfs: &dyn Vfs, dir: &Path, number: u64) -> Result<()> {
    write_next(vfs, dir, number)?;
    put_in_force(vfs, dir)
}

/// The first half of [`set_current`]: writes what is to take the place of `CURRENT`. Whatever comes
/// of it, the manifest in force stays so.
///
/// # Errors
/// [`Error::Io`].
pub fn write_next(vfs: &dyn Vfs, dir: &Path, number: u64) -> Result<()> {
    write_next_unsynced(vfs, dir, number)?.sync()
}

/// As [`write_next`], but leaves the sync to the caller: it comes before [`put_in_force`].
///
/// # Errors
/// [`Error::Io`].
pub fn write_next_unsynced(vfs: &dyn Vfs, dir: &Path, number: u64) -> Result<Unsynced> {
    let name = naming::FileKind::Manifest(number).name();
    let text = format!("{name} {:016x}\n", checksum::plain(name.as_bytes()));
    write_temporary(vfs, dir, text.as_bytes())
}

fn write_temporary(vfs: &dyn Vfs, dir: &Path, text: &[u8]) -> Result<Unsynced> {
    let temporary = dir.join(CURRENT_TEMPORARY);
    match vfs.remove(&temporary) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => {
            return Err(Error::io("remove", &temporary, e));
        }
        _ => {}
    }
    let file = vfs
        .open(&temporary, OpenMode::CreateNew)
        .map_err(|e| Error::io("create", &temporary, e))?;
    file.write_all_at(text, 0).map_err(|e| Error::io("write", &temporary, e))?;
    Ok(Unsynced::new(temporary, file))
}

/// The second half of [`set_current`]: puts in force what [`write_next`] has written.
///
/// # Errors
/// As [`set_current`].
pub fn put_in_force(vfs: &dyn Vfs, dir: &Path) -> Result<()> {
    let temporary = dir.join(CURRENT_TEMPORARY);
    let current = dir.join(naming::FileKind::Current.name());
    vfs.rename(&temporary, &current).map_err(|e| Error::io("rename", &current, e))?;
    // CRASH: before this sync either name may come back; both manifests are still complete.
    vfs.sync_dir(dir).map_err(|e| Error::io("sync", dir, e))
}

/// Says that the directory is that of an unfinished copy. When this returns, a power cut can't undo
/// it: what is put there later is never found without it.
///
/// # Errors
/// [`Error::Io`].
pub fn begin_unfinished(vfs: &dyn Vfs, dir: &Path) -> Result<()> {
    write_temporary(vfs, dir, UNFINISHED)?.sync()?;
    put_in_force(vfs, dir)
}

/// Whether an unfinished copy lies in the directory.
///
/// # Errors
/// [`Error::Io`].
pub fn is_unfinished(vfs: &dyn Vfs, dir: &Path) -> Result<bool> {
    match read_current(vfs, dir) {
        Err(Error::NotADatabase { .. }) => Ok(true),
        Err(e) if !e.is_corruption() => Err(e),
        _ => Ok(false),
    }
}

/// Number of the manifest in force; `None` when there is no `CURRENT`.
///
/// # Errors
/// [`Error::NotADatabase`] for an unfinished copy; [`Error::Corruption`] when the file is not what
/// [`set_current`] writes; [`Error::Io`].
pub fn read_current(vfs: &dyn Vfs, dir: &Path) -> Result<Option<u64>> {
    let path = dir.join(naming::FileKind::Current.name());
    let file = match vfs.open(&path, OpenMode::Read) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(Error::io("open", &path, e)),
    };
    let length = file.len().map_err(|e| Error::io("read length", &path, e))?;
    let damaged = |found: String| {
        let detail = format!("expected the name of a manifest and its checksum, found {found}");
        Error::corruption(&path, 0, detail)
    };
    let length = usize::try_from(length)
        .ok()
        .filter(|&length| length <= LONGEST_BYTES)
        .ok_or_else(|| damaged(format!("{length} bytes")))?;
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, 0).map_err(|e| Error::io("read", &path, e))?;
    if bytes == UNFINISHED {
        let reason = "it is a copy of a database that was not finished".to_owned();
        return Err(Error::NotADatabase { path: dir.to_path_buf(), reason });
    }
    let found = || damaged(format!("'{}'", bytes.escape_ascii()));
    number_in(&bytes).map(Some).ok_or_else(found)
}

/// The number of the manifest that the content of a `CURRENT` names; `None` when it is damaged.
pub(crate) fn number_in(bytes: &[u8]) -> Option<u64> {
    let (name, sum) = std::str::from_utf8(bytes).ok()?.strip_suffix('\n')?.split_once(' ')?;
    if format!("{:016x}", checksum::plain(name.as_bytes())) != sum {
        return None;
    }
    match naming::parse(name)? {
        naming::FileKind::Manifest(number) => Some(number),
        _ => None,
    }
}
