//! All statistics in the text format of Prometheus, version 0.0.4.
//!
//! Names are in the base units of that format: bytes and seconds. Counters begin anew with each
//! opening of the database, which is what the format expects of a restart.

use std::fmt::Write;
use std::ops::RangeInclusive;

use tidesdb_base::latency::LatencyHistogram;

use super::{DbStats, FamilyStats, LatencyStats, LevelStats, MemoryStats};
use crate::core::Core;

/// Buckets of histograms end at these powers of two of nanoseconds: 256 ns to 17 s.
const BUCKET_BITS: RangeInclusive<u32> = 8..=34;

/// What Prometheus may do with a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Gauge,
    Counter,
    Histogram,
}

/// Name without prefix, what it means, kind, and where its value is. Times are in nanoseconds
/// there.
type Metric<T> = (&'static str, &'static str, Kind, fn(&T) -> u64);

const OF_DATABASE: &[Metric<DbStats>] = &[
    ("families", "Column families.", Kind::Gauge, |db| db.families),
    ("families_flushing", "Families with a flush that waits or runs.", Kind::Gauge, |db| {
        db.families_flushing
    }),
    (
        "families_compacting",
        "Families with a compaction that is queued or runs.",
        Kind::Gauge,
        |db| db.families_compacting,
    ),
    ("last_sequence", "Sequence number up to which everything is visible.", Kind::Gauge, |db| {
        db.sequence
    }),
    (
        "synced_sequence",
        "Sequence number up to which everything survives a power cut.",
        Kind::Gauge,
        |db| db.synced_sequence,
    ),
    ("open_files", "Tables and value logs that are open.", Kind::Gauge, |db| db.open_files),
    ("open_tables", "Tables that are open.", Kind::Gauge, |db| db.open_tables),
    ("retained_log_bytes", "Bytes of log that a recovery would read.", Kind::Gauge, |db| {
        db.log_retained_bytes
    }),
    (
        "left_out_commits",
        "Commits of the log that the opening left out, behind a record that is not whole.",
        Kind::Gauge,
        |db| db.left_out_commits,
    ),
    ("left_out_bytes", "Bytes of the records that the opening left out.", Kind::Gauge, |db| {
        db.left_out_bytes
    }),
    ("block_cache_bytes", "Bytes used in the block cache.", Kind::Gauge, |db| db.cache.used_bytes),
    ("block_cache_capacity_bytes", "Size of the block cache.", Kind::Gauge, |db| {
        db.cache.capacity_bytes
    }),
    ("block_cache_entries", "Blocks in the block cache.", Kind::Gauge, |db| db.cache.entries),
    ("block_cache_hits_total", "Blocks found in the block cache.", Kind::Counter, |db| {
        db.cache.hits
    }),
    ("block_cache_misses_total", "Blocks not found in the block cache.", Kind::Counter, |db| {
        db.cache.misses
    }),
    (
        "block_cache_evictions_total",
        "Blocks that left the block cache for others.",
        Kind::Counter,
        |db| db.cache.evictions,
    ),
    ("log_syncs_total", "Syncs of the log.", Kind::Counter, |db| db.log_syncs),
    ("synced_commits_total", "Commits that waited for a sync.", Kind::Counter, |db| {
        db.synced_commits
    }),
    ("slow_operations_total", "Operations slower than slow_operation_us.", Kind::Counter, |db| {
        db.slow_operations
    }),
    ("memory_used_bytes", "Memory that the budget counts.", Kind::Gauge, |db| db.memory.used_bytes),
];

const OF_FAMILIES: &[Metric<FamilyStats>] = &[
    ("memtable_bytes", "Memory of memtables.", Kind::Gauge, |of| of.memtable_bytes),
    ("frozen_memtables", "Frozen memtables, which wait for their flush.", Kind::Gauge, |of| {
        of.frozen_memtables
    }),
    ("value_log_bytes", "Bytes of value logs.", Kind::Gauge, |of| of.value_log_bytes),
    ("value_log_files", "Value logs.", Kind::Gauge, |of| of.value_log_files),
    ("range_tombstones", "Range deletions that hide something, or may.", Kind::Gauge, |of| {
        of.range_tombstones
    }),
    ("read_amplification", "Places that a seek searches.", Kind::Gauge, |of| of.read_amplification),
    ("user_written_bytes_total", "Bytes of keys and values committed.", Kind::Counter, |of| {
        of.work.user_bytes_written
    }),
    ("operations_written_total", "Operations committed.", Kind::Counter, |of| {
        of.work.operations_written
    }),
    (
        "log_written_bytes_total",
        "Bytes that commits wrote to the log, and themselves to value logs.",
        Kind::Counter,
        |of| of.work.log_bytes_written,
    ),
    ("memtables_frozen_total", "Memtables frozen.", Kind::Counter, |of| of.work.memtables_frozen),
    ("flushes_total", "Memtables written out.", Kind::Counter, |of| of.work.flushes),
    ("flush_failures_total", "Flushes that failed.", Kind::Counter, |of| of.work.flush_failures),
    ("flush_tables_total", "Tables written by flushes.", Kind::Counter, |of| {
        of.work.flush_tables_written
    }),
    ("flush_written_bytes_total", "Bytes written by flushes.", Kind::Counter, |of| {
        of.work.flush_bytes_written
    }),
    ("flush_seconds_total", "Time that flushes took.", Kind::Counter, |of| of.work.flush_nanos),
    ("compactions_total", "Compactions.", Kind::Counter, |of| of.work.compactions),
    ("compaction_slices_total", "Compactions of a part of the key space.", Kind::Counter, |of| {
        of.work.compaction_slices
    }),
    (
        "compaction_failures_total",
        "Compactions that failed or were given up.",
        Kind::Counter,
        |of| of.work.compaction_failures,
    ),
    ("compaction_steps_total", "Steps that compactions ended.", Kind::Counter, |of| {
        of.work.compaction_steps
    }),
    ("compaction_tables_total", "Tables written by compactions.", Kind::Counter, |of| {
        of.work.compaction_tables_written
    }),
    ("compaction_read_bytes_total", "Bytes read by compactions.", Kind::Counter, |of| {
        of.work.compaction_bytes_read
    }),
    ("compaction_written_bytes_total", "Bytes written by compactions.", Kind::Counter, |of| {
        of.work.compaction_bytes_written
    }),
    ("compaction_seconds_total", "Time that compactions took.", Kind::Counter, |of| {
        of.work.compaction_nanos
    }),
    ("table_gets_total", "Gets that no memtable answered.", Kind::Counter, |of| {
        of.reads.table_gets
    }),
    ("seeks_total", "Seeks of scans.", Kind::Counter, |of| of.reads.seeks),
    ("filters_asked_total", "Filters asked by gets.", Kind::Counter, |of| of.reads.filters_asked),
    (
        "filters_excluded_total",
        "Filters that spared a search of their table.",
        Kind::Counter,
        |of| of.reads.filters_excluded,
    ),
    ("filters_wrong_total", "Filters that let an absent key pass.", Kind::Counter, |of| {
        of.reads.filters_wrong
    }),
    ("tables_searched_total", "Tables searched by gets.", Kind::Counter, |of| {
        of.reads.tables_searched
    }),
    ("blocks_cached_total", "Blocks that reads found in the block cache.", Kind::Counter, |of| {
        of.reads.blocks_cached
    }),
    ("blocks_read_total", "Blocks that reads had to read.", Kind::Counter, |of| {
        of.reads.blocks_read
    }),
    ("values_read_total", "Values that gets fetched from value logs.", Kind::Counter, |of| {
        of.reads.values_read
    }),
];

const OF_LEVELS: &[Metric<LevelStats>] = &[
    ("level_bytes", "Bytes of tables.", Kind::Gauge, |level| level.bytes),
    ("level_tables", "Tables.", Kind::Gauge, |level| level.tables),
    ("level_runs", "Sorted runs.", Kind::Gauge, |level| level.runs),
    ("level_entries", "Entries of tables, tombstones included.", Kind::Gauge, |level| {
        level.entries
    }),
    ("level_tombstones", "Tombstones in tables.", Kind::Gauge, |level| level.tombstones),
];

/// What holds memory, and how much.
type Holder = (&'static str, fn(&MemoryStats) -> u64);

const HOLDERS: &[Holder] = &[
    ("memtables", |memory| memory.memtable_bytes),
    ("recycled", |memory| memory.recycled_bytes),
    ("block_cache", |memory| memory.block_cache_bytes),
    ("tables", |memory| memory.table_bytes),
    ("scans", |memory| memory.scan_bytes),
    ("transactions", |memory| memory.transaction_bytes),
    ("background", |memory| memory.background_bytes),
    ("families", |memory| memory.family_bytes),
    ("log", |memory| memory.log_bytes),
];

/// A page as it grows.
#[derive(Debug, Default)]
struct Page(String);

impl Page {
    /// Begins a metric, whose samples follow.
    fn metric(&mut self, name: &str, help: &str, kind: Kind) {
        let kind = match kind {
            Kind::Gauge => "gauge",
            Kind::Counter => "counter",
            Kind::Histogram => "histogram",
        };
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        // Writing to a string never fails.
        let _ = write!(self.0, "# HELP tidesdb_{name} {help}\n# TYPE tidesdb_{name} {kind}\n");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: &str) {
        let _ = write!(self.0, "tidesdb_{name}");
        for (at, (label, value)) in labels.iter().enumerate() {
            let open = if at == 0 { '{' } else { ',' };
            let _ = write!(self.0, "{open}{label}=\"{}\"", escaped(value));
        }
        let close = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.0, "{close} {value}");
    }

    /// A sample of a metric, in seconds where its name says so.
    fn value(&mut self, name: &str, labels: &[(&str, &str)], value: u64) {
        let value = if name.contains("seconds") { seconds(value) } else { value.to_string() };
        self.sample(name, labels, &value);
    }

    fn histogram(&mut self, name: &str, operation: &str, times: &LatencyHistogram) {
        let buckets = format!("{name}_bucket");
        for bits in BUCKET_BITS {
            let bound = 1 << bits;
            let labels = [("operation", operation), ("le", &seconds(bound))];
            self.sample(&buckets, &labels, &times.count_through(bound).to_string());
        }
        let count = times.count().to_string();
        self.sample(&buckets, &[("operation", operation), ("le", "+Inf")], &count);
        let labels = [("operation", operation)];
        self.sample(&format!("{name}_sum"), &labels, &seconds(times.sum_nanos()));
        self.sample(&format!("{name}_count"), &labels, &count);
    }
}

/// A label's value, in which anything may be.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Nanoseconds as seconds, exactly.
fn seconds(nanos: u64) -> String {
    let text = format!("{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000);
    let text = text.trim_end_matches('0');
    text.strip_suffix('.').unwrap_or(text).to_owned()
}

/// All statistics of a database.
pub(crate) fn page(core: &Core) -> String {
    let mut page = Page::default();
    let db = DbStats::of(core);
    for (name, help, kind, value) in OF_DATABASE {
        page.metric(name, help, *kind);
        page.value(name, &[], value(&db));
    }
    memory(&mut page, &db.memory);
    stalls(&mut page, &db);
    families(&mut page, core);
    let name = "operation_duration_seconds";
    let help = "How long operations took; of reads and commits those that were timed.";
    page.metric(name, help, Kind::Histogram);
    for (operation, times) in LatencyStats::of(core).iter() {
        page.histogram(name, operation.name(), times);
    }
    page.0
}

fn memory(page: &mut Page, memory: &MemoryStats) {
    if memory.budget_bytes != u64::MAX {
        page.metric("memory_budget_bytes", "Memory that the database may use.", Kind::Gauge);
        page.value("memory_budget_bytes", &[], memory.budget_bytes);
    }
    page.metric("memory_bytes", "Memory in use, by what holds it.", Kind::Gauge);
    for (holder, bytes) in HOLDERS {
        page.value("memory_bytes", &[("holder", holder)], bytes(memory));
    }
}

fn stalls(page: &mut Page, db: &DbStats) {
    page.metric("stalls_total", "Times that writers were held up.", Kind::Counter);
    for stall in &db.stalls {
        page.value("stalls_total", &[("reason", stall.reason.name())], stall.count);
    }
    page.metric("stall_seconds_total", "Time that writers were held up.", Kind::Counter);
    for stall in &db.stalls {
        page.value("stall_seconds_total", &[("reason", stall.reason.name())], stall.nanos);
    }
}

fn families(page: &mut Page, core: &Core) {
    let families = core.families.all();
    let families: Vec<_> =
        families.iter().map(|family| (family.name(), FamilyStats::of(family))).collect();
    for (name, help, kind, value) in OF_FAMILIES {
        page.metric(name, help, *kind);
        for (family, stats) in &families {
            page.value(name, &[("family", family)], value(stats));
        }
    }
    for (name, help, kind, value) in OF_LEVELS {
        page.metric(name, help, *kind);
        for (family, stats) in &families {
            for level in &stats.levels {
                let number = level.level.to_string();
                page.value(name, &[("family", family), ("level", &number)], value(level));
            }
        }
    }
}

#[cfg(test)]
mod tests;
