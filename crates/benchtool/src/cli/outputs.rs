//! Files of results, and what is shown on the terminal.
//!
//! A run takes minutes to hours, so a file that cannot be written is refused before it starts, and
//! files are written before anything is shown. A terminal that has gone away, as `head` does, is no
//! failure.

use super::arguments::CommonOptions;
use crate::report;
use crate::report::set::ResultSet;
use crate::terminal::{say, warn};
use std::fs::{self, OpenOptions};
use std::path::Path;

/// Refuses outputs that could not be written later.
pub(super) fn check(options: &CommonOptions) -> Result<(), String> {
    for path in [&options.json, &options.csv].into_iter().flatten() {
        check_file(path)?;
    }
    if let Some(path) = &options.csv {
        report::csv::has_header(path)?;
    }
    if let Some(folder) = &options.html {
        let probe = folder.join("report.html");
        let made = fs::create_dir_all(folder);
        made.map_err(|error| format!("{}: {error}", folder.display()))?;
        check_file(&probe)?;
    }
    Ok(())
}

fn check_file(path: &Path) -> Result<(), String> {
    let was_there = path.exists();
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .and_then(|_| if was_there { Ok(()) } else { fs::remove_file(path) })
        .map_err(|error| format!("{}: {error}", path.display()))
}

/// Writes all files that were asked for, as far as possible, then shows the tables; whether all
/// could be written. Results that found no place go to the folder for temporary files.
pub(super) fn write(set: &ResultSet, options: &CommonOptions) -> bool {
    let json = options.json.as_ref().map_or(Ok(()), |path| set.write(path));
    let csv = options.csv.as_ref().map_or(Ok(()), |path| report::csv::append(path, set));
    let page = options.html.as_ref();
    let page = page.map(|folder| report::html::write(set, &[], &options.baseline, folder));
    let width = report::table::width();
    say(report::table::throughput(set, &options.baseline, width));
    say(report::table::details(set, options.details, width));
    say(report::table::notes(set, width));
    if let Some(Ok(page)) = &page {
        say(format!("report: {}", page.display()));
    }
    let problems = [json.err(), csv.err(), page.and_then(Result::err)];
    let problems: Vec<String> = problems.into_iter().flatten().collect();
    problems.iter().for_each(|problem| warn(format!("benchtool: {problem}")));
    if !problems.is_empty() {
        rescue(set);
    }
    problems.is_empty()
}

/// Keeps results whose place could not be written: measuring them again may take hours.
fn rescue(set: &ResultSet) {
    let name = format!("benchtool-results-{}.json", std::process::id());
    let path = std::env::temp_dir().join(name);
    warn(match set.write(&path) {
        Ok(()) => format!("benchtool: all results are in {}", path.display()),
        Err(problem) => format!("benchtool: {problem}"),
    });
}
