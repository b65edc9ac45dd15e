//! Getting many keys at once.
//!
//! All keys are looked up in one view, in their order. Memtables are asked first. Then each round
//! finds, run by run, the first block in which each key that is left may lie, by the filters, and
//! looks the keys up. Filters, places in the block cache and blocks are fetched into the
//! processor's cache before they are looked at, for all keys. A block that several keys need is
//! read and decoded once. Once a read takes so long that it must have come from the disk, the
//! system is asked for all others, which overlap then; asking it for what it has in its page cache
//! would cost more than it gains. Nearly all keys are settled by the first round: the next ones are
//! for keys that a filter let through in vain.
//!
//! Order matters for speed alone: keys in any order get the same values.

mod collect;
mod tables;
mod values;

use tidesdb_base::codec::key_head;
use tidesdb_base::entry::{ValueKind, is_expired};
use tidesdb_base::error::{Error, Result};
use tidesdb_base::latency::TimedOperation;
use tidesdb_lockfree::snapshot_registry::ReadPoint;
use tidesdb_lockfree::stripe::ThisThread;

pub(crate) use self::collect::{Collect, Pins};
use self::tables::Search;
use self::values::Pointer;
use super::get::{Get, InMemory};
use crate::cache::TalliedBlocks;
use crate::core::Core;
use crate::family::{FamilyState, View};
use crate::memtable::kind_of;
use crate::telemetry::counters::ReadTally;
use crate::telemetry::timing::TimedCall;

/// Of more keys, so many are looked for in tables at a time: their blocks are in memory together.
const KEYS_AT_ONCE: usize = 1024;

/// A read that takes so long was one of the disk.
const SLOW_READ_NANOS: u64 = 20_000;

impl Core {
    /// Collects the stored values that stored keys have at a registered read point.
    /// Only the keys at the places in `wanted` are looked up.
    ///
    /// # Errors
    /// As [`crate::Family::get`]; an error of one key is the error of the call.
    pub(crate) fn get_many<K: AsRef<[u8]>>(
        &self,
        family: &FamilyState,
        read_point: ReadPoint,
        (keys, wanted): (&[K], Vec<usize>),
        collect: &mut impl Collect,
    ) -> Result<()> {
        let tally = ReadTally::default();
        if !self.telemetry.latencies.is_due() {
            return self.look_up_many(family, read_point, (keys, wanted), (collect, &tally));
        }
        let key_bytes = |&at: &usize| keys.get(at).map_or(0, |key| key.as_ref().len() as u64);
        let call = TimedCall {
            operation: TimedOperation::MultiGet,
            family: Some(family),
            bytes: wanted.iter().map(key_bytes).sum(),
            operations: wanted.len() as u64,
        };
        let started = self.telemetry.start_timing();
        let result = self.look_up_many(family, read_point, (keys, wanted), (collect, &tally));
        self.telemetry.end_timing(started, call, || tally.profile());
        result
    }

    fn look_up_many<K: AsRef<[u8]>, C: Collect>(
        &self,
        family: &FamilyState,
        read_point: ReadPoint,
        (keys, mut wanted): (&[K], Vec<usize>),
        (collect, tally): (&mut C, &ReadTally),
    ) -> Result<()> {
        let key = |&at: &usize| keys.get(at).map_or(&[][..], AsRef::as_ref);
        if wanted.iter().any(|at| key(at).is_empty()) {
            return Err(Error::InvalidArgument("the key is empty".to_owned()));
        }
        self.health.check_readable(family)?;
        if !wanted.is_sorted_by_key(key) {
            wanted = sorted(&wanted, key);
        }
        let view = family.view.load();
        family.check_view()?;
        let mut many = Many {
            core: self,
            family,
            view: &view,
            read_point,
            collect,
            pointers: Vec::new(),
            tally,
        };
        let mut left = Vec::with_capacity(wanted.len());
        for at in wanted {
            let asked = Asked { at, key: key(&at) };
            let get = many.get(asked);
            let found = get.look_in_memtables(&view, read_point.sequence);
            tally
                .memtables_searched
                .set(tally.memtables_searched.get() + get.tally.memtables_searched.get());
            match found {
                InMemory::Dead => {}
                InMemory::Version(version) => {
                    let found = (kind_of(&version), version.expires_at, version.value);
                    if many.has_value(asked, found) {
                        let pin = || get.pin_in_memory(&view, read_point.sequence);
                        many.collect.in_memory(at, version.value, pin)?;
                    }
                }
                InMemory::Unknown => left.push(Search::new(asked)),
            }
        }
        if !left.is_empty() && !view.version.runs.is_empty() {
            family.reads.activity.note();
            let gets = left.len() as u64;
            let mut pieces = left.chunks(KEYS_AT_ONCE);
            let looked = pieces.try_for_each(|some| many.look_in_tables(some.to_vec()));
            family.counters.hot.add_table_gets(ThisThread::get(), gets, many.tally);
            looked?;
        }
        many.fetch_pointers()
    }
}

/// Places of keys, in the order of the keys: by their first bytes, which few keys share.
fn sorted<'k>(places: &[usize], key: impl Fn(&usize) -> &'k [u8]) -> Vec<usize> {
    let mut heads: Vec<_> = places.iter().map(|at| (key_head(key(at)), *at)).collect();
    heads.sort_unstable_by(|(one, at), (other, other_at)| {
        one.cmp(other).then_with(|| key(at).cmp(key(other_at)))
    });
    heads.into_iter().map(|(_, at)| at).collect()
}

/// A key and its place among all that were asked for.
#[derive(Clone, Copy, Debug)]
struct Asked<'k> {
    at: usize,
    key: &'k [u8],
}

/// What a version is and when it expires, and its value.
type FoundVersion<'v> = (ValueKind, u64, &'v [u8]);

struct Many<'a, 'k, C> {
    core: &'a Core,
    family: &'a FamilyState,
    view: &'a View,
    read_point: ReadPoint,
    collect: &'a mut C,
    pointers: Vec<Pointer<'k>>,
    /// What was met in tables.
    tally: &'a ReadTally,
}

impl<'k, C: Collect> Many<'_, 'k, C> {
    fn get<'s>(&self, asked: Asked<'s>) -> Get<'s>
    where
        Self: 's,
    {
        Get::new(self.core, self.family, asked.key, Some(self.read_point))
    }

    /// The blocks of tables.
    fn blocks(&self) -> TalliedBlocks<'_> {
        let (cache, thread) = (self.core.storage.files.blocks.as_ref(), ThisThread::get());
        TalliedBlocks { cache, tally: self.tally, thread }
    }

    /// A time in nanoseconds.
    fn now(&self) -> u64 {
        self.core.env.clock.monotonic_nanos()
    }

    /// Whether what began then has waited for the disk.
    fn is_slow(&self, started: u64) -> bool {
        self.now().saturating_sub(started) >= SLOW_READ_NANOS
    }

    /// Whether the newest version of a key has a value where it lies; values in value logs come
    /// later.
    fn has_value(&mut self, asked: Asked<'k>, (kind, expires_at, value): FoundVersion<'_>) -> bool {
        if kind == ValueKind::ValuePointer {
            self.pointers.push(Pointer { asked, expires_at, encoded: value.to_vec() });
            return false;
        }
        !kind.is_tombstone() && !is_expired(expires_at, self.read_point.now)
    }
}

#[cfg(test)]
mod tests;
