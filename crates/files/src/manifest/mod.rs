//! The manifest: which column families, tables and value-log files make up the database.
//!
//! A manifest file is a sequence of *edits*, each one record with its own checksum and applied
//! whole or not at all. The first record of a file restates everything, so that a new file can
//! replace a long one; `CURRENT` names the file in force and is replaced by an atomic rename.
//!
//! docs/formats/manifest.md shows the bytes.

pub mod closed;
pub mod current;
pub mod edit;
pub mod reader;
mod salvage;
mod table_record;
mod unsynced;
pub mod writer;

pub use edit::{Change, Edit, ValueLogRecord};
pub use reader::{exceeds_memory, read_manifest};
pub use salvage::{SalvagedEdit, SalvagedManifest, named_by};
pub use table_record::TableRecord;
pub use unsynced::Unsynced;
pub use writer::ManifestWriter;

/// Bytes in front of the first record: magic, version, number of the file.
pub const HEADER_BYTES: usize = 24;
/// Bytes in front of the body of a record: length and checksum.
pub const RECORD_HEADER_BYTES: usize = 12;
const MAGIC: u64 = u64::from_le_bytes(*b"TDBMANI\n");
/// What is written.
pub(crate) const VERSION: u32 = 4;
/// The oldest version that is read.
pub(crate) const OLDEST_VERSION: u32 = 2;

/// Manifest `number` with these bytes as its only record, sealed.
#[cfg(feature = "testing")]
#[expect(
    clippy::cast_possible_truncation,
    reason = "an edit of a test or fuzzer is shorter than 4 GiB"
)]
pub(crate) fn sealed(number: u64, body: &[u8]) -> Vec<u8> {
    let mut out = MAGIC.to_le_bytes().to_vec();
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&number.to_le_bytes());
    out.extend_from_slice(&(body.len() as u32).to_le_bytes());
    let sum = tidesdb_base::checksum::placed(number, HEADER_BYTES as u64, body);
    out.extend_from_slice(&sum.to_le_bytes());
    out.extend_from_slice(body);
    out
}
