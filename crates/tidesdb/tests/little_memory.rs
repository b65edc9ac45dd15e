//! A process that may have little more memory than it has: the system refuses it to puts, to the
//! log and to flushes.
//!
//! A put returns `Ok`, or that there is no memory. Where a small piece is refused the process ends,
//! which counts as a kill. Each acknowledged key is there when the directory is opened again.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::io::{ErrorKind as IoErrorKind, Write};
use std::path::Path;
use std::process::{Command, Output};

use tidesdb::{Db, DbOptions, Error, Family, FamilyOptions, KeyOrder};

/// What the process may have beside what it has taken once the database is open.
const MORE_KIB: u64 = 64 << 10;

const PLACE: &str = "TIDESDB_LITTLE_MEMORY";
const PUTS: u64 = 3000;

/// Runs a function below in a process that may have so many KiB of addresses.
fn run(test: &str, place: &Path, most_kib: Option<u64>) -> Output {
    let program = std::env::current_exe().unwrap();
    let limit = most_kib.map_or("unlimited".to_owned(), |kib| kib.to_string());
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(format!("ulimit -v {limit}; ulimit -c 0; exec \"$0\" \"$@\"")).arg(program);
    shell.args(["--exact", test, "--ignored", "--nocapture", "--test-threads=1"]);
    shell.env(PLACE, place).output().unwrap()
}

fn open(place: &Path) -> (Db, Family) {
    let options = DbOptions::default().log_segment_bytes(4 << 20).max_memory_usage(1 << 30);
    let db = Db::open(place, options).unwrap();
    let family = FamilyOptions::default().write_buffer_size(512 << 20);
    let family = db.open_family("family", family).unwrap();
    (db, family)
}

fn value(n: u64) -> Vec<u8> {
    // Some of the values go to a value log at once.
    let bytes = if n.is_multiple_of(50) { 2 << 20 } else { 100 << 10 };
    n.to_le_bytes().repeat(bytes / 8)
}

/// Numbers on lines that begin with a word.
fn lines<'o>(output: &'o str, word: &'o str) -> impl Iterator<Item = u64> + 'o {
    output.lines().filter_map(move |line| line.strip_prefix(word)?.trim().parse().ok())
}

#[test]
fn what_was_acknowledged_with_little_memory_is_there() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("db");
    let measured = run("how_much_an_open_database_takes", &place, None);
    let measured = String::from_utf8_lossy(&measured.stdout).into_owned();
    let taken = lines(&measured, "taken").next().unwrap();
    let output = run("puts_with_little_memory", &place, Some(taken + MORE_KIB));
    let (text, errors) = (
        String::from_utf8_lossy(&output.stdout).into_owned(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    );
    let acknowledged: Vec<u64> = lines(&text, "acknowledged").collect();
    let refused = lines(&text, "refused").count();
    println!("{} puts acknowledged, {refused} refused: {}", acknowledged.len(), output.status);
    assert!(!acknowledged.is_empty(), "{text}\n{errors}");
    // A panic would be told by an exit status.
    let was_killed = output.status.code().is_none();
    assert!(output.status.success() || was_killed, "{errors}");
    assert!(refused > 0 || was_killed, "nothing was put to the test");
    let (db, family) = open(&place);
    for n in acknowledged {
        assert!(family.get(&n.to_be_bytes()).unwrap() == Some(value(n)), "{n}");
    }
    assert!(db.verify().unwrap().problems.is_empty());
}

#[test]
#[ignore = "run by the test above"]
fn how_much_an_open_database_takes() {
    let place = std::env::var_os(PLACE).unwrap();
    let (_db, family) = open(Path::new(&place));
    family.put(b"first", b"value").unwrap();
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let size = status.lines().find_map(|line| line.strip_prefix("VmSize:")).unwrap();
    println!("\ntaken {}", size.trim().trim_end_matches(" kB"));
}

#[test]
#[ignore = "run by the test above"]
fn puts_with_little_memory() {
    let place = std::env::var_os(PLACE).unwrap();
    let (_db, family) = open(Path::new(&place));
    let mut out = std::io::stdout();
    writeln!(out).unwrap();
    for n in 0..PUTS {
        match family.put(&n.to_be_bytes(), &value(n)) {
            Ok(()) => writeln!(out, "acknowledged {n}").unwrap(),
            Err(error) => {
                let is_of_memory = match &error {
                    Error::OutOfMemory(_) => true,
                    Error::Io { source, .. } => source.kind() == IoErrorKind::OutOfMemory,
                    _ => false,
                };
                assert!(is_of_memory, "{error}");
                writeln!(out, "refused {n}").unwrap();
            }
        }
    }
}

/// The copies of the value that a get, a get of many keys and a scan make were asked for without
/// minding the answer, as was what a put makes for an order of keys that keeps spellings.
#[test]
fn a_value_for_which_there_is_no_memory_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("db");
    let measured = run("how_much_an_open_database_takes", &place, None);
    let measured = String::from_utf8_lossy(&measured.stdout).into_owned();
    let taken = lines(&measured, "taken").next().unwrap();
    let output = run("large_values_with_little_memory", &place, Some(taken + 2 * MORE_KIB));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {errors}", output.status);
}

#[test]
#[ignore = "run by the test above"]
fn large_values_with_little_memory() {
    const VALUE_BYTES: usize = 12 << 20;
    let place = std::env::var_os(PLACE).unwrap();
    let (db, family) = open(Path::new(&place));
    family.put(b"large", vec![7; VALUE_BYTES]).unwrap();
    let order = FamilyOptions::default().key_order(KeyOrder::CaseInsensitive);
    let spelled = db.open_family("spelled", order).unwrap();
    let (mut held, mut refused) = (Vec::new(), Vec::new());
    while refused.is_empty() {
        match family.get(b"large") {
            Ok(value) => held.push(value.unwrap()),
            Err(error) => refused.push(error),
        }
    }
    // There is memory for the value as it is read, and not for a copy.
    let value = held.pop().unwrap();
    refused.extend(family.get_into(b"large", &mut Vec::new()).err());
    refused.extend(family.multi_get(&[b"large"]).err());
    let mut rest: Vec<u8> = Vec::new();
    rest.try_reserve_exact(VALUE_BYTES).unwrap();
    // Now there is none for a copy at all.
    refused.extend(spelled.put(b"Large", &value).err());
    drop(rest);
    // One entry after the other, until there is memory for a value and not for its copy.
    let mut entries = Vec::new();
    let mut scanned = || family.prefix("large").unwrap().entries().next().unwrap();
    refused.extend(std::iter::repeat_with(&mut scanned).find_map(|entry| match entry {
        Ok(entry) => {
            entries.push(entry);
            None
        }
        Err(error) => Some(error),
    }));
    drop((held, entries));
    println!("{refused:?}");
    assert_eq!(refused.len(), 5, "a copy found memory: {refused:?}");
    assert!(refused.iter().all(|error| matches!(error, Error::OutOfMemory(_))));
    assert_eq!(family.get(b"large").unwrap(), Some(value));
}
