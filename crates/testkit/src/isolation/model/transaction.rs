//! A transaction of the model.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::super::store::{
    CommitAnswer, Entries, Key, KeyRange, Level, ScanRequest, StoreTransaction,
};
use super::{Mistake, Model, Shared, Value};
use crate::Verdict;

/// What a transaction has read and the store remembers.
#[derive(Debug, Default)]
pub(super) struct Seen {
    present: BTreeSet<Key>,
    absent: BTreeSet<Key>,
    ranges: Vec<KeyRange>,
}

/// A transaction of the model.
#[derive(Debug)]
pub struct ModelTransaction {
    pub(super) store: Model,
    pub(super) level: Level,
    pub(super) snapshot: u64,
    pub(super) writes: BTreeMap<Key, Value>,
    /// Values that were overwritten later in the same transaction.
    pub(super) first_writes: Vec<(Key, Value)>,
    /// Values that a roll back to a savepoint undid.
    pub(super) undone: Vec<(Key, Value)>,
    pub(super) savepoints: Vec<(String, BTreeMap<Key, Value>)>,
    pub(super) seen: Mutex<Seen>,
    pub(super) live: bool,
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
