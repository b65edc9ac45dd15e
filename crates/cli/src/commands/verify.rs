//! `tidesdb verify`: reads everything and checks every checksum, order and count.
//!
//! Nothing is changed and nothing is repaired. Damage is listed with file and offset, and makes
//! the command fail.

use std::io::{self, Write};

use serde_json::{Value, json};
use tidesdb::{Error, ErrorKind, VerifyReport};

use crate::args::ReportArgs;
use crate::database::{self, Access};
use crate::failure::{Failure, Result, note};
use crate::progress::spinner;
use crate::table::{bytes, count, render};

/// Runs the command.
///
/// # Errors
/// When there is damage, and those of the engine and of standard output.
pub(crate) fn run(args: &ReportArgs) -> Result<()> {
    let opened = match database::try_open(&args.database.db, Access::Read)? {
        // What keeps a database from opening is the first thing to list, and the last: what else
        // is damaged is not known before it is open.
        Err(error) if error.kind() == ErrorKind::Corrupt => {
            note("the database cannot be opened, so nothing behind this damage was checked");
            let mut report = VerifyReport::default();
            report.problems.push(error);
            Err(report)
        }
        Ok(db) => Ok(db),
        Err(_) => Ok(database::open(&args.database.db, Access::Read)?),
    };
    let report = match opened {
        Ok(db) => {
            let spinner = spinner("checking");
            let report = db.verify();
            spinner.finish_and_clear();
            report?
        }
        Err(report) => report,
    };
    let text = if args.json { as_json(&report)? } else { as_text(&report) };
    let mut output = io::stdout().lock();
    output
        .write_all(text.as_bytes())
        .and_then(|()| output.flush())
        .map_err(|error| Failure::output(&error))?;
    match report.problems.len() {
        0 => Ok(()),
        1 => Err(Failure::new("the database has 1 problem")),
        problems => Err(Failure::new(format!("the database has {problems} problems"))),
    }
}

fn as_text(report: &VerifyReport) -> String {
    let rows = [
        ("tables", count(report.tables)),
        ("blocks", count(report.blocks)),
        ("entries", count(report.entries)),
        ("value-log files", count(report.value_log_files)),
        ("bytes read", bytes(report.bytes)),
    ];
    let mut text = format!(
        "Checked\n{}",
        render(&["", ""], &rows.map(|(name, value)| vec![name.to_owned(), value]))
    );
    if report.problems.is_empty() {
        text.push_str("\nNo damage found\n");
    } else {
        text.push_str("\nProblems\n");
        for problem in &report.problems {
            text.push_str(&format!("  {problem}\n"));
        }
    }
    text
}

fn as_json(report: &VerifyReport) -> Result<String> {
    let problems: Vec<Value> = report.problems.iter().map(problem_json).collect();
    let report = json!({
        "ok": report.problems.is_empty(),
        "tables": report.tables,
        "blocks": report.blocks,
        "entries": report.entries,
        "bytes": report.bytes,
        "value_log_files": report.value_log_files,
        "problems": problems,
    });
    let mut text = serde_json::to_string_pretty(&report)
        .map_err(|error| Failure::new(format!("cannot write the report: {error}")))?;
    text.push('\n');
    Ok(text)
}

fn problem_json(problem: &Error) -> Value {
    match problem {
        Error::Corruption { file, offset, detail } => {
            json!({ "file": file.display().to_string(), "offset": offset, "detail": detail })
        }
        other => json!({ "file": null, "offset": null, "detail": other.to_string() }),
    }
}
