//! How long a call takes: plots of averages, percentiles and their spread.

use super::super::figure::{Kind, Panel};
use super::super::view::{About, Measure, View};
use super::throughput::writes;
use crate::report::metrics;
use crate::report::set::Line as Row;

/// A kind of lines: its name, and which belong to it.
type Kinds = (&'static str, fn(&About<'_>) -> bool);

/// The kinds of operations that have panels of their own.
const KINDS: [Kinds; 5] = [
    ("writes", |about| about.operation == "PUT"),
    ("reads", |about| about.operation == "GET"),
    ("seeks", |about| about.operation == "SEEK"),
    ("ranges", |about| matches!(about.operation, "RANGE" | "SCAN")),
    ("deletes", |about| about.operation == "DELETE"),
];

fn by_kind(view: &View<'_>, unit: &str, measure: Measure) -> Vec<Panel> {
    let panels =
        KINDS.iter().map(|(name, wanted)| view.bars(name, unit, &view.rows(wanted), measure));
    panels.flatten().collect()
}

pub(super) fn average_latency(view: &View<'_>) -> Vec<Panel> {
    by_kind(view, "microseconds per call", |_, operation| Some(operation.average_us))
}

pub(super) fn percentiles(view: &View<'_>) -> Vec<Panel> {
    let kinds: [Kinds; 6] = [
        ("sequential write", |about| writes(about) && about.pattern() == "seq"),
        ("random write", |about| writes(about) && about.pattern() == "random"),
        ("read", |about| about.operation == "GET" && about.workload() == "read"),
        ("seek", |about| about.operation == "SEEK"),
        ("range", |about| about.operation == "RANGE"),
        ("delete", |about| about.operation == "DELETE"),
    ];
    let measures: [(&str, Measure); 3] = [
        ("p50", |_, operation| Some(operation.p50_us)),
        ("p95", |_, operation| Some(operation.p95_us)),
        ("p99", |_, operation| Some(operation.p99_us)),
    ];
    let mut panels = Vec::new();
    for (name, wanted) in kinds {
        let Some(row) = view.rows(wanted).into_iter().next() else { continue };
        let mut all: Option<Panel> = None;
        for (percentile, measure) in measures {
            let row = Row { label: percentile.to_owned(), ..row.clone() };
            let title = format!("{name} ({})", row.test);
            for panel in view.bars(&title, "microseconds per call", &[row], measure) {
                all = Some(match all.take() {
                    None => panel,
                    Some(before) => joined(before, panel),
                });
            }
        }
        panels.extend(all);
    }
    panels
}

/// The groups of two panels of bars in one.
fn joined(mut first: Panel, second: Panel) -> Panel {
    if let (Kind::Bars(groups, _), Kind::Bars(more, _)) = (&mut first.kind, second.kind) {
        groups.extend(more);
    }
    first
}

pub(super) fn tail(view: &View<'_>) -> Vec<Panel> {
    let all = view.rows(|_| true);
    let mut panels = view.bars(
        "99 % of the calls are faster than",
        "microseconds per call",
        &all,
        |_, operation| Some(operation.p99_us),
    );
    panels.extend(view.bars("p99 over average", "times the average", &all, |_, operation| {
        (operation.average_us > 0.0).then(|| operation.p99_us / operation.average_us)
    }));
    panels
}

pub(super) fn variability(view: &View<'_>) -> Vec<Panel> {
    by_kind(view, "% of the average", |_, operation| metrics::variation(operation))
}
