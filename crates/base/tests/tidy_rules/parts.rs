//! Which parts of an open database a module of the engine may use.
//!
//! `Core` is made of parts with one job each. A module gets a reference to all of them, and this
//! table says which it uses: another one is a decision, to be made here. What needs a single part
//! is a method of that part, or a function that is given it.

use std::collections::BTreeSet;

use super::calls::{called, implemented, module, statements};
use super::{has_word, is_test_file};

/// The fields of `Core`, apart from the reference to itself.
const ALL: &[&str] =
    &["env", "flow", "families", "health", "isolation", "memory", "storage", "telemetry", "work"];

/// What each module uses, `core` itself aside. Modules that are not here use no part.
const USED: &[(&str, &str)] = &[
    ("handles", "health isolation"),
    ("read", "env health memory storage telemetry"),
    ("stats", "env families flow isolation memory storage telemetry"),
    ("write", "env families flow health isolation memory storage telemetry work"),
    ("iterator", "health memory storage telemetry"),
    ("transaction", "env health isolation memory storage telemetry"),
    ("compaction", "env families flow health isolation memory storage telemetry work"),
    ("flush", "env families flow isolation memory storage telemetry"),
    ("background", "env families flow health isolation memory storage telemetry work"),
    ("opening", "env families memory storage telemetry work"),
    ("db", "env families health isolation memory storage telemetry work"),
];

/// Violations in the engine's files, given by their paths relative to its `src`.
pub(crate) fn check(files: &[(String, String)]) -> Vec<String> {
    check_by(USED, files)
}

fn check_by(table: &[(&str, &str)], files: &[(String, String)]) -> Vec<String> {
    let (mut found, mut used) = (Vec::new(), BTreeSet::new());
    for (path, text) in files {
        if path == "core/mod.rs" {
            let unlisted = fields(text).filter(|field| !ALL.contains(field) && *field != "this");
            found.extend(unlisted.map(|field| format!("the table of parts lacks core.{field}")));
        }
        let own = module(path);
        if path == "lib.rs" || own == "core" || is_test_file(&format!("/{path}")) {
            continue;
        }
        let allowed = table.iter().find(|(module, _)| *module == own).map_or("", |row| row.1);
        for (number, part) in parts(text) {
            used.insert((own, part));
            if !has_word(allowed, part) {
                found.push(format!("tidesdb/{path}:{number}: '{own}' may not use core.{part}"));
            }
        }
    }
    for (module, parts) in table {
        let unused = parts.split(' ').filter(|part| !used.contains(&(*module, *part)));
        found.extend(unused.map(|part| format!("the table of parts: {module} uses no {part}")));
    }
    found
}

/// The fields of `Core`, given its file.
fn fields(text: &str) -> impl Iterator<Item = &str> {
    let inside = text.split_once("struct Core {").and_then(|(_, rest)| rest.split_once("\n}"));
    let lines = inside.map_or("", |(fields, _)| fields).lines();
    lines.filter_map(|line| line.trim().strip_prefix("pub ")?.split_once(": ").map(|f| f.0))
}

/// The parts that a text names, with the lines.
fn parts(text: &str) -> Vec<(usize, &'static str)> {
    let mut found = Vec::new();
    let mut inside = false;
    for (number, line) in statements(text) {
        if let Some(name) = implemented(&line) {
            inside = name == "Core";
        } else if line == "}" {
            inside = false;
        }
        for name in called(&line, &["core.", "core()."], inside) {
            found.extend(ALL.iter().find(|part| **part == name).map(|part| (number, *part)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn violations(table: &[(&str, &str)], path: &str, text: &str) -> Vec<String> {
        check_by(table, &[(path.to_owned(), text.to_owned())])
    }

    const READS: &[(&str, &str)] = &[("read", "health")];

    #[test]
    fn parts_that_a_module_may_not_use_are_found() {
        let method = |body: &str| format!("impl Core {{\n    fn a(&self) {{\n{body}\n    }}\n}}\n");
        let allowed = method("        self.health.check_open();");
        assert!(violations(READS, "read/get.rs", &allowed).is_empty());
        for body in
            ["self.storage.log", "self\n            .storage\n            .log", "core.storage"]
        {
            let both = format!("{allowed}{}", method(&format!("        {body};")));
            assert_eq!(violations(READS, "read/get.rs", &both).len(), 1, "{body}");
        }
        let elsewhere = "fn a(owner: &Owner) {\n    owner.core().storage.b();\n}\n";
        assert_eq!(violations(&[], "iterator/a.rs", elsewhere).len(), 1);
        let of_another = "impl Scan {\n    fn a(&self) {\n        self.storage.b();\n    }\n}\n";
        assert!(violations(&[], "iterator/a.rs", of_another).is_empty());
        assert!(violations(&[], "core/owner.rs", elsewhere).is_empty());
    }

    #[test]
    fn parts_that_the_table_does_not_know_are_found() {
        let core = "pub(crate) struct Core {\n    /// A.\n    pub env: A,\n    pub other: B,\n}\n";
        assert_eq!(violations(&[], "core/mod.rs", core), ["the table of parts lacks core.other"]);
    }

    #[test]
    fn parts_that_a_module_does_not_use_are_found() {
        assert_eq!(violations(READS, "read/get.rs", "fn a() {}\n").len(), 1);
    }
}
