//! The table of option parity: what every engine was asked for, and what its adapter makes of it.
//!
//! A row is an option; a cell says whether the engine does what was asked (`Same`), cannot be told
//! (`Not`, with the difference and whom it is likely to favour), or has no such thing (`None`). The
//! cells are written down from the adapters by hand; an engine or an option that is not in the table is
//! shown as "not stated", never as equal.

use crate::orchestrate::Run;
use serde_json::Value;

/// How an engine meets an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cell {
    /// As asked.
    Same(&'static str),
    /// Otherwise than asked.
    Not(&'static str),
    /// The engine has no such thing.
    None(&'static str),
    /// Nobody wrote it down.
    NotStated,
}

use Cell::{None as Lacks, Not, Same};

const ENGINES: [&str; 5] = ["tidesdb", "rocksdb", "lmdb", "fjall", "redb"];

/// Field of the settings, label, and the cells in the order of [`ENGINES`].
type Knob = (&'static str, &'static str, [Cell; 5]);

const KNOBS: [Knob; 17] = [
    (
        "memtable",
        "memtable bytes",
        [
            Same(""),
            Same("write_buffer_size"),
            Lacks("copy on write"),
            Same(""),
            Lacks("copy on write"),
        ],
    ),
    (
        "memtable_count",
        "memtables before writers wait",
        [
            Not("active, one full and one being written: fewer than asked; likely costs it"),
            Same("max_write_buffer_number"),
            Lacks("no memtables"),
            Not("bounds the log instead, at least 64 MiB"),
            Lacks("no memtables"),
        ],
    ),
    (
        "cache",
        "block cache bytes",
        [
            Same("index and filters are charged to it"),
            Not(
                "HyperClock; index and filters outside of it: more memory than asked; likely helps it",
            ),
            Not("none: the page cache, without a bound; likely helps it"),
            Same(""),
            Same("caches pages"),
        ],
    ),
    (
        "block",
        "data block bytes",
        [Same(""), Same("block_size"), Not("pages of 4 KiB"), Same(""), Not("pages of 4 KiB")],
    ),
    (
        "compression",
        "block codec",
        [
            Same("all levels"),
            Same("all levels"),
            Not("none: reads cost less, space more"),
            Same("LZ4 only, by a Rust implementation"),
            Not("none: reads cost less, space more"),
        ],
    ),
    (
        "bloom_bits",
        "filter bits per key",
        [
            Same("by false positive rate"),
            Same("full filter, whole key"),
            Lacks("a tree needs none"),
            Same(""),
            Lacks("a tree needs none"),
        ],
    ),
    (
        "background_threads",
        "background threads",
        [
            Same("one for flushes, the rest for merges"),
            Same("max_background_jobs"),
            Lacks("work is done in commits"),
            Same(""),
            Lacks("work is done in commits"),
        ],
    ),
    (
        "sync",
        "sync mode of commits",
        [
            Same("group commit"),
            Same("WriteOptions.sync, group commit"),
            Not("unsynced is MDB_NOSYNC: a power cut may destroy the database, not only the tail"),
            Same(""),
            Not("unsynced commits stay in memory until the next synced one; likely helps it"),
        ],
    ),
    (
        "sync_interval_us",
        "period of interval syncs",
        [
            Same("by itself"),
            Same("the benchmark calls FlushWAL(sync)"),
            Same("the benchmark calls mdb_env_sync"),
            Same("the benchmark calls it"),
            Same("the benchmark calls it"),
        ],
    ),
    (
        "*log",
        "write-ahead log",
        [
            Same("on; mapped, preallocated, recycled segments"),
            Not("on; grows by write calls; recycled in the tuned profile only"),
            Lacks("none: copy on write"),
            Same("on"),
            Lacks("none: copy on write"),
        ],
    ),
    (
        "*checksums",
        "checksums verified on reads",
        [
            Same("XXH3"),
            Same("XXH3"),
            Not("none; likely helps it"),
            Same("XXH3"),
            Not("stored, checked on repair only; likely helps it"),
        ],
    ),
    (
        "*contract",
        "contract of a commit",
        [
            Same("atomic batch, no isolation"),
            Same("WriteBatch"),
            Not("a write transaction, one at a time: more than asked; likely costs it"),
            Same("batch"),
            Not("a write transaction, one at a time: more than asked; likely costs it"),
        ],
    ),
    (
        "*read",
        "contract of a read",
        [
            Same("latest committed, value lent"),
            Same("latest committed, pinned slice"),
            Same("read transaction, renewed; value lent"),
            Same("latest committed, value shared"),
            Same("read transaction; value lent"),
        ],
    ),
    (
        "*merges",
        "merge policy",
        [
            Not("size-tiered; 4 or more runs per class"),
            Not("leveled, ratio 10, base of 4 memtables"),
            Lacks("a tree"),
            Not("leveled"),
            Lacks("a tree"),
        ],
    ),
    (
        "*stalls",
        "slowdown and stop triggers",
        [
            Not("its own policy"),
            Same("its defaults, never lowered"),
            Lacks("none"),
            Not("its own policy"),
            Lacks("none"),
        ],
    ),
    (
        "*allocator",
        "allocator",
        [
            Not("mimalloc, as the benchmark; likely helps it"),
            Not("the C library's malloc"),
            Not("the C library's malloc"),
            Not("mimalloc, as the benchmark; likely helps it"),
            Not("mimalloc, as the benchmark; likely helps it"),
        ],
    ),
    (
        "*build",
        "build",
        [
            Same("compiled with the benchmark"),
            Not("prebuilt library for baseline x86-64 with run-time dispatch, unless one is named"),
            Same("C compiler, optimised"),
            Same("compiled with the benchmark"),
            Same("compiled with the benchmark"),
        ],
    ),
];

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

fn cell(knob: &Knob, engine: &str) -> Cell {
    // The tuned profile differs from parity where it says so, and is otherwise the same engine.
    let base = engine.strip_suffix("-tuned").unwrap_or(engine);
    let place = ENGINES.iter().position(|known| *known == base);
    place.map_or(Cell::NotStated, |place| knob.2[place])
}

/// The value of an option for people.
fn text_of(field: &str, value: &Value) -> String {
    // Counts and times may be multiples of 1,024 too, so the field decides.
    let bytes = ["memtable", "cache", "block"].contains(&field) || field.contains("limit");
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
fn asked(runs: &[Run], field: &str) -> String {
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

/// The table for these engines: the known options, then the other settings by their names.
pub(crate) fn table(runs: &[Run], engines: &[String]) -> Vec<Row> {
    let mut rows: Vec<Row> = KNOBS
        .iter()
        .map(|knob| Row {
            option: knob.1.to_owned(),
            asked: if knob.0.starts_with('*') { String::new() } else { asked(runs, knob.0) },
            cells: engines.iter().map(|engine| cell(knob, engine)).collect(),
        })
        .collect();
    let first = runs.first().and_then(|run| serde_json::to_value(&run.spec.setup).ok());
    let names = first.as_ref().and_then(Value::as_object).map(|object| object.keys());
    for name in names.into_iter().flatten() {
        let known = KNOBS.iter().any(|knob| knob.0 == name) || name.ends_with("_library");
        let asked = if known { String::new() } else { asked(runs, name) };
        if !known && !asked.is_empty() && asked != "default" {
            let cells = vec![Cell::NotStated; engines.len()];
            rows.push(Row { option: name.replace('_', " "), asked, cells });
        }
    }
    rows
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
        assert!(matches!(cache.cells[1], Cell::Not(_)));
        assert_eq!(cache.cells[2], Cell::NotStated);
        let sync = table.iter().find(|row| row.option == "sync mode of commits").unwrap();
        assert_eq!(sync.asked, "none, full");
        let period = table.iter().find(|row| row.option == "period of interval syncs").unwrap();
        assert_eq!(period.asked, "128000 µs");
    }

    #[test]
    fn every_setting_of_a_test_is_in_the_table() {
        let set = sample::set();
        let setup = serde_json::to_value(&set.runs[0].spec.setup).unwrap();
        let covered = |name: &str| KNOBS.iter().any(|knob| knob.0 == name);
        for knob in KNOBS.iter().filter(|knob| !knob.0.starts_with('*')) {
            assert!(setup.get(knob.0).is_some(), "{} is no setting", knob.0);
        }
        let table = table(&set.runs, &["tidesdb".to_owned()]);
        for (name, value) in setup.as_object().unwrap() {
            let shown = table.iter().any(|row| row.option == name.replace('_', " "));
            let exempt = name.ends_with("_library") || value.is_null();
            assert!(covered(name) || shown || exempt, "{name}");
        }
    }
}
