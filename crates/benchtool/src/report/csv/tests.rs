//! Columns and lines of the file.

use super::super::sample;
use super::*;
use crate::spec::JobResult;
use std::collections::BTreeMap;

/// The header of the original tool, as plot scripts expect it.
const EXPECTED: &str = "engine,test_name,operation,ops_per_sec,duration_sec,avg_latency_us,\
    stddev_us,cv_percent,p50_us,p95_us,p99_us,min_us,max_us,peak_rss_mb,peak_vms_mb,\
    disk_read_mb,disk_write_mb,cpu_user_sec,cpu_sys_sec,cpu_percent,db_size_mb,write_amp,\
    read_amp,space_amp,workload,pattern,threads,num_operations,batch_size,key_size,\
    value_size,range_size,sync_enabled,schema,run_id,rep,status,";

#[test]
fn the_original_columns_come_first_and_every_row_has_all() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("out.csv");
    let set = sample::set();
    append(&path, &set).unwrap();
    append(&path, &set).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.starts_with(EXPECTED), "{}", &text[..400]);
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(text.as_bytes());
    let headers = reader.headers().unwrap().clone();
    let operations: usize = set.runs.iter().map(|run| run.result.operations.len()).sum();
    let records: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    assert_eq!(records.len(), 2 * operations);
    assert!(records.iter().all(|record| record.len() == headers.len()));
    // Rows of full scans, whose commas the original tool loses, have every column too.
    assert!(records.iter().any(|record| &record[2] == "ITER"));
}

#[test]
fn known_figures_are_in_their_columns() {
    let mut set = sample::set();
    set.runs.truncate(1);
    let result = &mut set.runs[0].result;
    (result.sorted_runs, result.cache_hits) = (Some(5), Some(0.98));
    let worst = WorstThread { p99_us: 1_250.5, ..WorstThread::default() };
    result.operations[0].worst_thread = Some(worst);
    result.observed.size_flushed = Some(32 << 20);
    result.observed.device = Some(Traffic { read: 1 << 20, written: 60 << 20 });
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("out.csv");
    append(&path, &set).unwrap();
    let mut reader = csv::Reader::from_path(&path).unwrap();
    let row: BTreeMap<String, String> = reader.deserialize().next().unwrap().unwrap();
    let expected = [
        ("engine", "tidesdb"),
        ("operation", "PUT"),
        ("duration_sec", "2.000"),
        ("settle_sec", "0.500"),
        ("peak_rss_mb", "100.00"),
        ("write_amp", "2.000"),
        ("read_amp", ""),
        ("batch_size", "1000"),
        ("latency_unit", "batch"),
        ("sync_enabled", "0"),
        ("db_size_mb", "30.00"),
        ("wal_size_mb", "2.00"),
        ("status", "VALID"),
        ("cache_hit", "0.980"),
        ("sorted_runs", "5"),
        ("ops_failed", "0"),
        ("size_flushed_mb", "32.00"),
        ("size_compacted_mb", ""),
        ("device_write_mb", "60.00"),
        ("device_read_mb", "1.00"),
        ("write_amp_device", "2.400"),
        ("value_kind", "random"),
        ("page_cache_policy", "keep"),
        ("worst_thread_p99_us", "1250.500"),
    ];
    for (column, value) in expected {
        assert_eq!(row[column], value, "{column}");
    }
}

/// A job that died left no line at all.
#[test]
fn a_row_without_results_has_a_line_that_says_so() {
    let mut set = sample::set();
    set.runs.truncate(2);
    set.runs[1].result = JobResult::failed("it died".to_owned());
    let text = String::from_utf8(rows(&set, true).unwrap()).unwrap();
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let lines: Vec<BTreeMap<String, String>> = reader.deserialize().map(Result::unwrap).collect();
    assert_eq!(lines.len(), 2);
    assert!(WITHOUT_RESULTS.iter().all(|name| lines[1].contains_key(*name)));
    for (column, value) in [
        ("test_name", "write_seq_b1000"),
        ("operation", "PUT"),
        ("status", "FAILED"),
        ("ops_per_sec", ""),
        ("duration_sec", ""),
        ("num_operations", ""),
        ("keys_expected", ""),
    ] {
        assert_eq!(lines[1][column], value, "{column}");
    }
}

/// Gets beside batches of puts were called batches, and several gets in a call operations.
#[test]
fn a_latency_is_of_an_operation_a_batch_or_a_row() {
    let mut run = sample::run("any", "tidesdb", "mixed", "PUT");
    run.spec.shape.batch = 1_000;
    let unit = |run: &Run, name: &str| latency_unit(run, &sample::operation(name, 1.0));
    let units = ["PUT", "DELETE", "GET", "SCAN", "RMW", "MULTIGET", "RECOVER", "ITER"]
        .map(|name| unit(&run, name));
    assert_eq!(units, ["batch", "batch", "op", "op", "op", "batch", "op", "row"]);
    run.spec.shape.workload = Workload::DeleteRange;
    assert_eq!(unit(&run, "DELETE"), "op");
    (run.spec.shape.workload, run.spec.shape.batch) = (Workload::Write, 1);
    assert_eq!(unit(&run, "PUT"), "op");
}

#[test]
fn a_file_of_other_columns_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("out.csv");
    fs::write(&path, "a,b\n1,2\n").unwrap();
    assert!(append(&path, &sample::set()).unwrap_err().contains("other columns"));
    assert_eq!(fs::read_to_string(&path).unwrap(), "a,b\n1,2\n");
}

#[test]
fn profiles_come_from_the_engine() {
    assert_eq!(profile("rocksdb"), "parity");
    assert_eq!(profile("rocksdb-tuned"), "tuned");
}
