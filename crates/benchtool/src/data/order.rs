//! Orders over the record numbers: ascending, descending, by cursors, by groups, or a keyed
//! pseudo-random permutation.
//!
//! The permutation is a true one: each record exactly once, no table, invertible (which lets a
//! check ask "when was this record written?"). It scrambles the numbers below the next power of two
//! by three rounds of odd multiplication and shifted xor, both bijections there, and repeats while
//! the result lies outside the range (cycle walking, under two rounds on average).

use crate::data::random::mix;

const ROUNDS: usize = 3;

/// A permutation of `0..count`.
#[derive(Debug, Clone)]
pub(crate) struct Permutation {
    count: u64,
    mask: u64,
    shift: u32,
    multipliers: [u64; ROUNDS],
    inverses: [u64; ROUNDS],
    offsets: [u64; ROUNDS],
}

impl Permutation {
    /// The permutation of `0..count` that belongs to `seed`.
    pub(crate) fn new(count: u64, seed: u64) -> Self {
        let bits = (64 - count.saturating_sub(1).leading_zeros()).max(1);
        let mask = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
        let mut multipliers = [0; ROUNDS];
        let mut inverses = [0; ROUNDS];
        let mut offsets = [0; ROUNDS];
        for round in 0..ROUNDS {
            // Odd numbers are invertible modulo a power of two; 5 modulo 8 has the long period.
            multipliers[round] = (mix(seed.wrapping_add(round as u64)) & !7) | 5;
            inverses[round] = inverse_of_odd(multipliers[round]);
            offsets[round] = mix(seed ^ (0x55 + round as u64));
        }
        // Half the width or more, so that the shifted xor is its own inverse.
        let shift = bits.div_ceil(2);
        Self { count, mask, shift, multipliers, inverses, offsets }
    }

    /// The record at a position.
    pub(crate) fn at(&self, position: u64) -> u64 {
        let mut number = position;
        loop {
            for round in 0..ROUNDS {
                number =
                    number.wrapping_mul(self.multipliers[round]).wrapping_add(self.offsets[round])
                        & self.mask;
                number ^= number >> self.shift;
            }
            if number < self.count {
                return number;
            }
        }
    }

    /// The position of a record.
    pub(crate) fn position_of(&self, record: u64) -> u64 {
        let mut number = record;
        loop {
            for round in (0..ROUNDS).rev() {
                number ^= number >> self.shift;
                number =
                    number.wrapping_sub(self.offsets[round]).wrapping_mul(self.inverses[round])
                        & self.mask;
            }
            if number < self.count {
                return number;
            }
        }
    }
}

/// Newton's iteration for the inverse modulo 2^64; each step doubles the correct bits.
fn inverse_of_odd(odd: u64) -> u64 {
    let mut inverse = odd;
    for _ in 0..6 {
        inverse = inverse.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(inverse)));
    }
    inverse
}

/// The sequence in which records are visited.
#[derive(Debug, Clone)]
pub(crate) enum Order {
    /// Ascending record numbers.
    Ascending,
    /// Descending record numbers, of `0..count`.
    Descending(u64),
    /// Pseudo-random, each record once.
    Permuted(Permutation),
    /// [`CURSORS`] ascending cursors taken in turn, over `0..count`.
    Sweep(u64),
    /// The records of one prefix after the other, prefixes in pseudo-random order.
    Grouped {
        /// Order of the full groups.
        groups: Permutation,
        /// Records of a group.
        size: u64,
    },
}

/// Cursors of [`Order::Sweep`]: the low byte of an index became the top byte of its key.
pub(crate) const CURSORS: u64 = 256;

impl Order {
    /// The record at a position.
    pub(crate) fn at(&self, position: u64) -> u64 {
        match self {
            Self::Ascending => position,
            Self::Descending(count) => count - 1 - position,
            Self::Permuted(permutation) => permutation.at(position),
            Self::Sweep(count) => {
                slice_of(*count, CURSORS, position % CURSORS).start + position / CURSORS
            }
            Self::Grouped { groups, size } if position / size < groups.count => {
                groups.at(position / size) * size + position % size
            }
            // What is left after the last full group.
            Self::Grouped { .. } => position,
        }
    }

    /// The position of a record.
    pub(crate) fn position_of(&self, record: u64) -> u64 {
        match self {
            Self::Ascending => record,
            Self::Descending(count) => count - 1 - record,
            Self::Permuted(permutation) => permutation.position_of(record),
            Self::Sweep(count) => {
                let cursor = owner_of(*count, CURSORS, record);
                (record - slice_of(*count, CURSORS, cursor).start) * CURSORS + cursor
            }
            Self::Grouped { groups, size } if record / size < groups.count => {
                groups.position_of(record / size) * size + record % size
            }
            Self::Grouped { .. } => record,
        }
    }
}

/// The positions that belong to one of `threads` threads: equal slices, the remainder spread.
pub(crate) fn slice_of(count: u64, threads: u64, thread: u64) -> std::ops::Range<u64> {
    let start = count / threads * thread + (count % threads).min(thread);
    let length = count / threads + u64::from(thread < count % threads);
    start..start + length
}

/// The thread whose slice holds a position.
pub(crate) fn owner_of(count: u64, threads: u64, position: u64) -> u64 {
    let short = count / threads;
    let long_threads = count % threads;
    let in_long_slices = long_threads * (short + 1);
    if position < in_long_slices {
        position / (short + 1)
    } else {
        long_threads + (position - in_long_slices) / short.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permutation_is_a_bijection_and_invertible() {
        for count in [1, 2, 3, 7, 64, 1_000, 65_536, 65_537, 200_000] {
            for seed in [0, 1, 42] {
                let permutation = Permutation::new(count, seed);
                let mut seen = vec![false; count as usize];
                for position in 0..count {
                    let record = permutation.at(position);
                    assert!(!seen[record as usize], "{count} {seed} {position}");
                    seen[record as usize] = true;
                    assert_eq!(permutation.position_of(record), position);
                }
            }
        }
    }

    #[test]
    fn every_order_meets_each_record_once() {
        for count in [1, 100, 256, 257, 1_000, 5_003] {
            let groups = |size| Order::Grouped { groups: Permutation::new(count / size, 3), size };
            let permuted = Order::Permuted(Permutation::new(count, 3));
            let mut orders = vec![Order::Descending(count), Order::Sweep(count), permuted];
            orders.extend([1, 7].into_iter().filter(|size| count >= *size).map(groups));
            for order in orders {
                let mut seen = vec![false; count as usize];
                for position in 0..count {
                    let record = order.at(position);
                    assert!(!seen[record as usize], "{order:?} {position}");
                    seen[record as usize] = true;
                    assert_eq!(order.position_of(record), position, "{order:?}");
                }
            }
        }
    }

    /// A sweep, a descent or a few interleaved cursors would show up in these three numbers.
    #[test]
    fn permutation_has_no_visible_structure() {
        let count = 100_000_u64;
        let permutation = Permutation::new(count, 3);
        let records: Vec<u64> = (0..count).map(|position| permutation.at(position)).collect();
        let steps = (count - 1) as f64;
        let ascents = records.windows(2).filter(|pair| pair[1] > pair[0]).count() as f64 / steps;
        assert!((0.49..0.51).contains(&ascents), "ascents {ascents}");
        for distance in [1, 2, 16, 256] {
            let mean = records
                .windows(distance + 1)
                .map(|window| window[0].abs_diff(window[distance]) as f64)
                .sum::<f64>()
                / steps
                / count as f64;
            assert!((0.32..0.347).contains(&mean), "mean step at distance {distance}: {mean}");
        }
        let halves = records[..count as usize / 2].iter().filter(|r| **r < count / 2).count();
        assert!((24_500..25_500).contains(&halves), "{halves}");
    }

    #[test]
    fn slices_cover_everything_once() {
        for (count, threads) in [(10, 3), (7, 7), (5, 8), (1_000, 16)] {
            let mut next = 0;
            for thread in 0..threads {
                let slice = slice_of(count, threads, thread);
                assert_eq!(slice.start, next);
                next = slice.end;
                for position in slice {
                    assert_eq!(owner_of(count, threads, position), thread);
                }
            }
            assert_eq!(next, count);
        }
    }
}
