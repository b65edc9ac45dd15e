//! Descriptors that the process really has open, as the kernel counts them, under a low limit.
//!
//! Each test runs in a process of its own, whose limit a shell has lowered.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::{fs, thread};

use tidesdb::{CopyOptions, Db, DbOptions, Family, FamilyOptions};

const LIMIT: usize = 256;
/// The rest is the application's.
const MOST: usize = 200;
const VALUE_BYTES: usize = 1000;

/// Runs one of the functions below in a process that may have `LIMIT` descriptors.
fn run(test: &str) {
    let program = std::env::current_exe().unwrap();
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(format!("ulimit -n {LIMIT}; exec \"$0\" \"$@\"")).arg(program);
    shell.args(["--exact", test, "--ignored", "--nocapture", "--test-threads=1"]);
    let output = shell.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    println!("{text}");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{test}: {text}\n{errors}");
    assert!(text.contains("1 passed"), "{test} was not run: {text}");
}

#[test]
fn value_logs_and_tables_share_a_bound() {
    run("many_value_logs_in_a_process");
}

#[test]
fn families_with_large_values_keep_no_file_open_each() {
    run("many_families_in_a_process");
}

#[test]
fn log_segments_keep_no_file_open_each() {
    run("many_log_segments_in_a_process");
}

#[test]
fn a_copy_is_verified_with_few_files_open() {
    run("a_verified_copy_in_a_process");
}

#[test]
fn a_flush_keeps_few_of_its_tables_open() {
    run("a_flush_of_small_tables_in_a_process");
}

fn open_now() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Looks at the descriptors all the time while `work` runs; returns the most that there were.
fn watched(work: impl FnOnce()) -> usize {
    let (done, most) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                most.fetch_max(open_now(), Ordering::Relaxed);
                thread::yield_now();
            }
        });
        // The watcher ends also when the work panics.
        struct End<'a>(&'a AtomicBool);
        impl Drop for End<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let _end = End(&done);
        work();
    });
    most.into_inner()
}

fn key(n: u64) -> [u8; 8] {
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

/// Values that can't be compressed, so that value logs are as long as they look.
fn value(n: u64) -> Vec<u8> {
    let words = (0..VALUE_BYTES as u64 / 8).map(|word| {
        let mixed = (n << 8 | word).wrapping_mul(0xff51_afd7_ed55_8ccd);
        (mixed ^ mixed >> 32).wrapping_mul(0xc4ce_b9fe_1a85_ec53).to_le_bytes()
    });
    words.flatten().collect()
}

fn write_settle_read_merge(values: u64, options: FamilyOptions) {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), DbOptions::default()).unwrap();
    let family = db.create_family("values", options).unwrap();
    let files = || fs::read_dir(directory.path()).unwrap().count();
    let read = |family: &Family, count: u64| {
        for n in 0..count {
            let n = n.wrapping_mul(0xd134_2543_de82_ef95) % values;
            assert_eq!(family.get(&key(n)).unwrap(), Some(value(n)), "{n}");
        }
    };
    let most = watched(|| {
        for n in 0..values {
            family.put(&key(n), &value(n)).unwrap();
        }
        db.wait_idle().unwrap();
        println!("{} files, {} descriptors once settled", files(), open_now());
        read(&family, values / 4);
        family.compact().unwrap();
        read(&family, values / 4);
        db.compact_and_wait().unwrap();
        assert!(db.verify().unwrap().problems.is_empty());
    });
    println!("{values} values: at most {most} descriptors, {} files in the end", files());
    assert!(most <= MOST, "{most} descriptors");
    db.close().unwrap();
}

#[test]
#[ignore = "run by a test above"]
fn many_value_logs_in_a_process() {
    let options = FamilyOptions::default().write_buffer_size(128 << 10);
    write_settle_read_merge(40_000, options);
}

/// `sh -c 'ulimit -n 256; cargo test --release -p tidesdb --test descriptors a_million -- --ignored'`
#[test]
#[ignore = "writes gigabytes"]
fn a_million_values() {
    write_settle_read_merge(1_000_000, FamilyOptions::default());
}

#[test]
#[ignore = "run by a test above"]
fn many_families_in_a_process() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), DbOptions::default()).unwrap();
    let large = vec![7; (1 << 20) + 1];
    let most = watched(|| {
        for n in 0..210 {
            let family = db.create_family(&format!("{n}"), FamilyOptions::default()).unwrap();
            family.put(b"large", &large).unwrap();
        }
        for n in 0..210 {
            let family = db.family(&format!("{n}")).unwrap();
            assert_eq!(family.get(b"large").unwrap().as_ref(), Some(&large));
        }
    });
    println!("at most {most} descriptors");
    assert!(most <= MOST, "{most} descriptors");
}

/// Nothing syncs the log, and nothing is flushed. The next opening finds all of it.
#[test]
#[ignore = "run by a test above"]
fn many_log_segments_in_a_process() {
    let directory = tempfile::tempdir().unwrap();
    let open = || {
        let options = DbOptions::default().log_segment_bytes(64 << 10);
        Db::open(directory.path(), options.max_retained_log_bytes(1 << 30)).unwrap()
    };
    let values = 25_000;
    let most = watched(|| {
        let db = open();
        let options = FamilyOptions::default().write_buffer_size(256 << 20);
        let family = db.create_family("values", options).unwrap();
        (0..values).for_each(|n| family.put(key(n), value(n)).unwrap());
        let segments = fs::read_dir(directory.path()).unwrap().filter(|entry| {
            entry.as_ref().is_ok_and(|entry| entry.file_name().to_string_lossy().ends_with(".log"))
        });
        let segments = segments.count();
        assert!(segments > LIMIT, "{segments} segments");
        drop((family, db));
        let family = open().family("values").unwrap();
        for n in (0..values).step_by(100) {
            assert_eq!(family.get(key(n)).unwrap(), Some(value(n)), "{n}");
        }
    });
    println!("at most {most} descriptors");
    assert!(most <= MOST, "{most} descriptors");
}

/// More tables than the process may have files open.
#[test]
#[ignore = "run by a test above"]
fn a_flush_of_small_tables_in_a_process() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), DbOptions::default()).unwrap();
    let options = FamilyOptions::default()
        .target_table_bytes(16 << 10)
        .klog_value_threshold(1 << 20)
        .l1_file_count_trigger(100);
    let family = db.create_family("values", options).unwrap();
    let values = 8000;
    (0..values).for_each(|n| family.put(key(n), value(n)).unwrap());
    let most = watched(|| family.flush().unwrap());
    let tables: u64 = family.stats().levels.iter().map(|level| level.tables).sum();
    assert!(tables > LIMIT as u64, "nothing was put to the test: {tables} tables");
    println!("at most {most} descriptors, {tables} tables");
    assert!(most <= MOST, "{most} descriptors");
    (0..values).for_each(|n| assert_eq!(family.get(key(n)).unwrap(), Some(value(n)), "{n}"));
}

/// The database has as many files open as it may, which is half of what the process may.
#[test]
#[ignore = "run by a test above"]
fn a_verified_copy_in_a_process() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path().join("db"), DbOptions::default()).unwrap();
    let options = FamilyOptions::default()
        .target_table_bytes(32 << 10)
        .klog_value_threshold(1 << 20)
        .l1_file_count_trigger(100);
    let family = db.create_family("values", options).unwrap();
    let values = 8000;
    for n in 0..values {
        family.put(key(n), value(n)).unwrap();
        if n % 1000 == 999 {
            family.flush().unwrap();
        }
    }
    (0..values).for_each(|n| assert_eq!(family.get(key(n)).unwrap(), Some(value(n)), "{n}"));
    let before = open_now();
    assert!(before > LIMIT / 2, "nothing was put to the test: {before} descriptors");
    let most = watched(|| {
        let copy = directory.path().join("copy");
        db.checkpoint_with(copy, CopyOptions::default().verify_copy(true)).unwrap();
    });
    println!("at most {most} descriptors, {before} before");
    assert!(most <= MOST, "{most} descriptors");
}
