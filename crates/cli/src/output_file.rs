//! A file that appears under its name when it is complete, and never inside a database.
//!
//! What is written goes to a new file beside it, whose name ends in `.partial`; it is synced, and
//! renamed at the end: under its own name there is either the old file or all of the new one. No
//! file or link that was there is opened, so two commands never write to one file. What a failed or
//! interrupted command wrote is removed, and what a killed one left is removed by the next that
//! writes to the same name: the lock of a file shows whether a command still writes to it. A file
//! that was there keeps its mode, and its owner where this process may give files away; until then
//! the new one is its writer's alone. A device, a pipe and a descriptor (`/dev/fd/3`) are written
//! as they are.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use crate::failure::{Failure, Result};

/// What the names of files end in that are not complete.
const PARTIAL: &str = ".partial";

/// Has `write` fill the file at `path`.
///
/// # Errors
/// When the path leads into a database, when the file cannot be written, and those of `write`.
pub(crate) fn write(path: &Path, write: impl FnOnce(File, &Path) -> Result<File>) -> Result<()> {
    let failed = |written: &Path, error: io::Error| Failure::file("write", written, &error);
    // First of all: the name of a pipe such as `/dev/fd/63` leads to no place that can be resolved.
    if let Some(opened) = open_as_it_is(path) {
        return write(opened.map_err(|e| failed(path, e))?, path).map(drop);
    }
    let path = &behind_links(path)?;
    refuse_database(path)?;
    remove_left_behind(path);
    let earlier = fs::metadata(path).ok();
    let (output, partial) = create_partial(path, earlier.is_some())?;
    let partial = &partial;
    let complete = write(output, partial)
        .and_then(|output| {
            let given = earlier.map_or(Ok(()), |earlier| give_access(&output, &earlier));
            given.and_then(|()| output.sync_all()).map_err(|e| failed(partial, e))
        })
        .and_then(|()| fs::rename(partial, path).map_err(|e| failed(partial, e)));
    if complete.is_err() {
        // The reason for the failure is what the user needs to hear.
        let _already_failing = fs::remove_file(partial);
        return complete;
    }
    sync_directory_of(path).map_err(|error| Failure::file("sync the directory of", path, &error))
}

/// Whether a path stands for standard output: under a name of it, or as `-`.
pub(crate) fn is_standard_output(path: &Path) -> bool {
    path.as_os_str() == "-" || path == Path::new("/dev/stdout") || descriptor(path) == Some("1")
}

/// The number in a name of a descriptor of this process.
fn descriptor(path: &Path) -> Option<&str> {
    let directories = ["/dev/fd", "/proc/self/fd"].map(Path::new);
    let directory = path.parent().filter(|parent| directories.contains(parent));
    directory.and(path.file_name()).and_then(OsStr::to_str)
}

/// Opens what can't be replaced by a new file: a device, a pipe, or what a descriptor stands for.
/// There is nothing to complete or to rename. A file behind a descriptor is another program's,
/// such as the log of a shell's `3>>log`: it is added to.
fn open_as_it_is(path: &Path) -> Option<io::Result<File>> {
    let is_descriptor = path == Path::new("/dev/stderr") || descriptor(path).is_some();
    let is_no_file = fs::metadata(path).is_ok_and(|metadata| !metadata.is_file());
    let opened = || File::options().write(true).append(is_descriptor).open(path);
    (is_descriptor || is_no_file).then(opened)
}

/// The place that a path stands for: links and `..` are followed, also where the file itself, or
/// the file that a link names, is not there yet.
fn behind_links(path: &Path) -> Result<PathBuf> {
    /// As many as Linux follows.
    const MOST_LINKS: usize = 40;
    let mut path = path.to_path_buf();
    for _ in 0..MOST_LINKS {
        if let Ok(found) = fs::canonicalize(&path) {
            return Ok(found);
        }
        let directory = fs::canonicalize(directory_of(&path))
            .map_err(|error| Failure::file("write", &path, &error))?;
        // A link whose target is missing creates the target.
        match (fs::read_link(&path), path.file_name()) {
            (Ok(target), _) => path = directory.join(target),
            (Err(_), Some(name)) => return Ok(directory.join(name)),
            (Err(_), None) => break,
        }
    }
    Err(Failure::new(format!("cannot write {}: it names no file", path.display())))
}

/// Refuses a place in the directory of a database or below it, whichever database it is.
fn refuse_database(path: &Path) -> Result<()> {
    match path.ancestors().skip(1).find(|directory| is_database(directory)) {
        Some(database) => Err(Failure::usage(format!(
            "{} lies in the database {}, whose files are its own",
            path.display(),
            database.display()
        ))
        .hint("write to a file outside of it")),
        None => Ok(()),
    }
}

fn is_database(directory: &Path) -> bool {
    let is_manifest = |entry: io::Result<fs::DirEntry>| {
        entry.is_ok_and(|entry| entry.file_name().as_encoded_bytes().starts_with(b"MANIFEST-"))
    };
    directory.join("CURRENT").exists()
        && fs::read_dir(directory).is_ok_and(|mut entries| entries.any(is_manifest))
}

/// Creates a file beside `path` under a name that nothing has, and locks it.
fn create_partial(path: &Path, private: bool) -> Result<(File, PathBuf)> {
    /// More than a process that was given the same number again can have left.
    const MOST_TRIES: u32 = 1000;
    for tried in 0..MOST_TRIES {
        let mut name = OsString::from(path);
        name.push(format!(".{}-{tried}{PARTIAL}", std::process::id()));
        let partial = PathBuf::from(name);
        match create_new(&partial, private) {
            // A file system may be without locks. Then nothing is removed either.
            Ok(file)
                if !matches!(file.try_lock(), Err(TryLockError::WouldBlock))
                    && is_at(&file, &partial) =>
            {
                return Ok((file, partial));
            }
            // Another command took it for one that was left behind.
            Ok(_) => {}
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(Failure::file("write", &partial, &e)),
        }
    }
    Err(Failure::new(format!("cannot write {}: no name is free beside it", path.display())))
}

/// Creates a file that was not there. A private one is for the user who runs the command alone.
fn create_new(path: &Path, private: bool) -> io::Result<File> {
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    if private {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    #[cfg(not(unix))]
    let _ = private;
    options.open(path)
}

/// Gives a file the owner, the group and the mode of the one that it replaces.
#[cfg(unix)]
fn give_access(file: &File, earlier: &fs::Metadata) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
    let given = fchown(file, Some(earlier.uid()), Some(earlier.gid()));
    // What the group of the old file may do is not for the group of the new one.
    let most = if given.is_ok() { 0o777 } else { 0o600 };
    file.set_permissions(fs::Permissions::from_mode(earlier.mode() & most))
}

#[cfg(not(unix))]
fn give_access(file: &File, earlier: &fs::Metadata) -> io::Result<()> {
    file.set_permissions(earlier.permissions())
}

/// Whether the file still has the name.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    match (file.metadata(), fs::symlink_metadata(path)) {
        (Ok(own), Ok(named)) => (own.dev(), own.ino()) == (named.dev(), named.ino()),
        _ => false,
    }
}

#[cfg(not(unix))]
fn is_at(_file: &File, path: &Path) -> bool {
    path.exists()
}

/// Removes what commands that were killed have left of files for `path`. What can't be removed
/// stays: it does no harm.
fn remove_left_behind(path: &Path) {
    let Some(name) = path.file_name() else { return };
    for entry in fs::read_dir(directory_of(path)).into_iter().flatten().flatten() {
        let is_ours = is_partial_name(&entry.file_name(), name)
            && entry.file_type().is_ok_and(|kind| kind.is_file());
        if is_ours
            && let Ok(file) = File::options().write(true).open(entry.path())
            && file.try_lock().is_ok()
            && is_at(&file, &entry.path())
        {
            // With the lock held: a command that has just created it notices that it is gone.
            let _does_no_harm = fs::remove_file(entry.path());
        }
    }
}

/// Whether `entry` is the name of a file that a command fills for the name `name`.
fn is_partial_name(entry: &OsStr, name: &OsStr) -> bool {
    let middle = entry
        .as_encoded_bytes()
        .strip_prefix(name.as_encoded_bytes())
        .and_then(|rest| rest.strip_prefix(b"."))
        .and_then(|rest| rest.strip_suffix(PARTIAL.as_bytes()));
    let Some(middle) = middle else { return false };
    let mut numbers = middle.split(|&byte| byte == b'-');
    let is_number = |part: Option<&[u8]>| {
        part.is_some_and(|part| !part.is_empty() && part.iter().all(u8::is_ascii_digit))
    };
    is_number(numbers.next()) && is_number(numbers.next()) && numbers.next().is_none()
}

fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Makes the new name survive a power cut.
fn sync_directory_of(path: &Path) -> io::Result<()> {
    File::open(directory_of(path))?.sync_all()
}
