//! Words, and what Tab offers.

use tidesdb::{Db, DbOptions, FamilyOptions};

use super::Session;
use super::completion::Completion;
use super::words::split;

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
        assert_eq!(split(line).unwrap(), words, "{line}");
    }
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
