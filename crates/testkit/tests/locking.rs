//! One owner at a time: a second handle and a second process are refused, whatever they ask for,
//! change nothing, and get the directory once the owner is gone, however it went.

#![expect(clippy::unwrap_used, reason = "test helpers fail by panicking")]

#[path = "common_support/directory.rs"]
mod directory;
#[path = "common_support/small.rs"]
mod small;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use directory::{assert_unchanged, files, picture};
use small::{small_db, small_family};
use tidesdb::{Db, ErrorKind};

/// Opens the database in `path` with small settings.
fn open(path: &Path) -> Db {
    Db::open(path, small_db()).unwrap()
}

const DIRECTORY: &str = "TIDESDB_LOCK_DIRECTORY";

/// Not a test: what the second process of the tests below runs. It opens the directory, says how
/// that went, and holds the database until its input ends.
#[test]
#[ignore = "runs in a process of its own, started by the other tests"]
fn second_process() {
    let Ok(path) = std::env::var(DIRECTORY) else { return };
    let opened = Db::open(&path, small_db());
    match &opened {
        Ok(_) => println!("\nanswer opened"),
        Err(error) => println!("\nanswer {:?}", error.kind()),
    }
    let _ = std::io::stdin().read_line(&mut String::new());
}

struct Second {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Second {
    fn start(path: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "second_process", "--ignored", "--nocapture", "--test-threads=1"])
            .env(DIRECTORY, path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, input, output }
    }

    fn answer(&mut self) -> String {
        for line in (&mut self.output).lines() {
            if let Some(answer) = line.unwrap().strip_prefix("answer ") {
                return answer.to_owned();
            }
        }
        "none: the process ended".to_owned()
    }

    fn finish(mut self) {
        self.input.write_all(b"\n").unwrap();
        assert!(self.child.wait().unwrap().success());
    }
}

#[test]
fn a_second_handle_is_refused_until_the_first_is_closed_or_dropped() {
    let directory = tempfile::tempdir().unwrap();
    let db = open(directory.path());
    let family = db.create_family("f", small_family()).unwrap();
    family.put(b"k", b"v").unwrap();
    db.wait_idle().unwrap();
    let before = picture(directory.path());
    let read_only = small_db().read_only(true);
    for options in [small_db(), read_only] {
        let error = Db::open(directory.path(), options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Locked);
        let name = directory.path().file_name().unwrap().to_string_lossy().into_owned();
        assert!(error.to_string().contains(&name), "{error}");
    }
    // Another way to write the same path is the same directory.
    let roundabout = directory.path().join("../").join(directory.path().file_name().unwrap());
    assert_eq!(Db::open(roundabout, small_db()).unwrap_err().kind(), ErrorKind::Locked);
    assert_unchanged(directory.path(), &before);
    family.put(b"k2", b"the owner was not disturbed").unwrap();
    // The last handle of whatever kind is the one that counts.
    drop(db);
    assert_eq!(Db::open(directory.path(), small_db()).unwrap_err().kind(), ErrorKind::Locked);
    drop(family);
    let db = open(directory.path());
    assert!(db.family("f").unwrap().contains(b"k2").unwrap());
    let extra = db.clone();
    db.close().unwrap();
    let again = open(directory.path());
    drop(extra);
    assert_eq!(Db::open(directory.path(), small_db()).unwrap_err().kind(), ErrorKind::Locked);
    drop(again);
}

#[test]
fn a_second_process_is_refused_and_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let db = open(directory.path());
    db.create_family("f", small_family()).unwrap().put(b"k", b"v").unwrap();
    db.wait_idle().unwrap();
    let before = picture(directory.path());
    let mut second = Second::start(directory.path());
    assert_eq!(second.answer(), "Locked");
    assert_unchanged(directory.path(), &before);
    second.finish();
    drop(db);
    let mut second = Second::start(directory.path());
    assert_eq!(second.answer(), "opened");
    assert_eq!(Db::open(directory.path(), small_db()).unwrap_err().kind(), ErrorKind::Locked);
    second.finish();
    assert!(open(directory.path()).family("f").unwrap().contains(b"k").unwrap());
}

#[test]
fn a_killed_process_leaves_no_lock() {
    let directory = tempfile::tempdir().unwrap();
    drop(open(directory.path()));
    let mut second = Second::start(directory.path());
    assert_eq!(second.answer(), "opened");
    second.child.kill().unwrap();
    second.child.wait().unwrap();
    assert_eq!(files(directory.path(), "LOCK", "").len(), 1, "the file stays, the lock does not");
    drop(open(directory.path()));
}
