//! The recorder on known calls: counts, samples, buckets, pace, warm-up.

use super::*;

fn limits(interrupted: &AtomicBool, sample_every: u32) -> Limits<'_> {
    Limits { time: None, interrupted, sample_every, schedule: Schedule::default() }
}

#[test]
fn counts_every_operation_and_samples_some() {
    let interrupted = AtomicBool::new(false);
    let mut recorder = Recorder::start(limits(&interrupted, 4)).unwrap();
    recorder.sample_every = 4;
    for _ in 0..100 {
        recorder.begin();
        assert!(recorder.end(Kind::Primary, 2));
    }
    recorder.begin();
    recorder.end(Kind::Get, 1);
    let measured = recorder.finish();
    assert_eq!(measured.series[0].operations, 200);
    // 25 samples that stand for four calls each.
    assert_eq!(measured.series[0].histogram.len(), 100);
    assert_eq!(measured.of(Kind::Get).operations, 1);
}

#[test]
fn slow_calls_are_all_timed() {
    let interrupted = AtomicBool::new(false);
    let mut recorder = Recorder::start(limits(&interrupted, 16)).unwrap();
    assert_eq!(recorder.sample_every, 1, "nothing is known yet");
    let mut now = recorder.start;
    // The time that passes says nothing: a busy machine may have taken most of it from us.
    for (timed, slow, expected) in [(9, 4, 16), (10, 6, 1), (90, 89, 1), (90, 3, 16), (1, 1, 1)] {
        (recorder.timed, recorder.timed_slow) = (timed, slow);
        now += BUCKET;
        recorder.after_sample(now);
        assert_eq!(recorder.sample_every, expected, "{slow} slow ones of {timed}");
    }
    recorder.time_all();
    recorder.timed = 1_000;
    recorder.after_sample(now + BUCKET);
    assert_eq!(recorder.sample_every, 1);
}

#[test]
fn the_timed_calls_tell_whether_calls_are_slow() {
    let interrupted = AtomicBool::new(false);
    let mut recorder = Recorder::start(limits(&interrupted, 16)).unwrap();
    recorder.begin();
    let start = Instant::now();
    while start.elapsed() <= 2 * SLOW_CALL {}
    recorder.end(Kind::Primary, 1);
    assert_eq!((recorder.timed, recorder.timed_slow), (1, 1));
}

#[test]
fn stops_when_interrupted() {
    let interrupted = AtomicBool::new(true);
    let mut recorder = Recorder::start(limits(&interrupted, 1)).unwrap();
    recorder.begin();
    assert!(!recorder.end(Kind::Primary, 1));
}

#[test]
fn merging_adds_and_keeps_extremes() {
    let interrupted = AtomicBool::new(false);
    let part = |buckets: Vec<u64>, gap_millis| {
        let mut measured = Recorder::start(limits(&interrupted, 1)).unwrap().finish();
        measured.buckets = buckets;
        measured.longest_gap = Duration::from_millis(gap_millis);
        measured.series[0].operations = 7;
        measured.series[0].longest_gap = Duration::from_millis(gap_millis);
        measured.series[0].histogram.record(1_000 * gap_millis).unwrap();
        measured
    };
    let parts = vec![part(vec![10; 12], 3), part(vec![5; 11], 9)];
    let merged = Measured::merge(parts).unwrap().unwrap();
    assert_eq!(merged.series[0].operations, 14);
    assert_eq!(merged.longest_gap, Duration::from_millis(9));
    assert_eq!(merged.series[0].longest_gap, Duration::from_millis(9));
    assert_eq!(merged.series[0].histogram.len(), 2);
    assert_eq!(merged.slowest_second(), Some(9.0 * 15.0 + 10.0));
}

#[test]
fn buckets_hold_the_operations_of_their_time() {
    let interrupted = AtomicBool::new(false);
    let mut recorder = Recorder::start(limits(&interrupted, 1)).unwrap();
    recorder.series[0].operations = 50;
    let start = recorder.start;
    recorder.after_sample(start + Duration::from_millis(120));
    recorder.series[0].operations = 60;
    recorder.after_sample(start + Duration::from_millis(450));
    // The stall between the two samples is a hole of two empty buckets.
    recorder.series[0].operations = 90;
    recorder.after_sample(start + Duration::from_millis(510));
    assert_eq!(recorder.buckets, [50, 10, 0, 0, 30]);
}

/// How long the second of two calls took by the recorder's account, when one was due every ten
/// milliseconds and the first took forty.
fn second_after_a_late_first(open_loop: bool) -> Duration {
    let interrupted = AtomicBool::new(false);
    let interval = Some(Duration::from_millis(10));
    let schedule = Schedule { interval, open_loop, ..Schedule::default() };
    let limits = Limits { schedule, ..limits(&interrupted, 8) };
    let mut recorder = Recorder::start(limits).unwrap();
    recorder.begin();
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(40) {
        std::hint::spin_loop();
    }
    recorder.end(Kind::Primary, 1);
    recorder.begin();
    recorder.end(Kind::Primary, 1);
    let measured = recorder.finish();
    let histogram = &measured.of(Kind::Primary).histogram;
    assert_eq!(histogram.len(), 2, "everything is timed");
    Duration::from_nanos(histogram.min())
}

#[test]
fn an_open_loop_counts_the_waiting() {
    let late = second_after_a_late_first(true);
    assert!(late >= Duration::from_millis(27), "{late:?}");
    // A busy machine may stop the thread within the call, though hardly each time.
    let soon = |_| second_after_a_late_first(false) < Duration::from_millis(10);
    assert!((0..50).any(soon), "a closed loop counts from the call");
}

#[test]
fn the_warm_up_is_forgotten() {
    let interrupted = AtomicBool::new(false);
    let schedule = Schedule { warmup_operations: 10, ..Schedule::default() };
    let limits = Limits { schedule, ..limits(&interrupted, 1) };
    let mut recorder = Recorder::start(limits).unwrap();
    for _ in 0..25 {
        recorder.begin();
        assert!(recorder.end(Kind::Put, 1));
    }
    let measured = recorder.finish();
    assert_eq!(measured.of(Kind::Put).operations, 15);
    assert_eq!(measured.of(Kind::Put).histogram.len(), 15);
}

#[test]
fn a_pause_of_one_operation_is_not_that_of_another() {
    let interrupted = AtomicBool::new(false);
    let mut recorder = Recorder::start(limits(&interrupted, 1)).unwrap();
    for (kind, pause) in [(Kind::Put, 300), (Kind::Get, 0)] {
        recorder.begin();
        std::thread::sleep(Duration::from_millis(pause));
        recorder.end(kind, 1);
    }
    let measured = recorder.finish();
    let pause = Duration::from_millis(300);
    assert!(measured.longest_gap >= pause && measured.of(Kind::Put).longest_gap >= pause);
    assert!(measured.of(Kind::Get).longest_gap < pause);
}

#[test]
fn the_longest_gap_knows_when_it_ended() {
    let interrupted = AtomicBool::new(false);
    let mut recorder = Recorder::start(limits(&interrupted, 1)).unwrap();
    let start = recorder.start;
    recorder.note_gap(Duration::from_millis(30), start + Duration::from_millis(100));
    recorder.note_gap(Duration::from_millis(20), start + Duration::from_millis(200));
    let first = recorder.finish();
    let mut other = Recorder::start(limits(&interrupted, 1)).unwrap();
    other.note_gap(Duration::from_secs(3_600), start + Duration::from_millis(300));
    let merged = Measured::merge(vec![first, other.finish()]).unwrap().unwrap();
    assert_eq!(merged.longest_gap, Duration::from_secs(3_600));
    assert_eq!(merged.longest_gap_at, start + Duration::from_millis(300));
}

#[test]
fn processor_time_of_the_thread_is_counted() {
    let interrupted = AtomicBool::new(false);
    let recorder = Recorder::start(limits(&interrupted, 1)).unwrap();
    let begin = thread_cpu().unwrap();
    while thread_cpu().unwrap() < begin + Duration::from_millis(10) {}
    let measured = recorder.finish();
    assert!(measured.cpu.unwrap() >= Duration::from_millis(10));
}

/// Three threads, of which one did a hundredth of the calls and waited for each: the merged numbers
/// do not show it.
#[test]
fn the_slowest_thread_is_not_hidden_by_the_others() {
    let interrupted = AtomicBool::new(false);
    let part = |calls: u64, micros: u64| {
        let mut measured = Recorder::start(limits(&interrupted, 1)).unwrap().finish();
        let series = &mut measured.series[0];
        series.operations = calls;
        // The last hundredth of a thread's calls takes ten times as long.
        series.histogram.record_n(micros * 1_000, calls - calls / 100).unwrap();
        series.histogram.record_n(micros * 10_000, calls / 100).unwrap();
        measured
    };
    let near = |found: u64, micros: u64| found.abs_diff(micros * 1_000) <= micros;
    let alone = part(1_000, 5);
    let [p50, p95, p99, p999] = alone.of(Kind::Primary).worst_thread();
    assert!(near(p50, 5) && near(p95, 5) && near(p99, 5) && near(p999, 50));
    let merged = Measured::merge(vec![part(50_000, 1), part(1_000, 40), part(50_000, 2)]);
    let merged = merged.unwrap().unwrap();
    let series = merged.of(Kind::Primary);
    assert!(near(series.histogram.value_at_quantile(0.5), 2));
    assert!(near(series.histogram.value_at_quantile(0.95), 2));
    let [p50, p95, p99, p999] = series.worst_thread();
    assert!(near(p50, 40) && near(p95, 40) && near(p99, 40) && near(p999, 400));
    assert_eq!(merged.of(Kind::Get).worst_thread(), [0; 4], "nobody did any");
}
