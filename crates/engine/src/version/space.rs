//! How much of a family's tables is garbage, estimated from their records.
//!
//! The planner of merges and the pace of writers go by the same figures: versions in the tables,
//! and keys alive among them by the sketches. Versions that one run holds of the same key do not
//! count here: a flush and a merge write those only for a snapshot that sees them, and no merge
//! removes them before it is gone. Runs from the first damaged one on do not count either, as they
//! take no part in merges. Values in value logs count as far as tables point at them.
//!
//! Made with each version, and immutable like it.

use tidesdb_files::sstable::KeySketch;

use super::Run;

/// The share of the garbage that is allowed from which it is collected, and writers are slowed: what
/// comes meanwhile needs room too. Not much less, because of the error of the sketches: unique keys
/// must not look like garbage.
const COLLECTED_SHARE: f64 = 2.0 / 3.0;

/// Versions per live key from which garbage is collected when there may be `amplification`.
pub(crate) fn collected_from(amplification: f64) -> f64 {
    1.0 + (amplification - 1.0) * COLLECTED_SHARE
}

/// See the module documentation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SpaceEstimate {
    /// Bytes of the tables and of the values that they point at.
    pub bytes: u64,
    /// Versions in them that no snapshot holds.
    pub entries: u64,
    /// About how many keys of those are alive.
    pub live: u64,
}

impl SpaceEstimate {
    /// What these runs, newest first, take and how much of it is needed.
    pub(super) fn of(runs: &[Run]) -> Self {
        let mut space = Self::default();
        let (mut keys, mut tombstones) = (KeySketch::default(), 0);
        for run in runs.iter().take_while(|run| !run.is_damaged()) {
            let totals = &run.totals;
            keys.merge(&totals.keys);
            space.bytes += totals.bytes + totals.value_references.values().sum::<u64>();
            space.entries += totals.distinct_keys;
            tombstones += totals.tombstones;
        }
        space.live = keys.estimate().min(space.entries).saturating_sub(tombstones);
        space
    }

    /// Bytes that these may be when there may be `amplification` versions to a live key.
    pub(crate) fn allowed_bytes(&self, amplification: f64) -> u64 {
        let allowed = self.live as f64 * amplification;
        (self.bytes as f64 * allowed / self.entries.max(1) as f64) as u64
    }
}
