//! Tables for the terminal: engines, throughput with ratios, details per engine, notes.
//!
//! Tables fit the width they are given. Throughput has a column per engine where that fits, and a
//! row per engine where it does not; in the table of details the names of tests wrap, numbers
//! never.

use super::compare;
use super::plots::scale::{human, times};
use super::plots::view::Measure;
use super::set::{BAD, Line, ResultSet, Summary};
use crate::spec::Status;
use bench_compare::EngineInfo;
use comfy_table::{Cell, CellAlignment, ColumnConstraint, ContentArrangement, Table, presets};

/// Width when the output is no terminal.
const DEFAULT_WIDTH: u16 = 140;
const LEAST_WIDTH: u16 = 60;
/// Narrower than this, names of tests are not readable.
const LEAST_NAME_WIDTH: usize = 4;

/// Width to print for: `COLUMNS` if it is set, else the terminal's.
pub(crate) fn width() -> u16 {
    let asked = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    asked.or_else(|| Table::new().width()).unwrap_or(DEFAULT_WIDTH).max(LEAST_WIDTH)
}

fn table(header: Vec<String>) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::UTF8_FULL_CONDENSED)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(header);
    table
}

fn right(text: impl Into<String>) -> Cell {
    Cell::new(text.into()).set_alignment(CellAlignment::Right)
}

fn width_of(table: &Table) -> usize {
    table.to_string().lines().map(|line| line.chars().count()).max().unwrap_or(0)
}

/// Lets the first column wrap so that the table fits. One whose other columns alone take nearly all
/// the width stays as it is: a terminal that cuts it is easier to read than letters below each
/// other.
fn fitted(mut table: Table, width: u16) -> String {
    let natural = width_of(&table);
    let names = table.column_max_content_widths();
    let first = names.first().copied().map_or(0, usize::from);
    let room = usize::from(width).saturating_sub(natural.saturating_sub(first));
    if natural > usize::from(width) && room >= LEAST_NAME_WIDTH.min(first) {
        for column in table.column_iter_mut().skip(1) {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    }
    table.to_string()
}

/// The list of engines.
pub(crate) fn engines(engines: &[EngineInfo]) -> String {
    let header = ["engine", "version or library", "available", "not equal under parity"];
    let mut table = table(header.map(str::to_owned).to_vec());
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width());
    for engine in engines {
        let available = match &engine.available {
            Ok(()) => "yes".to_owned(),
            Err(reason) => format!("no: {reason}"),
        };
        let name = engine.name.to_owned();
        table.add_row([name, engine.version.clone(), available, engine.unequal.clone()]);
    }
    table.to_string()
}

fn bad_name(status: Status) -> String {
    format!("{status:?}").to_uppercase()
}

/// Throughput with spread, and its ratio to the baseline.
fn throughput_cells(
    set: &ResultSet,
    line: &Line,
    engine: &str,
    base: Option<&Summary>,
) -> [String; 2] {
    let status = set.status(&line.test, engine);
    if let Some(bad) = status.filter(|status| BAD.contains(status)) {
        return [bad_name(bad), String::new()];
    }
    let Some(summary) = set.summary(line, engine, compare::throughput) else {
        return [String::new(), String::new()];
    };
    let mut text = human(summary.median);
    if summary.count > 1 {
        text.push_str(&format!(" ±{:.0}%", summary.spread() * 100.0));
    }
    // How much faster nothing is than something is no comparison.
    let ratio = base.filter(|base| base.median > 0.0 && engine != "null");
    [text, ratio.map_or(String::new(), |base| times(summary.median / base.median))]
}

/// Operations per second of every line and engine, with ratios to the baseline.
pub(crate) fn throughput(set: &ResultSet, baseline: &str, width: u16) -> String {
    let engines = set.engine_names();
    let Some(baseline) = engines.iter().find(|name| *name == baseline).or(engines.first()) else {
        return String::new();
    };
    let base = |line: &Line| {
        let good = set.status(&line.test, baseline) == Some(Status::Valid);
        good.then(|| set.summary(line, baseline, compare::throughput)).flatten()
    };
    let heading = "operations per second".to_owned();
    let mut header = vec![heading.clone()];
    header.extend(engines.iter().map(|engine| match engine == baseline {
        true => format!("{engine} (1.00x)"),
        false => engine.clone(),
    }));
    let mut wide = table(header);
    for line in set.lines() {
        let mut row = vec![Cell::new(&line.label)];
        for engine in &engines {
            let other = if engine == baseline { None } else { base(&line) };
            let [rate, ratio] = throughput_cells(set, &line, engine, other.as_ref());
            let ratio = if ratio.is_empty() { ratio } else { format!(" ({ratio})") };
            row.push(right(rate + &ratio));
        }
        wide.add_row(row);
    }
    if width_of(&wide) <= usize::from(width) {
        return wide.to_string();
    }
    let ratio_heading = format!("to {baseline}");
    let mut narrow = table(vec![heading, "engine".into(), "rate".into(), ratio_heading]);
    for line in set.lines() {
        let mut label = line.label.clone();
        for engine in &engines {
            if set.status(&line.test, engine).is_none() {
                continue;
            }
            let [rate, ratio] = throughput_cells(set, &line, engine, base(&line).as_ref());
            let name = Cell::new(std::mem::take(&mut label));
            narrow.add_row(vec![name, Cell::new(engine), right(rate), right(ratio)]);
        }
    }
    fitted(narrow, width)
}

/// A column of the table of details: heading, whether it is shown without being asked for, and
/// the number.
type Column = (&'static str, bool, Measure);

const MIB: f64 = (1_u32 << 20) as f64;

const COLUMNS: [Column; 17] = [
    ("p50 µs", true, |_, operation| Some(operation.p50_us)),
    ("p99 µs", true, |_, operation| Some(operation.p99_us)),
    ("p99.9 µs", false, |_, operation| Some(operation.p999_us)),
    ("worst thread p99 µs", false, |_, operation| operation.worst_thread.map(|w| w.p99_us)),
    ("max µs", true, |_, operation| Some(operation.max_us)),
    ("slowest s", false, |run, _| run.result.slowest_second),
    ("slowest/median", false, |run, _| super::metrics::evenness(run)),
    ("sustained", false, |run, operation| {
        let mutates = run.spec.shape.workload.mutates();
        mutates.then(|| super::metrics::sustained(run, operation)).flatten()
    }),
    ("settle s", false, |run, _| Some(run.result.settle)),
    ("RSS MiB", true, |run, _| Some(run.result.peak_rss as f64 / MIB)),
    ("anon MiB", false, |run, _| Some(run.result.peak_anonymous as f64 / MIB)),
    ("CPU s", false, |run, _| Some(super::metrics::cpu_seconds(run))),
    ("WA", true, |run, _| run.result.write_amplification),
    ("WA engine", false, |run, _| run.result.engine_write_amplification),
    ("size MiB", true, |run, _| Some(run.result.size_settled as f64 / MIB)),
    ("scan rows/s", false, |run, _| run.result.scan_per_second),
    ("commits/sync", false, |run, _| run.result.commits_per_sync),
];

/// Latency, memory, bytes and processor time: a row per line and engine.
pub(crate) fn details(set: &ResultSet, all: bool, width: u16) -> String {
    let columns: Vec<&Column> = COLUMNS.iter().filter(|column| all || column.1).collect();
    let mut header = vec!["test".to_owned(), "engine".to_owned()];
    header.extend(columns.iter().map(|column| column.0.to_owned()));
    let mut table = table(header);
    for line in set.lines() {
        let mut label = line.label.clone();
        for engine in set.engine_names() {
            let Some(status) = set.status(&line.test, &engine) else { continue };
            let mut row = vec![Cell::new(std::mem::take(&mut label)), Cell::new(&engine)];
            let bad = BAD.contains(&status).then(|| bad_name(status));
            row.extend(columns.iter().enumerate().map(|(index, column)| {
                let summary = set.summary(&line, &engine, column.2).map(|summary| summary.median);
                match (&bad, index) {
                    (Some(bad), 0) => right(bad.clone()),
                    (Some(_), _) => right(""),
                    (None, _) => right(summary.map_or(String::new(), human)),
                }
            }));
            table.add_row(row);
        }
    }
    fitted(table, width)
}

/// Breaks a text into lines of at most so many letters; later lines are indented.
fn wrapped(text: &str, width: u16) -> String {
    let mut out = String::new();
    let mut length = 0;
    for word in text.split(' ') {
        let letters = word.chars().count();
        if length > 0 && length + 1 + letters > usize::from(width) {
            out.push_str("\n    ");
            length = 4;
        } else if length > 0 {
            out.push(' ');
            length += 1;
        }
        out.push_str(word);
        length += letters;
    }
    out
}

/// Versions, what is not equal, and everything that went wrong.
pub(crate) fn notes(set: &ResultSet, width: u16) -> String {
    let mut text = String::new();
    for note in &set.engines {
        let unequal = if note.not_equal.is_empty() { "nothing known" } else { &note.not_equal };
        let line = format!("{} {} - not equal: {unequal}", note.name, note.version);
        text.push_str(&format!("{}\n", wrapped(&line, width)));
    }
    if set.unfinished > 0 {
        text.push_str(&format!("INTERRUPTED: {} jobs were not begun\n", set.unfinished));
    }
    for run in set.runs.iter().filter(|run| run.result.status != Status::Valid) {
        let problems = run.result.problems.join("; ");
        let (engine, test) = (&run.spec.engine, &run.spec.test);
        let line = format!("{}: {engine}, {test}: {problems}", bad_name(run.result.status));
        text.push_str(&format!("{}\n", wrapped(&line, width)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    fn widest(text: &str) -> usize {
        text.lines().map(|line| line.chars().count()).max().unwrap_or(0)
    }

    fn with_six_engines() -> ResultSet {
        let mut set = sample::set();
        for name in ["fjall", "redb", "rocksdb-tuned"] {
            let runs: Vec<_> =
                set.runs.iter().filter(|run| run.spec.engine == "lmdb").cloned().collect();
            set.runs.extend(runs.into_iter().map(|mut run| {
                run.spec.engine = name.to_owned();
                run
            }));
        }
        set
    }

    #[test]
    fn tables_fit_their_width() {
        let set = with_six_engines();
        for width in [80, 140] {
            for text in [
                throughput(&set, "rocksdb", width),
                details(&set, false, width),
                notes(&set, width),
            ] {
                assert!(widest(&text) <= usize::from(width), "{width}:\n{text}");
            }
        }
        let three = throughput(&sample::set(), "rocksdb", 140);
        assert!(three.contains("rocksdb (1.00x)"), "a column each: {three}");
        assert!(throughput(&set, "rocksdb", 80).contains("to rocksdb"), "a row each");
    }

    #[test]
    fn ratios_and_spreads_are_those_of_the_medians() {
        let text = throughput(&sample::set(), "rocksdb", 140);
        let row = text.lines().find(|line| line.contains(" write_random_b1 ")).unwrap();
        assert!(row.contains("952K ±3% (5.29x)"), "{row}");
    }

    #[test]
    fn rows_that_may_not_be_believed_show_no_figure() {
        let mut set = sample::set();
        for run in &mut set.runs {
            if run.spec.test == "read_random" && run.spec.engine == "rocksdb" {
                run.result.status = Status::Invalid;
                run.result.problems = vec!["a key was lost".to_owned()];
            }
        }
        let text = throughput(&set, "rocksdb", 140);
        let row = text.lines().find(|line| line.contains(" read_random ")).unwrap();
        assert!(row.contains("INVALID") && !row.contains('x'), "no ratio to it: {row}");
        assert!(notes(&set, 140).contains("INVALID: rocksdb, read_random: a key was lost"));
    }
}
