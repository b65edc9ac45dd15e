//! Keys that are overwritten all the time: their garbage is collected slice by slice of the key
//! space, on a simulated disk, beside an ordered map of what must be there.

#![expect(clippy::unwrap_used, reason = "test helpers fail by panicking")]

#[path = "common_support/seeds.rs"]
mod seeds;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use seeds::{scaled, seed};
use tidesdb_engine::{
    Components, Compression, Db, DbOptions, Family, FamilyOptions, ScanOptions, Snapshot, SyncMode,
};
use tidesdb_sys::clock::ManualClock;
use tidesdb_sys::sched::ManualScheduler;
use tidesdb_sys::vfs::{CrashProfile, MutationKind, Phase, SimVfs};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

const KEYS: u64 = 2_000;

struct Bench {
    sim: Arc<SimVfs>,
    scheduler: Arc<ManualScheduler>,
    db: Db,
    family: Family,
    model: Model,
    random: StdRng,
}

fn open(sim: &Arc<SimVfs>) -> (Db, Arc<ManualScheduler>) {
    let scheduler = Arc::new(ManualScheduler::new(1));
    let options = DbOptions {
        log_segment_bytes: 1 << 20,
        sync_mode: SyncMode::Full,
        compaction_threads: 2,
        ..DbOptions::default()
    };
    let components = Components {
        vfs: Arc::clone(sim) as _,
        scheduler: Arc::clone(&scheduler) as _,
        clock: Arc::new(ManualClock::new(1_000_000)),
    };
    (Db::open_with("/db", options, components).unwrap(), scheduler)
}

fn contents(family: &Family, snapshot: Option<&Snapshot>) -> Model {
    let mut options = ScanOptions::new();
    if let Some(snapshot) = snapshot {
        options = options.snapshot(snapshot);
    }
    family.scan(options).unwrap().entries().map(|entry| entry.unwrap()).collect()
}

impl Bench {
    /// All keys in the oldest run, in many small tables.
    fn new(name: &str) -> Self {
        let sim = SimVfs::new(1);
        let (db, scheduler) = open(&sim);
        let options = FamilyOptions {
            write_buffer_size: 64 << 10,
            target_table_bytes: 8 << 10,
            block_size: 512,
            compression: Compression::None,
            min_disk_space: 0,
            ..FamilyOptions::default()
        };
        let family = db.create_family("family", options).unwrap();
        let random = StdRng::seed_from_u64(seed(name));
        let mut bench = Self { sim, scheduler, db, family, model: Model::new(), random };
        for n in 0..KEYS {
            bench.put(n);
        }
        bench.family.compact().unwrap();
        bench
    }

    fn put(&mut self, n: u64) {
        self.put_bytes(n, 100);
    }

    fn put_bytes(&mut self, n: u64, length: usize) {
        let mut value = vec![0; length];
        self.random.fill(value.as_mut_slice());
        self.family.put(&n.to_be_bytes(), &value).unwrap();
        self.model.insert(n.to_be_bytes().to_vec(), value);
    }

    /// Overwrites as many keys as a flush takes, and writes them out.
    fn overwrite(&mut self) {
        for _ in 0..KEYS / 8 {
            let n = self.random.random_range(0..KEYS);
            self.put(n);
        }
        self.family.flush().unwrap();
    }

    /// Lets background work go on to its end. Answers merges and bytes read by them.
    fn merge(&self) -> (u64, u64) {
        let before = self.family.stats();
        self.scheduler.run_until_idle();
        let after = self.family.stats();
        (
            after.compaction_count - before.compaction_count,
            after.compaction_bytes_read - before.compaction_bytes_read,
        )
    }

    fn table_bytes(&self) -> u64 {
        self.family.stats().levels.iter().map(|level| level.bytes).sum()
    }

    fn check(&self, when: &str) {
        assert!(contents(&self.family, None) == self.model, "a scan shows something else {when}");
        for (key, value) in self.model.iter().step_by(7) {
            assert_eq!(self.family.get(key).unwrap().as_ref(), Some(value), "{key:?} {when}");
        }
        let problems = self.db.verify().unwrap().problems;
        assert!(problems.is_empty(), "{when}: {problems:?}");
    }

    /// The same after closing and opening, which forgets where the slices were cut.
    fn reopened(self) -> Self {
        let Self { sim, scheduler, db, family, model, random } = self;
        drop((family, scheduler));
        db.close().unwrap();
        let (db, scheduler) = open(&sim);
        let family = db.family("family").unwrap();
        Self { sim, scheduler, db, family, model, random }
    }
}

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
    bench.check("at the end");
    assert!(most < live * 9 / 5, "{most} bytes where {live} are alive");
    // Only those that come first after an opening may find tables that reach over all bounds.
    assert!(merges > scaled(30) && whole <= 2, "{merges} merges, {whole} of most tables");
    assert!(read / merges < live / 2, "{merges} merges read {read} bytes");
}

#[test]
fn a_snapshot_and_a_scan_see_the_same_while_slices_are_merged() {
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
    bench.check("after it");
    let allowed = live * 9 / 5;
    assert!(bench.table_bytes() < allowed, "{} of {allowed}", bench.table_bytes());
}

/// I-65. With other bounds after each opening, newer tables reach over some of them. A slice that ended there
/// would put one of them below an older run that it shares keys with.
#[test]
fn tables_cut_at_other_bounds_are_merged_with_all_that_they_share_keys_with() {
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
