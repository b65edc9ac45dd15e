//! Metrics that reports derive from what a child measured. Pure functions of a job and its result.
//!
//! A metric that does not apply to a row (write amplification of a read, a percentile of seconds
//! when the phase was shorter than one) is `None` and stays empty in every report; it is never 0.

use super::checksums;
use crate::measure::recorder::BUCKET_MILLIS;
use crate::orchestrate::Run;
use crate::spec::{OperationResult, Settle, Workload};

/// Buckets of the rate over time per second.
const PER_SECOND: usize = (1_000 / BUCKET_MILLIS) as usize;
/// A second with less than this share of the median rate is a stall.
const STALL_SHARE: f64 = 0.1;

/// The kernel counts processor time in hundredths of a second; less than ten of them say nothing.
const LEAST_CPU: f64 = 0.1;

fn over(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}

/// Key and value bytes of one record.
pub(crate) fn record_bytes(run: &Run) -> u64 {
    (run.spec.shape.key_size + run.spec.shape.value_size) as u64
}

/// Operations of all kinds that the phase completed.
pub(crate) fn all_operations(run: &Run) -> u64 {
    run.result.operations.iter().map(|operation| operation.operations).sum()
}

/// Seconds that the phase of an operation took. Not all operations of a test have the same: what
/// was written may be read in a second phase, and steps of a family's life follow one another.
pub(crate) fn seconds(run: &Run, operation: &OperationResult) -> f64 {
    over(operation.operations as f64, operation.per_second).unwrap_or(run.result.duration)
}

/// Seconds of all phases that were measured.
fn all_seconds(run: &Run) -> f64 {
    match run.spec.shape.workload {
        Workload::WriteThenRead => run.result.operations.iter().map(|o| seconds(run, o)).sum(),
        _ => run.result.duration,
    }
}

/// Operations per second if the phase had ended when no background work was left.
pub(crate) fn sustained(run: &Run, operation: &OperationResult) -> Option<f64> {
    over(operation.operations as f64, seconds(run, operation) + run.result.settle)
}

/// Operations in each whole second of the phase.
pub(crate) fn per_second(run: &Run) -> Vec<f64> {
    let seconds = run.result.rate.chunks_exact(PER_SECOND);
    seconds.map(|buckets| buckets.iter().sum::<u64>() as f64).collect()
}

/// The rate that 5 % of the seconds stay below; `None` under five seconds.
pub(crate) fn rate_p5(run: &Run) -> Option<f64> {
    let mut rates = per_second(run);
    rates.sort_by(f64::total_cmp);
    (rates.len() >= 5).then(|| rates[rates.len() * 5 / 100])
}

/// The slowest second over the median one: 1 is perfectly even. `None` under five seconds.
pub(crate) fn evenness(run: &Run) -> Option<f64> {
    let rates = per_second(run);
    let median = super::median(rates.clone()).filter(|_| rates.len() >= 5)?;
    over(run.result.slowest_second?, median)
}

/// Seconds with less than a tenth of the median rate.
pub(crate) fn stall_seconds(run: &Run) -> Option<f64> {
    let rates = per_second(run);
    let median = super::median(rates.clone())?;
    Some(rates.iter().filter(|rate| **rate < median * STALL_SHARE).count() as f64)
}

/// Standard deviation of the latency over its mean, in percent.
pub(crate) fn variation(operation: &OperationResult) -> Option<f64> {
    over(operation.stddev_us * 100.0, operation.average_us)
}

/// MiB of keys and values per second: rows for scans, records that were there for gets, records
/// for the rest.
pub(crate) fn mebibytes_per_second(run: &Run, operation: &OperationResult) -> Option<f64> {
    let records = match operation.operation.as_str() {
        "RANGE" | "SCAN" | "ITER" => run.result.rows.max(operation.operations),
        "GET" => operation.operations.saturating_sub(run.result.not_found),
        _ => operation.operations,
    };
    let bytes = match operation.operation.as_str() {
        "DELETE" => run.spec.shape.key_size as u64,
        _ => record_bytes(run),
    };
    over(records as f64 * bytes as f64 / f64::from(1_u32 << 20), seconds(run, operation))
}

/// Live records at the end of the test.
pub(crate) fn live_records(run: &Run) -> u64 {
    if run.spec.shape.workload.mutates() {
        run.result.keys_visible.unwrap_or(run.result.keys_expected)
    } else {
        run.spec.shape.num
    }
}

/// Bytes of data files when settled: all files but the log.
pub(crate) fn settled_data(run: &Run) -> u64 {
    run.result.size_settled.saturating_sub(run.result.observed.log_size_settled)
}

/// Settled bytes of data files per live record.
pub(crate) fn bytes_per_record(run: &Run) -> Option<f64> {
    (run.result.size_settled > 0)
        .then(|| over(settled_data(run) as f64, live_records(run) as f64))
        .flatten()
}

/// Settled bytes of data files over the bytes of live keys and values.
pub(crate) fn space_amplification(run: &Run) -> Option<f64> {
    bytes_per_record(run).and_then(|bytes| over(bytes, record_bytes(run) as f64))
}

/// Bytes read from storage over bytes returned; `None` for tests that do not read.
pub(crate) fn read_amplification(run: &Run) -> Option<f64> {
    let reads = |operation: &&OperationResult| {
        !matches!(operation.operation.as_str(), "PUT" | "DELETE" | "COMMIT")
    };
    let read: u64 = run.result.operations.iter().filter(reads).map(|o| o.operations).sum();
    let found = read.saturating_sub(run.result.not_found);
    let returned = if read == 0 { 0 } else { run.result.rows.max(found) * record_bytes(run) };
    over(run.result.read_bytes as f64, returned as f64)
}

/// Bytes that the device wrote over key and value bytes accepted.
pub(crate) fn device_write_amplification(run: &Run) -> Option<f64> {
    let written = run.result.observed.device?.written;
    over(written as f64, run.result.user_bytes as f64)
}

/// Bytes of all files when everything was merged, for tests that merge everything.
pub(crate) fn compacted_size(run: &Run) -> Option<u64> {
    let shape = &run.spec.shape;
    let merged = shape.workload == Workload::Compact
        || shape.settle == Settle::Compact && shape.workload.mutates();
    merged.then_some(run.result.size_settled)
}

/// Processor seconds, phase and settling.
pub(crate) fn cpu_seconds(run: &Run) -> f64 {
    run.result.cpu_user + run.result.cpu_system
}

/// Processor seconds of the engine's own threads in the phase.
pub(crate) fn background_cpu(run: &Run) -> Option<f64> {
    let observed = &run.result.observed;
    observed.worker_cpu.map(|worker| (observed.phase_cpu - worker).max(0.0))
}

/// Processor seconds if they are many enough to be divided by.
fn countable_cpu(run: &Run) -> Option<f64> {
    Some(cpu_seconds(run)).filter(|seconds| *seconds >= LEAST_CPU)
}

/// Processor time per operation in microseconds, phase and settling.
pub(crate) fn cpu_us_per_operation(run: &Run) -> Option<f64> {
    over(countable_cpu(run)? * 1e6, all_operations(run) as f64)
}

/// Operations per second of processor time.
pub(crate) fn operations_per_cpu_second(run: &Run) -> Option<f64> {
    over(all_operations(run) as f64, countable_cpu(run)?)
}

/// Processor use in percent of one processor.
pub(crate) fn cpu_percent(run: &Run) -> Option<f64> {
    over(cpu_seconds(run) * 100.0, all_seconds(run) + run.result.settle)
}

/// A hash of everything that decides what is measured: shape and settings, not where.
pub(crate) fn options_hash(run: &Run) -> String {
    let mut setup = serde_json::to_value(&run.spec.setup).unwrap_or_default();
    if let Some(options) = setup.as_object_mut() {
        options.retain(|name, _| !name.ends_with("_library"));
    }
    let text = serde_json::to_string(&(&run.spec.shape, &setup)).unwrap_or_default();
    checksums::of_bytes(text.as_bytes()).chars().take(12).collect()
}

/// The cost of the tool per operation, from the null engine's rows of the same test, in
/// nanoseconds of one thread.
pub(crate) fn harness_nanos(set: &super::set::ResultSet, test: &str) -> Option<f64> {
    let costs = set.repetitions(test, "null").filter_map(|run| {
        let busy = all_seconds(run) * run.spec.shape.threads as f64;
        over(busy * 1e9, all_operations(run) as f64)
    });
    super::median(costs.collect())
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;
    use crate::measure::device::Traffic;

    /// A job of 16-byte keys and 84-byte values with two seconds of phase and half of settling.
    fn known() -> Run {
        let mut run = sample::run("write_random_b1", "tidesdb", "write", "PUT");
        run.spec.shape.key_size = 16;
        run.spec.shape.value_size = 84;
        run.result.duration = 2.0;
        run.result.settle = 0.5;
        run.result.operations.truncate(1);
        complete(&mut run, 1_000);
        run
    }

    /// Has the first operation done so many times in the phase.
    fn complete(run: &mut Run, operations: u64) {
        let per_second = operations as f64 / run.result.duration;
        let operation = &mut run.result.operations[0];
        (operation.operations, operation.per_second) = (operations, per_second);
    }

    fn first(run: &Run) -> &OperationResult {
        &run.result.operations[0]
    }

    #[test]
    fn sustained_counts_the_settling() {
        let run = known();
        assert_eq!(sustained(&run, first(&run)), Some(400.0));
    }

    #[test]
    fn rates_stalls_and_their_low_end() {
        let mut run = known();
        run.result.rate = vec![10; 60];
        run.result.rate.extend([0; 10]);
        run.result.rate.extend([7; 9]);
        assert_eq!(per_second(&run), [100.0, 100.0, 100.0, 100.0, 100.0, 100.0, 0.0]);
        assert_eq!(rate_p5(&run), Some(0.0));
        assert_eq!(stall_seconds(&run), Some(1.0));
        run.result.rate.truncate(40);
        assert_eq!(rate_p5(&run), None);
        assert_eq!(stall_seconds(&run), Some(0.0));
        run.result.rate.clear();
        assert_eq!(stall_seconds(&run), None);
    }

    #[test]
    fn evenness_is_the_slowest_second_over_the_median() {
        let mut run = known();
        run.result.rate = vec![20; 60];
        run.result.slowest_second = Some(50.0);
        assert_eq!(evenness(&run), Some(0.25));
        run.result.slowest_second = None;
        assert_eq!(evenness(&run), None);
        run.result.slowest_second = Some(50.0);
        run.result.rate.truncate(40);
        assert_eq!(evenness(&run), None, "four seconds say little");
    }

    #[test]
    fn variation_is_in_percent() {
        let operation =
            OperationResult { average_us: 8.0, stddev_us: 2.0, ..OperationResult::default() };
        assert_eq!(variation(&operation), Some(25.0));
        assert_eq!(variation(&OperationResult::default()), None);
    }

    #[test]
    fn bandwidth_counts_rows_of_scans_and_keys_of_deletes() {
        let mut run = known();
        complete(&mut run, 1 << 20);
        assert_eq!(mebibytes_per_second(&run, first(&run)), Some(50.0));
        run.result.operations[0].operation = "DELETE".to_owned();
        assert_eq!(mebibytes_per_second(&run, first(&run)), Some(8.0));
        run.result.operations[0].operation = "RANGE".to_owned();
        run.result.rows = 10 << 20;
        assert_eq!(mebibytes_per_second(&run, first(&run)), Some(500.0));
    }

    /// They counted the bytes of values that are not there.
    #[test]
    fn absent_keys_return_no_bytes() {
        let mut run = known();
        complete(&mut run, 1 << 20);
        run.result.operations[0].operation = "GET".to_owned();
        run.result.not_found = 3 << 18;
        run.result.read_bytes = 25 << 20;
        assert_eq!(mebibytes_per_second(&run, first(&run)), Some(12.5));
        assert_eq!(read_amplification(&run), Some(1.0));
        run.result.not_found = 1 << 20;
        assert_eq!(mebibytes_per_second(&run, first(&run)), Some(0.0));
        assert_eq!(read_amplification(&run), None);
    }

    /// Gets of what was just written were divided by the seconds of the writes.
    #[test]
    fn a_second_phase_has_seconds_of_its_own() {
        let mut run = known();
        let gets = OperationResult { operation: "GET".to_owned(), ..first(&run).clone() };
        run.result.operations.push(OperationResult { per_second: 125.0, ..gets });
        let gets = &run.result.operations[1];
        assert_eq!((seconds(&run, first(&run)), seconds(&run, gets)), (2.0, 8.0));
        assert_eq!(sustained(&run, gets), Some(1_000.0 / 8.5));
        let bandwidth = mebibytes_per_second(&run, gets).unwrap();
        assert_eq!(bandwidth * 4.0, mebibytes_per_second(&run, first(&run)).unwrap());
        (run.result.cpu_user, run.result.cpu_system) = (10.0, 0.5);
        assert_eq!(cpu_percent(&run), Some(420.0), "the same seconds");
        run.spec.shape.workload = Workload::WriteThenRead;
        assert_eq!(cpu_percent(&run), Some(100.0), "one after the other");
        let mut set = sample::set();
        run.spec.engine = "null".to_owned();
        run.spec.shape.threads = 1;
        set.runs = vec![run.clone()];
        assert_eq!(harness_nanos(&set, "write_random_b1"), Some(5e6));
        run.result.operations[1].per_second = 0.0;
        assert_eq!(seconds(&run, &run.result.operations[1]), 2.0, "of an operation never done");
    }

    #[test]
    fn space_leaves_the_log_out_and_counts_live_records() {
        let mut run = known();
        run.result.keys_expected = 2_000;
        run.result.keys_visible = Some(1_000);
        run.result.size_settled = 60_000;
        run.result.observed.log_size_settled = 10_000;
        assert_eq!(bytes_per_record(&run), Some(50.0));
        assert_eq!(space_amplification(&run), Some(0.5));
        run.result.keys_visible = Some(0);
        assert_eq!(space_amplification(&run), None);
    }

    #[test]
    fn read_amplification_is_empty_for_writers() {
        let mut run = known();
        run.result.read_bytes = 400_000;
        assert_eq!(read_amplification(&run), None);
        run.result.operations[0].operation = "GET".to_owned();
        assert_eq!(read_amplification(&run), Some(4.0));
    }

    #[test]
    fn device_traffic_and_merged_sizes_are_there_where_they_were_asked_for() {
        let mut run = known();
        assert_eq!((device_write_amplification(&run), compacted_size(&run)), (None, None));
        run.result.user_bytes = 1_000;
        run.result.observed.device = Some(Traffic { read: 5, written: 2_500 });
        assert_eq!(device_write_amplification(&run), Some(2.5));
        run.result.size_settled = 77;
        run.spec.shape.settle = Settle::Compact;
        assert_eq!(compacted_size(&run), Some(77));
        (run.spec.shape.settle, run.spec.shape.workload) = (Settle::Idle, Workload::Compact);
        assert_eq!(compacted_size(&run), Some(77));
    }

    #[test]
    fn processor_time_per_operation_and_in_the_background() {
        let mut run = known();
        run.result.cpu_user = 1.5;
        run.result.cpu_system = 0.5;
        run.result.observed.phase_cpu = 1.75;
        run.result.observed.worker_cpu = Some(1.25);
        assert_eq!(cpu_us_per_operation(&run), Some(2_000.0));
        assert_eq!(operations_per_cpu_second(&run), Some(500.0));
        assert_eq!(cpu_percent(&run), Some(80.0));
        assert_eq!(background_cpu(&run), Some(0.5));
        run.result.observed.worker_cpu = None;
        assert_eq!(background_cpu(&run), None);
        (run.result.cpu_user, run.result.cpu_system) = (0.05, 0.04);
        assert_eq!(cpu_us_per_operation(&run), None, "nine ticks of the clock");
    }

    #[test]
    fn the_hash_of_options_ignores_places_only() {
        let run = known();
        let mut other = run.clone();
        other.spec.directory = "elsewhere".into();
        other.spec.setup.rocksdb_library = Some("library".into());
        other.spec.repetition = 7;
        assert_eq!(options_hash(&run), options_hash(&other));
        other.spec.setup.cache += 1;
        assert_ne!(options_hash(&run), options_hash(&other));
    }

    #[test]
    fn the_cost_of_the_tool_is_the_null_engine() {
        let mut set = sample::set();
        assert_eq!(harness_nanos(&set, "write_random_b1"), None);
        let mut null = known();
        null.spec.engine = "null".to_owned();
        null.spec.shape.threads = 2;
        null.result.operations[0].operations = 80_000_000;
        set.runs.push(null);
        assert_eq!(harness_nanos(&set, "write_random_b1"), Some(50.0));
    }
}
