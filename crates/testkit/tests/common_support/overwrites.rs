//! A family of which all keys lie in one old run of many small tables, and are overwritten: its
//! garbage is collected slice by slice. Beside it an ordered map of what must be there.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tidesdb::{
    Components, Compression, Db, DbOptions, Error, ErrorKind, Family, FamilyOptions, ScanOptions,
    Snapshot, SyncMode,
};
use tidesdb_sim::{ManualClock, ManualScheduler, SimVfs};
use tidesdb_sys::vfs::Vfs;

use super::seeds::seed;

pub(crate) type Model = BTreeMap<Vec<u8>, Vec<u8>>;

pub(crate) const KEYS: u64 = 2_000;

pub(crate) struct Bench {
    pub(crate) sim: Arc<SimVfs>,
    pub(crate) scheduler: Arc<ManualScheduler>,
    pub(crate) db: Db,
    pub(crate) family: Family,
    pub(crate) model: Model,
    pub(crate) random: StdRng,
}

pub(crate) fn open(sim: &Arc<SimVfs>) -> (Db, Arc<ManualScheduler>) {
    let scheduler = Arc::new(ManualScheduler::new(1));
    let options = DbOptions::default()
        .log_segment_bytes(1 << 20)
        .sync_mode(SyncMode::Full)
        .compaction_threads(2);
    let components = Components {
        vfs: Arc::clone(sim) as _,
        scheduler: Arc::clone(&scheduler) as _,
        clock: Arc::new(ManualClock::new(1_000_000)),
    };
    (Db::open_with("/db", options, components).unwrap(), scheduler)
}

pub(crate) fn contents(family: &Family, snapshot: Option<&Snapshot>) -> Model {
    let mut options = ScanOptions::new();
    if let Some(snapshot) = snapshot {
        options = options.snapshot(snapshot);
    }
    family.scan(options).unwrap().entries().map(|entry| entry.unwrap()).collect()
}

impl Bench {
    /// All keys in the oldest run, in many small tables.
    pub(crate) fn new(name: &str) -> Self {
        let sim = SimVfs::new(1);
        let (db, scheduler) = open(&sim);
        let options = FamilyOptions::default()
            .write_buffer_size(64 << 10)
            .target_table_bytes(8 << 10)
            .block_size(512)
            .compression(Compression::None)
            .min_disk_space(0);
        let family = db.create_family("family", options).unwrap();
        let random = StdRng::seed_from_u64(seed(name));
        let mut bench = Self { sim, scheduler, db, family, model: Model::new(), random };
        for n in 0..KEYS {
            bench.put(n);
        }
        bench.family.compact().unwrap();
        bench
    }

    pub(crate) fn put(&mut self, n: u64) {
        self.put_bytes(n, 100);
    }

    pub(crate) fn put_bytes(&mut self, n: u64, length: usize) {
        let mut value = vec![0; length];
        self.random.fill(value.as_mut_slice());
        self.family.put(&n.to_be_bytes(), &value).unwrap();
        self.model.insert(n.to_be_bytes().to_vec(), value);
    }

    /// Overwrites as many keys as a flush takes, and writes them out.
    pub(crate) fn overwrite(&mut self) {
        for _ in 0..KEYS / 8 {
            let n = self.random.random_range(0..KEYS);
            self.put(n);
        }
        self.family.flush().unwrap();
    }

    /// Lets background work go on to its end. Answers merges and bytes read by them.
    pub(crate) fn merge(&self) -> (u64, u64) {
        let before = self.family.stats();
        self.scheduler.run_until_idle();
        let after = self.family.stats();
        (
            after.work.compactions - before.work.compactions,
            after.work.compaction_bytes_read - before.work.compaction_bytes_read,
        )
    }

    /// The same; returns the merges of slices, those that failed among them.
    pub(crate) fn merge_slices(&self) -> u64 {
        let before = self.family.stats().work.compaction_slices;
        self.scheduler.run_until_idle();
        self.family.stats().work.compaction_slices - before
    }

    /// Fills the disk but for so many bytes.
    pub(crate) fn leave_free(&self, bytes: u64) {
        self.sim.set_capacity(Some(1 << 40));
        let used = (1 << 40) - self.sim.free_bytes(Path::new("/db")).unwrap();
        self.sim.set_capacity(Some(used + bytes));
    }

    /// Every answer is right, or an error that names the damaged file; most are right.
    pub(crate) fn check_what_is_served(&self, damaged: &str) {
        let judge = |error: Error| {
            assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
            assert!(error.to_string().contains(damaged), "{error} does not name {damaged}");
        };
        let mut refused = 0;
        for (key, value) in &self.model {
            match self.family.get(key) {
                Ok(found) => assert_eq!(found.as_ref(), Some(value), "{key:?} beside {damaged}"),
                Err(error) => {
                    judge(error);
                    refused += 1;
                }
            }
        }
        assert!(refused < KEYS / 4, "{refused} keys are not served beside {damaged}");
        let mut scanned = Model::new();
        for entry in self.family.scan(ScanOptions::new()).unwrap().entries() {
            match entry {
                Ok((key, value)) => drop(scanned.insert(key, value)),
                Err(error) => return judge(error),
            }
        }
        assert!(scanned == self.model, "a scan shows something else beside {damaged}");
    }

    pub(crate) fn table_bytes(&self) -> u64 {
        let entries = self.sim.list(Path::new("/db")).unwrap();
        entries.iter().filter(|e| e.name.ends_with(".klog")).map(|e| e.len).sum()
    }

    pub(crate) fn check(&self, when: &str) {
        assert!(contents(&self.family, None) == self.model, "a scan shows something else {when}");
        for (key, value) in self.model.iter().step_by(7) {
            assert_eq!(self.family.get(key).unwrap().as_ref(), Some(value), "{key:?} {when}");
        }
        let problems = self.db.verify().unwrap().problems;
        assert!(problems.is_empty(), "{when}: {problems:?}");
    }

    /// The same after closing and opening, which forgets where the slices were cut.
    pub(crate) fn reopened(self) -> Self {
        let Self { sim, scheduler, db, family, model, random } = self;
        drop((family, scheduler));
        db.close().unwrap();
        let (db, scheduler) = open(&sim);
        let family = db.family("family").unwrap();
        Self { sim, scheduler, db, family, model, random }
    }
}
