//! Settings that make small databases on real directories cross every boundary.

use tidesdb::{DbOptions, FamilyOptions};

/// Settings of a database in tests.
pub(crate) fn small_db() -> DbOptions {
    DbOptions::default()
        .log_segment_bytes(64 << 10)
        .block_cache_bytes(256 << 10)
        .flush_threads(1)
        .compaction_threads(1)
}

/// Settings of a family in tests.
pub(crate) fn small_family() -> FamilyOptions {
    FamilyOptions::default()
        .write_buffer_size(32 << 10)
        .block_size(256)
        .target_table_bytes(16 << 10)
        .klog_value_threshold(100)
        .l1_file_count_trigger(2)
        .level_size_ratio(2)
        .min_disk_space(0)
}
