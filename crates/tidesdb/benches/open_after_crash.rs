//! How fast a database opens whose process died: it reads its log into memory again.
//!
//! ```text
//! cargo bench -p tidesdb --bench open_after_crash -- DIRECTORY [MIB [VALUE_BYTES]]
//! ```
//! A child process writes so many MiB of log, keys in random order, and aborts; then the database
//! is opened, several times, by children that abort as well. `DIRECTORY` is removed at the end. The
//! program fails when no opening reads 500 MB of log a second, which two quiet processors do.

use std::error::Error;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use tidesdb::{Db, DbOptions, FamilyOptions, WriteBatch};

/// Larger than what is written, so that nothing of it is flushed.
const WRITE_BUFFER_BYTES: usize = 4 << 30;

/// Bytes of log that the fastest opening reads in a second, at least.
const LEAST_MB_PER_SECOND: u64 = 500;

fn options() -> DbOptions {
    DbOptions::default().max_memory_usage(8 << 30).log_segment_bytes(64 << 20)
}

/// Writes the log, prints how many bytes its records have, and dies.
fn fill(path: &Path, mib: usize, value_bytes: usize) -> Result<(), Box<dyn Error>> {
    let db = Db::open(path, options())?;
    let family = FamilyOptions::default().write_buffer_size(WRITE_BUFFER_BYTES);
    let family = db.open_family("family", family)?;
    let (mut written, mut state) = (0, 88_172_645_463_325_252_u64);
    let value = vec![7; value_bytes];
    while written < mib << 20 {
        let mut batch = WriteBatch::new();
        for _ in 0..10 {
            // Xorshift: keys in no order.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            batch.put(&family, &format!("key{state:020}").into_bytes(), &value)?;
            written += 23 + value_bytes;
        }
        db.write(&batch)?;
    }
    db.sync_log()?;
    println!("{}", db.stats().sequence);
    std::process::abort()
}

/// Opens, prints how long it took, and dies.
fn open(path: &Path, mib: usize, log_bytes: usize) -> Result<(), Box<dyn Error>> {
    let started = Instant::now();
    let db = Db::open(path, options())?;
    let seconds = started.elapsed().as_secs_f64();
    let stats = db.stats();
    println!(
        "{mib} MiB in {} MiB of log: {seconds:.3} s, {:.0} MB of log a second; {} MiB of memtables",
        log_bytes >> 20,
        log_bytes as f64 / 1e6 / seconds,
        stats.memtable_bytes >> 20,
    );
    std::process::abort()
}
/// The arguments, without the one that `cargo bench` adds.
fn arguments() -> impl Iterator<Item = String> {
    std::env::args().skip(1).filter(|argument| argument != "--bench")
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = arguments().collect();
    let number = |at: usize, usual: usize| {
        arguments.get(at).and_then(|text| text.parse().ok()).unwrap_or(usual)
    };
    let path = Path::new(arguments.first().ok_or("a directory is missing")?);
    let (mib, value_bytes) = (number(1, 343), number(2, 100));
    match arguments.get(3).map(String::as_str) {
        Some("fill") => return fill(path, mib, value_bytes),
        Some("open") => return open(path, mib, number(4, mib << 20)),
        _ => {}
    }
    let (program, numbers) = (std::env::current_exe()?, [mib, value_bytes].map(|n| n.to_string()));
    let step = |step: &str, log_bytes: &str| {
        // It aborts, which is no success.
        Command::new(&program).arg(path).args(&numbers).args([step, log_bytes]).output()
    };
    let log_bytes = String::from_utf8(step("fill", "")?.stdout)?;
    let mut fastest = 0;
    for _ in 0..3 {
        let line = String::from_utf8(step("open", log_bytes.trim())?.stdout)?;
        print!("{line}");
        let rate = line.split_once(" MB of log").and_then(|(front, _)| front.rsplit(' ').next());
        fastest = fastest.max(rate.and_then(|rate| rate.parse().ok()).unwrap_or(0));
    }
    std::fs::remove_dir_all(path)?;
    println!("bound: {LEAST_MB_PER_SECOND} MB of log a second");
    if fastest < LEAST_MB_PER_SECOND { Err("the bound was missed".into()) } else { Ok(()) }
}
