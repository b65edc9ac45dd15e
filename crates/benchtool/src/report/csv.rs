//! CSV: the 33 columns of TidesDB's benchmark tool first, in its order and spelling, then ours.
//!
//! One line per operation of a row; the columns about resources are repeated on each of them. The
//! header is written only if the file is empty, so that runs can be appended.

use crate::orchestrate::Run;
use crate::spec::{OperationResult, Sync};
use std::fs::OpenOptions;
use std::path::Path;

const ORIGINAL: [&str; 33] = [
    "engine",
    "test_name",
    "operation",
    "ops_per_sec",
    "duration_sec",
    "avg_latency_us",
    "stddev_us",
    "cv_percent",
    "p50_us",
    "p95_us",
    "p99_us",
    "min_us",
    "max_us",
    "peak_rss_mb",
    "peak_vms_mb",
    "disk_read_mb",
    "disk_write_mb",
    "cpu_user_sec",
    "cpu_sys_sec",
    "cpu_percent",
    "db_size_mb",
    "write_amp",
    "read_amp",
    "space_amp",
    "workload",
    "pattern",
    "threads",
    "num_operations",
    "batch_size",
    "key_size",
    "value_size",
    "range_size",
    "sync_enabled",
];
const ADDED: [&str; 24] = [
    "schema",
    "rep",
    "status",
    "engine_version",
    "num_keys",
    "compress_target",
    "latency_unit",
    "p90_us",
    "p999_us",
    "p9999_us",
    "sustained_ops",
    "settle_sec",
    "slowest_second_ops",
    "ops_ok",
    "ops_not_found",
    "verify_errors",
    "keys_expected",
    "keys_visible",
    "anon_mb",
    "write_amp_engine",
    "size_alloc_mb",
    "size_closed_mb",
    "syncs",
    "cache_mb",
];

fn mebibytes(bytes: u64) -> String {
    format!("{:.2}", bytes as f64 / f64::from(1_u32 << 20))
}

fn optional(figure: Option<f64>) -> String {
    figure.map(|figure| format!("{figure:.3}")).unwrap_or_default()
}

fn original(run: &Run, operation: &OperationResult) -> [String; 33] {
    let (spec, result) = (&run.spec, &run.result);
    let shape = &spec.shape;
    let number = |figure: f64| format!("{figure:.3}");
    let wall = (result.duration + result.settle).max(1e-9);
    let variation = operation.stddev_us / operation.average_us.max(1e-9) * 100.0;
    let cpu = (result.cpu_user + result.cpu_system) / wall * 100.0;
    let live = result.keys_expected.max(shape.num) * (shape.key_size + shape.value_size) as u64;
    let returned =
        result.rows.max(operation.operations) * (shape.key_size + shape.value_size) as u64;
    let read_amp = result.read_bytes as f64 / returned.max(1) as f64;
    [
        spec.engine.clone(),
        spec.test.clone(),
        operation.operation.clone(),
        number(operation.per_second),
        number(result.duration),
        number(operation.average_us),
        number(operation.stddev_us),
        number(variation),
        number(operation.p50_us),
        number(operation.p95_us),
        number(operation.p99_us),
        number(operation.min_us),
        number(operation.max_us),
        mebibytes(result.peak_rss),
        mebibytes(result.peak_virtual),
        mebibytes(result.read_bytes),
        mebibytes(result.written_bytes),
        number(result.cpu_user),
        number(result.cpu_system),
        number(cpu),
        mebibytes(result.size_settled),
        optional(result.write_amplification),
        number(read_amp),
        number(result.size_settled as f64 / live.max(1) as f64),
        shape.workload.name().to_owned(),
        shape.pattern.name().to_owned(),
        shape.threads.to_string(),
        operation.operations.to_string(),
        shape.batch.to_string(),
        shape.key_size.to_string(),
        shape.value_size.to_string(),
        shape.range_size.to_string(),
        u8::from(spec.setup.sync == Sync::Full).to_string(),
    ]
}

fn added(run: &Run, operation: &OperationResult) -> [String; 24] {
    let (spec, result) = (&run.spec, &run.result);
    let number = |figure: f64| format!("{figure:.3}");
    let wall = (result.duration + result.settle).max(1e-9);
    [
        "1".to_owned(),
        spec.repetition.to_string(),
        format!("{:?}", result.status).to_uppercase(),
        result.version.clone(),
        spec.shape.num.to_string(),
        spec.shape.compress_ratio.to_string(),
        if spec.shape.batch > 1 { "batch".to_owned() } else { "op".to_owned() },
        number(operation.p90_us),
        number(operation.p999_us),
        number(operation.p9999_us),
        number(operation.operations as f64 / wall),
        number(result.settle),
        optional(result.slowest_second),
        operation.operations.to_string(),
        result.not_found.to_string(),
        result.wrong.to_string(),
        result.keys_expected.to_string(),
        result.keys_visible.map(|keys| keys.to_string()).unwrap_or_default(),
        mebibytes(result.peak_anonymous),
        optional(result.engine_write_amplification),
        mebibytes(result.size_allocated),
        mebibytes(result.size_closed),
        result.log_syncs.map(|syncs| syncs.to_string()).unwrap_or_default(),
        mebibytes(spec.setup.cache),
    ]
}

/// Appends all rows to a file.
pub(crate) fn append(path: &Path, runs: &[Run]) -> Result<(), String> {
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let file =
        OpenOptions::new().create(true).append(true).open(path).map_err(|error| failed(&error))?;
    let empty = file.metadata().map_err(|error| failed(&error))?.len() == 0;
    let mut writer = csv::Writer::from_writer(file);
    if empty {
        let header = ORIGINAL.iter().chain(&ADDED);
        writer.write_record(header).map_err(|error| failed(&error))?;
    }
    for run in runs {
        for operation in &run.result.operations {
            let (first, last) = (original(run, operation), added(run, operation));
            let record = first.iter().chain(&last);
            writer.write_record(record).map_err(|error| failed(&error))?;
        }
    }
    writer.flush().map_err(|error| failed(&error))
}
