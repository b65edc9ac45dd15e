//! How the end of a child is taken.

use super::process::is_interruption;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

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
