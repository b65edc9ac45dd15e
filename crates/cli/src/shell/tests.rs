//! Words, and what Tab offers.

use std::io::{self, BufReader, Read, Write};

use tidesdb::{Db, DbOptions, ErrorKind, FamilyOptions};

use super::Session;
use super::completion::Completion;
use super::script::run_lines;
use super::session::after_commit;
use super::words::split;

fn session() -> (tempfile::TempDir, Session) {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), DbOptions::default()).unwrap();
    db.create_family("default", FamilyOptions::default()).unwrap();
    (directory, Session::new(db, false))
}

#[test]
fn lines_are_cut_into_words() {
    for (line, words) in [
        ("", vec![]),
        ("  \t ", vec![]),
        ("# a remark", vec![]),
        ("get a # a remark", vec!["get", "a"]),
        ("get a#b", vec!["get", "a#b"]),
        ("put \"a b\" 'c d'", vec!["put", "a b", "c d"]),
        (r#"put "say \"hi\"" x"#, vec!["put", r#"say "hi""#, "x"]),
        (r"put a\x00 b\\c\t", vec!["put", r"a\x00", r"b\\c\t"]),
        (r"put 'a\x00' ''", vec!["put", r"a\\x00", ""]),
        (r"get a\ b\#", vec!["get", "a b#"]),
        ("a\"b\"'c'd", vec!["abcd"]),
    ] {
        assert_eq!(split(line).unwrap().escaped, words, "{line}");
    }
    assert_eq!(split(r"put 'a\x00' b\c").unwrap().literal, ["put", r"a\x00", r"b\c"]);
    assert!(split("get \"a").is_err());
    assert!(split("get 'a\\'").is_ok());
}

#[test]
fn tab_offers_commands_families_keys_and_settings() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), DbOptions::default()).unwrap();
    let family = db.create_family("default", FamilyOptions::default()).unwrap();
    db.create_family("orders", FamilyOptions::default()).unwrap();
    for key in ["user:1", "user:2", "user 3", "#x", "quote\"'"] {
        family.put(key.as_bytes(), b"v").unwrap();
    }
    let mut session = Session::new(db, false);
    let offered = |line: &str| Completion::of(&session).candidates(line, line.len());
    assert_eq!(offered("sc"), (0, vec!["scan".to_owned()]));
    assert_eq!(offered("use o"), (4, vec!["orders".to_owned()]));
    assert_eq!(offered("get user:"), (4, vec!["user:1".to_owned(), "user:2".to_owned()]));
    assert_eq!(offered("get user\\x20").1, ["user\\x203"]);
    assert_eq!(offered("scan --prefix user:1").1, ["user:1"]);
    assert_eq!(offered("scan --ke").1, ["--keys-only"]);
    assert_eq!(offered("begin ser").1, ["serializable"]);
    assert_eq!(offered("options --set block_s").1, ["block_size="]);
    assert_eq!(offered("nonsense x").1, Vec::<String>::new());
    // What is offered is a word of the key.
    let mut output = Vec::new();
    for key in offered("get ").1 {
        session.execute(&format!("get {key}"), &mut output).unwrap();
    }
    assert_eq!(output, b"v\nv\nv\nv\nv\n");
}

#[test]
fn characters_in_single_quotes_stand_for_themselves() {
    let (_directory, mut session) = session();
    let mut output = Vec::new();
    for line in [
        r"put --raw raw 'a\b'",
        r"put text 'a\b'",
        r"put --raw plain a\b",
        "begin",
        r"savepoint 'a\b'",
        r"rollback a\b",
        "rollback",
        "get raw text plain",
    ] {
        session.execute(line, &mut output).unwrap();
    }
    let output = String::from_utf8(output).unwrap();
    let value = "a\\\\b\n";
    assert_eq!(output.matches(value).count(), 3, "{output}");
}

#[test]
fn a_line_that_is_too_long_ends_the_script_and_stores_nothing() {
    let (_directory, mut session) = session();
    let value = io::repeat(b'v').take(64 << 20);
    let input = b"put short v\nput long ".chain(value).chain(&b"\nput behind v\n"[..]);
    let failure = run_lines(&mut session, BufReader::new(input), &mut io::sink()).unwrap_err();
    assert!(format!("{failure:?}").contains("line 2: it is longer than 64 MiB"), "{failure:?}");
    let family = session.db.family("default").unwrap();
    let found = ["short", "long", "behind"].map(|key| family.contains(key.as_bytes()).unwrap());
    assert_eq!(found, [true, false, false]);
}

/// An output whose reader has gone.
struct Closed;

impl Write for Closed {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_script_goes_on_without_a_reader_of_its_output() {
    let (_directory, mut session) = session();
    let script = b"begin\nput a 1\nscan\ncommit\nput b 2\nget a\n";
    let failure = run_lines(&mut session, &script[..], &mut Closed).unwrap_err();
    assert!(failure.is_output_closed(), "{failure:?}");
    let family = session.db.family("default").unwrap();
    assert!(family.contains(b"a").unwrap() && family.contains(b"b").unwrap());
    let failure = run_lines(&mut session, &b"scan\nget x a\n"[..], &mut Closed).unwrap_err();
    assert!(!failure.is_output_closed(), "a key is not there: {failure:?}");
    let failure = run_lines(&mut session, &b"scan\nnonsense\n"[..], &mut Closed).unwrap_err();
    assert!(format!("{failure:?}").contains("line 2"), "{failure:?}");
}

#[test]
fn all_families_are_compacted_without_one_in_use() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), DbOptions::default()).unwrap();
    db.create_family("other", FamilyOptions::default()).unwrap();
    let mut session = Session::new(db, false);
    run_lines(&mut session, &b"compact --all\n"[..], &mut io::sink()).unwrap();
    assert!(run_lines(&mut session, &b"compact\n"[..], &mut io::sink()).is_err());
}

#[test]
fn what_is_said_of_a_failed_commit_is_true() {
    assert!(after_commit(ErrorKind::Conflict).contains("nothing was written"));
    assert!(after_commit(ErrorKind::Io).contains("nothing was written"));
    let visible = after_commit(ErrorKind::NotDurable);
    assert!(visible.contains("visible") && visible.contains("`sync`"), "{visible}");
}
