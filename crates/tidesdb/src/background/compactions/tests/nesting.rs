//! How deeply compactions of many families are nested on one thread.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidesdb_base::compress::Compression;
use tidesdb_base::options::{DbOptions, FamilyOptions};
use tidesdb_lockfree::sync::lock;
use tidesdb_sim::SimVfs;
use tidesdb_sys::clock::SystemClock;
use tidesdb_sys::sched::{Job, Lane, LaneThreads, Scheduler, ThreadPool};

use crate::db::{Components, Db};
use crate::handles::Family;

thread_local! {
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// A pool with one thread for compactions, which wait until they are let go. Notes how many
/// interludes lie within each other.
struct Held {
    pool: ThreadPool,
    holds: AtomicBool,
    waiting: Mutex<Vec<(Lane, u64, Job)>>,
    deepest: AtomicUsize,
}

impl std::fmt::Debug for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Held")
    }
}

impl Held {
    fn let_go(&self) {
        self.holds.store(false, Ordering::SeqCst);
        let waiting = std::mem::take(&mut *lock(&self.waiting));
        waiting.into_iter().for_each(|(lane, size, job)| self.pool.submit_sized(lane, size, job));
    }
}

impl Scheduler for Held {
    fn submit(&self, lane: Lane, job: Job) {
        self.pool.submit(lane, job);
    }

    fn submit_after(&self, lane: Lane, delay: Duration, job: Job) {
        self.pool.submit_after(lane, delay, job);
    }

    fn submit_sized(&self, lane: Lane, size: u64, job: Job) {
        if self.holds.load(Ordering::SeqCst) {
            lock(&self.waiting).push((lane, size, job));
        } else {
            self.pool.submit_sized(lane, size, job);
        }
    }

    fn run_smaller_jobs(&self, lane: Lane, most: u64) {
        DEPTH.set(DEPTH.get() + 1);
        self.deepest.fetch_max(DEPTH.get(), Ordering::SeqCst);
        self.pool.run_smaller_jobs(lane, most);
        DEPTH.set(DEPTH.get() - 1);
    }

    fn run_one_job(&self) -> bool {
        false
    }

    fn shutdown(&self) {
        self.pool.shutdown();
    }
}

/// The compaction of a slice was announced with an eighth of what all slices hold, also where there
/// is one slice: each of many equal families interrupted the one before, until the stack was used
/// up.
#[test]
fn merges_of_equal_families_do_not_interrupt_each_other() {
    let threads = LaneThreads { compaction: 1, ..LaneThreads::default() };
    let scheduler = Arc::new(Held {
        pool: ThreadPool::new("test", threads, Arc::new(|_, _: &str| {})).unwrap(),
        holds: AtomicBool::new(false),
        waiting: Mutex::default(),
        deepest: AtomicUsize::new(0),
    });
    let components = Components {
        vfs: SimVfs::new(1),
        scheduler: Arc::clone(&scheduler) as _,
        clock: Arc::new(SystemClock),
    };
    let options = DbOptions::default().compaction_threads(1).log_segment_bytes(1 << 20);
    let db = Db::open_with("/db", options, components).unwrap();
    let options = FamilyOptions::default()
        .write_buffer_size(64 << 10)
        .block_size(512)
        .compression(Compression::None)
        .min_disk_space(0);
    let create = |at| db.create_family(&format!("family {at}"), options.clone()).unwrap();
    let families: Vec<Family> = (0..32).map(create).collect();
    let write = |family: &Family| {
        for key in 0..300_u64 {
            family.put(&key.to_be_bytes(), &[7; 100]).unwrap();
        }
        family.flush().unwrap();
    };
    for family in &families {
        write(family);
        family.compact().unwrap();
    }
    db.wait_idle().unwrap();
    scheduler.holds.store(true, Ordering::SeqCst);
    families.iter().for_each(|family| (0..2).for_each(|_| write(family)));
    while lock(&scheduler.waiting).len() < families.len() {
        db.core().env.clock.sleep(Duration::from_millis(1));
    }
    scheduler.deepest.store(0, Ordering::SeqCst);
    scheduler.let_go();
    db.wait_idle().unwrap();
    assert_eq!(scheduler.deepest.load(Ordering::SeqCst), 1);
}
