//! A process that is stopped, as a laptop that sleeps, for longer than `stall_timeout_ms`: nothing
//! can be expected of background work meanwhile, so no caller that waits for it gets an error that
//! it stalls.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "test helpers fail by panicking")]

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tidesdb::{Db, DbOptions, FamilyOptions};

/// Set for the child, to its directory.
const CHILD: &str = "TIDESDB_TEST_STOPPED_CHILD";

const STALL_TIMEOUT_MS: u64 = 1500;

/// How long the child is stopped, each time.
const STOPPED: Duration = Duration::from_millis(2 * STALL_TIMEOUT_MS);

fn signal(child: &Child, name: &str) {
    let status = Command::new("kill").args([name, &child.id().to_string()]).status().unwrap();
    assert!(status.success(), "kill {name}");
}

/// Writes more than can be flushed, so that there is always a writer that waits for a flush, until
/// standard input ends.
fn write_until_told(directory: &Path) {
    let options = DbOptions::default().stall_timeout_ms(STALL_TIMEOUT_MS);
    let db = Db::open(directory.join("db"), options).unwrap();
    let small = FamilyOptions::default().write_buffer_size(64 << 10).min_disk_space(0);
    let family = db.open_family("family", small).unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let (family, over) = (&family, &over);
            scope.spawn(move || {
                let mut n = thread;
                while !over.load(Ordering::Relaxed) {
                    n += 4;
                    family.put(&(n % 1000).to_be_bytes(), &[7; 1000]).unwrap();
                }
            });
        }
        std::fs::write(directory.join("ready"), "").unwrap();
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        over.store(true, Ordering::Relaxed);
    });
    let waited: u64 = db.stats().stalls.iter().map(|stall| stall.nanos).sum();
    assert!(waited > 0, "nobody waited");
}

#[test]
fn time_in_which_the_process_is_stopped_is_no_stall() {
    if let Some(directory) = std::env::var_os(CHILD) {
        return write_until_told(Path::new(&directory));
    }
    // In memory if it can be: a sync that takes as long as the time-out is a stall.
    let memory = Path::new("/dev/shm");
    let place = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
    let directory = tempfile::tempdir_in(place).unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["time_in_which_the_process_is_stopped_is_no_stall", "--exact", "--nocapture"])
        .env(CHILD, directory.path())
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let started = Instant::now();
    while !directory.path().join("ready").exists() {
        assert!(started.elapsed() < Duration::from_secs(120), "the child does not begin");
        std::thread::sleep(Duration::from_millis(10));
    }
    for _ in 0..2 {
        std::thread::sleep(Duration::from_millis(200));
        signal(&child, "-STOP");
        std::thread::sleep(STOPPED);
        signal(&child, "-CONT");
    }
    std::thread::sleep(Duration::from_millis(200));
    drop(child.stdin.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
