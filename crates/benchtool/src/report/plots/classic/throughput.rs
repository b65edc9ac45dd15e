//! How fast: plots of operations per second.

use super::super::colors::{LOSS, MUTED, Role, TIE, WIN};
use super::super::figure::{Bar, Group, Kind, Mark, Panel, Series};
use super::super::scale::times;
use super::super::view::{About, Sweep, View, threads};
use crate::report::compare::{self, Verdict};
use crate::report::set::{Line as Row, Summary};

const RATE: &str = "operations per second";

fn judged(verdict: Verdict) -> Mark {
    let role: Role = match verdict {
        Verdict::Win => WIN,
        Verdict::Tie => TIE,
        Verdict::Loss => LOSS,
        Verdict::Noisy => MUTED,
        Verdict::Invalid => return Mark::Invalid,
    };
    Mark::Judged(role)
}

pub(super) fn speedup(view: &View<'_>) -> Vec<Panel> {
    let comparisons = compare::all(view.set, &view.sides);
    let nothing = Summary { median: 0.0, low: 0.0, high: 0.0, count: 0 };
    let groups: Vec<Group> = comparisons
        .into_iter()
        .map(|comparison| {
            let text = match comparison.ratio {
                Some(ratio) if comparison.verdict == Verdict::Noisy => {
                    format!("{} noisy", times(ratio.median))
                }
                Some(ratio) => times(ratio.median),
                None => "INVALID".to_owned(),
            };
            let summary = comparison.ratio.unwrap_or(nothing);
            let bar = Bar { series: 0, summary, text, mark: judged(comparison.verdict) };
            Group { label: comparison.line.label, bars: vec![bar] }
        })
        .collect();
    if groups.is_empty() {
        return Vec::new();
    }
    let name = format!("{} ÷ {}", view.sides.subject, view.sides.peers.join(" or "));
    vec![Panel {
        title: name.clone(),
        unit: format!("throughput, {name}"),
        series: Series::named(std::slice::from_ref(&view.sides.subject)),
        kind: Kind::Bars(groups, Some(1.0)),
    }]
}

fn rate(run: &crate::orchestrate::Run, operation: &crate::spec::OperationResult) -> Option<f64> {
    compare::throughput(run, operation)
}

pub(super) fn rates(view: &View<'_>, wanted: fn(&About<'_>) -> bool) -> Vec<Panel> {
    view.bars("", RATE, &view.rows(wanted), rate)
}

pub(super) fn writes(about: &About<'_>) -> bool {
    about.workload() == "write" && about.operation == "PUT"
}

pub(super) fn write_throughput(view: &View<'_>) -> Vec<Panel> {
    let rows = view.rows(|about| writes(about) && !about.synced());
    let threads_of = |row: &Row| view.set.example(&row.test).map(|run| run.spec.shape.threads);
    let mut counts: Vec<u64> = rows.iter().filter_map(threads_of).collect();
    counts.sort_unstable();
    counts.dedup();
    let mut panels = Vec::new();
    for count in counts {
        let rows: Vec<Row> =
            rows.iter().filter(|row| threads_of(row) == Some(count)).cloned().collect();
        panels.extend(view.bars(&threads(count), RATE, &rows, rate));
    }
    panels
}

pub(super) fn batch_sizes(view: &View<'_>) -> Vec<Panel> {
    let rows = view.rows(|about| matches!(about.operation, "PUT" | "DELETE") && !about.synced());
    let sweep = Sweep {
        x: |run| run.spec.shape.batch as f64,
        family: |about| {
            let shape = &about.run.spec.shape;
            format!(
                "{} {}, {} B values, {}",
                about.workload(),
                about.pattern(),
                shape.value_size,
                threads(shape.threads)
            )
        },
        x_unit: "operations per commit (log axis)",
        x_log: true,
        unit: RATE,
    };
    view.sweep(&sweep, &rows, rate)
}

pub(super) fn value_sizes(view: &View<'_>) -> Vec<Panel> {
    let rows = view.rows(|about| !about.synced() && about.operation != "ITER");
    let sweep = Sweep {
        x: |run| run.spec.shape.value_size as f64,
        family: |about| {
            let shape = &about.run.spec.shape;
            format!(
                "{} {} {}, batch {}, {}",
                about.workload(),
                about.operation,
                about.pattern(),
                shape.batch,
                threads(shape.threads)
            )
        },
        x_unit: "bytes per value (log axis)",
        x_log: true,
        unit: RATE,
    };
    view.sweep(&sweep, &rows, rate)
}

pub(super) fn synced(view: &View<'_>) -> Vec<Panel> {
    let rows = view.rows(|about| about.synced() && matches!(about.operation, "PUT" | "DELETE"));
    let mut sweep = Sweep {
        x: |run| run.spec.shape.threads as f64,
        family: |about| {
            format!(
                "{} {}, batch {}",
                about.workload(),
                about.pattern(),
                about.run.spec.shape.batch
            )
        },
        x_unit: "threads",
        x_log: false,
        unit: RATE,
    };
    let mut panels = view.sweep(&sweep, &rows, rate);
    sweep.unit = "microseconds per commit, average";
    panels.extend(view.sweep(&sweep, &rows, |_, operation| Some(operation.average_us)));
    panels.extend(view.bars("all synced tests", RATE, &rows, rate));
    panels.extend(
        view.bars("commits per sync", "commits", &rows, |run, _| run.result.commits_per_sync),
    );
    panels
}
