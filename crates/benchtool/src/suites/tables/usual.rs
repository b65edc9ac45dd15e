//! Reads, writes, scans and deletions, with threads, batches and syncs, and the mixes of YCSB.

use super::super::Set::{
    Batch, Do, Like, Missing, Mixed, Reverse, Rows, Size, Steady, Synced, Tenths, Threads, Whole,
    Writers,
};
use super::super::presets::{SCAN_WHILE_WRITING, YCSB_A, YCSB_B, YCSB_C, YCSB_D, YCSB_E, YCSB_F};
use super::super::{Row, Set, row, star};
use super::{DELETE, EVEN, HALF, ITER, M1, RANGE, READ, SEEK, SEQ, T2, UNIFORM, ZIPF};
use crate::spec::{Mix, Workload};

pub(super) const CORE: &[Row] = &[
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
pub(super) const YCSB: &[Row] = &[
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
/// How even the rate of writes is over time, and what writers cost concurrent readers. The
/// quiet tests have as many readers as those with one writer.
pub(super) const SUSTAINED: &[Row] = &[
    star("sustained_4k", [100, 500, 500], &[OVERWRITE, UNIFORM, T2, Size(16, 4_096), Steady]),
    star("sustained_100", M1, &[OVERWRITE, UNIFORM, T2, Steady]),
    row("sustained_100_b1000", M1, &[OVERWRITE, UNIFORM, T2, Batch(1_000), Steady]),
    star("get_quiet", M1, &[READ, UNIFORM]),
    star("get_beside_writer", M1, &[ONLY_READ, UNIFORM, Writers(1), T2]),
    row("get_beside_batches", M1, &[ONLY_READ, UNIFORM, Writers(1), T2, Batch(1_000)]),
    row("range_quiet", M1, &[RANGE, UNIFORM, Tenths(50)]),
    row("range_beside_writer", M1, &[ONLY_SCAN, UNIFORM, Writers(1), T2, Tenths(50)]),
];

pub(super) const SYNC: &[Row] = &[
    star("sync_b1", M1, &[Synced, T2]),
    row("sync_b100", M1, &[Synced, T2, Batch(100)]),
    row("sync_b1000", M1, &[Synced, T2, Batch(1_000)]),
    row("sync_b1_t8", [0, 4_000, 10_000], &[Synced, Threads(8)]),
    row("sync_b1000_t8", [0, 4_000, 10_000], &[Synced, Threads(8), Batch(1_000)]),
];
pub(super) const SYNC_MORE: &[Row] = &[
    row("sync_mixed", [0, 1_000, 1_000], &[Synced, EVEN, UNIFORM, T2]),
    row("sync_delete_b1", [0, 1_000, 1_000], &[Synced, DELETE, T2]),
    row("sync_seq_b100", [0, 4_000, 10_000], &[Synced, SEQ, T2, Batch(100)]),
];

pub(super) const THREADS: &[Row] = &[
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

pub(super) const BATCH: &[Row] = &[
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
