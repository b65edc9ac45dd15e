//! A reference engine in memory, and its deliberately broken variants.
//!
//! The sound variant is a set of ordered maps (one per family) behind a lock, with optimistic
//! transactions that compare versions at commit. The broken ones commit one classic sin each
//! ([`Fault`]), so that the tests of the benchmark can show that its checks catch them. They are
//! not listed among the engines to compare; they lose their contents when closed, so every
//! workload on them loads its data in the same process.

use crate::engine::{
    Capabilities, Commit, Direction, Engine, EngineError, EngineStats, Isolation, Op, Result,
    RowVisitor, ScanRequest, Session, SessionMode, ValueVisitor,
};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::RwLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// How the engine misbehaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Not at all.
    None,
    /// Silently drops one write in 10,000.
    DropsWrites,
    /// Ignores one overwrite in 100, so that reads return the value before it.
    StaleValues,
    /// Accepts deletes without doing anything.
    IgnoresDeletes,
    /// A scan starts one row too late.
    LateSeek,
    /// Transactions never conflict, and one read in 100 of them sees the value before the last one,
    /// as if it had begun before that was written: the update in between gets lost.
    LosesUpdates,
    /// Expired keys stay visible.
    NeverExpires,
}

/// A value, when it vanishes (Unix seconds), and the commit that wrote it.
#[derive(Debug, Clone)]
struct Row {
    value: Vec<u8>,
    expires: u64,
    version: u64,
    /// The value before, for the fault that returns it.
    before: Option<Vec<u8>>,
}

type Map = BTreeMap<Vec<u8>, Row>;

#[derive(Debug, Default)]
struct State {
    families: BTreeMap<u32, Map>,
    version: u64,
}

/// The engine.
#[derive(Debug)]
pub struct MemoryEngine {
    state: RwLock<State>,
    fault: Fault,
    operations: AtomicU64,
}

impl MemoryEngine {
    /// An empty engine with families `0..=families`.
    pub fn new(fault: Fault, families: u32) -> Self {
        let families = (0..=families).map(|number| (number, Map::new())).collect();
        let state = RwLock::new(State { families, version: 0 });
        Self { state, fault, operations: AtomicU64::new(0) }
    }

    fn one_in(&self, period: u64) -> bool {
        self.operations.fetch_add(1, Ordering::Relaxed) % period == period - 1
    }

    fn put(&self, rows: &mut Map, key: &[u8], mut row: Row) {
        let ignored = match self.fault {
            Fault::DropsWrites => self.one_in(10_000),
            Fault::StaleValues => rows.contains_key(key) && self.one_in(100),
            _ => false,
        };
        if self.fault == Fault::LosesUpdates {
            row.before = rows.get(key).map(|row| row.value.clone());
        }
        if !ignored {
            rows.insert(key.to_vec(), row);
        }
    }

    fn apply(&self, rows: &mut Map, op: &Op<'_>, version: u64) {
        match *op {
            Op::Put { key, value } => {
                let row = Row { value: value.to_vec(), expires: u64::MAX, version, before: None };
                self.put(rows, key, row);
            }
            Op::PutExpiring { key, value, at } => {
                let expires = if self.fault == Fault::NeverExpires { u64::MAX } else { at };
                self.put(rows, key, Row { value: value.to_vec(), expires, version, before: None });
            }
            Op::Delete { key } => {
                if self.fault != Fault::IgnoresDeletes {
                    rows.remove(key);
                }
            }
            Op::DeleteRange { start, end } => {
                if self.fault != Fault::IgnoresDeletes {
                    rows.retain(|key, _| key.as_slice() < start || key.as_slice() >= end);
                }
            }
        }
    }
}

fn poisoned<T>(_error: T) -> EngineError {
    EngineError::new("a thread panicked while it held the map")
}

fn unknown(number: u32) -> EngineError {
    EngineError::new(format!("there is no family {number}"))
}

/// Unix time in seconds.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

impl Engine for MemoryEngine {
    fn session<'a>(&'a self, _mode: SessionMode) -> Result<Box<dyn Session + 'a>> {
        Ok(Box::new(MemorySession { engine: self, family: 0, transaction: None }))
    }

    fn settle(&self) -> Result<()> {
        Ok(())
    }

    fn compact(&self) -> Result<()> {
        Ok(())
    }

    fn create_family(&self, number: u32) -> Result<()> {
        let mut state = self.state.write().map_err(poisoned)?;
        state.families.entry(number).or_default();
        Ok(())
    }

    fn drop_family(&self, number: u32) -> Result<()> {
        let mut state = self.state.write().map_err(poisoned)?;
        state.families.remove(&number).map(|_| ()).ok_or_else(|| unknown(number))
    }

    fn sync_now(&self) -> Result<()> {
        Ok(())
    }

    fn stats(&self) -> Result<EngineStats> {
        Ok(EngineStats::default())
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            native_interval_sync: true,
            block_cache: false,
            compression: false,
            expiry: true,
            range_delete: true,
            transactions: true,
            families: true,
            compact: true,
            ..Capabilities::PLAIN
        }
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

/// The writes of an open transaction and the version that it began at.
#[derive(Debug, Default)]
struct Transaction {
    began: u64,
    checked: bool,
    writes: BTreeMap<Vec<u8>, Vec<u8>>,
}

struct MemorySession<'a> {
    engine: &'a MemoryEngine,
    family: u32,
    transaction: Option<Transaction>,
}

impl MemorySession<'_> {
    fn open_transaction(&mut self) -> Result<&mut Transaction> {
        self.transaction.as_mut().ok_or_else(|| EngineError::new("no transaction was begun"))
    }
}

impl Session for MemorySession<'_> {
    fn write_batch(&mut self, ops: &[Op<'_>]) -> Result<()> {
        let mut state = self.engine.state.write().map_err(poisoned)?;
        state.version += 1;
        let version = state.version;
        let rows = state.families.get_mut(&self.family).ok_or_else(|| unknown(self.family))?;
        for op in ops {
            self.engine.apply(rows, op, version);
        }
        Ok(())
    }

    fn get(&mut self, key: &[u8], found: ValueVisitor<'_>) -> Result<bool> {
        let state = self.engine.state.read().map_err(poisoned)?;
        let rows = state.families.get(&self.family).ok_or_else(|| unknown(self.family))?;
        match rows.get(key) {
            Some(row) if row.expires == u64::MAX || row.expires > now() => {
                found(&row.value);
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    fn scan(&mut self, request: ScanRequest<'_>, visit: RowVisitor<'_>) -> Result<()> {
        let state = self.engine.state.read().map_err(poisoned)?;
        let rows = state.families.get(&self.family).ok_or_else(|| unknown(self.family))?;
        let now = now();
        let late = usize::from(self.engine.fault == Fault::LateSeek && request.start.is_some());
        let bound = request.start.map_or(Bound::Unbounded, Bound::Included);
        let mut visit_live =
            |(key, row): (&Vec<u8>, &Row)| row.expires <= now || visit(key, &row.value);
        match request.direction {
            Direction::Forward => {
                let range = rows.range::<[u8], _>((bound, Bound::Unbounded)).skip(late);
                let _ = range.map(&mut visit_live).find(|go_on| !go_on);
            }
            Direction::Reverse => {
                let range = rows.range::<[u8], _>((Bound::Unbounded, bound)).rev().skip(late);
                let _ = range.map(&mut visit_live).find(|go_on| !go_on);
            }
        }
        Ok(())
    }

    fn use_family(&mut self, number: u32) -> Result<()> {
        self.family = number;
        Ok(())
    }

    fn begin(&mut self, isolation: Isolation) -> Result<()> {
        let began = self.engine.state.read().map_err(poisoned)?.version;
        let weak = matches!(isolation, Isolation::ReadUncommitted | Isolation::ReadCommitted);
        let checked = !weak && self.engine.fault != Fault::LosesUpdates;
        self.transaction = Some(Transaction { began, checked, writes: BTreeMap::new() });
        Ok(())
    }

    fn get_in_transaction(&mut self, key: &[u8], found: ValueVisitor<'_>) -> Result<bool> {
        if let Some(value) = self.open_transaction()?.writes.get(key) {
            found(value);
            return Ok(true);
        }
        if self.engine.fault == Fault::LosesUpdates && self.engine.one_in(100) {
            let state = self.engine.state.read().map_err(poisoned)?;
            let rows = state.families.get(&self.family).ok_or_else(|| unknown(self.family))?;
            if let Some(before) = rows.get(key).and_then(|row| row.before.as_ref()) {
                found(before);
                return Ok(true);
            }
        }
        self.get(key, found)
    }

    fn put_in_transaction(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.open_transaction()?.writes.insert(key.to_vec(), value.to_vec());
        Ok(())
    }

    fn commit(&mut self) -> Result<Commit> {
        self.open_transaction()?;
        let transaction = self.transaction.take().unwrap_or_default();
        let mut state = self.engine.state.write().map_err(poisoned)?;
        state.version += 1;
        let version = state.version;
        let rows = state.families.get_mut(&self.family).ok_or_else(|| unknown(self.family))?;
        let newer =
            |key: &Vec<u8>| rows.get(key).is_some_and(|row| row.version > transaction.began);
        if transaction.checked && transaction.writes.keys().any(newer) {
            return Ok(Commit::Conflict);
        }
        for (key, value) in &transaction.writes {
            self.engine.apply(rows, &Op::Put { key, value }, version);
        }
        Ok(Commit::Done)
    }

    fn rollback(&mut self) -> Result<()> {
        self.transaction = None;
        Ok(())
    }
}
