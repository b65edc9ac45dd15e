//! Work on a key space that is cut into parts: the thread that has the work does them, with the
//! help of whichever others are free.
//!
//! Helpers are jobs of the compaction lane. A part that was not begun is done by the owner, so
//! nothing ever waits for a job that has not started: a busy or a manual scheduler only means that
//! the owner does everything by itself. Flushes and compactions use this.
//!
//! Invariants: after [`KeyPartitions::run`] no thread works on a part, whatever failed; a helper
//! that comes later keeps nothing of the work alive.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use tidesdb_base::error::{Error, Result};
use tidesdb_lockfree::sync::lock;
use tidesdb_sys::sched::Lane;

use crate::core::Core;

/// Keys from `from` (all from the first if `None`) up to and without `until`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeySpan {
    pub from: Option<Vec<u8>>,
    pub until: Option<Vec<u8>>,
}

impl KeySpan {
    /// The ranges between `bounds`; together they hold all keys.
    pub(crate) fn between(mut bounds: Vec<Vec<u8>>) -> Vec<Self> {
        // They ascend, unless they come from an index whose bytes were made up.
        bounds.sort();
        bounds.dedup();
        let mut ranges = vec![Self::default()];
        for bound in bounds {
            if let Some(last) = ranges.last_mut() {
                last.until = Some(bound.clone());
            }
            ranges.push(Self { from: Some(bound), until: None });
        }
        ranges
    }

    /// The ranges between those of `bounds` that lie in this range; together they
    /// are it.
    pub(crate) fn cut_at(&self, mut bounds: Vec<Vec<u8>>) -> Vec<Self> {
        bounds.retain(|key| self.from.as_ref().is_none_or(|from| key > from));
        bounds.retain(|key| self.is_before_end(key));
        let mut ranges = Self::between(bounds);
        if let Some(first) = ranges.first_mut() {
            first.from.clone_from(&self.from);
        }
        if let Some(last) = ranges.last_mut() {
            last.until.clone_from(&self.until);
        }
        ranges
    }

    /// Whether `key` lies in the range.
    pub(crate) fn holds(&self, key: &[u8]) -> bool {
        self.from.as_deref().is_none_or(|from| from <= key) && self.is_before_end(key)
    }

    /// Whether `key`, known not to lie before the range, lies in it.
    #[inline]
    pub(crate) fn is_before_end(&self, key: &[u8]) -> bool {
        self.until.as_deref().is_none_or(|until| key < until)
    }
}

/// A thread that is free begins a part within this time.
const TAKEN_WITHIN: Duration = Duration::from_millis(20);

/// Parts that wait and what came of those that were done.
#[derive(Debug)]
pub(crate) struct KeyPartitions<R> {
    state: Mutex<State<R>>,
    part_taken: Condvar,
    part_done: Condvar,
}

#[derive(Debug)]
struct State<R> {
    waiting: VecDeque<KeySpan>,
    running: usize,
    results: Vec<R>,
    failure: Option<Error>,
}

/// What came of all parts.
#[derive(Debug)]
pub(crate) struct Results<R> {
    /// Of the parts that were done, in no particular order.
    pub done: Vec<R>,
    /// Why a part could not be done; no part was begun after that.
    pub failure: Option<Error>,
}

impl<R: Send + 'static> KeyPartitions<R> {
    pub(crate) fn new(parts: Vec<KeySpan>) -> Arc<Self> {
        let (waiting, running) = (VecDeque::from(parts), 0);
        let state = State { waiting, running, results: Vec::new(), failure: None };
        let (part_taken, part_done) = (Condvar::new(), Condvar::new());
        Arc::new(Self { state: Mutex::new(state), part_taken, part_done })
    }

    /// Does all parts with `work` and waits for those that helpers have begun.
    pub(crate) fn run<W>(self: &Arc<Self>, core: &Core, work: &Arc<W>) -> Results<R>
    where
        W: Fn(&Core, &KeySpan) -> Result<R> + Send + Sync + 'static,
    {
        let helpers = lock(&self.state).waiting.len().saturating_sub(1);
        for _ in 0..helpers {
            core.submit(Lane::Compaction, self.help(work));
        }
        self.do_rest(core, work)
    }

    /// As [`KeyPartitions::run`], with the priority of the application's threads: the owner leaves
    /// the parts to threads that have it, unless these are busy.
    pub(crate) fn run_urgently<W>(self: &Arc<Self>, core: &Core, work: &Arc<W>) -> Results<R>
    where
        W: Fn(&Core, &KeySpan) -> Result<R> + Send + Sync + 'static,
    {
        let mut others = false;
        // Bound first: a thread that wakes up takes this lock.
        let parts = lock(&self.state).waiting.len();
        for _ in 0..parts {
            others |= core.submit_urgent(Lane::Compaction, self.help(work));
        }
        if others {
            let state = lock(&self.state);
            let parts_wait = |state: &mut State<R>| !state.waiting.is_empty();
            drop(self.part_taken.wait_timeout_while(state, TAKEN_WITHIN, parts_wait));
        }
        self.do_rest(core, work)
    }

    /// A helper's job.
    fn help<W>(
        self: &Arc<Self>,
        work: &Arc<W>,
    ) -> impl FnOnce(&Arc<Core>) + Send + 'static + use<W, R>
    where
        W: Fn(&Core, &KeySpan) -> Result<R> + Send + Sync + 'static,
    {
        // Weak: the job may wait behind a long compaction when all is done, and must not keep what
        // the work holds, a memtable or the tables of a compaction.
        let (parts, work) = (Arc::downgrade(self), Arc::downgrade(work));
        move |core| {
            if let (Some(parts), Some(work)) = (parts.upgrade(), work.upgrade()) {
                parts.do_waiting(core, work.as_ref());
            }
        }
    }

    /// Does the parts that no helper has begun, and waits for the others.
    fn do_rest(
        &self,
        core: &Core,
        work: &Arc<impl Fn(&Core, &KeySpan) -> Result<R>>,
    ) -> Results<R> {
        self.do_waiting(core, work.as_ref());
        let mut state = lock(&self.state);
        while state.running > 0 {
            state = self.part_done.wait(state).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
        Results { done: std::mem::take(&mut state.results), failure: state.failure.take() }
    }

    fn do_waiting(&self, core: &Core, work: &dyn Fn(&Core, &KeySpan) -> Result<R>) {
        loop {
            let mut state = lock(&self.state);
            let Some(range) = state.waiting.pop_front() else { return };
            state.running += 1;
            drop(state);
            self.part_taken.notify_all();
            let running = RunningPart(self);
            let result = work(core, &range);
            let mut state = lock(&self.state);
            match result {
                Ok(result) => state.results.push(result),
                Err(failure) => {
                    state.waiting.clear();
                    state.failure.get_or_insert(failure);
                }
            }
            drop(state);
            // Nothing waits for a thread any more, perhaps.
            self.part_taken.notify_all();
            drop(running);
        }
    }
}

/// Counts a part as running until it has ended, in whatever way.
struct RunningPart<'a, R>(&'a KeyPartitions<R>);

impl<R> Drop for RunningPart<'_, R> {
    fn drop(&mut self) {
        let mut state = lock(&self.0.state);
        state.running -= 1;
        if std::thread::panicking() {
            let cause = Error::Internal("a part of a flush or a compaction panicked".to_owned());
            state.failure.get_or_insert(cause);
        }
        drop(state);
        self.0.part_done.notify_all();
    }
}

#[cfg(test)]
mod tests;
