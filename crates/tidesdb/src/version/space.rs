//! By how much garbage has grown a family's tables: what the pace of writers goes by.
//!
//! What is no growth is `settled`: the most that was alive at a time that the runs still show. Each
//! run and all older ones are what there was when it was the newest; and the oldest alone was alive
//! as a whole when it was written. So who deletes much is not slowed while what is alive shrinks,
//! as long as the disk does not fill. What snapshots hold is needed, see `liveness`.
//!
//! Runs from the first damaged one on do not count, as they take no part in compactions. Above one,
//! deletions and what has expired are needed: they stay as long as something may lie below them.
//! Values in value logs count as far as tables point at them.
//!
//! Made with each version for no snapshots, and anew for those that there are where it would slow
//! writers.
#![expect(clippy::cast_possible_truncation, reason = "estimates: what is too large is cut")]

use super::{LivenessCount, LivenessRules, Run};

/// The share of the garbage that is allowed from which it is collected, and writers are slowed:
/// what comes meanwhile needs room too. Not much less, because of the error of the sketches: unique
/// keys must not look like garbage.
const COLLECTED_SHARE: f64 = 2.0 / 3.0;

/// So many of the newest runs tell at least whether a family is being deleted in bulk: all, if
/// there are fewer.
const LEAST_RUNS: usize = 4;
/// A family is being deleted in bulk when at most one part in so many of the entries of its newest
/// runs is no deletion.
const OTHERS_PART: u64 = 4;
/// They also have to be at least one part in so many of all entries of the family. Small runs tell
/// nothing of a large family. One in which bulk deletions have just begun is one soon.
const FAMILY_PART: u64 = 128;

/// Whether runs of so many entries and tombstones each, newest first, are what bulk deletions
/// leave: some of the newest are mostly deletions, and the family has not many times as much.
pub(crate) fn are_bulk_deletions(runs: impl Iterator<Item = (u64, u64)>) -> bool {
    let (mut entries, mut tombstones, mut deletions) = (0_u64, 0_u64, 0);
    let mut runs = runs.zip(1..).peekable();
    while let Some((run, counted)) = runs.next() {
        entries = entries.saturating_add(run.0);
        tombstones = tombstones.saturating_add(run.1);
        // The counts come from a manifest, which may say anything.
        let others = entries.saturating_sub(tombstones);
        let enough = counted >= LEAST_RUNS || runs.peek().is_none();
        if enough && others.saturating_mul(OTHERS_PART) <= entries {
            deletions = tombstones;
        }
    }
    deletions > 0 && deletions.saturating_mul(FAMILY_PART) >= entries
}

/// Versions per live key from which garbage is collected when there may be `amplification`.
pub(crate) fn collected_from(amplification: f64) -> f64 {
    1.0 + (amplification - 1.0) * COLLECTED_SHARE
}

/// How much a family's tables hold, and how much of it was ever alive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SpaceEstimate {
    /// Bytes of the tables and of the values that they point at.
    pub bytes: u64,
    /// As many of them as are no growth.
    pub settled: u64,
}

impl SpaceEstimate {
    /// What these runs, newest first, take.
    pub(crate) fn of(runs: &[Run], rules: LivenessRules<'_>) -> Self {
        let counted = runs.iter().take_while(|run| !run.is_damaged()).count();
        // Deletions stay as long as something older lies below, which a damaged run may hold.
        let is_bottom = counted == runs.len();
        let mut space = Self::default();
        let mut count = LivenessCount::new(rules);
        for run in runs.get(..counted).unwrap_or_default().iter().rev() {
            let counts = &run.totals.counts;
            count.add_run(run);
            if space.bytes == 0 {
                space.settled = part(run.bytes_with_values(), counts.distinct, counts.entries);
            }
            space.bytes += run.bytes_with_values();
            let liveness = count.liveness(is_bottom);
            let alive = part(space.bytes, liveness.needed, liveness.versions);
            space.settled = space.settled.max(alive);
        }
        space
    }

    /// Bytes that these may be when there may be `amplification` versions to a live key.
    pub(crate) fn allowed_bytes(&self, amplification: f64) -> u64 {
        (self.settled as f64 * amplification) as u64
    }
}

fn part(bytes: u64, needed: u64, of: u64) -> u64 {
    (bytes as f64 * (needed as f64 / of.max(1) as f64).min(1.0)) as u64
}
