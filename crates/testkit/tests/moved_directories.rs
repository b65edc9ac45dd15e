//! An open database stays in its directory, wherever the process or the directory goes, and
//! whatever lies at its path then.

#![expect(clippy::unwrap_used, reason = "test helpers fail by panicking")]

#[path = "common_support/small.rs"]
mod small;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use small::{small_db, small_family};
use tidesdb::{Components, Db, Family, ScanOptions};
use tidesdb_sys::vfs::{
    DirEntry, File, LockGuard, LockMode, LogSegment, OpenMode, RealVfs, SegmentMode, Vfs,
};

const KEYS: u32 = 2000;

/// Writes enough for flushes and merges.
fn fill(family: &Family, round: &str) {
    for n in 0..KEYS {
        let value = format!("{round} {n}").repeat(if n % 50 == 0 { 30 } else { 1 });
        family.put(format!("key{n:05}").as_bytes(), value.as_bytes()).unwrap();
    }
}

fn expect(family: &Family, round: &str) {
    let entries = family.scan(ScanOptions::new()).unwrap().entries();
    let mut count = 0;
    for entry in entries {
        let (key, value) = entry.unwrap();
        let text = String::from_utf8(value).unwrap();
        assert!(text.starts_with(round), "{} holds {text}", String::from_utf8_lossy(&key));
        count += 1;
    }
    assert_eq!(count, KEYS);
}

/// A database at `path` with a past of its own, closed.
fn make(path: &Path, name: &str) {
    let db = Db::open(path, small_db()).unwrap();
    fill(&db.create_family("f", small_family()).unwrap(), name);
    db.close().unwrap();
}

fn check(path: &Path, round: &str) {
    let db = Db::open(path, small_db()).unwrap();
    let report = db.verify().unwrap();
    assert!(report.problems.is_empty(), "{:?}", report.problems);
    expect(&db.family("f").unwrap(), round);
}

const PLACES: &str = "TIDESDB_TEST_PLACES";

/// Not a test: what the process of the next one runs, since it changes the directory of the
/// process.
#[test]
#[ignore = "runs in a process of its own"]
fn process_that_changes_its_directory() {
    let Ok(places) = std::env::var(PLACES) else { return };
    let (here, there) = places.split_once(':').unwrap();
    std::env::set_current_dir(here).unwrap();
    let db = Db::open("db", small_db()).unwrap();
    let family = db.create_family("f", small_family()).unwrap();
    fill(&family, "first");
    std::env::set_current_dir(there).unwrap();
    fill(&family, "second");
    expect(&family, "second");
    db.create_family("g", small_family()).unwrap();
    db.compact().unwrap();
    expect(&family, "second");
    assert!(db.verify().unwrap().problems.is_empty());
    db.close().unwrap();
}

#[test]
fn a_relative_path_outlives_a_change_of_directory() {
    let directory = tempfile::tempdir().unwrap();
    let (here, there) = (directory.path().join("here"), directory.path().join("there"));
    fs::create_dir(&here).unwrap();
    fs::create_dir(&there).unwrap();
    make(&there.join("db"), "other");
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "process_that_changes_its_directory", "--ignored", "--nocapture"])
        .env(PLACES, format!("{}:{}", here.display(), there.display()))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    check(&here.join("db"), "second");
    check(&there.join("db"), "other");
}

#[test]
fn an_open_database_moves_with_its_directory() {
    let directory = tempfile::tempdir().unwrap();
    let (path, moved) = (directory.path().join("db"), directory.path().join("moved"));
    let db = Db::open(&path, small_db()).unwrap();
    let family = db.create_family("f", small_family()).unwrap();
    fill(&family, "first");
    fs::rename(&path, &moved).unwrap();
    fill(&family, "second");
    make(&path, "other");
    fill(&family, "third");
    db.compact().unwrap();
    expect(&family, "third");
    db.close().unwrap();
    check(&moved, "third");
    check(&path, "other");
}

/// A file system in which the files of `database` are reached in a directory that is held open, and
/// in no other way.
#[derive(Debug)]
struct HeldOnly {
    real: Arc<RealVfs>,
    database: PathBuf,
}

fn by_path<T>() -> io::Result<T> {
    Err(io::Error::other("a file was reached by its path"))
}

impl Vfs for HeldOnly {
    fn hold_dir(self: Arc<Self>, dir: &Path) -> io::Result<Arc<dyn Vfs>> {
        Arc::clone(&self.real).hold_dir(dir)
    }

    /// An opening that begins a database looks beside it for one that was being repaired.
    fn open(&self, path: &Path, how: OpenMode) -> io::Result<Arc<dyn File>> {
        if path.starts_with(&self.database) || how != OpenMode::Read {
            return by_path();
        }
        self.real.open(path, how)
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.real.create_dir(path)
    }

    fn rename(&self, _from: &Path, _to: &Path) -> io::Result<()> {
        by_path()
    }

    fn link(&self, _from: &Path, _to: &Path) -> io::Result<()> {
        by_path()
    }

    fn is_same_dir(&self, _one: &Path, _other: &Path) -> io::Result<bool> {
        by_path()
    }

    fn remove(&self, _path: &Path) -> io::Result<()> {
        by_path()
    }

    fn remove_dir(&self, _path: &Path) -> io::Result<()> {
        by_path()
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        self.real.list(dir)
    }

    fn sync_dir(&self, _dir: &Path) -> io::Result<()> {
        by_path()
    }

    fn log_segment(
        &self,
        _path: &Path,
        _size: u64,
        _how: SegmentMode,
    ) -> io::Result<Arc<dyn LogSegment>> {
        by_path()
    }

    fn lock(&self, _path: &Path, _how: LockMode) -> io::Result<Box<dyn LockGuard>> {
        by_path()
    }

    fn free_bytes(&self, _dir: &Path) -> io::Result<u64> {
        by_path()
    }

    fn volume_bytes(&self, _dir: &Path) -> io::Result<u64> {
        by_path()
    }
}

/// An opening that reads the log by its path reads another one, if the directory moves meanwhile.
#[test]
fn an_opening_reaches_every_file_in_the_directory_that_it_holds() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().canonicalize().unwrap().join("db");
    let open = || {
        let vfs = Arc::new(HeldOnly { real: Arc::new(RealVfs::new()), database: path.clone() });
        let components = Components { vfs, ..Components::for_options(&small_db()).unwrap() };
        Db::open_with(&path, small_db(), components).unwrap()
    };
    let db = open();
    fill(&db.create_family("f", small_family()).unwrap(), "round");
    // Without closing it: the log has records.
    drop(db);
    let db = open();
    expect(&db.family("f").unwrap(), "round");
    db.create_family("g", small_family()).unwrap().put(b"k", &vec![7; 2 << 20]).unwrap();
    db.compact().unwrap();
    assert!(db.verify().unwrap().problems.is_empty());
    db.close().unwrap();
}
