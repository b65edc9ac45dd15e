//! Commits that are called off with their place in the log taken, and crashes around them.

mod called_off_values;
mod changes_are_met;
mod listeners;
mod many_writes;
mod own_writes;
mod savepoints;
mod second_look;
mod spare;
pub(super) mod steps;
mod waiting;
mod ways_to_read;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tidesdb_base::error::{Error, ErrorKind};
use tidesdb_base::options::{DbOptions, FamilyOptions, SyncMode};
use tidesdb_lockfree::sync::lock;
use tidesdb_sim::rng::SplitMix64;
use tidesdb_sim::{CrashProfile, ManualClock, ManualScheduler, SimVfs};

use super::Transaction;
use crate::db::{Components, Db};
use crate::handles::Family;
use crate::isolation::IsolationLevel;
use crate::iterator::ScanOptions;
use crate::write::WriteBatch;

const FAMILIES: [&str; 3] = ["a", "b", "c"];

fn options(sync_mode: SyncMode) -> DbOptions {
    DbOptions::default().log_segment_bytes(64 << 10).sync_mode(sync_mode)
}

fn open(sim: &Arc<SimVfs>, sync_mode: SyncMode) -> (Db, Vec<Family>) {
    let components = Components {
        vfs: Arc::clone(sim) as _,
        scheduler: Arc::new(ManualScheduler::new(1)),
        clock: Arc::new(ManualClock::new(1000)),
    };
    let db = Db::open_with("/db", options(sync_mode), components).unwrap();
    let small = FamilyOptions::default().write_buffer_size(32 << 10);
    let families = FAMILIES.map(|name| db.open_family(name, small.clone()).unwrap());
    (db, families.to_vec())
}

/// Calls a commit off in its place, after waiting for all that precede it.
fn refuse(db: &Db, families: &[Family], bytes: usize) {
    let mut batch = WriteBatch::new();
    for family in families {
        batch.put(family, b"number", &vec![0xee; bytes]).unwrap();
    }
    let prepared = db.core().prepare(&batch, <_>::default()).unwrap();
    let place = prepared.take_place().unwrap();
    db.core().storage.log.wait_published(place.range().0);
    let reason = "this test";
    let conflict = Error::Conflict { family: String::new(), key: Vec::new(), reason };
    assert_eq!(prepared.call_off(place, conflict).kind(), ErrorKind::Conflict);
}

/// The number that all families hold; they must agree.
fn number(families: &[Family]) -> u64 {
    let numbers: Vec<u64> = families
        .iter()
        .map(|family| {
            let value = family.get(b"number").unwrap();
            value.map_or(0, |value| u64::from_le_bytes(value[..8].try_into().unwrap()))
        })
        .collect();
    assert!(numbers.iter().all(|number| *number == numbers[0]), "torn: {numbers:?}");
    numbers[0]
}

#[test]
fn recovery_passes_over_void_records() {
    let sim = SimVfs::new(7);
    let (db, families) = open(&sim, SyncMode::None);
    refuse(&db, &families, 10);
    for n in 1..200u64 {
        let mut transaction = db.begin(IsolationLevel::Snapshot).unwrap();
        for family in &families {
            transaction.put(family, b"number", &n.to_le_bytes()).unwrap();
        }
        transaction.commit().unwrap();
        refuse(&db, &families, (n * 37 % 3000) as usize);
        assert_eq!(number(&families), n);
    }
    refuse(&db, &families, 100_000);
    drop((db, families));
    let (_db, families) = open(&sim, SyncMode::None);
    assert_eq!(number(&families), 199);
}

/// What the disk may look like, and the least number it must hold.
type Images = Arc<Mutex<Vec<(Arc<SimVfs>, u64)>>>;

/// Takes images while commits over three families, some called off, are under way.
fn crash(seed: u64, sync_mode: SyncMode) -> usize {
    let sim = SimVfs::new(seed);
    let (db, families) = open(&sim, sync_mode);
    let images = Images::default();
    let promised = Arc::new(AtomicU64::new(0));
    let random = Mutex::new(SplitMix64::new(seed));
    let (into, least) = (Arc::clone(&images), Arc::clone(&promised));
    sim.on_mutation(Some(Arc::new(move |sim, _| {
        let mut random = lock(&random);
        if random.chance(1, 25) {
            let profile = CrashProfile::ALL[random.index(CrashProfile::ALL.len())];
            let killed = matches!(profile, CrashProfile::Everything);
            let image = sim.crash_image(profile, random.next_u64());
            let full = sync_mode == SyncMode::Full;
            let least = if killed || full { least.load(Ordering::Relaxed) } else { 0 };
            lock(&into).push((image, least));
        }
    })));
    let mut random = SplitMix64::new(seed + 1);
    let levels = [IsolationLevel::ReadCommitted, IsolationLevel::Serializable];
    for n in 1..150u64 {
        let mut transaction = db.begin(levels[random.index(2)]).unwrap();
        for family in &families {
            let filler = vec![n as u8; random.index(600)];
            transaction.put(family, b"number", &[&n.to_le_bytes()[..], &filler].concat()).unwrap();
            transaction.put(family, &n.to_le_bytes(), &filler).unwrap();
        }
        transaction.commit().unwrap();
        promised.store(n, Ordering::Relaxed);
        if random.chance(1, 2) {
            refuse(&db, &families, random.index(4000));
        }
    }
    sim.on_mutation(None);
    let images = std::mem::take(&mut *lock(&images));
    for (image, least) in &images {
        let (_db, families) = open(image, sync_mode);
        let found = number(&families);
        assert!(*least <= found, "seed {seed}: {found} was found, {least} was promised");
        for family in &families {
            let there = (1..150u64).filter(|n| family.contains(&n.to_le_bytes()).unwrap());
            assert_eq!(there.count() as u64, found, "seed {seed}: no prefix");
        }
    }
    images.len()
}

#[test]
fn after_a_crash_commits_are_there_in_all_families_or_in_none() {
    let given = std::env::var("TIDESDB_SEED").ok().and_then(|text| text.parse().ok());
    let seed = given.unwrap_or(20_261_121u64);
    println!("TIDESDB_SEED={seed}");
    let mut images = 0;
    for round in 0..6 {
        images += crash(seed + round, SyncMode::None);
        images += crash(seed + round, SyncMode::Full);
    }
    assert!(images > 100, "only {images} images");
}

#[test]
fn below_repeatable_read_no_reference_that_others_share_is_counted() {
    let sim = SimVfs::new(7);
    let (db, families) = open(&sim, SyncMode::None);
    let family = &families[0];
    let counts = || (Arc::strong_count(&family.owner), Arc::strong_count(family.state()));
    let (owner, state) = counts();
    let mut transaction = db.begin(IsolationLevel::ReadCommitted).unwrap();
    assert_eq!(transaction.get(family, b"k").unwrap(), None);
    assert_eq!(transaction.commit().unwrap(), None);
    assert_eq!(counts(), (owner, state), "a transaction that reads counts in its thread's share");
    for n in 0..10u8 {
        transaction.reset(IsolationLevel::ReadCommitted).unwrap();
        transaction.put(family, b"k", &[n]).unwrap();
        assert_eq!(counts(), (owner, state + 1), "{n}: the family is counted once and kept");
        transaction.commit().unwrap();
        assert_eq!(counts(), (owner, state + 1), "{n}");
    }
    assert_eq!(db.core().isolation.snapshots.list(), []);
    // What is not used again is let go, and all of it in the end.
    transaction.reset(IsolationLevel::ReadCommitted).unwrap();
    transaction.put(&families[1], b"k", b"v").unwrap();
    transaction.commit().unwrap();
    assert_eq!(counts(), (owner, state));
    drop(transaction);
    assert_eq!(Arc::strong_count(families[1].state()), state);
}

/// Takes images while a commit over three families of several MiB is written, between small ones.
#[test]
fn a_transaction_of_megabytes_is_there_wholly_or_not_at_all() {
    const ENTRIES: u32 = 5000;
    let given = std::env::var("TIDESDB_SEED").ok().and_then(|text| text.parse().ok());
    let seed = given.unwrap_or(20_261_121u64);
    println!("TIDESDB_SEED={seed}");
    let sim = SimVfs::new(seed);
    let (db, families) = open(&sim, SyncMode::None);
    let put_all = |transaction: &mut Transaction, byte: u8| {
        for n in 0..ENTRIES {
            let value = vec![byte; 300 + (n % 700) as usize];
            transaction.put(&families[n as usize % 3], &n.to_be_bytes(), &value).unwrap();
        }
    };
    let mut transaction = db.begin(IsolationLevel::Snapshot).unwrap();
    put_all(&mut transaction, 1);
    transaction.commit().unwrap();
    let images = Arc::new(Mutex::new(Vec::new()));
    let (into, random) = (Arc::clone(&images), Mutex::new(SplitMix64::new(seed)));
    // A commit this large changes the disk some ten thousand times.
    let one_in = Arc::new(AtomicU64::new(1500));
    let rate = Arc::clone(&one_in);
    sim.on_mutation(Some(Arc::new(move |sim, _| {
        let mut random = lock(&random);
        if random.chance(1, rate.load(Ordering::Relaxed)) {
            let profile = CrashProfile::ALL[random.index(CrashProfile::ALL.len())];
            lock(&into).push(sim.crash_image(profile, random.next_u64()));
        }
    })));
    transaction.reset(IsolationLevel::Snapshot).unwrap();
    put_all(&mut transaction, 2);
    transaction.commit().unwrap();
    one_in.store(10, Ordering::Relaxed);
    (0..200u8).for_each(|n| families[0].put(&[n], b"small").unwrap());
    sim.on_mutation(None);
    let images = std::mem::take(&mut *lock(&images));
    let mut seen = [0; 3];
    for image in &images {
        let (_db, families) = open(image, SyncMode::None);
        let read = |n: u32| {
            let value = families[n as usize % 3].get(&n.to_be_bytes()).unwrap();
            value.map_or((0, 0), |value| (value[0], value.len()))
        };
        let (first, _) = read(0);
        seen[first as usize] += 1;
        for n in 0..ENTRIES {
            let bytes = if first == 0 { 0 } else { 300 + (n % 700) as usize };
            assert_eq!(read(n), (first, bytes), "seed {seed}: torn at {n}");
        }
        let small = (0..200u8).any(|n| families[0].contains(&[n]).unwrap());
        assert!(first == 2 || !small, "seed {seed}: a later commit without the earlier one");
    }
    println!("images with nothing, the first and the second commit: {seen:?}");
    assert!(seen[1] >= 5 && seen[2] >= 5, "{seen:?}");
}

/// A reader fixed the moment of its look and loaded the views later. In between, the change that it
/// looks for was overwritten and dropped by a flush, since no snapshot lay between the two.
#[test]
fn a_change_is_met_that_is_overwritten_and_flushed_during_the_look() {
    for by_scan in [false, true] {
        let (db, families) = open(&SimVfs::new(1), SyncMode::None);
        for family in &families {
            family.put(b"key", b"old").unwrap();
            family.put(b"other", b"old").unwrap();
        }
        let mut reader = db.begin(IsolationLevel::RepeatableRead).unwrap();
        for family in &families[..2] {
            if by_scan {
                let scan = reader.scan(family, ScanOptions::new()).unwrap();
                assert_eq!(scan.entries().count(), 2);
            } else {
                assert!(reader.get(family, b"key").unwrap().is_some());
            }
        }
        families[1].put(b"key", b"changed").unwrap();
        let (second, mut looks) = (families[1].clone(), 0);
        steps::put(&steps::BEFORE_A_VIEW, move || {
            looks += 1;
            if looks == 2 {
                second.put(b"key", b"changed again").unwrap();
                second.flush().unwrap();
            }
        });
        let committed = reader.commit();
        steps::remove(&steps::BEFORE_A_VIEW);
        let error = committed.expect_err("the change was missed");
        assert!(error.to_string().contains("key 'key' of family 'b'"), "{error}");
    }
}

/// As above, with deletions in a range. The second look would have met the newer deletions, but a
/// scan had found the keys dead in between, and where nothing lived no look is taken.
#[test]
fn a_deletion_is_met_that_is_repeated_and_flushed_during_the_look() {
    let (db, families) = open(&SimVfs::new(1), SyncMode::None);
    let [a, c] = [0, 2].map(|n| families[n].clone());
    // One memtable takes both deletions: from two, each would go to a table of its own.
    let b = db.create_family("large", FamilyOptions::default()).unwrap();
    let mut batch = WriteBatch::new();
    (0..200_u8).for_each(|n| batch.put(&b, [n], b"old").unwrap());
    db.write(&batch).unwrap();
    // Of dead keys in a row a scan does not remember the first ones: these are no change.
    let mut batch = WriteBatch::new();
    (10..20_u8).for_each(|n| batch.delete(&b, [n]).unwrap());
    db.write(&batch).unwrap();
    a.put(b"key", b"old").unwrap();
    let delete = |db: &Db, b: &Family| {
        let mut batch = WriteBatch::new();
        (20..180_u8).for_each(|n| batch.delete(b, [n]).unwrap());
        db.write(&batch).unwrap();
    };
    let entries = |scan: crate::iterator::Scan| scan.entries().count();
    let mut reader = db.begin(IsolationLevel::RepeatableRead).unwrap();
    assert!(reader.get(&a, b"key").unwrap().is_some());
    assert_eq!(entries(reader.scan(&b, ScanOptions::new()).unwrap()), 190);
    reader.put(&c, b"written", b"").unwrap();
    delete(&db, &b);
    // It remembers where nothing lives.
    assert_eq!(entries(b.scan(ScanOptions::new()).unwrap()), 30);
    let (other, second, mut looks) = (db.clone(), b.clone(), 0);
    steps::put(&steps::BEFORE_A_VIEW, move || {
        looks += 1;
        if looks == 2 {
            delete(&other, &second);
            second.flush().unwrap();
        }
    });
    let committed = reader.commit();
    steps::remove(&steps::BEFORE_A_VIEW);
    let error = committed.expect_err("the deletions were missed");
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
}

/// A report held the lock that every serializable begin and commit takes, for as long as it looked.
#[test]
fn others_begin_and_commit_while_a_serializable_reader_looks() {
    const KEYS: u64 = 100_000;
    let (db, families) = open(&SimVfs::new(1), SyncMode::None);
    let mut batch = WriteBatch::new();
    (0..KEYS).for_each(|n| batch.put(&families[0], &n.to_be_bytes(), b"old").unwrap());
    db.write(&batch).unwrap();
    // An older one, so that what others read is remembered.
    let oldest = db.begin(IsolationLevel::Serializable).unwrap();
    families[1].put(b"unrelated", b"").unwrap();
    let mut report = db.begin(IsolationLevel::Serializable).unwrap();
    let scan = report.scan(&families[0], ScanOptions::new()).unwrap();
    assert_eq!(scan.entries().count() as u64, KEYS);
    for n in 0..KEYS {
        assert!(report.contains(&families[0], &n.to_be_bytes()).unwrap());
    }
    families[1].put(b"unrelated", b"").unwrap();
    let (other, family) = (db.clone(), families[0].clone());
    let looks = Arc::new(AtomicU64::new(0));
    let looked = Arc::clone(&looks);
    steps::put(&steps::BEFORE_A_VIEW, move || {
        looked.fetch_add(1, Ordering::Relaxed);
        let mut transaction = other.begin(IsolationLevel::Serializable).unwrap();
        transaction.get(&family, &7_u64.to_be_bytes()).unwrap();
        transaction.put(&family, &7_u64.to_be_bytes(), b"new").unwrap();
        transaction.commit().unwrap();
    });
    let over = AtomicBool::new(false);
    let longest = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let mut longest = std::time::Duration::ZERO;
            while !over.load(Ordering::Relaxed) {
                let began = std::time::Instant::now();
                drop(lock(&db.core().isolation.dependencies));
                longest = longest.max(began.elapsed());
                std::thread::yield_now();
            }
            longest
        });
        let began = std::time::Instant::now();
        report.commit().unwrap();
        println!("a commit of {KEYS} keys and their range took {:?}", began.elapsed());
        over.store(true, Ordering::Relaxed);
        waiting.join().unwrap()
    });
    steps::remove(&steps::BEFORE_A_VIEW);
    // Printed and not judged: the machine may be busy.
    println!("the longest wait for the lock of the dependencies was {longest:?}");
    assert!(looks.load(Ordering::Relaxed) > 0, "nothing was put to the test");
    assert!(db.transaction_stats().open_bytes > 0);
    drop((oldest, report));
    assert_eq!(db.transaction_stats().open_bytes, 0);
}

/// The reads of a commit that wrote as well were all recorded while the others waited. Recorded
/// after it, they are met by who is judged meanwhile and by who is judged later.
#[test]
fn the_many_reads_of_a_commit_are_recorded_while_others_begin_and_commit() {
    const KEYS: u64 = 2000;
    let (db, families) = open(&SimVfs::new(1), SyncMode::None);
    let read_all = |transaction: &Transaction| {
        for n in 0..KEYS {
            assert!(!transaction.contains(&families[0], &n.to_be_bytes()).unwrap());
        }
    };
    // Each reads what the other writes: the pivot of a row of three, whose last is `first`.
    let skewed = |key: u64| {
        let mut transaction = db.begin(IsolationLevel::Serializable).unwrap();
        assert!(!transaction.contains(&families[1], b"of first").unwrap());
        transaction.put(&families[0], &key.to_be_bytes(), b"").unwrap();
        transaction
    };
    let mut first = db.begin(IsolationLevel::Serializable).unwrap();
    let (mut meanwhile, mut later) = (skewed(KEYS - 1), skewed(KEYS - 2));
    read_all(&first);
    first.put(&families[1], b"of first", b"").unwrap();
    let parts = Arc::new(AtomicU64::new(0));
    let (counted, other, family) = (Arc::clone(&parts), db.clone(), families[2].clone());
    steps::put(&steps::BEFORE_A_PART, move || {
        if counted.fetch_add(1, Ordering::Relaxed) > 0 {
            return;
        }
        assert_eq!(meanwhile.commit().unwrap_err().kind(), ErrorKind::Conflict);
        let mut free = other.begin(IsolationLevel::Serializable).unwrap();
        free.get(&family, b"key").unwrap();
        free.put(&family, b"key", b"").unwrap();
        free.commit().unwrap();
    });
    first.commit().unwrap();
    steps::remove(&steps::BEFORE_A_PART);
    assert!(parts.load(Ordering::Relaxed) > 5, "recorded at once");
    assert_eq!(later.commit().unwrap_err().kind(), ErrorKind::Conflict);
}

/// A refusal names a key that the transactions collide on.
#[test]
fn a_serialization_conflict_names_a_key_and_its_family() {
    let (db, families) = open(&SimVfs::new(1), SyncMode::None);
    let mut first = db.begin(IsolationLevel::Serializable).unwrap();
    let mut second = db.begin(IsolationLevel::Serializable).unwrap();
    assert!(!first.contains(&families[2], b"bob").unwrap());
    assert!(!second.contains(&families[2], b"ada").unwrap());
    first.put(&families[2], b"ada", b"").unwrap();
    second.put(&families[2], b"bob", b"").unwrap();
    first.commit().unwrap();
    let error = second.commit().unwrap_err().to_string();
    assert!(error.contains("key 'ada' of family 'c'") || error.contains("key 'bob'"), "{error}");
    assert!(error.contains("of family 'c'"), "{error}");
}
