//! Files that are left over after a crash.
//!
//! Only what the manifest proves dead is removed: files with numbers that it had given out and
//! that it does not list. Table and value-log files with higher numbers are outputs of a job that
//! no edit tells about; they are set aside in a folder of their own, and removed by a later open
//! when the manifest has gone past their numbers.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use tidesdb_base::error::{Error, Result};
use tidesdb_files::manifest::current;
use tidesdb_files::naming::{self, FileKind};
use tidesdb_sys::vfs::Vfs;

use super::Inventory;
use crate::version::PersistedState;

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

/// Removes dead files and sets unknown ones aside. `live_log` are the names of the log segments
/// that are still needed.
///
/// # Errors
/// [`Error::Io`].
pub(crate) fn tidy(
    vfs: &dyn Vfs,
    dir: &Path,
    found: &Inventory,
    live_log: &BTreeSet<String>,
) -> Result<()> {
    let state = &found.state;
    let manifest = found.manifest.number();
    empty_set_aside(vfs, dir, state)?;
    for &kind in found.files.keys() {
        let path = dir.join(kind.name());
        match kind {
            FileKind::Manifest(number) if number != manifest => remove(vfs, &path)?,
            FileKind::LogSegment(_) if !live_log.contains(&kind.name()) => remove(vfs, &path)?,
            FileKind::Table(number) if !is_live_table(state, number) => {
                remove_or_set_aside(vfs, dir, kind, number < state.next_file)?;
            }
            FileKind::ValueLog(number) if !is_live_value_log(state, number) => {
                remove_or_set_aside(vfs, dir, kind, number < state.next_file)?;
            }
            _ => {}
        }
    }
    Ok(())
}

fn is_live_table(state: &PersistedState, number: u64) -> bool {
    state.families.values().any(|family| family.tables.contains_key(&number))
}

fn is_live_value_log(state: &PersistedState, number: u64) -> bool {
    state.families.values().any(|family| family.value_logs.contains_key(&number))
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
