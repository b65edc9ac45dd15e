//! A job (one engine, one test, one repetition) and its result, as they cross the process border.
//!
//! The orchestrator serialises a [`JobSpec`] to the standard input of a child process; the child
//! answers with one [`JobResult`] on its standard output. Both are plain data; sizes are bytes,
//! times are seconds unless a name says otherwise. The JSON report is a list of both.

use crate::data::keys::Layout;
use crate::measure::observed::{Observed, Step};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// What a test does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Workload {
    /// Puts into an empty database.
    Write,
    /// Gets from a loaded, settled database.
    Read,
    /// Gets and overwrites interleaved on a loaded database.
    Mixed,
    /// Deletes from a loaded database.
    Delete,
    /// Positions on a key and reads the row.
    Seek,
    /// Reads `range_size` rows from a key on.
    Range,
    /// Reads all rows in order.
    Iter,
}

impl Workload {
    /// Whether the test starts from a loaded database.
    pub(crate) fn needs_data(self) -> bool {
        self != Self::Write
    }

    /// Whether the test changes the database.
    pub(crate) fn mutates(self) -> bool {
        matches!(self, Self::Write | Self::Mixed | Self::Delete)
    }

    /// Name of the main operation in reports.
    pub(crate) fn operation(self) -> &'static str {
        match self {
            Self::Write | Self::Mixed => "PUT",
            Self::Read => "GET",
            Self::Delete => "DELETE",
            Self::Seek => "SEEK",
            Self::Range => "RANGE",
            Self::Iter => "ITER",
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
        }
    }
}

/// In which order keys are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Pattern {
    /// Ascending; each thread walks its own part.
    Seq,
    /// A true permutation: every key once, in pseudo-random order.
    Random,
    /// Skewed draws; hot keys are scattered over the key space.
    Zipfian,
    /// Independent draws with replacement.
    Uniform,
}

impl Pattern {
    /// Name of the pattern.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Seq => "seq",
            Self::Random => "random",
            Self::Zipfian => "zipfian",
            Self::Uniform => "uniform",
        }
    }
}

/// Durability of commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Sync {
    /// Handed to the operating system.
    None,
    /// Synced once per period in the background.
    Interval,
    /// Synced before each commit returns.
    Full,
}

/// Block codec.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Codec {
    /// No compression.
    None,
    /// LZ4.
    Lz4,
    /// Zstandard.
    Zstd,
    /// Snappy.
    Snappy,
}

/// The data set and the shape of the calls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Shape {
    /// What is done.
    pub(crate) workload: Workload,
    /// In which order.
    pub(crate) pattern: Pattern,
    /// Records of the data set; a write test writes as many.
    pub(crate) num: u64,
    /// Worker threads.
    pub(crate) threads: u64,
    /// Operations per commit.
    pub(crate) batch: u64,
    /// Bytes per key.
    pub(crate) key_size: usize,
    /// Bytes per value.
    pub(crate) value_size: usize,
    /// Rows per range.
    pub(crate) range_size: u64,
    /// Share of writes in a mixed workload, in percent.
    pub(crate) write_percent: u64,
    /// How keys are spread.
    pub(crate) layout: Layout,
    /// Compressed size of the values over their size, as LZ4 sees them.
    pub(crate) compress_ratio: f64,
    /// Exponent of the Zipfian pattern.
    pub(crate) theta: f64,
    /// Scans go downwards.
    pub(crate) reverse: bool,
    /// Operations of a test that does not write; `None`: until the time is up.
    pub(crate) operations: Option<u64>,
    /// Time limit of the measured phase.
    pub(crate) seconds: Option<f64>,
    /// Touch the whole data set before measuring reads.
    pub(crate) warm: bool,
    /// Seed of keys, values and orders.
    pub(crate) seed: u64,
}

/// How the engine is set up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Setup {
    /// Block cache.
    pub(crate) cache: u64,
    /// One memtable.
    pub(crate) memtable: u64,
    /// Memtables in memory before writers wait.
    pub(crate) memtable_count: u32,
    /// Data block.
    pub(crate) block: u64,
    /// Block codec.
    pub(crate) compression: Codec,
    /// Durability of commits.
    pub(crate) sync: Sync,
    /// Period of interval syncs, in microseconds.
    pub(crate) sync_interval_us: u64,
    /// Filter bits per key.
    pub(crate) bloom_bits: u32,
    /// Background threads.
    pub(crate) background_threads: u32,
    /// Library to load RocksDB from.
    pub(crate) rocksdb_library: Option<PathBuf>,
}

/// One engine, one test, one repetition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct JobSpec {
    /// Name of the test in reports.
    pub(crate) test: String,
    /// Engine.
    pub(crate) engine: String,
    /// Repetition, from 0.
    pub(crate) repetition: u32,
    /// The test.
    pub(crate) shape: Shape,
    /// The engine's settings.
    pub(crate) setup: Setup,
    /// Database directory.
    pub(crate) directory: PathBuf,
    /// The directory holds the loaded data set already.
    pub(crate) loaded: bool,
}

/// Whether a row may be believed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub(crate) enum Status {
    /// Every check passed.
    Valid,
    /// A result was wrong, lost or missing.
    Invalid,
    /// The engine or the child failed.
    #[default]
    Failed,
    /// The user interrupted it; figures cover what was done.
    Interrupted,
}

/// Throughput and latencies of one kind of operation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct OperationResult {
    /// PUT, GET, ...
    pub(crate) operation: String,
    /// Completed operations.
    pub(crate) operations: u64,
    /// Per second of the phase.
    pub(crate) per_second: f64,
    /// Microseconds per call (an operation, or a batch if the test batches).
    pub(crate) average_us: f64,
    /// Standard deviation.
    pub(crate) stddev_us: f64,
    /// Fastest call.
    pub(crate) min_us: f64,
    /// Median.
    pub(crate) p50_us: f64,
    /// 90 %.
    pub(crate) p90_us: f64,
    /// 95 %.
    pub(crate) p95_us: f64,
    /// 99 %.
    pub(crate) p99_us: f64,
    /// 99.9 %.
    pub(crate) p999_us: f64,
    /// 99.99 %.
    pub(crate) p9999_us: f64,
    /// Slowest call, those that were not sampled included.
    pub(crate) max_us: f64,
    /// Latencies of the timed calls.
    #[serde(default)]
    pub(crate) histogram: Vec<Step>,
}

/// What one child process measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct JobResult {
    /// Whether the figures may be believed.
    pub(crate) status: Status,
    /// What was wrong, the first few.
    pub(crate) problems: Vec<String>,
    /// Version of the engine.
    pub(crate) version: String,
    /// The operations, the main one first.
    pub(crate) operations: Vec<OperationResult>,
    /// Length of the measured phase.
    pub(crate) duration: f64,
    /// Time until no background work was left after it.
    pub(crate) settle: f64,
    /// Time to open the database.
    pub(crate) open: f64,
    /// Operations per second in the slowest second.
    pub(crate) slowest_second: Option<f64>,
    /// Operations per tenth of a second.
    pub(crate) rate: Vec<u64>,
    /// Rows visited by scans.
    pub(crate) rows: u64,
    /// Keys that were not found although nothing was wrong about that.
    pub(crate) not_found: u64,
    /// Results that were wrong.
    pub(crate) wrong: u64,
    /// Rows that have to be visible at the end.
    pub(crate) keys_expected: u64,
    /// Rows that the final scan saw; `None` if the test did not write.
    pub(crate) keys_visible: Option<u64>,
    /// Rows per second of the final scan over the settled database.
    pub(crate) scan_per_second: Option<f64>,
    /// Key and value bytes accepted by the engine in the phase.
    pub(crate) user_bytes: u64,
    /// Bytes written to storage in the phase and until settled.
    pub(crate) written_bytes: u64,
    /// Bytes read from storage in the phase.
    pub(crate) read_bytes: u64,
    /// `written_bytes` over `user_bytes`.
    pub(crate) write_amplification: Option<f64>,
    /// The engine's own count of log, flush and compaction bytes over `user_bytes`.
    pub(crate) engine_write_amplification: Option<f64>,
    /// Bytes the engine says it wrote to its log.
    pub(crate) log_bytes: Option<u64>,
    /// Bytes the engine says it flushed.
    pub(crate) flush_bytes: Option<u64>,
    /// Bytes the engine says its compactions wrote.
    pub(crate) compaction_bytes: Option<u64>,
    /// Log syncs the engine counted.
    pub(crate) log_syncs: Option<u64>,
    /// Commits per log sync.
    pub(crate) commits_per_sync: Option<f64>,
    /// Highest resident memory until settled.
    pub(crate) peak_rss: u64,
    /// Highest anonymous resident memory (sampled).
    pub(crate) peak_anonymous: u64,
    /// Resident file pages at the end of the phase.
    pub(crate) rss_file: u64,
    /// Resident memory before the engine was opened (the tool itself).
    pub(crate) base_rss: u64,
    /// Highest virtual size.
    pub(crate) peak_virtual: u64,
    /// Processor seconds, user mode, phase and settling.
    pub(crate) cpu_user: f64,
    /// Processor seconds, kernel, phase and settling.
    pub(crate) cpu_system: f64,
    /// Bytes of all files when settled.
    pub(crate) size_settled: u64,
    /// Bytes allocated on the device when settled.
    pub(crate) size_allocated: u64,
    /// Bytes of all files after closing.
    pub(crate) size_closed: u64,
    /// Memory over time, sizes on the way, processor time apart.
    #[serde(default)]
    pub(crate) observed: Observed,
}

impl JobResult {
    /// The result of a job that produced none.
    pub(crate) fn failed(problem: String) -> Self {
        Self { problems: vec![problem], ..Self::default() }
    }

    /// Throughput of the main operation, 0 if there is none.
    pub(crate) fn throughput(&self) -> f64 {
        self.operations.first().map_or(0.0, |operation| operation.per_second)
    }
}
