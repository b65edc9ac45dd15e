//! A database on a file system and a scheduler of the application's own.
//!
//! The file system passes everything on to the machine's and counts what is written. The scheduler
//! has one thread for all background work: an application that has threads already would hand the
//! jobs to those.
//!
//! `cargo run --release -p tidesdb --example own_components`

use std::collections::BTreeMap;
use std::error::Error;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tidesdb::{
    Components, Db, DbOptions, DirEntry, FamilyOptions, File, Job, Lane, LockGuard, LockMode,
    LogSegment, OpenMode, Scheduler, SegmentMode, Vfs,
};

/// The machine's file system, with a count of bytes.
#[derive(Debug)]
struct CountingVfs {
    inner: Arc<dyn Vfs>,
    written: Arc<AtomicU64>,
}

impl Vfs for CountingVfs {
    fn hold_dir(self: Arc<Self>, dir: &Path) -> io::Result<Arc<dyn Vfs>> {
        // What is held is another file system: it has to count as well.
        let inner = Arc::clone(&self.inner).hold_dir(dir)?;
        Ok(Arc::new(Self { inner, written: Arc::clone(&self.written) }))
    }

    fn open(&self, path: &Path, how: OpenMode) -> io::Result<Arc<dyn File>> {
        let inner = self.inner.open(path, how)?;
        Ok(Arc::new(CountingFile { inner, written: Arc::clone(&self.written) }))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.inner.create_dir(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.rename(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.link(from, to)
    }

    fn is_same_dir(&self, one: &Path, other: &Path) -> io::Result<bool> {
        self.inner.is_same_dir(one, other)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.inner.remove(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.inner.remove_dir(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        self.inner.list(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.inner.sync_dir(dir)
    }

    fn log_segment(
        &self,
        path: &Path,
        size: u64,
        how: SegmentMode,
    ) -> io::Result<Arc<dyn LogSegment>> {
        self.inner.log_segment(path, size, how)
    }

    fn lock(&self, path: &Path, how: LockMode) -> io::Result<Box<dyn LockGuard>> {
        self.inner.lock(path, how)
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        self.inner.free_bytes(dir)
    }

    fn volume_bytes(&self, dir: &Path) -> io::Result<u64> {
        self.inner.volume_bytes(dir)
    }
}

/// A file, what is written to which is counted.
#[derive(Debug)]
struct CountingFile {
    inner: Arc<dyn File>,
    written: Arc<AtomicU64>,
}

impl File for CountingFile {
    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        self.inner.read_at(buffer, at)
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<usize> {
        let count = self.inner.write_at(bytes, at)?;
        self.written.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }

    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn links(&self) -> io::Result<u64> {
        self.inner.links()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.inner.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.inner.sync_data()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.inner.sync_all()
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.inner.allocate(len)
    }
}

/// Background work on one thread, in the order in which it falls due.
#[derive(Debug)]
struct OneThread {
    queue: Arc<Queue>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// When it falls due, and a number that tells jobs of one moment apart.
    jobs: BTreeMap<(Instant, u64), Job>,
    queued: u64,
    ends: bool,
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue").field("jobs", &self.lock().jobs.len()).finish()
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs jobs until it is told to end.
    fn run(&self) {
        let mut state = self.lock();
        while !state.ends {
            let now = Instant::now();
            let first = state.jobs.first_key_value().map(|(&(due, _), _)| due);
            state = match first {
                Some(due) if due <= now => {
                    let job = state.jobs.pop_first();
                    drop(state);
                    if let Some((_, job)) = job {
                        job();
                    }
                    self.lock()
                }
                first => {
                    let wait = first.map_or(Duration::from_secs(1), |due| due - now);
                    let waited = self.changed.wait_timeout(state, wait);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }
}

impl OneThread {
    fn start() -> Self {
        let queue = Arc::new(Queue::default());
        let its_queue = Arc::clone(&queue);
        let thread = thread::spawn(move || its_queue.run());
        Self { queue, thread: Mutex::new(Some(thread)) }
    }
}

impl Scheduler for OneThread {
    fn submit(&self, lane: Lane, job: Job) {
        self.submit_after(lane, Duration::ZERO, job);
    }

    fn submit_after(&self, _lane: Lane, delay: Duration, job: Job) {
        let mut state = self.queue.lock();
        if !state.ends {
            state.queued += 1;
            let place = (Instant::now() + delay, state.queued);
            state.jobs.insert(place, job);
            self.queue.changed.notify_one();
        }
    }

    fn run_one_job(&self) -> bool {
        // It has a thread of its own.
        false
    }

    fn shutdown(&self) {
        let mut state = self.queue.lock();
        state.ends = true;
        let unrun = std::mem::take(&mut state.jobs);
        drop(state);
        // With the queue unlocked: what a job holds may queue another when it is dropped.
        drop(unrun);
        self.queue.changed.notify_one();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread.filter(|it| it.thread().id() != thread::current().id()) {
            // The database has its own means to learn of a job that panicked.
            let _ = thread.join();
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let options = DbOptions::default();
    let machine = Components::for_options(&options)?;
    machine.scheduler.shutdown();
    let written = Arc::new(AtomicU64::new(0));
    let components = Components {
        vfs: Arc::new(CountingVfs { inner: machine.vfs, written: Arc::clone(&written) }),
        scheduler: Arc::new(OneThread::start()),
        clock: machine.clock,
    };
    let db = Db::open_with(directory.path(), options, components)?;
    let family = db.open_family("default", FamilyOptions::default())?;
    for number in 0..10_000_u32 {
        family.put(number.to_be_bytes(), [7; 100])?;
    }
    db.flush()?;
    let bytes = written.load(Ordering::Relaxed);
    println!("{bytes} bytes were written to tables and manifests");
    assert!(bytes > 10_000, "a flush writes through the application's file system");
    assert_eq!(family.get(42_u32.to_be_bytes())?, Some(vec![7; 100]));
    db.close()?;
    Ok(())
}
