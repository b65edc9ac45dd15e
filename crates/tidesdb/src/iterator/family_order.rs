//! From stored keys in the order of bytes to keys in the order of the family.
//!
//! [`OrderedScan`] lies around a scan of stored keys. In a family in the order of bytes it is that
//! scan. Where the order transforms keys, targets are transformed on the way in and the key that is
//! arrived at on the way out. An order of the application is nothing that stored keys know of: the
//! keys are read once and sorted, and the scan looks up the one that is asked for.
//!
//! Threads: one at a time. Invariant: the scan stands on the key that is shown, or none is shown.

use std::cmp::Ordering;
use std::panic::{AssertUnwindSafe, catch_unwind};

use tidesdb_base::error::{Error, Result};
use tidesdb_base::key_order::{CompareKeys, KeyOrder};

use super::options::Limit;
use super::scan::{Movement, StoredScan};
use crate::family::FamilyState;
use crate::memory::MemoryReservation;

/// A scan that shows keys in the order of the family.
#[derive(Debug)]
pub(super) struct OrderedScan {
    stored: StoredScan,
    /// None where the order is that of bytes.
    order: Option<Box<Order>>,
}

#[derive(Debug)]
enum Order {
    Transformed(Transformed),
    Sorted(Sorted),
}

#[derive(Debug)]
struct Transformed {
    order: KeyOrder,
    /// The key that is stored as the scan's present one.
    key: Vec<u8>,
    valid: bool,
}

/// Keys in an order of the application.
struct Sorted {
    compare: CompareKeys,
    limits: Vec<Limit>,
    /// None until the scan is positioned.
    keys: Option<Vec<Box<[u8]>>>,
    /// Which of them is shown.
    at: Option<usize>,
    _reservation: Option<MemoryReservation>,
}

/// Keys that are being read are counted in steps of so many bytes.
const COUNTED_BYTES: u64 = 64 << 10;

impl std::fmt::Debug for Sorted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let keys = self.keys.as_ref().map(Vec::len);
        f.debug_struct("Sorted").field("keys", &keys).field("at", &self.at).finish_non_exhaustive()
    }
}

impl OrderedScan {
    /// A scan of all keys of a family that `stored` covers and that keep to `limits`, which only an
    /// order of the application leaves.
    pub(super) fn new(stored: StoredScan, family: &FamilyState, limits: Vec<Limit>) -> Self {
        let order = match (&family.keys.order, family.keys.application_order()) {
            (KeyOrder::Bytewise, _) | (KeyOrder::Custom(_), None) => None,
            (KeyOrder::Custom(_), Some(compare)) => {
                let (compare, keys) = (compare.clone(), None);
                Some(Order::Sorted(Sorted { compare, limits, keys, at: None, _reservation: None }))
            }
            (order, _) => {
                let order = order.clone();
                Some(Order::Transformed(Transformed { order, key: Vec::new(), valid: false }))
            }
        };
        Self { stored, order: order.map(Box::new) }
    }

    pub(super) const fn stored(&self) -> &StoredScan {
        &self.stored
    }

    /// Takes up what was committed since.
    pub(super) fn refresh(&mut self) -> Result<()> {
        match self.order.as_deref_mut() {
            None => {}
            Some(Order::Transformed(transformed)) => transformed.valid = false,
            Some(Order::Sorted(sorted)) => (sorted.keys, sorted.at) = (None, None),
        }
        self.stored.refresh()
    }

    #[inline]
    pub(super) fn valid(&self) -> bool {
        let shown = match self.order.as_deref() {
            None => true,
            Some(Order::Transformed(transformed)) => transformed.valid,
            Some(Order::Sorted(sorted)) => sorted.at.is_some(),
        };
        shown && self.stored.valid()
    }

    #[inline]
    pub(super) fn key(&self) -> &[u8] {
        match self.order.as_deref() {
            None => self.stored.key(),
            _ if !self.valid() => &[],
            Some(Order::Transformed(transformed)) => &transformed.key,
            Some(Order::Sorted(_)) => self.stored.key(),
        }
    }

    #[inline(always)]
    pub(super) fn value(&self) -> Result<&[u8]> {
        match self.order.as_deref() {
            None => self.stored.value(),
            _ if !self.valid() => Ok(&[]),
            Some(Order::Transformed(transformed)) => {
                Ok(transformed.order.value(self.stored.value()?))
            }
            Some(Order::Sorted(_)) => self.stored.value(),
        }
    }

    #[inline(always)]
    pub(super) fn key_value(&self) -> Result<(&[u8], &[u8])> {
        match self.order.as_deref() {
            None => self.stored.key_value(),
            Some(_) => Ok((self.key(), self.value()?)),
        }
    }

    #[inline(always)]
    pub(super) fn key_value_at_hand(&self) -> Option<(&[u8], &[u8])> {
        match self.order {
            None => self.stored.key_value_at_hand(),
            Some(_) => None,
        }
    }

    /// As [`OrderedScan::go`] to the next key.
    #[inline(always)]
    pub(super) fn next(&mut self) -> Result<()> {
        match &self.order {
            None => self.stored.next(),
            Some(_) => self.go(Movement::Next),
        }
    }

    #[inline]
    pub(super) fn go(&mut self, movement: Movement<'_>) -> Result<()> {
        match self.order.as_deref_mut() {
            None => self.stored.go(movement),
            Some(Order::Transformed(transformed)) => transformed.go(&mut self.stored, movement),
            Some(Order::Sorted(sorted)) => sorted.go(&mut self.stored, movement),
        }
    }
}

impl Transformed {
    fn go(&mut self, stored: &mut StoredScan, movement: Movement<'_>) -> Result<()> {
        let sought;
        let movement = match movement {
            // After a failure the scan may stand on a key that is not shown.
            step if step.is_step() && !self.valid => return Ok(()),
            Movement::To(key) => {
                sought = self.order.stored_key(key);
                Movement::To(&sought)
            }
            Movement::ToOrBefore(key) => {
                sought = self.order.stored_key(key);
                Movement::ToOrBefore(&sought)
            }
            other => other,
        };
        self.valid = false;
        stored.go(movement)?;
        if stored.valid() {
            let value = if self.order.keeps_spelling() { stored.value()? } else { &[] };
            self.order.put_key(stored.key(), value, &mut self.key);
            self.valid = true;
        }
        Ok(())
    }
}

impl Sorted {
    fn go(&mut self, stored: &mut StoredScan, movement: Movement<'_>) -> Result<()> {
        let from = self.at.take();
        let steps = movement.is_step();
        if steps && from.is_none() {
            return Ok(());
        }
        if !steps {
            self.load(stored)?;
        }
        let keys = self.keys.as_deref().unwrap_or_default();
        let before = |key: &[u8], through: bool| {
            let comes_first = |known: &[u8]| match (self.compare)(known, key) {
                Ordering::Less => true,
                Ordering::Equal => through,
                Ordering::Greater => false,
            };
            guarded(|| keys.partition_point(|known| comes_first(known)))
        };
        let (mut at, forward) = match movement {
            Movement::Next => (from.map(|at| at + 1), true),
            Movement::Prev => (from.and_then(|at| at.checked_sub(1)), false),
            Movement::To(key) => (Some(before(key, false)?), true),
            Movement::ToOrBefore(key) => (before(key, true)?.checked_sub(1), false),
            Movement::First => (Some(0), true),
            Movement::Last => (keys.len().checked_sub(1), false),
        };
        // More than one turn only where a key has gone since, which is where the scan moves with
        // commits.
        while let Some(key) = at.and_then(|at| keys.get(at)) {
            stored.go(Movement::To(key))?;
            if stored.valid() && stored.key() == &**key {
                self.at = at;
                break;
            }
            at = if forward { at.map(|at| at + 1) } else { at.and_then(|at| at.checked_sub(1)) };
        }
        Ok(())
    }

    /// Reads and sorts the keys.
    fn load(&mut self, stored: &mut StoredScan) -> Result<()> {
        if self.keys.is_some() && !stored.moves_with_commits() {
            return Ok(());
        }
        // What was sorted before goes first: the memory of one set of keys is enough.
        (self.keys, self._reservation) = (None, None);
        let (mut keys, mut bytes) = (Vec::<Box<[u8]>>::new(), 0);
        let mut reservation = stored.reserve(0);
        stored.go(Movement::First)?;
        while stored.valid() {
            let key = stored.key();
            if self.allows(key)? {
                bytes += key.len() as u64 + size_of::<Box<[u8]>>() as u64;
                keys.push(key.into());
                // Others learn of it while there is still something for them to give up.
                if bytes >= reservation.bytes() + COUNTED_BYTES {
                    reservation.change_to(bytes);
                }
            }
            stored.go(Movement::Next)?;
        }
        // Keys that are equal in this order stay in that of their bytes.
        guarded(|| keys.sort_by(|one, other| (self.compare)(one, other)))?;
        reservation.change_to(bytes);
        self._reservation = Some(reservation);
        self.keys = Some(keys);
        Ok(())
    }

    fn allows(&self, key: &[u8]) -> Result<bool> {
        let compare = |limit: &[u8]| guarded(|| (self.compare)(key, limit));
        for limit in &self.limits {
            let allowed = match limit {
                Limit::From(limit) => compare(limit)?.is_ge(),
                Limit::After(limit) => compare(limit)?.is_gt(),
                Limit::Before(limit) => compare(limit)?.is_lt(),
                Limit::Through(limit) => compare(limit)?.is_le(),
                Limit::Prefix(prefix) => key.starts_with(prefix),
            };
            if !allowed {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Calls the application's function by way of `call`; it may panic, and a sort panics where the
/// function contradicts itself.
fn guarded<R>(call: impl FnOnce() -> R) -> Result<R> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|_| {
        let text = "the application's order of keys panicked, or is none: it contradicts itself";
        Error::InvalidArgument(text.to_owned())
    })
}
