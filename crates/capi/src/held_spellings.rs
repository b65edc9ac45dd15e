//! The spellings that a transaction holds, and what it used them for.
//!
//! It holds them until it is over: a commit of it may store them. See [`crate::spellings`].

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use tidesdb_base::limits::MAX_KEY_BYTES;

use crate::spellings::{Settled, Spelling, Spellings};

/// What a key is named for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    Put,
    Deletion,
    Read,
}

/// Of each family whose order the program has registered.
#[derive(Default)]
pub struct HeldSpellings(Vec<HeldOfFamily>);

/// The spellings of one family that it holds, by address.
struct HeldOfFamily {
    family: Arc<Spellings>,
    spellings: HashMap<*const Spelling, Holding>,
}

struct Holding {
    spelling: Arc<Spelling>,
    /// It came for this transaction.
    is_own: bool,
    /// The last write of the key, if there was one.
    last: Use,
}

impl HeldSpellings {
    /// The bytes under which a key is stored that is written, or whose absence is remembered.
    #[cold]
    pub fn settle<'k>(
        &mut self,
        family: &Arc<Spellings>,
        key: &'k [u8],
        used: Use,
    ) -> Cow<'k, [u8]> {
        // The engine refuses it, and no key must come to be stored under it.
        if key.len() > MAX_KEY_BYTES {
            return family.present(key);
        }
        let settled = family.settle(key);
        if let Some(by) = self.0.iter_mut().find(|by| Arc::ptr_eq(&by.family, family)) {
            by.note(&settled, used);
        } else {
            let mut by = HeldOfFamily { family: Arc::clone(family), spellings: HashMap::new() };
            by.note(&settled, used);
            self.0.push(by);
        }
        settled.key
    }

    /// Writes were taken back or refused: which keys a commit stores is not known any more, nor
    /// which it deletes. All that were written count as deleted, so that they are in doubt.
    #[cold]
    pub fn forget_puts(&mut self) {
        let held = self.0.iter_mut().flat_map(|by| by.spellings.values_mut());
        held.filter(|holding| holding.last == Use::Put)
            .for_each(|holding| holding.last = Use::Deletion);
    }

    /// The transaction is over.
    #[inline]
    pub fn give_back(&mut self, is_committed: bool) {
        if !self.0.is_empty() {
            self.give_all_back(is_committed);
        }
    }

    #[cold]
    fn give_all_back(&mut self, is_committed: bool) {
        for by in self.0.drain(..) {
            by.give_back(is_committed);
        }
    }
}

impl HeldOfFamily {
    fn note(&mut self, settled: &Settled<'_>, used: Use) {
        let known =
            self.spellings.entry(Arc::as_ptr(&settled.spelling)).or_insert_with(|| Holding {
                spelling: Arc::clone(&settled.spelling),
                is_own: settled.is_new,
                last: Use::Read,
            });
        if used != Use::Read {
            known.last = used;
        }
    }

    /// Those that were put by a commit are stored.
    fn give_back(self, is_committed: bool) {
        let is_in_doubt = |holding: &Holding| match holding.last {
            Use::Deletion => true,
            Use::Put => holding.is_own && !is_committed,
            Use::Read => holding.is_own,
        };
        let in_doubt = self.spellings.into_values().filter(is_in_doubt);
        self.family.leave(in_doubt.map(|holding| holding.spelling).collect());
    }
}
