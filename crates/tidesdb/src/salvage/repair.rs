//! Puts a salvaged database in the place of a damaged one, which is kept beside it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidesdb_base::error::{Error, Result};
use tidesdb_base::progress::Progress;
use tidesdb_files::naming::FileKind;
use tidesdb_sys::vfs::{RealVfs, Vfs};

use crate::salvage::destination::Destination;
use crate::salvage::place::{check_can_be_renamed, parent_of, remove_copy, resolved, sibling};
use crate::salvage::report::SalvageReport;
use crate::salvage::salvager::salvage_into;
use crate::salvage::source::Source;

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
/// A crash between the two renames leaves no database at `directory`; the salvaged one is at
/// `DIRECTORY.repaired` then, whole, and the damaged one under its new name.
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
    let repaired = sibling(directory, ".repaired");
    let kept = vacant_name(vfs.as_ref(), directory)?;
    let made = Destination::create(&repaired)?;
    let prepared = check_can_be_renamed(vfs.as_ref(), directory, made.working());
    if let Err(e) = prepared.and_then(|()| keep_private(&source, made.working())) {
        made.abandon();
        return Err(e);
    }
    let (made, report) = salvage_into(made, &source, progress)?;
    made.finish()?;
    let moved = give_access(vfs.as_ref(), &source, &repaired)
        .and_then(|()| vfs.rename(directory, &kept).map_err(|e| Error::io("rename", directory, e)));
    if let Err(e) = moved {
        // The next try needs the name. If the removal fails, its error would hide the reason.
        let _ = remove_copy(vfs.as_ref(), &repaired);
        return Err(e);
    }
    if let Err(e) = vfs.rename(&repaired, directory) {
        // If this fails as well, both lie beside the place, whole.
        let _ = vfs.rename(&kept, directory);
        return Err(Error::io("rename", &repaired, e));
    }
    let parent = parent_of(directory);
    vfs.sync_dir(parent).map_err(|e| Error::io("sync", parent, e))?;
    Ok(Repaired { report, kept })
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

/// A name beside `directory` that nothing has.
fn vacant_name(vfs: &dyn Vfs, directory: &Path) -> Result<PathBuf> {
    let parent = parent_of(directory);
    let taken = vfs.list(parent).map_err(|e| Error::io("list", parent, e))?;
    let is_taken = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        taken.iter().any(|entry| entry.name == name)
    };
    let numbered = |number: u32| match number {
        0 => sibling(directory, ".damaged"),
        number => sibling(directory, &format!(".damaged-{number}")),
    };
    let free = (0..1000).map(numbered).find(|path| !is_taken(path));
    free.ok_or_else(|| Error::NotEmpty(sibling(directory, ".damaged")))
}
