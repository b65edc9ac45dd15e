//! Settings of a database and of a column family: plain data with documented defaults, one
//! `validate` that reports every problem at once, and a text form that is stored with the data.

use std::collections::BTreeMap;

use crate::compress::Compression;
use crate::error::{Error, Result};
use crate::event::EventListener;

/// When a commit's log record is forced to disk.
///
/// In every mode an acknowledged commit survives the death of the process, because the log is
/// memory shared with the kernel. The modes differ in what a power cut may take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SyncMode {
    /// The kernel decides when; a power cut may take the most recent commits.
    #[default]
    None,
    /// A background sync at most every `interval_us` microseconds; a power cut takes at most what
    /// was committed since the last one.
    Interval {
        /// Microseconds between syncs; at least 1.
        interval_us: u64,
    },
    /// A commit returns after its record is on disk; commits that wait together share one sync.
    Full,
}

/// Settings of a database, given at each open.
#[derive(Clone, Debug, PartialEq)]
pub struct DbOptions {
    /// Create the database when the directory is empty or absent. Default `true`.
    pub create_if_missing: bool,
    /// Open without writing anything; writes answer `OpenedReadOnly`. Any number of readers may have
    /// a database open, but none beside a writer. Default `false`.
    pub read_only: bool,
    /// Bytes of decoded blocks kept in memory; filters and indexes count in the memory budget.
    /// 0 disables the block cache. Default 64 MiB.
    pub block_cache_bytes: usize,
    /// Tables and value logs kept open at a time, together; those not used lately are closed beyond
    /// it. 0 means no bound of its own. Never more than half of the descriptors that the process may
    /// have when this is set (`ulimit -n`). Default 256.
    pub max_open_tables: usize,
    /// Threads that write memtables out. On Linux they give way to other threads of the process:
    /// their nice value is 5 above its own. 0 means the number of processors, at most 4. Default 0.
    pub flush_threads: usize,
    /// Threads that merge tables, and help with a flush that writers outrun. Their nice value
    /// is 10 above the process's own on Linux. When all are busy, a merge interrupts one that is twice
    /// as large. 0 means 2. Default 2.
    pub compaction_threads: usize,
    /// Sync mode of the log. A family may ask for more, never for less. Default `None`.
    pub sync_mode: SyncMode,
    /// Size of one log segment in bytes, at least 64 KiB. Default 8 MiB.
    pub log_segment_bytes: u64,
    /// Log kept for families that are rarely written, in bytes; beyond it the family with the
    /// oldest unflushed data is flushed. 0 means four times the largest write buffer, at least
    /// 256 MiB. Default 0.
    pub max_retained_log_bytes: u64,
    /// Write the log through `pwrite` instead of a shared mapping. Default `false`.
    pub log_without_mapping: bool,
    /// Bytes of memory that the database may take in all: memtables, block cache, indexes and
    /// filters, log buffers, scans, transactions, and what flushes and merges need. As it is
    /// approached, large memtables are written out early and the block cache shrinks, then
    /// writers are slowed down, then they wait for flushes; reads never wait. A budget smaller
    /// than a write buffer is kept by freezing memtables earlier. 0 means three quarters of the
    /// smaller of the machine's memory and the control group's limit; otherwise at least 4 MiB
    /// and at least eight log segments. Default 0.
    pub max_memory_usage: u64,
    /// Milliseconds without any progress of flushes after which a writer that waits for them, or the
    /// caller of an explicit flush, gets an error of kind `Stalled` instead of waiting on; likewise
    /// whoever asks for a merge and waits for another to end. 0 means for ever. Default 60,000.
    pub stall_timeout_ms: u64,
    /// Called with rare events worth a line in a log. Default none.
    pub event_listener: Option<EventListener>,
}

impl Default for DbOptions {
    fn default() -> Self {
        Self {
            create_if_missing: true,
            read_only: false,
            block_cache_bytes: 64 << 20,
            max_open_tables: 256,
            flush_threads: 0,
            compaction_threads: 2,
            sync_mode: SyncMode::None,
            log_segment_bytes: 8 << 20,
            max_retained_log_bytes: 0,
            log_without_mapping: false,
            max_memory_usage: 0,
            stall_timeout_ms: 60_000,
            event_listener: None,
        }
    }
}

impl DbOptions {
    /// Threads that merge tables, with the default put in for 0.
    #[must_use]
    pub const fn merging_threads(&self) -> usize {
        match self.compaction_threads {
            0 => 2,
            threads => threads,
        }
    }

    /// Checks every setting.
    ///
    /// # Errors
    /// [`Error::InvalidOptions`] listing all problems.
    pub fn validate(&self) -> Result<()> {
        let mut problems = Vec::new();
        if self.log_segment_bytes < 64 << 10 || self.log_segment_bytes > 1 << 30 {
            problems.push(format!(
                "log_segment_bytes is {}, must be between 65536 and 1073741824",
                self.log_segment_bytes
            ));
        }
        if self.flush_threads > 256 {
            problems.push(format!("flush_threads is {}, must be at most 256", self.flush_threads));
        }
        if self.compaction_threads > 256 {
            problems.push(format!(
                "compaction_threads is {}, must be at most 256",
                self.compaction_threads
            ));
        }
        if self.sync_mode == (SyncMode::Interval { interval_us: 0 }) {
            problems.push("sync interval is 0 us, must be at least 1".to_owned());
        }
        problems.extend(self.memory_problem(self.max_memory_usage));
        refuse(problems)
    }

    /// Checks a memory budget for this database.
    ///
    /// # Errors
    /// [`Error::InvalidOptions`] when it is too small to work with.
    pub fn validate_memory_budget(&self, bytes: u64) -> Result<()> {
        refuse(self.memory_problem(bytes).into_iter().collect())
    }

    /// The smallest memory budget that this database can work with, in bytes.
    #[must_use]
    pub fn least_memory_budget(&self) -> u64 {
        LEAST_MEMORY_BUDGET.max(self.log_segment_bytes.saturating_mul(8))
    }

    fn memory_problem(&self, budget: u64) -> Option<String> {
        let least = self.least_memory_budget();
        (budget != 0 && budget < least)
            .then(|| format!("max_memory_usage is {budget}, must be 0 or at least {least}"))
    }
}

/// Settings of an open database that can be changed while it is in use; what is `None` stays.
/// They hold until the database is closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuntimeOptions {
    /// See [`DbOptions::block_cache_bytes`]. The number of the cache's shards stays what the open
    /// made it, so a cache that was opened small and is made large has fewer than it would.
    pub block_cache_bytes: Option<usize>,
    /// See [`DbOptions::max_open_tables`].
    pub max_open_tables: Option<usize>,
    /// See [`DbOptions::max_memory_usage`].
    pub max_memory_usage: Option<u64>,
}

/// The smallest memory budget that leaves every part of the engine room to work, in bytes.
const LEAST_MEMORY_BUDGET: u64 = 4 << 20;

/// Default of [`FamilyOptions::min_disk_space`].
const USUAL_MIN_DISK_SPACE: u64 = 100 << 20;

/// Share of a volume that the default stays under.
const USUAL_SHARE_OF_VOLUME: u64 = 20;

/// Settings of one column family, stored with the data and taken up again at each open.
#[derive(Clone, Debug, PartialEq)]
pub struct FamilyOptions {
    /// Memory for writes, in bytes. A memtable is written out when it holds half of it, and
    /// all memtables of the family take no more than it: writers are slowed down
    /// as they get there. Default 64 MiB.
    pub write_buffer_size: usize,
    /// Values of at least this many bytes live in value-log files. Default 512.
    pub klog_value_threshold: usize,
    /// Codec of blocks and of value-log entries. Default LZ4.
    pub compression: Compression,
    /// Uncompressed bytes of one block of a table. Default 4096.
    pub block_size: usize,
    /// Write tables as B+trees: the index is nodes that are read through the block cache, of which
    /// the root alone stays in memory, and data blocks are a quarter of `block_size`, at least 512
    /// bytes. Gets and seeks that have to read are faster, and an open table takes little memory.
    /// Both kinds of tables may be mixed in a family. Default `false`.
    pub use_btree: bool,
    /// Keep a bloom filter for each table. Default `true`.
    pub enable_bloom_filter: bool,
    /// Share of absent keys that a filter lets through. Default 0.01.
    pub bloom_fpr: f64,
    /// Memtables waiting to be written out at which writers wait. It matters for write buffers of
    /// less than 16 MiB; larger ones reach their bound on bytes first. Default 10.
    pub l0_queue_stall_threshold: usize,
    /// How many sorted runs there should be: twice as many of one size are merged, four times as many of
    /// the larger sizes while nobody reads the family. Writers are slowed from twice as many of the
    /// first level on, or eight times as many in all. Default 4.
    pub l1_file_count_trigger: usize,
    /// How many times as large as all newer runs together a run must be to be spared when a family at
    /// rest is merged for its readers. Default 10.
    pub level_size_ratio: usize,
    /// Versions on disk per live key, estimated. Merges collect the garbage, whatever the number of
    /// runs, from two thirds of what this allows of it. From there on writers are slowed down, most when
    /// there is all of it; they are never stopped. Garbage of an eighth of a write buffer slows nobody,
    /// and less than half of one not most. What a snapshot still sees does not count. A
    /// value log is collected when more than half of it is garbage. Tables are merged when as much of them
    /// has expired as merges allow of garbage, or half. At least 1.1. Default 1.5.
    pub max_space_amplification: f64,
    /// Share of tombstones in a table that starts a merge of it; 0 turns that off. Default 0.
    pub tombstone_density_trigger: f64,
    /// Tables with fewer versions than this are never merged for their tombstones. Default 1024.
    pub tombstone_density_min_entries: u64,
    /// Size in bytes at which a merge starts another output table. Default 64 MiB.
    pub target_table_bytes: u64,
    /// Free bytes that must remain on the disk for a flush to start. The default, 100 MiB, counts as a
    /// twentieth of the volume where that is less; any other number is taken as it is.
    pub min_disk_space: u64,
    /// Commits to this family are at least this durable. Default: as the database.
    pub sync_mode: SyncMode,
    /// Texts of the application that are stored with the options, by name. The engine does not look
    /// at them. A name has no `=`, no white space at its ends and no line break. Default none.
    pub properties: BTreeMap<String, String>,
}

impl Default for FamilyOptions {
    fn default() -> Self {
        Self {
            write_buffer_size: 64 << 20,
            klog_value_threshold: 512,
            compression: Compression::Lz4,
            block_size: 4096,
            use_btree: false,
            enable_bloom_filter: true,
            bloom_fpr: 0.01,
            l0_queue_stall_threshold: 10,
            l1_file_count_trigger: 4,
            level_size_ratio: 10,
            max_space_amplification: 1.5,
            tombstone_density_trigger: 0.0,
            tombstone_density_min_entries: 1024,
            target_table_bytes: 64 << 20,
            min_disk_space: USUAL_MIN_DISK_SPACE,
            sync_mode: SyncMode::None,
            properties: BTreeMap::new(),
        }
    }
}

impl FamilyOptions {
    /// Bytes that must be free for a flush to start, on a volume of so many bytes (if known).
    #[must_use]
    pub fn least_free_bytes(&self, volume_bytes: Option<u64>) -> u64 {
        match volume_bytes {
            Some(volume) if self.min_disk_space == USUAL_MIN_DISK_SPACE => {
                self.min_disk_space.min(volume / USUAL_SHARE_OF_VOLUME)
            }
            _ => self.min_disk_space,
        }
    }

    /// Checks every setting.
    ///
    /// # Errors
    /// [`Error::InvalidOptions`] listing all problems.
    pub fn validate(&self) -> Result<()> {
        let mut problems = Vec::new();
        let mut within = |name: &str, value: u64, low: u64, high: u64| {
            if value < low || value > high {
                problems.push(format!("{name} is {value}, must be between {low} and {high}"));
            }
        };
        within("write_buffer_size", self.write_buffer_size as u64, 4 << 10, 16 << 30);
        within("klog_value_threshold", self.klog_value_threshold as u64, 16, 1 << 30);
        within("block_size", self.block_size as u64, 128, 1 << 20);
        within("l0_queue_stall_threshold", self.l0_queue_stall_threshold as u64, 1, 1000);
        within("l1_file_count_trigger", self.l1_file_count_trigger as u64, 2, 1000);
        within("level_size_ratio", self.level_size_ratio as u64, 2, 1000);
        within("target_table_bytes", self.target_table_bytes, 4 << 10, 1 << 40);
        if !(self.bloom_fpr > 0.0 && self.bloom_fpr < 1.0) {
            problems.push(format!("bloom_fpr is {}, must lie between 0 and 1", self.bloom_fpr));
        }
        if !(self.max_space_amplification >= 1.1 && self.max_space_amplification <= 1000.0) {
            problems.push(format!(
                "max_space_amplification is {}, must be between 1.1 and 1000",
                self.max_space_amplification
            ));
        }
        if !(0.0..=1.0).contains(&self.tombstone_density_trigger) {
            problems.push(format!(
                "tombstone_density_trigger is {}, must lie between 0 and 1",
                self.tombstone_density_trigger
            ));
        }
        if self.sync_mode == (SyncMode::Interval { interval_us: 0 }) {
            problems.push("sync interval is 0 us, must be at least 1".to_owned());
        }
        for name in self.properties.keys() {
            if name.is_empty() || name.trim() != name || name.contains(['=', '\n', '\r']) {
                problems.push(format!("property name '{}' is not allowed", name.escape_debug()));
            }
        }
        refuse(problems)
    }

    /// The settings as `key = value` lines, the form that is stored with the data.
    #[must_use]
    pub fn to_text(&self) -> String {
        let sync = match self.sync_mode {
            SyncMode::None => "none".to_owned(),
            SyncMode::Full => "full".to_owned(),
            SyncMode::Interval { interval_us } => format!("interval:{interval_us}"),
        };
        let mut text = [
            format!("write_buffer_size = {}", self.write_buffer_size),
            format!("klog_value_threshold = {}", self.klog_value_threshold),
            format!("compression = {}", self.compression.name()),
            format!("block_size = {}", self.block_size),
            format!("use_btree = {}", self.use_btree),
            format!("enable_bloom_filter = {}", self.enable_bloom_filter),
            format!("bloom_fpr = {}", self.bloom_fpr),
            format!("l0_queue_stall_threshold = {}", self.l0_queue_stall_threshold),
            format!("l1_file_count_trigger = {}", self.l1_file_count_trigger),
            format!("level_size_ratio = {}", self.level_size_ratio),
            format!("max_space_amplification = {}", self.max_space_amplification),
            format!("tombstone_density_trigger = {}", self.tombstone_density_trigger),
            format!("tombstone_density_min_entries = {}", self.tombstone_density_min_entries),
            format!("target_table_bytes = {}", self.target_table_bytes),
            format!("min_disk_space = {}", self.min_disk_space),
            format!("sync_mode = {sync}"),
        ]
        .join("\n");
        for (name, value) in &self.properties {
            // On one line, whatever is in it.
            let value = value.replace('\\', "\\\\").replace('\n', "\\n").replace('\r', "\\r");
            text.push_str(&format!("\n{PROPERTY}{name} = \"{value}\""));
        }
        text
    }

    /// Reads the text form. Absent settings keep their default; unknown ones, which a later
    /// version may have written, are ignored.
    ///
    /// # Errors
    /// [`Error::InvalidOptions`] listing all lines that do not parse and all values out of range.
    pub fn from_text(text: &str) -> Result<Self> {
        let mut options = Self::default();
        let mut problems = Vec::new();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let Some((name, value)) = line.split_once('=') else {
                problems.push(format!("'{line}' is not of the form key = value"));
                continue;
            };
            if options.set(name.trim(), value.trim()).is_none() {
                problems.push(format!("'{line}' has a value of the wrong form"));
            }
        }
        refuse(problems)?;
        options.validate()?;
        Ok(options)
    }

    fn set(&mut self, name: &str, value: &str) -> Option<()> {
        if let Some(name) = name.strip_prefix(PROPERTY) {
            let value = value.strip_prefix('"')?.strip_suffix('"')?;
            self.properties.insert(name.to_owned(), unescaped(value)?);
            return Some(());
        }
        match name {
            "write_buffer_size" => self.write_buffer_size = value.parse().ok()?,
            "klog_value_threshold" => self.klog_value_threshold = value.parse().ok()?,
            "compression" => self.compression = Compression::from_name(value)?,
            "block_size" => self.block_size = value.parse().ok()?,
            "use_btree" => self.use_btree = value.parse().ok()?,
            "enable_bloom_filter" => self.enable_bloom_filter = value.parse().ok()?,
            "bloom_fpr" => self.bloom_fpr = value.parse().ok()?,
            "l0_queue_stall_threshold" => self.l0_queue_stall_threshold = value.parse().ok()?,
            "l1_file_count_trigger" => self.l1_file_count_trigger = value.parse().ok()?,
            "level_size_ratio" => self.level_size_ratio = value.parse().ok()?,
            "max_space_amplification" => self.max_space_amplification = value.parse().ok()?,
            "tombstone_density_trigger" => self.tombstone_density_trigger = value.parse().ok()?,
            "tombstone_density_min_entries" => {
                self.tombstone_density_min_entries = value.parse().ok()?;
            }
            "target_table_bytes" => self.target_table_bytes = value.parse().ok()?,
            "min_disk_space" => self.min_disk_space = value.parse().ok()?,
            "sync_mode" => self.sync_mode = parse_sync_mode(value)?,
            _ => {}
        }
        Some(())
    }
}

/// What the names of properties begin with in the text form.
const PROPERTY: &str = "property.";

/// A property's value as it was before its line breaks were written out.
fn unescaped(text: &str) -> Option<String> {
    let mut value = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        value.push(match character {
            '\\' => match characters.next()? {
                'n' => '\n',
                'r' => '\r',
                '\\' => '\\',
                _ => return None,
            },
            other => other,
        });
    }
    Some(value)
}

fn parse_sync_mode(value: &str) -> Option<SyncMode> {
    match value {
        "none" => Some(SyncMode::None),
        "full" => Some(SyncMode::Full),
        _ => {
            let interval_us = value.strip_prefix("interval:")?.parse().ok()?;
            Some(SyncMode::Interval { interval_us })
        }
    }
}

fn refuse(problems: Vec<String>) -> Result<()> {
    if problems.is_empty() { Ok(()) } else { Err(Error::InvalidOptions(problems)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_form_round_trips() {
        let options = FamilyOptions {
            write_buffer_size: 12345,
            compression: Compression::Zstd,
            bloom_fpr: 0.001,
            sync_mode: SyncMode::Interval { interval_us: 9 },
            properties: [("a.b", " line\r\nand\\n \"more\" = "), ("empty", "")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            use_btree: true,
            ..FamilyOptions::default()
        };
        assert_eq!(FamilyOptions::from_text(&options.to_text()).unwrap(), options);
    }

    #[test]
    fn every_problem_is_reported_at_once() {
        let options = FamilyOptions {
            write_buffer_size: 1,
            block_size: 1,
            bloom_fpr: 2.0,
            ..Default::default()
        };
        match options.validate() {
            Err(Error::InvalidOptions(problems)) => assert_eq!(problems.len(), 3, "{problems:?}"),
            other => panic!("{other:?}"),
        }
        let text = "block_size = many\nnonsense\nfuture_option = 1";
        match FamilyOptions::from_text(text) {
            Err(Error::InvalidOptions(problems)) => assert_eq!(problems.len(), 2, "{problems:?}"),
            other => panic!("{other:?}"),
        }
    }
}
