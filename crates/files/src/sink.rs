//! Where encoded bytes go: small ones to a vector, those of a whole section to mapped memory.

use std::ops::Deref;

use tidesdb_sys::large_vec::{LargeVec, NoMemory};

/// Bytes that are added to.
pub(crate) trait Sink: Deref<Target = [u8]> {
    /// Adds bytes: all, or none.
    ///
    /// # Errors
    /// [`NoMemory`].
    fn put(&mut self, bytes: &[u8]) -> Result<(), NoMemory>;
}

impl Sink for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) -> Result<(), NoMemory> {
        self.try_reserve(bytes.len()).map_err(|_| NoMemory)?;
        self.extend_from_slice(bytes);
        Ok(())
    }
}

impl Sink for LargeVec<u8> {
    fn put(&mut self, bytes: &[u8]) -> Result<(), NoMemory> {
        self.extend_from_slice(bytes)
    }
}
