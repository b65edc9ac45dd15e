//! H2: random operation sequences, each under the default and three random option sets, on the
//! simulated disk with stepped background work. Every answer must equal that of ordered maps in
//! the order of keys of the options, so all option sets of one order give the same answers.
//!
//! A failure names the seed, the sequence, the option set and the operation; the same seed and
//! scale repeat it.

#![expect(clippy::unwrap_used, reason = "test helpers fail by panicking")]

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::common_support::history::Run;
use crate::common_support::seeds::{scaled, seed};
use tidesdb::{Compression, DbOptions, FamilyOptions, FilterKind, KeyOrder, SyncMode};
use tidesdb_sim::rng::{SplitMix64, mix64};

const OPERATIONS: u64 = 2_000;
const OPTION_SETS: u64 = 4;

fn random_sync(random: &mut SplitMix64) -> SyncMode {
    match random.below(4) {
        0 => SyncMode::Full,
        1 => SyncMode::Interval { interval_us: 1 + random.below(1_000) },
        _ => SyncMode::None,
    }
}

fn random_db_options(random: &mut SplitMix64) -> DbOptions {
    let pick = |random: &mut SplitMix64, from: &[usize]| from[random.index(from.len())];
    DbOptions::default()
        .block_cache_bytes(pick(random, &[0, 8 << 10, 1 << 20]))
        .max_open_files(pick(random, &[0, 1, 3, 256]))
        .sync_mode(random_sync(random))
        .log_segment_bytes(pick(random, &[64 << 10, 100_000, 1 << 20]) as u64)
        .max_retained_log_bytes(pick(random, &[0, 20_000, 200_000]) as u64)
        .log_without_mapping(random.chance(1, 2))
}

/// The order of bytes as often as all others.
fn random_order(random: &mut SplitMix64) -> KeyOrder {
    let orders = ["reverse", "lexicographic", "uint64", "int64", "case_insensitive"];
    let name = orders.get(random.index(2 * orders.len())).copied().unwrap_or("bytewise");
    KeyOrder::from_name(name).unwrap()
}

fn random_family_options(random: &mut SplitMix64) -> FamilyOptions {
    let compressions = [
        Compression::None,
        Compression::Snappy,
        Compression::Lz4,
        Compression::Lz4Fast,
        Compression::Zstd,
    ];
    FamilyOptions::default()
        .write_buffer_size((4 << 10) << random.below(5))
        .klog_value_threshold(16 << random.below(7))
        .compression(compressions[random.index(compressions.len())])
        .block_size(128 << random.below(6))
        .use_btree(random.chance(1, 3))
        .enable_bloom_filter(random.chance(3, 4))
        .bloom_fpr([0.5, 0.01, 0.000_1][random.index(3)])
        .l0_queue_stall_threshold(1 + random.index(4))
        .l1_file_count_trigger(2 + random.index(4))
        .level_size_ratio(2 + random.index(9))
        .target_table_bytes((4 << 10) << random.below(4))
        .max_space_amplification([1.1, 1.5, 4.0][random.index(3)])
        .tombstone_density_trigger([0.0, 0.3][random.index(2)])
        .tombstone_density_min_entries(1 + random.below(20))
        .min_disk_space(random.below(2) << 20)
        .sync_mode(random_sync(random))
        .filter_kind([FilterKind::Bloom, FilterKind::Ribbon][random.index(2)])
        .prefix_bytes(random.index(7))
        .enable_block_indexes(random.chance(3, 4))
        .index_sample_ratio(1 + random.index(4))
        .block_index_prefix_len(4 + random.index(20))
        .key_order(random_order(random))
}

#[test]
fn random_sequences_have_the_same_answers_under_all_options() {
    every_other_sequence_has_the_same_answers(0);
}

/// The other half of them, which runs beside the first.
#[test]
fn other_random_sequences_have_the_same_answers_under_all_options() {
    every_other_sequence_has_the_same_answers(1);
}

fn every_other_sequence_has_the_same_answers(first: u64) {
    let seed = seed("metamorphic");
    let steps = Cell::new(0);
    let sequences = (first..scaled(24)).step_by(2);
    let least = 100 * sequences.clone().count() as u64;
    for sequence in sequences {
        let script = mix64(seed ^ mix64(sequence));
        for set in 0..OPTION_SETS {
            let mut random = SplitMix64::new(mix64(script ^ set));
            let (db, family) = match set {
                0 => (DbOptions::default(), FamilyOptions::default()),
                _ => (random_db_options(&mut random), random_family_options(&mut random)),
            };
            let least = family.min_disk_space.unwrap_or(0) >> 10;
            let family = family.min_disk_space(least);
            let about = format!("sequence {sequence}, option set {set}: {db:?} {family:?}");
            let at = Cell::new(0);
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                let mut run = Run::start(script, db, family);
                for operation in 0..OPERATIONS {
                    at.set(operation);
                    run.step();
                }
                at.set(OPERATIONS);
                steps.set(steps.get() + run.finish());
            }));
            assert!(outcome.is_ok(), "TIDESDB_SEED={seed}, operation {} of {about}", at.get());
        }
    }
    // Small tables make compactions of many steps: some 240 in all option sets of a sequence.
    let steps = steps.get();
    assert!(steps >= least, "compactions took {steps} steps, at least {least} are expected");
}
