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
            builder.push(separator, at as u32 + 100).unwrap();
        }
        let mut bytes = Vec::new();
        builder.encode(&mut bytes).unwrap();
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

/// Sorted keys of several kinds, by name.
fn kinds_of_keys() -> Vec<(&'static str, Vec<Vec<u8>>)> {
    const KEYS: u64 = 200_000;
    let mix = |n: u64| {
        let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb)
    };
    let random = |n: u64| format!("{:016x}{:016x}", mix(n + 1), mix(n + KEYS + 1));
    let text = |key: fn(u64, &str) -> String| {
        let mut keys: Vec<_> = (0..KEYS).map(|n| key(n, &random(n)).into_bytes()).collect();
        keys.sort();
        keys
    };
    vec![
        ("random, 32 digits", text(|_, random| random.to_owned())),
        ("counter, 8 bytes", (0..KEYS).map(|n| n.to_be_bytes().to_vec()).collect()),
        (
            "user:<10>:post:<6>",
            text(|n, _| format!("user:{:010}:post:{:06}", n / 50 * 7919, n % 50)),
        ),
        (
            "host, section, item",
            text(|n, random| {
                let (host, section) = (u64::from(random.as_bytes()[0]), random.as_bytes()[1]);
                format!("com.example.host{host:03}/articles/section-{section:04}/item-{n:08}.html")
            }),
        ),
        ("tenant-<32>/<32>", text(|n, random| format!("tenant-{:032x}/{random}", n % 20 * 7919))),
    ]
}

/// What separators that are cut to a length would save in memory, and how many blocks a get would
/// have to look into: those whose separators are the same. `docs/design/0003-whole-separators.md`
/// has the measurements.
#[test]
#[ignore = "a measurement"]
fn what_cut_separators_save_and_cost() {
    for (name, keys) in kinds_of_keys() {
        let per_block = 4096 / (keys[0].len() + 110);
        let mut builder = IndexBuilder::default();
        let mut separator = Vec::new();
        for at in (per_block..keys.len()).step_by(per_block) {
            shortest_separator(&keys[at - 1], &keys[at], &mut separator);
            builder.push(&separator, 4096).unwrap();
        }
        let index = builder.into_index().unwrap();
        let shared = common_prefix_len(&index.separator(0), &index.separator(index.len() - 1));
        let suffixes: Vec<_> =
            (0..index.len()).map(|at| index.separator(at).split_off(shared)).collect();
        let bytes =
            |of: &[Vec<u8>]| of.iter().map(Vec::len).sum::<usize>() as f64 / of.len() as f64;
        println!("{name}: {:.1} bytes of a separator", bytes(&suffixes));
        for most in [8, 16, 32] {
            let cut = |key: &[u8]| key[..key.len().min(most)].to_vec();
            let cuts: Vec<_> = suffixes.iter().map(|suffix| cut(suffix)).collect();
            let looked: usize = keys
                .iter()
                .step_by(37)
                .map(|key| {
                    let wanted = cut(&key[shared..]);
                    cuts.partition_point(|c| *c <= wanted) - cuts.partition_point(|c| *c < wanted)
                        + 1
                })
                .sum();
            let blocks = looked as f64 / keys.len().div_ceil(37) as f64;
            let saved = bytes(&suffixes) - bytes(&cuts);
            println!("  cut to {most}: {saved:.1} bytes saved, {blocks:.1} blocks a get");
        }
    }
}
