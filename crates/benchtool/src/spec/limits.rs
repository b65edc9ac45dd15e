//! What numbers a test may have, checked before anything is started, and again by the child.
//!
//! The bounds keep a slip of the finger from exhausting the machine: a thread, a family or the
//! bytes of one batch each cost memory at once. They are far beyond what is measured.
//! Combinations that cannot mean anything are refused here too.

use super::{Pace, Setup, Shape, Workload};
use std::fmt::Display;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
/// Bytes that a thread prepares at once: a batch, or the keys of a multi-get.
const PREPARED_BYTES: u64 = 8 * GIB;
const LONGEST_SECONDS: f64 = 1e8;

/// Name of an option, its value, the least and the largest allowed one.
type Bound<T> = (&'static str, T, T, T);

fn outside<T: PartialOrd + Display + Copy>(bounds: &[Bound<T>]) -> Option<String> {
    // Not a number is outside, too.
    let found = bounds.iter().find(|(_, value, least, most)| !(*least..=*most).contains(value));
    found.map(|(name, value, least, most)| {
        format!("{name} must be from {least} to {most}, not {value}")
    })
}

/// Why a test is impossible, if it is.
pub(crate) fn problem_of_shape(shape: &Shape) -> Option<String> {
    numbers_of(shape)
        .or_else(|| outside(&fractions_of(shape)))
        .or_else(|| contradiction(shape).map(str::to_owned))
}

fn numbers_of(shape: &Shape) -> Option<String> {
    let record = (shape.key_size as u64).saturating_add(shape.value_size as u64);
    let bounds = [
        ("--num", shape.num, 1, 1 << 44),
        ("--spare", shape.spare, 0, 1 << 44),
        ("--threads", shape.threads, 1, 1_024),
        ("--key-size", shape.key_size as u64, 1, 64 * KIB),
        ("--value-size", shape.value_size as u64, 0, 2 * GIB),
        ("--families", shape.families, 1, 100_000),
        ("--batch", shape.batch, 1, 100_000_000),
        ("--range-size", shape.range_size, 1, 1 << 32),
        ("--txn-size", shape.txn_size, 1, 10_000_000),
        ("--missing-pct", shape.missing, 0, 100),
    ];
    outside(&bounds).or_else(|| {
        let keys = if shape.workload == Workload::Multiget { shape.range_size } else { 0 };
        let largest = shape.batch.max(keys).saturating_mul(record);
        // One huge value is a batch, too.
        (shape.batch.max(keys) > 1 && largest > PREPARED_BYTES)
            .then(|| format!("a batch of {largest} bytes is more than {PREPARED_BYTES}"))
    })
}

fn fractions_of(shape: &Shape) -> [Bound<f64>; 7] {
    let Pace { rate, warmup_seconds, .. } = shape.pace;
    [
        ("--compress-ratio", shape.compress_ratio, 0.0, 1.0),
        ("--theta", shape.skew.theta, 1e-9, 100.0),
        ("--exp-range", shape.skew.exponent, 1e-9, 1e6),
        ("--hotspot", shape.skew.hot_set.min(shape.skew.hot_operations), 0.0, 1.0),
        ("--seconds", shape.seconds.unwrap_or(0.0), 0.0, LONGEST_SECONDS),
        ("--rate", rate.unwrap_or(1.0), 1e-6, 1e12),
        ("--warmup-sec", warmup_seconds, 0.0, LONGEST_SECONDS),
    ]
}

fn contradiction(shape: &Shape) -> Option<&'static str> {
    let keyed = matches!(
        shape.workload,
        Workload::Write | Workload::Read | Workload::Overwrite | Workload::Delete
    );
    let many = shape.families > 1 && shape.workload != Workload::Families;
    if many && (shape.batch > 1 || !keyed) {
        Some("several families go with single writes, reads, overwrites and deletes only")
    } else if shape.in_transactions
        && !matches!(shape.workload, Workload::Write | Workload::Overwrite)
    {
        Some("only batches of writes and overwrites can be committed as transactions")
    } else if shape.mix.reads().is_none() {
        Some("the shares of a mixed workload are more than 100 percent")
    } else if shape.writers >= shape.threads && shape.writers > 0 {
        Some("with threads that only write there must be others")
    } else if (shape.skew.theta - 1.0).abs() < 1e-9 {
        Some("the exponent of a Zipfian pattern must be positive and not 1")
    } else {
        None
    }
}

/// Why no engine can be set up like that, if none can.
pub(crate) fn problem_of_setup(setup: &Setup) -> Option<String> {
    outside(&[
        ("--cache", setup.cache, 0, 1 << 50),
        ("--memtable", setup.memtable, 64 * KIB, 1 << 40),
        ("--memtable-count", u64::from(setup.memtable_count), 1, 10_000),
        ("--block", setup.block, 256, 256 * MIB),
        ("--bloom-bits", u64::from(setup.bloom_bits), 0, 100),
        ("--background-threads", u64::from(setup.background_threads), 1, 1_024),
        ("--sync-interval-us", setup.sync_interval_us, 1, 3_600_000_000),
        ("--mem-limit", setup.memory_limit.unwrap_or(GIB), 16 * MIB, 1 << 50),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{Mix, Skew};

    #[test]
    fn defaults_are_possible_and_bounds_are_named() {
        assert_eq!(problem_of_shape(&Shape::default()), None);
        assert_eq!(problem_of_setup(&Setup::default()), None);
        let none = Shape { threads: 0, ..Shape::default() };
        let said = problem_of_shape(&none).unwrap();
        assert_eq!(said, "--threads must be from 1 to 1024, not 0");
        let setup = Setup { background_threads: 0, ..Setup::default() };
        assert!(problem_of_setup(&setup).unwrap().starts_with("--background-threads"));
    }

    #[test]
    fn what_would_exhaust_the_machine_is_refused() {
        let base = Shape::default();
        for shape in [
            Shape { num: 0, ..base.clone() },
            Shape { threads: 1 << 20, ..base.clone() },
            Shape { batch: u64::MAX, ..base.clone() },
            Shape { batch: 50_000_000, value_size: 1 << 20, ..base.clone() },
            Shape { range_size: 1 << 31, workload: Workload::Multiget, ..base.clone() },
            Shape { key_size: 0, ..base.clone() },
            Shape { value_size: usize::MAX, ..base.clone() },
            Shape { compress_ratio: f64::NAN, ..base.clone() },
            Shape { seconds: Some(f64::INFINITY), ..base.clone() },
            Shape { pace: Pace { rate: Some(1e-300), ..Pace::default() }, ..base.clone() },
            Shape { skew: Skew { theta: 1.0, ..base.skew }, ..base.clone() },
            Shape { mix: Mix::updates(101), ..base.clone() },
            Shape { writers: 1, ..base.clone() },
            Shape { families: 3, batch: 2, ..base.clone() },
        ] {
            assert!(problem_of_shape(&shape).is_some(), "{shape:?}");
        }
        let huge = Shape { value_size: 1 << 30, num: 10, ..base };
        assert_eq!(problem_of_shape(&huge), None, "a suite has this");
    }
}
