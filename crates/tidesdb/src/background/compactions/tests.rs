//! Compactions beside compactions of the same family.

mod measuring;
mod nesting;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tidesdb_base::compress::Compression;
use tidesdb_base::options::{DbOptions, FamilyOptions, SyncMode};
use tidesdb_sim::rng::SplitMix64;
use tidesdb_sim::{CrashProfile, ManualClock, ManualScheduler, MutationKind, Phase, SimVfs};

use crate::db::{Components, Db};
use crate::family::FamilyState;
use crate::handles::{Family, Snapshot};
use crate::iterator::ScanOptions;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

const KEYS: u64 = 3_000;

/// A database on a simulated disk whose jobs also run in the middle of compactions.
struct Bench {
    sim: Arc<SimVfs>,
    scheduler: Arc<ManualScheduler>,
    db: Db,
    family: Family,
    model: Model,
    random: SplitMix64,
}

fn open(sim: &Arc<SimVfs>, seed: u64, compaction_threads: usize) -> (Db, Arc<ManualScheduler>) {
    let scheduler = Arc::new(ManualScheduler::interleaving(seed));
    let options = DbOptions::default()
        .log_segment_bytes(1 << 20)
        .sync_mode(SyncMode::Full)
        .compaction_threads(compaction_threads);
    let components = Components {
        vfs: Arc::clone(sim) as _,
        scheduler: Arc::clone(&scheduler) as _,
        clock: Arc::new(ManualClock::new(1_000)),
    };
    (Db::open_with("/db", options, components).unwrap(), scheduler)
}

impl Bench {
    fn new(seed: u64) -> Self {
        let sim = SimVfs::new(seed);
        let mut random = SplitMix64::new(seed);
        let (db, scheduler) = open(&sim, seed, 1 + random.index(3));
        let options = FamilyOptions::default()
            .write_buffer_size(8 << 10)
            .target_table_bytes(8 << 10)
            .block_size(512)
            .l1_file_count_trigger(2)
            .compression(Compression::None)
            .min_disk_space(0);
        let family = db.create_family("family", options).unwrap();
        Self { sim, scheduler, db, family, model: Model::new(), random }
    }

    fn state(&self) -> &Arc<FamilyState> {
        self.family.state()
    }

    fn write(&mut self) {
        let key = (self.random.next_u64() % KEYS).to_be_bytes().to_vec();
        match self.random.index(20) {
            0 => {
                self.family.delete(&key).unwrap();
                self.model.remove(&key);
            }
            1 if self.random.index(40) == 0 => {
                let end = (u64::from_be_bytes(key.clone().try_into().unwrap()) + 200).to_be_bytes();
                self.family.delete_range(&key, &end).unwrap();
                self.model.retain(|other, _| *other < key || other.as_slice() >= end.as_slice());
            }
            _ => {
                let value = vec![self.random.next_u64() as u8; 60 + self.random.index(80)];
                self.family.put(&key, &value).unwrap();
                self.model.insert(key, value);
            }
        }
    }

    fn check(&self, when: &str) {
        check(&self.family, &self.model, when);
    }
}

fn contents(family: &Family, snapshot: Option<&Snapshot>) -> Model {
    let options = match snapshot {
        Some(snapshot) => ScanOptions::new().snapshot(snapshot),
        None => ScanOptions::new(),
    };
    family.scan(options).unwrap().entries().map(|entry| entry.unwrap()).collect()
}

fn check(family: &Family, model: &Model, when: &str) {
    assert!(contents(family, None) == *model, "a scan shows something else {when}");
    for key in (0..KEYS).step_by(7).map(u64::to_be_bytes) {
        assert_eq!(family.get(&key).unwrap().as_ref(), model.get(key.as_slice()), "{key:?} {when}");
    }
}

/// Writes go on while compactions are interrupted by flushes and by other compactions of the same
/// family. Readers, snapshots and what a power cut leaves show what was written; most compactions
/// at a time are returned.
fn a_life_with_interrupted_compactions(seed: u64) -> usize {
    let mut bench = Bench::new(seed);
    let most = Arc::new(AtomicUsize::new(0));
    let (state, noted) = (Arc::clone(bench.state()), Arc::clone(&most));
    bench.sim.on_mutation(Some(Arc::new(move |_, mutation| {
        if mutation.phase == Phase::After && mutation.kind == MutationKind::Sync {
            noted.fetch_max(state.compactions.lock().count(), Ordering::Relaxed);
        }
    })));
    let mut snapshot: Option<(Snapshot, Model)> = None;
    for round in 0..60 {
        let when = format!("in round {round} of seed {seed}");
        for _ in 0..bench.random.index(700) {
            bench.write();
        }
        for _ in 0..bench.random.index(6) {
            bench.scheduler.step();
        }
        match bench.random.index(10) {
            0 => snapshot = Some((bench.db.snapshot(), bench.model.clone())),
            1 => bench.check(&when),
            2 if bench.random.index(4) == 0 => bench.family.compact().unwrap(),
            3 => {
                let image = bench.sim.crash_image(CrashProfile::Nothing, seed);
                let (db, _scheduler) = open(&image, seed, 2);
                check(&db.family("family").unwrap(), &bench.model, &format!("{when}, cut"));
                assert!(db.verify().unwrap().problems.is_empty(), "{when}");
            }
            _ => {}
        }
        if let Some((snapshot, model)) = &snapshot {
            assert!(contents(&bench.family, Some(snapshot)) == *model, "a snapshot {when}");
        }
    }
    drop(snapshot);
    bench.scheduler.run_until_idle();
    bench.check("in the end");
    assert_eq!(bench.state().compactions.lock().count(), 0);
    let Bench { sim, db, model, .. } = bench;
    db.close().unwrap();
    let (db, _scheduler) = open(&sim, seed, 2);
    check(&db.family("family").unwrap(), &model, "opened again");
    most.load(Ordering::Relaxed)
}

#[test]
fn compactions_interrupted_by_others_lose_nothing() {
    let most = (1..=8).map(a_life_with_interrupted_compactions).max();
    assert!(most >= Some(2), "no compaction ran beside another: {most:?}");
}
