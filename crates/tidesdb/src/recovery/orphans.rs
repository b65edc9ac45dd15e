//! Files that are left over after a crash.
//!
//! Only what the manifest proves dead is removed: files with numbers that it had given out and that
//! it does not list. Table and value-log files with higher numbers are outputs of a job that no
//! edit names; they are set aside in a folder of their own, and removed by a later open when the
//! manifest has gone past their numbers.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use tidesdb_base::error::{Error, Result};
use tidesdb_files::manifest::current;
use tidesdb_files::naming::{self, FileKind};
use tidesdb_sys::vfs::Vfs;

use super::Inventory;
use crate::version::PersistedState;
use crate::wal::Retained;

/// Folder for files that the manifest knows nothing about.
pub(crate) const SET_ASIDE: &str = "set-aside";

/// Removes what an interrupted creation left in a directory without `CURRENT`.
///
/// # Errors
/// [`Error::Io`].
pub(crate) fn remove_interrupted_creation(vfs: &dyn Vfs, dir: &Path) -> Result<()> {
    for entry in vfs.list(dir).map_err(|e| Error::io("list", dir, e))? {
        let ours = matches!(
            naming::parse(&entry.name),
            Some(FileKind::Manifest(_) | FileKind::LogSegment(_))
        );
        if ours || entry.name == current::CURRENT_TEMPORARY {
            remove(vfs, &dir.join(&entry.name))?;
        }
    }
    Ok(())
}

/// What an open found besides the database itself.
#[derive(Debug)]
pub(crate) struct Orphans {
    state: PersistedState,
    files: BTreeMap<FileKind, u64>,
    /// Names of log segments that are still needed.
    in_use: BTreeSet<String>,
}

impl Orphans {
    /// Of a database whose log segments `retained` are still needed.
    pub(crate) fn of(found: &Inventory, retained: &[Retained]) -> Self {
        let in_use: BTreeSet<String> = retained
            .iter()
            .filter_map(|segment| segment.path.file_name())
            .map(|name| name.to_string_lossy().into_owned())
            .collect();
        Self { state: found.state.clone(), files: found.files.clone(), in_use }
    }
}

/// Removes dead files and sets unknown ones aside. Called when manifest and log have gone on, in
/// other files where need be: until then the old ones are what an interrupted open falls back on.
///
/// # Errors
/// [`Error::Io`].
pub(crate) fn tidy(vfs: &dyn Vfs, dir: &Path, orphans: &Orphans) -> Result<()> {
    let state = &orphans.state;
    let live = LiveFiles::of(state);
    empty_set_aside(vfs, dir, state)?;
    remove(vfs, &dir.join(current::CURRENT_TEMPORARY))?;
    for &kind in orphans.files.keys() {
        let path = dir.join(kind.name());
        match kind {
            FileKind::Manifest(_) | FileKind::LogSegment(_)
                if !orphans.in_use.contains(&kind.name()) =>
            {
                remove(vfs, &path)?;
            }
            FileKind::Table(number) if !live.tables.contains(&number) => {
                remove_or_set_aside(vfs, dir, kind, number < state.next_file)?;
            }
            FileKind::ValueLog(number) if !live.value_logs.contains(&number) => {
                remove_or_set_aside(vfs, dir, kind, number < state.next_file)?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Numbers of the files that some family lists. There may be many families with many files.
#[derive(Debug)]
struct LiveFiles {
    tables: BTreeSet<u64>,
    value_logs: BTreeSet<u64>,
}

impl LiveFiles {
    fn of(state: &PersistedState) -> Self {
        let families = || state.families.values();
        Self {
            tables: families().flat_map(|family| family.tables.keys().copied()).collect(),
            value_logs: families().flat_map(|family| family.value_logs.keys().copied()).collect(),
        }
    }
}

fn remove_or_set_aside(vfs: &dyn Vfs, dir: &Path, kind: FileKind, dead: bool) -> Result<()> {
    let path = dir.join(kind.name());
    if dead {
        return remove(vfs, &path);
    }
    let aside = dir.join(SET_ASIDE);
    match vfs.create_dir(&aside) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => {
            return Err(Error::io("create", &aside, e));
        }
        _ => {}
    }
    let target = aside.join(kind.name());
    vfs.rename(&path, &target).map_err(|e| Error::io("rename", &path, e))
}

fn empty_set_aside(vfs: &dyn Vfs, dir: &Path, state: &PersistedState) -> Result<()> {
    let aside = dir.join(SET_ASIDE);
    let Ok(entries) = vfs.list(&aside) else { return Ok(()) };
    for entry in entries {
        let number = naming::parse(&entry.name).and_then(FileKind::number);
        if number.is_some_and(|number| number < state.next_file) {
            remove(vfs, &aside.join(&entry.name))?;
        }
    }
    Ok(())
}

fn remove(vfs: &dyn Vfs, path: &Path) -> Result<()> {
    match vfs.remove(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(Error::io("remove", path, e)),
        _ => Ok(()),
    }
}
