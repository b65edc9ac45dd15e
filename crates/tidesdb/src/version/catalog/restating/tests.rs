//! Restating beside edits: crashes, failures, what edits wait for, and how it scales.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use tidesdb_files::file_numbers::FileNumbers;
use tidesdb_files::manifest::{Change, TableRecord, read_manifest};
use tidesdb_files::naming;
use tidesdb_sim::{CrashProfile, FaultError, FaultKind, FaultVfs, Op, OpSet, SimVfs};
use tidesdb_sys::vfs::{OpenMode, RealVfs};

use super::*;
use crate::version::catalog::sync_in_turn;

type Tables = BTreeSet<u64>;

/// Tables that the edits that returned leave, and those that the one under way would leave.
type Expected = Arc<Mutex<(Tables, Option<Tables>)>>;

struct Fixture {
    catalog: Mutex<Catalog>,
    expected: Expected,
    dir: PathBuf,
}

fn table(number: u64) -> Change {
    let key = |end: u64| format!("customer{:016x}", number.wrapping_mul(7919) + end).into_bytes();
    let record = TableRecord {
        number,
        level: 2,
        run: number % 16,
        bytes: 64 << 20,
        entries: 500_000,
        smallest_key: key(0),
        largest_key: key(7000),
        highest_sequence: number << 26,
        ..TableRecord::default()
    };
    Change::AddTable { family: 1, table: Arc::new(record) }
}

impl Fixture {
    /// A catalog of so many tables, which counts as long at once.
    fn new(vfs: Arc<dyn Vfs>, dir: &Path, tables: u64) -> Self {
        let numbers = Arc::new(FileNumbers::starting_at(1));
        let (synced, state) = (Arc::clone(&vfs), PersistedState::default());
        let sync = |files| sync_in_turn(synced.as_ref(), dir, files);
        let mut catalog = Catalog::create(vfs, dir, numbers, state, sync).unwrap();
        let (name, options) = (String::from("load"), "".into());
        let mut changes = vec![Change::CreateFamily { family: 1, name, options }];
        let added: Tables = (0..tables).map(|_| catalog.numbers.next()).collect();
        changes.extend(added.iter().map(|&number| table(number)));
        catalog.commit(changes).unwrap();
        catalog.least_long_bytes = 0;
        catalog.restated_bytes = catalog.writer.bytes() / 3;
        let expected = Arc::new(Mutex::new((added, None)));
        Self { catalog: Mutex::new(catalog), expected, dir: dir.to_path_buf() }
    }

    /// As if the manifest had become long, but not so much that an edit restates it.
    fn make_long(&self) {
        let mut catalog = lock(&self.catalog);
        catalog.restated_bytes = catalog.writer.bytes() / 3;
    }

    /// A flush that adds a table, or a compaction that replaces the oldest one.
    fn edit(&self) -> Result<()> {
        let mut catalog = lock(&self.catalog);
        let number = catalog.numbers.next();
        let mut next = lock(&self.expected).0.clone();
        let mut changes = vec![table(number)];
        if number.is_multiple_of(2)
            && let Some(oldest) = next.pop_first()
        {
            changes.push(Change::RemoveTable { family: 1, number: oldest });
        }
        next.insert(number);
        // Of one that is uncertain nothing more is written before another manifest is in force.
        if catalog.is_on_disk() {
            lock(&self.expected).1 = Some(next.clone());
        }
        let outcome = catalog.commit(changes);
        let mut expected = lock(&self.expected);
        // An uncertain one may be found until the next edit returned, but not one that was refused.
        if outcome.is_ok() {
            expected.0 = next;
        }
        if outcome.is_ok() || catalog.is_on_disk() {
            expected.1 = None;
        }
        outcome
    }

    /// All steps of `restate_beside`, with edits between any two of them.
    fn restate_among_edits(&self) -> Result<()> {
        let edits = |count| (0..count).for_each(|_| drop(self.edit()));
        edits(2);
        self.make_long();
        let Some(begun) = lock(&self.catalog).begin_beside() else { return Ok(()) };
        edits(3);
        let written = begun.write().and_then(|mut writer| {
            edits(3);
            for _ in 0..2 {
                let lacking = lock(&self.catalog).take_lacking(begun.number);
                edits(1);
                writer.append_all(&lacking)?;
                edits(1);
            }
            Ok(writer)
        });
        let (outcome, dead) = match written {
            Ok(writer) => {
                let bytes = writer.bytes();
                lock(&self.catalog).take_over(writer, bytes)
            }
            Err(cause) => {
                lock(&self.catalog).put_off(begun.number);
                (Err(cause), Some(begun.number))
            }
        };
        edits(1);
        if let Some(number) = dead {
            let path = lock(&self.catalog).path_of(number);
            let _ = begun.vfs.remove(&path);
        }
        edits(2);
        outcome
    }
}

/// The manifest in force, as an opening reads it.
fn read(vfs: &dyn Vfs, dir: &Path) -> PersistedState {
    let number = current::read_current(vfs, dir).unwrap().unwrap();
    let path = dir.join(naming::FileKind::Manifest(number).name());
    let file = vfs.open(&path, OpenMode::Read).unwrap();
    let (edits, _) = read_manifest(file.as_ref(), &path, number).unwrap();
    let mut state = PersistedState::default();
    edits.iter().for_each(|(_, edit)| assert!(state.apply(edit)));
    state
}

/// The tables that an opening finds.
fn found(vfs: &dyn Vfs, dir: &Path) -> Tables {
    read(vfs, dir).families[&1].tables.keys().copied().collect()
}

fn sim() -> Arc<SimVfs> {
    let sim = SimVfs::new(1);
    sim.create_dir(Path::new("/db")).unwrap();
    sim.sync_dir(Path::new("/")).unwrap();
    sim
}

/// On a full disk the edits that free it were refused, and then the sound manifest was given up.
#[test]
fn edits_are_appended_where_a_shorter_manifest_finds_no_space() {
    let sim = sim();
    let fixture = Fixture::new(Arc::clone(&sim) as _, Path::new("/db"), 200);
    // Long enough for an edit to restate it.
    lock(&fixture.catalog).restated_bytes = 1;
    assert!(lock(&fixture.catalog).starts_another_manifest());
    sim.set_capacity(Some(1 << 40));
    let used = (1 << 40) - sim.free_bytes(Path::new("/db")).unwrap();
    sim.set_capacity(Some(used + 4096));
    fixture.edit().unwrap();
    fixture.edit().unwrap();
    assert_eq!(found(sim.as_ref(), Path::new("/db")), lock(&fixture.expected).0);
    sim.set_capacity(Some(used));
    while fixture.edit().is_ok() {}
    assert_eq!(found(sim.as_ref(), Path::new("/db")), lock(&fixture.expected).0);
    sim.set_capacity(None);
    fixture.edit().unwrap();
    assert!(!lock(&fixture.catalog).starts_another_manifest());
    assert_eq!(found(sim.as_ref(), Path::new("/db")), lock(&fixture.expected).0);
}

/// I-350.
#[test]
fn a_crash_at_any_moment_leaves_every_edit_that_returned() {
    let sim = sim();
    let fixture = Fixture::new(Arc::clone(&sim) as _, Path::new("/db"), 20);
    let (expected, images) = (Arc::clone(&fixture.expected), Arc::new(AtomicU64::new(0)));
    let counted = Arc::clone(&images);
    sim.on_mutation(Some(Arc::new(move |sim: &SimVfs, mutation| {
        let (known, next) = lock(&expected).clone();
        for profile in CrashProfile::ALL {
            let image = sim.crash_image(profile, mutation.index);
            let found = found(image.as_ref(), Path::new("/db"));
            assert!(found == known || Some(found) == next, "{profile:?} at {mutation:?}");
            counted.fetch_add(1, Ordering::Relaxed);
        }
    })));
    let number = lock(&fixture.catalog).writer.number();
    for _ in 0..3 {
        fixture.restate_among_edits().unwrap();
    }
    sim.on_mutation(None);
    assert!(lock(&fixture.catalog).writer.number() > number);
    assert!(images.load(Ordering::Relaxed) > 1000, "{images:?} images");
    let manifests = sim.list(Path::new("/db")).unwrap();
    let manifests = manifests.iter().filter(|entry| entry.name.starts_with("MANIFEST")).count();
    assert_eq!(manifests, 1);
}

#[test]
fn a_failure_of_any_call_loses_no_edit_and_keeps_none_that_was_refused() {
    for call in 0.. {
        let (sim, dir) = (sim(), Path::new("/db"));
        let faults = FaultVfs::new(Arc::clone(&sim) as _);
        let fixture = Fixture::new(Arc::clone(&faults) as _, dir, 20);
        for kind in [FaultKind::Once, FaultKind::Forever] {
            faults.reset();
            faults.fail_call(call, kind, FaultError::Kind(std::io::ErrorKind::StorageFull));
            let _ = fixture.restate_among_edits();
            let fired = faults.fired() > 0;
            faults.clear_faults();
            let (known, next) = lock(&fixture.expected).clone();
            for profile in CrashProfile::ALL {
                let found = found(sim.crash_image(profile, call).as_ref(), dir);
                let right = found == known || Some(found) == next;
                assert!(right, "{profile:?}, call {call}, {kind:?}");
            }
            // It goes on, and comes to a restatement again.
            fixture.edit().unwrap();
            fixture.restate_among_edits().unwrap();
            fixture.edit().unwrap();
            let known = lock(&fixture.expected).0.clone();
            let image = sim.crash_image(CrashProfile::Nothing, call);
            assert_eq!(found(image.as_ref(), dir), known);
            if !fired && kind == FaultKind::Forever {
                assert!(call > 30, "only {call} calls");
                return;
            }
        }
    }
}

/// What an edit may have to wait for is as long as the edits that were made last.
#[test]
fn little_is_written_while_edits_wait() {
    let sim = sim();
    let fixture = Fixture::new(Arc::clone(&sim) as _, Path::new("/db"), 2000);
    let begun = lock(&fixture.catalog).begin_beside().unwrap();
    let mut writer = begun.write().unwrap();
    let restated = writer.bytes();
    fixture.edit().unwrap();
    writer.append_all(&lock(&fixture.catalog).take_lacking(begun.number)).unwrap();
    fixture.edit().unwrap();
    let written = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&written);
    sim.on_mutation(Some(Arc::new(move |_: &SimVfs, mutation| {
        counted.fetch_add(mutation.len, Ordering::Relaxed);
    })));
    let (outcome, dead) = lock(&fixture.catalog).take_over(writer, restated);
    sim.on_mutation(None);
    outcome.unwrap();
    assert!(dead.is_some());
    let written = written.load(Ordering::Relaxed);
    assert!(restated > 500_000 && written < 4096, "{written} bytes of {restated}");
}

/// A manifest that was begun before an append failed would lack what became of that edit.
#[test]
fn a_manifest_that_was_called_off_does_not_come_into_force() {
    let sim = sim();
    let faults = FaultVfs::new(Arc::clone(&sim) as _);
    let fixture = Fixture::new(Arc::clone(&faults) as _, Path::new("/db"), 20);
    let begun = lock(&fixture.catalog).begin_beside().unwrap();
    let writer = begun.write().unwrap();
    faults.reset();
    faults.fail_call(0, FaultKind::Once, FaultError::Kind(std::io::ErrorKind::Other));
    fixture.edit().unwrap_err();
    fixture.edit().unwrap();
    let in_force = lock(&fixture.catalog).writer.number();
    let (outcome, dead) = lock(&fixture.catalog).take_over(writer, 1);
    outcome.unwrap();
    assert_eq!(dead, Some(begun.number));
    assert_eq!(lock(&fixture.catalog).writer.number(), in_force);
    let known = lock(&fixture.expected).0.clone();
    let image = sim.crash_image(CrashProfile::Nothing, 1);
    assert_eq!(found(image.as_ref(), Path::new("/db")), known);
}

/// A full disk has no place for the next `CURRENT`. The catalog wrote no edit before another
/// manifest was in force, for which there was no place either.
#[test]
fn a_switch_that_was_not_begun_leaves_the_manifest_in_force() {
    let sim = sim();
    let faults = FaultVfs::new(Arc::clone(&sim) as _);
    let fixture = Fixture::new(Arc::clone(&faults) as _, Path::new("/db"), 20);
    let begun = lock(&fixture.catalog).begin_beside().unwrap();
    let writer = begun.write().unwrap();
    faults.reset();
    faults.count_only(OpSet::of(&[Op::Create]));
    faults.fail_call(0, FaultKind::Forever, FaultError::NO_SPACE);
    let (outcome, dead) = lock(&fixture.catalog).take_over(writer, 1);
    outcome.unwrap_err();
    assert_eq!(dead, Some(begun.number));
    fixture.edit().unwrap();
    let known = lock(&fixture.expected).0.clone();
    let image = sim.crash_image(CrashProfile::Nothing, 1);
    assert_eq!(found(image.as_ref(), Path::new("/db")), known);
}

/// Measures a catalog of so many tables, with edits one after the other while it is restated:
/// bytes, seconds to restate and to read, and the longest edit before and meanwhile.
fn measure(tables: u64, edits: usize) -> (u64, [f64; 4]) {
    let dir = tempfile::tempdir_in(".").unwrap();
    let vfs: Arc<dyn Vfs> = Arc::new(RealVfs::new());
    let fixture = Fixture::new(Arc::clone(&vfs), dir.path(), tables);
    let longest_of = |go_on: &dyn Fn(usize) -> bool| {
        let mut longest = 0.0_f64;
        for count in 0.. {
            if !go_on(count) {
                break;
            }
            let begun = Instant::now();
            let mut catalog = lock(&fixture.catalog);
            let number = catalog.numbers.next();
            catalog.commit(vec![table(number)]).unwrap();
            drop(catalog);
            longest = longest.max(begun.elapsed().as_secs_f64());
            // The lock is not fair, and nothing edits without a pause.
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        longest
    };
    lock(&fixture.catalog).restated_bytes = u64::MAX / 8;
    let before = longest_of(&|count| count < edits);
    fixture.make_long();
    let (meanwhile, restating) = std::thread::scope(|scope| {
        let restates = scope.spawn(|| {
            let begun = Instant::now();
            restate_beside(&fixture.catalog).unwrap();
            begun.elapsed().as_secs_f64()
        });
        let meanwhile = longest_of(&|_| !restates.is_finished());
        (meanwhile, restates.join().unwrap())
    });
    let bytes = lock(&fixture.catalog).writer.bytes();
    let begun = Instant::now();
    assert!(read(vfs.as_ref(), &fixture.dir).families.contains_key(&1));
    (bytes, [restating, begun.elapsed().as_secs_f64(), before, meanwhile])
}

#[test]
fn edits_go_on_while_a_manifest_is_restated() {
    measure(2000, 10);
}

/// `cargo test --release -p tidesdb --lib catalog -- --ignored --nocapture`
#[test]
#[ignore = "takes seconds, and prints measurements"]
fn figures_of_a_hundred_thousand_tables() {
    for tables in [1_000, 10_000, 100_000] {
        let (bytes, [restating, reading, before, meanwhile]) = measure(tables, 200);
        println!(
            "{tables:7} tables: {:6.2} MB, restated in {restating:.3} s, read in {reading:.3} s; \
             longest edit {:.1} ms before, {:.1} ms meanwhile",
            bytes as f64 / 1e6,
            before * 1e3,
            meanwhile * 1e3,
        );
    }
}
