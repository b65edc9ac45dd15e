//! Who is compared with whom, and what is a win, a tie or a loss.
//!
//! The subject is ours if it took part, else the first engine. The peer is the named baseline, and
//! where several profiles of it ran, the better one of each line: a claim has to hold against the
//! better of both.

use super::set::{self, Line, ResultSet, Summary};
use crate::orchestrate::Run;
use crate::spec::{OperationResult, Status};

/// A ratio from here up is a win.
pub(crate) const WIN: f64 = 1.05;
/// A ratio below is a loss; between the two is a tie.
pub(crate) const LOSS: f64 = 0.95;
/// A spread above this makes a summary noisy.
pub(crate) const NOISY: f64 = 0.15;
/// A noisy win below this ratio is not counted as one, and neither is one whose extremes reach
/// below
/// 1. A loss is a loss, noisy or not.
pub(crate) const CLEAR: f64 = 1.3;

/// The two sides of a comparison.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Sides {
    /// Who is judged.
    pub(crate) subject: String,
    /// Against whom: profiles of one engine.
    pub(crate) peers: Vec<String>,
}

/// Chooses the sides among the engines of a set.
pub(crate) fn sides(engines: &[String], baseline: &str) -> Sides {
    let subject = engines.iter().find(|engine| *engine == crate::ours::NAME);
    let Some(subject) = subject.or(engines.first()).cloned() else { return Sides::default() };
    let profile_of = |engine: &&String| {
        *engine == baseline || engine.strip_prefix(baseline).is_some_and(|r| r.starts_with('-'))
    };
    let others = || engines.iter().filter(|engine| **engine != subject);
    let mut peers: Vec<String> = others().filter(profile_of).cloned().collect();
    if peers.is_empty() {
        peers = others().take(1).cloned().collect();
    }
    Sides { subject, peers }
}

/// Win, tie, loss, or why it is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Better than the peer.
    Win,
    /// As good.
    Tie,
    /// Worse.
    Loss,
    /// Better, but the spread is too wide to say so.
    Noisy,
    /// A row of one side failed a check: no comparison.
    Invalid,
}

impl Verdict {
    /// For reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Win => "win",
            Self::Tie => "tie",
            Self::Loss => "loss",
            Self::Noisy => "noisy",
            Self::Invalid => "INVALID",
        }
    }
}

/// One line of the comparison.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Comparison {
    /// The line.
    pub(crate) line: Line,
    /// Throughput of the subject.
    pub(crate) subject: Option<Summary>,
    /// Name and throughput of the better peer.
    pub(crate) peer: Option<(String, Summary)>,
    /// Subject over peer, with the ends that the extremes of both give.
    pub(crate) ratio: Option<Summary>,
    /// What follows.
    pub(crate) verdict: Verdict,
}

/// Throughput of an operation.
pub(crate) fn throughput(_: &Run, operation: &OperationResult) -> Option<f64> {
    (operation.per_second > 0.0).then_some(operation.per_second)
}

/// The better of the peers by median throughput.
pub(crate) fn best_peer(set: &ResultSet, line: &Line, sides: &Sides) -> Option<(String, Summary)> {
    let valid = |peer: &&String| set.status(&line.test, peer) == Some(Status::Valid);
    let figures = sides.peers.iter().filter(valid).filter_map(|peer| {
        set.summary(line, peer, throughput).map(|summary| (peer.clone(), summary))
    });
    figures.max_by(|one, other| one.1.median.total_cmp(&other.1.median))
}

fn ratio_of(subject: &Summary, peer: &Summary) -> Summary {
    Summary {
        median: subject.median / peer.median,
        low: subject.low / peer.high,
        high: subject.high / peer.low,
        count: subject.count.min(peer.count),
    }
}

fn judge(ratio: &Summary, spread: f64) -> Verdict {
    match ratio.median {
        median if median < LOSS => Verdict::Loss,
        median if median < WIN => Verdict::Tie,
        median if spread > NOISY && (median < CLEAR || ratio.low < 1.0) => Verdict::Noisy,
        _ => Verdict::Win,
    }
}

/// All lines that both sides ran; loads are left out.
pub(crate) fn all(results: &ResultSet, sides: &Sides) -> Vec<Comparison> {
    let mut found = Vec::new();
    for line in results.lines() {
        // An engine that has no such operation did not take part; one that failed at it did.
        let took_part = |engine: &String| {
            results.summary(&line, engine, throughput).is_some()
                || results.status(&line.test, engine).is_some_and(|s| set::BAD.contains(&s))
        };
        let both = took_part(&sides.subject) && sides.peers.iter().any(took_part);
        if both && !set::is_load(&line.test) {
            found.push(one(results, sides, line));
        }
    }
    found
}

fn one(set: &ResultSet, sides: &Sides, line: Line) -> Comparison {
    let subject = set.summary(&line, &sides.subject, throughput);
    let peer = best_peer(set, &line, sides);
    let valid = set.status(&line.test, &sides.subject) == Some(Status::Valid);
    let ratio = match (&subject, &peer) {
        (Some(subject), Some((_, peer))) if valid => Some(ratio_of(subject, peer)),
        _ => None,
    };
    let spread = |summary: Option<&Summary>| summary.map_or(0.0, Summary::spread);
    let widest = spread(subject.as_ref()).max(spread(peer.as_ref().map(|peer| &peer.1)));
    let verdict = ratio.as_ref().map_or(Verdict::Invalid, |ratio| judge(ratio, widest));
    Comparison { line, subject, peer, ratio, verdict }
}

/// The geometric mean of the ratios.
pub(crate) fn geometric_mean(comparisons: &[Comparison]) -> Option<f64> {
    let ratios: Vec<f64> =
        comparisons.iter().filter_map(|c| c.ratio.map(|ratio| ratio.median.ln())).collect();
    (!ratios.is_empty()).then(|| (ratios.iter().sum::<f64>() / ratios.len() as f64).exp())
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn of<'a>(all: &'a [Comparison], label: &str) -> &'a Comparison {
        all.iter().find(|comparison| comparison.line.label == label).unwrap()
    }

    #[test]
    fn sides_are_ours_and_all_profiles_of_the_baseline() {
        let engines = names(&["lmdb", "rocksdb", "rocksdb-tuned", "tidesdb"]);
        let both = sides(&engines, "rocksdb");
        assert_eq!(both.subject, "tidesdb");
        assert_eq!(both.peers, names(&["rocksdb", "rocksdb-tuned"]));
        assert_eq!(sides(&names(&["memory", "null"]), "rocksdb").peers, names(&["null"]));
        assert!(sides(&names(&["lmdb"]), "rocksdb").peers.is_empty());
        assert_eq!(sides(&[], "rocksdb"), Sides::default());
    }

    #[test]
    fn wins_ties_and_losses() {
        let set = sample::set();
        let all = all(&set, &sides(&set.engine_names(), "rocksdb"));
        assert_eq!(of(&all, "write_random_b1").verdict, Verdict::Win);
        let tie = of(&all, "write_random_b1000");
        assert_eq!(tie.verdict, Verdict::Tie);
        assert!((tie.ratio.unwrap().median - 595.0 / 620.0).abs() < 1e-9);
        assert_eq!(of(&all, "delete_b1").verdict, Verdict::Loss);
    }

    #[test]
    fn the_better_profile_is_the_peer() {
        let mut set = sample::set();
        let tuned: Vec<Run> = set
            .runs
            .iter()
            .filter(|run| run.spec.engine == "rocksdb" && run.spec.test == "delete_b1")
            .cloned()
            .map(|mut run| {
                run.spec.engine = "rocksdb-tuned".to_owned();
                run.result.operations[0].per_second *= 2.0;
                run
            })
            .collect();
        set.runs.extend(tuned);
        let all = all(&set, &sides(&set.engine_names(), "rocksdb"));
        let (name, summary) = of(&all, "delete_b1").peer.clone().unwrap();
        assert_eq!((name.as_str(), summary.median), ("rocksdb-tuned", 1_040_000.0));
        assert_eq!(of(&all, "write_random_b1").peer.clone().unwrap().0, "rocksdb");
    }

    #[test]
    fn an_invalid_row_is_never_a_win() {
        let mut set = sample::set();
        for run in &mut set.runs {
            if run.spec.test == "write_random_b1" && run.spec.engine == "tidesdb" {
                run.result.status = Status::Invalid;
            }
        }
        let all = all(&set, &sides(&set.engine_names(), "rocksdb"));
        assert_eq!(of(&all, "write_random_b1").verdict, Verdict::Invalid);
        assert_eq!(of(&all, "write_random_b1").ratio, None);
    }

    #[test]
    fn a_small_win_needs_a_small_spread() {
        let ratio = Summary { median: 1.2, low: 0.9, high: 1.5, count: 3 };
        assert_eq!(judge(&ratio, 0.2), Verdict::Noisy);
        assert_eq!(judge(&ratio, 0.1), Verdict::Win);
        let ratio = Summary { median: 1.4, low: 1.1, high: 1.5, count: 3 };
        assert_eq!(judge(&ratio, 0.2), Verdict::Win);
        let ratio = Summary { median: 1.4, low: 0.9, high: 1.9, count: 3 };
        assert_eq!(judge(&ratio, 0.2), Verdict::Noisy);
        let ratio = Summary { median: 0.9, low: 0.5, high: 1.5, count: 3 };
        assert_eq!(judge(&ratio, 0.5), Verdict::Loss);
    }

    #[test]
    fn the_mean_of_ratios_is_geometric() {
        let set = sample::set();
        let mut two = all(&set, &sides(&set.engine_names(), "rocksdb"));
        two.truncate(2);
        for (comparison, ratio) in two.iter_mut().zip([4.0, 0.25]) {
            comparison.ratio = Some(Summary { median: ratio, low: ratio, high: ratio, count: 1 });
        }
        assert!((geometric_mean(&two).unwrap() - 1.0).abs() < 1e-12);
        assert_eq!(geometric_mean(&[]), None);
    }
}
