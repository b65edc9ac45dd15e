//! Puts a salvaged database in the place of a damaged one, which is kept beside it.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidesdb_base::error::{Error, Result};
use tidesdb_base::options::DbOptions;
use tidesdb_base::progress::Progress;
use tidesdb_files::naming::FileKind;
use tidesdb_sys::vfs::{RealVfs, Vfs};

use crate::salvage::destination::Destination;
use crate::salvage::marker;
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
    let vfs: Arc<dyn Vfs> = Arc::new(RealVfs::new());
    let vfs = vfs.as_ref();
    let directory = &resolved(directory)?;
    let source = Source::open_alone(directory)?;
    step(RepairStep::Locked { foreign: &source.foreign() })?;
    let taken = names_beside(vfs, directory)?;
    // What an earlier repair left is no part of this one.
    for old in numbered(directory, REPAIRED).filter(|path| is_taken(&taken, path)) {
        marker::remove(vfs, &old)?;
    }
    marker::remove(vfs, directory)?;
    let repaired = vacant_name(&taken, directory, REPAIRED)?;
    let kept = vacant_name(&taken, directory, KEPT)?;
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
    let done = Repaired { report, kept };
    let prepared = give_access(vfs, &source, &repaired)
        .and_then(|()| step(RepairStep::Whole(&repaired, &done)))
        .and_then(|()| marker::write(vfs, &repaired, &done.kept));
    if let Err(e) = prepared {
        // What it takes may be much. If the removal fails, its error would hide the reason.
        let _ = discard(vfs, &repaired);
        return Err(e);
    }
    let Repaired { mut report, kept } = done;
    let kept = change_places(vfs, directory, &repaired, kept)?;
    // An opening removes it as well.
    let _ = marker::remove(vfs, directory);
    let parent = parent_of(directory);
    if let Err(e) = vfs.sync_dir(parent) {
        // It has taken place all the same.
        let e = Error::io("sync", parent, e);
        report.warnings.push(format!("a power cut may undo the change of the names: {e}"));
    }
    Ok(Repaired { report, kept })
}

/// Ends a repair that was killed between its two renames: where nothing is at `directory`, and both
/// the damaged database and the repaired one lie beside, marked by the repair for that, the
/// repaired one gets the name. Returns the name that it had; `None` where there is no such repair.
///
/// # Errors
/// [`Error::Io`], [`Error::InvalidArgument`] for a link that leads to nothing.
pub fn finish_repair(directory: &Path) -> Result<Option<PathBuf>> {
    let vfs = RealVfs::new();
    let directory = &resolved(directory)?;
    match vfs.list(directory) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        Ok(entries) => {
            // It was killed behind them.
            if entries.iter().any(|entry| entry.name == marker::NAME) {
                let _ = marker::remove(&vfs, directory);
            }
            return Ok(None);
        }
        _ => return Ok(None),
    }
    let parent = parent_of(directory);
    let taken = match names_beside(&vfs, directory) {
        // A repair lists it first, too.
        Err(Error::Io { source, .. }) if cannot_hold_a_repair(&source) => return Ok(None),
        other => other?,
    };
    let is_kept = |name: &str| {
        let mut names = numbered(directory, KEPT).filter(|path| is_taken(&taken, path));
        names.any(|path| path.file_name().is_some_and(|known| *known == *name))
    };
    for repaired in numbered(directory, REPAIRED).filter(|path| is_taken(&taken, path)) {
        if marker::read(&vfs, &repaired)?.is_none_or(|kept| !is_kept(&kept)) {
            continue;
        }
        vfs.rename(&repaired, directory).map_err(|e| Error::io("rename", &repaired, e))?;
        let _ = marker::remove(&vfs, directory);
        vfs.sync_dir(parent).map_err(|e| Error::io("sync", parent, e))?;
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

/// Puts the repaired database at `directory`, and the damaged one at `kept`, if it can: where that
/// is is returned. After an error the damaged one is where it was, as far as can be.
fn change_places(
    vfs: &dyn Vfs,
    directory: &Path,
    repaired: &Path,
    kept: PathBuf,
) -> Result<PathBuf> {
    // CRASH: on either side of this there is a database at `directory`.
    if RealVfs::exchange(directory, repaired).is_ok() {
        let Err(e) = vfs.rename(repaired, &kept) else { return Ok(kept) };
        // The damaged one is there until it is back, and must not be removed.
        if RealVfs::exchange(directory, repaired).is_err() {
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
        // If this fails as well, both lie beside the place, whole, and an opening goes on.
        if vfs.rename(&kept, directory).is_ok() {
            let _ = discard(vfs, repaired);
        }
        return Err(Error::io("rename", repaired, e));
    }
    Ok(kept)
}

/// Removes the repaired database, which is not needed.
fn discard(vfs: &dyn Vfs, repaired: &Path) -> Result<()> {
    marker::remove(vfs, repaired)?;
    remove_copy(vfs, repaired)
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
