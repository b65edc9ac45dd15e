//! CSV: the 33 columns of TidesDB's benchmark tool first, in its order and spelling, then ours.
//!
//! One line per operation of a row; the columns about resources are repeated on each of them. A row
//! without results has one that says what it was and how it ended. The header is written only if
//! the file is empty, so that runs can be appended; a file with another header is refused. Figures
//! that do not apply, or that the engine does not report, are empty.

use super::metrics;
use super::set::ResultSet;
use crate::measure::device::Traffic;
use crate::orchestrate::Run;
use crate::spec::{OperationResult, Sync, Workload, WorstThread};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;

/// What a column is made from.
struct Row<'a> {
    set: &'a ResultSet,
    run: &'a Run,
    operation: &'a OperationResult,
}

/// Heading and text of a column.
type Column = (&'static str, fn(&Row<'_>) -> String);

const ORIGINAL: [Column; 33] = [
    ("engine", |row| row.run.spec.engine.clone()),
    ("test_name", |row| row.run.spec.test.clone()),
    ("operation", |row| row.operation.operation.clone()),
    ("ops_per_sec", |row| number(row.operation.per_second)),
    ("duration_sec", |row| number(metrics::seconds(row.run, row.operation))),
    ("avg_latency_us", |row| number(row.operation.average_us)),
    ("stddev_us", |row| number(row.operation.stddev_us)),
    ("cv_percent", |row| optional(metrics::variation(row.operation))),
    ("p50_us", |row| number(row.operation.p50_us)),
    ("p95_us", |row| number(row.operation.p95_us)),
    ("p99_us", |row| number(row.operation.p99_us)),
    ("min_us", |row| number(row.operation.min_us)),
    ("max_us", |row| number(row.operation.max_us)),
    ("peak_rss_mb", |row| mebibytes(row.run.result.peak_rss)),
    ("peak_vms_mb", |row| mebibytes(row.run.result.peak_virtual)),
    ("disk_read_mb", |row| mebibytes(row.run.result.read_bytes)),
    ("disk_write_mb", |row| mebibytes(row.run.result.written_bytes)),
    ("cpu_user_sec", |row| number(row.run.result.cpu_user)),
    ("cpu_sys_sec", |row| number(row.run.result.cpu_system)),
    ("cpu_percent", |row| optional(metrics::cpu_percent(row.run))),
    ("db_size_mb", |row| mebibytes(row.run.result.size_settled)),
    ("write_amp", |row| optional(row.run.result.write_amplification)),
    ("read_amp", |row| optional(metrics::read_amplification(row.run))),
    ("space_amp", |row| optional(metrics::space_amplification(row.run))),
    ("workload", |row| row.run.spec.shape.workload.name().to_owned()),
    ("pattern", |row| row.run.spec.shape.pattern.name().to_owned()),
    ("threads", |row| row.run.spec.shape.threads.to_string()),
    ("num_operations", |row| row.operation.operations.to_string()),
    ("batch_size", |row| row.run.spec.shape.batch.to_string()),
    ("key_size", |row| row.run.spec.shape.key_size.to_string()),
    ("value_size", |row| row.run.spec.shape.value_size.to_string()),
    ("range_size", |row| row.run.spec.shape.range_size.to_string()),
    ("sync_enabled", |row| u8::from(row.run.spec.setup.sync == Sync::Full).to_string()),
];

const ADDED: [Column; 69] = [
    ("schema", |row| row.set.schema.to_string()),
    ("run_id", |row| row.set.id()),
    ("rep", |row| row.run.spec.repetition.to_string()),
    ("status", |row| format!("{:?}", row.run.result.status).to_uppercase()),
    ("engine_version", |row| row.run.result.version.clone()),
    ("engine_build", |row| row.set.environment.build.clone()),
    ("profile", |row| profile(&row.run.spec.engine).to_owned()),
    ("options_hash", |row| metrics::options_hash(row.run)),
    ("num_keys", |row| row.run.spec.shape.num.to_string()),
    ("value_kind", |row| shape_option(row.run, "contents", "random")),
    ("compress_target", |row| row.run.spec.shape.compress_ratio.to_string()),
    ("latency_unit", |row| latency_unit(row.run, row.operation).to_owned()),
    ("p90_us", |row| number(row.operation.p90_us)),
    ("p999_us", |row| number(row.operation.p999_us)),
    ("p9999_us", |row| number(row.operation.p9999_us)),
    ("max_at_sec", |row| number(row.run.result.observed.longest_gap_at)),
    ("sustained_ops", |row| optional(metrics::sustained(row.run, row.operation))),
    ("settle_sec", |row| number(row.run.result.settle)),
    ("mb_per_sec", |row| optional(metrics::mebibytes_per_second(row.run, row.operation))),
    ("rate_p5", |row| optional(metrics::rate_p5(row.run))),
    ("longest_gap_ms", |row| number(row.run.result.observed.longest_gap_ms)),
    ("stall_sec", |row| optional(metrics::stall_seconds(row.run))),
    ("ops_ok", |row| row.operation.operations.to_string()),
    ("ops_not_found", |row| row.run.result.not_found.to_string()),
    ("ops_failed", |row| row.run.result.failed_calls.to_string()),
    ("verify_errors", |row| row.run.result.wrong.to_string()),
    ("keys_expected", |row| row.run.result.keys_expected.to_string()),
    ("keys_visible", |row| whole(row.run.result.keys_visible)),
    ("mem_limit_mb", |row| optional_mebibytes(row.run.result.observed.group_limit)),
    ("rss_hwm_mb", |row| mebibytes(row.run.result.peak_rss)),
    ("cgroup_peak_mb", |row| optional_mebibytes(row.run.result.observed.group_peak)),
    ("memtable_mb", |row| mebibytes(row.run.spec.setup.memtable)),
    ("cache_mb", |row| mebibytes(row.run.spec.setup.cache)),
    ("wal_mb_written", |row| optional_mebibytes(row.run.result.log_bytes)),
    ("flush_mb", |row| optional_mebibytes(row.run.result.flush_bytes)),
    ("compact_mb", |row| optional_mebibytes(row.run.result.compaction_bytes)),
    ("device_write_mb", |row| optional_mebibytes(device(row).map(|traffic| traffic.written))),
    ("device_read_mb", |row| optional_mebibytes(device(row).map(|traffic| traffic.read))),
    ("write_amp_engine", |row| optional(row.run.result.engine_write_amplification)),
    ("write_amp_device", |row| optional(metrics::device_write_amplification(row.run))),
    ("size_alloc_mb", |row| mebibytes(row.run.result.size_allocated)),
    ("wal_size_mb", |row| mebibytes(row.run.result.observed.log_size_settled)),
    ("size_flushed_mb", |row| optional_mebibytes(row.run.result.observed.size_flushed)),
    ("size_compacted_mb", |row| optional_mebibytes(metrics::compacted_size(row.run))),
    ("bytes_per_record", |row| optional(metrics::bytes_per_record(row.run))),
    ("sorted_runs", |row| whole(row.run.result.sorted_runs)),
    ("syncs", |row| whole(row.run.result.log_syncs)),
    ("cache_hit", |row| optional(row.run.result.cache_hits)),
    ("cpu_bg_sec", |row| optional(metrics::background_cpu(row.run))),
    ("cpu_us_per_op", |row| optional(metrics::cpu_us_per_operation(row.run))),
    ("harness_ns_per_op", |row| optional(metrics::harness_nanos(row.set, &row.run.spec.test))),
    ("isolation", |row| match row.run.spec.shape.transacts() {
        true => shape_option(row.run, "isolation", ""),
        false => String::new(),
    }),
    ("page_cache_policy", |row| shape_option(row.run, "page_cache", "keep")),
    // Beyond the list of the specification.
    ("slowest_second_ops", |row| optional(row.run.result.slowest_second)),
    ("slowest_over_median", |row| optional(metrics::evenness(row.run))),
    ("anon_mb", |row| mebibytes(row.run.result.peak_anonymous)),
    ("size_phase_end_mb", |row| mebibytes(row.run.result.observed.size_phase_end)),
    ("size_peak_mb", |row| {
        optional_mebibytes(row.run.result.observed.space.values.iter().copied().max())
    }),
    ("size_closed_mb", |row| mebibytes(row.run.result.size_closed)),
    ("scan_rows_per_sec", |row| optional(row.run.result.scan_per_second)),
    ("commits_per_sync", |row| optional(row.run.result.commits_per_sync)),
    ("rows", |row| row.run.result.rows.to_string()),
    ("open_sec", |row| number(row.run.result.open)),
    ("sync_mode", |row| format!("{:?}", row.run.spec.setup.sync).to_lowercase()),
    ("block_bytes", |row| row.run.spec.setup.block.to_string()),
    ("worst_thread_p50_us", |row| optional(worst(row).map(|worst| worst.p50_us))),
    ("worst_thread_p95_us", |row| optional(worst(row).map(|worst| worst.p95_us))),
    ("worst_thread_p99_us", |row| optional(worst(row).map(|worst| worst.p99_us))),
    ("worst_thread_p999_us", |row| optional(worst(row).map(|worst| worst.p999_us))),
];

fn worst(row: &Row<'_>) -> Option<WorstThread> {
    row.operation.worst_thread
}

fn device(row: &Row<'_>) -> Option<Traffic> {
    row.run.result.observed.device
}

fn number(figure: f64) -> String {
    format!("{figure:.3}")
}

fn optional(figure: Option<f64>) -> String {
    figure.map(number).unwrap_or_default()
}

fn whole(figure: Option<u64>) -> String {
    figure.map(|figure| figure.to_string()).unwrap_or_default()
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.2}", bytes as f64 / f64::from(1_u32 << 20))
}

fn optional_mebibytes(bytes: Option<u64>) -> String {
    bytes.map(mebibytes).unwrap_or_default()
}

/// An option of the test's shape by its name in the result file, which sets of other versions may
/// not have.
fn shape_option(run: &Run, name: &str, otherwise: &str) -> String {
    let shape = serde_json::to_value(&run.spec.shape).unwrap_or_default();
    let value = shape.get(name).and_then(|value| value.as_str());
    value.unwrap_or(otherwise).to_owned()
}

/// The settings profile that an engine's name stands for.
fn profile(engine: &str) -> &'static str {
    if engine.ends_with("-tuned") { "tuned" } else { "parity" }
}

/// What one latency is of. Only puts and deletes are batched, and several gets are one call.
fn latency_unit(run: &Run, operation: &OperationResult) -> &'static str {
    let shape = &run.spec.shape;
    match operation.operation.as_str() {
        "ITER" => "row",
        "MULTIGET" => "batch",
        "PUT" | "DELETE" if shape.batch > 1 && shape.workload != Workload::DeleteRange => "batch",
        _ => "op",
    }
}

/// The columns of a row without results: what it was, and how it ended.
const WITHOUT_RESULTS: [&str; 24] = [
    "engine",
    "test_name",
    "operation",
    "workload",
    "pattern",
    "threads",
    "batch_size",
    "key_size",
    "value_size",
    "range_size",
    "sync_enabled",
    "schema",
    "run_id",
    "rep",
    "status",
    "engine_version",
    "engine_build",
    "profile",
    "options_hash",
    "num_keys",
    "isolation",
    "page_cache_policy",
    "sync_mode",
    "block_bytes",
];

fn header() -> Vec<&'static str> {
    ORIGINAL.iter().chain(&ADDED).map(|column| column.0).collect()
}

/// Whether a file has our columns already; one with others is refused.
pub(crate) fn has_header(path: &Path) -> Result<bool, String> {
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(failed(&error)),
    };
    match text.lines().next() {
        None => Ok(false),
        Some(line) if line == header().join(",") => Ok(true),
        Some(_) => Err(failed(&"holds other columns; results are not mixed into it")),
    }
}

/// Appends all rows to a file.
pub(crate) fn append(path: &Path, set: &ResultSet) -> Result<(), String> {
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let text = rows(set, !has_header(path)?).map_err(|problem| failed(&problem))?;
    let mut file =
        OpenOptions::new().create(true).append(true).open(path).map_err(|error| failed(&error))?;
    let before = file.metadata().map_or(0, |metadata| metadata.len());
    file.write_all(&text).map_err(|error| {
        // Half a row would spoil the rows before it.
        drop(file.set_len(before));
        failed(&error)
    })
}

fn rows(set: &ResultSet, heading: bool) -> Result<Vec<u8>, String> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let failed = |error: csv::Error| error.to_string();
    if heading {
        writer.write_record(header()).map_err(failed)?;
    }
    for run in &set.runs {
        for operation in &run.result.operations {
            let row = Row { set, run, operation };
            let record = ORIGINAL.iter().chain(&ADDED).map(|column| (column.1)(&row));
            writer.write_record(record).map_err(failed)?;
        }
        if run.result.operations.is_empty() {
            let name = run.spec.shape.workload.operation().to_owned();
            let operation = &OperationResult { operation: name, ..OperationResult::default() };
            let row = Row { set, run, operation };
            let record = ORIGINAL.iter().chain(&ADDED).map(|(name, text)| {
                if WITHOUT_RESULTS.contains(name) { text(&row) } else { String::new() }
            });
            writer.write_record(record).map_err(failed)?;
        }
    }
    writer.into_inner().map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests;
