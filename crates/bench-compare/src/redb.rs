//! redb behind the engine trait: a copy-on-write B+tree in Rust with one writer at a time.
//!
//! A write batch is one write transaction; "not synced" is `Durability::None`, which keeps the
//! new pages in memory until a durable commit, so periodic syncs and settling make one. A
//! read-only session keeps its read transaction and table; otherwise each read begins one, so that
//! it sees the latest commit.

use crate::engine::{
    Capabilities, Direction, Engine, EngineError, EngineOptions, EngineStats, Op, Result,
    RowVisitor, ScanRequest, Session, SessionMode, SyncMode, ValueVisitor,
};
use ::redb::{
    Database, Durability, ReadOnlyTable, ReadableDatabase, ReadableTable, TableDefinition,
};
use std::fmt::Display;
use std::ops::Bound;

const ROWS: TableDefinition<'static, &'static [u8], &'static [u8]> = TableDefinition::new("rows");

/// An opened redb database.
pub struct Redb {
    database: Database,
    durability: Durability,
}

fn failed<E: Display>(call: &str) -> impl FnOnce(E) -> EngineError + '_ {
    move |error| EngineError::from_call(call, error)
}

impl Redb {
    /// Opens or creates the database file in the directory.
    pub fn open(options: &EngineOptions) -> Result<Self> {
        let cache = usize::try_from(options.cache_bytes).unwrap_or(usize::MAX);
        let database = Database::builder()
            .set_cache_size(cache)
            .create(options.directory.join("data.redb"))
            .map_err(failed("redb create"))?;
        let durability =
            if options.sync == SyncMode::Full { Durability::Immediate } else { Durability::None };
        let engine = Self { database, durability };
        // The table has to exist before the first reader asks for it.
        engine.commit(&[], Durability::Immediate)?;
        Ok(engine)
    }

    fn commit(&self, ops: &[Op<'_>], durability: Durability) -> Result<()> {
        let mut transaction = self.database.begin_write().map_err(failed("redb begin_write"))?;
        transaction.set_durability(durability).map_err(failed("redb set_durability"))?;
        {
            let mut table = transaction.open_table(ROWS).map_err(failed("redb open_table"))?;
            for op in ops {
                match *op {
                    Op::Put { key, value } => {
                        table.insert(key, value).map_err(failed("redb insert"))?;
                    }
                    Op::Delete { key } => {
                        table.remove(key).map_err(failed("redb remove"))?;
                    }
                    Op::PutExpiring { .. } | Op::DeleteRange { .. } => {
                        return Err(EngineError::unsupported("this operation"));
                    }
                }
            }
        }
        transaction.commit().map_err(failed("redb commit"))
    }

    fn read_table(&self) -> Result<RowTable> {
        let transaction = self.database.begin_read().map_err(failed("redb begin_read"))?;
        transaction.open_table(ROWS).map_err(failed("redb open_table"))
    }
}

type RowTable = ReadOnlyTable<&'static [u8], &'static [u8]>;

impl Engine for Redb {
    fn session<'a>(&'a self, mode: SessionMode) -> Result<Box<dyn Session + 'a>> {
        Ok(Box::new(RedbSession { engine: self, table: None, mode }))
    }

    fn settle(&self) -> Result<()> {
        self.sync_now()
    }

    fn sync_now(&self) -> Result<()> {
        self.commit(&[], Durability::Immediate)
    }

    fn stats(&self) -> Result<EngineStats> {
        Ok(EngineStats::default())
    }

    fn capabilities(&self) -> Capabilities {
        let synced = matches!(self.durability, Durability::Immediate);
        Capabilities { compression: false, survives_kill: synced, ..Capabilities::PLAIN }
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.sync_now()?;
        self.database.close().map_err(failed("redb close"))
    }
}

struct RedbSession<'a> {
    engine: &'a Redb,
    table: Option<RowTable>,
    mode: SessionMode,
}

impl RedbSession<'_> {
    fn table(&mut self) -> Result<&RowTable> {
        let kept = self.table.take().filter(|_| self.mode == SessionMode::ReadOnly);
        let table = match kept {
            Some(table) => table,
            None => self.engine.read_table()?,
        };
        Ok(self.table.insert(table))
    }

    /// Frees the snapshot, so that a writer can reuse its pages.
    fn release(&mut self) {
        if self.mode == SessionMode::ReadWrite {
            self.table = None;
        }
    }
}

impl Session for RedbSession<'_> {
    fn write_batch(&mut self, ops: &[Op<'_>]) -> Result<()> {
        self.engine.commit(ops, self.engine.durability)
    }

    fn get(&mut self, key: &[u8], found: ValueVisitor<'_>) -> Result<bool> {
        let row = self.table()?.get(key).map_err(failed("redb get"))?;
        let present = row.is_some();
        if let Some(value) = row {
            found(value.value());
        }
        self.release();
        Ok(present)
    }

    fn scan(&mut self, request: ScanRequest<'_>, visit: RowVisitor<'_>) -> Result<()> {
        let start = request.start.map_or(Bound::Unbounded, Bound::Included);
        let bounds = match request.direction {
            Direction::Forward => (start, Bound::Unbounded),
            Direction::Reverse => (Bound::Unbounded, start),
        };
        let mut rows =
            ReadableTable::range::<&[u8]>(self.table()?, bounds).map_err(failed("redb range"))?;
        loop {
            let row = match request.direction {
                Direction::Forward => rows.next(),
                Direction::Reverse => rows.next_back(),
            };
            let Some(row) = row else { break };
            let (key, value) = row.map_err(failed("redb iterator"))?;
            if !visit(key.value(), value.value()) {
                break;
            }
        }
        drop(rows);
        self.release();
        Ok(())
    }
}
