//! The null engine: accepts everything, stores nothing, finds nothing.
//!
//! It measures what the benchmark tool costs by itself: key generation, value generation, virtual
//! calls and timing. A row of another engine whose time per operation is not well above the null
//! engine's says more about the tool than about the engine.

use crate::engine::{
    Capabilities, Commit, Engine, EngineStats, Isolation, Op, Result, RowVisitor, ScanRequest,
    Session, SessionMode, ValueVisitor,
};
use std::hint::black_box;

/// An engine that does nothing.
#[derive(Debug, Default)]
pub struct NullEngine;

struct NullSession;

impl Engine for NullEngine {
    fn session<'a>(&'a self, _mode: SessionMode) -> Result<Box<dyn Session + 'a>> {
        Ok(Box::new(NullSession))
    }

    fn settle(&self) -> Result<()> {
        Ok(())
    }

    fn sync_now(&self) -> Result<()> {
        Ok(())
    }

    fn create_family(&self, number: u32) -> Result<()> {
        black_box(number);
        Ok(())
    }

    fn drop_family(&self, number: u32) -> Result<()> {
        black_box(number);
        Ok(())
    }

    fn stats(&self) -> Result<EngineStats> {
        Ok(EngineStats::default())
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            stores_data: false,
            native_interval_sync: true,
            block_cache: false,
            compression: false,
            expiry: true,
            range_delete: true,
            transactions: true,
            families: true,
            ..Capabilities::PLAIN
        }
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

impl Session for NullSession {
    fn write_batch(&mut self, ops: &[Op<'_>]) -> Result<()> {
        black_box(ops);
        Ok(())
    }

    fn get(&mut self, key: &[u8], _found: ValueVisitor<'_>) -> Result<bool> {
        black_box(key);
        Ok(false)
    }

    fn scan(&mut self, request: ScanRequest<'_>, _visit: RowVisitor<'_>) -> Result<()> {
        black_box(request);
        Ok(())
    }

    fn use_family(&mut self, number: u32) -> Result<()> {
        black_box(number);
        Ok(())
    }

    fn begin(&mut self, isolation: Isolation) -> Result<()> {
        black_box(isolation);
        Ok(())
    }

    fn get_in_transaction(&mut self, key: &[u8], _found: ValueVisitor<'_>) -> Result<bool> {
        black_box(key);
        Ok(false)
    }

    fn put_in_transaction(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        black_box((key, value));
        Ok(())
    }

    fn commit(&mut self) -> Result<Commit> {
        Ok(Commit::Done)
    }

    fn rollback(&mut self) -> Result<()> {
        Ok(())
    }
}
