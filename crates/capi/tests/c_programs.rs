//! Compiles and runs the C test program, and compiles the headers as clients do.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn here() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The shared library that this build has made, beside the test program or one folder above.
fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let folders = test.ancestors().skip(1).take(2);
    let candidates = folders.map(|folder| folder.join("libtidesdb_c.so"));
    candidates.into_iter().find(|path| path.exists()).expect("the shared library was not built")
}

fn available(compiler: &str) -> bool {
    Command::new(compiler)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

fn succeed(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{text}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

const STRICT: [&str; 4] = ["-Wall", "-Wextra", "-Werror", "-pedantic"];

#[test]
fn the_interface_keeps_its_contract() {
    let folder = tempfile::tempdir().unwrap();
    let (library, program) = (library(), folder.path().join("basics"));
    let mut compile = Command::new("cc");
    compile.args(["-std=gnu11", "-g"]).args(STRICT);
    compile.arg("-I").arg(here().join("include")).arg(here().join("tests/c/basics.c"));
    // Linked by its name, found by the name that is built into it.
    compile.arg(&library).arg("-lpthread").arg("-o").arg(&program);
    succeed(&mut compile);
    let named = folder.path().join("libtidesdb.so.9");
    std::os::unix::fs::symlink(&library, &named).unwrap();
    let data = folder.path().join("data");
    std::fs::create_dir(&data).unwrap();
    let out = succeed(Command::new(&program).arg(&data).env("LD_LIBRARY_PATH", folder.path()));
    assert_eq!(out, "all checks hold\n");
}

#[test]
fn the_headers_compile_alone_and_in_pairs() {
    let headers = ["db", "objstore", "objstore_s3", "tidesdb", "tidesdb_version"];
    let folder = tempfile::tempdir().unwrap();
    let compile = |compiler: &str, standard: &str, name: &str, text: &str| {
        let source = folder.path().join(name);
        std::fs::write(&source, text).unwrap();
        succeed(
            Command::new(compiler)
                .arg(format!("-std={standard}"))
                .args(STRICT)
                .arg("-I")
                .arg(here().join("include"))
                .arg("-fsyntax-only")
                .arg(Path::new(&source)),
        );
    };
    let mut compiled = 0;
    for first in headers {
        for second in headers {
            let both = format!("#include <tidesdb/{first}.h>\n#include <tidesdb/{second}.h>\n");
            for compiler in ["cc", "clang"].into_iter().filter(|compiler| available(compiler)) {
                for standard in ["c11", "c17"] {
                    let text = format!("{both}int main(void) {{ return 0; }}\n");
                    compile(compiler, standard, "pair.c", &text);
                    compiled += 1;
                }
            }
            for compiler in ["c++", "clang++"].into_iter().filter(|compiler| available(compiler)) {
                let text = format!("extern \"C\" {{\n{both}}}\nint main() {{ return 0; }}\n");
                compile(compiler, "c++17", "pair.cpp", &text);
            }
        }
    }
    assert!(compiled >= 50, "{compiled} compilations: is there no C compiler?");
}

#[test]
fn nothing_but_the_interface_is_exported() {
    let symbols = succeed(Command::new("nm").args(["-D", "--defined-only"]).arg(library()));
    let names: Vec<_> = symbols.lines().filter_map(|line| line.split(' ').next_back()).collect();
    let foreign: Vec<_> = names
        .iter()
        .filter(|name| !name.starts_with("tidesdb_") && !name.starts_with("tdb_log_"))
        .collect();
    assert!(foreign.is_empty(), "{foreign:?}");
    assert!(names.contains(&"tidesdb_open") && names.contains(&"tidesdb_log_write"), "{names:?}");
}
