//! The table of option parity: what every engine was asked for, and what its adapter makes of it.
//!
//! A row is an option; a cell says whether the engine does what was asked (`Same`), has no setting
//! for it (`Differs`, with the difference and whom it is likely to favour), or has no such thing
//! (`Lacks`). The cells are written down from the adapters by hand, in `parity/options.csv`; an
//! engine or an option that is not in the table is shown as "not stated", never as equal.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde_json::Value;

use crate::orchestrate::Run;

/// One line for each option, one column for each engine. What depends on the allocator of the
/// benchmark begins with `the benchmark:`.
const DATA: &str = include_str!("parity/options.csv");

/// How an engine meets an option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cell {
    /// As asked.
    Same(String),
    /// Otherwise than asked.
    Differs(String),
    /// The engine has no such thing.
    Lacks(String),
    /// It was not written down.
    NotStated,
}

impl Cell {
    /// A cell of the file: a sign, and what is to be said; or the name of one of four such cells.
    fn parse(text: &str) -> Self {
        let text = match (text, cfg!(feature = "system-allocator")) {
            ("the benchmark: allocator", false) => "≠ mimalloc, as the benchmark; likely helps it",
            ("the benchmark: allocator", true) => "= the C library's malloc, as the benchmark",
            ("the benchmark: preloaded", false) => "≠ linked with mimalloc: without effect",
            ("the benchmark: preloaded", true) => "= replaces malloc",
            _ => text,
        };
        let (sign, remark) = text.split_once(' ').unwrap_or((text, ""));
        match sign {
            "=" => Self::Same(remark.to_owned()),
            "≠" => Self::Differs(remark.to_owned()),
            "-" => Self::Lacks(remark.to_owned()),
            _ => Self::NotStated,
        }
    }
}

/// An option that engines may meet or not.
#[derive(Debug)]
struct KnownOption {
    /// Field of a test's settings; `None` for what no test sets.
    field: Option<String>,
    name: String,
    /// By the engine's name.
    cells: BTreeMap<String, Cell>,
}

impl KnownOption {
    fn parse(headers: &csv::StringRecord, line: &csv::StringRecord) -> Self {
        let text = |at| line.get(at).unwrap_or_default().to_owned();
        let field = Some(text(0)).filter(|field| !field.is_empty());
        let engines = headers.iter().zip(line).skip(2);
        let cells = engines.map(|(engine, cell)| (engine.to_owned(), Cell::parse(cell)));
        Self { field, name: text(1), cells: cells.collect() }
    }

    fn cell(&self, engine: &str) -> Cell {
        // The tuned profile differs from parity where it says so, and is otherwise the same engine.
        let base = engine.strip_suffix("-tuned").unwrap_or(engine);
        self.cells.get(base).cloned().unwrap_or(Cell::NotStated)
    }
}

/// Whether an allocator that is preloaded is without effect on an engine.
pub(crate) fn is_linked_with_an_allocator(engine: &str) -> bool {
    let preload = known_options().iter().find(|option| option.field.as_deref() == Some("preload"));
    preload.is_some_and(|option| matches!(option.cell(engine), Cell::Differs(_)))
}

/// The options of the file, in its order.
fn known_options() -> &'static [KnownOption] {
    static OPTIONS: OnceLock<Vec<KnownOption>> = OnceLock::new();
    OPTIONS.get_or_init(|| {
        let mut reader = csv::Reader::from_reader(DATA.as_bytes());
        let headers = reader.headers().cloned().unwrap_or_default();
        reader.records().flatten().map(|line| KnownOption::parse(&headers, &line)).collect()
    })
}

/// A row for the reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    /// The option.
    pub(crate) option: String,
    /// What all engines were asked for.
    pub(crate) asked: String,
    /// A cell per engine.
    pub(crate) cells: Vec<Cell>,
}

/// The value of an option for people.
fn text_of(field: &str, value: &Value) -> String {
    // Counts and times may be multiples of 1,024 too, so the field decides.
    let bytes = ["memtable", "cache", "block", "value_separation"].contains(&field)
        || field.contains("limit");
    match value {
        Value::Number(number) => match number.as_u64().filter(|_| bytes) {
            Some(size) if size >= 1 << 20 && size % (1 << 20) == 0 => {
                format!("{} MiB", size >> 20)
            }
            Some(size) if size >= 1 << 10 && size % (1 << 10) == 0 => {
                format!("{} KiB", size >> 10)
            }
            _ if field.ends_with("_us") => format!("{number} µs"),
            _ => number.to_string(),
        },
        Value::String(text) => text.clone(),
        Value::Null => "default".to_owned(),
        other => other.to_string(),
    }
}

/// The values that an option had over the tests, as text.
pub(super) fn asked<'a>(runs: impl IntoIterator<Item = &'a Run>, field: &str) -> String {
    let mut values: Vec<Value> = Vec::new();
    for run in runs {
        let setup = serde_json::to_value(&run.spec.setup).unwrap_or_default();
        if let Some(value) = setup.get(field).filter(|value| !values.contains(value)) {
            values.push(value.clone());
        }
    }
    let texts: Vec<String> = values.iter().map(|value| text_of(field, value)).collect();
    match texts.len() {
        0..=4 => texts.join(", "),
        count => format!("{} … {} ({count} values)", texts[0], texts[count - 1]),
    }
}

/// Whether a row says something: a setting that was not given does not, unless the engines'
/// defaults for it differ.
fn is_of_interest(field: Option<&str>, asked: &str) -> bool {
    let given = !asked.is_empty() && asked != "default";
    given || field.is_none_or(|field| field == "value_separation")
}

/// The table for these engines: the known options, then the other settings by their names.
pub(crate) fn table(runs: &[Run], engines: &[String]) -> Vec<Row> {
    let mut rows = Vec::new();
    for option in known_options() {
        let field = option.field.as_deref();
        let asked = field.map_or_else(String::new, |field| asked(runs, field));
        if is_of_interest(field, &asked) {
            let cells = engines.iter().map(|engine| option.cell(engine)).collect();
            rows.push(Row { option: option.name.clone(), asked, cells });
        }
    }
    let first = runs.first().and_then(|run| serde_json::to_value(&run.spec.setup).ok());
    let names = first.as_ref().and_then(Value::as_object).map(|object| object.keys());
    for name in names.into_iter().flatten() {
        let known = is_known(name) || name.ends_with("_library");
        let asked = if known { String::new() } else { asked(runs, name) };
        if !known && !asked.is_empty() && asked != "default" {
            let cells = vec![Cell::NotStated; engines.len()];
            rows.push(Row { option: name.replace('_', " "), asked, cells });
        }
    }
    rows
}

fn is_known(field: &str) -> bool {
    known_options().iter().any(|option| option.field.as_deref() == Some(field))
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn differing_values_are_shown_and_unknown_engines_are_never_equal() {
        let mut set = sample::set();
        let last = set.runs.len() - 1;
        set.runs[last].spec.setup.cache = 8 << 20;
        let engines = ["tidesdb", "rocksdb-tuned", "somedb"].map(str::to_owned);
        let table = table(&set.runs, &engines);
        let cache = table.iter().find(|row| row.option == "block cache bytes").unwrap();
        assert_eq!(cache.asked, "64 MiB, 8 MiB");
        assert!(matches!(cache.cells[0], Cell::Same(_)));
        let stalls = table.iter().find(|row| row.option == "slowdown and stop triggers").unwrap();
        assert!(matches!(stalls.cells[0], Cell::Differs(_)));
        assert_eq!(cache.cells[2], Cell::NotStated);
        let sync = table.iter().find(|row| row.option == "sync mode of commits").unwrap();
        assert_eq!(sync.asked, "none, full");
        let period = table.iter().find(|row| row.option == "period of interval syncs").unwrap();
        assert_eq!(period.asked, "128000 µs");
        assert!(table.iter().all(|row| row.option != "processors"), "none were chosen");
        let apart = table.iter().find(|row| row.option.starts_with("values apart")).unwrap();
        assert_eq!(apart.asked, "default");
    }

    /// The sample with every setting given.
    fn with_all_settings() -> super::super::set::ResultSet {
        let mut set = sample::set();
        for run in &mut set.runs {
            let setup = &mut run.spec.setup;
            setup.value_separation = Some(4096);
            setup.tree_tables = true;
            setup.memory_limit = Some(1 << 30);
            setup.processors = Some("0".to_owned());
            setup.preload = Some("allocator.so".into());
            setup.engine_options = vec![("rocksdb".into(), "a".into(), "b".into())];
        }
        set
    }

    #[test]
    fn every_line_of_the_file_is_whole() {
        assert_eq!(known_options().len(), DATA.lines().count() - 1);
        let cells = known_options().iter().flat_map(|option| option.cells.values());
        assert!(cells.into_iter().all(|cell| *cell != Cell::NotStated));
    }

    /// No engine that can be run has a cell that was not written, whatever is set.
    #[test]
    fn every_engine_states_every_option() {
        let set = with_all_settings();
        let known = crate::engines::catalogue(&crate::spec::Setup::default());
        let names: Vec<String> = known.iter().map(|engine| engine.name.to_owned()).collect();
        let engines: Vec<String> = names.into_iter().filter(|name| name != "null").collect();
        for row in table(&set.runs, &engines) {
            for (engine, cell) in engines.iter().zip(&row.cells) {
                assert_ne!(*cell, Cell::NotStated, "{engine}: {}", row.option);
            }
        }
    }

    #[test]
    fn every_setting_of_a_test_is_in_the_table() {
        let set = with_all_settings();
        let setup = serde_json::to_value(&set.runs[0].spec.setup).unwrap();
        for field in known_options().iter().filter_map(|option| option.field.as_deref()) {
            assert!(setup.get(field).is_some(), "{field} is no setting");
        }
        let table = table(&set.runs, &["tidesdb".to_owned()]);
        for (name, value) in setup.as_object().unwrap() {
            let shown = table.iter().any(|row| row.option == name.replace('_', " "));
            let exempt = name.ends_with("_library") || value.is_null();
            assert!(is_known(name) || shown || exempt, "{name}");
        }
    }
}
