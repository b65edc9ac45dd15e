//! The map of handles, taken alone: the library's own tests are C programs, which see no copies.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

#[expect(unreachable_pub, reason = "the library has it public in a private module")]
#[path = "../src/handle_map.rs"]
mod handle_map;

use handle_map::HandleMap;

/// A handle that counts how often handles are copied.
struct Counted(usize, Arc<AtomicUsize>);

impl Clone for Counted {
    fn clone(&self) -> Self {
        self.1.fetch_add(1, Ordering::Relaxed);
        Self(self.0, Arc::clone(&self.1))
    }
}

fn name(number: usize) -> Arc<str> {
    format!("family {number}").into()
}

#[test]
fn ten_thousand_names_cost_as_much_each_as_few() {
    const NAMES: usize = 10_000;
    let (map, copies) = (HandleMap::default(), Arc::new(AtomicUsize::new(0)));
    let copies_since = |before: usize| copies.load(Ordering::Relaxed) - before;
    for number in 0..NAMES {
        assert!(map.insert(name(number), Counted(number, Arc::clone(&copies))).is_none());
    }
    // Half a handle in the bucket of each, and all handles once for each doubling: four in all.
    let made = copies_since(0);
    assert!(made < 5 * NAMES, "{made} handles were copied to make {NAMES}");
    for number in 0..NAMES {
        assert_eq!(map.get(&name(number)).map(|found| found.0), Some(number));
    }
    let looked_up = copies_since(made);
    assert_eq!(looked_up, NAMES, "a lookup copies the handle that it returns");
    for number in 0..NAMES {
        assert_eq!(map.remove(&name(number)).map(|removed| removed.0), Some(number));
    }
    let removed = copies_since(made + looked_up);
    assert!(removed < 3 * NAMES, "{removed} handles were copied to remove {NAMES}");
    assert!(map.handles().is_empty());
}

#[test]
fn it_is_a_map() {
    let (map, mut model) = (HandleMap::default(), HashMap::new());
    for step in 0..3_000_usize {
        // Names come, change and go in an order that has no meaning.
        let number = step * 7_919 % 211;
        if step % 3 == 2 {
            assert_eq!(map.remove(&name(number)), model.remove(&number));
        } else {
            assert_eq!(map.insert(name(number), step), model.insert(number, step));
        }
        assert_eq!(map.get(&name(number)), model.get(&number).copied());
    }
    let (mut handles, mut expected) = (map.handles(), model.into_values().collect::<Vec<_>>());
    handles.sort_unstable();
    expected.sort_unstable();
    assert_eq!(handles, expected);
}

/// A name that is there all the time is found, whatever else comes and goes, and the table grows.
#[test]
fn a_lookup_beside_changes_finds_what_is_there() {
    let (map, ended) = (HandleMap::default(), AtomicBool::new(false));
    map.insert("there".into(), usize::MAX);
    std::thread::scope(|scope| {
        let lookups = scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                assert_eq!(map.get("there"), Some(usize::MAX));
            }
        });
        for number in 0..20_000 {
            map.insert(name(number), number);
            if number % 2 == 0 {
                map.remove(&name(number / 2));
            }
        }
        ended.store(true, Ordering::Relaxed);
        lookups.join().unwrap();
    });
}
