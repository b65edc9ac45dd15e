//! Files that are left over after a crash.
//!
//! Only what the manifest proves dead is removed: files with numbers that it had given out and that
//! it does not list. Table and value-log files with higher numbers are outputs of a job that no
//! edit names; they are set aside in a folder of their own, and removed by a later open when the
//! manifest has gone past their numbers. On a full disk they go sooner: see [`Orphans`].

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use tidesdb_base::error::{Error, Result};
use tidesdb_files::manifest::{Change, current, read_manifest};
use tidesdb_files::naming::{self, FileKind};
use tidesdb_sys::vfs::{OpenMode, Vfs};

use super::PersistedState;
use crate::wal::Retained;

/// Folder for files that the manifest knows nothing about.
const SET_ASIDE: &str = "set-aside";

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

/// Whether any of `files` is not one of a database that needs no log, or some are set aside.
pub(crate) fn has_orphans(
    (vfs, dir): (&dyn Vfs, &Path),
    state: &PersistedState,
    manifest: u64,
    files: &BTreeMap<FileKind, u64>,
) -> bool {
    let live = LiveFiles::of(state);
    let is_orphan = |&kind: &FileKind| match kind {
        FileKind::Table(number) => !live.tables.contains(&number),
        FileKind::ValueLog(number) => !live.value_logs.contains(&number),
        FileKind::Manifest(number) => number != manifest,
        FileKind::LogSegment(_) => true,
        FileKind::Current | FileKind::Closed | FileKind::Lock | FileKind::EventLog => false,
    };
    let set_aside = names_in(vfs, &dir.join(SET_ASIDE)).next().is_some();
    set_aside || files.keys().any(is_orphan)
}

/// What an opening found besides the database itself, until it is removed.
#[derive(Debug)]
pub(crate) enum Orphans {
    /// All of it is where it was found: there was no space to begin another manifest and log.
    Found(Found),
    /// Files that no manifest named are set aside; the rest is removed.
    SetAside,
}

/// What lies in the directory besides the database itself.
#[derive(Debug)]
pub(crate) struct Found {
    state: PersistedState,
    /// Number of the manifest that was read.
    manifest: u64,
    files: BTreeMap<FileKind, u64>,
    /// Names of log segments that are still needed.
    in_use: BTreeSet<String>,
    /// What no edit names was looked for.
    unnamed_are_gone: bool,
}

impl Orphans {
    /// Of a database whose log segments `retained` are still needed.
    pub(crate) fn of(
        state: PersistedState,
        manifest: u64,
        files: BTreeMap<FileKind, u64>,
        retained: &[Retained],
    ) -> Self {
        let in_use: BTreeSet<String> = retained
            .iter()
            .filter_map(|segment| segment.path.file_name())
            .map(|name| name.to_string_lossy().into_owned())
            .collect();
        Self::Found(Found { state, manifest, files, in_use, unnamed_are_gone: false })
    }

    /// Removes dead files and sets unknown ones aside; returns what is left then. Called when
    /// manifest and log have gone on, in other files where need be: until then the old ones are
    /// what an interrupted open falls back on.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(crate) fn tidy(self, vfs: &dyn Vfs, dir: &Path) -> Result<Option<Self>> {
        let Self::Found(found) = &self else { return Ok(Some(self)) };
        empty_set_aside(vfs, dir, found.state.next_file)?;
        found.remove_log_and_manifests(vfs, dir)?;
        for (kind, number) in found.unlisted() {
            if number < found.state.next_file {
                remove(vfs, &dir.join(kind.name()))?;
            } else {
                set_aside(vfs, dir, kind)?;
            }
        }
        let kept = vfs.list(&dir.join(SET_ASIDE)).is_ok_and(|entries| !entries.is_empty());
        Ok(kept.then_some(Self::SetAside))
    }

    /// Removes what the manifest on disk can't name, for an opening or a commit that found no space
    /// to begin another: tables and value logs that no edit names. Errors leave them.
    ///
    /// Without a word of doubt only. An edit that is cut short may name them. An edit that was read
    /// may be in the kernel's cache only, so what it removes stays; but what none of those that
    /// were read names is in no manifest that a power cut may leave, once `CURRENT` is on disk.
    pub(crate) fn remove_unnamed(&mut self, vfs: &dyn Vfs, dir: &Path) {
        let Self::Found(found) = self else { return };
        if std::mem::replace(&mut found.unnamed_are_gone, true) {
            return;
        }
        let Some(named) = named_files(vfs, dir, found.manifest) else { return };
        // CRASH: the rename that made this manifest the one in force is on disk from here on.
        if vfs.sync_dir(dir).is_err() {
            return;
        }
        let unnamed = |kind: &FileKind| !named.contains(kind);
        for (kind, _) in found.unlisted().filter(|(kind, _)| unnamed(kind)) {
            let _ = remove(vfs, &dir.join(kind.name()));
        }
        let aside = dir.join(SET_ASIDE);
        for kind in names_in(vfs, &aside).filter(unnamed) {
            let _ = remove(vfs, &aside.join(kind.name()));
        }
    }

    /// Removes tables and value logs that the manifest in force, which `next_file` is of, does not
    /// name. It must be certain that a power cut leaves that one.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(crate) fn remove_files(&self, vfs: &dyn Vfs, dir: &Path, next_file: u64) -> Result<()> {
        if let Self::Found(found) = self {
            for (kind, _) in found.unlisted().filter(|&(_, number)| number < next_file) {
                remove(vfs, &dir.join(kind.name()))?;
            }
        }
        empty_set_aside(vfs, dir, next_file)
    }

    /// Removes the rest, once the log goes on as well in files of its own.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(crate) fn remove_rest(&self, vfs: &dyn Vfs, dir: &Path) -> Result<()> {
        match self {
            Self::Found(found) => found.remove_log_and_manifests(vfs, dir),
            Self::SetAside => Ok(()),
        }
    }
}

impl Found {
    /// Tables and value logs that no family listed when the database was opened, with their
    /// numbers.
    fn unlisted(&self) -> impl Iterator<Item = (FileKind, u64)> {
        let live = LiveFiles::of(&self.state);
        self.files.keys().filter_map(move |&kind| match kind {
            FileKind::Table(number) => (!live.tables.contains(&number)).then_some((kind, number)),
            FileKind::ValueLog(number) => {
                (!live.value_logs.contains(&number)).then_some((kind, number))
            }
            _ => None,
        })
    }

    fn remove_log_and_manifests(&self, vfs: &dyn Vfs, dir: &Path) -> Result<()> {
        remove(vfs, &dir.join(current::CURRENT_TEMPORARY))?;
        let kinds = self.files.keys();
        kinds
            .filter(|kind| matches!(kind, FileKind::Manifest(_) | FileKind::LogSegment(_)))
            .filter(|kind| !self.in_use.contains(&kind.name()))
            .try_for_each(|kind| remove(vfs, &dir.join(kind.name())))
    }
}

/// The tables and value logs that edits of a manifest name; `None` when its end can't be read.
fn named_files(vfs: &dyn Vfs, dir: &Path, manifest: u64) -> Option<BTreeSet<FileKind>> {
    let path = dir.join(FileKind::Manifest(manifest).name());
    let file = vfs.open(&path, OpenMode::Read).ok()?;
    let (edits, end) = read_manifest(file.as_ref(), &path, manifest).ok()?;
    let changes = edits.iter().flat_map(|(_, edit)| &edit.changes);
    let named = changes.filter_map(|change| match change {
        Change::AddTable { table, .. } => Some(FileKind::Table(table.number)),
        Change::AddValueLog { file, .. } => Some(FileKind::ValueLog(file.number)),
        _ => None,
    });
    (file.len().ok()? == end).then(|| named.collect())
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

fn set_aside(vfs: &dyn Vfs, dir: &Path, kind: FileKind) -> Result<()> {
    let aside = dir.join(SET_ASIDE);
    match vfs.create_dir(&aside) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => {
            return Err(Error::io("create", &aside, e));
        }
        _ => {}
    }
    let (path, target) = (dir.join(kind.name()), aside.join(kind.name()));
    vfs.rename(&path, &target).map_err(|e| Error::io("rename", &path, e))
}

/// Removes the files set aside with numbers below `next_file`.
fn empty_set_aside(vfs: &dyn Vfs, dir: &Path, next_file: u64) -> Result<()> {
    let aside = dir.join(SET_ASIDE);
    for kind in names_in(vfs, &aside) {
        if kind.number().is_some_and(|number| number < next_file) {
            remove(vfs, &aside.join(kind.name()))?;
        }
    }
    Ok(())
}

/// The files in a folder with names of ours; none if it is not there.
fn names_in(vfs: &dyn Vfs, dir: &Path) -> impl Iterator<Item = FileKind> {
    let entries = vfs.list(dir).unwrap_or_default().into_iter();
    entries.filter_map(|entry| naming::parse(&entry.name))
}

fn remove(vfs: &dyn Vfs, path: &Path) -> Result<()> {
    match vfs.remove(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(Error::io("remove", path, e)),
        _ => Ok(()),
    }
}
