//! The descriptors of this process: how many it may have, and which of them no file may have.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use crate::os_calls;

/// Descriptors below this are standard input, output and errors, whatever they lead to.
const FIRST_OWN: i32 = 3;

/// The same open file under a descriptor that is none of the standard ones.
///
/// In a program that has closed these the system gives them to the next files that are opened, and
/// what other code writes to standard output or errors would land in them.
///
/// # Errors
/// The kernel's, if it has no other descriptor; the file is closed then.
pub fn above_standard(file: impl Into<OwnedFd>) -> io::Result<OwnedFd> {
    let file = file.into();
    if file.as_raw_fd() >= FIRST_OWN {
        return Ok(file);
    }
    Ok(rustix::io::fcntl_dupfd_cloexec(&file, FIRST_OWN)?)
}

/// The number of descriptors that the process may have open at a time, as set now; `None` when
/// there is no limit, or the platform does not report one.
#[must_use]
pub fn limit() -> Option<u64> {
    os_calls::descriptor_limit()
}

#[cfg(test)]
mod tests {
    #[test]
    #[cfg(target_os = "linux")]
    fn the_limit_is_the_soft_one() {
        let text = std::fs::read_to_string("/proc/self/limits").unwrap();
        let line = text.lines().find(|line| line.starts_with("Max open files")).unwrap();
        let soft = line.split_whitespace().nth(3).unwrap();
        assert_eq!(super::limit(), soft.parse().ok());
    }
}
