//! Random changes of keys that transactions write, flushed and compacted at any time: whatever is
//! left of a change, it is a conflict.

use std::time::Duration;

use tidesdb_sys::clock::Clock;

use super::*;

const KEYS: usize = 12;

/// A transaction that writes a key, and whether that was changed since.
struct Writer {
    transaction: Transaction,
    key: usize,
    changed: bool,
}

fn name(key: usize) -> [u8; 2] {
    [b'k', key as u8]
}

fn note(writers: &mut [Writer], keys: std::ops::Range<usize>) {
    for writer in writers.iter_mut().filter(|writer| keys.contains(&writer.key)) {
        writer.changed = true;
    }
}

fn act(family: &Family, clock: &ManualClock, writers: &mut [Writer], random: &mut SplitMix64) {
    let key = random.index(KEYS);
    match random.below(16) {
        0..4 => family.put(name(key), "value").unwrap(),
        4 => family.put_expiring_at(name(key), "gone", 1).unwrap(),
        5 => {
            let at = clock.unix_seconds() + random.below(4);
            family.put_expiring_at(name(key), "soon", at).unwrap();
        }
        6 | 7 => family.delete(name(key)).unwrap(),
        8 | 9 => {
            let end = key + 1 + random.index(3);
            family.delete_range(name(key), name(end)).unwrap();
            return note(writers, key..end);
        }
        10 => {
            let mut batch = WriteBatch::new();
            batch.put(family, name(key), "value").unwrap();
            batch.single_delete(family, name(key)).unwrap();
            family.delete(name(key)).unwrap();
            note(writers, key..key + 1);
            family.core().write(&batch, <_>::default()).unwrap();
        }
        11 => return clock.advance(Duration::from_secs(1 + random.below(3))),
        12 | 13 => return family.flush().unwrap(),
        14 => return family.compact().unwrap(),
        _ => return assert!(family.iter().unwrap().keys().count() <= KEYS + 3),
    }
    note(writers, key..key + 1);
}

#[test]
fn a_change_of_a_written_key_is_met_whatever_is_left_of_it() {
    for seed in 0..60 {
        let mut random = SplitMix64::new(seed);
        let clock = Arc::new(ManualClock::new(1000));
        let components = Components { clock: Arc::clone(&clock) as _, ..Components::simulated() };
        let db = Db::open_with("/db", DbOptions::default(), components).unwrap();
        let triggers = 2 + random.index(5);
        let options = FamilyOptions::default().l1_file_count_trigger(triggers).block_size(128);
        let family = db.create_family("all", options).unwrap();
        let mut writers = Vec::new();
        for step in 0..150 {
            act(&family, &clock, &mut writers, &mut random);
            if writers.len() < 4 && random.chance(1, 4) {
                let levels = [IsolationLevel::Snapshot, IsolationLevel::Serializable];
                let mut transaction = db.begin(levels[random.index(2)]).unwrap();
                let key = random.index(KEYS);
                if random.chance(1, 3) {
                    transaction.get(&family, b"unrelated").unwrap();
                }
                transaction.put(&family, name(key), "mine").unwrap();
                writers.push(Writer { transaction, key, changed: false });
            }
            if !writers.is_empty() && random.chance(1, 6) {
                let mut writer = writers.swap_remove(random.index(writers.len()));
                let committed = writer.transaction.commit();
                let what = format!("seed {seed}, step {step}, key {}: {committed:?}", writer.key);
                assert_eq!(committed.is_err(), writer.changed, "{what}");
                if committed.is_ok() {
                    note(&mut writers, writer.key..writer.key + 1);
                }
            }
        }
    }
}
