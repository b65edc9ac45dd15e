//! How the end of a child is taken.

use super::*;

/// A child that Ctrl-C ended before it could handle that was called failed, now and then.
#[test]
fn a_child_ended_by_an_interruption_has_not_failed() {
    let ended = |line: &str| {
        std::process::Command::new("sh").args(["-c", line]).stdin(Stdio::null()).status().unwrap()
    };
    assert!(is_interruption(ended("kill -INT $$; sleep 9")));
    assert!(!is_interruption(ended("kill -KILL $$; sleep 9")));
    assert!(!is_interruption(ended("exit 2")));
    assert!(!is_interruption(ended("true")));
}
