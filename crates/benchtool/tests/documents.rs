//! The document on benchmarks keeps its promises: every flaw has a line, and the tests it names
//! exist.
#![expect(clippy::unwrap_used, reason = "a failed call is a failed test")]

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Text of all sources below a folder.
fn sources(folder: &Path, text: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, text);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            text.push_str(&fs::read_to_string(path).unwrap());
        }
    }
}

#[test]
fn every_flaw_has_a_line_and_every_named_test_exists() {
    let document = fs::read_to_string(root().join("docs/benchmarks.md")).unwrap();
    let mut code = String::new();
    for folder in ["src", "tests", "../bench-compare/src", "../bench-compare/tests"] {
        sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder), &mut code);
    }
    for number in 1..=30 {
        let start = format!("| F{number:02} |");
        let lines: Vec<&str> = document.lines().filter(|line| line.starts_with(&start)).collect();
        assert_eq!(lines.len(), 1, "{start}");
        let cells: Vec<&str> = lines[0].split('|').map(str::trim).collect();
        assert!(cells.len() == 6 && cells[1..5].iter().all(|cell| !cell.is_empty()), "{start}");
        // Names between backquotes; a path to a file is no test, nor is a variable.
        for name in cells[4].split('`').skip(1).step_by(2) {
            let function = name.rsplit("::").next().unwrap();
            let is_test = function
                .chars()
                .all(|letter| letter == '_' || letter.is_lowercase() || letter.is_numeric());
            assert!(
                !is_test || !function.contains('_') || code.contains(&format!("fn {function}(")),
                "{start} there is no test {name}"
            );
        }
    }
}

/// Every column of the CSV that may stay empty for some engine is explained.
#[test]
fn columns_that_may_be_empty_are_explained() {
    let document = fs::read_to_string(root().join("docs/benchmarks.md")).unwrap();
    for column in
        ["cache_hit", "sorted_runs", "device_write_mb", "size_compacted_mb", "wal_mb_written"]
    {
        assert!(document.contains(&format!("`{column}`")), "{column}");
    }
}
