use super::*;
use crate::sstable::BlockHandle;
use proptest::prelude::*;

fn key() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![Just(0u8), Just(1), Just(0xFE), Just(0xFF), any::<u8>()];
    (any::<bool>(), proptest::collection::vec(byte, 0..12)).prop_map(|(long, tail)| {
        if long { [b"a-long-shared-", tail.as_slice()].concat() } else { tail }
    })
}

proptest! {
    #[test]
    fn a_separator_is_at_or_after_the_last_and_before_the_next(a in key(), b in key()) {
        let (last, next) = if a <= b { (a, b) } else { (b, a) };
        let mut separator = Vec::new();
        shortest_separator(&last, &next, &mut separator);
        prop_assert!(last <= separator);
        prop_assert!(separator < next || (last == next && separator == last));
        prop_assert!(separator.len() <= last.len());
        // No shorter prefix of `last` raised by one fits between the two.
        for cut in 1..separator.len() {
            let mut shorter = last[..cut].to_vec();
            let raised = shorter[cut - 1].checked_add(1);
            shorter[cut - 1] = raised.unwrap_or(0);
            prop_assert!(raised.is_none() || shorter >= next, "{shorter:?} is shorter");
        }
    }

    #[test]
    fn the_first_block_at_or_after_a_key_is_found(
        mut separators in proptest::collection::vec(key(), 0..60),
        targets in proptest::collection::vec(key(), 0..30),
    ) {
        separators.sort();
        let mut builder = IndexBuilder::default();
        for (at, separator) in separators.iter().enumerate() {
            builder.push(separator, at as u32 + 100);
        }
        let mut bytes = Vec::new();
        builder.encode(&mut bytes);
        prop_assert!(bytes.len() <= builder.encoded_bound() + 10);
        let index = FlatIndex::decode(&bytes).unwrap();
        prop_assert_eq!(index.len(), separators.len());
        let mut offset = 0;
        for (at, separator) in separators.iter().enumerate() {
            prop_assert_eq!(&index.separator(at), separator);
            prop_assert!(index.separator_is(at, separator));
            let handle = BlockHandle { offset, len: at as u32 + 100 };
            prop_assert_eq!(index.handle(at), Some(handle));
            offset += u64::from(handle.len);
        }
        prop_assert_eq!(index.indexed_bytes(), offset);
        prop_assert_eq!(index.handle(separators.len()), None);
        for target in targets.iter().chain(&separators) {
            let expected = separators.iter().filter(|&separator| separator < target).count();
            prop_assert_eq!(index.first_at_or_after(target), expected);
        }
    }

    #[test]
    fn hostile_bytes_are_refused_or_read_in_bounds(bytes: Vec<u8>, target in key()) {
        if let Ok(index) = FlatIndex::decode(&bytes) {
            index.first_at_or_after(&target);
            for at in 0..index.len() {
                index.separator(at);
            }
        }
    }
}
