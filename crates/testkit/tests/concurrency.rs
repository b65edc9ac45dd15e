//! Real threads on a real directory: writers, point readers and scanners at once with flushes,
//! merges, and families that come and go. What must hold at every moment is checked by readers
//! while it happens, and the whole content at the end.
//!
//! Volumes are counts of operations, not times, and grow with `TIDESDB_TEST_SCALE`.

#![expect(clippy::unwrap_used, clippy::panic, reason = "test helpers fail by panicking")]

mod kinds;
mod ring;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use crate::common_support::seeds::{scaled, seed};
use crate::common_support::small::{small_db, small_family};
use tidesdb::{Db, ErrorKind, Family, FamilyOptions, ScanOptions, Snapshot, WriteBatch};
use tidesdb_sim::rng::{SplitMix64, mix64};

/// Opens the database in `path` with small settings.
fn open(path: &Path) -> Db {
    Db::open(path, small_db()).unwrap()
}

/// Settings under which a few thousand commits flush and merge dozens of times.
fn busy_family() -> FamilyOptions {
    small_family().write_buffer_size(16 << 10)
}

/// A number in front, and as much padding as `random` says; some values go to a value log.
fn padded(number: u64, random: &mut SplitMix64) -> Vec<u8> {
    let length = if random.chance(1, 20) { 400 } else { random.index(60) };
    let mut value = number.to_le_bytes().to_vec();
    value.resize(8 + length, number as u8);
    value
}

/// The number in front; the padding must be what belongs to it.
#[track_caller]
fn number_of(value: &[u8]) -> u64 {
    let number = u64::from_le_bytes(*value.first_chunk().unwrap());
    assert!(value[8..].iter().all(|&byte| byte == number as u8), "a mixed value: {value:?}");
    number
}

fn node(number: u64) -> Vec<u8> {
    format!("node/{number:05}").into_bytes()
}

/// Ends the helpers' loops when the last of the workers is done, also when one panics.
struct Finish<'a>(&'a AtomicU64);

impl Drop for Finish<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Flushes, merges, and makes and drops families, until no worker is left.
fn disturb(db: &Db, families: &[&Family], workers: &AtomicU64, seed: u64) {
    let mut random = SplitMix64::new(seed);
    while workers.load(Ordering::SeqCst) > 0 {
        let family = families[random.index(families.len())];
        match random.below(8) {
            0 => db.flush().unwrap(),
            1 => family.compact().unwrap(),
            2 => db.compact().unwrap(),
            3 => {
                let passing = db.open_family("passing", busy_family()).unwrap();
                passing.put(b"k", &padded(7, &mut random)).unwrap();
                passing.flush().unwrap();
                db.drop_family("passing").unwrap();
            }
            4 => {
                let problems = db.verify().unwrap().problems;
                assert!(problems.is_empty(), "{problems:?}");
            }
            _ => family.flush().unwrap(),
        }
    }
}

fn account(number: usize) -> Vec<u8> {
    format!("account/{number:04}").into_bytes()
}

/// Balances by a scan, forward or backward.
fn balances(family: &Family, snapshot: Option<&Snapshot>, forward: bool) -> BTreeMap<Vec<u8>, u64> {
    let mut options = ScanOptions::new().prefix(b"account/");
    if let Some(snapshot) = snapshot {
        options = options.snapshot(snapshot);
    }
    let mut scan = family.scan(options).unwrap();
    if forward { scan.seek_to_first() } else { scan.seek_to_last() }.unwrap();
    let mut found = BTreeMap::new();
    while scan.valid() {
        let before = found.insert(scan.key().to_vec(), number_of(scan.value().unwrap()));
        assert_eq!(before, None, "a key twice in one scan");
        if forward { scan.next() } else { scan.prev() }.unwrap();
    }
    found
}

const ACCOUNTS: usize = 60;
const BALANCE: u64 = 1_000;

/// Moves money between two accounts in one batch over both families, and reads it back.
fn transfer(db: &Db, families: &[Family; 2], accounts: &[Mutex<u64>], random: &mut SplitMix64) {
    let (a, b) = (random.index(ACCOUNTS), random.index(ACCOUNTS));
    if a == b {
        return;
    }
    let mut first = accounts[a.min(b)].lock().unwrap();
    let mut second = accounts[a.max(b)].lock().unwrap();
    let amount = random.below(*first + 1);
    let mut batch = WriteBatch::new();
    for family in families {
        batch.put(family, &account(a.min(b)), &padded(*first - amount, random)).unwrap();
        batch.put(family, &account(a.max(b)), &padded(*second + amount, random)).unwrap();
    }
    db.write(&batch).unwrap();
    *first -= amount;
    *second += amount;
    // No other thread may change these two now: what was written is what is read.
    let family = &families[random.index(2)];
    assert_eq!(family.get_with(&account(a.min(b)), number_of).unwrap(), Some(*first));
    assert_eq!(family.get_with(&account(a.max(b)), number_of).unwrap(), Some(*second));
}

/// One look at the bank, which must add up.
fn audit(db: &Db, families: &[Family; 2], random: &mut SplitMix64) {
    let total = ACCOUNTS as u64 * BALANCE;
    let forward = random.chance(1, 2);
    if random.chance(1, 3) {
        // A scan of its own is a snapshot too.
        let sum: u64 = balances(&families[random.index(2)], None, forward).values().sum();
        assert_eq!(sum, total, "a scan without a snapshot");
        return;
    }
    let snapshot = db.snapshot();
    let scanned = balances(&families[0], Some(&snapshot), forward);
    assert_eq!(scanned.values().sum::<u64>(), total, "a scan of a snapshot");
    assert_eq!(scanned, balances(&families[1], Some(&snapshot), !forward), "families differ");
    for number in 0..ACCOUNTS {
        let family = &families[number % 2];
        let value = family.get_at(&snapshot, &account(number)).unwrap().unwrap();
        assert_eq!(number_of(&value), scanned[&account(number)], "a get at the snapshot");
    }
}

#[test]
fn money_is_neither_made_nor_lost() {
    let seed = seed("bank");
    let directory = tempfile::tempdir().unwrap();
    let db = open(directory.path());
    let families = ["bank", "mirror"].map(|name| db.create_family(name, busy_family()).unwrap());
    let accounts: Vec<Mutex<u64>> = (0..ACCOUNTS).map(|_| Mutex::new(BALANCE)).collect();
    let mut batch = WriteBatch::new();
    for (family, number) in families.iter().flat_map(|f| (0..ACCOUNTS).map(move |n| (f, n))) {
        batch.put(family, &account(number), &BALANCE.to_le_bytes()).unwrap();
    }
    db.write(&batch).unwrap();
    let workers = AtomicU64::new(8);
    thread::scope(|scope| {
        let (db, families, accounts, workers) = (&db, &families, &accounts, &workers);
        for worker in 0..8 {
            scope.spawn(move || {
                let _finish = Finish(workers);
                let mut random = SplitMix64::new(mix64(seed ^ worker));
                if worker < 4 {
                    (0..scaled(6_000)).for_each(|_| transfer(db, families, accounts, &mut random));
                } else {
                    (0..scaled(700)).for_each(|_| audit(db, families, &mut random));
                }
            });
        }
        scope.spawn(move || disturb(db, &[&families[0], &families[1]], workers, mix64(seed)));
    });
    let expected = accounts.iter().enumerate().map(|(n, b)| (account(n), *b.lock().unwrap()));
    let expected: BTreeMap<_, _> = expected.collect();
    assert_eq!(balances(&families[0], None, true), expected);
    assert!(db.verify().unwrap().problems.is_empty());
    drop((families, batch, db));
    let db = open(directory.path());
    assert_eq!(balances(&db.family("mirror").unwrap(), None, false), expected);
}

/// Keys of one batch: many, so that applying it takes long enough for others to look.
const BATCH_KEYS: u64 = 120;

fn batch_key(writer: u64, place: u64) -> Vec<u8> {
    format!("{:03}/{writer}", place * 7 % BATCH_KEYS).into_bytes()
}

/// Commits batches that set all keys of this writer to one number, and reads them back.
fn write_whole_batches(db: &Db, family: &Family, writer: u64) {
    let mut batch = WriteBatch::new();
    for number in 1..=scaled(600) {
        batch.clear();
        for place in 0..BATCH_KEYS {
            batch.put(family, &batch_key(writer, place), &number.to_le_bytes()).unwrap();
        }
        db.write(&batch).unwrap();
        for place in 0..BATCH_KEYS {
            let found = family.get_with(&batch_key(writer, place), number_of).unwrap();
            assert_eq!(found, Some(number), "writer {writer}, key {place} of its own batch");
        }
    }
}

#[test]
fn a_batch_is_seen_whole_or_not_at_all_while_memtables_change() {
    let seed = seed("whole_batches");
    let directory = tempfile::tempdir().unwrap();
    let db = open(directory.path());
    // Less than two batches fill a memtable: commits and freezing meet all the time.
    let options = busy_family().write_buffer_size(8 << 10);
    let family = db.create_family("batches", options).unwrap();
    let workers = AtomicU64::new(3);
    thread::scope(|scope| {
        let (db, family, workers) = (&db, &family, &workers);
        for writer in 0..3 {
            scope.spawn(move || {
                let _finish = Finish(workers);
                write_whole_batches(db, family, writer);
            });
        }
        for reader in 0..2 {
            scope.spawn(move || {
                let mut random = SplitMix64::new(mix64(seed ^ reader));
                while workers.load(Ordering::SeqCst) > 0 {
                    let (snapshot, writer) = (db.snapshot(), random.below(3));
                    let places = [0, random.below(BATCH_KEYS), BATCH_KEYS - 1];
                    let found = places.map(|place| {
                        let value = family.get_at(&snapshot, &batch_key(writer, place)).unwrap();
                        value.map(|value| number_of(&value))
                    });
                    assert!(found.iter().all(|n| *n == found[0]), "{places:?}: {found:?}");
                }
            });
        }
    });
    db.compact().unwrap();
    let last = scaled(600);
    let entries = family.scan(ScanOptions::new()).unwrap().entries();
    let found: Vec<u64> = entries.map(|entry| number_of(&entry.unwrap().1)).collect();
    assert_eq!(found, vec![last; 3 * BATCH_KEYS as usize]);
}

#[test]
fn counters_only_grow_and_writers_read_what_they_wrote() {
    let seed = seed("counters");
    let directory = tempfile::tempdir().unwrap();
    let db = open(directory.path());
    let family = db.create_family("counters", busy_family()).unwrap();
    let key = |counter: u64| format!("counter/{counter}").into_bytes();
    let workers = AtomicU64::new(8);
    let written: [AtomicU64; 4] = Default::default();
    thread::scope(|scope| {
        let (db, family, written, workers) = (&db, &family, &written, &workers);
        for worker in 0..4 {
            scope.spawn(move || {
                let _finish = Finish(workers);
                let mut random = SplitMix64::new(mix64(seed ^ worker));
                for number in 1..=scaled(8_000) {
                    family.put(&key(worker), &padded(number, &mut random)).unwrap();
                    written[worker as usize].store(number, Ordering::SeqCst);
                    let found = family.get_with(&key(worker), number_of).unwrap();
                    assert_eq!(found, Some(number), "its own write");
                }
            });
            scope.spawn(move || {
                let _finish = Finish(workers);
                let mut last = [0; 4];
                let last_write = scaled(8_000);
                for round in 0.. {
                    for (counter, seen) in last.iter_mut().enumerate() {
                        let least = written[counter].load(Ordering::SeqCst).max(*seen);
                        let key = key(counter as u64);
                        let found = if round % 16 == 0 {
                            let mut scan = family.scan(ScanOptions::new()).unwrap();
                            scan.seek(&key).unwrap();
                            let here = scan.valid() && scan.key() == key;
                            here.then(|| number_of(scan.value().unwrap()))
                        } else {
                            family.get_with(&key, number_of).unwrap()
                        };
                        *seen = found.unwrap_or(0);
                        assert!(*seen >= least, "counter {counter} fell from {least} to {seen}");
                    }
                    if last.iter().all(|&number| number == last_write) {
                        break;
                    }
                }
            });
        }
        scope.spawn(move || disturb(db, &[family], workers, mix64(seed)));
    });
}

#[test]
fn a_long_scan_sees_its_moment_while_everything_changes() {
    let seed = seed("long_scan");
    let directory = tempfile::tempdir().unwrap();
    let db = open(directory.path());
    let family = db.create_family("data", busy_family()).unwrap();
    let mut random = SplitMix64::new(seed);
    for round in 0..scaled(4) {
        let mut model = BTreeMap::new();
        for number in 0..700 {
            let (key, value) = (node(number), padded(round * 1_000 + number, &mut random));
            if number >= 600 || random.chance(1, 5) {
                family.delete(&key).unwrap();
            } else {
                family.put(&key, &value).unwrap();
                model.insert(key, value);
            }
        }
        let snapshot = db.snapshot();
        let mut scan = family.scan(ScanOptions::new()).unwrap();
        let workers = AtomicU64::new(2);
        thread::scope(|scope| {
            let (db, family, workers) = (&db, &family, &workers);
            for worker in 0..2 {
                let mut random = SplitMix64::new(mix64(seed ^ worker ^ round));
                scope.spawn(move || {
                    let _finish = Finish(workers);
                    for _ in 0..scaled(4_000) {
                        let key = node(random.below(700));
                        if random.chance(1, 3) {
                            family.delete(&key).unwrap();
                        } else {
                            family.put(&key, &padded(9_999, &mut random)).unwrap();
                        }
                    }
                });
            }
            scope.spawn(move || disturb(db, &[family], workers, mix64(seed)));
            // Again and again while the others write, to and fro.
            while workers.load(Ordering::SeqCst) > 0 {
                scan.seek_to_first().unwrap();
                for (place, (key, value)) in model.iter().enumerate() {
                    assert_eq!(scan.key(), key.as_slice());
                    assert_eq!(scan.value().unwrap(), value.as_slice());
                    if place % 97 == 96 {
                        scan.prev().unwrap();
                        scan.next().unwrap();
                    }
                    scan.next().unwrap();
                }
                assert!(!scan.valid());
            }
        });
        let options = ScanOptions::new().snapshot(&snapshot);
        let entries = family.scan(options).unwrap().entries();
        assert!(entries.map(|entry| entry.unwrap()).eq(model), "the snapshot afterwards");
    }
}

#[test]
fn a_family_dropped_under_its_users_fails_cleanly_and_comes_back_empty() {
    let seed = seed("drop_family");
    let directory = tempfile::tempdir().unwrap();
    let db = open(directory.path());
    let steady = db.create_family("steady", busy_family()).unwrap();
    let rounds = scaled(25);
    for round in 0..rounds {
        let fleeting = db.create_family("fleeting", busy_family()).unwrap();
        assert_eq!(fleeting.scan(ScanOptions::new()).unwrap().entries().count(), 0);
        let dropped = AtomicBool::new(false);
        thread::scope(|scope| {
            let (db, steady, fleeting, dropped) = (&db, &steady, &fleeting, &dropped);
            for worker in 0..4 {
                scope.spawn(move || {
                    let mut random = SplitMix64::new(mix64(seed ^ round ^ (worker << 32)));
                    for number in 0..400 {
                        let was_dropped = dropped.load(Ordering::SeqCst);
                        let value = padded(number, &mut random);
                        let mut batch = WriteBatch::new();
                        batch.put(fleeting, &node(number), &value).unwrap();
                        batch.put(steady, &node(worker), &value).unwrap();
                        let result = match random.below(3) {
                            0 => fleeting.get(&node(number)).map(drop),
                            1 => fleeting.flush(),
                            _ => db.write(&batch),
                        };
                        match result {
                            Ok(()) => assert!(!was_dropped, "a dropped family still answers"),
                            Err(error) => assert_eq!(error.kind(), ErrorKind::Closed, "{error}"),
                        }
                    }
                });
            }
            let mut random = SplitMix64::new(seed ^ round);
            for _ in 0..random.below(40) {
                fleeting.put(b"pace", &padded(1, &mut random)).unwrap();
            }
            db.drop_family("fleeting").unwrap();
            dropped.store(true, Ordering::SeqCst);
        });
    }
    steady.flush().unwrap();
    assert!(db.verify().unwrap().problems.is_empty());
    assert_eq!(db.family_names(), ["steady"]);
}

#[test]
fn closing_under_load_loses_nothing_that_was_acknowledged() {
    let seed = seed("close");
    let directory = tempfile::tempdir().unwrap();
    for round in 0..scaled(12) {
        let db = open(directory.path());
        let family = db.open_family("data", busy_family()).unwrap();
        let mut random = SplitMix64::new(mix64(seed ^ round));
        let before_close = random.below(3_000);
        let acknowledged: [AtomicU64; 4] = Default::default();
        thread::scope(|scope| {
            for (worker, acknowledged) in acknowledged.iter().enumerate() {
                let (family, mut random) = (family.clone(), SplitMix64::new(seed ^ worker as u64));
                let key = node(round * 4 + worker as u64);
                scope.spawn(move || {
                    for number in 1.. {
                        match family.put(&key, &padded(number, &mut random)) {
                            Ok(()) => acknowledged.store(number, Ordering::SeqCst),
                            Err(error) => {
                                assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
                                return;
                            }
                        }
                    }
                });
            }
            while acknowledged.iter().map(|a| a.load(Ordering::SeqCst)).sum::<u64>() < before_close
            {
                thread::yield_now();
            }
            db.close().unwrap();
        });
        drop(family);
        let db = open(directory.path());
        let family = db.family("data").unwrap();
        for (worker, acknowledged) in acknowledged.iter().enumerate() {
            let key = node(round * 4 + worker as u64);
            let found = family.get_with(&key, number_of).unwrap().unwrap_or(0);
            let promised = acknowledged.load(Ordering::SeqCst);
            assert!(found == promised || found == promised + 1, "{found}, promised {promised}");
        }
        assert!(db.verify().unwrap().problems.is_empty());
    }
}
