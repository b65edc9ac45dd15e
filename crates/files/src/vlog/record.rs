//! The fixed parts of a value log: file header and record header.

use super::ValuePointer;
use tidesdb_base::checksum;
use tidesdb_base::codec::{Decoder, Malformed};
use tidesdb_base::compress::Compression;

pub(super) const FILE_HEADER_BYTES: usize = 32;
pub(super) const RECORD_HEADER_BYTES: usize = 20;
/// Larger values are stored as they are.
pub(super) const MAX_COMPRESSED_VALUE: usize = 1 << 20;

const MAGIC: [u8; 8] = *b"TDBVALUE";
pub(super) const VERSION: u8 = 1;
const RECORD_KIND: u8 = b'V';

/// The header of the value log with that number.
#[expect(clippy::indexing_slicing, reason = "of a header of that length")]
pub(super) fn file_header(number: u64) -> [u8; FILE_HEADER_BYTES] {
    let mut header = [0; FILE_HEADER_BYTES];
    let (covered, sum) = header.split_at_mut(FILE_HEADER_BYTES - 8);
    covered[..8].copy_from_slice(&MAGIC);
    covered[8] = VERSION;
    covered[16..].copy_from_slice(&number.to_le_bytes());
    sum.copy_from_slice(&checksum::placed(number, 0, covered).to_le_bytes());
    header
}

/// A record's header before its checksum is known to match.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecordHeader {
    pub(super) codec: Compression,
    pub(super) raw_len: u32,
    pub(super) stored_len: u32,
}

impl RecordHeader {
    /// The header's bytes for a record whose stored bytes are `stored`, at this place.
    pub(super) fn encode(self, file: u64, offset: u64, stored: &[u8]) -> [u8; RECORD_HEADER_BYTES] {
        let mut header = [0; RECORD_HEADER_BYTES];
        header[0] = RECORD_KIND;
        header[1] = self.codec as u8;
        header[4..8].copy_from_slice(&self.raw_len.to_le_bytes());
        header[8..12].copy_from_slice(&self.stored_len.to_le_bytes());
        let at = offset.wrapping_add(RECORD_HEADER_BYTES as u64);
        let payload = checksum::placed(file, at, stored).to_le_bytes();
        header[12..].copy_from_slice(&payload);
        let sum = checksum::placed(file, offset, &header).to_le_bytes();
        header[12..].copy_from_slice(&sum);
        header
    }

    /// Reads a header; nothing in it is to be believed before [`RecordHeader::matches`].
    pub(super) fn parse(bytes: &[u8; RECORD_HEADER_BYTES]) -> Result<Self, Malformed> {
        let mut decoder = Decoder::new(bytes);
        if decoder.u8()? != RECORD_KIND {
            return Err(Malformed);
        }
        let codec = Compression::from_u8(decoder.u8()?).ok_or(Malformed)?;
        if decoder.u16()? != 0 {
            return Err(Malformed);
        }
        let (raw_len, stored_len) = (decoder.u32()?, decoder.u32()?);
        let possible = match codec {
            Compression::None => raw_len == stored_len,
            _ => stored_len < raw_len && raw_len as usize <= MAX_COMPRESSED_VALUE,
        };
        if possible { Ok(Self { codec, raw_len, stored_len }) } else { Err(Malformed) }
    }

    /// Whether `bytes` is the header of a record with these stored bytes at this place.
    pub(super) fn matches(
        self,
        bytes: &[u8; RECORD_HEADER_BYTES],
        pointer: &ValuePointer,
        stored: &[u8],
    ) -> bool {
        self.encode(pointer.file, pointer.offset, stored) == *bytes
    }
}
