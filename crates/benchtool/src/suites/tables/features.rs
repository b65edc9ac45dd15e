//! Deletions of ranges, transactions, tables that are B+trees, allocators.

use super::super::Set::{
    Allocator, At, Batch, Do, Mixed, PerTxn, Rows, Share, Size, Tenths, Threads, Tree, Unsettled,
    UpTo, Whole,
};
use super::super::{Row, Set, row, star};
use super::{DELETE, EVEN, HALF, ITER, M1, RANGE, READ, SEEK, SEQ, T2, UNIFORM, ZIPF};
use crate::spec::{Isolation, Mix, Overlap, Workload};

pub(super) const DELETES: &[Row] = &[
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
pub(super) const TXN: &[Row] = &[
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

pub(super) const BTREE: &[Row] = &[
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
pub(super) const ALLOC: &[Row] = ALLOCATORS.as_flattened();
