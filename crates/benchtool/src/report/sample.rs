//! A small invented result set for the tests of the reports: three engines, a few tests each, with
//! wins, ties, losses, an invalid row and a failed one.

use super::set::{EngineNote, ResultSet, SCHEMA};
use crate::measure::observed::Step;
use crate::measure::timeline::Timeline;
use crate::orchestrate::Run;
use crate::spec::{JobResult, JobSpec, OperationResult, Pattern, Status, Sync, Workload};
use crate::suites;
use clap::ValueEnum;

/// A valid run with invented but consistent results.
pub(crate) fn run(test: &str, engine: &str, workload: &str, operation: &str) -> Run {
    let base = suites::tests("compare", suites::Profile::Quick, 1.0).remove(0);
    let mut shape = base.shape;
    shape.workload = Workload::from_str(workload, true).unwrap();
    // Through its written form, in which fields for other purposes may be left out.
    let spec = serde_json::json!({
        "test": test,
        "engine": engine,
        "repetition": 0,
        "shape": shape,
        "setup": base.setup,
        "directory": "data",
        "loaded": false,
    });
    let spec: JobSpec = serde_json::from_value(spec).unwrap();
    let result = JobResult {
        status: Status::Valid,
        version: "1.2.3".to_owned(),
        operations: vec![self::operation(operation, 100_000.0)],
        duration: 2.0,
        settle: 0.5,
        peak_rss: 100 << 20,
        peak_virtual: 900 << 20,
        written_bytes: 50 << 20,
        user_bytes: 25 << 20,
        write_amplification: Some(2.0),
        cpu_user: 1.5,
        cpu_system: 0.25,
        size_settled: 30 << 20,
        size_allocated: 31 << 20,
        size_closed: 30 << 20,
        keys_expected: 300_000,
        keys_visible: Some(300_000),
        rate: (0..40).map(|tenth| if tenth == 25 { 0 } else { 10_000 }).collect(),
        ..JobResult::default()
    };
    Run { spec, result }
}

/// An operation of so many calls per second.
pub(crate) fn operation(name: &str, per_second: f64) -> OperationResult {
    let average_us = 1e6 / per_second;
    OperationResult {
        operation: name.to_owned(),
        operations: (per_second * 2.0) as u64,
        per_second,
        average_us,
        stddev_us: average_us / 2.0,
        min_us: average_us / 4.0,
        p50_us: average_us * 0.9,
        p90_us: average_us * 1.5,
        p95_us: average_us * 2.0,
        p99_us: average_us * 4.0,
        p999_us: average_us * 20.0,
        p9999_us: average_us * 80.0,
        max_us: average_us * 200.0,
        worst_thread: None,
        histogram: vec![
            Step { us: average_us * 0.9, count: 500 },
            Step { us: average_us * 4.0, count: 490 },
            Step { us: average_us * 20.0, count: 9 },
            Step { us: average_us * 200.0, count: 1 },
        ],
    }
}

/// Test, workload, pattern, operations, batch, threads, and thousand operations a second of
/// tidesdb, rocksdb and lmdb.
type Row = (&'static str, &'static str, &'static str, &'static [&'static str], u64, u64, [f64; 3]);

const ROWS: [Row; 14] = [
    ("write_seq_b1000", "write", "seq", &["PUT"], 1_000, 2, [1_777.0, 819.0, 300.0]),
    ("write_random_b1", "write", "random", &["PUT"], 1, 2, [952.0, 180.0, 90.0]),
    ("write_random_b10", "write", "random", &["PUT"], 10, 2, [900.0, 210.0, 100.0]),
    ("write_random_b100", "write", "random", &["PUT"], 100, 2, [850.0, 230.0, 110.0]),
    ("write_random_b1000", "write", "random", &["PUT"], 1_000, 2, [595.0, 620.0, 120.0]),
    ("read_random", "read", "random", &["GET"], 1, 2, [138.0, 83.0, 700.0]),
    ("mixed_random", "mixed", "uniform", &["PUT", "GET"], 1, 2, [200.0, 90.0, 60.0]),
    ("delete_b1", "delete", "random", &["DELETE"], 1, 2, [300.0, 520.0, 80.0]),
    ("seek_random", "seek", "random", &["SEEK"], 1, 2, [135.0, 26.0, 500.0]),
    ("range_100", "range", "random", &["RANGE"], 1, 2, [22.2, 9.0, 60.0]),
    ("iter_fwd", "iter", "seq", &["ITER"], 1, 1, [3_919.0, 1_241.0, 8_000.0]),
    ("sync_b1_t2", "write", "random", &["PUT"], 1, 2, [4.0, 2.1, 0.5]),
    ("sync_b1_t8", "write", "random", &["PUT"], 1, 8, [9.6, 4.4, 0.5]),
    ("write_random_b1_t4", "write", "random", &["PUT"], 1, 4, [1_200.0, 190.0, 88.0]),
];

/// The set: three repetitions of everything.
pub(crate) fn set() -> ResultSet {
    let engines = ["tidesdb", "rocksdb", "lmdb"];
    let mut runs = Vec::new();
    for row in &ROWS {
        for repetition in 0..3 {
            for (engine, rate) in engines.iter().zip(row.6) {
                runs.push(repetition_of(row, engine, rate, repetition));
            }
        }
    }
    let note = |name: &str, not_equal: &str| EngineNote {
        name: name.to_owned(),
        version: "1.2.3".to_owned(),
        not_equal: not_equal.to_owned(),
    };
    ResultSet {
        schema: SCHEMA,
        command: vec!["suite".to_owned(), "core".to_owned()],
        environment: super::environment::Environment {
            host_id: "0123456789ab".to_owned(),
            cpu: "A processor <invented>".to_owned(),
            build: "release".to_owned(),
            finished_unix: 1_735_689_599,
            ..Default::default()
        },
        engines: vec![
            note("tidesdb", "linked with mimalloc"),
            note("rocksdb", "malloc of the C library"),
            note("lmdb", "no log"),
        ],
        runs,
        unfinished: 0,
    }
}

fn repetition_of(row: &Row, engine: &str, rate: f64, repetition: u32) -> Run {
    let (test, workload, pattern, operations, batch, threads, _) = *row;
    let mut run = run(test, engine, workload, operations[0]);
    run.spec.repetition = repetition;
    run.spec.shape.pattern = Pattern::from_str(pattern, true).unwrap();
    run.spec.shape.batch = batch;
    run.spec.shape.threads = threads;
    if test.starts_with("sync") {
        run.spec.setup.sync = Sync::Full;
    }
    let noise = 1.0 + (f64::from(repetition) - 1.0) * 0.03;
    let per_second = rate * 1_000.0 * noise;
    run.result.operations = operations.iter().map(|name| operation(name, per_second)).collect();
    let rates = [1.0, 1.2, 0.9, 0.05, 1.1];
    run.result.rate = (0..50).map(|tenth| (per_second / 10.0 * rates[tenth / 10]) as u64).collect();
    let mut memory = Timeline::new(0.1);
    for step in 0..50_u64 {
        memory.push((40 + step * 2) << 20);
    }
    run.result.observed.memory = memory;
    run.result.observed.phase_start = 1.0;
    run.result.observed.phase_end = 4.0;
    run.result.observed.size_phase_end = 45 << 20;
    run.result.observed.log_size_settled = 2 << 20;
    run
}
