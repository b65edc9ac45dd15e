//! Transactions of many threads at once.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use super::common::{Numbers, Place, is_conflict, place};
use tidesdb::IsolationLevel::{RepeatableRead, Serializable, Snapshot};
use tidesdb::{Db, Family, IsolationLevel, ScanOptions, Transaction};

const THREADS: u64 = 8;

fn number(transaction: &Transaction, place: &Place, key: &[u8]) -> u64 {
    let value = transaction.get(&place.family, key).unwrap();
    value.map_or(0, |value| u64::from_be_bytes(value.try_into().unwrap()))
}

fn counters(level: IsolationLevel) {
    let place = place();
    let seed = Numbers::seeded().next();
    let committed: Vec<AtomicU64> = (0..4).map(|_| AtomicU64::new(0)).collect();
    let conflicts = AtomicU64::new(0);
    for counter in 0..4u8 {
        place.family.put(&[counter], &0u64.to_be_bytes()).unwrap();
    }
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (place, committed, conflicts) = (&place, &committed, &conflicts);
            scope.spawn(move || {
                let mut numbers = Numbers::from(seed ^ thread);
                let mut transaction = place.db.begin(level).unwrap();
                for round in 0..400 {
                    let counter = numbers.below(4) as u8;
                    let before = number(&transaction, place, &[counter]);
                    transaction
                        .put(&place.family, &[counter], &(before + 1).to_be_bytes())
                        .unwrap();
                    if is_conflict(transaction.commit()) {
                        conflicts.fetch_add(1, Ordering::Relaxed);
                        transaction.rollback().unwrap();
                    } else {
                        committed[usize::from(counter)].fetch_add(1, Ordering::Relaxed);
                    }
                    transaction.reset(level).unwrap();
                    if thread == 0 && round % 100 == 50 {
                        place.family.flush().unwrap();
                    }
                }
            });
        }
    });
    for (counter, committed) in committed.iter().enumerate() {
        let value = place.family.get(&[counter as u8]).unwrap().unwrap();
        let value = u64::from_be_bytes(value.try_into().unwrap());
        assert_eq!(value, committed.load(Ordering::Relaxed), "{level:?}, counter {counter}");
    }
    let total: u64 = committed.iter().map(|c| c.load(Ordering::Relaxed)).sum();
    assert_eq!(total + conflicts.load(Ordering::Relaxed), THREADS * 400);
}

#[test]
fn counters_hold_what_was_committed() {
    for level in [RepeatableRead, Snapshot, Serializable] {
        counters(level);
    }
}

#[test]
fn disjoint_keys_never_conflict() {
    for level in [RepeatableRead, Snapshot, Serializable] {
        let place = place();
        thread::scope(|scope| {
            for thread in 0..THREADS {
                let place = &place;
                scope.spawn(move || {
                    let mut transaction = place.db.begin(level).unwrap();
                    for round in 0..300u64 {
                        for n in 0..3 {
                            let key = [thread.to_be_bytes(), (round % 50 + n).to_be_bytes()];
                            let before = number(&transaction, place, &key.concat());
                            let after = (before + 1).to_be_bytes();
                            transaction.put(&place.family, &key.concat(), &after).unwrap();
                        }
                        transaction.commit().unwrap();
                        transaction.reset(level).unwrap();
                    }
                });
            }
        });
    }
}

/// Of each pair at least one must be there; everyone takes one away only if both are there.
#[test]
fn write_skew_never_breaks_the_invariant_when_serializable() {
    let place = place();
    let seed = Numbers::seeded().next();
    const PAIRS: u64 = 3;
    let on = 1u64.to_be_bytes();
    for key in 0..2 * PAIRS as u8 {
        place.family.put(&[key], &on).unwrap();
    }
    let removed = AtomicU64::new(0);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (place, removed) = (&place, &removed);
            scope.spawn(move || {
                let mut numbers = Numbers::from(seed ^ thread);
                for _ in 0..400 {
                    let mut transaction = place.db.begin(Serializable).unwrap();
                    let pair = 2 * numbers.below(PAIRS) as u8;
                    let present: Vec<u8> = if numbers.below(2) == 0 {
                        let options = ScanOptions::new().lower(&[pair]).upper(&[pair + 2]);
                        let scan = transaction.scan(&place.family, options).unwrap();
                        scan.entries().map(|entry| entry.unwrap().0[0]).collect()
                    } else {
                        let there = |key: &u8| number(&transaction, place, &[*key]) == 1;
                        [pair, pair + 1].into_iter().filter(there).collect()
                    };
                    assert!(!present.is_empty(), "both were taken away");
                    if let [first, second] = present[..] {
                        let key = if numbers.below(2) == 0 { first } else { second };
                        transaction.delete(&place.family, &[key]).unwrap();
                        if !is_conflict(transaction.commit()) {
                            removed.fetch_add(1, Ordering::Relaxed);
                        }
                    } else {
                        for key in [pair, pair + 1] {
                            transaction.put(&place.family, &[key], &on).unwrap();
                        }
                        is_conflict(transaction.commit());
                    }
                }
            });
        }
    });
    assert!(removed.load(Ordering::Relaxed) > 0);
}

thread_local! {
    /// Uses the database when its thread ends.
    static AT_THE_END: RefCell<Option<UsesWhenDropped>> = const { RefCell::new(None) };
}

struct UsesWhenDropped(Db, Family, Arc<Mutex<Vec<String>>>);

impl Drop for UsesWhenDropped {
    fn drop(&mut self) {
        let Self(db, family, seen) = self;
        let see = |what: String| seen.lock().unwrap().push(what);
        family.put(b"late", b"1").unwrap();
        for key in ["inline", "in a table", "in a value log", "late"] {
            let value = family.get(key.as_bytes()).unwrap().unwrap();
            see(format!("{key}: {}", value.len()));
        }
        let mut transaction = db.begin(tidesdb::IsolationLevel::Serializable).unwrap();
        assert_eq!(transaction.scan(family, ScanOptions::new()).unwrap().entries().count(), 4);
        transaction.put(family, b"large", &vec![1; tidesdb::limits::DIRECT_VALUE_BYTES]).unwrap();
        transaction.commit().unwrap();
        see("done".to_owned());
    }
}

/// The buffers that the engine keeps for a thread are gone before the user's own thread-local
/// values are, if these were used first; a call then panicked, and so aborted the process.
#[test]
fn destructors_of_thread_locals_may_use_the_database() {
    let place = place();
    place.family.put(b"in a table", &[1; 20]).unwrap();
    place.family.put(b"in a value log", &[1; 2000]).unwrap();
    place.family.flush().unwrap();
    place.family.put(b"inline", &[1; 10]).unwrap();
    let seen = Arc::default();
    let uses = UsesWhenDropped(place.db.clone(), place.family.clone(), Arc::clone(&seen));
    let family = place.family.clone();
    let thread = thread::spawn(move || {
        AT_THE_END.with_borrow_mut(|place| *place = Some(uses));
        // From here on the thread has buffers.
        family.put(b"inline", &[1; 10]).unwrap();
        for key in ["inline", "in a table", "in a value log"] {
            assert!(family.get(key.as_bytes()).unwrap().is_some());
        }
        assert_eq!(family.scan(ScanOptions::new()).unwrap().entries().count(), 3);
    });
    thread.join().unwrap();
    let wanted = ["inline: 10", "in a table: 20", "in a value log: 2000", "late: 1", "done"];
    assert_eq!(*seen.lock().unwrap(), wanted);
}
