//! `tidesdb upgrade`: which formats the files have, and what an upgrade would do.
//!
//! Files of older formats are read as they are and written anew in the course of things, so there
//! is nothing that has to be done at once.

use serde_json::{Value, json};
use tidesdb::salvage::{FormatReport, FoundFormat, formats_of};

use crate::args::ReportArgs;
use crate::database;
use crate::failure::{Failure, Result, judged};
use crate::output::print;
use crate::progress;
use crate::table::{count, render};

/// Runs the command.
///
/// # Errors
/// When a file has a format that this build does not read, or can't be read, and those of the
/// engine.
pub(crate) fn run(args: &ReportArgs) -> Result<()> {
    database::must_exist(&args.database.db)?;
    let report = progress::during("reading", String::new, || formats_of(&args.database.db))?;
    let text = if args.json { as_json(&report) } else { as_text(&report) };
    let verdict = match report.found.iter().find(|found| !found.is_readable()) {
        None => match report.unreadable.len() {
            0 => Ok(()),
            1 => Err(Failure::new("1 file can't be read")),
            files => Err(Failure::new(format!("{files} files can't be read"))),
        },
        Some(found) => Err(Failure::new(format!(
            "{} files have {} format version {}, and this build reads {} to {}",
            found.files,
            found.format,
            found.version,
            found.read.start(),
            found.read.end()
        ))
        .hint("a newer build wrote them: open the database with that one")),
    };
    judged(print(text), verdict)
}

/// What would be done with the files.
fn outlook(found: &FoundFormat) -> &'static str {
    match (found.is_readable(), found.is_current()) {
        (false, _) => "not read by this build",
        (true, true) => "nothing to do",
        (true, false) => "read as it is; rewritten when next opened or compacted",
    }
}

fn as_text(report: &FormatReport) -> String {
    let rows: Vec<Vec<String>> = report
        .found
        .iter()
        .map(|found| {
            let written = found.read.end().to_string();
            let files = count(found.files);
            vec![
                found.format.into(),
                files,
                found.version.to_string(),
                written,
                outlook(found).into(),
            ]
        })
        .collect();
    let mut text = render(&["format", "files", "version", "newest", "upgrade"], &rows);
    for path in &report.without_version {
        let path = path.display();
        text.push_str(&format!(
            "\nsays no version: {path}, a log segment never begun, or damaged\n"
        ));
    }
    for (_, error) in &report.unreadable {
        text.push_str(&format!("\ncan't be read: {error}\n"));
    }
    let known = report.unreadable.is_empty() && report.without_version.is_empty();
    if known && report.found.iter().all(FoundFormat::is_current) {
        text.push_str("\nAll files have the newest format: there is nothing to upgrade\n");
    } else if report.unreadable.is_empty() && report.found.iter().all(FoundFormat::is_current) {
        text.push_str("\nAll others have the newest format: there is nothing to upgrade\n");
    }
    text
}

fn as_json(report: &FormatReport) -> String {
    let found = |found: &FoundFormat| {
        json!({
            "format": found.format,
            "version": found.version,
            "files": found.files,
            "oldest_read": found.read.start(),
            "newest_read": found.read.end(),
            "upgrade": outlook(found),
        })
    };
    let without: Vec<Value> =
        report.without_version.iter().map(|path| json!(path.display().to_string())).collect();
    let found: Vec<Value> = report.found.iter().map(found).collect();
    let unreadable = report.unreadable.iter().map(
        |(path, error)| json!({ "file": path.display().to_string(), "error": error.to_string() }),
    );
    let unreadable: Vec<Value> = unreadable.collect();
    let report = json!({ "formats": found, "without_version": without, "unreadable": unreadable });
    format!("{report:#}\n")
}
