//! The engine behind the traits of `store`.
//!
//! Families of the store are families of the database. Keys are numbers of which neighbours share
//! prefixes, see [`key_bytes`]. Each read is made by one of the calls that count as such a read,
//! drawn from a seed. A few values are so long that they go straight to a value log, and
//! transactions also use `single_delete` (`once`).
//!
//! Numbers of plain commits come from the commit hook, which the committing thread calls before the
//! write returns. Some calls of it panic, which changes nothing.

mod once;
mod scans;

use std::cell::Cell;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidesdb::{Db, ErrorKind, Family, FamilyOptions, IsolationLevel, Transaction, WriteBatch};
use tidesdb_sim::rng::mix64;

use self::once::{OnceChange, OnceKeys};
use super::store::{
    CommitAnswer, Entries, Key, KeyRange, Level, ScanRequest, StoreTransaction, TransactionalStore,
    decode, encode,
};
use crate::Verdict;
use crate::watch::WatchedScheduler;

/// Of so many puts one has a value of more than 1 MiB.
const LONG_VALUES: u64 = 400;

/// Of so many commits the hook of one panics.
const PANICS: u64 = 7;

thread_local! {
    static NEWEST_COMMIT: Cell<Option<u64>> = const { Cell::new(None) };
}

/// A database as a store.
#[derive(Debug)]
pub struct EngineStore {
    db: Db,
    families: Vec<Family>,
    once: OnceKeys,
    scheduler: Option<Arc<WatchedScheduler>>,
    /// Draws for each transaction where its ways of reading begin.
    ways: AtomicU64,
}

/// A key's bytes. Two neighbours, of which the first is even, share the first three, and four the
/// first two.
fn key_bytes(number: u16) -> [u8; 4] {
    let [high, low] = number.to_be_bytes();
    [high, low >> 2, low >> 1 & 1, low & 1]
}

fn number_of(key: &[u8]) -> Verdict<u16> {
    match key {
        [high, group, pair @ 0..2, one @ 0..2] if *group < 64 => {
            Ok(u16::from_be_bytes([*high, group << 2 | pair << 1 | one]))
        }
        _ => Err(format!("a scan shows the key {key:?}")),
    }
}

fn said<T>(result: Result<T, tidesdb::Error>) -> Verdict<T> {
    result.map_err(|e| format!("the engine says: {e}"))
}

impl EngineStore {
    /// The families of a database, one per family of the store, made with these options. With a
    /// scheduler, background jobs run only in [`TransactionalStore::disturb`]. The seed draws by
    /// which calls transactions read.
    ///
    /// # Errors
    /// What the engine says.
    pub fn new(
        db: Db,
        families: &[FamilyOptions],
        scheduler: Option<Arc<WatchedScheduler>>,
        seed: u64,
    ) -> Verdict<Self> {
        let open = |(at, options): (usize, &FamilyOptions)| {
            let family = said(db.open_family(&format!("family {at}"), options.clone()))?;
            family.set_commit_hook(Some(Arc::new(|batch| {
                NEWEST_COMMIT.set(Some(batch.sequence));
                if mix64(batch.sequence).is_multiple_of(PANICS) {
                    // Without the panic hook of the process, which would print it.
                    resume_unwind(Box::new("a panic of the test"));
                }
            })));
            Ok(family)
        };
        let once = families.first().cloned().unwrap_or_default();
        let once = OnceKeys::of(said(db.open_family("once", once))?);
        let families = families.iter().enumerate().map(open).collect::<Verdict<_>>()?;
        Ok(Self { db, families, once, scheduler, ways: AtomicU64::new(seed) })
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
        let once = self.once.change();
        let inner = said(self.db.begin(engine_level(level)))?;
        // ORDERING: Relaxed, the numbers only have to differ.
        let ways = Cell::new(mix64(self.ways.fetch_add(1, Ordering::Relaxed)));
        let (families, writes) = (self.families.clone(), Writes::None);
        Ok(EngineTransaction { inner, level, families, once, writes, ways })
    }

    fn write_batch(&self, writes: &[(Key, Option<Vec<u8>>)]) -> Verdict<Option<u64>> {
        let mut batch = WriteBatch::new();
        for (key, value) in writes {
            let family = &self.families[usize::from(key.family)];
            let bytes = key_bytes(key.number);
            said(match value {
                Some(value) => batch.put(family, &bytes, value),
                None => batch.delete(family, &bytes),
            })?;
        }
        NEWEST_COMMIT.set(None);
        // A single write has a way of its own, and so have neighbours that are all deleted.
        said(match (writes, deleted_range(writes)) {
            ([(key, Some(value))], _) => {
                self.families[usize::from(key.family)].put(&key_bytes(key.number), value)
            }
            (_, Some(KeyRange { family, from, to })) => {
                self.families[usize::from(family)].delete_range(&key_bytes(from), &key_bytes(to))
            }
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

/// What a transaction has written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writes {
    None,
    Some,
    /// A mark was set, and with it what was written may be undone.
    Marked,
}

/// A transaction of the engine.
#[derive(Debug)]
pub struct EngineTransaction {
    inner: Transaction,
    level: Level,
    families: Vec<Family>,
    once: OnceChange,
    writes: Writes,
    /// What the next way of reading is drawn from.
    ways: Cell<u64>,
}

impl EngineTransaction {
    fn family(&self, number: u8) -> &Family {
        &self.families[usize::from(number)]
    }

    /// One of so many ways to do the next thing.
    fn next_way(&self, of: u64) -> u64 {
        mix64(self.ways.replace(self.ways.get().wrapping_add(1))) % of
    }

    /// A transaction without writes stays one.
    fn note_write(&mut self) {
        if self.writes == Writes::None {
            self.writes = Writes::Some;
        }
    }

    /// Asks whether the key is there, and reads the value in a way that leaves no trace.
    fn ask_and_peek(&self, key: Key) -> Verdict<Option<Vec<u8>>> {
        let (family, bytes) = (self.family(key.family), key_bytes(key.number));
        let is_there = said(self.inner.contains(family, &bytes))?;
        let found = said(self.inner.get_untracked(family, &bytes))?;
        let peeked = said(self.inner.contains_untracked(family, &bytes))?;
        if (is_there, peeked) != (found.is_some(), found.is_some()) {
            return Err(format!("{key:?} is there: {is_there}, {peeked}, and its value {found:?}"));
        }
        Ok(found)
    }
}

impl StoreTransaction for EngineTransaction {
    fn get(&self, key: Key) -> Verdict<Option<Vec<u8>>> {
        let (family, bytes) = (self.family(key.family), key_bytes(key.number));
        let has_snapshot = self.inner.snapshot_sequence().is_some();
        match self.next_way(6) {
            0 if has_snapshot => self.ask_and_peek(key),
            1 => self.get_several(&[key]).map(|mut values| values.pop().flatten()),
            2 => said(self.inner.get_with(family, &bytes, <[u8]>::to_vec)),
            3 => Ok(said(self.inner.get_pinned(family, &bytes))?.map(|value| value.to_vec())),
            _ => said(self.inner.get(family, &bytes)),
        }
    }

    fn get_untracked(&self, key: Key) -> Verdict<Option<Vec<u8>>> {
        said(self.inner.get_untracked(self.family(key.family), &key_bytes(key.number)))
    }

    fn get_several(&self, keys: &[Key]) -> Verdict<Vec<Option<Vec<u8>>>> {
        let Some(first) = keys.first() else { return Ok(Vec::new()) };
        let (family, bytes) = (self.family(first.family), keys.iter().map(|k| key_bytes(k.number)));
        if self.next_way(2) == 0 {
            return said(self.inner.multi_get(family, bytes));
        }
        let pinned = said(self.inner.multi_get_pinned(family, bytes))?;
        Ok(pinned.into_iter().map(|value| Some(value?.to_vec())).collect())
    }

    fn scan(&self, request: ScanRequest, between: &mut dyn FnMut()) -> Verdict<Entries> {
        let has_snapshot = self.inner.snapshot_sequence().is_some();
        if request.forward && has_snapshot && self.next_way(4) == 0 {
            return self.scan_by_pages(request, between);
        }
        self.scan_once(request, between)
    }

    fn put(&mut self, key: Key, value: &[u8]) -> Verdict {
        self.note_write();
        let long = self.next_way(LONG_VALUES) == 0;
        let long = if long { decode(value).map(|numbers| encode(&numbers, 1 << 20)) } else { None };
        let family = &self.families[usize::from(key.family)];
        said(self.inner.put(family, &key_bytes(key.number), long.as_deref().unwrap_or(value)))
    }

    fn delete(&mut self, key: Key) -> Verdict {
        self.note_write();
        let family = &self.families[usize::from(key.family)];
        said(self.inner.delete(family, &key_bytes(key.number)))
    }

    fn savepoint(&mut self, name: &str) -> Verdict {
        self.writes = Writes::Marked;
        said(self.inner.savepoint(name))
    }

    fn rollback_to(&mut self, name: &str) -> Verdict {
        said(self.inner.rollback_to_savepoint(name))
    }

    fn commit(&mut self) -> Verdict<CommitAnswer> {
        if self.writes == Writes::Some {
            self.once.write(&mut self.inner)?;
        }
        match self.inner.commit() {
            Ok(number) => {
                if self.writes == Writes::Some {
                    self.once.done();
                }
                Ok(CommitAnswer::Done(number))
            }
            Err(e) if e.kind() == ErrorKind::Conflict => Ok(CommitAnswer::Conflict),
            Err(e) => Err(format!("the engine says: {e}")),
        }
    }

    fn rollback(&mut self) -> Verdict {
        said(self.inner.rollback())
    }

    fn reset(&mut self, level: Level) -> Verdict {
        (self.level, self.writes) = (level, Writes::None);
        self.once = self.once.next();
        said(self.inner.reset(engine_level(level)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_sort_as_their_numbers_and_come_back() {
        let keys: Vec<_> = (0..2000).map(key_bytes).collect();
        assert!(keys.is_sorted());
        assert!(keys.iter().zip(0..).all(|(key, number)| number_of(key) == Ok(number)));
        assert!(number_of(&[0, 0, 2, 0]).is_err() && number_of(&[0, 1]).is_err());
    }
}
