//! How the end of a child is taken.

use super::process::is_interruption;
use super::{in_turn, without_allocator};
use crate::suites;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// Rows of `suite alloc` were measured with another allocator than the one that they name.
#[test]
fn a_test_of_an_allocator_that_is_not_there_is_skipped() {
    let mut tests = suites::tests("alloc", suites::Profile::Quick, 1.0).into_iter();
    let mut test = tests.find(|test| test.name == "jemalloc_read").unwrap();
    for (preload, missing) in [(None, true), (Some("libjemalloc.so".into()), false)] {
        test.setup.preload = preload;
        let reason = without_allocator(&test, "rocksdb");
        assert_eq!(reason.is_some_and(|text| text.contains("no library of jemalloc")), missing);
        let linked =
            without_allocator(&test, "tidesdb").is_some_and(|text| text.contains("linked"));
        assert_eq!(linked, !cfg!(feature = "system-allocator"));
    }
    let test = tests.find(|test| test.name == "mimalloc_read").unwrap();
    assert_eq!(
        without_allocator(&test, "tidesdb").is_some(),
        cfg!(feature = "system-allocator") && test.setup.preload.is_none()
    );
    let mut tests = suites::tests("alloc", suites::Profile::Quick, 1.0).into_iter();
    let test = tests.find(|test| test.name == "glibc_read").unwrap();
    assert_eq!(without_allocator(&test, "rocksdb"), None);
}

/// With one repetition ours came first in every test.
#[test]
fn each_engine_comes_first_in_half_of_the_tests_and_repetitions() {
    let engines = ["a", "b", "c"].map(str::to_owned);
    let first = |test, repetition| in_turn(&engines, test, repetition)[0].as_str();
    assert_eq!([first(0, 0), first(1, 0), first(2, 0), first(3, 0)], ["a", "c", "a", "c"]);
    assert_eq!([first(0, 0), first(0, 1), first(0, 2)], ["a", "c", "a"]);
    assert_eq!([first(1, 0), first(1, 1), first(1, 2)], ["c", "a", "c"]);
}

/// A child that Ctrl-C ended before it could handle that was called failed, now and then. The
/// statuses are made here: a shell that was started with the signal ignored can't be ended by it.
#[test]
fn a_child_ended_by_an_interruption_has_not_failed() {
    const SIGINT: i32 = 2;
    const SIGKILL: i32 = 9;
    let by_signal = ExitStatus::from_raw;
    let by_itself = |code: i32| ExitStatus::from_raw(code << 8);
    assert!(is_interruption(by_signal(SIGINT)));
    assert!(!is_interruption(by_signal(SIGKILL)));
    assert!(!is_interruption(by_itself(2)));
    assert!(!is_interruption(by_itself(0)));
}
