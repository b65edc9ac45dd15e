//! Measures what a commit pays for order: entering and leaving the gate, and reserving,
//! completing and waiting for a range of the log, on 1, 2 and 8 threads.
//!
//! `cargo bench -p tidesdb-lockfree --bench commit`, a few seconds. Prints wall
//! time per operation of all threads together (so more threads than processors gain nothing), and
//! the processor time of the threads per operation where the system reports it (Linux), which other
//! work on the machine disturbs less but which leaves waiting out.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use tidesdb_lockfree::gate::CommitGate;
use tidesdb_lockfree::publish::CommitSequencer;

const OPERATIONS: u32 = 2_000_000;

/// Nanoseconds for which the calling thread has had a processor; 0 if unknown.
fn thread_nanoseconds() -> f64 {
    let schedule = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    schedule.split(' ').next().and_then(|field| field.parse().ok()).unwrap_or(0.0)
}

fn measure(name: &str, threads: u32, operation: impl Fn() + Sync) {
    let running = Mutex::new(0.0);
    let start = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let before = thread_nanoseconds();
                for _ in 0..OPERATIONS / threads {
                    operation();
                }
                let spent = thread_nanoseconds() - before;
                *running.lock().unwrap_or_else(PoisonError::into_inner) += spent;
            });
        }
    });
    let wall = start.elapsed().as_nanos() as f64 / f64::from(OPERATIONS);
    let running = running.into_inner().unwrap_or_else(PoisonError::into_inner);
    let running = running / f64::from(OPERATIONS);
    println!("{name}, {threads} threads: {wall:.1} ns wall, {running:.1} ns of processor");
}

fn main() {
    let gate = CommitGate::new();
    let sequencer = CommitSequencer::new(0);
    for threads in [1, 2, 8] {
        measure("enter and leave the gate", threads, || drop(gate.enter()));
        measure("reserve, complete, wait", threads, || {
            let start = sequencer.reserve(144);
            sequencer.complete(start, start + 144);
            sequencer.wait_published(start + 144);
        });
    }
    assert_eq!(sequencer.published(), sequencer.tail());
}
