//! Times building, looking up and walking one table, on one thread.
//!
//! `cargo bench -p tidesdb-files --bench table [entries]`
//!
//! 16-byte random keys, 100-byte values of which half is noise, LZ4, 4 KiB blocks. "Cached" means
//! that decoded blocks are kept in memory, "uncached" that each block is read from the file, which
//! the operating system has in its page cache. Every answer is checked.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;
use tidesdb_base::checksum::plain;
use tidesdb_base::compress::Compression;
use tidesdb_base::{Result, ValueKind};
use tidesdb_files::filter::{FilterOptions, key_hash};
use tidesdb_files::sstable::{
    Block, BlockHandle, BlockHolder, BlockSource, EntryMeta, IndexForm, Readahead, Table,
    TableIterator, TableOptions, TableOrigin, TableWriter, Uncached,
};
use tidesdb_sim::rng::SplitMix64;
use tidesdb_sys::vfs::{File, OpenMode, RealVfs, Vfs};

type Key = [u8; 16];

/// Blocks by the 64-byte unit in which they start: a cache without the cost of one.
struct Slots(Vec<Option<Arc<Block>>>);

/// Reads every data block from the file; the buffer for the stored bytes and index nodes are kept.
struct FromFile {
    stored: RefCell<Vec<u8>>,
    nodes: Slots,
    nodes_at: u64,
}

impl FromFile {
    fn new(table: &Table) -> Result<Self> {
        Ok(Self { stored: RefCell::default(), nodes: nodes(table)?, nodes_at: end_of_data(table) })
    }
}

impl BlockSource for &FromFile {
    type Block = Arc<Block>;
    fn block(&self, table: &Table, handle: BlockHandle) -> Result<Arc<Block>> {
        if handle.offset >= self.nodes_at {
            return self.nodes.block(table, handle);
        }
        Ok(Arc::new(table.read_block(handle, &mut self.stored.borrow_mut())?))
    }
}

/// Where the data blocks end.
fn end_of_data(table: &Table) -> u64 {
    table.bytes_before(&[0xFF; 32])
}

/// Slots of a whole table, with the index nodes in them.
fn nodes(table: &Table) -> Result<Slots> {
    /// Notes what it is asked for.
    struct Noted<'a>(&'a RefCell<Slots>, u64);
    impl BlockSource for Noted<'_> {
        type Block = Arc<Block>;
        fn block(&self, table: &Table, handle: BlockHandle) -> Result<Arc<Block>> {
            let block = Arc::new(table.read_block(handle, &mut Vec::new())?);
            if handle.offset >= self.1 {
                self.0.borrow_mut().0[(handle.offset >> 6) as usize] = Some(Arc::clone(&block));
            }
            Ok(block)
        }
    }
    let slots = RefCell::new(Slots(vec![None; (table.summary().file_len >> 6) as usize + 1]));
    let noted = Noted(&slots, end_of_data(table));
    let mut entries = TableIterator::new(table, noted, Readahead::None);
    entries.seek_to_first()?;
    while entries.valid() {
        entries.next()?;
    }
    drop(entries);
    Ok(slots.into_inner())
}

impl BlockSource for Slots {
    type Block = Arc<Block>;
    fn block(&self, table: &Table, handle: BlockHandle) -> Result<Arc<Block>> {
        match self.0.get((handle.offset >> 6) as usize) {
            Some(Some(block)) => Ok(Arc::clone(block)),
            _ => Ok(Arc::new(table.read_block(handle, &mut Vec::new())?)),
        }
    }
}

fn value_of(key: &Key, value: &mut [u8; 100]) {
    let mut noise = SplitMix64::new(plain(key));
    noise.fill(&mut value[..50]);
    value[50..].fill(b'=');
}

/// Nanoseconds this thread ran on a processor: what is left of a noisy machine's wall clock. Where
/// the system does not report it, the wall clock.
fn thread_nanos(start: Instant) -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = text.split(' ').next().and_then(|field| field.parse().ok());
    nanos.unwrap_or_else(|| start.elapsed().as_nanos() as f64)
}

fn time(what: &str, count: usize, run: impl FnOnce() -> Result<usize>) -> Result<()> {
    let start = Instant::now();
    let start_nanos = thread_nanos(start);
    let right = run()?;
    let wall = start.elapsed().as_nanos() as f64 / count as f64;
    let nanos = (thread_nanos(start) - start_nanos) / count as f64;
    let verdict = if right == count { "" } else { "   WRONG ANSWERS" };
    println!("{what:<44} {nanos:>8.1} ns of CPU, {wall:>8.1} ns{verdict}");
    Ok(())
}

fn build(file: Arc<dyn File>, path: &Path, keys: &[Key], form: (IndexForm, usize)) -> Result<()> {
    let options = TableOptions {
        index: form.0,
        block_size: form.1,
        compression: Compression::Lz4,
        filter: FilterOptions::of_keys(0.01),
        identity: 1,
        expected_entries: keys.len(),
        now_unix_seconds: 0,
        origin: TableOrigin::default(),
    };
    let values: Vec<[u8; 100]> = keys
        .iter()
        .map(|key| {
            let mut value = [0; 100];
            value_of(key, &mut value);
            value
        })
        .collect();
    let meta = EntryMeta { seq: 1 << 33, kind: ValueKind::Value, expires_at: 0 };
    time("build (add + finish)", keys.len(), || {
        let mut writer = TableWriter::new(file, path, options);
        for (key, value) in keys.iter().zip(&values) {
            writer.add(key, meta, value)?;
        }
        let (summary, _) = writer.finish()?;
        let per_entry = summary.file_len as f64 / summary.entries as f64;
        println!("file: {} bytes, {per_entry:.1} per entry", summary.file_len);
        Ok(summary.entries as usize)
    })
}

fn gets<S: BlockSource>(table: &Table, keys: &[Key], source: &S) -> Result<usize> {
    let mut right = 0;
    let mut value = [0; 100];
    for key in keys {
        if let Some(found) = table.get(key, key_hash(key), u64::MAX, source)? {
            value_of(key, &mut value);
            right += usize::from(found.value() == value);
        }
    }
    Ok(right)
}

fn seeks<S: BlockSource>(table: &Table, keys: &[Key], source: S) -> Result<usize> {
    let mut entries = TableIterator::new(table, source, Readahead::None);
    let mut right = 0;
    for key in keys {
        entries.seek(key)?;
        right += usize::from(entries.key() == key);
    }
    Ok(right)
}

fn walk<S: BlockSource>(table: &Table, source: S, readahead: Readahead) -> Result<usize> {
    let mut entries = TableIterator::new(table, source, readahead);
    let (mut count, mut sum) = (0, 0u64);
    entries.seek_to_first()?;
    while entries.valid() {
        count += 1;
        sum += u64::from(entries.key()[0]) + u64::from(entries.value()[99]);
        entries.next()?;
    }
    std::hint::black_box(sum);
    Ok(count)
}

/// What of an uncached lookup is the bare read, and what the block's check and decoding.
fn blocks_alone(table: &Table, file: &dyn File) -> Result<()> {
    let mut rng = SplitMix64::new(9);
    let handle = |at| table.block_handle(at, &Uncached).ok().flatten();
    let handles: Vec<BlockHandle> =
        (0..200_000).filter_map(|_| handle(rng.index(table.block_count()))).collect();
    let mut scratch = vec![0; 64 << 10];
    time("bare read of a random block", handles.len(), || {
        for handle in &handles {
            file.read_exact_at(&mut scratch[..handle.len as usize], handle.offset)
                .map_err(|error| tidesdb_base::Error::io("read", table.path(), error))?;
        }
        Ok(handles.len())
    })?;
    time("read, check, decode of a random block", handles.len(), || {
        for &handle in &handles {
            std::hint::black_box(table.read_block(handle, &mut scratch)?.view().len());
        }
        Ok(handles.len())
    })?;
    time("read, check, decode of one block", handles.len(), || {
        for _ in &handles {
            std::hint::black_box(table.read_block(handles[0], &mut scratch)?.view().len());
        }
        Ok(handles.len())
    })?;
    time("bare read of one block", handles.len(), || {
        for _ in &handles {
            file.read_exact_at(&mut scratch[..handles[0].len as usize], handles[0].offset)
                .map_err(|error| tidesdb_base::Error::io("read", table.path(), error))?;
        }
        Ok(handles.len())
    })
}

fn measure(table: &Table, keys: &[Key], absent: &[Key]) -> Result<()> {
    let from_file = FromFile::new(table)?;
    let mut slots = nodes(table)?;
    let mut rng = SplitMix64::new(5);
    let picked: Vec<Key> = (0..300_000).map(|_| keys[rng.index(keys.len())]).collect();
    time("filter, absent key", absent.len(), || {
        let passed = absent.iter().filter(|key| table.may_contain(key_hash(*key))).count();
        println!("filter: {:.3} % let through", passed as f64 * 100.0 / absent.len() as f64);
        Ok(absent.len())
    })?;
    time("the benchmark's own check of a value", picked.len(), || {
        let mut value = [0; 100];
        for key in &picked {
            value_of(key, &mut value);
            std::hint::black_box(&value);
        }
        Ok(picked.len())
    })?;
    time("get, uncached", picked.len(), || gets(table, &picked, &&from_file))?;
    time("seek, uncached", picked.len(), || seeks(table, &picked, &from_file))?;
    time("walk, uncached, 64 KiB read-ahead", keys.len(), || {
        walk(table, Uncached, Readahead::Bytes(64 << 10))
    })?;
    time("walk, uncached, no read-ahead", keys.len(), || walk(table, &from_file, Readahead::None))?;
    for at in 0..table.block_count() {
        if let Some(handle) = table.block_handle(at, &Uncached)? {
            let block = table.read_block(handle, &mut Vec::new())?;
            slots.0[(handle.offset >> 6) as usize] = Some(Arc::new(block));
        }
    }
    let few = &keys[..keys.len().min(5000)];
    let hot: Vec<Key> = (0..300_000).map(|_| few[rng.index(few.len())]).collect();
    time("get, cached", picked.len(), || gets(table, &picked, &slots))?;
    time("get, cached, in the processor's caches too", hot.len(), || gets(table, &hot, &slots))?;
    time("seek, cached", picked.len(), || seeks(table, &picked, &slots))?;
    time("walk, cached", keys.len(), || walk(table, &slots, Readahead::None))
}
/// The arguments, without the one that `cargo bench` adds.
fn arguments() -> impl Iterator<Item = String> {
    std::env::args().skip(1).filter(|argument| argument != "--bench")
}

fn main() -> std::result::Result<(), Box<dyn Error>> {
    let count: usize = arguments().next().map_or(Ok(1_000_000), |text| text.parse())?;
    let mut rng = SplitMix64::new(1);
    let mut key = || {
        let mut key = [0; 16];
        rng.fill(&mut key);
        key
    };
    let sorted: BTreeSet<Key> = (0..count).map(|_| key()).collect();
    let keys: Vec<Key> = sorted.into_iter().collect();
    let absent: Vec<Key> = (0..1_000_000).map(|_| key()).collect();
    let path = std::env::temp_dir().join(format!("table-bench-{}.klog", std::process::id()));
    let vfs = RealVfs::new();
    let tree = IndexForm::Tree { node_bytes: 4096, node_leaves: usize::MAX };
    let forms = [(IndexForm::Flat, 4096), (tree, 4096), (tree, 1024)];
    for (index, block_size) in forms {
        println!("\n{index:?} index, data blocks of {block_size} bytes");
        let file = vfs.open(&path, OpenMode::CreateNew)?;
        let result = build(Arc::clone(&file), &path, &keys, (index, block_size))
            .and_then(|()| Table::open(Arc::clone(&file), &path, 1))
            .and_then(|table| {
                let per_entry = table.memory_bytes() as f64 / count as f64;
                println!("memory: {per_entry:.2} bytes per entry");
                blocks_alone(&table, file.as_ref())?;
                measure(&table, &keys, &absent)
            });
        vfs.remove(&path)?;
        result?;
    }
    Ok(())
}
