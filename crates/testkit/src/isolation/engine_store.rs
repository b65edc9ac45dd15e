//! The engine behind the traits of `store`.
//!
//! Families of the store are families of the database, keys are numbers in big-endian. Ranges are
//! scanned with both bounds, or with one of them and a seek to the other, so that both ways of
//! reading a range are tried; step by step, as an iterator, or by pages. Ranges of one key are
//! prefixes. Keys are read by each of the calls that count as a read, in turn.
//!
//! Numbers of plain commits come from the commit hook, which the committing thread calls before the
//! write returns.

use std::cell::Cell;
use std::sync::Arc;

use tidesdb::{
    Db, ErrorKind, Family, FamilyOptions, IsolationLevel, ScanOptions, Transaction, WriteBatch,
};

use super::store::{
    CommitAnswer, Entries, Key, KeyRange, Level, ScanRequest, StoreTransaction, TransactionalStore,
};
use crate::Verdict;
use crate::watch::WatchedScheduler;

thread_local! {
    static NEWEST_COMMIT: Cell<Option<u64>> = const { Cell::new(None) };
}

/// A database as a store.
#[derive(Debug)]
pub struct EngineStore {
    db: Db,
    families: Vec<Family>,
    scheduler: Option<Arc<WatchedScheduler>>,
}

fn said<T>(result: Result<T, tidesdb::Error>) -> Verdict<T> {
    result.map_err(|e| format!("the engine says: {e}"))
}

impl EngineStore {
    /// The families of a database, one per family of the store, made with these options. With a
    /// scheduler, background jobs run only in [`TransactionalStore::disturb`].
    ///
    /// # Errors
    /// What the engine says.
    pub fn new(
        db: Db,
        families: &[FamilyOptions],
        scheduler: Option<Arc<WatchedScheduler>>,
    ) -> Verdict<Self> {
        let open = |(at, options): (usize, &FamilyOptions)| {
            let family = said(db.open_family(&format!("family {at}"), options.clone()))?;
            family.set_commit_hook(Some(Arc::new(|batch| {
                NEWEST_COMMIT.set(Some(batch.sequence));
            })));
            Ok(family)
        };
        let families = families.iter().enumerate().map(open).collect::<Verdict<_>>()?;
        Ok(Self { db, families, scheduler })
    }

    /// The database.
    #[must_use]
    pub const fn db(&self) -> &Db {
        &self.db
    }

    /// The families.
    #[must_use]
    pub fn families(&self) -> &[Family] {
        &self.families
    }
}

const fn engine_level(level: Level) -> IsolationLevel {
    match level {
        Level::ReadUncommitted => IsolationLevel::ReadUncommitted,
        Level::ReadCommitted => IsolationLevel::ReadCommitted,
        Level::RepeatableRead => IsolationLevel::RepeatableRead,
        Level::Snapshot => IsolationLevel::Snapshot,
        Level::Serializable => IsolationLevel::Serializable,
    }
}

/// The range of two keys or more that these writes delete, if they do nothing else.
fn deleted_range(writes: &[(Key, Option<Vec<u8>>)]) -> Option<KeyRange> {
    let [(first, _), _, ..] = writes else { return None };
    let neighbours = writes.iter().zip(first.number..).all(|((key, value), number)| {
        value.is_none() && (key.family, key.number) == (first.family, number)
    });
    let to = first.number + writes.len() as u16;
    neighbours.then_some(KeyRange { family: first.family, from: first.number, to })
}

impl TransactionalStore for EngineStore {
    type Transaction = EngineTransaction;

    fn begin(&self, level: Level) -> Verdict<EngineTransaction> {
        if let Some(scheduler) = &self.scheduler {
            scheduler.begin();
        }
        let inner = said(self.db.begin(engine_level(level)))?;
        Ok(EngineTransaction { inner, families: self.families.clone(), reads: Cell::new(0) })
    }

    fn write_batch(&self, writes: &[(Key, Option<Vec<u8>>)]) -> Verdict<Option<u64>> {
        let mut batch = WriteBatch::new();
        for (key, value) in writes {
            let family = &self.families[usize::from(key.family)];
            let bytes = key.number.to_be_bytes();
            said(match value {
                Some(value) => batch.put(family, &bytes, value),
                None => batch.delete(family, &bytes),
            })?;
        }
        NEWEST_COMMIT.set(None);
        // A single write has a way of its own, and so have neighbours that are all deleted.
        said(match (writes, deleted_range(writes)) {
            ([(key, Some(value))], _) => {
                self.families[usize::from(key.family)].put(&key.number.to_be_bytes(), value)
            }
            (_, Some(KeyRange { family, from, to })) => self.families[usize::from(family)]
                .delete_range(&from.to_be_bytes(), &to.to_be_bytes()),
            _ => self.db.write(&batch),
        })?;
        Ok(NEWEST_COMMIT.take())
    }

    fn disturb(&self, choice: u64) -> Verdict {
        let family = &self.families[(choice >> 32) as usize % self.families.len()];
        if let Some(scheduler) = &self.scheduler {
            scheduler.begin();
            for _ in 0..choice % 3 {
                scheduler.manual().step();
            }
        }
        match choice % 64 {
            0 => said(self.db.compact()),
            1..4 => said(family.compact()),
            4..6 => said(self.db.flush()),
            6..14 => said(family.flush()),
            _ => Ok(()),
        }
    }
}

/// A transaction of the engine.
#[derive(Debug)]
pub struct EngineTransaction {
    inner: Transaction,
    families: Vec<Family>,
    /// Reads so far, which take the ways of reading in turn.
    reads: Cell<u32>,
}

impl EngineTransaction {
    fn family(&self, number: u8) -> &Family {
        &self.families[usize::from(number)]
    }

    fn next_way(&self, of: u32) -> u32 {
        self.reads.replace(self.reads.get().wrapping_add(1)) % of
    }

    /// Asks whether the key is there, and reads the value in a way that leaves no trace.
    fn ask_and_peek(&self, key: Key) -> Verdict<Option<Vec<u8>>> {
        let (family, bytes) = (self.family(key.family), key.number.to_be_bytes());
        let is_there = said(self.inner.contains(family, &bytes))?;
        let found = said(self.inner.get_untracked(family, &bytes))?;
        let peeked = said(self.inner.contains_untracked(family, &bytes))?;
        if (is_there, peeked) != (found.is_some(), found.is_some()) {
            return Err(format!("{key:?} is there: {is_there}, {peeked}, and its value {found:?}"));
        }
        Ok(found)
    }
}

impl EngineTransaction {
    /// A scan for each two entries, each of which begins behind the last entry of the one before.
    /// It is over when a page is empty.
    fn scan_by_pages(&self, request: ScanRequest, between: &mut dyn FnMut()) -> Verdict<Entries> {
        let ScanRequest { range, most, .. } = request;
        let mut found = Entries::new();
        let mut from = range.from;
        loop {
            let options = ScanOptions::new().upper(&range.to.to_be_bytes());
            let mut scan = said(self.inner.scan(self.family(range.family), options))?;
            said(scan.seek(&from.to_be_bytes()))?;
            let before = found.len();
            for entry in scan.entries().take(most.saturating_sub(before).min(2)) {
                let (key, value) = said(entry)?;
                let number = number_of(&key)?;
                if number < from {
                    return Err(format!("a page from {from} on shows {number}"));
                }
                from = number + 1;
                found.push((number, value));
                between();
            }
            if found.len() == before || found.len() >= most {
                return Ok(found);
            }
        }
    }
}

fn number_of(key: &[u8]) -> Verdict<u16> {
    let number = key.try_into().map(u16::from_be_bytes);
    number.map_err(|_| format!("a scan shows the key {key:?}"))
}

impl StoreTransaction for EngineTransaction {
    fn get(&self, key: Key) -> Verdict<Option<Vec<u8>>> {
        let (family, bytes) = (self.family(key.family), key.number.to_be_bytes());
        let has_snapshot = self.inner.snapshot_sequence().is_some();
        match self.next_way(4) {
            0 if has_snapshot => self.ask_and_peek(key),
            3 => self.get_several(&[key]).map(|mut values| values.pop().flatten()),
            1 => said(self.inner.get_with(family, &bytes, <[u8]>::to_vec)),
            _ => said(self.inner.get(family, &bytes)),
        }
    }

    fn get_untracked(&self, key: Key) -> Verdict<Option<Vec<u8>>> {
        said(self.inner.get_untracked(self.family(key.family), &key.number.to_be_bytes()))
    }

    fn get_several(&self, keys: &[Key]) -> Verdict<Vec<Option<Vec<u8>>>> {
        let Some(first) = keys.first() else { return Ok(Vec::new()) };
        let bytes = keys.iter().map(|key| key.number.to_be_bytes());
        said(self.inner.multi_get(self.family(first.family), bytes))
    }

    fn scan(&self, request: ScanRequest, between: &mut dyn FnMut()) -> Verdict<Entries> {
        let ScanRequest { range, forward, most } = request;
        let way = self.next_way(3);
        if way == 2 && forward && self.inner.snapshot_sequence().is_some() {
            return self.scan_by_pages(request, between);
        }
        let (from, to) = (range.from.to_be_bytes(), range.to.to_be_bytes());
        let by_seek = (range.from ^ range.to).is_multiple_of(2);
        let options = match (by_seek, forward) {
            (true, true) => ScanOptions::new().upper(&to),
            (true, false) => ScanOptions::new().lower(&from),
            (false, _) if range.from + 1 == range.to => ScanOptions::new().prefix(&from),
            (false, true) => ScanOptions::new().range(&from[..]..&to[..]),
            (false, false) => ScanOptions::new().lower(&from).upper(&to),
        };
        let mut scan = said(self.inner.scan(self.family(range.family), options))?;
        said(match (by_seek, forward) {
            (false, true) if way == 1 => Ok(()),
            (false, true) => scan.seek_to_first(),
            (false, false) => scan.seek_to_last(),
            (true, true) => scan.seek(&from),
            (true, false) => scan.seek_for_prev(&range.to.saturating_sub(1).to_be_bytes()),
        })?;
        let mut found = Vec::new();
        if forward && way == 1 {
            // From the first, or from where the seek has led, which may be nowhere.
            for entry in scan.entries().take(most) {
                let (key, value) = said(entry)?;
                found.push((number_of(&key)?, value));
                between();
            }
            return Ok(found);
        }
        while scan.valid() {
            found.push((number_of(scan.key())?, said(scan.value())?.to_vec()));
            between();
            if found.len() >= most {
                break;
            }
            said(if forward { scan.next() } else { scan.prev() })?;
        }
        Ok(found)
    }

    fn put(&mut self, key: Key, value: &[u8]) -> Verdict {
        let family = &self.families[usize::from(key.family)];
        said(self.inner.put(family, &key.number.to_be_bytes(), value))
    }

    fn delete(&mut self, key: Key) -> Verdict {
        let family = &self.families[usize::from(key.family)];
        said(self.inner.delete(family, &key.number.to_be_bytes()))
    }

    fn savepoint(&mut self, name: &str) -> Verdict {
        said(self.inner.savepoint(name))
    }

    fn rollback_to(&mut self, name: &str) -> Verdict {
        said(self.inner.rollback_to(name))
    }

    fn commit(&mut self) -> Verdict<CommitAnswer> {
        match self.inner.commit() {
            Ok(number) => Ok(CommitAnswer::Done(number)),
            Err(e) if e.kind() == ErrorKind::Conflict => Ok(CommitAnswer::Conflict),
            Err(e) => Err(format!("the engine says: {e}")),
        }
    }

    fn rollback(&mut self) -> Verdict {
        said(self.inner.rollback())
    }

    fn reset(&mut self, level: Level) -> Verdict {
        said(self.inner.reset(engine_level(level)))
    }
}
