//! What the deletion of a key would free on disk.

use tidesdb_base::entry::{SequenceNumber, ValueKind};
use tidesdb_base::error::Result;
use tidesdb_lockfree::stripe::ThisThread;

use super::get::Get;
use crate::core::Core;
use crate::family::FamilyState;
use crate::version::{Version, decode_pointer};

impl Core {
    /// Bytes that tables and value logs of a version hold of a stored key, by its newest version
    /// there; 0 when there is none, or that is deleted. It counts as no get.
    ///
    /// # Errors
    /// `Corruption` or `Io` when a table can't be read.
    pub(crate) fn bytes_in_tables(
        &self,
        family: &FamilyState,
        version: &Version,
        key: &[u8],
    ) -> Result<u64> {
        let (get, newest) = (Get::new(self, family, key, None), SequenceNumber::MAX);
        let found = get.find_in_tables(version, newest, ThisThread::get())?;
        let Some(found) = found else { return Ok(0) };
        let meta = found.meta();
        if meta.kind.is_tombstone() || version.range_tombstones.hides(key, meta.seq, newest) {
            return Ok(0);
        }
        let value = match meta.kind {
            ValueKind::ValuePointer => {
                u64::from(decode_pointer(version, found.value())?.stored_len)
            }
            _ => found.value().len() as u64,
        };
        Ok(key.len() as u64 + value)
    }
}
