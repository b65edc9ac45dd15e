//! Other data: sizes of values, data larger than memory, many families, hundreds of millions of
//! records.

use super::super::Set::{
    Batch, CacheMib, Do, Families, Incompressible, LimitMib, MemtableMib, Mixed, Part, Rows,
    Separate, Size, Tenths, Warm, Whole, Writers,
};
use super::super::{Row, Set, row};
use super::{BUFFER, DELETE, EVEN, HALF, ITER, MIB64, RANGE, READ, SEEK, SEQ, T2, UNIFORM, ZIPF};
use crate::spec::{Mix, Workload};

const V1K: [u64; 3] = [100, 400, 1_000];
const V4K: [u64; 3] = [50, 200, 1_000];
const V8K: [u64; 3] = [10, 50, 100];
/// Values of 64 KiB and more: the numbers are records, not thousands.
const V64K: [u64; 3] = [2_000, 10_000, 50_000];
const V64M: [u64; 3] = [4, 16, 16];
const GIB_LIMIT: Set = LimitMib(2 << 10);
const K1: Set = Size(16, 1_024);
const K4: Set = Size(256, 4_096);
const K8: Set = Size(16, 8_192);
const K64: Set = Size(64, 65_536);
const M64: Set = Size(256, 64 << 20);
pub(super) const VALUES: &[Row] = &[
    row("v1k_put", V1K, &[K1, T2, GIB_LIMIT]),
    row("v1k_put_incompressible", V1K, &[K1, T2, Incompressible, GIB_LIMIT]),
    row("v1k_get", V1K, &[READ, UNIFORM, K1, T2, GIB_LIMIT]),
    row("v1k_mixed", V1K, &[EVEN, UNIFORM, K1, T2, GIB_LIMIT]),
    row("v1k_iter", V1K, &[ITER, K1, Whole, GIB_LIMIT]),
    row("v4k_put", V4K, &[K4, T2, GIB_LIMIT]),
    row("v4k_put_separated", V4K, &[K4, T2, Separate(4_096), GIB_LIMIT]),
    row("v4k_get", V4K, &[READ, UNIFORM, K4, T2, GIB_LIMIT]),
    row("v4k_get_separated", V4K, &[READ, UNIFORM, K4, T2, Separate(4_096), GIB_LIMIT]),
    row("v4k_iter", V4K, &[ITER, K4, Whole, GIB_LIMIT]),
    row("v8k_put_seq", V8K, &[K8, T2, SEQ, GIB_LIMIT]),
    row("v8k_put_random", V8K, &[K8, T2, GIB_LIMIT]),
    row("v8k_get_seq", V8K, &[READ, SEQ, K8, T2, GIB_LIMIT]),
    row("v8k_get_random", V8K, &[READ, UNIFORM, K8, T2, GIB_LIMIT]),
    row("v8k_seek", V8K, &[SEEK, UNIFORM, K8, T2, GIB_LIMIT]),
    row("v8k_range", V8K, &[RANGE, UNIFORM, K8, T2, GIB_LIMIT]),
    row("v64k_put", V64K, &[K64, T2, GIB_LIMIT]),
    row("v64k_get", V64K, &[READ, UNIFORM, K64, T2, GIB_LIMIT]),
    row("v64m_put", V64M, &[M64, LimitMib(4 << 10)]),
    row("v64m_put_separated", V64M, &[M64, Separate(4_096), LimitMib(4 << 10)]),
    row("v64m_get", V64M, &[READ, UNIFORM, M64, LimitMib(4 << 10)]),
    row("v64m_range_all", V64M, &[ITER, M64, Whole, LimitMib(4 << 10)]),
    row("v1g_put", [0, 0, 10], &[Size(256, 1 << 30), LimitMib(12 << 10)]),
    row("v1g_get", [0, 0, 10], &[READ, UNIFORM, Size(256, 1 << 30), LimitMib(12 << 10)]),
];

/// Times as much data as fits; the limits of the profiles differ, so there are two tables in one.
const BIG: [u64; 3] = [0, 12_000, 100_000];
const SMALL: [u64; 3] = [4_000, 0, 0];
const TIGHT: [Set; 4] = [LimitMib(512), CacheMib(128), MemtableMib(32), Tenths(200)];
const TIGHTER: [Set; 4] = [LimitMib(256), CacheMib(64), MemtableMib(16), Tenths(50)];
macro_rules! tight {
    ($name:literal, $($set:expr),*) => {
        [
            row($name, BIG, &[T2, TIGHT[0], TIGHT[1], TIGHT[2], TIGHT[3], $($set,)*]),
            row($name, SMALL, &[T2, TIGHTER[0], TIGHTER[1], TIGHTER[2], TIGHTER[3], $($set,)*]),
        ]
    };
}
const LARGER: [[Row; 2]; 12] = [
    tight!("ltm_ingest", Batch(1_000), Whole),
    tight!("ltm_read", READ, UNIFORM, Warm),
    // The same with less cache: what reads cost as the data outgrows it.
    tight!("ltm_read_cache_16m", READ, UNIFORM, Warm, CacheMib(16)),
    tight!("ltm_read_cache_4m", READ, UNIFORM, Warm, CacheMib(4)),
    tight!("ltm_read_zipf", READ, ZIPF, Warm),
    tight!("ltm_seek", SEEK, UNIFORM),
    tight!("ltm_range_100", RANGE, UNIFORM),
    tight!("ltm_range_1000", RANGE, UNIFORM, Rows(1_000)),
    tight!("ltm_mixed", EVEN, UNIFORM),
    tight!("ltm_read_while_write", Mixed(Mix::updates(0)), Writers(1), UNIFORM, Batch(100)),
    tight!("ltm_overwrite", Do(Workload::Overwrite), UNIFORM, Batch(100)),
    tight!("ltm_delete", DELETE, UNIFORM, Batch(100)),
];
pub(super) const LARGER_THAN_MEMORY: &[Row] = LARGER.as_flattened();

pub(super) const CF_SHORT: &[Row] = &[
    row("cf_lifecycle_50", [1, 0, 0], &[Do(Workload::Families), Families(50)]),
    row("cf_lifecycle_100", [0, 1, 1], &[Do(Workload::Families), Families(100)]),
    row("cf_lifecycle_200", [0, 1, 1], &[Do(Workload::Families), Families(200)]),
    row("cf_lifecycle_400", [0, 1, 1], &[Do(Workload::Families), Families(400)]),
];
pub(super) const CF: &[Row] = &[
    row("cf_lifecycle_100_more", [1, 0, 0], &[Do(Workload::Families), Families(100)]),
    row("cf_lifecycle_800", [0, 0, 1], &[Do(Workload::Families), Families(800)]),
    row("cf_write_1", HALF, &[T2, UNIFORM]),
    row("cf_write_16", HALF, &[T2, UNIFORM, Families(16)]),
    row("cf_write_128", HALF, &[T2, UNIFORM, Families(128)]),
    row("cf_read_1", HALF, &[READ, UNIFORM, T2]),
    row("cf_read_16", HALF, &[READ, UNIFORM, T2, Families(16)]),
    row("cf_read_128", HALF, &[READ, UNIFORM, T2, Families(128)]),
];

/// Five million records show that it runs; the goals are about the others.
const LARGE_NUM: [u64; 3] = [5_000, 100_000, 300_000];
const MINUTE: Set = Tenths(600);
/// The first row is the load itself, one by one by two threads; its settling is timed as in every
/// row. The others share one loaded database, and those that change it have a copy of it. Between
/// two rows of an engine another one is loaded or read, and some systems take files out of memory
/// meanwhile: so those that read touch the data first.
pub(super) const LARGE: &[Row] = &[
    row("large_load", LARGE_NUM, &[BUFFER, MIB64, Whole, T2]),
    row("large_read", LARGE_NUM, &[BUFFER, MIB64, READ, UNIFORM, Warm, T2, MINUTE]),
    row("large_seek", LARGE_NUM, &[BUFFER, MIB64, SEEK, UNIFORM, Warm, T2, MINUTE]),
    row("large_range_100", LARGE_NUM, &[BUFFER, MIB64, RANGE, UNIFORM, Warm, T2, MINUTE]),
    row(
        "large_overwrite_20",
        LARGE_NUM,
        &[BUFFER, MIB64, Do(Workload::Overwrite), UNIFORM, T2, Part(20)],
    ),
    row("large_delete_20", LARGE_NUM, &[BUFFER, MIB64, DELETE, UNIFORM, T2, Part(20)]),
    row("large_restart", LARGE_NUM, &[BUFFER, MIB64, Do(Workload::Recover), T2]),
];
