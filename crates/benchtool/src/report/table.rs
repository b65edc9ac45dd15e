//! Tables for the terminal: engines, throughput with ratios, details per engine, notes.

use super::{Group, test_names};
use crate::orchestrate::Run;
use crate::spec::{JobResult, OperationResult, Status};
use bench_compare::EngineInfo;
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};

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

/// The list of engines.
pub(crate) fn engines(engines: &[EngineInfo]) -> String {
    let header = ["engine", "version or library", "available", "not equal under parity"];
    let mut table = table(header.map(str::to_owned).to_vec());
    table.set_content_arrangement(ContentArrangement::Dynamic);
    for engine in engines {
        let available = match &engine.available {
            Ok(()) => "yes".to_owned(),
            Err(reason) => format!("no: {reason}"),
        };
        let name = engine.name.to_owned();
        table.add_row([name, engine.version.clone(), available, engine.unequal.to_owned()]);
    }
    table.to_string()
}

/// A rate with three or more digits: `1,234 K` or `12.3 K`.
fn rate(per_second: f64) -> String {
    let thousands = per_second / 1_000.0;
    if thousands >= 1_000.0 {
        let whole = thousands.round() as u64;
        format!("{},{:03} K", whole / 1_000, whole % 1_000)
    } else if thousands >= 100.0 {
        format!("{thousands:.0} K")
    } else {
        format!("{thousands:.1} K")
    }
}

fn throughput_cell(group: &Group<'_>, operation: usize, baseline: Option<f64>) -> String {
    if group.is_empty() {
        return String::new();
    }
    let status = group.status();
    let Some(figure) = group.throughput(operation) else { return format!("{status:?}") };
    let mut text = rate(figure);
    if let Some(spread) = group.spread(operation) {
        text.push_str(&format!(" ±{:.0}%", spread * 100.0));
    }
    if let Some(baseline) = baseline.filter(|baseline| *baseline > 0.0) {
        text.push_str(&format!(" ({:.2}x)", figure / baseline));
    }
    match status {
        Status::Valid => text,
        status => format!("{} {text}", format!("{status:?}").to_uppercase()),
    }
}

/// Operations per second: a row per test, a column per engine, ratios to the baseline.
pub(crate) fn throughput(runs: &[Run], engines: &[String], baseline: &str) -> String {
    let baseline = engines.iter().find(|engine| *engine == baseline).or(engines.first());
    let Some(baseline) = baseline else { return String::new() };
    let mut header = vec!["operations per second".to_owned()];
    header.extend(engines.iter().map(|engine| {
        if engine == baseline { format!("{engine} (1.00x)") } else { engine.clone() }
    }));
    let mut table = table(header);
    for test in test_names(runs) {
        let groups: Vec<Group<'_>> =
            engines.iter().map(|engine| Group::of(runs, &test, engine)).collect();
        let names: Vec<&str> = groups
            .iter()
            .filter_map(Group::first)
            .map(|run| run.result.operations.iter().map(|o| o.operation.as_str()).collect())
            .max_by_key(Vec::len)
            .unwrap_or_default();
        let base = Group::of(runs, &test, baseline);
        for operation in 0..names.len().max(1) {
            let label = match names.get(operation) {
                Some(name) if names.len() > 1 => format!("{test}: {name}"),
                _ => test.clone(),
            };
            let mut row = vec![Cell::new(label)];
            for (group, engine) in groups.iter().zip(engines) {
                let other = if engine == baseline { None } else { base.throughput(operation) };
                row.push(right(throughput_cell(group, operation, other)));
            }
            table.add_row(row);
        }
    }
    table.to_string()
}

fn mebibytes(bytes: f64) -> String {
    format!("{:.0}", bytes / f64::from(1_u32 << 20))
}

fn micros(figure: f64) -> String {
    if figure >= 100.0 { format!("{figure:.0}") } else { format!("{figure:.1}") }
}

/// A column of the table of details: heading, whether it is shown without being asked for, and
/// the figure as text.
type Column = (&'static str, bool, fn(&Group<'_>) -> Option<String>);

const COLUMNS: [Column; 14] = [
    ("p50 µs", true, |group| latency(group, |operation| operation.p50_us)),
    ("p99 µs", true, |group| latency(group, |operation| operation.p99_us)),
    ("p99.9 µs", false, |group| latency(group, |operation| operation.p999_us)),
    ("max µs", true, |group| latency(group, |operation| operation.max_us)),
    ("slowest s", false, |group| group.median(|run| run.result.slowest_second).map(rate)),
    ("settle s", false, |group| group.median(|run| Some(run.result.settle)).map(two)),
    ("RSS MiB", true, |group| bytes(group, |result| result.peak_rss)),
    ("anon MiB", false, |group| bytes(group, |result| result.peak_anonymous)),
    ("CPU s", false, |group| {
        group.median(|run| Some(run.result.cpu_user + run.result.cpu_system)).map(two)
    }),
    ("WA", true, |group| group.median(|run| run.result.write_amplification).map(two)),
    ("WA engine", false, |group| {
        group.median(|run| run.result.engine_write_amplification).map(two)
    }),
    ("size MiB", true, |group| bytes(group, |result| result.size_closed)),
    ("scan rows/s", false, |group| group.median(|run| run.result.scan_per_second).map(rate)),
    ("commits/sync", false, |group| group.median(|run| run.result.commits_per_sync).map(two)),
];

fn latency(group: &Group<'_>, figure: fn(&OperationResult) -> f64) -> Option<String> {
    group.median(|run| run.result.operations.first().map(figure)).map(micros)
}

fn bytes(group: &Group<'_>, figure: fn(&JobResult) -> u64) -> Option<String> {
    group.median(|run| Some(figure(&run.result) as f64)).map(mebibytes)
}

fn two(figure: f64) -> String {
    format!("{figure:.2}")
}

/// Latency, memory, bytes and processor time: a row per test and engine.
pub(crate) fn details(runs: &[Run], engines: &[String], all: bool) -> String {
    let columns: Vec<&Column> = COLUMNS.iter().filter(|column| all || column.1).collect();
    let mut header = vec!["test".to_owned(), "engine".to_owned()];
    header.extend(columns.iter().map(|column| column.0.to_owned()));
    let mut table = table(header);
    for test in test_names(runs) {
        for engine in engines {
            let group = Group::of(runs, &test, engine);
            if group.is_empty() {
                continue;
            }
            let mut row = vec![Cell::new(&test), Cell::new(engine)];
            row.extend(columns.iter().map(|column| right((column.2)(&group).unwrap_or_default())));
            table.add_row(row);
        }
    }
    table.to_string()
}

/// Versions, what is not equal, and everything that went wrong.
pub(crate) fn notes(runs: &[Run], engines: &[EngineInfo]) -> String {
    let mut text = String::new();
    for engine in engines {
        let version = runs
            .iter()
            .filter(|run| run.spec.engine == engine.name)
            .map(|run| run.result.version.as_str())
            .find(|version| !version.is_empty())
            .unwrap_or_default();
        let unequal = if engine.unequal.is_empty() { "nothing known" } else { engine.unequal };
        text.push_str(&format!("{} {version} - not equal: {unequal}\n", engine.name));
    }
    for run in runs.iter().filter(|run| run.result.status != Status::Valid) {
        let status = format!("{:?}", run.result.status).to_uppercase();
        let problems = run.result.problems.join("; ");
        let (engine, test) = (&run.spec.engine, &run.spec.test);
        text.push_str(&format!("{status}: {engine}, {test}: {problems}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_readable() {
        assert_eq!(rate(12_340.0), "12.3 K");
        assert_eq!(rate(123_400.0), "123 K");
        assert_eq!(rate(12_345_678.0), "12,346 K");
    }
}
