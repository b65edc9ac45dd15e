//! Stored records that were read before they were asked for.
//!
//! Values that a flush wrote lie in key order, so a scan meets those of one file in the order in
//! which they lie, though values of other files come between. It keeps one of these for each file.
//! What lies here is checked like what is read, each time that it is asked for. One thread.

use tidesdb_sys::large_vec::LargeVec;

use super::ValuePointer;
use super::reader::LARGEST_PIECE_BYTES;

/// Records of one file that a scan has read before it asked for them.
#[derive(Debug, Default)]
pub struct RecordReadahead {
    pub(super) bytes: LargeVec<u8>,
    pub(super) file: u64,
    pub(super) start: u64,
    pub(super) len: usize,
    /// Where the last record that was asked for ends.
    pub(super) next: u64,
    /// Bytes of the last read; 0 when it was for one record.
    pub(super) piece: usize,
}

/// Records that are not asked for any more, between two that are asked for in order.
const LARGEST_GAP_BYTES: u64 = 4 << 10;

impl RecordReadahead {
    /// Bytes of memory held at most.
    pub const MOST_BYTES: usize = LARGEST_PIECE_BYTES;

    /// Bytes of memory held.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// Forgets all records and keeps the memory.
    pub fn clear(&mut self) {
        (self.len, self.next, self.piece) = (0, 0, 0);
    }

    /// Whether the record lies behind the last one, with little between them.
    pub(super) fn follows(&self, pointer: &ValuePointer) -> bool {
        let gap = pointer.offset.checked_sub(self.next);
        self.next > 0 && gap.is_some_and(|gap| gap <= LARGEST_GAP_BYTES)
    }

    /// The bytes of the record if they are here.
    pub(super) fn record(&self, pointer: &ValuePointer, file: u64) -> Option<&[u8]> {
        if self.len == 0 || self.file != file || pointer.file != file {
            return None;
        }
        let start = usize::try_from(pointer.offset.checked_sub(self.start)?).ok()?;
        let end = start.checked_add(usize::try_from(pointer.record_bytes()).ok()?)?;
        self.bytes.get(..self.len)?.get(start..end)
    }
}
