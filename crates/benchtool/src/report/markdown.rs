//! The comparison as a section of a Markdown page, and the form of a result file that is kept with
//! such a page.
//!
//! A page has one place for it, between two lines that are comments of Markdown. The first names
//! the result file, so that a test can make the section again and compare.

use super::compare::{self, Comparison, Verdict};
use super::environment::NOT_KNOWN;
use super::html::conditions::{self, Met};
use super::parity;
use super::plots::scale::{human, times};
use super::plots::view::View;
use super::set::{ResultSet, Summary, is_load};
use crate::measure::observed::Observed;
use std::fmt::Write as _;
use std::path::Path;

/// First line of the place: what follows it is the result file, and [`BEGIN_TAIL`].
const BEGIN: &str = "<!-- made by `benchtool report` from ";
const BEGIN_TAIL: &str = " -->";
/// Last line of the place.
const END: &str = "<!-- end of what is made -->";
/// How the heading of the table begins; the engines follow.
const HEADER: &str = "| operations a second | runs | ";

/// Options whose values are names of files and folders of the machine.
const PATH_OPTIONS: [&str; 9] =
    ["--json", "--csv", "--html", "--dir", "-d", "--db-path", "--db", "--lib", "--rocksdb-lib"];

/// The command that made a set, without files and folders.
fn command_of(set: &ResultSet) -> String {
    let mut kept = vec!["benchtool"];
    let mut arguments = set.command.iter();
    while let Some(argument) = arguments.next() {
        let name = argument.split_once('=').map_or(argument.as_str(), |(name, _)| name);
        if !PATH_OPTIONS.contains(&name) {
            kept.push(argument);
        } else if name == argument {
            arguments.next();
        }
    }
    kept.join(" ")
}

/// Text for a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

/// A median, and the extremes if there are several repetitions.
fn with_range(summary: &Summary, number: fn(f64) -> String) -> String {
    match summary.count {
        0 | 1 => number(summary.median),
        _ => {
            let Summary { median, low, high, .. } = *summary;
            format!("{} ({}-{})", number(median), number(low), number(high))
        }
    }
}

fn ratio(value: f64) -> String {
    times(value).trim_end_matches('x').to_owned()
}

/// The volume of a suite. A command that names none has the smallest.
fn profile(set: &ResultSet) -> Option<&str> {
    let (first, rest) = set.command.split_first()?;
    let named = |(at, argument): (usize, &'_ String)| match argument.strip_prefix("--profile") {
        Some("") => rest.get(at + 1).map(String::as_str),
        Some(_) => rest[at].strip_prefix("--profile="),
        None => None,
    };
    (first == "suite").then(|| rest.iter().enumerate().find_map(named).unwrap_or("quick"))
}

/// Sizes of what the tests were given, those of loads left out.
fn sizes(set: &ResultSet) -> String {
    let size = |(field, name): (&str, &str)| {
        let runs = set.runs.iter().filter(|run| !is_load(&run.spec.test));
        format!("{name} {}", parity::asked(runs, field))
    };
    let fields = [("memtable", "memtable"), ("cache", "cache"), ("block", "block")];
    fields.map(size).join("; ")
}

/// Which conditions for quoting the figures are not met, and why.
fn not_met(set: &ResultSet, baseline: &str) -> String {
    /// Rows are named by the hundred where all are meant.
    const LONGEST: usize = 160;
    let reasons = conditions::all(&View::new(set, &[], baseline)).into_iter();
    let missed = reasons.filter_map(|(condition, met)| match met {
        Met::Yes => None,
        Met::No(reason) => {
            let end = reason.char_indices().nth(LONGEST).map_or(reason.len(), |(end, _)| end);
            let more = if end < reason.len() { ", …" } else { "" };
            let shown = if more.is_empty() { &reason } else { cut(&reason[..end]) };
            Some(format!("{condition} ({shown}{more})"))
        }
    });
    missed.collect::<Vec<_>>().join("; ")
}

/// A list that was cut off, without the part that is not whole.
fn cut(list: &str) -> &str {
    list.rsplit_once(", ").map_or(list, |(whole, _)| whole)
}

/// The conditions of the measurement, as far as they are known.
fn conditions(set: &ResultSet, baseline: &str) -> String {
    let mut text = "| condition | value |\n|---|---|\n".to_owned();
    let mut row = |name: &str, value: &str| {
        let _ = writeln!(text, "| {name} | {} |", cell(value));
    };
    row("Command", &format!("`{}`", command_of(set)));
    if let Some(profile) = profile(set) {
        row("Profile", profile);
    }
    row("Sizes", &sizes(set));
    for (name, value) in set.environment.rows() {
        match set.environment.shared() {
            Some(shared) if name == "Load average" => row(name, &shared),
            _ if value == NOT_KNOWN || name == "Host id" => {}
            _ => row(name, &value),
        }
    }
    for engine in &set.engines {
        row(&engine.name, &file_name(&engine.version));
    }
    let missed = not_met(set, baseline);
    if !missed.is_empty() {
        row("Not met for quoting", &missed);
    }
    text
}

/// The last part of a path; versions have one part.
fn file_name(version: &str) -> String {
    let name = Path::new(version).file_name().and_then(|name| name.to_str());
    name.unwrap_or_default().to_owned()
}

/// How many rows were won and lost, and the mean of all.
fn score(rows: &[Comparison]) -> String {
    let of = |verdict| rows.iter().filter(|row| row.verdict == verdict).count();
    let mut text = format!(
        "{} rows: {} won, {} level, {} lost, ",
        rows.len(),
        of(Verdict::Win),
        of(Verdict::Tie),
        of(Verdict::Loss),
    );
    // Of one run there is no spread, and none of its rows can be noisy.
    text += &match rows.iter().filter_map(|row| row.ratio).any(|ratio| ratio.count > 1) {
        true => format!("{} too noisy to be counted", of(Verdict::Noisy)),
        false => "noise not measured (one run)".to_owned(),
    };
    if of(Verdict::Invalid) > 0 {
        let _ = write!(text, ", **{} invalid**", of(Verdict::Invalid));
    }
    // A line each: of many rows one would be longer than the lines of a page may be.
    text += ".\n";
    if let Some(mean) = compare::geometric_mean(rows) {
        let _ = writeln!(text, "The geometric mean of the ratios is {}.", ratio(mean));
    }
    text
}

fn row_of(row: &Comparison, peer: &str) -> String {
    let summary = |summary: &Summary| with_range(summary, human);
    let ours = row.subject.as_ref().map(summary).unwrap_or_default();
    let theirs = row.peer.as_ref().map_or_else(String::new, |(name, found)| {
        let profile = if name == peer { String::new() } else { format!(", {name}") };
        summary(found) + &profile
    });
    let runs = row.ratio.map_or(0, |ratio| ratio.count);
    let ratio = row.ratio.map(|found| with_range(&found, ratio)).unwrap_or_default();
    let verdict = match row.verdict {
        good @ (Verdict::Win | Verdict::Tie | Verdict::Noisy) => good.name().to_owned(),
        bad => format!("**{}**", bad.name()),
    };
    format!("| {} | {runs} | {ours} | {theirs} | {ratio} | {verdict} |\n", cell(&row.line.label))
}

/// The comparison of a set: conditions, score, and a row for each operation of each test.
///
/// # Errors
/// No test ran on both sides.
pub(crate) fn section(set: &ResultSet, baseline: &str) -> Result<String, String> {
    let sides = compare::sides(&set.engine_names(), baseline);
    let rows = compare::all(set, &sides);
    let (false, Some(peer)) = (rows.is_empty(), sides.peers.first()) else {
        return Err(format!("no test ran on this engine and on {baseline}"));
    };
    let mut text = conditions(set, baseline);
    let _ = write!(text, "\n{}\n", score(&rows));
    let subject = &sides.subject;
    let _ = writeln!(text, "{HEADER}{subject} | {peer} | ratio | verdict |");
    text.push_str("|---|---|---|---|---|---|\n");
    for row in &rows {
        text.push_str(&row_of(row, peer));
    }
    Ok(text)
}

/// What stands in the place of a page: the name of the result file, and the section.
///
/// # Errors
/// The page has no such place, or several.
pub(crate) fn place_in(page: &str) -> Result<(&str, &str), String> {
    let no_place = || format!("expected one line that begins with \"{BEGIN}\", and \"{END}\"");
    let (_, rest) = page.split_once(BEGIN).ok_or_else(no_place)?;
    let (name, rest) = rest.split_once(BEGIN_TAIL).ok_or_else(no_place)?;
    let (section, behind) = rest.split_once(END).ok_or_else(no_place)?;
    if name.contains('\n') || behind.contains(BEGIN) || section.contains(BEGIN) {
        return Err(no_place());
    }
    Ok((name, section.trim_start_matches('\n')))
}

/// The page with `section`, made from the file of that name, in its place.
///
/// # Errors
/// As [`place_in`].
pub(crate) fn put_into(page: &str, name: &str, section: &str) -> Result<String, String> {
    place_in(page)?;
    let no_place = || "no place".to_owned();
    let (before, _) = page.split_once(BEGIN).ok_or_else(no_place)?;
    let (_, behind) = page.split_once(END).ok_or_else(no_place)?;
    Ok(format!("{before}{BEGIN}{name}{BEGIN_TAIL}\n{section}{END}{behind}"))
}

/// What is kept of a set beside a page: without what no table shows (histograms, rates and memory
/// over time), and without names of files and folders of the machine.
pub(crate) fn condensed(set: &ResultSet, commit: &str) -> ResultSet {
    let mut kept = set.clone();
    let command = command_of(set);
    kept.command = command.split(' ').skip(1).map(str::to_owned).collect();
    kept.environment.host_id.clear();
    commit.clone_into(&mut kept.environment.commit);
    for engine in &mut kept.engines {
        engine.version = file_name(&engine.version);
    }
    for run in &mut kept.runs {
        let spec = &mut run.spec;
        spec.directory = "data".into();
        (spec.record, spec.replay, spec.control_group) = (None, None, None);
        let setup = &mut run.spec.setup;
        for library in [&mut setup.rocksdb_library, &mut setup.tidesdb_library, &mut setup.preload]
        {
            *library = None;
        }
        run.result.version = file_name(&run.result.version);
        run.result.rate.clear();
        // Whether there was a memory limit is a condition for quoting.
        let group_limit = run.result.observed.group_limit;
        run.result.observed = Observed { group_limit, ..Observed::default() };
        for operation in &mut run.result.operations {
            operation.histogram.clear();
        }
    }
    kept
}

#[cfg(test)]
mod tests;
