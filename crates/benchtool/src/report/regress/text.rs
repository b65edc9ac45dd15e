//! The answer of the regression gate as Markdown, for people and pull requests, and as JSON.

use super::{Answer, Change, Outcome};
use crate::report::plots::scale::human;

fn percent(share: f64) -> String {
    format!("{:+.1} %", share * 100.0)
}

fn table(out: &mut String, changes: &[&Change]) {
    out.push_str("| test | metric | before | after | change | 95 % interval | counts beyond |\n");
    out.push_str("|---|---|---:|---:|---:|---:|---:|\n");
    for change in changes {
        out.push_str(&format!(
            "| {} | {} | {} | {} | {} | {} to {} | {:.1} % |\n",
            change.line.replace('|', "\\|"),
            change.metric,
            human(change.before),
            human(change.after),
            percent(change.change),
            percent(change.interval.0),
            percent(change.interval.1),
            change.threshold * 100.0,
        ));
    }
    out.push('\n');
}

/// The answer for people.
pub(crate) fn markdown(answer: &Answer) -> String {
    let mut out = format!("## Regression check: {}\n\n", answer.engine);
    let verdict = match (&answer.void, answer.fails()) {
        (Some(reason), _) => format!("**VOID**: {reason}; measure again.\n\n"),
        (None, true) => "**FAILED**\n\n".to_owned(),
        (None, false) => "**passed**\n\n".to_owned(),
    };
    out.push_str(&verdict);
    for (title, names) in
        [("Rows that are not valid", &answer.invalid), ("Tests that are missing", &answer.missing)]
    {
        if !names.is_empty() {
            out.push_str(&format!("{title}: {}\n\n", names.join("; ")));
        }
    }
    let all = |outcome| -> Vec<&Change> {
        answer.changes.iter().filter(|change| change.outcome == outcome).collect()
    };
    let sections = [("Regressions", Outcome::Regression), ("Improvements", Outcome::Improvement)];
    for (title, outcome) in sections {
        let changes = all(outcome);
        if !changes.is_empty() {
            out.push_str(&format!("### {title}\n\n"));
            table(&mut out, &changes);
        }
    }
    let mut tests: Vec<&str> = answer.regressions().map(|change| change.line.as_str()).collect();
    tests.dedup();
    if !tests.is_empty() && answer.void.is_none() {
        out.push_str(&format!(
            "Suspects: {}. Before believing it, measure these once more, both versions in turn.\n\n",
            tests.join(", ")
        ));
    }
    out.push_str(&format!("{} figures unchanged.\n", all(Outcome::Unchanged).len()));
    out
}

/// The answer for programs.
pub(crate) fn json(answer: &Answer) -> Result<String, String> {
    serde_json::to_string_pretty(answer).map_err(|error| error.to_string())
}
