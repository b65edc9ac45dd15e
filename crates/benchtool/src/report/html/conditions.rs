//! The conditions under which a figure of the set may be quoted, and whether it meets them.

use super::escape;
use crate::report::compare;
use crate::report::metrics;
use crate::report::plots::view::View;
use crate::report::set::{BAD, is_load};

/// Whether a condition is met.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::report) enum Met {
    Yes,
    No(String),
}

fn met(condition: bool, otherwise: impl FnOnce() -> String) -> Met {
    if condition { Met::Yes } else { Met::No(otherwise()) }
}

/// All conditions with their state.
pub(in crate::report) fn all(view: &View<'_>) -> Vec<(&'static str, Met)> {
    let runs = || view.set.runs.iter().filter(|run| !is_load(&run.spec.test));
    let bad = runs().filter(|run| BAD.contains(&run.result.status)).count();
    let fewest = fewest_repetitions(view);
    let limits = runs().filter(|run| run.result.observed.group_limit.is_none()).count();
    let tuned = view.sides.peers.iter().any(|peer| peer.ends_with("-tuned"));
    let parity = view.sides.peers.iter().any(|peer| !peer.ends_with("-tuned"));
    let shared = view.set.environment.shared().is_some();
    let wide = noisy(view);
    vec![
        ("Every row is VALID, with verification on", met(bad == 0, || format!("{bad} are not"))),
        (
            "At least three repetitions in alternating order",
            met(fewest >= 3, || format!("a test has {fewest}")),
        ),
        (
            "A spread of at most 15 %",
            match fewest {
                0 | 1 => Met::No("not measured: a test has one run".to_owned()),
                _ => met(wide.is_empty(), || format!("wider: {}", wide.join(", "))),
            },
        ),
        (
            "The same memory limit for all engines",
            met(limits == 0, || format!("{limits} runs had none")),
        ),
        ("Read tests start from a settled database, with equal data for all", Met::Yes),
        ("Acknowledged and sustained rates, sizes only when settled, logs apart", Met::Yes),
        (
            "Both profiles of the peer were run",
            met(tuned && parity, || "only one of them was".to_owned()),
        ),
        ("The tool costs under a tenth of the faster engine's time", harness(view)),
        (
            "A release build on a machine of its own",
            met(view.set.environment.build == "release" && !shared, || {
                "a debug build, or a load average above the number of processors".to_owned()
            }),
        ),
    ]
}

fn fewest_repetitions(view: &View<'_>) -> usize {
    let tests = view.set.lines().into_iter().filter(|line| !is_load(&line.test));
    let counts = tests.flat_map(|line| {
        let count = |engine: &String| view.set.repetitions(&line.test, engine).count();
        view.engines.iter().map(count).filter(|count| *count > 0).collect::<Vec<_>>()
    });
    counts.min().unwrap_or(0)
}

fn noisy(view: &View<'_>) -> Vec<String> {
    let mut found = Vec::new();
    for line in view.set.lines().iter().filter(|line| !is_load(&line.test)) {
        for engine in [&view.sides.subject].into_iter().chain(&view.sides.peers) {
            let summary = view.set.summary(line, engine, compare::throughput);
            if summary.is_some_and(|summary| summary.spread() > compare::NOISY) {
                found.push(format!("{engine} {}", line.label));
            }
        }
    }
    found
}

/// Rows that are bound by the tool, from the null engine's cost.
fn harness(view: &View<'_>) -> Met {
    let mut known = false;
    let mut bound = Vec::new();
    for line in view.set.lines() {
        let Some(cost) = metrics::harness_nanos(view.set, &line.test) else { continue };
        known = true;
        let fastest = view.engines.iter().filter_map(|engine| {
            let nanos = view.set.summary(&line, engine, |run, operation| {
                Some(run.spec.shape.threads as f64 * 1e9 / operation.per_second)
            });
            nanos.map(|summary| summary.median)
        });
        if fastest.fold(f64::INFINITY, f64::min) < cost * 10.0 {
            bound.push(line.label);
        }
    }
    match (known, bound.is_empty()) {
        (false, _) => Met::No("the null engine did not run".to_owned()),
        (true, true) => Met::Yes,
        (true, false) => Met::No(format!("bound by the tool: {}", bound.join(", "))),
    }
}

/// The section of the page.
pub(super) fn section(view: &View<'_>) -> String {
    let mut out = String::from(
        "<h2 id=\"quoting\">May these figures be quoted?</h2>\n<div class=\"scroll\"><table><tbody>",
    );
    for (condition, state) in all(view) {
        let (class, text) = match state {
            Met::Yes => ("win", "met".to_owned()),
            Met::No(reason) => ("loss", format!("not met: {reason}")),
        };
        let (condition, text) = (escape(condition), escape(&text));
        out.push_str(&format!(
            "<tr><th class=\"wrap\">{condition}</th><td class=\"wrap {class}\">{text}</td></tr>\n"
        ));
    }
    out.push_str("</tbody></table></div>\n");
    out
}
