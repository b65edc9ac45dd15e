//! Runs that are counts of keys, writers and merge threads.

use std::fmt;

use super::policies::Policy;
use crate::compaction::plan::RunSummary;
use tidesdb_base::liveness::Liveness;

/// Parts of the key space, as in the engine.
pub(super) const SLICES: usize = 8;
/// Bytes of an entry on the disk.
const ENTRY: f64 = 100.0;
/// Bytes of one flush.
pub(super) const FLUSH: f64 = (32_u64 << 20) as f64;
/// Bytes that writers put in a second: a million entries.
const PUT_RATE: f64 = 100e6;
/// Bytes that one thread merges in a second.
const MERGE_RATE: f64 = 250e6;
const THREADS: usize = 2;
/// Runs beyond which writers wait. The engine slows them down instead, more and more, from eight
/// times `l1_file_count_trigger` on.
const MOST_RUNS: usize = 32;

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

    fn is_unique(&self) -> bool {
        self.classes.is_empty()
    }
}

/// Keys of each class, in one slice.
type Keys = Vec<f64>;

#[derive(Clone, Debug)]
pub(super) struct SimulatedRun {
    pub id: u64,
    pub level: u32,
    slices: Vec<Keys>,
}

impl SimulatedRun {
    pub(super) fn bytes(&self) -> f64 {
        self.slices.iter().flatten().sum::<f64>() * ENTRY
    }

    pub(super) fn slice_bytes(&self, slice: usize) -> f64 {
        self.slices.get(slice).map_or(0.0, |keys| keys.iter().sum::<f64>() * ENTRY)
    }
}

/// A merge of the runs at some places, newest first, into the oldest of them.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    pub first: usize,
    pub count: usize,
    /// Only this part of the key space.
    pub slice: Option<usize>,
    pub level: u32,
}

#[derive(Debug)]
struct Merge {
    inputs: Vec<u64>,
    slice: Option<usize>,
    level: u32,
    all: f64,
    left: f64,
    output: f64,
}

pub(super) struct World {
    load: Load,
    /// Bytes that are put.
    bytes: f64,
    /// Keys of each class in each slice.
    keys: Vec<f64>,
    pub runs: Vec<SimulatedRun>,
    merges: Vec<Merge>,
    last_id: u64,
    figures: Figures,
}

#[derive(Debug, Default)]
struct Figures {
    put: f64,
    merged: f64,
    seconds: f64,
    waited: f64,
    looks: f64,
    runs: f64,
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
    pub most_runs: usize,
    /// Bytes of tables, those that merges have not removed yet included, for each that is alive.
    pub most_space: f64,
    /// Share of the data that unfinished outputs take at most.
    pub most_extra: f64,
    /// Bytes of the largest merge.
    pub largest_step: f64,
    /// Share of the time that writers waited.
    pub waited: f64,
}

impl Report {
    pub(super) const HEAD: &str =
        "rewrites   runs  most runs  space  extra disk  largest step  seconds  writers wait";
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:>8.2} {:>6.1} {:>10} {:>6.2} {:>9.1} % {:>10.1} GB {:>8.0} {:>11.1} %",
            self.rewrites,
            self.runs,
            self.most_runs,
            self.most_space,
            self.most_extra * 100.0,
            self.largest_step / 1e9,
            self.largest_step / MERGE_RATE,
            self.waited * 100.0
        )
    }
}

impl World {
    /// All keys are there already where they are overwritten.
    pub(super) fn new(load: Load, bytes: f64) -> Self {
        let all_keys = bytes / ENTRY / SLICES as f64;
        let keys: Vec<f64> = load.classes.iter().map(|(share, _)| all_keys * share).collect();
        let mut world = Self {
            bytes,
            runs: Vec::new(),
            merges: Vec::new(),
            last_id: 0,
            figures: Figures::default(),
            keys,
            load,
        };
        if !world.load.is_unique() {
            world.last_id = 1;
            let slices = vec![world.keys.clone(); SLICES];
            world.runs.push(SimulatedRun { id: 1, level: 2, slices });
        }
        world
    }

    pub(super) fn run(&mut self, policy: &dyn Policy) {
        while self.figures.put < self.bytes {
            self.flush();
            self.merge_for(FLUSH / PUT_RATE, policy);
            self.figures.seconds += FLUSH / PUT_RATE;
            self.look();
            while self.runs.len() > MOST_RUNS && !self.merges.is_empty() {
                let wait = FLUSH / PUT_RATE / 4.0;
                self.merge_for(wait, policy);
                self.figures.seconds += wait;
                self.figures.waited += wait;
            }
        }
    }

    fn flush(&mut self) {
        let puts = FLUSH / ENTRY / SLICES as f64;
        let slice: Keys = if self.load.is_unique() {
            vec![puts]
        } else {
            let shares = self.load.classes.iter().map(|(_, puts)| puts);
            shares.zip(&self.keys).map(|(share, keys)| distinct(puts * share, *keys)).collect()
        };
        self.last_id += 1;
        let run = SimulatedRun { id: self.last_id, level: 1, slices: vec![slice; SLICES] };
        self.figures.put += FLUSH;
        self.runs.insert(0, run);
    }

    /// The keys that some runs have together.
    fn union<'r>(&self, runs: impl Iterator<Item = &'r SimulatedRun>, slice: usize) -> Keys {
        let runs: Vec<&Keys> = runs.filter_map(|run| run.slices.get(slice)).collect();
        let classes = self.load.classes.len().max(1);
        let of_class = |class: usize| {
            let counts = runs.iter().filter_map(|keys| keys.get(class));
            match self.keys.get(class) {
                None => counts.sum(),
                Some(&all) => all * (1.0 - counts.map(|count| 1.0 - count / all).product::<f64>()),
            }
        };
        (0..classes).map(of_class).collect()
    }

    /// What the planner sees of the runs.
    pub(super) fn summaries(&self) -> Vec<RunSummary> {
        let count = |keys: f64| keys as u64;
        let classes = self.load.classes.len().max(1);
        // Of the keys of each class in each slice, the share that no run so far holds.
        let mut absent = vec![vec![1.0; classes]; SLICES];
        let mut versions = 0.0;
        let summary = |run: &SimulatedRun| {
            versions += run.bytes() / ENTRY;
            for (absent, keys) in absent.iter_mut().zip(&run.slices) {
                for ((absent, count), all) in absent.iter_mut().zip(keys).zip(&self.keys) {
                    *absent *= 1.0 - count / all;
                }
            }
            let present = |absent: &Vec<f64>| -> f64 {
                absent.iter().zip(&self.keys).map(|(absent, all)| (1.0 - absent) * all).sum()
            };
            let unique = self.load.is_unique();
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
        let share = |slice: usize| {
            let versions: f64 = self.runs.iter().map(|run| run.slice_bytes(slice) / ENTRY).sum();
            1.0 - self.union(self.runs.iter(), slice).iter().sum::<f64>() / versions.max(1.0)
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
        let largest = self.merges.iter().map(|merge| merge.all).fold(0.0, f64::max);
        if self.merges.len() < THREADS { f64::MAX } else { largest / 2.0 }
    }

    fn merge_for(&mut self, seconds: f64, policy: &dyn Policy) {
        let mut budget = seconds * MERGE_RATE * THREADS as f64;
        while budget > 0.0 {
            while let Some(choice) = policy.choose(self, self.most_now()) {
                self.begin(&choice);
            }
            // The last begun were let in before the others.
            let busy = self.merges.len().min(THREADS);
            let at_work = self.merges.iter_mut().rev().take(THREADS);
            let Some(least) = at_work.map(|merge| merge.left).reduce(f64::min) else { return };
            // A thread works on one merge, and an idle one on none.
            let each = least.min(budget / THREADS as f64).max(1.0);
            let at_work = self.merges.iter_mut().rev().take(THREADS);
            at_work.for_each(|merge| merge.left -= each);
            self.figures.merged += each * busy as f64;
            budget -= each * THREADS as f64;
            self.note_space();
            while let Some(at) = self.merges.iter().position(|merge| merge.left < 1.0) {
                let merge = self.merges.remove(at);
                self.end(&merge);
            }
        }
    }

    fn begin(&mut self, choice: &Choice) {
        let inputs = self.runs.iter().skip(choice.first).take(choice.count);
        let inputs: Vec<&SimulatedRun> = inputs.collect();
        let all = match choice.slice {
            Some(slice) => inputs.iter().map(|run| run.slice_bytes(slice)).sum(),
            None => inputs.iter().map(|run| run.bytes()).sum::<f64>(),
        };
        let slices = choice.slice.map_or(0..SLICES, |slice| slice..slice + 1);
        let union = slices.flat_map(|slice| self.union(inputs.iter().copied(), slice));
        let output = union.sum::<f64>() * ENTRY;
        let inputs: Vec<u64> = inputs.iter().map(|run| run.id).collect();
        // A run alone is moved.
        let all = if inputs.len() == 1 { 0.0 } else { all };
        self.figures.largest_step = self.figures.largest_step.max(all);
        let (slice, level) = (choice.slice, choice.level);
        self.merges.push(Merge { inputs, slice, level, all, left: all, output });
    }

    fn end(&mut self, merge: &Merge) {
        let is_input = |run: &SimulatedRun| merge.inputs.contains(&run.id);
        let inputs: Vec<SimulatedRun> =
            self.runs.iter().filter(|run| is_input(run)).cloned().collect();
        // The bytes written were counted as if nothing had been dropped.
        self.figures.merged -= (merge.all - merge.output).max(0.0);
        let merged = merge.slice.map_or(0..SLICES, |slice| slice..slice + 1);
        for slice in merged {
            let union = self.union(inputs.iter(), slice);
            let mut left = inputs.len();
            for run in self.runs.iter_mut().filter(|run| merge.inputs.contains(&run.id)) {
                left -= 1;
                if let Some(keys) = run.slices.get_mut(slice) {
                    *keys = if left == 0 { union.clone() } else { vec![0.0; union.len()] };
                }
            }
        }
        let oldest = inputs.last().map_or(0, |run| run.id);
        for run in self.runs.iter_mut().filter(|run| run.id == oldest) {
            run.level = merge.level;
        }
        self.runs.retain(|run| run.id == oldest || run.bytes() >= 1.0);
    }

    fn total(&self) -> f64 {
        self.runs.iter().map(SimulatedRun::bytes).sum()
    }

    fn alive(&self) -> f64 {
        let all = (0..SLICES).flat_map(|slice| self.union(self.runs.iter(), slice));
        all.sum::<f64>() * ENTRY
    }

    fn note_space(&mut self) {
        let part = |merge: &Merge| 1.0 - merge.left / merge.all.max(1.0);
        let written = |m: &Merge| if m.all > 0.0 { m.output * part(m) } else { 0.0 };
        let extra: f64 = self.merges.iter().map(written).sum();
        let (total, alive) = (self.total(), self.alive().max(1.0));
        // The first percent says little of a large database.
        if self.figures.put > self.bytes / 10.0 {
            self.figures.most_extra = self.figures.most_extra.max(extra / total.max(1.0));
            self.figures.most_space = self.figures.most_space.max((total + extra) / alive);
        }
    }

    fn look(&mut self) {
        self.figures.looks += 1.0;
        self.figures.runs += self.runs.len() as f64;
        self.figures.most_runs = self.figures.most_runs.max(self.runs.len());
    }

    pub(super) fn report(&self) -> Report {
        Report {
            rewrites: self.figures.merged / self.figures.put,
            runs: self.figures.runs / self.figures.looks.max(1.0),
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
