//! The project's rules as a test: layers, sizes, one door to the outside world, unsafe code,
//! documents.
//!
//! Each rule is a pure function from a path and a text to a list of violations, and is tried on
//! small strings first (`rules` below), so that a rule that never fires is noticed. The tests at
//! the end walk the workspace and expect no violation. A violation names file, line and rule.
//!
//! The tables in this file are the written form of the rules: which crate may depend on which,
//! which module of the engine may name which, which files may contain `unsafe` or call the
//! operating system. A new crate or module needs an entry here, or the test fails.

mod tidy_rules;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use tidy_rules::{calls, dependencies, documents, engine, parts, patches, siblings, sources};

/// Extensions of the files that people read and write.
const TEXTS: &[&str] = &["rs", "md", "toml", "sh", "h", "c", "cpp", ""];

/// A header that stays as its authors wrote it.
const FOREIGN_SOURCE: &str = "crates/capi/include/tidesdb/xxhash.h";

/// The root of the workspace.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// All files below the workspace's own folders: path from the root with `/`, and text.
fn files(extensions: &[&str]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for folder in ["crates", "docs", "scripts", ".ci"] {
        collect(&root(), Path::new(folder), &mut found);
    }
    let documents = ["ARCHITECTURE", "CHANGELOG", "CONTRIBUTING", "README", "STYLE"];
    found.extend(documents.map(|name| format!("{name}.md")));
    found.extend(["Cargo.toml", "deny.toml"].map(str::to_owned));
    found.sort();
    let wanted = |path: &String| {
        let extension = Path::new(path).extension().map_or("", |e| e.to_str().unwrap_or(""));
        extensions.contains(&extension)
    };
    let read = |path: String| match fs::read_to_string(root().join(&path)) {
        Ok(text) => (path, text),
        // Reported as a violation by the rule that every file has a text.
        Err(e) => (path, format!("\u{0}{e}")),
    };
    found.into_iter().filter(wanted).map(read).collect()
}

fn collect(root: &Path, folder: &Path, found: &mut Vec<String>) {
    let Ok(entries) = fs::read_dir(root.join(folder)) else { return };
    for entry in entries.flatten() {
        let path = folder.join(entry.file_name());
        if entry.path().is_dir() {
            // Stored databases are not text.
            if entry.file_name() != "target" && entry.file_name() != "fixtures" {
                collect(root, &path, found);
            }
        } else if let Some(text) = path.to_str() {
            found.push(text.replace('\\', "/"));
        }
    }
}

fn expect_none(violations: &[String]) {
    assert!(violations.is_empty(), "{} violations:\n{}", violations.len(), violations.join("\n"));
}

#[test]
fn the_walk_sees_the_workspace() {
    let rust = files(&["rs"]);
    assert!(rust.len() > 100, "only {} source files found", rust.len());
    for wanted in ["crates/tidesdb/src/lib.rs", "crates/base/tests/tidy.rs"] {
        assert!(rust.iter().any(|(path, _)| path == wanted), "{wanted} was not found");
    }
    let unreadable: Vec<_> = files(TEXTS)
        .into_iter()
        .filter(|(_, text)| text.starts_with('\u{0}'))
        .map(|(path, text)| format!("{path}: {text}"))
        .collect();
    expect_none(&unreadable);
}

#[test]
fn crates_depend_on_lower_layers_only() {
    let manifests = files(&["toml"]);
    let manifests: Vec<_> =
        manifests.iter().filter(|(path, _)| path.starts_with("crates/")).collect();
    assert_eq!(manifests.len(), dependencies::LAYERS.len(), "the table of layers names each crate");
    let found = manifests.iter().flat_map(|(path, text)| dependencies::check(path, text));
    expect_none(&found.collect::<Vec<_>>());
}

#[test]
fn every_test_file_is_built() {
    let sources = files(&["rs"]);
    let mut found = Vec::new();
    for (path, manifest) in files(&["toml"]) {
        let Some(of_crate) = path.strip_suffix("Cargo.toml") else { continue };
        let folder = format!("{of_crate}tests/");
        let tests: Vec<_> = sources
            .iter()
            .filter_map(|(path, text)| Some((path.strip_prefix(&folder)?, text.as_str())))
            .collect();
        found.extend(dependencies::unbuilt_tests(&path, &manifest, &tests));
    }
    expect_none(&found);
}

#[test]
fn every_foreign_crate_is_explained() {
    let page = fs::read_to_string(root().join("docs/dependencies.md")).unwrap();
    let mut found = Vec::new();
    for (path, text) in files(&["toml"]) {
        if path.starts_with("crates/") {
            found.extend(dependencies::unexplained(&path, &text, &page));
        }
    }
    expect_none(&found);
}

#[test]
fn engine_modules_name_lower_modules_only() {
    let mut found = Vec::new();
    for (path, text) in files(&["rs"]) {
        if let Some(inside) = path.strip_prefix("crates/tidesdb/src/") {
            found.extend(engine::check(inside, &text));
        }
    }
    expect_none(&found);
}

/// The engine's files, by their paths relative to its `src`.
fn engine_files() -> Vec<(String, String)> {
    let inside = |(path, text): (String, String)| {
        path.strip_prefix("crates/tidesdb/src/").map(|path| (path.to_owned(), text))
    };
    files(&["rs"]).into_iter().filter_map(inside).collect()
}

#[test]
fn engine_modules_call_lower_modules_only() {
    expect_none(&calls::check(&engine_files()));
}

#[test]
fn engine_modules_use_the_parts_of_a_database_that_the_table_says() {
    expect_none(&parts::check(&engine_files()));
}

#[test]
fn files_of_an_engine_module_name_each_other_in_one_direction() {
    expect_none(&siblings::check(&engine_files()));
}

#[test]
fn every_module_of_the_engine_is_in_the_picture() {
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let picture = text.split("## Layers").nth(1).and_then(|rest| rest.split("```").nth(1));
    let missing = engine::missing_in(picture.unwrap());
    assert!(missing.is_empty(), "ARCHITECTURE.md does not draw {missing:?}");
}

#[test]
fn files_that_the_pictures_name_are_there() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let sources: Vec<_> = files(&["rs"]).into_iter().map(|(path, _)| path).collect();
    let shipped: Vec<_> = sources
        .iter()
        .filter(|path| path.contains("/src/") && !tidy_rules::is_test_file(path))
        .map(String::as_str)
        .collect();
    expect_none(&documents::missing_in_pictures("ARCHITECTURE.md", &text, &shipped));
}

#[test]
fn sources_keep_the_rules() {
    let mut found = Vec::new();
    for (path, text) in files(&["rs"]) {
        found.extend(sources::size(&path, &text));
        found.extend(sources::functions(&path, &text));
        found.extend(sources::fields(&path, &text));
        found.extend(sources::header(&path, &text));
        found.extend(sources::unsafe_code(&path, &text));
        found.extend(sources::forbids_unsafe(&path, &text));
        found.extend(sources::doors(&path, &text));
    }
    expect_none(&found);
}

#[test]
fn texts_keep_the_rules() {
    let mut found = Vec::new();
    for (path, text) in files(TEXTS).into_iter().filter(|(path, _)| path != FOREIGN_SOURCE) {
        found.extend(documents::intentions(&path, &text));
        found.extend(documents::machine_paths(&path, &text));
        if path.ends_with(".md") || path.ends_with(".rs") {
            found.extend(documents::nameless(&path, &text));
            found.extend(documents::answering(&path, &text));
        }
        if path.ends_with(".rs") {
            found.extend(documents::nameless_functions(&path, &text));
            found.extend(documents::vague_types(&path, &text));
            found.extend(documents::split_sentences(&path, &text));
        }
        if path.ends_with(".md") {
            found.extend(documents::columns(&path, &text));
            found.extend(documents::long_sentences(&path, &text));
            found.extend(documents::missing_paths(&path, &text, |named| {
                root().join(named).exists()
            }));
            found.extend(documents::missing_links(&path, &text, |named| {
                root().join(named).exists()
            }));
        } else {
            found.extend(sources::columns(&path, &text));
        }
    }
    expect_none(&found);
}

#[test]
fn the_pages_that_are_read_first_stay_short() {
    for (page, most) in [("ARCHITECTURE.md", 250), ("README.md", 120), ("docs/performance.md", 120)]
    {
        let text = fs::read_to_string(root().join(page)).unwrap();
        let lines = documents::written_lines(&text);
        assert!(lines <= most, "{page} has {lines} lines, at most {most} are allowed");
    }
}

#[test]
fn invariants_have_one_heading_each_and_are_named_by_it() {
    let page = fs::read_to_string(root().join("docs/invariants.md")).unwrap();
    let known = documents::invariants(&page);
    assert!(known.len() > 100, "only {} invariants have a heading", known.len());
    let mut found = Vec::new();
    for (at, number) in known.iter().enumerate() {
        if known[..at].contains(number) {
            found.push(format!("docs/invariants.md: I-{number} is there twice"));
        }
    }
    for (path, text) in files(&["rs", "md"]) {
        if !path.starts_with("crates/base/tests/tidy") {
            found.extend(documents::unknown_invariants(&path, &text, &known));
        }
    }
    expect_none(&found);
}

#[test]
fn the_example_of_the_front_page_is_one_that_compiles() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let tour = fs::read_to_string(root().join("crates/tidesdb/examples/tour.rs")).unwrap();
    let shown = documents::rust_lines(&readme);
    assert!(shown.len() > 10, "README.md shows {} lines of Rust", shown.len());
    let missing = shown.into_iter().filter(|shown| !tour.lines().any(|line| line.trim() == *shown));
    let missing = missing.map(|line| format!("README.md: '{line}' is not in the tour"));
    expect_none(&missing.collect::<Vec<_>>());
}

#[test]
fn the_guide_is_whole_and_its_examples_are_run() {
    let chapters: Vec<_> = files(&["md"])
        .into_iter()
        .filter_map(|(path, text)| Some((path.strip_prefix("docs/guide/src/")?.to_owned(), text)))
        .collect();
    assert!(chapters.len() > 10, "the guide has {} chapters", chapters.len());
    let read = |path: &str| fs::read_to_string(root().join(path)).unwrap();
    let (summary, run) = (read("docs/guide/src/SUMMARY.md"), read("crates/tidesdb/src/guide.rs"));
    let mut found = Vec::new();
    for (name, text) in chapters.iter().filter(|(name, _)| name != "SUMMARY.md") {
        if !summary.contains(&format!("]({name})")) {
            found.push(format!("docs/guide/src/SUMMARY.md does not name {name}"));
        }
        if text.contains("```rust") != run.contains(&format!("\"{name}\"")) {
            found.push(format!("crates/tidesdb/src/guide.rs runs {name}, or should"));
        }
    }
    expect_none(&found);
}

/// Patches of one kind: name and text.
fn planted(kind: &str) -> Vec<(String, String)> {
    let folder = format!("scripts/planted/{kind}/");
    let patches = files(&["patch"]).into_iter().filter_map(|(path, text)| {
        Some((path.strip_prefix(&folder)?.strip_suffix(".patch")?.to_owned(), text))
    });
    patches.collect()
}

#[test]
fn planted_bugs_apply_to_the_source_as_it_is() {
    let sources: BTreeMap<_, _> = files(&["rs"]).into_iter().collect();
    let mut found = Vec::new();
    let mut together = sources.clone();
    for (name, patch) in planted("engine") {
        if !patch.contains(&format!("tidesdb_base::planted::is(\"{name}\")")) {
            found.push(format!("{name}.patch has no switch of this name"));
        }
        // Alone first: so far apart that all go together, none leans on another.
        let alone = patches::apply(&patch, &mut sources.clone());
        let result = alone.and_then(|()| patches::apply(&patch, &mut together));
        found.extend(result.err().map(|why| format!("scripts/planted/engine/{name}.patch: {why}")));
    }
    for (name, patch) in planted("models") {
        let result = patches::apply(&patch, &mut sources.clone());
        found.extend(result.err().map(|why| format!("scripts/planted/models/{name}.patch: {why}")));
    }
    for (path, text) in sources.iter().filter(|(path, _)| !path.starts_with("crates/base/tests")) {
        if text.contains("planted::is(") {
            found.push(format!("{path}: a planted bug belongs into a patch"));
        }
    }
    expect_none(&found);
}

#[test]
fn every_planted_bug_has_its_row() {
    let page = fs::read_to_string(root().join("docs/planted-bugs.md")).unwrap();
    let script = fs::read_to_string(root().join("scripts/planted-bugs")).unwrap();
    let (engine, models) = patches::listed(&script);
    let mut found = Vec::new();
    for (kind, listed) in [("engine", engine), ("models", models)] {
        let there = planted(kind);
        assert!(there.len() > 10, "only {} bugs of kind {kind}", there.len());
        for (name, _) in &there {
            if !listed.contains(&name.as_str()) {
                found.push(format!("scripts/planted-bugs does not run {kind}/{name}"));
            }
            if !page.contains(&format!("`{name}`")) {
                found.push(format!("docs/planted-bugs.md lacks {name}"));
            }
        }
        let missing = listed.iter().filter(|name| there.iter().all(|(known, _)| known != *name));
        found.extend(missing.map(|name| format!("scripts/planted/{kind} has no {name}.patch")));
    }
    expect_none(&found);
}

#[test]
fn invariants_name_tests_that_exist() {
    let text = fs::read_to_string(root().join("docs/invariants.md")).unwrap();
    let guards = documents::guards(&text);
    assert!(guards.len() > 10, "only {} guards are named", guards.len());
    let missing: Vec<_> = guards
        .into_iter()
        .filter(|(path, test)| {
            let source = fs::read_to_string(root().join(path)).unwrap_or_default();
            !source.contains(&format!("fn {test}("))
        })
        .map(|(path, test)| format!("docs/invariants.md: {path} has no test '{test}'"))
        .collect();
    expect_none(&missing);
}
