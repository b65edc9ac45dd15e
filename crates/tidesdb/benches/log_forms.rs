//! What it costs a put that the log is written with system calls, as on file systems that are not
//! known to write in place: overlayfs, btrfs, zfs, networks.
//!
//! ```text
//! cargo bench -p tidesdb --bench log_forms -- DIRECTORY [THREADS [PUTS]]
//! ```
//! Puts of 16-byte keys in no order and 100-byte values, four times with each form in turn, into
//! memory alone. What is in `DIRECTORY/log_forms` is removed.

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use tidesdb::{Db, DbOptions, FamilyOptions};

/// Puts a second, in all threads together.
fn rate(path: &Path, threads: u64, puts: u64, mapped: bool) -> Result<f64, Box<dyn Error>> {
    let options = DbOptions::default()
        .max_memory_usage(8 << 30)
        .log_segment_bytes(64 << 20)
        .log_without_mapping(!mapped);
    let db = Db::open(path, options)?;
    let family = db.open_family("family", FamilyOptions::default().write_buffer_size(4 << 30))?;
    let started = Instant::now();
    let outcome = std::thread::scope(|scope| {
        let put_all = |thread: u64| {
            let (family, value) = (family.clone(), [7; 100]);
            move || {
                (0..puts / threads).try_for_each(|n| {
                    let scattered = (n * threads + thread).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                    let mut key = [0; 16];
                    key[..8].copy_from_slice(&scattered.to_be_bytes());
                    family.put(&key, &value)
                })
            }
        };
        let workers: Vec<_> = (0..threads).map(|thread| scope.spawn(put_all(thread))).collect();
        workers.into_iter().map(|worker| worker.join()).collect::<Result<Vec<_>, _>>()
    });
    let seconds = started.elapsed().as_secs_f64();
    for result in outcome.map_err(|_| "a thread panicked")? {
        result?;
    }
    drop((family, db));
    std::fs::remove_dir_all(path)?;
    Ok(puts as f64 / seconds)
}
/// The arguments, without the one that `cargo bench` adds.
fn arguments() -> impl Iterator<Item = String> {
    std::env::args().skip(1).filter(|argument| argument != "--bench")
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = arguments().collect();
    let number = |at: usize, usual: u64| {
        arguments.get(at).and_then(|text| text.parse().ok()).unwrap_or(usual)
    };
    let path = Path::new(arguments.first().ok_or("a directory is missing")?).join("log_forms");
    let (threads, puts) = (number(1, 2), number(2, 1_000_000));
    for _ in 0..4 {
        let mapped = rate(&path, threads, puts, true)?;
        let written = rate(&path, threads, puts, false)?;
        println!("{threads} threads: mapped {mapped:.0} puts/s, pwrite {written:.0} puts/s");
    }
    Ok(())
}
