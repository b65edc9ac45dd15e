//! The segment with which the log begins is lost: its first sector, or the file.

use super::*;
use crate::Family;
use crate::opening::inventory::take_inventory;

/// It was not the first when the log began: a flush has made the one that commits go to the first.
/// The next opening restates the manifest, which says so again.
#[test]
fn a_segment_that_has_become_the_first_is_damage_without_its_first_sector() {
    let sim = SimVfs::new(1);
    let jobs = scheduler();
    let db = try_open(&sim, &jobs, SyncMode::Full).unwrap();
    let families = ["a", "b"].map(|name| db.create_family(name, small()).unwrap());
    fill_two_segments(&sim, &jobs, &families);
    let image = sim.crash_image(CrashProfile::Nothing, 1);
    assert_no_beginning_is_damage(&image);
    // The segment is the first still, of a log that has a second one.
    let jobs = scheduler();
    let db = try_open(&image, &jobs, SyncMode::Full).unwrap();
    let families = ["a", "b"].map(|name| db.family(name).unwrap());
    assert_no_beginning_is_damage(&image.crash_image(CrashProfile::Nothing, 1));
    fill_two_segments(&image, &jobs, &families);
    let image = image.crash_image(CrashProfile::Nothing, 1);
    assert_no_beginning_is_damage(&image);
    // As does a manifest that another one takes the place of.
    let found = take_inventory(&(Arc::clone(&image) as _), Path::new("/db")).unwrap().unwrap();
    let (dir, number) = (Path::new("/db"), found.next_number());
    ManifestWriter::create(image.as_ref(), dir, number, &found.state.restate()).unwrap();
    image.sync_dir(dir).unwrap();
    current::set_current(image.as_ref(), dir, number).unwrap();
    assert_no_beginning_is_damage(&image);
}

/// Fills segments and has all that they hold flushed, so that the log begins with the last of them,
/// which has some commits of both families then.
fn fill_two_segments(sim: &SimVfs, jobs: &ManualScheduler, families: &[Family; 2]) {
    let first = segments(sim).last().unwrap().header().number;
    let mut n = 0_u64;
    let behind = |sim: &SimVfs| segments(sim).iter().filter(|s| s.header().number > first).count();
    while behind(sim) < 2 {
        families[n as usize % 2].put(&n.to_be_bytes(), &[7; 200]).unwrap();
        n += 1;
    }
    families.iter().for_each(|family| family.flush().unwrap());
    jobs.run_until_idle();
    for n in 0..50_u64 {
        families[n as usize % 2].put(&n.to_be_bytes(), &[8; 200]).unwrap();
    }
}

/// The segment that the manifest names as the first is damage when its first sector is lost.
fn assert_no_beginning_is_damage(whole: &Arc<SimVfs>) {
    let vfs: Arc<dyn Vfs> = Arc::clone(whole) as _;
    let start = take_inventory(&vfs, Path::new("/db")).unwrap().unwrap().state.log_start;
    assert!(try_open(&whole.fork(), &scheduler(), SyncMode::Full).is_ok());
    let image = whole.fork();
    let readers = segments(&image);
    let first = readers.iter().find(|reader| reader.header().number == start).unwrap();
    let file = image.open(first.path(), OpenMode::ReadWrite).unwrap();
    file.write_all_at(&[0; 512], 0).unwrap();
    file.sync_data().unwrap();
    let error = try_open(&image, &scheduler(), SyncMode::Full).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{:?}: {error}", first.header());
}

/// Opens a copy of a database whose log begins with segment `start`, without the file of that.
fn open_without(whole: &SimVfs, start: u64) -> Result<Db> {
    let image = whole.fork();
    let readers = segments(&image);
    let first = readers.iter().find(|reader| reader.header().number == start).unwrap();
    image.remove(first.path()).unwrap();
    image.sync_dir(Path::new("/db")).unwrap();
    try_open(&image, &scheduler(), SyncMode::Full)
}

/// A file that was made ready for the next segment can't be the first, whose name is older.
#[test]
fn a_prepared_file_does_not_stand_for_the_first_segment() {
    let sim = SimVfs::new(1);
    let jobs = scheduler();
    let db = try_open(&sim, &jobs, SyncMode::Full).unwrap();
    let family = db.create_family("family", FamilyOptions::default()).unwrap();
    (0..100_u64).for_each(|n| family.put(&n.to_be_bytes(), &[7; 200]).unwrap());
    jobs.run_until_idle();
    let image = sim.crash_image(CrashProfile::Everything, 1);
    let logs = image.list(Path::new("/db")).unwrap();
    assert_eq!(logs.iter().filter(|entry| entry.name.ends_with(".log")).count(), 2);
    let readers = segments(&image);
    assert_eq!(readers.len(), 1, "the other file is no segment yet");
    let error = open_without(&image, readers[0].header().number).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    assert!(try_open(&image, &scheduler(), SyncMode::Full).is_ok());
}

/// A later segment knew that the first one was on disk. What tables have of another family was
/// taken for the end of the log, and nothing knew of anything behind that.
#[test]
fn a_first_segment_that_others_knew_of_is_missed_when_another_family_was_flushed() {
    let sim = SimVfs::new(1);
    let jobs = scheduler();
    let db = try_open(&sim, &jobs, SyncMode::Full).unwrap();
    let [lost, flushed] = ["a", "b"].map(|name| db.create_family(name, small()).unwrap());
    lost.put(b"key", b"value").unwrap();
    let mut n = 0_u64;
    while segments(&sim).len() < 2 {
        flushed.put(&n.to_be_bytes(), &[7; 200]).unwrap();
        n += 1;
    }
    flushed.flush().unwrap();
    let image = sim.crash_image(CrashProfile::Nothing, 1);
    // A free file, which could be the first segment with its header lost.
    drop(image.open(Path::new("/db/wal-000000.log"), OpenMode::CreateNew).unwrap());
    image.sync_dir(Path::new("/db")).unwrap();
    let start = segments(&image)[0].header().number;
    let error = open_without(&image, start).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    assert!(error.to_string().contains("was on disk through"), "{error}");
    assert!(try_open(&image, &scheduler(), SyncMode::Full).is_ok());
}
