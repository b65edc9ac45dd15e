//! The tables of the suites.
//!
//! Columns of a row: name, thousands of records in the profiles quick, standard and full (0: not in
//! that profile), and the differences from the base (random writes of 16-byte keys and 100-byte
//! values, one thread, one operation per commit).

use super::Set::{
    Allocator, At, Batch, By, CacheMib, Do, Families, Incompressible, Like, LimitMib, MemtableMib,
    Missing, Mixed, Part, PerTxn, Ramps, Reverse, Rows, Separate, Share, Size, Steady, Synced,
    Tenths, Threads, Tree, Unscrambled, Unsettled, UpTo, Warm, Whole, Writers,
};
use super::presets::{
    READ_WHILE_WRITING, SCAN_WHILE_WRITING, YCSB_A, YCSB_B, YCSB_C, YCSB_D, YCSB_E, YCSB_F,
};
use super::{Row, Set, row, star};
use crate::spec::{Isolation, Mix, Overlap, Pattern, Workload};

const M1: [u64; 3] = [1_000, 4_000, 10_000];
const HALF: [u64; 3] = [500, 2_000, 5_000];
const READ: Set = Do(Workload::Read);
const SEEK: Set = Do(Workload::Seek);
const RANGE: Set = Do(Workload::Range);
const ITER: Set = Do(Workload::Iter);
const DELETE: Set = Do(Workload::Delete);
const T2: Set = Threads(2);
const UNIFORM: Set = By(Pattern::Uniform);
const ZIPF: Set = By(Pattern::Zipfian);
const SEQ: Set = By(Pattern::Seq);
const EVEN: Set = Mixed(Mix::updates(50));

/// The parts of a suite; none if there is no such suite.
pub(super) fn of(name: &str) -> &'static [&'static [Row]] {
    match name {
        "core" | "single" => &[CORE, YCSB, CF_SHORT, SYNC],
        "compare" => &[COMPARE],
        "reach" => &[REACH],
        "sustained" => &[SUSTAINED],
        "sync" => &[SYNC, SYNC_MORE],
        "threads" => &[THREADS],
        "batch" => &[BATCH],
        "values" => &[VALUES],
        "ltm" => &[LARGER_THAN_MEMORY],
        "large" => &[LARGE],
        "cf" => &[CF_SHORT, CF],
        "deletes" => &[DELETES],
        "txn" => &[TXN],
        "btree" => &[BTREE],
        "alloc" => &[ALLOC],
        "ycsb" => &[YCSB],
        "dbb" => &[DBB],
        "seeds" => &[SEEDS],
        _ => &[],
    }
}

const CORE: &[Row] = &[
    star("write_seq", M1, &[T2, Batch(1_000), SEQ]),
    star("write_random", M1, &[T2, Batch(1_000)]),
    row("write_zipf", HALF, &[T2, Batch(1_000), ZIPF]),
    star("write_b1", HALF, &[T2]),
    row("write_b10", [0, 4_000, 10_000], &[T2, Batch(10)]),
    row("write_b100", M1, &[T2, Batch(100)]),
    row("write_b10000", M1, &[T2, Batch(10_000)]),
    row("write_small", [2_000, 10_000, 50_000], &[T2, Batch(1_000), Size(16, 64)]),
    star("write_4k", [50, 200, 1_000], &[T2, Batch(1_000), Size(256, 4_096)]),
    row("overwrite", M1, &[Do(Workload::Overwrite), UNIFORM, T2, Batch(100)]),
    star("read_random", M1, &[READ, UNIFORM, T2]),
    row("read_missing", M1, &[READ, UNIFORM, T2, Missing(100)]),
    row("read_zipf", M1, &[READ, ZIPF, T2]),
    star("read_1k", [200, 400, 1_000], &[READ, UNIFORM, T2, Size(16, 1_024)]),
    row("multiget_10", M1, &[Do(Workload::Multiget), UNIFORM, T2, Rows(10)]),
    star("mixed_random", M1, &[EVEN, UNIFORM, T2]),
    row("write_then_read", HALF, &[Do(Workload::WriteThenRead), T2, Batch(1_000)]),
    row("mixed_zipf", M1, &[EVEN, ZIPF, T2]),
    star(
        "read_while_write",
        M1,
        &[Mixed(Mix::updates(0)), Writers(1), UNIFORM, Threads(3), Batch(1_000)],
    ),
    star("seek_random", M1, &[SEEK, UNIFORM, T2]),
    row("seek_seq", M1, &[SEEK, SEQ, T2]),
    row("seek_zipf", M1, &[SEEK, ZIPF, T2]),
    star("range_100", M1, &[RANGE, UNIFORM, T2]),
    row("range_1000", M1, &[RANGE, UNIFORM, T2, Rows(1_000)]),
    row("range_seq_100", M1, &[RANGE, SEQ, T2]),
    row("scan_while_write", [0, 4_000, 10_000], SCAN_WHILE_WRITING),
    row("iter_fwd", M1, &[ITER, Whole]),
    row("iter_rev", M1, &[ITER, Reverse, Whole]),
    star("delete_b1", M1, &[DELETE, T2, Tenths(20)]),
    row("delete_b100", M1, &[DELETE, T2, Batch(100)]),
    star("delete_b1000", [0, 4_000, 5_000], &[DELETE, T2, Batch(1_000)]),
    row("delete_zipf", [0, 4_000, 5_000], &[DELETE, ZIPF, T2]),
    row("reopen", M1, &[Do(Workload::Reopen)]),
    row("recover", [50, 200, 400], &[Do(Workload::Recover), Batch(100)]),
];

const YCSB_NUM: [u64; 3] = [200, 500, 1_000];
const YCSB: &[Row] = &[
    row("ycsb_a", YCSB_NUM, &[Like(YCSB_A), T2, Tenths(40)]),
    row("ycsb_b", YCSB_NUM, &[Like(YCSB_B), T2, Tenths(40)]),
    row("ycsb_c", YCSB_NUM, &[Like(YCSB_C), T2, Tenths(40)]),
    row("ycsb_d", YCSB_NUM, &[Like(YCSB_D), T2, Tenths(40)]),
    row("ycsb_e", YCSB_NUM, &[Like(YCSB_E), T2, Tenths(40)]),
    row("ycsb_f", YCSB_NUM, &[Like(YCSB_F), T2, Tenths(40)]),
];

const OVERWRITE: Set = Do(Workload::Overwrite);
const ONLY_READ: Set = Mixed(Mix::updates(0));
const ONLY_SCAN: Set = Mixed(Mix { insert: 0, update: 0, modify: 0, delete: 0, scan: 100 });
/// How even the rate of writes is over time, and what writers cost the readers beside them. The
/// quiet tests have as many readers as those beside one writer.
const SUSTAINED: &[Row] = &[
    star("sustained_4k", [100, 500, 500], &[OVERWRITE, UNIFORM, T2, Size(16, 4_096), Steady]),
    star("sustained_100", M1, &[OVERWRITE, UNIFORM, T2, Steady]),
    row("sustained_100_b1000", M1, &[OVERWRITE, UNIFORM, T2, Batch(1_000), Steady]),
    star("get_quiet", M1, &[READ, UNIFORM]),
    star("get_beside_writer", M1, &[ONLY_READ, UNIFORM, Writers(1), T2]),
    row("get_beside_batches", M1, &[ONLY_READ, UNIFORM, Writers(1), T2, Batch(1_000)]),
    row("range_quiet", M1, &[RANGE, UNIFORM, Tenths(50)]),
    row("range_beside_writer", M1, &[ONLY_SCAN, UNIFORM, Writers(1), T2, Tenths(50)]),
];

const SYNC: &[Row] = &[
    star("sync_b1", M1, &[Synced, T2]),
    row("sync_b100", M1, &[Synced, T2, Batch(100)]),
    row("sync_b1000", M1, &[Synced, T2, Batch(1_000)]),
    row("sync_b1_t8", [0, 4_000, 10_000], &[Synced, Threads(8)]),
    row("sync_b1000_t8", [0, 4_000, 10_000], &[Synced, Threads(8), Batch(1_000)]),
];
const SYNC_MORE: &[Row] = &[
    row("sync_mixed", [0, 1_000, 1_000], &[Synced, EVEN, UNIFORM, T2]),
    row("sync_delete_b1", [0, 1_000, 1_000], &[Synced, DELETE, T2]),
    row("sync_seq_b100", [0, 4_000, 10_000], &[Synced, SEQ, T2, Batch(100)]),
];

const THREADS: &[Row] = &[
    row("write_b1_t1", HALF, &[Threads(1)]),
    row("write_b1_t2", HALF, &[Threads(2)]),
    row("write_b1_t4", HALF, &[Threads(4)]),
    row("write_b1_t8", HALF, &[Threads(8)]),
    row("write_b100_t1", M1, &[Threads(1), Batch(100)]),
    row("write_b100_t2", M1, &[Threads(2), Batch(100)]),
    row("write_b100_t4", M1, &[Threads(4), Batch(100)]),
    row("write_b100_t8", M1, &[Threads(8), Batch(100)]),
    row("read_t1", M1, &[READ, UNIFORM, Threads(1), Tenths(30)]),
    row("read_t2", M1, &[READ, UNIFORM, Threads(2), Tenths(30)]),
    row("read_t4", M1, &[READ, UNIFORM, Threads(4), Tenths(30)]),
    row("read_t8", M1, &[READ, UNIFORM, Threads(8), Tenths(30)]),
    row("mixed_t1", M1, &[EVEN, UNIFORM, Threads(1), Tenths(30)]),
    row("mixed_t2", M1, &[EVEN, UNIFORM, Threads(2), Tenths(30)]),
    row("mixed_t4", M1, &[EVEN, UNIFORM, Threads(4), Tenths(30)]),
    row("mixed_t8", M1, &[EVEN, UNIFORM, Threads(8), Tenths(30)]),
    row("seek_t1", M1, &[SEEK, UNIFORM, Threads(1)]),
    row("seek_t2", M1, &[SEEK, UNIFORM, Threads(2)]),
    row("seek_t4", M1, &[SEEK, UNIFORM, Threads(4)]),
    row("seek_t8", M1, &[SEEK, UNIFORM, Threads(8)]),
    row("range_t1", M1, &[RANGE, UNIFORM, Threads(1)]),
    row("range_t2", M1, &[RANGE, UNIFORM, Threads(2)]),
    row("range_t4", M1, &[RANGE, UNIFORM, Threads(4)]),
    row("range_t8", M1, &[RANGE, UNIFORM, Threads(8)]),
];

const BATCH: &[Row] = &[
    row("write_b1", HALF, &[T2]),
    row("write_b10", HALF, &[T2, Batch(10)]),
    row("write_b100", M1, &[T2, Batch(100)]),
    row("write_b1000", M1, &[T2, Batch(1_000)]),
    row("write_b10000", M1, &[T2, Batch(10_000)]),
    row("write_128kib", M1, &[T2, Batch((128 << 10) / 116)]),
    row("write_1mib", M1, &[T2, Batch((1 << 20) / 116)]),
    row("delete_b1", M1, &[DELETE, T2, Tenths(30)]),
    row("delete_b10", M1, &[DELETE, T2, Batch(10), Tenths(30)]),
    row("delete_b100", M1, &[DELETE, T2, Batch(100)]),
    row("delete_b1000", M1, &[DELETE, T2, Batch(1_000)]),
    row("delete_b10000", M1, &[DELETE, T2, Batch(10_000)]),
];

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
const VALUES: &[Row] = &[
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
const LARGER_THAN_MEMORY: &[Row] = LARGER.as_flattened();

const CF_SHORT: &[Row] = &[
    row("cf_lifecycle_50", [1, 0, 0], &[Do(Workload::Families), Families(50)]),
    row("cf_lifecycle_100", [0, 1, 1], &[Do(Workload::Families), Families(100)]),
    row("cf_lifecycle_200", [0, 1, 1], &[Do(Workload::Families), Families(200)]),
    row("cf_lifecycle_400", [0, 1, 1], &[Do(Workload::Families), Families(400)]),
];
const CF: &[Row] = &[
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
/// row. The others share one loaded database, and those that change it have a copy of it.
const LARGE: &[Row] = &[
    row("large_load", LARGE_NUM, &[BUFFER, MIB64, Whole, T2]),
    row("large_read", LARGE_NUM, &[BUFFER, MIB64, READ, UNIFORM, T2, MINUTE]),
    row("large_seek", LARGE_NUM, &[BUFFER, MIB64, SEEK, UNIFORM, T2, MINUTE]),
    row("large_range_100", LARGE_NUM, &[BUFFER, MIB64, RANGE, UNIFORM, T2, MINUTE]),
    row(
        "large_overwrite_20",
        LARGE_NUM,
        &[BUFFER, MIB64, Do(Workload::Overwrite), UNIFORM, T2, Part(20)],
    ),
    row("large_delete_20", LARGE_NUM, &[BUFFER, MIB64, DELETE, UNIFORM, T2, Part(20)]),
    row("large_restart", LARGE_NUM, &[BUFFER, MIB64, Do(Workload::Recover), T2]),
];

const DELETES: &[Row] = &[
    row("delete_b1", M1, &[DELETE, T2, Tenths(30)]),
    row("delete_b100", M1, &[DELETE, T2, Batch(100)]),
    row("delete_b1000", M1, &[DELETE, T2, Batch(1_000)]),
    row("delete_seq_b100", M1, &[DELETE, SEQ, T2, Batch(100)]),
    row("delete_zipf", HALF, &[DELETE, ZIPF, T2]),
    row("delete_unsettled_b100", M1, &[DELETE, T2, Batch(100), Unsettled]),
    row("delete_range_100", HALF, &[Do(Workload::DeleteRange), T2]),
    row(
        "churn",
        HALF,
        &[Mixed(Mix { insert: 0, update: 25, modify: 0, delete: 25, scan: 0 }), UNIFORM, T2],
    ),
    row(
        "churn_scan",
        HALF,
        &[
            Mixed(Mix { insert: 0, update: 20, modify: 0, delete: 20, scan: 20 }),
            UNIFORM,
            T2,
            UpTo(100),
        ],
    ),
    row("ttl", HALF, &[Do(Workload::Ttl), T2, Batch(100)]),
    row("compact", HALF, &[Do(Workload::Compact), Whole]),
    row("checkpoint", HALF, &[Do(Workload::Checkpoint), Whole]),
];

const TXN_DO: Set = Do(Workload::Txn);
const HOT: Set = Share(Overlap::Hot);
const SNAPSHOT: Set = At(Isolation::Snapshot);
const TXN: &[Row] = &[
    star("txn_1_read_committed", HALF, &[TXN_DO, T2, UNIFORM]),
    row("txn_10_read_committed", HALF, &[TXN_DO, T2, UNIFORM, PerTxn(10)]),
    row("txn_1_repeatable_read", HALF, &[TXN_DO, T2, UNIFORM, At(Isolation::RepeatableRead)]),
    star("txn_1_snapshot", HALF, &[TXN_DO, T2, UNIFORM, SNAPSHOT]),
    row("txn_10_snapshot", HALF, &[TXN_DO, T2, UNIFORM, SNAPSHOT, PerTxn(10)]),
    row("txn_100_snapshot", HALF, &[TXN_DO, T2, UNIFORM, SNAPSHOT, PerTxn(100)]),
    row("txn_1000_snapshot", HALF, &[TXN_DO, T2, UNIFORM, SNAPSHOT, PerTxn(1_000)]),
    row("txn_1_serializable", HALF, &[TXN_DO, T2, UNIFORM, At(Isolation::Serializable)]),
    row("txn_10_snapshot_t8", HALF, &[TXN_DO, Threads(8), UNIFORM, SNAPSHOT, PerTxn(10)]),
    star("txn_hot_2_snapshot_t8", HALF, &[TXN_DO, Threads(8), HOT, SNAPSHOT, PerTxn(2)]),
    row(
        "txn_hot_2_serializable_t8",
        HALF,
        &[TXN_DO, Threads(8), HOT, At(Isolation::Serializable), PerTxn(2)],
    ),
];

const BTREE: &[Row] = &[
    row("block_write_seq", M1, &[T2, Batch(1_000), SEQ]),
    row("tree_write_seq", M1, &[Tree, T2, Batch(1_000), SEQ]),
    row("block_write_random", M1, &[T2, Batch(1_000)]),
    row("tree_write_random", M1, &[Tree, T2, Batch(1_000)]),
    row("block_read", M1, &[READ, UNIFORM, T2]),
    row("tree_read", M1, &[Tree, READ, UNIFORM, T2]),
    row("block_seek_random", M1, &[SEEK, UNIFORM, T2]),
    row("tree_seek_random", M1, &[Tree, SEEK, UNIFORM, T2]),
    row("block_seek_seq", M1, &[SEEK, SEQ, T2]),
    row("tree_seek_seq", M1, &[Tree, SEEK, SEQ, T2]),
    row("block_seek_zipf", M1, &[SEEK, ZIPF, T2]),
    row("tree_seek_zipf", M1, &[Tree, SEEK, ZIPF, T2]),
    row("block_range_100", M1, &[RANGE, UNIFORM, T2]),
    row("tree_range_100", M1, &[Tree, RANGE, UNIFORM, T2]),
    row("block_range_1000", M1, &[RANGE, UNIFORM, T2, Rows(1_000)]),
    row("tree_range_1000", M1, &[Tree, RANGE, UNIFORM, T2, Rows(1_000)]),
    row("block_range_seq_100", M1, &[RANGE, SEQ, T2]),
    row("tree_range_seq_100", M1, &[Tree, RANGE, SEQ, T2]),
    row("block_mixed", M1, &[EVEN, UNIFORM, T2]),
    row("tree_mixed", M1, &[Tree, EVEN, UNIFORM, T2]),
    row("block_iter", M1, &[ITER, Whole]),
    row("tree_iter", M1, &[Tree, ITER, Whole]),
];

macro_rules! under {
    ($allocator:literal, $($name:literal, $sets:expr;)*) => {
        [$(row(concat!($allocator, "_", $name), [500, 2_000, 5_000], $sets)),*]
    };
}
macro_rules! allocator {
    ($name:literal) => {
        under! { $name,
            "churn_t1", &[Allocator($name), Size(16, 64), Threads(1)];
            "churn_t2", &[Allocator($name), Size(16, 64), Threads(2)];
            "churn_t8", &[Allocator($name), Size(16, 64), Threads(8)];
            "contention_t8", &[Allocator($name), Batch(100), Threads(8)];
            "mixed", &[Allocator($name), EVEN, UNIFORM, T2, Batch(100)];
            "read", &[Allocator($name), READ, UNIFORM, T2];
            "delete", &[Allocator($name), DELETE, T2, Batch(100)];
        }
    };
}
const ALLOCATORS: [[Row; 7]; 4] =
    [allocator!("glibc"), allocator!("jemalloc"), allocator!("mimalloc"), allocator!("tcmalloc")];
const ALLOC: &[Row] = ALLOCATORS.as_flattened();

const DBB: &[Row] = &[
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
const COMPARE: &[Row] = &[
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
const MIB64: Set = CacheMib(64);
const CACHED: Set = CacheMib(2_048);
const FIVE: Set = Tenths(50);
const BUFFER: Set = MemtableMib(64);
const REACH: &[Row] = &[
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
const SEEDS: &[Row] = &[
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
