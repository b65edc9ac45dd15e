//! The names that a repair gives: the repaired database gets that of the damaged one, which is kept
//! beside it. What a repair that was killed meanwhile left is brought to its end.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use tidesdb_base::error::{Error, Result};
use tidesdb_sys::vfs::{RealVfs, Vfs};

use crate::salvage::marker;
use crate::salvage::place::{parent_of, remove_copy, resolved, sibling};

/// Behind the name of a database: its repaired form until that has the name itself.
pub(super) const REPAIRED: &str = ".repaired";
/// Behind the name of a database: the damaged form.
pub(super) const KEPT: &str = ".damaged";

/// Ends a repair that was killed between its two renames: where nothing is at `directory`, and both
/// the damaged database and the repaired one lie beside, marked by the repair for that, the
/// repaired one gets the name. Returns the name that it had; `None` where there is no such repair.
///
/// # Errors
/// [`Error::Io`], [`Error::InvalidArgument`] for a link that leads to nothing.
pub fn finish_repair(directory: &Path) -> Result<Option<PathBuf>> {
    finish_on(&RealVfs::new(), directory)
}

fn finish_on(vfs: &dyn Vfs, directory: &Path) -> Result<Option<PathBuf>> {
    let directory = &resolved(directory)?;
    match vfs.list(directory) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        Ok(entries) => {
            // It was killed behind them.
            if entries.iter().any(|entry| entry.name == marker::NAME) {
                // It does no harm as long as there is a database at `directory`.
                let _ = settle_name(vfs, directory);
            }
            return Ok(None);
        }
        _ => return Ok(None),
    }
    let taken = match names_beside(vfs, directory) {
        // A repair lists it first, too.
        Err(Error::Io { source, .. }) if cannot_hold_a_repair(&source) => return Ok(None),
        other => other?,
    };
    let is_kept = |name: &str| {
        let mut names = numbered(directory, KEPT).filter(|path| is_taken(&taken, path));
        names.any(|path| path.file_name().is_some_and(|known| *known == *name))
    };
    for repaired in numbered(directory, REPAIRED).filter(|path| is_taken(&taken, path)) {
        if marker::read(vfs, &repaired)?.is_none_or(|kept| !is_kept(&kept)) {
            continue;
        }
        match vfs.rename(&repaired, directory) {
            // Another opening was quicker.
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            renamed => renamed.map_err(|e| Error::io("rename", &repaired, e))?,
        }
        settle_name(vfs, directory)?;
        return Ok(Some(repaired));
    }
    Ok(None)
}

fn cannot_hold_a_repair(error: &io::Error) -> bool {
    let kind = error.kind();
    matches!(
        kind,
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::PermissionDenied
    )
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
    for old in numbered(directory, REPAIRED).filter(|path| is_taken(taken, path)) {
        marker::remove(vfs, &old)?;
    }
    marker::remove(vfs, directory)
}

/// Puts the repaired database at `directory`, and the damaged one at `kept`, if it can: where that
/// is is returned. After an error the damaged one is where it was, as far as can be.
pub(super) fn change_places(
    vfs: &dyn Vfs,
    directory: &Path,
    repaired: &Path,
    kept: PathBuf,
) -> Result<PathBuf> {
    // CRASH: on either side of this there is a database at `directory`.
    if vfs.exchange(directory, repaired).is_ok() {
        let Err(e) = vfs.rename(repaired, &kept) else { return Ok(kept) };
        // The damaged one is there until it is back, and must not be removed.
        if vfs.exchange(directory, repaired).is_err() {
            return Ok(repaired.to_path_buf());
        }
        let _ = discard(vfs, repaired);
        return Err(Error::io("rename", directory, e));
    }
    // Not every file system can do that. A refusal that has other reasons shows again here.
    if let Err(e) = vfs.rename(directory, &kept) {
        let _ = discard(vfs, repaired);
        return Err(Error::io("rename", directory, e));
    }
    // CRASH: nothing is at `directory` here; see `finish_repair`.
    if let Err(e) = vfs.rename(repaired, directory) {
        // An opening took this for a killed repair, and went on from there.
        if e.kind() == io::ErrorKind::NotFound && vfs.list(directory).is_ok() {
            return Ok(kept);
        }
        // If this fails as well, both lie beside the place, whole, and an opening goes on.
        if vfs.rename(&kept, directory).is_ok() {
            let _ = discard(vfs, repaired);
        }
        return Err(Error::io("rename", repaired, e));
    }
    Ok(kept)
}

/// Has the name of a repaired database on disk, and removes its mark.
///
/// # Errors
/// [`Error::Io`] of the name.
pub(super) fn settle_name(vfs: &dyn Vfs, directory: &Path) -> Result<()> {
    let parent = parent_of(directory);
    vfs.sync_dir(parent).map_err(|e| Error::io("sync", parent, e))?;
    // CRASH: not before. Where a power cut takes the second of two renames back, the mark is what
    // says that the repaired database is to have the name. An opening removes it as well.
    let _ = marker::remove(vfs, directory);
    Ok(())
}

/// Removes the repaired database, which is not needed.
pub(super) fn discard(vfs: &dyn Vfs, repaired: &Path) -> Result<()> {
    marker::remove(vfs, repaired)?;
    remove_copy(vfs, repaired)
}

/// What lies beside `directory`.
pub(super) fn names_beside(vfs: &dyn Vfs, directory: &Path) -> Result<BTreeSet<String>> {
    let parent = parent_of(directory);
    let entries = vfs.list(parent).map_err(|e| Error::io("list", parent, e))?;
    Ok(entries.into_iter().map(|entry| entry.name).collect())
}

fn is_taken(taken: &BTreeSet<String>, path: &Path) -> bool {
    taken.contains(path.file_name().unwrap_or_default().to_string_lossy().as_ref())
}

/// `DIRECTORY.suffix`, and the same with numbers behind it.
fn numbered(directory: &Path, suffix: &str) -> impl DoubleEndedIterator<Item = PathBuf> {
    (0..1000).map(move |number| match number {
        0 => sibling(directory, suffix),
        number => sibling(directory, &format!("{suffix}-{number}")),
    })
}

/// A name beside `directory` that nothing has.
pub(super) fn vacant_name(
    taken: &BTreeSet<String>,
    directory: &Path,
    suffix: &str,
) -> Result<PathBuf> {
    let free = numbered(directory, suffix).find(|path| !is_taken(taken, path));
    free.ok_or_else(|| Error::NotEmpty(sibling(directory, suffix)))
}

#[cfg(test)]
mod tests;
