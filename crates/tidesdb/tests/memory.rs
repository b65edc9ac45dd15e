//! Memory that the process really takes, as the kernel counts it, not as the engine does.
//!
//! Each measurement runs in a process of its own, since allocators keep what was freed. The
//! system's allocator is told to keep little: what is measured is what the engine holds, not the
//! pieces that one allocator or another does not give back.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::process::Command;

use tidesdb::{Db, DbOptions, Family, FamilyOptions, ScanOptions};

const MIB: u64 = 1 << 20;

/// A line of the kernel's account of this process, in bytes.
fn status(name: &str) -> u64 {
    let text = fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

fn key(n: u64) -> [u8; 16] {
    let mixed = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut key = *b"user............";
    key[4..12].copy_from_slice(&mixed.to_be_bytes());
    key
}

fn write(family: &Family, records: u64, seed: u64) {
    let mut value = [0_u8; 100];
    for n in 0..records {
        let n = n + (seed << 40);
        let noise = n.wrapping_mul(0xff51_afd7_ed55_8ccd).to_le_bytes();
        value.chunks_exact_mut(8).take(6).for_each(|chunk| chunk.copy_from_slice(&noise));
        family.put(&key(n), &value).unwrap();
    }
}

/// Runs one of the functions below, named by its test, alone, and checks what it took at most.
#[track_caller]
fn measure(test: &str, most: u64) {
    let program = std::env::current_exe().unwrap();
    let mut child = Command::new(program);
    child.args(["--exact", test, "--ignored", "--nocapture", "--test-threads=1"]);
    child.env("MALLOC_ARENA_MAX", "1");
    child.env("MALLOC_MMAP_THRESHOLD_", "131072").env("MALLOC_TRIM_THRESHOLD_", "131072");
    let output = child.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{test}: {text}{}", String::from_utf8_lossy(&output.stderr));
    let peak = text.lines().find_map(|line| line.split("peak bytes: ").nth(1)).unwrap();
    let peak: u64 = peak.trim().parse().unwrap();
    println!("{test}: {} MiB of {} MiB\n{text}", peak / MIB, most / MIB);
    assert!(peak <= most, "{test}: {} MiB, wanted {} MiB\n{text}", peak / MIB, most / MIB);
}

fn report() {
    println!("anonymous {} MiB, files {} MiB", status("RssAnon") / MIB, status("RssFile") / MIB);
    println!("peak bytes: {}", status("VmHWM"));
}

#[test]
#[ignore = "run by a_fast_writer_stays_within_its_write_buffer"]
fn fast_writer() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), DbOptions::default()).unwrap();
    let options = FamilyOptions { write_buffer_size: 64 << 20, ..FamilyOptions::default() };
    let family = db.open_family("default", options).unwrap();
    write(&family, 2_000_000, 0);
    println!("{:?}", db.stats());
    report();
}

fn mixed(budget: u64) {
    let directory = tempfile::tempdir().unwrap();
    let options = DbOptions {
        max_memory_usage: budget,
        log_segment_bytes: budget / 32,
        block_cache_bytes: 256 << 20,
        ..DbOptions::default()
    };
    let db = Db::open(directory.path(), options).unwrap();
    let open = |n| db.open_family(&format!("f{n}"), FamilyOptions::default()).unwrap();
    let families: Vec<Family> = (0..4).map(open).collect();
    for (seed, family) in families.iter().cycle().take(8).enumerate() {
        write(family, 200_000, seed as u64);
        for n in 0..20_000 {
            assert!(family.get(&key(n + ((seed as u64) << 40))).unwrap().is_some());
        }
        let mut scan = family.scan(ScanOptions::new()).unwrap();
        scan.seek_to_first().unwrap();
        for _ in 0..50_000 {
            scan.next().unwrap();
        }
    }
    println!("{:?}", db.stats());
    report();
}

#[test]
#[ignore = "run by the_budget_bounds_resident_memory"]
fn budget_32() {
    mixed(32 * MIB);
}

#[test]
#[ignore = "run by the_budget_bounds_resident_memory"]
fn budget_64() {
    mixed(64 * MIB);
}

#[test]
#[ignore = "run by the_budget_bounds_resident_memory"]
fn budget_256() {
    mixed(256 * MIB);
}

/// One write buffer and a quarter, the log's two segments, and what a flush and a merge need; not
/// another memtable for each flush that is behind.
#[test]
fn a_fast_writer_stays_within_its_write_buffer() {
    measure("fast_writer", 126 * MIB);
}

#[test]
fn the_budget_bounds_resident_memory() {
    // A small process takes a few MiB before it opens anything.
    for (test, budget) in [("budget_32", 32), ("budget_64", 64), ("budget_256", 256)] {
        measure(test, budget * MIB / 10 * 11 + 4 * MIB);
    }
}
