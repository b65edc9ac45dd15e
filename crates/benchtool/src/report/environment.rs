//! The environment block: the machine on which a set was measured.
//!
//! Read from the kernel when the run ends. What cannot be read is empty and shown as "not known".
//! Two sets may be compared as versions only if [`Environment::host_id`] is equal.

use super::checksums;
use serde::{Deserialize, Serialize};
use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

/// The machine, the build and the time.
// More than a dozen fields: one for each fact that a report has of the machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Environment {
    /// Version of the tool.
    pub(crate) tool: String,
    /// `release` or `debug`; a debug build is marked in every report.
    pub(crate) build: String,
    /// When the set was finished, in seconds since 1970.
    pub(crate) finished_unix: u64,
    /// A hash that tells machines apart without naming them.
    pub(crate) host_id: String,
    /// Name of the processor.
    pub(crate) cpu: String,
    /// Processors that this program may use.
    pub(crate) cores: usize,
    /// Frequency governor.
    pub(crate) governor: String,
    /// Main memory.
    pub(crate) memory: String,
    /// Memory limit of the control group.
    pub(crate) memory_limit: String,
    /// Kernel release.
    pub(crate) kernel: String,
    /// Distribution.
    pub(crate) system: String,
    /// Type and options of the file system under the working directory.
    pub(crate) file_system: String,
    /// Block device below it, its kind and its write cache.
    pub(crate) device: String,
    /// Load average of the last minute when the set was finished.
    pub(crate) load_average: String,
    /// Allocator of this program.
    pub(crate) allocator: String,
    /// The commit that was measured, where its caller says so (`benchtool report --commit`).
    pub(crate) commit: String,
}

/// Shown where a value could not be read.
pub(crate) const NOT_KNOWN: &str = "not known";

fn read(name: &str) -> String {
    fs::read_to_string(name).unwrap_or_default().trim().to_owned()
}

fn value_of(text: &str, label: &str, separator: char) -> String {
    let line = text.lines().find(|line| line.starts_with(label));
    let value = line.and_then(|line| line.split_once(separator)).map(|(_, value)| value);
    value.unwrap_or_default().trim().trim_matches('"').to_owned()
}

impl Environment {
    /// This machine, now.
    pub(crate) fn here() -> Self {
        let cpu = value_of(&read("/proc/cpuinfo"), "model name", ':');
        let cores = std::thread::available_parallelism().map_or(0, usize::from);
        let memory = value_of(&read("/proc/meminfo"), "MemTotal", ':');
        let mount = working_mount();
        let (device, file_system) = mount.unwrap_or_default();
        let machine = format!("{}{cpu}{cores}{memory}", read("/etc/machine-id"));
        let finished = SystemTime::now().duration_since(UNIX_EPOCH);
        Self {
            tool: env!("CARGO_PKG_VERSION").to_owned(),
            build: if cfg!(debug_assertions) { "debug" } else { "release" }.to_owned(),
            finished_unix: finished.map_or(0, |time| time.as_secs()),
            host_id: checksums::of_bytes(machine.as_bytes()).chars().take(12).collect(),
            cpu,
            cores,
            governor: read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            memory,
            memory_limit: read("/sys/fs/cgroup/memory.max"),
            kernel: read("/proc/sys/kernel/osrelease"),
            system: value_of(&read("/etc/os-release"), "PRETTY_NAME", '='),
            file_system,
            device: describe_device(&device),
            load_average: read("/proc/loadavg").split(' ').next().unwrap_or_default().to_owned(),
            allocator: crate::ALLOCATED_BY.to_owned(),
            commit: String::new(),
        }
    }

    /// Whether others used the processors, by the load average; the sentence that says so.
    pub(crate) fn shared(&self) -> Option<String> {
        let load: f64 = self.load_average.parse().unwrap_or(0.0);
        (load > self.cores as f64).then(|| {
            format!(
                "The machine was shared: load average {load} on {} processors at the end.",
                self.cores
            )
        })
    }

    /// Labels and values for people; empty values are "not known".
    pub(crate) fn rows(&self) -> Vec<(&'static str, String)> {
        let rows = [
            ("Commit", self.commit.clone()),
            ("Tool", format!("benchtool {} ({} build)", self.tool, self.build)),
            ("Finished", date_of(self.finished_unix)),
            ("Host id", self.host_id.clone()),
            ("Processor", self.cpu.clone()),
            ("Processors used", self.cores.to_string()),
            ("Governor", self.governor.clone()),
            ("Memory", in_gibibytes(&self.memory)),
            ("Memory limit", in_gibibytes(&self.memory_limit)),
            ("Kernel", self.kernel.clone()),
            ("System", self.system.clone()),
            ("File system", self.file_system.clone()),
            ("Device", self.device.clone()),
            ("Load average", self.load_average.clone()),
            ("Allocator", self.allocator.clone()),
        ];
        let known = |value: String| if value.is_empty() { NOT_KNOWN.to_owned() } else { value };
        rows.into_iter().map(|(label, value)| (label, known(value))).collect()
    }
}

/// A size of the kernel's, in bytes or `kB`, for people; other texts stay as they are.
fn in_gibibytes(text: &str) -> String {
    let (digits, unit) = match text.strip_suffix(" kB") {
        Some(digits) => (digits, 1_024.0),
        None => (text, 1.0),
    };
    match digits.parse::<f64>() {
        Ok(number) => format!("{:.1} GiB", number * unit / f64::from(1_u32 << 30)),
        Err(_) => text.to_owned(),
    }
}

/// Source device and "type (options)" of the mount that holds the working directory.
fn working_mount() -> Option<(String, String)> {
    let directory = std::env::current_dir().ok()?;
    mount_of(&read("/proc/self/mounts"), &directory.to_string_lossy())
}

fn mount_of(mounts: &str, directory: &str) -> Option<(String, String)> {
    let below = |point: &str| {
        point == "/"
            || directory
                .strip_prefix(point)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let holding = fields.filter(|fields| fields.len() > 3 && below(fields[1]));
    let nearest = holding.max_by_key(|fields| fields[1].len())?;
    Some((nearest[0].to_owned(), format!("{} ({})", nearest[2], nearest[3])))
}

/// Kind and write cache of a block device, by the name of its file.
fn describe_device(source: &str) -> String {
    let Some(name) = source.strip_prefix("/dev/") else { return String::new() };
    let whole = name.trim_end_matches(|letter: char| letter.is_ascii_digit());
    let whole = whole.strip_suffix('p').filter(|_| name.contains("nvme")).unwrap_or(whole);
    let queue = format!("/sys/block/{whole}/queue");
    let kind = match read(&format!("{queue}/rotational")).as_str() {
        "0" => "not rotating",
        "1" => "rotating, or unknown to the guest",
        _ => "kind not known",
    };
    let cache = read(&format!("{queue}/write_cache"));
    let cache = if cache.is_empty() { "write cache not known".to_owned() } else { cache };
    format!("{name}: {kind}, {cache}")
}

/// A date and time in UTC, as ISO 8601 defines.
pub(crate) fn date_of(unix: u64) -> String {
    if unix == 0 {
        return String::new();
    }
    let (days, seconds) = ((unix / 86_400) as i64, unix % 86_400);
    // Days are counted from 1 March of year 0, so that leap days end their year.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_index = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_index + 2) / 5 + 1;
    let month = if month_index < 10 { month_index + 3 } else { month_index - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hour, minute) = (seconds / 3_600, seconds / 60 % 60);
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02} UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_known_seconds() {
        assert_eq!(date_of(951_782_400), "2000-02-29 00:00 UTC");
        assert_eq!(date_of(1_735_689_599), "2024-12-31 23:59 UTC");
        assert_eq!(date_of(1), "1970-01-01 00:00 UTC");
        assert_eq!(date_of(0), "");
    }

    #[test]
    fn sizes_are_readable() {
        assert_eq!(in_gibibytes("25165824 kB"), "24.0 GiB");
        assert_eq!(in_gibibytes("536870912"), "0.5 GiB");
        assert_eq!(in_gibibytes("max"), "max");
        assert_eq!(in_gibibytes(""), "");
    }

    #[test]
    fn the_nearest_mount_is_chosen() {
        let mounts = "overlay / overlay rw 0 0\n/dev/sdb1 /data ext4 rw,noatime 0 0\n\
            tmpfs /database tmpfs rw 0 0\n";
        let (device, system) = mount_of(mounts, "/data/bench").unwrap();
        assert_eq!((device.as_str(), system.as_str()), ("/dev/sdb1", "ext4 (rw,noatime)"));
        assert_eq!(mount_of(mounts, "/database").unwrap().1, "tmpfs (rw)");
        assert_eq!(mount_of(mounts, "/home").unwrap().0, "overlay");
        assert_eq!(mount_of("", "/home"), None);
    }

    #[test]
    fn this_machine_has_an_identity() {
        let here = Environment::here();
        assert_eq!(here.host_id.len(), 12);
        assert_eq!(here.host_id, Environment::here().host_id);
        assert!(here.cores > 0 && here.finished_unix > 1_700_000_000);
        assert!(here.rows().iter().all(|(_, value)| !value.is_empty()));
    }
}
