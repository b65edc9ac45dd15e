//! The check of a scan that runs while others write.

use super::super::Dataset;
use super::super::check::show;
use crate::data::expect::{Generations, State};
use bench_compare::engine::Direction;

/// The committed states of the records that a scan meets first.
pub(super) struct ScanWindow<'a> {
    states: &'a [State],
    start: u64,
    direction: Direction,
}

impl<'a> ScanWindow<'a> {
    pub(super) fn take(
        states: &'a mut Vec<State>,
        table: &Generations,
        (start, reach): (u64, u64),
        direction: Direction,
        wanted: bool,
    ) -> Self {
        states.clear();
        if wanted {
            let there = match direction {
                Direction::Forward => table.count() - start,
                Direction::Reverse => start + 1,
            };
            let record = |step| match direction {
                Direction::Forward => start + step,
                Direction::Reverse => start - step,
            };
            states.extend((0..reach.min(there)).map(|step| table.before(record(step))));
        }
        Self { states, start, direction }
    }

    /// Steps from the start to a record, or `None` if it lies before the start.
    fn step_of(&self, record: u64) -> Option<u64> {
        match self.direction {
            Direction::Forward => record.checked_sub(self.start),
            Direction::Reverse => self.start.checked_sub(record),
        }
    }

    fn record(&self, step: u64) -> u64 {
        match self.direction {
            Direction::Forward => self.start + step,
            Direction::Reverse => self.start - step,
        }
    }
}

/// Checks the rows of one scan while others write.
pub(super) struct ScanCheck<'a> {
    pub(super) dataset: &'a Dataset,
    pub(super) table: &'a Generations,
    pub(super) window: ScanWindow<'a>,
    /// Step of the record that may come next.
    pub(super) expected: u64,
    pub(super) seen: u64,
    pub(super) problem: Option<String>,
}

impl ScanCheck<'_> {
    pub(super) fn row(&mut self, key: &[u8], value: &[u8]) {
        let record = self.dataset.keys.decode(key);
        let step = record.and_then(|record| self.window.step_of(record));
        let (Some(record), Some(step)) = (record, step) else {
            self.report(|| format!("scan: {} does not belong here", show(key)));
            return;
        };
        if step < self.expected {
            self.report(|| format!("scan: {} is out of order", show(key)));
            return;
        }
        self.skip_to(step);
        let generation = self.dataset.values.check_header(record, value);
        let before = self.window.states.get(step as usize).copied();
        let right = match before {
            Some(before) => generation.is_some() && self.table.allows(record, before, generation),
            None => generation.is_some(),
        };
        if !right {
            self.report(|| format!("scan: {} has generation {generation:?}", show(key)));
        }
        self.expected = step + 1;
    }

    /// Everything between the last row and this one must have been absent, or may have been
    /// removed.
    fn skip_to(&mut self, step: u64) {
        for skipped in self.expected..step.min(self.window.states.len() as u64) {
            let (before, record) =
                (self.window.states[skipped as usize], self.window.record(skipped));
            if !self.table.allows(record, before, None) {
                self.report(|| format!("scan: record {record} is missing"));
                return;
            }
        }
    }

    /// The scan ended before it had all rows: nothing may be left in the window.
    pub(super) fn end(&mut self) {
        self.skip_to(u64::MAX);
    }

    fn report(&mut self, describe: impl FnOnce() -> String) {
        if self.problem.is_none() {
            self.problem = Some(describe());
        }
    }
}
