//! Rules of source files: size, header, unsafe code, and the one door to the outside world.

use super::{has_word, is_test_file, shipped_lines};

/// Columns of a line, and of one with a string or a row of a table, which can't be broken anywhere.
const MOST_COLUMNS: usize = 100;
const MOST_COLUMNS_OF_STRINGS: usize = 110;
const MOST_LINES: usize = 500;
const TABLE_OF_DATA: &str = "//! A table of data, as long as there are rows.";

/// Files that may contain `unsafe`. Folders end in `/`.
const UNSAFE: &[&str] = &[
    "crates/sys/src/large_vec.rs",
    "crates/sys/src/os_calls.rs",
    "crates/sys/src/vfs/real/mapped_segment.rs",
    "crates/lockfree/src/arena.rs",
    "crates/lockfree/src/arena/",
    "crates/lockfree/src/cache/slots.rs",
    "crates/lockfree/src/ordered/owned.rs",
    "crates/lockfree/src/ordered/record.rs",
    "crates/lockfree/src/ordered/skiplist.rs",
    "crates/lockfree/src/ordered/btree/node.rs",
    "crates/lockfree/src/prefetch.rs",
    // Forks.
    "crates/tidesdb/tests/forks.rs",
    // The C interface.
    "crates/capi/src/",
    "crates/capi/tests/through_c/handles.rs",
    // Counting allocators.
    "crates/tidesdb/tests/large_allocations.rs",
    "crates/tidesdb/tests/transaction_costs.rs",
    "crates/bench-compare/src/c_functions.rs",
    "crates/bench-compare/src/lmdb.rs",
    "crates/bench-compare/src/rocksdb.rs",
    "crates/bench-compare/src/rocksdb/",
    "crates/bench-compare/src/tidesdb10.rs",
    "crates/bench-compare/src/tidesdb10/",
    "crates/bench-compare/src/tidesdb_c.rs",
    "crates/bench-compare/src/tidesdb_c/",
];

/// Crates whose first file forbids `unsafe` to all others.
const FORBIDDING: &[&str] = &["base", "files", "tidesdb", "sim", "cli", "testkit"];

/// Calls that reach the outside world, and the files that are the door to it.
const DOORS: &[(&str, &[&str])] = &[
    (
        "std::fs",
        &[
            "sys/src/vfs/real",
            "sys/src/descriptors.rs",
            "sys/src/os_calls.rs",
            "sim/src/stepper.rs",
        ],
    ),
    ("Instant::now", &["sys/src/clock.rs", "sys/src/sched/pool.rs", "sim/src/stepper.rs"]),
    ("SystemTime::now", &["sys/src/clock.rs"]),
    ("thread::sleep", &["sys/src/clock.rs"]),
    ("thread::spawn", &[]),
    ("thread::Builder", &["sys/src/sched/pool.rs"]),
    ("process::exit", &[]),
    ("process::abort", &[]),
    ("println!", &[]),
    ("eprintln!", &[]),
    ("dbg!", &[]),
];

/// Crates that reach the outside world through those doors only.
const INDOORS: &[&str] = &["base", "sys", "lockfree", "files", "tidesdb", "sim"];

fn crate_of(path: &str) -> &str {
    path.strip_prefix("crates/").and_then(|rest| rest.split('/').next()).unwrap_or("")
}

/// Files that are too long, and no table of data.
pub(crate) fn size(path: &str, text: &str) -> Vec<String> {
    let lines = text.lines().count();
    if lines > MOST_LINES && !text.lines().any(|line| line == TABLE_OF_DATA) {
        return vec![format!("{path}: {lines} lines, at most {MOST_LINES} are allowed")];
    }
    Vec::new()
}

const MOST_LINES_OF_FUNCTIONS: usize = 70;

/// Functions that are too long, tests among them: from the line that names one to its last brace.
/// Clippy, which does not count comments, lets some of them pass.
pub(crate) fn functions(path: &str, text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        let indent = line.len() - code.len();
        let Some((before, rest)) = code.split_once("fn ") else { continue };
        let declares = before.is_empty()
            || before.ends_with(' ')
                && ["pub", "const ", "unsafe ", "extern "]
                    .iter()
                    .any(|word| before.starts_with(word));
        if !declares || rest.ends_with([';', '}']) {
            continue;
        }
        // A function without a body ends with its arguments.
        let ends = |line: &&&str| closes(line, indent) || is_declaration_end(line, indent);
        let inside = lines[at..].iter().take_while(|line| !ends(line)).count();
        if inside + 1 > MOST_LINES_OF_FUNCTIONS {
            let name = rest.split(['(', '<']).next().unwrap_or(rest);
            found.push(format!(
                "{path}:{}: '{name}' has {} lines, at most {MOST_LINES_OF_FUNCTIONS} are allowed",
                at + 1,
                inside + 1
            ));
        }
    }
    found
}

/// Whether a line ends a function of a trait that has arguments in lines of their own and no body.
fn is_declaration_end(line: &str, indent: usize) -> bool {
    let code = line.trim_start();
    line.len() - code.len() == indent && code.starts_with(')') && code.ends_with(';')
}

/// Fields that a struct may have without a line above it that says why there are more.
const MOST_FIELDS: usize = 12;
const FIELDS_REASON: &str = "// More than a dozen fields: ";

/// Structs with many fields and no reason beside them. Those of tests are let be.
pub(crate) fn fields(path: &str, text: &str) -> Vec<String> {
    if is_test_file(path) {
        return Vec::new();
    }
    let mut found = Vec::new();
    let lines: Vec<&str> = text.lines().collect();
    for (at, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        let indent = line.len() - code.len();
        let named =
            code.starts_with("struct ") || code.starts_with("pub") && code.contains("struct ");
        if !named || code.ends_with([';', '}']) {
            continue;
        }
        let inside = lines[at + 1..].iter().take_while(|line| !closes(line, indent));
        let count = inside.filter(|line| is_field(line, indent + 4)).count();
        let above = lines[..at].iter().rev().map(|line| line.trim_start());
        let reasoned = above
            .take_while(|line| line.starts_with("//") || line.starts_with("#["))
            .any(|line| line.starts_with(FIELDS_REASON));
        if count > MOST_FIELDS && !reasoned {
            found.push(format!(
                "{path}:{}: {count} fields need a line '{FIELDS_REASON}...'",
                at + 1
            ));
        }
    }
    found
}

fn closes(line: &str, indent: usize) -> bool {
    line.trim_start() == "}" && line.len() == indent + 1
}

/// Whether a line begins with a name and its type, so far to the right.
fn is_field(line: &str, indent: usize) -> bool {
    let code = line.trim_start();
    let name = code.split_once(": ").map_or("", |(name, _)| name);
    let name = name.rsplit(' ').next().unwrap_or("");
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || "_#".contains(c));
    line.len() - code.len() == indent && is_name && !code.starts_with("//")
}

/// Lines that are too wide. Strings, rows of tables and code that stands alone in a comment may be
/// a little wider.
pub(crate) fn columns(path: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let columns = line.chars().count();
        let comment = line.trim_start().strip_prefix("//").filter(|_| path.ends_with(".rs"));
        let unbroken = match comment.map(|comment| comment.trim_start_matches(['/', '!']).trim()) {
            Some(content) => content.starts_with('|') || is_code(content),
            None => path.ends_with(".rs") && (line.contains('"') || line.ends_with('\\')),
        };
        let most = if unbroken { MOST_COLUMNS_OF_STRINGS } else { MOST_COLUMNS };
        if columns > most {
            found.push(format!("{path}:{}: {columns} columns, at most {most} are allowed", at + 1));
        }
    }
    found
}

fn is_code(content: &str) -> bool {
    content.len() > 1 && content.starts_with('`') && content.ends_with('`')
}

/// Shipped files that do not begin by saying what they are.
pub(crate) fn header(path: &str, text: &str) -> Vec<String> {
    let shipped = path.contains("/src/") && !is_test_file(path);
    let begins = text.starts_with("//! ");
    if shipped && !begins { vec![format!("{path}: no module header (//!)")] } else { Vec::new() }
}

/// `unsafe` outside the files that may contain it.
pub(crate) fn unsafe_code(path: &str, text: &str) -> Vec<String> {
    let allowed =
        UNSAFE.iter().any(|file| *file == path || file.ends_with('/') && path.starts_with(file));
    let tests_of_unsafe = path.starts_with("crates/lockfree/") && is_test_file(path);
    if allowed || tests_of_unsafe || path.starts_with("crates/base/tests/tidy_rules/") {
        return Vec::new();
    }
    let found = shipped_lines(text).into_iter().filter(|(_, line)| has_word(line, "unsafe"));
    found.map(|(number, _)| format!("{path}:{number}: 'unsafe' is not allowed here")).collect()
}

/// Crates that must forbid `unsafe` and do not.
pub(crate) fn forbids_unsafe(path: &str, text: &str) -> Vec<String> {
    let first = path.ends_with("/src/lib.rs") || path.ends_with("/src/main.rs");
    let must = first && FORBIDDING.contains(&crate_of(path));
    if must && !text.contains("#![forbid(unsafe_code)]") {
        return vec![format!("{path}: #![forbid(unsafe_code)] is missing")];
    }
    Vec::new()
}

/// Calls that go past the doors.
pub(crate) fn doors(path: &str, text: &str) -> Vec<String> {
    if !INDOORS.contains(&crate_of(path)) || is_test_file(path) {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (number, line) in shipped_lines(text) {
        for (call, allowed) in DOORS {
            let door = allowed.iter().any(|file| path.starts_with(&format!("crates/{file}")));
            if has_word(line, call) && !door {
                found.push(format!("{path}:{number}: '{call}' goes past the outside-world layer"));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_files_and_wide_lines_are_found() {
        assert!(size("a.rs", &"\n".repeat(500)).is_empty());
        assert_eq!(size("a.rs", &"\n".repeat(501)).len(), 1);
        assert!(size("a.rs", &format!("{TABLE_OF_DATA}\n{}", "\n".repeat(700))).is_empty());
        assert!(columns("a.rs", &"ä".repeat(100)).is_empty());
        assert!(columns("a.rs", &format!("{}\"b\"", "a".repeat(107))).is_empty());
        let wide = "a".repeat(101);
        for path in ["a.rs", "a.toml", "a.h", "a"] {
            let expected = [format!("{path}:1: 101 columns, at most 100 are allowed")];
            assert_eq!(columns(path, &wide), expected);
        }
        let word = "a".repeat(97);
        let comment = format!("    /// {word}\n");
        assert_eq!(columns("a.rs", &comment), ["a.rs:1: 105 columns, at most 100 are allowed"]);
        for kept in [format!("/// | {word} |\n"), format!("//! `{word}`\n")] {
            assert!(columns("a.rs", &kept).is_empty(), "{kept}");
        }
    }

    #[test]
    fn long_functions_are_found() {
        let body = |lines: usize| "    b();\n".repeat(lines);
        let function = |head: &str, lines| format!("{head} {{\n{}}}\n", body(lines));
        for head in ["fn a()", "pub(crate) const fn a<T>()", "pub fn a()"] {
            assert!(functions("a.rs", &function(head, 68)).is_empty(), "{head}");
            assert_eq!(functions("a.rs", &function(head, 69)).len(), 1, "{head}");
        }
        let indented = |lines| function("fn a()", lines).replace('\n', "\n    ");
        assert_eq!(functions("a.rs", &format!("impl A {{\n    {}\n}}\n", indented(69))).len(), 1);
        let declared = format!("trait A {{\n    fn a(\n        b: u8,\n    );\n{}}}\n", body(80));
        assert!(functions("a.rs", &declared).is_empty());
        assert!(functions("a.rs", &format!("// a fn b\n{}", body(80))).is_empty());
        assert!(functions("a.rs", &function("fn a()", 10).repeat(9)).is_empty());
    }

    #[test]
    fn structs_of_many_fields_need_a_reason() {
        let fields = |count| "    /// A: b.\n    pub(crate) a: B,\n".repeat(count);
        let text =
            |above: &str, count| format!("{above}pub(crate) struct A {{\n{}}}\n", fields(count));
        assert!(super::fields("src/a.rs", &text("", 12)).is_empty());
        assert_eq!(super::fields("src/a.rs", &text("", 13)).len(), 1);
        let reason = format!("{FIELDS_REASON}so.\n#[derive(Debug)]\n");
        assert!(super::fields("src/a.rs", &text(&reason, 13)).is_empty());
        assert!(super::fields("src/a/tests.rs", &text("", 13)).is_empty());
    }

    #[test]
    fn a_missing_header_is_found() {
        assert_eq!(header("crates/a/src/b.rs", "use x;\n").len(), 1);
        assert!(header("crates/a/src/b.rs", "//! b\n").is_empty());
        assert!(header("crates/a/src/b/tests.rs", "use x;\n").is_empty());
    }

    #[test]
    fn unsafe_code_is_found_where_it_must_not_be() {
        let text = "fn a() { unsafe { b() } }\n";
        assert_eq!(unsafe_code("crates/tidesdb/src/a.rs", text).len(), 1);
        assert!(unsafe_code("crates/lockfree/src/arena.rs", text).is_empty());
        assert!(unsafe_code("crates/tidesdb/src/a.rs", "// unsafe\n").is_empty());
        assert_eq!(forbids_unsafe("crates/tidesdb/src/lib.rs", "").len(), 1);
        assert!(forbids_unsafe("crates/sys/src/lib.rs", "").is_empty());
    }

    #[test]
    fn calls_past_the_doors_are_found() {
        assert_eq!(doors("crates/tidesdb/src/a.rs", "use std::fs;\n").len(), 1);
        assert_eq!(doors("crates/sys/src/rng.rs", "let a = Instant::now();\n").len(), 1);
        assert!(doors("crates/sys/src/clock.rs", "let a = Instant::now();\n").is_empty());
        assert!(doors("crates/sys/src/vfs/real.rs", "use std::fs;\n").is_empty());
        assert!(doors("crates/tidesdb/src/a.rs", "use tidesdb_sys::vfs::File;\n").is_empty());
        assert!(doors("crates/cli/src/a.rs", "println!(\"b\");\n").is_empty());
        assert!(doors("crates/tidesdb/src/a.rs", "/// println!(\"b\");\n").is_empty());
    }
}
