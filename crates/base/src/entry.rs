//! What one stored version of a key is: its sequence number and its kind.
//!
//! A *sequence number* is the position in the database's log at which the commit that wrote the
//! version ends, so one atomic addition yields both the log space and the commit order. All
//! operations of one commit share it; within a commit the later operation on a key wins.

/// Position of a commit in the total commit order. Zero is used for versions so old that every
/// live snapshot sees them; real commits start above zero.
pub type SequenceNumber = u64;

/// Largest sequence number that can be assigned: 56 bits, which is 64 PiB of log.
pub const MAX_SEQUENCE: SequenceNumber = (1 << 56) - 1;

/// What a stored version of a key says about the key.
///
/// The discriminants are persisted in the log and in tables; never renumber them. Numbers 5 to 15
/// are reserved for prepared transactions and merge operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ValueKind {
    /// The key is deleted.
    Tombstone = 0,
    /// The key has the value stored in line.
    Value = 1,
    /// The key has a value stored in a value-log file; the in-line bytes are its pointer.
    ValuePointer = 2,
    /// The key is deleted by a delete that promises to meet exactly one earlier put.
    SingleTombstone = 3,
    /// Every key from this one up to, and without, the one in the value is deleted; up to the last
    /// key when the value is empty. In the log only: it is no version of a key, and a table that
    /// holds one is damaged.
    RangeTombstone = 4,
}

impl ValueKind {
    /// Decodes the persisted discriminant; `None` for a number this version does not know.
    #[must_use]
    pub const fn from_u8(byte: u8) -> Option<Self> {
        match byte {
            0 => Some(Self::Tombstone),
            1 => Some(Self::Value),
            2 => Some(Self::ValuePointer),
            3 => Some(Self::SingleTombstone),
            4 => Some(Self::RangeTombstone),
            _ => None,
        }
    }

    /// Decodes the kind of a version of a key, as tables and memtables hold them.
    #[must_use]
    pub const fn of_version(byte: u8) -> Option<Self> {
        match Self::from_u8(byte) {
            Some(Self::RangeTombstone) => None,
            kind => kind,
        }
    }

    /// True for all kinds of deletion.
    #[must_use]
    pub const fn is_tombstone(self) -> bool {
        matches!(self, Self::Tombstone | Self::SingleTombstone | Self::RangeTombstone)
    }
}

/// Expiry value meaning that a version never expires.
pub const NEVER_EXPIRES: u64 = 0;

/// True when a version with this expiry time (Unix seconds, zero for never) is expired at `now`.
///
/// A version is expired *at* its second, so reads and merges agree on the boundary.
#[must_use]
pub const fn is_expired(expires_at: u64, now_unix_seconds: u64) -> bool {
    expires_at != NEVER_EXPIRES && expires_at <= now_unix_seconds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_round_trip_and_unknown_numbers_are_refused() {
        for byte in 0..=255u8 {
            match ValueKind::from_u8(byte) {
                Some(kind) => assert_eq!(kind as u8, byte),
                None => assert!(byte > 4),
            }
        }
    }

    #[test]
    fn expiry_includes_its_own_second_and_zero_means_never() {
        assert!(!is_expired(0, u64::MAX));
        assert!(!is_expired(10, 9));
        assert!(is_expired(10, 10));
    }
}
