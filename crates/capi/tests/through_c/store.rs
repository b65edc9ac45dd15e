//! The C interface as a store whose isolation is judged.

use std::cell::{Cell, RefCell};
use std::ffi::{c_int, c_void};
use std::path::Path;

use tidesdb_testkit::Verdict;
use tidesdb_testkit::isolation::store::{
    CommitAnswer, Entries, Key, Level, ScanRequest, StoreTransaction, TransactionalStore,
};

use crate::handles::{self, Database, Family, Move};
use crate::types::{CommitOp, FamilyConfig};

thread_local! {
    static NEWEST_COMMIT: Cell<Option<u64>> = const { Cell::new(None) };
}

extern "C" fn note_commit(_: *const CommitOp, _: c_int, sequence: u64, _: *mut c_void) -> c_int {
    NEWEST_COMMIT.set(Some(sequence));
    0
}

/// A database in a directory, driven through C.
pub struct CStore {
    // Before the database, which it must not outlive: a number of plain pointers.
    families: Vec<Family>,
    db: Database,
    /// Begins transactions one level below the one that was asked for: a planted fault.
    too_weak: bool,
}

impl CStore {
    pub fn new(
        directory: &Path,
        config: &FamilyConfig,
        too_weak: bool,
        shared_memtable: bool,
    ) -> Verdict<Self> {
        let db = Database::open(directory, shared_memtable)?;
        let create = |at: u8| {
            let family = db.create(&format!("family {at}"), config)?;
            family.set_hook(note_commit)?;
            Ok(family)
        };
        let families = (0..2).map(create).collect::<Verdict<_>>()?;
        Ok(Self { families, db, too_weak })
    }
}

/// The number of a level in the interface.
fn number(level: Level) -> c_int {
    match level {
        Level::ReadUncommitted => 0,
        Level::ReadCommitted => 1,
        Level::RepeatableRead => 2,
        Level::Snapshot => 3,
        Level::Serializable => 4,
    }
}

impl TransactionalStore for CStore {
    type Transaction = CTransaction;

    fn begin(&self, level: Level) -> Verdict<CTransaction> {
        let inner = self.db.begin((number(level) - c_int::from(self.too_weak)).max(0))?;
        let families = self.families.clone();
        Ok(CTransaction { inner: RefCell::new(inner), families, reads: Cell::new(0) })
    }

    fn write_batch(&self, writes: &[(Key, Option<Vec<u8>>)]) -> Verdict<Option<u64>> {
        let mut transaction = self.db.begin(number(Level::ReadCommitted))?;
        for (key, value) in writes {
            let family = self.families[usize::from(key.family)];
            let bytes = key.number.to_be_bytes();
            match value {
                Some(value) => transaction.put(family, &bytes, value, 0)?,
                None => transaction.delete(family, &bytes, false)?,
            }
        }
        NEWEST_COMMIT.set(None);
        handles::worked("commit of a batch", transaction.commit())?;
        Ok(NEWEST_COMMIT.take())
    }

    fn disturb(&self, choice: u64) -> Verdict {
        let family = self.families[(choice >> 32) as usize % self.families.len()];
        match choice % 64 {
            0 => self.families.iter().try_for_each(|family| family.compact()),
            1..4 => family.compact(),
            4..6 => self.families.iter().try_for_each(|family| family.flush()),
            6..14 => family.flush(),
            _ => Ok(()),
        }
    }
}

/// A transaction of such a store.
pub struct CTransaction {
    /// Reads change nothing that shows, and need the handle all the same.
    inner: RefCell<handles::Transaction>,
    families: Vec<Family>,
    /// Reads so far: they are checked by `contains` now and then.
    reads: Cell<u32>,
}

impl CTransaction {
    fn family(&self, key: Key) -> Family {
        self.families[usize::from(key.family)]
    }
}

impl StoreTransaction for CTransaction {
    fn get(&self, key: Key) -> Verdict<Option<Vec<u8>>> {
        self.inner.borrow().get(self.family(key), &key.number.to_be_bytes(), true)
    }

    fn get_untracked(&self, key: Key) -> Verdict<Option<Vec<u8>>> {
        let (inner, bytes) = (self.inner.borrow(), key.number.to_be_bytes());
        self.reads.set(self.reads.get() + 1);
        if self.reads.get().is_multiple_of(4) && !inner.contains(self.family(key), &bytes)? {
            return Ok(None);
        }
        inner.get(self.family(key), &bytes, false)
    }

    fn scan(&self, request: ScanRequest, between: &mut dyn FnMut()) -> Verdict<Entries> {
        let ScanRequest { range, forward, most } = request;
        let mut found = Entries::new();
        if range.from >= range.to {
            return Ok(found);
        }
        let inner = self.inner.borrow();
        let mut iterator = inner.iterate(self.families[usize::from(range.family)])?;
        let (first, last) = (range.from.to_be_bytes(), (range.to - 1).to_be_bytes());
        let start = if forward { Move::Seek(&first) } else { Move::SeekForPrev(&last) };
        let mut entry = iterator.go(start)?;
        between();
        while let Some((key, value)) = entry {
            let bytes: [u8; 2] = key.try_into().map_err(|key| format!("a scan shows {key:?}"))?;
            let number = u16::from_be_bytes(bytes);
            if !(range.from..range.to).contains(&number) {
                break;
            }
            found.push((number, value));
            if found.len() >= most {
                break;
            }
            entry = iterator.go(if forward { Move::Next } else { Move::Prev })?;
            between();
        }
        Ok(found)
    }

    fn put(&mut self, key: Key, value: &[u8]) -> Verdict {
        let family = self.family(key);
        self.inner.get_mut().put(family, &key.number.to_be_bytes(), value, 0)
    }

    fn delete(&mut self, key: Key) -> Verdict {
        let family = self.family(key);
        self.inner.get_mut().delete(family, &key.number.to_be_bytes(), false)
    }

    fn savepoint(&mut self, name: &str) -> Verdict {
        self.inner.get_mut().savepoint(name)
    }

    fn rollback_to(&mut self, name: &str) -> Verdict {
        self.inner.get_mut().rollback_to(name)
    }

    fn commit(&mut self) -> Verdict<CommitAnswer> {
        NEWEST_COMMIT.set(None);
        match self.inner.get_mut().commit() {
            handles::SUCCESS => Ok(CommitAnswer::Done(NEWEST_COMMIT.take())),
            handles::CONFLICT => Ok(CommitAnswer::Conflict),
            code => Err(format!("commit answered {code}")),
        }
    }

    fn rollback(&mut self) -> Verdict {
        self.inner.get_mut().rollback()
    }

    fn reset(&mut self, level: Level) -> Verdict {
        self.inner.get_mut().reset(number(level))
    }
}
