//! Statistics as people read them: a line for each value that says something.

use std::fmt::{Display, Formatter, Result};

use super::{
    CacheStats, DbStats, FamilySpace, FamilyStats, LevelStats, MemoryStats, ReadStats, StallStats,
    TombstoneDensity, TreeStats, WorkStats,
};

/// Columns of a name.
const NAME_COLUMNS: usize = 26;

/// Writes a line.
pub(crate) fn line(f: &mut Formatter<'_>, name: &str, value: &dyn Display) -> Result {
    writeln!(f, "{name:<NAME_COLUMNS$} {value}")
}

/// Writes a line unless the value is zero.
pub(crate) fn some(f: &mut Formatter<'_>, name: &str, amount: u64, value: &dyn Display) -> Result {
    if amount == 0 { Ok(()) } else { line(f, name, value) }
}

/// An amount of bytes in the largest unit that leaves a digit in front of the point.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bytes(pub u64);

impl Display for Bytes {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let units = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
        if self.0 < 1024 {
            return write!(f, "{} B", self.0);
        }
        let mut amount = self.0 as f64 / 1024.0;
        let mut unit = units[0];
        for larger in &units[1..] {
            // What would be rounded up to the next unit is in it.
            if amount < 1023.95 {
                break;
            }
            amount /= 1024.0;
            unit = larger;
        }
        write!(f, "{amount:.1} {unit}")
    }
}

/// A time in the largest unit that leaves a digit in front of the point.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Nanos(pub u64);

impl Display for Nanos {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let nanos = self.0 as f64;
        match self.0 {
            0..1_000 => write!(f, "{} ns", self.0),
            1_000..1_000_000 => write!(f, "{:.1} us", nanos / 1e3),
            1_000_000..1_000_000_000 => write!(f, "{:.1} ms", nanos / 1e6),
            _ => write!(f, "{:.1} s", nanos / 1e9),
        }
    }
}

/// A part of a whole in per cent.
struct Percent(f64);

impl Display for Percent {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{:.1} %", self.0 * 100.0)
    }
}

/// Work of one kind that was done in the background.
struct Work {
    done: u64,
    failed: u64,
    nanos: u64,
    read: Option<u64>,
    written: u64,
    tables: u64,
}

impl Display for Work {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{} in {}", self.done, Nanos(self.nanos))?;
        if let Some(read) = self.read {
            write!(f, ", {} read", Bytes(read))?;
        }
        write!(f, ", {} written in {} tables", Bytes(self.written), self.tables)?;
        if self.failed > 0 {
            write!(f, ", {} failed", self.failed)?;
        }
        Ok(())
    }
}

impl Display for DbStats {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        line(f, "families", &self.families)?;
        line(f, "last sequence number", &self.sequence)?;
        line(f, "memtables", &Bytes(self.memtable_bytes))?;
        some(f, "waiting for a flush", self.frozen_memtables, &self.frozen_memtables)?;
        some(f, "families flushing", self.families_flushing, &self.families_flushing)?;
        some(f, "families compacting", self.families_compacting, &self.families_compacting)?;
        line(f, "tables", &format_args!("{} in {}", Bytes(self.table_bytes), self.tables))?;
        let values = (Bytes(self.value_log_bytes), self.value_log_files);
        some(f, "value logs", values.1, &format_args!("{} in {}", values.0, values.1))?;
        line(f, "open files", &self.open_files)?;
        line(f, "open tables", &self.open_tables)?;
        line(f, "retained log", &Bytes(self.log_retained_bytes))?;
        let left_out = (self.left_out_commits, Bytes(self.left_out_bytes));
        let text = format_args!("{} commits in {}", left_out.0, left_out.1);
        some(f, "left out of the log", left_out.0, &text)?;
        some(f, "syncs of the log", self.log_syncs, &self.log_syncs)?;
        write!(f, "{}", self.work)?;
        let rate = Percent(self.cache.hit_rate());
        let looks = self.cache.hits + self.cache.misses;
        some(f, "block cache hits", looks, &format_args!("{rate} of {looks}"))?;
        write!(f, "{}", self.reads)?;
        for stall in self.stalls.iter().filter(|stall| stall.count > 0) {
            line(f, &format!("stalls: {}", stall.reason), stall)?;
        }
        some(f, "slow operations", self.slow_operations, &self.slow_operations)?;
        write!(f, "{}", self.memory)
    }
}

impl Display for WorkStats {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        some(f, "written by users", self.operations_written, &Bytes(self.user_bytes_written))?;
        some(f, "operations", self.operations_written, &self.operations_written)?;
        some(f, "written to the log", self.log_bytes_written, &Bytes(self.log_bytes_written))?;
        let flushed = Work {
            done: self.flushes,
            failed: self.flush_failures,
            nanos: self.flush_nanos,
            read: None,
            written: self.flush_bytes_written,
            tables: self.flush_tables_written,
        };
        some(f, "flushes", self.flushes + self.flush_failures, &flushed)?;
        let compacted = Work {
            done: self.compactions,
            failed: self.compaction_failures,
            nanos: self.compaction_nanos,
            read: Some(self.compaction_bytes_read),
            written: self.compaction_bytes_written,
            tables: self.compaction_tables_written,
        };
        some(f, "compactions", self.compactions, &compacted)?;
        let amplification = format!("{:.2}", self.write_amplification());
        some(f, "write amplification", self.operations_written, &amplification)
    }
}

impl Display for FamilyStats {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        line(f, "memtables", &Bytes(self.memtable_bytes))?;
        some(f, "waiting for a flush", self.frozen_memtables, &self.frozen_memtables)?;
        for level in &self.levels {
            line(f, &format!("level {}", level.level), level)?;
        }
        some(f, "range deletions", self.range_tombstones, &self.range_tombstones)?;
        let values = (Bytes(self.value_log_bytes), self.value_log_files);
        some(f, "value logs", values.1, &format_args!("{} in {}", values.0, values.1))?;
        write!(f, "{}", self.work)?;
        line(f, "read amplification", &self.read_amplification)?;
        write!(f, "{}", self.reads)
    }
}

impl Display for LevelStats {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let Self { runs, tables, entries, tombstones, .. } = self;
        let bytes = Bytes(self.bytes);
        write!(f, "{bytes} in {tables} tables of {runs} runs, {entries} entries")?;
        if *tombstones > 0 { write!(f, ", {tombstones} tombstones") } else { Ok(()) }
    }
}

impl Display for ReadStats {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        some(f, "gets from tables", self.table_gets, &self.table_gets)?;
        let searched = format!("{:.2}", self.tables_per_get());
        some(f, "tables searched per get", self.table_gets, &searched)?;
        let spared = Percent(self.filter_usefulness());
        some(f, "filters that spared one", self.filters_asked, &spared)?;
        let wrong = Percent(self.filter_false_positive_rate());
        some(f, "filters wrong", self.filters_asked, &wrong)?;
        some(f, "seeks", self.seeks, &self.seeks)?;
        let cached = Percent(self.cache_hit_rate());
        let blocks = self.blocks_cached + self.blocks_read;
        some(f, "blocks cached", blocks, &format_args!("{cached} of {blocks}"))?;
        some(f, "values from value logs", self.values_read, &self.values_read)
    }
}

impl Display for TombstoneDensity {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{} of {} entries", self.tombstones, self.entries)
    }
}

impl Display for FamilySpace {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let (tables, values) = (self.table_bytes, self.value_log_bytes);
        some(f, "tables", tables, &Bytes(tables))?;
        some(f, "value logs", values, &Bytes(values))?;
        let unreferenced = self.unreferenced_value_bytes;
        some(f, "  unreferenced", unreferenced, &Bytes(unreferenced))?;
        line(f, "alive, about", &Bytes(self.live_bytes()))?;
        some(f, "versions", self.versions, &self.versions)?;
        for (name, versions) in [
            ("  alive, about", self.live_versions),
            ("  for snapshots, about", self.versions_for_snapshots),
            ("  deletions", self.tombstones),
            ("  expired, about", self.expired_versions),
            ("damaged tables", self.damaged_tables),
        ] {
            some(f, name, versions, &versions)?;
        }
        some(f, "unflushed log", self.unflushed_log_bytes, &Bytes(self.unflushed_log_bytes))
    }
}

impl Display for StallStats {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let (all, longest) = (Nanos(self.nanos), Nanos(self.longest_nanos));
        write!(f, "{} times, {all} in all, {longest} at most", self.count)
    }
}

impl Display for MemoryStats {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let used = Bytes(self.used_bytes);
        match self.budget_bytes {
            u64::MAX => line(f, "memory", &format_args!("{used}, without a budget"))?,
            budget => {
                let (budget, level) = (Bytes(budget), self.level.name());
                line(f, "memory", &format_args!("{used} of {budget} ({level})"))?;
            }
        }
        for (name, bytes) in [
            ("  memtables", self.memtable_bytes),
            ("  recycled blocks", self.recycled_bytes),
            ("  block cache", self.block_cache_bytes),
            ("  indexes, filters, records", self.table_bytes),
            ("  scans", self.scan_bytes),
            ("  transactions", self.transaction_bytes),
            ("  flushes and compactions", self.background_bytes),
            ("  families", self.family_bytes),
            ("  log segments", self.log_bytes),
        ] {
            some(f, name, bytes, &Bytes(bytes))?;
        }
        Ok(())
    }
}

impl Display for CacheStats {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        if self.capacity_bytes == 0 {
            return writeln!(f, "no block cache");
        }
        let (used, capacity) = (Bytes(self.used_bytes), Bytes(self.capacity_bytes));
        line(f, "block cache", &format_args!("{used} of {capacity}"))?;
        line(f, "blocks", &self.entries)?;
        let looks = self.hits + self.misses;
        some(f, "hits", looks, &format_args!("{} of {looks}", Percent(self.hit_rate())))?;
        some(f, "evictions", self.evictions, &self.evictions)
    }
}

impl Display for TreeStats {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        for level in &self.levels {
            let (bytes, tables, leaves) = (Bytes(level.bytes), level.tables, level.leaves);
            let inner = level.index_nodes;
            let text = format!("{bytes} in {tables} trees, {leaves} leaves, {inner} index nodes");
            line(f, &format!("level {}", level.level), &text)?;
        }
        some(f, "height", self.height(), &self.height())?;
        some(f, "tables with a flat index", self.flat_tables, &self.flat_tables)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_the_unit_that_reads_best() {
        let bytes = [0, 1023, 1024, 1536, (1 << 20) - 1, 1 << 20, 5 << 30, u64::MAX];
        let texts = bytes.map(|amount| Bytes(amount).to_string());
        let wanted =
            ["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "1.0 MiB", "1.0 MiB", "5.0 GiB", "16.0 EiB"];
        assert_eq!(texts, wanted);
        let times = [0, 999, 1_500, 2_000_000, 61_000_000_000].map(|n| Nanos(n).to_string());
        assert_eq!(times, ["0 ns", "999 ns", "1.5 us", "2.0 ms", "61.0 s"]);
    }

    #[test]
    fn figures_that_say_nothing_are_left_out() {
        let mut stats = FamilyStats::default();
        let short = stats.to_string();
        assert_eq!(short.lines().count(), 2, "{short}");
        stats.reads.table_gets = 4;
        stats.reads.tables_searched = 6;
        let text = stats.to_string();
        assert!(text.contains("tables searched per get    1.50\n"), "{text}");
        let mut space = FamilySpace::default();
        assert_eq!(space.to_string(), "alive, about               0 B\n");
        (space.table_bytes, space.versions, space.live_versions) = (2048, 4, 1);
        let text = space.to_string();
        assert!(text.contains("alive, about               512 B\n"), "{text}");
        assert!(text.contains("  alive, about             1\n"), "{text}");
    }
}
