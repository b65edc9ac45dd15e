//! Tests of the group sync: leaders that fail or panic, and models of it beside writes that fail.

use super::*;

#[cfg(not(loom))]
mod threads {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn a_leader_that_panics_gives_its_place_up() {
        let group = GroupSync::new(0);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            group.sync_through(32, || Ok::<_, ()>(()), || panic!("the disk's driver"))
        }));
        assert!(panicked.is_err());
        // Hung before.
        group.sync_through(32, || Ok::<_, ()>(()), || Ok(32)).unwrap();
        group.wait_for_leader();
    }

    #[test]
    fn a_failed_sync_covers_no_commit() {
        let group = GroupSync::new(0);
        assert_eq!(group.sync_through(32, || Ok(()), || Err("failed")), Err("failed"));
        assert_eq!(group.synced(), 0);
        assert_eq!(group.sync_through(32, || Err("refused"), || Ok(32)), Err("refused"));
        assert_eq!(group.sync_through(32, || Ok::<_, ()>(()), || Ok(96)), Ok(()));
        assert_eq!(group.synced(), 96);
    }
}

#[cfg(loom)]
mod models {
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    use loom::thread;

    use super::*;
    use crate::gate::CommitGate;
    use crate::publish::CommitSequencer;

    const RECORD: u64 = 32;

    /// The engine's protocol in miniature: commits whose write may fail, and a repair that goes on
    /// behind all that was reserved.
    struct Log {
        gate: CommitGate,
        sequencer: CommitSequencer,
        group: GroupSync,
        failed: AtomicBool,
        /// Changes only while the gate is closed.
        repairs: AtomicU64,
    }

    /// A commit that was let in.
    struct Commit {
        start: u64,
        repairs_before: u64,
        visible: bool,
    }

    impl Log {
        fn new() -> Arc<Self> {
            Arc::new(Self {
                gate: CommitGate::new(),
                sequencer: CommitSequencer::with_ring(0, 4),
                group: GroupSync::new(0),
                failed: AtomicBool::new(false),
                repairs: AtomicU64::new(0),
            })
        }

        fn commit(&self, written: bool) -> Option<Commit> {
            let inside = self.gate.enter();
            if self.failed.load(Ordering::Acquire) {
                return None;
            }
            let repairs_before = self.repairs.load(Ordering::Relaxed);
            let start = self.sequencer.reserve(RECORD);
            if written {
                self.sequencer.complete(start, start + RECORD);
            } else {
                self.failed.store(true, Ordering::Release);
                self.sequencer.break_at(start);
            }
            let _inside = inside;
            let visible = self.sequencer.wait_published(start + RECORD);
            Some(Commit { start, repairs_before, visible })
        }

        fn sync(&self, position: u64) -> bool {
            let reached = || self.sequencer.published();
            let may_sync = || if reached() >= position { Ok(()) } else { Err(()) };
            self.group.sync_through(position, may_sync, || Ok(reached())).is_ok()
        }

        /// Goes on behind all that was reserved, if a write failed.
        fn repair(&self) {
            let closed = self.gate.close();
            if self.failed.load(Ordering::Acquire) {
                self.sequencer.reset(self.sequencer.tail());
                self.repairs.fetch_add(1, Ordering::Relaxed);
                self.failed.store(false, Ordering::Release);
            }
            drop(closed);
        }
    }

    fn bounded(model: impl Fn() + Sync + Send + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(2);
        builder.check(model);
    }

    /// A sync under way when a write failed counted for the records behind the hole.
    #[test]
    fn loom_a_sync_never_covers_what_lies_behind_a_hole() {
        bounded(|| {
            let log = Log::new();
            let failing = {
                let log = Arc::clone(&log);
                thread::spawn(move || log.commit(false).map(|commit| commit.start))
            };
            let committed = log.commit(true);
            let synced = committed.as_ref().is_some_and(|commit| {
                let asked = if commit.visible { commit.start + RECORD } else { commit.start };
                log.sync(asked) && commit.visible
            });
            let hole = failing.join().unwrap().unwrap();
            assert!(log.group.synced() <= hole, "the mark passes the hole");
            assert!(!synced || committed.unwrap().start < hole, "acknowledged behind the hole");
        });
    }

    /// A commit behind the hole that was slow to look found a log that had gone on meanwhile beyond
    /// its own place, and took itself for published.
    #[test]
    fn loom_no_lost_commit_passes_for_published_after_a_repair() {
        bounded(|| {
            let log = Log::new();
            let failing = {
                let log = Arc::clone(&log);
                thread::spawn(move || {
                    let hole = log.commit(false).map(|commit| commit.start);
                    log.repair();
                    hole.unwrap()
                })
            };
            let committed = log.commit(true);
            let hole = failing.join().unwrap();
            if let Some(commit) = committed {
                let lost = commit.start > hole && commit.repairs_before == 0;
                assert_eq!(commit.visible, !lost, "{}..: hole {hole}", commit.start);
            }
        });
    }
}
