//! Filters of the three versions, after `docs/formats/sstable-block.md`.

use tidesdb_base::checksum::plain;

use super::Cursor;

/// Whether the key may be in the table that has this filter.
pub(super) fn may_have(filter: &[u8], key: &[u8]) -> bool {
    let mut rest = Cursor(filter);
    if rest.is_empty() {
        return true;
    }
    match rest.number(1) {
        1 => bloom(rest, plain(key)),
        2 => ribbon(rest, plain(key)),
        3 => {
            let prefix_bytes = rest.size();
            let of_keys = may_have(rest.string(), key);
            of_keys && key.get(..prefix_bytes).is_none_or(|prefix| may_have(rest.0, prefix))
        }
        version => panic!("no version {version} in fixtures"),
    }
}

fn bloom(mut rest: Cursor<'_>, hash: u64) -> bool {
    let probes = rest.number(1);
    rest.number(2);
    let lines = rest.number(4);
    let line = (((hash >> 32) * lines) >> 32) as usize;
    let mut x = hash as u32;
    (0..probes).all(|_| {
        x = x.wrapping_mul(0x9E37_79B9);
        let bit = (x >> 23) as usize;
        let word = Cursor(&rest.0[line * 64 + bit / 64 * 8..]).number(8);
        word >> (bit % 64) & 1 == 1
    })
}

fn ribbon(mut rest: Cursor<'_>, hash: u64) -> bool {
    let (columns, seed) = (rest.number(1) as usize, rest.number(1));
    rest.number(1);
    let (blocks, short) = (rest.number(4) as usize, rest.number(4) as usize);
    let mut words = Vec::new();
    for block in 0..blocks {
        let columns = if block < short { columns - 1 } else { columns };
        let word = |bytes: &[u8]| u128::from_le_bytes(bytes.try_into().unwrap());
        words.push((0..columns).map(|_| word(rest.take(16))).collect::<Vec<_>>());
    }
    assert!(rest.is_empty());
    let m = |x: u64, factor: u64| {
        let p = (x ^ (x >> 32)).wrapping_mul(factor);
        p ^ (p >> 29)
    };
    let mixed = hash ^ seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let a = m(mixed, 0xBF58_476D_1CE4_E5B9);
    let b = m(a, 0x94D0_49BB_1331_11EB);
    let c = m(b, 0xD6E8_FEB8_6659_FD93);
    let start = ((u128::from(a) * (128 * blocks as u128 - 127)) >> 64) as usize;
    let coefficients = u128::from(b) << 64 | u128::from(c) | 1;
    let fingerprint = m(c, 0xE703_7ED1_A0B4_28DB) >> 32;
    let (block, place) = (start / 128, start % 128);
    (0..words[block].len()).all(|column| {
        let mut bits = coefficients & (words[block][column] >> place);
        if place > 0 && block + 1 < blocks {
            bits ^= coefficients & (words[block + 1][column] << (128 - place));
        }
        u64::from(bits.count_ones()) & 1 == fingerprint >> column & 1
    })
}
