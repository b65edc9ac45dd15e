//! What the tests with C programs have in common.

#![allow(dead_code, unreachable_pub, reason = "each test uses a part")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests")]

use std::path::PathBuf;
use std::process::{Command, Stdio};

pub const STRICT: [&str; 4] = ["-Wall", "-Wextra", "-Werror", "-pedantic"];

pub fn here() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The shared library that this build has made, beside the test program or one folder above.
pub fn library() -> PathBuf {
    built("libtidesdb_c.so")
}

/// A file that this build has made.
pub fn built(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let folders = test.ancestors().skip(1).take(2);
    let candidates = folders.map(|folder| folder.join(name));
    candidates.into_iter().find(|path| path.exists()).expect("the library was not built")
}

pub fn available(tool: &str) -> bool {
    Command::new(tool)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Runs a command that must succeed; what it prints.
pub fn succeed(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{text}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// As [`succeed`]; what was printed before a failure is shown, too.
pub fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let (out, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{out}\n{errors}", output.status);
    out.into_owned()
}

/// The text of a header without its comments.
pub fn header(name: &str) -> String {
    let text = std::fs::read_to_string(here().join("include/tidesdb").join(name)).unwrap();
    let mut out = String::new();
    let mut rest = text.as_str();
    while let Some((code, comment)) = rest.split_once("/*") {
        out.push_str(code);
        rest = comment.split_once("*/").map_or("", |(_, rest)| rest);
    }
    out + rest
}

/// The names of all functions that the headers declare.
pub fn declared_functions() -> Vec<String> {
    let mut names = Vec::new();
    for file in ["db.h", "tidesdb.h"] {
        let text = header(file);
        for (at, _) in text.match_indices("tidesdb_") {
            let rest = &text[at..];
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap();
            let before = text[..at].chars().next_back();
            let is_start =
                !before.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_' || c == '(');
            if is_start && rest[end..].starts_with('(') {
                names.push(rest[..end].to_owned());
            }
        }
    }
    names.sort();
    names.dedup();
    names
}
