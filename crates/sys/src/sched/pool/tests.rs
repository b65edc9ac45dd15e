use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use super::*;

fn quiet() -> PanicReport {
    Arc::new(|_, _| {})
}

fn pool() -> ThreadPool {
    ThreadPool::new("test", LaneThreads::default(), quiet()).unwrap()
}

/// A job that says it started, then waits to be let go.
fn blocked_job() -> (Job, Receiver<()>, Sender<()>) {
    let (started, wait_started) = channel();
    let (release, wait_release) = channel::<()>();
    let job = Box::new(move || {
        started.send(()).unwrap();
        let _ = wait_release.recv();
    });
    (job, wait_started, release)
}

#[test]
fn jobs_run_in_order_on_named_threads_of_their_lane() {
    let pool = pool();
    let (sender, receiver) = channel();
    for number in 0..3 {
        let sender = sender.clone();
        pool.submit(
            Lane::Compaction,
            Box::new(move || {
                let name = thread::current().name().map(str::to_owned);
                sender.send((number, name)).unwrap();
            }),
        );
    }
    for number in 0..3 {
        assert_eq!(receiver.recv().unwrap(), (number, Some("test-compact-0".to_owned())));
    }
    assert!(!pool.run_one_job());
}

#[test]
fn a_busy_lane_does_not_delay_another() {
    let pool = pool();
    let (job, started, release) = blocked_job();
    pool.submit(Lane::Compaction, job);
    started.recv().unwrap();
    let (sender, receiver) = channel();
    pool.submit(Lane::Flush, Box::new(move || sender.send(1).unwrap()));
    assert_eq!(receiver.recv().unwrap(), 1);
    release.send(()).unwrap();
}

#[test]
fn a_panic_is_reported_and_the_thread_lives_on() {
    let (report, reports) = channel();
    let report = Mutex::new(report);
    let on_panic: PanicReport = Arc::new(move |lane, text| {
        lock(&report).send((lane, text.to_owned())).unwrap();
    });
    let pool = ThreadPool::new("test", LaneThreads::default(), on_panic).unwrap();
    pool.submit(Lane::Flush, Box::new(|| panic!("number {}", 7)));
    assert_eq!(reports.recv().unwrap(), (Lane::Flush, "number 7".to_owned()));
    let (sender, receiver) = channel();
    pool.submit(Lane::Flush, Box::new(move || sender.send(1).unwrap()));
    assert_eq!(receiver.recv().unwrap(), 1);
}

#[test]
fn delayed_jobs_run_after_their_delay_earliest_first() {
    let pool = pool();
    let (sender, receiver) = channel();
    let start = Instant::now();
    for millis in [30_u64, 10] {
        let sender = sender.clone();
        let job = Box::new(move || sender.send((millis, start.elapsed())).unwrap());
        pool.submit_after(Lane::Sync, Duration::from_millis(millis), job);
    }
    for millis in [10, 30] {
        let (of, elapsed) = receiver.recv().unwrap();
        assert_eq!(of, millis);
        assert!(elapsed >= Duration::from_millis(millis));
    }
}

/// Each job queues the next, so that the queue is never empty.
fn feed(pool: &Arc<ThreadPool>, stop: &Arc<AtomicBool>) {
    let (again, stopped) = (Arc::clone(pool), Arc::clone(stop));
    pool.submit(
        Lane::Sync,
        Box::new(move || {
            if !stopped.load(Ordering::SeqCst) {
                feed(&again, &stopped);
            }
        }),
    );
}

#[test]
fn a_timer_goes_off_in_a_lane_that_is_never_empty() {
    let pool = Arc::new(pool());
    let (sender, receiver) = channel();
    let stop = Arc::new(AtomicBool::new(false));
    // Two at a time: one is always queued while the other runs.
    feed(&pool, &stop);
    feed(&pool, &stop);
    let job = Box::new(move || sender.send(()).unwrap());
    pool.submit_after(Lane::Sync, Duration::from_millis(5), job);
    let due = receiver.recv_timeout(Duration::from_secs(20));
    stop.store(true, Ordering::SeqCst);
    due.unwrap();
}

/// The thread that waited for the timer took another job, and the others waited without end.
#[test]
fn a_timer_goes_off_while_the_thread_that_waited_for_it_is_busy() {
    for round in 0..20 {
        let threads = LaneThreads { sync: 2, ..LaneThreads::default() };
        let pool = ThreadPool::new("test", threads, quiet()).unwrap();
        let (sender, receiver) = channel();
        let job = Box::new(move || sender.send(()).unwrap());
        pool.submit_after(Lane::Sync, Duration::from_millis(30), job);
        // One of the two waits for the timer by now, most of the time.
        thread::sleep(Duration::from_millis(round % 5));
        let (job, started, release) = blocked_job();
        pool.submit(Lane::Sync, job);
        started.recv().unwrap();
        let due = receiver.recv_timeout(Duration::from_secs(20));
        release.send(()).unwrap();
        due.unwrap();
    }
}

#[test]
fn shutdown_waits_for_the_running_job_and_drops_queued_ones() {
    let pool = Arc::new(pool());
    let (job, started, release) = blocked_job();
    pool.submit(Lane::Flush, job);
    started.recv().unwrap();
    let (sender, receiver) = channel::<()>();
    let queued = sender.clone();
    pool.submit(Lane::Flush, Box::new(move || queued.send(()).unwrap()));
    pool.submit_after(Lane::Flush, Duration::ZERO, Box::new(move || sender.send(()).unwrap()));
    let closing = Arc::clone(&pool);
    let closer = thread::spawn(move || closing.shutdown());
    // Dropping both unrun jobs closes the channel, while the running job still blocks.
    assert!(receiver.recv().is_err());
    assert!(!closer.is_finished());
    release.send(()).unwrap();
    closer.join().unwrap();
    pool.submit(Lane::Flush, Box::new(|| panic!("submitted after shutdown")));
    pool.shutdown();
}

#[test]
fn the_last_owner_may_be_a_job() {
    let pool = Arc::new(pool());
    let (sender, receiver) = channel();
    let owner = Arc::clone(&pool);
    let (wait, go) = channel::<()>();
    pool.submit(
        Lane::Housekeeping,
        Box::new(move || {
            go.recv().unwrap();
            drop(owner);
            sender.send(()).unwrap();
        }),
    );
    drop(pool);
    wait.send(()).unwrap();
    receiver.recv().unwrap();
}

#[test]
fn a_lane_without_threads_is_refused() {
    let threads = LaneThreads { sync: 0, ..LaneThreads::default() };
    let error = ThreadPool::new("test", threads, quiet()).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
}

/// Its threads for urgent work are more than it needs.
#[test]
fn a_pool_that_gets_no_threads_for_urgent_compactions_does_them_as_others() {
    for granted in 4..6_u32 {
        let left = std::cell::Cell::new(granted);
        let spawn = |thread: thread::Builder, run: Job| {
            let count = left.get().checked_sub(1).ok_or(io::ErrorKind::WouldBlock)?;
            left.set(count);
            thread.spawn(run)
        };
        let two = LaneThreads { compaction: 2, ..LaneThreads::default() };
        let threads = if granted == 4 { LaneThreads::default() } else { two };
        let pool = ThreadPool::started_by(&spawn, "test", threads, &quiet()).unwrap();
        let (sender, receiver) = channel();
        let job = Box::new(move || sender.send(()).unwrap());
        assert!(!pool.submit_urgent(Lane::Compaction, job), "{granted} threads");
        receiver.recv_timeout(Duration::from_secs(10)).unwrap();
    }
    let none = |_: thread::Builder, _: Job| Err(io::ErrorKind::WouldBlock.into());
    let refused = ThreadPool::started_by(&none, "test", LaneThreads::default(), &quiet());
    assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::WouldBlock);
}

/// The nice value of the calling thread, field 19 of its line; the name before may hold spaces.
#[cfg(target_os = "linux")]
fn nice() -> i32 {
    let line = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
    let fields = line.rsplit(") ").next().unwrap();
    fields.split(' ').nth(16).unwrap().parse().unwrap()
}

/// The thread of the lane is busy, and would give way.
#[cfg(target_os = "linux")]
#[test]
fn urgent_compactions_give_way_to_nothing() {
    let (pool, own) = (pool(), nice());
    let (job, started, release) = blocked_job();
    pool.submit(Lane::Compaction, job);
    started.recv().unwrap();
    let (sender, receiver) = channel();
    let urgent = Box::new(move || sender.send(nice()).unwrap());
    pool.submit_urgent(Lane::Compaction, urgent);
    assert_eq!(receiver.recv().unwrap(), own);
    release.send(()).unwrap();
    // Of other lanes no thread is for these.
    let (sender, receiver) = channel();
    assert!(!pool.submit_urgent(Lane::Flush, Box::new(move || sender.send(nice()).unwrap())));
    assert_eq!(receiver.recv().unwrap(), (own + nice_steps(Lane::Flush)).min(19));
    pool.shutdown();
    assert!(!pool.submit_urgent(Lane::Compaction, Box::new(|| panic!("after shutdown"))));
}

/// Who submits waits for a moment where a thread is free, and does the work itself otherwise.
#[test]
fn it_is_known_whether_a_thread_is_free_for_an_urgent_job() {
    let pool = pool();
    let urgent = pool.urgent.as_ref().unwrap();
    let is_idle = || lock(&urgent.state).idle == 1;
    while !is_idle() {
        thread::yield_now();
    }
    let (job, started, release) = blocked_job();
    assert!(pool.submit_urgent(Lane::Compaction, job));
    assert!(!pool.submit_urgent(Lane::Compaction, Box::new(|| ())), "one for two jobs");
    started.recv().unwrap();
    assert!(!pool.submit_urgent(Lane::Compaction, Box::new(|| ())), "it is busy");
    release.send(()).unwrap();
    while !is_idle() {
        thread::yield_now();
    }
    assert!(pool.submit_urgent(Lane::Compaction, Box::new(|| ())));
}

#[cfg(target_os = "linux")]
#[test]
fn flushes_and_compactions_give_way_to_other_threads() {
    assert!(nice_steps(Lane::Flush) > 0 && nice_steps(Lane::Compaction) > nice_steps(Lane::Flush));
    let (pool, own) = (pool(), nice());
    let (sender, receiver) = channel();
    for lane in Lane::ALL {
        let sender = sender.clone();
        pool.submit(lane, Box::new(move || sender.send((lane, nice())).unwrap()));
    }
    for _ in Lane::ALL {
        let (lane, found) = receiver.recv().unwrap();
        assert_eq!(found, (own + nice_steps(lane)).min(19), "{lane:?}");
    }
}

/// A lane whose only thread is at something large does what is small in between, and what is large
/// after it, the smallest first.
#[test]
fn small_jobs_interrupt_a_large_one_and_the_smallest_goes_first() {
    let pool = Arc::new(pool());
    let (large, (sender, receiver)) = (Arc::downgrade(&pool), channel());
    let (release, wait_release) = channel::<()>();
    let (started, wait_started) = channel();
    let say = |what: &'static str| {
        let sender = sender.clone();
        Box::new(move || sender.send(what).unwrap()) as Job
    };
    let before = say("large");
    pool.submit_sized(
        Lane::Compaction,
        100,
        Box::new(move || {
            started.send(()).unwrap();
            wait_release.recv().unwrap();
            let pool = large.upgrade().unwrap();
            // One job at a time, and none that is larger.
            (0..3).for_each(|_| pool.run_smaller_jobs(Lane::Compaction, 25));
            before();
        }),
    );
    wait_started.recv().unwrap();
    for (size, what) in [(90, "larger"), (25, "small"), (5, "smallest"), (50, "middle")] {
        pool.submit_sized(Lane::Compaction, size, say(what));
    }
    pool.submit(Lane::Compaction, say("without size"));
    release.send(()).unwrap();
    let order: Vec<_> = (0..6).map(|_| receiver.recv().unwrap()).collect();
    assert_eq!(order, ["smallest", "small", "large", "without size", "middle", "larger"]);
}

/// What a caller waits for must not take as long as another caller's job, and jobs within jobs end
/// somewhere.
#[test]
fn only_the_threads_of_a_lane_are_interrupted_and_only_so_deep() {
    let pool = Arc::new(pool());
    let (sender, receiver) = channel();
    let (job, started, release) = blocked_job();
    pool.submit_sized(Lane::Compaction, 10, job);
    started.recv().unwrap();
    let say = |what: usize| {
        let sender = sender.clone();
        Box::new(move || sender.send(what).unwrap()) as Job
    };
    pool.submit_sized(Lane::Compaction, 1, say(0));
    // A caller's thread, and that of another lane.
    pool.run_smaller_jobs(Lane::Compaction, 10);
    let (other, ended) = (Arc::downgrade(&pool), sender.clone());
    pool.submit(
        Lane::Flush,
        Box::new(move || {
            other.upgrade().unwrap().run_smaller_jobs(Lane::Compaction, 10);
            ended.send(usize::MAX).unwrap();
        }),
    );
    assert_eq!(receiver.recv().unwrap(), usize::MAX);
    release.send(()).unwrap();
    assert_eq!(receiver.recv().unwrap(), 0);

    // Each job has the next one run in its middle.
    let (job, started, release) = blocked_job();
    pool.submit_sized(Lane::Compaction, 10, job);
    started.recv().unwrap();
    for at in 0..MOST_NESTED as usize + 2 {
        let (inner, begins) = (Arc::downgrade(&pool), sender.clone());
        let nested = move || {
            let depth = SERVED.get().1 as usize;
            begins.send(depth).unwrap();
            // The last one may find the test at its end.
            if let Some(pool) = inner.upgrade() {
                pool.run_smaller_jobs(Lane::Compaction, 100);
            }
        };
        pool.submit_sized(Lane::Compaction, 10 + at as u64, Box::new(nested));
    }
    release.send(()).unwrap();
    let depths: Vec<_> = (0..MOST_NESTED + 2).map(|_| receiver.recv().unwrap()).collect();
    assert_eq!(depths, [1, 2, 3, 4, 1, 2], "at most {MOST_NESTED} within each other");
}

/// Small compactions of one family keep coming; the large one of another has its turn.
#[test]
fn small_jobs_without_end_do_not_keep_a_large_one_waiting() {
    fn small_without_end(pool: &Arc<ThreadPool>, done: Arc<Mutex<u32>>) {
        let next = Arc::downgrade(pool);
        let job = move || {
            *lock(&done) += 1;
            if let Some(pool) = next.upgrade() {
                small_without_end(&pool, done);
            }
        };
        pool.submit_sized(Lane::Compaction, 1, Box::new(job));
    }
    let pool = Arc::new(pool());
    let (job, started, release) = blocked_job();
    pool.submit(Lane::Compaction, job);
    started.recv().unwrap();
    let (small, large) = (Arc::new(Mutex::new(0)), channel());
    small_without_end(&pool, Arc::clone(&small));
    let before = Arc::clone(&small);
    let job = move || large.0.send(*lock(&before)).unwrap();
    pool.submit_sized(Lane::Compaction, 1 << 40, Box::new(job));
    release.send(()).unwrap();
    let before = large.1.recv_timeout(Duration::from_secs(30)).expect("the large job never ran");
    // The small one that comes again was submitted later than the large one.
    assert!(
        u64::from(before) <= 2 * lane_state::LONGEST_WAITING_EVERY,
        "{before} small jobs before it"
    );
}
