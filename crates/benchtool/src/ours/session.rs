//! The engine as a program in Rust would use it.
//!
//! A single operation uses the family directly, more go through a write batch that the session
//! reuses. Gets lend the value without a copy; a read-only session keeps one scan and re-seeks it,
//! a read-write session refreshes it first so that it sees the latest commit.

use bench_compare::engine::{
    self, Commit, Direction, EngineError, Op, Result, RowVisitor, ScanRequest, Session,
    SessionMode, ValueVisitor,
};
use tidesdb::{ErrorKind, Family, IsolationLevel, Scan, ScanOptions, Transaction, WriteBatch};

use super::{Ours, failed, family_name};

pub(super) struct OurSession<'a> {
    pub(super) engine: &'a Ours,
    /// The family in use.
    pub(super) family: Family,
    /// Families that were used before, by number.
    families: Vec<Option<Family>>,
    batch: WriteBatch,
    scan: Option<Scan>,
    /// The transaction of the user, kept to be used again.
    transaction: Option<Transaction>,
    pub(super) mode: SessionMode,
}

fn no_transaction() -> EngineError {
    EngineError::new("no transaction was begun")
}

impl<'a> OurSession<'a> {
    pub(super) fn new(engine: &'a Ours, mode: SessionMode) -> Self {
        Self {
            engine,
            family: engine.family.clone(),
            families: Vec::new(),
            batch: WriteBatch::new(),
            scan: None,
            transaction: None,
            mode,
        }
    }
}

impl OurSession<'_> {
    fn transaction(&mut self) -> Result<&mut Transaction> {
        self.transaction.as_mut().ok_or_else(no_transaction)
    }

    fn positioned(&mut self, request: ScanRequest<'_>) -> Result<&mut Scan> {
        let scan = match self.scan.take() {
            Some(mut scan) => {
                if self.mode == SessionMode::ReadWrite {
                    scan.refresh().map_err(failed("refresh"))?;
                }
                scan
            }
            None => self.family.scan(ScanOptions::new()).map_err(failed("scan"))?,
        };
        let scan = self.scan.insert(scan);
        place(scan, request)?;
        Ok(scan)
    }
}

impl Session for OurSession<'_> {
    fn write_batch(&mut self, ops: &[Op<'_>]) -> Result<()> {
        let family = &self.family;
        if let [op] = ops {
            return match *op {
                Op::Put { key, value } => family.put(key, value),
                Op::Delete { key } => family.delete(key),
                Op::PutExpiring { key, value, at } => family.put_expiring_at(key, value, at),
                Op::DeleteRange { start, end } => family.delete_range(start, end),
            }
            .map_err(failed("write"));
        }
        self.batch.clear();
        for op in ops {
            match *op {
                Op::Put { key, value } => self.batch.put(family, key, value),
                Op::Delete { key } => self.batch.delete(family, key),
                Op::PutExpiring { key, value, at } => {
                    self.batch.put_expiring_at(family, key, value, at)
                }
                Op::DeleteRange { start, end } => self.batch.delete_range(family, start, end),
            }
            .map_err(failed("batch"))?;
        }
        self.engine.database.write(&self.batch).map_err(failed("write"))
    }

    fn get(&mut self, key: &[u8], found: ValueVisitor<'_>) -> Result<bool> {
        let read = self.family.get_with(key, |value| found(value));
        Ok(read.map_err(failed("get"))?.is_some())
    }

    fn use_family(&mut self, number: u32) -> Result<()> {
        let index = number as usize;
        if index >= self.families.len() {
            self.families.resize_with(index + 1, || None);
        }
        let family = match &self.families[index] {
            Some(family) => family.clone(),
            None => {
                let name = family_name(number);
                let family = self.engine.database.family(&name).map_err(failed("family"))?;
                self.families[index] = Some(family.clone());
                family
            }
        };
        self.family = family;
        self.scan = None;
        Ok(())
    }

    fn begin(&mut self, isolation: engine::Isolation) -> Result<()> {
        let level = match isolation {
            engine::Isolation::ReadUncommitted => IsolationLevel::ReadUncommitted,
            engine::Isolation::ReadCommitted => IsolationLevel::ReadCommitted,
            engine::Isolation::RepeatableRead => IsolationLevel::RepeatableRead,
            engine::Isolation::Snapshot => IsolationLevel::Snapshot,
            engine::Isolation::Serializable => IsolationLevel::Serializable,
        };
        if let Some(used) = &mut self.transaction {
            return used.reset(level).map_err(failed("reset"));
        }
        self.transaction = Some(self.engine.database.begin(level).map_err(failed("begin"))?);
        Ok(())
    }

    fn get_in_transaction(&mut self, key: &[u8], found: ValueVisitor<'_>) -> Result<bool> {
        let transaction = self.transaction.as_ref().ok_or_else(no_transaction)?;
        let read = transaction.get_with(&self.family, key, |value| found(value));
        Ok(read.map_err(failed("get"))?.is_some())
    }

    fn put_in_transaction(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let transaction = self.transaction.as_mut().ok_or_else(no_transaction)?;
        transaction.put(&self.family, key, value).map_err(failed("put"))
    }

    fn commit(&mut self) -> Result<Commit> {
        let transaction = self.transaction()?;
        match transaction.commit() {
            Ok(_) => Ok(Commit::Done),
            Err(error) if error.kind() == ErrorKind::Conflict => {
                transaction.rollback().map_err(failed("rollback"))?;
                Ok(Commit::Conflict)
            }
            Err(error) => Err(failed("commit")(error)),
        }
    }

    fn rollback(&mut self) -> Result<()> {
        self.transaction()?.rollback().map_err(failed("rollback"))
    }

    fn scan(&mut self, request: ScanRequest<'_>, visit: RowVisitor<'_>) -> Result<()> {
        let scan = self.positioned(request)?;
        rows(scan, request.direction, visit)
    }
}

/// Shows the rows from where a scan stands, until the visitor has enough.
pub(super) fn rows(scan: &mut Scan, direction: Direction, visit: RowVisitor<'_>) -> Result<()> {
    while scan.valid() {
        let (key, value) = scan.key_value().map_err(failed("value"))?;
        if !visit(key, value) {
            break;
        }
        match direction {
            Direction::Forward => scan.next(),
            Direction::Reverse => scan.prev(),
        }
        .map_err(failed("next"))?;
    }
    Ok(())
}

/// Places a scan where a request begins.
pub(super) fn place(scan: &mut Scan, request: ScanRequest<'_>) -> Result<()> {
    match (request.start, request.direction) {
        (Some(key), Direction::Forward) => scan.seek(key),
        (Some(key), Direction::Reverse) => scan.seek_for_prev(key),
        (None, Direction::Forward) => scan.seek_to_first(),
        (None, Direction::Reverse) => scan.seek_to_last(),
    }
    .map_err(failed("seek"))
}
