//! Repeats the lines of a trace and checks every result against a model.
//!
//! The model holds version and size of every live key, so the bytes of each value are known. With
//! several threads each has the lines of its own share of the keys and a model of its own; batches
//! and scans touch keys of several shares, so traces that contain them are replayed on one thread.

use super::format::{Change, Line};
use crate::data::random::mix;
use crate::data::values::Values;
use crate::measure::series::Kind;
use crate::workload::check::show;
use crate::workload::{Tally, Worker};
use bench_compare::engine::{Direction, Engine, Op, ScanRequest, SessionMode};
use std::collections::BTreeMap;
use std::ops::Bound;

/// Rows that come next: key, then version and size.
type Ahead<'a> = Box<dyn Iterator<Item = (&'a Vec<u8>, &'a (u64, u32))> + 'a>;

/// Version and size of each live key.
pub(crate) type Model = BTreeMap<Vec<u8>, (u64, u32)>;

fn hash(key: &[u8]) -> u64 {
    key.chunks(8).fold(key.len() as u64, |state, part| {
        let number = part.iter().fold(0_u64, |number, byte| (number << 8) | u64::from(*byte));
        mix(state ^ number)
    })
}

/// Why a trace cannot be replayed on this many threads.
fn obstacle(lines: &[Line], threads: u64) -> Option<String> {
    let shared = |line: &Line| match line {
        Line::Write(changes) => changes.len() > 1,
        Line::Scan { .. } => true,
        Line::Get(_) => false,
    };
    (threads > 1 && lines.iter().any(shared))
        .then(|| "a trace with batches or scans can be replayed on one thread only".to_owned())
}

/// The lines of one thread, repeated and checked; returns what must be there at the end.
pub(crate) fn replay(
    lines: &[Line],
    values: &Values,
    (threads, checks): (u64, bool),
    worker: &mut Worker<'_, '_>,
) -> Result<Model, String> {
    if let Some(problem) = obstacle(lines, threads) {
        return Err(problem);
    }
    let mut player =
        Player { values, checks, model: Model::new(), version: 0, scratch: Vec::new() };
    for line in lines {
        let key = match line {
            Line::Write(changes) => changes.first().map(Change::key).unwrap_or_default(),
            Line::Get(key) => key,
            Line::Scan { .. } => &[],
        };
        if threads > 1 && hash(key) % threads != worker.thread {
            continue;
        }
        let go_on = match line {
            Line::Write(changes) => player.write(changes, worker)?,
            Line::Get(key) => player.get(key, worker)?,
            Line::Scan { start, rows, reverse } => {
                player.scan(start.as_deref(), *rows, *reverse, worker)?
            }
        };
        worker.done += 1;
        if !go_on {
            break;
        }
    }
    Ok(player.model)
}

struct Player<'a> {
    values: &'a Values,
    checks: bool,
    model: Model,
    version: u64,
    scratch: Vec<u8>,
}

impl Player<'_> {
    fn write(&mut self, changes: &[Change], worker: &mut Worker<'_, '_>) -> Result<bool, String> {
        let first = self.version;
        self.scratch.clear();
        for change in changes {
            if let Change::Put(key, size) = change {
                self.values.free_form(hash(key), self.version, *size as usize, &mut self.scratch);
            }
            self.version += 1;
        }
        let mut rest = self.scratch.as_slice();
        let ops: Vec<Op<'_>> = changes
            .iter()
            .map(|change| match change {
                Change::Put(key, size) => {
                    let (value, after) = rest.split_at(*size as usize);
                    rest = after;
                    Op::Put { key, value }
                }
                Change::Delete(key) => Op::Delete { key },
            })
            .collect();
        let deletes = matches!(changes, [Change::Delete(_)]);
        worker.recorder.begin();
        worker.session.write_batch(&ops).map_err(|error| format!("write: {error}"))?;
        let kind = if deletes { Kind::Delete } else { Kind::Put };
        let go_on = worker.recorder.end(kind, changes.len() as u64);
        worker.tally.commits += 1;
        for (change, version) in changes.iter().zip(first..) {
            worker.tally.user_bytes += change.key().len() as u64;
            match change {
                Change::Put(key, size) => {
                    worker.tally.user_bytes += u64::from(*size);
                    self.model.insert(key.clone(), (version, *size));
                }
                Change::Delete(key) => {
                    self.model.remove(key);
                }
            }
        }
        Ok(go_on)
    }

    fn get(&mut self, key: &[u8], worker: &mut Worker<'_, '_>) -> Result<bool, String> {
        let expected = self.model.get(key).copied();
        let (values, scratch) = (self.values, &mut self.scratch);
        let mut right = false;
        worker.recorder.begin();
        let found = worker
            .session
            .get(key, &mut |value| right = is_right(values, key, expected, value, scratch))
            .map_err(|error| format!("get: {error}"))?;
        let go_on = worker.recorder.end(Kind::Get, 1);
        worker.tally.not_found += u64::from(!found);
        let as_expected = if expected.is_some() { found && right } else { !found };
        if self.checks && !as_expected {
            worker.tally.wrong(|| format!("get {}: found {found}, right {right}", show(key)));
        }
        Ok(go_on)
    }

    fn scan(
        &mut self,
        start: Option<&[u8]>,
        rows: u64,
        reverse: bool,
        worker: &mut Worker<'_, '_>,
    ) -> Result<bool, String> {
        let bound = start.map_or(Bound::Unbounded, Bound::Included);
        let direction = if reverse { Direction::Reverse } else { Direction::Forward };
        let mut ahead: Ahead<'_> = if reverse {
            Box::new(self.model.range::<[u8], _>((Bound::Unbounded, bound)).rev())
        } else {
            Box::new(self.model.range::<[u8], _>((bound, Bound::Unbounded)))
        };
        let (values, scratch) = (self.values, &mut self.scratch);
        let mut problem = None;
        let mut seen = 0;
        worker.recorder.begin();
        worker
            .session
            .scan(ScanRequest { start, direction }, &mut |key, value| {
                let right = ahead.next().is_some_and(|(wanted, state)| {
                    wanted == key && is_right(values, key, Some(*state), value, scratch)
                });
                if !right && problem.is_none() {
                    problem = Some(format!("scan: {} does not belong here", show(key)));
                }
                seen += 1;
                seen < rows
            })
            .map_err(|error| format!("scan: {error}"))?;
        let go_on = worker.recorder.end(Kind::Scan, 1);
        if seen < rows && ahead.next().is_some() {
            problem.get_or_insert_with(|| format!("scan: ended after {seen} rows"));
        }
        worker.tally.rows += seen;
        if let Some(problem) = problem.filter(|_| self.checks) {
            worker.tally.wrong(|| problem);
        }
        Ok(go_on)
    }
}

fn is_right(
    values: &Values,
    key: &[u8],
    expected: Option<(u64, u32)>,
    value: &[u8],
    scratch: &mut Vec<u8>,
) -> bool {
    expected.is_some_and(|(version, size)| {
        scratch.clear();
        values.free_form(hash(key), version, size as usize, scratch);
        value == scratch.as_slice()
    })
}

/// Scans everything and compares it with the models of all threads; returns the rows seen.
pub(crate) fn verify_model(
    engine: &dyn Engine,
    values: &Values,
    models: &[Model],
    tally: &mut Tally,
) -> Result<u64, String> {
    let all: Model = models.iter().flatten().map(|(key, state)| (key.clone(), *state)).collect();
    let mut session = engine.session(SessionMode::ReadOnly).map_err(|error| error.to_string())?;
    let mut ahead = all.iter();
    let mut scratch = Vec::new();
    let mut visible = 0;
    let request = ScanRequest { start: None, direction: Direction::Forward };
    let scanned = session.scan(request, &mut |key, value| {
        visible += 1;
        let right = ahead.next().is_some_and(|(wanted, state)| {
            wanted == key && is_right(values, key, Some(*state), value, &mut scratch)
        });
        if !right {
            tally.wrong(|| format!("after: {} is wrong or out of place", show(key)));
        }
        right
    });
    scanned.map_err(|error| error.to_string())?;
    if visible != all.len() as u64 {
        tally.wrong(|| format!("after: {visible} rows visible, {} expected", all.len()));
    }
    Ok(visible)
}
