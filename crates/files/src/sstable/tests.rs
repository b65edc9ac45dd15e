//! Tables against an ordered map: lookups and walks of every kind over contents of many shapes.

mod damage;
mod forged_trees;
mod held_nodes;
mod parts;
mod walks;

use super::*;
use crate::filter::{FilterKind, FilterOptions, key_hash};
use crate::testing::{MemoryFile, PATH, seeded};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use tidesdb_base::compress::Compression;
use tidesdb_base::{Error, ErrorKind, ValueKind};
use tidesdb_sim::rng::SplitMix64;

/// What a table must hold, in the table's order.
type Model = BTreeMap<(Vec<u8>, Reverse<u64>), (ValueKind, u64, Vec<u8>)>;

const IDENTITY: u64 = 7;

const FORMS: [IndexForm; 3] = [
    IndexForm::Flat,
    IndexForm::Tree { node_bytes: 256, node_leaves: usize::MAX },
    IndexForm::Tree { node_bytes: 1 << 20, node_leaves: 3 },
];

fn options(block_size: usize) -> TableOptions {
    TableOptions {
        index: IndexForm::Flat,
        block_size,
        compression: Compression::Lz4,
        filter: FilterOptions::of_keys(0.01),
        identity: IDENTITY,
        expected_entries: 100,
        now_unix_seconds: 50,
        origin: TableOrigin::default(),
    }
}

/// All filters with all forms of an index, each at least once.
fn filters_and_forms() -> [(FilterOptions, IndexForm); 5] {
    let bloom = FilterOptions::of_keys(0.01);
    let ribbon = FilterOptions { kind: FilterKind::Ribbon, ..bloom };
    let prefixes = FilterOptions { prefix_bytes: 3, ..FilterOptions::none() };
    [
        (bloom, FORMS[0]),
        (FilterOptions::none(), FORMS[0]),
        (prefixes, FORMS[1]),
        (ribbon, FORMS[0]),
        (FilterOptions { prefix_bytes: 1, ..ribbon }, FORMS[2]),
    ]
}

fn write(model: &Model, options: TableOptions) -> (Arc<MemoryFile>, TableSummary) {
    let file = MemoryFile::new(Vec::new());
    let mut writer = TableWriter::new(file.clone(), Path::new(PATH), options);
    for ((key, seq), (kind, expires_at, value)) in model {
        let meta = EntryMeta { seq: seq.0, kind: *kind, expires_at: *expires_at };
        writer.add(key, meta, value).unwrap();
        assert_eq!(writer.last_key(), key);
    }
    assert_eq!(writer.entries(), model.len() as u64);
    let (summary, _) = writer.finish().unwrap();
    (file, summary)
}

fn open(file: &Arc<MemoryFile>) -> tidesdb_base::Result<Table> {
    Table::open(file.clone(), Path::new(PATH), IDENTITY)
}

/// What a lookup gives: sequence, kind, expiry, value.
type Answer = (u64, ValueKind, u64, Vec<u8>);

fn expected(model: &Model, key: &[u8], snapshot: u64) -> Option<Answer> {
    let from = (key.to_vec(), Reverse(snapshot));
    let ((found, seq), (kind, expires_at, value)) = model.range(from..).next()?;
    (found == key).then(|| (seq.0, *kind, *expires_at, value.clone()))
}

fn answer(table: &Table, key: &[u8], snapshot: u64) -> tidesdb_base::Result<Option<Answer>> {
    let found = table.get(key, key_hash(key), snapshot, &Uncached)?;
    let looked_up = table.lookup(key, snapshot, &Uncached)?;
    let answer = |found: &Found<Box<Block>>| {
        let meta = found.meta();
        (meta.seq, meta.kind, meta.expires_at, found.value().to_vec())
    };
    // The filter and the key range may only ever save work.
    assert_eq!(found.as_ref().map(answer), looked_up.as_ref().map(answer));
    Ok(found.as_ref().map(answer))
}

fn random_bytes(rng: &mut SplitMix64, most: u64) -> Vec<u8> {
    let mut bytes = vec![0; rng.below(most + 1) as usize];
    rng.fill(&mut bytes);
    bytes
}

fn random_entry(rng: &mut SplitMix64, most: u64) -> (ValueKind, u64, Vec<u8>) {
    let expires_at = if rng.chance(1, 5) { rng.below(1 << 40) } else { 0 };
    if rng.chance(1, 6) {
        return (ValueKind::Tombstone, expires_at, Vec::new());
    }
    let value = if rng.chance(1, 10) { Vec::new() } else { random_bytes(rng, most) };
    (ValueKind::Value, expires_at, value)
}

/// Contents of one shape each: name, block size, entries.
fn shapes(rng: &mut SplitMix64) -> Vec<(&'static str, usize, Model)> {
    let mut shapes: Vec<(&'static str, usize, Model)> =
        ["random", "prefixes", "versions", "binary"]
            .into_iter()
            .zip([256, 300, 200, 128])
            .map(|(name, block_size)| (name, block_size, Model::new()))
            .collect();
    for n in 0..1500u64 {
        let key = random_bytes(rng, 16);
        shapes[0].2.insert((key, Reverse(rng.below(1 << 50))), random_entry(rng, 40));
        let key = format!("tenant/{:03}/a/very/long/shared/path/{n:09}", n % 3).into_bytes();
        shapes[1].2.insert((key, Reverse(0)), random_entry(rng, 30));
        let key = vec![b'v', rng.below(6) as u8];
        shapes[2].2.insert((key, Reverse(rng.below(1 << 20))), random_entry(rng, 20));
        let length = rng.below(5);
        let key = (0..length).map(|_| [0, 0, 0xFF, 1][rng.index(4)]).collect();
        shapes[3].2.insert((key, Reverse(rng.below(9))), random_entry(rng, 300));
    }
    let mut huge = Model::new();
    for n in 0..12u8 {
        let mut key = vec![0xAB; 65_534];
        key.push(n);
        huge.insert((key, Reverse(3)), random_entry(rng, 100_000));
        huge.insert((vec![n], Reverse(3)), random_entry(rng, 100));
    }
    shapes.push(("64 KiB keys", 4096, huge));
    let one = Model::from([((b"only".to_vec(), Reverse(1)), random_entry(rng, 9))]);
    shapes.push(("one entry", 4096, one));
    shapes.push(("nothing", 4096, Model::new()));
    shapes
}

/// Keys of the model, keys close to them, and others.
fn targets(model: &Model, rng: &mut SplitMix64, count: usize) -> Vec<Vec<u8>> {
    let keys: Vec<&Vec<u8>> = model.keys().map(|(key, _)| key).collect();
    let mut targets = vec![Vec::new(), vec![0], vec![0xFF; 20]];
    for _ in 0..count {
        let mut key = match keys.get(rng.index(keys.len())) {
            Some(&key) => key.clone(),
            None => random_bytes(rng, 8),
        };
        match rng.below(6) {
            0 => key.push(0),
            1 => drop(key.pop()),
            2 if !key.is_empty() => {
                let at = rng.index(key.len());
                key[at] = key[at].wrapping_add(if rng.chance(1, 2) { 1 } else { 0xFF });
            }
            3 => key = random_bytes(rng, 16),
            _ => {}
        }
        targets.push(key);
    }
    targets
}

#[test]
fn lookups_answer_as_an_ordered_map_does() {
    let mut rng = seeded();
    for (name, block_size, model) in shapes(&mut rng) {
        for (filter, index) in filters_and_forms() {
            let (file, summary) =
                write(&model, TableOptions { filter, index, ..options(block_size) });
            let table = open(&file).unwrap();
            assert_eq!(*table.summary(), summary, "{name}");
            table.verify().unwrap_or_else(|error| panic!("{name}: {error}"));
            for (key, seq) in model.keys() {
                let wanted = expected(&model, key, seq.0);
                assert_eq!(answer(&table, key, seq.0).unwrap(), wanted, "{name}");
            }
            for key in targets(&model, &mut rng, 1000) {
                let snapshot = [0, rng.below(1 << 20), u64::MAX][rng.index(3)];
                let wanted = expected(&model, &key, snapshot);
                assert_eq!(answer(&table, &key, snapshot).unwrap(), wanted, "{name}: {key:?}");
            }
        }
    }
}

#[test]
fn every_codec_and_block_size_reads_back() {
    let mut rng = seeded();
    let (_, _, model) = shapes(&mut rng).swap_remove(1);
    for compression in Compression::ALL {
        for (block_size, index) in [128, 1000, 4096, 1 << 20].into_iter().zip(FORMS.repeat(2)) {
            let (file, summary) =
                write(&model, TableOptions { compression, index, ..options(block_size) });
            let table = open(&file).unwrap();
            table.verify().unwrap();
            assert_eq!(summary.file_len, file.bytes().len() as u64);
            assert_eq!(summary.data_blocks as usize, table.block_count());
            for at in 0..table.block_count() {
                let handle = table.block_handle(at, &Uncached).unwrap().unwrap();
                let block = table.read_block(handle, &mut Vec::new()).unwrap();
                let most = block_size + 300;
                assert!(block.memory_bytes() - size_of::<Block>() <= most, "{block_size}");
            }
        }
    }
}

#[test]
fn the_summary_adds_up() {
    let pointer = |file, stored_len| {
        let pointer = crate::vlog::ValuePointer { file, offset: 99, stored_len, raw_len: 500 };
        let mut bytes = Vec::new();
        pointer.encode(&mut bytes);
        (ValueKind::ValuePointer, 0, bytes)
    };
    let model = Model::from([
        ((b"a".to_vec(), Reverse(9)), (ValueKind::Value, 70, b"12345".to_vec())),
        ((b"a".to_vec(), Reverse(4)), (ValueKind::SingleTombstone, 0, vec![])),
        ((b"b".to_vec(), Reverse(12)), pointer(31, 100)),
        ((b"c".to_vec(), Reverse(7)), pointer(8, 50)),
        ((b"d".to_vec(), Reverse(7)), pointer(31, 10)),
        ((b"zz".to_vec(), Reverse(5)), (ValueKind::Tombstone, 60, vec![])),
    ]);
    let (file, summary) = write(&model, options(64));
    let raw = 1 + 5 + 1 + (1 + 6) + (1 + 5) + (1 + 5) + 2;
    let wanted = TableSummary {
        origin: TableOrigin::default(),
        file_len: file.bytes().len() as u64,
        entries: 6,
        tombstones: 2,
        distinct_keys: 5,
        data_blocks: summary.data_blocks,
        index_nodes: 0,
        min_key: b"a".to_vec(),
        max_key: b"zz".to_vec(),
        min_seq: 4,
        max_seq: 12,
        raw_bytes: summary.raw_bytes,
        earliest_expiry: 60,
        expiry: ExpiryOctiles::default(),
        value_references: vec![
            ValueReferences { file: 8, bytes: 70, count: 1 },
            ValueReferences { file: 31, bytes: 100 + 20 + 10 + 20, count: 2 },
        ],
        keys: summary.keys.clone(),
    };
    assert_eq!(summary, wanted);
    assert_eq!(summary.keys.estimate(), 5);
    assert!(summary.raw_bytes >= raw - 3 && summary.raw_bytes <= raw + 3, "{}", summary.raw_bytes);
    open(&file).unwrap().verify().unwrap();
}

#[test]
fn a_table_says_by_when_its_bytes_expire() {
    let entry = |n: u8, seq, kind, expires_at, len| {
        ((vec![n], Reverse(seq)), (kind, expires_at, vec![n; len]))
    };
    let mut model = Model::from([
        entry(1, 9, ValueKind::Value, 70, 99),
        entry(2, 9, ValueKind::Value, 90, 99),
        entry(3, 9, ValueKind::Value, 0, 99),
        entry(4, 9, ValueKind::Value, 70, 99),
    ]);
    let octiles = |model: &Model| {
        let (file, summary) = write(model, options(64));
        let table = open(&file).unwrap();
        table.verify().unwrap();
        assert_eq!(*table.summary(), summary, "read back");
        summary.expiry.times().to_vec()
    };
    assert_eq!(octiles(&model), [70, 70, 70, 70, 90, 90]);
    // A value elsewhere counts with what it takes there.
    let mut pointer_bytes = Vec::new();
    let value = crate::vlog::ValuePointer { file: 3, offset: 40, stored_len: 1180, raw_len: 1180 };
    value.encode(&mut pointer_bytes);
    model.insert((vec![5], Reverse(9)), (ValueKind::ValuePointer, 60, pointer_bytes));
    assert_eq!(octiles(&model)[..6], [60; 6]);
    model.retain(|_, (_, expires_at, _)| *expires_at != 0);
    assert_eq!(octiles(&model).last(), Some(&90));
    assert_eq!(octiles(&model).len(), 8);
}

#[test]
fn properties_without_optional_ones_are_those_of_older_tables() {
    let times = ExpiryOctiles::new(vec![60, 70]);
    let older = TableSummary { min_key: b"a".to_vec(), ..TableSummary::default() };
    let newer = TableSummary { expiry: times, ..older.clone() };
    let (mut old_bytes, mut new_bytes) = (Vec::new(), Vec::new());
    older.encode(&mut old_bytes);
    newer.encode(&mut new_bytes);
    assert!(new_bytes.starts_with(&old_bytes) && new_bytes.len() > old_bytes.len());
    assert_eq!(TableSummary::decode(&old_bytes), Ok(older.clone()));
    assert_eq!(TableSummary::decode(&new_bytes), Ok(newer));
    new_bytes.truncate(old_bytes.len());
    new_bytes.extend([63, 2, 1, 1]);
    assert_eq!(TableSummary::decode(&new_bytes), Ok(older), "a property that nobody knows");
    old_bytes.truncate(old_bytes.len() - 259);
    assert!(TableSummary::decode(&old_bytes).is_err(), "one that must be there");
}

#[test]
fn entries_out_of_order_are_an_internal_error() {
    let meta = |seq| EntryMeta { seq, kind: ValueKind::Value, expires_at: 0 };
    for (key, seq) in [(b"k" as &[u8], 5), (b"k", 6), (b"j", 1), (b"", 1)] {
        let file = MemoryFile::new(Vec::new());
        let mut writer = TableWriter::new(file, Path::new(PATH), options(128));
        writer.add(b"k", meta(5), b"").unwrap();
        let error = writer.add(key, meta(seq), b"").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Internal, "{error}");
    }
    let mut writer = TableWriter::new(MemoryFile::new(Vec::new()), Path::new(PATH), options(128));
    let pointer = EntryMeta { kind: ValueKind::ValuePointer, ..meta(1) };
    let error = writer.add(b"k", pointer, b"\xFF").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Internal, "{error}");
    assert!(error.to_string().contains("found 1 bytes: \\xff"), "{error}");
    assert_eq!(writer.add(b"k", meta(1 << 56), b"").unwrap_err().kind(), ErrorKind::Internal);
    let error = writer.add(&vec![0; 65_536], meta(1), b"").unwrap_err();
    assert!(matches!(error, Error::TooLarge { what: "key", .. }), "{error}");
}

/// Enough entries for a dozen index nodes over blocks of 1024 bytes.
fn many_entries() -> Model {
    let mut rng = seeded();
    let entry = |_| {
        let mut value = vec![0; 100];
        rng.fill(&mut value);
        ((rng.next_u64().to_be_bytes().to_vec(), Reverse(1)), (ValueKind::Value, 0, value))
    };
    (0..20_000).map(entry).collect()
}

#[test]
fn keys_and_bytes_before_them_cut_the_table_into_parts_of_about_equal_size() {
    let model = many_entries();
    for index in [IndexForm::Flat, IndexForm::Tree { node_bytes: 4096, node_leaves: usize::MAX }] {
        let (file, _) = write(&model, TableOptions { index, ..options(1024) });
        let table = open(&file).unwrap();
        let data_bytes = table.index.data_bytes();
        let keys = table.keys_between(3);
        assert_eq!(keys.len(), 2, "{index:?}");
        let before: Vec<u64> = keys.iter().map(|key| table.bytes_before(key)).collect();
        let between = [before[0], before[1] - before[0], data_bytes - before[1]];
        // A cut of a tree index is at one of its few nodes.
        let least = if index != IndexForm::Flat { data_bytes / 8 } else { data_bytes / 4 };
        assert!(between.iter().all(|part| *part > least), "{between:?} of {data_bytes}");
        assert_eq!(table.bytes_before(b""), 0);
        assert!(table.keys_between(1).is_empty());
    }
}

#[test]
fn the_root_of_a_tree_index_is_all_that_is_resident() {
    let model = many_entries();
    let written = |index| {
        let (file, summary) =
            write(&model, TableOptions { index, filter: FilterOptions::none(), ..options(1024) });
        (open(&file).unwrap().memory_bytes(), summary)
    };
    let (flat_bytes, flat) = written(IndexForm::Flat);
    let (tree_bytes, tree) = written(IndexForm::Tree { node_bytes: 4096, node_leaves: usize::MAX });
    assert!(tree_bytes * 20 < flat_bytes, "{tree_bytes} and {flat_bytes} bytes");
    assert_eq!(tree.data_blocks, flat.data_blocks);
    assert!(tree.index_nodes * 100 < tree.data_blocks && flat.index_nodes == 0, "{tree:?}");
    assert!(tree.file_len < flat.file_len * 101 / 100, "{} and {}", tree.file_len, flat.file_len);
}
