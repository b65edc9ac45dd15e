//! Times as lines of a log show them.

/// A Unix time in milliseconds as `YYYY-MM-DDTHH:MM:SS.mmmZ`, in UTC.
///
/// ```
/// assert_eq!(tidesdb_base::utc::timestamp(1_709_210_096_007), "2024-02-29T12:34:56.007Z");
/// ```
#[must_use]
pub fn timestamp(unix_millis: u64) -> String {
    let (seconds, milliseconds) = (unix_millis / 1000, unix_millis % 1000);
    let (year, month, day) = civil_date(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milliseconds:03}Z")
}

/// Year, month and day of a day since 1970-01-01 in the Gregorian calendar.
const fn civil_date(days: u64) -> (u64, u64, u64) {
    // Years begin in March, so that the leap day is the last of its year, and are counted in
    // cycles of 400 years of 146,097 days.
    let shifted = days + 719_468;
    let (cycle, day_of_cycle) = (shifted / 146_097, shifted % 146_097);
    let year_of_cycle = (day_of_cycle - day_of_cycle / 1_460 + day_of_cycle / 36_524
        - day_of_cycle / 146_096)
        / 365;
    let day_of_year =
        day_of_cycle - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = cycle * 400 + year_of_cycle + if month <= 2 { 1 } else { 0 };
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_at_the_ends_of_months_and_years_are_right() {
        for (days, date) in [
            (0, (1970, 1, 1)),
            (58, (1970, 2, 28)),
            (59, (1970, 3, 1)),
            (11_016, (2000, 2, 29)),
            (19_722, (2023, 12, 31)),
            (47_540, (2100, 2, 28)),
            (47_541, (2100, 3, 1)),
        ] {
            assert_eq!(civil_date(days), date, "{days}");
        }
    }
}
