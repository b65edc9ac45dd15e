//! Openings with less memory than the log has: it is replayed in stretches, which are written to
//! tables in between.

#![expect(clippy::unwrap_used, reason = "test helpers fail by panicking")]

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::{Arc, Mutex};

use tidesdb::{Components, Db, DbOptions, Error, FamilyOptions, Result, ScanOptions};
use tidesdb::{SyncMode, WriteBatch};
use tidesdb_sim::{CrashProfile, FaultError, FaultKind, FaultVfs, ManualClock, ManualScheduler};
use tidesdb_sim::{MutationKind, Op, OpSet, Phase, SimVfs};
use tidesdb_sys::vfs::Vfs;
use tidesdb_testkit::inspect::deep_check;

const DIR: &str = "/db";
const MIB: u64 = 1 << 20;
/// The least that there is.
const SMALL: u64 = 4 * MIB;
const FAMILIES: [&str; 3] = ["often", "sometimes", "rarely"];

type Model = [BTreeMap<Vec<u8>, Vec<u8>>; 3];

fn open(sim: &Arc<SimVfs>, budget: u64, options: DbOptions) -> Db {
    try_open(Arc::clone(sim) as _, budget, options).unwrap()
}

fn try_open(vfs: Arc<dyn Vfs>, budget: u64, options: DbOptions) -> Result<Db> {
    let options = options.log_segment_bytes(64 << 10).max_memory_usage(budget);
    let components = Components {
        vfs,
        scheduler: Arc::new(ManualScheduler::new(1)),
        clock: Arc::new(ManualClock::new(1_000_000)),
    };
    Db::open_with(
        DIR,
        options.sync_mode(SyncMode::Interval { interval_us: 1_000_000_000 }),
        components,
    )
}

/// A disk after the death of a process with much memory, and what it holds: three times as much
/// log as there may be in memory of the next.
fn with_large_log() -> (Arc<SimVfs>, Model) {
    let sim = SimVfs::new(1);
    let db = open(&sim, 1 << 30, DbOptions::default());
    let options = FamilyOptions::default().write_buffer_size(512 << 20).min_disk_space(0);
    let families = FAMILIES.map(|name| db.create_family(name, options.clone()).unwrap());
    let mut model = Model::default();
    for n in 0..3000_u32 {
        let mut batch = WriteBatch::new();
        let key = (n * 7 % 700).to_be_bytes().to_vec();
        for (at, every) in [1, 5, 301].into_iter().enumerate() {
            if n % every == 0 {
                let value = vec![n as u8; 2000 + n as usize % 100];
                batch.put(&families[at], &key, &value).unwrap();
                model[at].insert(key.clone(), value);
            }
        }
        db.write(&batch).unwrap();
        if n % 700 == 100 {
            // Its bytes are in a value log, and the log points to them.
            let (key, value) = (b"large".to_vec(), vec![n as u8; 1 << 20]);
            families[2].put(&key, &value).unwrap();
            model[2].insert(key, value);
        }
        if n % 11 == 0 {
            families[0].delete(&(n % 500).to_be_bytes()).unwrap();
            model[0].remove(&(n % 500).to_be_bytes()[..]);
        }
        if n % 101 == 0 {
            let (from, until) = ((n % 600).to_be_bytes(), (n % 600 + 40).to_be_bytes());
            families[1].delete_range(&from, &until).unwrap();
            model[1].retain(|key, _| key[..] < from[..] || key[..] >= until[..]);
        }
    }
    assert_eq!(db.stats().work.flushes, 0);
    (sim.crash_image(CrashProfile::Everything, 1), model)
}

fn check(db: &Db, model: &Model, when: &str) {
    for (name, expected) in FAMILIES.iter().zip(model) {
        let scan = db.family(name).unwrap().scan(ScanOptions::new()).unwrap();
        let found: BTreeMap<_, _> = scan.entries().map(Result::unwrap).collect();
        assert!(found == *expected, "{name} differs: {when}");
    }
}

/// I-240. The log was in memory as a whole, whatever the budget.
#[test]
fn a_log_larger_than_memory_is_replayed_in_stretches() {
    let (sim, model) = with_large_log();
    let db = open(&sim, SMALL, DbOptions::default());
    let stats = db.stats();
    assert!(stats.work.flushes >= 6, "{} flushes", stats.work.flushes);
    assert!(stats.memtable_bytes <= SMALL * 3 / 4, "{} bytes", stats.memtable_bytes);
    check(&db, &model, "as it was opened");
    deep_check(&db, sim.as_ref(), Path::new(DIR)).unwrap();
    db.family("often").unwrap().put(b"more", b"v").unwrap();
    drop(db);
    let db = open(&sim, SMALL, DbOptions::default());
    assert_eq!(db.family("often").unwrap().get(b"more").unwrap().unwrap(), b"v");
}

/// I-240. What is flushed through some commit and the rest in the log are the same together.
#[test]
fn an_opening_that_is_cut_short_between_stretches_loses_nothing() {
    let (sim, model) = with_large_log();
    let images = Arc::new(Mutex::new((0, Vec::new())));
    let taking = Arc::clone(&images);
    sim.on_mutation(Some(Arc::new(move |sim, mutation| {
        let mut images = taking.lock().unwrap();
        if mutation.phase == Phase::After && mutation.kind != MutationKind::SegmentPiece {
            images.0 += 1;
            if images.0 % 17 == 0 {
                let when = format!("{}: {:?}", images.0, mutation.kind);
                for profile in [CrashProfile::Everything, CrashProfile::Nothing] {
                    images.1.push((when.clone(), sim.crash_image(profile, 1)));
                }
            }
        }
    })));
    let db = open(&sim, SMALL, DbOptions::default());
    sim.on_mutation(None);
    check(&db, &model, "not cut short");
    let (_, taken) = std::mem::take(&mut *images.lock().unwrap());
    assert!(taken.len() >= 10, "{} images", taken.len());
    for (at, (when, image)) in taken.iter().enumerate() {
        // With as little memory again, or with enough.
        let budget = if at % 3 == 0 { 1 << 30 } else { SMALL };
        let db = open(image, budget, DbOptions::default());
        check(&db, &model, when);
    }
}

/// Without space for tables, and where nothing may be written, reading is worth more than memory.
#[test]
fn a_log_larger_than_memory_can_be_read_where_nothing_can_be_written() {
    let (sim, model) = with_large_log();
    let full = sim.fork();
    full.set_capacity(Some(1 << 40));
    let used = (1 << 40) - full.free_bytes(Path::new(DIR)).unwrap();
    full.set_capacity(Some(used + (300 << 10)));
    check(&open(&full, SMALL, DbOptions::default()), &model, "on a full disk");
    check(&open(&sim, SMALL, DbOptions::default().read_only(true)), &model, "for reading");
}

/// I-240. After any failure the rest of the log was taken into memory, whatever the budget.
#[test]
fn an_opening_that_can_not_write_tables_takes_no_more_memory() {
    let (sim, model) = with_large_log();
    let (mut refused, mut calls) = (0, 0);
    for failing in 0.. {
        let image = sim.fork();
        let faults = FaultVfs::new(Arc::clone(&image) as _);
        faults.count_only(OpSet::of(&[Op::Create]));
        faults.fail_call(failing, FaultKind::Forever, FaultError::Kind(ErrorKind::Other));
        match try_open(faults.clone(), SMALL, DbOptions::default()) {
            Err(Error::Io { .. }) => refused += 1,
            Err(other) => panic!("{failing}: {other:?}"),
            Ok(db) => {
                let bytes = db.stats().memtable_bytes;
                assert!(bytes <= SMALL * 3 / 4, "{failing}: {bytes} bytes");
            }
        }
        if faults.fired() == 0 {
            calls = failing;
            break;
        }
        if failing % 5 == 0 {
            check(&open(&image, SMALL, DbOptions::default()), &model, "after a failed opening");
        }
    }
    assert!(refused >= 6 && calls >= 10, "{refused} of {calls}");
}
