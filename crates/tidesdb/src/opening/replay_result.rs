//! What the replay of a log found, and how its segments are opened.

use std::path::Path;
use std::sync::Arc;

use tidesdb_base::entry::{MAX_SEQUENCE, SequenceNumber};
use tidesdb_base::error::{Error, Result};
use tidesdb_sys::vfs::{File, OpenMode, Vfs};

use crate::wal::{LeftOut, Retained};

/// No log begins behind this, so that what is written until the next opening ends before the last
/// sequence number: 36 petabytes.
const LAST_BEGINNING: u64 = MAX_SEQUENCE / 2;

/// What replaying found. Three positions that are often the same and never mean the same:
///
/// | what happened | `log_end` | `newest` | `beyond` |
/// |---|---|---|---|
/// | closed, or created and never written | none | the manifest's | the same |
/// | killed | behind the last record | `log_end` | behind the last segment |
/// | cut off, the lost commits in no table | behind what is left | `log_end` | as above |
/// | cut off, a table has lost commits | behind what is left | the manifest's, higher | above both |
/// | the only segment lost, never synced | none | the manifest's | the same |
///
/// Sync marks are compared with `log_end`: that a table has a later commit proves nothing of the
/// records in the log.
#[derive(Debug, Default)]
pub(crate) struct Replayed {
    /// Segments whose records may still be needed, oldest first, all of them on disk.
    pub retained: Vec<Retained>,
    /// Position behind the last record of the chain; none when there is no chain.
    pub log_end: Option<u64>,
    /// Position at which the segment begins that the manifest names, as far as it says so.
    pub first_base: Option<u64>,
    /// Sequence number of the newest commit, in the log or in tables, as far as the manifest says.
    pub newest: SequenceNumber,
    /// A position above all that any record, lost ones included, may have had.
    pub beyond: u64,
    /// Highest sync mark in the chain: through here its segments were synced by who wrote them.
    pub synced: u64,
    /// Highest number of any segment, whatever its file is called.
    pub highest_segment: u64,
    /// The last commit that there was room for in memory, when that is not all of them.
    pub loaded_through: Option<SequenceNumber>,
    /// Commits that were passed over.
    pub left_out: Option<LeftOut>,
}

impl Replayed {
    /// Where a sync mark must not lie behind. Where nothing of the log's first segment was read
    /// that is where it begins, whatever tables have.
    pub(crate) fn promised_at_most(&self) -> u64 {
        self.log_end.or(self.first_base).unwrap_or(self.newest)
    }

    /// Refuses positions of a manifest or a log that no database has reached, before any other is
    /// reckoned from them.
    ///
    /// # Errors
    /// [`Error::Corruption`], which names the manifest: it has them, or a segment that it leads to.
    pub(super) fn check_room(&self, manifest: &Path) -> Result<()> {
        let found = self.beyond.max(self.newest);
        if found <= LAST_BEGINNING {
            return Ok(());
        }
        let detail = format!("expected a log that ends before {LAST_BEGINNING}, found {found}");
        Err(Error::corruption(manifest, 0, detail))
    }

    /// Position at which the log goes on.
    pub(crate) fn goes_on_at(&self) -> u64 {
        self.beyond.max(self.newest).next_multiple_of(8)
    }
}

pub(super) fn open(vfs: &dyn Vfs, path: &Path) -> Result<Arc<dyn File>> {
    vfs.open(path, OpenMode::Read).map_err(|e| Error::io("open", path, e))
}
