//! Draws of positions with replacement, one law per pattern, without shared state.
//!
//! A [`Draw`] belongs to one thread. It returns a position below the number of resident
//! records; `workload::Chooser` turns positions into records. The laws are tested against what they
//! promise: shares of hot sets, frequencies of first ranks.

use crate::data::order::Permutation;
use crate::data::random::Random;
use crate::data::zipf::Zipf;
use crate::spec::{Pattern, Shape};

/// Seed of the scattering of ranks.
const RANK_ORDER: u64 = 3;
/// Ranges of the mixgraph pattern, and the parameters that its authors fitted to a production
/// trace.
const RANGES: u64 = 30;
const RANGE_LAW: [f64; 4] = [14.18, -2.917, 0.0164, -0.08082];
const KEY_LAW: [f64; 2] = [0.002_312, 0.3467];

#[derive(Debug)]
enum Law {
    Uniform,
    Zipfian(Zipf),
    Seeds { zeta: f64, eta: f64, theta: f64 },
    Hotspot { hot: u64, share: f64 },
    Exponential { mean: f64 },
    Ranges { ends: Vec<f64> },
}

/// A thread's source of positions in `0..count`.
#[derive(Debug)]
pub(crate) struct Draw {
    law: Law,
    random: Random,
    count: u64,
    ranks: Option<Permutation>,
}

impl Draw {
    /// The law of a test's pattern; the stream number tells threads apart.
    pub(crate) fn new(shape: &Shape, stream: u64) -> Self {
        let (count, skew) = (shape.num, &shape.skew);
        let law = match shape.pattern {
            Pattern::Zipfian | Pattern::Latest => Law::Zipfian(Zipf::new(count, skew.theta)),
            Pattern::ZipfSeed => seeds(count, skew.theta),
            Pattern::Hotspot => Law::Hotspot {
                hot: ((count as f64 * skew.hot_set) as u64).clamp(1, count),
                share: skew.hot_operations,
            },
            Pattern::Exponential => Law::Exponential { mean: count as f64 / skew.exponent },
            Pattern::Mixgraph => Law::Ranges { ends: range_ends() },
            _ => Law::Uniform,
        };
        let skewed = matches!(shape.pattern, Pattern::Zipfian | Pattern::Hotspot);
        let ranks =
            (skewed && skew.scramble).then(|| Permutation::new(count, shape.seed ^ RANK_ORDER));
        Self { law, random: Random::new(shape.seed, 1_000 + stream), count, ranks }
    }

    /// The next position.
    pub(crate) fn next(&mut self) -> u64 {
        let rank = self.rank();
        self.ranks.as_ref().map_or(rank, |ranks| ranks.at(rank))
    }

    fn rank(&mut self) -> u64 {
        let (random, count) = (&mut self.random, self.count);
        match &self.law {
            Law::Uniform => random.below(count),
            Law::Zipfian(zipf) => zipf.draw(random),
            Law::Seeds { zeta, eta, theta } => {
                let unit = random.unit();
                if unit * zeta < 1.0 {
                    0
                } else if unit * zeta < 1.0 + 0.5_f64.powf(*theta) {
                    1.min(count - 1)
                } else {
                    let place = count as f64 * (eta * unit - eta + 1.0).powf(*theta);
                    (place as u64).min(count - 1)
                }
            }
            Law::Hotspot { hot, share } => {
                if random.unit() < *share || *hot == count {
                    random.below(*hot)
                } else {
                    hot + random.below(count - hot)
                }
            }
            Law::Exponential { mean } => {
                let place = -(1.0 - random.unit()).ln() * mean;
                (place as u64) % count
            }
            Law::Ranges { ends } => {
                let unit = random.unit();
                let range = ends.iter().position(|end| unit < *end).unwrap_or(0) as u64;
                let width = (count / RANGES).max(1);
                let key = (random.unit() / KEY_LAW[0]).powf(1.0 / KEY_LAW[1]);
                // Ranges are taken in an order that does not follow their weights.
                ((range * 7 % RANGES) * width + (key as u64) % width) % count
            }
        }
    }
}

/// The formula of the published runs: `theta` where `1 / (1 - theta)` belongs.
fn seeds(count: u64, theta: f64) -> Law {
    let zeta = |count: u64| (1..=count).map(|rank| (rank as f64).powf(-theta)).sum::<f64>();
    let all = zeta(count);
    let eta = (1.0 - (2.0 / count as f64).powf(1.0 - theta)) / (1.0 - zeta(2.min(count)) / all);
    Law::Seeds { zeta: all, eta, theta }
}

/// Upper ends of the ranges' shares of the unit interval.
fn range_ends() -> Vec<f64> {
    let [a, b, c, d] = RANGE_LAW;
    let weights: Vec<f64> =
        (1..=RANGES).map(|x| a * (b * x as f64).exp() + c * (d * x as f64).exp()).collect();
    let total: f64 = weights.iter().sum();
    let mut sum = 0.0;
    let ends = weights.iter().map(|weight| {
        sum += weight / total;
        sum
    });
    ends.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Skew;
    use std::collections::BTreeMap;

    const COUNT: u64 = 50_000;
    const DRAWS: u64 = 200_000;

    fn draws(pattern: Pattern, scramble: bool) -> BTreeMap<u64, u64> {
        let skew = Skew { scramble, ..Shape::default().skew };
        let shape = Shape { pattern, num: COUNT, skew, ..Shape::default() };
        let mut draw = Draw::new(&shape, 0);
        let mut seen = BTreeMap::new();
        for _ in 0..DRAWS {
            *seen.entry(draw.next()).or_insert(0) += 1;
        }
        assert!(seen.keys().all(|position| *position < COUNT));
        seen
    }

    fn share_below(seen: &BTreeMap<u64, u64>, end: u64) -> f64 {
        seen.range(..end).map(|(_, hits)| *hits).sum::<u64>() as f64 / DRAWS as f64
    }

    #[test]
    fn hot_sets_get_their_share() {
        let share = share_below(&draws(Pattern::Hotspot, false), COUNT / 5);
        assert!((0.79..0.81).contains(&share), "{share}");
        let scattered = share_below(&draws(Pattern::Hotspot, true), COUNT / 5);
        assert!((0.1..0.4).contains(&scattered), "{scattered}");
        // With a mean of a tenth, 1 - e^-1 lies in the first tenth.
        let share = share_below(&draws(Pattern::Exponential, true), COUNT / 10);
        assert!((0.62..0.645).contains(&share), "{share}");
        let share = share_below(&draws(Pattern::Uniform, true), COUNT / 10);
        assert!((0.095..0.105).contains(&share), "{share}");
        assert!(draws(Pattern::Mixgraph, true).len() > 100);
    }

    /// The published runs saw 55,700 distinct keys predicted and about 56,000 found in 500,000
    /// draws.
    #[test]
    fn the_seeds_formula_has_the_published_shape() {
        let shape = Shape { pattern: Pattern::ZipfSeed, num: 500_000, ..Shape::default() };
        let mut draw = Draw::new(&shape, 0);
        let mut seen = BTreeMap::new();
        for _ in 0..500_000 {
            *seen.entry(draw.next()).or_insert(0_u64) += 1;
        }
        assert!((54_000..58_000).contains(&seen.len()), "{}", seen.len());
    }
}
