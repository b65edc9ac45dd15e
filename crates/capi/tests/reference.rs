//! `docs/c-api.md` is made from the headers: their comments and declarations, in their order.
//!
//! `TIDESDB_WRITE_C_API=1 cargo test -p tidesdb-c --test reference` writes it anew.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::fmt::Write as _;
use std::path::PathBuf;

const HEADERS: [(&str, &str); 5] = [
    ("db.h", "The complete interface, for C, C++ and generators of bindings."),
    ("tidesdb.h", "For native programs: all of `db.h` and `objstore.h`, and what follows."),
    ("objstore.h", "Connectors to object stores."),
    ("objstore_s3.h", "Connectors to S3, in libraries that are built with them."),
    ("tidesdb_version.h", "Versions, and the codecs that the library has."),
];

fn here() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// A comment without its marks, as paragraphs; lists keep their lines.
fn prose(comment: &str) -> String {
    let inside = comment.trim().trim_start_matches("/*").trim_end_matches("*/");
    let (mut out, mut is_new) = (String::new(), false);
    for line in inside.lines().map(|line| line.trim().trim_start_matches("* ").trim()) {
        if line.is_empty() || line == "*" {
            is_new = true;
            continue;
        }
        let breaks = line.starts_with("- ") || line.starts_with("TDB_ERR_");
        // A form that is not to be joined with what is said of it.
        let is_form = line.starts_with('[');
        let begins = std::mem::replace(&mut is_new, is_form) || is_form;
        out.push_str(if out.is_empty() {
            ""
        } else if begins {
            "\n\n"
        } else if breaks {
            "\n"
        } else {
            " "
        });
        match is_form {
            true => out.extend(["`", line, "`"]),
            false => out.push_str(line),
        }
    }
    // Names are code.
    let words = out.split_inclusive([' ', '\n']).map(|word| {
        let name = word.trim_end_matches(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let is_name = name.starts_with("tidesdb_") || name.starts_with("TDB_");
        if word.starts_with('<') && word.trim_end().ends_with(['>', ',', '.']) {
            let (file, rest) = word.split_once('>').unwrap();
            return format!("`{file}>`{rest}");
        }
        if is_name { format!("`{name}`{}", &word[name.len()..]) } else { word.to_owned() }
    });
    words.collect()
}

/// Marks of the preprocessor that are no part of what a reader needs.
fn is_scaffolding(line: &str) -> bool {
    let begins = ["#if", "#else", "#endif", "#include", "extern \"C\"", "__attribute__"];
    begins.iter().any(|begin| line.starts_with(begin))
        || line == "{"
        || line == "}"
        || line.starts_with("#define __")
        || line.starts_with("#define TIDESDB_VERSION_H")
}

/// The sections of a header: rulers become headings, comments text, declarations code.
fn render(text: &str, out: &mut String) {
    // In a declaration of several lines: how deep in braces, once there was one.
    let (mut code, mut block) = (String::new(), None::<Option<usize>>);
    let mut lines = text.lines().peekable();
    let flush = |code: &mut String, out: &mut String| {
        if !code.trim().is_empty() {
            let _ = write!(out, "```c\n{}\n```\n\n", code.trim_end());
        }
        code.clear();
    };
    while let Some(line) = lines.next() {
        let begins = ["typedef", "struct", "static inline"];
        if begins.iter().any(|begin| line.starts_with(begin)) && !line.ends_with(';') {
            block = Some(None);
        }
        if let Some(depth) = block {
            if !line.starts_with('#') {
                let _ = writeln!(code, "{line}");
            }
            let opened = depth.is_some() || line.contains('{');
            let depth = depth.unwrap_or(0) + line.matches('{').count() - line.matches('}').count();
            let ends = if opened { depth == 0 } else { line.ends_with(';') };
            block = (!ends).then_some(opened.then_some(depth));
        } else if line.starts_with("/* ---") {
            flush(&mut code, out);
            let heading = line.trim_matches(|c| matches!(c, '/' | '*' | '-' | ' '));
            let _ = write!(out, "### {}{}\n\n", heading[..1].to_uppercase(), &heading[1..]);
        } else if line.starts_with("/*") {
            flush(&mut code, out);
            let mut comment = line.to_owned();
            while !comment.ends_with("*/") {
                comment = format!("{comment}\n{}", lines.next().unwrap());
            }
            let _ = write!(out, "{}\n\n", prose(&comment));
        } else if line.is_empty() {
            flush(&mut code, out);
        } else if !is_scaffolding(line) {
            let _ = writeln!(code, "{line}");
        }
    }
    flush(&mut code, out);
}

#[test]
fn the_reference_is_that_of_the_headers() {
    let mut page = String::from(
        "# The C interface: reference\n\nMade from the headers in `crates/capi/include/tidesdb` by \
         `crates/capi/tests/reference.rs`; change those. How to build and install the library, and \
         examples: `crates/capi/README.md`.\n\n",
    );
    for (file, about) in HEADERS {
        let text = std::fs::read_to_string(here().join("include/tidesdb").join(file)).unwrap();
        let _ = write!(page, "## `tidesdb/{file}`\n\n{about}\n\n");
        render(&text, &mut page);
    }
    let page = format!("{}\n", page.trim_end());
    let place = here().join("../../docs/c-api.md");
    if std::env::var_os("TIDESDB_WRITE_C_API").is_some() {
        std::fs::write(&place, &page).unwrap();
    }
    let written = std::fs::read_to_string(&place).unwrap_or_default();
    let differs = page.lines().zip(written.lines()).position(|(wanted, found)| wanted != found);
    let how = "TIDESDB_WRITE_C_API=1 cargo test -p tidesdb-c --test reference";
    assert!(page == written, "docs/c-api.md differs, first at line {differs:?}; write it by {how}");
}

#[test]
fn the_header_has_the_version_of_the_library() {
    let path = here().join("include/tidesdb/tidesdb_version.h");
    let text = std::fs::read_to_string(path).unwrap();
    let version = concat!("#define TIDESDB_RUST_VERSION \"", env!("CARGO_PKG_VERSION"), "\"");
    assert!(text.lines().any(|line| line == version), "{version}");
}

/// Functions that a header declares: what follows the type in a line that begins a declaration.
fn declared(header: &str) -> Vec<String> {
    let begins = header.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_alphabetic()));
    let names = begins.filter_map(|line| {
        let (head, _) = line.split_once('(')?;
        let name = head.rsplit([' ', '*']).next()?;
        name.starts_with("tidesdb_").then(|| name.to_owned())
    });
    names.collect()
}

/// A C program without its comments.
fn uncommented(text: &str) -> String {
    let parts = text.split("/*").enumerate();
    parts.map(|(n, part)| if n == 0 { part } else { part.split_once("*/").unwrap().1 }).collect()
}

/// Each function of the interface is called by a C program of the tests.
#[test]
fn every_function_is_tried_in_c() {
    let programs = std::fs::read_dir(here().join("tests/c")).unwrap();
    let programs = programs.map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap());
    let text: String = programs.map(|text| uncommented(&text)).collect();
    let headers = ["db.h", "tidesdb.h", "objstore.h"];
    let all = headers.map(|name| {
        let path = here().join("include/tidesdb").join(name);
        declared(&std::fs::read_to_string(path).unwrap())
    });
    let all = all.concat();
    assert!(all.len() >= 60, "{all:?}");
    // Declared for libraries that are built with connectors to S3, which this one is not.
    let is_elsewhere = |name: &&String| *name == "tidesdb_objstore_s3_create_config";
    let is_called = |name: &&String| text.contains(&format!("{name}("));
    let missing: Vec<_> =
        all.iter().filter(|name| !is_elsewhere(name) && !is_called(name)).collect();
    assert!(missing.is_empty(), "no C program calls {missing:?}");
}
