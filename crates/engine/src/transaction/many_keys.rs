//! Reads of several keys in a transaction.

use std::sync::Arc;

use tidesdb_base::error::Result;

use super::Transaction;
use crate::family::{Family, FamilyState};
use crate::snapshot::Snapshot;

impl Transaction {
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
        self.check_active()?;
        let family = family.state();
        self.check_family(family)?;
        let keys: Vec<K> = keys.into_iter().collect();
        let mut values = match family.stored_keys(&keys)? {
            None => self.get_many(family, &keys)?,
            Some(keys) => self.get_many(family, &keys)?,
        };
        family.take_off_spelling(&mut values);
        Ok(values)
    }

    /// The stored values of stored keys.
    fn get_many<K: AsRef<[u8]>>(
        &self,
        family: &Arc<FamilyState>,
        keys: &[K],
    ) -> Result<Vec<Option<Vec<u8>>>> {
        let mut values = vec![None; keys.len()];
        let mut wanted = Vec::with_capacity(keys.len());
        let writes = self.writes.as_deref().filter(|writes| !writes.is_empty());
        for (at, (key, value)) in keys.iter().zip(&mut values).enumerate() {
            match writes.and_then(|writes| writes.find(family.id, key.as_ref())) {
                Some(own) => *value = (!self.is_dead(&own)).then(|| own.value.to_vec()),
                None => wanted.push(at),
            }
        }
        let not_own = wanted.clone();
        let taken = self.snapshot.is_none().then(|| Snapshot::take(self.core()));
        if let Some(moment) = self.snapshot.or(taken.as_ref().map(Snapshot::moment)) {
            self.core().get_many(family, moment, (keys, wanted), &mut values)?;
        }
        for at in not_own {
            if let (Some(key), Some(value)) = (keys.get(at), values.get(at)) {
                self.track(family, key.as_ref(), value.is_some());
            }
        }
        Ok(values)
    }
}
