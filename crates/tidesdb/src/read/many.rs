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
//! Order matters for speed alone: keys in any order get the same answers.

mod collect;

use std::cell::OnceCell;
use std::sync::Arc;

use tidesdb_base::codec::key_head;
use tidesdb_base::entry::{ValueKind, is_expired};
use tidesdb_base::error::{Error, Result};
use tidesdb_base::latency::TimedOperation;
use tidesdb_files::filter::key_hash;
use tidesdb_files::sstable::{
    BlockFinder, BlockHandle, BlockHolder, BlockRef, BlockSource, Found, FoundInBlock, Table,
};
use tidesdb_files::vlog::ValuePointer;
use tidesdb_lockfree::prefetch::prefetch;
use tidesdb_lockfree::snapshot_registry::Moment;
use tidesdb_lockfree::stripe::ThisThread;

pub(crate) use self::collect::{Collect, Pins, SharedBlock};
use super::get::{Get, InMemory};
use crate::cache::{HeldBlock, TalliedBlocks};
use crate::core::Core;
use crate::family::{FamilyState, View};
use crate::memtable::kind_of;
use crate::telemetry::counters::{ReadTally, tick};
use crate::telemetry::timing::TimedCall;
use crate::version::{Run, Version, resolve};

/// Of more keys, so many are looked for in tables at a time: their blocks are in memory together.
const KEYS_AT_ONCE: usize = 1024;

/// A read that takes so long was one of the disk.
const SLOW_READ_NANOS: u64 = 20_000;

/// Values of up to this size are read ahead; larger ones are worth a read of their own.
const LARGEST_READ_AHEAD: u64 = 256 << 10;

impl Core {
    /// Collects the stored values that stored keys have at a moment, whose snapshot is registered.
    /// Only the keys at the places in `wanted` are looked up.
    ///
    /// # Errors
    /// As [`crate::Family::get`]; an error of one key is the error of the call.
    pub(crate) fn get_many<K: AsRef<[u8]>>(
        &self,
        family: &FamilyState,
        moment: Moment,
        (keys, wanted): (&[K], Vec<usize>),
        collect: &mut impl Collect,
    ) -> Result<()> {
        let tally = ReadTally::default();
        if !self.telemetry.latencies.is_due() {
            return self.look_up_many(family, moment, (keys, wanted), (collect, &tally));
        }
        let key_bytes = |&at: &usize| keys.get(at).map_or(0, |key| key.as_ref().len() as u64);
        let call = TimedCall {
            operation: TimedOperation::MultiGet,
            family: Some(family),
            bytes: wanted.iter().map(key_bytes).sum(),
            operations: wanted.len() as u64,
        };
        let started = self.telemetry.start_timing();
        let result = self.look_up_many(family, moment, (keys, wanted), (collect, &tally));
        self.telemetry.end_timing(started, call, || tally.profile());
        result
    }

    fn look_up_many<K: AsRef<[u8]>, C: Collect>(
        &self,
        family: &FamilyState,
        moment: Moment,
        (keys, mut wanted): (&[K], Vec<usize>),
        (collect, tally): (&mut C, &ReadTally),
    ) -> Result<()> {
        let key = |&at: &usize| keys.get(at).map_or(&[][..], AsRef::as_ref);
        if wanted.iter().any(|at| key(at).is_empty()) {
            return Err(Error::InvalidArgument("the key is empty".to_owned()));
        }
        self.check_readable(family)?;
        if !wanted.is_sorted_by_key(key) {
            wanted = sorted(&wanted, key);
        }
        let view = family.view.load();
        family.check_view()?;
        let mut many =
            Many { core: self, family, view: &view, moment, collect, pointers: Vec::new(), tally };
        let mut left = Vec::with_capacity(wanted.len());
        for at in wanted {
            let asked = Asked { at, key: key(&at) };
            let get = many.get(asked);
            let found = get.look_in_memtables(&view, moment.sequence);
            tally
                .memtables_searched
                .set(tally.memtables_searched.get() + get.tally.memtables_searched.get());
            match found {
                InMemory::Dead => {}
                InMemory::Version(version) => {
                    let found = (kind_of(&version), version.expires_at, version.value);
                    if many.has_value(asked, found) {
                        let pin = || get.pin_in_memory(&view, moment.sequence);
                        many.collect.in_memory(at, version.value, pin);
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

/// A key that tables are searched for.
#[derive(Clone, Copy, Debug)]
struct Search<'k> {
    asked: Asked<'k>,
    hash: u64,
    /// The runs before this one do not have it.
    run: usize,
    /// Which of the round's tables may have it, as far as the present run was looked at.
    table: Option<usize>,
}

impl<'k> Search<'k> {
    fn new(asked: Asked<'k>) -> Self {
        Self { asked, hash: key_hash(asked.key), run: 0, table: None }
    }
}

/// A block in which keys are looked for.
#[derive(Debug)]
struct WantedBlock {
    /// Which of the round's tables it is in.
    table: usize,
    handle: BlockHandle,
    /// The block when it was cached.
    block: Option<HeldBlock>,
    /// How many searches come to it.
    searches: usize,
}

/// The blocks that are looked at next, and the searches that come to them, in the same order.
#[derive(Debug)]
struct Round<'k> {
    tables: Vec<Arc<Table>>,
    blocks: Vec<WantedBlock>,
    searches: Vec<Search<'k>>,
}

/// A value in a value log.
#[derive(Debug)]
struct Pointer<'k> {
    asked: Asked<'k>,
    expires_at: u64,
    encoded: Vec<u8>,
}

/// What a version is and when it expires, and its value.
type FoundVersion<'v> = (ValueKind, u64, &'v [u8]);

struct Many<'a, 'k, C> {
    core: &'a Core,
    family: &'a FamilyState,
    view: &'a View,
    moment: Moment,
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
        Get::new(self.core, self.family, asked.key, Some(self.moment))
    }

    /// The blocks of tables.
    fn blocks(&self) -> TalliedBlocks<'_> {
        let (cache, thread) = (self.core.storage.files.blocks.as_ref(), ThisThread::get());
        TalliedBlocks { cache, tally: self.tally, thread }
    }

    fn look_in_tables(&mut self, mut left: Vec<Search<'k>>) -> Result<()> {
        while !left.is_empty() {
            let mut round = Round {
                tables: Vec::new(),
                blocks: Vec::with_capacity(left.len()),
                searches: Vec::with_capacity(left.len()),
            };
            for (number, run) in self.view.version.runs.iter().enumerate() {
                self.ask_filters((number, run), &mut left, &mut round)?;
                self.find_blocks(number, &mut left, &mut round)?;
                left.retain(|search| search.table.is_none());
                if left.is_empty() {
                    break;
                }
            }
            left = self.finish(round)?;
        }
        Ok(())
    }

    /// Notes with each search which table of a run may have the key.
    fn ask_filters(
        &self,
        (number, run): (usize, &Run),
        left: &mut [Search<'k>],
        round: &mut Round<'k>,
    ) -> Result<()> {
        let deleted = &self.view.version.range_tombstones;
        let mut before = None;
        for search in left.iter_mut() {
            let key = search.asked.key;
            let file = run.table_for(key).filter(|file| {
                let highest = file.record.highest_sequence;
                search.run <= number && !deleted.hides(key, highest, self.moment.sequence)
            });
            let Some(file) = file else { continue };
            // Keys come in order, so those of one table lie side by side.
            if before.is_none_or(|before| !Arc::ptr_eq(before, file)) {
                let Some(open) = file.table()?.as_ref().map(Arc::clone) else { continue };
                if open.is_in_parts() {
                    file.asked_in_parts(&open);
                }
                round.tables.push(open);
                before = Some(file);
            }
            search.table = round.tables.len().checked_sub(1);
            if let Some(word) = round.tables.last().and_then(|open| open.filter_word(search.hash)) {
                prefetch(word);
            }
        }
        for search in left.iter_mut() {
            let Some(open) = search.table.and_then(|table| round.tables.get(table)) else {
                continue;
            };
            if open.has_filter() {
                tick(&self.tally.filters_asked);
            }
            let in_parts = open.is_in_parts();
            if !open.may_contain(search.hash)
                || (in_parts && !open.may_contain_by_parts(search.hash, &self.blocks())?)
            {
                tick(&self.tally.filters_excluded);
                search.table = None;
            }
        }
        Ok(())
    }

    /// Notes the blocks in which the keys of searches with a table lie, if anywhere in it.
    fn find_blocks(
        &self,
        number: usize,
        left: &mut [Search<'k>],
        round: &mut Round<'k>,
    ) -> Result<()> {
        let source = self.blocks();
        let Round { tables, blocks, searches } = round;
        let first = blocks.len();
        for mut of_table in left.chunk_by_mut(|one, other| one.table == other.table) {
            let at = of_table.first().and_then(|search| search.table);
            let Some((at, table)) = at.and_then(|at| Some((at, tables.get(at)?))) else { continue };
            let mut finder = BlockFinder::new(table.as_ref(), &source);
            // Only an index that is a tree reads anything.
            let mut may_be_slow = table.has_tree_index();
            while let Some((search, behind)) = std::mem::take(&mut of_table).split_first_mut() {
                let started = if may_be_slow { self.now() } else { u64::MAX };
                let handle = finder.first_for(search.asked.key)?;
                if may_be_slow && self.is_slow(started) {
                    may_be_slow = false;
                    behind.iter().for_each(|search| finder.announce(search.asked.key));
                }
                of_table = behind;
                let Some(handle) = handle else {
                    search.table = None;
                    continue;
                };
                tick(&self.tally.tables_searched);
                searches.push(Search { run: number + 1, table: None, ..*search });
                match blocks.last_mut() {
                    Some(last) if last.table == at && last.handle == handle => last.searches += 1,
                    _ => {
                        source.expect(table, handle);
                        blocks.push(WantedBlock { table: at, handle, block: None, searches: 1 });
                    }
                }
            }
        }
        for wanted in blocks.iter_mut().skip(first) {
            let table = tables.get(wanted.table);
            wanted.block = table.and_then(|table| source.cached(table, wanted.handle));
            if let Some(block) = &wanted.block {
                block.view().front().for_each(prefetch);
            }
        }
        Ok(())
    }

    /// A time in nanoseconds.
    fn now(&self) -> u64 {
        self.core.env.clock.monotonic_nanos()
    }

    /// Whether what began then has waited for the disk.
    fn is_slow(&self, started: u64) -> bool {
        self.now().saturating_sub(started) >= SLOW_READ_NANOS
    }

    /// Ends the searches of a round, and returns those that go on with the next run.
    fn finish(&mut self, round: Round<'k>) -> Result<Vec<Search<'k>>> {
        let Round { tables, blocks, searches } = round;
        let mut searches = searches.into_iter();
        let mut left = Vec::new();
        let mut blocks = blocks.into_iter();
        let mut announced = false;
        while let Some(WantedBlock { table, handle, block, searches: count }) = blocks.next() {
            let Some(table) = tables.get(table) else { continue };
            let block = match block {
                Some(block) => block,
                None => {
                    let started = self.now();
                    let block = self.blocks().uncached(table, handle)?;
                    if !announced && self.is_slow(started) {
                        announced = true;
                        start_reading(&tables, blocks.as_slice());
                    }
                    block
                }
            };
            let block = self.collect.hold(block);
            let view = block.view();
            for search in searches.by_ref().take(count) {
                let key = search.asked.key;
                let found = match table.lookup_in((handle, view), key, self.moment.sequence)? {
                    FoundInBlock::Here(found) => {
                        self.settle_in_table(search.asked, found, &block);
                        true
                    }
                    FoundInBlock::Absent => false,
                    FoundInBlock::Beyond => {
                        let found = table.lookup(key, self.moment.sequence, &self.blocks())?;
                        let is_there = found.is_some();
                        if let Some(found) = found {
                            let held = OnceCell::new();
                            let hold = |block| held.get_or_init(|| self.collect.hold(block)).view();
                            let found = found.map(hold);
                            if let Some(block) = held.get() {
                                self.settle_in_table(search.asked, found, block);
                            }
                        }
                        is_there
                    }
                };
                if !found {
                    if table.has_filter() {
                        tick(&self.tally.filters_wrong);
                    }
                    left.push(search);
                }
            }
        }
        Ok(left)
    }

    fn settle_in_table(&mut self, asked: Asked<'k>, found: Found<BlockRef<'_>>, block: &C::Held) {
        let (meta, deleted) = (found.meta(), &self.view.version.range_tombstones);
        if !deleted.hides(asked.key, meta.seq, self.moment.sequence)
            && self.has_value(asked, (meta.kind, meta.expires_at, found.value()))
        {
            self.collect.in_block(asked.at, found, block);
        }
    }

    /// Whether the newest version of a key has a value where it lies; values in value logs come
    /// later.
    fn has_value(&mut self, asked: Asked<'k>, (kind, expires_at, value): FoundVersion<'_>) -> bool {
        if kind == ValueKind::ValuePointer {
            self.pointers.push(Pointer { asked, expires_at, encoded: value.to_vec() });
            return false;
        }
        !kind.is_tombstone() && !is_expired(expires_at, self.moment.now)
    }

    /// Reads a value in a value log.
    fn fetch(&mut self, pointer: &Pointer<'_>) -> Result<()> {
        let found = (ValueKind::ValuePointer, pointer.expires_at, pointer.encoded.as_slice());
        let get = Get::new(self.core, self.family, pointer.asked.key, Some(self.moment));
        if let Some(value) = get.answer(&self.view.version, found, <[u8]>::to_vec)? {
            self.collect.fetched(pointer.asked.at, value);
        }
        Ok(())
    }

    /// Reads the values that lie in value logs, in the order in which they lie there.
    fn fetch_pointers(&mut self) -> Result<()> {
        let mut pointers = std::mem::take(&mut self.pointers);
        let version = &self.view.version;
        let place = |pointer: &Pointer<'_>| {
            ValuePointer::decode(&pointer.encoded).ok().map(|place| (place.file, place.offset))
        };
        pointers.sort_by_key(place);
        for mut some in pointers.chunks(KEYS_AT_ONCE) {
            let mut announced = false;
            while let Some((pointer, behind)) = some.split_first() {
                let started = self.now();
                self.fetch(pointer)?;
                if !announced && self.is_slow(started) {
                    announced = true;
                    start_reading_values(version, behind);
                }
                some = behind;
            }
        }
        Ok(())
    }
}

/// Asks the system to begin reading values in value logs. What does not decode, or is not there any
/// more, is met again when it is read.
fn start_reading_values(version: &Version, pointers: &[Pointer<'_>]) {
    for pointer in pointers {
        if let Ok((place, file)) = resolve(version, &pointer.encoded)
            && place.record_bytes() <= LARGEST_READ_AHEAD
        {
            file.start_reading(&place);
        }
    }
}

/// Asks the system to begin reading the blocks that are not cached; blocks side by side with one
/// call.
fn start_reading(tables: &[Arc<Table>], blocks: &[WantedBlock]) {
    let mut blocks = blocks.iter().filter(|wanted| wanted.block.is_none()).peekable();
    while let Some(first) = blocks.next() {
        let mut handle = first.handle;
        while let Some(next) = blocks.next_if(|next| {
            next.table == first.table && next.handle.offset == handle.offset + u64::from(handle.len)
        }) {
            handle.len = handle.len.saturating_add(next.handle.len);
        }
        if let Some(table) = tables.get(first.table) {
            table.start_reading_block(handle);
        }
    }
}

#[cfg(test)]
mod tests;
