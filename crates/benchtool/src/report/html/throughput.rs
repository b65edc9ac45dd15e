//! Throughput of every engine: the table of all rows, and the score against each engine.
//!
//! Verdicts are those against the baseline, but a reader also sees where any other engine is
//! faster: each cell carries the ratio to its engine, in the colour of a loss where it is one.

use super::{breakable, escape};
use crate::report::compare::{self, Comparison, Sides, Verdict};
use crate::report::plots::scale::{human, times};
use crate::report::plots::view::View;
use crate::report::set::{BAD, Line, Summary};

/// The subject compared with one engine; nothing where there is only one other, whose column says
/// it.
fn against(view: &View<'_>, engine: &str) -> Vec<Comparison> {
    if engine == view.sides.subject || view.engines.len() < 3 {
        return Vec::new();
    }
    let sides = Sides { subject: view.sides.subject.clone(), peers: vec![engine.to_owned()] };
    compare::all(view.set, &sides)
}

/// Wins and losses against each engine alone; empty if there is only one other engine.
pub(super) fn scores(view: &View<'_>) -> String {
    let others = || view.engines.iter().filter(|engine| **engine != view.sides.subject);
    if others().count() < 2 {
        return String::new();
    }
    let mut out = format!(
        "<div class=\"scroll\"><table class=\"scores\"><thead><tr><th>{} against</th><th>wins</th>\
         <th>ties</th><th>losses</th><th>noisy</th><th>mean</th></tr></thead>\n<tbody>",
        escape(&view.sides.subject)
    );
    for engine in others() {
        let comparisons = against(view, engine);
        let count = |verdict| comparisons.iter().filter(|c| c.verdict == verdict).count();
        let (wins, losses) = (count(Verdict::Win), count(Verdict::Loss));
        let class =
            |class: &str, count: usize| if count > 0 { class.to_owned() } else { "muted".into() };
        let mean = compare::geometric_mean(&comparisons).map_or("–".to_owned(), times);
        out.push_str(&format!(
            "<tr><th>{}</th><td class=\"{}\">{wins}</td><td>{}</td><td class=\"{}\">{losses}</td>\
             <td>{}</td><td>{mean}</td></tr>\n",
            escape(engine),
            class("win", wins),
            count(Verdict::Tie),
            class("loss", losses),
            count(Verdict::Noisy),
        ));
    }
    out.push_str("</tbody></table></div>\n");
    out
}

/// Throughput of every engine, with the verdict.
pub(super) fn comparison(view: &View<'_>) -> String {
    let comparisons = compare::all(view.set, &view.sides);
    let each: Vec<(&String, Vec<Comparison>)> =
        view.engines.iter().map(|engine| (engine, against(view, engine))).collect();
    let mut out = introduction(view);
    out.push_str("<div class=\"scroll\"><table class=\"cards\"><thead><tr><th>test</th>");
    if !view.sides.peers.is_empty() {
        out.push_str("<th>ratio</th><th class=\"text\">verdict</th>");
    }
    for engine in &view.engines {
        out.push_str(&format!("<th>{}</th>", escape(engine)));
    }
    out.push_str("</tr></thead>\n<tbody>");
    for line in view.set.lines() {
        let of_line = |all: &[Comparison]| all.iter().find(|one| one.line == line).cloned();
        let found = of_line(&comparisons);
        let class = match found.as_ref().map(|comparison| comparison.verdict) {
            Some(Verdict::Loss) => " class=\"lost\"",
            Some(Verdict::Invalid) => " class=\"invalid\"",
            _ => "",
        };
        out.push_str(&format!("<tr{class}><th>{}</th>", breakable(&line.label)));
        if !view.sides.peers.is_empty() {
            out.push_str(&verdict_cells(found.as_ref()));
        }
        for (engine, comparisons) in &each {
            out.push_str(&engine_cell(view, &line, engine, of_line(comparisons).as_ref()));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
    out
}

fn introduction(view: &View<'_>) -> String {
    let mut out = String::from(
        "<h2 id=\"comparison\">Throughput</h2>\n<p class=\"muted\">Operations per second, medians \
         with half the span of the repetitions.",
    );
    let (subject, peers) = (escape(&view.sides.subject), escape(&view.sides.peers.join(" or ")));
    if !peers.is_empty() {
        out.push_str(&format!(
            " Ratios are {subject} over an engine: below 1 that engine is faster. Ratio and verdict \
             of a row are to {peers}"
        ));
        out.push_str(if view.sides.peers.len() > 1 { ", the better of each row." } else { "." });
    }
    out.push_str("</p>\n");
    out
}

fn engine_cell(
    view: &View<'_>,
    line: &Line,
    engine: &str,
    comparison: Option<&Comparison>,
) -> String {
    let name = escape(engine);
    let status = view.set.status(&line.test, engine);
    if let Some(bad) = status.filter(|status| BAD.contains(status)) {
        let bad = format!("{bad:?}").to_uppercase();
        return format!("<td class=\"bad\" data-of=\"{name}\">{bad}</td>");
    }
    let summary = view.set.summary(line, engine, compare::throughput);
    let text = summary.as_ref().map_or("–".to_owned(), text_of);
    format!("<td data-of=\"{name}\">{text}{}</td>", comparison.map_or(String::new(), ratio_note))
}

fn text_of(summary: &Summary) -> String {
    match summary.count {
        0 | 1 => human(summary.median),
        _ => format!(
            "{} <span class=\"muted\">±{:.0}%</span>",
            human(summary.median),
            summary.spread() * 100.0
        ),
    }
}

fn ratio_note(comparison: &Comparison) -> String {
    let class = if comparison.verdict == Verdict::Loss { "loss" } else { "muted" };
    comparison.ratio.map_or(String::new(), |ratio| {
        format!(" <small class=\"{class}\">{}</small>", times(ratio.median))
    })
}

fn verdict_cells(found: Option<&Comparison>) -> String {
    let Some(comparison) = found else { return "<td>–</td><td></td>".to_owned() };
    let class = match comparison.verdict {
        Verdict::Win => "win",
        Verdict::Loss => "loss",
        Verdict::Invalid => "bad",
        Verdict::Tie | Verdict::Noisy => "muted",
    };
    let ratio = comparison.ratio.map_or("–".to_owned(), |ratio| times(ratio.median));
    format!(
        "<td class=\"{class}\">{ratio}</td><td class=\"text {class}\">{}</td>",
        comparison.verdict.name()
    )
}
