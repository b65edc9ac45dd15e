//! One thread's use of TidesDB 10.
//!
//! Writes and gets go through transactions at READ COMMITTED, the weakest level that reads
//! committed data only. The writing transaction is reset and used again after each commit; the
//! reading one is kept, as that level reads the newest state in each get. A read-only session keeps
//! its iterator; otherwise each scan makes one, since an iterator keeps the view of its creation.
//! Plain gets do not note what they read, as nothing is checked afterwards.
//!
//! Invariants: the iterator borrows the reading transaction, which stays where it is and is neither
//! changed nor dropped while there is an iterator.
#![expect(unsafe_code, reason = "an iterator is kept beside the transaction that it borrows")]

use super::{TidesDb10, failed, may_pass};
use crate::engine::{
    Commit, Direction, EngineError, Isolation, Op, Result, RowVisitor, ScanRequest, Session,
    SessionMode, ValueVisitor,
};
use ::tidesdb10::{ColumnFamily, IsolationLevel, Iterator, Transaction};
use std::ptr::NonNull;

const PLAIN: IsolationLevel = IsolationLevel::ReadCommitted;

/// A transaction on the heap that an iterator may borrow; freed when this is dropped.
struct Reader<'a>(NonNull<Transaction<'a>>);

impl<'a> Reader<'a> {
    fn new(transaction: Transaction<'a>) -> Self {
        Self(NonNull::from(Box::leak(Box::new(transaction))))
    }

    fn get(&self) -> &Transaction<'a> {
        // SAFETY: made from a box that is freed when `self` is dropped, and never borrowed mutably.
        unsafe { self.0.as_ref() }
    }

    /// An iterator that must be dropped before `self`.
    fn iterator(&self, family: &ColumnFamily<'a>) -> Result<Iterator<'a>> {
        // SAFETY: as in `get`; the caller keeps the iterator no longer than this reader.
        let transaction: &'a Transaction<'a> = unsafe { &*self.0.as_ptr() };
        transaction.new_iterator(family).map_err(failed("new_iterator"))
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        // SAFETY: the pointer comes from a box and is used no more; the session has dropped its
        // iterator before.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

pub(super) struct TidesSession<'a> {
    engine: &'a TidesDb10,
    family: ColumnFamily<'a>,
    number: u32,
    /// Declared before `reader`, so that it is dropped first.
    iterator: Option<Iterator<'a>>,
    reader: Option<Reader<'a>>,
    writer: Option<Transaction<'a>>,
    /// The transaction of the user.
    transaction: Option<Transaction<'a>>,
    mode: SessionMode,
}

fn level_of(isolation: Isolation) -> IsolationLevel {
    match isolation {
        Isolation::ReadUncommitted => IsolationLevel::ReadUncommitted,
        Isolation::ReadCommitted => IsolationLevel::ReadCommitted,
        Isolation::RepeatableRead => IsolationLevel::RepeatableRead,
        Isolation::Snapshot => IsolationLevel::Snapshot,
        Isolation::Serializable => IsolationLevel::Serializable,
    }
}

impl<'a> TidesSession<'a> {
    pub(super) fn new(engine: &'a TidesDb10, mode: SessionMode) -> Result<Self> {
        Ok(Self {
            engine,
            family: engine.family(0)?,
            number: 0,
            iterator: None,
            reader: None,
            writer: None,
            transaction: None,
            mode,
        })
    }

    fn begin_at(&self, level: IsolationLevel) -> Result<Transaction<'a>> {
        let begun = self.engine.database.begin_transaction_with_isolation(level);
        begun.map_err(failed("begin_transaction"))
    }

    /// A transaction used before, empty again; or a new one.
    fn again(
        &self,
        used: Option<Transaction<'a>>,
        level: IsolationLevel,
    ) -> Result<Transaction<'a>> {
        match used {
            None => self.begin_at(level),
            Some(mut transaction) => {
                transaction.reset(level).map_err(failed("reset"))?;
                Ok(transaction)
            }
        }
    }

    fn begin_reading(&mut self) -> Result<()> {
        if self.reader.is_none() {
            self.reader = Some(Reader::new(self.begin_at(PLAIN)?));
        }
        Ok(())
    }

    fn reader(&self) -> Result<&Reader<'a>> {
        self.reader.as_ref().ok_or_else(|| EngineError::new("no reading transaction"))
    }

    /// An iterator that sees what it has to see.
    fn iterator(&mut self) -> Result<&mut Iterator<'a>> {
        if self.mode == SessionMode::ReadWrite {
            self.iterator = None;
        }
        if self.iterator.is_none() {
            self.begin_reading()?;
            self.iterator = Some(self.reader()?.iterator(&self.family)?);
        }
        self.iterator.as_mut().ok_or_else(|| EngineError::new("no iterator"))
    }

    fn current(&self) -> Result<&Transaction<'a>> {
        self.transaction.as_ref().ok_or_else(|| EngineError::new("no transaction was begun"))
    }
}

fn add(transaction: &Transaction<'_>, family: &ColumnFamily<'_>, op: &Op<'_>) -> Result<()> {
    match *op {
        Op::Put { key, value } => transaction.put(family, key, value).map_err(failed("put")),
        Op::Delete { key } => transaction.delete(family, key).map_err(failed("delete")),
        Op::DeleteRange { start, end } => {
            transaction.delete_range(family, start, Some(end)).map_err(failed("delete_range"))
        }
        // The crate takes lifetimes, not times, and none that are over.
        Op::PutExpiring { .. } => Err(EngineError::unsupported("expiry at a time")),
    }
}

/// Commits; repeats while the library asks for it.
fn commit(transaction: &mut Transaction<'_>) -> ::tidesdb10::Result<()> {
    let start = std::time::Instant::now();
    loop {
        match transaction.commit() {
            Err(error) if may_pass(&error) && start.elapsed() < super::PATIENCE => {
                std::thread::sleep(crate::engine::LOOK_EVERY);
            }
            outcome => return outcome,
        }
    }
}

fn lend(read: ::tidesdb10::Result<Vec<u8>>, found: ValueVisitor<'_>) -> Result<bool> {
    match read {
        Ok(value) => {
            found(&value);
            Ok(true)
        }
        Err(error) if error.is_not_found() => Ok(false),
        Err(error) => Err(failed("get")(error)),
    }
}

impl Session for TidesSession<'_> {
    fn write_batch(&mut self, ops: &[Op<'_>]) -> Result<()> {
        let used = self.writer.take();
        let mut writer = self.again(used, PLAIN)?;
        for op in ops {
            add(&writer, &self.family, op)?;
        }
        commit(&mut writer).map_err(failed("commit"))?;
        self.writer = Some(writer);
        Ok(())
    }

    fn get(&mut self, key: &[u8], found: ValueVisitor<'_>) -> Result<bool> {
        self.begin_reading()?;
        lend(self.reader()?.get().get_notrack(&self.family, key), found)
    }

    fn scan(&mut self, request: ScanRequest<'_>, visit: RowVisitor<'_>) -> Result<()> {
        let iterator = self.iterator()?;
        match (request.start, request.direction) {
            (Some(key), Direction::Forward) => iterator.seek(key),
            (Some(key), Direction::Reverse) => iterator.seek_for_prev(key),
            (None, Direction::Forward) => iterator.seek_to_first(),
            (None, Direction::Reverse) => iterator.seek_to_last(),
        }
        .map_err(failed("seek"))?;
        while iterator.is_valid() {
            let (key, value) = iterator.key_value().map_err(failed("key_value"))?;
            if !visit(&key, &value) {
                return Ok(());
            }
            match request.direction {
                Direction::Forward => iterator.next(),
                Direction::Reverse => iterator.prev(),
            }
            .map_err(failed("next"))?;
        }
        Ok(())
    }

    fn use_family(&mut self, number: u32) -> Result<()> {
        if number == self.number {
            return Ok(());
        }
        self.iterator = None;
        if number == 0 {
            // Families may be dropped from now on: nothing that has used one may be left.
            (self.reader, self.writer, self.transaction) = (None, None, None);
        }
        self.family = self.engine.family(number)?;
        self.number = number;
        Ok(())
    }

    fn begin(&mut self, isolation: Isolation) -> Result<()> {
        let used = self.transaction.take();
        self.transaction = Some(self.again(used, level_of(isolation))?);
        Ok(())
    }

    fn get_in_transaction(&mut self, key: &[u8], found: ValueVisitor<'_>) -> Result<bool> {
        lend(self.current()?.get(&self.family, key), found)
    }

    fn put_in_transaction(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        add(self.current()?, &self.family, &Op::Put { key, value })
    }

    fn commit(&mut self) -> Result<Commit> {
        let transaction = self.transaction.as_mut();
        let transaction =
            transaction.ok_or_else(|| EngineError::new("no transaction was begun"))?;
        match commit(transaction) {
            Ok(()) => Ok(Commit::Done),
            Err(error) if error.is_conflict() => Ok(Commit::Conflict),
            Err(error) => Err(failed("commit")(error)),
        }
    }

    fn rollback(&mut self) -> Result<()> {
        let transaction = self.transaction.as_mut();
        let transaction =
            transaction.ok_or_else(|| EngineError::new("no transaction was begun"))?;
        transaction.rollback().map_err(failed("rollback"))
    }
}
