//! Salvages whose file system fails.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::{Components, Db, ScanOptions};
use tidesdb_base::error::{Error, Result};
use tidesdb_base::options::{DbOptions, FamilyOptions};
use tidesdb_sim::{FaultError, FaultKind, FaultVfs, ManualScheduler, Op, OpSet};
use tidesdb_sys::clock::SystemClock;
use tidesdb_sys::vfs::RealVfs;

use crate::salvage::destination::Destination;
use crate::salvage::place::{Place, check_can_be_renamed, working_for};
use crate::salvage::report::SalvageReport;
use crate::salvage::salvager::salvage_into;
use crate::salvage::source::Source;
use crate::salvage::{means_damage, repair, restore, salvage};

const KEYS: u32 = 400;

fn value(number: u32) -> Vec<u8> {
    // Some in the table, some in a value log, some too long to be kept in memory.
    format!("value {number} ").into_bytes().repeat(1 + (number % 5) as usize * 40)
}

/// A database with a table, a value log, and a log that was not replayed.
fn database(dir: &Path) {
    let alive = dir.with_extension("alive");
    let db = Db::open(&alive, DbOptions::default()).unwrap();
    let options = FamilyOptions::default().klog_value_threshold(1000).block_size(512);
    let family = db.create_family("family", options).unwrap();
    for number in 0..KEYS {
        family.put(format!("{number:05}").as_bytes(), &value(number)).unwrap();
        if number == KEYS / 2 {
            family.flush().unwrap();
        }
    }
    db.wait_idle().unwrap();
    std::fs::create_dir(dir).unwrap();
    for entry in std::fs::read_dir(&alive).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), dir.join(entry.file_name())).unwrap();
    }
    db.close().unwrap();
}

fn salvaged(vfs: &Arc<FaultVfs>, from: &Path, to: &Path) -> Result<SalvageReport> {
    let source = Source::list(Arc::clone(vfs) as _, from, None)?;
    let made = Destination::create(to, &DbOptions::default())?;
    let (made, report) = salvage_into(made, &source, &mut |_| Ok(()))?;
    made.finish().map(|()| report)
}

fn content(dir: &Path) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let db = Db::open(dir, DbOptions::default().read_only(true)).unwrap();
    let family = match db.family_names().first() {
        Some(name) => db.family(name).unwrap(),
        None => return BTreeMap::new(),
    };
    let mut scan = family.scan(ScanOptions::new()).unwrap();
    scan.seek_to_first().unwrap();
    let mut content = BTreeMap::new();
    while scan.valid() {
        content.insert(scan.key().to_vec(), scan.value().unwrap().to_vec());
        scan.next().unwrap();
    }
    content
}

/// Runs a salvage for some of the calls on its source, of which that one, or those from it on,
/// fail.
fn sweep(error: FaultError, kind: FaultKind, judge: impl Fn(u64, Result<SalvageReport>, &Path)) {
    let place = tempfile::tempdir().unwrap();
    let (from, to) = (place.path().join("source"), place.path().join("copy"));
    database(&from);
    let vfs = FaultVfs::new(Arc::new(RealVfs::new()));
    vfs.count_only(OpSet::of(&[Op::Open, Op::Read]));
    let whole = salvaged(&vfs, &from, &to).unwrap();
    assert!(whole.is_complete(), "{whole:?}");
    assert_eq!(content(&to).len(), KEYS as usize);
    let calls = vfs.calls();
    for call in (0..calls).step_by((calls / 25).max(1) as usize) {
        std::fs::remove_dir_all(&to).unwrap_or_default();
        vfs.reset();
        vfs.count_only(OpSet::of(&[Op::Open, Op::Read]));
        vfs.fail_call(call, kind, error);
        judge(call, salvaged(&vfs, &from, &to), &to);
    }
}

#[test]
fn what_the_process_lacks_ends_a_salvage_and_is_no_damage() {
    const EMFILE: i32 = 24;
    sweep(FaultError::Raw(EMFILE), FaultKind::Once, |call, result, to| {
        match result {
            Err(Error::Io { source, .. }) => assert_eq!(source.raw_os_error(), Some(EMFILE)),
            other => panic!("call {call}: {other:?}"),
        }
        assert!(!to.exists(), "call {call}");
    });
}

#[test]
fn a_read_that_fails_once_costs_nothing() {
    sweep(FaultError::IO, FaultKind::Once, |call, result, to| {
        let report = result.unwrap();
        assert!(report.is_complete(), "call {call}: {report:?}");
        assert_eq!(content(to).len(), KEYS as usize, "call {call}");
        for (key, found) in content(to) {
            let number = std::str::from_utf8(&key).unwrap().parse().unwrap();
            assert_eq!(found, value(number), "call {call}");
        }
    });
}

#[test]
fn a_disk_that_fails_in_the_middle_of_a_salvage_costs_what_it_held_and_no_more() {
    sweep(FaultError::IO, FaultKind::Forever, |call, result, to| {
        let report = result.unwrap();
        let found = content(to);
        for (key, found) in &found {
            let number = std::str::from_utf8(key).unwrap().parse().unwrap();
            assert_eq!(*found, value(number), "call {call}");
        }
        let reported = !report.losses.is_empty() || !report.warnings.is_empty();
        assert!(reported || found.len() == KEYS as usize, "call {call}: {report:?}");
    });
}

#[test]
fn a_file_without_a_record_is_a_loss_and_keeps_the_database_from_opening() {
    let place = tempfile::tempdir().unwrap();
    let (from, to) = (place.path().join("source"), place.path().join("copy"));
    database(&from);
    let names = std::fs::read_dir(&from).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = names.map(|name| name.to_string_lossy().into_owned()).collect();
    names.sort();
    for ending in [".klog", ".vlog", ".log"] {
        let name = names.iter().find(|name| name.ends_with(ending)).unwrap();
        let vfs = FaultVfs::new(Arc::new(RealVfs::new()));
        vfs.damage_record(name);
        let components = Components {
            vfs: Arc::clone(&vfs) as _,
            scheduler: Arc::new(ManualScheduler::new(1)),
            clock: Arc::new(SystemClock),
        };
        let error = Db::open_with(&from, DbOptions::default().read_only(true), components);
        assert!(error.unwrap_err().to_string().contains(name), "{name}");
        std::fs::remove_dir_all(&to).unwrap_or_default();
        let report = salvaged(&vfs, &from, &to).unwrap();
        let of_it = |path: &Path| path.file_name().is_some_and(|file| file == name.as_str());
        assert!(report.losses.iter().any(|loss| of_it(&loss.file)), "{name}: {report:?}");
        for (key, found) in content(&to) {
            let number = std::str::from_utf8(&key).unwrap().parse().unwrap();
            assert_eq!(found, value(number), "{name}");
        }
    }
}

#[test]
fn what_the_system_says_of_the_disk_means_damage_and_what_it_says_of_the_process_does_not() {
    const EIO: i32 = 5;
    const EMFILE: i32 = 24;
    const EACCES: i32 = 13;
    let of = |number| Error::io("read", "file", io::Error::from_raw_os_error(number));
    let cases = [
        (of(EIO), true),
        (Error::corruption("file", 0, "other bytes"), true),
        (of(EACCES), false),
        (of(EMFILE), false),
        (Error::OutOfMemory("the manifest"), false),
        (Error::Closed, false),
    ];
    for (error, expected) in cases {
        assert_eq!(means_damage(&error), expected, "{error}");
    }
}

#[test]
fn what_would_keep_a_copy_from_its_place_is_found_before_the_work() {
    const EBUSY: i32 = 16;
    let place = tempfile::tempdir().unwrap();
    let to = place.path().join("empty");
    std::fs::create_dir(&to).unwrap();
    let vfs = FaultVfs::new(Arc::new(RealVfs::new()));
    vfs.count_only(OpSet::of(&[Op::Rename]));
    vfs.fail_call(0, FaultKind::Once, FaultError::Raw(EBUSY));
    let error = Place::prepare(Arc::clone(&vfs) as _, &to).unwrap_err();
    assert!(error.to_string().contains("mount point"), "{error}");
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 1);
    // The directory itself becomes the new one, or is there again.
    let prepared = Place::prepare(Arc::new(RealVfs::new()), &to).unwrap();
    std::fs::write(prepared.working().join("CURRENT"), "").unwrap();
    assert!(!to.exists());
    check_can_be_renamed(&RealVfs::new(), place.path(), prepared.working()).unwrap_err();
    let other = place.path().join("other");
    std::fs::create_dir(&other).unwrap();
    check_can_be_renamed(&RealVfs::new(), &other, prepared.working()).unwrap();
    prepared.abandon();
    assert_eq!(std::fs::read_dir(&to).unwrap().count(), 0);
}

#[test]
#[cfg(target_os = "linux")]
fn a_mount_point_is_no_place_for_a_repair() {
    let place = tempfile::tempdir().unwrap();
    std::fs::write(place.path().join("file"), "").unwrap();
    let error =
        check_can_be_renamed(&RealVfs::new(), Path::new("/proc"), place.path()).unwrap_err();
    assert!(matches!(error, Error::InvalidArgument(_)), "{error}");
}

#[test]
fn a_page_that_can_not_be_read_is_zeros_and_a_missing_permission_an_error() {
    use crate::salvage::lenient::LenientFile;
    use tidesdb_sys::vfs::{OpenMode, ReadAt, Vfs};
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("file");
    std::fs::write(&path, vec![7; 10_000]).unwrap();
    let vfs = FaultVfs::new(Arc::new(RealVfs::new()));
    let file = LenientFile(vfs.open(&path, OpenMode::Read).unwrap());
    vfs.reset();
    vfs.count_only(OpSet::of(&[Op::Read]));
    let mut bytes = [1; 6000];
    vfs.fail_call(0, FaultKind::Times(2), FaultError::IO);
    assert_eq!(file.read_at(&mut bytes, 100).unwrap(), 4096 - 100);
    assert!(bytes[..3996].iter().all(|&byte| byte == 0));
    vfs.reset();
    vfs.count_only(OpSet::of(&[Op::Read]));
    vfs.fail_call(0, FaultKind::Once, FaultError::Kind(io::ErrorKind::PermissionDenied));
    let error = file.read_at(&mut bytes, 100).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
}

#[test]
fn a_database_with_the_name_of_a_workshop_is_left_alone() {
    let place = tempfile::tempdir().unwrap();
    let (from, to) = (place.path().join("source"), place.path().join("copy"));
    database(&from);
    let other = place.path().join("copy.unfinished");
    let db = Db::open(&other, DbOptions::default()).unwrap();
    db.open_family("family", FamilyOptions::default()).unwrap().put(b"mine", b"1").unwrap();
    let untouched = |error: Error| {
        assert!(matches!(&error, Error::NotEmpty(path) if *path == other), "{error}");
        assert!(!to.exists());
    };
    untouched(restore(&from, &to, &mut |_| Ok(())).unwrap_err());
    db.close().unwrap();
    untouched(salvage(&from, &to, &mut |_| Ok(())).unwrap_err());
    assert_eq!(content(&other).len(), 1);
}

#[test]
fn two_copies_for_one_place_do_not_meet_and_what_an_interrupted_one_left_is_cleared() {
    let parent = tempfile::tempdir().unwrap();
    let to = parent.path().join("copy");
    let prepare = || Place::prepare(Arc::new(RealVfs::new()), &to);
    let first = prepare().unwrap();
    let file = first.working().join("000001.klog");
    std::fs::write(&file, "of the first").unwrap();
    let error = prepare().unwrap_err();
    assert!(matches!(error, Error::Locked(_)), "{error}");
    assert!(file.exists());
    // The lock goes with its holder, and what it wrote stays.
    drop(first);
    let second = prepare().unwrap();
    assert!(!file.exists());
    std::fs::write(&file, "of the second").unwrap();
    second.take().unwrap();
    let names: Vec<_> =
        std::fs::read_dir(parent.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["copy"]);
    assert_eq!(std::fs::read(to.join("000001.klog")).unwrap(), b"of the second");
}

#[test]
fn a_repaired_database_has_the_access_of_the_damaged_one_and_is_private_before() {
    use std::os::unix::fs::PermissionsExt;
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let set = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("source");
    database(&dir);
    for entry in std::fs::read_dir(&dir).unwrap() {
        set(&entry.unwrap().path(), 0o640);
    }
    set(&dir, 0o750);
    let [_, working] = working_for(&place.path().join("source.repaired"));
    let mut looks = 0;
    repair(&dir, &mut |_| {
        assert_eq!(mode(&working), 0o700);
        looks += 1;
        Ok(())
    })
    .unwrap();
    assert!(looks > 0);
    assert_eq!(mode(&dir), 0o750);
    for entry in std::fs::read_dir(&dir).unwrap() {
        assert_eq!(mode(&entry.unwrap().path()), 0o640);
    }
    assert_eq!(content(&dir).len(), KEYS as usize);
}
