//! Which crate may depend on which, and that foreign crates are explained.

/// Crates of the workspace from the lowest layer up, each with the crates it may depend on. The
/// simulated world and the test kit are the tests' side of the engine: others may name them as
/// dev-dependencies only.
pub(crate) const LAYERS: &[(&str, &[&str])] = &[
    ("tidesdb-base", &[]),
    ("tidesdb-sys", &["tidesdb-base"]),
    ("tidesdb-lockfree", &["tidesdb-base"]),
    ("tidesdb-files", &["tidesdb-base", "tidesdb-sys"]),
    ("tidesdb", &["tidesdb-base", "tidesdb-sys", "tidesdb-lockfree", "tidesdb-files"]),
    ("tidesdb-sim", &["tidesdb-sys"]),
    ("tidesdb-testkit", &["tidesdb-base", "tidesdb-sys", "tidesdb-sim", "tidesdb"]),
    ("tidesdb-c", &["tidesdb", "tidesdb-base", "tidesdb-sys"]),
    ("tidesdb-cli", &["tidesdb"]),
    ("bench-compare", &[]),
    ("benchtool", &["bench-compare", "tidesdb"]),
];

/// Dependencies of a manifest: section and name of each.
fn entries(manifest: &str) -> Vec<(&str, &str)> {
    let mut section = "";
    let mut found = Vec::new();
    for line in manifest.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            section = name;
        } else if section.ends_with("dependencies")
            && let Some(end) = line.find(['.', ' ', '='])
            && !line.starts_with('#')
        {
            found.push((section, &line[..end]));
        }
    }
    found
}

fn crate_name(manifest: &str) -> &str {
    let name = manifest.lines().find_map(|line| line.strip_prefix("name = \""));
    name.map_or("", |name| name.trim_end_matches('"'))
}

fn is_ours(name: &str) -> bool {
    LAYERS.iter().any(|(ours, _)| *ours == name)
}

/// Violations of the layers in one crate's manifest.
pub(crate) fn check(path: &str, manifest: &str) -> Vec<String> {
    let name = crate_name(manifest);
    let mut found = Vec::new();
    let Some((_, allowed)) = LAYERS.iter().find(|(ours, _)| *ours == name) else {
        return vec![format!("{path}: crate '{name}' is not in the table of layers")];
    };
    for (section, dependency) in entries(manifest) {
        let ships = !section.ends_with("dev-dependencies");
        if ships && is_ours(dependency) && !allowed.contains(&dependency) {
            found.push(format!("{path}: {name} must not depend on {dependency}"));
        }
    }
    if !manifest.contains("[lints]\nworkspace = true") {
        found.push(format!("{path}: {name} does not take the workspace's lints"));
    }
    found
}

/// Foreign crates that docs/dependencies.md does not name.
pub(crate) fn unexplained(path: &str, manifest: &str, page: &str) -> Vec<String> {
    entries(manifest)
        .into_iter()
        .filter(|(_, name)| !is_ours(name) && !page.contains(&format!("`{name}`")))
        .map(|(_, name)| format!("{path}: docs/dependencies.md does not say why '{name}' is used"))
        .collect()
}

/// Files of a crate's folder `tests` that no program of its tests contains: a crate that names its
/// programs would leave out a new file without a word. Of `files` each is a path within the folder
/// and a text.
pub(crate) fn unbuilt_tests(path: &str, manifest: &str, files: &[(&str, &str)]) -> Vec<String> {
    if !manifest.contains("\nautotests = false\n") {
        return Vec::new();
    }
    let stem =
        |file: &str| file.strip_suffix(".rs").filter(|s| !s.contains('/')).map(str::to_owned);
    let is_program = |stem: &str| manifest.contains(&format!("\n[[test]]\nname = \"{stem}\"\n"));
    let is_module = |stem: &str| {
        let line = format!("mod {stem};");
        files.iter().any(|(_, text)| text.lines().any(|of_it| of_it == line))
    };
    let stems = files.iter().filter_map(|(file, _)| stem(file));
    let unbuilt = stems.filter(|stem| !is_program(stem) && !is_module(stem));
    unbuilt.map(|stem| format!("{path}: no test program contains tests/{stem}.rs")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINTS: &str = "[lints]\nworkspace = true\n";

    #[test]
    fn an_upward_dependency_is_found() {
        let up = format!(
            "name = \"tidesdb-base\"\n{LINTS}[dependencies]\ntidesdb-sys.workspace = true\n"
        );
        assert_eq!(check("m", &up).len(), 1);
        let target = up.replace("[dependencies]", "[target.'cfg(unix)'.dependencies]");
        assert_eq!(check("m", &target).len(), 1);
        let development = up.replace("[dependencies]", "[dev-dependencies]");
        assert!(check("m", &development).is_empty());
        let kit = format!(
            "name = \"tidesdb\"\n{LINTS}[dependencies]\ntidesdb-testkit = {{ path = \"x\" }}\n"
        );
        assert_eq!(check("m", &kit).len(), 1);
    }

    #[test]
    fn an_unknown_crate_and_missing_lints_are_found() {
        assert_eq!(check("m", "name = \"tidesdb-new\"\n[lints]\nworkspace = true\n").len(), 1);
        assert_eq!(check("m", "name = \"tidesdb-base\"\n").len(), 1);
    }

    #[test]
    fn a_foreign_crate_needs_a_line() {
        let manifest = "[dependencies]\nlibc.workspace = true\ntidesdb-base.workspace = true\n";
        assert_eq!(unexplained("m", manifest, "").len(), 1);
        assert!(unexplained("m", manifest, "| `libc` | ... |").is_empty());
    }

    #[test]
    fn a_test_file_that_nothing_contains_is_found() {
        let files = [("all.rs", "//! All.\n\nmod one;\n"), ("one.rs", ""), ("one/part.rs", "")];
        let named = "a\nautotests = false\n\n[[test]]\nname = \"all\"\n";
        assert!(unbuilt_tests("m", named, &files).is_empty());
        let more = [&files[..], &[("two.rs", "")]].concat();
        assert_eq!(unbuilt_tests("m", named, &more).len(), 1);
        assert!(unbuilt_tests("m", "name = \"a\"\n", &more).is_empty());
    }
}
