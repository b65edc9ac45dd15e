//! Why the persisted form of what stays in memory was not decoded.

use tidesdb_base::Error;
use tidesdb_base::codec::Malformed;
use tidesdb_sys::large_vec::NoMemory;

/// A want of memory is no damage: the same bytes may be decoded later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DecodeError {
    Malformed,
    NoMemory,
}

impl From<Malformed> for DecodeError {
    fn from(_: Malformed) -> Self {
        Self::Malformed
    }
}

impl From<NoMemory> for DecodeError {
    fn from(_: NoMemory) -> Self {
        Self::NoMemory
    }
}

impl DecodeError {
    /// The error of a call, which is `malformed` for bytes that are damaged.
    pub(crate) fn or(self, malformed: impl FnOnce() -> Error) -> Error {
        match self {
            Self::Malformed => malformed(),
            Self::NoMemory => NoMemory.into(),
        }
    }
}

/// What was decoded of a section that is there, if it is not damaged.
///
/// # Errors
/// [`Error::OutOfMemory`].
pub(crate) fn decoded<T>(
    section: Option<Result<T, DecodeError>>,
) -> tidesdb_base::Result<Option<T>> {
    match section {
        Some(Err(DecodeError::NoMemory)) => Err(NoMemory.into()),
        Some(Err(DecodeError::Malformed)) | None => Ok(None),
        Some(Ok(decoded)) => Ok(Some(decoded)),
    }
}
