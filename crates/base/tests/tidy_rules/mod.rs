//! The rules of the tidy test, by subject, and what they share: reading Rust text line by line.
//!
//! Texts are not parsed: `rustfmt` has brought them into a form in which lines are enough.

pub(crate) mod calls;
pub(crate) mod dependencies;
pub(crate) mod documents;
pub(crate) mod engine;
pub(crate) mod parts;
pub(crate) mod patches;
pub(crate) mod siblings;
pub(crate) mod sources;

/// True for files that only tests and measurements compile.
pub(crate) fn is_test_file(path: &str) -> bool {
    let tests = ["/tests/", "/examples/", "/benches/"].iter().any(|folder| path.contains(folder));
    let names = ["/tests.rs", "/testing.rs", "_models.rs"];
    tests || names.iter().any(|name| path.ends_with(name))
}

/// The code that ships, with line numbers: no comments, no inline test modules.
pub(crate) fn shipped_lines(text: &str) -> Vec<(usize, &str)> {
    let mut lines = Vec::new();
    let mut test_attribute = false;
    let mut inside_tests = false;
    for (at, line) in text.lines().enumerate() {
        if inside_tests {
            inside_tests = line != "}";
            continue;
        }
        if test_attribute && line.starts_with("mod ") && line.ends_with('{') {
            (inside_tests, test_attribute) = (true, false);
            continue;
        }
        // Several attributes may stand in front of the module.
        let attribute = line.starts_with("#[");
        test_attribute =
            attribute && (test_attribute || line.starts_with("#[cfg(") && line.contains("test"));
        lines.push((at + 1, without_comment(line)));
    }
    lines
}

/// The line up to a comment. A `//` right behind a colon belongs to an address in a string.
fn without_comment(line: &str) -> &str {
    let mut from = 0;
    while let Some(found) = line[from..].find("//") {
        let at = from + found;
        if at == 0 || line.as_bytes()[at - 1] != b':' {
            return &line[..at];
        }
        from = at + 2;
    }
    line
}

/// True when `word` occurs in `line` with no letter, digit or underscore beside it.
pub(crate) fn has_word(line: &str, word: &str) -> bool {
    let inside = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    line.match_indices(word).any(|(at, _)| {
        !inside(line[..at].chars().next_back()) && !inside(line[at + word.len()..].chars().next())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_test_modules_do_not_ship() {
        let text =
            "//! a\nfn a() {} // b\n#[cfg(test)]\nmod tests {\n    fn c() {}\n}\nfn d() {}\n";
        let lines: Vec<_> = shipped_lines(text);
        assert_eq!(lines, [(1, ""), (2, "fn a() {} "), (3, "#[cfg(test)]"), (7, "fn d() {}")]);
        let beside = "#[cfg(test)]\nmod tests;\nfn d() {}\n";
        assert_eq!(shipped_lines(beside).len(), 3);
        assert_eq!(without_comment("a(\"b://c\"); // d"), "a(\"b://c\"); ");
    }

    #[test]
    fn words_are_whole() {
        assert!(has_word("an unsafe block", "unsafe"));
        assert!(!has_word("deny(unsafe_code)", "unsafe"));
    }

    #[test]
    fn test_files_are_known_by_their_place() {
        assert!(is_test_file("crates/sim/src/sim_vfs/tests/random.rs"));
        assert!(is_test_file("crates/sim/src/sim_vfs/tests.rs"));
        assert!(!is_test_file("crates/sim/src/sim_vfs.rs"));
    }
}
