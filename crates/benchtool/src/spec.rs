//! A job (one engine, one test, one repetition) and its result, as they cross the process border.
//!
//! The orchestrator serialises a [`JobSpec`] to the standard input of a child process; the child
//! answers with one [`JobResult`] on its standard output. Both are plain data; sizes are bytes,
//! times are seconds unless a name says otherwise. The JSON report is a list of both.

mod limits;
mod setup;
mod shape;
mod workload;

pub(crate) use limits::{problem_of_setup, problem_of_shape};
pub(crate) use setup::{Codec, Setup, Sync};
pub(crate) use shape::{
    Contents, Isolation, Mix, Overlap, Pace, PageCache, RowCount, Settle, Shape, Sizes, Skew,
    Verify,
};
pub(crate) use workload::{Pattern, Workload};

use crate::measure::observed::{Observed, Step};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

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
    /// Write every call into this file.
    #[serde(default)]
    pub(crate) record: Option<PathBuf>,
    /// Calls to replay.
    #[serde(default)]
    pub(crate) replay: Option<PathBuf>,
    /// Control group that the child joins before it does anything.
    #[serde(default)]
    pub(crate) control_group: Option<PathBuf>,
    /// Say so when the writes are done, and wait to be killed (the first half of `recover`).
    #[serde(default)]
    pub(crate) wait_for_kill: bool,
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
    /// The user interrupted it; numbers cover what was done.
    Interrupted,
    /// The engine has no such operation; there are no numbers.
    Skipped,
}

/// Throughput and latencies of one kind of operation.
// More than a dozen fields: one for each column of a result file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct OperationResult {
    /// Its name: PUT, GET and so on.
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
    /// Percentiles of the slowest thread; `None` in sets of older versions.
    #[serde(default)]
    pub(crate) worst_thread: Option<WorstThread>,
    /// Latencies of the timed calls.
    #[serde(default)]
    pub(crate) histogram: Vec<Step>,
}

/// For each percentile the highest that any single thread had, in microseconds per call. Merged
/// percentiles hide a thread that others starve: its few slow calls drown among their many fast
/// ones.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct WorstThread {
    /// Median.
    pub(crate) p50_us: f64,
    /// 95 %.
    pub(crate) p95_us: f64,
    /// 99 %.
    pub(crate) p99_us: f64,
    /// 99.9 %.
    pub(crate) p999_us: f64,
}

/// What one child process measured.
// More than a dozen fields: one for each column of a result file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct JobResult {
    /// Whether the numbers may be believed.
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
    /// Calls of the phase that returned an error; each ends its thread.
    #[serde(default)]
    pub(crate) failed_calls: u64,
    /// Sorted runs on disk when settled, by the engine's own count.
    #[serde(default)]
    pub(crate) sorted_runs: Option<u64>,
    /// Share of the block cache's lookups that found the block, phase and settling.
    #[serde(default)]
    pub(crate) cache_hits: Option<f64>,
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
    /// Transactions that lost against another one; nothing is wrong about that.
    #[serde(default)]
    pub(crate) conflicts: u64,
    /// What a reader of the numbers has to know.
    #[serde(default)]
    pub(crate) notes: Vec<String>,
}

impl JobResult {
    /// The result of a job that produced none.
    pub(crate) fn failed(problem: String) -> Self {
        Self { problems: vec![problem], ..Self::default() }
    }

    /// The result of a job that the engine cannot do.
    pub(crate) fn skipped(reason: String) -> Self {
        Self { status: Status::Skipped, problems: vec![reason], ..Self::default() }
    }

    /// Throughput of the main operation, 0 if there is none.
    pub(crate) fn throughput(&self) -> f64 {
        self.operations.first().map_or(0.0, |operation| operation.per_second)
    }
}
