//! The header as a generator of language bindings reads it: cgo, which comes with Go.

mod c_support;

use std::process::{Command, Stdio};

use c_support::{here, library, run, succeed};

/// Names and types as the binding for Go uses them. Go converts nothing of its own accord: a field
/// of another type than the one that is named here does not compile.
const PROGRAM: &str = r#"package main

/*
#include <tidesdb/db.h>
*/
import "C"
import "fmt"

func main() {
	config := C.tidesdb_config_t{
		log_level:    C.tidesdb_log_level_t(C.TDB_LOG_WARN),
		object_store: (*C.tidesdb_objstore_t)(nil),
	}
	family := C.tidesdb_column_family_config_t{
		write_buffer_size:       C.size_t(1 << 20),
		compression_algorithm:   C.compression_algorithm(C.TDB_COMPRESS_ZSTD),
		sync_mode:               C.int(C.TDB_SYNC_FULL),
		default_isolation_level: C.tidesdb_isolation_level_t(C.TDB_ISOLATION_SNAPSHOT),
	}
	usual := C.tidesdb_default_column_family_config()
	var algorithm C.compression_algorithm = usual.compression_algorithm
	fmt.Println(config.log_level, family.compression_algorithm, algorithm)
}
"#;

#[test]
fn the_binding_for_go_compiles() {
    // Other programs take `--version`.
    let version = Command::new("go").arg("version").stdout(Stdio::null()).status();
    if !version.is_ok_and(|status| status.success()) {
        println!("skipped: there is no Go");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("main.go"), PROGRAM).unwrap();
    std::fs::write(folder.path().join("go.mod"), "module bindings.invalid\n\ngo 1.20\n").unwrap();
    let library = library();
    std::os::unix::fs::symlink(&library, folder.path().join("libtidesdb.so.9")).unwrap();
    let mut build = Command::new("go");
    build.args(["build", "-o", "program", "."]).current_dir(folder.path());
    build.env("CGO_ENABLED", "1").env("CGO_CFLAGS", format!("-I{}/include", here().display()));
    succeed(build.env("CGO_LDFLAGS", library));
    let mut program = Command::new(folder.path().join("program"));
    assert_eq!(run(program.env("LD_LIBRARY_PATH", folder.path())), "2 3 2\n");
}
