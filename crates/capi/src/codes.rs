//! The return codes, and which error of the engine becomes which.

use std::ffi::c_int;
use std::io;

use tidesdb::{Error, ErrorKind};

pub const SUCCESS: c_int = 0;
pub const MEMORY: c_int = -1;
pub const INVALID: c_int = -2;
pub const NOT_FOUND: c_int = -3;
pub const IO: c_int = -4;
pub const CORRUPTION: c_int = -5;
pub const EXISTS: c_int = -6;
pub const CONFLICT: c_int = -7;
pub const TOO_LARGE: c_int = -8;
pub const MEMORY_LIMIT: c_int = -9;
pub const INVALID_DB: c_int = -10;
pub const LOCKED: c_int = -12;
pub const READONLY: c_int = -13;
pub const BUSY: c_int = -14;
pub const PRECONDITION: c_int = -15;

/// The code of an error.
pub fn of(error: &Error) -> c_int {
    match error {
        Error::TooLarge { .. } => return TOO_LARGE,
        Error::OutOfMemory(_) => return MEMORY,
        // Something is there, in a format that is not known.
        Error::NotADatabase { .. } => return CORRUPTION,
        Error::FamilyDropped(_) => return NOT_FOUND,
        // It had no effect, and works once the process or another one has closed some files.
        Error::Io { source, .. } if is_without_descriptors(source) => return BUSY,
        _ => {}
    }
    match error.kind() {
        ErrorKind::Invalid => INVALID,
        ErrorKind::NotFound => NOT_FOUND,
        ErrorKind::Exists => EXISTS,
        ErrorKind::Locked => LOCKED,
        ErrorKind::Corruption => CORRUPTION,
        ErrorKind::ReadOnly => READONLY,
        ErrorKind::Closed | ErrorKind::Forked => INVALID_DB,
        ErrorKind::Conflict => CONFLICT,
        ErrorKind::Stalled => BUSY,
        // Of those that callers may not repeat the call for, the most general: a defect of the
        // engine must not have them try again and again.
        _ => IO,
    }
}

/// Whether the process, or the machine, has as many files open as it may.
fn is_without_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}
