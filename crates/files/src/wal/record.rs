//! One log record: sixteen bytes of header, a payload, padding to eight bytes.
//!
//! ```text
//! 0        4        8                           16
//! +--------+--------+---------------------------+---------+------+
//! | sum 32 | len 32 | kind 8 | sync mark 56     | payload | pad  |
//! +--------+--------+---------------------------+---------+------+
//! ```
//! `sum` is the low half of XXH3 over everything behind it without the padding, seeded by the
//! segment's number and the record's position. A record is at least 32 bytes long, so two
//! records never start within the same 32 bytes of the log.

use tidesdb_base::checksum;
use tidesdb_base::entry::MAX_SEQUENCE;

/// Bytes in front of the payload.
pub const RECORD_HEADER_BYTES: usize = 16;
/// Shortest record, padding included.
pub const MIN_RECORD_BYTES: usize = 32;

/// What a record holds. Persisted; numbers 3 and up are free for prepared transactions, their
/// outcomes, and other things that later versions log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum RecordKind {
    /// The operations of one commit.
    Commit = 1,
    /// Nothing: space that a commit reserved and, refused at the last moment, did not use. The
    /// length is that of the space; the payload is never read, nor covered by the checksum.
    Void = 2,
}

impl RecordKind {
    const fn from_u8(byte: u8) -> Option<Self> {
        match byte {
            1 => Some(Self::Commit),
            2 => Some(Self::Void),
            _ => None,
        }
    }

    /// Bytes of the record, from its start, that the checksum covers.
    const fn covered_bytes(self, payload_bytes: usize) -> usize {
        match self {
            Self::Commit => RECORD_HEADER_BYTES + payload_bytes,
            Self::Void => RECORD_HEADER_BYTES,
        }
    }
}

/// Length in the log of a record with a payload of `payload_bytes`.
#[inline]
#[must_use]
pub const fn record_bytes(payload_bytes: usize) -> usize {
    let length = (RECORD_HEADER_BYTES + payload_bytes).next_multiple_of(8);
    if length < MIN_RECORD_BYTES { MIN_RECORD_BYTES } else { length }
}

/// Where a record lies and what was on disk when it was written.
#[derive(Clone, Copy, Debug)]
pub struct RecordPlace {
    /// Number of the segment.
    pub segment: u64,
    /// Log position of the record's first byte.
    pub position: u64,
    /// The sync mark.
    pub synced: u64,
}

/// Fills in the header of a record whose payload lies at `record[RECORD_HEADER_BYTES..]` and
/// takes `payload_bytes`; what follows is padding. The length of `record` is
/// [`record_bytes`]`(payload_bytes)`; of a void record the header is enough.
#[inline]
pub fn seal(record: &mut [u8], payload_bytes: usize, kind: RecordKind, place: RecordPlace) {
    let mark = place.synced.min(MAX_SEQUENCE) | ((kind as u64) << 56);
    let end = kind.covered_bytes(payload_bytes);
    record[4..8].copy_from_slice(&(payload_bytes as u32).to_le_bytes());
    record[8..16].copy_from_slice(&mark.to_le_bytes());
    let sum = place_sum(place.segment, place.position, &record[4..end]);
    record[..4].copy_from_slice(&sum.to_le_bytes());
}

/// Checksum of a record, which holds in its own place only.
#[inline]
fn place_sum(segment: u64, position: u64, body: &[u8]) -> u32 {
    let stale = cfg!(planted_bug = "stale_record_accepted");
    let (segment, position) = if stale { (0, 0) } else { (segment, position) };
    checksum::placed(segment, position, body) as u32
}

/// A record that was read and whose checksum holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordView<'a> {
    /// What the payload is.
    pub kind: RecordKind,
    /// How far the log was on disk when the record was written.
    pub synced: u64,
    /// The payload; empty for a void record.
    pub payload: &'a [u8],
    /// Length in the log, padding included.
    pub length: usize,
}

/// Length of the record that seems to start at `position`, at the front of `bytes`, by its header
/// alone. `None` when the header can't be one: no length, an unknown kind, or a sync mark that
/// lies behind the record itself.
#[must_use]
pub fn claimed_length(bytes: &[u8], position: u64) -> Option<usize> {
    let payload = u32::from_le_bytes(*bytes.get(4..)?.first_chunk()?) as usize;
    let mark = u64::from_le_bytes(*bytes.get(8..)?.first_chunk()?);
    let plausible = payload > 0
        && payload <= tidesdb_base::limits::MAX_BATCH_BYTES
        && RecordKind::from_u8((mark >> 56) as u8).is_some()
        && mark & MAX_SEQUENCE <= position;
    plausible.then(|| record_bytes(payload))
}

/// Reads the record at the front of `bytes`, which must be the record of (`segment`, `position`).
/// `None` when no whole, undamaged record of that place starts there.
#[must_use]
pub fn open(bytes: &[u8], segment: u64, position: u64) -> Option<RecordView<'_>> {
    let length = claimed_length(bytes, position)?;
    let payload_bytes = u32::from_le_bytes(*bytes.get(4..)?.first_chunk()?) as usize;
    let mark = u64::from_le_bytes(*bytes.get(8..)?.first_chunk()?);
    let kind = RecordKind::from_u8((mark >> 56) as u8)?;
    let end = kind.covered_bytes(payload_bytes);
    let body = bytes.get(4..end)?;
    let sum = u32::from_le_bytes(*bytes.first_chunk()?);
    if place_sum(segment, position, body) != sum {
        return None;
    }
    let payload = bytes.get(RECORD_HEADER_BYTES..end)?;
    Some(RecordView { kind, synced: mark & MAX_SEQUENCE, payload, length })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed(payload: &[u8], place: RecordPlace) -> Vec<u8> {
        let mut record = vec![0; record_bytes(payload.len())];
        record[RECORD_HEADER_BYTES..][..payload.len()].copy_from_slice(payload);
        seal(&mut record, payload.len(), RecordKind::Commit, place);
        record
    }

    #[test]
    fn a_record_opens_only_at_its_own_place() {
        let place = RecordPlace { segment: 3, position: 640, synced: 500 };
        let record = sealed(b"payload of some bytes", place);
        let view = open(&record, 3, 640).unwrap();
        assert_eq!(view.payload, b"payload of some bytes");
        assert_eq!((view.synced, view.length), (500, record.len()));
        assert_eq!(open(&record, 2, 640), None, "a stale segment");
        assert_eq!(open(&record, 3, 648), None, "another position");
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_noticed() {
        let payload = b"0123456789abcdef0123456789";
        let record = sealed(payload, RecordPlace { segment: 1, position: 0, synced: 0 });
        let meaningful = RECORD_HEADER_BYTES + payload.len();
        for bit in 0..meaningful * 8 {
            let mut bad = record.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(open(&bad, 1, 0), None, "bit {bit}");
        }
        for cut in 0..meaningful {
            assert_eq!(open(&record[..cut], 1, 0), None, "cut {cut}");
        }
    }

    #[test]
    fn a_void_record_skips_its_space_whatever_lies_there() {
        let place = RecordPlace { segment: 3, position: 640, synced: 500 };
        let mut record = vec![0xab; record_bytes(100)];
        seal(&mut record[..RECORD_HEADER_BYTES], 100, RecordKind::Void, place);
        let view = open(&record, 3, 640).unwrap();
        assert_eq!((view.kind, view.payload.len()), (RecordKind::Void, 0));
        assert_eq!((view.length, view.synced), (record.len(), 500));
        assert_eq!(open(&record, 3, 648), None, "another position");
        for bit in 0..RECORD_HEADER_BYTES * 8 {
            let mut bad = record.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(open(&bad, 3, 640), None, "bit {bit}");
        }
    }

    #[test]
    fn short_records_are_padded_to_the_minimum() {
        assert_eq!(record_bytes(1), 32);
        assert_eq!(record_bytes(16), 32);
        assert_eq!(record_bytes(17), 40);
    }
}
