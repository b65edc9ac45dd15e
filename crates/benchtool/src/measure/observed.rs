//! What a child observes around its measured phase, for the reports: memory over time, sizes at
//! the end of the phase, processor time apart for workers and background, the kernel's limits.
//!
//! An [`Observer`] starts before the engine is opened and is called when the phase begins and ends.
//! All of it is plain data in the result ([`Observed`]); fields that an older result file does not
//! have read as empty.

use super::device::Traffic;
use super::disk;
use super::measured::Measured;
use super::process::{MemoryWatch, Sample};
use super::timeline::Timeline;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;
use std::time::Instant;

/// Reported observations of one job.
// More than a dozen fields: one for each number that is read from the process.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Observed {
    /// Resident bytes from before the engine was opened until it had settled.
    pub(crate) memory: Timeline,
    /// Bytes that the database took on the device, over the same time.
    pub(crate) space: Timeline,
    /// Seconds on that time line when the measured phase began.
    pub(crate) phase_start: f64,
    /// Seconds on that time line when the measured phase ended.
    pub(crate) phase_end: f64,
    /// Processor seconds of all threads during the measured phase alone.
    pub(crate) phase_cpu: f64,
    /// Processor seconds of the worker threads in the measured phase; the rest is background.
    pub(crate) worker_cpu: Option<f64>,
    /// Longest time without a completed call, in milliseconds.
    pub(crate) longest_gap_ms: f64,
    /// When it ended, in seconds from the start of the phase.
    pub(crate) longest_gap_at: f64,
    /// Bytes of all files when the phase ended, nothing flushed.
    pub(crate) size_phase_end: u64,
    /// Bytes of all files when memory was written out and merges may have been under way.
    pub(crate) size_flushed: Option<u64>,
    /// Bytes that the device under the database read and wrote for all processes, from the start of
    /// the phase until all was settled and synced.
    pub(crate) device: Option<Traffic>,
    /// Bytes of log files when settled.
    pub(crate) log_size_settled: u64,
    /// Bytes written to storage until the phase ended.
    pub(crate) written_phase: u64,
    /// Highest memory of the control group, page cache included, where the kernel reports it.
    pub(crate) group_peak: Option<u64>,
    /// Memory limit of the control group, where there is one.
    pub(crate) group_limit: Option<u64>,
}

/// One step of a latency histogram: calls that took at most this long, and longer than the last.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Step {
    /// Upper end in microseconds.
    pub(crate) us: f64,
    /// Timed calls in the step.
    pub(crate) count: u64,
}

/// A latency histogram of nanoseconds in about a hundred steps, finer towards the tail.
pub(crate) fn steps(histogram: &Histogram<u64>) -> Vec<Step> {
    histogram
        .iter_quantiles(4)
        .filter(|step| step.count_since_last_iteration() > 0)
        .map(|step| Step {
            us: step.value_iterated_to() as f64 / 1_000.0,
            count: step.count_since_last_iteration(),
        })
        .collect()
}

/// Collects the observations of one job.
#[derive(Debug)]
pub(crate) struct Observer {
    watch: MemoryWatch,
    start: Instant,
    before: Sample,
    observed: Observed,
}

impl Observer {
    /// Starts observing; call before the engine is opened.
    pub(crate) fn start(directory: &Path) -> Self {
        Self {
            watch: MemoryWatch::start(directory),
            start: Instant::now(),
            before: Sample::default(),
            observed: Observed::default(),
        }
    }

    /// The measured phase begins; `sample` was taken now.
    pub(crate) fn phase_begins(&mut self, sample: &Sample) {
        self.before = *sample;
        self.observed.phase_start = self.start.elapsed().as_secs_f64();
    }

    /// The measured phase has ended; `sample` was taken now.
    pub(crate) fn phase_ends(&mut self, sample: &Sample, measured: &Measured, directory: &Path) {
        let before = &self.before;
        let observed = &mut self.observed;
        observed.phase_end = self.start.elapsed().as_secs_f64();
        observed.phase_cpu =
            sample.cpu_user + sample.cpu_system - before.cpu_user - before.cpu_system;
        observed.worker_cpu = measured.cpu.map(|time| time.as_secs_f64());
        observed.longest_gap_ms = measured.longest_gap.as_secs_f64() * 1_000.0;
        let gap_at = measured.longest_gap_at.saturating_duration_since(measured.span.0);
        observed.longest_gap_at = gap_at.as_secs_f64();
        observed.size_phase_end = disk::size_of(directory).length;
        observed.written_phase = sample.written_bytes.saturating_sub(before.written_bytes);
    }

    /// The engine has written out what was in memory.
    pub(crate) fn flushed(&mut self, directory: &Path) {
        self.observed.size_flushed = Some(disk::size_of(directory).length);
    }

    /// What the device did.
    pub(crate) fn device(&mut self, traffic: Option<Traffic>) {
        self.observed.device = traffic;
    }

    /// Highest anonymous resident memory so far, in bytes.
    pub(crate) fn peak_anonymous(&self) -> u64 {
        self.watch.peak_anonymous()
    }

    /// The engine has settled: ends observing.
    pub(crate) fn settled(self, directory: &Path) -> Observed {
        let mut observed = self.observed;
        observed.memory = self.watch.resident();
        observed.space = self.watch.space();
        observed.log_size_settled = disk::log_size_of(directory);
        let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let read = |file: &str| fs::read_to_string(file).ok();
        (observed.group_peak, observed.group_limit) = group_memory(&groups, read);
        observed
    }
}

/// Folder of this process's control group (version 2) from the text of `/proc/self/cgroup`.
fn own_group(text: &str) -> String {
    let path = text.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or("/");
    format!("/sys/fs/cgroup{}", path.trim_end_matches('/'))
}

/// The same for the memory controller of version 1.
fn own_memory_group(text: &str) -> Option<String> {
    let path = text.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        controllers.split(',').any(|name| name == "memory").then_some(path)
    })?;
    Some(format!("/sys/fs/cgroup/memory{}", path.trim_end_matches('/')))
}

/// Version 1 writes "no limit" as a number that no machine has.
const NO_LIMIT: u64 = 1 << 60;

/// Highest memory and limit of the group that the text of `/proc/self/cgroup` names.
fn group_memory(groups: &str, read: impl Fn(&str) -> Option<String>) -> (Option<u64>, Option<u64>) {
    let number = |folder: &str, file: &str| -> Option<u64> {
        read(&format!("{folder}/{file}"))?.trim().parse().ok()
    };
    let newer = own_group(groups);
    if let Some(limit) = number(&newer, "memory.max") {
        return (number(&newer, "memory.peak"), Some(limit));
    }
    let limited = own_memory_group(groups).and_then(|folder| {
        let limit = number(&folder, "memory.limit_in_bytes").filter(|limit| *limit < NO_LIMIT)?;
        Some((number(&folder, "memory.max_usage_in_bytes"), Some(limit)))
    });
    // The peak of a group without a limit is that of all processes in it.
    limited.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histograms_keep_all_calls_and_their_order() {
        let mut histogram = Histogram::new_with_bounds(1, 1_000_000_000, 3).unwrap();
        histogram.record_n(1_000, 900).unwrap();
        histogram.record_n(50_000, 99).unwrap();
        histogram.record(7_000_000).unwrap();
        let steps = steps(&histogram);
        assert_eq!(steps.iter().map(|step| step.count).sum::<u64>(), 1_000);
        assert!(steps.windows(2).all(|pair| pair[0].us < pair[1].us), "{steps:?}");
        let fast: u64 = steps.iter().filter(|s| s.us < 1.01).map(|s| s.count).sum();
        assert_eq!(fast, 900);
        assert!((steps.last().unwrap().us / 7_000.0 - 1.0).abs() < 0.002);
    }

    #[test]
    fn the_control_group_is_found_in_its_file() {
        assert_eq!(own_group("0::/user.slice/a\n"), "/sys/fs/cgroup/user.slice/a");
        assert_eq!(own_group("1:cpu:/x\n0::/\n"), "/sys/fs/cgroup");
        assert_eq!(own_group(""), "/sys/fs/cgroup");
    }

    #[test]
    fn limits_of_both_versions_are_found() {
        let groups = "4:memory:/a/b\n1:cpu:/\n0::/\n";
        let of = |files: &'static [(&str, &str)]| {
            group_memory(groups, |file| {
                let found = files.iter().find(|(name, _)| *name == file);
                found.map(|(_, text)| (*text).to_owned())
            })
        };
        let first = of(&[
            ("/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "4096\n"),
            ("/sys/fs/cgroup/memory/a/b/memory.max_usage_in_bytes", "2048\n"),
        ]);
        assert_eq!(first, (Some(2048), Some(4096)));
        let unlimited = of(&[
            ("/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n"),
            ("/sys/fs/cgroup/memory/a/b/memory.max_usage_in_bytes", "2048\n"),
        ]);
        assert_eq!(unlimited, (None, None));
        let second =
            of(&[("/sys/fs/cgroup/memory.max", "8192\n"), ("/sys/fs/cgroup/memory.peak", "77\n")]);
        assert_eq!(second, (Some(77), Some(8192)));
        assert_eq!(of(&[("/sys/fs/cgroup/memory.max", "max\n")]), (None, None));
    }

    #[test]
    fn old_results_read_as_empty() {
        let observed: Observed = serde_json::from_str("{}").unwrap();
        assert_eq!(observed, Observed::default());
    }
}
