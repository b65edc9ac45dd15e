//! What a directory holds: a database, nothing, or something else.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use tidesdb_base::error::{Error, Result};
use tidesdb_files::file_numbers::FILE_NUMBERS_END;
use tidesdb_files::manifest::{ManifestWriter, closed, current, read_manifest};
use tidesdb_files::naming::{self, FileKind};
use tidesdb_sys::vfs::{DirEntry, OpenMode, Vfs};

use super::foreign_files;
use super::killed_repair::MARK;
use crate::version::{NO_LOG, Orphans, PersistedState, TornManifest, has_orphans};
use crate::wal::Retained;

/// A database that was found in a directory.
#[derive(Debug)]
pub(crate) struct Inventory {
    pub state: PersistedState,
    pub manifest: ManifestWriter,
    /// What follows the edits of the manifest, if anything does.
    pub torn: Option<TornManifest>,
    /// Where the first segment of the log may begin, when no edit says where it does: the guess is
    /// right of one that was the first when the log began.
    pub guessed_log_base: Option<u64>,
    /// Every file with a name of ours.
    pub files: BTreeMap<FileKind, u64>,
    /// A clean close has left the mark that all of the manifest is on disk.
    pub is_marked: bool,
    /// The switch to another manifest was interrupted.
    pub has_temporary: bool,
    /// There is a file with the name of a repair's mark.
    pub may_be_repaired: bool,
}

impl Inventory {
    /// Whether there is anything besides a database that needs no log.
    pub(super) fn has_orphans(&self, vfs: &dyn Vfs, dir: &Path) -> bool {
        let manifest = self.manifest.number();
        self.has_temporary || has_orphans((vfs, dir), &self.state, manifest, &self.files)
    }

    /// What is there besides the database, whose log segments `retained` are still needed.
    pub(super) fn orphans(&self, retained: &[Retained]) -> Orphans {
        let (state, files) = (self.state.clone(), self.files.clone());
        Orphans::of(state, self.manifest.number(), files, retained)
    }

    /// A file number above every one in use.
    pub(crate) fn next_number(&self) -> u64 {
        let highest = self.files.keys().filter_map(|kind| kind.number()).max().unwrap_or(0);
        let segment = Some(self.state.log_start).filter(|&segment| segment != NO_LOG).unwrap_or(0);
        self.state.next_file.max(highest.max(segment).saturating_add(1))
    }
}

/// Looks at a directory. `None` when it holds no database and one may be created in it.
///
/// # Errors
/// [`Error::NotADatabase`] when it holds other things, [`Error::Corruption`] when it holds the
/// remains of a database, [`Error::Io`].
pub(crate) fn take_inventory(vfs: &Arc<dyn Vfs>, dir: &Path) -> Result<Option<Inventory>> {
    let Listed { files, others, has_temporary } = list_files(vfs.as_ref(), dir)?;
    let number = current::read_current(vfs.as_ref(), dir).map_err(|damage| {
        // Other engines have a file of this name, too.
        let known = foreign_files::known_engine(vfs.as_ref(), dir, &others);
        known.filter(|_| damage.is_corruption()).map_or(damage, |reason| foreign_to(dir, reason))
    })?;
    let Some(number) = number else {
        if let Some(remains) = find_remains(vfs.as_ref(), dir, &files) {
            let detail = format!("the file is missing although {} is there", remains.name());
            return Err(Error::corruption(dir.join(FileKind::Current.name()), 0, detail));
        }
        if let Some(reason) = foreign_files::describe(vfs.as_ref(), dir, &others) {
            return Err(foreign_to(dir, reason));
        }
        return Ok(None);
    };
    let path = dir.join(FileKind::Manifest(number).name());
    let how = OpenMode::ReadWrite;
    let file = match vfs.open(&path, how) {
        Err(e) if is_read_only(&e) => vfs.open(&path, OpenMode::Read),
        other => other,
    };
    let file = file.map_err(|e| Error::missing_or_io("open", &path, e))?;
    let (edits, end) = read_manifest(file.as_ref(), &path, number)?;
    let (mut state, mut guessed_log_base) = (PersistedState::default(), None);
    for (offset, edit) in &edits {
        let log_start = state.log_start;
        if !state.apply(edit) {
            let detail = "expected an edit that goes with those before it, found one that does not";
            return Err(Error::corruption(&path, *offset, detail));
        }
        if state.log_start != log_start {
            guessed_log_base = Some(state.last_sequence);
        }
    }
    // The last number may have been given, and none after it.
    if state.next_file > FILE_NUMBERS_END {
        let detail = format!("{} is the next file number, {BELOW}", state.next_file);
        return Err(Error::corruption(&path, 0, detail));
    }
    if state.log_start != NO_LOG {
        check_number(&path, state.log_start)?;
    }
    let len = file.len().map_err(|e| Error::io("read length", &path, e))?;
    let torn = len.checked_sub(end).filter(|&bytes| bytes > 0).map(TornManifest);
    let manifest = ManifestWriter::resume(file, path, number, end);
    let is_marked =
        files.contains_key(&FileKind::Closed) && closed::is_marked(vfs.as_ref(), dir, &manifest);
    Ok(Some(Inventory {
        state,
        manifest,
        torn,
        guessed_log_base,
        files,
        is_marked,
        has_temporary,
        may_be_repaired: others.iter().any(|entry| entry.name == MARK),
    }))
}

/// What file numbers must be.
const BELOW: &str = "expected one below 2^56";

/// Refuses a file number that can't be one.
///
/// # Errors
/// [`Error::Corruption`].
pub(super) fn check_number(path: &Path, number: u64) -> Result<()> {
    if number < FILE_NUMBERS_END {
        return Ok(());
    }
    Err(Error::corruption(path, 0, format!("its number is {number}, {BELOW}")))
}

fn foreign_to(dir: &Path, reason: String) -> Error {
    Error::NotADatabase { path: dir.to_path_buf(), reason }
}

/// A file that only a database whose `CURRENT` was on disk can have left: an interrupted creation
/// leaves a manifest of one edit at most.
fn find_remains(vfs: &dyn Vfs, dir: &Path, files: &BTreeMap<FileKind, u64>) -> Option<FileKind> {
    files.keys().copied().find(|&kind| match kind {
        FileKind::Table(_) | FileKind::ValueLog(_) | FileKind::LogSegment(_) => true,
        FileKind::Manifest(number) => {
            let path = dir.join(kind.name());
            let file = vfs.open(&path, OpenMode::Read);
            file.is_ok_and(|file| {
                read_manifest(file.as_ref(), &path, number).is_ok_and(|(edits, _)| edits.len() > 1)
            })
        }
        _ => false,
    })
}

fn is_read_only(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

/// What a directory holds.
#[derive(Default)]
struct Listed {
    /// Files of ours with their lengths.
    files: BTreeMap<FileKind, u64>,
    /// What is not ours.
    others: Vec<DirEntry>,
    has_temporary: bool,
}

fn list_files(vfs: &dyn Vfs, dir: &Path) -> Result<Listed> {
    let mut listed = Listed::default();
    for entry in vfs.list(dir).map_err(|e| Error::io("list", dir, e))? {
        match naming::parse(&entry.name) {
            Some(kind) if !entry.is_dir => {
                if let Some(damage) = entry.damage {
                    let detail = format!("the file system has no good record of it: {damage}");
                    return Err(Error::corruption(dir.join(entry.name), 0, detail));
                }
                check_number(&dir.join(entry.name), kind.number().unwrap_or(0))?;
                listed.files.insert(kind, entry.len);
            }
            _ if entry.name == current::CURRENT_TEMPORARY => listed.has_temporary = true,
            _ => listed.others.push(entry),
        }
    }
    Ok(listed)
}
