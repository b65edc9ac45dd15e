//! Installs the library into a folder and uses it from there as programs do: by pkg-config, by
//! CMake, and statically. The examples are the programs.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod c_support;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

use c_support::{STRICT, available, built, here, run, succeed};

/// A prefix with what this build has made, which tests only read: linking the archive takes long.
fn installed() -> &'static Path {
    static PREFIX: LazyLock<PathBuf> = LazyLock::new(|| {
        let prefix = Path::new(env!("CARGO_TARGET_TMPDIR")).join("installed");
        // Of an earlier run, if there is anything.
        std::fs::remove_dir_all(&prefix).ok();
        install(&prefix, None);
        prefix
    });
    &PREFIX
}

/// Installs what this build has made; below `destdir` if one is named.
fn install(prefix: &Path, destdir: Option<&Path>) {
    // As root does on systems where its files are its own.
    let mut command = Command::new("sh");
    command.args(["-c", "umask 077; exec \"$0\" \"$@\""]);
    command.arg(here().join("../../scripts/install-c-library")).arg("--prefix").arg(prefix);
    command.arg("--built").arg(built("libtidesdb_c.a").parent().unwrap());
    if let Some(destdir) = destdir {
        command.arg("--destdir").arg(destdir);
    }
    run(&mut command);
}

const EXAMPLES: [(&str, &str); 8] = [
    ("first_steps.c", "ada: 1815\nnobody: not found\n"),
    ("transactions.c", "conflict, another try\nalice: 71\nbob: 80\n"),
    (
        "iterators.c",
        "forwards: apple=a apricot=a banana=b cherry=c\n\
         backwards: cherry=c banana=b apricot=a apple=a\n\
         from b on: banana=b cherry=c\nwith ap: apple=a apricot=a\n",
    ),
    (
        "column_families.c",
        "families: events index\nfamilies: copy history index\nhistory has 1 keys\n\
         families: history\n",
    ),
    ("backup.c", "remember\nremember\n"),
    ("custom_allocator.c", "in use: some\nleft: 0\n"),
    ("log.c", ""),
    ("first_steps.cpp", "ada: a\nada\ngrace\n"),
];

/// Runs an example in a new directory, and compares what it prints.
fn check(program: &Path, library: Option<&Path>, expected: &str) {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(program);
    command.arg(folder.path().join("db"));
    if let Some(library) = library {
        command.env("LD_LIBRARY_PATH", library);
    }
    let out = run(&mut command);
    if expected.is_empty() {
        assert!(out.contains("log.c:"), "{out}");
        assert!(out.contains("the program says 42") && !out.contains("not written"), "{out}");
    } else {
        assert_eq!(out, expected, "{program:?}");
    }
}

fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}

/// Compiles an example, strictly, with these arguments behind it.
fn compile(example: &str, to: &Path, arguments: &[&str]) -> PathBuf {
    let (compiler, standard) = match example.ends_with(".cpp") {
        true => ("c++", "-std=c++17"),
        false => ("cc", "-std=c11"),
    };
    let program = to.join(example.replace('.', "_"));
    let mut command = Command::new(compiler);
    command.arg(standard).args(STRICT).arg(here().join("examples").join(example));
    succeed(command.args(arguments).arg("-o").arg(&program));
    program
}

#[test]
fn installed_libraries_serve_programs() {
    let (folder, prefix) = (tempfile::tempdir().unwrap(), installed());
    let lib = prefix.join("lib");
    for (link, target) in
        [("libtidesdb.so", "libtidesdb.so.9"), ("libtidesdb.so.9", "libtidesdb.so.9.3.14")]
    {
        assert_eq!(std::fs::read_link(lib.join(link)).unwrap(), Path::new(target));
    }
    archives_export_the_interface_alone(&lib.join("libtidesdb.a"));

    // Dynamically, with what pkg-config says, or what it would say.
    let (include, search) =
        (format!("-I{}/include", prefix.display()), format!("-L{}", lib.display()));
    let known = format!("{include} {search} -ltidesdb");
    let told = available("pkg-config").then(|| {
        let mut command = Command::new("pkg-config");
        command.args(["--cflags", "--libs", "tidesdb"]);
        succeed(command.env("PKG_CONFIG_PATH", lib.join("pkgconfig")))
    });
    assert!(told.as_ref().is_none_or(|told| words(told) == words(&known)), "{told:?}");
    for (example, expected) in EXAMPLES {
        let program = compile(example, folder.path(), &words(&known));
        check(&program, Some(&lib), expected);
    }

    let (database, export) =
        (folder.path().join("db"), compile("export.c", folder.path(), &words(&known)));
    let run_on = |program: &Path, family: &[&str]| {
        run(Command::new(program).arg(&database).args(family).env("LD_LIBRARY_PATH", &lib))
    };
    run_on(&folder.path().join("first_steps_c"), &[]);
    let lines = run_on(&export, &["users"]);
    assert_eq!(lines, "{\"key_hex\":\"616461\",\"value_hex\":\"31383135\"}\n");

    // Statically: the program runs without the shared library.
    let archive = lib.join("libtidesdb.a");
    let private = private_libraries(prefix);
    let mut arguments = vec![include.as_str(), archive.to_str().unwrap()];
    arguments.extend(private.iter().map(String::as_str));
    let program = compile("transactions.c", folder.path(), &arguments);
    check(&program, None, EXAMPLES[1].1);

    // All of it, where there is an archive of the C library.
    arguments.push("-static");
    if is_linked_statically(folder.path()) {
        let program = compile("transactions.c", folder.path(), &arguments);
        check(&program, None, EXAMPLES[1].1);
    } else {
        println!("skipped: programs can't be linked statically");
    }

    with_cmake(prefix, folder.path());
}

/// Whether a program without any library can be static as a whole.
fn is_linked_statically(folder: &Path) -> bool {
    let source = folder.join("empty.c");
    std::fs::write(&source, "int main(void) { return 0; }\n").unwrap();
    let mut command = Command::new("cc");
    let output = command.arg("-static").arg(&source).arg("-o").arg(folder.join("empty")).output();
    output.unwrap().status.success()
}

/// The archive within a shared object that a program loads while it runs.
#[test]
fn archives_can_be_part_of_a_plugin() {
    let folder = tempfile::tempdir().unwrap();
    let (prefix, plugin) = (installed(), folder.path().join("plugin.so"));
    let mut build = Command::new("cc");
    build.args(["-std=c11", "-D_GNU_SOURCE", "-shared", "-fPIC"]).args(STRICT);
    build.arg(here().join("tests/c/plugin.c")).arg(format!("-I{}/include", prefix.display()));
    build.arg(prefix.join("lib/libtidesdb.a")).args(private_libraries(prefix));
    succeed(build.args(["-Wl,-z,defs", "-o"]).arg(&plugin));
    let host = folder.path().join("host");
    let mut build = Command::new("cc");
    build.args(["-std=gnu11", "-D_GNU_SOURCE"]).args(STRICT).arg(here().join("tests/c/host.c"));
    succeed(build.args(["-ldl", "-o"]).arg(&host));
    let out = run(Command::new(&host).arg(&plugin).arg(folder.path().join("db")));
    assert_eq!(out, "all checks hold\n");
}

/// What a program that links the archive links beside it.
fn private_libraries(prefix: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(prefix.join("lib/pkgconfig/tidesdb.pc")).unwrap();
    let private = text.lines().find_map(|line| line.strip_prefix("Libs.private: ")).unwrap();
    words(private).into_iter().map(str::to_owned).collect()
}

/// A program may have codecs and Rust code of its own beside the archive.
fn archives_export_the_interface_alone(archive: &Path) {
    let symbols = succeed(Command::new("nm").args(["-g", "--defined-only"]).arg(archive));
    let names = symbols.lines().filter(|line| line.split(' ').count() == 3);
    let names: Vec<_> = names.filter_map(|line| line.split(' ').next_back()).collect();
    let foreign: Vec<_> = names.iter().filter(|name| !name.starts_with("tidesdb_")).collect();
    assert!(foreign.is_empty(), "{foreign:?}");
    assert!(names.contains(&"tidesdb_open") && names.contains(&"tidesdb_log_write"), "{names:?}");
}

fn with_cmake(prefix: &Path, folder: &Path) {
    if !available("cmake") {
        println!("skipped: there is no CMake");
        return;
    }
    let build = folder.join("build");
    let mut configure = Command::new("cmake");
    configure.arg("-S").arg(here().join("examples")).arg("-B").arg(&build);
    succeed(configure.arg(format!("-DCMAKE_PREFIX_PATH={}", prefix.display())));
    succeed(Command::new("cmake").arg("--build").arg(&build));
    check(&build.join("first_steps"), None, EXAMPLES[0].1);
    check(&build.join("first_steps_cpp"), None, EXAMPLES[7].1);
    check(&build.join("first_steps_static"), None, EXAMPLES[0].1);
}

/// Configures the repository's own `CMakeLists.txt` with what this build has made; what is printed.
fn configure(build: &Path, options: &[&str]) -> Output {
    let mut command = Command::new("cmake");
    command.arg("-S").arg(here().join("../..")).arg("-B").arg(build).args(options);
    let built = built("libtidesdb_c.a");
    command.arg(format!("-DTIDESDB_BUILT={}", built.parent().unwrap().display()));
    command.arg("-DCMAKE_INSTALL_LIBDIR=lib").output().unwrap()
}

/// As scripts that build the original do it.
#[test]
fn the_library_is_built_and_installed_by_cmake() {
    if !available("cmake") {
        println!("skipped: there is no CMake");
        return;
    }
    for (shared, name) in [("ON", "shared"), ("OFF", "static")] {
        let folder = tempfile::tempdir().unwrap();
        let (build, prefix) = (folder.path().join(name), folder.path().join("prefix"));
        let shared = format!("-DBUILD_SHARED_LIBS={shared}");
        let at = format!("-DCMAKE_INSTALL_PREFIX={}", prefix.display());
        let usual = ["-DCMAKE_BUILD_TYPE=Release", "-DTIDESDB_WITH_SANITIZER=OFF"];
        let options = [&usual[..], &[&*shared, &*at, "-DTIDESDB_BUILD_TESTS=OFF"]].concat();
        assert!(configure(&build, &options).status.success());
        succeed(Command::new("cmake").arg("--build").arg(&build));
        succeed(Command::new("cmake").arg("--install").arg(&build));
        let lib = prefix.join("lib");
        assert_eq!(lib.join("libtidesdb.so").exists(), name == "shared");
        assert!(
            lib.join("libtidesdb.a").is_file() && prefix.join("include/tidesdb/db.h").is_file()
        );
        with_cmake(&prefix, folder.path());
        if name == "static" {
            continue;
        }
        // To another prefix than was asked for first, and staged.
        let staged = folder.path().join("staged");
        let mut again = Command::new("cmake");
        again.arg("--install").arg(&build).args(["--prefix", "/opt/tides"]);
        succeed(again.env("DESTDIR", &staged));
        let text = std::fs::read_to_string(staged.join("opt/tides/lib/pkgconfig/tidesdb.pc"));
        assert!(text.unwrap().contains("libdir=/opt/tides/lib\n"));
    }
}

#[test]
fn options_of_cmake_that_can_not_be_had_are_refused() {
    if !available("cmake") {
        println!("skipped: there is no CMake");
        return;
    }
    for option in ["TIDESDB_WITH_S3", "ENABLE_READ_PROFILING"] {
        let folder = tempfile::tempdir().unwrap();
        let out = configure(folder.path(), &[&format!("-D{option}=ON")]);
        let text = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(!out.status.success() && text.contains(option), "{text}");
    }
    let folder = tempfile::tempdir().unwrap();
    let out = configure(folder.path(), &["-DTIDESDB_WITH_MIMALLOC=ON", "-DTIDESDB_WITH_LZ4=OFF"]);
    let text = [out.stdout, out.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    assert!(out.status.success(), "{text}");
    for said in ["TIDESDB_WITH_MIMALLOC changes nothing", "TIDESDB_WITH_LZ4 changes nothing"] {
        assert!(text.contains(said), "{text}");
    }
}

#[test]
fn packages_are_staged_in_another_directory() {
    let folder = tempfile::tempdir().unwrap();
    let (prefix, destdir) = (Path::new("/opt/tides"), folder.path());
    install(prefix, Some(destdir));
    let inside = destdir.join("opt/tides");
    for file in [
        "include/tidesdb/db.h",
        "include/tidesdb/tidesdb.h",
        "include/tidesdb/objstore.h",
        "include/tidesdb/objstore_s3.h",
        "include/tidesdb/tidesdb_version.h",
        "include/tidesdb/xxhash.h",
        "lib/libtidesdb.so.9.3.14",
        "lib/libtidesdb.a",
        "lib/cmake/tidesdb/TidesDBConfig.cmake",
        "lib/cmake/tidesdb/TidesDBConfigVersion.cmake",
        "lib/pkgconfig/tidesdb.pc",
    ] {
        assert!(inside.join(file).is_file(), "{file} is missing");
        for path in Path::new(file).ancestors().filter(|path| **path != *"") {
            let mode = std::fs::metadata(inside.join(path)).unwrap().permissions().mode();
            assert_eq!(mode & 0o044, 0o044, "{}: {mode:o}", path.display());
        }
    }
    let text = std::fs::read_to_string(inside.join("lib/pkgconfig/tidesdb.pc")).unwrap();
    assert!(text.starts_with("prefix=/opt/tides\n"), "{text}");
    assert!(!text.contains(destdir.to_str().unwrap()), "{text}");
}
