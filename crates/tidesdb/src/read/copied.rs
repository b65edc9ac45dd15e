//! Copies of values for callers.

use tidesdb_base::error::{Error, Result};

/// A copy of a value, which may be larger than what the system has left.
///
/// # Errors
/// [`Error::OutOfMemory`].
pub(crate) fn copied(value: &[u8]) -> Result<Vec<u8>> {
    let mut copy = Vec::new();
    copy_into(value, &mut copy)?;
    Ok(copy)
}

/// Appends a copy of a value.
///
/// # Errors
/// As [`copied`]; nothing is appended then.
pub(crate) fn copy_into(value: &[u8], to: &mut Vec<u8>) -> Result<()> {
    to.try_reserve_exact(value.len()).map_err(|_| Error::OutOfMemory("a value"))?;
    to.extend_from_slice(value);
    Ok(())
}
