//! Small random options: a thousand operations must cross every boundary there is.

use tidesdb::{Compression, DbOptions, FamilyOptions, FilterKind, KeyOrder, SyncMode};
use tidesdb_sim::rng::SplitMix64;

/// Number of families that a workload plays with.
pub const SLOTS: usize = 3;

/// Options of one run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The database's.
    pub database: DbOptions,
    /// One per family.
    pub families: [FamilyOptions; SLOTS],
    /// Number of different keys per family.
    pub keys: u64,
    /// Use values that go straight to a value log now and then.
    pub huge_values: bool,
    /// What is done to the keys.
    pub mix: Mix,
    /// Commit hooks and an event listener use the database, and panic.
    pub callbacks: bool,
}

/// What a workload does most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mix {
    /// A little of everything there is.
    Everything,
    /// Overwrites keys all the time, so that garbage is collected slice by slice.
    Overwrites,
}

fn pick<T: Copy>(random: &mut SplitMix64, choices: &[T]) -> T {
    choices[random.index(choices.len())]
}

impl Settings {
    /// Options drawn from `random`.
    #[must_use]
    pub fn random(random: &mut SplitMix64, sync_mode: SyncMode) -> Self {
        let database = DbOptions::default()
            .block_cache_bytes(pick(random, &[0, 16 << 10, 1 << 20]))
            .max_open_files(pick(random, &[0, 2, 64]))
            .sync_mode(sync_mode)
            .log_segment_bytes(64 << 10)
            .log_without_mapping(random.chance(1, 4))
            .max_retained_log_bytes(pick(random, &[0, 96 << 10, 256 << 10]));
        let mut families = std::array::from_fn(|_| Self::family(random));
        if random.chance(1, 5) {
            // Flushes sync the log first; without them it grows over several unsynced segments.
            families.iter_mut().for_each(|family| family.write_buffer_size = 1 << 20);
        }
        let keys = pick(random, &[12, 60, 250]);
        let mix = Mix::Everything;
        let (huge_values, callbacks) = (random.chance(1, 10), random.chance(1, 2));
        Self { database, families, keys, huge_values, mix, callbacks }
    }

    /// Options under which tables of keys that are overwritten are merged slice by slice: as many
    /// bytes in tables as in value logs, if there are any, and many tables to a run.
    #[must_use]
    pub fn overwriting(random: &mut SplitMix64, sync_mode: SyncMode) -> Self {
        let mut settings = Self::random(random, sync_mode);
        for family in &mut settings.families {
            family.write_buffer_size = pick(random, &[4 << 10, 8 << 10]);
            family.klog_value_threshold = pick(random, &[350, 1 << 20]);
            family.compression = pick(random, &[Compression::None, Compression::Lz4]);
            family.target_table_bytes = 4 << 10;
            family.l1_file_count_trigger = pick(random, &[3, 4]);
            family.max_space_amplification = pick(random, &[1.1, 1.5]);
            family.tombstone_density_trigger = 0.0;
        }
        Self { keys: 200, huge_values: false, mix: Mix::Overwrites, ..settings }
    }

    /// Every order that the engine has, that of bytes as often as all others.
    fn key_order(random: &mut SplitMix64) -> KeyOrder {
        match random.below(10) {
            0 => KeyOrder::Reverse,
            1 => KeyOrder::Lexicographic,
            2 => KeyOrder::Uint64,
            3 => KeyOrder::Int64,
            4 => KeyOrder::CaseInsensitive,
            _ => KeyOrder::Bytewise,
        }
    }

    pub(crate) fn family(random: &mut SplitMix64) -> FamilyOptions {
        FamilyOptions::default()
            .write_buffer_size(pick(random, &[4 << 10, 8 << 10, 20 << 10, 64 << 10]))
            .klog_value_threshold(pick(random, &[64, 128, 400]))
            .compression(pick(random, &[Compression::None, Compression::Lz4, Compression::Zstd]))
            .block_size(pick(random, &[128, 256, 512]))
            .use_btree(random.chance(1, 3))
            .enable_bloom_filter(random.chance(3, 4))
            .bloom_fpr(pick(random, &[0.5, 0.01]))
            .l0_queue_stall_threshold(pick(random, &[1, 3, 10]))
            .l1_file_count_trigger(pick(random, &[2, 3, 4]))
            .level_size_ratio(pick(random, &[2, 4]))
            .target_table_bytes(pick(random, &[4 << 10, 16 << 10]))
            .max_space_amplification(pick(random, &[1.1, 1.5, 3.0]))
            .tombstone_density_trigger(pick(random, &[0.0, 0.5]))
            .tombstone_density_min_entries(pick(random, &[1, 16]))
            .min_disk_space(0)
            .sync_mode(if random.chance(1, 6) { SyncMode::Full } else { SyncMode::None })
            .filter_kind(pick(random, &[FilterKind::Bloom, FilterKind::Ribbon]))
            .prefix_bytes(pick(random, &[0, 0, 2, 5]))
            .enable_block_indexes(random.chance(3, 4))
            .index_sample_ratio(pick(random, &[1, 1, 2, 7]))
            .key_order(Self::key_order(random))
    }
}
