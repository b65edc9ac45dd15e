//! A transactional store in memory: right as it stands, and wrong in one way if asked.
//!
//! It shows that the checker finds each anomaly, and is the reference that the engine's results
//! are compared with in interleavings. One lock around everything; each key has the list of its
//! committed versions. A serializable transaction is refused when anything that it has read, keys
//! and ranges alike, has changed since its snapshot: stricter than necessary, and plainly right.

mod mistake;
mod transaction;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use self::mistake::Mistake;
pub use self::transaction::ModelTransaction;
use super::store::{Key, Level, TransactionalStore};
use crate::Verdict;

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
