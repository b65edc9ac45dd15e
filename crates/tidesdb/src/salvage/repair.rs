//! Puts a salvaged database in the place of a damaged one, which is kept beside it.

use std::path::{Path, PathBuf};

use tidesdb_base::error::{Error, Result};
use tidesdb_base::options::DbOptions;
use tidesdb_base::progress::Progress;
use tidesdb_files::naming::FileKind;
use tidesdb_sys::vfs::{OpenMode, RealVfs, Vfs};

use crate::opening::killed_repair::settle_name;
use crate::salvage::destination::Destination;
use crate::salvage::names::{
    change_places, discard, forget_marks, mark, names_beside, vacant_names,
};
use crate::salvage::place::{check_can_be_renamed, lock_alone, resolved};
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

/// What a repair has come to, for who takes part in it.
#[derive(Debug)]
#[non_exhaustive]
pub enum RepairStep<'a> {
    /// The database is locked, and nothing has changed.
    Locked {
        /// Names of files and directories in it that are not the engine's.
        foreign: &'a [String],
    },
    /// The new directory is there, at this place for now; it goes when the repair fails.
    Begun(&'a Path),
    /// How far the work is.
    Progress(Progress),
    /// The new database is whole, at this place. It gets the name of the damaged one next.
    Whole(&'a Path, &'a Repaired),
}

/// Salvages the database in `directory` and puts the result in its place. The damaged one is kept,
/// whole, beside it, under the name `DIRECTORY.damaged`, or with a number behind that; if it can't
/// get one in the end, it stays at `DIRECTORY.repaired`. Needs as much free space as what is
/// salvaged takes.
///
/// The two change places in one step, so there is one of them at `directory` at each moment. A
/// crash before that leaves the new one, whole, at `DIRECTORY.repaired` (or with a number behind
/// that), and one behind it the damaged one. File systems that can't exchange names get two
/// renames; a crash between them leaves nothing at `directory`, and
/// [`crate::salvage::finish_repair`] goes on from there.
///
/// The new directory and its files have the owner, the group and the mode of the old ones. Until it
/// is whole, only the owner of the old directory can look into it.
///
/// The directory is locked from the beginning to the end, so that nothing is written to it that
/// would not be in the new database, and the new one until its name is on disk. What the two
/// renames need is tried before the work.
///
/// # Errors
/// As [`crate::salvage::salvage()`], and [`Error::Locked`] also while another process reads it;
/// [`Error::InvalidArgument`] when `directory` is a mount point; [`Error::Io`] when its owner, or
/// that of its files, can't be given to the new one. The damaged database is where it was then.
pub fn repair(
    directory: &Path,
    progress: &mut dyn FnMut(Progress) -> Result<()>,
) -> Result<Repaired> {
    repair_in_steps(directory, &DbOptions::default(), &mut |step| match step {
        RepairStep::Progress(at) => progress(at),
        _ => Ok(()),
    })
}

/// As [`repair`], with memory, threads and limits of `options`. `step` is called as the repair goes
/// on. An error that it returns ends the repair, and the damaged database is where it was then.
///
/// # Errors
/// As [`repair`], and those of `step`.
pub fn repair_in_steps(
    directory: &Path,
    options: &DbOptions,
    step: &mut dyn FnMut(RepairStep<'_>) -> Result<()>,
) -> Result<Repaired> {
    let vfs = &RealVfs::new();
    let directory = &resolved(directory)?;
    let source = Source::open_alone(directory)?;
    step(RepairStep::Locked { foreign: &source.foreign() })?;
    let taken = names_beside(vfs, directory)?;
    forget_marks(vfs, &taken, directory)?;
    let (repaired, kept) = vacant_names(&taken, directory)?;
    let made = Destination::create(&repaired, options)?;
    let prepared = check_can_be_renamed(vfs, directory, made.working())
        .and_then(|()| keep_private(&source, made.working()))
        .and_then(|()| step(RepairStep::Begun(made.working())));
    if let Err(e) = prepared {
        made.abandon();
        return Err(e);
    }
    let (made, report) = salvage_into(made, &source, &mut |at| step(RepairStep::Progress(at)))?;
    made.finish()?;
    give_names(vfs, &source, &repaired, Repaired { report, kept }, step)
}

/// Ends a repair whose new database lies, whole, at `repaired`.
///
/// # Errors
/// As [`repair_in_steps`].
pub(super) fn give_names(
    vfs: &dyn Vfs,
    source: &Source,
    repaired: &Path,
    done: Repaired,
    step: &mut dyn FnMut(RepairStep<'_>) -> Result<()>,
) -> Result<Repaired> {
    let directory = &source.dir;
    // Until the name is on disk. What another opening wrote to it before would be lost with the
    // name in a power cut, or with the directory when that is not needed.
    let _lock = lock_alone(vfs, repaired, &FileKind::Lock.name())?;
    let like = old_file(source);
    let allow = |path: &Path| like.as_ref().map_or(Ok(()), |like| copy_access(like, path));
    let prepared = give_access(vfs, source, repaired)
        .and_then(|()| step(RepairStep::Whole(repaired, &done)))
        .and_then(|()| mark(vfs, repaired, &done.kept, &allow));
    if let Err(e) = prepared {
        // What it takes may be much. If the removal fails, its error would hide the reason.
        let _ = discard(vfs, repaired);
        return Err(e);
    }
    let Repaired { mut report, kept } = done;
    let kept = change_places(vfs, directory, repaired, kept, &allow)?;
    if let Err(e) = settle_name(vfs, directory) {
        // It has taken place all the same.
        report.warnings.push(format!("a power cut may undo the change of the names: {e}"));
    }
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
            let path = repaired.join(entry.name);
            copy_access(&like, &path)?;
            // Behind a power cut the user of the database could not open it otherwise.
            let file = vfs.open(&path, OpenMode::Read);
            file.and_then(|file| file.sync_all()).map_err(|e| Error::io("sync", &path, e))?;
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
