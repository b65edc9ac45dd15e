use std::sync::Arc;

use super::*;

type Log = Arc<Mutex<Vec<u32>>>;

fn job(log: &Log, number: u32) -> Job {
    let log = Arc::clone(log);
    Box::new(move || lock(&log).push(number))
}

fn order_of(seed: u64) -> Vec<u32> {
    let (scheduler, log) = (ManualScheduler::new(seed), Log::default());
    for number in 0..8 {
        scheduler.submit(Lane::Flush, job(&log, number));
    }
    assert_eq!(scheduler.run_until_idle(), 8);
    lock(&log).clone()
}

#[test]
fn the_seed_decides_the_order() {
    assert_eq!(order_of(1), order_of(1));
    assert_ne!(order_of(1), order_of(2));
    let mut sorted = order_of(1);
    sorted.sort_unstable();
    assert_eq!(sorted, (0..8).collect::<Vec<_>>());
}

#[test]
fn nothing_runs_until_stepped_and_jobs_may_submit_jobs() {
    let scheduler = Arc::new(ManualScheduler::new(1));
    let log = Log::default();
    let (inner, next) = (Arc::clone(&scheduler), job(&log, 2));
    let first = job(&log, 1);
    scheduler.submit(
        Lane::Compaction,
        Box::new(move || {
            first();
            inner.submit(Lane::Flush, next);
        }),
    );
    assert!(lock(&log).is_empty());
    assert_eq!(scheduler.ready_in(Lane::Compaction), 1);
    assert_eq!(scheduler.step(), Some(Lane::Compaction));
    assert_eq!(*lock(&log), [1]);
    assert!(scheduler.run_one_job());
    assert_eq!(*lock(&log), [1, 2]);
    assert!(!scheduler.run_one_job());
    assert_eq!(scheduler.step(), None);
}

#[test]
fn one_lane_can_be_stepped_alone_oldest_first() {
    let (scheduler, log) = (ManualScheduler::new(1), Log::default());
    scheduler.submit(Lane::Flush, job(&log, 1));
    scheduler.submit(Lane::Sync, job(&log, 2));
    scheduler.submit(Lane::Sync, job(&log, 3));
    assert!(scheduler.step_lane(Lane::Sync));
    assert!(scheduler.step_lane(Lane::Sync));
    assert!(!scheduler.step_lane(Lane::Sync));
    assert_eq!((lock(&log).clone(), scheduler.ready()), (vec![2, 3], 1));
}

#[test]
fn timers_fire_by_delay_and_only_when_asked_or_needed() {
    let (scheduler, log) = (ManualScheduler::new(1), Log::default());
    scheduler.submit_after(Lane::Sync, Duration::from_secs(9), job(&log, 9));
    scheduler.submit_after(Lane::Sync, Duration::from_secs(1), job(&log, 1));
    scheduler.submit_after(Lane::Sync, Duration::from_secs(5), job(&log, 5));
    assert_eq!((scheduler.run_until_idle(), scheduler.timers()), (0, 3));
    assert!(scheduler.fire_timer());
    assert_eq!(scheduler.run_until_idle(), 1);
    assert!(scheduler.run_one_job() && scheduler.run_one_job() && !scheduler.run_one_job());
    assert_eq!(*lock(&log), [1, 5, 9]);
}

#[test]
fn shutdown_drops_what_is_queued_and_refuses_more() {
    let (scheduler, log) = (ManualScheduler::new(1), Log::default());
    scheduler.submit(Lane::Flush, job(&log, 1));
    scheduler.submit_after(Lane::Flush, Duration::ZERO, job(&log, 2));
    scheduler.shutdown();
    scheduler.submit(Lane::Flush, job(&log, 3));
    scheduler.submit_after(Lane::Flush, Duration::ZERO, job(&log, 4));
    assert!(!scheduler.run_one_job());
    assert_eq!(Arc::strong_count(&log), 1, "the jobs are gone, not kept");
    assert!(lock(&log).is_empty());
}
