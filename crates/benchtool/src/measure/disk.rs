//! Directories of databases: size, copy, removal.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Size of a database directory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Size {
    /// Sum of the file lengths.
    pub(crate) length: u64,
    /// Bytes allocated on the device.
    pub(crate) allocated: u64,
}

/// Adds up all files below a directory; a file that vanishes meanwhile counts nothing.
pub(crate) fn size_of(directory: &Path) -> Size {
    let mut size = Size::default();
    let Ok(entries) = fs::read_dir(directory) else { return size };
    for entry in entries.flatten() {
        let Ok(metadata) = entry.metadata() else { continue };
        if metadata.is_dir() {
            let inner = size_of(&entry.path());
            size.length += inner.length;
            size.allocated += inner.allocated;
        } else {
            size.length += metadata.len();
            size.allocated += metadata.blocks() * 512;
        }
    }
    size
}

/// Whether a file name is one of a write-ahead log: `wal-000001.log`, `000001.log` (RocksDB),
/// `0.jnl` (fjall). RocksDB's diary `LOG` is not.
fn is_log(name: &str) -> bool {
    let stem = |ending: &str| name.strip_suffix(ending);
    let numbered = |stem: &str| stem.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    let log = stem(".log").map(|stem| stem.strip_prefix("wal").unwrap_or(stem));
    log.is_some_and(numbered) || stem(".jnl").is_some() || stem(".wal").is_some()
}

/// Adds up the lengths of the write-ahead logs below a directory, preallocated space included, as
/// [`Size::length`] counts it too.
pub(crate) fn log_size_of(directory: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(directory) else { return 0 };
    let size = |entry: fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => log_size_of(&entry.path()),
        Ok(metadata) if is_log(&entry.file_name().to_string_lossy()) => metadata.len(),
        _ => 0,
    };
    entries.flatten().map(size).sum()
}

/// Copies a directory tree, and has it written out: a page that is still dirty from the copy is not
/// counted when an engine writes it, and would be written out at some time in the engine's phase.
pub(crate) fn copy_tree(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_tree(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), &target)?;
            fs::File::open(&target)?.sync_data()?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_are_told_from_data() {
        for name in ["wal-000009.log", "000017.log", "0.jnl", "000001.wal"] {
            assert!(is_log(name), "{name}");
        }
        for name in ["LOG", "000017.sst", "000007.klog", "000008.vlog", "data.mdb", "x.log"] {
            assert!(!is_log(name), "{name}");
        }
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("inner")).unwrap();
        fs::write(directory.path().join("inner/000001.log"), vec![1; 8192]).unwrap();
        fs::write(directory.path().join("000002.sst"), vec![1; 50_000]).unwrap();
        assert_eq!(log_size_of(directory.path()), 8192);
    }

    /// Bytes that this thread has made dirty, by the kernel's count; `None` where it does not say.
    fn written_by_this_thread() -> Option<u64> {
        let text = fs::read_to_string("/proc/thread-self/io").ok()?;
        text.lines().find_map(|line| line.strip_prefix("write_bytes: ")?.parse().ok())
    }

    #[test]
    fn what_is_written_into_a_copy_counts() {
        let count = |work: &dyn Fn()| {
            let before = written_by_this_thread()?;
            work();
            Some(written_by_this_thread()? - before)
        };
        let directory = tempfile::tempdir().unwrap();
        let from = directory.path().join("from");
        fs::create_dir_all(&from).unwrap();
        let bytes = vec![1; 1 << 20];
        // Some file systems, those in memory above all, count nothing.
        if count(&|| fs::write(from.join("a"), &bytes).unwrap()).is_none_or(|count| count == 0) {
            return;
        }
        let to = directory.path().join("to");
        copy_tree(&from, &to).unwrap();
        let overwrite = || {
            use std::io::Write;
            let file = fs::OpenOptions::new().write(true).open(to.join("a"));
            file.unwrap().write_all(&bytes).unwrap();
        };
        assert!(count(&overwrite).unwrap() >= 1 << 20, "pages of the copy were dirty already");
    }

    #[test]
    fn sizes_and_copies_include_folders() {
        let directory = tempfile::tempdir().unwrap();
        let from = directory.path().join("from");
        fs::create_dir_all(from.join("inner")).unwrap();
        fs::write(from.join("a"), vec![1; 10_000]).unwrap();
        fs::write(from.join("inner/b"), vec![1; 5]).unwrap();
        assert_eq!(size_of(&from).length, 10_005);
        assert!(size_of(&from).allocated >= 10_005);
        let to = directory.path().join("to");
        copy_tree(&from, &to).unwrap();
        assert_eq!(size_of(&to).length, 10_005);
        assert_eq!(fs::read(to.join("inner/b")).unwrap(), [1; 5]);
    }
}
