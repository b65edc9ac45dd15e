//! What a test does: workload, pattern, data set, and the shape of the calls.
//!
//! Plain data, made by the suites and the command line and interpreted in `workload`. Everything
//! has a default ([`Shape::default`]), so a test says only what differs from it.

use super::workload::{Pattern, Workload};
use crate::data::keys::Layout;
use bench_compare::engine;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// Parameters of the skewed patterns.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Skew {
    /// Exponent of the Zipfian pattern, positive and not 1.
    pub(crate) theta: f64,
    /// Hot records are scattered over the key space instead of lying at its start.
    pub(crate) scramble: bool,
    /// Share of the records that is hot.
    pub(crate) hot_set: f64,
    /// Share of the operations that goes to it.
    pub(crate) hot_operations: f64,
    /// How much steeper the exponential pattern falls than the range is long.
    pub(crate) exponent: f64,
}

/// Percentages of a mixed workload; what is left to 100 is reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mix {
    /// Puts of new records.
    pub(crate) insert: u64,
    /// Puts over existing ones.
    pub(crate) update: u64,
    /// Gets followed by a put of the same record, counted as one operation.
    pub(crate) modify: u64,
    /// Deletes.
    pub(crate) delete: u64,
    /// Scans of `range_size` rows.
    pub(crate) scan: u64,
}

impl Mix {
    /// Reads and overwrites.
    pub(crate) const fn updates(update: u64) -> Self {
        Self { insert: 0, update, modify: 0, delete: 0, scan: 0 }
    }

    /// Percentage of reads, or `None` if the others are more than 100.
    pub(crate) fn reads(&self) -> Option<u64> {
        let others = self.insert + self.update + self.modify + self.delete + self.scan;
        100_u64.checked_sub(others)
    }
}

/// How many rows a range has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RowCount {
    /// Always `range_size`.
    Fixed,
    /// From 1 to `range_size`.
    Uniform,
}

/// How large values are, and what is in them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Sizes {
    /// All values have the same size.
    Fixed,
    /// Any size from the smallest to the largest.
    Uniform,
    /// A bell around the middle of the two.
    Normal,
    /// Many small ones and few large ones.
    Pareto,
}

/// What values are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Contents {
    /// Random bytes and runs that compress to the wanted ratio.
    Random,
    /// Words.
    Text,
    /// The 256 byte ramps of the published runs, which compress to almost nothing.
    Ramp,
    /// Random bytes, a share of the value as large as the wanted ratio, repeated until it is full:
    /// the values of `db_bench`.
    Repeated,
}

/// What has to be done before the next phase, and before sizes are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Settle {
    /// Nothing.
    None,
    /// Memory is written out.
    Flush,
    /// Memory is written out and no background work is left.
    Idle,
    /// Everything is merged.
    Compact,
}

/// How results are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verify {
    /// Not at all; the row says so.
    None,
    /// Found, with the right record, generation and length.
    Found,
    /// Every byte.
    #[value(alias = "crc")]
    Full,
}

/// The page cache when reads begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum PageCache {
    /// As it is.
    Keep,
    /// Emptied, where the system lets us.
    Drop,
}

/// The five levels of isolation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Isolation {
    /// Reads see whatever is there.
    #[value(alias = "ru")]
    ReadUncommitted,
    /// Each read sees the newest committed state.
    #[value(alias = "rc")]
    ReadCommitted,
    /// Sizes that were read must not have changed.
    #[value(alias = "rr")]
    RepeatableRead,
    /// The first committer of a key wins.
    #[value(alias = "si")]
    Snapshot,
    /// As if one after another.
    #[value(alias = "ser")]
    Serializable,
}

impl Isolation {
    /// The level as engines are given it.
    pub(crate) fn of_engines(self) -> engine::Isolation {
        match self {
            Self::ReadUncommitted => engine::Isolation::ReadUncommitted,
            Self::ReadCommitted => engine::Isolation::ReadCommitted,
            Self::RepeatableRead => engine::Isolation::RepeatableRead,
            Self::Snapshot => engine::Isolation::Snapshot,
            Self::Serializable => engine::Isolation::Serializable,
        }
    }
}

/// Which records the transactions of different threads share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Overlap {
    /// None: each thread has its own.
    Disjoint,
    /// A few hot ones, which all of them read and write.
    Hot,
}

/// How fast operations are issued.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Pace {
    /// Operations per second of all threads together; `None`: one after another.
    pub(crate) rate: Option<f64>,
    /// Latencies count from when an operation was due, not from when it was issued.
    pub(crate) open_loop: bool,
    /// The time at the beginning that is not measured.
    pub(crate) warmup_seconds: f64,
    /// The operations of each thread at the beginning that are not measured.
    pub(crate) warmup_operations: u64,
}

/// The data set and the shape of the calls.
// More than a dozen fields: one for each flag that describes a workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Shape {
    /// What is done.
    pub(crate) workload: Workload,
    /// In which order.
    pub(crate) pattern: Pattern,
    /// Parameters of skewed patterns.
    pub(crate) skew: Skew,
    /// Records of the data set; a write test writes as many.
    pub(crate) num: u64,
    /// Records that may be inserted on top of them.
    pub(crate) spare: u64,
    /// Worker threads, the writers beside readers included.
    pub(crate) threads: u64,
    /// Threads of a mixed workload that only write; the others do not update.
    pub(crate) writers: u64,
    /// Operations per commit.
    pub(crate) batch: u64,
    /// Bytes per key.
    pub(crate) key_size: usize,
    /// Bytes per value, the largest if sizes vary.
    pub(crate) value_size: usize,
    /// Bytes of the smallest value if sizes vary.
    pub(crate) value_min: usize,
    /// How value sizes vary.
    pub(crate) value_sizes: Sizes,
    /// What values are made of.
    pub(crate) contents: Contents,
    /// Rows per range, and the largest transaction or multi-get in other workloads.
    pub(crate) range_size: u64,
    /// How many rows a range has.
    pub(crate) range_rows: RowCount,
    /// Shares of a mixed workload.
    pub(crate) mix: Mix,
    /// Percentage of gets that ask for absent keys.
    pub(crate) missing: u64,
    /// How keys are spread.
    pub(crate) layout: Layout,
    /// Records that share a prefix in the clustered layout and pattern.
    pub(crate) keys_per_prefix: u64,
    /// Compressed size of the values over their size, as LZ4 sees them.
    pub(crate) compress_ratio: f64,
    /// Scans go downwards.
    pub(crate) reverse: bool,
    /// Seeks and ranges of a thread go on with the iterator, and the state, of its first one.
    #[serde(default = "yes")]
    pub(crate) iter_reuse: bool,
    /// Operations of a test that does not write everything; `None`: until the time is up.
    pub(crate) operations: Option<u64>,
    /// Time limit of the measured phase.
    pub(crate) seconds: Option<f64>,
    /// Rate and warm-up.
    pub(crate) pace: Pace,
    /// Touch the whole data set before measuring reads.
    pub(crate) warm: bool,
    /// The page cache when reads begin.
    pub(crate) page_cache: PageCache,
    /// Read the counters of the device, with the file system synced before and after.
    #[serde(default)]
    pub(crate) device_counters: bool,
    /// The state before the phase (after a load) and after it.
    pub(crate) settle: Settle,
    /// How results are checked.
    pub(crate) verify: Verify,
    /// Families over which records are spread; 1 is the default one alone.
    pub(crate) families: u64,
    /// Level of transactions.
    pub(crate) isolation: Isolation,
    /// What transactions share.
    pub(crate) overlap: Overlap,
    /// Puts (and as many gets) per transaction.
    pub(crate) txn_size: u64,
    /// Batches of writes and overwrites are committed as transactions.
    pub(crate) in_transactions: bool,
    /// Seed of keys, values and orders.
    pub(crate) seed: u64,
}

fn yes() -> bool {
    true
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            workload: Workload::Write,
            pattern: Pattern::Random,
            skew: Skew {
                theta: 0.99,
                scramble: true,
                hot_set: 0.2,
                hot_operations: 0.8,
                exponent: 10.0,
            },
            num: 1_000_000,
            spare: 0,
            threads: 1,
            writers: 0,
            batch: 1,
            key_size: 16,
            value_size: 100,
            value_min: 0,
            value_sizes: Sizes::Fixed,
            contents: Contents::Random,
            range_size: 100,
            range_rows: RowCount::Fixed,
            mix: Mix::updates(50),
            missing: 0,
            layout: Layout::Scattered,
            keys_per_prefix: 64,
            compress_ratio: 0.5,
            reverse: false,
            iter_reuse: true,
            operations: None,
            seconds: None,
            pace: Pace::default(),
            warm: false,
            page_cache: PageCache::Keep,
            device_counters: false,
            settle: Settle::Idle,
            verify: Verify::Full,
            families: 1,
            isolation: Isolation::ReadCommitted,
            overlap: Overlap::Disjoint,
            txn_size: 1,
            in_transactions: false,
            seed: 42,
        }
    }
}

impl Shape {
    /// Whether the test begins transactions.
    pub(crate) fn transacts(&self) -> bool {
        self.workload == Workload::Txn || self.in_transactions
    }
}
