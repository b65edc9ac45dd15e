//! What a test does, and in which order it asks for keys.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// What a test does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Workload {
    /// Puts into an empty database.
    Write,
    /// Gets from a loaded, settled database.
    Read,
    /// Several kinds of operations interleaved on a loaded database.
    Mixed,
    /// Deletes from a loaded database.
    Delete,
    /// Positions on a key and reads the row.
    Seek,
    /// Reads `range_size` rows from a key on.
    Range,
    /// Reads all rows in order.
    Iter,
    /// Puts over the records of a loaded database.
    Overwrite,
    /// Gets of several keys in one call.
    Multiget,
    /// Puts everything, then gets everything (what older tools call mixed).
    #[value(name = "write-then-read")]
    WriteThenRead,
    /// Transactions of gets and puts.
    Txn,
    /// Puts that expire, half of them at once.
    Ttl,
    /// Deletes of ranges of `range_size` keys.
    #[value(name = "delete-range")]
    DeleteRange,
    /// Creates families, puts and gets one row in each, drops them.
    Families,
    /// Opens a cleanly closed database.
    Reopen,
    /// Opens a database whose process was killed.
    Recover,
    /// Makes a copy that can be opened, and checks it.
    Checkpoint,
    /// Merges everything.
    Compact,
    /// Repeats recorded operations.
    Replay,
}

impl Workload {
    /// Whether the test starts from a loaded database.
    pub(crate) fn needs_data(self) -> bool {
        !matches!(
            self,
            Self::Write
                | Self::WriteThenRead
                | Self::Ttl
                | Self::Families
                | Self::Recover
                | Self::Replay
        )
    }

    /// Whether the test changes the database.
    pub(crate) fn mutates(self) -> bool {
        !matches!(self, Self::Read | Self::Seek | Self::Range | Self::Iter | Self::Multiget)
    }

    /// Name of the main operation in reports.
    pub(crate) fn operation(self) -> &'static str {
        match self {
            Self::Write | Self::Mixed | Self::Overwrite | Self::WriteThenRead | Self::Ttl => "PUT",
            Self::Read => "GET",
            Self::Delete | Self::DeleteRange => "DELETE",
            Self::Seek => "SEEK",
            Self::Range => "RANGE",
            Self::Iter => "ITER",
            Self::Multiget => "MULTIGET",
            Self::Txn => "TXN",
            Self::Families => "CF_CREATE",
            Self::Reopen => "OPEN",
            Self::Recover => "RECOVER",
            Self::Checkpoint => "CHECKPOINT",
            Self::Compact => "COMPACT",
            Self::Replay => "REPLAY",
        }
    }

    /// Name of the workload.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Read => "read",
            Self::Mixed => "mixed",
            Self::Delete => "delete",
            Self::Seek => "seek",
            Self::Range => "range",
            Self::Iter => "iter",
            Self::Overwrite => "overwrite",
            Self::Multiget => "multiget",
            Self::WriteThenRead => "write_then_read",
            Self::Txn => "txn",
            Self::Ttl => "ttl",
            Self::DeleteRange => "delete_range",
            Self::Families => "families",
            Self::Reopen => "reopen",
            Self::Recover => "recover",
            Self::Checkpoint => "checkpoint",
            Self::Compact => "compact",
            Self::Replay => "replay",
        }
    }
}

/// In which order keys are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Pattern {
    /// Ascending; each thread walks its own part.
    Seq,
    /// Ascending; all threads advance together.
    #[value(name = "seq-global", alias = "timestamp")]
    SeqGlobal,
    /// Descending; each thread walks its own part.
    Reverse,
    /// A true permutation: every key once, in pseudo-random order.
    Random,
    /// 256 ascending cursors taken in turn, which some tools call random.
    #[value(name = "permuted-sweep")]
    Sweep,
    /// Skewed draws.
    Zipfian,
    /// The skew of the published runs: a formula that is wrong from the third rank on.
    #[value(name = "zipf-seed")]
    ZipfSeed,
    /// Independent draws with replacement.
    Uniform,
    /// Skewed draws, the records written last are the hottest.
    Latest,
    /// A share of the operations goes to a share of the records.
    Hotspot,
    /// Exponentially fewer draws of later records.
    Exponential,
    /// All records of one prefix, then those of another.
    #[value(name = "prefix-clustered")]
    Prefix,
    /// Ranges of keys with skewed weights, as in `db_bench`'s workload of that name.
    Mixgraph,
}

impl Pattern {
    /// Name of the pattern.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Seq => "seq",
            Self::SeqGlobal => "seq-global",
            Self::Reverse => "reverse",
            Self::Random => "random",
            Self::Sweep => "permuted-sweep",
            Self::Zipfian => "zipfian",
            Self::ZipfSeed => "zipf-seed",
            Self::Uniform => "uniform",
            Self::Latest => "latest",
            Self::Hotspot => "hotspot",
            Self::Exponential => "exponential",
            Self::Prefix => "prefix-clustered",
            Self::Mixgraph => "mixgraph",
        }
    }

    /// Whether records are drawn with replacement; otherwise each comes once before any comes
    /// again.
    pub(crate) fn draws(self) -> bool {
        !matches!(
            self,
            Self::Seq | Self::SeqGlobal | Self::Reverse | Self::Random | Self::Sweep | Self::Prefix
        )
    }
}
