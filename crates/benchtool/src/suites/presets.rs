//! Workloads under the names that other tools gave them, as defaults for a shape.
//!
//! A preset fills in a shape; options given on the command line still win. The shares and
//! distributions of YCSB's letters, and the operations of `db_bench`'s benchmarks, are those of the
//! tools' own documentation.

#[cfg(test)]
use super::Profile;
use super::Set::{self, Batch, By, Do, Missing, Mixed, Reverse, Rows, Size, Spare, UpTo, Writers};
use super::apply_shape;
use crate::spec::{Mix, Pattern, Shape, Workload};

const NOTHING: Mix = Mix::updates(0);
/// YCSB's record: ten fields of 100 bytes as one value.
const RECORD: Set = Size(24, 1_000);

/// YCSB A: half reads, half updates.
pub(super) const YCSB_A: &[Set] = &[Mixed(Mix::updates(50)), By(Pattern::Zipfian), RECORD];
/// YCSB B: mostly reads.
pub(super) const YCSB_B: &[Set] = &[Mixed(Mix::updates(5)), By(Pattern::Zipfian), RECORD];
/// YCSB C: reads only.
pub(super) const YCSB_C: &[Set] = &[Mixed(NOTHING), By(Pattern::Zipfian), RECORD];
/// YCSB D: the newest records are read most.
pub(super) const YCSB_D: &[Set] =
    &[Mixed(Mix { insert: 5, ..NOTHING }), By(Pattern::Latest), RECORD, Spare(100)];
/// YCSB E: short scans.
pub(super) const YCSB_E: &[Set] = &[
    Mixed(Mix { insert: 5, scan: 95, ..NOTHING }),
    By(Pattern::Zipfian),
    RECORD,
    UpTo(100),
    Spare(100),
];
/// YCSB F: read, modify, write.
pub(super) const YCSB_F: &[Set] =
    &[Mixed(Mix { modify: 50, ..NOTHING }), By(Pattern::Zipfian), RECORD];

/// Name on the command line, the differences, and where the name comes from.
type Preset = (&'static str, &'static [Set], &'static str);

/// All presets; [`Workload`]'s own names come on top.
pub(crate) const PRESETS: [Preset; 29] = [
    ("ycsb-a", YCSB_A, "YCSB"),
    ("ycsb-b", YCSB_B, "YCSB"),
    ("ycsb-c", YCSB_C, "YCSB"),
    ("ycsb-d", YCSB_D, "YCSB"),
    ("ycsb-e", YCSB_E, "YCSB"),
    ("ycsb-f", YCSB_F, "YCSB"),
    ("fillseq", &[By(Pattern::Seq)], "db_bench"),
    ("fillrandom", &[By(Pattern::Uniform)], "db_bench"),
    ("filluniquerandom", &[By(Pattern::Random)], "db_bench"),
    ("fillbatch", &[By(Pattern::Seq), Batch(1_000)], "db_bench"),
    ("overwriterandom", &[Do(Workload::Overwrite), By(Pattern::Uniform)], "db_bench"),
    ("readrandom", &[Do(Workload::Read), By(Pattern::Uniform)], "db_bench"),
    ("readmissing", &[Do(Workload::Read), By(Pattern::Uniform), Missing(100)], "db_bench"),
    ("readhot", &[Do(Workload::Read), By(Pattern::Hotspot)], "db_bench"),
    ("readseq", &[Do(Workload::Iter)], "db_bench"),
    ("readreverse", &[Do(Workload::Iter), Reverse], "db_bench"),
    ("multireadrandom", &[Do(Workload::Multiget), By(Pattern::Uniform), Rows(10)], "db_bench"),
    ("seekrandom", &[Do(Workload::Range), By(Pattern::Uniform), Rows(11)], "db_bench"),
    ("deleterandom", &[Do(Workload::Delete), By(Pattern::Uniform)], "db_bench"),
    ("deleteseq", &[Do(Workload::Delete), By(Pattern::Seq)], "db_bench"),
    ("readrandomwriterandom", &[Mixed(Mix::updates(10)), By(Pattern::Uniform)], "db_bench"),
    ("updaterandom", &[Mixed(Mix { modify: 100, ..NOTHING }), By(Pattern::Uniform)], "db_bench"),
    ("readwhilewriting", READ_WHILE_WRITING, "db_bench"),
    ("seekwhilewriting", SEEK_WHILE_WRITING, "db_bench"),
    ("scanwhilewriting", SCAN_WHILE_WRITING, "here"),
    (
        "mixgraph",
        &[Mixed(Mix { update: 14, scan: 3, ..NOTHING }), By(Pattern::Mixgraph), UpTo(100)],
        "db_bench",
    ),
    ("rmw", &[Mixed(Mix { modify: 100, ..NOTHING }), By(Pattern::Uniform)], "here"),
    ("prefix", &[Do(Workload::Range), By(Pattern::Prefix), Set::Clustered], "here"),
    ("cf", &[Do(Workload::Families), Set::Families(100)], "here"),
];

/// Gets while one thread writes.
pub(super) const READ_WHILE_WRITING: &[Set] =
    &[Mixed(NOTHING), Writers(1), Set::Threads(3), By(Pattern::Uniform)];
/// Seeks while one thread writes.
pub(super) const SEEK_WHILE_WRITING: &[Set] = &[
    Mixed(Mix { scan: 100, ..NOTHING }),
    Rows(1),
    Writers(1),
    Set::Threads(3),
    By(Pattern::Uniform),
];
/// Ranges while one thread writes.
pub(super) const SCAN_WHILE_WRITING: &[Set] = &[
    Mixed(Mix { scan: 100, ..NOTHING }),
    Writers(1),
    Set::Threads(3),
    Batch(100),
    By(Pattern::Uniform),
];

/// The shape that a name stands for, with the default volume; `None` if there is no such preset.
pub(crate) fn shape(name: &str, num: u64) -> Option<Shape> {
    let (_, sets, _) = PRESETS.iter().find(|preset| preset.0 == name)?;
    let mut shape = Shape { num, ..Shape::default() };
    for set in *sets {
        apply_shape(&mut shape, set);
    }
    Some(shape)
}

/// A profile by its place, for tests that go through all of them.
#[cfg(test)]
pub(crate) const ALL_PROFILES: [Profile; 3] = [Profile::Quick, Profile::Standard, Profile::Full];
