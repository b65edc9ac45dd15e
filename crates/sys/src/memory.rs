//! How much memory this process may use.
//!
//! The default memory budget comes from the smallest of three numbers: the machine's physical
//! memory and the limits of the control groups (version 1 or 2) that contain the process, so
//! that a database inside a container does not size itself for the host. Read once at open; the
//! files parsed here are kernel interfaces, yet a malformed one only makes its limit unknown.

use std::io::Read;
use std::path::{Path, PathBuf};

use crate::descriptors::open_for_reading;
use crate::os_calls;

/// Memory available to this process in bytes: the least of the machine's memory and every enclosing
/// control group's limit. `None` when the platform reports none.
#[must_use]
pub fn available_bytes() -> Option<u64> {
    let host = os_calls::physical_memory_bytes();
    let group = control_group_limit(Path::new("/proc/self/cgroup"), Path::new("/sys/fs/cgroup"));
    smaller(host, group)
}

fn smaller(first: Option<u64>, second: Option<u64>) -> Option<u64> {
    match (first, second) {
        (Some(first), Some(second)) => Some(first.min(second)),
        (first, second) => first.or(second),
    }
}

/// The least limit among the groups listed in `membership`, under the hierarchy at `mount`.
fn control_group_limit(membership: &Path, mount: &Path) -> Option<u64> {
    let text = read_small(membership)?;
    let mut least = None;
    for line in text.lines() {
        // hierarchy-id:controllers:path
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(group)) =
            (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let (root, file) = if controllers.is_empty() {
            (mount.to_path_buf(), "memory.max")
        } else if controllers.split(',').any(|name| name == "memory") {
            (mount.join("memory"), "memory.limit_in_bytes")
        } else {
            continue;
        };
        least = smaller(least, least_limit_upwards(&root, group, file));
    }
    least
}

/// A group obeys the limits of all groups around it: takes the least from `group` to the root.
/// Inside a container the listed path may not exist under the mount; the root then still has the
/// container's own limit.
fn least_limit_upwards(root: &Path, group: &str, file: &str) -> Option<u64> {
    let relative = PathBuf::from(group.trim_start_matches('/'));
    let mut least = None;
    for ancestor in relative.ancestors() {
        let limit = read_small(&root.join(ancestor).join(file));
        least = smaller(least, limit.as_deref().and_then(parse_limit));
    }
    least
}

/// "max" and the version 1 "unlimited" number (near 2^63) mean no limit.
fn parse_limit(text: &str) -> Option<u64> {
    let limit: u64 = text.trim().parse().ok()?;
    (limit < 1 << 60).then_some(limit)
}

fn read_small(path: &Path) -> Option<String> {
    const BOUND: u64 = 64 << 10;
    let mut text = String::new();
    open_for_reading(path).ok()?.take(BOUND).read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn write(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn least_limit_of_all_enclosing_version_2_groups_wins() {
        let dir = tempfile::tempdir().unwrap();
        let mount = dir.path().join("mount");
        write(&dir.path().join("cgroup"), "0::/outer/inner\n");
        write(&mount.join("outer/inner/memory.max"), "max\n");
        write(&mount.join("outer/memory.max"), "1048576\n");
        assert_eq!(control_group_limit(&dir.path().join("cgroup"), &mount), Some(1 << 20));
        write(&mount.join("memory.max"), "4096\n");
        assert_eq!(control_group_limit(&dir.path().join("cgroup"), &mount), Some(4096));
    }

    #[test]
    fn version_1_uses_the_memory_controller_and_knows_its_unlimited() {
        let dir = tempfile::tempdir().unwrap();
        let mount = dir.path().join("mount");
        let membership = dir.path().join("cgroup");
        write(&membership, "5:cpu,cpuacct:/job\n4:memory:/job\n");
        write(&mount.join("memory/memory.limit_in_bytes"), "9223372036854771712\n");
        assert_eq!(control_group_limit(&membership, &mount), None);
        write(&mount.join("memory/job/memory.limit_in_bytes"), "2097152\n");
        assert_eq!(control_group_limit(&membership, &mount), Some(2 << 20));
    }

    #[test]
    fn garbage_means_unknown() {
        let dir = tempfile::tempdir().unwrap();
        write(&dir.path().join("cgroup"), "nonsense\n0::\n::::\n");
        write(&dir.path().join("memory.max"), "-7 apples");
        assert_eq!(control_group_limit(&dir.path().join("cgroup"), dir.path()), None);
        assert_eq!(control_group_limit(&dir.path().join("absent"), dir.path()), None);
    }

    #[test]
    fn this_machine_has_some_memory() {
        assert!(available_bytes().is_none_or(|bytes| bytes > 16 << 20));
    }
}
