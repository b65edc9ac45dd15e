//! Value logs: which there are, what points into them, and which of them compactions empty.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::tables::{Entry, Run, Table};
use crate::version::full_value_log_bytes;

/// Values that a compaction moves at least, and the part of a write buffer below which value logs
/// are joined, if they are so many; as in the engine.
const VALUES_PER_COMPACTION: f64 = (64_u64 << 20) as f64;
const SMALL_PART: usize = 16;
const LEAST_JOINED: usize = 8;

#[derive(Clone, Copy, Debug, Default)]
struct Wal {
    bytes: f64,
    /// Entries of the sample that it was written for, and that tables point at.
    entries: u32,
    references: u32,
    /// Nothing is appended to it any more.
    is_full: bool,
    is_gone: bool,
}

impl Wal {
    /// More than half is garbage, but not all.
    fn is_mostly_dead(&self) -> bool {
        self.is_full && self.references > 0 && self.references * 2 < self.entries
    }
}

/// The value logs of a database.
#[derive(Debug)]
pub(super) struct ValueLogs {
    /// Bytes of a value of the sample; 0 where values lie in tables.
    value_bytes: f64,
    /// By number, from 1 on.
    logs: Vec<Wal>,
    /// Bytes of those that are there.
    pub bytes: f64,
    /// How many values tables point at.
    referenced: u64,
    pub mostly_dead: BTreeSet<u32>,
}

impl ValueLogs {
    pub(super) fn new(value_bytes: f64) -> Self {
        let none = Wal { is_full: true, is_gone: true, ..Wal::default() };
        let (logs, mostly_dead) = (vec![none], BTreeSet::new());
        Self { value_bytes, logs, bytes: 0.0, referenced: 0, mostly_dead }
    }

    /// The number of the one that values go to now. The engine has one for each thread.
    pub(super) fn growing(&self) -> u32 {
        let last = self.logs.last().is_some_and(|log| !log.is_full);
        self.logs.len() as u32 - u32::from(last)
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.logs.iter().filter(|log| log.references > 0).count()
    }

    /// Moves the values of some entries to one, if values do not lie in tables.
    pub(super) fn separate(&mut self, entries: &mut [Entry], write_buffer: usize) {
        if self.value_bytes > 0.0 {
            let (log, bytes) = (self.growing(), entries.len() as f64 * self.value_bytes);
            entries.iter_mut().for_each(|entry| entry.log = log);
            self.append(bytes, write_buffer);
            self.bytes += bytes;
        }
    }

    /// Appends to the present one, or begins another. The bytes count when they are there.
    pub(super) fn append(&mut self, bytes: f64, write_buffer: usize) {
        if bytes <= 0.0 {
            return;
        }
        let number = self.growing();
        if number as usize == self.logs.len() {
            self.logs.push(Wal::default());
        }
        // While what is there at first is made, no table points at it.
        let values = match self.referenced {
            0 => self.bytes,
            referenced => referenced as f64 * self.value_bytes,
        };
        let full_bytes = full_value_log_bytes(values as u64, write_buffer as u64);
        let Some(log) = self.logs.last_mut() else { return };
        log.entries += (bytes / self.value_bytes).round() as u32;
        log.bytes += bytes;
        log.is_full = log.bytes >= full_bytes as f64;
        if log.is_mostly_dead() {
            self.mostly_dead.insert(number);
        }
    }

    /// Notes that tables point into value logs, or do no longer. A log that no table points into
    /// goes.
    pub(super) fn refer(&mut self, tables: &[Rc<Table>], sign: i32) {
        if self.value_bytes == 0.0 {
            return;
        }
        for entry in tables.iter().flat_map(|table| &table.entries) {
            let Some(log) = self.logs.get_mut(entry.log as usize) else { continue };
            self.referenced = self.referenced.saturating_add_signed(i64::from(sign));
            let was_dead = log.is_mostly_dead();
            log.references = log.references.saturating_add_signed(sign);
            let is_gone = log.is_full && log.references == 0;
            match (log.is_gone, is_gone) {
                (false, true) => self.bytes -= log.bytes,
                (true, false) => self.bytes += log.bytes,
                _ => {}
            }
            log.is_gone = is_gone;
            match (was_dead, log.is_mostly_dead()) {
                (false, true) => self.mostly_dead.insert(entry.log),
                (true, false) => self.mostly_dead.remove(&entry.log),
                _ => continue,
            };
        }
    }

    fn references(&self, log: u32) -> u32 {
        self.logs.get(log as usize).map_or(0, |log| log.references)
    }

    /// Garbage in those that are mostly garbage, by number of the oldest run that points into each.
    pub(super) fn dead_bytes(&self, runs: &[Run]) -> BTreeMap<u64, u64> {
        let mut bytes = BTreeMap::new();
        for log in &self.mostly_dead {
            let oldest = runs.iter().rfind(|run| run.references.contains_key(log));
            let dead = self.logs.get(*log as usize).map_or(0, |log| log.entries - log.references);
            if let Some(run) = oldest {
                *bytes.entry(run.id).or_default() += (f64::from(dead) * self.value_bytes) as u64;
            }
        }
        bytes
    }

    /// Those whose values a compaction of some tables writes anew: the deadest into which no older
    /// run points, and small ones.
    pub(super) fn emptied(
        &self,
        older: &[Run],
        tables: &[Vec<Rc<Table>>],
        bytes: f64,
        write_buffer: usize,
    ) -> BTreeSet<u32> {
        let by_references = |log: &u32| (self.references(*log), *log);
        let within = |log: &&u32| !older.iter().any(|run| run.references.contains_key(*log));
        let dead = self.mostly_dead.iter().filter(within);
        let mut dead: Vec<_> = dead.map(by_references).collect();
        dead.sort_unstable();
        let (most, mut before) = (bytes.max(VALUES_PER_COMPACTION) / self.value_bytes, 0);
        let chosen = dead.into_iter().take_while(|(live, _)| {
            before += live;
            before == *live || f64::from(before) <= most
        });
        let mut emptied: BTreeSet<u32> = chosen.map(|(_, log)| log).collect();
        let most_bytes = (write_buffer / SMALL_PART) as f64;
        let is_small = |log: &Wal| log.is_full && log.references > 0 && log.bytes <= most_bytes;
        if self.logs.iter().filter(|log| is_small(log)).count() < LEAST_JOINED {
            return emptied;
        }
        let entries = tables.iter().flatten().flat_map(|table| &table.entries);
        let mut logs: Vec<u32> = entries.map(|entry| entry.log).collect();
        logs.sort_unstable();
        let own = |logs: &[u32]| {
            let log = logs.first().filter(|log| self.references(**log) as usize == logs.len())?;
            self.logs.get(*log as usize).filter(|log| is_small(log)).map(|_| *log)
        };
        let small: Vec<u32> = logs.chunk_by(|a, b| a == b).filter_map(own).collect();
        if small.len() >= LEAST_JOINED {
            emptied.extend(small);
        }
        emptied
    }
}
