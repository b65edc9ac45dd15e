//! Edits as bytes.

use super::*;
use crate::sstable::{ExpiryOctiles, KeySketch};
use proptest::prelude::*;

fn sample() -> Edit {
    let table = TableRecord {
        number: 9,
        level: 1,
        run: 4,
        bytes: 1000,
        entries: 10,
        tombstones: 1,
        smallest_key: b"a".to_vec(),
        largest_key: b"z".to_vec(),
        lowest_sequence: 5,
        highest_sequence: 50,
        value_references: vec![(8, 77)],
        keys: KeySketch::default(),
        range_deletes_applied_through: 40,
        expiry: ExpiryOctiles::new(vec![60, 60, 90]),
    };
    let range = |start: &[u8], end: &[u8]| {
        Arc::new(RangeTombstone { start: start.into(), end: end.into(), sequence: 44 })
    };
    Edit::new(vec![
        Change::CreateFamily { family: 1, name: "users".into(), options: "a = 1".into() },
        Change::SetOptions { family: 1, options: "b = 2".into() },
        Change::AddTable { family: 1, table: Arc::new(table) },
        Change::RemoveTable { family: 1, number: 3 },
        Change::AddValueLog { family: 1, file: ValueLogRecord { number: 8, bytes: 500 } },
        Change::RemoveValueLog { family: 1, number: 2 },
        Change::FlushedThrough { family: 1, sequence: 50 },
        Change::AddRangeTombstone { family: 1, tombstone: range(b"b", b"c") },
        Change::RemoveRangeTombstone { family: 1, tombstone: range(b"", b"") },
        Change::LogStart { segment: 7 },
        Change::NextFile { number: 10 },
        Change::NextFamily { family: 2 },
        Change::LastSequence { sequence: 50 },
        Change::DropFamily { family: 1 },
    ])
}

#[test]
fn every_change_round_trips() {
    assert_eq!(Edit::decode(&sample().encode()), Ok(sample()));
}

/// The bytes of version 2, which knew no expiry.
#[test]
fn a_table_of_an_older_manifest_is_read_without_its_expiry() {
    let mut bytes = vec![4, 1, 9, 1, 4, 232, 7, 10, 1, 5, 50, 40, 1, b'a', 1, b'z', 1, 8, 77];
    put_bytes(&mut bytes, KeySketch::default().as_bytes());
    bytes.extend([9, 7]);
    let Change::AddTable { family, table } = sample().changes.swap_remove(2) else { panic!() };
    let table = TableRecord { expiry: ExpiryOctiles::default(), ..(*table).clone() };
    let table = Change::AddTable { family, table: Arc::new(table) };
    let changes = vec![table, Change::LogStart { segment: 7 }];
    assert_eq!(Edit::decode(&bytes), Ok(Edit::new(changes.clone())));
    assert_eq!(Edit::decode(&Edit::new(changes.clone()).encode()), Ok(Edit::new(changes)));
}

#[test]
fn a_cut_edit_is_malformed_or_shorter_but_never_a_panic() {
    let bytes = sample().encode();
    for cut in 0..bytes.len() {
        assert_ne!(Edit::decode(&bytes[..cut]), Ok(sample()));
    }
}

#[test]
fn a_tombstone_of_no_range_is_malformed() {
    let tombstone = Arc::new(RangeTombstone {
        start: b"b".as_slice().into(),
        end: b"b".as_slice().into(),
        sequence: 1,
    });
    let edit = Edit::new(vec![Change::AddRangeTombstone { family: 1, tombstone }]);
    assert_eq!(Edit::decode(&edit.encode()), Err(Malformed));
}

proptest! {
    #[test]
    fn hostile_bytes_never_panic(bytes: Vec<u8>) {
        let _ = Edit::decode(&bytes);
    }
}
