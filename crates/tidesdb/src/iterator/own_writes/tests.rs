//! Own writes beside an ordered map, and what scans share of them.

use std::collections::BTreeMap;

use tidesdb_lockfree::arena::BlockPool;

use super::*;
use crate::cache::BlockCache;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn budget() -> Arc<MemoryBudget> {
    let blocks = Arc::new(BlockCache::new(32 << 20, 4096));
    Arc::new(MemoryBudget::new(1 << 30, 0, blocks, BlockPool::new(0)))
}

fn put<'a>(key: &'a [u8], value: &'a [u8]) -> Operation<'a> {
    Operation { family: 1, kind: ValueKind::Value, expires_at: 0, key, value }
}

fn found(source: &OwnSource) -> Option<(Vec<u8>, Vec<u8>)> {
    source.valid().then(|| (source.key().to_vec(), source.value().to_vec()))
}

fn check(own: &Arc<OwnWrites>, model: &Model) {
    let mut source = OwnSource::new(Arc::clone(own));
    let of_model = |(key, value): (&Vec<u8>, &Vec<u8>)| (key.clone(), value.clone());
    source.seek_to_first();
    for entry in model {
        assert_eq!(found(&source), Some(of_model(entry)));
        source.next();
    }
    assert!(!source.valid());
    source.seek_to_last();
    for entry in model.iter().rev() {
        assert_eq!(found(&source), Some(of_model(entry)));
        source.prev();
    }
    assert!(!source.valid());
    for n in (0..1100u32).step_by(13) {
        let key = n.to_be_bytes();
        source.seek(&key);
        assert_eq!(found(&source), model.range(key.to_vec()..).next().map(of_model));
        source.seek_for_prev(&key);
        assert_eq!(found(&source), model.range(..=key.to_vec()).next_back().map(of_model));
    }
}

#[test]
fn a_scan_shows_what_was_written_before_it_was_made() {
    let budget = budget();
    // Small values fill a chunk by their number, large ones by their bytes.
    for value_bytes in [3, 200, 40_000] {
        let (mut own, mut model) = (Arc::new(OwnWrites::new(Vec::new(), &budget)), Model::new());
        let mut scans = Vec::new();
        let keys = if value_bytes > 1000 { 50 } else { 1000 };
        for n in 0..2000u32 {
            // Ascending at first, then anywhere, then the same ones again and again.
            let key = match n {
                0..500 => n,
                500..1500 => n.wrapping_mul(2_654_435_761) >> 8,
                _ => n % 3,
            };
            let (key, value) = ((key % keys).to_be_bytes(), vec![n as u8; value_bytes]);
            Arc::make_mut(&mut own).put(&put(&key, &value), &budget);
            model.insert(key.to_vec(), value);
            if n % 400 == 7 {
                scans.push((Arc::clone(&own), model.clone()));
            }
        }
        check(&own, &model);
        scans.iter().for_each(|(own, model)| check(own, model));
        let operations = model.iter().map(|(key, value)| put(key, value)).collect();
        check(&Arc::new(OwnWrites::new(operations, &budget)), &model);
        let bytes: usize = own.chunks.iter().map(|chunk| chunk.bytes.len()).sum();
        let live: usize = model.iter().map(|(key, value)| key.len() + value.len()).sum();
        assert!(bytes <= live * 2 + 2 * value_bytes, "{bytes} bytes for {live}");
        assert!(budget.held().transactions > 0);
    }
    assert_eq!(budget.held().transactions, 0);
}

#[test]
fn a_write_copies_one_chunk_of_what_a_scan_shows() {
    let budget = budget();
    let keys: Vec<_> = (0..5000u32).map(u32::to_be_bytes).collect();
    let operations = keys.iter().map(|key| put(key, b"value")).collect();
    let mut own = Arc::new(OwnWrites::new(operations, &budget));
    let scan = Arc::clone(&own);
    Arc::make_mut(&mut own).put(&put(&[0, 0, 9, 9], b"other"), &budget);
    let is_shared = |chunk: &&Arc<Chunk>| scan.chunks.iter().any(|other| Arc::ptr_eq(chunk, other));
    assert!(own.chunks.len() >= 19);
    assert_eq!(own.chunks.iter().filter(is_shared).count(), scan.chunks.len() - 1);
}

/// Of a transaction that takes back what it has written, again and again.
#[test]
fn what_is_taken_out_leaves_no_bytes_behind() {
    let budget = budget();
    let (mut own, mut model) = (Arc::new(OwnWrites::new(Vec::new(), &budget)), Model::new());
    for key in [b"a", b"z"] {
        Arc::make_mut(&mut own).put(&put(key, b"value"), &budget);
        model.insert(key.to_vec(), b"value".to_vec());
    }
    let before = Arc::clone(&own);
    for n in 0..1000_u32 {
        let key = [b'm', (n % 7) as u8];
        Arc::make_mut(&mut own).put(&put(&key, &[7; 1000]), &budget);
        Arc::make_mut(&mut own).remove(&key, &budget);
        Arc::make_mut(&mut own).remove(b"never there", &budget);
    }
    check(&own, &model);
    check(&before, &model);
    let bytes: usize = own.chunks.iter().map(|chunk| chunk.bytes.len()).sum();
    assert!(bytes < 4000, "{bytes} bytes");
    for key in [b"a", b"z"] {
        Arc::make_mut(&mut own).remove(key, &budget);
    }
    assert!(own.is_empty());
    drop((own, before));
    assert_eq!(budget.held().transactions, 0);
}
