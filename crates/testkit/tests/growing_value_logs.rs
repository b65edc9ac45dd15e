//! Value logs that flushes and compactions append to (I-407): few of them for many flushes, and
//! nothing is lost or kept too long, whatever fails and whenever the power does.
#![expect(clippy::unwrap_used, reason = "test helpers fail by panicking")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tidesdb::{Components, Db, DbOptions, Family, FamilyOptions, Result};
use tidesdb_sim::rng::SplitMix64;
use tidesdb_sim::{
    CallRecord, CrashProfile, FaultError, FaultKind, FaultVfs, ManualClock, ManualScheduler,
    MutationKind, Op, OpSet, Phase, SimVfs,
};
use tidesdb_sys::sched::Lane;
use tidesdb_sys::vfs::{OpenMode, Vfs};
use tidesdb_testkit::inspect::deep_check;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// From so many flushes on, each appends: a log of one flush is less than a part in 32.
const FLUSHES: u64 = 40;
const VALUES: u64 = 4;

/// Keys of different flushes lie between each other.
fn key(flush: u64, n: u64) -> Vec<u8> {
    (flush * VALUES + n).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes().to_vec()
}

fn value(flush: u64, n: u64) -> Vec<u8> {
    let mut value = vec![0; 900 + (n * 10) as usize];
    SplitMix64::new(flush * VALUES + n).fill(&mut value);
    value
}

fn try_open(vfs: Arc<dyn Vfs>) -> Result<(Db, Arc<ManualScheduler>)> {
    try_open_at("/db", vfs)
}

fn try_open_at(path: &str, vfs: Arc<dyn Vfs>) -> Result<(Db, Arc<ManualScheduler>)> {
    let scheduler = Arc::new(ManualScheduler::new(1));
    let clock = Arc::new(ManualClock::new(1_000_000));
    let components = Components { vfs, scheduler: Arc::clone(&scheduler) as _, clock };
    let options = DbOptions::default().compaction_threads(1).flush_threads(1);
    Db::open_with(path, options, components).map(|db| (db, scheduler))
}

fn family_options() -> FamilyOptions {
    FamilyOptions::default()
        .write_buffer_size(1 << 20)
        .klog_value_threshold(100)
        .min_disk_space(0)
        .l1_file_count_trigger(500)
}

fn put(family: &Family, model: &mut Model, number: u64) {
    for n in 0..VALUES {
        family.put(&key(number, n), &value(number, n)).unwrap();
        model.insert(key(number, n), value(number, n));
    }
}

fn flush(family: &Family, model: &mut Model, number: u64) -> Result<()> {
    put(family, model, number);
    family.flush()
}

fn flushed(family: &Family, flushes: u64) -> Model {
    let mut model = Model::new();
    (0..flushes).for_each(|number| flush(family, &mut model, number).unwrap());
    model
}

/// Value logs of which three of four values are deleted, and what is left.
fn with_garbage(family: &Family) -> Model {
    let mut model = flushed(family, FLUSHES);
    for number in 0..FLUSHES {
        for n in 1..VALUES {
            family.delete(&key(number, n)).unwrap();
            model.remove(&key(number, n));
        }
    }
    family.flush().unwrap();
    model
}

fn check_contents(family: &Family, model: &Model, what: &str) {
    for (key, value) in model {
        let found = family.get(key).unwrap();
        assert!(found.as_ref() == Some(value), "{what}: {key:02x?}");
    }
}

fn check(db: &Db, sim: &SimVfs, model: &Model, what: &str) {
    check_contents(&db.family("values").unwrap(), model, what);
    deep_check(db, sim, Path::new("/db")).map_err(|e| format!("{what}: {e}")).unwrap();
}

/// Opens what is on a disk and checks it.
fn check_image(image: &Arc<SimVfs>, model: &Model, what: &str) {
    let (db, scheduler) = try_open(Arc::clone(image) as _).unwrap();
    check(&db, image, model, what);
    scheduler.run_until_idle();
    db.family("values").unwrap().compact().unwrap();
    check(&db, image, model, what);
}

fn value_logs(sim: &SimVfs) -> BTreeMap<String, u64> {
    value_logs_in(sim, "/db")
}

fn value_logs_in(sim: &SimVfs, path: &str) -> BTreeMap<String, u64> {
    let entries = sim.list(Path::new(path)).unwrap().into_iter();
    let logs = entries.filter(|entry| entry.name.ends_with(".vlog"));
    logs.map(|entry| (entry.name, entry.len)).collect()
}

#[test]
fn many_flushes_fill_few_value_logs() {
    let sim = SimVfs::new(1);
    let (db, _scheduler) = try_open(Arc::clone(&sim) as _).unwrap();
    let family = db.create_family("values", family_options()).unwrap();
    let model = flushed(&family, 400);
    let logs = value_logs(&sim);
    // The first 32 have a value log each; then 32 become full while the values grow by e.
    assert!((60..120).contains(&logs.len()), "{} value logs for 400 flushes", logs.len());
    let (longest, all) = (logs.values().max().unwrap(), logs.values().sum::<u64>());
    assert!(longest * 32 >= all / 2, "{longest} bytes of {all}");
    check(&db, &sim, &model, "at once");
    check_image(&sim.crash_image(CrashProfile::Nothing, 1), &model, "after a power cut");
    drop(family);
    db.close().unwrap();
    let (db, _scheduler) = try_open(Arc::clone(&sim) as _).unwrap();
    check(&db, &sim, &model, "after a close");
    // Nothing is appended to what an earlier opening has begun.
    let (before, mut model) = (value_logs(&sim), model);
    flush(&db.family("values").unwrap(), &mut model, 400).unwrap();
    let after = value_logs(&sim);
    assert!(before.iter().all(|(name, bytes)| after.get(name) == Some(bytes)), "{after:?}");
    check(&db, &sim, &model, "after one more");
}

/// Images of the disk at each change of some work, with what must be in them.
fn images_of(sim: &Arc<SimVfs>, work: impl FnOnce()) -> Vec<Arc<SimVfs>> {
    const PROFILES: [CrashProfile; 5] = [
        CrashProfile::Nothing,
        CrashProfile::Everything,
        CrashProfile::Random,
        CrashProfile::Torn,
        CrashProfile::Tail,
    ];
    let images = Arc::new(Mutex::new(Vec::new()));
    let (shared, disk) = (Arc::clone(&images), Arc::downgrade(sim));
    sim.on_mutation(Some(Arc::new(move |_, change| {
        let mut images = shared.lock().unwrap();
        let profile = PROFILES[change.index as usize % PROFILES.len()];
        if let Some(disk) = disk.upgrade().filter(|_| change.phase == Phase::After) {
            images.push(disk.crash_image(profile, change.index));
        }
    })));
    work();
    sim.on_mutation(None);
    let mut images = images.lock().unwrap();
    std::mem::take(&mut images)
}

#[test]
fn a_flush_that_appends_loses_nothing_when_the_power_fails() {
    let sim = SimVfs::new(2);
    let (db, _scheduler) = try_open(Arc::clone(&sim) as _).unwrap();
    let family = db.create_family("values", family_options()).unwrap();
    let mut model = flushed(&family, FLUSHES);
    let logs = value_logs(&sim).len();
    let mut appended = 0;
    for number in FLUSHES..FLUSHES + 8 {
        let before = model.clone();
        let images = images_of(&sim, || flush(&family, &mut model, number).unwrap());
        assert!(images.len() >= 5, "{} images", images.len());
        for (at, image) in images.iter().enumerate() {
            check_image(image, &before, &format!("flush {number}, image {at}"));
        }
        check_image(&sim.crash_image(CrashProfile::Nothing, 1), &model, "after the flush");
        appended += u64::from(value_logs(&sim).len() == logs);
    }
    assert!(appended >= 1, "no flush appended to a value log");
}

/// What a flush has written when one of its calls fails is cut off again. The next flush appends
/// there.
#[test]
fn a_flush_that_fails_leaves_value_logs_as_they_were() {
    let (mut failed, mut at_the_edit) = (0, 0);
    for call in 0.. {
        let sim = SimVfs::new(3);
        let faults = FaultVfs::new(Arc::clone(&sim) as _);
        let (db, _scheduler) = try_open(Arc::clone(&faults) as _).unwrap();
        let family = db.create_family("values", family_options()).unwrap();
        let mut model = flushed(&family, FLUSHES);
        let before = value_logs(&sim);
        put(&family, &mut model, FLUSHES);
        faults.count_only(OpSet::CHANGES);
        faults.reset();
        faults.record(true);
        faults.fail_call(call, FaultKind::Once, FaultError::IO);
        let result = family.flush();
        if faults.fired() == 0 {
            break;
        }
        let what = format!("call {call}: {:?}", faults.records().get(call as usize));
        faults.clear_faults();
        check_image(&sim.fork(), &model, &what);
        if result.is_err() {
            failed += 1;
            at_the_edit += u64::from(what.contains("MANIFEST"));
            // Another manifest was written, without the edit.
            assert_eq!(before, value_logs(&sim), "{what}");
            family.flush().unwrap();
        }
        let count = value_logs(&sim).len();
        assert!(call > 0 || count == before.len(), "the flush begins a value log");
        flush(&family, &mut model, FLUSHES + 1).unwrap();
        check(&db, &sim, &model, &what);
        check_image(&sim.crash_image(CrashProfile::Nothing, 1), &model, &what);
    }
    assert!(failed >= 6 && at_the_edit >= 2, "{failed} failed, {at_the_edit} at the manifest");
}

/// A full disk is not made fuller by flushes that are tried again and again.
#[test]
fn flushes_on_a_full_disk_take_no_space() {
    let mut refused = 0;
    for write in 0.. {
        let sim = SimVfs::new(4);
        let faults = FaultVfs::new(Arc::clone(&sim) as _);
        let (db, _scheduler) = try_open(Arc::clone(&faults) as _).unwrap();
        let family = db.create_family("values", family_options()).unwrap();
        let mut model = flushed(&family, FLUSHES);
        put(&family, &mut model, FLUSHES);
        let before = value_logs(&sim);
        faults.count_only(OpSet::of(&[Op::Write]));
        faults.reset();
        faults.record(true);
        faults.fail_call(write, FaultKind::Forever, FaultError::NO_SPACE);
        let results = [family.flush(), family.flush(), family.flush()];
        if faults.fired() == 0 {
            break;
        }
        let is_edit = |call: &CallRecord| call.path.to_string_lossy().contains("MANIFEST");
        let may_be_named = faults.records().iter().any(is_edit);
        faults.clear_faults();
        refused += u64::from(results.iter().all(Result::is_err) && !may_be_named);
        let after = value_logs(&sim);
        if !may_be_named {
            assert_eq!(after, before, "write {write}");
        }
        // Of an edit that may be on the disk the values stay, once.
        let more = after.values().sum::<u64>() - before.values().sum::<u64>();
        assert!(more < 2 * VALUES * 1000, "write {write}: {more} bytes");
        family.flush().unwrap();
        check(&db, &sim, &model, "with space again");
        check_image(&sim.crash_image(CrashProfile::Nothing, 1), &model, "after a power cut");
    }
    assert!(refused >= 2, "{refused} writes failed");
}

/// Garbage in full value logs comes back by itself, that in others with `compact`.
#[test]
fn garbage_of_growing_value_logs_is_collected() {
    let sim = SimVfs::new(5);
    let (db, scheduler) = try_open(Arc::clone(&sim) as _).unwrap();
    let family = db.create_family("values", family_options()).unwrap();
    let mut model = flushed(&family, 100);
    for round in 0..3 {
        for number in 0..100 {
            for n in 0..VALUES {
                let value = value(number + round * 1000 + 1000, n);
                family.put(&key(number, n), &value).unwrap();
                model.insert(key(number, n), value);
            }
            family.flush().unwrap();
        }
        scheduler.run_until_idle();
    }
    family.compact().unwrap();
    let bytes: u64 = value_logs(&sim).values().sum();
    let needed: u64 = model.values().map(|value| value.len() as u64 + 20).sum();
    assert!(bytes < needed * 2, "{bytes} bytes of value logs for {needed}");
    check(&db, &sim, &model, "compacted");
    // All goes with the last value.
    for key in model.keys() {
        family.delete(key).unwrap();
    }
    family.compact().unwrap();
    scheduler.run_until_idle();
    assert_eq!(value_logs(&sim), BTreeMap::new());
}

/// Compactions empty value logs into those that flushes have begun.
#[test]
fn a_compaction_that_appends_loses_nothing_when_the_power_fails() {
    let sim = SimVfs::new(6);
    let (db, _scheduler) = try_open(Arc::clone(&sim) as _).unwrap();
    let family = db.create_family("values", family_options()).unwrap();
    let model = with_garbage(&family);
    let images = images_of(&sim, || family.compact().unwrap());
    assert!(images.len() >= 10, "{} images", images.len());
    for (at, image) in images.iter().enumerate() {
        check_image(image, &model, &format!("image {at}"));
    }
    check(&db, &sim, &model, "compacted");
    let bytes: u64 = value_logs(&sim).values().sum();
    assert!(bytes < 2 * FLUSHES * 1000, "{bytes} bytes of value logs");
}

/// A compaction that ends while a flush appends to a value log into which nothing points. Of three
/// flushes one begins a log, and one does not fill it.
#[test]
fn a_value_log_that_a_flush_appends_to_is_not_collected() {
    let appended = [80, 81, 82].map(is_appended_to_beside_a_compaction);
    assert!(appended.contains(&true), "no flush appended: {appended:?}");
}

fn is_appended_to_beside_a_compaction(flushes: u64) -> bool {
    let sim = SimVfs::new(9);
    let (db, scheduler) = try_open(Arc::clone(&sim) as _).unwrap();
    let family = db.create_family("values", family_options()).unwrap();
    flushed(&family, flushes);
    family.delete_range(&[0], &[0xFF; 9]).unwrap();
    family.flush().unwrap();
    let mut model = Model::new();
    let before = value_logs(&sim);
    let (steps, compacted) = (Arc::clone(&scheduler), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&compacted);
    sim.on_mutation(Some(Arc::new(move |_, change| {
        let is_append = change.kind == MutationKind::Write && change.phase == Phase::Before;
        if is_append && change.path.extension() == Some("vlog".as_ref()) {
            while steps.step_lane(Lane::Compaction) {
                counted.fetch_add(1, Ordering::Relaxed);
            }
        }
    })));
    flush(&family, &mut model, flushes).unwrap();
    sim.on_mutation(None);
    let after = value_logs(&sim);
    assert!(compacted.load(Ordering::Relaxed) > 0 && after.len() < before.len(), "{after:?}");
    drop((family, db, scheduler));
    check_image(&sim, &model, "opened again");
    after.keys().all(|name| before.contains_key(name))
}

/// Copies end where their value logs did, however much is appended later.
#[test]
fn copies_share_growing_value_logs() {
    let sim = SimVfs::new(7);
    let (db, scheduler) = try_open(Arc::clone(&sim) as _).unwrap();
    let family = db.create_family("values", family_options()).unwrap();
    let mut model = flushed(&family, FLUSHES);
    let copied = model.clone();
    let copy = db.clone_family("values", "copy").unwrap();
    db.checkpoint("/linked").unwrap();
    db.backup("/copied").unwrap();
    let linked = value_logs_in(&sim, "/linked");
    (FLUSHES..FLUSHES + 20).for_each(|number| flush(&family, &mut model, number).unwrap());
    assert_eq!(value_logs_in(&sim, "/linked"), linked);
    check(&db, &sim, &model, "the source");
    drop(family);
    db.drop_family("values").unwrap();
    scheduler.run_until_idle();
    check_contents(&copy, &copied, "the copy");
    copy.compact().unwrap();
    assert_eq!(copy.iter().unwrap().into_iter().count(), copied.len());
    deep_check(&db, sim.as_ref(), Path::new("/db")).unwrap();
    for path in ["/linked", "/copied"] {
        let (db, _scheduler) = try_open_at(path, Arc::clone(&sim) as _).unwrap();
        check_contents(&db.family("values").unwrap(), &copied, path);
        deep_check(&db, sim.as_ref(), Path::new(path)).unwrap();
    }
}

/// An edit that begins another manifest, which is in force although the call fails: what it names
/// stays.
#[test]
fn what_an_uncertain_edit_may_name_is_not_cut_off() {
    let mut uncertain = 0;
    for sync in 0.. {
        let sim = SimVfs::new(10);
        let faults = FaultVfs::new(Arc::clone(&sim) as _);
        let (db, _scheduler) = try_open(Arc::clone(&faults) as _).unwrap();
        let family = db.create_family("values", family_options()).unwrap();
        let mut model = flushed(&family, FLUSHES);
        put(&family, &mut model, FLUSHES);
        let before = value_logs(&sim);
        // From now on it is not known what the manifest in force says.
        faults.count_only(OpSet::CHANGES);
        faults.reset();
        faults.fail_call(0, FaultKind::Forever, FaultError::IO);
        db.create_family("other", family_options()).unwrap_err();
        faults.clear_faults();
        faults.count_only(OpSet::of(&[Op::SyncDir]));
        faults.reset();
        faults.fail_call(sync, FaultKind::Forever, FaultError::IO);
        let result = family.flush();
        if faults.fired() == 0 {
            break;
        }
        let what = format!("sync {sync}");
        assert!(result.is_err(), "{what}");
        uncertain += u64::from(before != value_logs(&sim));
        check_image(&sim.fork(), &model, &what);
        faults.clear_faults();
        family.flush().unwrap();
        flush(&family, &mut model, FLUSHES + 1).unwrap();
        check_contents(&family, &model, &what);
        check_image(&sim.crash_image(CrashProfile::Nothing, 1), &model, &what);
    }
    assert!(uncertain >= 1, "no edit was uncertain");
}

/// Copies that are made while a compaction appends to value logs that they have.
#[test]
fn copies_are_whole_whatever_is_appended_meanwhile() {
    let sim = SimVfs::new(11);
    let (db, _scheduler) = try_open(Arc::clone(&sim) as _).unwrap();
    let family = db.create_family("values", family_options()).unwrap();
    let model = with_garbage(&family);
    let (to_copy, in_copies) = (Mutex::new(Some(db.clone())), Arc::new(AtomicUsize::new(0)));
    let copied = Arc::clone(&in_copies);
    sim.on_mutation(Some(Arc::new(move |_, change| {
        let is_append = change.kind == MutationKind::Write
            && change.phase == Phase::After
            && change.path.extension() == Some("vlog".as_ref());
        if is_append && let Some(db) = to_copy.lock().unwrap().take() {
            drop(db.clone_family("values", "copy").unwrap());
            db.checkpoint("/linked").unwrap();
            db.backup("/copied").unwrap();
            copied.store(1, Ordering::Relaxed);
        }
    })));
    family.compact().unwrap();
    sim.on_mutation(None);
    assert_eq!(in_copies.load(Ordering::Relaxed), 1, "no compaction has appended anything");
    check(&db, &sim, &model, "the source");
    drop(family);
    db.drop_family("values").unwrap();
    check_contents(&db.family("copy").unwrap(), &model, "the copy");
    deep_check(&db, sim.as_ref(), Path::new("/db")).unwrap();
    drop(db);
    for path in ["/db", "/linked", "/copied"] {
        let (db, _scheduler) = try_open_at(path, Arc::clone(&sim) as _).unwrap();
        let name = if path == "/db" { "copy" } else { "values" };
        check_contents(&db.family(name).unwrap(), &model, path);
        deep_check(&db, sim.as_ref(), Path::new(path)).unwrap();
        db.family(name).unwrap().compact().unwrap();
        check_contents(&db.family(name).unwrap(), &model, path);
    }
}

/// A file that a crash kept from being closed, and that lost its end at a record, is found.
#[test]
fn a_value_log_that_lost_values_is_found_by_verify() {
    let sim = SimVfs::new(12);
    let (db, _scheduler) = try_open(Arc::clone(&sim) as _).unwrap();
    let family = db.create_family("values", family_options()).unwrap();
    flushed(&family, FLUSHES);
    let image = sim.crash_image(CrashProfile::Nothing, 1);
    let logs = value_logs(&image);
    // The last one that a flush has begun and another one appended to.
    let (name, bytes) = logs.iter().rfind(|(_, bytes)| **bytes > 4000).unwrap();
    let path = Path::new("/db").join(name);
    image.open(&path, OpenMode::ReadWrite).unwrap().set_len(bytes / 2 + 16).unwrap();
    let (db, _scheduler) = try_open(Arc::clone(&image) as _).unwrap();
    let problems = db.verify().unwrap().problems;
    assert!(problems.iter().any(|problem| problem.to_string().contains(name)), "{problems:?}");
}

/// Values of a family that is dropped while a flush appends leave nothing behind.
#[test]
fn a_family_that_is_dropped_during_a_flush_leaves_no_value_log() {
    let sim = SimVfs::new(8);
    let (db, scheduler) = try_open(Arc::clone(&sim) as _).unwrap();
    let family = db.create_family("values", family_options()).unwrap();
    let mut model = flushed(&family, FLUSHES);
    let to_drop = Mutex::new(Some(db.clone()));
    sim.on_mutation(Some(Arc::new(move |_, change| {
        let is_append = change.kind == MutationKind::Write && change.phase == Phase::After;
        if is_append && change.path.extension() == Some("vlog".as_ref()) {
            let db = to_drop.lock().unwrap().take();
            db.inspect(|db| db.drop_family("values").unwrap());
        }
    })));
    let _ = flush(&family, &mut model, FLUSHES);
    sim.on_mutation(None);
    assert!(db.family("values").is_err(), "it was not dropped");
    drop(family);
    scheduler.run_until_idle();
    assert_eq!(value_logs(&sim), BTreeMap::new());
}
