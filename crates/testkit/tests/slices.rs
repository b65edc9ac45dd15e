//! Keys that are overwritten all the time: their garbage is collected slice by slice of the key
//! space, on a simulated disk, beside an ordered map of what must be there.

#![expect(clippy::unwrap_used, reason = "test helpers fail by panicking")]

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::common_support::overwrites::{Bench, KEYS, Model, contents, open};
use crate::common_support::seeds::scaled;
use rand::RngExt;
use tidesdb::{ErrorKind, ScanOptions};
use tidesdb_sim::{Corruption, CrashProfile, MutationKind, Phase};
use tidesdb_sys::vfs::Vfs;
use tidesdb_testkit::inspect::deep_check;

/// The tables never take much more than what is alive, and no merge reads more than a part of them.
#[test]
fn overwritten_keys_take_little_more_than_the_bound_at_all_times() {
    let mut bench = Bench::new("overwritten");
    let live = bench.table_bytes();
    let (mut merges, mut read, mut most, mut whole) = (0, 0, 0, 0);
    for round in 0..scaled(60) {
        bench.overwrite();
        most = most.max(bench.table_bytes());
        let all = bench.table_bytes();
        let (count, bytes) = bench.merge();
        merges += count;
        read += bytes;
        whole += u64::from(count > 0 && bytes / count > all / 2);
        if round % 10 == 0 {
            bench.check(&format!("in round {round}"));
        }
        if round == 30 {
            bench = bench.reopened();
        }
    }
    bench = bench.reopened();
    most = most.max(bench.table_bytes());
    bench.check("at the end");
    assert!(most < live * 9 / 5, "{most} bytes where {live} are alive");
    // Only those that come first after an opening may find tables that reach over all bounds.
    assert!(merges > scaled(30) && whole <= 2, "{merges} merges, {whole} of most tables");
    assert!(read / merges < live / 2, "{merges} merges read {read} bytes");
}

#[test]
fn a_snapshot_and_a_scan_see_the_same_while_slices_are_compacted() {
    let mut bench = Bench::new("snapshot");
    let live = bench.table_bytes();
    bench.overwrite();
    let (snapshot, seen) = (bench.db.snapshot(), bench.model.clone());
    let mut scan = bench.family.scan(ScanOptions::new()).unwrap().entries();
    let mut scanned: Vec<_> = scan.by_ref().take(10).map(|entry| entry.unwrap()).collect();
    for n in (0..KEYS).step_by(3) {
        bench.family.delete(&n.to_be_bytes()).unwrap();
        bench.model.remove(n.to_be_bytes().as_slice());
    }
    for round in 0..20 {
        bench.overwrite();
        if round % 5 == 4 {
            let start = bench.random.random_range(0..KEYS);
            let (start, end) = (start.to_be_bytes(), (start + 100).to_be_bytes());
            bench.family.delete_range(&start, &end).unwrap();
            bench.model.retain(|key, _| *key < start.to_vec() || *key >= end.to_vec());
        }
        bench.merge();
        assert!(contents(&bench.family, Some(&snapshot)) == seen, "round {round}");
    }
    bench.check("beside a snapshot");
    scanned.extend(scan.by_ref().map(|entry| entry.unwrap()));
    assert!(scanned.into_iter().collect::<Model>() == seen);
    drop((scan, snapshot));
    for _ in 0..20 {
        bench.overwrite();
        bench.merge();
    }
    bench = bench.reopened();
    bench.check("after it");
    let allowed = live * 9 / 5;
    assert!(bench.table_bytes() < allowed, "{} of {allowed}", bench.table_bytes());
}

/// I-65. With other bounds after each opening, newer tables reach over some of them.
#[test]
fn tables_cut_at_other_bounds_are_compacted_with_all_that_they_share_keys_with() {
    let mut bench = Bench::new("other bounds");
    for round in 0..scaled(40) {
        // What is large moves, so that the oldest run is cut elsewhere.
        let large = round % 8 * (KEYS / 8);
        for _ in 0..KEYS / 8 {
            let n = bench.random.random_range(0..KEYS);
            let is_large = (large..large + KEYS / 4).contains(&n);
            bench.put_bytes(n, if is_large { 400 } else { 20 });
        }
        bench.family.flush().unwrap();
        bench.merge();
        bench.check(&format!("in round {round}"));
        if round % 2 == 1 {
            bench = bench.reopened();
        }
    }
}

/// Whatever was on disk when the power went, in the middle of a slice or between two, is the whole.
#[test]
fn a_power_cut_between_any_two_slices_loses_nothing() {
    let mut bench = Bench::new("power cut");
    for _ in 0..12 {
        bench.overwrite();
        bench.merge();
    }
    bench = bench.reopened();
    let images = Arc::new(Mutex::new(Vec::new()));
    let mut tried = 0;
    for _ in 0..6 {
        bench.overwrite();
        let taking = Arc::clone(&images);
        bench.sim.on_mutation(Some(Arc::new(move |sim, mutation| {
            let kinds = [MutationKind::Sync, MutationKind::Remove];
            if mutation.phase == Phase::After && kinds.contains(&mutation.kind) {
                let when = format!("after {:?} of {}", mutation.kind, mutation.path.display());
                taking.lock().unwrap().push((when, sim.crash_image(CrashProfile::Nothing, 1)));
            }
        })));
        bench.merge();
        bench.sim.on_mutation(None);
        for (when, image) in std::mem::take(&mut *images.lock().unwrap()) {
            let (db, _scheduler) = open(&image);
            assert!(contents(&db.family("family").unwrap(), None) == bench.model, "{when}");
            tried += 1;
        }
    }
    assert!(tried > 20, "{tried} images");
}

/// Names and lengths of the tables on disk, by name.
fn tables(bench: &Bench) -> Vec<(PathBuf, usize)> {
    let dir = Path::new("/db");
    let entries = bench.sim.list(dir).unwrap().into_iter();
    let mut tables: Vec<_> = entries
        .filter(|entry| entry.name.ends_with(".klog"))
        .map(|entry| dir.join(entry.name))
        .map(|path| (path.clone(), bench.sim.content(&path).unwrap().len()))
        .collect();
    tables.sort();
    tables
}

/// A table that can't be read keeps its own slice from being merged, and no other: space is
/// returned in all of them, and every answer is right or an error that names the table. It made all
/// merges with older runs end.
#[test]
fn a_damaged_table_keeps_no_other_slice_from_being_compacted() {
    let mut slices = 0;
    for round in 0..scaled(6) {
        let mut bench = Bench::new("damaged table");
        for _ in 0..8 + round {
            bench.overwrite();
            bench.merge();
        }
        // With most of them unread and closed, one of the oldest run or a newer one.
        bench = bench.reopened();
        let all = tables(&bench);
        let (path, length) = all[bench.random.random_range(0..all.len())].clone();
        let at = bench.random.random_range(0..length as u64 - 100);
        assert!(bench.sim.corrupt(&path, at, Corruption::Zero).unwrap(), "nothing was damaged");
        let name = path.file_name().unwrap().to_str().unwrap();
        let before = bench.table_bytes();
        for _ in 0..24 {
            bench.overwrite();
            slices += bench.merge_slices();
            bench.check_what_is_served(name);
        }
        let reported = bench.db.wait_idle().unwrap_err();
        assert_eq!(reported.kind(), ErrorKind::Corruption, "{reported}");
        assert!(reported.to_string().contains(name), "{reported} does not name {name}");
        bench.db.wait_idle().unwrap();
        assert!(bench.sim.content(&path).is_ok(), "a merge retired what is damaged");
        let bytes = bench.table_bytes();
        assert!(bytes < before * 2, "{bytes} bytes of tables, {before} before the damage");
        let refused = bench.family.compact().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Corruption, "{refused}");
        bench.check_what_is_served(name);
    }
    // Some may find the damaged run cut at other bounds than are in force, all of them.
    assert!(slices > scaled(40), "{slices} slices were merged beside damage");
}

/// However little of a slice fits, its merge changes nothing and leaves nothing, and goes on
/// without being opened again when there is space.
#[test]
fn a_disk_that_is_full_in_the_middle_of_a_slice_changes_nothing() {
    let mut bench = Bench::new("full disk");
    let mut failed = 0;
    for round in 0..scaled(30) {
        for _ in 0..4 {
            bench.overwrite();
        }
        // From nothing to what a slice needs.
        let room = round % 15 * 3_000;
        bench.leave_free(room);
        let slices = bench.merge_slices();
        // Asked in any case: a merge of something else that failed is reported here, not further
        // down.
        let full = bench.db.wait_idle().is_err_and(|e| e.kind() == ErrorKind::Full);
        failed += u64::from(full && slices > 0);
        bench.check(&format!("in round {round}, where {room} bytes were free"));
        bench.sim.set_capacity(None);
        bench.db.wait_idle().unwrap();
        let before = bench.family.stats().work.compaction_slices;
        for _ in 0..6 {
            bench.overwrite();
            bench.merge();
        }
        let slices = bench.family.stats().work.compaction_slices - before;
        assert!(slices > 0, "no merge goes on in round {round}");
        // Tables of an edit that may have been on disk stayed until the next opening.
        bench.check(&format!("with space again in round {round}"));
        deep_check(&bench.db, bench.sim.as_ref(), Path::new("/db")).unwrap();
    }
    assert!(failed > scaled(4), "only {failed} merges met a full disk");
}
