//! The descriptors of this process: how many it may have, and which of them no file may have.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::retry_on_intr;
use rustix::stdio::{stderr, stdin, stdout};

use crate::os_calls;

/// Descriptors below this are standard input, output and errors, whatever they lead to.
const FIRST_OWN: i32 = 3;

/// Calls `work` so that no file which it opens has a standard descriptor.
///
/// In a program that has closed these the system gives them to the next files that are opened, and
/// what other code writes to standard output or errors would land in them: also in the moment
/// between an opening and a duplication. So what can be neither read nor written takes those that
/// are free, and keeps them. It is not closed again: the program may have put something else in its
/// place meanwhile, and another thread may count on it. `dup2`, and `close` with `open`, put a file
/// there as ever.
pub fn beside_standard<R>(work: impl FnOnce() -> R) -> R {
    if !standard_are_open() {
        take_standard();
    }
    work()
}

/// Opens a file with `open`, under a descriptor that is none of the standard ones: see
/// [`beside_standard`].
///
/// # Errors
/// Those of `open`, and the kernel's, if it has no other descriptor; the file is closed then.
pub fn open_above_standard<F: Into<OwnedFd>>(
    open: impl FnOnce() -> io::Result<F>,
) -> io::Result<OwnedFd> {
    let file = beside_standard(open)?.into();
    // Another thread may have closed a standard one since.
    if file.as_raw_fd() >= FIRST_OWN {
        return Ok(file);
    }
    Ok(rustix::io::fcntl_dupfd_cloexec(&file, FIRST_OWN)?)
}

/// Opens a file for reading in that way.
///
/// # Errors
/// As above.
pub fn open_for_reading(path: impl AsRef<Path>) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let open = || rustix::fs::open(path.as_ref(), flags, Mode::empty());
    Ok(open_above_standard(|| Ok(retry_on_intr(open)?))?.into())
}

fn standard_are_open() -> bool {
    [stdin(), stdout(), stderr()].into_iter().all(|one| rustix::io::fcntl_getfd(one).is_ok())
}

/// Gives each free standard descriptor to a file of which a read or a write returns the error of a
/// closed one.
fn take_standard() {
    let unusable = OFlags::PATH | OFlags::CLOEXEC;
    // Without a descriptor for it there is none for a file.
    while let Ok(taken) = rustix::fs::open("/", unusable, Mode::empty()) {
        if taken.as_raw_fd() >= FIRST_OWN {
            break;
        }
        std::mem::forget(taken);
    }
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
