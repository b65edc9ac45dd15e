//! What the choice of a compaction is made from, and what comes of it.

use tidesdb_base::liveness::Liveness;

/// As many bytes are merged for the readers of a family as for so many seconds nothing was
/// committed to it, about as many as one thread merges in that time.
const BYTES_PER_SECOND_OF_REST: u64 = 32 << 20;

/// What the planner knows of one sorted run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RunSummary {
    pub level: u32,
    pub id: u64,
    pub bytes: u64,
    /// Bytes in value logs that it points at.
    pub value_bytes: u64,
    /// Of its versions, what a compaction of this run alone would keep.
    pub alone: Liveness,
    /// Of its versions and those of all newer runs, what a compaction of all these would keep.
    pub through: Liveness,
    /// Bytes of tables with more tombstones than the family allows that could go.
    pub tombstone_bytes: u64,
    /// Garbage in value logs that are mostly garbage, of those into which no older run points: a
    /// compaction down to this run can free them.
    pub dead_value_bytes: u64,
    /// Holds a table that could not be read: it takes no part in compactions.
    pub damaged: bool,
}

/// The newest runs, to be merged into one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CompactionPlan {
    /// Number of inputs, counted from the newest run.
    pub count: usize,
    /// Level of the output.
    pub level: u32,
    /// Run number of the output.
    pub run: u64,
    /// The output is the oldest input, with its tables replaced step by step.
    pub into_oldest: bool,
    pub keys: CompactedKeys,
}

/// What a family's next job does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// Removes tables and value logs that are not needed, without reading them.
    DropTables,
    Compact(CompactionPlan),
    Nothing,
}

/// Which keys of its runs a compaction is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CompactedKeys {
    All,
    /// Those of tables of which too much has expired, with all that share keys with them.
    Expired,
    /// A slice of the key space at a time is enough: all runs are merged, and only for the garbage
    /// in them.
    WorstSlice,
}

/// What the next compaction of a family is chosen from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlanFacts<'a> {
    /// Newest first.
    pub runs: &'a [RunSummary],
    pub rules: PlanRules,
    pub activity: Activity,
    pub in_progress: InProgress,
    /// There are tables or value logs that can be removed without being read.
    pub has_dead_tables: bool,
    /// Bytes of what is to be merged because it has expired.
    pub expired_bytes: Option<u64>,
    /// Where a run holds a damaged table: which part of the worst of the slices that hold none is
    /// garbage.
    pub sound_slice_garbage: Option<f64>,
}

/// The compactions under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InProgress {
    /// Some are of the same family.
    pub of_family: bool,
    /// So many of the newest runs are in none.
    pub free: usize,
    /// A compaction of more bytes waits for a thread.
    pub most_bytes: u64,
}

impl InProgress {
    /// Whether those of the family are the same, as far as a choice goes by them.
    pub(crate) const fn is_of_family_as(&self, other: Self) -> bool {
        self.of_family == other.of_family && self.free == other.free
    }

    /// There are none.
    #[cfg(test)]
    pub(crate) const NONE: Self = Self { of_family: false, free: usize::MAX, most_bytes: u64::MAX };
}

/// Whether the family is being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activity {
    /// Commits keep coming: merge only what keeps the number of runs down.
    Busy,
    /// Nothing was committed lately: merge for the readers, so many bytes at a time at most.
    Quiet { most_bytes: u64 },
}

impl Activity {
    /// Whatever is worth a compaction may be merged.
    pub(crate) const RESTING: Self = Self::Quiet { most_bytes: u64::MAX };

    /// That of a family to which nothing was committed for so many seconds. Merging for its readers
    /// must not take much longer than that: it may be a pause only.
    pub(crate) const fn after_rest(seconds: u64) -> Self {
        Self::Quiet { most_bytes: seconds.saturating_mul(BYTES_PER_SECOND_OF_REST) }
    }
}

/// The family's settings, as far as they matter here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlanRules {
    /// Runs of one class that are merged.
    pub fan_in: usize,
    /// `l1_file_count_trigger`, of which the numbers of runs that slow writers are multiples. It
    /// also says how many runs a family at rest keeps.
    pub trigger: u64,
    /// The family is read, and not deleted in bulk: few runs are worth more than fast writes.
    pub favours_readers: bool,
    /// A run of a quiet family is spared when it is more than this many times all newer ones.
    pub size_ratio: usize,
    /// Entries that there may be per live key.
    pub max_space_amplification: f64,
    /// Entries per live key from which garbage is collected.
    pub collected_from: f64,
    /// Below this many bytes in all, garbage is not worth a compaction of its own.
    pub least_garbage_bytes: u64,
    /// Snapshots keep garbage that will be collected when they go: what is merged for readers
    /// before that is merged twice.
    pub awaits_snapshots: bool,
}
