//! `tidesdb verify`: reads everything and checks every checksum, order and count.
//!
//! Nothing is changed and nothing is repaired. Damage is listed with file and offset, and makes
//! the command fail.

use std::path::Path;

use serde_json::{Value, json};
use tidesdb::salvage::find_damage;
use tidesdb::{Error, ErrorKind, VerifyReport};

use crate::args::ReportArgs;
use crate::database::{self, Access};
use crate::failure::{Failure, Result, judged, note};
use crate::output::{pretty, print};
use crate::progress::with_bar;
use crate::table::{bytes, count, printable, render};

/// What is told of a check that was interrupted.
const NO_VERDICT: &str = "not all was checked";

/// What was looked at, and what is wrong with it.
#[derive(Default)]
struct Findings {
    tables: u64,
    /// Not known where the database does not open, as the next one.
    blocks: Option<u64>,
    entries: Option<u64>,
    value_logs: u64,
    bytes: u64,
    problems: Vec<Error>,
    /// What may be lost, or may never have been there.
    warnings: Vec<String>,
}

impl From<VerifyReport> for Findings {
    fn from(report: VerifyReport) -> Self {
        Self {
            tables: report.tables,
            blocks: Some(report.blocks),
            entries: Some(report.entries),
            value_logs: report.value_log_files,
            bytes: report.bytes,
            problems: report.problems,
            warnings: report.warnings,
        }
    }
}

/// Lists the damage of a database that does not open.
fn without_opening(directory: &Path, reason: Error) -> Result<Findings> {
    note("the database cannot be opened: its files are checked one by one");
    let found = with_bar(NO_VERDICT, |progress| find_damage(directory, progress))?;
    let mut problems = found.problems;
    // It may be a contradiction between files that are each whole.
    if !problems.iter().any(|problem| is_of_one_place(problem, &reason)) {
        problems.insert(0, reason);
    }
    Ok(Findings {
        tables: found.tables,
        value_logs: found.value_logs,
        bytes: found.bytes,
        problems,
        warnings: found.warnings,
        ..Findings::default()
    })
}

/// Whether two errors are about the same place of the same file: an opening has other words for
/// what it meets.
fn is_of_one_place(one: &Error, other: &Error) -> bool {
    let place = |error: &Error| match error {
        Error::Corruption { file, offset, .. } => (file.display().to_string(), *offset),
        other => (other.to_string(), 0),
    };
    place(one) == place(other)
}

/// Runs the command.
///
/// # Errors
/// When there is damage, and those of the engine and of standard output.
pub(crate) fn run(args: &ReportArgs) -> Result<()> {
    let directory = &args.database.db;
    let report = match database::try_open(directory, Access::Read)? {
        Err(error) if error.kind() == ErrorKind::Corruption => without_opening(directory, error)?,
        opened => {
            let db = opened.or_else(|_| database::open(directory, Access::Read))?;
            with_bar(NO_VERDICT, |progress| db.verify_with_progress(progress))?.into()
        }
    };
    let (text, verdict) = rendered(&report, args.json)?;
    judged(print(text), verdict)
}

/// What there is to say of a verification, in words or as JSON, and the verdict.
///
/// # Errors
/// When it can't be written as JSON.
pub(crate) fn verdict_on(report: VerifyReport, json: bool) -> Result<(String, Result<()>)> {
    rendered(&report.into(), json)
}

fn rendered(report: &Findings, json: bool) -> Result<(String, Result<()>)> {
    let text = if json { as_json(report)? } else { as_text(report) };
    let verdict = match report.problems.len() {
        0 => Ok(()),
        1 => Err(Failure::new("the database has 1 problem")),
        problems => Err(Failure::new(format!("the database has {problems} problems"))),
    };
    Ok((text, verdict))
}

fn as_text(report: &Findings) -> String {
    let rows = [
        ("tables", Some(count(report.tables))),
        ("blocks", report.blocks.map(count)),
        ("entries", report.entries.map(count)),
        ("value-log files", Some(count(report.value_logs))),
        ("bytes read", Some(bytes(report.bytes))),
    ];
    let rows = rows.into_iter().filter_map(|(name, value)| Some(vec![name.to_owned(), value?]));
    let rows: Vec<Vec<String>> = rows.collect();
    let mut text = format!("Checked\n{}", render(&["", ""], &rows));
    if report.problems.is_empty() {
        text.push_str("\nNo damage found\n");
    } else {
        text.push_str("\nProblems\n");
        for problem in &report.problems {
            text.push_str(&format!("  {}\n", printable(&problem.to_string())));
        }
    }
    if !report.warnings.is_empty() {
        text.push_str("\nUncertain\n");
    }
    for warning in &report.warnings {
        text.push_str(&format!("  {}\n", printable(warning)));
    }
    text
}

fn as_json(report: &Findings) -> Result<String> {
    let problems: Vec<Value> = report.problems.iter().map(problem_json).collect();
    pretty(&json!({
        "ok": report.problems.is_empty(),
        "tables": report.tables,
        "blocks": report.blocks,
        "entries": report.entries,
        "bytes": report.bytes,
        "value_log_files": report.value_logs,
        "problems": problems,
        "warnings": report.warnings,
    }))
}

fn problem_json(problem: &Error) -> Value {
    match problem {
        Error::Corruption { file, offset, detail } => {
            json!({ "file": file.display().to_string(), "offset": offset, "detail": detail })
        }
        other => json!({ "file": null, "offset": null, "detail": other.to_string() }),
    }
}
