//! The first 128 bytes of a log segment: who it is, where it starts, and its sync mark.

use std::path::Path;

use tidesdb_base::checksum;
use tidesdb_base::codec::{Decoder, put_u32, put_u64};
use tidesdb_base::entry::MAX_SEQUENCE;
use tidesdb_base::error::{Error, Result};

/// File offset of the first record.
pub const RECORDS_OFFSET: u64 = 128;
/// File offset of the sync mark, which is rewritten in place after each sync.
pub const SYNC_MARK_OFFSET: u64 = 64;
/// Bytes of the sync mark: a position and its checksum.
pub const SYNC_MARK_BYTES: usize = 16;

const MAGIC: u64 = u64::from_le_bytes(*b"TDBWAL\r\n");
/// What is read and written.
pub(crate) const FORMAT_VERSION: u32 = 3;
/// Seed of the header's own checksum; the header can't be seeded by what it says.
const HEADER_SEED: u64 = 0x5445_4741_4c57;
const HEADER_BODY_BYTES: usize = 48;

/// Identity and place of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// Number of the segment; each use of a file gets a new one.
    pub number: u64,
    /// Log position of the first record.
    pub base: u64,
    /// Position at which the log ended when this segment was started. Recovery goes on from the
    /// segment before only if its records end exactly here.
    pub previous_end: u64,
    /// How far the log was on disk when the segment was started.
    pub synced: u64,
}

impl SegmentHeader {
    /// The header's 64 stored bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        debug_assert!(self.previous_end <= self.base && self.synced <= self.base, "{self:?}");
        let mut out = Vec::with_capacity(64);
        put_u64(&mut out, MAGIC);
        put_u32(&mut out, FORMAT_VERSION);
        put_u32(&mut out, 0);
        for field in [self.number, self.base, self.previous_end, self.synced] {
            put_u64(&mut out, field);
        }
        let sum = checksum::placed(HEADER_SEED, 0, &out);
        put_u64(&mut out, sum);
        out.resize(64, 0);
        out
    }

    /// Decodes the first 64 bytes of a segment. `None` when they are no header: a file that was
    /// reserved but never started, or whose start was torn by a power cut.
    ///
    /// # Errors
    /// [`Error::NotADatabase`] when the header is whole and from a version that is not known.
    pub fn decode(bytes: &[u8], path: &Path) -> Result<Option<Self>> {
        let Some(body) = bytes.get(..HEADER_BODY_BYTES) else { return Ok(None) };
        let mut decoder = Decoder::new(bytes);
        match Self::decode_fields(&mut decoder) {
            Some((version, header, sum)) if sum == checksum::placed(HEADER_SEED, 0, body) => {
                // No record could have a sequence number there, or none that is new: a segment
                // begins where the one before it ended, or behind that.
                let first = header.previous_end.max(header.synced);
                if header.base > MAX_SEQUENCE || header.base < first {
                    return Ok(None);
                }
                if version == FORMAT_VERSION {
                    return Ok(Some(header));
                }
                Err(Error::NotADatabase {
                    path: path.to_path_buf(),
                    reason: format!(
                        "log format version {version}; this build reads {FORMAT_VERSION}"
                    ),
                })
            }
            _ => Ok(None),
        }
    }

    fn decode_fields(decoder: &mut Decoder<'_>) -> Option<(u32, Self, u64)> {
        if decoder.u64().ok()? != MAGIC {
            return None;
        }
        let version = decoder.u32().ok()?;
        let _reserved = decoder.u32().ok()?;
        let header = Self {
            number: decoder.u64().ok()?,
            base: decoder.u64().ok()?,
            previous_end: decoder.u64().ok()?,
            synced: decoder.u64().ok()?,
        };
        Some((version, header, decoder.u64().ok()?))
    }
}

/// The 16 bytes of a sync mark of segment `number`.
#[must_use]
pub fn encode_sync_mark(number: u64, synced: u64) -> [u8; SYNC_MARK_BYTES] {
    let mut out = [0; SYNC_MARK_BYTES];
    let (position, sum) = out.split_at_mut(8);
    position.copy_from_slice(&synced.to_le_bytes());
    sum.copy_from_slice(
        &checksum::placed(number, SYNC_MARK_OFFSET, &synced.to_le_bytes()).to_le_bytes(),
    );
    out
}

/// Reads a sync mark of segment `number`; `None` when it is torn, absent or of an earlier life.
#[must_use]
pub fn decode_sync_mark(number: u64, bytes: &[u8]) -> Option<u64> {
    let mut decoder = Decoder::new(bytes);
    let synced = decoder.u64().ok()?;
    let sum = decoder.u64().ok()?;
    let expected = checksum::placed(number, SYNC_MARK_OFFSET, &synced.to_le_bytes());
    (sum == expected).then_some(synced)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_round_trips_and_any_flipped_bit_makes_it_no_header() {
        let header = SegmentHeader { number: 7, base: 4096, previous_end: 4000, synced: 99 };
        let bytes = header.encode();
        let path = Path::new("wal");
        assert_eq!(SegmentHeader::decode(&bytes, path).unwrap(), Some(header));
        for bit in 0..(HEADER_BODY_BYTES + 8) * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(SegmentHeader::decode(&bad, path).unwrap(), None, "bit {bit}");
        }
        assert_eq!(SegmentHeader::decode(&bytes[..20], path).unwrap(), None);
    }

    #[test]
    fn a_header_whose_first_position_is_no_sequence_number_is_none() {
        let header = |base| SegmentHeader { number: 7, base, previous_end: 0, synced: 0 };
        let decode =
            |header: SegmentHeader| SegmentHeader::decode(&header.encode(), Path::new("w"));
        assert_eq!(decode(header(MAX_SEQUENCE)).unwrap(), Some(header(MAX_SEQUENCE)));
        assert_eq!(decode(header(MAX_SEQUENCE + 1)).unwrap(), None);
    }

    /// Commits would be replayed out of their order.
    #[test]
    fn a_header_that_begins_before_the_end_of_the_log_in_front_of_it_is_none() {
        let header = SegmentHeader { number: 7, base: 4096, previous_end: 4096, synced: 4096 };
        let forged = |base: u64| {
            let mut bytes = header.encode();
            bytes[24..32].copy_from_slice(&base.to_le_bytes());
            let sum = checksum::placed(HEADER_SEED, 0, &bytes[..HEADER_BODY_BYTES]);
            bytes[HEADER_BODY_BYTES..HEADER_BODY_BYTES + 8].copy_from_slice(&sum.to_le_bytes());
            SegmentHeader::decode(&bytes, Path::new("w")).unwrap()
        };
        assert_eq!(forged(4096), Some(header));
        assert_eq!(forged(4088), None);
    }

    #[test]
    fn a_sync_mark_belongs_to_its_segment() {
        let mark = encode_sync_mark(3, 1234);
        assert_eq!(decode_sync_mark(3, &mark), Some(1234));
        assert_eq!(decode_sync_mark(4, &mark), None);
        assert_eq!(decode_sync_mark(3, &[0; 16]), None);
    }
}
