//! What a run asks of the machine: memory limits, processors, free space, an empty page cache, a
//! folder of its own.
//!
//! A memory limit is a control group (version 2, or the memory controller of version 1) that the
//! orchestrator makes and each child joins before it does anything, so the page cache that it fills
//! counts too. Where the system does not let us, the run goes on without and every row says so.
//! Nothing here is on a measured path.

use crate::terminal::warn;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Places where control groups of version 2 are mounted, then the memory controller of version 1.
const GROUP_ROOTS: [(&str, &str); 3] = [
    ("/sys/fs/cgroup", "memory.max"),
    ("/sys/fs/cgroup/unified", "memory.max"),
    ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
];

/// A control group with a memory limit; removed when dropped.
#[derive(Debug)]
pub(crate) struct ControlGroup {
    directory: PathBuf,
}

impl ControlGroup {
    /// Makes a group whose processes together use at most `limit` bytes, page cache included; the
    /// number tells it from the others of this process.
    pub(crate) fn new(limit: u64, number: u64) -> Result<Self, String> {
        let roots = GROUP_ROOTS.map(|(root, file)| (PathBuf::from(root), file));
        Self::under(&roots, limit, number)
    }

    fn under(roots: &[(PathBuf, &str)], limit: u64, number: u64) -> Result<Self, String> {
        let mut problem = "no control groups are mounted".to_owned();
        for (root, file) in roots {
            if !root.join("cgroup.procs").exists() {
                continue;
            }
            let directory = root.join(format!("benchtool-{}-{number}", std::process::id()));
            if let Err(error) = fs::create_dir_all(&directory) {
                problem = format!("{}: {error}", directory.display());
                continue;
            }
            let group = Self { directory };
            match fs::write(group.directory.join(file), limit.to_string()) {
                Ok(()) => return Ok(group),
                Err(error) => {
                    problem = format!("{}: {error}", group.directory.join(file).display());
                }
            }
        }
        Err(problem)
    }

    /// What a child has to know.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir(&self.directory) {
            warn(format!("benchtool: {} is left behind: {error}", self.directory.display()));
        }
    }
}

/// Puts this process into a control group.
pub(crate) fn join(group: &Path) -> Result<(), String> {
    let file = group.join("cgroup.procs");
    fs::write(&file, std::process::id().to_string())
        .map_err(|error| format!("{}: {error}", file.display()))
}

/// Empties the page cache after making sure that the files of a database are on disk.
pub(crate) fn drop_page_cache(directory: &Path) -> Result<(), String> {
    sync_files(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    let switch = "/proc/sys/vm/drop_caches";
    fs::write(switch, "1").map_err(|error| format!("{switch}: {error}"))
}

/// Makes the system give up the pages of a database's files, so that the next reader gets them from
/// the device. Unlike [`drop_page_cache`] it needs no rights and leaves the files of others alone,
/// but pages that a process has mapped stay: to be called before the database is opened.
pub(crate) fn forget_files(directory: &Path) -> Result<(), String> {
    // Only what is written out can be given up.
    sync_files(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    forget_each(directory)
}

fn forget_each(directory: &Path) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", directory.display());
    for entry in fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_dir() {
            forget_each(&path)?;
            continue;
        }
        let mut file = OsString::from("if=");
        file.push(&path);
        // Copies nothing, but tells the system that the whole file will not be needed.
        let reported = Command::new("dd").arg(file).args(["iflag=nocache", "count=0"]).output();
        let reported = reported.map_err(|error| format!("needs the program dd: {error}"))?;
        if !reported.status.success() {
            return Err(String::from_utf8_lossy(&reported.stderr).trim().to_owned());
        }
    }
    Ok(())
}

fn sync_files(directory: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            sync_files(&path)?;
        } else {
            File::open(&path)?.sync_all()?;
        }
    }
    Ok(())
}

/// The command that starts `program`, on the given processors if any are given.
pub(crate) fn command(program: &Path, processors: Option<&str>) -> Command {
    match processors {
        None => Command::new(program),
        Some(list) => {
            let mut command = Command::new("taskset");
            command.args(["-c", list]).arg(program);
            command
        }
    }
}

/// Refuses a list of processors that cannot be used here, before anything is started.
pub(crate) fn check_processors(list: &str) -> Result<(), String> {
    let probe = command(Path::new("true"), Some(list)).output();
    match probe {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => {
            Err(format!("--cpus {list}: {}", String::from_utf8_lossy(&output.stderr).trim()))
        }
        Err(error) => Err(format!("--cpus needs the program taskset: {error}")),
    }
}

/// Free bytes of the file system that a folder (or its nearest existing parent) is on, if `df`
/// says.
pub(crate) fn free_space(folder: &Path) -> Option<u64> {
    let absolute = std::path::absolute(folder).ok()?;
    let existing = absolute.ancestors().find(|path| path.exists())?;
    let output = Command::new("df").args(["-P", "-k"]).arg(existing).output().ok()?;
    parse_free(&String::from_utf8_lossy(&output.stdout))
}

fn parse_free(text: &str) -> Option<u64> {
    let fields: Vec<&str> = text.lines().nth(1)?.split_whitespace().collect();
    fields.get(3)?.parse::<u64>().ok()?.checked_mul(1024)
}

/// The lock of a folder for databases, held for the time of a run.
#[derive(Debug)]
pub(crate) struct FolderLock {
    path: PathBuf,
    _file: File,
}

impl FolderLock {
    /// Takes the folder, creating it if need be; an error if another run has it.
    pub(crate) fn take(folder: &Path) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
        let path = folder.join(".benchtool-lock");
        loop {
            fs::create_dir_all(folder).map_err(failed)?;
            let file = Self::lock(folder, &path)?;
            // A run that ends removes its file: what we have locked may be no longer in the folder.
            let same = |there: fs::Metadata| {
                file.metadata()
                    .is_ok_and(|ours| (ours.dev(), ours.ino()) == (there.dev(), there.ino()))
            };
            if fs::metadata(&path).is_ok_and(same) {
                return Ok(Self { path, _file: file });
            }
        }
    }

    fn lock(folder: &Path, path: &Path) -> Result<File, String> {
        let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
        let mut file = OpenOptions::new()
            .create(true)
            .write(true)
            .truncate(false)
            .open(path)
            .map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(format!(
                    "{} is in use by another benchtool; choose another --dir",
                    folder.display()
                ));
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        // For people who wonder whose it is; on a full disk it stays empty.
        drop(writeln!(file, "{}", std::process::id()));
        Ok(file)
    }
}

impl Drop for FolderLock {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.path) {
            warn(format!("benchtool: {}: {error}", self.path.display()));
        }
    }
}

/// The first of the usual files of an allocator that exists.
pub(crate) fn find_allocator(name: &str) -> Option<PathBuf> {
    let folders = [
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu",
        "/usr/lib64",
        "/usr/lib",
        "/usr/local/lib",
    ];
    let files: &[&str] = match name {
        "jemalloc" => &["libjemalloc.so.2", "libjemalloc.so"],
        "mimalloc" => &["libmimalloc.so.3", "libmimalloc.so.2", "libmimalloc.so"],
        "tcmalloc" => &["libtcmalloc_minimal.so.4", "libtcmalloc_minimal.so", "libtcmalloc.so.4"],
        _ => &[],
    };
    let paths = folders
        .iter()
        .flat_map(|folder| files.iter().map(move |file| Path::new(folder).join(file)));
    paths.into_iter().find(|path| path.exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_space_is_read() {
        let text = "Filesystem 1024-blocks Used Available Capacity Mounted on\n\
            /dev/x 100 40 60 40% /\n";
        assert_eq!(parse_free(text), Some(60 * 1024));
        assert_eq!(parse_free("nonsense"), None);
    }

    #[test]
    fn a_folder_belongs_to_one_run() {
        let directory = tempfile::tempdir().unwrap();
        let folder = directory.path().join("data");
        let first = FolderLock::take(&folder).unwrap();
        assert!(FolderLock::take(&folder).unwrap_err().contains("in use"));
        drop(first);
        drop(FolderLock::take(&folder).unwrap());
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    }

    #[test]
    fn a_group_without_rights_is_explained() {
        let directory = tempfile::tempdir().unwrap();
        let missing = [(directory.path().to_path_buf(), "memory.max")];
        assert!(ControlGroup::under(&missing, 1, 1).unwrap_err().contains("no control groups"));
        fs::write(directory.path().join("cgroup.procs"), "").unwrap();
        let group = ControlGroup::under(&missing, 4096, 1).unwrap();
        let limit = group.directory().join("memory.max");
        assert_eq!(fs::read_to_string(&limit).unwrap(), "4096");
        join(group.directory()).unwrap();
        let joined = fs::read_to_string(group.directory().join("cgroup.procs")).unwrap();
        assert_eq!(joined, std::process::id().to_string());
        // A real group's files vanish with it.
        fs::remove_file(limit).unwrap();
        fs::remove_file(group.directory().join("cgroup.procs")).unwrap();
    }

    /// Bytes that this thread had read from a device, by the kernel's count.
    fn read_from_the_device() -> Option<u64> {
        let text = fs::read_to_string("/proc/thread-self/io").ok()?;
        text.lines().find_map(|line| line.strip_prefix("read_bytes: ")?.parse().ok())
    }

    #[test]
    fn forgotten_files_are_read_from_the_device_again() {
        let directory = tempfile::tempdir().unwrap();
        let inner = directory.path().join("inner");
        fs::create_dir(&inner).unwrap();
        fs::write(inner.join("a"), vec![7; 1 << 20]).unwrap();
        forget_files(directory.path()).unwrap();
        let Some(before) = read_from_the_device() else { return };
        assert_eq!(fs::read(inner.join("a")).unwrap().len(), 1 << 20);
        let first = read_from_the_device().unwrap() - before;
        assert_eq!(fs::read(inner.join("a")).unwrap().len(), 1 << 20);
        let second = read_from_the_device().unwrap() - before - first;
        assert_eq!(second, 0, "the second time it is remembered");
        // A file system in memory has no device.
        let in_memory = fs::read_to_string("/proc/mounts").is_ok_and(|mounts| {
            let on_it = |line: &&str| {
                let mut words = line.split(' ').skip(1);
                let place = words.next().unwrap_or_default();
                directory.path().starts_with(place) && place != "/" && words.next() == Some("tmpfs")
            };
            mounts.lines().any(|line| on_it(&line))
        });
        assert!(in_memory || first >= 1 << 20, "{first} bytes");
    }
}
