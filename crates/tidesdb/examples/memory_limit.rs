//! A database inside a program that has little memory to give.
//!
//! `max_memory_usage` is one limit for all that the database takes: memtables, caches, indexes,
//! scans, flushes and compactions. Near it memtables are written out early and writers are slowed.
//!
//! `cargo run --release -p tidesdb --example memory_limit`

use tidesdb::{Db, DbOptions, FamilyOptions};

const LIMIT: u64 = 16 << 20;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let options = DbOptions::default()
        .max_memory_usage(LIMIT)
        // Eight segments of the log must fit into the limit.
        .log_segment_bytes(1 << 20)
        .block_cache_bytes(4 << 20)
        .max_open_files(32);
    let db = Db::open(directory.path(), options)?;
    let small = FamilyOptions::default().write_buffer_size(4 << 20).use_btree(true);
    let family = db.open_family("events", small)?;
    let mut most = 0;
    for number in 0..40_000u32 {
        family.put(&number.to_be_bytes(), &[number as u8; 500])?;
        if number % 1000 == 0 {
            most = most.max(db.stats().memory.used_bytes);
        }
    }
    assert!(most <= LIMIT, "{most} bytes were in use");
    assert_eq!(family.get_with(&7u32.to_be_bytes(), <[u8]>::len)?, Some(500));
    println!("20 MB written with at most {most} bytes of memory in use, of {LIMIT} allowed");
    Ok(())
}
