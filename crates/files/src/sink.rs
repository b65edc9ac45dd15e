//! Where encoded bytes go: small ones to a vector, those of a whole section to mapped memory.

use std::ops::Deref;

use tidesdb_sys::large_vec::LargeVec;

/// Bytes that are added to.
pub(crate) trait Sink: Deref<Target = [u8]> {
    /// Adds bytes.
    fn put(&mut self, bytes: &[u8]);
}

impl Sink for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

impl Sink for LargeVec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}
