//! Axes: where a value lies, which ticks an axis has, and how numbers are written on it.

/// An axis is logarithmic when its values span more than this factor.
const LOG_SPAN: f64 = 20.0;
/// At most so many ticks.
const MAX_TICKS: usize = 7;

/// A mapping from values to pixels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Scale {
    low: f64,
    high: f64,
    /// Whether steps are factors.
    pub(crate) log: bool,
    from: i32,
    to: i32,
}

/// Number of the form 1, 2 or 5 times a power of ten, not below the given one.
fn round_up(value: f64) -> f64 {
    if value <= 0.0 || !value.is_finite() {
        return 1.0;
    }
    let power = 10_f64.powf(value.log10().floor());
    let factor = [1.0, 2.0, 5.0, 10.0].into_iter().find(|factor| factor * power >= value * 0.999);
    factor.unwrap_or(10.0) * power
}

impl Scale {
    /// An axis that shows all values between two pixels; zero is on it unless it is logarithmic.
    pub(crate) fn of(values: impl Iterator<Item = f64> + Clone, from: i32, to: i32) -> Self {
        let positive = values.clone().filter(|value| *value > 0.0);
        let least = positive.fold(f64::INFINITY, f64::min);
        let most = values.filter(|value| value.is_finite()).fold(0.0, f64::max);
        if most > 0.0 && most / least > LOG_SPAN {
            // The shortest bar has a length too.
            return Self::log_between(least * 0.99, most, from, to);
        }
        let step = round_up(most / 5.0);
        let high = if most > 0.0 { (most / step).ceil() * step } else { 1.0 };
        Self { low: 0.0, high, log: false, from, to }
    }

    /// A logarithmic axis for ratios: at least from a half to two, with 1 on it.
    pub(crate) fn ratios(values: impl Iterator<Item = f64>, from: i32, to: i32) -> Self {
        let (mut low, mut high): (f64, f64) = (0.5, 2.0);
        for value in values.filter(|value| *value > 0.0 && value.is_finite()) {
            (low, high) = (low.min(value), high.max(value));
        }
        Self { low: low * 0.95, high: high * 1.05, log: true, from, to }
    }

    /// A logarithmic axis of whole decades around two values.
    pub(crate) fn log_between(least: f64, most: f64, from: i32, to: i32) -> Self {
        let low = 10_f64.powf((least * 1.001).log10().floor());
        let high = 10_f64.powf(most.log10().ceil()).max(low * 10.0);
        Self { low, high, log: true, from, to }
    }

    /// A linear axis between two values.
    pub(crate) fn linear(low: f64, high: f64, from: i32, to: i32) -> Self {
        let high = if high > low { high } else { low + 1.0 };
        Self { low, high, log: false, from, to }
    }

    /// The pixel of a value; values beyond the ends are put at the ends.
    pub(crate) fn at(&self, value: f64) -> i32 {
        let share = if self.log {
            (value.max(self.low) / self.low).log10() / (self.high / self.low).log10()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        let length = f64::from(self.to - self.from);
        self.from + (share.clamp(0.0, 1.0) * length).round() as i32
    }

    /// The pixel where bars begin.
    pub(crate) fn origin(&self) -> i32 {
        self.from
    }

    /// Values to mark on the axis.
    pub(crate) fn ticks(&self) -> Vec<f64> {
        if !self.log {
            let step = round_up((self.high - self.low) / 5.0);
            let first = (self.low / step).ceil() as i64;
            let last = (self.high / step + 1e-9).floor() as i64;
            return (first..=last).map(|index| index as f64 * step).collect();
        }
        let (first, last) = (self.low.log10().floor() as i32, self.high.log10().ceil() as i32);
        let inside = |tick: &f64| (self.low * 0.999..=self.high * 1.001).contains(tick);
        let mut ticks: Vec<f64> = (first..=last)
            .flat_map(|power| [1.0, 2.0, 5.0].map(|factor| factor * 10_f64.powi(power)))
            .filter(inside)
            .collect();
        if ticks.len() > MAX_TICKS {
            let every = ((last - first) as usize).div_ceil(MAX_TICKS - 1).max(1);
            let powers = (first..=last).step_by(every).map(|power| 10_f64.powi(power));
            ticks = powers.filter(inside).collect();
        }
        ticks
    }
}

/// A number as people read it: `1.25M`, `85K`, `12.3`, `0.42`.
pub(crate) fn human(value: f64) -> String {
    let size = value.abs();
    let (scaled, suffix) = match size {
        size if size >= 0.9995e9 => (value / 1e9, "G"),
        size if size >= 0.9995e6 => (value / 1e6, "M"),
        size if size >= 0.9995e3 => (value / 1e3, "K"),
        _ => (value, ""),
    };
    let digits = match scaled.abs() {
        size if size >= 99.95 || size == 0.0 => 0,
        size if size >= 9.995 => 1,
        _ => 2,
    };
    let text = format!("{scaled:.digits$}");
    let text = match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => &text,
    };
    if text == "0" && size > 0.0 {
        return format!("{value:.0e}");
    }
    format!("{text}{suffix}")
}

/// A ratio for people: two decimals, more of them where these would be zeros.
pub(crate) fn times(ratio: f64) -> String {
    if ratio > 0.0 && ratio < 0.095 { format!("{ratio:.4}x") } else { format!("{ratio:.2}x") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_loss_is_not_shown_as_zero() {
        assert_eq!((times(1.234).as_str(), times(0.5).as_str()), ("1.23x", "0.50x"));
        assert_eq!((times(0.0047).as_str(), times(0.0).as_str()), ("0.0047x", "0.00x"));
    }

    #[test]
    fn numbers_for_people() {
        let known = [
            (0.0, "0"),
            (0.42, "0.42"),
            (1.0, "1"),
            (12.34, "12.3"),
            (999.9, "1K"),
            (1_250_000.0, "1.25M"),
            (85_000.0, "85K"),
            (0.0004, "4e-4"),
            (7.8e9, "7.8G"),
        ];
        for (value, text) in known {
            assert_eq!(human(value), text);
        }
    }

    #[test]
    fn an_axis_is_linear_from_zero_or_logarithmic_over_wide_spans() {
        let near = Scale::of([40.0, 90.0].into_iter(), 0, 100);
        assert!(!near.log);
        assert_eq!((near.at(0.0), near.at(100.0), near.at(50.0)), (0, 100, 50));
        assert_eq!(near.ticks(), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        let wide = Scale::of([3.0, 900.0].into_iter(), 0, 300);
        assert!(wide.log);
        assert_eq!((wide.at(1.0), wide.at(10.0), wide.at(1_000.0)), (0, 100, 300));
        assert_eq!(wide.ticks(), [1.0, 10.0, 100.0, 1_000.0]);
    }

    #[test]
    fn ratios_have_one_in_the_middle_of_equal_factors() {
        let scale = Scale::ratios([0.5, 2.0].into_iter(), 0, 200);
        assert_eq!(scale.at(1.0), 100);
        assert_eq!(scale.ticks(), [0.5, 1.0, 2.0]);
        let scale = Scale::ratios([0.2, 6.0].into_iter(), 0, 200);
        assert_eq!(scale.ticks(), [0.2, 0.5, 1.0, 2.0, 5.0]);
    }

    #[test]
    fn odd_values_stay_on_the_axis() {
        let none = Scale::of([0.0].into_iter(), 0, 10);
        assert_eq!(none.at(0.0), 0);
        assert_eq!(none.at(f64::INFINITY), 10);
        let reversed = Scale::linear(0.0, 10.0, 100, 0);
        assert_eq!((reversed.at(0.0), reversed.at(10.0)), (100, 0));
        assert!(Scale::of([1e-9, 1e9].into_iter(), 0, 10).ticks().len() <= 10);
    }
}
