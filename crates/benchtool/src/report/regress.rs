//! The regression gate: is a candidate worse than a baseline, beyond the noise?
//!
//! Input are two result sets of the same machine, options and engine, with five repetitions each at
//! least; anything else is refused, since its answer would mean nothing. Per test and metric, the
//! change of the median is given with a 95 % interval by the bootstrap. A change is a regression
//! when the interval excludes zero and the change is worse than 3 % and than twice the spread that
//! the metric has without a change (half the span of the repetitions, over all sets given). A
//! control, an engine that did not change, is measured with both: if it moved, the machine did, and
//! the result is void.
//!
//! Pure: everything is computed from the sets; the same sets give the same answer.

mod bootstrap;
mod text;

pub(crate) use text::{json, markdown};

use super::compare;
use super::metrics;
use super::set::{BAD, Line, ResultSet, Summary, is_load, operation_of};
use crate::orchestrate::Run;
use crate::spec::OperationResult;
use serde::Serialize;

/// Repetitions that a side needs.
pub(crate) const REPETITIONS: usize = 5;
/// Changes up to this share are never a regression.
pub(crate) const FLOOR: f64 = 0.03;
/// A control that moved by more makes the result void.
pub(crate) const CONTROL: f64 = 0.03;

/// One metric.
struct Metric {
    name: &'static str,
    higher_is_better: bool,
    /// Of the whole test, hence looked at once, not per operation.
    per_test: bool,
    measure: fn(&Run, &OperationResult) -> Option<f64>,
}

const METRICS: [Metric; 7] = [
    Metric {
        name: "throughput",
        higher_is_better: true,
        per_test: false,
        measure: |run, operation| compare::throughput(run, operation),
    },
    Metric {
        name: "p99",
        higher_is_better: false,
        per_test: false,
        measure: |_, operation| (operation.p99_us > 0.0).then_some(operation.p99_us),
    },
    Metric {
        name: "sustained rate",
        higher_is_better: true,
        per_test: false,
        measure: |run, operation| {
            run.spec.shape.workload.mutates().then(|| metrics::sustained(run, operation)).flatten()
        },
    },
    Metric {
        name: "peak RSS",
        higher_is_better: false,
        per_test: true,
        measure: |run, _| Some(run.result.peak_rss as f64),
    },
    Metric {
        name: "write amplification",
        higher_is_better: false,
        per_test: true,
        measure: |run, _| run.result.write_amplification,
    },
    Metric {
        name: "bytes per record",
        higher_is_better: false,
        per_test: true,
        measure: |run, _| {
            run.spec.shape.workload.mutates().then(|| metrics::bytes_per_record(run)).flatten()
        },
    },
    Metric {
        name: "CPU per operation",
        higher_is_better: false,
        per_test: true,
        measure: |run, _| metrics::cpu_us_per_operation(run),
    },
];

/// What is compared and how strictly.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Question {
    /// The engine that may have changed.
    pub(crate) engine: String,
    /// An engine that did not change.
    pub(crate) control: Option<String>,
    /// Changes up to this share are never a regression; at least [`FLOOR`].
    pub(crate) floor: f64,
}

/// What became of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Outcome {
    /// Worse, beyond the noise.
    Regression,
    /// Better, beyond the noise.
    Improvement,
    /// Neither.
    Unchanged,
}

/// One metric of one line.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Change {
    /// The test, with its operation where it has several.
    pub(crate) line: String,
    /// The metric.
    pub(crate) metric: &'static str,
    /// Median before.
    pub(crate) before: f64,
    /// Median after.
    pub(crate) after: f64,
    /// Relative change of the median; positive is more.
    pub(crate) change: f64,
    /// 95 % interval of the change.
    pub(crate) interval: (f64, f64),
    /// A change has to be larger than this to count.
    pub(crate) threshold: f64,
    /// The conclusion.
    pub(crate) outcome: Outcome,
}

/// The whole answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Answer {
    /// The engine.
    pub(crate) engine: String,
    /// Why nothing may be concluded.
    pub(crate) void: Option<String>,
    /// Rows that became invalid: always a failure.
    pub(crate) invalid: Vec<String>,
    /// Tests of the baseline that the candidate does not have.
    pub(crate) missing: Vec<String>,
    /// All changes.
    pub(crate) changes: Vec<Change>,
}

impl Answer {
    /// Regressions alone.
    pub(crate) fn regressions(&self) -> impl Iterator<Item = &Change> {
        self.changes.iter().filter(|change| change.outcome == Outcome::Regression)
    }

    /// Whether the gate is shut.
    pub(crate) fn fails(&self) -> bool {
        !self.invalid.is_empty() || !self.missing.is_empty() || self.regressions().next().is_some()
    }
}

fn values(set: &ResultSet, line: &Line, engine: &str, metric: &Metric) -> Vec<f64> {
    let runs = set.repetitions(&line.test, engine);
    runs.filter_map(|run| (metric.measure)(run, operation_of(run, &line.operation)?)).collect()
}

/// Lines of an engine, loads left out.
fn lines_of(set: &ResultSet, engine: &str) -> Vec<Line> {
    let mut lines = set.lines();
    lines.retain(|line| {
        !is_load(&line.test) && set.repetitions(&line.test, engine).next().is_some()
    });
    lines
}

/// Says why two sets cannot be compared, if they cannot.
fn comparable(before: &ResultSet, after: &ResultSet, engine: &str) -> Result<(), String> {
    let (old, new) = (&before.environment, &after.environment);
    if old.host_id.is_empty() || old.host_id != new.host_id {
        let hosts = format!("{:?} and {:?}", old.host_id, new.host_id);
        return Err(format!("the sets come from different machines ({hosts})"));
    }
    if old.build != new.build {
        return Err(format!("one set is of a {} build, the other {}", old.build, new.build));
    }
    let lines = lines_of(before, engine);
    if lines.is_empty() {
        return Err(format!("the baseline has no row of {engine}"));
    }
    for line in lines {
        for (name, set) in [("baseline", before), ("candidate", after)] {
            let count = set.repetitions(&line.test, engine).count();
            if count > 0 && count < REPETITIONS {
                return Err(format!(
                    "{}: {count} repetitions in the {name}, {REPETITIONS} are needed",
                    line.test
                ));
            }
        }
        let hash =
            |set: &ResultSet| set.repetitions(&line.test, engine).next().map(metrics::options_hash);
        if let (Some(old), Some(new)) = (hash(before), hash(after))
            && old != new
        {
            return Err(format!("{}: the options differ ({old} and {new})", line.test));
        }
    }
    Ok(())
}

/// Compares a candidate with a baseline; `history` are further sets that only show the noise.
pub(crate) fn answer(
    before: &ResultSet,
    after: &ResultSet,
    history: &[ResultSet],
    question: &Question,
) -> Result<Answer, String> {
    comparable(before, after, &question.engine)?;
    let mut found = Answer {
        engine: question.engine.clone(),
        void: control_moved(before, after, question)?,
        invalid: Vec::new(),
        missing: Vec::new(),
        changes: Vec::new(),
    };
    let mut seen: Vec<String> = Vec::new();
    for line in lines_of(before, &question.engine) {
        let first = !seen.contains(&line.test);
        seen.push(line.test.clone());
        match after.status(&line.test, &question.engine) {
            None if first => found.missing.push(line.test.clone()),
            None => {}
            Some(status) if BAD.contains(&status) && first => {
                let status = format!("{status:?}").to_uppercase();
                found.invalid.push(format!("{}: {status}", line.test));
            }
            Some(status) if BAD.contains(&status) => {}
            Some(_) => {
                let wanted = METRICS.iter().filter(|metric| first || !metric.per_test);
                let changes = wanted.filter_map(|metric| {
                    change(&Sides { before, after, history }, &line, question, metric)
                });
                found.changes.extend(changes);
            }
        }
    }
    Ok(found)
}

/// The sets of a question.
struct Sides<'a> {
    before: &'a ResultSet,
    after: &'a ResultSet,
    history: &'a [ResultSet],
}

fn change(sides: &Sides<'_>, line: &Line, question: &Question, metric: &Metric) -> Option<Change> {
    let engine = &question.engine;
    let old = values(sides.before, line, engine, metric);
    let new = values(sides.after, line, engine, metric);
    let spread_in = |set: &ResultSet| {
        Summary::of(values(set, line, engine, metric)).map_or(0.0, |figure| figure.spread())
    };
    let noise = sides.history.iter().map(spread_in).fold(spread_in(sides.before), f64::max);
    let threshold = question.floor.max(FLOOR).max(2.0 * noise);
    let (before, after) = (super::median(old.clone())?, super::median(new.clone())?);
    if before <= 0.0 {
        return None;
    }
    let change = after / before - 1.0;
    let interval = bootstrap::interval(&old, &new)?;
    let worse = if metric.higher_is_better { -change } else { change };
    let certain = interval.0 > 0.0 || interval.1 < 0.0;
    let outcome = match certain {
        true if worse > threshold => Outcome::Regression,
        true if -worse > threshold => Outcome::Improvement,
        _ => Outcome::Unchanged,
    };
    let line = match metric.per_test {
        true => line.test.clone(),
        false => line.label.clone(),
    };
    Some(Change { line, metric: metric.name, before, after, change, interval, threshold, outcome })
}

/// Whether the control's throughput moved, over all its lines: then why nothing may be concluded.
fn control_moved(
    before: &ResultSet,
    after: &ResultSet,
    question: &Question,
) -> Result<Option<String>, String> {
    let Some(control) = &question.control else { return Ok(None) };
    let mut changes = Vec::new();
    for line in lines_of(before, control) {
        let old = before.summary(&line, control, compare::throughput);
        let new = after.summary(&line, control, compare::throughput);
        if let (Some(old), Some(new)) = (old, new) {
            changes.push(new.median / old.median - 1.0);
        }
    }
    let Some(moved) = super::median(changes) else {
        return Err(format!("the control {control} is not in both sets"));
    };
    let text = || format!("the control {control} moved by {:+.1} %", moved * 100.0);
    Ok((moved.abs() > CONTROL).then(text))
}

#[cfg(test)]
mod tests;
