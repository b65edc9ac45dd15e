//! Which methods of shared objects a module of the engine may call.
//!
//! Methods of `Core` lie in the module that does the work, so that the names in a file do not show
//! which module it calls. Here each method belongs to the module of its file, and is called from
//! that module and from those above it. What lower modules ask of higher ones goes through
//! `core/requests.rs`.

use std::collections::{BTreeMap, BTreeSet};

use super::engine::rank;
use super::{is_test_file, shipped_lines};

/// Types that may have methods in modules other than their own: what all modules share, and a
/// handle of users.
const SPREAD: &[&str] = &["Core", "Family"];

/// The types whose calls are judged, and what values of them are called. Values of `Family` have
/// many names, which states of families have too: a method of one is known by its own name, if no
/// other type has a method of that name.
const JUDGED: &[(&str, &[&str])] =
    &[("Core", &["core.", "core().", "Core::"]), ("Family", &["Family::"])];

/// Methods of other crates that some method of the judged type shares its name with.
const COMMON: &[&str] = &["flush", "close", "checkpoint", "shutdown", "submit", "fill"];

/// The top module of a file, by its path relative to the engine's `src`.
pub(super) fn module(path: &str) -> &str {
    let file = path.strip_suffix(".rs").unwrap_or(path);
    file.split('/').next().unwrap_or(file)
}

/// The type of an inherent `impl` that a line opens: `impl Core {`, `impl<R> Parts<R> {`.
pub(super) fn implemented(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("impl")?.strip_suffix('{')?;
    if rest.contains(" for ") {
        return None;
    }
    let name = if rest.starts_with('<') { rest.split_once("> ")?.1 } else { rest.trim_start() };
    name.split(['<', ' ']).next().filter(|name| !name.is_empty())
}

/// The name that a line declares after `keyword`, such as `fn` or `struct`.
fn declared<'a>(line: &'a str, keyword: &str) -> Option<&'a str> {
    let (before, rest) = line.split_once(keyword)?;
    let visible = before.trim_start();
    if !(visible.is_empty() || visible.starts_with("pub") || visible.starts_with("const ")) {
        return None;
    }
    identifier(rest)
}

fn identifier(text: &str) -> Option<&str> {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    Some(&text[..end]).filter(|name| !name.is_empty())
}

/// Lines of shipped code; a line that goes on with a method is joined to the one before.
pub(super) fn statements(text: &str) -> Vec<(usize, String)> {
    let mut joined: Vec<(usize, String)> = Vec::new();
    for (number, line) in shipped_lines(text) {
        match joined.last_mut() {
            Some((_, before)) if line.trim_start().starts_with('.') => before.push_str(line.trim()),
            _ => joined.push((number, line.to_owned())),
        }
    }
    joined
}

/// The methods of a value of one of these names that a line calls or names, and its fields;
/// `inside`: of the value itself as well.
pub(super) fn called<'a>(line: &'a str, receivers: &[&str], inside: bool) -> Vec<&'a str> {
    let own: &[&str] = if inside { &["self.", "Self::"] } else { &[] };
    let mut found = Vec::new();
    for receiver in receivers.iter().chain(own) {
        for (at, _) in line.match_indices(receiver) {
            let before = line[..at].chars().next_back();
            let whole = before.is_none_or(|c| !c.is_alphanumeric() && c != '_');
            found.extend(identifier(&line[at + receiver.len()..]).filter(|_| whole));
        }
    }
    found
}

/// The methods that a line calls, of whatever value.
fn called_of_any(line: &str) -> impl Iterator<Item = &str> {
    line.match_indices('.').filter_map(|(at, _)| {
        let name = identifier(&line[at + 1..])?;
        line[at + 1 + name.len()..].starts_with('(').then_some(name)
    })
}

/// Violations in the engine's files, given by their paths relative to its `src`.
pub(crate) fn check(files: &[(String, String)]) -> Vec<String> {
    let shipped = |path: &str| path != "lib.rs" && !is_test_file(&format!("/{path}"));
    let files: Vec<_> = files.iter().filter(|(path, _)| shipped(path)).collect();
    let mut homes: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (path, text) in &files {
        for (_, line) in shipped_lines(text) {
            let kinds = ["struct ", "enum "].into_iter();
            let names = kinds.filter_map(|kind| declared(line, kind));
            names.for_each(|name| homes.entry(name).or_default().push(module(path)));
        }
    }
    let mut found = Vec::new();
    // Of each type the names of its methods, with the modules that they lie in.
    let mut methods: BTreeMap<&str, BTreeMap<&str, &str>> = BTreeMap::new();
    for (path, text) in &files {
        let mut inside = None;
        for (number, line) in shipped_lines(text) {
            if let Some(name) = implemented(line) {
                inside = Some(name);
                let home = homes.get(name).is_none_or(|homes| homes.contains(&module(path)));
                if !home && !SPREAD.contains(&name) {
                    found.push(format!(
                        "tidesdb/{path}:{number}: methods of '{name}' belong to its own module"
                    ));
                }
            } else if line == "}" {
                inside = None;
            } else if let Some(name) = declared(line, "fn ") {
                methods.entry(inside.unwrap_or("")).or_default().insert(name, module(path));
            }
        }
    }
    for &(judged, receivers) in JUDGED {
        let Some(own) = methods.get(judged) else { continue };
        // Names that methods of other types and traits have too: their receiver tells which is
        // meant.
        let others = methods.iter().filter(|(other, _)| **other != judged);
        let others = others.flat_map(|(_, methods)| methods.keys().copied());
        let shared: BTreeSet<&str> = COMMON.iter().copied().chain(others).collect();
        for (path, text) in &files {
            found.extend(upward(path, text, (judged, receivers), own, &shared));
        }
    }
    found
}

/// Calls of methods of a type that lie in higher modules.
fn upward(
    path: &str,
    text: &str,
    (judged, receivers): (&str, &[&str]),
    methods: &BTreeMap<&str, &str>,
    shared: &BTreeSet<&str>,
) -> Vec<String> {
    let mut found = Vec::new();
    let mut inside = false;
    for (number, line) in statements(text) {
        if let Some(name) = implemented(&line) {
            inside = name == judged;
        } else if line == "}" {
            inside = false;
        }
        let unique = called_of_any(&line).filter(|name| !shared.contains(name));
        let of_receivers = called(&line, receivers, inside).into_iter();
        let names: BTreeSet<_> = of_receivers.chain(unique).collect();
        for name in names {
            if let Some(other) = methods.get(name)
                && rank(other) > rank(module(path))
            {
                found.push(format!(
                    "tidesdb/{path}:{number}: calls '{name}' of '{other}', which is above it"
                ));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn violations(files: &[(&str, &str)]) -> Vec<String> {
        let owned = |(path, text): &(&str, &str)| ((*path).to_owned(), (*text).to_owned());
        check(&files.iter().map(owned).collect::<Vec<_>>())
    }

    const ABOVE: (&str, &str) =
        ("flush/mod.rs", "impl Core {\n    pub(crate) fn flush_all(&self) {}\n}\n");

    #[test]
    fn calls_of_methods_of_higher_modules_are_found() {
        for call in [
            "self.flush_all();",
            "Core::flush_all(self);",
            "each(Self::flush_all);",
            "self\n  .flush_all()",
        ] {
            let below = format!("impl Core {{\n    fn a(&self) {{\n        {call}\n    }}\n}}\n");
            assert_eq!(violations(&[ABOVE, ("write/a.rs", &below)]).len(), 1, "{call}");
            assert!(violations(&[ABOVE, ("db/a.rs", &below)]).is_empty(), "{call}");
        }
        let by_field = "impl Owner {\n    fn a(&self) {\n        self.0.flush_all();\n    }\n}\n";
        assert_eq!(violations(&[ABOVE, ("core/owner.rs", by_field)]).len(), 1);
        let elsewhere = "fn a(owner: &Owner) {\n    owner.core().flush_all();\n}\n";
        assert_eq!(violations(&[ABOVE, ("iterator/a.rs", elsewhere)]).len(), 1);
    }

    #[test]
    fn calls_of_methods_of_a_handle_are_found() {
        let above = ("db/family.rs", "impl Family {\n    pub fn put_all(&self) {}\n}\n");
        for call in ["family.put_all();", "Family::put_all(family);", "self.0\n  .put_all();"] {
            let below = format!("fn a(family: &Family) {{\n    {call}\n}}\n");
            assert_eq!(violations(&[above, ("read/a.rs", &below)]).len(), 1, "{call}");
            assert!(violations(&[above, ("salvage/a.rs", &below)]).is_empty(), "{call}");
        }
        // Of a state, which has one of that name.
        let state = ("family/state.rs", "impl FamilyState {\n    fn put_all(&self) {}\n}\n");
        let below = ("read/a.rs", "fn a() {\n    family.put_all();\n}\n");
        assert!(violations(&[above, state, below]).is_empty());
    }

    #[test]
    fn other_methods_of_that_name_are_not() {
        let other = "impl Wal {\n    fn flush_all(&self) {}\n    fn a(&self) {\n        \
                     self.flush_all();\n    }\n}\n";
        assert!(violations(&[ABOVE, ("wal/mod.rs", other)]).is_empty());
    }

    #[test]
    fn methods_outside_of_their_types_module_are_found() {
        let home = ("family/state.rs", "pub(crate) struct FamilyState {\n}\n");
        let away = ("db/a.rs", "impl FamilyState {\n}\nimpl<'a> Fn<'a> for FamilyState {\n}\n");
        assert_eq!(violations(&[home, away]).len(), 1);
    }
}
