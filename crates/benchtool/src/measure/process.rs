//! The process as the kernel sees it: memory, processor time, bytes written to storage.
//!
//! Everything is read from `/proc/self`, so one engine per process is what makes the numbers that
//! engine's own. A [`MemoryWatch`] samples the resident memory over time, the anonymous part of it,
//! which the kernel keeps no high-water mark for, and the space on the disk.

use super::disk;
use super::timeline::Timeline;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

/// Clock ticks per second in `/proc/self/stat`; fixed in the interface to programs.
const TICKS_PER_SECOND: f64 = 100.0;

/// One look at the process.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Sample {
    /// Highest resident set so far, in bytes.
    pub(crate) peak_rss: u64,
    /// Highest virtual size so far, in bytes.
    pub(crate) peak_virtual: u64,
    /// Anonymous resident bytes now.
    pub(crate) rss_anonymous: u64,
    /// Resident bytes of mapped files now.
    pub(crate) rss_file: u64,
    /// Processor seconds in user mode.
    pub(crate) cpu_user: f64,
    /// Processor seconds in the kernel.
    pub(crate) cpu_system: f64,
    /// Bytes read from storage.
    pub(crate) read_bytes: u64,
    /// Bytes of pages made dirty, that is, sent or bound to be sent to storage.
    pub(crate) written_bytes: u64,
}

fn kibibytes(status: &str, label: &str) -> u64 {
    labelled(status, label).unwrap_or(0) * 1024
}

fn labelled(text: &str, label: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with(label))?;
    line.get(label.len()..)?.split_whitespace().next()?.parse().ok()
}

impl Sample {
    /// Looks at this process now.
    pub(crate) fn now() -> Self {
        let read = |name: &str| fs::read_to_string(name).unwrap_or_default();
        Self::parse(&read("/proc/self/status"), &read("/proc/self/stat"), &read("/proc/self/io"))
    }

    fn parse(status: &str, stat: &str, io: &str) -> Self {
        // The second field of `stat` is the name in parentheses and may contain anything.
        let fields: Vec<&str> =
            stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let ticks = |index: usize| {
            fields.get(index).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0)
        };
        Self {
            peak_rss: kibibytes(status, "VmHWM:"),
            peak_virtual: kibibytes(status, "VmPeak:"),
            rss_anonymous: kibibytes(status, "RssAnon:"),
            rss_file: kibibytes(status, "RssFile:"),
            cpu_user: ticks(11) / TICKS_PER_SECOND,
            cpu_system: ticks(12) / TICKS_PER_SECOND,
            read_bytes: labelled(io, "read_bytes:").unwrap_or(0),
            written_bytes: labelled(io, "write_bytes:").unwrap_or(0),
        }
    }
}

/// Processor time of the calling thread so far, where the kernel reports it.
pub(crate) fn thread_cpu() -> Option<Duration> {
    let text = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

/// Period of the samples of memory.
const WATCH_PERIOD: Duration = Duration::from_millis(20);
/// One sample of memory in so many goes with one of the space on the disk.
const WATCHES_PER_SPACE: u64 = 50;

#[derive(Debug)]
struct Watched {
    directory: PathBuf,
    peak_anonymous: AtomicU64,
    resident: Mutex<Timeline>,
    space: Mutex<Timeline>,
    stop: Mutex<bool>,
    wake: Condvar,
}

/// Samples the resident memory every 20 ms, and the space on the disk every second, until it is
/// stopped.
#[derive(Debug)]
pub(crate) struct MemoryWatch {
    watched: Arc<Watched>,
    thread: Option<JoinHandle<()>>,
}

impl MemoryWatch {
    /// Starts the sampling thread, for a database in `directory`.
    pub(crate) fn start(directory: &Path) -> Self {
        let period = WATCH_PERIOD.as_secs_f64();
        let watched = Arc::new(Watched {
            directory: directory.to_path_buf(),
            peak_anonymous: AtomicU64::new(0),
            resident: Mutex::new(Timeline::new(period)),
            space: Mutex::new(Timeline::new(period * WATCHES_PER_SPACE as f64)),
            stop: Mutex::new(false),
            wake: Condvar::new(),
        });
        let shared = Arc::clone(&watched);
        let thread = std::thread::Builder::new()
            .name("memory-watch".to_owned())
            .spawn(move || sample_until_stopped(&shared));
        Self { watched, thread: thread.ok() }
    }

    /// Highest anonymous resident memory seen, in bytes.
    pub(crate) fn peak_anonymous(&self) -> u64 {
        self.watched.peak_anonymous.load(Ordering::Relaxed)
    }

    /// Resident memory over time so far, in bytes.
    pub(crate) fn resident(&self) -> Timeline {
        self.watched.resident.lock().map(|timeline| timeline.clone()).unwrap_or_default()
    }

    /// Bytes that the database took on the device over time so far.
    pub(crate) fn space(&self) -> Timeline {
        self.watched.space.lock().map(|timeline| timeline.clone()).unwrap_or_default()
    }
}

fn sample_until_stopped(watched: &Watched) {
    let Ok(mut stop) = watched.stop.lock() else { return };
    let mut samples = 0_u64;
    while !*stop {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        watched.peak_anonymous.fetch_max(kibibytes(&status, "RssAnon:"), Ordering::Relaxed);
        if let Ok(mut resident) = watched.resident.lock() {
            resident.push(kibibytes(&status, "VmRSS:"));
        }
        if samples.is_multiple_of(WATCHES_PER_SPACE)
            && let Ok(mut space) = watched.space.lock()
        {
            space.push(disk::size_of(&watched.directory).allocated);
        }
        samples += 1;
        match watched.wake.wait_timeout(stop, WATCH_PERIOD) {
            Ok((guard, _)) => stop = guard,
            Err(_) => return,
        }
    }
}

impl Drop for MemoryWatch {
    fn drop(&mut self) {
        if let Ok(mut stop) = self.watched.stop.lock() {
            *stop = true;
        }
        self.watched.wake.notify_all();
        if let Some(thread) = self.thread.take() {
            // The thread only samples; a panic in it leaves a lower peak and nothing else.
            drop(thread.join());
        }
    }
}

/// Calls a function once per period in a background thread, until dropped.
#[derive(Debug)]
pub(crate) struct Ticker {
    stop: Arc<AtomicBool>,
    thread: Thread,
}

impl Ticker {
    /// Runs `tick` every `period` inside `scope`, until the ticker is dropped.
    pub(crate) fn start<'scope, F>(
        scope: &'scope std::thread::Scope<'scope, '_>,
        period: Duration,
        tick: F,
    ) -> Self
    where
        F: Fn() + Send + 'scope,
    {
        let stop = Arc::new(AtomicBool::new(false));
        let shared = Arc::clone(&stop);
        let spawned = scope.spawn(move || {
            let mut due = Instant::now() + period;
            // ORDERING: the flag carries no data; the thread that sets it wakes this thread
            // afterwards.
            while !shared.load(Ordering::Relaxed) {
                let now = Instant::now();
                if now < due {
                    std::thread::park_timeout(due - now);
                } else {
                    tick();
                    due = Instant::now() + period;
                }
            }
        });
        Self { stop, thread: spawned.thread().clone() }
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        // ORDERING: the flag carries no data.
        self.stop.store(true, Ordering::Relaxed);
        // Its scope waits for the thread, which must not sleep through a long period first.
        self.thread.unpark();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_texts_are_read() {
        let status = "Name:\tx\nVmPeak:\t 2048 kB\nVmHWM:\t  512 kB\nRssAnon:\t 100 kB\n\
            RssFile:\t  28 kB\n";
        let stat = "12 (a) b) S 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20";
        let io = "rchar: 9\nread_bytes: 4096\nwrite_bytes: 8192\ncancelled_write_bytes: 1\n";
        let sample = Sample::parse(status, stat, io);
        assert_eq!(sample.peak_rss, 512 << 10);
        assert_eq!(sample.peak_virtual, 2 << 20);
        assert_eq!(sample.rss_anonymous, 100 << 10);
        assert_eq!(sample.rss_file, 28 << 10);
        assert_eq!((sample.cpu_user, sample.cpu_system), (2.5, 0.5));
        assert_eq!((sample.read_bytes, sample.written_bytes), (4096, 8192));
    }

    #[test]
    fn this_process_is_seen() {
        let held = vec![1_u8; 64 << 20];
        let sample = Sample::now();
        assert!(sample.peak_rss > 64 << 20, "{sample:?}");
        assert!(sample.rss_anonymous > 64 << 20, "{sample:?}");
        drop(held);
    }

    #[test]
    fn a_busy_thread_uses_processor_time() {
        let before = thread_cpu().unwrap();
        let mut sum = 0_u64;
        while thread_cpu().unwrap() < before + Duration::from_millis(20) {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert!(sum > 0);
    }

    #[test]
    fn a_ticker_ticks_and_ends_at_once() {
        let ticks = AtomicU64::new(0);
        std::thread::scope(|scope| {
            let _ticker = Ticker::start(scope, Duration::from_millis(1), || {
                ticks.fetch_add(1, Ordering::Relaxed);
            });
            while ticks.load(Ordering::Relaxed) < 3 {
                std::thread::yield_now();
            }
        });
        // An hour's period does not delay the end; if it did, so would this test.
        std::thread::scope(|scope| {
            drop(Ticker::start(scope, Duration::from_secs(3_600), || {}));
        });
    }

    #[test]
    fn the_watch_sees_memory_and_space_over_time() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("file"), vec![1; 100_000]).unwrap();
        fs::File::open(directory.path().join("file")).unwrap().sync_all().unwrap();
        let watch = MemoryWatch::start(directory.path());
        while watch.resident().values.len() < 3 {
            std::thread::yield_now();
        }
        assert!(watch.resident().values.iter().all(|bytes| *bytes > 1 << 20));
        let space = watch.space();
        assert!(space.values.first().is_some_and(|bytes| *bytes >= 100_000), "{space:?}");
    }
}
