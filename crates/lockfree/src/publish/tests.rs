//! Tests of the commit sequencer: single-threaded order, a stress run with a tiny ring, and the
//! loom models.

use super::*;

#[cfg(not(loom))]
mod threads {
    use super::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn publishes_only_the_completed_prefix() {
        let sequencer = CommitSequencer::new(4096);
        let starts: Vec<u64> = [32, 40, 1 << 20, 64].map(|len| sequencer.reserve(len)).to_vec();
        let ends: Vec<u64> = starts[1..].iter().copied().chain([sequencer.tail()]).collect();
        for (index, expected) in [(2, 4096), (1, 4096), (0, ends[2]), (3, ends[3])] {
            // Range 3 starts beyond the window while range 2 is open; it is completed last.
            sequencer.complete(starts[index], ends[index]);
            assert_eq!(sequencer.published(), expected, "after completing range {index}");
        }
        sequencer.wait_published(ends[3]);
    }

    #[test]
    fn only_rivals_are_waited_for() {
        let sequencer = CommitSequencer::new(0);
        let announced = |length: u64, signature| {
            let start = sequencer.reserve(length);
            sequencer.announce(start, start + length, signature);
            (start, start + length)
        };
        let _open = announced(32, 0b0001);
        let other = announced(96, 0b0010);
        let mine = announced(32, 0b1100);
        // Neither has a common bit: this returns although both are open.
        sequencer.wait_for_conflicting(mine.0, 0b1100);
        assert_eq!(sequencer.published(), 0);
        // Completed behind an open range, it is no rival of its own kind either.
        sequencer.complete(other.0, other.1);
        sequencer.wait_for_conflicting(mine.0, 0b1000);
    }

    #[test]
    fn rivals_and_those_who_announced_nothing_are_waited_for() {
        for signature in [Some(0b0101), None] {
            let sequencer = CommitSequencer::new(64);
            let start = sequencer.reserve(32);
            if let Some(signature) = signature {
                sequencer.announce(start, start + 32, signature);
            }
            let mine = sequencer.reserve(32);
            sequencer.announce(mine, mine + 32, 0b0100);
            let done = AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    std::thread::yield_now();
                    done.store(true, Ordering::SeqCst);
                    sequencer.complete(start, start + 32);
                });
                sequencer.wait_for_conflicting(mine, 0b0100);
                assert!(done.load(Ordering::SeqCst), "{signature:?}");
                assert_eq!(sequencer.published(), mine);
            });
        }
    }

    #[test]
    fn announcements_far_ahead_of_the_published_position_are_not_made() {
        let sequencer = CommitSequencer::new(0);
        let hole = sequencer.reserve(32);
        sequencer.announce(hole, 32, 1);
        let far = sequencer.reserve(ANNOUNCED as u64 * 32 * 2);
        let behind = sequencer.tail();
        sequencer.announce(behind, behind + 32, 2);
        assert_eq!(sequencer.announced_at(hole), Some((32, 1)));
        assert_eq!(sequencer.announced_at(behind), None);
        sequencer.complete(hole, 32);
        assert_eq!(sequencer.announced_at(hole), None, "published: the slot may be another's");
        sequencer.complete(far, behind);
        sequencer.announce(behind, behind + 32, 2);
        assert_eq!(sequencer.announced_at(behind), Some((behind + 32, 2)));
    }

    #[test]
    fn reset_forgets_reservations_that_were_given_up() {
        let sequencer = CommitSequencer::with_ring(0, 4);
        let first = sequencer.reserve(32);
        let _overflowed = sequencer.reserve(1 << 30);
        sequencer.complete(first, first + 32);
        assert_eq!(sequencer.published(), 32);
        sequencer.reset(64);
        assert_eq!((sequencer.published(), sequencer.tail()), (64, 64));
        let next = sequencer.reserve(32);
        assert_eq!(next, 64);
        sequencer.complete(next, next + 32);
        assert_eq!(sequencer.published(), 96);
    }

    #[test]
    fn reset_downwards_voids_old_completions() {
        let sequencer = CommitSequencer::with_ring(0, 4);
        for _ in 0..9 {
            let start = sequencer.reserve(32);
            let behind = sequencer.reserve(32);
            sequencer.complete(behind, behind + 32);
            sequencer.complete(start, start + 32);
        }
        sequencer.reset(0);
        for step in 0..18_u64 {
            let start = sequencer.reserve(32);
            assert_eq!(sequencer.published(), start, "an old completion counted");
            sequencer.complete(start, start + 32);
            assert_eq!(sequencer.published(), (step + 1) * 32);
        }
    }

    /// Every thread completes its ranges out of order with its neighbours; on return of
    /// `wait_published` every range in front must have been filled.
    fn stress(slots: usize, threads: u64, rounds: u64, hold_back: bool) {
        const UNIT: u64 = 8;
        let sequencer = CommitSequencer::with_ring(0, slots);
        let filled: Vec<AtomicBool> =
            (0..threads * rounds * 32).map(|_| AtomicBool::new(false)).collect();
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let (sequencer, filled) = (&sequencer, &filled);
                scope.spawn(move || {
                    let mut checked = 0;
                    for round in 0..rounds {
                        let len = 32 + (thread * 7 + round * 13) % 24 * UNIT;
                        let start = sequencer.reserve(len);
                        let end = start + len;
                        if hold_back && round % 16 == thread {
                            std::thread::yield_now();
                        }
                        for at in (start..end).step_by(UNIT as usize) {
                            filled[(at / UNIT) as usize].store(true, Ordering::Relaxed);
                        }
                        sequencer.complete(start, end);
                        sequencer.wait_published(end);
                        for at in (checked..end).step_by(UNIT as usize) {
                            let full = filled[(at / UNIT) as usize].load(Ordering::Relaxed);
                            assert!(full, "published over a hole at {at}");
                        }
                        checked = end;
                    }
                });
            }
        });
        assert_eq!(sequencer.published(), sequencer.tail());
        assert_eq!(sequencer.sleepers.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn threads_never_see_a_hole() {
        let rounds = if cfg!(miri) { 20 } else { 5_000 };
        stress(1 << 10, 4, rounds, false);
        stress(1 << 10, 8, rounds / 2, true);
    }

    #[test]
    fn a_tiny_ring_still_makes_progress() {
        let rounds = if cfg!(miri) { 20 } else { 1_000 };
        stress(2, 4, rounds, true);
        stress(4, 8, rounds / 2, true);
    }
}

#[cfg(loom)]
mod models {
    use super::*;
    use crate::sync::{Arc, AtomicUsize};

    fn model(preemptions: Option<usize>, body: impl Fn() + Sync + Send + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = preemptions;
        builder.check(body);
    }

    struct Shared {
        sequencer: CommitSequencer,
        data: [AtomicUsize; 3],
    }

    fn shared(slots: usize) -> Arc<Shared> {
        Arc::new(Shared {
            sequencer: CommitSequencer::with_ring(64, slots),
            data: [(); 3].map(|()| AtomicUsize::new(0)),
        })
    }

    impl Shared {
        /// Fills and completes the `index`th range of 32 bytes, waits for it to be published, and
        /// checks that all ranges in front of it are visible.
        fn commit(&self, index: usize, wait: bool) {
            let start = 64 + index as u64 * 32;
            self.data[index].store(1, Ordering::Relaxed);
            self.sequencer.complete(start, start + 32);
            if wait {
                self.sequencer.wait_published(start + 32);
                self.check_prefix(start + 32);
            }
        }

        fn check_prefix(&self, published: u64) {
            for (before, data) in self.data.iter().enumerate() {
                if 64 + before as u64 * 32 + 32 <= published {
                    assert_eq!(data.load(Ordering::Relaxed), 1, "range {before} is a hole");
                }
            }
        }
    }

    /// Two committers that sleep until published: order, visibility, no lost wake-up.
    #[test]
    fn loom_publish_two_commits_wait_for_each_other() {
        model(None, || {
            let shared = shared(4);
            assert_eq!(shared.sequencer.reserve(64), 64);
            let second = {
                let shared = Arc::clone(&shared);
                thread::spawn(move || shared.commit(1, true))
            };
            shared.commit(0, true);
            second.join().unwrap();
            assert_eq!(shared.sequencer.published(), shared.sequencer.tail());
        });
    }

    /// Three completers that do not wait: after all have returned, nothing is left unpublished.
    #[test]
    fn loom_publish_three_completions_leave_nothing_behind() {
        model(Some(3), || {
            let shared = shared(4);
            assert_eq!(shared.sequencer.reserve(96), 64);
            let others = [1, 2].map(|index| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || shared.commit(index, false))
            });
            shared.check_prefix(shared.sequencer.published());
            shared.commit(0, false);
            shared.check_prefix(shared.sequencer.published());
            for other in others {
                other.join().unwrap();
            }
            assert_eq!(shared.sequencer.published(), shared.sequencer.tail());
        });
    }

    /// Three committers in a ring of two slots: the window wait is taken, and slots are re-used.
    #[test]
    fn loom_publish_window_of_one() {
        model(Some(4), || {
            let shared = shared(2);
            assert_eq!(shared.sequencer.reserve(96), 64);
            let others = [2, 1].map(|index| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || shared.commit(index, index == 2))
            });
            shared.commit(0, false);
            for other in others {
                other.join().unwrap();
            }
            assert_eq!(shared.sequencer.published(), shared.sequencer.tail());
        });
    }

    /// A waiter that is in no commit meets a hole that is healed: it learns of either.
    #[test]
    fn loom_publish_a_reset_wakes_who_waits() {
        model(None, || {
            let sequencer = Arc::new(CommitSequencer::with_ring(0, 2));
            let start = sequencer.reserve(32);
            let waiter = {
                let sequencer = Arc::clone(&sequencer);
                thread::spawn(move || sequencer.wait_published(start + 32))
            };
            sequencer.break_at(start);
            sequencer.reset(64);
            waiter.join().unwrap();
            assert_eq!(sequencer.published(), 64);
        });
    }

    /// Reservation is part of the race: each thread takes whatever range comes.
    #[test]
    fn loom_publish_concurrent_reservations_never_overlap() {
        model(None, || {
            let sequencer = Arc::new(CommitSequencer::with_ring(0, 4));
            let commit = |sequencer: &CommitSequencer| {
                let start = sequencer.reserve(40);
                sequencer.complete(start, start + 40);
                start
            };
            let other = {
                let sequencer = Arc::clone(&sequencer);
                thread::spawn(move || commit(&sequencer))
            };
            let mine = commit(&sequencer);
            assert_eq!(mine.abs_diff(other.join().unwrap()), 40);
            assert_eq!(sequencer.published(), 80);
        });
    }
}
