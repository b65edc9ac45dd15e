//! Value logs: files of large values, each written once and never rewritten in place.
//!
//! A table keeps a [`ValuePointer`] in place of the value. Records are found through their
//! pointers alone; the sequence of records can also be walked from the front, which checks use.
//!
//! ```text
//! header:  magic 8 | version u8 | zero 7 | file number u64 | checksum u64
//! record:  kind u8 | codec u8 | zero u16 | raw_len u32 | stored_len u32 | checksum u64 | stored
//! ```
//!
//! A record's checksum is seeded with the file number and the record's offset and covers the
//! record's header and, by way of the payload's own checksum, the stored bytes, so that a large
//! value is checked where it lies. Values above 1 MiB are stored as they are. One thread writes a
//! file; readers are immutable and shared. Pictured in `docs/formats/vlog.md`.

mod pointer;
mod readahead;
mod reader;
mod record;
mod salvage;
mod writer;

pub use pointer::{MAX_POINTER_BYTES, ValuePointer};
pub use readahead::RecordReadahead;
pub use reader::VlogReader;
pub use salvage::SalvagedRecord;
pub use writer::{VlogOptions, VlogSummary, VlogWriter};

/// What is written.
pub(crate) const FORMAT_VERSION: u32 = record::VERSION as u32;
/// The oldest version that is read.
pub(crate) const OLDEST_VERSION: u32 = 1;
/// Bytes of a value-log file in front of its records.
pub const VLOG_HEADER_BYTES: u64 = record::FILE_HEADER_BYTES as u64;

/// Value log `number` with one record whose checksum matches, whatever its lengths say; and its
/// pointer.
#[cfg(feature = "testing")]
#[expect(
    clippy::cast_possible_truncation,
    reason = "a value of a test or fuzzer is shorter than 4 GiB"
)]
pub(crate) fn sealed(
    number: u64,
    codec: tidesdb_base::compress::Compression,
    raw_len: u32,
    stored: &[u8],
) -> (Vec<u8>, ValuePointer) {
    let (offset, stored_len) = (VLOG_HEADER_BYTES, stored.len() as u32);
    let header = record::RecordHeader { codec, raw_len, stored_len };
    let mut out = record::file_header(number).to_vec();
    out.extend_from_slice(&header.encode(number, offset, stored));
    out.extend_from_slice(stored);
    (out, ValuePointer { file: number, offset, stored_len, raw_len })
}

#[cfg(test)]
mod tests;
