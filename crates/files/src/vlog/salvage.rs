//! Walks the records of a value log that may be damaged anywhere.
//!
//! Values are read through pointers, so damage concerns those alone that point at it. The walk is
//! for who wants to know what a file holds. Behind damage the next record is where its checksum
//! matches, which is seeded with the place. Work is bounded: any bytes may look like the header of
//! a record.

use tidesdb_base::{Error, Result};

use super::record::{FILE_HEADER_BYTES, RECORD_HEADER_BYTES, RecordHeader};
use super::{ValuePointer, VlogReader};

/// Bytes that are searched at a time.
const WINDOW_BYTES: u64 = 1 << 20;

/// What lies in a value log behind the header.
#[derive(Clone, Debug)]
pub enum SalvagedRecord {
    /// A record whose checksum matches.
    Whole(ValuePointer),
    /// A stretch that can't be read.
    Lost {
        /// Offset of its first byte.
        offset: u64,
        /// Its length in bytes.
        len: u64,
        /// What was wrong at its beginning.
        reason: Error,
    },
}

impl VlogReader {
    /// Walks all records, and the stretches between them that can't be read. `visit` ends the walk
    /// by an error.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::OutOfMemory`], and those of `visit`. Damage is no error.
    pub fn survey(&self, visit: &mut dyn FnMut(SalvagedRecord) -> Result<()>) -> Result<()> {
        let len = self.file_len()?;
        let mut budget = len.saturating_mul(8) + (1 << 28);
        let (mut scratch, mut value) = (Vec::new(), Vec::new());
        let mut at = FILE_HEADER_BYTES as u64;
        while at < len {
            let pointer = match self.record_at(at) {
                Ok(Some(pointer)) => {
                    self.read_into(&pointer, &mut scratch, &mut value).map(|()| pointer)
                }
                Ok(None) => break,
                Err(e) => Err(e),
            };
            match pointer {
                Ok(pointer) => {
                    visit(SalvagedRecord::Whole(pointer))?;
                    at += pointer.record_bytes();
                }
                Err(reason) if reason.is_corruption() => {
                    let next = self.record_behind(at, len, &mut budget)?.unwrap_or(len);
                    visit(SalvagedRecord::Lost { offset: at, len: next - at, reason })?;
                    at = next;
                }
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Where the next whole record behind `damaged` begins.
    fn record_behind(&self, damaged: u64, len: u64, budget: &mut u64) -> Result<Option<u64>> {
        let (mut scratch, mut value) = (Vec::new(), Vec::new());
        let mut start = damaged + 1;
        while start + RECORD_HEADER_BYTES as u64 <= len && *budget > 0 {
            let window = self.window(start, (len - start).min(WINDOW_BYTES))?;
            let headers = window.windows(RECORD_HEADER_BYTES).enumerate();
            let likely = headers.filter(|(_, bytes)| {
                bytes.first_chunk().is_some_and(|bytes| RecordHeader::parse(bytes).is_ok())
            });
            for (within, _) in likely {
                let at = start + within as u64;
                let pointer = match self.record_at(at) {
                    Ok(Some(pointer)) => pointer,
                    Ok(None) => continue,
                    Err(e) if e.is_corruption() => continue,
                    Err(e) => return Err(e),
                };
                match self.read_into(&pointer, &mut scratch, &mut value) {
                    Ok(()) => return Ok(Some(at)),
                    Err(e) if e.is_corruption() => {}
                    // Whether a record is here is not known: it may be whole.
                    Err(e) => return Err(e),
                }
                *budget = budget.saturating_sub(pointer.record_bytes());
                if *budget == 0 {
                    break;
                }
            }
            // A header may straddle two windows.
            start += (window.len() as u64 + 1).saturating_sub(RECORD_HEADER_BYTES as u64).max(1);
        }
        Ok(None)
    }
}
