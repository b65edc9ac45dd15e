use super::*;

fn hashes(range: std::ops::Range<u64>) -> Vec<u64> {
    range.map(|n| key_hash(&n.to_be_bytes())).collect()
}

const KINDS: [FilterKind; 2] = [FilterKind::Bloom, FilterKind::Ribbon];

fn encoded(kind: FilterKind, rate: f64, hashes: &[u64]) -> Vec<u8> {
    let mut bytes = Vec::new();
    Tools::default()
        .encode(hashes, FilterOptions { kind, ..FilterOptions::of_keys(rate) }, &mut bytes)
        .unwrap();
    bytes
}

fn built(kind: FilterKind, rate: f64, hashes: &[u64]) -> Filter {
    Filter::decode(&encoded(kind, rate, hashes)).unwrap().unwrap()
}

#[test]
fn every_key_put_in_is_let_through() {
    for kind in KINDS {
        for rate in [0.9, 0.3, 0.01, 0.000_001] {
            for count in [0, 1, 2, 63, 129, 1000, 20_000] {
                let present = hashes(0..count);
                let filter = built(kind, rate, &present);
                let through = present.iter().all(|&hash| filter.may_contain(hash));
                assert!(through, "{kind:?} of {count} at {rate}");
            }
        }
    }
}

/// Keys that are put in twice, and different keys of one hash, are no contradiction.
#[test]
fn repeated_hashes_do_no_harm() {
    let present = [hashes(0..3000), hashes(1000..3000)].concat();
    for kind in KINDS {
        let filter = built(kind, 0.01, &present);
        assert!(present.iter().all(|&hash| filter.may_contain(hash)), "{kind:?}");
    }
}

#[test]
fn false_positives_come_at_the_rate_that_was_asked_for() {
    let absent = hashes(1_000_000..3_000_000);
    for kind in KINDS {
        for rate in [0.9, 0.5, 0.2, 0.05, 0.01, 0.003, 0.001] {
            let filter = built(kind, rate, &hashes(0..30_000));
            assert_eq!(matches!(filter, Filter::Ribbon(_)), kind == FilterKind::Ribbon);
            let passed = absent.iter().filter(|&&hash| filter.may_contain(hash)).count();
            let found = passed as f64 / absent.len() as f64;
            assert!((found / rate - 1.0).abs() < 0.2, "{kind:?}: wanted {rate}, found {found}");
        }
    }
}

#[test]
fn a_filter_takes_the_space_that_its_kind_promises() {
    let keys = hashes(0..200_000);
    let bits = |kind, rate| encoded(kind, rate, &keys).len() as f64 * 8.0 / keys.len() as f64;
    let (bloom, ribbon) = (bits(FilterKind::Bloom, 0.01), bits(FilterKind::Ribbon, 0.01));
    assert!(bloom < 10.0, "{bloom}");
    assert!(ribbon < 0.72 * bloom, "{ribbon} against {bloom}");
    assert!(bits(FilterKind::Ribbon, 0.001) < 0.72 * bits(FilterKind::Bloom, 0.001));
    for count in [0, 1, 10, 100, 300] {
        let few = hashes(0..count);
        let (bloom, ribbon) = KINDS.map(|kind| encoded(kind, 0.01, &few).len()).into();
        assert!(ribbon <= bloom, "{count} keys");
    }
}

#[test]
fn the_persisted_form_round_trips_and_damaged_headers_are_refused() {
    let fields: [(FilterKind, &[(usize, u8)]); 2] = [
        (FilterKind::Bloom, &[(1, 0), (1, 17), (2, 1), (4, 1), (7, 0xFF)]),
        (
            FilterKind::Ribbon,
            &[(1, 0), (1, 25), (1, 6), (3, 1), (4, 1), (7, 0xFF), (8, 99), (11, 1)],
        ),
    ];
    for (kind, fields) in fields {
        let bytes = encoded(kind, 0.01, &hashes(0..2000));
        let filter = Filter::decode(&bytes).unwrap().unwrap();
        let mut again = Vec::new();
        match &filter {
            Filter::Bloom(filter) => filter.encode(&mut again).unwrap(),
            Filter::Ribbon(filter) => filter.encode(&mut again).unwrap(),
        }
        assert_eq!(again, bytes);
        for cut in 0..bytes.len() {
            assert_eq!(
                Filter::decode(&bytes[..cut]),
                Err(DecodeError::Malformed),
                "{kind:?} {cut}"
            );
        }
        for &(at, value) in fields {
            let mut bad = bytes.clone();
            bad[at] = value;
            assert_eq!(Filter::decode(&bad), Err(DecodeError::Malformed), "{kind:?} {at} {value}");
        }
    }
    assert_eq!(Filter::decode(&[9, 0, 0, 0]), Ok(None));
}

/// Whatever is in the bytes, reading and asking them ends.
#[test]
fn arbitrary_bytes_are_read_without_harm() {
    let mut random = crate::testing::seeded();
    let originals = KINDS.map(|kind| encoded(kind, 0.02, &hashes(0..900)));
    for _ in 0..20_000 {
        let mut bytes = originals[random.index(2)].clone();
        for _ in 0..=random.index(3) {
            let within = if random.chance(1, 2) { 13 } else { bytes.len() };
            let at = random.index(within);
            bytes[at] = random.next_u64() as u8;
        }
        if let Ok(filters) = Filters::decode(&bytes) {
            for hash in 0..20_u64 {
                let _ = filters.may_contain(hash.wrapping_mul(u64::MAX / 20));
                let _ = filters.first_word(hash.wrapping_mul(u64::MAX / 20));
            }
        }
    }
}

#[test]
fn filters_of_keys_and_of_prefixes_do_not_mix() {
    for (kind, of_keys) in [(KINDS[0], true), (KINDS[0], false), (KINDS[1], true)] {
        let options = FilterOptions { kind, rate: 0.001, of_keys, prefix_bytes: 4 };
        let mut builder = FilterBuilder::default();
        let (keys, prefixes) = (hashes(0..5000), hashes(90_000..91_000));
        keys.iter().for_each(|&hash| builder.add(hash).unwrap());
        prefixes.iter().for_each(|&hash| builder.add_prefix(hash).unwrap());
        let mut bytes = Vec::new();
        assert!(builder.finish(options, 1 << 20, &mut bytes).unwrap());
        let filters = Filters::decode(&bytes).unwrap();
        assert_eq!(filters.prefix_bytes(), 4);
        let share = |of: &[u64], may: &dyn Fn(u64) -> bool| {
            of.iter().filter(|&&hash| may(hash)).count() as f64 / of.len() as f64
        };
        let (of_key, of_prefix) =
            (|hash| filters.may_contain(hash), |hash| filters.may_contain_prefix(hash));
        assert_eq!(share(&keys, &of_key), 1.0);
        assert_eq!(share(&prefixes, &of_prefix), 1.0);
        assert!(share(&keys, &of_prefix) < 0.01);
        assert_eq!(share(&prefixes, &of_key) > 0.5, !of_keys);
        for cut in 0..bytes.len() {
            assert_eq!(Filters::decode(&bytes[..cut]), Err(DecodeError::Malformed), "{cut}");
        }
        bytes[1] = 0;
        assert_eq!(Filters::decode(&bytes), Err(DecodeError::Malformed), "prefixes of no byte");
        builder.add(1).unwrap();
        assert!(!builder.finish(options, 10, &mut Vec::new()).unwrap());
    }
}

#[test]
fn hash_and_layouts_may_never_change_without_a_new_version() {
    let golden = [(FilterKind::Bloom, 0.01), (FilterKind::Ribbon, 0.01), (FilterKind::Ribbon, 0.2)];
    let found = golden.map(|(kind, rate)| {
        let bytes = encoded(kind, rate, &hashes(0..1000));
        (bytes.len(), checksum::plain(&bytes))
    });
    let hundred = encoded(FilterKind::Bloom, 0.01, &hashes(0..100));
    assert_eq!((hundred.len(), checksum::plain(&hundred)), GOLDEN_HUNDRED);
    assert_eq!(found, GOLDEN);
}

const GOLDEN_HUNDRED: (usize, u64) = (136, 14_288_730_604_242_048_877);
const GOLDEN: [(usize, u64); 3] = [
    (1288, 8_162_710_455_216_316_234),
    (988, 5_727_277_451_936_501_293),
    (364, 2_224_876_287_368_267_729),
];

/// `cargo test --release -p tidesdb-files --lib -- --ignored --nocapture what_filters_cost`
#[test]
#[ignore = "measures"]
fn what_filters_cost() {
    for count in [1000, 10_000, 100_000, 1_000_000, 10_000_000] {
        let (keys, absent) = (hashes(0..count), hashes(count..2 * count));
        for kind in KINDS {
            let mut tools = Tools::default();
            let options = FilterOptions { kind, ..FilterOptions::of_keys(0.01) };
            let (mut bytes, started) = (Vec::new(), std::time::Instant::now());
            tools.encode(&keys, options, &mut bytes).unwrap();
            let build = started.elapsed().as_nanos() as f64 / count as f64;
            let filter = Filter::decode(&bytes).unwrap().unwrap();
            let ask = |of: &[u64]| {
                let started = std::time::Instant::now();
                let through = of.iter().filter(|&&hash| filter.may_contain(hash)).count();
                (through, started.elapsed().as_nanos() as f64 / count as f64)
            };
            let ((all, present), (through, absent)) = (ask(&keys), ask(&absent));
            assert_eq!(all, keys.len());
            println!(
                "{count} keys, {kind:?}: {:.3} bits a key, {:.4} let through, {build:.0} ns to build, \
                 {present:.1} ns to ask for a key that is there, {absent:.1} for others; seed {}",
                bytes.len() as f64 * 8.0 / count as f64,
                through as f64 / count as f64,
                if kind == FilterKind::Ribbon { bytes[2] } else { 0 },
            );
        }
    }
}
