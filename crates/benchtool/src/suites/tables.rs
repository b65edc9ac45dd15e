//! The tables of the suites.
//!
//! Columns of a row: name, thousands of records in the profiles quick, standard and full (0: not in
//! that profile), and the differences from the base (random writes of 16-byte keys and 100-byte
//! values, one thread, one operation per commit).

mod data;
mod features;
mod other_tools;
mod usual;

use super::Set::{By, CacheMib, Do, MemtableMib, Mixed, Threads};
use super::{Row, Set};
use crate::spec::{Mix, Pattern, Workload};

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
const BUFFER: Set = MemtableMib(64);
const MIB64: Set = CacheMib(64);

/// The parts of a suite; none if there is no such suite.
pub(super) fn of(name: &str) -> &'static [&'static [Row]] {
    match name {
        "core" | "single" => &[usual::CORE, usual::YCSB, data::CF_SHORT, usual::SYNC],
        "compare" => &[other_tools::COMPARE],
        "reach" => &[other_tools::REACH],
        "sustained" => &[usual::SUSTAINED],
        "sync" => &[usual::SYNC, usual::SYNC_MORE],
        "threads" => &[usual::THREADS],
        "batch" => &[usual::BATCH],
        "values" => &[data::VALUES],
        "ltm" => &[data::LARGER_THAN_MEMORY],
        "large" => &[data::LARGE],
        "cf" => &[data::CF_SHORT, data::CF],
        "deletes" => &[features::DELETES],
        "txn" => &[features::TXN],
        "btree" => &[features::BTREE],
        "alloc" => &[features::ALLOC],
        "ycsb" => &[usual::YCSB],
        "dbb" => &[other_tools::DBB],
        "seeds" => &[other_tools::SEEDS],
        _ => &[],
    }
}
