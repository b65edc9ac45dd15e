//! `tidesdb verify`: reads everything and checks every checksum, order and count.
//!
//! Nothing is changed and nothing is repaired. Damage is listed with file and offset, and makes
//! the command fail.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tidesdb::salvage::{DamageReport, find_damage, means_damage};
use tidesdb::{Db, Error, VerifyReport};

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
    Ok(explained(found, reason))
}

/// What was found, with the reason for which the database does not open where that is none of it.
fn explained(found: DamageReport, reason: Error) -> Findings {
    let mut problems = found.problems;
    // It may be a contradiction between files that are each whole.
    if !problems.iter().any(|problem| tells_of(problem, &reason)) {
        problems.insert(0, reason);
    }
    Findings {
        tables: found.tables,
        value_logs: found.value_logs,
        bytes: found.bytes,
        problems,
        warnings: found.warnings,
        ..Findings::default()
    }
}

/// Whether a problem is what an opening has failed for: it has other words for what it meets.
fn tells_of(problem: &Error, reason: &Error) -> bool {
    match (place_of(problem), place_of(reason)) {
        ((Some(file), at), (Some(other), offset)) => {
            // Where in the file the disk has failed is not known.
            file == other && offset.is_none_or(|offset| at == Some(offset))
        }
        _ => problem.to_string() == reason.to_string(),
    }
}

/// The file that an error is about, and the offset in it.
fn place_of(error: &Error) -> (Option<&PathBuf>, Option<u64>) {
    match error {
        Error::Corruption { file, offset, .. } => (Some(file), Some(*offset)),
        Error::Io { path, .. } => (Some(path), None),
        _ => (None, None),
    }
}

/// What is found in a database that was opened, or was to be.
fn looked_at(directory: &Path, opened: tidesdb::Result<Db>) -> Result<Findings> {
    match opened {
        Err(error) if means_damage(&error) => without_opening(directory, error),
        opened => {
            let db = opened.or_else(|_| database::open(directory, Access::Read))?;
            let report = with_bar(NO_VERDICT, |progress| db.verify_with_progress(progress))?;
            Ok(report.into())
        }
    }
}

/// Runs the command.
///
/// # Errors
/// When there is damage, and those of the engine and of standard output.
pub(crate) fn run(args: &ReportArgs) -> Result<()> {
    let directory = &args.database.db;
    let report = looked_at(directory, database::try_open(directory, Access::Read)?)?;
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
    let (file, offset) = place_of(problem);
    let detail = match problem {
        Error::Corruption { detail, .. } => detail.clone(),
        other => other.to_string(),
    };
    json!({ "file": file.map(|file| file.display().to_string()), "offset": offset, "detail": detail })
}

#[cfg(test)]
mod tests {
    use std::io;

    use tidesdb::{DbOptions, FamilyOptions};

    use super::*;

    const EIO: i32 = 5;

    /// A closed database of one table.
    fn closed_database() -> tempfile::TempDir {
        let place = tempfile::tempdir().unwrap();
        let db = Db::open(place.path(), DbOptions::default()).unwrap();
        let family = db.create_family("family", FamilyOptions::default()).unwrap();
        family.put(b"key", b"value").unwrap();
        db.close().unwrap();
        place
    }

    /// It was named once more, without its file.
    #[test]
    fn a_sector_that_can_not_be_read_is_one_problem_with_its_file() {
        let place = closed_database();
        let mut files = std::fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().path());
        let table = files.find(|path| path.extension().is_some_and(|end| end == "klog")).unwrap();
        let problems = || {
            let source = io::Error::from_raw_os_error(EIO);
            let damage = find_damage(place.path(), &mut |_| Ok(())).unwrap();
            let found = explained(damage, Error::io("read", &table, source));
            let json: Value = serde_json::from_str(&as_json(&found).unwrap()).unwrap();
            let [problem] = &json["problems"].as_array().unwrap()[..] else { panic!("{json}") };
            assert_eq!(problem["file"], table.display().to_string(), "{json}");
            problem["offset"].clone()
        };
        // The disk can read it again.
        assert!(problems().is_null());
        let mut bytes = std::fs::read(&table).unwrap();
        bytes[..8].fill(0xff);
        std::fs::write(&table, bytes).unwrap();
        assert_eq!(problems(), 0);
    }

    /// An opening that a failing disk ended was reported alone, and no other file was looked at.
    #[test]
    fn where_an_opening_fails_for_the_disk_all_files_are_checked() {
        const EMFILE: i32 = 24;
        const EACCES: i32 = 13;
        let place = closed_database();
        std::fs::write(place.path().join("CURRENT"), "nonsense").unwrap();
        let failed = |number| {
            let source = io::Error::from_raw_os_error(number);
            looked_at(place.path(), Err(Error::io("open", "000001.klog", source)))
        };
        let found = failed(EIO).unwrap();
        let texts: Vec<String> = found.problems.iter().map(ToString::to_string).collect();
        assert!(texts[0].contains("000001.klog"), "{texts:?}");
        assert!(texts.iter().any(|text| text.contains("CURRENT")), "{texts:?}");
        assert_eq!(found.tables, 1);
        for number in [EMFILE, EACCES] {
            assert!(failed(number).is_err(), "{number}");
        }
    }
}
