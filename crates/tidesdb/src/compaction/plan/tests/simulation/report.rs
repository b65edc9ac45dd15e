//! What a simulation has found.

use std::fmt;
use std::sync::Arc;

use tidesdb_files::manifest::{Change, Edit, TableRecord, ValueLogRecord};

use super::merging::Step;
use super::tables::Run;
use super::world::World;
use crate::version::TableFile;

/// Looks at runs and metadata while a load goes on.
const LOOKS: f64 = 100.0;
/// Keys for which the runs are counted at each look.
const PROBES: usize = 128;
/// Writers that put less than this part of what they could count as held back.
const CRAWLING: f64 = 0.2;
/// Bytes of a key.
const KEY_BYTES: usize = 16;
/// What is in memory of each file beside its record: path, counts, places in lists.
const FILE_BYTES: f64 = 300.0;
/// What finds the parts of an open table's index and filter, for each of its bytes: a block of the
/// index for 32 blocks of 4 KiB, and a checksum for 2 KiB of a filter of ten bits an entry.
const PARTS_SHARE: f64 = 64.0 / (32.0 * 4096.0) + 8.0 * 1.25 / (2048.0 * 100.0);
/// Of an open table without its parts.
const OPEN_BYTES: f64 = 600.0;
/// A reference of a table to a value log, of the table and of its run.
const REFERENCE_BYTES: f64 = 48.0;
/// Opening: bytes of the manifest and of the log read in a second, and seconds for each file.
const MANIFEST_RATE: f64 = 200e6;
const REPLAY_RATE: f64 = 400e6;
const FILE_SECONDS: f64 = 3e-6;
const LOG_BYTES: f64 = (64_u64 << 20) as f64;

/// What is counted while a load goes on. Runs, space and metadata are looked at in its second half.
#[derive(Debug, Default)]
pub(super) struct Measures {
    /// Bytes to put, and bytes that one entry of the sample counts for.
    pub wanted: f64,
    entry_bytes: f64,
    /// Entries put, in bytes of a put, and the bytes themselves.
    pub put: f64,
    put_bytes: f64,
    pub merged: f64,
    /// Seconds in which writers wrote, and by how much of them they were slowed.
    pub writing: f64,
    pub waited: f64,
    /// How long writers have put less than a fifth of what they could, in seconds.
    crawling: f64,
    seen: Seen,
}

#[derive(Debug, Default)]
struct Seen {
    next_look: f64,
    looks: f64,
    get: f64,
    scan: f64,
    most_runs: usize,
    most_space: f64,
    peak: f64,
    largest_step: f64,
    longest_step: f64,
    longest_crawl: f64,
    metadata: Metadata,
}

/// What is known of the files.
#[derive(Clone, Copy, Debug, Default)]
struct Metadata {
    memory: f64,
    manifest: f64,
    opening: f64,
}

impl Measures {
    pub(super) fn new(wanted: f64, entry_bytes: f64) -> Self {
        Self { wanted, entry_bytes, ..Self::default() }
    }

    pub(super) fn note_put(&mut self, bytes: f64) {
        self.put_bytes += bytes;
        self.put += self.entry_bytes;
    }

    /// Writers go at `rate` of what they could for so many seconds.
    pub(super) fn note_rate(&mut self, rate: f64, seconds: f64) {
        self.waited += seconds * (1.0 - rate);
        self.writing += seconds;
        self.crawling = if rate < CRAWLING { self.crawling + seconds } else { 0.0 };
        self.seen.longest_crawl = self.seen.longest_crawl.max(self.crawling);
    }

    pub(super) fn note_step(&mut self, bytes: f64) {
        self.seen.largest_step = self.seen.largest_step.max(bytes);
    }

    pub(super) fn end_step(&mut self, step: &Step, now: f64) {
        self.merged += step.output;
        self.seen.longest_step = self.seen.longest_step.max(now - step.begun);
    }

    fn is_second_half(&self) -> bool {
        self.put > self.wanted / 2.0
    }

    pub(super) fn note_space(world: &mut World) {
        let (disk, written) = world.disk();
        let (space, alive) = ((disk + written), world.alive().max(1.0));
        let seen = &mut world.measures.seen;
        seen.peak = seen.peak.max(space);
        if world.measures.is_second_half() {
            world.measures.seen.most_space = world.measures.seen.most_space.max(space / alive);
        }
    }

    /// Looks at the database.
    pub(super) fn look(world: &mut World) {
        Self::note_space(world);
        if !world.measures.is_second_half() {
            return;
        }
        let seen = &mut world.measures.seen;
        seen.most_runs = seen.most_runs.max(world.runs.len());
        if world.measures.put < seen.next_look {
            return;
        }
        seen.next_look = world.measures.put + world.measures.wanted / LOOKS;
        for _ in 0..PROBES {
            let key = world.source.any_alive().key;
            let tables: Vec<_> = world.runs.iter().filter_map(|run| run.table_for(key)).collect();
            let has = |entries: &[super::tables::Entry]| {
                entries.binary_search_by_key(&key, |entry| entry.key).is_ok()
            };
            let before = tables.iter().take_while(|table| !has(&table.entries)).count();
            let seen = &mut world.measures.seen;
            seen.looks += 1.0;
            seen.scan += tables.len() as f64;
            seen.get += (before + 1).min(tables.len()) as f64;
        }
        let now = Metadata::of(world);
        let most = &mut world.measures.seen.metadata;
        most.memory = most.memory.max(now.memory);
        most.manifest = most.manifest.max(now.manifest);
        most.opening = most.opening.max(now.opening);
    }

    pub(super) fn report(&self) -> Report {
        let seen = &self.seen;
        Report {
            rewrites: self.merged / self.put_bytes,
            get: seen.get / seen.looks.max(1.0),
            scan: seen.scan / seen.looks.max(1.0),
            most_runs: seen.most_runs,
            space: seen.most_space,
            peak: seen.peak,
            step: seen.largest_step,
            step_seconds: seen.longest_step,
            slowed: self.waited / self.writing,
            crawl: seen.longest_crawl,
            memory: seen.metadata.memory,
            manifest: seen.metadata.manifest,
            opening: seen.metadata.opening,
        }
    }
}

impl Metadata {
    fn of(world: &World) -> Self {
        let tables: f64 = world.runs.iter().map(|run| run.tables.len() as f64).sum();
        let bytes: f64 = world.runs.iter().map(|run| run.bytes as f64).sum();
        let references: f64 = world.runs.iter().map(|run| references(run, world.scale)).sum();
        let logs = world.logs.count() as f64;
        let known = size_of::<TableFile>() + size_of::<TableRecord>() + 256 + 2 * KEY_BYTES;
        let of_table = known as f64 + 2.0 * FILE_BYTES + OPEN_BYTES;
        let sizes = RecordSizes::measured();
        let manifest = tables * sizes.table + references * sizes.reference + logs * sizes.log;
        Self {
            memory: tables * of_table
                + bytes * PARTS_SHARE
                + references * REFERENCE_BYTES
                + logs * FILE_BYTES,
            manifest,
            opening: manifest / MANIFEST_RATE
                + (tables + logs) * FILE_SECONDS
                + LOG_BYTES / REPLAY_RATE,
        }
    }
}

/// How many references to value logs the tables of a run have, about: in each those logs of which
/// some entry is expected in it.
fn references(run: &Run, scale: f64) -> f64 {
    if run.value_bytes == 0 {
        return 0.0;
    }
    let tables = run.tables.len() as f64;
    let of_logs = run.references.values().map(|entries| f64::from(*entries) * scale);
    of_logs.map(|entries| tables * (1.0 - (-entries / tables).exp())).sum()
}

/// Bytes of records in the manifest, by the code that writes them.
struct RecordSizes {
    table: f64,
    reference: f64,
    log: f64,
}

impl RecordSizes {
    fn measured() -> Self {
        const MANY: u64 = 1 << 20;
        let table = |references: u64| {
            let record = TableRecord {
                number: MANY,
                level: 2,
                run: MANY,
                bytes: MANY << 6,
                entries: MANY,
                smallest_key: vec![0; KEY_BYTES],
                largest_key: vec![0; KEY_BYTES],
                lowest_sequence: MANY << 20,
                highest_sequence: MANY << 20,
                value_references: (0..references).map(|log| (MANY + log, MANY)).collect(),
                ..TableRecord::default()
            };
            let change = Change::AddTable { family: 1, table: Arc::new(record) };
            Edit::new(vec![change]).encode().len() as f64
        };
        let file = ValueLogRecord { number: MANY, bytes: MANY << 5 };
        let log = Edit::new(vec![Change::AddValueLog { family: 1, file }]).encode().len();
        Self { table: table(0), reference: (table(100) - table(0)) / 100.0, log: log as f64 }
    }
}

/// What is measured in a simulation.
#[derive(Debug)]
pub(super) struct Report {
    /// Bytes that compactions wrote for each byte put.
    pub rewrites: f64,
    /// Runs that have a table for a key that is alive, up to the one that holds it, and all.
    pub get: f64,
    pub scan: f64,
    pub most_runs: usize,
    /// Bytes on the disk for each that is alive.
    pub space: f64,
    /// Bytes on the disk at most.
    pub peak: f64,
    /// Bytes of the largest step, and seconds of the longest.
    pub step: f64,
    pub step_seconds: f64,
    /// By how much writers were slowed.
    pub slowed: f64,
    /// Seconds on end in which they put less than a fifth of what they could.
    pub crawl: f64,
    /// Bytes of metadata.
    pub memory: f64,
    pub manifest: f64,
    /// Seconds.
    pub opening: f64,
}

impl Report {
    /// Bytes in GB, of metadata in MB, times in seconds, slowness of writers in per cent.
    pub(super) const HEAD: &str = concat!(
        " rewrite   get  scan most space    peak   step time slow crawl",
        " memory manif. open"
    );
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:>8.2}{:>6.1}{:>6.1}{:>5}",
            self.rewrites, self.get, self.scan, self.most_runs
        )?;
        let (peak, step) = (self.peak / 1e9, self.step / 1e9);
        write!(f, "{:>6.2}{peak:>8.1}{step:>7.1}{:>5.0}", self.space, self.step_seconds)?;
        let (memory, manifest) = (self.memory / 1e6, self.manifest / 1e6);
        write!(
            f,
            "{:>5.1}{:>6.1}{memory:>7.1}{manifest:>7.1}{:>5.2}",
            self.slowed * 100.0,
            self.crawl,
            self.opening
        )
    }
}
