//! Puts a salvaged database in the place of a damaged one, which is kept beside it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidesdb_base::error::{Error, Result};
use tidesdb_files::naming::FileKind;
use tidesdb_sys::vfs::{LockHow, RealVfs, Vfs};

use crate::destination::{beside, parent_of};
use crate::report::{Progress, SalvageReport};
use crate::salvage::salvage;

/// What a repair did.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Repaired {
    /// What was salvaged and what was lost.
    pub report: SalvageReport,
    /// Where the damaged database is now.
    pub kept: PathBuf,
}

/// Salvages the database in `directory` and puts the result in its place. The damaged one is kept, whole,
/// beside it, under the name `DIRECTORY.damaged`, or with a number behind that. Needs as much free space as
/// what is salvaged takes.
///
/// A crash between the two renames leaves no database at `directory`; the salvaged one is at
/// `DIRECTORY.repaired` then, whole, and the damaged one under its new name.
///
/// # Errors
/// As [`salvage`]; the damaged database is where it was then.
pub fn repair(
    directory: &Path,
    progress: &mut dyn FnMut(Progress) -> Result<()>,
) -> Result<Repaired> {
    let vfs: Arc<dyn Vfs> = Arc::new(RealVfs::new());
    let repaired = beside(directory, ".repaired");
    let report = salvage(directory, &repaired, progress)?;
    let kept = vacant_name(vfs.as_ref(), directory)?;
    // Nobody may open it from here on. A file system that is only read has none to lock.
    let lock = vfs.lock(&directory.join(FileKind::Lock.name()), LockHow::Exclusive);
    let _lock = lock.map_err(|e| match e.kind() {
        std::io::ErrorKind::WouldBlock => Error::Locked(directory.to_path_buf()),
        _ => Error::io("lock", directory, e),
    })?;
    vfs.rename(directory, &kept).map_err(|e| Error::io("rename", directory, e))?;
    vfs.rename(&repaired, directory).map_err(|e| Error::io("rename", &repaired, e))?;
    let parent = parent_of(directory);
    vfs.sync_dir(parent).map_err(|e| Error::io("sync", parent, e))?;
    Ok(Repaired { report, kept })
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
        0 => beside(directory, ".damaged"),
        number => beside(directory, &format!(".damaged-{number}")),
    };
    let free = (0..1000).map(numbered).find(|path| !is_taken(path));
    free.ok_or_else(|| Error::NotEmpty(beside(directory, ".damaged")))
}
