//! A scan that is refreshed against a scan that is new.

use std::sync::Arc;
use std::time::Duration;

use tidesdb_base::options::{DbOptions, FamilyOptions};
use tidesdb_sim::ManualClock;
use tidesdb_sim::rng::SplitMix64;
use tidesdb_sys::clock::Clock;

use crate::IsolationLevel;
use crate::db::{Components, Db};
use crate::handles::Family;
use crate::iterator::{Scan, ScanOptions};

const KEYS: usize = 40;

fn key(random: &mut SplitMix64) -> Vec<u8> {
    format!("{:03}", random.index(KEYS)).into_bytes()
}

/// Something that scans have to take up, or that changes what they read from.
fn change(family: &Family, clock: &ManualClock, random: &mut SplitMix64) {
    match random.below(12) {
        0..5 => family.put(key(random), random.next_u64().to_be_bytes()).unwrap(),
        5 | 6 => family.delete(key(random)).unwrap(),
        7 => {
            let (one, other) = (key(random), key(random));
            if one != other {
                family.delete_range(one.clone().min(other.clone()), one.max(other)).unwrap();
            }
        }
        8 => {
            let at = clock.unix_seconds() + random.below(4);
            family.put_expiring_at(key(random), b"soon", at).unwrap();
        }
        9 => clock.advance(Duration::from_secs(1)),
        10 => family.flush().unwrap(),
        _ => {
            if random.below(4) == 0 {
                family.compact().unwrap();
            }
        }
    }
}

fn place(scan: &Scan) -> Option<(Vec<u8>, Vec<u8>)> {
    let (key, value) = scan.key_value().unwrap();
    assert_eq!((key, value), (scan.key(), scan.value().unwrap()));
    scan.valid().then(|| (key.to_vec(), value.to_vec()))
}

/// Both go to the same place, and a few steps on or back, and show the same.
fn compare(scans: [&mut Scan; 2], random: &mut SplitMix64, what: &str) {
    let (start, to, steps) = (random.below(4), key(random), random.index(2 * KEYS));
    let walked = scans.map(|scan| {
        match start {
            0 => scan.seek(&to).unwrap(),
            1 => scan.seek_for_prev(&to).unwrap(),
            2 => scan.seek_to_first().unwrap(),
            _ => scan.seek_to_last().unwrap(),
        }
        let mut places = vec![place(scan)];
        for _ in 0..steps {
            if start % 2 == 0 {
                scan.next().unwrap()
            } else {
                scan.prev().unwrap()
            }
            places.push(place(scan));
        }
        places
    });
    assert_eq!(walked[0], walked[1], "{what}");
}

#[test]
fn a_refreshed_scan_shows_what_a_new_one_shows() {
    for seed in 0..30 {
        println!("seed {seed}");
        let mut random = SplitMix64::new(seed);
        let clock = Arc::new(ManualClock::new(1000));
        let components = Components { clock: Arc::clone(&clock) as _, ..Components::simulated() };
        let db = Db::open_with("/db", DbOptions::default(), components).unwrap();
        let options = FamilyOptions::default().l1_file_count_trigger(100).block_size(128);
        let family = db.create_family("all", options).unwrap();
        let mut bounds = ScanOptions::new();
        if random.below(2) == 0 {
            bounds = bounds.lower(&key(&mut random)).upper(&key(&mut random));
        }
        let mut refreshed = family.scan(bounds.clone()).unwrap();
        let snapshot = db.snapshot();
        let mut at_snapshot = family.scan(bounds.clone().snapshot(&snapshot)).unwrap();
        let mut transaction = db.begin(IsolationLevel::ReadUncommitted).unwrap();
        transaction.put(&family, key(&mut random), b"own").unwrap();
        let mut moving = transaction.scan(&family, bounds.clone()).unwrap();
        for step in 0..80 {
            for _ in 0..random.below(4) {
                change(&family, &clock, &mut random);
            }
            let what = format!("seed {seed}, step {step}");
            refreshed.refresh().unwrap();
            assert!(!refreshed.valid());
            let mut new = family.scan(bounds.clone()).unwrap();
            compare([&mut refreshed, &mut new], &mut random, &what);
            at_snapshot.refresh().unwrap();
            let mut new = family.scan(bounds.clone().snapshot(&snapshot)).unwrap();
            compare([&mut at_snapshot, &mut new], &mut random, &what);
            let mut new = transaction.scan(&family, bounds.clone()).unwrap();
            compare([&mut moving, &mut new], &mut random, &what);
        }
    }
}
