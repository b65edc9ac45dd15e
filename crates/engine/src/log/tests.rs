//! Questions that the log is asked while it moves on.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use tidesdb_sys::vfs::SimVfs;

use super::*;

/// How long a thread is given to come to the lock that the test holds. If it takes longer the test
/// finds nothing, but fails no right engine.
const GRACE: Duration = Duration::from_millis(200);

fn log() -> Log {
    let config = LogConfig {
        vfs: SimVfs::new(1),
        dir: PathBuf::from("/"),
        segment_bytes: 64 << 10,
        numbers: Arc::new(FileNumbers::starting_at(1)),
    };
    Log::start(config, 0, 0, Vec::new()).unwrap()
}

/// The end of the log was read before the list of segments: after two changes of the segment and a
/// flush in between, the oldest segment began behind that end, and the difference was below zero.
#[test]
fn retained_bytes_are_right_when_the_log_moves_on_while_they_are_counted() {
    let log = log();
    let commit = || log.commit(&[7; 100], ANY_KEY, |_, _| Ok(()), |_| {}).unwrap();
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
            log.switch(&mut files, 0).unwrap();
            drop(closed);
        }
        let position = commit();
        files.retire_before(flushed - 1);
        drop(files);
        let retained = counting.join().unwrap();
        assert!(retained > 0 && retained < position, "{retained} of {position}");
    });
}
