//! Merges of the simulation: cut into steps by the code of the engine.

use std::collections::BTreeSet;
use std::rc::Rc;

use super::tables::{KEY_SPACE, Keys, SimulatedRun, Table, bytes_of, places, union};
use crate::compaction::steps::{Cut, StepSizes, StepTable, released, tables_over};
use crate::output::key_partitions::KeySpan;

/// A table that overlaps no other stays as it is with this share of the usual size.
const LEAST_LONE_SHARE: f64 = 8.0;

/// A merge under way.
#[derive(Debug)]
pub(super) struct Merge {
    /// Numbers of the runs, newest first.
    pub inputs: Vec<u64>,
    pub range: KeySpan,
    /// By bounded steps, as the engine merges into the oldest input.
    pub by_steps: bool,
    pub level: u32,
    pub bytes: f64,
    pub sizes: StepSizes,
    pub step: Step,
}

/// A step under way.
#[derive(Debug, Default)]
pub(super) struct Step {
    until: Option<Vec<u8>>,
    is_last: bool,
    /// Tables of the oldest input and of newer ones that go, by number.
    removed: Vec<u64>,
    added: Vec<Rc<Table>>,
    /// Bytes that it reads, that it has yet to read, and that it writes.
    pub bytes: f64,
    pub left: f64,
    pub output: f64,
}

impl Step {
    /// Bytes written so far.
    pub(super) fn written(&self) -> f64 {
        self.output * (1.0 - self.left / self.bytes.max(1.0))
    }
}

/// What steps have to know of the key space.
#[derive(Debug)]
pub(super) struct Ground<'w> {
    /// Keys of each class that there are; none where each put key is new.
    pub keys: &'w [f64],
    pub classes: usize,
    /// Tables end at multiples of this.
    pub slice_keys: u64,
    pub last_number: &'w mut u64,
}

impl Merge {
    /// The next step, from `from` on; `runs` are all of the database.
    pub(super) fn begin_step(
        &mut self,
        runs: &[SimulatedRun],
        from: Option<Vec<u8>>,
        ground: &mut Ground<'_>,
    ) {
        let range = KeySpan { from, until: self.range.until.clone() };
        let cut = if self.by_steps {
            Cut::first(self.tables(runs, &range), range, self.sizes.step_bytes)
        } else {
            Cut { runs: self.tables(runs, &range), range, rests: Vec::new() }
        };
        let lone = self.lone(&cut);
        let settled: BTreeSet<u64> = lone.iter().map(|(_, table)| table.number()).collect();
        let merged = KeySpan { from: self.range.from.clone(), until: cut.range.until.clone() };
        let newer = self.tables(runs, &merged);
        let (oldest, newer) = match (cut.runs.split_last(), newer.split_last()) {
            (Some((oldest, _)), Some((_, newer))) => (oldest, newer),
            _ => return,
        };
        let unsettled = |table: &&Rc<Table>| !settled.contains(&table.number());
        let mut removed = released(newer, &merged, &settled);
        removed.extend(oldest.iter().filter(unsettled).cloned());
        let moved = lone.iter().filter(|(run, _)| run + 1 < cut.runs.len());
        let moved: Vec<Rc<Table>> = moved.map(|(_, table)| Rc::clone(table)).collect();
        let removed = removed.iter().chain(&moved).map(StepTable::number).collect();
        let mut step = Step {
            is_last: !self.by_steps || cut.range.until == self.range.until,
            until: cut.range.until.clone(),
            removed,
            added: moved,
            ..Step::default()
        };
        let inputs: Vec<Vec<Rc<Table>>> = cut
            .runs
            .iter()
            .map(|tables| tables.iter().filter(unsettled).cloned().collect())
            .collect();
        step.write(&inputs, &cut.range, self.sizes.table_bytes, ground);
        for rest in &cut.rests {
            step.write(inputs.get(inputs.len() - 1..).unwrap_or_default(), rest, u64::MAX, ground);
        }
        step.left = step.bytes;
        self.step = step;
    }

    /// Makes known what the step has done. Whether it was the last, and where the next one begins
    /// otherwise.
    pub(super) fn end_step(&mut self, runs: &mut Vec<SimulatedRun>) -> Option<Option<Vec<u8>>> {
        let step = std::mem::take(&mut self.step);
        let oldest = self.inputs.last().copied();
        for run in runs.iter_mut().filter(|run| self.inputs.contains(&run.id)) {
            let is_oldest = Some(run.id) == oldest;
            run.exchange(&step.removed, if is_oldest { &step.added } else { &[] });
            if is_oldest {
                run.level = self.level;
            }
        }
        runs.retain(|run| Some(run.id) == oldest || !run.tables.is_empty());
        (!step.is_last).then_some(step.until)
    }

    /// Of each input, newest first, the tables that may hold a key of the range.
    fn tables(&self, runs: &[SimulatedRun], range: &KeySpan) -> Vec<Vec<Rc<Table>>> {
        let of_run = |id: &u64| {
            let run = runs.iter().find(|run| run.id == *id);
            run.map(|run| tables_over(&run.tables, range).to_vec()).unwrap_or_default()
        };
        self.inputs.iter().map(of_run).collect()
    }

    /// Tables that become part of the output as they are, with the place of their run.
    fn lone(&self, cut: &Cut<Rc<Table>>) -> Vec<(usize, Rc<Table>)> {
        let least = self.sizes.table_bytes as f64 / LEAST_LONE_SHARE;
        let (from, until) = places(&cut.range);
        let mut lone = Vec::new();
        for (at, tables) in cut.runs.iter().enumerate() {
            for table in tables {
                let within = table.from >= from && table.until <= until;
                let others = || {
                    let mut others = cut.runs.iter().enumerate().filter(|(other, _)| *other != at);
                    others.any(|(_, tables)| {
                        let next = tables.partition_point(|other| other.until <= table.from);
                        tables.get(next).is_some_and(|other| other.from < table.until)
                    })
                };
                if within && bytes_of(&table.keys) >= least && !others() {
                    lone.push((at, Rc::clone(table)));
                }
            }
        }
        lone
    }
}

impl Step {
    /// Reads what the inputs hold of the range, and writes tables of about so many bytes.
    fn write(
        &mut self,
        inputs: &[Vec<Rc<Table>>],
        range: &KeySpan,
        table_bytes: u64,
        ground: &mut Ground<'_>,
    ) {
        let (from, until) = places(range);
        let tables = || inputs.iter().flatten();
        let ends = tables().flat_map(|table| [table.from, table.until]);
        let slices = (0..=KEY_SPACE / ground.slice_keys).map(|slice| slice * ground.slice_keys);
        let within = |at: &u64| (from..=until).contains(at);
        let mut borders: Vec<u64> =
            ends.chain(slices).chain([from, until]).filter(within).collect();
        borders.sort_unstable();
        borders.dedup();
        let mut open = (0, vec![0.0; ground.classes]);
        let mut at = vec![0; inputs.len()];
        for pair in borders.windows(2) {
            let (begin, end) = (pair[0], pair[1]);
            let mut counts: Vec<Keys> = Vec::new();
            for (tables, at) in inputs.iter().zip(&mut at) {
                while tables.get(*at).is_some_and(|table| table.until <= begin) {
                    *at += 1;
                }
                if let Some(table) = tables.get(*at).filter(|table| table.from < end) {
                    let part = table.part(begin, end);
                    counts.push(table.keys.iter().map(|count| count * part).collect());
                }
            }
            let counts: Vec<&Keys> = counts.iter().collect();
            self.bytes += counts.iter().map(|keys| bytes_of(keys)).sum::<f64>();
            let width = (end - begin) as f64 / KEY_SPACE as f64;
            let all: Vec<f64> = ground.keys.iter().map(|keys| keys * width).collect();
            let keys = union(&counts, &all, ground.classes);
            let at_bound = begin % ground.slice_keys == 0;
            if at_bound || counts.is_empty() {
                self.end_table(&mut open, begin, ground);
            }
            if !counts.is_empty() {
                self.push(&mut open, (begin, end), &keys, table_bytes, ground);
            }
        }
        self.end_table(&mut open, until, ground);
    }

    /// Adds the keys of a segment to the table that begins at `open`, and ends that as often as it
    /// is full.
    fn push(
        &mut self,
        open: &mut (u64, Keys),
        (mut begin, end): (u64, u64),
        keys: &Keys,
        table_bytes: u64,
        ground: &mut Ground<'_>,
    ) {
        let mut left = keys.clone();
        while begin < end {
            let (has, more) = (bytes_of(&open.1), bytes_of(&left));
            if has == 0.0 {
                open.0 = begin;
            }
            let part = ((table_bytes as f64 - has) / more.max(1.0)).min(1.0);
            let width = ((end - begin) as f64 * part).ceil() as u64;
            for (open, left) in open.1.iter_mut().zip(&mut left) {
                *open += *left * part;
                *left *= 1.0 - part;
            }
            begin += width.max(1).min(end - begin);
            if part < 1.0 {
                self.end_table(open, begin, ground);
            }
        }
    }

    fn end_table(&mut self, open: &mut (u64, Keys), until: u64, ground: &mut Ground<'_>) {
        let keys = std::mem::replace(&mut open.1, vec![0.0; ground.classes]);
        if bytes_of(&keys) > 0.0 && until > open.0 {
            *ground.last_number += 1;
            self.output += bytes_of(&keys);
            self.added.push(Table::new(*ground.last_number, open.0, until, keys));
        }
    }
}
