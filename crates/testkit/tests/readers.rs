//! Openings for reading: beside each other, never beside a writer, and without changing a byte.

#![expect(clippy::unwrap_used, reason = "test helpers fail by panicking")]

#[path = "common_support/directory.rs"]
mod directory;
#[path = "common_support/small.rs"]
mod small;

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::SystemTime;

use directory::{assert_unchanged, files, picture};
use small::{small_db, small_family};
use tidesdb::{
    Components, Db, DbOptions, ErrorKind, Family, FamilyOptions, IsolationLevel, RuntimeOptions,
    ScanOptions, WriteBatch,
};
use tidesdb_sim::{ManualClock, ManualScheduler, SimVfs};

const RUNS: u32 = 5;

fn reader_options() -> DbOptions {
    small_db().read_only(true)
}

/// A database that merges want to work on: runs with much garbage, expired values, and a log.
fn fill(db: &Db) {
    // No compaction at rest either, if this takes long.
    db.stop_compactions().unwrap();
    let lazy = small_family().l1_file_count_trigger(1000);
    let family = db.create_family("f", lazy).unwrap();
    for round in 0..RUNS {
        for n in 0..50_u32 {
            let value = format!("{round} {n}").repeat(if n % 5 == 0 { 60 } else { 3 });
            family.put(format!("key{n:03}").as_bytes(), value.as_bytes()).unwrap();
        }
        family.put_expiring_at(b"gone", b"x", 1).unwrap();
        family.flush().unwrap();
    }
    family.put(b"in the log", b"alone").unwrap();
}

fn look_at_everything(db: &Db) {
    let family = db.family("f").unwrap();
    let tables: u64 = family.stats().levels.iter().map(|level| level.tables).sum();
    assert!(tables >= u64::from(RUNS), "there is something to merge");
    assert_eq!(family.scan(ScanOptions::new()).unwrap().entries().count(), 51);
    assert_eq!(family.get(b"in the log").unwrap().unwrap(), b"alone");
    assert!(db.verify().unwrap().problems.is_empty());
}

/// Calls whatever could change something.
fn call_everything(db: &Db) {
    let family: Family = db.family("f").unwrap();
    look_at_everything(db);
    db.wait_idle().unwrap();
    let refused = |answer: tidesdb::Result<()>| {
        assert_eq!(answer.unwrap_err().kind(), ErrorKind::ReadOnly);
    };
    refused(db.compact_and_wait());
    refused(db.flush());
    refused(db.compact());
    refused(family.flush());
    refused(family.compact());
    refused(family.put(b"k", b"v"));
    refused(family.put(b"k", &vec![0; 2 << 20]));
    refused(family.delete_range(b"a", b"z"));
    refused(db.create_family("g", FamilyOptions::default()).map(drop));
    refused(db.drop_family("f"));
    let mut batch = WriteBatch::new();
    batch.put(&family, b"k", b"v").unwrap();
    refused(db.write(&batch));
    let mut transaction = db.begin(IsolationLevel::Serializable).unwrap();
    refused(transaction.put(&family, b"k", b"v"));
    transaction.commit().unwrap();
    let small = RuntimeOptions::default().max_open_files(1);
    db.set_options(small).unwrap();
    db.sync_log().unwrap();
    db.pause_background().unwrap();
    db.resume_background();
    let snapshot = db.snapshot();
    assert!(family.get_at(&snapshot, b"key001").unwrap().is_some());
    drop(snapshot);
    db.wait_idle().unwrap();
    db.stop_compactions().unwrap();
    look_at_everything(db);
}

fn times(path: &Path) -> BTreeMap<String, SystemTime> {
    let entry = |entry: std::io::Result<fs::DirEntry>| {
        let entry = entry.unwrap();
        let changed = entry.metadata().unwrap().modified().unwrap();
        (entry.file_name().to_string_lossy().into_owned(), changed)
    };
    let mut times: BTreeMap<_, _> = fs::read_dir(path).unwrap().map(entry).collect();
    times.insert(".".to_owned(), fs::metadata(path).unwrap().modified().unwrap());
    times
}

#[test]
fn whatever_a_reader_calls_changes_no_byte() {
    let directory = tempfile::tempdir().unwrap();
    fill(&Db::open(directory.path(), small_db()).unwrap());
    let (before, times_before) = (picture(directory.path()), times(directory.path()));
    for closes in [true, false] {
        let db = Db::open(directory.path(), reader_options()).unwrap();
        call_everything(&db);
        if closes {
            db.close().unwrap();
        }
    }
    assert_unchanged(directory.path(), &before);
    assert_eq!(times(directory.path()), times_before);
}

#[test]
fn a_reader_asks_the_disk_for_no_change() {
    let disk = SimVfs::new(1);
    let components = || Components {
        vfs: disk.clone(),
        scheduler: Arc::new(ManualScheduler::new(1)),
        clock: Arc::new(ManualClock::new(1_000)),
    };
    fill(&Db::open_with("/db", small_db(), components()).unwrap());
    let before = (disk.mutations(), disk.state_hash());
    let db = Db::open_with("/db", reader_options(), components()).unwrap();
    call_everything(&db);
    db.close().unwrap();
    assert_eq!((disk.mutations(), disk.state_hash()), before);
}

#[test]
fn readers_share_a_directory_and_exclude_writers() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let writer = Db::open(path, small_db()).unwrap();
    fill(&writer);
    assert_eq!(Db::open(path, reader_options()).unwrap_err().kind(), ErrorKind::Locked);
    drop(writer);
    let readers = [0; 3].map(|_| Db::open(path, reader_options()).unwrap());
    readers.iter().for_each(look_at_everything);
    for reader in readers {
        let error = Db::open(path, small_db()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Locked);
        assert!(error.to_string().contains("one writer or any number of readers"), "{error}");
        look_at_everything(&reader);
    }
    Db::open(path, small_db()).unwrap();
}

const READ_ONLY_DIRECTORY: &str = "TIDESDB_READ_ONLY_DIRECTORY";

/// Not a test: the process of the one below that may read alone. It has the database open until
/// its input ends.
#[test]
#[ignore = "run by a_reader_needs_no_permission_to_write"]
fn reader_without_permission() {
    let Ok(path) = std::env::var(READ_ONLY_DIRECTORY) else { return };
    let path = Path::new(&path);
    fs::File::create(path.join("file")).unwrap_err();
    fs::OpenOptions::new().write(true).open(path.join("CURRENT")).unwrap_err();
    let reader = Db::open(path, reader_options()).unwrap();
    look_at_everything(&reader);
    println!("\n! reading");
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    look_at_everything(&reader);
}

/// Nothing is refused to the superuser, so the reader is a process of another user then.
#[test]
fn a_reader_needs_no_permission_to_write() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    fill(&Db::open(&path, small_db()).unwrap());
    let allow = |path: &Path, mode: u32| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    let allow_all = |mode: u32| {
        files(&path, "", "").iter().for_each(|file| allow(file, mode & 0o666));
        allow(&path, mode);
    };
    allow_all(0o555);
    allow(directory.path(), 0o755);
    // Where the program itself lies may be closed to others.
    let program = directory.path().join("reader");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let mut reader = Command::new(program);
    reader.args(["--exact", "reader_without_permission", "--ignored", "--nocapture"]);
    reader.env(READ_ONLY_DIRECTORY, &path).current_dir("/");
    if fs::metadata("/proc/self").unwrap().uid() == 0 {
        reader.uid(65_534).gid(65_534);
    }
    let mut reader = reader.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(reader.stdout.take().unwrap()).lines();
    let is_reading = lines.any(|line| line.unwrap() == "! reading");
    allow_all(0o755);
    if is_reading {
        // Its lock counts all the same.
        assert_eq!(Db::open(&path, small_db()).unwrap_err().kind(), ErrorKind::Locked);
    }
    drop(reader.stdin.take());
    lines.for_each(|line| println!("{}", line.unwrap()));
    assert!(reader.wait().unwrap().success() && is_reading);
}

#[test]
fn a_reader_that_found_no_lock_file_notices_a_writer() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let db = Db::open(path, small_db()).unwrap();
    fill(&db);
    db.close().unwrap();
    fs::remove_file(path.join("LOCK")).unwrap();
    let before = picture(path);
    let reader = Db::open(path, reader_options()).unwrap();
    assert_unchanged(path, &before);
    // The writer merges away tables that the reader has not opened.
    let writer = Db::open(path, small_db()).unwrap();
    writer.compact().unwrap();
    let error = reader.family("f").unwrap().get(b"key001").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Locked, "{error}");
}

#[test]
fn a_table_that_is_missing_though_no_other_opener_came_is_damage() {
    let directory = tempfile::tempdir().unwrap();
    fill(&Db::open(directory.path(), small_db()).unwrap());
    for table in files(directory.path(), "", ".klog") {
        fs::remove_file(table).unwrap();
    }
    let reader = Db::open(directory.path(), reader_options()).unwrap();
    let error = reader.family("f").unwrap().get(b"key001").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
}

#[test]
fn what_a_closed_database_has_not_opened_is_not_damaged() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    fill(&Db::open(path, small_db()).unwrap());
    let db = Db::open(path, small_db()).unwrap();
    let mut scan = db.family("f").unwrap().scan(ScanOptions::new()).unwrap();
    db.close().unwrap();
    let next = Db::open(path, small_db()).unwrap();
    next.compact().unwrap();
    let error = scan.seek(b"key001").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
}

#[test]
fn a_directory_belongs_to_the_last_scan_as_to_any_other_handle() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    fill(&Db::open(path, small_db()).unwrap());
    let scan = {
        let db = Db::open(path, small_db()).unwrap();
        db.family("f").unwrap().scan(ScanOptions::new()).unwrap()
    };
    assert_eq!(Db::open(path, small_db()).unwrap_err().kind(), ErrorKind::Locked);
    assert_eq!(scan.entries().filter(Result::is_ok).count(), 51);
    Db::open(path, small_db()).unwrap();
}
