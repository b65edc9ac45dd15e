//! A file that appears under its name when it is complete, and never inside a database.
//!
//! What is written goes to a new file beside it, whose name ends in `.partial`; it is synced, and
//! renamed at the end: under its own name there is either the old file or all of the new one. No
//! file or link that was there is opened, so two commands never write to one file. What a failed or
//! interrupted command wrote is removed. A device or a pipe is written as it is.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::failure::{Failure, Result};

/// Has `write` fill the file at `path`.
///
/// # Errors
/// When the path leads into a database, when the file cannot be written, and those of `write`.
pub(crate) fn write(path: &Path, write: impl FnOnce(File, &Path) -> Result<File>) -> Result<()> {
    let path = &behind_links(path)?;
    refuse_database(path)?;
    let failed = |written: &Path, error: io::Error| Failure::file("write", written, &error);
    if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
        // A device or a pipe: there is nothing to complete or to rename.
        let output = File::options().write(true).open(path).map_err(|e| failed(path, e))?;
        return write(output, path).map(drop);
    }
    let (output, partial) = create_partial(path)?;
    let partial = &partial;
    let complete = write(output, partial)
        .and_then(|output| output.sync_all().map_err(|e| failed(partial, e)))
        .and_then(|()| fs::rename(partial, path).map_err(|e| failed(partial, e)));
    if complete.is_err() {
        // The reason for the failure is what the user needs to hear.
        let _already_failing = fs::remove_file(partial);
        return complete;
    }
    sync_directory_of(path).map_err(|error| Failure::file("sync the directory of", path, &error))
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

/// Creates a file beside `path` under a name that nothing has.
fn create_partial(path: &Path) -> Result<(File, PathBuf)> {
    /// More than a process that was given the same number again can have left.
    const MOST_TRIES: u32 = 1000;
    let mut tried = 0;
    loop {
        let mut name = OsString::from(path);
        name.push(format!(".{}-{tried}.partial", std::process::id()));
        let partial = PathBuf::from(name);
        match File::create_new(&partial) {
            Ok(file) => return Ok((file, partial)),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && tried < MOST_TRIES => tried += 1,
            Err(e) => return Err(Failure::file("write", &partial, &e)),
        }
    }
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
