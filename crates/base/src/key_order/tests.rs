use std::sync::Arc;

use super::*;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

fn built_in() -> [KeyOrder; 6] {
    [
        KeyOrder::Bytewise,
        KeyOrder::Reverse,
        KeyOrder::Lexicographic,
        KeyOrder::Uint64,
        KeyOrder::Int64,
        KeyOrder::CaseInsensitive,
    ]
}

/// Keys that are alike: few different bytes, those that are escaped among them, often of eight.
fn key() -> impl Strategy<Value = Vec<u8>> {
    let byte = || select(vec![0u8, 1, 2, b'A', b'a', b'B', b'z', b'Z', 0x7F, 0x80, 0xFE, 0xFF]);
    prop_oneof![vec(byte(), 1..10), vec(byte(), 8), vec(any::<u8>(), 1..20)]
}

proptest! {
    #[test]
    fn stored_keys_sort_as_keys_do(one in key(), other in key()) {
        for order in built_in() {
            let (a, b) = (order.stored_key(&one), order.stored_key(&other));
            prop_assert_eq!(Some(a.cmp(&b)), order.compare(&one, &other), "{}", order);
        }
    }

    #[test]
    fn the_order_is_total(one in key(), two in key(), three in key()) {
        for order in built_in() {
            let compare = |a: &Vec<u8>, b: &Vec<u8>| order.compare(a, b).unwrap();
            prop_assert_eq!(compare(&one, &two), compare(&two, &one).reverse());
            prop_assert_eq!(compare(&one, &one), Ordering::Equal);
            if compare(&one, &two).is_le() && compare(&two, &three).is_le() {
                prop_assert!(compare(&one, &three).is_le(), "{}", order);
            }
        }
    }

    #[test]
    fn keys_and_values_come_back_as_they_were_given(key in key(), value: Vec<u8>) {
        let mut back = Vec::new();
        for order in built_in() {
            let stored = order.stored_key(&key);
            let stored_value = order.stored_value(&key, &value).unwrap();
            prop_assert!(!stored.is_empty());
            order.put_key(&stored, &stored_value, &mut back);
            prop_assert_eq!(&back, &key, "{}", order);
            prop_assert_eq!(order.value(&stored_value), &value[..], "{}", order);
        }
    }

    #[test]
    fn stored_prefixes_tell_who_has_the_prefix(key in key(), prefix in key()) {
        let folded = |bytes: &[u8]| bytes.to_ascii_lowercase();
        for order in built_in() {
            let Ok(stored) = order.stored_prefix(&prefix) else { continue };
            let has = match order {
                KeyOrder::CaseInsensitive => folded(&key).starts_with(&folded(&prefix)),
                KeyOrder::Lexicographic if prefix.contains(&0) => {
                    c_string(&key) == c_string(&prefix)
                }
                KeyOrder::Lexicographic => c_string(&key).starts_with(&prefix),
                _ => key.starts_with(&prefix),
            };
            prop_assert_eq!(order.stored_key(&key).starts_with(&stored), has, "{}", order);
        }
    }

    #[test]
    fn anything_can_be_taken_for_a_stored_key(stored: Vec<u8>, value: Vec<u8>) {
        let mut key = Vec::new();
        for order in built_in() {
            order.put_key(&stored, &value, &mut key);
            let _ = order.value(&value);
        }
    }
}

#[test]
fn names_lead_back_to_orders() {
    let custom = KeyOrder::Custom("by length".to_owned());
    for order in built_in().into_iter().chain([custom]) {
        assert_eq!(KeyOrder::from_name(&order.to_string()), Some(order.clone()));
        assert_eq!(order.problem(), None);
    }
    assert_eq!(KeyOrder::from_name("by length"), None);
    for name in ["", " a", "a\nb", "reverse", "custom:x"] {
        assert!(KeyOrder::Custom(name.to_owned()).problem().is_some(), "{name:?}");
    }
}

#[test]
fn an_order_is_registered_once() {
    let mut orders = KeyOrders::default();
    let compare: CompareKeys = Arc::new(|one, other| one.len().cmp(&other.len()));
    orders.register("length", Arc::clone(&compare)).unwrap();
    assert!(orders.register("length", Arc::clone(&compare)).is_err());
    assert!(orders.register("int64", compare).is_err());
    assert!(orders.get("length").is_some() && orders.get("other").is_none());
    assert_eq!(orders, orders.clone());
    assert_ne!(orders, KeyOrders::default());
}
