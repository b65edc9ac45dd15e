//! Zipfian ranks by rejection-inversion (Hörmann and Derflinger 1996): exact for every rank.
//!
//! Rank `k` of `1..=count` has probability proportional to `k^-theta`. The widely copied formula of
//! Gray et al. only gets the first two ranks right; this method needs no table, no sum over all
//! ranks, and about 1.1 tries per draw. Ranks are scattered over the records by the caller through
//! a permutation, which cannot make two ranks collide as hashing does.

use crate::data::random::Random;

/// The distribution over ranks `0..count` (0 is the most frequent one).
#[derive(Debug, Clone)]
pub(crate) struct Zipf {
    count: f64,
    theta: f64,
    integral_first: f64,
    integral_last: f64,
    threshold: f64,
}

impl Zipf {
    /// The distribution of `count` ranks with exponent `theta`, which is positive and not 1.
    pub(crate) fn new(count: u64, theta: f64) -> Self {
        let mut zipf = Self {
            count: count as f64,
            theta,
            integral_first: 0.0,
            integral_last: 0.0,
            threshold: 0.0,
        };
        zipf.integral_first = zipf.integral(1.5) - 1.0;
        zipf.integral_last = zipf.integral(zipf.count + 0.5);
        zipf.threshold = 2.0 - zipf.integral_inverse(zipf.integral(2.5) - zipf.density(2.0));
        zipf
    }

    fn density(&self, x: f64) -> f64 {
        x.powf(-self.theta)
    }

    /// An antiderivative of the density.
    fn integral(&self, x: f64) -> f64 {
        (x.powf(1.0 - self.theta) - 1.0) / (1.0 - self.theta)
    }

    fn integral_inverse(&self, area: f64) -> f64 {
        (1.0 + area * (1.0 - self.theta)).max(0.0).powf(1.0 / (1.0 - self.theta))
    }

    /// Draws a rank.
    pub(crate) fn draw(&self, random: &mut Random) -> u64 {
        loop {
            let area =
                self.integral_last + random.unit() * (self.integral_first - self.integral_last);
            let x = self.integral_inverse(area);
            let rank = x.round().clamp(1.0, self.count);
            if rank - x <= self.threshold || area >= self.integral(rank + 0.5) - self.density(rank)
            {
                return rank as u64 - 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequencies_match_the_law() {
        for theta in [0.5, 0.99, 1.3] {
            let count = 1_000_u64;
            let draws = 2_000_000_u64;
            let zipf = Zipf::new(count, theta);
            let mut random = Random::new(11, 0);
            let mut seen = vec![0_u64; count as usize];
            for _ in 0..draws {
                seen[zipf.draw(&mut random) as usize] += 1;
            }
            let total: f64 = (1..=count).map(|rank| (rank as f64).powf(-theta)).sum();
            let mut chi_squared = 0.0;
            for (rank, hits) in seen.iter().enumerate() {
                let expected = ((rank + 1) as f64).powf(-theta) / total * draws as f64;
                chi_squared += (*hits as f64 - expected).powi(2) / expected;
            }
            // 999 degrees of freedom: mean 999, standard deviation 45; five of them.
            assert!(chi_squared < 1_225.0, "theta {theta}: chi squared {chi_squared}");
        }
    }

    #[test]
    fn large_ranges_stay_in_bounds() {
        let zipf = Zipf::new(50_000_000, 0.99);
        let mut random = Random::new(1, 0);
        let mut first = 0;
        for _ in 0..100_000 {
            let rank = zipf.draw(&mut random);
            assert!(rank < 50_000_000);
            first += u64::from(rank == 0);
        }
        // 1 / zeta(50M, 0.99) is 5.07 %.
        assert!((4_700..5_450).contains(&first), "{first}");
    }
}
