//! Files of one module of the engine name each other in one direction.
//!
//! Of files that lie side by side, and of folders with what is in them, one may name the other and
//! not the other way round, through however many others. What two of them need is in a third one.
//! Names that a module re-exports count as names of the file that they come from.

use std::collections::{BTreeMap, BTreeSet};

use super::{is_test_file, shipped_lines};

/// A module by its path from the crate's root: `["wal", "sync"]`.
type Module = Vec<String>;

/// The modules of a crate.
#[derive(Default)]
struct Tree {
    texts: BTreeMap<Module, String>,
    /// What a module re-exports: under which name, and by which path.
    exports: BTreeMap<(Module, String), String>,
}

/// Between the parts of a module: which names which, and by what path.
type Edges = BTreeMap<Module, BTreeMap<(String, String), String>>;

impl Tree {
    fn of(files: &[(String, String)]) -> Self {
        let mut tree = Self::default();
        for (path, text) in files {
            if is_test_file(&format!("/{path}")) {
                continue;
            }
            let name = path.strip_suffix(".rs").unwrap_or(path);
            let name = name.strip_suffix("/mod").unwrap_or(name);
            let module: Module = match name {
                "lib" => Module::new(),
                name => name.split('/').map(str::to_owned).collect(),
            };
            let text: String =
                shipped_lines(text).iter().flat_map(|(_, line)| [*line, "\n"]).collect();
            for (is_public, tree_of_names) in imports(&text) {
                for path in expanded(&tree_of_names).into_iter().filter(|_| is_public) {
                    let (path, renamed) = path.split_once(" as ").unwrap_or((&path, ""));
                    let last = path.rsplit("::").next().unwrap_or(path);
                    let name = if renamed.is_empty() { last } else { renamed };
                    tree.exports.insert((module.clone(), name.to_owned()), path.to_owned());
                }
            }
            tree.texts.insert(module, text);
        }
        tree
    }

    /// The module that a path leads to, as written in `from`.
    fn target(&self, from: &Module, path: &str, depth: usize) -> Module {
        let mut at = from.clone();
        for segment in path.split("::") {
            match segment {
                "self" => continue,
                "super" => drop(at.pop()),
                "crate" => at.clear(),
                name => {
                    let mut below = at.clone();
                    below.push(name.to_owned());
                    if self.texts.contains_key(&below) {
                        at = below;
                        continue;
                    }
                    let export = self.exports.get(&(at.clone(), name.to_owned()));
                    return match export {
                        Some(path) if depth < 6 => self.target(&at, path, depth + 1),
                        _ => at,
                    };
                }
            }
        }
        at
    }

    fn edges(&self) -> Edges {
        let mut edges = Edges::new();
        for (module, text) in &self.texts {
            for path in paths(text) {
                let target = self.target(module, &path, 0);
                let common = module.iter().zip(&target).take_while(|(a, b)| a == b).count();
                if common == 0 {
                    continue;
                }
                if let (Some(from), Some(to)) = (module.get(common), target.get(common)) {
                    let of_parent = edges.entry(module[..common].to_vec()).or_default();
                    let pair = (from.clone(), to.clone());
                    of_parent.entry(pair).or_insert(format!("{} by {path}", module.join("/")));
                }
            }
        }
        edges
    }
}

/// What a text imports or exports: whether it is an export, and the tree of names.
fn imports(text: &str) -> Vec<(bool, String)> {
    let mut found = Vec::new();
    let mut open: Option<(bool, String)> = None;
    for line in text.lines() {
        let (is_public, names) = match open.take() {
            Some((is_public, names)) => (is_public, names + line.trim()),
            None => {
                let Some((before, names)) = line.split_once("use ") else { continue };
                if !(before.trim().is_empty() || before.trim_start().starts_with("pub")) {
                    continue;
                }
                (!before.trim().is_empty(), names.to_owned())
            }
        };
        match names.strip_suffix(';') {
            Some(names) => found.push((is_public, names.to_owned())),
            None => open = Some((is_public, names)),
        }
    }
    found
}

/// The paths of a tree of names such as `a::{b, c::{d, e}}`.
fn expanded(names: &str) -> Vec<String> {
    let names = names.trim();
    let Some((prefix, rest)) = names.split_once('{') else { return vec![names.to_owned()] };
    let inner = rest.strip_suffix('}').unwrap_or(rest);
    let (mut depth, mut parts) = (0, vec![String::new()]);
    for c in inner.chars() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        match parts.last_mut() {
            Some(_) if c == ',' && depth == 0 => parts.push(String::new()),
            Some(part) => part.push(c),
            None => {}
        }
    }
    let parts = parts.iter().filter(|part| !part.trim().is_empty());
    parts.flat_map(|part| expanded(part)).map(|path| format!("{prefix}{path}")).collect()
}

/// The paths within the crate that a text names, in imports and elsewhere.
fn paths(text: &str) -> BTreeSet<String> {
    let imported = imports(text).into_iter().flat_map(|(_, names)| expanded(&names));
    let mut found: BTreeSet<String> = imported.collect();
    for start in ["super::", "crate::"] {
        for (at, _) in text.match_indices(start) {
            let rest = &text[at..];
            let inside = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
            let end = rest.find(|c| !inside(c)).unwrap_or(rest.len());
            let before = text[..at].chars().next_back();
            if before.is_none_or(|c| !c.is_alphanumeric() && c != '_' && c != ':') {
                found.insert(rest[..end].trim_end_matches(':').to_owned());
            }
        }
    }
    let within = |path: &String| ["self", "super", "crate"].contains(&first_segment(path));
    found.into_iter().filter(within).map(|path| path.replace(" as _", "")).collect()
}

fn first_segment(path: &str) -> &str {
    path.split("::").next().unwrap_or(path)
}

/// Violations in the engine's files, given by their paths relative to its `src`.
pub(crate) fn check(files: &[(String, String)]) -> Vec<String> {
    let mut found = Vec::new();
    for (parent, pairs) in Tree::of(files).edges() {
        for ((from, to), why) in &pairs {
            if reaches(&pairs, to, from) {
                let parent = parent.join("/");
                found.push(format!("tidesdb/{parent}: '{from}' names '{to}' ({why}), in a circle"));
            }
        }
    }
    found
}

/// Whether one part leads to another.
fn reaches(pairs: &BTreeMap<(String, String), String>, from: &str, to: &str) -> bool {
    let (mut seen, mut waiting) = (BTreeSet::new(), vec![from]);
    while let Some(at) = waiting.pop() {
        if at == to {
            return true;
        }
        if seen.insert(at) {
            let next = pairs.keys().filter(|(start, _)| start == at);
            waiting.extend(next.map(|(_, end)| end.as_str()));
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn violations(files: &[(&str, &str)]) -> Vec<String> {
        let owned = |(path, text): &(&str, &str)| ((*path).to_owned(), (*text).to_owned());
        check(&files.iter().map(owned).collect::<Vec<_>>())
    }

    #[test]
    fn circles_of_files_are_found() {
        let sync = ("wal/sync.rs", "use super::state::Fault;\n");
        let root = ("wal/mod.rs", "mod state;\nmod sync;\n");
        assert!(violations(&[root, sync, ("wal/state.rs", "use super::Wal;\n")]).is_empty());
        for back in [
            "use super::sync::Leader;\n",
            "use super::{Wal, sync::Leader};\n",
            "use crate::wal::{\n    Wal,\n    sync,\n};\n",
            "fn a() {\n    super::sync::b();\n}\n",
        ] {
            assert_eq!(violations(&[root, sync, ("wal/state.rs", back)]).len(), 2, "{back}");
        }
        let tests = "#[cfg(test)]\nmod tests {\n    use super::super::sync::Leader;\n}\n";
        assert!(violations(&[root, sync, ("wal/state.rs", tests)]).is_empty());
    }

    #[test]
    fn circles_through_exports_and_folders_are_found() {
        let root = ("read/mod.rs", "pub(crate) use self::pinned::{Held, Value as PinnedValue};\n");
        let pinned = ("read/pinned.rs", "use super::multi_get::Block;\n");
        let many = ("read/multi_get.rs", "pub(super) use self::collect::Block;\n");
        let back = ("read/multi_get/collect.rs", "use super::super::PinnedValue;\n");
        assert_eq!(violations(&[root, pinned, many, back]).len(), 2);
        let other = ("read/multi_get/collect.rs", "use super::super::Other;\n");
        assert!(violations(&[root, pinned, many, other]).is_empty());
        // Through a third one.
        let third = ("read/get.rs", "use super::Held;\n");
        let many = ("read/multi_get.rs", "use super::get::Get;\n");
        assert_eq!(violations(&[root, pinned, many, third]).len(), 3);
    }
}
