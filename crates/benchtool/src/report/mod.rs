//! Reports of results: tables for the terminal (`table`), CSV (`csv`), the set of results as JSON
//! (`set`, with the machine in `environment`), the page and its plots (`html`, `plots`), a section
//! of a Markdown page (`markdown`), and the two gates: `regress` between versions, `claims` against
//! published figures.
//!
//! All are made from one [`set::ResultSet`]; repetitions of a test are summarised by their median,
//! and figures that are not measured directly are derived in `metrics` alone, so that every report
//! says the same.

pub(crate) mod checksums;
pub(crate) mod claims;
pub(crate) mod compare;
pub(crate) mod csv;
pub(crate) mod environment;
pub(crate) mod html;
pub(crate) mod markdown;
pub(crate) mod metrics;
pub(crate) mod parity;
pub(crate) mod plots;
pub(crate) mod regress;
#[cfg(test)]
pub(crate) mod sample;
pub(crate) mod set;
pub(crate) mod table;

use crate::orchestrate::Run;
use crate::spec::Status;

/// Whether every row passed every check; rows of what an engine does not have are left out.
pub(crate) fn all_valid(runs: &[Run]) -> bool {
    let fine = |run: &Run| matches!(run.result.status, Status::Valid | Status::Skipped);
    !runs.is_empty() && runs.iter().all(fine)
}

/// The middle one, or the mean of the two in the middle.
pub(crate) fn median(mut figures: Vec<f64>) -> Option<f64> {
    figures.sort_by(f64::total_cmp);
    let middle = figures.len() / 2;
    match figures.len() {
        0 => None,
        length if length % 2 == 1 => Some(figures[middle]),
        _ => Some((figures[middle - 1] + figures[middle]) / 2.0),
    }
}

/// The names of the tests, in the order in which they first ran.
pub(crate) fn test_names(runs: &[Run]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for run in runs {
        if !names.contains(&run.spec.test) {
            names.push(run.spec.test.clone());
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_known_figures() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![3.0]), Some(3.0));
        assert_eq!(median(vec![9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![9.0, 1.0, 2.0, 4.0]), Some(3.0));
    }
}
