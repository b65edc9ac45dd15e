//! Compactions of the simulation: cut into steps, and told what to drop, by the code of the engine.

use std::collections::BTreeSet;
use std::rc::Rc;

use tidesdb_base::ValueKind;

use super::tables::{Entry, Run, Table, Weights, places};
use crate::compaction::step_bounds::{Cut, StepSizes, StepTable, holds, released, tables_over};
use crate::output::drop_rules::{DropRules, Verdict};
use crate::output::key_partitions::KeySpan;

/// A table that overlaps no other stays as it is with this share of the usual size.
const LEAST_LONE_SHARE: u64 = 8;
/// Of each run, tables of so many steps are looked at to cut the next one, and at least so many.
const STEPS_AHEAD: u64 = 8;
const TABLES_AHEAD: usize = 16;

/// A compaction under way.
#[derive(Debug)]
pub(super) struct Merge {
    /// Numbers of the runs, newest first.
    pub inputs: Vec<u64>,
    /// Of the first of them, only this table and what shares keys with it.
    pub only: Option<Rc<Table>>,
    pub range: KeySpan,
    /// By bounded steps, as the engine merges into the oldest input.
    pub by_steps: bool,
    pub level: u32,
    /// Nothing older lies below the inputs.
    pub bottom: bool,
    pub bytes: u64,
    pub sizes: StepSizes,
    /// Value logs whose values are written anew.
    pub emptied: BTreeSet<u32>,
    pub step: Step,
}

/// A step under way.
#[derive(Debug, Default)]
pub(super) struct Step {
    until: Option<Vec<u8>>,
    is_last: bool,
    pub removed: Vec<Rc<Table>>,
    pub added: Vec<Rc<Table>>,
    /// When it began.
    pub begun: f64,
    /// Bytes that it reads, that it has yet to read, and that it writes.
    pub bytes: f64,
    pub left: f64,
    pub output: f64,
    /// Bytes of the values that it writes to a new value log.
    pub values: f64,
}

impl Step {
    /// Bytes written so far.
    pub(super) fn written(&self) -> f64 {
        self.output * (1.0 - self.left / self.bytes.max(1.0))
    }
}

/// What steps have to know of the database.
#[derive(Debug)]
pub(super) struct Ground<'w> {
    pub runs: &'w [Run],
    pub weights: Weights,
    pub snapshot: Option<u32>,
    pub now: f64,
    /// Tables end before these keys.
    pub slices: &'w [u64],
    /// Number of the last table.
    pub last_number: &'w mut u64,
    /// Number of the value log that a step writes.
    pub new_log: u32,
}

impl Ground<'_> {
    fn drop_rules(&self, bottom: bool) -> DropRules {
        let snapshots = self.snapshot.into_iter().map(u64::from).collect();
        DropRules::new(snapshots, bottom, self.now as u64)
    }
}

impl Merge {
    /// The next step, from `from` on.
    pub(super) fn begin_step(&mut self, from: Option<Vec<u8>>, ground: &mut Ground<'_>) {
        let range = KeySpan { from, until: self.range.until.clone() };
        let cut = if self.by_steps {
            let near = self.tables(ground.runs, &range, self.sizes.step_bytes * STEPS_AHEAD);
            Cut::first(near, range, self.sizes.step_bytes)
        } else {
            Cut { runs: self.tables(ground.runs, &range, u64::MAX), range, rests: Vec::new() }
        };
        let lone = self.lone(&cut, ground);
        let settled: BTreeSet<u64> = lone.iter().map(|(_, table)| table.number()).collect();
        let merged = KeySpan { from: self.range.from.clone(), until: cut.range.until.clone() };
        let Some((oldest, (_, newer))) = cut.runs.last().zip(self.inputs.split_last()) else {
            return;
        };
        let newer = self.tables_of(newer, ground.runs, &merged, u64::MAX);
        let unsettled = |table: &&Rc<Table>| !settled.contains(&table.number());
        let mut removed = released(&newer, &merged, &settled);
        removed.extend(oldest.iter().filter(unsettled).cloned());
        let moved = lone.iter().filter(|(run, _)| run + 1 < cut.runs.len());
        let moved: Vec<Rc<Table>> = moved.map(|(_, table)| Rc::clone(table)).collect();
        removed.extend(moved.iter().cloned());
        let mut step = Step {
            is_last: !self.by_steps || cut.range.until == self.range.until,
            until: cut.range.until.clone(),
            begun: ground.now,
            removed,
            added: moved,
            ..Step::default()
        };
        let inputs: Vec<Vec<Rc<Table>>> = cut
            .runs
            .iter()
            .map(|tables| tables.iter().filter(unsettled).cloned().collect())
            .collect();
        // No table reaches over one that stays.
        let lone = lone.iter().flat_map(|(_, table)| [Some(table.from), table.last.checked_add(1)]);
        let mut bounds: Vec<u64> = ground.slices.iter().copied().chain(lone.flatten()).collect();
        bounds.sort_unstable();
        self.write(&mut step, &inputs, (&cut.range, &bounds), ground);
        let oldest = inputs.get(inputs.len() - 1..).unwrap_or_default();
        for rest in &cut.rests {
            self.write(&mut step, oldest, (rest, &bounds), ground);
        }
        step.left = step.bytes;
        self.step = step;
    }

    /// Makes known what the step has done. Answers it, and where the next one begins.
    pub(super) fn end_step(&mut self, runs: &mut Vec<Run>) -> (Step, Option<Option<Vec<u8>>>) {
        let step = std::mem::take(&mut self.step);
        let oldest = self.inputs.last().copied();
        for run in runs.iter_mut().filter(|run| self.inputs.contains(&run.id)) {
            let is_oldest = Some(run.id) == oldest;
            run.exchange(&step.removed, if is_oldest { &step.added } else { &[] });
            if is_oldest {
                run.level = self.level;
            }
        }
        runs.retain(|run| !run.tables.is_empty() || (Some(run.id) == oldest && !step.is_last));
        let next = (!step.is_last).then(|| step.until.clone());
        (step, next)
    }

    /// Of each input, newest first, the tables that may hold a key of the range, from its beginning
    /// on and not much more than so many bytes.
    fn tables(&self, runs: &[Run], range: &KeySpan, most: u64) -> Vec<Vec<Rc<Table>>> {
        self.tables_of(&self.inputs, runs, range, most)
    }

    fn tables_of(
        &self,
        inputs: &[u64],
        runs: &[Run],
        range: &KeySpan,
        most: u64,
    ) -> Vec<Vec<Rc<Table>>> {
        let of_run = |(at, id): (usize, &u64)| {
            let Some(run) = runs.iter().find(|run| run.id == *id) else { return Vec::new() };
            let tables = match &self.only {
                Some(table) if at == 0 => return vec![Rc::clone(table)],
                Some(table) => {
                    let begin = run.tables.partition_point(|other| other.last < table.from);
                    let end = run.tables.partition_point(|other| other.from <= table.last);
                    run.tables.get(begin..end).unwrap_or_default()
                }
                None => tables_over(&run.tables, range),
            };
            let mut bytes = 0;
            let near = tables.iter().enumerate().take_while(|(at, table)| {
                let is_near = bytes < most || *at < TABLES_AHEAD;
                bytes += table.bytes();
                is_near
            });
            near.map(|(_, table)| Rc::clone(table)).collect()
        };
        inputs.iter().enumerate().map(of_run).collect()
    }

    /// Tables that become part of the output as they are, with the place of their run.
    fn lone(&self, cut: &Cut<Rc<Table>>, ground: &Ground<'_>) -> Vec<(usize, Rc<Table>)> {
        let mut lone = Vec::new();
        let tables = cut
            .runs
            .iter()
            .enumerate()
            .flat_map(|(at, tables)| tables.iter().map(move |table| (at, table)));
        for (at, table) in tables {
            let mut others = cut.runs.iter().enumerate().filter(|(other, _)| *other != at);
            let overlaps = others.any(|(_, tables)| {
                let next = tables.partition_point(|other| other.last < table.from);
                tables.get(next).is_some_and(|other| other.from <= table.last)
            });
            let is_large = table.bytes() >= self.sizes.table_bytes / LEAST_LONE_SHARE;
            if !overlaps && is_large && holds(&cut.range, table) && self.may_stay(table, ground) {
                lone.push((at, Rc::clone(table)));
            }
        }
        lone
    }

    /// Whether nothing of a table could be dropped, and no value of it be moved.
    fn may_stay(&self, table: &Table, ground: &Ground<'_>) -> bool {
        let is_moved = |entry: &Entry| self.emptied.contains(&entry.log);
        let has_expired = table.first_expiry().is_some_and(|first| first as f64 <= ground.now);
        let keys = table.entries.windows(2).all(|two| two[0].id != two[1].id);
        keys && !has_expired
            && !(self.bottom && table.deletions)
            && (self.emptied.is_empty() || !table.entries.iter().any(is_moved))
    }

    /// Reads what the inputs hold of the range, and writes what stays of it.
    fn write(
        &self,
        step: &mut Step,
        inputs: &[Vec<Rc<Table>>],
        (range, bounds): (&KeySpan, &[u64]),
        ground: &mut Ground<'_>,
    ) {
        let (from, until) = places(range);
        let tables = || inputs.iter().flatten();
        let parts = tables().map(|table| table.within((from, until)));
        let mut entries: Vec<Entry> = parts.flatten().copied().collect();
        let Some(begin) = tables().map(|table| table.from).min() else { return };
        let end = tables().map(|table| table.last).max().unwrap_or(begin);
        let end = end.min(until.map_or(u64::MAX, |until| until.saturating_sub(1)));
        let weights = ground.weights;
        step.bytes += entries.iter().map(|entry| weights.of(entry)).sum::<f64>();
        entries.sort_unstable_by_key(|entry| (entry.key, u32::MAX - entry.sequence));
        let mut rules = ground.drop_rules(self.bottom);
        let (mut last, mut moved) = (None, 0.0);
        entries.retain_mut(|entry| {
            if last != Some(entry.key) {
                rules.next_key(&[]);
                last = Some(entry.key);
            }
            let kind = if entry.is_deletion { ValueKind::Tombstone } else { ValueKind::Value };
            let verdict = rules.judge(u64::from(entry.sequence), kind, u64::from(entry.expires));
            let Verdict::Keep(sequence) = verdict else { return false };
            entry.sequence = sequence as u32;
            if self.emptied.contains(&entry.log) {
                entry.log = ground.new_log;
                moved += weights.value;
            }
            true
        });
        step.bytes += moved;
        step.values += moved;
        step.output += moved;
        let keys = Some((begin.max(from), end));
        let added = ground.tables_of(entries, keys, bounds, self.sizes.table_bytes);
        step.output += added.iter().map(|table| table.bytes() as f64).sum::<f64>();
        step.added.extend(added);
    }
}

impl Ground<'_> {
    /// Cuts entries into tables of about so many bytes that end before each of some bounds. What
    /// they stand for lies among them; with `keys`, everywhere between these two.
    pub(super) fn tables_of(
        &mut self,
        entries: Vec<Entry>,
        keys: Option<(u64, u64)>,
        bounds: &[u64],
        table_bytes: u64,
    ) -> Vec<Rc<Table>> {
        let weights = self.weights;
        let part_of = |key: u64| bounds.partition_point(|bound| *bound <= key);
        let mut tables: Vec<Vec<Entry>> = Vec::new();
        let (mut bytes, mut part) = (0.0, usize::MAX);
        for entry in entries {
            let same_key = |table: &Vec<Entry>| table.last().is_some_and(|e| e.key == entry.key);
            let is_full = bytes >= table_bytes as f64 && !tables.last().is_some_and(same_key);
            if part_of(entry.key) != part || is_full {
                tables.push(Vec::new());
                (bytes, part) = (0.0, part_of(entry.key));
            }
            bytes += weights.of(&entry);
            tables.last_mut().into_iter().for_each(|table| table.push(entry));
        }
        let ends = |table: &Vec<Entry>| Some((table.first()?.key, table.last()?.key));
        let mut ends: Vec<(u64, u64)> = tables.iter().filter_map(ends).collect();
        if let Some((begin, end)) = keys {
            let mut behind: Option<u64> = None;
            for at in 0..ends.len() {
                let part = ends.get(at).map_or(0, |(first, _)| part_of(*first));
                let of_part = part.checked_sub(1).and_then(|part| bounds.get(part)).copied();
                let until = bounds.get(part).map_or(end, |bound| end.min(bound - 1));
                let next = ends.get(at + 1).map_or(until, |(first, _)| until.min(first - 1));
                if let Some((first, last)) = ends.get_mut(at) {
                    let from = begin.max(of_part.unwrap_or(0)).max(behind.unwrap_or(0));
                    (*first, *last) = (from.min(*first), next.max(*last));
                    behind = last.checked_add(1);
                }
            }
        }
        let made = tables.into_iter().zip(ends).map(|(entries, ends)| {
            *self.last_number += 1;
            Table::new(*self.last_number, ends, entries, &weights)
        });
        made.collect()
    }
}
