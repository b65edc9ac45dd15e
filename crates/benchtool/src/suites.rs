//! Suites: named lists of tests, as data.
//!
//! A row gives only what differs from [`BASE`]; sizes and time limits are multiplied by the scale. Tests
//! that read share one loaded database per engine and data set, which the orchestrator loads first (and
//! reports as a row of its own).

use crate::cli::default_setup;
use crate::data::keys::Layout;
use crate::orchestrate::Test;
use crate::spec::{Pattern, Setup, Shape, Sync, Workload};

/// Names of all suites.
pub(crate) const NAMES: [&str; 2] = ["core", "compare"];

/// One row of a suite.
#[derive(Debug, Clone, Copy)]
struct Row {
    name: &'static str,
    workload: Workload,
    pattern: Pattern,
    /// Thousands of records.
    thousands: u64,
    threads: u64,
    batch: u64,
    cache_mib: u64,
    sync: Sync,
    seconds: Option<f64>,
    warm: bool,
}

const BASE: Row = Row {
    name: "",
    workload: Workload::Write,
    pattern: Pattern::Random,
    thousands: 5_000,
    threads: 1,
    batch: 1,
    cache_mib: 64,
    sync: Sync::None,
    seconds: None,
    warm: false,
};

const READ: Row = Row { workload: Workload::Read, seconds: Some(5.0), ..BASE };
/// Everything in the block cache.
const CACHED: Row = Row { cache_mib: 2_048, warm: true, ..READ };

/// The rows that the engine is measured by.
const CORE: [Row; 19] = [
    Row { name: "write_random_b1_t1", thousands: 2_000, ..BASE },
    Row { name: "write_random_b1_t2", thousands: 2_000, threads: 2, ..BASE },
    Row { name: "write_random_b1000_t1", batch: 1_000, ..BASE },
    Row { name: "write_random_b1000_t2", batch: 1_000, threads: 2, ..BASE },
    Row { name: "write_seq_b1_t1", pattern: Pattern::Seq, thousands: 2_000, ..BASE },
    Row { name: "write_seq_b1000_t1", pattern: Pattern::Seq, batch: 1_000, ..BASE },
    Row { name: "read_64m_t1", ..READ },
    Row { name: "read_64m_t2", threads: 2, ..READ },
    Row { name: "read_cached_t1", ..CACHED },
    Row { name: "seek_64m_t1", workload: Workload::Seek, ..READ },
    Row { name: "seek_cached_t1", workload: Workload::Seek, ..CACHED },
    Row { name: "range100_64m_t1", workload: Workload::Range, ..READ },
    Row { name: "range100_cached_t1", workload: Workload::Range, ..CACHED },
    Row { name: "iter_t1", workload: Workload::Iter, ..READ },
    Row { name: "mixed_b1_t2", workload: Workload::Mixed, threads: 2, ..READ },
    Row { name: "delete_b1_t2", workload: Workload::Delete, threads: 2, seconds: None, ..READ },
    Row {
        name: "sync_b1_t8",
        thousands: 1_000,
        threads: 8,
        sync: Sync::Full,
        seconds: Some(5.0),
        ..BASE
    },
    Row {
        name: "write_zipfian_b1000_t2",
        pattern: Pattern::Zipfian,
        batch: 1_000,
        threads: 2,
        ..BASE
    },
    Row { name: "load_10m_b1000_t2", thousands: 10_000, batch: 1_000, threads: 2, ..BASE },
];

const SHORT: Row = Row { thousands: 300, seconds: Some(1.5), ..BASE };

/// A minute for everybody who has just built the tool.
const COMPARE: [Row; 7] = [
    Row { name: "write, one by one", ..SHORT },
    Row { name: "get", workload: Workload::Read, ..SHORT },
    Row { name: "seek", workload: Workload::Seek, ..SHORT },
    Row { name: "range of 100", workload: Workload::Range, ..SHORT },
    Row { name: "full scan, rows", workload: Workload::Iter, seconds: Some(0.7), ..SHORT },
    Row { name: "get and put mixed, 2 threads", workload: Workload::Mixed, threads: 2, ..SHORT },
    Row { name: "delete, one by one", workload: Workload::Delete, ..SHORT },
];

/// The tests of a suite; none if there is no such suite.
pub(crate) fn tests(name: &str, scale: f64) -> Vec<Test> {
    let rows: &[Row] = match name {
        "core" => &CORE,
        "compare" => &COMPARE,
        _ => &[],
    };
    rows.iter().map(|row| test(row, scale)).collect()
}

fn test(row: &Row, scale: f64) -> Test {
    let num = ((row.thousands * 1_000) as f64 * scale).max(1_000.0) as u64;
    Test {
        name: row.name.to_owned(),
        shape: Shape {
            workload: row.workload,
            pattern: row.pattern,
            num,
            threads: row.threads,
            batch: row.batch,
            key_size: 16,
            value_size: 100,
            range_size: 100,
            write_percent: 50,
            layout: Layout::Scattered,
            compress_ratio: 0.5,
            theta: 0.99,
            reverse: false,
            operations: None,
            seconds: row.seconds.map(|seconds| seconds * scale.min(1.0)),
            warm: row.warm,
            seed: 42,
        },
        setup: Setup { cache: row.cache_mib << 20, sync: row.sync, ..default_setup() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn suites_have_distinct_tests_that_end() {
        for name in NAMES {
            let tests = tests(name, 0.01);
            let names: BTreeSet<&str> = tests.iter().map(|test| test.name.as_str()).collect();
            assert_eq!(names.len(), tests.len(), "{name}");
            for test in &tests {
                let bounded = test.shape.seconds.is_some()
                    || matches!(test.shape.workload, Workload::Write | Workload::Delete);
                assert!(bounded, "{name} {}", test.name);
            }
        }
        assert!(tests("nothing", 1.0).is_empty());
    }
}
