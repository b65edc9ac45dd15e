//! Questions that the log is asked while it moves on.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use tidesdb_lockfree::sync::lock;
use tidesdb_sim::{ManualClock, SimVfs};
use tidesdb_sys::vfs::LogSegment;

use super::*;

/// How long a thread is given to come to the lock that the test holds. If it takes longer the test
/// finds nothing, but fails no right engine.
const GRACE: Duration = Duration::from_millis(200);

fn log() -> Log {
    let config = LogConfig {
        vfs: SimVfs::new(1),
        dir: PathBuf::from("/"),
        segment_bytes: 64 << 10,
        most_segment_bytes: u64::MAX,
        numbers: Arc::new(FileNumbers::starting_at(1)),
        clock: Arc::new(ManualClock::new(1)),
    };
    Log::start(config, 0, 0, Vec::new()).unwrap()
}

/// The end of the log was read before the list of segments: after two changes of the segment and a
/// flush in between, the oldest segment began behind that end, and the difference was below zero.
#[test]
fn retained_bytes_are_right_when_the_log_moves_on_while_they_are_counted() {
    let log = log();
    let commit = || log.commit(&[7; 100], ANY_KEY, |_, _| Ok(()), |_| Ok(())).unwrap();
    commit();
    thread::scope(|scope| {
        let mut files = lock(&log.files);
        let (ask, asked) = channel();
        let log = &log;
        let counting = scope.spawn(move || {
            ask.send(()).unwrap();
            log.retained_bytes()
        });
        asked.recv().unwrap();
        thread::sleep(GRACE);
        let mut flushed = 0;
        for _ in 0..2 {
            flushed = commit();
            let closed = log.gate.close();
            let next = log.begin_segment(&mut files, log.published(), 0).unwrap();
            log.switch(&mut files, next);
            drop(closed);
        }
        let position = commit();
        files.retire_before(&log.config, flushed - 1);
        drop(files);
        let retained = counting.join().unwrap();
        assert!(retained > 0 && retained < position, "{retained} of {position}");
    });
}

/// Counts how often its memory is given back.
#[derive(Debug, Default)]
struct Cooled(AtomicUsize);

impl LogSegment for Cooled {
    fn capacity(&self) -> u64 {
        64 << 10
    }

    fn write(&self, _at: u64, _bytes: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn sync(&self, _upto: u64) -> io::Result<()> {
        Ok(())
    }

    fn warm(&self, _from: u64, _to: u64) {}

    fn cool(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn zero_fill(&self) -> io::Result<()> {
        Ok(())
    }
}

/// A sync held a third segment in memory for as long as it took.
#[test]
fn the_memory_of_a_full_segment_goes_back_whoever_still_syncs_it() {
    let log = log();
    let fill = || {
        let segment = Arc::new(Cooled::default());
        let header = SegmentHeader { number: 7, base: 0, previous_end: 0, synced: 0 };
        let (limit, path) = (0, PathBuf::from("/wal"));
        log.active.store(Arc::new(ActiveSegment { header, limit, path, io: segment.clone() }));
        let mut files = lock(&log.files);
        let next = log.begin_segment(&mut files, log.published(), 0).unwrap();
        log.switch(&mut files, next);
        drop(files);
        segment
    };
    let cooled = |segment: &Cooled| segment.0.load(Ordering::Relaxed);
    let first = fill();
    assert_eq!(cooled(&first), 0, "left to whoever prepares the next one");
    log.prepare_next();
    assert_eq!(cooled(&first), 1);
    let (second, third) = (fill(), fill());
    assert_eq!((cooled(&second), cooled(&third)), (1, 0), "nobody prepared one in between");
    log.prepare_next();
    assert_eq!([&first, &second, &third].map(|segment| cooled(segment)), [1; 3]);
}
