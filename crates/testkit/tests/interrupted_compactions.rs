//! Compactions that are cut short, and tables that compactions pass over, on a simulated disk.
//!
//! The files are laid out by hand for each fact, because random workloads are too small to have a
//! compaction of several parts or tables that are worth leaving as they are.

#![expect(clippy::unwrap_used, reason = "test helpers fail by panicking")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tidesdb::{
    Components, Compression, Db, DbOptions, Family, FamilyOptions, LevelStats, ScanOptions,
    SyncMode,
};
use tidesdb_sim::{CrashProfile, ManualClock, ManualScheduler, MutationKind, Phase, SimVfs};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

const KEYS: u64 = 400;

fn open(sim: &Arc<SimVfs>, compaction_threads: usize) -> Db {
    let options = DbOptions::default()
        .log_segment_bytes(1 << 20)
        .sync_mode(SyncMode::Full)
        .compaction_threads(compaction_threads);
    let components = Components {
        vfs: Arc::clone(sim) as _,
        scheduler: Arc::new(ManualScheduler::new(1)),
        clock: Arc::new(ManualClock::new(1_000_000)),
    };
    Db::open_with("/db", options, components).unwrap()
}

fn family_options(target_table_bytes: u64) -> FamilyOptions {
    FamilyOptions::default()
        .write_buffer_size(1 << 20)
        .target_table_bytes(target_table_bytes)
        .block_size(256)
        .compression(Compression::None)
        .min_disk_space(0)
}

fn key(n: u64) -> Vec<u8> {
    format!("key-{n:04}").into_bytes()
}

/// A family and what it must hold.
struct Both {
    family: Family,
    model: Model,
}

impl Both {
    fn put(&mut self, n: u64, what: u8) {
        let value = vec![what; 200];
        self.family.put(&key(n), &value).unwrap();
        self.model.insert(key(n), value);
    }

    fn delete(&mut self, n: u64) {
        self.family.delete(&key(n)).unwrap();
        self.model.remove(&key(n));
    }

    /// All keys in one run of the second level, so many to a table.
    fn filled(family: Family, keys_per_table: u64) -> Self {
        let mut both = Self { family, model: Model::new() };
        for n in 0..KEYS {
            both.put(n, b'o');
            if (n + 1) % keys_per_table == 0 {
                both.family.flush().unwrap();
            }
        }
        // Tables that overlap nothing are moved as they are.
        both.family.compact().unwrap();
        let level = compacted(&both.family);
        assert_eq!((level.runs, level.tables), (1, KEYS / keys_per_table), "{level:?}");
        both
    }
}

/// The statistics of the second level, which compactions write.
fn compacted(family: &Family) -> LevelStats {
    family.stats().levels.into_iter().find(|level| level.level == 2).unwrap_or_default()
}

fn contents(family: &Family) -> Model {
    let scan = family.scan(ScanOptions::new()).unwrap();
    let mut last = None;
    let entries = scan.entries().map(|entry| entry.unwrap());
    entries
        .inspect(|(key, _)| assert!(last.replace(key.clone()) < Some(key.clone()), "{key:?} again"))
        .collect()
}

fn check(family: &Family, model: &Model, when: &str) {
    assert!(contents(family) == *model, "a scan shows something else {when}");
    for key in (0..KEYS).map(key) {
        assert_eq!(family.get(&key).unwrap().as_ref(), model.get(&key), "{key:?} {when}");
    }
}

/// I-36. The one table of the oldest run reaches into all three parts of the compaction, and each
/// part takes its share of it. The part that lets go of it before the others are done loses theirs.
#[test]
fn a_table_in_several_parts_stays_until_all_of_them_are_compacted() {
    let sim = SimVfs::new(1);
    let db = open(&sim, 3);
    let family = db.create_family("family", family_options(1 << 30)).unwrap();
    let mut both = Both::filled(family, KEYS);
    both.family.set_options(family_options(8 << 10)).unwrap();
    (0..KEYS).step_by(2).for_each(|n| both.put(n, b'n'));
    both.family.flush().unwrap();
    let images = Arc::new(Mutex::new(Vec::new()));
    let taking = Arc::clone(&images);
    sim.on_mutation(Some(Arc::new(move |sim, mutation| {
        // What is in tables and what tables there are; the rest changes nothing that can be seen.
        let kinds = [MutationKind::Sync, MutationKind::Remove];
        if mutation.phase == Phase::After && kinds.contains(&mutation.kind) {
            let when = format!("after {:?} of {}", mutation.kind, mutation.path.display());
            taking.lock().unwrap().push((when, sim.crash_image(CrashProfile::Nothing, 1)));
        }
    })));
    both.family.compact().unwrap();
    sim.on_mutation(None);
    assert!(compacted(&both.family).tables > 5, "{:?}", both.family.stats());
    check(&both.family, &both.model, "after the compaction");
    let taken = std::mem::take(&mut *images.lock().unwrap());
    assert!(taken.len() > 5, "{}", taken.len());
    for (when, image) in taken {
        let db = open(&image, 3);
        let family = db.family("family").unwrap();
        check(&family, &both.model, &when);
        family.compact().unwrap();
        check(&family, &both.model, &format!("{when}, compacted again"));
        let problems = db.verify().unwrap().problems;
        assert!(problems.is_empty(), "{when}: {problems:?}");
    }
}

/// I-36. Parts end between the tables of the newer run, which is larger, and so within those of the
/// oldest. A part that begins within one must not put anything next to it before it goes.
#[test]
fn a_part_that_begins_within_a_table_of_the_oldest_run_changes_nothing_before_the_end() {
    // Where the tables of the two runs end depends on the sizes of values.
    for larger in [500, 700, 900, 2000] {
        compact_into_tables_cut_elsewhere(larger);
    }
}

fn compact_into_tables_cut_elsewhere(larger: usize) {
    let sim = SimVfs::new(1);
    let db = open(&sim, 3);
    let family = db.create_family("family", family_options(12 << 10)).unwrap();
    let mut both = Both { family, model: Model::new() };
    (0..KEYS).for_each(|n| both.put(n, b'o'));
    both.family.compact().unwrap();
    assert!(compacted(&both.family).tables > 5, "{:?}", both.family.stats());
    both.family.set_options(family_options(8 << 10)).unwrap();
    for key in (0..KEYS).map(key) {
        both.family.put(&key, &vec![b'n'; larger]).unwrap();
        both.model.insert(key, vec![b'n'; larger]);
    }
    both.family.flush().unwrap();
    let looks = Arc::new(Mutex::new(0));
    let (family, model, count) = (both.family.clone(), both.model.clone(), Arc::clone(&looks));
    sim.on_mutation(Some(Arc::new(move |_, mutation| {
        if mutation.phase == Phase::After && mutation.kind == MutationKind::Sync {
            check(&family, &model, "during the compaction");
            *count.lock().unwrap() += 1;
        }
    })));
    both.family.compact().unwrap();
    sim.on_mutation(None);
    assert!(*looks.lock().unwrap() > 2);
    check(&both.family, &both.model, "after the compaction");
    assert!(db.verify().unwrap().problems.is_empty());
}

/// I-37. Tables of the oldest run overlap nothing and may stay as they are, but for those that
/// begin with a key of which a newer version was met before.
#[test]
fn a_table_whose_first_key_was_met_before_is_not_passed_over() {
    let sim = SimVfs::new(1);
    let db = open(&sim, 1);
    let family = db.create_family("family", family_options(8 << 10)).unwrap();
    let mut both = Both::filled(family, 25);
    // The first key of one table is deleted, that of another put again.
    both.delete(2 * 25);
    both.put(4 * 25, b'n');
    both.family.flush().unwrap();
    let before = both.family.stats();
    both.family.compact().unwrap();
    let after = both.family.stats();
    let written = after.work.compaction_bytes_written - before.work.compaction_bytes_written;
    assert!(
        written < compacted(&both.family).bytes / 2,
        "no table was passed over: {written} bytes"
    );
    assert_eq!(compacted(&both.family).runs, 1, "{after:?}");
    check(&both.family, &both.model, "after the compaction");
    drop((both.family, db));
    let db = open(&sim, 1);
    check(&db.family("family").unwrap(), &both.model, "opened again");
}
