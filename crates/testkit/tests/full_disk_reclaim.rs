//! A disk that the database has filled is freed by deleting, without reopening and without help.

#![expect(clippy::unwrap_used, reason = "test helpers fail by panicking")]

use std::path::Path;
use std::sync::Arc;

use tidesdb::{
    Components, Compression, Db, DbOptions, ErrorKind, Family, FamilyOptions, IsolationLevel,
    WriteBatch, WriteOptions,
};
use tidesdb_sim::rng::SplitMix64;
use tidesdb_sim::{CrashProfile, ManualClock, ManualScheduler, SimVfs};
use tidesdb_sys::vfs::Vfs;

const CAPACITY: u64 = 32 << 20;
const VALUE: usize = 6000;

fn open(sim: &Arc<SimVfs>, in_value_logs: bool) -> (Db, Family) {
    let options = DbOptions::default().log_segment_bytes(512 << 10);
    let components = Components {
        vfs: Arc::clone(sim) as _,
        scheduler: Arc::new(ManualScheduler::new(1)),
        clock: Arc::new(ManualClock::new(1_000_000)),
    };
    let db = Db::open_with("/db", options, components).unwrap();
    let family = FamilyOptions::default()
        .compression(Compression::None)
        .write_buffer_size(2 << 20)
        .klog_value_threshold(if in_value_logs { 512 } else { 1 << 20 });
    let family = db.open_family("family", family).unwrap();
    (db, family)
}

fn key(n: u32) -> Vec<u8> {
    // Written in an order that is not that of the keys.
    let scattered = n.wrapping_mul(2_654_435_761);
    format!("{}{scattered:08x}", if n.is_multiple_of(2) { 'a' } else { 'b' }).into_bytes()
}

fn value(n: u32) -> Vec<u8> {
    let mut value = vec![0; VALUE];
    SplitMix64::new(u64::from(n)).fill(&mut value);
    value
}

/// Puts until the disk is full; how many were acknowledged.
fn fill(family: &Family) -> u32 {
    fill_on(family, 0)
}

fn fill_on(family: &Family, first: u32) -> u32 {
    let refused = (first..1_000_000).find_map(|n| {
        let refused = family.put(&key(n), &value(n)).err()?;
        assert_eq!(refused.kind(), ErrorKind::Full, "{refused}");
        Some(n)
    });
    refused.unwrap()
}

fn check(family: &Family, written: u32, is_deleted: impl Fn(u32) -> bool) {
    for n in 0..written {
        let wanted = (!is_deleted(n)).then(|| value(n));
        assert!(family.get(&key(n)).unwrap() == wanted, "key {n} of {written}");
    }
}

/// Half of the keys are gone: puts go on, a good part of what was deleted fits, and all is there.
fn puts_go_on(db: &Db, family: &Family, written: u32) {
    let more = written / 3;
    for n in written..written + more {
        let put = family.put(&key(n), &value(n));
        assert!(put.is_ok(), "put {n} after {written}: {put:?}");
    }
    check(family, written + more, |n| n < written && n.is_multiple_of(2));
    assert!(db.verify().unwrap().problems.is_empty());
}

fn filled(in_value_logs: bool) -> (Arc<SimVfs>, Db, Family, u32) {
    let sim = SimVfs::new(1);
    sim.set_capacity(Some(CAPACITY));
    let (db, family) = open(&sim, in_value_logs);
    let written = fill(&family);
    assert!(u64::from(written) * VALUE as u64 > CAPACITY / 4 * 3, "full with {written} keys");
    (sim, db, family, written)
}

fn one_by_one(in_value_logs: bool) {
    let (sim, db, family, written) = filled(in_value_logs);
    let mut next_image = 0;
    for n in (0..written).step_by(2) {
        let deleted = family.delete(&key(n));
        assert!(deleted.is_ok(), "deleting {n} of {written}: {deleted:?}");
        if n == next_image {
            next_image += written / 6 * 2;
            let image = sim.crash_image(CrashProfile::Everything, u64::from(n));
            image.set_capacity(Some(CAPACITY));
            let (db, family) = open(&image, in_value_logs);
            check(&family, written, |other| other <= n && other.is_multiple_of(2));
            assert!(db.verify().unwrap().problems.is_empty());
            family.delete(&key(n)).unwrap();
        }
    }
    puts_go_on(&db, &family, written);
}

#[test]
fn deleting_half_of_the_keys_one_by_one_frees_a_full_disk() {
    one_by_one(false);
}

#[test]
fn deleting_keys_with_values_in_value_logs_frees_a_full_disk() {
    one_by_one(true);
}

#[test]
fn deleting_a_range_frees_a_full_disk() {
    let (_sim, db, family, written) = filled(false);
    family.delete_range(b"a", b"b").unwrap();
    puts_go_on(&db, &family, written);
}

#[test]
fn deleting_a_prefix_frees_a_full_disk() {
    let (_sim, db, family, written) = filled(false);
    family.delete_prefix(b"a").unwrap();
    puts_go_on(&db, &family, written);
}

#[test]
fn puts_leave_the_reserve_and_a_prefix_can_be_deleted_after_an_opening() {
    let (sim, db, family, written) = filled(false);
    let free = || sim.free_bytes(Path::new("/db")).unwrap();
    let refuses = |db: &Db, family: &Family, mut next: u32| {
        // Merges that are under way may give some back; puts never take the rest.
        for _ in 0..500 {
            match family.put(&key(next), &value(next)) {
                Ok(()) => next += 1,
                Err(refused) => assert_eq!(refused.kind(), ErrorKind::Full, "{refused}"),
            }
        }
        let mut mixed = WriteBatch::new();
        mixed.delete(family, b"none").unwrap();
        mixed.put(family, &key(next), &value(next)).unwrap();
        assert_eq!(db.write(&mixed).unwrap_err().kind(), ErrorKind::Full);
        assert!(free() >= CAPACITY / 50, "{} bytes are left", free());
        next
    };
    let written = refuses(&db, &family, written);
    drop((db, family));
    let (db, family) = open(&sim, false);
    let written = refuses(&db, &family, fill_on(&family, written));
    family.delete_prefix(b"a").unwrap();
    puts_go_on(&db, &family, written);
}

/// A put that was rolled back counted on, and the deletions were refused like puts.
#[test]
fn a_transaction_of_which_deletions_are_left_commits_on_a_full_disk() {
    let (_sim, db, family, written) = filled(false);
    let mut transaction = db.begin(IsolationLevel::ReadCommitted).unwrap();
    transaction.delete(&family, &key(0)).unwrap();
    transaction.savepoint("s").unwrap();
    transaction.put(&family, &key(written), &value(written)).unwrap();
    transaction.rollback_to_savepoint("s").unwrap();
    transaction.delete(&family, &key(1)).unwrap();
    transaction.commit().unwrap();
    check(&family, written, |n| n < 2);
    // One that puts is refused.
    let mut transaction = db.begin(IsolationLevel::ReadCommitted).unwrap();
    transaction.savepoint("s").unwrap();
    transaction.delete(&family, &key(2)).unwrap();
    transaction.rollback_to_savepoint("s").unwrap();
    transaction.put(&family, &key(written), &value(written)).unwrap();
    transaction.savepoint("t").unwrap();
    transaction.delete(&family, &key(2)).unwrap();
    transaction.rollback_to_savepoint("t").unwrap();
    assert_eq!(transaction.commit().unwrap_err().kind(), ErrorKind::Full);
}

/// A put that looked while a snapshot held what was deleted was the last to look for space.
#[test]
fn a_full_disk_is_freed_when_the_snapshot_of_what_was_deleted_has_gone() {
    let (_sim, db, family, written) = filled(false);
    let snapshot = db.snapshot();
    for n in (0..written).step_by(2) {
        family.delete(&key(n)).unwrap();
    }
    // What memory took as log may fit again.
    let full = fill_on(&family, written);
    drop(snapshot);
    for n in full..full + written / 4 {
        let put = family.put(&key(n), &value(n));
        assert!(put.is_ok(), "put {n} after {full}: {put:?}");
    }
    check(&family, full + written / 4, |n| n < written && n.is_multiple_of(2));
}

#[test]
fn a_full_disk_is_freed_of_what_was_deleted_without_waiting() {
    let (_sim, db, family, written) = filled(false);
    let mut deletion = WriteBatch::new();
    deletion.delete_range(&family, b"a", b"b").unwrap();
    let without_waiting = WriteOptions::new().no_wait(true);
    while let Err(refused) = db.write_with(&deletion, without_waiting) {
        assert_eq!(refused.kind(), ErrorKind::Stalled, "{refused}");
        db.wait_idle().unwrap();
    }
    puts_go_on(&db, &family, written);
}

/// After an opening the first change needs another manifest as long as the one before, for which
/// nothing was left.
#[test]
fn a_full_disk_with_a_long_manifest_is_freed_after_an_opening() {
    const FAMILIES: u32 = 3000;
    for closed in [true, false] {
        let sim = SimVfs::new(1);
        sim.set_capacity(Some(CAPACITY));
        let (db, family) = open(&sim, false);
        let names: Vec<String> = (0..FAMILIES).map(|n| format!("family number {n}")).collect();
        let wanted: Vec<_> = names.iter().map(|name| (name.as_str(), family.options())).collect();
        db.create_families(&wanted).unwrap();
        let written = fill(&family);
        drop(family);
        if closed {
            db.close().unwrap();
        } else {
            drop(db);
        }
        let (db, family) = open(&sim, false);
        let deleted = family.delete_range(b"a", b"b");
        assert!(deleted.is_ok(), "closed {closed}: {deleted:?}");
        db.drop_family(&names[0]).unwrap();
        puts_go_on(&db, &family, written);
    }
}
