//! Measures what a commit pays for order: entering and leaving the gate, and reserving,
//! completing and waiting for a range of the log, on 1, 2 and 8 threads.
//!
//! `cargo run --release -p tidesdb-lockfree --example commit_bench`, a few seconds. Wall time per
//! operation of all threads together, so more threads than processors gain nothing.

use std::time::Instant;

use tidesdb_lockfree::gate::CommitGate;
use tidesdb_lockfree::publish::CommitSequencer;

const OPERATIONS: u32 = 2_000_000;

fn measure(name: &str, threads: u32, operation: impl Fn() + Sync) {
    let start = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                for _ in 0..OPERATIONS / threads {
                    operation();
                }
            });
        }
    });
    let each = start.elapsed().as_nanos() as f64 / f64::from(OPERATIONS);
    println!("{name}, {threads} threads: {each:.1} ns per operation");
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
