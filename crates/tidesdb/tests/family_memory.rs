//! Families count in the memory budget: judged by resident memory.
//!
//! One test function: memory is the whole process's.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;

use tidesdb::{Db, DbOptions, FamilyOptions};

const FAMILIES: usize = 10_000;
const BUDGET_BYTES: u64 = 96 << 20;

/// What a process takes besides: the allocator's rest, stacks, code.
const BESIDES_BYTES: u64 = 8 << 20;

fn resident() -> u64 {
    let text = fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

#[test]
fn ten_thousand_families_count_in_a_small_budget() {
    let directory = tempfile::tempdir().unwrap();
    let before = resident();
    let options = DbOptions::default()
        .max_memory_usage(BUDGET_BYTES)
        .block_cache_bytes(4 << 20)
        .log_segment_bytes(4 << 20);
    let db = Db::open(directory.path(), options).unwrap();
    let names: Vec<String> = (0..FAMILIES).map(|n| format!("family-{n}")).collect();
    let wanted: Vec<_> =
        names.iter().map(|name| (name.as_str(), FamilyOptions::default())).collect();
    let empty = resident();
    let families = db.create_families(&wanted).unwrap();
    let taken = resident() - empty;
    let counted = db.stats().memory.family_bytes;
    println!("{} KiB for families, {} KiB counted", taken >> 10, counted >> 10);

    // A write buffer that only the budget bounds.
    let large = FamilyOptions::default().write_buffer_size(1 << 30);
    let family = db.create_family("large", large).unwrap();
    let (value, mut most) = (vec![7; 1000], 0);
    for n in 0..200_000_u64 {
        family.put(&n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes(), &value).unwrap();
        if n % 500 == 0 {
            most = most.max(resident() - before);
        }
    }
    println!("at most {} MiB of a budget of {} MiB", most >> 20, BUDGET_BYTES >> 20);
    assert!(most < BUDGET_BYTES + BESIDES_BYTES, "{} MiB", most >> 20);
    assert!(counted >= taken && counted <= 2 * taken, "{counted} bytes counted, {taken} taken");
    drop(families);
    for name in &names[..100] {
        db.drop_family(name).unwrap();
    }
    let left = db.stats().memory.family_bytes;
    assert_eq!(left / (FAMILIES as u64 - 99), counted / FAMILIES as u64, "dropped ones count");
}
