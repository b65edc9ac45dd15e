//! A transactional store in memory: right as it stands, and wrong in one way if asked.
//!
//! It shows that the checker finds each anomaly, and is the reference that the engine's answers
//! are compared with in interleavings. One lock around everything; each key has the list of its
//! committed versions. A serializable transaction is refused when anything that it has read, keys
//! and ranges alike, has changed since its snapshot: stricter than necessary, and plainly right.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::store::{
    CommitAnswer, Entries, Key, KeyRange, Level, ScanRequest, StoreTransaction, TransactionalStore,
};
use crate::Verdict;

/// A way of being wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// Written keys are not checked at commit.
    LostUpdate,
    /// Only keys that were also read are checked for a newer version.
    BlindWritesUnchecked,
    /// Serializable transactions are checked like snapshots.
    WriteSkew,
    /// Reads of single keys see the newest version instead of the snapshot's.
    ReadSkew,
    /// Ranges are not remembered.
    Phantom,
    /// Absent keys are not remembered.
    AbsentReadsForgotten,
    /// Repeatable read does not check what it has read.
    RepeatableReadUnchecked,
    /// Reads see what others have not committed yet.
    DirtyRead,
    /// What is rolled back stays.
    AbortedRead,
    /// What is undone by a roll back to a savepoint stays.
    SavepointKept,
    /// A value that is overwritten in the same transaction is published.
    IntermediateRead,
    /// A refused commit leaves its first write behind.
    ConflictLeavesTrace,
    /// The first key of a commit is visible one read earlier than the others.
    Fractured,
    /// A snapshot is one commit older than it should be.
    StaleSnapshot,
    /// Scans do not see the transaction's own writes.
    OwnWritesMissed,
    /// Scans backwards pass over the second entry.
    ScanSkipsAKey,
    /// Two commits say each other's numbers.
    NumbersSwapped,
}

impl Mistake {
    /// All of them.
    pub const ALL: [Self; 17] = [
        Self::LostUpdate,
        Self::BlindWritesUnchecked,
        Self::WriteSkew,
        Self::ReadSkew,
        Self::Phantom,
        Self::AbsentReadsForgotten,
        Self::RepeatableReadUnchecked,
        Self::DirtyRead,
        Self::AbortedRead,
        Self::SavepointKept,
        Self::IntermediateRead,
        Self::ConflictLeavesTrace,
        Self::Fractured,
        Self::StaleSnapshot,
        Self::OwnWritesMissed,
        Self::ScanSkipsAKey,
        Self::NumbersSwapped,
    ];
}

type Value = Option<Vec<u8>>;

#[derive(Debug, Default)]
struct Shared {
    versions: BTreeMap<Key, Vec<(u64, Value)>>,
    /// Number of the newest commit; the commits in between are all visible.
    newest: u64,
    live: usize,
    /// Writes of open transactions, for the mistake of showing them.
    uncommitted: BTreeMap<Key, Value>,
    /// Writes of the newest commit that wait for one more read, for the mistake of tearing it.
    held_back: Vec<(Key, u64, Value)>,
}

impl Shared {
    fn install(&mut self, key: Key, number: u64, value: Value) {
        self.versions.entry(key).or_default().push((number, value));
    }

    fn at(&self, key: Key, snapshot: u64) -> Value {
        let versions = self.versions.get(&key)?;
        versions.iter().rev().find(|(number, _)| *number <= snapshot)?.1.clone()
    }

    fn changed_after(&self, key: Key, snapshot: u64) -> bool {
        let newest = self.versions.get(&key).and_then(|versions| versions.last());
        newest.is_some_and(|(number, _)| *number > snapshot)
    }

    fn release_held_back(&mut self) {
        for (key, number, value) in std::mem::take(&mut self.held_back) {
            self.install(key, number, value);
        }
    }
}

/// The store.
#[derive(Clone, Debug)]
pub struct Model {
    shared: Arc<Mutex<Shared>>,
    mistake: Option<Mistake>,
}

impl Model {
    /// A store that is right, or wrong in one way.
    #[must_use]
    pub fn new(mistake: Option<Mistake>) -> Self {
        Self { shared: Arc::default(), mistake }
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn makes(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    fn snapshot(&self, level: Level) -> u64 {
        let mut shared = self.lock();
        if shared.live == 0 {
            // No reader can ask for the older versions any more.
            shared.versions.values_mut().for_each(|versions| {
                let old = versions.len().saturating_sub(2);
                versions.drain(..old);
            });
        }
        shared.live += 1;
        let stale = self.makes(Mistake::StaleSnapshot) && level.has_snapshot();
        shared.newest - u64::from(stale && shared.newest > 0)
    }
}

impl TransactionalStore for Model {
    type Transaction = ModelTransaction;

    fn begin(&self, level: Level) -> Verdict<ModelTransaction> {
        let snapshot = self.snapshot(level);
        let seen = Mutex::default();
        Ok(ModelTransaction {
            store: self.clone(),
            level,
            snapshot,
            writes: BTreeMap::new(),
            first_writes: Vec::new(),
            undone: Vec::new(),
            savepoints: Vec::new(),
            seen,
            live: true,
        })
    }

    fn write_batch(&self, writes: &[(Key, Value)]) -> Verdict<Option<u64>> {
        let mut shared = self.lock();
        shared.newest += 1;
        let number = shared.newest;
        for (key, value) in writes {
            shared.install(*key, number, value.clone());
        }
        Ok(Some(number))
    }

    fn disturb(&self, _choice: u64) -> Verdict {
        Ok(())
    }
}

/// What a transaction has read and the store remembers.
#[derive(Debug, Default)]
struct Seen {
    present: BTreeSet<Key>,
    absent: BTreeSet<Key>,
    ranges: Vec<KeyRange>,
}

/// A transaction of the model.
#[derive(Debug)]
pub struct ModelTransaction {
    store: Model,
    level: Level,
    snapshot: u64,
    writes: BTreeMap<Key, Value>,
    /// Values that were overwritten later in the same transaction.
    first_writes: Vec<(Key, Value)>,
    /// Values that a roll back to a savepoint undid.
    undone: Vec<(Key, Value)>,
    savepoints: Vec<(String, BTreeMap<Key, Value>)>,
    seen: Mutex<Seen>,
    live: bool,
}

impl ModelTransaction {
    fn makes(&self, mistake: Mistake) -> bool {
        self.store.makes(mistake)
    }

    fn committed(&self, shared: &Shared, key: Key, point: bool) -> Value {
        if self.makes(Mistake::DirtyRead)
            && let Some(value) = shared.uncommitted.get(&key)
        {
            return value.clone();
        }
        let newest = !self.level.has_snapshot() || point && self.makes(Mistake::ReadSkew);
        shared.at(key, if newest { shared.newest } else { self.snapshot })
    }

    fn read(&self, key: Key, tracked: bool) -> Value {
        if let Some(own) = self.writes.get(&key) {
            return own.clone();
        }
        let mut shared = self.store.lock();
        let value = self.committed(&shared, key, true);
        shared.release_held_back();
        if tracked {
            let mut seen = self.seen();
            if value.is_some() { &mut seen.present } else { &mut seen.absent }.insert(key);
        }
        value
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn visible(&self, shared: &Shared, range: KeyRange) -> BTreeMap<Key, Vec<u8>> {
        let mut keys: BTreeSet<Key> = shared.versions.keys().copied().collect();
        if self.makes(Mistake::DirtyRead) {
            keys.extend(shared.uncommitted.keys());
        }
        keys.extend(self.writes.keys());
        let mut found = BTreeMap::new();
        for key in keys.into_iter().filter(|key| range.contains(*key)) {
            let own = self.writes.get(&key).filter(|_| !self.makes(Mistake::OwnWritesMissed));
            let value = own.cloned().unwrap_or_else(|| self.committed(shared, key, false));
            found.extend(value.map(|value| (key, value)));
        }
        found
    }

    fn must_yield(&self, shared: &Shared) -> bool {
        let changed = |key: &Key| shared.changed_after(*key, self.snapshot);
        let seen = self.seen();
        let read = |key: &&Key| seen.present.contains(key) || seen.absent.contains(key);
        let written = if self.makes(Mistake::LostUpdate) {
            false
        } else if self.makes(Mistake::BlindWritesUnchecked) {
            self.writes.keys().filter(read).any(changed)
        } else {
            self.writes.keys().any(changed)
        };
        let unchecked = |key: &Key| {
            self.makes(Mistake::LostUpdate) && self.writes.contains_key(key)
                || self.makes(Mistake::AbsentReadsForgotten) && seen.absent.contains(key)
        };
        let present = seen.present.iter().any(|key| changed(key) && !unchecked(key));
        let absent = seen.absent.iter().any(|key| changed(key) && !unchecked(key));
        let in_range = |key: &Key| seen.ranges.iter().any(|range| range.contains(*key));
        let ranges = !self.makes(Mistake::Phantom)
            && shared.versions.keys().any(|key| in_range(key) && changed(key) && !unchecked(key));
        match self.level {
            Level::ReadUncommitted | Level::ReadCommitted => false,
            Level::RepeatableRead => present && !self.makes(Mistake::RepeatableReadUnchecked),
            Level::Snapshot => written,
            Level::Serializable if self.makes(Mistake::WriteSkew) => written,
            // What only reads saw one state, and can be put where that state was.
            Level::Serializable if self.writes.is_empty() => false,
            Level::Serializable => written || present || absent || ranges,
        }
    }

    fn publish(&mut self, shared: &mut Shared) -> Option<u64> {
        if self.makes(Mistake::IntermediateRead) {
            for (key, value) in self.first_writes.drain(..) {
                shared.newest += 1;
                let number = shared.newest;
                shared.install(key, number, value);
                self.writes.remove(&key);
            }
        }
        if self.makes(Mistake::SavepointKept) {
            for (key, value) in self.undone.drain(..) {
                self.writes.insert(key, value);
            }
        }
        if self.writes.is_empty() {
            return None;
        }
        shared.newest += 1;
        let number = shared.newest;
        for (at, (key, value)) in std::mem::take(&mut self.writes).into_iter().enumerate() {
            if at > 0 && self.makes(Mistake::Fractured) {
                shared.held_back.push((key, number, value));
            } else {
                shared.install(key, number, value);
            }
        }
        let swapped = self.makes(Mistake::NumbersSwapped);
        Some(if swapped { ((number - 1) ^ 1) + 1 } else { number })
    }

    fn end(&mut self, shared: &mut Shared) {
        if std::mem::take(&mut self.live) {
            shared.live -= 1;
        }
        for key in self.writes.keys() {
            shared.uncommitted.remove(key);
        }
        self.writes.clear();
        self.first_writes.clear();
        self.undone.clear();
        self.savepoints.clear();
        *self.seen() = Seen::default();
    }

    fn write(&mut self, key: Key, value: Value) {
        if let Some(before) = self.writes.insert(key, value.clone()) {
            self.first_writes.push((key, before));
        }
        if self.makes(Mistake::DirtyRead) {
            self.store.lock().uncommitted.insert(key, value);
        }
    }
}

impl StoreTransaction for ModelTransaction {
    fn get(&self, key: Key) -> Verdict<Value> {
        Ok(self.read(key, true))
    }

    fn get_untracked(&self, key: Key) -> Verdict<Value> {
        Ok(self.read(key, false))
    }

    fn scan(&self, request: ScanRequest, between: &mut dyn FnMut()) -> Verdict<Entries> {
        let mut shared = self.store.lock();
        let mut found: Vec<_> = self.visible(&shared, request.range).into_iter().collect();
        shared.release_held_back();
        if !request.forward {
            found.reverse();
            if self.makes(Mistake::ScanSkipsAKey) && found.len() > 1 {
                found.remove(1);
            }
        }
        let mut range = request.range;
        if found.len() >= request.most {
            found.truncate(request.most);
            if let Some((last, _)) = found.last() {
                let end = if request.forward { &mut range.to } else { &mut range.from };
                *end = last.number + u16::from(request.forward);
            }
        }
        let mut seen = self.seen();
        seen.ranges.push(range);
        if !self.makes(Mistake::Phantom) {
            // What lies below an own write was passed over as well.
            let there =
                |key: &&Key| range.contains(**key) && shared.at(**key, self.snapshot).is_some();
            seen.present.extend(shared.versions.keys().filter(there));
        }
        drop((shared, seen));
        found.iter().for_each(|_| between());
        Ok(found.into_iter().map(|(key, value)| (key.number, value)).collect())
    }

    fn put(&mut self, key: Key, value: &[u8]) -> Verdict {
        self.write(key, Some(value.to_vec()));
        Ok(())
    }

    fn delete(&mut self, key: Key) -> Verdict {
        self.write(key, None);
        Ok(())
    }

    fn savepoint(&mut self, name: &str) -> Verdict {
        let now = self.writes.clone();
        match self.savepoints.iter_mut().find(|(known, _)| known == name) {
            Some((_, writes)) => *writes = now,
            None => self.savepoints.push((name.to_owned(), now)),
        }
        Ok(())
    }

    fn rollback_to(&mut self, name: &str) -> Verdict {
        let known = self.savepoints.iter().position(|(known, _)| known == name);
        let at = known.ok_or_else(|| format!("no savepoint {name}"))?;
        let (_, before) = self.savepoints.swap_remove(at);
        self.savepoints.truncate(at);
        let after = std::mem::replace(&mut self.writes, before);
        for (key, value) in after {
            if self.writes.get(&key) != Some(&value) {
                self.undone.push((key, value));
            }
        }
        Ok(())
    }

    fn commit(&mut self) -> Verdict<CommitAnswer> {
        let store = self.store.clone();
        let mut shared = store.lock();
        shared.release_held_back();
        if self.must_yield(&shared) {
            if self.makes(Mistake::ConflictLeavesTrace)
                && let Some((key, value)) = self.writes.iter().next()
            {
                shared.newest += 1;
                let number = shared.newest;
                shared.install(*key, number, value.clone());
            }
            return Ok(CommitAnswer::Conflict);
        }
        let number = self.publish(&mut shared);
        self.end(&mut shared);
        Ok(CommitAnswer::Done(number))
    }

    fn rollback(&mut self) -> Verdict {
        let store = self.store.clone();
        let mut shared = store.lock();
        if self.makes(Mistake::AbortedRead) {
            self.publish(&mut shared);
        }
        self.end(&mut shared);
        Ok(())
    }

    fn reset(&mut self, level: Level) -> Verdict {
        if self.live {
            return Err("reset of a transaction that is not finished".to_owned());
        }
        self.level = level;
        self.snapshot = self.store.snapshot(level);
        self.live = true;
        Ok(())
    }
}

impl Drop for ModelTransaction {
    fn drop(&mut self) {
        let store = self.store.clone();
        self.end(&mut store.lock());
    }
}
