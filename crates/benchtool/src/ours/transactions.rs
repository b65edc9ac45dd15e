//! The engine as the C interface offers it, called from Rust.
//!
//! All writes and gets go through transactions at READ COMMITTED. The writing one is reset and used
//! again after each commit. The reading one is kept, as that level reads the newest state in each
//! get, of which the value is copied. A read-only session keeps its scan; otherwise each scan is a
//! new one, since a scan of a transaction keeps the view of its beginning.

use bench_compare::engine::{
    self, Commit, EngineError, Op, Result, RowVisitor, ScanRequest, Session, SessionMode,
    ValueVisitor,
};
use tidesdb::{IsolationLevel, Scan, ScanOptions, Transaction};

use super::session::{OurSession, place, rows};
use super::{Ours, failed};

const LEVEL: IsolationLevel = IsolationLevel::ReadCommitted;

pub(super) struct TransactionSession<'a> {
    /// Holds the family in use, and the transaction of the user.
    plain: OurSession<'a>,
    writer: Option<Transaction>,
    reader: Option<Transaction>,
    scan: Option<Scan>,
}

impl<'a> TransactionSession<'a> {
    pub(super) fn new(plain: OurSession<'a>) -> Self {
        Self { plain, writer: None, reader: None, scan: None }
    }

    /// The scan, which shows the newest state where others write.
    fn scan_of(&mut self) -> Result<&mut Scan> {
        let kept = self.scan.take().filter(|_| self.plain.mode != SessionMode::ReadWrite);
        let scan = match kept {
            Some(scan) => scan,
            None => {
                let reader = begun(&mut self.reader, self.plain.engine)?;
                let scan = reader.scan(&self.plain.family, ScanOptions::new());
                scan.map_err(failed("scan"))?
            }
        };
        Ok(self.scan.insert(scan))
    }
}

/// The transaction in a slot, begun when it is first used.
fn begun<'t>(slot: &'t mut Option<Transaction>, engine: &Ours) -> Result<&'t mut Transaction> {
    match slot {
        Some(transaction) => Ok(transaction),
        None => Ok(slot.insert(engine.database.begin(LEVEL).map_err(failed("begin"))?)),
    }
}

impl Session for TransactionSession<'_> {
    fn write_batch(&mut self, ops: &[Op<'_>]) -> Result<()> {
        if let Some(used) = &mut self.writer {
            used.reset(LEVEL).map_err(failed("reset"))?;
        }
        let writer = begun(&mut self.writer, self.plain.engine)?;
        let family = &self.plain.family;
        for op in ops {
            match *op {
                Op::Put { key, value } => writer.put(family, key, value),
                Op::Delete { key } => writer.delete(family, key),
                Op::PutExpiring { key, value, at } => {
                    writer.put_expiring_at(family, key, value, at)
                }
                Op::DeleteRange { .. } => return Err(EngineError::unsupported("deleting a range")),
            }
            .map_err(failed("transaction"))?;
        }
        writer.commit().map(drop).map_err(failed("commit"))
    }

    fn get(&mut self, key: &[u8], found: ValueVisitor<'_>) -> Result<bool> {
        let reader = begun(&mut self.reader, self.plain.engine)?;
        let value = reader.get(&self.plain.family, key).map_err(failed("get"))?;
        if let Some(value) = &value {
            found(value);
        }
        Ok(value.is_some())
    }

    fn scan(&mut self, request: ScanRequest<'_>, visit: RowVisitor<'_>) -> Result<()> {
        let scan = self.scan_of()?;
        place(scan, request)?;
        rows(scan, request.direction, visit)
    }

    fn use_family(&mut self, number: u32) -> Result<()> {
        self.scan = None;
        self.plain.use_family(number)
    }

    fn begin(&mut self, isolation: engine::Isolation) -> Result<()> {
        self.plain.begin(isolation)
    }

    fn get_in_transaction(&mut self, key: &[u8], found: ValueVisitor<'_>) -> Result<bool> {
        self.plain.get_in_transaction(key, found)
    }

    fn put_in_transaction(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.plain.put_in_transaction(key, value)
    }

    fn commit(&mut self) -> Result<Commit> {
        self.plain.commit()
    }

    fn rollback(&mut self) -> Result<()> {
        self.plain.rollback()
    }
}
