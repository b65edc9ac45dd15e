//! Memory that runs out half way through a commit.

use tidesdb::testing::refuse_memtable_blocks;
use tidesdb_sim::rng::SplitMix64;
use tidesdb_testkit::seeds;

use super::*;

/// A database that is stepped by hand, what it should hold, and what a kill may leave of it.
pub(super) struct Small {
    pub(super) sim: Arc<SimVfs>,
    scheduler: Arc<ManualScheduler>,
    pub(super) db: Db,
    model: BTreeMap<(usize, u8), u8>,
}

impl Small {
    pub(super) fn open(sim: Arc<SimVfs>) -> Self {
        let scheduler = Arc::new(ManualScheduler::new(1));
        let components = Components {
            vfs: Arc::clone(&sim) as _,
            scheduler: Arc::clone(&scheduler) as _,
            clock: Arc::new(ManualClock::new(1_000_000)),
        };
        let db = Db::open_with("/db", options(SyncMode::None), components).unwrap();
        let small = family_options().write_buffer_size(16 << 10);
        let _ = ["one", "two"].map(|name| db.open_family(name, small.clone()).unwrap());
        Self { sim, scheduler, db, model: BTreeMap::new() }
    }

    /// A random commit; says whether it was refused, which must leave nothing.
    fn step(&mut self, random: &mut SplitMix64) -> bool {
        let families = families(&self.db);
        let mut model = self.model.clone();
        let mut batch = WriteBatch::new();
        for _ in 0..1 + random.next_u64() % 6 {
            let (at, key) = ((random.next_u64() % 2) as usize, (random.next_u64() % 40) as u8);
            let (family, value) = (&families[at], random.next_u64() as u8);
            match random.next_u64() % 8 {
                0 => {
                    batch.delete(family, &[key]).unwrap();
                    model.remove(&(at, key));
                }
                1 => {
                    batch.delete_range(family, &[key], &[key + 5]).unwrap();
                    model.retain(|(of, k), _| *of != at || !(key..key + 5).contains(k));
                }
                _ => {
                    let length = if value < 20 { 9000 } else { 600 };
                    batch.put(family, &[key], &vec![value; length]).unwrap();
                    model.insert((at, key), value);
                }
            }
        }
        let refused = match self.db.write(&batch) {
            Ok(()) => {
                self.model = model;
                false
            }
            Err(e) => {
                assert_eq!(e.kind(), ErrorKind::Full, "{e}");
                assert!(matches!(e, Error::OutOfMemory(_)), "{e}");
                true
            }
        };
        if random.next_u64().is_multiple_of(4) {
            self.scheduler.step();
        }
        refused
    }

    fn check(db: &Db, model: &BTreeMap<(usize, u8), u8>, when: &str) {
        for (at, family) in families(db).iter().enumerate() {
            let found = content(family);
            let found: Vec<_> = found.iter().map(|(key, value)| (key[0], value[0])).collect();
            let wanted = model.iter().filter(|((of, _), _)| *of == at);
            let wanted: Vec<_> = wanted.map(|((_, key), value)| (*key, *value)).collect();
            assert_eq!(found, wanted, "{when}: {}", family.name());
            for key in 0..50 {
                let found = family.get(&[key]).unwrap().map(|value| value[0]);
                assert_eq!(found, model.get(&(at, key)).copied(), "{when}: key {key}");
            }
        }
    }
}

/// Memory that is refused at any block, once or for a while: the commit that needed it was in the
/// log already, and in part in a memtable.
#[test]
fn memory_that_is_refused_leaves_nothing_of_the_commit() {
    let verdict = seeds::run_all("memory_that_is_refused", |seed| {
        let mut refusals = 0;
        for given in 0..24 {
            let mut random = SplitMix64::new(seed ^ given);
            let mut small = Small::open(SimVfs::new(seed));
            refuse_memtable_blocks(&small.db, given, 1 + given % 3 * 4);
            for _ in 0..70 {
                if small.step(&mut random) {
                    refusals += 1;
                    Small::check(&small.db, &small.model, "refused");
                    let profile = [CrashProfile::Everything, CrashProfile::Random][refusals % 2];
                    if profile == CrashProfile::Everything {
                        let image = small.sim.crash_image(profile, seed);
                        Small::check(&Small::open(image).db, &small.model, "killed");
                    }
                    // Nothing has to be reopened: what is in memory goes to tables.
                    small.scheduler.run_until_idle();
                }
            }
            refuse_memtable_blocks(&small.db, 0, 0);
            small.scheduler.run_until_idle();
            let mut taken = (0..5).filter(|_| !small.step(&mut random));
            assert!(taken.next().is_some(), "takes no writes although there is memory");
            Small::check(&small.db, &small.model, "afterwards");
            let (sim, model) = (Arc::clone(&small.sim), small.model.clone());
            drop(small);
            Small::check(&Small::open(sim).db, &model, "reopened");
        }
        assert!(refusals > 20, "only {refusals} commits were refused");
        Ok(true)
    });
    let finding = verdict.err().unwrap_or_default();
    assert!(finding.is_empty(), "{finding}");
}
