//! Why writers are held up, how much memory is in use, and how much an event matters.

use std::fmt;

/// Why a writer was slowed down or made to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum StallReason {
    /// The family's memtables are near the bound on their bytes: flushes are slower than writes.
    MemtableBytes,
    /// So many memtables wait for their flush that one more would reach
    /// `l0_queue_stall_threshold`.
    FlushQueue,
    /// Compaction is behind: the first level has many runs.
    CompactionDebt,
    /// The database is near its memory budget.
    MemoryBudget,
    /// Compaction is behind with garbage: the tables of the family take far more than
    /// `max_space_amplification` allows.
    SpaceAmplification,
}

impl StallReason {
    /// All reasons, in the order of their numbers.
    pub const ALL: [Self; 5] = [
        Self::MemtableBytes,
        Self::FlushQueue,
        Self::CompactionDebt,
        Self::MemoryBudget,
        Self::SpaceAmplification,
    ];

    /// Short name, used in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::MemtableBytes => "memtable bytes",
            Self::FlushQueue => "flush queue",
            Self::CompactionDebt => "compaction debt",
            Self::MemoryBudget => "memory budget",
            Self::SpaceAmplification => "space amplification",
        }
    }
}

impl fmt::Display for StallReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How much of the memory budget is in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MemoryLevel {
    /// Under 80 %: nothing is done.
    #[default]
    Normal,
    /// From 80 %: large memtables are written out early and the block cache gives way.
    Elevated,
    /// From 87 %: writers are slowed down as well.
    High,
    /// From 95 %: writers wait until a flush has freed memory.
    Critical,
}

impl MemoryLevel {
    /// Short name, used in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Elevated => "elevated",
            Self::High => "high",
            Self::Critical => "critical",
        }
    }
}

/// How much an event matters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum LogLevel {
    /// What only a developer of the engine asks for.
    Debug,
    /// Normal operation: flushes, compactions, changes of families.
    #[default]
    Info,
    /// Something slows the database down, or may do so later.
    Warn,
    /// What failed.
    Error,
}

impl LogLevel {
    /// Short name, used in logs and options.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }

    /// The level of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Debug, Self::Info, Self::Warn, Self::Error].into_iter().find(|l| l.name() == name)
    }
}
