//! What transactions cost compared with plain operations, on one thread and on several.
//!
//! `cargo bench -p tidesdb --bench transactions [THREADS]`. Each number is the best
//! of a few rounds, per operation; the log is not synced.

#![expect(clippy::expect_used, reason = "a measurement that fails may panic")]

use std::hint::black_box;
use std::time::Instant;

use tidesdb::{Db, DbOptions, Family, FamilyOptions, IsolationLevel, WriteBatch};

const LEVELS: [IsolationLevel; 5] = [
    IsolationLevel::ReadUncommitted,
    IsolationLevel::ReadCommitted,
    IsolationLevel::RepeatableRead,
    IsolationLevel::Snapshot,
    IsolationLevel::Serializable,
];
const KEYS: u64 = 100_000;
const ROUNDS: usize = 5;

fn key(n: u64) -> [u8; 16] {
    let mixed = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut key = [b'k'; 16];
    key[..8].copy_from_slice(&(mixed ^ (mixed >> 29)).to_be_bytes());
    key
}

/// Nanoseconds that the calling thread has been on a processor, where the system reports it.
fn thread_nanos() -> u64 {
    let reported = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    reported.split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0)
}

/// Runs `work` once per thread with the first number of the thread's own keys, and prints elapsed
/// and processor time per operation.
fn measure(name: &str, threads: u64, per_thread: u64, work: impl Fn(u64) + Sync) {
    let (mut elapsed, mut busy) = (f64::MAX, f64::MAX);
    let operations = (per_thread * threads) as f64;
    for round in 0..ROUNDS as u64 {
        let started = Instant::now();
        let run = |thread| {
            let before = thread_nanos();
            work((round * threads + thread) * per_thread);
            thread_nanos() - before
        };
        let nanos: u64 = std::thread::scope(|scope| {
            let run = &run;
            let handles: Vec<_> = (0..threads).map(|n| scope.spawn(move || run(n))).collect();
            handles.into_iter().map(|handle| handle.join().unwrap_or(0)).sum()
        });
        elapsed = elapsed.min(started.elapsed().as_nanos() as f64 / operations);
        busy = busy.min(nanos as f64 / operations);
    }
    println!("{name:<50} {elapsed:>9.0} ns, {busy:>9.0} ns on a processor");
}

fn fresh(directory: &std::path::Path, name: &str) -> (Db, Family) {
    let db = Db::open(directory.join(name.replace([' ', ','], "-")), DbOptions::default());
    let db = db.expect("open");
    let options = FamilyOptions::default().write_buffer_size(256 << 20);
    let family = db.open_family("default", options).expect("family");
    (db, family)
}

fn single_puts(directory: &std::path::Path, threads: u64) {
    let count = KEYS / threads;
    let (_db, family) = fresh(directory, "plain");
    measure("plain put", threads, count, |from| {
        for n in from..from + count {
            family.put(&key(n), &[7; 100]).expect("put");
        }
    });
    for level in LEVELS {
        let (db, family) = fresh(directory, &format!("put {level:?}"));
        measure(&format!("transaction of one put, {level:?}"), threads, count, |from| {
            let mut transaction = db.begin(level).expect("begin");
            for n in from..from + count {
                transaction.put(&family, &key(n), &[7; 100]).expect("put");
                transaction.commit().expect("commit");
                transaction.reset(level).expect("reset");
            }
        });
    }
}

fn reads(directory: &std::path::Path, threads: u64) {
    let (db, family) = fresh(directory, "reads");
    for n in 0..KEYS {
        family.put(&key(n), &[7; 100]).expect("put");
    }
    let count = KEYS / threads;
    measure("plain get", threads, count, |from| {
        for n in from..from + count {
            black_box(family.get_with(&key(n % KEYS), <[u8]>::len).expect("get"));
        }
    });
    for level in LEVELS {
        measure(&format!("transaction of one get, {level:?}"), threads, count, |from| {
            let mut transaction = db.begin(level).expect("begin");
            for n in from..from + count {
                black_box(transaction.get_with(&family, &key(n % KEYS), <[u8]>::len).expect("get"));
                transaction.commit().expect("commit");
                transaction.reset(level).expect("reset");
            }
        });
    }
}

fn batches(directory: &std::path::Path, threads: u64, size: u64) {
    let count = KEYS / threads / size * size;
    let (db, family) = fresh(directory, &format!("batch {size}"));
    measure(&format!("batch of {size} puts, each"), threads, count, |from| {
        let mut batch = WriteBatch::new();
        for n in from..from + count {
            batch.put(&family, &key(n), &[7; 100]).expect("put");
            if batch.len() as u64 == size {
                db.write(&batch).expect("write");
                batch.clear();
            }
        }
    });
    for level in LEVELS {
        let (db, family) = fresh(directory, &format!("batch {size} {level:?}"));
        measure(&format!("transaction of {size} puts, {level:?}, each"), threads, count, |from| {
            let mut transaction = db.begin(level).expect("begin");
            for n in from..from + count {
                transaction.put(&family, &key(n), &[7; 100]).expect("put");
                if (n - from + 1).is_multiple_of(size) {
                    transaction.commit().expect("commit");
                    transaction.reset(level).expect("reset");
                }
            }
        });
    }
}
/// The arguments, without the one that `cargo bench` adds.
fn arguments() -> impl Iterator<Item = String> {
    std::env::args().skip(1).filter(|argument| argument != "--bench")
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let threads = arguments().next().and_then(|text| text.parse().ok()).unwrap_or(1);
    let directory = tempfile::tempdir()?;
    single_puts(directory.path(), threads);
    reads(directory.path(), threads);
    for size in [10, 1000] {
        batches(directory.path(), threads, size);
    }
    Ok(())
}
