//! Threads that fill a file system: what was refused is nowhere to be seen, and deleting gives
//! space back. On btrfs the log is written with `pwrite` and takes new blocks with each write, so a
//! write that failed had others behind it: they made refused puts visible, and the full database
//! could not be opened.

use std::collections::BTreeMap;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use super::*;

const THREADS: u32 = 4;

/// Refused puts after which a thread stops: each takes some 10 ms, as it tries to free space.
const ENOUGH_REFUSALS: usize = 250;

/// The same where the disk is filled again.
const A_FEW_REFUSALS: usize = 25;

/// How half of the keys are deleted.
#[derive(Clone, Copy, Debug)]
enum Deletion {
    OneByOne,
    Range,
    Prefix,
}

/// What the database should hold, and what must not be there.
#[derive(Default)]
struct Expected {
    there: BTreeMap<Vec<u8>, u32>,
    refused: Vec<u32>,
}

impl Expected {
    fn check(&self, family: &Family, when: &str) {
        for n in &self.refused {
            assert_eq!(family.get(&key(*n)).unwrap(), None, "{when}: refused key {n} is there");
        }
        let mut wanted = self.there.iter();
        for entry in family.scan(ScanOptions::new()).unwrap().entries() {
            let (key, found) = entry.unwrap();
            let (wanted, n) = wanted.next().unwrap();
            assert!(key == *wanted && found == value(*n), "{when}: {key:?} for {wanted:?}");
        }
        assert!(wanted.next().is_none(), "{when}: a scan ends early");
        self.there.iter().step_by(7).for_each(|(key, n)| {
            assert!(family.get(key).unwrap() == Some(value(*n)), "{when}: key {n}");
        });
    }

    /// Has all threads put keys of their own from `first` on until so many puts of each were
    /// refused. Returns how many fitted, and the first key that none of them has used.
    fn fill(&mut self, family: &Family, first: u32, refusals: usize) -> (usize, u32) {
        let start = Barrier::new(THREADS as usize);
        let results: Vec<(Vec<u32>, Vec<u32>)> = thread::scope(|scope| {
            let start = &start;
            let threads: Vec<_> = (0..THREADS)
                .map(|thread| {
                    let start_at = first + thread;
                    scope.spawn(move || put_until_refused(family, start_at, refusals, start))
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let fitted = results.iter().map(|(there, _)| there.len()).sum();
        for (there, refused) in results {
            self.there.extend(there.into_iter().map(|n| (key(n), n)));
            self.refused.extend(refused);
        }
        let used = self.there.values().chain(&self.refused).max().unwrap();
        // As many as there are threads, and parities of keys.
        (fitted, (used + 1).next_multiple_of(THREADS))
    }
}

/// The keys that were put and those that were refused.
fn put_until_refused(
    family: &Family,
    first: u32,
    refusals: usize,
    start: &Barrier,
) -> (Vec<u32>, Vec<u32>) {
    let (mut there, mut refused) = (Vec::new(), Vec::new());
    start.wait();
    for n in (first..).step_by(THREADS as usize) {
        match family.put(&key(n), &value(n)) {
            Ok(()) => there.push(n),
            Err(error) => {
                let kinds = [ErrorKind::Full, ErrorKind::LogFailed];
                assert!(kinds.contains(&error.kind()), "key {n}: {error}");
                refused.push(n);
                thread::sleep(Duration::from_micros(100));
            }
        }
        if refused.len() == refusals {
            break;
        }
    }
    (there, refused)
}

fn open(mounted: &Mounted, min_disk_space: Option<u64>, read_only: bool) -> (Db, Family) {
    let options = DbOptions::default().read_only(read_only);
    let db = Db::open(mounted.path().join("db"), options).unwrap();
    if read_only {
        let family = db.family("family").unwrap();
        return (db, family);
    }
    let mut options = FamilyOptions::default();
    options.min_disk_space = min_disk_space;
    let family = db.open_family("family", options).unwrap();
    (db, family)
}

/// Deletes the half of the keys that begins with an `a`.
fn delete_half(family: &Family, deletion: Deletion, expected: &mut Expected) {
    match deletion {
        Deletion::OneByOne => expected.there.keys().filter(|key| key[0] == b'a').for_each(|key| {
            let deleted = family.delete(key);
            assert!(deleted.is_ok(), "deleting {key:?}: {deleted:?}");
        }),
        Deletion::Range => family.delete_range(b"a", b"b").unwrap(),
        Deletion::Prefix => family.delete_prefix(b"a").unwrap(),
    }
    expected.there.retain(|key, _| key[0] != b'a');
}

/// Puts as many keys as are wanted, or as fit. The compactions that free what was deleted may not
/// be done when puts are refused again: they have some seconds, and no other help.
fn fill_again(family: &Family, expected: &mut Expected, mut next: u32, wanted: usize) -> usize {
    let mut again = 0;
    for pause in 0..30 {
        let (fitted, behind) = expected.fill(family, next, A_FEW_REFUSALS);
        (again, next) = (again + fitted, behind);
        println!("after {pause} s {again} more keys");
        if again > wanted {
            break;
        }
        thread::sleep(Duration::from_secs(1));
    }
    again
}

fn fill_and_delete(kind: &str, min_disk_space: Option<u64>, deletion: Deletion) -> Option<()> {
    let mounted = Mounted::new(kind, 256)?;
    let (db, family) = open(&mounted, min_disk_space, false);
    let mut expected = Expected::default();
    let (written, next) = expected.fill(&family, 0, ENOUGH_REFUSALS);
    let said = format!("{kind}, {min_disk_space:?}, {deletion:?}");
    println!(
        "{said}: {written} keys, {} refused, {} MiB free",
        expected.refused.len(),
        mounted.free_mib()
    );
    expected.check(&family, "full");
    drop((family, db));
    // The log is as a killed process leaves it.
    let (db, family) = open(&mounted, min_disk_space, true);
    expected.check(&family, "opened for reading");
    drop((family, db));
    let (db, family) = open(&mounted, min_disk_space, false);
    expected.check(&family, "opened again");
    delete_half(&family, deletion, &mut expected);
    println!("{said}: half deleted, {} MiB free", mounted.free_mib());
    expected.check(&family, "deleted");
    let again = fill_again(&family, &mut expected, next, written / 8);
    println!("{said}: {again} more keys, {} MiB free", mounted.free_mib());
    assert!(again > written / 8, "{written} keys, then {again}");
    expected.check(&family, "filled again");
    drop((family, db));
    let (db, family) = open(&mounted, min_disk_space, false);
    expected.check(&family, "opened when it was filled again");
    assert!(db.verify().unwrap().problems.is_empty());
    Some(())
}

fn fill_and_delete_in_each_way(kind: &str) {
    let ways = [
        (None, Deletion::OneByOne),
        (Some(0), Deletion::OneByOne),
        (None, Deletion::Range),
        (Some(0), Deletion::Prefix),
    ];
    for (min_disk_space, deletion) in ways {
        if fill_and_delete(kind, min_disk_space, deletion).is_none() {
            return;
        }
    }
}

#[test]
#[ignore = "mounts a file system"]
fn a_btrfs_that_threads_fill_shows_no_refused_put_and_is_freed_by_deleting() {
    fill_and_delete_in_each_way("btrfs");
}

#[test]
#[ignore = "mounts a file system"]
fn an_ext4_that_threads_fill_shows_no_refused_put_and_is_freed_by_deleting() {
    fill_and_delete_in_each_way("ext4");
}
