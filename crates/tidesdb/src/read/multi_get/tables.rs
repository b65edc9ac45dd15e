//! Keys that are looked for in tables: by rounds of filters, and of blocks that are read once.

use std::cell::OnceCell;
use std::sync::Arc;

use tidesdb_base::error::Result;
use tidesdb_files::filter::key_hash;
use tidesdb_files::sstable::{
    BlockFinder, BlockHandle, BlockHolder, BlockRef, BlockSource, Found, FoundInBlock, Table,
};
use tidesdb_lockfree::prefetch::prefetch;

use super::{Asked, Collect, Many};
use crate::cache::HeldBlock;
use crate::telemetry::counters::tick;
use crate::version::Run;

/// A key that tables are searched for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Search<'k> {
    asked: Asked<'k>,
    hash: u64,
    /// The runs before this one do not have it.
    run: usize,
    /// Which of the round's tables may have it, as far as the present run was looked at.
    table: Option<usize>,
}

impl<'k> Search<'k> {
    pub(super) fn new(asked: Asked<'k>) -> Self {
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

impl<'k, C: Collect> Many<'_, 'k, C> {
    pub(super) fn look_in_tables(&mut self, mut left: Vec<Search<'k>>) -> Result<()> {
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
                search.run <= number && !deleted.hides(key, highest, self.read_point.sequence)
            });
            let Some(file) = file else { continue };
            // Keys come in order, so those of one table lie side by side.
            if before.is_none_or(|before| !Arc::ptr_eq(before, file)) {
                let Some(open) = file.table()?.as_ref().map(Arc::clone) else { continue };
                if open.is_in_parts() {
                    file.asked_in_parts(&open, true);
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
                let found = match table.lookup_in((handle, view), key, self.read_point.sequence)? {
                    FoundInBlock::Here(found) => {
                        self.settle_in_table(search.asked, found, &block)?;
                        true
                    }
                    FoundInBlock::Absent => false,
                    FoundInBlock::Beyond => {
                        let found = table.lookup(key, self.read_point.sequence, &self.blocks())?;
                        let is_there = found.is_some();
                        if let Some(found) = found {
                            let held = OnceCell::new();
                            let hold = |block| held.get_or_init(|| self.collect.hold(block)).view();
                            let found = found.map(hold);
                            if let Some(block) = held.get() {
                                self.settle_in_table(search.asked, found, block)?;
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

    fn settle_in_table(
        &mut self,
        asked: Asked<'k>,
        found: Found<BlockRef<'_>>,
        block: &C::Held,
    ) -> Result<()> {
        let (meta, deleted) = (found.meta(), &self.view.version.range_tombstones);
        if !deleted.hides(asked.key, meta.seq, self.read_point.sequence)
            && self.has_value(asked, (meta.kind, meta.expires_at, found.value()))
        {
            self.collect.in_block(asked.at, found, block)?;
        }
        Ok(())
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
