//! A reference engine in memory, and its deliberately broken variants.
//!
//! The sound variant is an ordered map behind a lock. The broken ones commit one classic sin each
//! ([`Fault`]), so that the tests of the benchmark can show that its checks catch them. They are
//! not listed among the engines to compare; they lose their contents when closed, so every
//! workload on them loads its data in the same process.

use crate::engine::{
    Capabilities, Direction, Engine, EngineError, EngineStats, Op, Result, RowVisitor, ScanRequest,
    Session, SessionMode, ValueVisitor,
};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::RwLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// How the engine misbehaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Not at all.
    None,
    /// Silently drops one write in 10,000.
    DropsWrites,
    /// Ignores one overwrite in 1,000, so that reads return the value before it.
    StaleValues,
    /// Accepts deletes without doing anything.
    IgnoresDeletes,
    /// A scan starts one row too late.
    LateSeek,
}

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// The engine.
#[derive(Debug)]
pub struct MemoryEngine {
    rows: RwLock<Map>,
    fault: Fault,
    operations: AtomicU64,
}

impl MemoryEngine {
    /// An empty engine.
    pub fn new(fault: Fault) -> Self {
        Self { rows: RwLock::new(Map::new()), fault, operations: AtomicU64::new(0) }
    }

    fn one_in(&self, period: u64) -> bool {
        self.operations.fetch_add(1, Ordering::Relaxed) % period == period - 1
    }

    fn apply(&self, rows: &mut Map, op: &Op<'_>) {
        match *op {
            Op::Put { key, value } => {
                let ignored = match self.fault {
                    Fault::DropsWrites => self.one_in(10_000),
                    Fault::StaleValues => rows.contains_key(key) && self.one_in(1_000),
                    _ => false,
                };
                if !ignored {
                    rows.insert(key.to_vec(), value.to_vec());
                }
            }
            Op::Delete { key } => {
                if self.fault != Fault::IgnoresDeletes {
                    rows.remove(key);
                }
            }
        }
    }
}

fn poisoned<T>(_error: T) -> EngineError {
    EngineError::new("a thread panicked while it held the map")
}

impl Engine for MemoryEngine {
    fn session<'a>(&'a self, _mode: SessionMode) -> Result<Box<dyn Session + 'a>> {
        Ok(Box::new(MemorySession { engine: self }))
    }

    fn settle(&self) -> Result<()> {
        Ok(())
    }

    fn sync_now(&self) -> Result<()> {
        Ok(())
    }

    fn stats(&self) -> Result<EngineStats> {
        Ok(EngineStats::default())
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            stores_data: true,
            native_interval_sync: true,
            block_cache: false,
            compression: false,
        }
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

struct MemorySession<'a> {
    engine: &'a MemoryEngine,
}

impl Session for MemorySession<'_> {
    fn write_batch(&mut self, ops: &[Op<'_>]) -> Result<()> {
        let mut rows = self.engine.rows.write().map_err(poisoned)?;
        for op in ops {
            self.engine.apply(&mut rows, op);
        }
        Ok(())
    }

    fn get(&mut self, key: &[u8], found: ValueVisitor<'_>) -> Result<bool> {
        let rows = self.engine.rows.read().map_err(poisoned)?;
        match rows.get(key) {
            Some(value) => {
                found(value);
                Ok(true)
            }
            None => Ok(false),
        }
    }

    fn scan(&mut self, request: ScanRequest<'_>, visit: RowVisitor<'_>) -> Result<()> {
        let rows = self.engine.rows.read().map_err(poisoned)?;
        let late = usize::from(self.engine.fault == Fault::LateSeek && request.start.is_some());
        let bound = request.start.map_or(Bound::Unbounded, Bound::Included);
        match request.direction {
            Direction::Forward => {
                let range = rows.range::<[u8], _>((bound, Bound::Unbounded)).skip(late);
                for (key, value) in range {
                    if !visit(key, value) {
                        break;
                    }
                }
            }
            Direction::Reverse => {
                let range = rows.range::<[u8], _>((Bound::Unbounded, bound)).rev().skip(late);
                for (key, value) in range {
                    if !visit(key, value) {
                        break;
                    }
                }
            }
        }
        Ok(())
    }
}
