use super::*;

fn hashes(range: std::ops::Range<u64>) -> Vec<u64> {
    range.map(|n| key_hash(&n.to_be_bytes())).collect()
}

#[test]
fn every_key_put_in_is_let_through() {
    for count in [0, 1, 2, 63, 1000, 20_000] {
        let present = hashes(0..count);
        let filter = Filter::build(&present, 0.01);
        assert!(present.iter().all(|&hash| filter.may_contain(hash)), "{count}");
    }
}

#[test]
fn false_positives_stay_near_the_wanted_rate() {
    for (rate, limit) in [(0.1, 0.12), (0.01, 0.012), (0.001, 0.0013)] {
        let filter = Filter::build(&hashes(0..50_000), rate);
        let passed =
            hashes(1_000_000..1_400_000).iter().filter(|&&h| filter.may_contain(h)).count();
        let found = passed as f64 / 400_000.0;
        assert!(found <= limit && found >= rate / 3.0, "wanted {rate}, found {found}");
    }
    // One per cent may not cost much more than the ten bits of the usual rule.
    assert!(Shape::for_rate(0.01).bits_per_key < 10.5, "{:?}", Shape::for_rate(0.01));
}

#[test]
fn the_persisted_form_round_trips_and_damaged_headers_are_refused() {
    let filter = Filter::build(&hashes(0..500), 0.01);
    let mut bytes = Vec::new();
    filter.encode(&mut bytes);
    assert_eq!(Filter::decode(&bytes), Ok(Some(filter)));
    for cut in 0..bytes.len() {
        assert_eq!(Filter::decode(&bytes[..cut]), Err(Malformed), "{cut}");
    }
    for (at, value) in [(1, 0), (1, 17), (2, 1), (4, bytes[4] ^ 1), (7, 0xFF)] {
        let mut bad = bytes.clone();
        bad[at] = value;
        assert_eq!(Filter::decode(&bad), Err(Malformed), "{at}");
    }
    bytes[0] = VERSION + 1;
    assert_eq!(Filter::decode(&bytes), Ok(None));
}

#[test]
fn the_hash_and_the_layout_may_never_change_without_a_new_version() {
    let filter = Filter::build(&hashes(0..100), 0.01);
    let mut bytes = Vec::new();
    filter.encode(&mut bytes);
    assert_eq!((bytes.len(), checksum::plain(&bytes)), GOLDEN);
}

const GOLDEN: (usize, u64) = (136, 14_288_730_604_242_048_877);
