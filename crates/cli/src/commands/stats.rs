//! `tidesdb stats`: sizes, levels and counters, as tables, as JSON, or for Prometheus.
//!
//! The database is opened for the command, so counters of work (cache hits, bytes flushed) say what
//! opening it took; sizes and levels are those of the stored data.

use serde_json::{Value, json};
use tidesdb::{Db, DbStats, Family, FamilyStats, MemoryStats, ReadStats, TreeStats, WorkStats};

use crate::args::StatsArgs;
use crate::database::{self, Access};
use crate::failure::Result;
use crate::output::{pretty, print};
use crate::table::{bytes, count, printable, render};

/// Runs the command.
///
/// # Errors
/// Those of the engine and of standard output.
pub(crate) fn run(args: &StatsArgs) -> Result<()> {
    let db = database::open(&args.database.db, Access::Read)?;
    print(text(&db, args.json, args.prometheus)?)
}

/// The statistics of an open database, in words, as JSON or for Prometheus.
///
/// # Errors
/// Those of the engine.
pub(crate) fn text(db: &Db, json: bool, prometheus: bool) -> Result<String> {
    match (json, prometheus) {
        (_, true) => Ok(db.metrics_prometheus()),
        (true, false) => as_json(db),
        (false, false) => as_tables(db),
    }
}

fn as_json(db: &Db) -> Result<String> {
    let families = database::visible_families(db)
        .iter()
        .map(|name| Ok(family_json(name, &db.family(name)?)))
        .collect::<Result<Vec<Value>>>()?;
    let mut database = database_json(&db.stats());
    let transactions = db.transaction_stats();
    database["transactions"] = json!({
        "open_bytes": transactions.open_bytes,
        "conflicts": transactions.conflicts,
        "serialization_conflicts": transactions.serialization_conflicts,
        "coarsened": transactions.coarsened,
    });
    pretty(&json!({ "database": database, "families": families }))
}

fn work_json(work: &WorkStats) -> Value {
    json!({
        "user_bytes_written": work.user_bytes_written,
        "operations_written": work.operations_written,
        "log_bytes_written": work.log_bytes_written,
        "memtables_frozen": work.memtables_frozen,
        "flushes": work.flushes,
        "flush_failures": work.flush_failures,
        "flush_tables_written": work.flush_tables_written,
        "flush_bytes_written": work.flush_bytes_written,
        "flush_nanos": work.flush_nanos,
        "compactions": work.compactions,
        "compaction_slices": work.compaction_slices,
        "compaction_failures": work.compaction_failures,
        "compaction_steps": work.compaction_steps,
        "compaction_tables_written": work.compaction_tables_written,
        "compaction_bytes_written": work.compaction_bytes_written,
        "compaction_bytes_read": work.compaction_bytes_read,
        "compaction_nanos": work.compaction_nanos,
        "write_amplification": work.write_amplification(),
    })
}

fn reads_json(reads: &ReadStats) -> Value {
    json!({
        "table_gets": reads.table_gets,
        "seeks": reads.seeks,
        "filters_asked": reads.filters_asked,
        "filters_excluded": reads.filters_excluded,
        "filters_wrong": reads.filters_wrong,
        "tables_searched": reads.tables_searched,
        "blocks_cached": reads.blocks_cached,
        "blocks_read": reads.blocks_read,
        "values_read": reads.values_read,
    })
}

/// Statistics of tables that are B+trees. `None` where a table that is needed can't be read.
fn trees_json(family: &Family) -> Option<Value> {
    let trees = family.tree_stats().ok()?;
    let levels: Vec<Value> = trees
        .levels
        .iter()
        .map(|level| {
            json!({
                "level": level.level,
                "tables": level.tables,
                "bytes": level.bytes,
                "leaves": level.leaves,
                "index_nodes": level.index_nodes,
            })
        })
        .collect();
    Some(json!({
        "flat_tables": trees.flat_tables,
        "height": trees.height(),
        "average_height": trees.average_height(),
        "levels": levels,
    }))
}

/// About how many keys a family has. `None` where a table that is needed for it can't be read.
fn keys_about(family: &Family) -> Option<u64> {
    family.approximate_count(..).ok()
}

fn memory_json(memory: &MemoryStats) -> Value {
    json!({
        "budget_bytes": memory.budget_bytes,
        "used_bytes": memory.used_bytes,
        "level": memory.level.name(),
        "memtable_bytes": memory.memtable_bytes,
        "recycled_bytes": memory.recycled_bytes,
        "block_cache_bytes": memory.block_cache_bytes,
        "table_bytes": memory.table_bytes,
        "scan_bytes": memory.scan_bytes,
        "transaction_bytes": memory.transaction_bytes,
        "background_bytes": memory.background_bytes,
        "family_bytes": memory.family_bytes,
        "log_bytes": memory.log_bytes,
    })
}

fn database_json(stats: &DbStats) -> Value {
    let stalls: Vec<Value> = stats
        .stalls
        .iter()
        .map(|stall| {
            json!({
                "reason": stall.reason.name(),
                "count": stall.count,
                "nanos": stall.nanos,
                "longest_nanos": stall.longest_nanos,
            })
        })
        .collect();
    json!({
        "sequence": stats.sequence,
        "synced_sequence": stats.synced_sequence,
        "families": stats.families,
        "memtable_bytes": stats.memtable_bytes,
        "frozen_memtables": stats.frozen_memtables,
        "families_flushing": stats.families_flushing,
        "families_compacting": stats.families_compacting,
        "tables": stats.tables,
        "table_bytes": stats.table_bytes,
        "value_log_files": stats.value_log_files,
        "value_log_bytes": stats.value_log_bytes,
        "open_files": stats.open_files,
        "open_tables": stats.open_tables,
        "block_cache_bytes": stats.cache.used_bytes,
        "block_cache_capacity": stats.cache.capacity_bytes,
        "block_cache_hits": stats.cache.hits,
        "block_cache_misses": stats.cache.misses,
        "log_retained_bytes": stats.log_retained_bytes,
        "left_out_commits": stats.left_out_commits,
        "left_out_bytes": stats.left_out_bytes,
        "log_syncs": stats.log_syncs,
        "synced_commits": stats.synced_commits,
        "slow_operations": stats.slow_operations,
        "work": work_json(&stats.work),
        "reads": reads_json(&stats.reads),
        "stall_nanos": stats.stall_nanos,
        "stalls": stalls,
        "memory": memory_json(&stats.memory),
    })
}

fn family_json(name: &str, family: &Family) -> Value {
    let (stats, about) = (family.stats(), keys_about(family));
    let levels: Vec<Value> = stats
        .levels
        .iter()
        .map(|level| {
            json!({
                "level": level.level,
                "runs": level.runs,
                "tables": level.tables,
                "bytes": level.bytes,
                "entries": level.entries,
                "tombstones": level.tombstones,
                "densest_table": {
                    "entries": level.densest_table.entries,
                    "tombstones": level.densest_table.tombstones,
                },
            })
        })
        .collect();
    json!({
        "name": name,
        "keys_about": about,
        "memtable_bytes": stats.memtable_bytes,
        "frozen_memtables": stats.frozen_memtables,
        "range_tombstones": stats.range_tombstones,
        "value_log_files": stats.value_log_files,
        "value_log_bytes": stats.value_log_bytes,
        "read_amplification": stats.read_amplification,
        "work": work_json(&stats.work),
        "reads": reads_json(&stats.reads),
        "levels": levels,
        "trees": trees_json(family),
    })
}

fn as_tables(db: &Db) -> Result<String> {
    let mut text = format!("Database\n{}", database_table(&db.stats()));
    for name in database::visible_families(db) {
        let family = db.family(&name)?;
        let tables = family_tables(&family.stats(), keys_about(&family));
        // Where a table that is needed can't be read, the levels above are what is known.
        let trees = family.tree_stats().as_ref().map(tree_table).unwrap_or_default();
        text.push_str(&format!("\nFamily {}\n{tables}{trees}", printable(&name)));
    }
    Ok(text)
}

fn database_table(stats: &DbStats) -> String {
    let rows = [
        ("last sequence", count(stats.sequence)),
        ("memtables", bytes(stats.memtable_bytes)),
        ("retained log", bytes(stats.log_retained_bytes)),
        ("open files", count(stats.open_files)),
        ("block cache in use", bytes(stats.cache.used_bytes)),
        ("block cache capacity", bytes(stats.cache.capacity_bytes)),
    ];
    let mut text = render(&["", ""], &rows.map(|(name, value)| vec![name.to_owned(), value]));
    text.push_str(&written_table(stats));
    text.push_str(&memory_table(&stats.memory));
    text.push_str(&stall_table(stats));
    text
}

/// What was written since the open, if anything was.
fn written_table(stats: &DbStats) -> String {
    let written = [
        ("by users", stats.work.user_bytes_written),
        ("to the log", stats.work.log_bytes_written),
        ("by flushes", stats.work.flush_bytes_written),
        ("by compactions", stats.work.compaction_bytes_written),
    ];
    if written.iter().all(|&(_, amount)| amount == 0) {
        return String::new();
    }
    let mut rows: Vec<Vec<String>> =
        written.iter().map(|&(name, amount)| vec![name.to_owned(), bytes(amount)]).collect();
    let amplification = format!("{:.2}", stats.work.write_amplification());
    rows.push(vec!["write amplification".to_owned(), amplification]);
    render(&["written since the open", ""], &rows)
}

fn memory_table(memory: &MemoryStats) -> String {
    let budget = match memory.budget_bytes {
        u64::MAX => "none".to_owned(),
        budget => bytes(budget),
    };
    let held = [
        ("memtables", memory.memtable_bytes),
        ("recycled blocks", memory.recycled_bytes),
        ("block cache", memory.block_cache_bytes),
        ("indexes, filters, records", memory.table_bytes),
        ("scans", memory.scan_bytes),
        ("transactions", memory.transaction_bytes),
        ("flushes and compactions", memory.background_bytes),
        ("families", memory.family_bytes),
        ("log segments", memory.log_bytes),
    ];
    let mut rows = vec![
        vec!["budget".to_owned(), budget],
        vec!["level".to_owned(), memory.level.name().to_owned()],
        vec!["in use".to_owned(), bytes(memory.used_bytes)],
    ];
    let held = held.iter().filter(|&&(_, amount)| amount > 0);
    rows.extend(held.map(|&(name, amount)| vec![format!("  {name}"), bytes(amount)]));
    render(&["memory", ""], &rows)
}

/// What held writers up since the open, if anything did.
fn stall_table(stats: &DbStats) -> String {
    let rows: Vec<Vec<String>> = stats
        .stalls
        .iter()
        .filter(|stall| stall.count > 0)
        .map(|stall| {
            vec![
                stall.reason.name().to_owned(),
                count(stall.count),
                format!("{} ms", stall.nanos / 1_000_000),
                format!("{} ms", stall.longest_nanos / 1_000_000),
            ]
        })
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    render(&["writers held up by", "times", "in all", "longest"], &rows)
}

fn family_tables(stats: &FamilyStats, keys_about: Option<u64>) -> String {
    let about = keys_about.map_or("not known".to_owned(), count);
    let rows = [
        ("keys, about", about),
        ("memtable", bytes(stats.memtable_bytes)),
        ("memtables waiting", stats.frozen_memtables.to_string()),
        ("range tombstones", count(stats.range_tombstones)),
        ("value-log files", stats.value_log_files.to_string()),
        ("value-log size", bytes(stats.value_log_bytes)),
        ("read amplification", stats.read_amplification.to_string()),
    ];
    let mut text = render(&["", ""], &rows.map(|(name, value)| vec![name.to_owned(), value]));
    let levels: Vec<Vec<String>> = stats
        .levels
        .iter()
        .filter(|level| level.tables > 0)
        .map(|level| {
            vec![
                level.level.to_string(),
                level.runs.to_string(),
                level.tables.to_string(),
                bytes(level.bytes),
                count(level.entries),
                count(level.tombstones),
            ]
        })
        .collect();
    if levels.is_empty() {
        text.push_str("  no tables yet\n");
    } else {
        let header = ["level", "runs", "tables", "size", "entries", "tombstones"];
        text.push_str(&render(&header, &levels));
    }
    text
}

/// The tables that are B+trees, if any are.
fn tree_table(trees: &TreeStats) -> String {
    if trees.tables() == 0 {
        return String::new();
    }
    let mut rows: Vec<Vec<String>> = trees
        .levels
        .iter()
        .map(|level| {
            vec![
                level.level.to_string(),
                count(level.tables),
                bytes(level.bytes),
                count(level.leaves),
                count(level.index_nodes),
            ]
        })
        .collect();
    if trees.flat_tables > 0 {
        rows.push(vec!["flat".to_owned(), count(trees.flat_tables)]);
    }
    render(&["trees of level", "tables", "size", "leaves", "index nodes"], &rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Open value logs were counted as tables.
    #[test]
    fn files_that_are_open_are_not_all_tables() {
        let mut stats = DbStats::default();
        (stats.open_files, stats.open_tables) = (5, 3);
        let text = database_table(&stats);
        assert!(text.contains("open files") && !text.contains("open tables"), "{text}");
        let json = database_json(&stats);
        assert_eq!((&json["open_files"], &json["open_tables"]), (&json!(5), &json!(3)));
    }
}
