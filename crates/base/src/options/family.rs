//! Settings of a column family.

use std::collections::BTreeMap;

use super::{FilterKind, SyncMode, refuse, setters::setters};
use crate::compress::Compression;
use crate::error::Result;
use crate::key_order::KeyOrder;
use crate::limits::MAX_KEY_BYTES;

/// Bytes that must be free where [`FamilyOptions::min_disk_space`] is not set.
const USUAL_MIN_DISK_SPACE: u64 = 100 << 20;

/// Without that setting no more than one in so many bytes of a volume must be free.
const USUAL_SHARE_OF_VOLUME: u64 = 20;

/// Settings of one column family, stored with the data and taken up again at each open.
///
/// Made from the default, one setting at a time; later versions may have more of them.
///
/// ```
/// # mod tidesdb { pub use tidesdb_base::options::FamilyOptions; }
/// use tidesdb::FamilyOptions;
/// let options = FamilyOptions::default().write_buffer_size(16 << 20).bloom_fpr(0.001);
/// assert_eq!(options.write_buffer_size, 16 << 20);
/// ```
// More than a dozen fields: one for each option.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct FamilyOptions {
    /// Memory for writes, in bytes. A memtable is written out when it holds half of it, and
    /// all memtables of the family take no more than it: writers are slowed down
    /// as they get there. Nor does a memtable grow past a 25th of the volume, if that has 32 MiB
    /// at least. A smaller memtable is written out some 20 s after a deletion when its
    /// deletions hide at least 16 MiB on disk, and four times as much as it takes. From 4 KiB to 16
    /// GiB. Default 64 MiB.
    pub write_buffer_size: usize,
    /// Values of at least this many bytes are stored in value logs (RocksDB: `min_blob_size`).
    /// Values of 1 MiB and more always are. In bytes, from 16 to 1 GiB. Default 512.
    #[doc(alias = "min_blob_size")]
    pub klog_value_threshold: usize,
    /// Codec of blocks and of value-log entries. Default LZ4.
    pub compression: Compression,
    /// Uncompressed bytes of one block of a table, from 128 to 1 MiB. Default 4096.
    pub block_size: usize,
    /// Write tables as B+trees: the index is nodes, and these and the data blocks are a quarter of
    /// `block_size`, at least 512 bytes. Nodes that gets and seeks need stay in memory while the
    /// table is open, and once these are half of a table's all of them do, as long as those of all
    /// tables take at most a sixteenth of the memory budget; others are read through the block
    /// cache. Gets and seeks of what the block cache does not have and the kernel's page cache has
    /// are faster; from the disk itself, and from the block cache, both forms are level. Tables
    /// whose keys are not asked for take little memory, and files are a tenth larger, or a sixth
    /// where values of some hundred bytes compress well. Both kinds of tables may be mixed in a
    /// family. Default `false`.
    pub use_btree: bool,
    /// Keep the index of a table, an entry for each data block, in memory while the table is open.
    /// Without, the entries lie in index nodes of about `block_size` bytes, which are kept and read
    /// as those of tables with `use_btree`: memory for what is asked for, within a bound, and
    /// beyond it another block to read for each get and seek that misses the cache. Tables with
    /// `use_btree` are always like that. Default `true`.
    pub enable_block_indexes: bool,
    /// With more than 1, only every n-th block has an entry of the index in memory; those in
    /// between lie in index nodes, as without `enable_block_indexes`. An entry that stands for a
    /// node takes about four times the memory of one that stands for a block, so that memory is
    /// saved from 5 on. From 1 to 1024. Default 1.
    pub index_sample_ratio: usize,
    /// Stored with the data, from 4 to 256, and without effect: the index keeps separators that are
    /// exact and as short as that allows, and compares their first eight differing bytes first. Cut
    /// to a length, separators of neighbours would be equal, and blocks be read without need
    /// (measured in `docs/design/0003-whole-separators.md`). Default 16.
    pub block_index_prefix_len: usize,
    /// Keep a filter of its keys for each table. Default `true`.
    pub enable_bloom_filter: bool,
    /// Share of absent keys that a filter lets through, between 0 and 1. Filters are made for at
    /// least 0.0000001 and at most 0.99. Default 0.01.
    pub bloom_fpr: f64,
    /// How filters are made. Default [`FilterKind::Bloom`].
    pub filter_kind: FilterKind,
    /// When greater than 0, each table also has a filter on the first `prefix_bytes` bytes of its
    /// keys: a scan whose bounds lie within one such prefix leaves tables out that do
    /// not hold it. Results are the same; the filter takes its space for each different prefix.
    /// Default 0.
    pub prefix_bytes: usize,
    /// Memtables waiting to be written out at which writers wait. With write buffers of 16 MiB and
    /// more the bytes of memtables mostly make them wait before. From 1 to 1000. Default 10.
    pub l0_queue_stall_threshold: usize,
    /// Target number of sorted runs. Twice this many runs of one size are compacted (four times for
    /// larger sizes while the family is not read). By default 6 do from 16 GiB on (1 GiB if the
    /// family is read), 4 from 64 and 3 from 256 GiB on. Writers are slowed by more than twice as
    /// many runs of level 1, or eight times as many in all; in a family that is read, by more than
    /// three times as many at 1 GiB and one and a half at 256 GiB. A family at rest is compacted
    /// for its readers from two runs less than this on, at least two. From 2 to 1000. Default 4.
    #[doc(alias = "level0_file_num_compaction_trigger")]
    pub l1_file_count_trigger: usize,
    /// When a family at rest is compacted for its readers, a run stays as it is if it is more than
    /// this many times as large as all newer runs together. From 2 to 1000. Default 10. (RocksDB's
    /// `max_bytes_for_level_multiplier` is something else: there are no levels of growing size.)
    pub level_size_ratio: usize,
    /// Upper target for versions on disk per live key, estimated. At 1.5, up to a third of the
    /// stored versions may be garbage. Compactions collect the garbage, whatever the
    /// number of runs, from two thirds of what this allows of it. From there on writers are slowed
    /// down, most when there is all of it; they are never stopped. Garbage below 1/8 of a write
    /// buffer causes no slowdown; below 1/2, never the largest one. What a snapshot still sees does
    /// not count. A value log is collected when more than half of it is garbage. Tables are
    /// compacted when as much of them has expired as compactions allow of garbage, or half. At
    /// least 1.1, at most 1000. Default 1.5.
    pub max_space_amplification: f64,
    /// Share of tombstones in a table from which it is compacted with all that they may delete:
    /// when the family is at rest, or once such tables are a `level_size_ratio`-th of all; 0 turns
    /// that off. Default 0.
    pub tombstone_density_trigger: f64,
    /// Tables with fewer versions than this are never compacted for their tombstones. Default 1024.
    pub tombstone_density_min_entries: u64,
    /// Size in bytes at which a flush or compaction starts another output table, from 4 KiB to 1
    /// TiB. A compaction makes smaller tables of less input, a sixteenth of it or 4 MiB, and a
    /// small memory budget lowers the size as well. Default 64 MiB.
    #[doc(alias = "target_file_size_base")]
    pub target_table_bytes: u64,
    /// Free bytes that must remain on the disk for a flush to start, and that a step of a
    /// compaction leaves. Default none: 100 MiB, or a twentieth of the volume where that is less.
    pub min_disk_space: Option<u64>,
    /// Commits to this family are at least this durable: the stronger of this mode and that of the
    /// database holds. Default `None`, so that the database decides.
    pub sync_mode: SyncMode,
    /// The order of the keys. It is fixed when the family is created, and the one setting that
    /// can't be changed afterwards. Default: by bytes.
    pub key_order: KeyOrder,
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
            enable_block_indexes: true,
            index_sample_ratio: 1,
            block_index_prefix_len: 16,
            enable_bloom_filter: true,
            bloom_fpr: 0.01,
            filter_kind: FilterKind::Bloom,
            prefix_bytes: 0,
            l0_queue_stall_threshold: 10,
            l1_file_count_trigger: 4,
            level_size_ratio: 10,
            max_space_amplification: 1.5,
            tombstone_density_trigger: 0.0,
            tombstone_density_min_entries: 1024,
            target_table_bytes: 64 << 20,
            min_disk_space: None,
            sync_mode: SyncMode::None,
            key_order: KeyOrder::Bytewise,
            properties: BTreeMap::new(),
        }
    }
}

/// A setting that is a number between two limits.
struct Bounded<'a> {
    name: &'static str,
    value: &'a mut usize,
    low: usize,
    high: usize,
}

impl FamilyOptions {
    /// Adds one of [`FamilyOptions::properties`], or replaces it.
    #[must_use]
    pub fn property(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.properties.insert(name.into(), value.into());
        self
    }

    /// Bytes that must be free for a flush to start, and stay free during a compaction, on a volume
    /// of so many bytes (if known).
    #[doc(hidden)]
    #[must_use]
    pub fn least_free_bytes(&self, volume_bytes: Option<u64>) -> u64 {
        self.min_disk_space.unwrap_or_else(|| {
            let share = volume_bytes.map(|volume| volume / USUAL_SHARE_OF_VOLUME);
            share.map_or(USUAL_MIN_DISK_SPACE, |share| share.min(USUAL_MIN_DISK_SPACE))
        })
    }

    /// Calls `see` with each setting that is a number between two limits.
    fn bounded(&mut self, mut see: impl FnMut(Bounded<'_>)) {
        let mut number = |name, value, low, high| see(Bounded { name, value, low, high });
        number("write_buffer_size", &mut self.write_buffer_size, 4 << 10, 16 << 30);
        number("klog_value_threshold", &mut self.klog_value_threshold, 16, 1 << 30);
        number("block_size", &mut self.block_size, 128, 1 << 20);
        number("index_sample_ratio", &mut self.index_sample_ratio, 1, 1024);
        number("block_index_prefix_len", &mut self.block_index_prefix_len, 4, 256);
        number("prefix_bytes", &mut self.prefix_bytes, 0, MAX_KEY_BYTES);
        number("l0_queue_stall_threshold", &mut self.l0_queue_stall_threshold, 1, 1000);
        number("l1_file_count_trigger", &mut self.l1_file_count_trigger, 2, 1000);
        number("level_size_ratio", &mut self.level_size_ratio, 2, 1000);
    }

    /// The settings with each number that is beyond a limit at that limit, as far as TidesDB's
    /// files have it; a `bloom_fpr` that is no rate becomes the default.
    #[doc(hidden)]
    #[must_use]
    pub fn within_limits(mut self) -> Self {
        self.bounded(|setting| *setting.value = (*setting.value).clamp(setting.low, setting.high));
        if !(self.bloom_fpr > 0.0 && self.bloom_fpr < 1.0) {
            self.bloom_fpr = Self::default().bloom_fpr;
        }
        self.tombstone_density_trigger = self.tombstone_density_trigger.clamp(0.0, 1.0);
        self
    }

    /// Checks every setting.
    ///
    /// # Errors
    /// [`crate::Error::InvalidOptions`] listing all problems.
    pub fn validate(&self) -> Result<()> {
        let mut problems = Vec::new();
        self.clone().bounded(|Bounded { name, value, low, high }| {
            if *value < low || *value > high {
                problems.push(format!("{name} is {value}, must be between {low} and {high}"));
            }
        });
        let (least, most) = (4 << 10, 1 << 40);
        if !(least..=most).contains(&self.target_table_bytes) {
            let bytes = self.target_table_bytes;
            problems
                .push(format!("target_table_bytes is {bytes}, must be between {least} and {most}"));
        }
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
        problems.extend(self.key_order.problem());
        for name in self.properties.keys() {
            if name.is_empty() || name.trim() != name || name.contains(['=', '\n', '\r']) {
                problems.push(format!("property name '{}' is not allowed", name.escape_debug()));
            }
        }
        refuse(problems)
    }
}

setters! {
    FamilyOptions {
        write_buffer_size: usize,
        klog_value_threshold: usize,
        compression: Compression,
        block_size: usize,
        use_btree: bool,
        enable_block_indexes: bool,
        index_sample_ratio: usize,
        block_index_prefix_len: usize,
        enable_bloom_filter: bool,
        bloom_fpr: f64,
        filter_kind: FilterKind,
        prefix_bytes: usize,
        l0_queue_stall_threshold: usize,
        l1_file_count_trigger: usize,
        level_size_ratio: usize,
        max_space_amplification: f64,
        tombstone_density_trigger: f64,
        tombstone_density_min_entries: u64,
        target_table_bytes: u64,
        sync_mode: SyncMode,
        key_order: KeyOrder,
        properties: BTreeMap<String, String>,
    }
    optional {
        min_disk_space: u64,
    }
}
