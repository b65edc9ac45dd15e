//! The records of this load: the same for this engine and, in `bench-compare`, for its peers.

/// Threads that put new keys: the n-th puts the numbers that leave n when divided by this.
pub(crate) const WRITERS: u64 = 2;
pub(crate) const VALUE_BYTES: usize = 100;

/// Mixes a number: the n-th key, in no order.
pub(crate) const fn mixed(number: u64) -> u64 {
    let mut x = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

pub(crate) fn key(number: u64) -> [u8; 16] {
    let mut key = *b"customer00000000";
    key[8..].copy_from_slice(&mixed(number).to_be_bytes());
    key
}

pub(crate) fn value(number: u64) -> [u8; VALUE_BYTES] {
    let mut value = [0; VALUE_BYTES];
    for (place, chunk) in value.chunks_mut(16).enumerate() {
        let bytes = mixed(number ^ (place as u64) << 40).to_le_bytes();
        let len = chunk.len().min(8);
        chunk[..len].copy_from_slice(&bytes[..len]);
    }
    value
}
