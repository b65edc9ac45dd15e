use super::*;
use proptest::prelude::*;
use std::cmp::Reverse;
use std::collections::BTreeMap;

type Entries = BTreeMap<(Vec<u8>, Reverse<u64>), (ValueKind, u64, Vec<u8>)>;

fn build(entries: &Entries) -> Vec<u8> {
    let mut builder = BlockBuilder::default();
    for ((key, seq), (kind, expires_at, value)) in entries {
        let meta = EntryMeta { seq: seq.0, kind: *kind, expires_at: *expires_at };
        let bound = builder.len_with(key, value);
        builder.push(key, meta, value);
        assert!(bound >= key.len() + value.len());
    }
    let mut raw = Vec::new();
    builder.finish(&mut raw);
    assert!(builder.is_empty());
    raw
}

/// Keys that share prefixes, contain zeros and 0xFF, and are prefixes of each other. A few are
/// longer than what is copied of them at a time.
fn key() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![Just(0u8), Just(1), Just(0x7F), Just(0xFF), any::<u8>()];
    let tail = prop_oneof![
        9 => proptest::collection::vec(byte.clone(), 0..8),
        1 => proptest::collection::vec(byte, 0..3 * SHORT_TAIL_BYTES),
    ];
    (0..3usize, tail).prop_map(|(prefix, tail)| {
        [[b"" as &[u8], b"user:", b"user:\0\0\0\0"][prefix], &tail].concat()
    })
}

fn entries(most: usize) -> impl Strategy<Value = Entries> {
    let kind = (0..4u8).prop_map(|byte| ValueKind::from_u8(byte).unwrap());
    let seq = prop_oneof![0..4u64, (any::<u64>(), 8..64u32).prop_map(|(seq, shift)| seq >> shift)];
    let expiry = prop_oneof![Just(0u64), any::<u64>()];
    let value = proptest::collection::vec(any::<u8>(), 0..20);
    proptest::collection::btree_map((key(), seq.prop_map(Reverse)), (kind, expiry, value), 1..most)
}

fn check_block(entries: &Entries, targets: &[(Vec<u8>, u64)]) {
    let block = Block::from_raw(build(entries)).unwrap();
    let block = block.view();
    assert!(block.is_exact());
    assert_eq!(block.len(), entries.len());
    for (at, ((key, seq), (kind, expires_at, value))) in entries.iter().enumerate() {
        let entry = block.entry(at).unwrap();
        assert_eq!(block.key(at).as_ref(), Some(key));
        let meta = EntryMeta { seq: seq.0, kind: *kind, expires_at: *expires_at };
        assert_eq!(entry.meta, meta);
        assert_eq!(block.value(&entry), value);
        let mut appended = block.prefix().to_vec();
        entry.append_head(&mut appended);
        block.append_tail(&entry, &mut appended);
        assert_eq!(&appended, key);
        assert!(block.has_key(&entry, key));
        assert_eq!(block.lower_bound(key, seq.0), Some(at));
    }
    assert!(block.entry(entries.len()).is_none());
    for (key, seq) in targets {
        let before = entries.keys().filter(|&(k, s)| (k, s) < (key, &Reverse(*seq))).count();
        assert_eq!(block.lower_bound(key, *seq), Some(before), "{key:?} @{seq}");
        if let Some(position) = block.position_inside(key, *seq) {
            assert_eq!(position, before, "{key:?} @{seq}");
            assert!((1..entries.len()).contains(&position));
        }
    }
}

proptest! {
    #[test]
    fn blocks_give_back_what_went_in_and_find_every_place(
        entries in entries(150),
        targets in proptest::collection::vec((key(), any::<u64>()), 0..30),
    ) {
        check_block(&entries, &targets);
    }

    #[test]
    fn hostile_bytes_are_refused_or_read_in_bounds(
        entries in entries(12),
        changes in proptest::collection::vec((any::<u16>(), any::<u8>()), 1..4),
        cut in any::<u16>(),
        target in key(),
    ) {
        let mut raw = build(&entries);
        for (at, byte) in changes {
            let len = raw.len();
            raw[at as usize % len] ^= byte;
        }
        raw.truncate(cut as usize % (raw.len() + 1));
        let Ok(block) = Block::from_raw(raw) else { return Ok(()) };
        let block = block.view();
        block.is_exact();
        block.lower_bound(&target, 1);
        for at in 0..block.len().min(100) {
            if let Some(entry) = block.entry(at) {
                block.tail(&entry);
                block.value(&entry);
                block.has_key(&entry, &target);
            }
        }
    }
}

#[test]
fn a_block_beyond_64_kib_has_wide_offsets() {
    let entries: Entries = (0..40u64)
        .map(|n| {
            let key = format!("key{n:03}").into_bytes();
            ((key, Reverse(n)), (ValueKind::Value, 0, vec![n as u8; 4000]))
        })
        .collect();
    assert!(Block::from_raw(build(&entries)).unwrap().view().shape.wide_offsets);
    check_block(&entries, &[(b"key0395".to_vec(), 0), (b"key".to_vec(), 0)]);
}

#[test]
fn heads_are_hints_and_ties_compare_whole_keys() {
    // All keys share their first four bytes after the prefix, and 200 of them are one key.
    let mut entries = Entries::new();
    for seq in 1..=200u64 {
        entries.insert((b"p-sameTAIL".to_vec(), Reverse(seq)), (ValueKind::Value, 0, vec![]));
        entries.insert((format!("p-same{seq}").into(), Reverse(1)), (ValueKind::Value, 0, vec![]));
    }
    entries.insert((b"p".to_vec(), Reverse(1)), (ValueKind::Tombstone, 9, vec![]));
    let targets =
        [(b"p-same".to_vec(), 5), (b"p-sameTAIL".to_vec(), 0), (b"p-sameTAILS".to_vec(), 7)];
    check_block(&entries, &targets);
}

mod stored {
    use super::super::stored::*;
    use tidesdb_base::compress::Compression;

    const HERE: Place = Place { identity: 7, offset: 4096 };

    #[test]
    fn sealed_bytes_open_only_in_their_place_and_undamaged() {
        for codec in Compression::ALL {
            let raw: Vec<u8> = (0..400u32).map(|n| (n / 9) as u8).collect();
            let (mut scratch, mut sealed) = (Vec::new(), b"before".to_vec());
            seal_stored(&raw, codec, HERE, &mut scratch, &mut sealed).unwrap();
            let mut sealed = sealed.split_off(6);
            let mut back = vec![9; 1000];
            open_stored(&sealed, HERE, &mut back).unwrap();
            assert_eq!(back, raw);
            for place in [Place { identity: 8, ..HERE }, Place { offset: 4097, ..HERE }] {
                assert!(open_stored(&sealed, place, &mut back).is_err());
            }
            for bit in 0..sealed.len() * 8 {
                sealed[bit / 8] ^= 1 << (bit % 8);
                assert!(open_stored(&sealed, HERE, &mut back).is_err(), "{codec:?} bit {bit}");
                sealed[bit / 8] ^= 1 << (bit % 8);
            }
            for len in 0..sealed.len() {
                assert!(open_stored(&sealed[..len], HERE, &mut back).is_err());
            }
        }
    }

    #[test]
    fn a_forged_length_with_a_right_checksum_allocates_nothing() {
        let mut sealed = vec![0u8; 10];
        for codec in 0..=5u8 {
            sealed.truncate(10);
            sealed.push(codec);
            sealed.extend_from_slice(&u32::MAX.to_le_bytes());
            let sum = tidesdb_base::checksum::placed(HERE.identity, HERE.offset, &sealed);
            sealed.extend_from_slice(&sum.to_le_bytes());
            let mut raw = Vec::new();
            assert!(open_stored(&sealed, HERE, &mut raw).is_err());
            assert!(raw.capacity() < 1000);
        }
    }
}
