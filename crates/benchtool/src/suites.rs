//! Suites: named lists of tests, as data, in three volumes.
//!
//! A [`Row`] says what differs from the profile's base by a list of [`Set`]s; the tables are in
//! `tables`, the presets that the command line shares with them (YCSB's letters, `db_bench`'s
//! benchmarks) in `presets`. Tests that read share one loaded database per engine and data set,
//! which the orchestrator loads first (and reports as a row of its own).

pub(crate) mod presets;
mod tables;

use crate::data::keys::Layout;
use crate::machine;
use crate::orchestrate::{self, Test};
use crate::spec::{
    Contents, Isolation, Mix, Overlap, Pattern, RowCount, Settle, Setup, Shape, Skew, Sync,
    Workload,
};
use clap::ValueEnum;

/// Names of all suites, and what they are for.
pub(crate) const SUITES: [(&str, &str); 18] = [
    ("core", "every kind of operation; what claims are made from"),
    ("compare", "a minute, for a first run of the tool"),
    ("reach", "the rows that this engine's goals are measured by"),
    ("sustained", "overwrites for minutes, and reads beside writers against quiet ones"),
    ("sync", "durable commits"),
    ("single", "core with one thread"),
    ("threads", "scaling from 1 to 8 threads"),
    ("batch", "commits of 1 to 10,000 operations"),
    ("values", "values from 1 KiB to 64 MiB (1 GiB in the full profile)"),
    ("ltm", "data larger than memory"),
    ("large", "a hundred million keys (300 in the full profile), and what is done to them"),
    ("cf", "many column families"),
    ("deletes", "deletes, ranges of deletes, expiry, and scans over what they leave"),
    ("txn", "transactions, disjoint and on hot keys"),
    ("btree", "tables as B+trees against tables of blocks"),
    ("alloc", "the same under several allocators"),
    ("ycsb", "YCSB's workloads A to F"),
    ("dbb", "what db_bench calls fillseq, readrandom and so on"),
];

/// The allocator that needs no library of its own: the C library's.
pub(crate) const SYSTEM_ALLOCATOR: &str = "glibc";

/// The names alone.
pub(crate) fn names() -> Vec<&'static str> {
    SUITES.iter().map(|suite| suite.0).chain(["seeds"]).collect()
}

/// How much is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Profile {
    /// Minutes, one repetition.
    Quick,
    /// Under an hour on two cores.
    Standard,
    /// The volumes of the published runs; hours.
    Full,
}

/// One difference from the base.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Set {
    /// All that a preset says.
    Like(&'static [Set]),
    Do(Workload),
    By(Pattern),
    Threads(u64),
    Batch(u64),
    /// Bytes of key and value.
    Size(usize, usize),
    Rows(u64),
    UpTo(u64),
    Mixed(Mix),
    Writers(u64),
    Missing(u64),
    /// Records that may be inserted, in percent of those loaded.
    Spare(u64),
    Synced,
    Reverse,
    Warm,
    Incompressible,
    Ramps,
    Clustered,
    Unscrambled,
    /// The longest phase in tenths of a second; the profile's otherwise.
    Tenths(u64),
    /// No time limit.
    Whole,
    /// As long as the profile takes to show a steady state.
    Steady,
    /// As many operations as this part of the records, in percent, however long they take.
    Part(u64),
    Families(u64),
    At(Isolation),
    Share(Overlap),
    PerTxn(u64),
    CacheMib(u64),
    MemtableMib(u64),
    LimitMib(u64),
    Separate(u64),
    Tree,
    Unsettled,
    Allocator(&'static str),
}

/// One test of a suite.
#[derive(Debug, Clone, Copy)]
struct Row {
    name: &'static str,
    /// Repeated in the standard profile, because claims are made from it.
    star: bool,
    /// Thousands of records per profile; 0 leaves the test out.
    thousands: [u64; 3],
    sets: &'static [Set],
}

const fn row(name: &'static str, thousands: [u64; 3], sets: &'static [Set]) -> Row {
    Row { name, star: false, thousands, sets }
}

const fn star(name: &'static str, thousands: [u64; 3], sets: &'static [Set]) -> Row {
    Row { name, star: true, thousands, sets }
}

/// The base of a profile.
struct Base {
    memtable_mib: u64,
    cache_mib: u64,
    /// Longest phase in seconds, and that of seeks, ranges and synced writes.
    cap: Option<f64>,
    short_cap: Option<f64>,
    /// Seconds of a phase that shows a steady state.
    steady: f64,
    starred_repetitions: u32,
    repetitions: u32,
}

fn base(profile: Profile) -> Base {
    match profile {
        Profile::Quick => Base {
            memtable_mib: 8,
            cache_mib: 8,
            cap: Some(5.0),
            short_cap: Some(3.0),
            steady: 20.0,
            starred_repetitions: 1,
            repetitions: 1,
        },
        Profile::Standard => Base {
            memtable_mib: 32,
            cache_mib: 32,
            cap: Some(10.0),
            short_cap: Some(5.0),
            steady: 120.0,
            starred_repetitions: 3,
            repetitions: 1,
        },
        Profile::Full => Base {
            memtable_mib: 64,
            cache_mib: 64,
            cap: None,
            short_cap: Some(60.0),
            steady: 600.0,
            starred_repetitions: 3,
            repetitions: 3,
        },
    }
}

/// The tests of a suite in a volume; sizes and time limits are multiplied by the scale.
pub(crate) fn tests(name: &str, profile: Profile, scale: f64) -> Vec<Test> {
    let parts = tables::of(name);
    let single = name == "single";
    let rows = parts.iter().flat_map(|rows| rows.iter());
    let wanted = rows.filter(|row| row.thousands[profile as usize] > 0);
    let mut tests: Vec<Test> = wanted.map(|row| test(row, profile, scale)).collect();
    if name == "ltm" && scale < 1.0 {
        tests.iter_mut().for_each(|test| shrink_memory(&mut test.setup, scale));
    }
    if single {
        for test in &mut tests {
            let readers = test.shape.threads.saturating_sub(test.shape.writers);
            test.shape.threads = test.shape.writers + readers.min(1);
            test.shape.num = (test.shape.num / 2).max(1_000);
        }
    }
    tests
}

/// The least memory limit in which a process with its memtables still works.
const LEAST_MEMORY: u64 = 64 << 20;

/// Memory in proportion to a smaller data set, which would otherwise fit in it.
fn shrink_memory(setup: &mut Setup, scale: f64) {
    let scaled = |bytes: u64, least: u64| ((bytes as f64 * scale) as u64).max(least);
    setup.memory_limit = setup.memory_limit.map(|limit| scaled(limit, LEAST_MEMORY));
    setup.cache = scaled(setup.cache, 1 << 20);
    setup.memtable = scaled(setup.memtable, 1 << 20);
}

fn test(row: &Row, profile: Profile, scale: f64) -> Test {
    let base = base(profile);
    let records = (row.thousands[profile as usize] * 1_000) as f64 * scale;
    let mut shape = Shape { num: records.max(1_000.0) as u64, ..Shape::default() };
    let mut setup = Setup {
        cache: base.cache_mib << 20,
        memtable: base.memtable_mib << 20,
        ..Setup::default()
    };
    let mut limit = Limit::Profile;
    for set in row.sets {
        if apply_shape(&mut shape, set) {
            continue;
        }
        match set {
            Set::Whole => limit = Limit::None,
            Set::Part(percent) => {
                limit = Limit::None;
                shape.operations = Some((shape.num * percent / 100).max(1));
            }
            Set::Tenths(tenths) => limit = Limit::Tenths(*tenths),
            Set::Steady => limit = Limit::Tenths((base.steady * 10.0) as u64),
            set => apply_setup(&mut setup, set),
        }
    }
    if shape.value_size >= 1 << 16 {
        // A few huge values are a data set of their own.
        shape.num = (records as u64 / 1_000).max(1);
    }
    let short = setup.sync != Sync::None
        || matches!(shape.workload, Workload::Seek | Workload::Range | Workload::Iter);
    let cap = if short { base.short_cap } else { base.cap };
    let passes_all =
        matches!(shape.workload, Workload::WriteThenRead | Workload::Recover | Workload::Families);
    shape.seconds = match limit {
        Limit::None => None,
        Limit::Tenths(tenths) => Some(tenths as f64 / 10.0),
        Limit::Profile if passes_all => None,
        Limit::Profile => cap,
    }
    .map(|seconds| seconds * scale.min(1.0));
    let bounded = shape.seconds.is_some()
        || matches!(shape.workload, Workload::Write | Workload::Delete | Workload::DeleteRange);
    if !bounded && shape.workload != Workload::Iter {
        shape.operations.get_or_insert(shape.num);
    }
    let repeat = if row.star { base.starred_repetitions } else { base.repetitions };
    let allocator = row.sets.iter().find_map(|set| match set {
        Set::Allocator(name) => Some(*name),
        _ => None,
    });
    Test { name: row.name.to_owned(), shape, setup, repeat, allocator }
}

/// Records per second of a load, of a pass over all rows, and of writing out what is left: what a
/// slow engine reaches on a slow disk.
const LOADED_PER_SECOND: f64 = 300_000.0;
const SCANNED_PER_SECOND: f64 = 1_000_000.0;
/// Bytes per second of copying a loaded database.
const COPIED_PER_SECOND: f64 = 400e6;
/// Seconds that a process takes to start, open, close and be removed.
const AROUND_A_JOB: f64 = 0.4;

/// Seconds that tests take with so many engines, at most and roughly: the longest phases, and what
/// comes before and after them on a slow machine.
pub(crate) fn budget(tests: &[Test], engines: usize) -> f64 {
    let mut stores: Vec<String> = Vec::new();
    let mut seconds = 0.0;
    for test in tests {
        let shape = &test.shape;
        let records = (shape.num + shape.spare) as f64;
        let bytes = records * (shape.key_size + shape.value_size) as f64;
        // Large values count by their bytes.
        let work = (bytes / 116.0).max(records);
        let pass = work / SCANNED_PER_SECOND;
        let phase = match shape.workload {
            Workload::Iter => pass.max(shape.seconds.unwrap_or(0.0)),
            Workload::Reopen => shape.seconds.unwrap_or(1.0),
            _ => shape.seconds.unwrap_or(work / LOADED_PER_SECOND),
        };
        let around = match (shape.workload.mutates(), shape.workload.needs_data()) {
            (true, true) => pass + bytes / COPIED_PER_SECOND,
            (true, false) => pass,
            (false, _) => 0.0,
        };
        seconds += f64::from(test.repeat) * (phase + around + AROUND_A_JOB);
        let store = orchestrate::store_identity("", shape, &test.setup);
        if shape.workload.needs_data() && !stores.contains(&store) {
            seconds += work / LOADED_PER_SECOND + pass;
            stores.push(store);
        }
    }
    seconds * engines as f64
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Limit {
    Profile,
    Tenths(u64),
    None,
}

/// Changes the shape; false if the difference is not about the shape.
fn apply_shape(shape: &mut Shape, set: &Set) -> bool {
    match *set {
        Set::Like(sets) => sets.iter().for_each(|set| {
            apply_shape(shape, set);
        }),
        Set::Do(workload) => shape.workload = workload,
        Set::By(pattern) => shape.pattern = pattern,
        Set::Threads(threads) => shape.threads = threads,
        Set::Batch(batch) => shape.batch = batch,
        Set::Size(key, value) => (shape.key_size, shape.value_size) = (key, value),
        Set::Rows(rows) => shape.range_size = rows,
        Set::UpTo(rows) => (shape.range_size, shape.range_rows) = (rows, RowCount::Uniform),
        Set::Mixed(mix) => (shape.workload, shape.mix) = (Workload::Mixed, mix),
        Set::Writers(writers) => shape.writers = writers,
        Set::Missing(percent) => shape.missing = percent,
        Set::Spare(percent) => shape.spare = shape.num * percent / 100,
        Set::Reverse => shape.reverse = true,
        Set::Warm => shape.warm = true,
        Set::Incompressible => shape.compress_ratio = 1.0,
        Set::Ramps => shape.contents = Contents::Ramp,
        Set::Clustered => shape.layout = Layout::Clustered,
        Set::Unscrambled => shape.skew = Skew { scramble: false, ..shape.skew },
        Set::Families(families) => shape.families = families,
        Set::At(isolation) => shape.isolation = isolation,
        Set::Share(overlap) => shape.overlap = overlap,
        Set::PerTxn(size) => shape.txn_size = size,
        Set::Unsettled => shape.settle = Settle::None,
        _ => return false,
    }
    true
}

fn apply_setup(setup: &mut Setup, set: &Set) {
    match *set {
        Set::Synced => setup.sync = Sync::Full,
        Set::CacheMib(mib) => setup.cache = mib << 20,
        Set::MemtableMib(mib) => setup.memtable = mib << 20,
        Set::LimitMib(mib) => setup.memory_limit = Some(mib << 20),
        Set::Separate(bytes) => setup.value_separation = Some(bytes),
        Set::Tree => setup.tree_tables = true,
        Set::Allocator(name) => setup.preload = machine::find_allocator(name),
        _ => {}
    }
}

/// Whether the name of a test contains a text, or is described by one with `*`.
pub(crate) fn is_named(name: &str, pattern: &str) -> bool {
    if !pattern.contains('*') {
        return name.contains(pattern);
    }
    let parts: Vec<&str> = pattern.split('*').collect();
    let mut rest = name;
    for (index, part) in parts.iter().enumerate() {
        let last = index + 1 == parts.len();
        let found = match (index, last) {
            (0, _) => rest.starts_with(part).then_some(0),
            (_, true) => rest.ends_with(part).then(|| rest.len() - part.len()),
            _ => rest.find(part),
        };
        let Some(place) = found else { return false };
        rest = &rest[place + part.len()..];
    }
    true
}

#[cfg(test)]
mod tests;
