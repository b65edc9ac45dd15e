//! Which module of the engine may name which.

use super::{is_test_file, shipped_lines};

/// The engine's modules from the bottom up. A module names modules in front of it in this table: of
/// rows above it, and of its own row those to its left. So there is no circle. Methods of `Core`
/// live in the module that does the work (`impl Core` in `flush`, `write`, ...); `calls` holds
/// their calls to the same order.
const ORDER: &[&[&str]] = &[
    &["isolation", "telemetry"],
    &["memtable"],
    &["wal"],
    &["flow", "memory", "cache", "version"],
    // What all others share, and what users hold of it.
    &["family", "core", "handles"],
    &["output"],
    &["read"],
    &["stats"],
    &["verify"],
    &["write"],
    &["iterator"],
    &["transaction"],
    &["compaction"],
    &["flush"],
    &["background"],
    &["opening"],
    &["db"],
    // What stands beside the engine: it uses what users use.
    &["guide", "options_file", "salvage", "testing"],
];

/// Files that decide and own no lock, handle or clock: of the engine they name only each other, and
/// constants.
const PURE: &[&str] = &[
    "flow/pace",
    "flow/run_bounds",
    "flow/stall_timer",
    "memory/levels",
    "compaction/plan",
    "output/drop_rules",
    "isolation/level",
    "isolation/out_conflicts",
];

/// Modules that no paragraph of a text names.
pub(crate) fn missing_in(text: &str) -> Vec<&'static str> {
    let modules = ORDER.iter().copied().flatten().copied();
    modules.filter(|module| !super::has_word(text, module)).collect()
}

pub(crate) fn rank(module: &str) -> Option<usize> {
    ORDER.iter().copied().flatten().position(|known| *known == module)
}

/// The modules of the engine that a line names.
fn named(line: &str, top_level_file: bool) -> Vec<&str> {
    let mut found = Vec::new();
    let prefixes: &[&str] = if top_level_file { &["crate::", "super::"] } else { &["crate::"] };
    for prefix in prefixes {
        for (at, _) in line.match_indices(prefix) {
            let rest = &line[at + prefix.len()..];
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            let several = rest.strip_prefix('{').and_then(|rest| rest.split_once('}'));
            match several {
                Some((names, _)) => found.extend(names.split(", ").map(str::trim)),
                None => found.push(if rest.starts_with('{') { "{" } else { &rest[..end] }),
            }
        }
    }
    // Types that lib.rs re-exports are not modules.
    found.retain(|name| !name.starts_with(char::is_uppercase));
    found
}

/// What a line of a pure file names of its own module that is not pure.
fn impure_sibling<'a>(file: &str, line: &'a str) -> Option<&'a str> {
    let (folder, _) = file.rsplit_once('/')?;
    let (_, rest) = line.split_once("super::")?;
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    let name = &rest[..end];
    // Constants and types of the module itself may be anywhere.
    let is_pure = name.is_empty() || PURE.contains(&format!("{folder}/{name}").as_str());
    (!is_pure).then_some(name)
}

/// Whether a line imports a single constant.
fn names_a_constant(line: &str) -> bool {
    let name = line.strip_suffix(';').and_then(|line| line.rsplit("::").next());
    name.is_some_and(|name| name.chars().all(|c| c.is_ascii_uppercase() || c == '_'))
}

/// Violations in one file; `path` is relative to the engine's `src`.
pub(crate) fn check(path: &str, text: &str) -> Vec<String> {
    let file = path.strip_suffix(".rs").unwrap_or(path);
    if file == "lib" || is_test_file(&format!("/{path}")) {
        return Vec::new();
    }
    let top = file.split('/').next().unwrap_or(file);
    let Some(own) = rank(top) else {
        return vec![format!("tidesdb/{path}: module '{top}' is not in the table of modules")];
    };
    let mut found = Vec::new();
    for (number, line) in shipped_lines(text) {
        if PURE.contains(&file)
            && let Some(sibling) = impure_sibling(file, line)
        {
            found.push(format!("tidesdb/{path}:{number}: a pure file names '{sibling}'"));
        }
        for module in named(line, !file.contains('/')) {
            match rank(module) {
                _ if PURE.contains(&file) && !names_a_constant(line) => {
                    found.push(format!("tidesdb/{path}:{number}: a pure file names '{module}'"));
                }
                Some(other) if other <= own => {}
                Some(_) => {
                    found.push(format!(
                        "tidesdb/{path}:{number}: names '{module}', which is above it"
                    ));
                }
                None => found.push(format!("tidesdb/{path}:{number}: names '{module}', unknown")),
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upward_names_are_found() {
        assert!(check("flush.rs", "use crate::core::Core;\n").is_empty());
        assert_eq!(check("core.rs", "use crate::flush::x;\n").len(), 1);
        assert_eq!(check("wal/sync.rs", "fn a() { crate::db::b() }\n").len(), 1);
        assert_eq!(check("core.rs", "use super::flush;\n").len(), 1);
        assert!(check("cache/mod.rs", "use crate::flow::x;\n").is_empty());
        assert_eq!(check("flow/mod.rs", "use crate::cache::x;\n").len(), 1, "of its own row");
        assert!(check("wal/sync.rs", "use super::Wal;\n").is_empty());
        assert_eq!(check("flow/pace.rs", "use super::disk::DiskSpace;\n").len(), 1);
        assert!(check("flow/pace.rs", "use super::stall_timer::StallTimer;\n").is_empty());
    }

    #[test]
    fn tests_and_comments_are_not() {
        assert!(
            check("core.rs", "// crate::db\n#[cfg(test)]\nmod tests {\n    use crate::db::x;\n}\n")
                .is_empty()
        );
    }

    #[test]
    fn pure_files_and_unknown_modules_are_found() {
        assert_eq!(check("compaction/plan.rs", "use crate::core::Core;\n").len(), 1);
        assert!(check("compaction/plan.rs", "use crate::output::slices::SLICES;\n").is_empty());
        assert_eq!(check("compaction/plan.rs", "use crate::output::slices::renew;\n").len(), 1);
        assert_eq!(check("utilities.rs", "").len(), 1);
        assert_eq!(check("flush.rs", "use crate::{core, db};\n").len(), 1);
        assert!(check("salvage/mod.rs", "use crate::{Db, Error};\n").is_empty());
    }
}
