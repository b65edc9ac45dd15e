//! The tests of other tools, and tests with their settings.

use super::super::Set::{
    Batch, By, CacheMib, Do, MemtableMib, Missing, Ramps, Reverse, Rows, Size, Synced, Tenths,
    Threads, Unscrambled, Warm, Whole,
};
use super::super::presets::READ_WHILE_WRITING;
use super::super::{Row, Set, row};
use super::{
    BUFFER, DELETE, EVEN, HALF, ITER, M1, MIB64, RANGE, READ, SEEK, SEQ, T2, UNIFORM, ZIPF,
};
use crate::spec::{Pattern, Workload};

pub(super) const DBB: &[Row] = &[
    row("fillseq", M1, &[SEQ]),
    row("fillrandom", M1, &[UNIFORM]),
    row("overwrite", M1, &[Do(Workload::Overwrite), UNIFORM]),
    row("readrandom", M1, &[READ, UNIFORM]),
    row("readmissing", M1, &[READ, UNIFORM, Missing(100)]),
    row("seekrandom", M1, &[RANGE, UNIFORM, Rows(11)]),
    row("readwhilewriting", M1, READ_WHILE_WRITING),
    row("multireadrandom", M1, &[Do(Workload::Multiget), UNIFORM, Rows(10)]),
    row("deleterandom", M1, &[DELETE, UNIFORM]),
    row("readseq", M1, &[ITER, Whole]),
    row("readreverse", M1, &[ITER, Reverse, Whole]),
];

const SHORT: [u64; 3] = [300, 300, 300];
const BRIEF: Set = Tenths(15);
pub(super) const COMPARE: &[Row] = &[
    row("write, one by one", SHORT, &[BRIEF, CacheMib(64), MemtableMib(64)]),
    row("get", SHORT, &[READ, BRIEF, CacheMib(64), MemtableMib(64)]),
    row("seek", SHORT, &[SEEK, BRIEF, CacheMib(64), MemtableMib(64)]),
    row("range of 100", SHORT, &[RANGE, BRIEF, CacheMib(64), MemtableMib(64)]),
    row("full scan, rows", SHORT, &[ITER, Tenths(7), CacheMib(64), MemtableMib(64)]),
    row("get and put mixed, 2 threads", SHORT, &[EVEN, T2, BRIEF, CacheMib(64), MemtableMib(64)]),
    row("delete, one by one", SHORT, &[DELETE, BRIEF, CacheMib(64), MemtableMib(64)]),
];

const R5: [u64; 3] = [5_000, 5_000, 5_000];
const R2: [u64; 3] = [2_000, 2_000, 2_000];
const CACHED: Set = CacheMib(2_048);
const FIVE: Set = Tenths(50);
pub(super) const REACH: &[Row] = &[
    row("write_random_b1_t1", R2, &[BUFFER, MIB64, Whole]),
    row("write_random_b1_t2", R2, &[BUFFER, MIB64, Whole, T2]),
    row("write_random_b1000_t1", R5, &[BUFFER, MIB64, Whole, Batch(1_000)]),
    row("write_random_b1000_t2", R5, &[BUFFER, MIB64, Whole, Batch(1_000), T2]),
    row("write_seq_b1_t1", R2, &[BUFFER, MIB64, Whole, SEQ]),
    row("write_seq_b1000_t1", R5, &[BUFFER, MIB64, Whole, SEQ, Batch(1_000)]),
    row("read_64m_t1", R5, &[BUFFER, MIB64, READ, FIVE]),
    row("read_64m_t2", R5, &[BUFFER, MIB64, READ, FIVE, T2]),
    row("read_cached_t1", R5, &[BUFFER, CACHED, READ, FIVE, Warm]),
    row("seek_64m_t1", R5, &[BUFFER, MIB64, SEEK, FIVE]),
    row("seek_cached_t1", R5, &[BUFFER, CACHED, SEEK, FIVE, Warm]),
    row("range100_64m_t1", R5, &[BUFFER, MIB64, RANGE, FIVE]),
    row("range100_cached_t1", R5, &[BUFFER, CACHED, RANGE, FIVE, Warm]),
    row("iter_t1", R5, &[BUFFER, MIB64, ITER, FIVE]),
    row("mixed_b1_t2", R5, &[BUFFER, MIB64, EVEN, FIVE, T2]),
    row("delete_b1_t2", R5, &[BUFFER, MIB64, DELETE, Whole, T2]),
    row("sync_b1_t8", [1_000; 3], &[BUFFER, MIB64, Synced, FIVE, Threads(8)]),
    row("write_zipfian_b1000_t2", R5, &[BUFFER, MIB64, Whole, ZIPF, Batch(1_000), T2]),
    row("load_10m_b1000_t2", [10_000; 3], &[BUFFER, MIB64, Whole, Batch(1_000), T2]),
];

const T8: Set = Threads(8);
const SWEEP: Set = By(Pattern::Sweep);
const OLD_ZIPF: Set = By(Pattern::ZipfSeed);
const N10M: [u64; 3] = [1_000, 4_000, 10_000];
/// The published runs as they were, flaws of data and patterns included, for checks of their
/// claims.
pub(super) const SEEDS: &[Row] = &[
    row("write_seq_10M", N10M, &[Ramps, T8, Batch(1_000), SEQ]),
    row("write_random_10M", N10M, &[Ramps, T8, Batch(1_000), SWEEP]),
    row("read_random_10M", N10M, &[Ramps, T8, READ, SWEEP]),
    row("mixed_random_5M", HALF, &[Ramps, T8, Do(Workload::WriteThenRead), SWEEP, Batch(1_000)]),
    row("write_zipfian_5M", HALF, &[Ramps, T8, OLD_ZIPF, Unscrambled, Batch(1_000)]),
    row("delete_random_5M", HALF, &[Ramps, T8, DELETE, SWEEP, Batch(1_000)]),
    row(
        "write_large_values_1M",
        [100, 400, 1_000],
        &[Ramps, T8, Size(256, 4_096), SWEEP, Batch(1_000)],
    ),
    row(
        "write_small_values_50M",
        [2_000, 10_000, 50_000],
        &[Ramps, T8, Size(16, 64), SWEEP, Batch(1_000)],
    ),
    row("batch_1_10M", N10M, &[Ramps, T8, SWEEP]),
    row("batch_10_10M", N10M, &[Ramps, T8, SWEEP, Batch(10)]),
    row("batch_100_10M", N10M, &[Ramps, T8, SWEEP, Batch(100)]),
    row("batch_1000_10M", N10M, &[Ramps, T8, SWEEP, Batch(1_000)]),
    row("batch_10000_10M", N10M, &[Ramps, T8, SWEEP, Batch(10_000)]),
    row("delete_batch_1_5M", HALF, &[Ramps, T8, DELETE, SWEEP]),
    row("delete_batch_100_5M", HALF, &[Ramps, T8, DELETE, SWEEP, Batch(100)]),
    row("delete_batch_1000_5M", HALF, &[Ramps, T8, DELETE, SWEEP, Batch(1_000)]),
    row("seek_random_5M", HALF, &[Ramps, T8, SEEK, SWEEP]),
    row("seek_seq_5M", HALF, &[Ramps, T8, SEEK, SEQ]),
    row("seek_zipfian_5M", HALF, &[Ramps, T8, SEEK, OLD_ZIPF]),
    row("range_random_100_1M", [100, 400, 1_000], &[Ramps, T8, RANGE, SWEEP]),
    row("range_random_1000_500K", [50, 200, 500], &[Ramps, T8, RANGE, SWEEP, Rows(1_000)]),
    row("range_seq_100_1M", [100, 400, 1_000], &[Ramps, T8, RANGE, SEQ]),
];
