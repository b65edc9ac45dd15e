//! Loads that several tests share: which are the same, what they do, how they are called.

use crate::spec::{Pace, Pattern, Setup, Shape, Workload};

/// Two jobs with the same identity can use the same loaded database.
pub(crate) fn store_identity(engine: &str, shape: &Shape, setup: &Setup) -> String {
    let Shape { num, spare, key_size, value_size, value_min, value_sizes, contents, .. } = shape;
    let Shape { layout, keys_per_prefix, compress_ratio, families, settle, seed, .. } = shape;
    let Setup { memtable, memtable_count, block, compression, bloom_bits, .. } = setup;
    let Setup { value_separation, tree_tables, engine_options, background_threads, .. } = setup;
    let data = (num, spare, key_size, value_size, value_min, value_sizes, contents);
    let layout = (layout, keys_per_prefix, compress_ratio, families, settle, seed);
    let tables = (memtable, memtable_count, block, compression, bloom_bits, background_threads);
    let others = (value_separation, tree_tables, engine_options);
    format!("{engine} {data:?} {layout:?} {tables:?} {others:?}")
}

/// Largest batch of a load, in bytes.
const LOAD_BATCH_BYTES: u64 = 16 << 20;

pub(super) fn load_shape(shape: &Shape) -> Shape {
    Shape {
        workload: Workload::Write,
        pattern: Pattern::Random,
        threads: 1,
        writers: 0,
        // Several families take single writes only.
        batch: if shape.families > 1 {
            1
        } else {
            (LOAD_BATCH_BYTES / (shape.key_size + shape.value_size) as u64).clamp(1, 1_000)
        },
        seconds: None,
        operations: None,
        pace: Pace::default(),
        warm: false,
        ..shape.clone()
    }
}

/// Name of the row of a load; different data sets have different names.
pub(super) fn load_name(shape: &Shape) -> String {
    let Shape { num, key_size, value_size, .. } = shape;
    if (*key_size, *value_size, shape.families) == (16, 100, 1) {
        format!("load, batches of 1000 ({num} records)")
    } else {
        let families = match shape.families {
            1 => String::new(),
            many => format!(", {many} families"),
        };
        format!("load, {num} records of {key_size}+{value_size} bytes{families}")
    }
}
