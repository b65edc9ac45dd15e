//! Compiles and runs the C test programs, and compiles the headers as clients do.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod c_support;

use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use c_support::{STRICT, available, here, library, run, succeed};
use tidesdb::options_file::OptionsFile;
use tidesdb::{FamilyOptions, SyncMode};

/// A compiled test program, and a folder for it and its data.
struct Program {
    folder: tempfile::TempDir,
    file: std::path::PathBuf,
}

impl Program {
    /// Of a file in `tests/c`, whose name ends with `.cpp`, or is in C and without its end.
    fn build(name: &str, flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (library, file) = (library(), folder.path().join("program"));
        let (compiler, standard, source) = match name.ends_with(".cpp") {
            true => ("c++", "-std=c++17", name.to_owned()),
            false => ("cc", "-std=gnu11", format!("{name}.c")),
        };
        let mut compile = Command::new(compiler);
        compile.args([standard, "-g"]).args(STRICT).args(flags);
        compile.arg("-I").arg(here().join("include"));
        compile.arg(here().join("tests/c").join(source));
        // Linked by its name, found by the name that is built into it.
        compile.arg(&library).args(["-lpthread", "-ldl"]).arg("-o").arg(&file);
        succeed(&mut compile);
        std::os::unix::fs::symlink(&library, folder.path().join("libtidesdb.so.9")).unwrap();
        Self { folder, file }
    }

    /// Runs it in an empty directory, by way of another program if one is named.
    fn check(&self, through: &[&str], environment: &[(&str, &str)]) {
        self.check_in(self.folder.path(), through, environment);
    }

    /// Where a sync costs nothing, if there is a file system in memory.
    fn check_in_memory(&self, environment: &[(&str, &str)]) {
        let memory = Path::new("/dev/shm");
        let place = if memory.is_dir() { memory } else { self.folder.path() };
        self.check_in(place, &[], environment);
    }

    fn check_in(&self, place: &Path, through: &[&str], environment: &[(&str, &str)]) {
        let data = tempfile::tempdir_in(place).unwrap();
        let mut command = self.command(through);
        let out = run(command.arg(data.path()).envs(environment.iter().copied()));
        print!("{out}");
        assert!(out.ends_with("all checks hold\n"), "{out}");
    }

    /// What runs it, by way of another program if one is named.
    fn command(&self, through: &[&str]) -> Command {
        let mut command = match through {
            [] => Command::new(&self.file),
            [first, rest @ ..] => {
                let mut command = Command::new(first);
                command.args(rest).arg(&self.file);
                command
            }
        };
        command.env("LD_LIBRARY_PATH", self.folder.path());
        command
    }
}

/// Programs as users of TidesDB 9.3 would write them.
const HABITS: [&str; 3] = ["habit_shop", "habit_sessions", "habit_wrapper.cpp"];

fn holds(name: &str) {
    Program::build(name, &[]).check(&[], &[]);
}

#[test]
fn the_interface_keeps_its_contract() {
    holds("basics");
}

#[test]
fn numbers_and_defaults_are_the_stated_ones() {
    holds("contract");
}

#[test]
fn transactions_and_iterators_do_what_is_stated() {
    holds("semantics");
}

#[test]
fn defects_of_the_original_are_not_repeated() {
    holds("defects");
}

#[test]
fn crashes_damage_and_modes_leave_what_is_stated() {
    holds("files");
}

#[test]
fn databases_with_a_destroyed_manifest_are_repaired() {
    holds("repaired");
}

#[test]
fn programs_from_habit_run() {
    for name in HABITS {
        holds(name);
    }
}

#[test]
fn families_have_the_orders_of_keys_that_they_were_created_with() {
    holds("orders");
}

#[test]
fn errors_are_the_stated_ones() {
    holds("errors");
}

#[test]
fn statistics_say_what_was_done() {
    holds("statistics");
}

#[test]
fn estimates_and_costs_are_what_planners_count_on() {
    holds("estimates");
}

#[test]
fn the_sync_mode_in_force_says_which_commits_are_synced() {
    holds("durability");
}

#[test]
fn options_that_are_not_stored_end_with_the_opening() {
    holds("temporary");
}

#[test]
fn lookups_of_families_wait_for_no_change_of_another() {
    holds("lookups");
}

#[test]
fn deletions_and_times_to_live_remain_over_crashes() {
    holds("remains");
}

#[test]
fn a_close_finishes_compactions_or_gives_them_up() {
    holds("closing");
}

#[test]
fn values_of_megabytes_are_whole() {
    holds("values");
}

#[test]
fn a_commit_that_stays_is_not_said_to_be_rolled_back() {
    holds("doubts");
}

/// Held by programs that count on how much space is free.
static FREE_SPACE: Mutex<()> = Mutex::new(());

#[test]
fn calls_that_meet_other_work_or_a_full_disk_answer_what_is_stated() {
    let _alone = FREE_SPACE.lock().unwrap_or_else(PoisonError::into_inner);
    holds("pressure");
}

#[test]
fn odd_arguments_and_odd_moments_do_no_harm() {
    holds("hostile");
}

#[test]
fn objects_in_a_directory_are_whole_or_not_there() {
    holds("objects");
}

/// The program that saves options, and what the file has then.
fn save_options(flags: &[&str], through: &[&str]) -> String {
    let program = Program::build("saved_options", flags);
    let file = program.folder.path().join("f.ini");
    run(program.command(through).arg(&file));
    std::fs::read_to_string(&file).unwrap()
}

#[test]
fn options_that_c_saves_are_options_for_other_programs() {
    let file = OptionsFile::from_ini(&save_options(&[], &[])).unwrap();
    let options = file.family_options("f", FamilyOptions::default()).unwrap();
    assert_eq!(options.sync_mode, SyncMode::Full);
    assert_eq!((options.l1_file_count_trigger, options.klog_value_threshold), (2, 16));
    assert_eq!((options.min_disk_space, options.use_btree), (None, true));
    assert!(options.bloom_fpr < 1e-8, "{}", options.bloom_fpr);
}

#[test]
fn lines_of_the_log_go_where_they_belong() {
    holds("logs");
}

#[test]
fn calls_beside_others_that_change_what_they_use_do_no_harm() {
    // Creates and drops many families.
    Program::build("beside", &[]).check_in_memory(&[]);
}

#[test]
fn daemons_keep_their_descriptors_and_signals_to_themselves() {
    holds("daemon");
}

#[test]
fn threads_and_signals_do_no_harm() {
    holds("stress");
}

#[test]
fn a_thousand_openings_leak_nothing() {
    // A thousand openings sync many times.
    Program::build("leaks", &[]).check_in_memory(&[]);
}

#[test]
fn forks_and_second_processes_do_no_harm() {
    holds("forks");
}

#[test]
fn the_callers_allocator_may_fail_anywhere() {
    holds("allocations");
}

/// An allocator of the caller's that is put below everything, and that hands out garbage.
#[test]
fn preloaded_allocators_do_no_harm() {
    let folder = tempfile::tempdir().unwrap();
    let allocator = folder.path().join("preloaded.so");
    let mut compile = Command::new("cc");
    compile.args(["-std=gnu11", "-O1", "-shared", "-fPIC", "-fno-builtin"]).args(STRICT);
    compile.arg(here().join("tests/c/preloaded.c")).arg("-o").arg(&allocator);
    succeed(&mut compile);
    let preload = [("LD_PRELOAD", allocator.to_str().unwrap())];
    for name in ["one_allocation", "basics", "stress"] {
        Program::build(name, &[]).check(&[], &preload);
    }
}

const SANITIZER: [&str; 2] = ["-fsanitize=address", "-fno-omit-frame-pointer"];

fn sanitized(names: &[&str]) {
    names.iter().for_each(|name| Program::build(name, &SANITIZER).check(&[], &[]));
}

/// Programs that need nothing but an empty directory. The groups take about as long as each other.
const PLAIN: [&[&str]; 4] = [
    &["basics", "errors", "allocations", "orders", "objects", "semantics", "hostile"],
    &["contract", "defects", "doubts", "logs", "files", "statistics", "estimates"],
    &["stress", "daemon", "values", "durability", "remains", "closing"],
    &["lookups", "temporary", "repaired"],
];

/// What is in none of these groups, and why. `beside` gives nothing back, `pressure` fills a disk,
/// and `saved_options` writes one file: they have tests of their own. The rest is not sanitized:
/// `leaks` and `one_allocation` count what a sanitizer replaces, in `forks` a child may find the
/// sanitizer's own allocator locked, and the others are parts of programs.
const APART: [&str; 9] = [
    "beside",
    "pressure",
    "saved_options",
    "leaks",
    "one_allocation",
    "forks",
    "preloaded",
    "host",
    "plugin",
];

#[test]
fn every_program_is_in_a_group_or_apart() {
    let mut known: Vec<String> = [&APART[..], &HABITS]
        .into_iter()
        .chain(PLAIN)
        .flatten()
        .map(|name| if name.contains('.') { (*name).to_owned() } else { format!("{name}.c") })
        .collect();
    let files = std::fs::read_dir(here().join("tests/c")).unwrap();
    let names = files.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut there: Vec<String> = names.filter(|name| !name.ends_with(".h")).collect();
    known.sort();
    there.sort();
    assert_eq!(known, there);
}

#[test]
fn the_address_sanitizer_finds_nothing() {
    sanitized(PLAIN[0]);
    sanitized(&HABITS);
}

#[test]
fn the_address_sanitizer_finds_nothing_where_defects_were() {
    sanitized(PLAIN[1]);
}

#[test]
fn the_address_sanitizer_finds_nothing_in_threads() {
    sanitized(PLAIN[2]);
}

#[test]
fn the_address_sanitizer_finds_nothing_in_repairs_and_changes() {
    sanitized(PLAIN[3]);
    save_options(&SANITIZER, &[]);
}

#[test]
fn the_address_sanitizer_finds_nothing_beside_other_calls() {
    // The program gives nothing back.
    Program::build("beside", &SANITIZER).check_in_memory(&[("ASAN_OPTIONS", "detect_leaks=0")]);
}

#[test]
fn the_address_sanitizer_finds_nothing_on_a_full_disk() {
    let _alone = FREE_SPACE.lock().unwrap_or_else(PoisonError::into_inner);
    sanitized(&["pressure"]);
}

/// How valgrind runs a program. What the Rust library keeps for a thread's life, it keeps by
/// pointers into the middle.
const VALGRIND: [&str; 7] = [
    "valgrind",
    "-q",
    // It runs one thread at a time, and one that never waits might keep the others from their turn.
    "--fair-sched=yes",
    "--trace-children=yes",
    "--error-exitcode=9",
    "--show-leak-kinds=definite,indirect",
    "--errors-for-leak-kinds=definite,indirect",
];

/// Runs programs under valgrind, if it is installed.
fn under_valgrind(names: &[&str], leaks: &str) {
    if !available("valgrind") {
        println!("skipped: there is no valgrind");
        return;
    }
    for name in names {
        Program::build(name, &[]).check(&[&VALGRIND[..], &[leaks]].concat(), &[]);
    }
}

#[test]
fn valgrind_finds_nothing() {
    under_valgrind(&["errors"], "--leak-check=full");
}

/// `cargo test -p tidesdb-c --test c_programs -- --ignored valgrind`: some minutes. Not among them
/// are programs that count what valgrind replaces (`leaks`, and `one_allocation`, which needs an
/// allocator of its own), and `pressure`, which fills a disk.
#[test]
#[ignore = "takes minutes"]
fn valgrind_finds_nothing_in_any_program() {
    PLAIN.iter().for_each(|names| under_valgrind(names, "--leak-check=full"));
    under_valgrind(&HABITS, "--leak-check=full");
    // A child has the memory of threads that it does not have; `beside` gives nothing back.
    under_valgrind(&["forks", "beside"], "--leak-check=no");
    if available("valgrind") {
        save_options(&[], &[&VALGRIND[..], &["--leak-check=full"]].concat());
    }
}

#[test]
fn the_headers_compile_alone_in_pairs_and_all_together() {
    let headers = ["db", "objstore", "objstore_s3", "tidesdb", "tidesdb_version", "xxhash"];
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
    for compiler in ["clang", "clang++"].into_iter().filter(|compiler| !available(compiler)) {
        println!("skipped: there is no {compiler}");
    }
    let all: String = headers.map(|name| format!("#include <tidesdb/{name}.h>\n")).concat();
    let backwards: String = all.lines().rev().map(|line| format!("{line}\n")).collect();
    let pairs = headers.iter().flat_map(|first| {
        let pair =
            move |second| format!("#include <tidesdb/{first}.h>\n#include <tidesdb/{second}.h>\n");
        headers.iter().map(pair)
    });
    let mut compiled = 0;
    for included in pairs.chain([all, backwards]) {
        for compiler in ["cc", "clang"].into_iter().filter(|compiler| available(compiler)) {
            for standard in ["c11", "c17"] {
                let text = format!("{included}int main(void) {{ return 0; }}\n");
                compile(compiler, standard, "unit.c", &text);
                compiled += 1;
            }
        }
        for compiler in ["c++", "clang++"].into_iter().filter(|compiler| available(compiler)) {
            let main = "int main() { return 0; }\n";
            // As the plug-in for MariaDB has it, and as a program in C++ has it.
            for text in [format!("extern \"C\" {{\n{included}}}\n{main}"), included.clone() + main]
            {
                compile(compiler, "c++17", "unit.cpp", &text);
            }
        }
    }
    assert!(compiled >= 72, "{compiled} compilations: is there no C compiler?");
}

#[test]
fn nothing_but_the_interface_is_exported() {
    let symbols = succeed(Command::new("nm").args(["-D", "--defined-only"]).arg(library()));
    let names: Vec<_> = symbols.lines().filter_map(|line| line.split(' ').next_back()).collect();
    let foreign: Vec<_> = names.iter().filter(|name| !name.starts_with("tidesdb_")).collect();
    assert!(foreign.is_empty(), "{foreign:?}");
    // All that the headers declare; with S3 not there yet.
    let declared = c_support::declared_functions();
    let missing: Vec<_> = declared
        .iter()
        .filter(|name| !names.contains(&name.as_str()))
        .filter(|name| !name.starts_with("tidesdb_objstore_s3_"))
        .collect();
    assert!(missing.is_empty(), "declared and not there: {missing:?}");
    assert!(declared.len() > 75, "only {} functions are declared", declared.len());
    assert!(names.contains(&"tidesdb_allocator"), "{names:?}");
}
