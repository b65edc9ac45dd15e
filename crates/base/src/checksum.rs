//! Checksums of everything the engine writes: XXH3 with a seed that names the place.
//!
//! A checksum over the bytes alone would accept a block that the disk returned from another place
//! or from an older life of the file. Every checksum here is therefore seeded by the identity of
//! the file and the offset of the bytes in it, so that misplaced and stale bytes fail like
//! damaged ones.

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// XXH3 (64 bits) of `bytes`, bound to the place (`file_identity`, `offset`).
#[must_use]
pub fn placed(file_identity: u64, offset: u64, bytes: &[u8]) -> u64 {
    xxh3_64_with_seed(bytes, seed(file_identity, offset))
}

/// XXH3 (64 bits) of `bytes`, bound to no place; for hashing keys and naming things.
#[must_use]
pub fn plain(bytes: &[u8]) -> u64 {
    xxh3_64(bytes)
}

/// Mixes a file identity and an offset into one seed (the finaliser of SplitMix64, Steele and
/// others, "Fast splittable pseudorandom number generators", 2014).
#[must_use]
pub const fn seed(file_identity: u64, offset: u64) -> u64 {
    let mut z = file_identity ^ offset.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_bytes_elsewhere_have_another_checksum() {
        let bytes = [7u8; 300];
        let here = placed(1, 0, &bytes);
        assert_eq!(here, placed(1, 0, &bytes));
        assert_ne!(here, placed(1, 4096, &bytes));
        assert_ne!(here, placed(2, 0, &bytes));
    }

    #[test]
    fn the_hash_is_the_published_xxh3() {
        // Persisted hashes may never change: the empty input's value is part of the XXH3 test set.
        assert_eq!(plain(b""), 0x2D06_8005_38D3_94C2);
    }
}
