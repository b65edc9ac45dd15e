//! Puts a salvaged database in the place of a damaged one, which is kept beside it.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidesdb_base::error::{Error, Result};
use tidesdb_base::progress::Progress;
use tidesdb_files::naming::FileKind;
use tidesdb_sys::vfs::{RealVfs, Vfs};

use crate::salvage::catalog::Catalog;
use crate::salvage::destination::Destination;
use crate::salvage::place::{check_can_be_renamed, parent_of, remove_copy, resolved, sibling};
use crate::salvage::report::SalvageReport;
use crate::salvage::salvager::salvage_into;
use crate::salvage::source::Source;

/// Behind the name of a database: its repaired form until that has the name itself.
const REPAIRED: &str = ".repaired";
/// Behind the name of a database: the damaged form.
const KEPT: &str = ".damaged";

/// What a repair did.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Repaired {
    /// What was salvaged and what was lost.
    pub report: SalvageReport,
    /// Where the damaged database is now.
    pub kept: PathBuf,
}

/// Salvages the database in `directory` and puts the result in its place. The damaged one is kept,
/// whole, beside it, under the name `DIRECTORY.damaged`, or with a number behind that. Needs as
/// much free space as what is salvaged takes.
///
/// The two change places in one step, so there is one of them at `directory` at each moment. A
/// crash before that leaves the new one, whole, at `DIRECTORY.repaired` (or with a number behind
/// that), and one behind it the damaged one. File systems that can't exchange names get two
/// renames; a crash between them leaves nothing at `directory`, and [`finish_repair`] goes on from
/// there.
///
/// The new directory and its files have the owner, the group and the mode of the old ones. Until it
/// is whole, only the owner of the old directory can look into it.
///
/// The directory is locked from the beginning to the end, so that nothing is written to it that
/// would not be in the new database. What the two renames need is tried before the work.
///
/// # Errors
/// As [`crate::salvage::salvage()`], and [`Error::Locked`] also while another process reads it;
/// [`Error::InvalidArgument`] when `directory` is a mount point; [`Error::Io`] when its owner, or
/// that of its files, can't be given to the new one. The damaged database is where it was then.
pub fn repair(
    directory: &Path,
    progress: &mut dyn FnMut(Progress) -> Result<()>,
) -> Result<Repaired> {
    let vfs: Arc<dyn Vfs> = Arc::new(RealVfs::new());
    let directory = &resolved(directory)?;
    let source = Source::open_alone(directory)?;
    let taken = names_beside(vfs.as_ref(), directory)?;
    let repaired = vacant_name(&taken, directory, REPAIRED)?;
    let kept = vacant_name(&taken, directory, KEPT)?;
    let made = Destination::create(&repaired)?;
    let prepared = check_can_be_renamed(vfs.as_ref(), directory, made.working());
    if let Err(e) = prepared.and_then(|()| keep_private(&source, made.working())) {
        made.abandon();
        return Err(e);
    }
    let (made, report) = salvage_into(made, &source, progress)?;
    made.finish()?;
    if let Err(e) = give_access(vfs.as_ref(), &source, &repaired) {
        // What it takes may be much. If the removal fails, its error would hide the reason.
        let _ = remove_copy(vfs.as_ref(), &repaired);
        return Err(e);
    }
    change_places(vfs.as_ref(), directory, &repaired, &kept)?;
    let parent = parent_of(directory);
    vfs.sync_dir(parent).map_err(|e| Error::io("sync", parent, e))?;
    Ok(Repaired { report, kept })
}

/// Ends a repair that was killed between its two renames: where nothing is at `directory`, and both
/// a damaged and a repaired database of it lie beside, the repaired one gets the name. Returns the
/// name that it had; `None`, and nothing is changed, where there is no such repair.
///
/// # Errors
/// [`Error::Io`], [`Error::InvalidArgument`] for a link that leads to nothing.
pub fn finish_repair(directory: &Path) -> Result<Option<PathBuf>> {
    let vfs = RealVfs::new();
    let directory = &resolved(directory)?;
    match vfs.list(directory) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        _ => return Ok(None),
    }
    let taken = names_beside(&vfs, directory)?;
    let last = |suffix| numbered(directory, suffix).rev().find(|path| is_taken(&taken, path));
    // The last: each repair takes the first name that is free.
    let (Some(repaired), Some(_)) = (last(REPAIRED), last(KEPT)) else { return Ok(None) };
    vfs.rename(&repaired, directory).map_err(|e| Error::io("rename", &repaired, e))?;
    let parent = parent_of(directory);
    vfs.sync_dir(parent).map_err(|e| Error::io("sync", parent, e))?;
    Ok(Some(repaired))
}

/// Whether all of the manifest in `directory` can be read, and of the file that names it. An end
/// that can't be read is what a crash leaves as well: this says why a database does not open, and
/// nothing of one that does.
///
/// # Errors
/// [`Error::Locked`] when a database is open there for writing, [`Error::NotADatabase`],
/// [`Error::Io`].
pub fn manifest_is_whole(directory: &Path) -> Result<bool> {
    Ok(Catalog::read(&Source::open(directory)?)?.whole)
}

/// Puts the repaired database at `directory`, and the damaged one at `kept`. After an error the
/// damaged one is where it was, as far as can be.
fn change_places(vfs: &dyn Vfs, directory: &Path, repaired: &Path, kept: &Path) -> Result<()> {
    // CRASH: on either side of this there is a database at `directory`.
    if RealVfs::exchange(directory, repaired).is_ok() {
        return vfs.rename(repaired, kept).map_err(|e| {
            // The damaged one is there until it is back, and must not be removed.
            if RealVfs::exchange(directory, repaired).is_ok() {
                let _ = remove_copy(vfs, repaired);
            }
            Error::io("rename", directory, e)
        });
    }
    // Not every file system can do that. A refusal that has other reasons shows again here.
    if let Err(e) = vfs.rename(directory, kept) {
        let _ = remove_copy(vfs, repaired);
        return Err(Error::io("rename", directory, e));
    }
    // CRASH: nothing is at `directory` here; see `finish_repair`.
    vfs.rename(repaired, directory).map_err(|e| {
        // If this fails as well, both lie beside the place, whole.
        let _ = vfs.rename(kept, directory);
        Error::io("rename", repaired, e)
    })
}

/// Finds out before the work whether the new directory and its files can have the access of the
/// old ones, and keeps others away from it until then.
fn keep_private(source: &Source, working: &Path) -> Result<()> {
    if let Some(like) = old_file(source) {
        RealVfs::copy_owner(&like, working)
            .map_err(|e| Error::io("set the owner of", working, e))?;
    }
    copy_access(&source.dir, working)?;
    RealVfs::make_private(working).map_err(|e| Error::io("set the mode of", working, e))
}

/// Gives the new database the owner, the group and the mode of the old one, the files as well: the
/// process that repairs is often not the one that uses the database.
fn give_access(vfs: &dyn Vfs, source: &Source, repaired: &Path) -> Result<()> {
    if let Some(like) = old_file(source) {
        for entry in vfs.list(repaired).map_err(|e| Error::io("list", repaired, e))? {
            copy_access(&like, &repaired.join(entry.name))?;
        }
    }
    copy_access(&source.dir, repaired)
}

/// A file whose access the new ones get.
fn old_file(source: &Source) -> Option<PathBuf> {
    let is_old = |kind: &&(FileKind, u64)| !matches!(kind.0, FileKind::Lock | FileKind::EventLog);
    source.files.iter().find(is_old).map(|(like, _)| source.path(*like))
}

fn copy_access(from: &Path, to: &Path) -> Result<()> {
    RealVfs::copy_access(from, to).map_err(|e| Error::io("set owner and mode of", to, e))
}

/// What lies beside `directory`.
fn names_beside(vfs: &dyn Vfs, directory: &Path) -> Result<BTreeSet<String>> {
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
fn vacant_name(taken: &BTreeSet<String>, directory: &Path, suffix: &str) -> Result<PathBuf> {
    let free = numbered(directory, suffix).find(|path| !is_taken(taken, path));
    free.ok_or_else(|| Error::NotEmpty(sibling(directory, suffix)))
}
