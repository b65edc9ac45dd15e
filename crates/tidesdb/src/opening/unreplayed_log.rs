//! The rest of a log that holds more than there is memory for.
//!
//! The process that wrote it may have had more memory than this one. An opening reads all of the
//! log, to know that it is whole, and takes as much into memory as there is room for. Before any
//! other work begins this is written to tables, and the next stretch is replayed, up to the end.
//! What lies in tables then is what flushes at that commit would have left there: an opening that
//! is cut short leaves the rest in the log (I-240).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidesdb_base::entry::SequenceNumber;
use tidesdb_base::error::Result;
use tidesdb_base::event::Event;
use tidesdb_files::naming::FileKind;
use tidesdb_sys::vfs::Vfs;

use super::inventory::Inventory;
use super::replay::{replay_log, replay_rest};
use super::replay_result::Replayed;
use super::replayed_families::{ReplayedFamilies, ReplayedFamily};
use super::workers::Workers;
use crate::core::Core;
use crate::family::FamilyState;
use crate::telemetry::spans::span;
use crate::wal::{LeftOut, Retained};

/// Memtables may take this part of the memory budget while the log is replayed. More of it is
/// needed to write them out.
pub(super) const SHARE_OF_BUDGET: u64 = 3;

/// The segments of a log that was replayed in part, and where to go on.
#[derive(Debug)]
pub(super) struct UnreplayedLog {
    segments: Vec<Retained>,
    /// The last commit that is in memory.
    after: SequenceNumber,
    /// What is in tables of each family, as the opening found it.
    flushed_through: BTreeMap<u32, SequenceNumber>,
    next_family: u32,
    manifest: PathBuf,
}

impl UnreplayedLog {
    /// What is left of a log that was replayed in part.
    pub(super) fn of(replayed: &Replayed, found: &Inventory, dir: &Path) -> Option<Self> {
        let families = found.state.families.iter();
        Some(Self {
            segments: replayed.retained.clone(),
            after: replayed.loaded_through?,
            flushed_through: families.map(|(&id, known)| (id, known.flushed_through)).collect(),
            next_family: found.state.next_family,
            manifest: dir.join(FileKind::Manifest(found.manifest.number()).name()),
        })
    }

    /// Replays it, and writes to tables what must make room for it.
    ///
    /// # Errors
    /// As [`replay_rest`], and of what could not be written. The mark and the pause stay then: a
    /// flush would take what was not replayed for flushed.
    pub(super) fn load(&self, core: &Arc<Core>, workers: &Workers, most_bytes: u64) -> Result<()> {
        // What freezes a memtable meanwhile would do so in the middle of a stretch.
        core.work.control.pause();
        core.memory.pool.set_populates(true);
        let loaded = self.load_by_stretches(core, workers, most_bytes);
        core.memory.pool.set_populates(false);
        loaded?;
        core.storage.replayed_through.set(None);
        core.work.control.resume();
        Ok(())
    }

    fn load_by_stretches(
        &self,
        core: &Arc<Core>,
        workers: &Workers,
        mut most_bytes: u64,
    ) -> Result<()> {
        let mut last = Some(self.after);
        while let Some(after) = last {
            core.storage.replayed_through.set(last);
            match write_out(core) {
                // Without space for tables the database can be read at least, in more memory.
                Err(e) if e.is_disk_full() => most_bytes = u64::MAX,
                other => other?,
            }
            let targets = self.targets(core, after, most_bytes);
            let place = (after, self.manifest.as_path());
            last = replay_rest(&core.env.vfs, &self.segments, place, targets, workers)?;
        }
        Ok(())
    }

    fn targets(&self, core: &Core, after: SequenceNumber, most_bytes: u64) -> ReplayedFamilies {
        let target = |family: Arc<FamilyState>| {
            let flushed = self.flushed_through.get(&family.id).copied().unwrap_or(0);
            let view = family.view.load();
            let (memtable, version) = (Arc::clone(&view.active), Arc::clone(&view.version));
            (family.id, ReplayedFamily { memtable, version, flushed_through: flushed.max(after) })
        };
        ReplayedFamilies {
            families: core.families.all().into_iter().map(target).collect(),
            next_family: self.next_family,
            memory: Arc::clone(&core.memory.pool),
            most_bytes,
        }
    }
}

impl Core {
    /// Reports the commits that the opening passed over.
    pub(super) fn report_left_out(&self) {
        let Some(LeftOut { position, commits, bytes, .. }) = self.storage.left_out else { return };
        self.telemetry.events.report(&Event::CommitsLeftOut { commits, bytes, position });
    }
}

/// Replays as much of the log as there is room for.
///
/// # Errors
/// As [`replay_log`].
pub(super) fn replay_first(
    vfs: &Arc<dyn Vfs>,
    path: &Path,
    found: &Inventory,
    targets: ReplayedFamilies,
    workers: &Workers,
) -> Result<Replayed> {
    let _span = span!(INFO, "recovery", families = targets.families.len());
    let memory = Arc::clone(&targets.memory);
    memory.set_populates(true);
    let replayed = replay_log(vfs, path, found, targets, workers);
    memory.set_populates(false);
    replayed
}

/// Writes all memtables to tables.
fn write_out(core: &Arc<Core>) -> Result<()> {
    for family in core.families.all() {
        core.freeze(&family, 0);
        while core.flush_oldest(&family)? {}
    }
    Ok(())
}
