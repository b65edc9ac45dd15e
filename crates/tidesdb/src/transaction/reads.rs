//! Reads of keys in a transaction: of one, and of several at once.

use std::sync::Arc;

use tidesdb_base::entry::{NEVER_EXPIRES, is_expired};
use tidesdb_base::error::Result;
use tidesdb_files::wal::Operation;
use tidesdb_lockfree::sync::lock;

use super::Transaction;
use super::handle::State;
use crate::family::FamilyState;
use crate::handles::{Family, Snapshot};
use crate::isolation::IsolationLevel;
use crate::read::{Collect, PinnedValue, Pins, copied};

impl Transaction {
    /// The value of a key, copied; `None` when it is absent, deleted or expired. The transaction's
    /// own writes come first. Below repeatable read the newest committed value counts, otherwise
    /// that of the snapshot.
    ///
    /// # Errors
    /// As [`Family::get`]; `Invalid` for a family of another database or a finished transaction.
    pub fn get(&self, family: &Family, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.get_copied(family, key.as_ref())
    }

    fn get_copied(&self, family: &Family, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.get_with(family, key, copied)?.transpose()
    }

    /// Calls `read` with the value of a key, borrowed where it lies. Otherwise as
    /// [`Transaction::get`].
    ///
    /// # Errors
    /// As [`Transaction::get`].
    #[inline]
    pub fn get_with<R>(
        &self,
        family: &Family,
        key: impl AsRef<[u8]>,
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        if self.is_plain() {
            self.check_family(family.state())?;
            return self.core().get_with(family.state(), None, key.as_ref(), read);
        }
        self.get_tracked(family, key.as_ref(), read)
    }

    /// Reads are those of the database: nothing is written yet, and nothing remembered.
    #[inline]
    pub(super) fn is_plain(&self) -> bool {
        self.state == State::Active
            && !self.level.has_snapshot()
            && self.writes.as_ref().is_none_or(|writes| writes.is_empty())
    }

    fn get_tracked<R>(
        &self,
        family: &Family,
        key: &[u8],
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        let key = &*family.state().keys.stored_key(key)?;
        let (own, found) = self.look_up(family.state(), key, read)?;
        if !own {
            self.track(family.state(), key, found.is_some());
        }
        Ok(found)
    }

    /// Remembers for the commit that a key was read.
    pub(super) fn track(&self, family: &Arc<FamilyState>, key: &[u8], found: bool) {
        if !self.level.tracks_reads() {
            return;
        }
        let absent_counts = self.level == IsolationLevel::Serializable;
        if found || absent_counts {
            let mut reads = lock(self.reads());
            reads.add_point(family, key);
            self.charge(Some(&reads));
        }
    }

    /// As [`Transaction::get`], but the commit does not mind if the key changes.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn get_untracked(&self, family: &Family, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.get_untracked_with(family, key.as_ref(), copied)?.transpose()
    }

    /// As [`Transaction::get_with`], but the commit does not mind if the key changes.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn get_untracked_with<R>(
        &self,
        family: &Family,
        key: impl AsRef<[u8]>,
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        let key = &*family.state().keys.stored_key(key.as_ref())?;
        self.look_up(family.state(), key, read).map(|(_, found)| found)
    }

    /// True when the key has a value. For the commit the key counts as read, as with
    /// [`Transaction::get`].
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn contains(&self, family: &Family, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.get_with(family, key.as_ref(), |_| ())?.is_some())
    }

    /// As [`Transaction::contains`], but the commit does not mind if that changes.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn contains_untracked(&self, family: &Family, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.get_untracked_with(family, key.as_ref(), |_| ())?.is_some())
    }

    /// Whether the answer for a stored key is an own write, and the answer.
    #[inline]
    fn look_up<R>(
        &self,
        family: &FamilyState,
        key: &[u8],
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<(bool, Option<R>)> {
        self.check_active()?;
        self.check_family(family)?;
        let core = self.core();
        if let Some(writes) = &self.writes
            && !writes.is_empty()
        {
            core.health.check_readable(family)?;
            let own = writes.find(family.id, key);
            self.charge_index(writes);
            if let Some(own) = own {
                let value = family.keys.order.value(own.value);
                return Ok((true, (!self.is_dead(&own)).then(|| read(value))));
            }
        }
        let order = &family.keys.order;
        let read = |value: &[u8]| read(order.value(value));
        Ok((false, core.get_stored(family, self.read_point(), key, read)?))
    }

    /// Whether an own write leaves its key without a value.
    pub(super) fn is_dead(&self, own: &Operation<'_>) -> bool {
        own.kind.is_tombstone() || (own.expires_at != NEVER_EXPIRES && self.has_expired(own))
    }

    fn has_expired(&self, own: &Operation<'_>) -> bool {
        // It was written after the snapshot was taken: it has expired by either time.
        let now = self.core().env.clock.unix_seconds();
        is_expired(own.expires_at, self.snapshot.map_or(now, |at| at.now.max(now)))
    }

    /// The values of several keys, in the order of the keys; each counts as read as by
    /// [`Transaction::get`]. Faster than one get after the other, as [`Family::multi_get`]; below
    /// repeatable read all values are of one moment.
    ///
    /// # Errors
    /// As [`Transaction::get`]; an error of one key is the error of the call.
    pub fn multi_get<K: AsRef<[u8]>>(
        &self,
        family: &Family,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Vec<Option<Vec<u8>>>> {
        let keys: Vec<K> = keys.into_iter().collect();
        let mut values = vec![None; keys.len()];
        self.collect(family.state(), &keys, &mut values)?;
        family.state().keys.take_off_spelling(&mut values);
        Ok(values)
    }

    /// As [`Transaction::multi_get`], without copies but of own writes; see [`PinnedValue`] for
    /// what is kept in memory.
    ///
    /// # Errors
    /// As [`Transaction::multi_get`].
    pub fn multi_get_pinned<K: AsRef<[u8]>>(
        &self,
        family: &Family,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Vec<Option<PinnedValue>>> {
        let keys: Vec<K> = keys.into_iter().collect();
        let values = keys.iter().map(|_| None).collect();
        let mut pins = Pins { budget: &self.core().memory.budget, family: family.state(), values };
        self.collect(family.state(), &keys, &mut pins)?;
        Ok(pins.values)
    }

    /// As [`Transaction::get`], without a copy but of an own write; see [`PinnedValue`].
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn get_pinned(
        &self,
        family: &Family,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<PinnedValue>> {
        Ok(self.multi_get_pinned(family, [key.as_ref()])?.pop().flatten())
    }

    fn collect<K: AsRef<[u8]>>(
        &self,
        family: &Arc<FamilyState>,
        keys: &[K],
        collect: &mut impl Collect,
    ) -> Result<()> {
        self.check_active()?;
        self.check_family(family)?;
        // Before the registry of snapshots, of which a lock may be held for good in a forked child.
        self.core().health.check_readable(family)?;
        match family.keys.stored_keys(keys)? {
            None => self.get_many(family, keys, collect),
            Some(keys) => self.get_many(family, &keys, collect),
        }
    }

    /// Collects the stored values of stored keys.
    fn get_many<K: AsRef<[u8]>>(
        &self,
        family: &Arc<FamilyState>,
        keys: &[K],
        collect: &mut impl Collect,
    ) -> Result<()> {
        let mut wanted = Vec::with_capacity(keys.len());
        let writes = self.writes.as_deref().filter(|writes| !writes.is_empty());
        for (at, key) in keys.iter().enumerate() {
            match writes.and_then(|writes| writes.find(family.id, key.as_ref())) {
                Some(own) if self.is_dead(&own) => {}
                Some(own) => collect.fetched(at, copied(own.value)?),
                None => wanted.push(at),
            }
        }
        if let Some(writes) = writes {
            self.charge_index(writes);
        }
        let not_own = wanted.clone();
        let taken = self.snapshot.is_none().then(|| Snapshot::take(self.core()));
        if let Some(read_point) = self.read_point().or(taken.as_ref().map(Snapshot::read_point)) {
            self.core().get_many(family, read_point, (keys, wanted), collect)?;
        }
        for at in not_own {
            if let Some(key) = keys.get(at) {
                self.track(family, key.as_ref(), collect.has(at));
            }
        }
        Ok(())
    }
}
