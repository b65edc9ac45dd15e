//! One log record: sixteen bytes of header, a payload, padding to eight bytes.
//!
//! ```text
//! 0        4        8                           16
//! +--------+--------+---------------------------+---------+------+
//! | sum 32 | len 32 | kind 8 | sync mark 56     | payload | pad  |
//! +--------+--------+---------------------------+---------+------+
//! ```
//! `sum` is the low half of XXH3 over the payload, seeded by that of the header's other fields,
//! which is seeded by the segment's number and the record's position. So header and payload are
//! sealed where they lie, apart. The padding is arbitrary. A record is at least 32 bytes long, so
//! two records never start within the same 32 bytes of the log.

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

/// Header of the commit record with this payload.
#[inline]
#[must_use]
pub fn commit_header(payload: &[u8], place: RecordPlace) -> [u8; RECORD_HEADER_BYTES] {
    header(RecordKind::Commit, payload.len(), payload, place)
}

/// Header of a void record that takes the space of a payload of `payload_bytes`.
#[must_use]
pub fn void_header(payload_bytes: usize, place: RecordPlace) -> [u8; RECORD_HEADER_BYTES] {
    header(RecordKind::Void, payload_bytes, &[], place)
}

#[inline]
#[expect(
    clippy::cast_possible_truncation,
    reason = "a payload is shorter than 4 GiB, which batches see to"
)]
fn header(
    kind: RecordKind,
    payload_bytes: usize,
    covered: &[u8],
    place: RecordPlace,
) -> [u8; RECORD_HEADER_BYTES] {
    // A reader takes a record that says otherwise for no record.
    debug_assert!(place.synced <= place.position, "the sync mark lies behind the record");
    debug_assert!(payload_bytes > 0 && place.position.is_multiple_of(8), "no place of a record");
    let mark = place.synced.min(MAX_SEQUENCE) | ((kind as u64) << 56);
    let mut header = [0; RECORD_HEADER_BYTES];
    header[4..8].copy_from_slice(&(payload_bytes as u32).to_le_bytes());
    header[8..16].copy_from_slice(&mark.to_le_bytes());
    let sum = place_sum(place.segment, place.position, &header[4..], covered);
    header[..4].copy_from_slice(&sum.to_le_bytes());
    header
}

/// Checksum of a record, which holds in its own place only: of the rest of its header, and of
/// the part of its payload that counts.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "32 bits of a checksum")]
fn place_sum(segment: u64, position: u64, header: &[u8], payload: &[u8]) -> u32 {
    let header_sum = checksum::placed(segment, position, header);
    checksum::placed(header_sum, 0, payload) as u32
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
    claimed(bytes, position).map(|(length, _)| length)
}

/// Sync mark of the record that seems to start at `position`, as [`claimed_length`].
#[must_use]
pub fn sync_mark(bytes: &[u8], position: u64) -> Option<u64> {
    claimed(bytes, position).map(|(_, mark)| mark)
}

fn claimed(bytes: &[u8], position: u64) -> Option<(usize, u64)> {
    let payload = u32::from_le_bytes(*bytes.get(4..)?.first_chunk()?) as usize;
    let mark = u64::from_le_bytes(*bytes.get(8..)?.first_chunk()?);
    let plausible = payload > 0
        && payload <= tidesdb_base::limits::MAX_BATCH_BYTES
        && RecordKind::from_u8((mark >> 56) as u8).is_some()
        && mark & MAX_SEQUENCE <= position;
    plausible.then(|| (record_bytes(payload), mark & MAX_SEQUENCE))
}

/// Reads the record at the front of `bytes`, which must be the record of (`segment`, `position`).
/// `None` when no whole, undamaged record of that place starts there.
#[must_use]
pub fn open(bytes: &[u8], segment: u64, position: u64) -> Option<RecordView<'_>> {
    let length = claimed_length(bytes, position)?;
    let payload_bytes = u32::from_le_bytes(*bytes.get(4..)?.first_chunk()?) as usize;
    let mark = u64::from_le_bytes(*bytes.get(8..)?.first_chunk()?);
    let kind = RecordKind::from_u8((mark >> 56) as u8)?;
    let (header, rest) = bytes.split_at_checked(RECORD_HEADER_BYTES)?;
    let payload = match kind {
        RecordKind::Commit => rest.get(..payload_bytes)?,
        RecordKind::Void => &[],
    };
    let sum = u32::from_le_bytes(*header.first_chunk()?);
    if place_sum(segment, position, header.get(4..)?, payload) != sum {
        return None;
    }
    Some(RecordView { kind, synced: mark & MAX_SEQUENCE, payload, length })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed(payload: &[u8], place: RecordPlace) -> Vec<u8> {
        let mut record = commit_header(payload, place).to_vec();
        record.extend_from_slice(payload);
        record.resize(record_bytes(payload.len()), 0);
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
        record[..RECORD_HEADER_BYTES].copy_from_slice(&void_header(100, place));
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
