//! Numbers of the operating system. Each is absent where the system does not report it.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Bytes of the blocks that file systems count in.
const BLOCK_BYTES: u64 = 512;

/// A file system.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Volume {
    /// Its kind, such as `ext4`.
    pub(crate) kind: Option<String>,
    /// Bytes that may be written.
    pub(crate) free_bytes: Option<u64>,
    /// Its size.
    pub(crate) bytes: Option<u64>,
}

impl Volume {
    /// The one that a directory lies on.
    pub(crate) fn of(directory: &Path) -> Self {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let usage = rustix::fs::statvfs(directory).ok();
        Self {
            kind: kind_of(&mounts, directory),
            free_bytes: usage.as_ref().map(|usage| usage.f_bavail.saturating_mul(usage.f_frsize)),
            bytes: usage.as_ref().map(|usage| usage.f_blocks.saturating_mul(usage.f_frsize)),
        }
    }
}

/// The kind of the file system in which a path lies: that of the longest mount point above it, of
/// two with one mount point the later.
fn kind_of(mounts: &str, path: &Path) -> Option<String> {
    let mut best: Option<(usize, &str)> = None;
    for line in mounts.lines() {
        let mut fields = line.split(' ');
        let (Some(_), Some(point), Some(kind)) = (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let point = point.replace("\\040", " ");
        if path.starts_with(&point) && best.is_none_or(|(length, _)| point.len() >= length) {
            best = Some((point.len(), kind));
        }
    }
    best.map(|(_, kind)| kind.to_owned())
}

/// Names of the files in a directory, and the bytes that each takes on the disk.
pub(crate) fn files(directory: &Path) -> Vec<(String, u64)> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let entries = entries.flatten().filter_map(|entry| {
        let data = entry.metadata().ok().filter(fs::Metadata::is_file)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        Some((name, data.blocks() * BLOCK_BYTES))
    });
    entries.collect()
}

/// Descriptors that this process has open, and may have.
pub(crate) fn descriptors() -> Option<(u64, u64)> {
    let open = fs::read_dir("/proc/self/fd").ok()?.count() as u64;
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    let most = line.split_whitespace().next()?.parse().unwrap_or(u64::MAX);
    // One of them is that of the listing.
    Some((open.saturating_sub(1), most))
}

/// Memory of this process that is resident, in bytes.
pub(crate) fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kibibytes << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_mount_point_counts() {
        let mounts = "overlay / overlay rw 0 0\n/dev/a /data ext4 rw 0 0\n\
                      tmpfs /data/tmp\\040x tmpfs rw 0 0\n/dev/b /data xfs rw 0 0\n";
        for (path, kind) in [
            ("/var", "overlay"),
            ("/data/db", "xfs"),
            ("/database", "overlay"),
            ("/data/tmp x/db", "tmpfs"),
        ] {
            assert_eq!(kind_of(mounts, Path::new(path)).as_deref(), Some(kind), "{path}");
        }
        assert_eq!(kind_of("", Path::new("/x")), None);
    }
}
