//! Savepoints against a log of operations that is played again, and what a rollback costs.

use std::collections::BTreeMap;

use tidesdb_base::limits::DIRECT_VALUE_BYTES;
use tidesdb_base::options::{DbOptions, FamilyOptions};
use tidesdb_sim::rng::SplitMix64;

use crate::Transaction;
use crate::db::{Components, Db};
use crate::handles::Family;
use crate::isolation::IsolationLevel;
use crate::iterator::{Scan, ScanOptions};

type Keys = BTreeMap<Vec<u8>, Vec<u8>>;

/// A key of one of two families, and its value; `None` for a deletion.
type Written = (usize, Vec<u8>, Option<Vec<u8>>);

/// What was written, and savepoints with how much of it there was.
#[derive(Default)]
struct Model {
    log: Vec<Written>,
    savepoints: Vec<(u64, usize)>,
}

impl Model {
    fn keys(&self, family: usize) -> Keys {
        let mut keys = Keys::new();
        for (_, key, value) in self.log.iter().filter(|(of, ..)| *of == family) {
            match value {
                Some(value) => drop(keys.insert(key.clone(), value.clone())),
                None => drop(keys.remove(key)),
            }
        }
        keys
    }

    fn set(&mut self, name: u64) {
        match self.savepoints.iter_mut().find(|(known, _)| *known == name) {
            Some((_, mark)) => *mark = self.log.len(),
            None => self.savepoints.push((name, self.log.len())),
        }
    }

    fn roll_back(&mut self, name: u64) -> bool {
        let Some(at) = self.savepoints.iter().position(|(known, _)| *known == name) else {
            return false;
        };
        self.log.truncate(self.savepoints[at].1);
        self.savepoints.truncate(at);
        let most = self.log.len();
        self.savepoints.iter_mut().for_each(|(_, mark)| *mark = (*mark).min(most));
        true
    }
}

fn walk(scan: &mut Scan) -> Keys {
    let mut keys = Keys::new();
    scan.seek_to_first().unwrap();
    while scan.valid() {
        keys.insert(scan.key().to_vec(), scan.value().unwrap().to_vec());
        scan.next().unwrap();
    }
    keys
}

fn write(own: &mut Transaction, family: &Family, (_, key, value): &Written) {
    match value {
        Some(value) => own.put(family, key, value).unwrap(),
        None => own.delete(family, key).unwrap(),
    }
}

#[test]
fn what_is_rolled_back_is_as_if_it_had_not_been_written() {
    let db = Db::open_with("/db", DbOptions::default(), Components::simulated()).unwrap();
    let families =
        ["one", "two"].map(|name| db.create_family(name, FamilyOptions::default()).unwrap());
    for seed in 0..40 {
        let mut rng = SplitMix64::new(seed);
        let mut own = db.begin(IsolationLevel::ReadCommitted).unwrap();
        let mut model = Model::default();
        // Of earlier moments, which they go on showing.
        let mut scans: Vec<(Scan, Keys)> = Vec::new();
        for step in 0..400_u32 {
            let (of, name) = (rng.index(2), rng.below(4));
            match rng.below(20) {
                0 | 1 => {
                    own.savepoint(&name.to_string()).unwrap();
                    model.set(name);
                }
                2 | 3 => {
                    let rolled_back = own.rollback_to_savepoint(&name.to_string()).is_ok();
                    assert_eq!(rolled_back, model.roll_back(name), "seed {seed}, step {step}");
                }
                4 if rng.chance(1, 3) => {
                    let released = own.release_savepoint(&name.to_string()).is_ok();
                    let before = model.savepoints.len();
                    model.savepoints.retain(|(known, _)| *known != name);
                    assert_eq!(released, model.savepoints.len() < before);
                }
                5 | 6 => {
                    let mut scan = own.scan(&families[of], ScanOptions::new()).unwrap();
                    let keys = model.keys(of);
                    assert!(walk(&mut scan) == keys, "seed {seed}, step {step}");
                    scans.push((scan, keys));
                    if scans.len() > 3 {
                        let (mut scan, keys) = scans.remove(rng.index(3));
                        assert!(walk(&mut scan) == keys, "seed {seed}, step {step}: later");
                    }
                }
                7..10 => {
                    let key = rng.below(60).to_be_bytes();
                    let found = own.get(&families[of], key).unwrap();
                    let expected = model.keys(of).get(&key[..]).cloned();
                    assert!(found == expected, "seed {seed}, step {step}");
                }
                _ => {
                    let bytes = if rng.chance(1, 200) { DIRECT_VALUE_BYTES } else { 20 };
                    let value = (!rng.chance(1, 4)).then(|| vec![step as u8; bytes]);
                    let written = (of, rng.below(60).to_be_bytes().to_vec(), value);
                    write(&mut own, &families[of], &written);
                    model.log.push(written);
                }
            }
        }
        own.rollback().unwrap();
    }
}

/// An index of all writes was made anew after each.
#[test]
fn a_rollback_leaves_what_is_indexed_before_it() {
    let db = Db::open_with("/db", DbOptions::default(), Components::simulated()).unwrap();
    let family = db.create_family("family", FamilyOptions::default()).unwrap();
    let mut own = db.begin(IsolationLevel::ReadCommitted).unwrap();
    for n in 0..1000_u64 {
        own.put(&family, n.to_be_bytes(), b"value").unwrap();
    }
    assert!(own.get(&family, 7_u64.to_be_bytes()).unwrap().is_some());
    let indexed = |own: &Transaction| own.writes.as_ref().unwrap().indexed_bytes();
    let before = indexed(&own);
    for n in 0..100_u64 {
        own.savepoint("statement").unwrap();
        own.put(&family, n.to_be_bytes(), b"other").unwrap();
        own.put(&family, (n + 2000).to_be_bytes(), b"new").unwrap();
        assert_eq!(own.get(&family, n.to_be_bytes()).unwrap().unwrap(), b"other");
        own.rollback_to_savepoint("statement").unwrap();
        assert_eq!(indexed(&own), before);
        assert_eq!(own.get(&family, n.to_be_bytes()).unwrap().unwrap(), b"value");
        assert_eq!(own.get(&family, (n + 2000).to_be_bytes()).unwrap(), None);
    }
}
