//! Writers, merge threads, and what the planner sees of the runs.

use std::fmt;

use super::merging::{Ground, Merge, Step};
use super::policies::Policy;
use super::tables::{
    CELLS, ENTRY, KEY_SPACE, Keys, SimulatedRun, Table, bytes_of, slice_range, union,
};
use crate::compaction::plan::RunSummary;
use crate::compaction::steps::StepSizes;
use crate::flow::{FamilySignals, Pace, family_pace};
use crate::version::collected_from;
use tidesdb_base::liveness::Liveness;

/// Parts of the key space in which garbage is collected, as in the engine.
pub(super) const SLICES: usize = 8;
/// Bytes of one flush, half of the memory that it comes from.
pub(super) const FLUSH: f64 = (32_u64 << 20) as f64;
/// `target_table_bytes`.
const TABLE_BYTES: u64 = 64 << 20;
/// Bytes that writers put in a second: a million entries.
const PUT_RATE: f64 = 100e6;
/// Bytes that one thread merges in a second.
const MERGE_RATE: f64 = 250e6;
const THREADS: usize = 2;
/// Flushes can be so many times as fast as the writers.
const FLUSH_HEADROOM: f64 = 2.0;
/// So often for each flush the pace of writers is asked for.
const LOOKS_PER_FLUSH: f64 = 4.0;

/// What is put.
#[derive(Clone, Debug)]
pub(super) struct Load {
    pub name: &'static str,
    /// Shares of the keys and of the puts. None: each key is new.
    classes: Vec<(f64, f64)>,
}

impl Load {
    pub(super) fn unique(name: &'static str) -> Self {
        Self { name, classes: Vec::new() }
    }

    /// Puts of keys that are all there.
    pub(super) fn overwrite(name: &'static str, classes: &[(f64, f64)]) -> Self {
        Self { name, classes: classes.to_vec() }
    }
}

/// A merge of the runs at some places, newest first, into the oldest of them.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    pub first: usize,
    pub count: usize,
    /// Only this part of the key space.
    pub slice: Option<usize>,
    pub by_steps: bool,
    pub level: u32,
}

pub(super) struct World {
    load: Load,
    /// Bytes that are put.
    bytes: f64,
    /// The process begins anew this often, in seconds.
    restarts: Option<f64>,
    /// Keys of each class; none where each put key is new.
    keys: Vec<f64>,
    pub runs: Vec<SimulatedRun>,
    merges: Vec<Merge>,
    last_id: u64,
    /// Nothing has changed since no merge was found.
    settled: bool,
    figures: Figures,
}

/// Runs and space are looked at in the second half.
#[derive(Debug, Default)]
struct Figures {
    put: f64,
    merged: f64,
    seconds: f64,
    waited: f64,
    looks: f64,
    runs: f64,
    met: f64,
    most_runs: usize,
    most_space: f64,
    most_extra: f64,
    largest_step: f64,
}

/// What a simulation has found.
#[derive(Debug)]
pub(super) struct Report {
    /// Bytes that merges wrote for each byte put.
    pub rewrites: f64,
    pub runs: f64,
    /// Runs that a scan meets at a key.
    pub met: f64,
    pub most_runs: usize,
    /// Bytes of tables, those that merges have not removed yet included, for each that is alive.
    pub most_space: f64,
    /// Share of the data that unfinished outputs take at most.
    pub most_extra: f64,
    /// Bytes of the largest step.
    pub largest_step: f64,
    /// Share of the time that writers waited.
    pub waited: f64,
}

impl Report {
    pub(super) const HEAD: &str =
        "rewrites   runs   met  most  space  extra disk  largest step   waits";
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:>8.2} {:>6.1} {:>5.1} {:>5} {:>6.2} {:>9.1} % {:>10.1} GB {:>5.1} %",
            self.rewrites,
            self.runs,
            self.met,
            self.most_runs,
            self.most_space,
            self.most_extra * 100.0,
            self.largest_step / 1e9,
            self.waited * 100.0
        )
    }
}

impl World {
    /// All keys are there already where they are overwritten.
    pub(super) fn new(load: Load, bytes: f64, restarts: Option<f64>) -> Self {
        let all_keys = bytes / ENTRY;
        let keys: Vec<f64> = load.classes.iter().map(|(share, _)| all_keys * share).collect();
        let mut world = Self {
            bytes,
            restarts,
            runs: Vec::new(),
            merges: Vec::new(),
            last_id: 0,
            settled: false,
            figures: Figures::default(),
            keys,
            load,
        };
        if !world.is_unique() {
            let tables = (bytes / TABLE_BYTES as f64 / SLICES as f64).ceil() as u64;
            world.add_run(2, tables.max(1) * SLICES as u64, &world.keys.clone());
        }
        world
    }

    fn is_unique(&self) -> bool {
        self.keys.is_empty()
    }

    fn classes(&self) -> usize {
        self.keys.len().max(1)
    }

    /// The newest run, with these keys in so many tables.
    fn add_run(&mut self, level: u32, tables: u64, keys: &[f64]) {
        let width = KEY_SPACE / tables;
        let bound = |at: u64| if at == tables { KEY_SPACE } else { width * at };
        let of_table: Keys = keys.iter().map(|count| count / tables as f64).collect();
        let made = (0..tables).map(|at| {
            self.last_id += 1;
            Table::new(self.last_id, bound(at), bound(at + 1), of_table.clone())
        });
        let tables = made.collect();
        self.last_id += 1;
        let run = SimulatedRun::new(self.last_id, level, self.classes(), tables);
        self.runs.insert(0, run);
        self.settled = false;
    }

    pub(super) fn run(&mut self, policy: &dyn Policy) {
        let step = FLUSH / PUT_RATE / LOOKS_PER_FLUSH;
        let mut next_restart = self.restarts.unwrap_or(f64::MAX);
        let mut in_memory = 0.0;
        while self.figures.put < self.bytes {
            let rate = self.writers_rate(policy.is_read());
            in_memory += rate * step;
            self.merge_for(step, policy);
            self.figures.seconds += step;
            self.figures.waited += step * (1.0 - rate / PUT_RATE);
            if in_memory >= FLUSH {
                in_memory -= FLUSH;
                self.flush();
            }
            self.look();
            if self.figures.seconds >= next_restart {
                next_restart += self.restarts.unwrap_or(f64::MAX);
                self.restart();
            }
        }
    }

    /// How fast the engine lets writers go.
    fn writers_rate(&self, is_read: bool) -> f64 {
        let mut signals = FamilySignals {
            write_buffer_bytes: 2 * FLUSH as u64,
            queue_limit: 4,
            merge_trigger: 4,
            young_runs: self.runs.iter().filter(|run| run.level == 1).count() as u64,
            runs: self.runs.len() as u64,
            is_read,
            flush_bytes_per_second: (PUT_RATE * FLUSH_HEADROOM) as u64,
            ..FamilySignals::default()
        };
        signals.table_bytes = self.total() as u64;
        // Rounding is no garbage.
        signals.settled_table_bytes = u64::MAX;
        if !self.is_unique() {
            let alive = self.alive();
            signals.settled_table_bytes = alive as u64;
            signals.collected_table_bytes = (alive * collected_from(1.5)) as u64;
            signals.allowed_table_bytes = (alive * 1.5) as u64;
        }
        match family_pace(&signals) {
            Pace::Free => PUT_RATE,
            Pace::Slow { bytes_per_second, .. } => PUT_RATE.min(bytes_per_second as f64),
            Pace::Wait(_) => 0.0,
        }
    }

    fn flush(&mut self) {
        let puts = FLUSH / ENTRY;
        let keys: Keys = if self.is_unique() {
            vec![puts]
        } else {
            let shares = self.load.classes.iter().map(|(_, puts)| puts);
            shares.zip(&self.keys).map(|(share, keys)| distinct(puts * share, *keys)).collect()
        };
        self.figures.put += FLUSH;
        self.add_run(1, SLICES as u64, &keys);
    }

    /// What the planner sees of the runs.
    pub(super) fn summaries(&self) -> Vec<RunSummary> {
        let count = |keys: f64| keys as u64;
        let cell_keys: Vec<f64> = self.keys.iter().map(|keys| keys / CELLS as f64).collect();
        // Of the keys of each class in each cell, the share that no run so far holds.
        let mut absent = vec![vec![1.0; self.classes()]; CELLS];
        let mut versions = 0.0;
        let summary = |run: &SimulatedRun| {
            versions += run.bytes() / ENTRY;
            for (absent, keys) in absent.iter_mut().zip(&run.cells) {
                for ((absent, count), all) in absent.iter_mut().zip(keys).zip(&cell_keys) {
                    *absent *= 1.0 - count / all;
                }
            }
            let present = |absent: &Keys| -> f64 {
                absent.iter().zip(&cell_keys).map(|(absent, all)| (1.0 - absent) * all).sum()
            };
            let unique = self.is_unique();
            let needed = if unique { versions } else { absent.iter().map(present).sum() };
            let own = count(run.bytes() / ENTRY);
            RunSummary {
                level: run.level,
                id: run.id,
                bytes: run.bytes() as u64,
                alone: Liveness { versions: own, needed: own },
                // Rounding is no garbage.
                through: Liveness { versions: count(versions), needed: count(needed + 1.0) },
                ..RunSummary::default()
            }
        };
        self.runs.iter().map(summary).collect()
    }

    /// The slice with the largest share of garbage.
    pub(super) fn worst_slice(&self) -> usize {
        let cell_keys: Vec<f64> = self.keys.iter().map(|keys| keys / CELLS as f64).collect();
        let share = |slice: usize| {
            let slice_bytes = self.runs.iter().map(|run| run.slice_bytes(slice, SLICES));
            let each = CELLS / SLICES;
            let alive = (slice * each..(slice + 1) * each).map(|cell| {
                let counts = self.runs.iter().filter_map(|run| run.cells.get(cell));
                bytes_of(&union(&counts.collect::<Vec<_>>(), &cell_keys, self.classes()))
            });
            1.0 - alive.sum::<f64>() / slice_bytes.sum::<f64>().max(1.0)
        };
        (0..SLICES).max_by(|a, b| share(*a).total_cmp(&share(*b))).unwrap_or(0)
    }

    /// How many of the newest runs no merge has claimed.
    pub(super) fn free(&self) -> usize {
        let claimed = |run: &&SimulatedRun| self.merges.iter().any(|m| m.inputs.contains(&run.id));
        self.runs.iter().take_while(|run| !claimed(run)).count()
    }

    /// How many merges are under way.
    pub(super) fn merging(&self) -> usize {
        self.merges.len()
    }

    /// Bytes of a merge that could begin at once, by interrupting a larger one if all threads are
    /// busy.
    fn most_now(&self) -> f64 {
        let largest = self.merges.iter().map(|merge| merge.bytes).fold(0.0, f64::max);
        if self.merges.len() < THREADS { f64::MAX } else { largest / 2.0 }
    }

    fn merge_for(&mut self, mut seconds: f64, policy: &dyn Policy) {
        while seconds > 0.0 {
            while !self.settled {
                match policy.choose(self, self.most_now()) {
                    Some(choice) => self.begin(&choice),
                    None => self.settled = true,
                }
            }
            // The last begun were let in before the others. One alone has the help of all threads.
            let busy = self.merges.len().min(THREADS);
            let at_work = self.merges.iter_mut().rev().take(THREADS);
            let Some(least) = at_work.map(|merge| merge.step.left).reduce(f64::min) else { return };
            let rate = MERGE_RATE * THREADS as f64 / busy as f64;
            let each = least.min(seconds * rate).max(1.0);
            self.merges.iter_mut().rev().take(THREADS).for_each(|merge| merge.step.left -= each);
            seconds -= each / rate;
            self.note_space();
            while let Some(at) = self.merges.iter().position(|merge| merge.step.left < 1.0) {
                self.end_step(at);
            }
        }
    }

    fn begin(&mut self, choice: &Choice) {
        let inputs = || self.runs.iter().skip(choice.first).take(choice.count);
        let bytes: f64 = match choice.slice {
            Some(slice) => inputs().map(|run| run.slice_bytes(slice, SLICES)).sum(),
            None => inputs().map(SimulatedRun::bytes).sum(),
        };
        let merge = Merge {
            inputs: inputs().map(|run| run.id).collect(),
            range: choice.slice.map(|slice| slice_range(slice, SLICES)).unwrap_or_default(),
            by_steps: choice.by_steps,
            level: choice.level,
            bytes,
            sizes: StepSizes::of(bytes as u64, TABLE_BYTES, THREADS),
            step: Step::default(),
        };
        let from = merge.range.from.clone();
        self.merges.push(merge);
        self.begin_step(self.merges.len() - 1, from);
    }

    fn begin_step(&mut self, at: usize, from: Option<Vec<u8>>) {
        let classes = self.classes();
        let Some(merge) = self.merges.get_mut(at) else { return };
        let slice_keys = KEY_SPACE / SLICES as u64;
        let last_number = &mut self.last_id;
        let mut ground = Ground { keys: &self.keys, classes, slice_keys, last_number };
        merge.begin_step(&self.runs, from, &mut ground);
        self.figures.largest_step = self.figures.largest_step.max(merge.step.bytes);
    }

    fn end_step(&mut self, at: usize) {
        let Some(merge) = self.merges.get_mut(at) else { return };
        self.figures.merged += merge.step.output;
        match merge.end_step(&mut self.runs) {
            Some(from) => self.begin_step(at, from),
            None => drop(self.merges.remove(at)),
        }
        self.settled = false;
    }

    /// What no step has finished is lost.
    fn restart(&mut self) {
        self.figures.merged += self.merges.iter().map(|merge| merge.step.written()).sum::<f64>();
        self.merges.clear();
        self.settled = false;
    }

    fn total(&self) -> f64 {
        self.runs.iter().map(SimulatedRun::bytes).sum()
    }

    fn alive(&self) -> f64 {
        if self.is_unique() { self.figures.put } else { bytes_of(&self.keys) }
    }

    fn note_space(&mut self) {
        let extra: f64 = self.merges.iter().map(|merge| merge.step.written()).sum();
        let (total, alive) = (self.total(), self.alive().max(1.0));
        if self.figures.put > self.bytes / 2.0 {
            self.figures.most_extra = self.figures.most_extra.max(extra / total.max(1.0));
            self.figures.most_space = self.figures.most_space.max((total + extra) / alive);
        }
    }

    fn look(&mut self) {
        if self.figures.put <= self.bytes / 2.0 {
            return;
        }
        self.figures.looks += 1.0;
        self.figures.runs += self.runs.len() as f64;
        self.figures.most_runs = self.figures.most_runs.max(self.runs.len());
        let met = |cell: usize| {
            let cells = self.runs.iter().filter_map(|run| run.cells.get(cell));
            cells.filter(|keys| bytes_of(keys) > 0.0).count()
        };
        self.figures.met += (0..CELLS).map(met).sum::<usize>() as f64 / CELLS as f64;
    }

    pub(super) fn report(&self) -> Report {
        Report {
            rewrites: self.figures.merged / self.figures.put,
            runs: self.figures.runs / self.figures.looks.max(1.0),
            met: self.figures.met / self.figures.looks.max(1.0),
            most_runs: self.figures.most_runs,
            most_space: self.figures.most_space,
            most_extra: self.figures.most_extra,
            largest_step: self.figures.largest_step,
            waited: self.figures.waited / self.figures.seconds,
        }
    }
}

/// Different keys among so many puts that each choose one of `keys` at random.
fn distinct(puts: f64, keys: f64) -> f64 {
    keys * (1.0 - (-puts / keys).exp())
}
