//! Compactions of large runs by steps, on a simulated disk: what is on the disk meanwhile, what is
//! left when a compaction ends after any of its steps, and lives that go on from there, compared
//! with an ordered map.

#![expect(clippy::unwrap_used, reason = "test helpers fail by panicking")]

mod ended;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::common_support::seeds::{scaled, seed};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tidesdb::{
    Components, Compression, Db, DbOptions, Error, ErrorKind, Family, FamilyOptions, ScanOptions,
    Snapshot, SyncMode,
};
use tidesdb_sim::{
    Corruption, CrashProfile, ManualClock, ManualScheduler, Mutation, MutationKind, Phase, SimVfs,
};
use tidesdb_sys::vfs::Vfs;
use tidesdb_testkit::inspect::deep_check;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

const TABLE: u64 = 4 << 10;

fn open(sim: &Arc<SimVfs>) -> (Db, Arc<ManualScheduler>) {
    open_on(Arc::clone(sim) as _)
}

fn open_on(vfs: Arc<dyn Vfs>) -> (Db, Arc<ManualScheduler>) {
    let scheduler = Arc::new(ManualScheduler::new(1));
    let options = DbOptions::default()
        .log_segment_bytes(1 << 20)
        .sync_mode(SyncMode::Full)
        .compaction_threads(2);
    let components = Components {
        vfs,
        scheduler: Arc::clone(&scheduler) as _,
        clock: Arc::new(ManualClock::new(1_000_000)),
    };
    (Db::open_with("/db", options, components).unwrap(), scheduler)
}

fn family_options() -> FamilyOptions {
    FamilyOptions::default()
        .write_buffer_size(4 << 20)
        .target_table_bytes(TABLE)
        .block_size(512)
        .compression(Compression::None)
        .min_disk_space(0)
}

fn contents(family: &Family, snapshot: Option<&Snapshot>) -> Model {
    let options = match snapshot {
        Some(snapshot) => ScanOptions::new().snapshot(snapshot),
        None => ScanOptions::new(),
    };
    family.scan(options).unwrap().entries().map(|entry| entry.unwrap()).collect()
}

/// Bytes of the tables on the disk.
fn on_disk(sim: &SimVfs) -> u64 {
    let dir = Path::new("/db");
    let entries = sim.list(dir).unwrap().into_iter();
    let tables = entries.filter(|entry| entry.name.ends_with(".klog"));
    tables.map(|entry| sim.content(&dir.join(entry.name)).unwrap().len() as u64).sum()
}

fn runs(family: &Family) -> u64 {
    family.stats().levels.iter().map(|level| level.runs).sum()
}

const RUNS: u64 = 4;

/// Runs of equal size and unique keys, which lie in all of them: the first compacted, the others as
/// flushed.
fn equal_runs(family: &Family, keys: u64) -> Model {
    let mut model = Model::new();
    for run in 0..RUNS {
        for n in 0..keys {
            let (key, value) = ((n * RUNS + run).to_be_bytes(), [run as u8; 100]);
            family.put(&key, &value).unwrap();
            model.insert(key.to_vec(), value.to_vec());
        }
        family.flush().unwrap();
        if run == 0 {
            family.compact().unwrap();
        }
    }
    assert_eq!(runs(family), RUNS);
    model
}

fn is_edit(mutation: &Mutation) -> bool {
    let of_manifest = mutation.path.to_string_lossy().contains("MANIFEST");
    mutation.phase == Phase::After && mutation.kind == MutationKind::Sync && of_manifest
}

/// Each step lets go of what it has used up, of all runs, and that leaves the disk at once.
#[test]
fn a_compaction_of_equal_runs_needs_little_more_disk_than_they_take() {
    let sim = SimVfs::new(1);
    let (db, _scheduler) = open(&sim);
    let family = db.create_family("family", family_options()).unwrap();
    let model = equal_runs(&family, scaled(4_000));
    let before = on_disk(&sim);
    let (most, edits) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (noted, counted) = (Arc::clone(&most), Arc::clone(&edits));
    sim.on_mutation(Some(Arc::new(move |sim, mutation| {
        // ORDERING: relaxed; one thread.
        counted.fetch_add(u64::from(is_edit(mutation)), Ordering::Relaxed);
        noted.fetch_max(on_disk(sim), Ordering::Relaxed);
    })));
    family.compact().unwrap();
    sim.on_mutation(None);
    // ORDERING: relaxed; one thread.
    let (most, edits) = (most.load(Ordering::Relaxed), edits.load(Ordering::Relaxed));
    println!("{edits} steps, {most} bytes where the runs have {before}");
    assert!(edits >= 8, "{edits} steps");
    assert!(most < before * 5 / 4, "{most} bytes on the disk where the runs have {before}");
    assert_eq!(runs(&family), 1);
    assert!(contents(&family, None) == model);
    deep_check(&db, sim.as_ref(), Path::new("/db")).unwrap();
}

/// What a step has done is done: the compaction that comes after a crash has the less to write the
/// later it was.
#[test]
fn a_compaction_goes_on_where_a_crash_has_ended_it() {
    let sim = SimVfs::new(1);
    let (db, _scheduler) = open(&sim);
    let family = db.create_family("family", family_options()).unwrap();
    let model = equal_runs(&family, 4_000);
    let before = on_disk(&sim);
    let images = Arc::new(Mutex::new(Vec::new()));
    let taking = Arc::clone(&images);
    sim.on_mutation(Some(Arc::new(move |sim, mutation| {
        if is_edit(mutation) {
            taking.lock().unwrap().push(sim.crash_image(CrashProfile::Nothing, 1));
        }
    })));
    family.compact().unwrap();
    sim.on_mutation(None);
    let images = std::mem::take(&mut *images.lock().unwrap());
    let steps = images.len() as u64;
    assert!(steps >= 8, "{steps} steps");
    for (done, image) in (1..).zip(images) {
        let (db, _scheduler) = open(&image);
        let family = db.family("family").unwrap();
        assert!(contents(&family, None) == model, "after {done} steps");
        family.compact().unwrap();
        assert!(contents(&family, None) == model, "after {done} steps and the rest");
        let written = family.stats().work.compaction_bytes_written;
        // Some tables of each run reach over the border.
        let most = before * (steps - done) / steps + before / 8;
        assert!(written <= most, "{written} bytes written after {done} of {steps} steps");
    }
}

/// What is read of a family beside damage: what was put, or an error that names the file. Returns
/// how many keys are refused.
fn check_beside_damage(family: &Family, model: &Model, name: &str) -> usize {
    let judge = |error: Error| {
        assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
        assert!(error.to_string().contains(name), "{error} does not name {name}");
    };
    let mut refused = 0;
    for (key, value) in model {
        match family.get(key) {
            Ok(found) => assert_eq!(found.as_ref(), Some(value), "{key:?} beside {name}"),
            Err(error) => {
                judge(error);
                refused += 1;
            }
        }
    }
    refused
}

/// A table that is damaged between two steps, and lies in none of those that are done, ends the
/// compaction, which names it. What was done stays, nothing is hidden or shown again, and it goes
/// on once the damage is mended.
#[test]
fn a_table_damaged_between_two_steps_ends_the_compaction() {
    let mut refused = 0;
    for damaged_after in 1..8 {
        let sim = SimVfs::new(damaged_after);
        let (db, _scheduler) = open(&sim);
        let family = db.create_family("family", family_options()).unwrap();
        let model = equal_runs(&family, 4_000);
        // Tables of the newest run, whose keys come last: no step but the last ones reads them.
        let mut names = sim.list(Path::new("/db")).unwrap();
        names.retain(|entry| entry.name.ends_with(".klog"));
        names.sort_by(|a, b| a.name.cmp(&b.name));
        let damaged = &names[names.len() - 1 - damaged_after as usize];
        let (path, name) = (Path::new("/db").join(&damaged.name), damaged.name.clone());
        let at = damaged.len / 2;
        let (damaging, edits) = (path.clone(), AtomicU64::new(0));
        sim.on_mutation(Some(Arc::new(move |sim, mutation| {
            // ORDERING: relaxed; one thread.
            if is_edit(mutation) && edits.fetch_add(1, Ordering::Relaxed) + 1 == damaged_after {
                assert!(sim.corrupt(&damaging, at, Corruption::Flip(3)).unwrap());
            }
        })));
        let error = family.compact().unwrap_err();
        sim.on_mutation(None);
        assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
        assert!(error.to_string().contains(&name), "{error} does not name {name}");
        let steps = family.stats().work.compaction_steps;
        assert!(steps >= damaged_after, "{steps} steps of {damaged_after}");
        refused += check_beside_damage(&family, &model, &name);
        drop((family, db));
        let (db, _scheduler) = open(&sim);
        let family = db.family("family").unwrap();
        check_beside_damage(&family, &model, &name);
        drop((family, db));
        assert!(sim.corrupt(&path, at, Corruption::Flip(3)).unwrap());
        let (db, _scheduler) = open(&sim);
        let family = db.family("family").unwrap();
        family.compact().unwrap();
        assert_eq!(runs(&family), 1);
        assert!(contents(&family, None) == model);
        deep_check(&db, sim.as_ref(), Path::new("/db")).unwrap();
    }
    assert!(refused > 0, "no key is in a damaged block");
}

/// A life in which the power goes in the middle of compactions, and what was there is gone on with.
struct Life {
    sim: Arc<SimVfs>,
    db: Db,
    scheduler: Arc<ManualScheduler>,
    family: Family,
    model: Model,
    random: StdRng,
    /// Keys of which each was put once at most since it was last deleted, for single deletions.
    once: BTreeSet<u64>,
}

const KEYS: u64 = 1_500;

impl Life {
    fn new(number: u64) -> Self {
        let mut random = StdRng::seed_from_u64(seed("merge steps") ^ number);
        let sim = SimVfs::new(number);
        let (db, scheduler) = open(&sim);
        let mut options = family_options()
            .target_table_bytes(random.random_range(4..9) * 1024)
            .l1_file_count_trigger(random.random_range(2..5));
        if random.random_range(0..3) == 0 {
            options = options.klog_value_threshold(120);
        }
        let family = db.create_family("family", options).unwrap();
        let (model, once) = (Model::new(), BTreeSet::new());
        Self { sim, db, scheduler, family, model, random, once }
    }

    fn put(&mut self, n: u64) {
        let mut value = vec![0; self.random.random_range(20..160)];
        self.random.fill(value.as_mut_slice());
        self.family.put(&n.to_be_bytes(), &value).unwrap();
        self.model.insert(n.to_be_bytes().to_vec(), value);
    }

    fn write(&mut self) {
        let n = self.random.random_range(0..KEYS);
        match self.random.random_range(0..12) {
            0..3 => {
                self.family.delete(&n.to_be_bytes()).unwrap();
                self.model.remove(n.to_be_bytes().as_slice());
            }
            3 if self.random.random_range(0..60) == 0 => {
                let end = n + self.random.random_range(1..200);
                let (start, end) = (n.to_be_bytes(), end.min(KEYS).to_be_bytes());
                if start < end {
                    self.family.delete_range(&start, &end).unwrap();
                    self.model.retain(|key, _| *key < start.to_vec() || *key >= end.to_vec());
                }
            }
            4 | 5 => {
                let n = KEYS + n % 300;
                if self.once.remove(&n) {
                    self.family.single_delete(&n.to_be_bytes()).unwrap();
                    self.model.remove(n.to_be_bytes().as_slice());
                } else {
                    self.put(n);
                    self.once.insert(n);
                }
            }
            _ => self.put(n),
        }
    }

    fn check(&self, when: &str) {
        assert!(contents(&self.family, None) == self.model, "a scan shows something else {when}");
        for key in (0..KEYS + 300).step_by(5).map(u64::to_be_bytes) {
            let found = self.family.get(&key).unwrap();
            assert_eq!(found.as_ref(), self.model.get(key.as_slice()), "{key:?} {when}");
        }
    }

    /// Compacts whatever is to be compacted, with the power going after some of the edits. Returns
    /// an image.
    fn compact(&mut self) -> Option<Arc<SimVfs>> {
        let images =
            Arc::new(Mutex::new((StdRng::seed_from_u64(self.random.random()), Vec::new())));
        let taking = Arc::clone(&images);
        self.sim.on_mutation(Some(Arc::new(move |sim, mutation| {
            let mut taken = taking.lock().unwrap();
            if is_edit(mutation) && taken.0.random_range(0..4) == 0 {
                taken.1.push(sim.crash_image(CrashProfile::Nothing, 1));
            }
        })));
        let start = self.random.random_range(0..KEYS);
        match self.random.random_range(0..4) {
            0 => self.family.compact().unwrap(),
            1 => {
                let (start, end) = (start.to_be_bytes(), (start + 20).to_be_bytes());
                self.family.compact_range(start..end).unwrap();
            }
            _ => drop(self.scheduler.run_until_idle()),
        }
        self.sim.on_mutation(None);
        let mut images = std::mem::take(&mut images.lock().unwrap().1);
        let chosen = self.random.random_range(0..images.len().max(1));
        (chosen < images.len()).then(|| images.swap_remove(chosen))
    }

    /// Goes on with what a power cut has left.
    fn go_on_with(&mut self, image: Arc<SimVfs>, when: &str) {
        let (db, scheduler) = open(&image);
        self.family = db.family("family").unwrap();
        (self.db, self.scheduler, self.sim) = (db, scheduler, image);
        self.check(when);
    }
}

#[test]
fn lives_with_crashes_between_steps_show_what_was_written() {
    let (mut edits, mut cuts) = (0, 0);
    for number in 0..scaled(5) {
        let mut life = Life::new(number);
        for round in 0..24 {
            let when = format!("in round {round} of life {number}");
            for _ in 0..life.random.random_range(1..4) {
                for _ in 0..life.random.random_range(50..700) {
                    life.write();
                }
                life.family.flush().unwrap();
            }
            let snapshot = (life.random.random_range(0..3) == 0).then(|| life.db.snapshot());
            let seen = life.model.clone();
            for _ in 0..200 {
                life.write();
            }
            let image = life.compact();
            edits += 1;
            if let Some(snapshot) = &snapshot {
                let shown = contents(&life.family, Some(snapshot));
                assert!(shown == seen, "a snapshot shows something else {when}");
            }
            drop(snapshot);
            life.check(&when);
            if let Some(image) = image {
                life.go_on_with(image, &format!("{when}, cut"));
                cuts += 1;
            }
        }
        life.family.compact().unwrap();
        life.check("in the end");
        deep_check(&life.db, life.sim.as_ref(), Path::new("/db")).unwrap();
    }
    assert!(cuts > edits / 4, "{cuts} cuts in {edits} rounds");
}

/// A step that would leave less free than `min_disk_space` is made smaller; when none fits any
/// more, the compaction waits and says why. What was done stays done, and it goes on when there is
/// space.
#[test]
fn steps_keep_the_free_space_that_was_asked_for() {
    let sim = SimVfs::new(1);
    let (db, _scheduler) = open(&sim);
    let family = db.create_family("family", family_options()).unwrap();
    let model = equal_runs(&family, 4_000);
    let leave = |bytes: u64| {
        sim.set_capacity(Some(1 << 40));
        let used = (1 << 40) - sim.free_bytes(Path::new("/db")).unwrap();
        sim.set_capacity(Some(used + bytes));
    };
    let (kept, least) = (1 << 20, Arc::new(AtomicU64::new(u64::MAX)));
    family.set_options(family_options().min_disk_space(kept)).unwrap();
    let noted = Arc::clone(&least);
    leave(kept + 1024);
    let refused = family.compact().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Full, "{refused}");
    assert!(refused.to_string().contains("min_disk_space"), "{refused}");
    // Room for a part of a usual step, on top of what the manifest takes.
    leave(kept + 40 * TABLE);
    sim.on_mutation(Some(Arc::new(move |sim, _| {
        let free = sim.free_bytes(Path::new("/db")).unwrap();
        // ORDERING: relaxed; one thread.
        noted.fetch_min(free, Ordering::Relaxed);
    })));
    family.compact().unwrap();
    sim.on_mutation(None);
    // ORDERING: relaxed; one thread.
    let least = least.load(Ordering::Relaxed);
    assert!(least + 8 * TABLE >= kept, "{least} bytes were free where {kept} are kept");
    assert_eq!(runs(&family), 1);
    assert!(contents(&family, None) == model);
}
