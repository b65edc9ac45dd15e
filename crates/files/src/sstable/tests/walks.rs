//! Iterators against the ordered map: random movements, all read-ahead modes.

use super::*;
use crate::sstable::iterator::{Readahead, TableIterator};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ops::Bound;

type Key = (Vec<u8>, Reverse<u64>);

/// Keeps every second block, and counts what it was asked.
#[derive(Default)]
struct HalfCache {
    blocks: RefCell<HashMap<u64, Arc<Block>>>,
    asked: Cell<usize>,
}

impl BlockSource for HalfCache {
    type Block = Arc<Block>;

    fn block(&self, table: &Table, handle: BlockHandle) -> Result<Arc<Block>> {
        self.asked.set(self.asked.get() + 1);
        if let Some(block) = self.cached(table, handle) {
            return Ok(block);
        }
        let block = Arc::new(table.read_block(handle, &mut Vec::new())?);
        if handle.offset.is_multiple_of(2) {
            self.blocks.borrow_mut().insert(handle.offset, block.clone());
        }
        Ok(block)
    }

    fn cached(&self, _: &Table, handle: BlockHandle) -> Option<Arc<Block>> {
        self.blocks.borrow().get(&handle.offset).cloned()
    }
}

const MODES: [Readahead; 5] = [
    Readahead::None,
    Readahead::Auto(1 << 20),
    Readahead::Auto(0),
    Readahead::Bytes(1000),
    Readahead::Bytes(1),
];

fn check<S: BlockSource>(iterator: &TableIterator<&Table, S>, model: &Model, at: Option<&Key>) {
    assert_eq!(iterator.valid(), at.is_some());
    let Some(at) = at else {
        assert!(iterator.key().is_empty() && iterator.value().is_empty());
        return;
    };
    let (kind, expires_at, value) = &model[at];
    assert_eq!((iterator.key(), iterator.seq()), (at.0.as_slice(), at.1.0));
    assert_eq!((iterator.kind(), iterator.expires_at()), (*kind, *expires_at));
    assert_eq!(iterator.value(), value);
}

fn after<'a>(model: &'a Model, key: &Key) -> Option<&'a Key> {
    let range = (Bound::Excluded(key.clone()), Bound::Unbounded);
    model.range(range).next().map(|(key, _)| key)
}

fn before<'a>(model: &'a Model, key: &Key) -> Option<&'a Key> {
    model.range(..key.clone()).next_back().map(|(key, _)| key)
}

/// Does one random seek on both; returns where the model stands then.
fn seek<'a, S: BlockSource>(
    iterator: &mut TableIterator<&Table, S>,
    model: &'a Model,
    target: &[u8],
    rng: &mut SplitMix64,
) -> Option<&'a Key> {
    let newest = (target.to_vec(), Reverse(u64::MAX));
    let first_of = |from: Key| model.range(from..).next().map(|(key, _)| key);
    match rng.below(6) {
        0 => {
            iterator.seek_to_first().unwrap();
            model.keys().next()
        }
        1 => {
            iterator.seek_to_last().unwrap();
            model.keys().next_back()
        }
        2 => {
            iterator.seek_for_prev(target).unwrap();
            model.range(..=(target.to_vec(), Reverse(0))).next_back().map(|(key, _)| key)
        }
        3 => {
            iterator.seek_before(target).unwrap();
            before(model, &newest)
        }
        4 => {
            let snapshot = rng.below(1 << 21);
            iterator.seek_version(target, snapshot).unwrap();
            first_of((target.to_vec(), Reverse(snapshot)))
        }
        _ => {
            iterator.seek(target).unwrap();
            first_of(newest)
        }
    }
}

#[test]
fn random_movements_go_where_an_ordered_map_goes() {
    let mut rng = seeded();
    let shapes = shapes(&mut rng);
    let mut in_block = 0;
    for ((name, block_size, model), index) in shapes.iter().flat_map(|s| FORMS.map(|f| (s, f))) {
        let (file, _) = write(model, TableOptions { index, ..options(*block_size) });
        let table = open(&file).unwrap();
        for mode in MODES {
            println!("{name} {index:?} {mode:?}");
            let source = HalfCache::default();
            let mut iterator = TableIterator::new(&table, &source, mode);
            check(&iterator, model, None);
            // Where it stood last: a block is at hand although the walk has left the table.
            let mut last = None;
            for target in targets(model, &mut rng, 100) {
                let mut at = seek(&mut iterator, model, &target, &mut rng);
                check(&iterator, model, at);
                last = at.or(last);
                for target in last.map_or(Vec::new(), |last| keys_about(model, last)) {
                    let snapshot = rng.below(1 << 21);
                    let place = model.range((target.clone(), Reverse(snapshot))..).next();
                    if iterator.seek_in_block(&target, snapshot).unwrap() {
                        at = place.map(|(key, _)| key);
                        in_block += 1;
                    }
                    check(&iterator, model, at);
                }
                let forward = rng.chance(2, 3);
                for _ in 0..rng.below(60) {
                    if forward != rng.chance(1, 10) {
                        iterator.next().unwrap();
                        at = at.and_then(|at| after(model, at));
                    } else {
                        iterator.prev().unwrap();
                        at = at.and_then(|at| before(model, at));
                    }
                    check(&iterator, model, at);
                }
            }
        }
    }
    assert!(in_block > 1000, "{in_block} seeks ended in the block at hand");
}

/// Keys of a few entries before and behind one, some changed a little.
fn keys_about(model: &Model, at: &Key) -> Vec<Vec<u8>> {
    let before = model.range(..at.clone()).rev().take(3);
    let near = before.chain(model.range(at.clone()..).take(4)).map(|(key, _)| key.0.clone());
    let between = |mut key: Vec<u8>| {
        let first = key.clone();
        key.push(0);
        [first, key]
    };
    near.flat_map(between).collect()
}

fn key(number: u64) -> Vec<u8> {
    number.to_be_bytes().to_vec()
}

/// The keys of 0 to 9999, one version of each.
fn numbered() -> Model {
    let mut rng = seeded();
    (0..10_000).map(|n| ((key(n), Reverse(1)), random_entry(&mut rng, 100))).collect()
}

/// What is read where seeks follow each other closely: each block once, and each index node
/// once at most.
#[test]
fn seeks_in_order_ask_for_each_block_once() {
    let model = numbered();
    for index in FORMS {
        let (file, summary) = write(&model, TableOptions { index, ..options(4096) });
        let table = open(&file).unwrap();
        let source = HalfCache::default();
        let mut iterator = TableIterator::new(&table, &source, Readahead::None);
        let mut in_block = 0;
        for n in 0..10_000 {
            if iterator.seek_in_block(&key(n), 1).unwrap() {
                in_block += 1;
            } else {
                iterator.seek(&key(n)).unwrap();
            }
            assert_eq!(iterator.key(), key(n));
        }
        let blocks = table.block_count();
        assert_eq!(in_block, 10_000 - blocks, "all but the first key of each block");
        let nodes = summary.index_nodes as usize;
        let asked = source.asked.get();
        assert!((blocks..=blocks + nodes).contains(&asked), "{asked} for {blocks} and {nodes}");
    }
}

/// Reads nothing while it fails.
#[derive(Default)]
struct Failing(Cell<bool>);

impl BlockSource for Failing {
    type Block = Arc<Block>;

    fn block(&self, table: &Table, handle: BlockHandle) -> Result<Arc<Block>> {
        if self.0.get() {
            return Err(Error::io("read", table.path(), std::io::Error::other("planted")));
        }
        table.read_block(handle, &mut Vec::new()).map(Arc::new)
    }
}

/// Nothing knows any more where the block at hand lies, which damage in it would be reported with.
#[test]
fn after_a_seek_that_failed_at_an_index_node_no_block_is_at_hand() {
    let model = numbered();
    let index = IndexForm::Tree { node_bytes: 256, node_leaves: usize::MAX };
    let (file, _) = write(&model, TableOptions { index, ..options(4096) });
    let table = open(&file).unwrap();
    let source = Failing::default();
    let mut iterator = TableIterator::new(&table, &source, Readahead::None);
    iterator.seek(&key(100)).unwrap();
    assert!(iterator.seek_in_block(&key(101), 1).unwrap());
    source.0.set(true);
    iterator.seek(&key(9_000)).unwrap_err();
    source.0.set(false);
    assert!(!iterator.seek_in_block(&key(101), 1).unwrap());
    iterator.seek(&key(101)).unwrap();
    assert_eq!(iterator.key(), key(101));
}

#[test]
fn a_full_walk_meets_every_entry_once_in_both_directions() {
    let mut rng = seeded();
    let shapes = shapes(&mut rng);
    for ((_, block_size, model), index) in shapes.iter().flat_map(|s| FORMS.map(|f| (s, f))) {
        let (file, summary) = write(model, TableOptions { index, ..options(*block_size) });
        let table = open(&file).unwrap();
        for mode in MODES {
            let source = HalfCache::default();
            let mut iterator = TableIterator::new(&table, &source, mode);
            iterator.seek_to_first().unwrap();
            for key in model.keys() {
                check(&iterator, model, Some(key));
                iterator.next().unwrap();
            }
            check(&iterator, model, None);
            iterator.next().unwrap();
            iterator.seek_to_last().unwrap();
            for key in model.keys().rev() {
                check(&iterator, model, Some(key));
                iterator.prev().unwrap();
            }
            check(&iterator, model, None);
            if let Readahead::Bytes(_) = mode {
                let most = 2 * summary.index_nodes as usize;
                assert!(source.asked.get() <= most, "{} of {most}", source.asked.get());
            }
        }
    }
}

#[test]
fn reading_ahead_starts_after_two_boundaries_and_asks_only_for_what_is_cached() {
    let mut rng = seeded();
    let (_, _, model) = shapes(&mut rng).swap_remove(0);
    let (file, _) = write(&model, options(256));
    let table = open(&file).unwrap();
    assert!(table.block_count() > 50);
    let source = HalfCache::default();
    let mut iterator = TableIterator::new(&table, &source, Readahead::Auto(1 << 20));
    iterator.seek_to_first().unwrap();
    while iterator.valid() {
        iterator.next().unwrap();
    }
    assert_eq!(source.asked.get(), 2, "the first block and the one after the first boundary");
}

/// Has no block, and notes how much memory its readers had at most.
#[derive(Default)]
struct Noting {
    now: Cell<usize>,
    most: Cell<usize>,
}

impl BlockSource for Noting {
    type Block = Arc<Block>;

    fn block(&self, table: &Table, handle: BlockHandle) -> Result<Arc<Block>> {
        table.read_block(handle, &mut Vec::new()).map(Arc::new)
    }

    fn kept_by_reader(&self, before: usize, after: usize) {
        assert_eq!(self.now.replace(after), before);
        self.most.set(self.most.get().max(after));
    }
}

/// Such a range is over before a mapping for a large piece is worth it. That was half of its time.
#[test]
fn a_range_of_a_thousand_rows_reads_ahead_in_small_pieces() {
    let model = numbered();
    let (file, _) = write(&model, options(4096));
    let table = open(&file).unwrap();
    let source = Noting::default();
    let mut iterator = TableIterator::new(&table, &source, Readahead::Auto(256 << 10));
    iterator.seek(&key(2000)).unwrap();
    (0..1000).for_each(|_| iterator.next().unwrap());
    assert!(iterator.valid() && source.most.get() > 4096);
    assert!(source.most.get() < 64 << 10, "{} bytes", source.most.get());
    drop(iterator);
    assert_eq!(source.now.get(), 0);
    let mut iterator = TableIterator::new(&table, &source, Readahead::Auto(256 << 10));
    iterator.seek_to_first().unwrap();
    while iterator.valid() {
        iterator.next().unwrap();
    }
    assert!(source.most.get() > 128 << 10, "{} bytes", source.most.get());
}

/// The readers of a source count a usual block for each table, and hold one of any size.
#[test]
fn a_large_block_of_the_source_is_reported() {
    let model = numbered();
    for (block_size, is_large) in [(4 << 10, false), (128 << 10, true)] {
        let (file, _) = write(&model, options(block_size));
        let table = open(&file).unwrap();
        let source = Noting::default();
        let mut iterator = TableIterator::new(&table, &source, Readahead::None);
        iterator.seek(&key(2000)).unwrap();
        let kept = source.now.get();
        assert_eq!(kept >= 100 << 10, is_large, "{kept} bytes");
        assert_eq!(kept > 0, is_large, "{kept} bytes");
        drop(iterator);
        assert_eq!(source.now.get(), 0);
    }
}

#[test]
fn an_unreadable_block_is_not_the_end_of_the_table() {
    let mut rng = seeded();
    let (_, _, model) = shapes(&mut rng).swap_remove(0);
    let (file, _) = write(&model, options(256));
    let table = open(&file).unwrap();
    let damaged = table.block_handle(table.block_count() / 2, &Uncached);
    let damaged = damaged.unwrap().unwrap();
    file.change(|bytes| bytes[damaged.offset as usize + 3] ^= 1);
    for mode in MODES {
        let mut iterator = TableIterator::new(&table, Uncached, mode);
        iterator.seek_to_first().unwrap();
        let mut seen = 0;
        let error = loop {
            assert!(iterator.valid(), "{mode:?} ended silently after {seen} entries");
            seen += 1;
            if let Err(error) = iterator.next() {
                break error;
            }
        };
        let at = damaged.offset;
        let names_block =
            |error: &Error| matches!(error, Error::Corruption { offset, .. } if *offset == at);
        assert!(names_block(&error), "{error}");
        assert!(!iterator.valid() && seen > 100);
        assert!(iterator.next().is_err_and(|error| names_block(&error)));
        assert!(iterator.prev().is_err_and(|error| names_block(&error)));
        // What was at hand is not what the walk failed at: nothing is found in it.
        for (key, _) in model.keys().skip(seen - 2).take(4) {
            assert!(!iterator.seek_in_block(key, u64::MAX).unwrap() && !iterator.valid());
        }
        iterator.seek_to_last().unwrap();
        assert!(iterator.valid(), "the rest of the table still serves");
        iterator.next().unwrap();
    }
}

/// Serves every block, and notes what was announced and what was asked for.
struct WholeCache {
    blocks: HashMap<u64, Arc<Block>>,
    announced: RefCell<Vec<u64>>,
    asked: RefCell<Vec<u64>>,
}

impl BlockSource for WholeCache {
    type Block = Arc<Block>;

    fn block(&self, table: &Table, handle: BlockHandle) -> Result<Arc<Block>> {
        Ok(self.cached(table, handle).unwrap())
    }

    fn cached(&self, _: &Table, handle: BlockHandle) -> Option<Arc<Block>> {
        self.asked.borrow_mut().push(handle.offset);
        self.blocks.get(&handle.offset).cloned()
    }

    fn expect(&self, _: &Table, handle: BlockHandle) {
        self.announced.borrow_mut().push(handle.offset);
    }

    fn expect_soon(&self, _: &Table, handle: BlockHandle) {
        assert!(!self.asked.borrow().contains(&handle.offset), "too late to be of use");
    }
}

#[test]
fn a_walk_announces_cached_blocks_and_asks_for_each_once() {
    let mut rng = seeded();
    let (_, block_size, model) = &shapes(&mut rng)[0];
    let (file, _) = write(model, options(*block_size));
    let table = open(&file).unwrap();
    let block_at = |at| {
        let handle = table.block_handle(at, &Uncached).unwrap().unwrap();
        (handle.offset, Arc::new(table.read_block(handle, &mut Vec::new()).unwrap()))
    };
    let blocks: HashMap<_, _> = (0..table.block_count()).map(block_at).collect();
    let mut in_order: Vec<u64> = blocks.keys().copied().collect();
    in_order.sort_unstable();
    assert!(in_order.len() > 10, "{} blocks", in_order.len());
    for backward in [false, true] {
        let (announced, asked) = Default::default();
        let source = WholeCache { blocks: blocks.clone(), announced, asked };
        let mut walk = TableIterator::new(&table, &source, Readahead::Auto(1 << 20));
        let mut count = 0;
        if backward { walk.seek_to_last() } else { walk.seek_to_first() }.unwrap();
        while walk.valid() {
            count += 1;
            if backward { walk.prev() } else { walk.next() }.unwrap();
        }
        assert_eq!(count, model.len());
        assert_eq!(*source.asked.borrow(), in_order);
        // All but those at which the walk begins.
        let first = if backward { 5 } else { 6 };
        assert_eq!(source.announced.borrow().as_slice(), &in_order[first..]);
        in_order.reverse();
    }
}
