//! Tests of what scans note in the memory budget.

mod refreshes;

use std::path::Path;
use std::sync::Arc;

use tidesdb_base::compress::Compression;
use tidesdb_base::options::{DbOptions, FamilyOptions};
use tidesdb_sim::{Corruption, SimVfs};
use tidesdb_sys::vfs::Vfs;

use crate::db::{Components, Db};
use crate::iterator::ScanOptions;

const RUNS: u64 = 6;

/// A scan that was only opened counted for 16 KiB a run, and one that had read ahead in all of
/// them, a quarter of a MiB each, for no more.
#[test]
fn a_scan_counts_for_what_it_has_read_ahead() {
    let db = Db::open_with("/db", DbOptions::default(), Components::simulated()).unwrap();
    // None of the runs is merged.
    let options = FamilyOptions::default().l1_file_count_trigger(100);
    let family = db.create_family("values", options).unwrap();
    let mut noise = 1_u64;
    for run in 0..RUNS {
        for n in 0..6000_u64 {
            let value: Vec<u8> = (0..12)
                .flat_map(|_| {
                    noise = noise.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                    noise.to_be_bytes()
                })
                .collect();
            family.put(&(n * RUNS + run).to_be_bytes(), &value).unwrap();
        }
        family.flush().unwrap();
    }
    assert_eq!(family.state().current_version().runs.len() as u64, RUNS);
    let scans = || db.core().memory.budget.held().scans;
    let before = scans();
    let mut scan = family.scan(ScanOptions::default()).unwrap();
    scan.seek_to_first().unwrap();
    assert!(scans() - before <= RUNS * (6 << 10), "{} bytes for a seek", scans() - before);
    for _ in 0..RUNS * 5000 {
        scan.next().unwrap();
    }
    let walked = scans() - before;
    assert!(walked >= RUNS * (200 << 10), "{walked} bytes after a walk");
    assert!(walked <= RUNS * (600 << 10), "{walked} bytes after a walk");
    drop(scan);
    assert_eq!(scans(), before);
}

#[test]
fn a_scan_counts_for_the_large_values_that_it_has_fetched() {
    let db = Db::open_with("/db", DbOptions::default(), Components::simulated()).unwrap();
    let options = FamilyOptions::default().l1_file_count_trigger(100);
    let family = db.create_family("values", options).unwrap();
    for n in 0..900_u64 {
        family.put(&n.to_be_bytes(), &vec![n as u8; 600 + n as usize * 7 % 9000]).unwrap();
        if n % 90 == 89 {
            family.flush().unwrap();
        }
    }
    family.put(&1000_u64.to_be_bytes(), &vec![7; 3 << 20]).unwrap();
    let scans = || db.core().memory.budget.held().scans;
    let before = scans();
    for _ in 0..3 {
        let bounds = super::Bounds::default();
        let (owner, state) = (&family.owner, family.state());
        let mut scan = super::StoredScan::new(owner.clone(), state.clone(), bounds, None).unwrap();
        let opened = scans();
        scan.go(super::Movement::First).unwrap();
        let mut values = 0;
        while scan.valid() {
            values += scan.value().unwrap().len();
            assert_eq!(scan.values.noted_bytes(), scan.values.memory_bytes());
            scan.go(super::Movement::Next).unwrap();
        }
        assert_eq!(scan.values.noted_bytes(), scan.values.memory_bytes());
        assert!(values > 4 << 20 && scans() > opened, "nothing was put to the test");
        drop(scan);
        assert_eq!(scans(), before);
    }
}

/// Each try to read a damaged value counted once more, for as long as the scan lived.
#[test]
fn a_value_that_cannot_be_read_counts_for_nothing() {
    let sim = SimVfs::new(1);
    let components = Components { vfs: Arc::clone(&sim) as _, ..Components::simulated() };
    let db = Db::open_with("/db", DbOptions::default(), components).unwrap();
    let options = FamilyOptions::default().compression(Compression::None);
    let family = db.create_family("values", options).unwrap();
    // The first leaves its buffer to the others, which are read into it or into a larger one.
    for (n, bytes) in [900, 5000, 3 << 20].into_iter().enumerate() {
        family.put(&[n as u8 + 1], &vec![n as u8; bytes]).unwrap();
        family.flush().unwrap();
    }
    let names = sim.list(Path::new("/db")).unwrap().into_iter().map(|entry| entry.name);
    for log in names.filter(|name| name.ends_with(".vlog")) {
        let path = Path::new("/db").join(log);
        let bytes = sim.content(&path).unwrap().len() as u64;
        if bytes > 1000 {
            assert!(sim.corrupt(&path, bytes / 2, Corruption::Flip(1)).unwrap());
        }
    }
    let scans = || db.core().memory.budget.held().scans;
    let before = scans();
    let bounds = super::Bounds::default();
    let (owner, state) = (&family.owner, family.state());
    let mut scan = super::StoredScan::new(owner.clone(), state.clone(), bounds, None).unwrap();
    scan.go(super::Movement::First).unwrap();
    assert_eq!(scan.value().unwrap().len(), 900);
    for _ in 0..2 {
        scan.go(super::Movement::Next).unwrap();
        for _ in 0..10 {
            assert!(scan.value().is_err());
            assert_eq!(scan.values.noted_bytes(), scan.values.memory_bytes());
        }
    }
    drop(scan);
    assert_eq!(scans(), before);
}
