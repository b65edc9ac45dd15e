//! The names that a repair gives: the repaired database gets that of the damaged one, which is kept
//! beside it. What a repair that was killed meanwhile left is brought to its end.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use tidesdb_base::error::{Error, Result};
use tidesdb_files::naming::FileKind;
use tidesdb_sys::vfs::{LockGuard, OpenMode, RealVfs, Vfs};

use crate::opening::killed_repair::{
    self, KEPT, MARK, REPAIRED, is_vacant, kept_names, parent_of, remove_mark, repaired_names,
    settle_name, sibling, unmark,
};
use crate::salvage::place::{is_in_the_way, lock_alone, remove_copy};

/// As many links as the system follows, one from another.
const MOST_LINKS: usize = 40;

/// Ends a repair that was killed between its two renames: where nothing is at `directory`, and both
/// the damaged database and the repaired one lie beside, marked by the repair for that, the
/// repaired one gets the name. A directory that is empty, or holds no more than an unused file
/// `LOCK`, is nothing: it goes. Returns the name that the repaired one had; `None` where there is
/// no such repair.
///
/// # Errors
/// [`Error::Locked`] while the repair goes on, or another process has the empty directory;
/// [`Error::Io`].
pub fn finish_repair(directory: &Path) -> Result<Option<PathBuf>> {
    finish_on(&RealVfs::new(), directory)
}

fn finish_on(vfs: &dyn Vfs, directory: &Path) -> Result<Option<PathBuf>> {
    // The one look that others pay for.
    match vfs.open(&directory.join(FileKind::Current.name()), OpenMode::Read) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        _ => return Ok(None),
    }
    let directory = &followed(vfs, directory);
    if !vacant(vfs, directory)? {
        return Ok(None);
    }
    let Some(repaired) = killed_repair::find(vfs, directory)? else { return Ok(None) };
    let Some(_lock) = lock_of(vfs, &repaired, directory)? else { return Ok(None) };
    // The repair, or another opening, may have come to its end before the lock was free.
    if killed_repair::find(vfs, directory)?.as_ref() != Some(&repaired) || !clear(vfs, directory)? {
        return Ok(None);
    }
    match vfs.rename(&repaired, directory) {
        // Another program has put something there, which the opening looks at.
        Err(e) if is_in_the_way(&e) => return Ok(None),
        renamed => renamed.map_err(|e| Error::io("rename", &repaired, e))?,
    }
    settle_name(vfs, directory)?;
    Ok(Some(repaired))
}

/// The place that a path means, by way of links, whether anything is there or not.
fn followed(vfs: &dyn Vfs, directory: &Path) -> PathBuf {
    if let Ok(whole) = vfs.canonical(directory) {
        return whole;
    }
    // A link is one without the separator behind it.
    let mut place: PathBuf = directory.components().collect();
    for _ in 0..MOST_LINKS {
        let Ok(target) = RealVfs::link_target(&place) else { break };
        place = parent_of(&place).join(target).components().collect();
    }
    place
}

/// Whether nothing is at `directory`.
fn vacant(vfs: &dyn Vfs, directory: &Path) -> Result<bool> {
    match vfs.list(directory) {
        Ok(entries) => Ok(is_vacant(&entries)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(true),
        // The opening says what is wrong.
        Err(_) => Ok(false),
    }
}

/// Removes what keeps an empty directory from being replaced. Whether nothing does any more.
fn clear(vfs: &dyn Vfs, directory: &Path) -> Result<bool> {
    if !vfs.list(directory).is_ok_and(|entries| !entries.is_empty()) {
        return vacant(vfs, directory);
    }
    let Some(_lock) = lock_of(vfs, directory, directory)? else { return Ok(false) };
    if !vacant(vfs, directory)? {
        return Ok(false);
    }
    let path = directory.join(FileKind::Lock.name());
    // With the lock held: an opening that waits for it notices that it is gone.
    vfs.remove(&path).map_err(|e| Error::io("remove", &path, e))?;
    Ok(true)
}

/// The lock of the database in `dir`, for a repair of `directory`; `None` when it is gone.
fn lock_of(vfs: &dyn Vfs, dir: &Path, directory: &Path) -> Result<Option<Box<dyn LockGuard>>> {
    match lock_alone(vfs, dir, &FileKind::Lock.name()) {
        Ok(lock) => Ok(Some(lock)),
        Err(Error::Locked(_)) => Err(Error::Locked(directory.to_path_buf())),
        Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

/// What earlier repairs left, marked, is no part of the one that begins.
///
/// # Errors
/// [`Error::Io`].
pub(super) fn forget_marks(
    vfs: &dyn Vfs,
    taken: &BTreeSet<String>,
    directory: &Path,
) -> Result<()> {
    for old in repaired_names(directory).filter(|path| is_taken(taken, path)) {
        remove_mark(vfs, &old, directory)?;
    }
    remove_mark(vfs, directory, directory)
}

/// Marks the database in `repaired`, and has that on disk. The damaged one will have the name of
/// `kept`. `allow` gives a file the access that the others have: who opens the database has to read
/// it, too.
///
/// # Errors
/// [`Error::Io`], and those of `allow`.
pub(super) fn mark(
    vfs: &dyn Vfs,
    repaired: &Path,
    kept: &Path,
    allow: &dyn Fn(&Path) -> Result<()>,
) -> Result<()> {
    let path = repaired.join(MARK);
    let name = kept.file_name().unwrap_or_default().as_encoded_bytes();
    let file = vfs.open(&path, OpenMode::CreateNew).map_err(|e| Error::io("create", &path, e))?;
    file.write_all_at(name, 0).map_err(|e| Error::io("write", &path, e))?;
    allow(&path)?;
    file.sync_all().map_err(|e| Error::io("sync", &path, e))?;
    vfs.sync_dir(repaired).map_err(|e| Error::io("sync", repaired, e))
}

/// Puts the repaired database, which is marked, at `directory`, and the damaged one at `kept`, if
/// it can: where that is is returned. After an error the damaged one is where it was, as far as can
/// be. The caller has locked both.
pub(super) fn change_places(
    vfs: &dyn Vfs,
    directory: &Path,
    repaired: &Path,
    kept: PathBuf,
    allow: &dyn Fn(&Path) -> Result<()>,
) -> Result<PathBuf> {
    // CRASH: on either side of this there is a database at `directory`.
    if vfs.exchange(directory, repaired).is_ok() {
        // The repair is done. What can't get its name is kept under the one that it has.
        let kept = put_aside(vfs, repaired, directory, kept, &mut |_| Ok(()));
        return Ok(kept.unwrap_or_else(|_| repaired.to_path_buf()));
    }
    // Not every file system can do that. A refusal that has other reasons shows again here.
    let put = put_aside(vfs, directory, directory, kept, &mut |kept| {
        unmark(vfs, repaired)?;
        mark(vfs, repaired, kept, allow)
    });
    let kept = match put {
        Ok(kept) => kept,
        Err(e) => {
            let _ = discard(vfs, repaired);
            return Err(e);
        }
    };
    // CRASH: nothing is at `directory` here; see `finish_repair`.
    if let Err(e) = vfs.rename(repaired, directory) {
        // If this fails as well, both lie beside the place, whole, and an opening goes on.
        if vfs.rename(&kept, directory).is_ok() {
            let _ = discard(vfs, repaired);
        }
        return Err(Error::io("rename", repaired, e));
    }
    Ok(kept)
}

/// Gives the damaged database, which is at `from`, the name `kept`, or another one if something has
/// come there since the repair began. `before` is called before each try of another name.
fn put_aside(
    vfs: &dyn Vfs,
    from: &Path,
    directory: &Path,
    mut kept: PathBuf,
    before: &mut dyn FnMut(&Path) -> Result<()>,
) -> Result<PathBuf> {
    let first = kept.clone();
    let mut others = kept_names(directory).filter(|other| *other != first);
    loop {
        let Err(e) = vfs.rename(from, &kept) else { return Ok(kept) };
        let is_taken = is_in_the_way(&e) || e.kind() == io::ErrorKind::NotADirectory;
        match others.next() {
            Some(other) if is_taken => kept = other,
            _ => return Err(Error::io("rename", from, e)),
        }
        before(&kept)?;
    }
}

/// Removes the repaired database, which is not needed. The caller has locked it.
pub(super) fn discard(vfs: &dyn Vfs, repaired: &Path) -> Result<()> {
    unmark(vfs, repaired)?;
    remove_copy(vfs, repaired)
}

/// What lies beside `directory`.
pub(super) fn names_beside(vfs: &dyn Vfs, directory: &Path) -> Result<BTreeSet<String>> {
    let parent = parent_of(directory);
    let entries = vfs.list(parent).map_err(|e| Error::io("list", parent, e))?;
    Ok(entries.into_iter().map(|entry| entry.name).collect())
}

/// Whether the listing has the name, or one that differs in bytes that are not UTF-8 alone.
fn is_taken(taken: &BTreeSet<String>, path: &Path) -> bool {
    taken.contains(path.file_name().unwrap_or_default().to_string_lossy().as_ref())
}

/// The names beside `directory`, which nothing has, for the repaired database and the damaged one.
///
/// # Errors
/// [`Error::NotEmpty`] where all are taken.
pub(super) fn vacant_names(
    taken: &BTreeSet<String>,
    directory: &Path,
) -> Result<(PathBuf, PathBuf)> {
    let is_free = |path: &PathBuf| !is_taken(taken, path);
    let all_taken = |suffix| Error::NotEmpty(sibling(directory, suffix));
    let repaired = repaired_names(directory).find(is_free).ok_or_else(|| all_taken(REPAIRED))?;
    let kept = kept_names(directory).find(is_free).ok_or_else(|| all_taken(KEPT))?;
    Ok((repaired, kept))
}

#[cfg(test)]
mod tests;
