//! Copies of a whole database: checkpoints, which share files, and backups, which do not.
//!
//! A copy is a directory that can be opened. It is one only when `CURRENT` names its manifest, and
//! it does so last, when everything else is on disk. Until then `CURRENT` says that the copy is not
//! finished: what one that failed or was interrupted leaves behind is never taken for a database.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use tidesdb_base::error::{Error, Result};
use tidesdb_base::limits::{MIN_LOG_SEGMENT_BYTES, MIN_MEMORY_BUDGET_BYTES};
use tidesdb_base::progress::{Progress, Step};
use tidesdb_files::manifest::ManifestWriter;
use tidesdb_files::naming::FileKind;
use tidesdb_sys::sched::NoThreads;
use tidesdb_sys::vfs::{OpenMode, Vfs};

use super::copy_directory::CopyDirectory;
use crate::core::{Core, RoomForCopy};
use crate::flush::ConsistentFiles;
use crate::memory::Holder;
use crate::opening::{Components, locked_before, open_in, sync_parent};
use crate::telemetry::spans::span;
use crate::verify::VerifyReport;
use crate::version::{NO_LOG, PersistedState};

/// How [`crate::Db::checkpoint_with`] and [`crate::Db::backup_with`] make a copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CopyOptions {
    /// Opens the copy for reading and reads all of it back before the call returns. Default: false.
    pub verify_copy: bool,
}

impl CopyOptions {
    /// Sets [`CopyOptions::verify_copy`].
    #[must_use]
    pub const fn verify_copy(mut self, verify_copy: bool) -> Self {
        self.verify_copy = verify_copy;
        self
    }
}

/// What becomes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sharing {
    /// It gets a second name; where that can't be, it is copied.
    Linked,
    /// Every byte is copied.
    Copied,
}

/// Files of a copy that are open while it is verified.
const MOST_OPEN_TO_VERIFY: usize = 16;

/// Bytes copied at a time.
const PIECE_BYTES: usize = 1 << 20;

/// Gives a file a second name; false where that can't be.
fn link(vfs: &dyn Vfs, from: &Path, to: &Path) -> Result<bool> {
    match vfs.link(from, to) {
        Ok(()) => Ok(true),
        Err(e) => match e.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::AlreadyExists => {
                Err(Error::io("link", to, e))
            }
            // Another file system, one without links, or too many of them.
            _ => Ok(false),
        },
    }
}

impl Core {
    /// Makes a copy of the database.
    ///
    /// # Errors
    /// See [`crate::Db::checkpoint`].
    pub(super) fn copy_to(
        &self,
        path: &Path,
        sharing: Sharing,
        options: CopyOptions,
        progress: &mut dyn FnMut(Progress) -> Result<()>,
    ) -> Result<()> {
        self.check_changeable()?;
        let _at_work = self.work.callers.enter()?;
        self.env.check_is_elsewhere(path)?;
        let _span = match sharing {
            Sharing::Linked => span!(INFO, "checkpoint", to = path.display()),
            Sharing::Copied => span!(INFO, "backup", to = path.display()),
        };
        let mut target = CopyDirectory::take(self.env.vfs.as_ref(), path)?;
        // Most of what is in memory is written out without holding a caller up.
        let flushed = self.each_family(Self::flush_family);
        let cut = flushed.and_then(|()| self.consistent_files());
        let made = cut.and_then(|cut| self.fill(&mut target, cut, sharing, progress));
        let made = made.and_then(|()| match options.verify_copy {
            true => self.verify_copy(&target, progress),
            false => Ok(()),
        });
        match &made {
            // From here on it belongs to the one who opens it (I-301).
            Ok(()) => drop(target),
            Err(_) => target.remove(),
        }
        // What was held for the copy may be dead by now.
        self.storage.files.obsolete.sweep();
        made
    }

    fn fill(
        &self,
        target: &mut CopyDirectory<'_>,
        cut: ConsistentFiles,
        sharing: Sharing,
        progress: &mut dyn FnMut(Progress) -> Result<()>,
    ) -> Result<()> {
        let vfs = self.env.vfs.as_ref();
        let mut buffer = Vec::new();
        let files = files_of(&cut.state);
        // Writers of the database go on meanwhile, and need space on the same volume.
        let room = self.room_for_copy(target.path());
        if sharing == Sharing::Copied
            && let Some(room) = &room
        {
            room.check(files.values().sum())?;
        }
        let mut step = Step::new("copying", files.values().sum(), progress);
        for (kind, bytes) in files {
            self.health.check_open()?;
            let (from, to) = (self.env.path.join(kind.name()), target.path().join(kind.name()));
            target.note(kind);
            let grows = matches!(kind, FileKind::ValueLog(number) if cut.growing.contains(&number));
            if sharing == Sharing::Copied || grows || !link(vfs, &from, &to)? {
                let files = (from.as_path(), to.as_path());
                self.copy_file(files, bytes, room.as_ref(), &mut buffer, &mut step)?;
            } else {
                step.add(bytes)?;
            }
        }
        let mut state = cut.state.clone();
        let number = self.storage.numbers.peek().max(state.next_file);
        state.next_file = number + 1;
        (state.log_start, state.log_base) = (NO_LOG, None);
        target.note(FileKind::Manifest(number));
        ManifestWriter::create(vfs, target.path(), number, &state.restate())?;
        vfs.sync_dir(target.path()).map_err(|e| Error::io("sync", target.path(), e))?;
        sync_parent(vfs, target.path())?;
        // CRASH: from here on it is a database, and everything of it is on disk.
        target.finish(number)
    }

    fn copy_file(
        &self,
        (from, to): (&Path, &Path),
        named_bytes: u64,
        room: Option<&RoomForCopy<'_>>,
        buffer: &mut Vec<u8>,
        step: &mut Step<'_>,
    ) -> Result<()> {
        let source = self.storage.files.lock.open(from)?;
        let copy =
            self.env.vfs.open(to, OpenMode::CreateNew).map_err(|e| Error::io("create", to, e))?;
        let bytes = source.len().map_err(|e| Error::io("read length", from, e))?;
        // Others may be appending to a value log, and may cut that off again.
        let bytes = if named_bytes == 0 { bytes } else { bytes.min(named_bytes) };
        let check_room = |wanted| room.map_or(Ok(()), |room| room.check(wanted));
        check_room(bytes)?;
        copy.allocate(bytes).map_err(|e| Error::io("reserve space", to, e))?;
        buffer.resize(PIECE_BYTES, 0);
        let mut at = 0;
        while at < bytes {
            self.health.check_open()?;
            check_room(0)?;
            let count = (bytes - at).min(PIECE_BYTES as u64);
            let Some(piece) = buffer.get_mut(..count as usize) else { break };
            source.start_reading(at + count, PIECE_BYTES as u64);
            source.read_exact_at(piece, at).map_err(|e| Error::io("read", from, e))?;
            copy.write_all_at(piece, at).map_err(|e| Error::io("write", to, e))?;
            copy.start_write_back(at, count);
            at += count;
            step.add(count)?;
        }
        copy.sync_data().map_err(|e| Error::io("sync", to, e))
    }

    /// Reads everything back, with the directory locked: another opening might write to it.
    fn verify_copy(
        &self,
        target: &CopyDirectory<'_>,
        progress: &mut dyn FnMut(Progress) -> Result<()>,
    ) -> Result<()> {
        let guard = target.guard()?;
        let components = Components {
            vfs: Arc::clone(&self.env.vfs),
            // An opening for reading has nothing to do in the background.
            scheduler: Arc::new(NoThreads),
            clock: Arc::clone(&self.env.clock),
        };
        let mut options = self.env.options.clone().read_only(true);
        options.event_listener = None;
        options.event_log = false;
        // It is read once from the first byte to the last, in the memory of this database.
        options.block_cache_bytes = 0;
        // The files of this database may take half of the descriptors of the process by now.
        options.max_open_files = match options.max_open_files {
            0 => MOST_OPEN_TO_VERIFY,
            most => most.min(MOST_OPEN_TO_VERIFY),
        };
        options.log_segment_bytes = MIN_LOG_SEGMENT_BYTES;
        options.max_memory_usage = MIN_MEMORY_BUDGET_BYTES;
        let budget = options.max_memory_usage.min(self.memory.budget.bytes() / 8);
        let _reservation = self.memory.budget.reserve(Holder::Background, budget);
        let copy = open_in(target.path(), options, components, Core::shut_down, |vfs, path, _| {
            locked_before(vfs, path, guard)
        })?;
        let core = copy.core();
        let parts = (&core.env, &core.families, &core.storage);
        let report = VerifyReport::of(parts, &mut |so_far| {
            self.health.check_open()?;
            progress(so_far)
        });
        drop(copy);
        report?.problems.into_iter().next().map_or(Ok(()), Err)
    }
}

/// The files that a state names, each once, with their lengths, about. That of a value log is 0 if
/// one family does not know it, else as long as any needs.
fn files_of(state: &PersistedState) -> BTreeMap<FileKind, u64> {
    let files = state.families.values().flat_map(|family| {
        let tables = family.tables.iter().map(|(&n, table)| (FileKind::Table(n), table.bytes));
        let logs = family.value_logs.iter();
        tables.chain(logs.map(|(&n, log)| (FileKind::ValueLog(n), log.bytes)))
    });
    let mut lengths = BTreeMap::new();
    for (kind, bytes) in files {
        let length = lengths.entry(kind).or_insert(bytes);
        *length = if *length == 0 || bytes == 0 { 0 } else { bytes.max(*length) };
    }
    lengths
}

#[cfg(test)]
mod tests;
