//! The production scheduler: named threads, one queue per lane.
//!
//! Idle threads block on their lane's condition variable. A panic in a job is caught, reported
//! through the callback given at construction, and costs neither the thread nor other jobs.
//! Delayed jobs wait in a heap beside the queue; while a thread of the lane is idle, one wakes for
//! the earliest, and what is due goes before what was queued. Signals are for the application's
//! threads: these take none.
#![expect(clippy::disallowed_methods, reason = "the door to threads, and to the time until timers")]

mod lane_state;

use std::any::Any;
use std::cell::Cell;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use self::lane_state::{Delayed, LaneState};
use super::{Job, Lane, Scheduler};
use crate::forks::ProcessMark;
use crate::os_calls::{block_signals, lower_thread_priority};
use crate::sync::lock;

/// By how much more a lane's threads give way to the application's where processors are scarce.
///
/// Readers that run with a writer at full speed get a third more by it; work that falls behind
/// slows the writers down, not the readers. Writers wait for flushes, so these come before
/// compactions. Ten steps for flushes would leave them a tenth of a processor when a thread is
/// busy, too little for writers. Ten for compactions gave readers a tenth more gets than seven, and
/// writers a sixth fewer puts, with up to 22 seconds on end under 60,000 puts a second
/// (`docs/design/0005-slow-compactions.md`).
const fn nice_steps(lane: Lane) -> i32 {
    match lane {
        Lane::Flush => 5,
        Lane::Compaction => 7,
        Lane::Sync | Lane::Housekeeping => 0,
    }
}

thread_local! {
    /// The lane that this thread serves, and in how many jobs of it the thread is.
    static SERVED: Cell<(Option<Lane>, u32)> = const { Cell::new((None, 0)) };
}

/// Jobs within each other at most, which bounds the stack and the memory that they take.
const MOST_NESTED: u32 = 4;

/// Called with the lane and the text of a panic that a job died of.
pub type PanicReport = Arc<dyn Fn(Lane, &str) + Send + Sync>;

/// Starts a thread.
type Spawn<'a> = &'a dyn Fn(thread::Builder, Job) -> io::Result<JoinHandle<()>>;

/// How many threads serve each lane; each at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneThreads {
    /// Threads for [`Lane::Flush`].
    pub flush: usize,
    /// Threads for [`Lane::Compaction`].
    pub compaction: usize,
    /// Threads for [`Lane::Sync`].
    pub sync: usize,
    /// Threads for [`Lane::Housekeeping`].
    pub housekeeping: usize,
}

impl Default for LaneThreads {
    fn default() -> Self {
        Self { flush: 1, compaction: 1, sync: 1, housekeeping: 1 }
    }
}

impl LaneThreads {
    const fn count(&self, lane: Lane) -> usize {
        match lane {
            Lane::Flush => self.flush,
            Lane::Compaction => self.compaction,
            Lane::Sync => self.sync,
            Lane::Housekeeping => self.housekeeping,
        }
    }
}

/// Runs jobs on its own threads. Dropping it shuts it down, except in a forked child.
///
/// A thread that has lowered its priority may not raise it again without privileges. So urgent
/// compactions have threads of their own, as many as the others. Where the system grants no more
/// threads, they are compactions like any other.
pub struct ThreadPool {
    lanes: Vec<Arc<LaneQueue>>,
    urgent: Option<Arc<LaneQueue>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// Where the threads are.
    home: ProcessMark,
}

struct LaneQueue {
    lane: Lane,
    /// By how much its threads give way to the application's.
    nice_steps: i32,
    state: Mutex<LaneState>,
    work: Condvar,
    on_panic: PanicReport,
}

impl ThreadPool {
    /// Starts the threads, named `name-lane-number`.
    ///
    /// # Errors
    /// `InvalidInput` when a lane has no thread; the kernel's error when a thread cannot start.
    pub fn new(name: &str, threads: LaneThreads, on_panic: PanicReport) -> io::Result<Self> {
        Self::started_by(&thread::Builder::spawn, name, threads, &on_panic)
    }

    fn started_by(
        spawn: Spawn<'_>,
        name: &str,
        threads: LaneThreads,
        on_panic: &PanicReport,
    ) -> io::Result<Self> {
        // An early return drops it, which stops the threads that it has.
        let mut pool = Self {
            lanes: Vec::new(),
            urgent: None,
            threads: Mutex::new(Vec::new()),
            home: ProcessMark::of_this(),
        };
        let _for_threads = block_signals();
        for lane in Lane::ALL {
            let count = threads.count(lane);
            if count == 0 {
                let text = format!("lane {} needs at least one thread", lane.name());
                return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
            }
            let queue = LaneQueue::new(lane, nice_steps(lane), on_panic);
            pool.lanes.push(Arc::clone(&queue));
            pool.start(spawn, &queue, &format!("{name}-{}", lane.name()), count)?;
        }
        let queue = LaneQueue::new(Lane::Compaction, 0, on_panic);
        let count = threads.count(Lane::Compaction);
        match pool.start(spawn, &queue, &format!("{name}-urgent"), count) {
            Ok(()) => pool.urgent = Some(queue),
            Err(_) => queue.close(),
        }
        Ok(pool)
    }

    fn start(
        &self,
        spawn: Spawn<'_>,
        queue: &Arc<LaneQueue>,
        name: &str,
        count: usize,
    ) -> io::Result<()> {
        for number in 0..count {
            let queue = Arc::clone(queue);
            let thread = thread::Builder::new().name(format!("{name}-{number}"));
            lock(&self.threads).push(spawn(thread, Box::new(move || queue.serve()))?);
        }
        Ok(())
    }

    fn queue(&self, lane: Lane) -> Option<&LaneQueue> {
        self.lanes.iter().map(Arc::as_ref).find(|queue| queue.lane == lane)
    }
}

impl LaneQueue {
    fn new(lane: Lane, nice_steps: i32, on_panic: &PanicReport) -> Arc<Self> {
        let (state, work) = (Mutex::new(LaneState::default()), Condvar::new());
        Arc::new(Self { lane, nice_steps, state, work, on_panic: Arc::clone(on_panic) })
    }

    fn serve(&self) {
        SERVED.set((Some(self.lane), 0));
        if self.nice_steps > 0 {
            lower_thread_priority(self.nice_steps);
        }
        while let Some(job) = self.next_job() {
            self.run(job);
        }
    }

    fn run(&self, job: Job) {
        let (lane, depth) = SERVED.get();
        SERVED.set((lane, depth + 1));
        if let Err(panic) = catch_unwind(AssertUnwindSafe(job)) {
            (self.on_panic)(self.lane, panic_text(panic.as_ref()));
        }
        SERVED.set((lane, depth));
    }

    /// Waits for a job; `None` once the lane is closed.
    fn next_job(&self) -> Option<Job> {
        let mut state = lock(&self.state);
        loop {
            if state.closed {
                return None;
            }
            let wait = state.until_next_timer(Instant::now());
            if let Some(job) = state.take(wait == Some(Duration::ZERO)) {
                // This thread may be the one that waited for the next timer, or was woken for
                // another job than it took.
                if state.idle > 0 && !state.is_empty() {
                    self.work.notify_one();
                }
                return Some(job);
            }
            state.idle += 1;
            state = match wait {
                None => self.work.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(wait) => {
                    let woken = self.work.wait_timeout(state, wait);
                    woken.unwrap_or_else(PoisonError::into_inner).0
                }
            };
            state.idle -= 1;
        }
    }

    /// Returns whether a thread waits for the job.
    fn submit(&self, job: Job) -> bool {
        let mut state = lock(&self.state);
        if state.closed {
            drop(state);
            return false;
        }
        state.ready.push_back(job);
        let is_waited_for = state.ready.len() <= state.idle;
        drop(state);
        self.work.notify_one();
        is_waited_for
    }

    fn close(&self) {
        let mut state = lock(&self.state);
        let dropped = state.close();
        drop(state);
        self.work.notify_all();
        // Outside the lock: a job's captured values may submit or close when they are dropped.
        drop(dropped);
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    if let Some(text) = panic.downcast_ref::<&'static str>() {
        return text;
    }
    panic.downcast_ref::<String>().map_or("panic without text", String::as_str)
}

impl Scheduler for ThreadPool {
    fn submit(&self, lane: Lane, job: Job) {
        if let Some(queue) = self.queue(lane) {
            queue.submit(job);
        }
    }

    fn submit_urgent(&self, lane: Lane, job: Job) -> bool {
        match &self.urgent {
            Some(queue) if queue.lane == lane => queue.submit(job),
            _ => {
                self.submit(lane, job);
                false
            }
        }
    }

    fn submit_after(&self, lane: Lane, delay: Duration, job: Job) {
        let Some(queue) = self.queue(lane) else { return };
        let due = Instant::now().checked_add(delay);
        let mut state = lock(&queue.state);
        // A delay beyond what the clock can express never comes due.
        let (false, Some(due)) = (state.closed, due) else {
            drop(state);
            return;
        };
        state.submitted += 1;
        let order = state.submitted;
        state.delayed.push(Delayed { due, order, job });
        drop(state);
        queue.work.notify_one();
    }

    fn submit_sized(&self, lane: Lane, size: u64, job: Job) {
        let Some(queue) = self.queue(lane) else { return };
        let mut state = lock(&queue.state);
        if state.closed {
            drop(state);
            return;
        }
        state.submitted += 1;
        let order = state.submitted;
        state.sized.insert((size, order), job);
        drop(state);
        queue.work.notify_one();
    }

    fn run_smaller_jobs(&self, lane: Lane, most: u64) {
        let (serves, depth) = SERVED.get();
        let Some(queue) = self.queue(lane) else { return };
        if serves != Some(lane) || depth >= MOST_NESTED {
            return;
        }
        let mut state = lock(&queue.state);
        if let Some(entry) = state.sized.first_entry()
            && entry.key().0 <= most
        {
            let job = entry.remove();
            drop(state);
            queue.run(job);
        }
    }

    fn run_one_job(&self) -> bool {
        false
    }

    fn shutdown(&self) {
        // A forked child has none of the threads, and may find any lock held for good.
        if !self.home.is_here() {
            return;
        }
        for queue in self.lanes.iter().chain(&self.urgent) {
            queue.close();
        }
        let threads = std::mem::take(&mut *lock(&self.threads));
        for thread in threads {
            // The last owner of a database may be a job: it cannot wait for its own end.
            if thread.thread().id() != thread::current().id() {
                // Jobs' panics are caught, so a thread ends without one.
                let _ = thread.join();
            }
        }
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        self.shutdown();
    }
}

impl fmt::Debug for ThreadPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadPool").field("threads", &lock(&self.threads).len()).finish()
    }
}

#[cfg(test)]
mod tests;
