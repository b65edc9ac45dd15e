//! A value over time in a bounded number of points.
//!
//! Points are the highest value seen in their interval. When the space is used up, neighbours are
//! merged and the interval doubles, so a job of an hour costs as much as one of a minute.

use serde::{Deserialize, Serialize};

/// Points kept at most.
const CAPACITY: usize = 512;

/// Highest values per interval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Timeline {
    /// Seconds per point.
    pub(crate) interval: f64,
    /// The values in order.
    pub(crate) values: Vec<u64>,
    /// Samples in the last point so far.
    #[serde(skip)]
    pending: u32,
    /// Samples per point.
    #[serde(skip)]
    per_point: u32,
}

impl Default for Timeline {
    fn default() -> Self {
        Self::new(0.0)
    }
}

impl Timeline {
    /// An empty one whose samples come every `period` seconds.
    pub(crate) fn new(period: f64) -> Self {
        Self { interval: period, values: Vec::new(), pending: 0, per_point: 1 }
    }

    /// Adds the next sample.
    pub(crate) fn push(&mut self, value: u64) {
        match self.values.last_mut() {
            Some(last) if self.pending > 0 => *last = (*last).max(value),
            _ => {
                if self.values.len() == CAPACITY {
                    self.halve();
                }
                self.values.push(value);
            }
        }
        self.pending = (self.pending + 1) % self.per_point.max(1);
    }

    fn halve(&mut self) {
        let pairs = self.values.chunks(2);
        self.values = pairs.map(|pair| pair.iter().copied().max().unwrap_or(0)).collect();
        self.interval *= 2.0;
        self.per_point *= 2;
    }

    /// Seconds from the first sample and value of each point.
    pub(crate) fn points(&self) -> impl Iterator<Item = (f64, u64)> + '_ {
        self.values
            .iter()
            .enumerate()
            .map(|(index, value)| ((index + 1) as f64 * self.interval, *value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_peak_and_the_length_when_it_is_full() {
        let mut timeline = Timeline::new(0.5);
        for sample in 0..5_000_u64 {
            timeline.push(if sample == 3_333 { 99 } else { sample % 7 });
        }
        assert!(timeline.values.len() <= CAPACITY);
        assert_eq!(timeline.values.iter().max(), Some(&99));
        let end = timeline.values.len() as f64 * timeline.interval;
        assert!((2_500.0..=2_500.0 + timeline.interval).contains(&end), "{end}");
        // The peak is where it was: 3,333 samples of half a second after the start.
        let (at, _) = timeline.points().find(|(_, value)| *value == 99).unwrap();
        assert!((at - 1_666.5).abs() <= timeline.interval, "{at}");
    }

    #[test]
    fn few_samples_are_kept_as_they_are() {
        let mut timeline = Timeline::new(0.1);
        for value in [3, 1, 2] {
            timeline.push(value);
        }
        assert_eq!(timeline.values, [3, 1, 2]);
    }
}
