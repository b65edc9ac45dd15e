//! The table of option parity: what every engine was asked for, and what its adapter makes of it.
//!
//! A row is an option; a cell says whether the engine does what was asked (`Same`), has no setting
//! for it (`Not`, with the difference and whom it is likely to favour), or has no such thing
//! (`None`). The cells are written down from the adapters by hand; an engine or an option that is
//! not in the table is shown as "not stated", never as equal.

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
    /// It was not written down.
    NotStated,
}

use Cell::{None as Lacks, Not, Same};

const ENGINES: [&str; 7] =
    ["tidesdb", "rocksdb", "lmdb", "fjall", "redb", "tidesdb-c", "tidesdb10"];

/// Field of the settings, label, and the cells in the order of [`ENGINES`].
type Knob = (&'static str, &'static str, [Cell; 7]);

const KNOBS: [Knob; 23] = [
    (
        "memtable",
        "memtable bytes",
        [
            Same(""),
            Same("write_buffer_size"),
            Lacks("copy on write"),
            Same(""),
            Lacks("copy on write"),
            Same("write_buffer_size"),
            Same("memtable_write_buffer_size, of all families together"),
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
            Same("l0_queue_stall_threshold, one less for the active one"),
            Same("memtable_l0_queue_stall_threshold, one less for the active one"),
        ],
    ),
    (
        "cache",
        "block cache bytes",
        [
            Same("index and filters of open tables outside of it, in the memory budget"),
            Same("HyperClock; index and filters outside of it"),
            Not("none: the page cache, without a bound; likely helps it"),
            Same(""),
            Same("caches pages"),
            Same("block_cache_size"),
            Same("block_cache_size"),
        ],
    ),
    (
        "block",
        "data block bytes",
        [
            Same(""),
            Same("block_size"),
            Not("pages of 4 KiB"),
            Same(""),
            Not("pages of 4 KiB"),
            Not("the library's own: the interface has no such setting"),
            Same("btree_klog_block_size"),
        ],
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
            Same("compression_algorithm"),
            Same("all levels and separated values"),
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
            Same("by false positive rate"),
            Same("by false positive rate"),
        ],
    ),
    (
        "background_threads",
        "background threads",
        [
            Same("one for flushes, the rest for compactions"),
            Same("max_background_jobs"),
            Lacks("work is done in commits"),
            Same(""),
            Lacks("work is done in commits"),
            Same("one for flushes, the rest for compactions"),
            Same("one for flushes, the rest for compactions"),
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
            Same("sync_mode"),
            Not("unsynced, the death of the process alone may lose commits; likely helps it"),
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
            Same("by itself"),
            Same("by itself"),
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
            Same("on"),
            Same("on"),
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
            Same("the library's own"),
            Same("XXH3"),
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
            Not("a transaction at READ COMMITTED: no other way; likely costs it"),
            Not("a transaction at READ COMMITTED: no other way; likely costs it"),
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
            Not("latest committed, value copied by the library; likely costs it"),
            Not("latest committed, value and rows copied; likely costs it"),
        ],
    ),
    (
        "*compaction",
        "compaction policy",
        [
            Not("size-tiered, 8 runs per class"),
            Not("leveled, ratio 10, base of 4 memtables"),
            Lacks("a tree"),
            Not("leveled"),
            Lacks("a tree"),
            Not("the library's own"),
            Not("leveled, its defaults"),
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
            Not("the library's own"),
            Not("its own policy"),
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
            Not("whatever the library was linked with"),
            Not("the C library's malloc"),
        ],
    ),
    (
        "*build",
        "build",
        [
            Same("compiled with the benchmark"),
            Not("as the library's builder chose: see the note above"),
            Same("C compiler, optimised"),
            Same("compiled with the benchmark"),
            Same("compiled with the benchmark"),
            Not("whoever built the library"),
            Not("C compiler for baseline x86-64, RelWithDebInfo; CFLAGS reach it"),
        ],
    ),
    (
        "value_separation",
        "values apart from keys, from bytes on",
        [
            Not("512 by default"),
            Same("off by default; blob files with garbage collection"),
            Lacks("large values take pages of their own"),
            Lacks("not used by the adapter"),
            Lacks("large values take pages of their own"),
            Not("its default, 512"),
            Not("its default"),
        ],
    ),
    (
        "tree_tables",
        "tables as B+trees",
        [
            Same("use_btree"),
            Lacks("tables of blocks"),
            Not("the database is one"),
            Lacks("tables of blocks"),
            Not("the database is one"),
            Same("use_btree"),
            Not("always"),
        ],
    ),
    (
        "engine_options",
        "settings passed on (--engine-opt)",
        [
            Lacks("refused"),
            Same("by RocksDB's names, for one engine"),
            Lacks("refused"),
            Lacks("refused"),
            Lacks("refused"),
            Lacks("refused"),
            Lacks("refused"),
        ],
    ),
    ("memory_limit", "memory limit of the process", [Same("control group"); 7]),
    ("processors", "processors", [Same("affinity of the process"); 7]),
    (
        "preload",
        "preloaded allocator",
        [
            Not("linked with mimalloc: without effect"),
            Same("replaces malloc"),
            Same("replaces malloc"),
            Not("linked with mimalloc: without effect"),
            Not("linked with mimalloc: without effect"),
            Same("replaces malloc, unless the library has its own"),
            Same("replaces malloc"),
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

/// Whether a row says something: a setting that was not given does not, unless the engines'
/// defaults for it differ.
fn is_of_interest(field: &str, asked: &str) -> bool {
    let given = !asked.is_empty() && asked != "default";
    given || field.starts_with('*') || field == "value_separation"
}

/// The table for these engines: the known options, then the other settings by their names.
pub(crate) fn table(runs: &[Run], engines: &[String]) -> Vec<Row> {
    let mut rows: Vec<Row> = KNOBS
        .iter()
        .map(|knob| {
            (knob, if knob.0.starts_with('*') { String::new() } else { asked(runs, knob.0) })
        })
        .filter(|(knob, asked)| is_of_interest(knob.0, asked))
        .map(|(knob, asked)| Row {
            option: knob.1.to_owned(),
            asked,
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
        let stalls = table.iter().find(|row| row.option == "slowdown and stop triggers").unwrap();
        assert!(matches!(stalls.cells[0], Cell::Not(_)));
        assert_eq!(cache.cells[2], Cell::NotStated);
        let sync = table.iter().find(|row| row.option == "sync mode of commits").unwrap();
        assert_eq!(sync.asked, "none, full");
        let period = table.iter().find(|row| row.option == "period of interval syncs").unwrap();
        assert_eq!(period.asked, "128000 µs");
        assert!(table.iter().all(|row| row.option != "processors"), "nobody chose any");
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
