//! The sections of the page other than the plots.

use super::{breakable, escape, throughput};
use crate::report::compare::{self, Comparison, Verdict};
use crate::report::environment::date_of;
use crate::report::metrics;
use crate::report::parity::{self, Cell};
use crate::report::plots::scale::{human, times};
use crate::report::plots::view::View;
use crate::report::set::BAD;
use crate::spec::Status;

/// Title of the page.
pub(super) fn title(view: &View<'_>) -> String {
    if view.sides.peers.is_empty() {
        return format!("Benchmark of {}", view.sides.subject);
    }
    format!("{} beside {}", view.sides.subject, view.sides.peers.join(" and "))
}

fn plural(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// Title, score, and everything a reader has to know before the first figure.
pub(super) fn head(view: &View<'_>) -> String {
    let comparisons = compare::all(view.set, &view.sides);
    let count = |verdict| comparisons.iter().filter(|c| c.verdict == verdict).count();
    let environment = &view.set.environment;
    let bad = view.set.runs.iter().filter(|run| BAD.contains(&run.result.status)).count();
    let mut out = format!("<h1>{}</h1>\n<p class=\"muted\">", escape(&title(view)));
    let date = date_of(environment.finished_unix);
    for part in [date.as_str(), &environment.cpu, &environment.system] {
        if !part.is_empty() {
            out.push_str(&format!("{} · ", escape(part)));
        }
    }
    let tests = super::super::test_names(&view.set.runs).len();
    out.push_str(&format!(
        "{}, {}</p>\n",
        plural(tests, "test", "tests"),
        plural(view.set.runs.len(), "run", "runs")
    ));
    if !view.sides.peers.is_empty() {
        let (subject, peers) = (&view.sides.subject, view.sides.peers.join(" and "));
        let whose = format!("Score of {subject} against {peers}:");
        out.push_str(&format!("<p class=\"muted\">{}</p>\n", escape(&whose)));
    }
    out.push_str("<div class=\"score\">");
    let boxes = [
        ("win", "wins", count(Verdict::Win)),
        ("", "ties", count(Verdict::Tie)),
        ("loss", "losses", count(Verdict::Loss)),
        ("", "too noisy", count(Verdict::Noisy)),
        // Of all engines, so that a row of a third one is not passed over.
        ("loss", "runs not valid", bad),
    ];
    for (class, name, count) in boxes {
        let class = if count > 0 { class } else { "" };
        out.push_str(&format!("<div class=\"{class}\"><b>{count}</b>{name}</div>"));
    }
    if let Some(mean) = compare::geometric_mean(&comparisons) {
        out.push_str(&format!("<div><b>{mean:.2}x</b>geometric mean</div>"));
    }
    out.push_str("</div>\n");
    out.push_str(&losses(&comparisons));
    out.push_str(&throughput::scores(view));
    out.push_str(&warnings(view));
    out
}

/// The losses by name, beside the score.
fn losses(comparisons: &[Comparison]) -> String {
    let lost: Vec<String> = comparisons
        .iter()
        .filter(|comparison| comparison.verdict == Verdict::Loss)
        .map(|comparison| {
            let ratio = comparison.ratio.map_or(0.0, |ratio| ratio.median);
            format!("{} ({})", escape(&comparison.line.label), times(ratio))
        })
        .collect();
    if lost.is_empty() {
        return String::new();
    }
    format!("<p><span class=\"loss\">Losses:</span> {}.</p>\n", lost.join(", "))
}

fn warnings(view: &View<'_>) -> String {
    let mut found = Vec::new();
    if view.set.unfinished > 0 {
        let jobs = plural(view.set.unfinished, "job was", "jobs were");
        found.push(format!("The run was interrupted: {jobs} not begun."));
    }
    let repetitions = view.set.runs.iter().map(|run| run.spec.repetition + 1).max().unwrap_or(0);
    if repetitions < 3 {
        let times = plural(repetitions as usize, "repetition", "repetitions");
        found.push(format!("{times} only: differences of a few percent mean nothing here."));
    }
    if view.set.environment.build == "debug" {
        found.push("This is a debug build of the tool and of our engine.".to_owned());
    }
    found.extend(view.set.environment.shared());
    let short = view.set.runs.iter().filter(|run| {
        !super::super::set::is_load(&run.spec.test)
            && run.result.duration < 1.0
            && run.result.status == Status::Valid
    });
    let short = short.count();
    if short > 0 {
        let runs = plural(short, "run", "runs");
        found.push(format!("{runs} had a measured phase of less than a second."));
    }
    if found.is_empty() {
        return String::new();
    }
    format!(
        "<div class=\"notice\"><strong>Read with care</strong><ul><li>{}</li></ul></div>\n",
        found.join("</li><li>")
    )
}

/// Runs that failed a check, were interrupted or ended without a result.
pub(super) fn bad_rows(view: &View<'_>) -> String {
    let bad: Vec<_> = view.set.runs.iter().filter(|run| BAD.contains(&run.result.status)).collect();
    if bad.is_empty() {
        return "<p>Every row passed every check: no lost, wrong or missing result.</p>\n"
            .to_owned();
    }
    let mut out = format!(
        "<div class=\"notice bad-rows\"><strong>{}</strong> may not be believed; the figures of their \
         rows count for nothing.<ul>",
        plural(bad.len(), "run", "runs")
    );
    for run in bad {
        let status = format!("{:?}", run.result.status).to_uppercase();
        let problems = run.result.problems.join("; ");
        out.push_str(&format!(
            "<li><span class=\"bad\">{status}</span> {}, {}, repetition {}: {}</li>",
            escape(&run.spec.engine),
            escape(&run.spec.test),
            run.spec.repetition + 1,
            escape(&problems)
        ));
    }
    out.push_str("</ul></div>\n");
    out
}

/// What the engines do not have, and what the runs noted about themselves.
pub(super) fn notes(view: &View<'_>) -> String {
    let mut items: Vec<String> = Vec::new();
    for run in &view.set.runs {
        let (engine, test) = (escape(&run.spec.engine), escape(&run.spec.test));
        let skipped = run.result.status == Status::Skipped;
        let left_out = run.result.problems.iter().filter(|_| skipped);
        for text in left_out.chain(&run.result.notes) {
            let item = format!("<li>{engine}, {test}: {}</li>", escape(text));
            if !items.contains(&item) {
                items.push(item);
            }
        }
    }
    if items.is_empty() {
        return String::new();
    }
    format!(
        "<details><summary>{} left out or noted</summary><ul class=\"muted\">{}</ul></details>\n",
        plural(items.len(), "thing", "things"),
        items.concat()
    )
}

/// The machine and the command.
pub(super) fn environment(view: &View<'_>) -> String {
    let mut out = String::from("<h2 id=\"environment\">Environment</h2>\n<dl>");
    for (label, value) in view.set.environment.rows() {
        out.push_str(&format!("<dt>{label}</dt><dd>{}</dd>", escape(&value)));
    }
    for note in &view.set.engines {
        let version = if note.version.is_empty() { "version not known" } else { &note.version };
        let (name, version) = (escape(&note.name), escape(version));
        out.push_str(&format!("<dt>{name}</dt><dd>{version}</dd>"));
    }
    let command = view.set.command.join(" ");
    out.push_str(&format!(
        "<dt>Command</dt><dd><code>benchtool {}</code></dd></dl>\n",
        escape(&command)
    ));
    out
}

/// What was asked of every engine, and what is unequal.
pub(super) fn parity(view: &View<'_>) -> String {
    let mut out = String::from(
        "<h2 id=\"parity\">Option parity</h2>\n<p class=\"muted\">≠ marks what an engine does otherwise \
         than asked, with the likely direction of the bias where one is known.</p>\n",
    );
    let notes = view.set.engines.iter().filter(|note| !note.not_equal.is_empty());
    let notes: Vec<String> = notes
        .map(|note| format!("<li><b>{}</b>: {}</li>", escape(&note.name), escape(&note.not_equal)))
        .collect();
    if !notes.is_empty() {
        out.push_str(&format!("<p>Not equal, in short:</p><ul>{}</ul>\n", notes.concat()));
    }
    out.push_str(
        "<div class=\"scroll\"><table class=\"cards\"><thead><tr><th>option</th>\
         <th class=\"text\">asked</th>",
    );
    for engine in &view.engines {
        out.push_str(&format!("<th class=\"text\">{}</th>", escape(engine)));
    }
    out.push_str("</tr></thead>\n<tbody>");
    for row in parity::table(&view.set.runs, &view.engines) {
        let (option, asked) = (escape(&row.option), escape(&row.asked));
        out.push_str(&format!(
            "<tr><th>{option}</th><td class=\"wrap\" data-of=\"asked\">{asked}</td>"
        ));
        for (engine, cell) in view.engines.iter().zip(&row.cells) {
            let engine = escape(engine);
            let (mark, class, text) = match cell {
                Cell::Same(text) => ("=", "", text.as_str()),
                Cell::Differs(text) => ("≠", " warn", text.as_str()),
                Cell::Lacks(text) => ("–", " muted", text.as_str()),
                Cell::NotStated => ("?", " muted", "not stated"),
            };
            out.push_str(&format!(
                "<td class=\"wrap{class}\" data-of=\"{engine}\">{mark} {}</td>",
                escape(text)
            ));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
    out
}

type Column = (&'static str, crate::report::plots::view::Measure);

const MIB: f64 = (1_u32 << 20) as f64;

const COLUMNS: [Column; 16] = [
    ("ops/s", |run, operation| compare::throughput(run, operation)),
    ("sustained/s", |run, operation| {
        run.spec.shape.workload.mutates().then(|| metrics::sustained(run, operation)).flatten()
    }),
    ("avg µs", |_, operation| Some(operation.average_us)),
    ("p50 µs", |_, operation| Some(operation.p50_us)),
    ("p99 µs", |_, operation| Some(operation.p99_us)),
    ("p99.9 µs", |_, operation| Some(operation.p999_us)),
    ("worst thread p99 µs", |_, operation| operation.worst_thread.map(|worst| worst.p99_us)),
    ("max ms", |_, operation| Some(operation.max_us / 1_000.0)),
    ("stalled s", |run, _| metrics::stall_seconds(run)),
    ("RSS MiB", |run, _| Some(run.result.peak_rss as f64 / MIB)),
    ("CPU µs/op", |run, _| metrics::cpu_us_per_operation(run)),
    ("WA", |run, _| run.result.write_amplification),
    ("data MiB", |run, _| Some(metrics::settled_data(run) as f64 / MIB)),
    ("log MiB", |run, _| Some(run.result.observed.log_size_settled as f64 / MIB)),
    ("B/record", |run, _| metrics::bytes_per_record(run)),
    ("tool ns/op", |_, _| None),
];

/// All figures of all lines.
pub(super) fn details(view: &View<'_>) -> String {
    let mut out = String::from(
        "<h2 id=\"figures\">All figures</h2>\n<p class=\"muted\">Medians. A latency is that of one \
         call: an operation, or a commit where operations are batched. Sizes are when all work was \
         done. “Tool” is the cost of the benchmark itself, from the null engine. The files beside \
         this page have more columns and every repetition.</p>\n<details><summary>Show the table\
         </summary><div class=\"scroll\"><table class=\"cards\"><thead><tr><th>test</th>\
         <th class=\"text\">engine</th>",
    );
    for (name, _) in COLUMNS {
        out.push_str(&format!("<th>{name}</th>"));
    }
    out.push_str("</tr></thead>\n<tbody>");
    for line in view.set.lines() {
        let tool = metrics::harness_nanos(view.set, &line.test);
        for engine in &view.engines {
            let Some(status) = view.set.status(&line.test, engine) else { continue };
            let class = if BAD.contains(&status) { " class=\"invalid\"" } else { "" };
            let (label, name) = (breakable(&line.label), escape(engine));
            out.push_str(&format!("<tr{class}><th>{label}</th><td class=\"text\">{name}</td>"));
            for (column, measure) in COLUMNS {
                let figure = view.set.summary(&line, engine, measure).map(|figure| figure.median);
                let figure = if column == "tool ns/op" { tool } else { figure };
                let text = figure.map_or("–".to_owned(), human);
                out.push_str(&format!("<td data-of=\"{column}\">{text}</td>"));
            }
            out.push_str("</tr>\n");
        }
    }
    out.push_str("</tbody></table></div></details>\n");
    out
}
