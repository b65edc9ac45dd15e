//! Any engine, with one put in 10,000 dropped: the lie of `memory` for engines that keep their
//! data.
//!
//! Openings of closed and killed databases can only be tested with an engine whose data outlives
//! its process. This one passes every call on, so a test of the benchmark can show that what is
//! missing after an opening is noticed. Sessions share one count, under no lock. Not listed among
//! the engines to compare.

use crate::engine::{
    Capabilities, Engine, EngineStats, Op, Result, RowVisitor, ScanRequest, Session, SessionMode,
    ValueVisitor,
};
use std::sync::atomic::{AtomicU64, Ordering};

/// Puts of which one is dropped.
const PERIOD: u64 = 10_000;

/// The wrapper.
pub struct Dropping {
    engine: Box<dyn Engine>,
    puts: AtomicU64,
}

impl Dropping {
    /// Breaks an engine.
    pub fn new(engine: Box<dyn Engine>) -> Self {
        Self { engine, puts: AtomicU64::new(0) }
    }

    fn drops(&self, op: &Op<'_>) -> bool {
        // ORDERING: a count that nothing else depends on.
        matches!(op, Op::Put { .. })
            && self.puts.fetch_add(1, Ordering::Relaxed) % PERIOD == PERIOD - 1
    }
}

impl Engine for Dropping {
    fn session<'a>(&'a self, mode: SessionMode) -> Result<Box<dyn Session + 'a>> {
        Ok(Box::new(DroppingSession { engine: self, session: self.engine.session(mode)? }))
    }

    fn settle(&self) -> Result<()> {
        self.engine.settle()
    }

    fn sync_now(&self) -> Result<()> {
        self.engine.sync_now()
    }

    fn stats(&self) -> Result<EngineStats> {
        self.engine.stats()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::PLAIN
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.engine.close()
    }
}

struct DroppingSession<'a> {
    engine: &'a Dropping,
    session: Box<dyn Session + 'a>,
}

impl Session for DroppingSession<'_> {
    fn write_batch(&mut self, ops: &[Op<'_>]) -> Result<()> {
        let kept: Vec<Op<'_>> = ops.iter().filter(|op| !self.engine.drops(op)).copied().collect();
        if kept.is_empty() { Ok(()) } else { self.session.write_batch(&kept) }
    }

    fn get(&mut self, key: &[u8], found: ValueVisitor<'_>) -> Result<bool> {
        self.session.get(key, found)
    }

    fn scan(&mut self, request: ScanRequest<'_>, visit: RowVisitor<'_>) -> Result<()> {
        self.session.scan(request, visit)
    }
}
