//! Keys that are put once and then deleted with `single_delete`, beside what a transaction writes.
//!
//! The keys of programs are put again and again, which single deletions are not for. So each
//! transaction that writes also puts a key of its own, in a family that no program names, and
//! deletes the key of an earlier one, which no other transaction does. As a transaction takes that
//! key before it begins, it sees the put, and it has no conflict of which a model knows nothing.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use tidesdb::{Family, Transaction};
use tidesdb_sys::sync::lock;

use super::said;
use crate::Verdict;

/// Keys stay for so many transactions, so that tables have them when they are deleted.
const LINGERING: usize = 8;

/// The last ones that were deleted are looked for again.
const REMEMBERED: usize = 500;

#[derive(Debug, Default)]
struct State {
    next: u64,
    there: VecDeque<u64>,
    gone: VecDeque<u64>,
}

/// The keys of a store.
#[derive(Clone, Debug)]
pub(super) struct OnceKeys {
    family: Family,
    state: Arc<Mutex<State>>,
}

/// What one transaction does to them.
#[derive(Debug)]
pub(super) struct OnceChange {
    keys: OnceKeys,
    /// It deletes this key, which is there. Given back if it does not come to that.
    taken: Option<u64>,
    /// This key is not there any more.
    gone: Option<u64>,
    /// It puts this key.
    own: Option<u64>,
}

fn value_of(number: u64) -> Vec<u8> {
    number.to_le_bytes().repeat(1 + number as usize % 40)
}

impl OnceKeys {
    pub(super) fn of(family: Family) -> Self {
        Self { family, state: Arc::default() }
    }

    /// What a transaction will do that begins next.
    pub(super) fn change(&self) -> OnceChange {
        let mut state = lock(&self.state);
        let taken = if state.there.len() > LINGERING { state.there.pop_front() } else { None };
        let gone = state.gone.get(state.next as usize * 7919 % state.gone.len().max(1)).copied();
        drop(state);
        OnceChange { keys: self.clone(), taken, gone, own: None }
    }
}

impl OnceChange {
    /// What the transaction does when it begins anew.
    pub(super) fn next(&self) -> Self {
        self.keys.change()
    }

    /// Writes to the transaction, which is about to be committed.
    pub(super) fn write(&mut self, transaction: &mut Transaction) -> Verdict {
        if self.own.is_some() {
            return Ok(());
        }
        let own = {
            let mut state = lock(&self.keys.state);
            state.next += 1;
            state.next
        };
        self.own = Some(own);
        let family = &self.keys.family;
        said(transaction.put(family, own.to_be_bytes(), value_of(own)))?;
        let Some(taken) = self.taken else { return Ok(()) };
        self.expect(transaction, taken, Some(value_of(taken)))?;
        said(transaction.single_delete(family, taken.to_be_bytes()))?;
        self.expect(transaction, taken, None)?;
        self.gone.map_or(Ok(()), |gone| self.expect(transaction, gone, None))
    }

    fn expect(&self, transaction: &Transaction, key: u64, expected: Option<Vec<u8>>) -> Verdict {
        let found = said(transaction.get_untracked(&self.keys.family, key.to_be_bytes()))?;
        match found == expected {
            true => Ok(()),
            false => Err(format!("key {key}, which is put once: {found:?} for {expected:?}")),
        }
    }

    /// The transaction was committed with what [`OnceChange::write`] has written.
    pub(super) fn done(&mut self) {
        let mut state = lock(&self.keys.state);
        state.there.extend(self.own.take());
        state.gone.extend(self.taken.take());
        if state.gone.len() > REMEMBERED {
            state.gone.pop_front();
        }
    }
}

impl Drop for OnceChange {
    fn drop(&mut self) {
        if let Some(taken) = self.taken {
            lock(&self.keys.state).there.push_front(taken);
        }
    }
}
