//! A database in time: writers, flushes, merge threads.

use std::collections::BTreeMap;

use tidesdb_base::options::FamilyOptions;

use super::estimate::{Estimate, Rules, WATCHED};
use super::load::{Load, Source};
use super::merging::{Ground, Merge};
use super::policies::Policy;
use super::report::Measures;
use super::tables::{Entry, Run, Weights};
use super::value_logs::ValueLogs;
use crate::compaction::plan::Activity;
use crate::compaction::step_bounds::StepTable;
use crate::output::key_partitions::KeySpan;

/// Parts of the key space in which garbage is collected, as in the engine.
pub(super) const SLICES: usize = 8;
/// Slices are cut anew when one has this many times its share of the oldest run, as in the engine.
const MOST_UNEQUAL: u64 = 3;
/// Bytes of one flush, half of the memory that it comes from.
pub(super) const FLUSH: f64 = (32_u64 << 20) as f64;
/// Bytes that writers put in a second: a million entries.
pub(super) const PUT_RATE: f64 = 100e6;
/// So often for each flush the pace of writers is asked for.
const LOOKS_PER_FLUSH: f64 = 4.0;
/// Bytes of a put without a separated value, and of a deletion, in a table.
const PUT_BYTES: f64 = 100.0;
const POINTER_BYTES: f64 = 50.0;
const DELETION_BYTES: f64 = 40.0;
/// Entries of the sample in all, and at least in one flush.
const SAMPLE: f64 = 1e6;
const LEAST_PER_FLUSH: f64 = 12.0;
const MOST_PER_FLUSH: f64 = 1024.0;
/// A family counts as at rest after so many seconds, as in the engine; looks are so far apart.
const QUIET_SECONDS: f64 = 2.0;
const MOST_BETWEEN_LOOKS: f64 = 16.0;
// More than a dozen fields: a small database with its writers and its threads.
pub(super) struct World {
    pub load: Load,
    pub options: FamilyOptions,
    pub source: Source,
    pub weights: Weights,
    /// Entries that each of the sample stands for.
    pub scale: f64,
    pub runs: Vec<Run>,
    pub logs: ValueLogs,
    /// Garbage in value logs that are mostly garbage, by the oldest run that points into each.
    pub dead_values: BTreeMap<u64, u64>,
    pub merges: Vec<Merge>,
    pub activity: Activity,
    pub snapshot: Option<u32>,
    pub now: f64,
    pub estimate: Estimate,
    pub measures: Measures,
    /// Keys at which tables end.
    pub slices: Vec<u64>,
    every: u32,
    sequence: u32,
    last_number: u64,
    /// Nothing has changed since no compaction was found.
    pub settled: bool,
}

impl World {
    /// A database that is to have so many bytes.
    pub(super) fn new(load: Load, bytes: f64, policy: &dyn Policy) -> Self {
        let flushes = bytes / FLUSH;
        let sample = if load.value_bytes > 0.0 { SAMPLE / 5.0 } else { SAMPLE };
        let per_flush = (sample / flushes).clamp(LEAST_PER_FLUSH, MOST_PER_FLUSH);
        let in_table = if load.value_bytes == 0.0 { PUT_BYTES } else { POINTER_BYTES };
        let entry = in_table + load.value_bytes;
        let scale = FLUSH / per_flush / entry;
        let separated = if policy.separates() { load.value_bytes } else { 0.0 };
        let weights = Weights {
            put: (entry - separated) * scale,
            deletion: DELETION_BYTES * scale,
            value: separated * scale,
        };
        let source = Source::new(&load, bytes / entry / scale, scale, bytes / PUT_RATE);
        let mut world = Self {
            options: FamilyOptions::default(),
            weights,
            scale,
            runs: Vec::new(),
            dead_values: BTreeMap::new(),
            logs: ValueLogs::new(weights.value),
            merges: Vec::new(),
            activity: Activity::Busy,
            snapshot: (load.snapshot_seconds > 0.0).then_some(0),
            now: 0.0,
            estimate: Estimate::default(),
            measures: Measures::new(bytes * load.put, entry * scale),
            slices: Vec::new(),
            every: (f64::from(source.most) / WATCHED).ceil() as u32,
            sequence: 0,
            last_number: 0,
            settled: false,
            source,
            load,
        };
        let mut present = world.source.present();
        // As flushes wrote them.
        let write_buffer = world.options.write_buffer_size;
        let flushes = present.chunks_mut(per_flush as usize);
        flushes.for_each(|part| world.logs.separate(part, write_buffer));
        world.add_run(policy.level_of(bytes * load.present), present, true);
        world.estimate.change(f64::MAX);
        world.estimate.renew(&world.runs, &world.rules());
        world
    }

    /// The newest run.
    fn add_run(&mut self, level: u32, mut entries: Vec<Entry>, scattered: bool) {
        if entries.is_empty() {
            return;
        }
        entries.sort_unstable_by_key(|entry| entry.key);
        let table_bytes = self.options.target_table_bytes;
        let keys = scattered.then_some((0, u64::MAX));
        let slices = self.slices.clone();
        let tables = self.ground().tables_of(entries, keys, &slices, table_bytes);
        self.logs.refer(&tables, 1);
        self.last_number += 1;
        let run = Run::new(self.last_number, level, tables, self.every);
        self.estimate.change((run.bytes + run.value_bytes) as f64);
        self.runs.insert(0, run);
        self.settled = false;
    }

    pub(super) fn ground(&mut self) -> Ground<'_> {
        Ground {
            runs: &self.runs,
            weights: self.weights,
            snapshot: self.snapshot,
            now: self.now,
            slices: &self.slices,
            last_number: &mut self.last_number,
            new_log: self.logs.growing(),
        }
    }

    /// Cuts slices as the engine does: at tables of the oldest run, when they are unequal.
    pub(super) fn renew_slices(&mut self) {
        let Some(oldest) = self.runs.last().filter(|run| run.level > 1) else { return };
        let most = oldest.bytes / (self.slices.len() as u64 + 1) * MOST_UNEQUAL;
        let mut of_slices = vec![0; self.slices.len() + 1];
        for table in &oldest.tables {
            let slice = self.slices.partition_point(|bound| *bound <= table.from);
            if let Some(bytes) = of_slices.get_mut(slice) {
                *bytes += table.bytes();
            }
        }
        if self.slices.len() + 1 == SLICES && of_slices.iter().all(|bytes| *bytes <= most) {
            return;
        }
        let mut before = 0;
        self.slices.clear();
        for table in &oldest.tables {
            let wanted = (self.slices.len() as u64 + 1) * (oldest.bytes / SLICES as u64);
            if before > 0 && before >= wanted && self.slices.len() < SLICES - 1 {
                self.slices.push(table.from);
            }
            before += table.bytes();
        }
    }

    pub(super) fn run(&mut self, policy: &dyn Policy) {
        let look = FLUSH / PUT_RATE / LOOKS_PER_FLUSH;
        let mut next_restart = self.load.restart_seconds.unwrap_or(f64::MAX);
        let (burst, pause) = self.load.pause.unwrap_or((f64::MAX, 0.0));
        let (mut in_memory, mut of_burst, mut owed) = (Vec::new(), 0.0, 0.0);
        let mut memory = 0.0;
        while self.measures.put < self.measures.wanted {
            let rate = policy.rate(self).min(PUT_RATE);
            owed += rate * look;
            self.advance(look, policy);
            self.measures.note_rate(rate / PUT_RATE, look);
            while owed > 0.0 {
                let Some(entry) = self.source.put(self.now) else { break };
                let bytes = self.weights.of(&entry)
                    + if entry.is_deletion { 0.0 } else { self.weights.value };
                in_memory.push(entry);
                owed -= bytes;
                memory += bytes;
                of_burst += bytes;
                self.measures.note_put(bytes);
            }
            self.source.expire(self.now);
            if memory >= FLUSH || of_burst >= burst {
                memory = 0.0;
                self.flush(std::mem::take(&mut in_memory));
            }
            if of_burst >= burst {
                of_burst = 0.0;
                self.rest(pause, policy);
            }
            if self.now >= next_restart {
                next_restart += self.load.restart_seconds.unwrap_or(f64::MAX);
                self.restart();
            }
            Measures::look(self);
        }
    }

    /// Writers pause.
    fn rest(&mut self, seconds: f64, policy: &dyn Policy) {
        let (end, mut rest) = (self.now + seconds, 0.0_f64);
        loop {
            let next = rest.clamp(QUIET_SECONDS, MOST_BETWEEN_LOOKS).min(end - self.now);
            self.advance(next, policy);
            if self.now >= end {
                break;
            }
            rest += next;
            self.activity = Activity::after_rest(rest as u64);
            self.settled = false;
        }
        self.activity = Activity::Busy;
    }

    /// Time passes.
    fn advance(&mut self, seconds: f64, policy: &dyn Policy) {
        self.compact_for(seconds, policy);
        if self.now >= self.load.snapshot_seconds && self.snapshot.is_some() {
            self.snapshot = None;
            self.estimate.change(f64::MAX);
            self.settled = false;
        }
    }

    fn flush(&mut self, mut entries: Vec<Entry>) {
        self.sequence += 1;
        // The newest version of each key stays.
        entries.reverse();
        entries.sort_by_key(|entry| entry.key);
        entries.dedup_by_key(|entry| entry.key);
        entries.iter_mut().for_each(|entry| entry.sequence = self.sequence);
        self.logs.separate(&mut entries, self.options.write_buffer_size);
        let scattered = self.source.is_scattered();
        self.add_run(1, entries, scattered);
    }

    pub(super) fn rules(&self) -> Rules {
        Rules { snapshot: self.snapshot, now: self.now, every: self.every }
    }

    /// The slice with the largest share of garbage, between bounds that no table reaches over.
    pub(super) fn worst_slice(&mut self) -> KeySpan {
        let is_crossed = |bound: &&u64| {
            let reaches = |run: &Run| run.table_for(**bound).is_some_and(|t| t.from < **bound);
            self.runs.iter().any(reaches)
        };
        let mut bounds = vec![0];
        bounds.extend(self.slices.iter().filter(|bound| !is_crossed(bound)));
        bounds.push(u64::MAX);
        let rules = self.rules();
        let share = |two: &[u64]| {
            let share = self.estimate.garbage_share(&self.runs, (two[0], two[1]), &rules);
            (share, two[0], two[1])
        };
        let shares: Vec<_> = bounds.windows(2).map(share).collect();
        let worst = shares.into_iter().max_by(|a, b| a.0.total_cmp(&b.0));
        let (_, from, until) = worst.unwrap_or((0.0, 0, u64::MAX));
        let key = |key: u64| key.to_be_bytes().to_vec();
        KeySpan {
            from: (from > 0).then(|| key(from)),
            until: (until < u64::MAX).then(|| key(until)),
        }
    }

    /// How many of the newest runs no compaction has claimed.
    pub(super) fn free(&self) -> usize {
        let claimed = |run: &&Run| self.merges.iter().any(|m| m.inputs.contains(&run.id));
        self.runs.iter().take_while(|run| !claimed(run)).count()
    }

    /// Flushed runs, without those that a compaction takes along with larger ones.
    pub(super) fn young(&self) -> usize {
        let merges = || self.merges.iter().filter(|merge| merge.range == KeySpan::default());
        let of = |id: &u64| self.runs.iter().find(|run| run.id == *id);
        let is_large = |merge: &&Merge| merge.inputs.iter().filter_map(of).any(|run| run.level > 1);
        let is_waiting =
            |run: &&Run| !merges().filter(is_large).any(|merge| merge.inputs.contains(&run.id));
        self.runs.iter().filter(|run| run.level == 1).filter(is_waiting).count()
    }

    /// Bytes of tables and value logs, and of what steps under way have written.
    pub(super) fn disk(&self) -> (f64, f64) {
        let tables = self.runs.iter().map(|run| run.bytes as f64).sum::<f64>();
        let written = self.merges.iter().map(|merge| merge.step.written());
        (tables + self.logs.bytes, written.sum())
    }

    pub(super) fn alive(&self) -> f64 {
        self.source.alive() * (self.weights.put + self.weights.value)
    }
}
