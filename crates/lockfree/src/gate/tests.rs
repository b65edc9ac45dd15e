//! Tests of the commit gate: guards, a stress run, and the loom models.

use super::*;

#[cfg(not(loom))]
mod threads {
    use super::*;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn closing_waits_for_those_inside_and_shuts_out_newcomers() {
        let gate = CommitGate::new();
        let entered = gate.enter();
        let left = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let closer = scope.spawn(|| {
                let closed = gate.close();
                assert!(left.load(Ordering::Relaxed), "closed around somebody");
                drop(closed);
            });
            while !gate.closed.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            left.store(true, Ordering::Relaxed);
            drop(entered);
            closer.join().unwrap();
        });
        drop(gate.enter());
    }

    #[test]
    fn a_guard_dropped_elsewhere_leaves_its_own_stripe() {
        let gate = CommitGate::new();
        let guard = gate.enter();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                drop(gate.enter());
                drop(guard);
            });
        });
        assert!(gate.inside.iter().all(|stripe| stripe.load(Ordering::Relaxed) == 0));
        drop(gate.close());
    }

    #[test]
    fn enterers_and_closers_exclude_each_other() {
        let rounds = if cfg!(miri) { 20 } else { 4_000 };
        let gate = CommitGate::new();
        // Enterers add 1 each, the closer sees no half-done pair and multiplies nothing away.
        let (first, second) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|| {
                    for round in 0..rounds {
                        let _inside = gate.enter();
                        first.fetch_add(1, Ordering::Relaxed);
                        if round % 64 == 0 {
                            std::thread::yield_now();
                        }
                        second.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..rounds / 8 {
                        let _closed = gate.close();
                        let seen = first.load(Ordering::Relaxed);
                        std::thread::yield_now();
                        assert_eq!(seen, second.load(Ordering::Relaxed), "closed around a pair");
                    }
                });
            }
        });
        assert_eq!(second.load(Ordering::Relaxed), 6 * rounds);
    }
}

#[cfg(loom)]
mod models {
    use super::*;
    use crate::sync::{Arc, thread};
    use loom::cell::UnsafeCell;

    struct Shared {
        gate: CommitGate,
        /// Written by the closer, read by enterers: loom reports any unordered pair.
        cell: UnsafeCell<usize>,
    }
    // Made safe to share by the gate, which is what the model checks.
    #[expect(unsafe_code, reason = "lets loom's race detector judge the gate")]
    // SAFETY: loom's cell tracks and reports unordered accesses instead of racing.
    unsafe impl Sync for Shared {}

    fn enterer(shared: &Shared, stripe: usize) -> usize {
        let _inside = shared.gate.enter_stripe(stripe);
        shared.cell.with(|value| {
            #[expect(unsafe_code, reason = "lets loom's race detector judge the gate")]
            // SAFETY: the gate excludes the closer; loom checks it.
            unsafe {
                *value
            }
        })
    }

    fn closer(shared: &Shared) {
        let _closed = shared.gate.close();
        shared.cell.with_mut(|value| {
            #[expect(unsafe_code, reason = "lets loom's race detector judge the gate")]
            // SAFETY: the gate excludes enterers and other closers; loom checks it.
            unsafe {
                *value += 1;
            }
        });
    }

    fn model(preemptions: usize, body: impl Fn(Arc<Shared>) + Sync + Send + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(preemptions);
        builder.check(move || {
            body(Arc::new(Shared { gate: CommitGate::new(), cell: UnsafeCell::new(0) }));
        });
    }

    /// Exclusion both ways, and all threads get through: a lost wake-up would deadlock the model.
    #[test]
    fn loom_gate_two_enterers_one_closer() {
        model(3, |shared| {
            let enterers = [0, 1].map(|stripe| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || enterer(&shared, stripe))
            });
            closer(&shared);
            for enterer in enterers {
                assert!(enterer.join().unwrap() <= 1);
            }
        });
    }

    #[test]
    fn loom_gate_two_closers_one_enterer() {
        model(3, |shared| {
            let other = {
                let shared = Arc::clone(&shared);
                thread::spawn(move || closer(&shared))
            };
            let entered = {
                let shared = Arc::clone(&shared);
                thread::spawn(move || enterer(&shared, 0))
            };
            closer(&shared);
            other.join().unwrap();
            assert!(entered.join().unwrap() <= 2);
        });
    }
}
