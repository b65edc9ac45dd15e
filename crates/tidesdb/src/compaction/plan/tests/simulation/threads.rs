//! Threads that merge: which compactions begin, and how far they come.

use std::rc::Rc;

use super::merging::{Merge, Step};
use super::policies::{Choice, Policy};
use super::report::Measures;
use super::tables::Table;
use super::world::World;
use crate::compaction::step_bounds::{StepSizes, StepTable, bytes_within, tables_over};

const THREADS: usize = 2;

impl World {
    /// Bytes of a compaction that could begin at once, by interrupting a larger one if all threads
    /// are busy.
    fn most_now(&self) -> u64 {
        let largest = self.merges.iter().map(|merge| merge.bytes).max().unwrap_or(0);
        if self.merges.len() < THREADS { u64::MAX } else { largest / 2 }
    }

    fn begin_compactions(&mut self, policy: &dyn Policy) {
        while !self.settled {
            self.estimate.renew(&self.runs, &self.rules());
            if self.estimate.is_new {
                self.renew_slices();
                self.dead_values = self.logs.dead_bytes(&self.runs);
            }
            if self.estimate.is_new && self.merges.is_empty() {
                self.remove(&policy.expired(self));
            }
            match policy.choose(self, self.most_now()) {
                Some(choice) => self.begin(choice),
                None => self.settled = true,
            }
        }
    }

    /// Removes whole tables.
    fn remove(&mut self, tables: &[Rc<Table>]) {
        if tables.is_empty() {
            return;
        }
        self.runs.iter_mut().for_each(|run| run.exchange(tables, &[]));
        self.runs.retain(|run| !run.tables.is_empty());
        self.logs.refer(tables, -1);
    }

    /// Compactions go on for so many seconds.
    pub(super) fn compact_for(&mut self, mut seconds: f64, policy: &dyn Policy) {
        while seconds > 0.0 {
            self.begin_compactions(policy);
            // The last begun were let in before the others. One alone has the help of all threads.
            let busy = self.merges.len().min(THREADS);
            let at_work = self.merges.iter_mut().rev().take(THREADS);
            let Some(least) = at_work.map(|merge| merge.step.left).reduce(f64::min) else {
                self.now += seconds;
                return;
            };
            let rate = self.load.merge_rate * THREADS as f64 / busy as f64;
            let each = least.min(seconds * rate).max(1.0);
            self.merges.iter_mut().rev().take(THREADS).for_each(|merge| merge.step.left -= each);
            seconds -= each / rate;
            self.now += each / rate;
            Measures::note_space(self);
            while let Some(at) = self.merges.iter().position(|merge| merge.step.left < 1.0) {
                self.end_step(at);
            }
        }
    }

    fn begin(&mut self, choice: Choice) {
        let range = if choice.by_slices { self.worst_slice() } else { choice.range };
        let inputs = self.runs.get(choice.first..choice.first + choice.count).unwrap_or_default();
        let tables: Vec<Vec<Rc<Table>>> =
            inputs.iter().map(|run| tables_over(&run.tables, &range).to_vec()).collect();
        let bytes = match &choice.only {
            Some(table) => table.bytes(),
            None => bytes_within(&tables, &range),
        };
        let older = self.runs.get(choice.first + choice.count..).unwrap_or_default();
        let merge = Merge {
            inputs: inputs.iter().map(|run| run.id).collect(),
            only: choice.only,
            by_steps: choice.by_steps,
            level: choice.level,
            bottom: choice.first + choice.count == self.runs.len(),
            bytes,
            sizes: match choice.by_steps {
                true => StepSizes::of(bytes, self.options.target_table_bytes, THREADS),
                false => {
                    StepSizes { table_bytes: self.options.target_table_bytes, step_bytes: u64::MAX }
                }
            },
            emptied: self.logs.emptied(
                older,
                &tables,
                bytes as f64,
                self.options.write_buffer_size,
            ),
            step: Step::default(),
            range,
        };
        let from = merge.range.from.clone();
        self.merges.push(merge);
        self.begin_step(self.merges.len() - 1, from);
    }

    fn begin_step(&mut self, at: usize, from: Option<Vec<u8>>) {
        let mut merges = std::mem::take(&mut self.merges);
        if let Some(merge) = merges.get_mut(at) {
            merge.begin_step(from, &mut self.ground());
            self.logs.append(merge.step.values, self.options.write_buffer_size);
            self.measures.note_step(merge.step.bytes);
        }
        self.merges = merges;
    }

    fn end_step(&mut self, at: usize) {
        let Some(merge) = self.merges.get_mut(at) else { return };
        let (step, next) = merge.end_step(&mut self.runs);
        self.logs.bytes += step.values;
        self.logs.refer(&step.added, 1);
        self.logs.refer(&step.removed, -1);
        self.measures.end_step(&step, self.now);
        self.estimate.change(step.bytes);
        match next {
            Some(from) => self.begin_step(at, from),
            None => drop(self.merges.remove(at)),
        }
        self.settled = false;
    }

    /// What no step has finished is lost.
    pub(super) fn restart(&mut self) {
        for merge in std::mem::take(&mut self.merges) {
            self.measures.merged += merge.step.written();
        }
        self.slices.clear();
        self.settled = false;
    }
}
