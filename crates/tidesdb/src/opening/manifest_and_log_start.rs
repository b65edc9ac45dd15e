//! How manifest and log of a database begin when it is opened: not at all, with files of their own,
//! or without, where there is no space.

use std::path::Path;
use std::sync::Arc;

use tidesdb_base::error::{Error, ErrorKind, Result};
use tidesdb_files::manifest::{Unsynced, current};
use tidesdb_files::naming::FileKind;
use tidesdb_sys::vfs::Vfs;

use super::inventory::Inventory;
use super::replay_result::Replayed;
use super::sync_recovered::{Recovered, Synced};
use super::workers::Workers;
use crate::version::{Catalog, NO_LOG, PersistedState, begin_log_with};
use crate::wal::{LogConfig, NoSegmentAt, Wal};

/// What an opening has to do with what it found.
#[derive(Debug)]
pub(super) enum StartMode {
    /// Only read it: nothing is changed.
    ReadOnly,
    /// Go on with it: a clean close has left it, all of it is on disk, and nothing else is there.
    AfterCleanClose,
    /// Put it on disk first.
    NotOnDisk,
}

impl StartMode {
    /// That of an opening for writing.
    pub(super) fn of(
        (vfs, dir): (&dyn Vfs, &Path),
        found: Option<&Inventory>,
        replayed: &Replayed,
    ) -> Self {
        let is_closed = |found: &Inventory| found.is_marked && found.state.log_start == NO_LOG;
        let is_at_its_end = replayed.goes_on_at() == replayed.newest;
        let closed = found.filter(|&found| is_closed(found) && is_at_its_end);
        match closed.is_some_and(|found| !found.has_orphans(vfs, dir)) {
            true => Self::AfterCleanClose,
            false => Self::NotOnDisk,
        }
    }

    /// Whether nothing lies there but the database, all of it on disk.
    pub(super) const fn is_after_clean_close(&self) -> bool {
        matches!(self, Self::AfterCleanClose)
    }
}

/// Starts manifest and log, unless nothing is ever written or the first edit and the first commit
/// start them.
///
/// # Errors
/// [`Error::Io`].
pub(super) fn start(
    config: LogConfig,
    state: PersistedState,
    found: Option<Inventory>,
    replayed: Replayed,
    (mode, workers): (StartMode, &Workers),
) -> Result<(Catalog, Wal)> {
    let (vfs, dir) = (Arc::clone(&config.vfs), config.dir.clone());
    let numbers = Arc::clone(&config.numbers);
    match (found, mode) {
        // Of a directory without CURRENT a log segment would be the remains of a database.
        (None, _) => {
            let sync = |files| sync_with_replayed(&config, &replayed, files, workers).all();
            let created = Catalog::create(vfs, &dir, numbers, state, sync)?;
            start_log(created, config, replayed, (None, true))
        }
        (Some(found), StartMode::ReadOnly) => {
            let catalog = Catalog::resume(vfs, &dir, numbers, found.manifest, state);
            Ok((catalog, Wal::read_only(config, replayed.newest, replayed.retained)))
        }
        (Some(found), StartMode::AfterCleanClose) => {
            let catalog = Catalog::resume(vfs, &dir, numbers, found.manifest, state).marked();
            let position = replayed.newest;
            let place = NoSegmentAt { number: NO_LOG, position, synced: position };
            Ok((catalog, Wal::not_begun(config, place)))
        }
        (Some(old), StartMode::NotOnDisk) if replayed.retained.is_empty() => {
            start_named_log(config, state, old, replayed, workers)
        }
        (Some(old), StartMode::NotOnDisk) => put_on_disk(config, state, old, replayed, workers),
    }
}

/// Puts on disk what was replayed and a new manifest, at the same time, and starts the log.
fn put_on_disk(
    config: LogConfig,
    state: PersistedState,
    old: Inventory,
    replayed: Replayed,
    workers: &Workers,
) -> Result<(Catalog, Wal)> {
    let (vfs, numbers) = (Arc::clone(&config.vfs), Arc::clone(&config.numbers));
    let mut on_disk = None;
    let created = Catalog::create(Arc::clone(&vfs), &config.dir, numbers, state, |files| {
        let synced = sync_with_replayed(&config, &replayed, files, workers);
        on_disk = Some(synced.segments.clone());
        // CRASH: only with the log on disk may the manifest be in force that says where it ends.
        synced.all()
    });
    let on_disk = on_disk.unwrap_or_else(|| recovered(&config, &replayed).sync_alone(workers));
    match on_disk {
        // Writing over what is there needs space where blocks are never overwritten, and reading
        // needs none.
        Err(full) if full.kind() == ErrorKind::Full => {
            let numbers = Arc::clone(&config.numbers);
            let catalog = Catalog::resume(vfs, &config.dir, numbers, old.manifest, old.state);
            start_log(catalog.without_appending(), config, replayed, (Some(full), false))
        }
        other => other.and_then(|()| go_on(config, created, old, replayed)),
    }
}

fn recovered<'a>(config: &'a LogConfig, replayed: &'a Replayed) -> Recovered<'a> {
    let (segments, synced) = (&*replayed.retained, replayed.synced);
    Recovered { vfs: &config.vfs, dir: &config.dir, segments, synced }
}

/// Makes files durable, together with what was replayed, and all names.
fn sync_with_replayed(
    config: &LogConfig,
    replayed: &Replayed,
    files: Vec<Unsynced>,
    workers: &Workers,
) -> Synced {
    recovered(config, replayed).sync_with(files, workers)
}

/// Starts a log where none is left, and then a manifest that begins with it: the sync that makes
/// the name of one durable does so for both.
fn start_named_log(
    config: LogConfig,
    mut state: PersistedState,
    old: Inventory,
    replayed: Replayed,
    workers: &Workers,
) -> Result<(Catalog, Wal)> {
    let position = replayed.goes_on_at();
    // CRASH: nothing refers to the segment until CURRENT names the new manifest. The old one says
    // that there is no log, and the segment holds no record.
    let log = match Wal::start(config.clone(), position, replayed.promised_at_most(), Vec::new()) {
        Err(e) if e.kind() == ErrorKind::Full => return go_on(config, Err(e), old, replayed),
        other => other?,
    };
    (state.log_start, state.log_base) = (log.active_segment(), Some(position));
    state.last_sequence = state.last_sequence.max(position);
    let (vfs, numbers) = (Arc::clone(&config.vfs), Arc::clone(&config.numbers));
    let sync = |files| sync_with_replayed(&config, &replayed, files, workers).all();
    match Catalog::create(Arc::clone(&vfs), &config.dir, numbers, state, sync) {
        Ok(catalog) => {
            log.note_names();
            remove_old_manifest(&config, &old);
            Ok((catalog, log))
        }
        Err(e) => {
            // CRASH: where CURRENT may name the new manifest the segment has to stay.
            let number = old.manifest.number();
            if current::read_current(vfs.as_ref(), &config.dir).is_ok_and(|n| n == Some(number)) {
                log.remove_all();
            }
            go_on(config, Err(e), old, replayed)
        }
    }
}

/// Starts the log with the manifest that was `created`; on a full disk with the old one.
fn go_on(
    config: LogConfig,
    created: Result<Catalog>,
    old: Inventory,
    replayed: Replayed,
) -> Result<(Catalog, Wal)> {
    match created {
        // What is there can be read. The first edit begins with another manifest.
        Err(e) if e.kind() == ErrorKind::Full => {
            let (vfs, numbers) = (Arc::clone(&config.vfs), Arc::clone(&config.numbers));
            let catalog = Catalog::resume(vfs, &config.dir, numbers, old.manifest, old.state);
            start_log(catalog.without_appending(), config, replayed, (Some(e), true))
        }
        other => {
            let catalog = other?;
            remove_old_manifest(&config, &old);
            start_log(catalog, config, replayed, (None, true))
        }
    }
}

/// The manifest that was in force is dead once CURRENT names another one. It is never written to:
/// it may be torn, or hold edits that only the kernel's cache has since a sync failed.
fn remove_old_manifest(config: &LogConfig, old: &Inventory) {
    let name = FileKind::Manifest(old.manifest.number()).name();
    // One that stays is removed by the next opening.
    let _ = config.vfs.remove(&config.dir.join(name));
}

/// Starts the log; on a full disk one that takes no commits until its repair finds space.
fn start_log(
    mut catalog: Catalog,
    config: LogConfig,
    replayed: Replayed,
    (full, on_disk): (Option<Error>, bool),
) -> Result<(Catalog, Wal)> {
    let position = replayed.goes_on_at();
    // What the next life promises is compared with where this one's records end.
    let on_disk_through = replayed.promised_at_most();
    let retained = replayed.retained;
    let fresh_log = retained.is_empty();
    let (without_space, kept) = (config.clone(), retained.clone());
    let attempt = |catalog: &mut Catalog| -> Result<Wal> {
        full.map_or(Ok(()), Err)?;
        let log = Wal::start(config, position, on_disk_through, kept)?;
        if fresh_log {
            log.sync_names().inspect_err(|_| log.remove_all())?;
            let changes = begin_log_with(log.active_segment(), position);
            catalog.commit_files(changes.to_vec(), || vec![log.active_path()])?;
        }
        Ok(log)
    };
    match attempt(&mut catalog) {
        Ok(log) => Ok((catalog, log)),
        Err(e) if e.kind() == ErrorKind::Full && catalog.has_families() => {
            let unsynced_from = retained.first().map_or(position, |segment| segment.base);
            let synced = if on_disk { on_disk_through } else { unsynced_from };
            let place = NoSegmentAt { number: NO_LOG, position, synced };
            let log = Wal::without_segment(without_space, place, retained, e);
            Ok((catalog, log))
        }
        Err(e) => Err(e),
    }
}
