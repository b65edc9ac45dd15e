//! The interval of a change between two medians by the bootstrap: both sides are drawn anew from
//! themselves many times, and the middle 95 % of the changes is the interval.
//!
//! The draws come from a fixed seed, so an answer can be repeated.

use crate::data::random::Random;
use crate::report::median;

/// Draws.
const DRAWS: usize = 2_000;
const SEED: u64 = 0x5EED;

/// 95 % interval of `median(after) / median(before) - 1`; `None` if a side is empty or zero.
pub(super) fn interval(before: &[f64], after: &[f64]) -> Option<(f64, f64)> {
    if before.is_empty() || after.is_empty() {
        return None;
    }
    let mut random = Random::new(SEED, 0);
    let mut draw = |from: &[f64]| {
        let count = from.len() as u64;
        let drawn = (0..count).map(|_| from[random.below(count) as usize]).collect();
        median(drawn)
    };
    let mut changes = Vec::with_capacity(DRAWS);
    for _ in 0..DRAWS {
        let (old, new) = (draw(before)?, draw(after)?);
        if old > 0.0 {
            changes.push(new / old - 1.0);
        }
    }
    changes.sort_by(f64::total_cmp);
    let at = |share: f64| changes.get((changes.len() as f64 * share) as usize).copied();
    at(0.025).zip(at(0.975))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_sides_include_zero_and_distant_ones_do_not() {
        let before = [98.0, 99.0, 100.0, 101.0, 102.0];
        let (low, high) = interval(&before, &before).unwrap();
        assert!(low < 0.0 && high > 0.0, "{low} {high}");
        let after = before.map(|value| value * 0.8);
        let (low, high) = interval(&before, &after).unwrap();
        assert!(low < -0.2 && high > -0.2 && high < -0.15, "{low} {high}");
        assert_eq!(interval(&before, &after), interval(&before, &after), "repeatable");
    }

    #[test]
    fn wide_noise_gives_a_wide_interval() {
        let before = [50.0, 80.0, 100.0, 120.0, 150.0];
        let after = [45.0, 70.0, 95.0, 115.0, 140.0];
        let (low, high) = interval(&before, &after).unwrap();
        assert!(low < -0.2 && high > 0.1, "{low} {high}");
    }

    #[test]
    fn empty_and_zero_sides_have_none() {
        assert_eq!(interval(&[], &[1.0]), None);
        assert_eq!(interval(&[1.0], &[]), None);
        assert_eq!(interval(&[0.0; 5], &[1.0; 5]), None);
    }
}
