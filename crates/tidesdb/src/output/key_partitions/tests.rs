use std::thread;
use std::time::Instant;

use tidesdb_base::options::DbOptions;
use tidesdb_sim::{ManualClock, SimVfs};
use tidesdb_sys::sched::{Job, LaneThreads, Scheduler, ThreadPool};

use super::*;
use crate::db::{Components, Db};

fn spans() -> Vec<KeySpan> {
    KeySpan::between(vec![vec![1], vec![2], vec![3]])
}

/// The names of the threads that do the parts.
fn doers(core: &Core) -> Vec<String> {
    let work = |_: &Core, _: &KeySpan| Ok(thread::current().name().unwrap_or_default().to_owned());
    let results = KeyPartitions::new(spans()).run_urgently(core, &Arc::new(work));
    assert!(results.failure.is_none(), "{results:?}");
    results.done
}

#[test]
fn the_owner_leaves_urgent_parts_to_threads_that_do_not_give_way() {
    let pool = ThreadPool::new("pool", LaneThreads::default(), Arc::new(|_, _| {})).unwrap();
    let scheduler = Arc::new(pool);
    let clock = Arc::new(ManualClock::new(1000));
    let components = Components { vfs: SimVfs::new(1), scheduler, clock };
    let db = Db::open_with("/db", DbOptions::default(), components).unwrap();
    let begun = Instant::now();
    // Where its only thread is not free yet, the owner does them.
    loop {
        let doers = doers(db.core());
        assert_eq!(doers.len(), 4);
        if doers.iter().all(|name| name.starts_with("pool-urgent-")) {
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(10), "{doers:?}");
    }
}

#[test]
fn the_owner_does_urgent_parts_where_there_are_no_such_threads() {
    let db = Db::open_with("/db", DbOptions::default(), Components::simulated()).unwrap();
    let own = thread::current().name().unwrap_or_default().to_owned();
    assert_eq!(doers(db.core()), [own.as_str(); 4]);
}

/// Runs an urgent job before it returns, as a scheduler of an application may.
#[derive(Debug)]
struct AtOnce(ThreadPool);

impl Scheduler for AtOnce {
    fn submit(&self, lane: Lane, job: Job) {
        self.0.submit(lane, job);
    }

    fn submit_after(&self, lane: Lane, delay: Duration, job: Job) {
        self.0.submit_after(lane, delay, job);
    }

    fn submit_urgent(&self, _: Lane, job: Job) -> bool {
        job();
        true
    }

    fn run_one_job(&self) -> bool {
        self.0.run_one_job()
    }

    fn shutdown(&self) {
        self.0.shutdown();
    }
}

/// It would wait for a lock that it holds: threads that wake up waited for it as well.
#[test]
fn parts_are_handed_out_without_a_lock() {
    let pool = ThreadPool::new("pool", LaneThreads::default(), Arc::new(|_, _| {})).unwrap();
    let scheduler = Arc::new(AtOnce(pool));
    let clock = Arc::new(ManualClock::new(1000));
    let components = Components { vfs: SimVfs::new(1), scheduler, clock };
    let db = Db::open_with("/db", DbOptions::default(), components).unwrap();
    let own = thread::current().name().unwrap_or_default().to_owned();
    assert_eq!(doers(db.core()), [own.as_str(); 4]);
}
