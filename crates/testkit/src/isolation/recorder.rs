//! Transactions that write their history while they run.
//!
//! A [`Recorder`] is shared by all sessions of a test: it hands out ticks and version numbers. A
//! [`Recorded`] wraps one transaction of the store and is used by one thread. Every operation
//! draws a tick before and after, so that intervals overlap exactly when the calls may have.

use std::sync::atomic::{AtomicU64, Ordering};

use super::history::{Operation, Outcome, Span, Transaction};
use super::store::{
    CommitAnswer, Key, KeyRange, Level, ScanRequest, StoreTransaction, TransactionalStore, decode,
    encode,
};
use crate::Verdict;

/// The source of ticks and of version numbers.
#[derive(Debug, Default)]
pub struct Recorder {
    clock: AtomicU64,
    versions: AtomicU64,
}

impl Recorder {
    /// A source whose version numbers begin behind `versions`: two runs that are to be compared
    /// begin with the same number, two runs that must not be mistaken for each other do not.
    #[must_use]
    pub fn behind(versions: u64) -> Self {
        Self { clock: AtomicU64::new(0), versions: AtomicU64::new(versions) }
    }

    fn tick(&self) -> u64 {
        // ORDERING: SeqCst, so that a tick drawn after a call returned is greater than every tick
        // drawn before it began, whichever threads draw them.
        self.clock.fetch_add(1, Ordering::SeqCst) + 1
    }

    fn version(&self) -> u64 {
        // ORDERING: Relaxed, the numbers only have to differ.
        self.versions.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Begins a transaction of a session.
    ///
    /// # Errors
    /// The store's.
    pub fn begin<S: TransactionalStore>(
        &self,
        store: &S,
        level: Level,
        session: u32,
    ) -> Verdict<Recorded<'_, S::Transaction>> {
        let start = self.tick();
        let inner = store.begin(level)?;
        let begin = Span { start, end: self.tick() };
        Ok(Recorded { recorder: self, inner, record: empty(level, session, begin), padding: 0 })
    }
}

impl Recorder {
    /// Writes to some keys, and deletes others, without a transaction; to the history it is one
    /// that has read nothing.
    ///
    /// # Errors
    /// The store's.
    pub fn write_batch<S: TransactionalStore>(
        &self,
        store: &S,
        keys: &[(Key, bool)],
        session: u32,
    ) -> Verdict<Transaction> {
        let mut writes = Vec::with_capacity(keys.len());
        let mut operations = Vec::with_capacity(keys.len());
        for (key, deletion) in keys {
            let version = self.version();
            writes.push((*key, (!deletion).then(|| encode(&[version], 0))));
            operations.push(Operation::Write {
                key: *key,
                version,
                deletion: *deletion,
                before: Vec::new(),
            });
        }
        let start = self.tick();
        let number = store.write_batch(&writes)?;
        let span = Span { start, end: self.tick() };
        let outcome = Outcome::Committed(number);
        Ok(Transaction {
            level: Level::ReadCommitted,
            session,
            begin: span,
            operations,
            end: span,
            outcome,
        })
    }
}

fn empty(level: Level, session: u32, begin: Span) -> Transaction {
    let end = Span { start: u64::MAX, end: u64::MAX };
    Transaction { level, session, begin, operations: Vec::new(), end, outcome: Outcome::Aborted }
}

/// A transaction and its history so far.
#[derive(Debug)]
pub struct Recorded<'a, T> {
    recorder: &'a Recorder,
    inner: T,
    record: Transaction,
    padding: usize,
}

fn numbers(key: Key, bytes: &[u8]) -> Verdict<Vec<u64>> {
    decode(bytes)
        .ok_or_else(|| format!("the value of {key} is not one that was written: {bytes:?}"))
}

impl<T: StoreTransaction> Recorded<'_, T> {
    /// Values written from now on get so many more bytes.
    pub fn pad(&mut self, padding: usize) {
        self.padding = padding;
    }

    /// Reads a key; the numbers that its value carries, empty when it is absent.
    ///
    /// # Errors
    /// The store's.
    pub fn get(&mut self, key: Key) -> Verdict<Vec<u64>> {
        self.read(key, true)
    }

    /// Reads several keys of one family in one call.
    ///
    /// # Errors
    /// The store's.
    pub fn get_several(&mut self, keys: &[Key]) -> Verdict {
        let start = self.recorder.tick();
        let values = self.inner.get_several(keys)?;
        let span = Span { start, end: self.recorder.tick() };
        if values.len() != keys.len() {
            return Err(format!("{} values of {} keys", values.len(), keys.len()));
        }
        for (key, value) in keys.iter().zip(values) {
            let seen = value.map_or(Ok(Vec::new()), |bytes| numbers(*key, &bytes))?;
            self.record.operations.push(Operation::Read { key: *key, seen, tracked: true, span });
        }
        Ok(())
    }

    /// Reads a key without being remembered.
    ///
    /// # Errors
    /// The store's.
    pub fn get_untracked(&mut self, key: Key) -> Verdict<Vec<u64>> {
        self.read(key, false)
    }

    fn read(&mut self, key: Key, tracked: bool) -> Verdict<Vec<u64>> {
        let start = self.recorder.tick();
        let value = if tracked { self.inner.get(key) } else { self.inner.get_untracked(key) }?;
        let span = Span { start, end: self.recorder.tick() };
        let seen = value.map_or(Ok(Vec::new()), |bytes| numbers(key, &bytes))?;
        let operation = Operation::Read { key, seen: seen.clone(), tracked, span };
        self.record.operations.push(operation);
        Ok(seen)
    }

    /// Scans a range; keys and versions found.
    ///
    /// # Errors
    /// The store's.
    pub fn scan(&mut self, request: ScanRequest) -> Verdict<Vec<(u16, u64)>> {
        self.scan_slowly(request, &mut || ())
    }

    /// As [`Recorded::scan`], with `between` called after each step of the iterator.
    ///
    /// # Errors
    /// The store's.
    pub fn scan_slowly(
        &mut self,
        request: ScanRequest,
        between: &mut dyn FnMut(),
    ) -> Verdict<Vec<(u16, u64)>> {
        let start = self.recorder.tick();
        let entries = self.inner.scan(request, between)?;
        let span = Span { start, end: self.recorder.tick() };
        let mut found = Vec::with_capacity(entries.len());
        for (number, value) in &entries {
            let key = Key { family: request.range.family, number: *number };
            found.push((*number, numbers(key, value)?.last().copied().unwrap_or(0)));
        }
        let range = looked_at(request, &found);
        let operation =
            Operation::Scan { range, forward: request.forward, found: found.clone(), span };
        self.record.operations.push(operation);
        Ok(found)
    }

    /// Writes a value of its own to a key.
    ///
    /// # Errors
    /// The store's.
    pub fn put(&mut self, key: Key) -> Verdict {
        self.put_after(key, &[])
    }

    /// Reads a list and writes it back with one more element.
    ///
    /// # Errors
    /// The store's.
    pub fn append(&mut self, key: Key) -> Verdict {
        let before = self.get(key)?;
        self.put_after(key, &before)
    }

    fn put_after(&mut self, key: Key, before: &[u64]) -> Verdict {
        let version = self.recorder.version();
        let mut carried = before.to_vec();
        carried.push(version);
        let operation = Operation::Write { key, version, deletion: false, before: before.to_vec() };
        self.record.operations.push(operation);
        self.inner.put(key, &encode(&carried, self.padding))
    }

    /// Removes a key.
    ///
    /// # Errors
    /// The store's.
    pub fn delete(&mut self, key: Key) -> Verdict {
        let version = self.recorder.version();
        let operation = Operation::Write { key, version, deletion: true, before: Vec::new() };
        self.record.operations.push(operation);
        self.inner.delete(key)
    }

    /// Marks the writes so far.
    ///
    /// # Errors
    /// The store's.
    pub fn savepoint(&mut self, name: u8) -> Verdict {
        self.inner.savepoint(&format!("savepoint {name}"))?;
        self.record.operations.push(Operation::Savepoint(name));
        Ok(())
    }

    /// Undoes the writes since a mark.
    ///
    /// # Errors
    /// The store's.
    pub fn rollback_to(&mut self, name: u8) -> Verdict {
        self.inner.rollback_to(&format!("savepoint {name}"))?;
        self.record.operations.push(Operation::RollbackTo(name));
        Ok(())
    }

    /// Tries to commit. After a conflict the transaction can be tried again or rolled back.
    ///
    /// # Errors
    /// The store's.
    pub fn commit(&mut self) -> Verdict<CommitAnswer> {
        let start = self.recorder.tick();
        let answer = self.inner.commit()?;
        self.record.end = Span { start, end: self.recorder.tick() };
        self.record.outcome = match answer {
            CommitAnswer::Done(number) => Outcome::Committed(number),
            CommitAnswer::Conflict => Outcome::Aborted,
            CommitAnswer::Unknown => Outcome::Unknown,
        };
        Ok(answer)
    }

    /// Gives up.
    ///
    /// # Errors
    /// The store's.
    pub fn rollback(&mut self) -> Verdict {
        let start = self.recorder.tick();
        self.inner.rollback()?;
        self.record.end = Span { start, end: self.recorder.tick() };
        self.record.outcome = Outcome::Aborted;
        Ok(())
    }

    /// Begins anew; the history of the finished transaction.
    ///
    /// # Errors
    /// The store's.
    pub fn reset(&mut self, level: Level) -> Verdict<Transaction> {
        let start = self.recorder.tick();
        self.inner.reset(level)?;
        let begin = Span { start, end: self.recorder.tick() };
        let next = empty(level, self.record.session, begin);
        Ok(std::mem::replace(&mut self.record, next))
    }

    /// The history of the transaction, which is dropped: without a commit before, it is one that
    /// was abandoned.
    #[must_use]
    pub fn finish(self) -> Transaction {
        self.record
    }
}

/// The part of the bounds that a scan has looked at: when it stopped at its limit, it says nothing
/// about what lies behind the last key.
fn looked_at(request: ScanRequest, found: &[(u16, u64)]) -> KeyRange {
    let mut range = request.range;
    if found.len() >= request.most
        && let Some((last, _)) = found.last()
    {
        if request.forward {
            range.to = last + 1;
        } else {
            range.from = *last;
        }
    }
    range
}
