//! Tests of the regression gate on invented sets with known changes.

use super::*;
use crate::report::sample;
use crate::spec::Status;

/// A set with a test per engine whose repetitions have these rates.
fn set(rates: &[(&str, &[f64])]) -> ResultSet {
    let mut set = sample::set();
    set.runs.clear();
    for (engine, rates) in rates {
        for (repetition, rate) in rates.iter().enumerate() {
            let mut run = sample::run("write_random_b1", engine, "write", "PUT");
            run.spec.repetition = repetition as u32;
            run.result.operations = vec![sample::operation("PUT", *rate)];
            set.runs.push(run);
        }
    }
    set
}

const STEADY: [f64; 5] = [1_000.0, 1_005.0, 995.0, 1_002.0, 998.0];

fn scaled(factor: f64) -> Vec<f64> {
    STEADY.iter().map(|rate| rate * factor).collect()
}

fn question() -> Question {
    Question { engine: "tidesdb".to_owned(), control: None, floor: FLOOR }
}

fn throughput_of(answer: &Answer) -> &Change {
    answer.changes.iter().find(|change| change.metric == "throughput").unwrap()
}

#[test]
fn equal_sets_pass() {
    let both = set(&[("tidesdb", &STEADY)]);
    let answer = answer(&both, &both, &[], &question()).unwrap();
    assert!(!answer.fails());
    assert!(answer.changes.len() >= 6, "{:?}", answer.changes);
    assert!(markdown(&answer).contains("**passed**"));
}

#[test]
fn a_drop_of_a_tenth_fails_and_a_rise_passes() {
    let before = set(&[("tidesdb", &STEADY)]);
    let slower = set(&[("tidesdb", &scaled(0.9))]);
    let worse = answer(&before, &slower, &[], &question()).unwrap();
    assert!(worse.fails());
    let change = throughput_of(&worse);
    assert_eq!(change.outcome, Outcome::Regression);
    assert!((change.change + 0.1).abs() < 1e-9);
    assert!(markdown(&worse).contains("| write_random_b1 | throughput | 1K | 900 | -10.0 % |"));
    let parsed: serde_json::Value = serde_json::from_str(&json(&worse).unwrap()).unwrap();
    assert_eq!(parsed["changes"][0]["outcome"], "regression");
    // Latencies fall with a higher rate, and that is better.
    let better = answer(&slower, &before, &[], &question()).unwrap();
    assert!(!better.fails());
    assert_eq!(throughput_of(&better).outcome, Outcome::Improvement);
    let p99 = better.changes.iter().find(|change| change.metric == "p99").unwrap();
    assert_eq!(p99.outcome, Outcome::Improvement);
}

#[test]
fn small_changes_and_noisy_tests_pass() {
    let before = set(&[("tidesdb", &STEADY)]);
    let little = set(&[("tidesdb", &scaled(0.98))]);
    assert!(!answer(&before, &little, &[], &question()).unwrap().fails());
    // A tenth is within twice the span of these repetitions.
    let noisy = set(&[("tidesdb", &[900.0, 1_100.0, 1_000.0, 950.0, 1_050.0])]);
    let slower = set(&[("tidesdb", &scaled(0.9))]);
    let quiet = answer(&noisy, &slower, &[], &question()).unwrap();
    assert_eq!(throughput_of(&quiet).outcome, Outcome::Unchanged);
    // What the history knows of the noise counts as well.
    let remembered = answer(&before, &slower, &[noisy], &question()).unwrap();
    assert_eq!(throughput_of(&remembered).outcome, Outcome::Unchanged);
}

#[test]
fn a_control_that_moved_makes_it_void() {
    let before = set(&[("tidesdb", &STEADY), ("rocksdb", &STEADY)]);
    let after = set(&[("tidesdb", &scaled(0.9)), ("rocksdb", &scaled(0.9))]);
    let question = Question { control: Some("rocksdb".to_owned()), ..question() };
    let moved = answer(&before, &after, &[], &question).unwrap();
    assert!(moved.void.as_ref().unwrap().contains("-10.0 %"));
    assert!(markdown(&moved).contains("**VOID**"));
    let after = set(&[("tidesdb", &scaled(0.9)), ("rocksdb", &scaled(1.01))]);
    let steady = answer(&before, &after, &[], &question).unwrap();
    assert_eq!(steady.void, None);
    assert!(steady.fails());
    let alone = set(&[("tidesdb", &STEADY)]);
    assert!(answer(&alone, &alone, &[], &question).unwrap_err().contains("not in both"));
}

#[test]
fn sets_that_cannot_be_compared_are_refused() {
    let before = set(&[("tidesdb", &STEADY)]);
    let refused = |change: &dyn Fn(&mut ResultSet)| {
        let mut after = before.clone();
        change(&mut after);
        answer(&before, &after, &[], &question()).unwrap_err()
    };
    let problem = refused(&|set| set.environment.host_id = "other".to_owned());
    assert!(problem.contains("different machines"), "{problem}");
    let problem = refused(&|set| set.environment.build = "debug".to_owned());
    assert!(problem.contains("debug build") || problem.contains("other debug"), "{problem}");
    let problem = refused(&|set| set.runs.truncate(4));
    assert!(problem.contains("4 repetitions in the candidate"), "{problem}");
    let problem = refused(&|set| set.runs[0].spec.setup.cache *= 2);
    assert!(problem.contains("options differ"), "{problem}");
    let other = Question { engine: "lmdb".to_owned(), ..question() };
    assert!(answer(&before, &before, &[], &other).unwrap_err().contains("no row of lmdb"));
}

#[test]
fn lost_and_invalid_tests_fail() {
    let before = set(&[("tidesdb", &STEADY)]);
    let mut after = before.clone();
    after.runs[2].result.status = Status::Invalid;
    let invalid = answer(&before, &after, &[], &question()).unwrap();
    assert_eq!(invalid.invalid, ["write_random_b1: INVALID"]);
    assert!(invalid.fails());
    after.runs.clear();
    let missing = answer(&before, &after, &[], &question()).unwrap();
    assert_eq!(missing.missing, ["write_random_b1"]);
    assert!(missing.fails());
}
