//! Families that are dropped while merges of them run, wait or are due: nothing of them stays, and
//! a drop takes no time to speak of.

#![expect(clippy::unwrap_used, reason = "test helpers fail by panicking")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tidesdb::{Components, Compression, Db, DbOptions, ErrorKind, FamilyOptions, ScanOptions};
use tidesdb_sim::{ManualClock, ManualScheduler, MutationKind, SimVfs};
use tidesdb_testkit::inspect::deep_check;
use tidesdb_testkit::seeds::scale;

const DIRECTORY: &str = "/db";

fn open(sim: &Arc<SimVfs>) -> (Db, Arc<ManualScheduler>) {
    let scheduler = Arc::new(ManualScheduler::new(1));
    let components = Components {
        vfs: Arc::clone(sim) as _,
        scheduler: Arc::clone(&scheduler) as _,
        clock: Arc::new(ManualClock::new(1_000_000)),
    };
    let options = DbOptions::default().log_segment_bytes(64 << 10);
    (Db::open_with(DIRECTORY, options, components).unwrap(), scheduler)
}

fn small() -> FamilyOptions {
    FamilyOptions::default()
        .write_buffer_size(16 << 10)
        .target_table_bytes(4 << 10)
        .klog_value_threshold(100)
        .block_size(256)
        .compression(Compression::None)
        .min_disk_space(0)
        .l1_file_count_trigger(2)
}

/// Runs that overlap, so that a merge is due, with values in value logs.
fn with_compaction_due(db: &Db, name: &str) {
    let family = db.create_family(name, small()).unwrap();
    for round in 0..5_u32 {
        for n in 0..300_u32 {
            let length = if n % 4 == 0 { 150 } else { 60 };
            family.put(&n.to_be_bytes(), &vec![round as u8; length]).unwrap();
        }
        family.flush().unwrap();
    }
}

/// The family goes at each change of files that a merge of it makes in turn, on the merge's own
/// thread, as if another had done it just then.
#[test]
fn a_family_may_go_at_any_moment_of_its_compaction() {
    let golden = SimVfs::new(1);
    let (db, _scheduler) = open(&golden);
    db.stop_compactions().unwrap();
    with_compaction_due(&db, "goes");
    with_compaction_due(&db, "stays");
    db.close().unwrap();
    let mut moments = 0;
    for moment in 0.. {
        let sim = golden.fork();
        let (db, scheduler) = open(&sim);
        let (goes, stays) = (db.family("goes").unwrap(), db.family("stays").unwrap());
        let scan = (moment % 2 == 0).then(|| goes.scan(ScanOptions::new()).unwrap());
        let seen = Arc::new(AtomicUsize::new(0));
        let (counter, dropping) = (Arc::clone(&seen), db.clone());
        sim.on_mutation(Some(Arc::new(move |_, mutation| {
            // With a change of the manifest the catalog is held, and with one of CURRENT, as the
            // first edit after a clean close starts another manifest.
            let path = mutation.path.to_string_lossy();
            let of_manifest = path.contains("MANIFEST") || path.contains("CURRENT");
            let kinds = [MutationKind::Create, MutationKind::Write, MutationKind::Sync];
            if !of_manifest && kinds.contains(&mutation.kind) {
                let count = counter.fetch_add(1, Ordering::Relaxed);
                if count == moment {
                    let result = std::thread::scope(|scope| {
                        scope.spawn(|| dropping.drop_family("goes")).join().unwrap()
                    });
                    result.unwrap();
                }
            }
        })));
        let merged = goes.compact();
        sim.on_mutation(None);
        let is_over = seen.load(Ordering::Relaxed) <= moment;
        if is_over {
            merged.unwrap();
            break;
        }
        moments += 1;
        let kind = merged.map_or_else(|e| Some(e.kind()), |()| None);
        assert!(kind.is_none() || kind == Some(ErrorKind::Closed), "moment {moment}: {kind:?}");
        if let Some(scan) = scan {
            assert_eq!(scan.entries().filter(Result::is_ok).count(), 300);
        }
        drop(goes);
        scheduler.run_until_idle();
        db.wait_idle().unwrap();
        deep_check(&db, sim.as_ref(), Path::new(DIRECTORY)).unwrap();
        assert_eq!(stays.get(&7_u32.to_be_bytes()).unwrap(), Some(vec![4; 60]));
        drop(stays);
        drop((db, scheduler));
        let (db, _scheduler) = open(&sim);
        assert_eq!(db.family_names(), ["stays"]);
        deep_check(&db, sim.as_ref(), Path::new(DIRECTORY)).unwrap();
    }
    assert!(moments > 10, "{moments} moments");
}

/// Half of many families are merged from the opening on; all go meanwhile, from several threads. At
/// a scale of 10 they are ten thousand.
#[test]
fn thousands_of_families_go_while_half_of_them_are_compacted() {
    let sim = SimVfs::new(1);
    let options = DbOptions::default().log_segment_bytes(1 << 20);
    let open = || {
        let components =
            Components { vfs: Arc::clone(&sim) as _, ..Components::for_options(&options).unwrap() };
        Db::open_with(DIRECTORY, options.clone(), components).unwrap()
    };
    let began = Instant::now();
    let names: Vec<String> = (0..1_000 * scale()).map(|n| format!("family-{n}")).collect();
    let wanted: Vec<_> = names.iter().map(|name| (name.as_str(), small())).collect();
    let db = open();
    db.stop_compactions().unwrap();
    let families = db.create_families(&wanted).unwrap();
    for round in 0..4_u8 {
        for family in families.iter().step_by(2) {
            family.put(b"large", &[round; 120]).unwrap();
            family.put(b"small", &[round; 20]).unwrap();
        }
        db.flush().unwrap();
    }
    drop(families);
    db.close().unwrap();
    let db = open();
    println!("built after {:?}", began.elapsed());
    let next = AtomicUsize::new(0);
    let drop_some = || {
        let mut times = Vec::new();
        while let Some(name) = names.get(next.fetch_add(1, Ordering::Relaxed)) {
            let family = db.family(name).unwrap();
            let started = Instant::now();
            db.drop_family(name).unwrap();
            times.push(started.elapsed());
            assert_eq!(family.put(b"key", b"value").unwrap_err().kind(), ErrorKind::Closed);
        }
        times
    };
    let mut times: Vec<Duration> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(drop_some)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    times.sort_unstable();
    let (median, slow) = (times[times.len() / 2], times[times.len() * 99 / 100]);
    println!("a drop takes {median:?}, one in a hundred {slow:?}");
    // Four threads share a lock, and whatever else the machine does is in it.
    assert!(median < Duration::from_millis(60), "a drop takes {median:?}");
    db.wait_idle().unwrap();
    deep_check(&db, sim.as_ref(), Path::new(DIRECTORY)).unwrap();
    db.close().unwrap();
    let db = open();
    assert!(db.family_names().is_empty());
    deep_check(&db, sim.as_ref(), Path::new(DIRECTORY)).unwrap();
}
