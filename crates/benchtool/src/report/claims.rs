//! The claims gate: every published figure of the original engine against RocksDB, and whether ours
//! reaches it here.
//!
//! `claims.csv` holds one line per figure of the published articles. The target is a ratio to the
//! better profile of the peer: at least the published ratio where the published test was valid, and
//! at least 1.05; figures in which the peer was ahead (marks `R` for the row, `r` for a secondary
//! figure) have to be at least as good. A published test counts as not valid where it is known to
//! have measured something else: wrong key generators, deletions without effect, mixes that did not
//! mix, sizes before compaction.
//!
//! A claim is matched by what a test does (workload, pattern, operation, sizes, batch, sync), never
//! by its name. Threads and volume differ from the published ones on other machines, which the
//! report says; a claim without a matching test on both sides is "not comparable", never "met", and
//! so is one whose test is not valid of the peer. Where ours fails its test, the claim is missed.

use super::compare::{self, Sides};
use super::metrics;
use super::plots::view::{self, Measure};
use super::set::{BAD, Line, ResultSet};
use crate::spec::{Status, Sync};
use serde::{Deserialize, Serialize};

const DATA: &str = include_str!("claims/claims.csv");
/// Least ratio of a throughput claim.
const LEAST: f64 = 1.05;

/// One line of the table.
// More than a dozen fields: one for each column of a row in the report.
#[derive(Debug, Clone, PartialEq, Deserialize)]
struct Claim {
    id: String,
    /// Names of workloads, the preferred one first.
    workload: String,
    pattern: String,
    operation: String,
    threads: u64,
    /// Empty: any.
    batch: Option<u64>,
    key: usize,
    value: usize,
    range: Option<u64>,
    sync: String,
    figure: String,
    published: Option<f64>,
    valid: u8,
    mark: String,
}

/// What became of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    /// The ratio is at least the target.
    Met,
    /// It is not, or ours has failed the test.
    Missed,
    /// There is no test of both engines that is valid of the peer.
    NotComparable,
}

/// A claim and the figures found for it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Checked {
    /// Number of the claim.
    pub(crate) id: String,
    /// What it is about.
    pub(crate) about: String,
    /// The figure.
    pub(crate) figure: String,
    /// The published ratio.
    pub(crate) published: Option<f64>,
    /// Whether the published test measured what it said.
    pub(crate) published_valid: bool,
    /// The ratio to reach; more is better for every figure.
    pub(crate) target: f64,
    /// The ratio here; over 1 is better than the peer for every figure.
    pub(crate) ratio: Option<f64>,
    /// The test it was taken from, with what differs from the published one.
    pub(crate) test: String,
    /// The conclusion.
    pub(crate) outcome: Outcome,
}

/// A figure by its name in the table, and whether more of it is better.
fn measure(figure: &str) -> Option<(bool, Measure)> {
    Some(match figure {
        "throughput" => (true, |run, operation| compare::throughput(run, operation)),
        "iteration" => (true, |run, _| run.result.scan_per_second),
        "average" => (false, |_, operation| Some(operation.average_us)),
        "p50" => (false, |_, operation| Some(operation.p50_us)),
        "p99" => (false, |_, operation| Some(operation.p99_us)),
        "spread" => (false, |_, operation| {
            (operation.p50_us > 0.0).then(|| operation.p99_us / operation.p50_us)
        }),
        "tail" => (false, |_, operation| Some(operation.p99_us / operation.average_us)),
        "cv" => (false, |_, operation| metrics::variation(operation)),
        "wa" => (false, |run, _| run.result.write_amplification),
        "rss" => (false, |run, _| Some(run.result.peak_rss as f64)),
        "space" => (false, |run, _| metrics::bytes_per_record(run)),
        _ => return None,
    })
}

fn table() -> Result<Vec<Claim>, String> {
    let mut reader = csv::Reader::from_reader(DATA.as_bytes());
    reader.deserialize().collect::<Result<_, _>>().map_err(|error| format!("claims: {error}"))
}

impl Claim {
    /// How well a line fits: `None` not at all, less is better.
    fn distance(&self, set: &ResultSet, line: &Line) -> Option<(usize, u64)> {
        let run = set.example(&line.test)?;
        let (shape, setup) = (&run.spec.shape, &run.spec.setup);
        let place = self.workload.split('|').position(|name| name == shape.workload.name())?;
        let synced = if setup.sync == Sync::Full { "full" } else { "none" };
        let fits = self.pattern.split('|').any(|name| name == shape.pattern.name())
            && self.operation == line.operation
            && self.batch.is_none_or(|batch| batch == shape.batch)
            && (self.key, self.value) == (shape.key_size, shape.value_size)
            && self.range.is_none_or(|range| range == shape.range_size)
            && self.sync == synced;
        fits.then(|| (place, shape.threads.abs_diff(self.threads)))
    }

    fn target(&self) -> f64 {
        match (self.figure.as_str(), self.published, self.valid) {
            ("throughput", Some(published), 1) => published.max(LEAST),
            ("throughput", _, _) => LEAST,
            _ => 1.0,
        }
    }

    fn about(&self) -> String {
        let mut text = format!("{} {} {}", self.operation, self.workload, self.pattern);
        if let Some(batch) = self.batch {
            text.push_str(&format!(", batch {batch}"));
        }
        if let Some(range) = self.range {
            text.push_str(&format!(", {range} rows"));
        }
        if (self.key, self.value) != (16, 100) {
            text.push_str(&format!(", {}/{} B", self.key, self.value));
        }
        if self.sync == "full" {
            text.push_str(", synced");
        }
        format!("{text}, {} threads", self.threads)
    }

    fn check(&self, set: &ResultSet, sides: &Sides, lines: &[Line]) -> Checked {
        let found = lines
            .iter()
            .filter_map(|line| self.distance(set, line).map(|distance| (distance, line)))
            .min_by_key(|(distance, _)| *distance);
        let target = self.target();
        let ratio = found.and_then(|(_, line)| self.ratio(set, sides, line));
        let test = found.map_or(String::new(), |((_, threads), line)| match threads {
            0 => line.label.clone(),
            _ => {
                let here = set.example(&line.test).map_or(0, |run| run.spec.shape.threads);
                format!("{} (with {})", line.label, view::threads(here))
            }
        });
        let fails = |line: &Line| {
            let status = set.status(&line.test, &sides.subject);
            status.is_some_and(|status| matches!(status, Status::Failed | Status::Invalid))
        };
        let outcome = match ratio {
            // What ours gets wrong must not hide where it would have been slower.
            None if found.is_some_and(|(_, line)| fails(line)) => Outcome::Missed,
            None => Outcome::NotComparable,
            Some(ratio) if ratio >= target => Outcome::Met,
            Some(_) => Outcome::Missed,
        };
        Checked {
            id: self.id.clone(),
            about: self.about(),
            figure: self.figure.clone(),
            published: self.published,
            published_valid: self.valid == 1,
            target,
            ratio,
            test,
            outcome,
        }
    }

    /// Ours over the better peer, turned so that more is better.
    fn ratio(&self, set: &ResultSet, sides: &Sides, line: &Line) -> Option<f64> {
        let (more, figure) = measure(&self.figure)?;
        let valid = |engine: &str| {
            set.status(&line.test, engine).is_some_and(|status| !BAD.contains(&status))
        };
        let value = |engine: &str| {
            set.summary(line, engine, figure).map(|found| found.median).filter(|value| *value > 0.0)
        };
        if !valid(&sides.subject) {
            return None;
        }
        let ours = value(&sides.subject)?;
        let ratios = sides.peers.iter().filter(|peer| valid(peer)).filter_map(|peer| {
            let theirs = value(peer)?;
            Some(if more { ours / theirs } else { theirs / ours })
        });
        // Against the better profile the ratio is the smaller one.
        ratios.reduce(f64::min)
    }
}

/// Checks all claims against a set.
pub(crate) fn check(set: &ResultSet, baseline: &str) -> Result<Vec<Checked>, String> {
    let sides = compare::sides(&set.engine_names(), baseline);
    if sides.peers.is_empty() {
        return Err(format!("the set has no engine to compare {} with", sides.subject));
    }
    let lines = set.lines();
    Ok(table()?.iter().map(|claim| claim.check(set, &sides, &lines)).collect())
}

fn ratio_text(ratio: Option<f64>) -> String {
    ratio.map_or("–".to_owned(), |ratio| format!("{ratio:.2}"))
}

/// The claims for people: missed first, then met, then the rest by number only.
pub(crate) fn markdown(checked: &[Checked]) -> String {
    let count = |outcome| checked.iter().filter(|claim| claim.outcome == outcome).count();
    let mut out = format!(
        "## Published claims\n\n{} met, {} missed, {} not comparable. Ratios over 1 are better than \
         the peer, for every figure.\n\n",
        count(Outcome::Met),
        count(Outcome::Missed),
        count(Outcome::NotComparable)
    );
    for (title, outcome) in [("Missed", Outcome::Missed), ("Met", Outcome::Met)] {
        if count(outcome) == 0 {
            continue;
        }
        out.push_str(&format!(
            "### {title}\n\n| claim | about | figure | published | target | here | test |\n\
             |---|---|---|---:|---:|---:|---|\n"
        ));
        for claim in checked.iter().filter(|claim| claim.outcome == outcome) {
            let published = ratio_text(claim.published);
            let doubt = if claim.published_valid { "" } else { " (not a valid test)" };
            out.push_str(&format!(
                "| {} | {} | {} | {published}{doubt} | {:.2} | {} | {} |\n",
                claim.id,
                claim.about.replace('|', " or "),
                claim.figure,
                claim.target,
                ratio_text(claim.ratio),
                claim.test
            ));
        }
        out.push('\n');
    }
    let mut rest: Vec<&str> = Vec::new();
    for claim in checked.iter().filter(|claim| claim.outcome == Outcome::NotComparable) {
        if !rest.contains(&claim.id.as_str()) {
            rest.push(&claim.id);
        }
    }
    if !rest.is_empty() {
        out.push_str(&format!("Not comparable with this set: {}\n", rest.join(", ")));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;
    use crate::orchestrate::Run;

    fn of<'a>(checked: &'a [Checked], id: &str, figure: &str) -> &'a Checked {
        checked.iter().find(|claim| claim.id == id && claim.figure == figure).unwrap()
    }

    #[test]
    fn the_table_is_complete_and_readable() {
        let table = table().unwrap();
        assert!(table.len() > 150);
        for claim in &table {
            assert!(measure(&claim.figure).is_some(), "{}: {}", claim.id, claim.figure);
            assert!(matches!(claim.mark.as_str(), "" | "r" | "R"), "{}", claim.id);
            assert!(claim.published.is_some() || !claim.mark.is_empty(), "{}", claim.id);
            let ahead = claim.published.is_some_and(|published| published < 1.0);
            assert!(!ahead || claim.mark == "R", "{}: the peer was ahead", claim.id);
        }
        // Every claim of the articles that has a ratio of its own is there.
        for id in ["A01", "B13c", "C17e", "D06", "E16", "G01", "G21"] {
            assert!(table.iter().any(|claim| claim.id == id), "{id}");
        }
    }

    /// The rule of the specification: at least the published ratio where the test was valid and
    /// 1.05 for throughput, at least as good for figures in which the peer was ahead.
    #[test]
    fn targets_follow_the_rule() {
        let table = table().unwrap();
        let target = |id: &str, figure: &str| {
            let claim = table.iter().find(|claim| claim.id == id && claim.figure == figure);
            claim.unwrap().target()
        };
        for (id, published) in [("A01", 1.31), ("B08", 3.11), ("C01", 3.05), ("G13", 9.90)] {
            assert_eq!(target(id, "throughput"), published, "{id}");
        }
        assert_eq!(target("A03g", "throughput"), LEAST, "reads that followed the writes");
        assert_eq!(target("B10c", "throughput"), LEAST, "published as 1.01");
        assert_eq!(target("E13", "throughput"), LEAST, "the peer was ahead");
        for (id, figure) in [("E13", "wa"), ("B07", "p99"), ("G01", "spread"), ("G22", "rss")] {
            assert_eq!(target(id, figure), 1.0, "{id} {figure}");
        }
    }

    #[test]
    fn claims_are_met_missed_or_not_comparable() {
        let checked = check(&sample::set(), "rocksdb").unwrap();
        // 1,200 over 190 thousand a second with the nearest number of threads; the target is 1.05
        // since the peer was ahead.
        let single = of(&checked, "E13", "throughput");
        assert_eq!((single.outcome, single.target), (Outcome::Met, 1.05));
        assert!((single.ratio.unwrap() - 1_200.0 / 190.0).abs() < 1e-9);
        assert_eq!(single.test, "write_random_b1_t4 (with 4 threads)");
        // 595 over 620, published as 2.05.
        let batches = of(&checked, "E02", "throughput");
        assert_eq!((batches.outcome, batches.target), (Outcome::Missed, 2.05));
        // There are no values of 4 KiB in the sample.
        assert_eq!(of(&checked, "E16", "throughput").outcome, Outcome::NotComparable);
        let text = markdown(&checked);
        assert!(text.contains("### Missed") && text.contains("Not comparable with this set"));
    }

    #[test]
    fn less_is_better_for_memory_and_latency() {
        let mut set = sample::set();
        for run in &mut set.runs {
            if run.spec.test == "read_random" && run.spec.engine == "tidesdb" {
                run.result.peak_rss *= 2;
            }
        }
        let checked = check(&set, "rocksdb").unwrap();
        let memory = of(&checked, "G04", "rss");
        assert_eq!(memory.ratio, Some(0.5));
        assert_eq!(memory.outcome, Outcome::Missed);
    }

    /// Rows of ours that failed took their claims out of the gate, which passed without them.
    #[test]
    fn invalid_rows_meet_nothing() {
        for (engine, status, outcome) in [
            ("tidesdb", Status::Invalid, Outcome::Missed),
            ("tidesdb", Status::Failed, Outcome::Missed),
            ("tidesdb", Status::Interrupted, Outcome::NotComparable),
            ("rocksdb", Status::Invalid, Outcome::NotComparable),
        ] {
            let mut set = sample::set();
            let is_meant =
                |run: &&mut Run| run.spec.test == "write_seq_b1000" && run.spec.engine == engine;
            let first = set.runs.iter_mut().find(is_meant).unwrap();
            first.result.status = status;
            let checked = check(&set, "rocksdb").unwrap();
            let claim = of(&checked, "E01", "throughput");
            assert_eq!((claim.outcome, claim.ratio), (outcome, None), "{engine} {status:?}");
        }
    }

    #[test]
    fn the_better_profile_counts() {
        let mut set = sample::set();
        let tuned: Vec<Run> = set
            .runs
            .iter()
            .filter(|run| run.spec.engine == "rocksdb" && run.spec.test == "seek_random")
            .cloned()
            .map(|mut run| {
                run.spec.engine = "rocksdb-tuned".to_owned();
                run.result.operations[0].per_second *= 10.0;
                run
            })
            .collect();
        set.runs.extend(tuned);
        let checked = check(&set, "rocksdb").unwrap();
        let seek = of(&checked, "C07", "throughput");
        assert!((seek.ratio.unwrap() - 135.0 / 260.0).abs() < 1e-9);
        assert_eq!(seek.outcome, Outcome::Missed);
    }
}
