//! Objects as files: what the connector does, in Rust.
//!
//! A put, a removal and what they leave of folders take turns by a lock, between processes too;
//! reads don't. Files are complete and on the disk before they get the name of an object, and names
//! are on the disk before a call returns. A file without the name of an object is locked as long as
//! its writer lives, so the next opening removes what a process that was killed has left. Symbolic
//! links below the root are no objects, and keys that lead over one are refused. A key can't be an
//! object's and at the same time begin others, as in `a` and `a/b`: the second put fails.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use tidesdb_sys::descriptors::{open_above_standard, open_for_reading};

use super::records::{self, Identity, Record, if_there};

/// Folder of entity tags and epochs, which is never listed.
const METADATA: &str = ".tdb_objmeta";
/// File in it whose lock the writers of one root share.
const LOCK: &str = "LOCK";
/// How the names of files in it begin that have no name of an object yet.
const UNNAMED: &str = "tmp-";
/// Folder in it with a file for each object that has a tag or an epoch, under the object's key.
const TAGS: &str = "tags";

/// When a put takes place.
pub(super) enum Condition {
    Always,
    /// There is no object of the key.
    Absent,
    /// The object has this entity tag.
    Tagged(String),
}

/// What a put stores.
pub(super) struct Put<'a> {
    pub from: &'a Path,
    /// Only so many leading bytes.
    pub most_bytes: Option<u64>,
    /// Stored with the object unless it is 0.
    pub epoch: u64,
}

/// A root directory with objects in it.
pub(super) struct Directory {
    root: PathBuf,
    /// Told apart temporary files and entity tags of this process.
    counter: AtomicU64,
}

/// Holds the lock of a root until it is dropped.
struct Turn(#[expect(dead_code, reason = "closing the file gives the lock up")] File);

/// A complete file that has no name of an object yet. Removed unless it gets one.
struct Unnamed {
    path: PathBuf,
    identity: Identity,
    /// Holds the lock that says that its writer lives.
    _locked: File,
}

impl Drop for Unnamed {
    fn drop(&mut self) {
        // Gone when it was renamed; what is left otherwise is never listed.
        let _ = fs::remove_file(&self.path);
    }
}

impl Unnamed {
    /// Copies so many bytes, at most, to a new file, which is on the disk then. `path` says under
    /// which name, another one each time.
    fn write(
        path: impl Fn() -> PathBuf,
        from: &mut dyn Read,
        most_bytes: Option<u64>,
    ) -> io::Result<Self> {
        let (path, mut file) = loop {
            let path = path();
            let mut options = OpenOptions::new();
            options.write(true).create_new(true);
            let file = File::from(open_above_standard(|| options.open(&path))?);
            lock(&file)?;
            // An opening that came in between took it for what a dead process has left.
            if file.metadata()?.nlink() > 0 {
                break (path, file);
            }
        };
        let (identity, locked) = (Identity::of(&file.metadata()?), file.try_clone()?);
        let mut written = Self { path, identity, _locked: locked };
        io::copy(&mut from.take(most_bytes.unwrap_or(u64::MAX)), &mut file)?;
        file.flush()?;
        file.sync_all()?;
        written.identity = Identity::of(&file.metadata()?);
        Ok(written)
    }

    fn rename(self, to: &Path) -> io::Result<()> {
        fs::rename(&self.path, to)
    }
}

impl Directory {
    /// Opens the root, and makes it and the folder of metadata if they are missing.
    pub(super) fn open(root: &Path) -> io::Result<Self> {
        let metadata = root.join(METADATA);
        for folder in [root, &metadata] {
            match fs::create_dir(folder) {
                Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
                _ => {}
            }
        }
        if !root.is_dir() || !fs::symlink_metadata(metadata)?.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        remove_left_over(&root.join(METADATA));
        Ok(Self { root: root.to_path_buf(), counter: AtomicU64::new(0) })
    }

    /// The file of a key. Keys are relative paths that stay below the root.
    fn path(&self, key: &str) -> io::Result<PathBuf> {
        let parts = Path::new(key).components();
        // An empty part, or one that is a point, would name the file of another key.
        let is_passed_over = |part: &str| matches!(part, "" | ".");
        if key.split('/').any(is_passed_over) || Path::new(key).starts_with(METADATA) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut path = self.root.clone();
        for part in parts {
            let Component::Normal(part) = part else {
                return Err(io::ErrorKind::InvalidInput.into());
            };
            path.push(part);
            if fs::symlink_metadata(&path).is_ok_and(|found| found.is_symlink()) {
                return Err(io::ErrorKind::InvalidInput.into());
            }
        }
        Ok(path)
    }

    fn tags(&self) -> PathBuf {
        self.root.join(METADATA).join(TAGS)
    }

    fn take_turn(&self) -> io::Result<Turn> {
        let path = self.root.join(METADATA).join(LOCK);
        let mut options = OpenOptions::new();
        options.create(true).append(true);
        let file = File::from(open_above_standard(|| options.open(path))?);
        lock(&file)?;
        Ok(Turn(file))
    }

    fn unique(&self) -> String {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        // ORDERING: relaxed; only distinct numbers are asked for.
        let number = self.counter.fetch_add(1, Ordering::Relaxed);
        format!("{:x}-{:x}-{number:x}", std::process::id(), since.as_nanos())
    }

    fn unnamed(&self, from: &mut dyn Read, most_bytes: Option<u64>) -> io::Result<Unnamed> {
        let path = || self.root.join(METADATA).join(format!("{UNNAMED}{}", self.unique()));
        Unnamed::write(path, from, most_bytes)
    }

    /// Stores a file as an object and returns its new entity tag; `None` when the condition does
    /// not hold.
    pub(super) fn put(
        &self,
        key: &str,
        put: &Put<'_>,
        condition: &Condition,
    ) -> io::Result<Option<String>> {
        let path = self.path(key)?;
        let object = self.unnamed(&mut open_for_reading(put.from)?, put.most_bytes)?;
        let _turn = self.take_turn()?;
        let present = self.object(key)?;
        let holds = match condition {
            Condition::Always => true,
            Condition::Absent => present.is_none(),
            Condition::Tagged(tag) => self.head(key)?.is_some_and(|(present, _)| present == *tag),
        };
        if !holds {
            return Ok(None);
        }
        if path.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        make_folder(&path)?;
        let tag = self.unique();
        let new = Record { of: object.identity.clone(), tag: tag.clone(), epoch: put.epoch };
        let mut records = self.records(key)?;
        let present = present.map(|found| Identity::of(&found));
        records.retain(|record| Some(&record.of) == present.as_ref());
        records.push(new);
        self.record(key, &records)?;
        object.rename(&path)?;
        sync_folders(&path, &self.root)?;
        Ok(Some(tag))
    }

    fn records(&self, key: &str) -> io::Result<Vec<Record>> {
        let text = if_there(open_for_reading(self.tags().join(key)).and_then(io::read_to_string))?;
        Ok(records::parse(&text.unwrap_or_default()))
    }

    fn record(&self, key: &str, records: &[Record]) -> io::Result<()> {
        let path = self.tags().join(key);
        make_folder(&path)?;
        self.unnamed(&mut records::text(records).as_bytes(), None)?.rename(&path)?;
        sync_folders(&path, &self.root)
    }

    /// Copies an object to a file, whose folders are made. The file has all of it, or is as it was.
    pub(super) fn get(&self, key: &str, to: &Path) -> io::Result<()> {
        let mut from = self.opened(key)?;
        let name = to.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        if let Some(folder) = to.parent() {
            fs::create_dir_all(folder)?;
        }
        let beside = || {
            let mut beside = name.to_owned();
            beside.push(format!(".{}", self.unique()));
            to.with_file_name(beside)
        };
        Unnamed::write(beside, &mut from, None)?.rename(to)
    }

    /// Reads a piece of an object; fewer bytes at its end.
    pub(super) fn read_range(&self, key: &str, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        let file = self.opened(key)?;
        let mut done = 0;
        while done < into.len() {
            let rest = into.get_mut(done..).unwrap_or_default();
            match file.read_at(rest, offset + done as u64) {
                Ok(0) => break,
                Ok(bytes) => done += bytes,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(done)
    }

    /// Removes an object and its tag; absent ones as well. Folders that are empty then go too, so
    /// that their names may be keys.
    pub(super) fn remove(&self, key: &str) -> io::Result<()> {
        let path = self.path(key)?;
        let _turn = self.take_turn()?;
        if self.object(key)?.is_none() {
            return Ok(());
        }
        fs::remove_file(&path)?;
        if_there(fs::remove_file(self.tags().join(key)))?;
        for (file, root) in [(path, self.root.clone()), (self.tags().join(key), self.tags())] {
            let mut folders = file.ancestors().skip(1).take_while(|folder| **folder != root);
            let left = folders.find(|folder| fs::remove_dir(folder).is_err());
            if_there(open_for_reading(left.unwrap_or(&root)).and_then(|folder| folder.sync_all()))?;
        }
        Ok(())
    }

    /// The file of an object, `None` when there is no object.
    fn object(&self, key: &str) -> io::Result<Option<fs::Metadata>> {
        let found = if_there(fs::symlink_metadata(self.path(key)?))?;
        Ok(found.filter(fs::Metadata::is_file))
    }

    /// The file of an object, opened.
    fn opened(&self, key: &str) -> io::Result<File> {
        // Also what else there may be is no object, and opening a pipe would wait.
        self.object(key)?.ok_or(io::ErrorKind::NotFound)?;
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(libc::O_NOFOLLOW);
        let path = self.path(key)?;
        Ok(open_above_standard(|| options.open(path))?.into())
    }

    /// Size of an object, `None` when there is none.
    pub(super) fn bytes_of(&self, key: &str) -> io::Result<Option<u64>> {
        Ok(self.object(key)?.map(|found| found.len()))
    }

    /// Entity tag and epoch of an object, `None` when there is no object. One that was stored by
    /// other means has neither.
    pub(super) fn head(&self, key: &str) -> io::Result<Option<(String, u64)>> {
        let mut seen = None;
        loop {
            let Some(found) = self.object(key)? else { return Ok(None) };
            let found = Identity::of(&found);
            let record = self.records(key)?.into_iter().find(|record| record.of == found);
            if let Some(record) = record {
                return Ok(Some((record.tag, record.epoch)));
            }
            // It was put once more meanwhile, unless it is the same twice.
            if seen.as_ref() == Some(&found) {
                return Ok(Some((String::new(), 0)));
            }
            seen = Some(found);
        }
    }

    /// Keys and sizes of all objects whose key begins with `prefix`, in order.
    pub(super) fn list(&self, prefix: &str) -> io::Result<Vec<(String, u64)>> {
        let mut found = Vec::new();
        let mut folders = vec![self.root.clone()];
        while let Some(folder) = folders.pop() {
            // It may have gone with its last object.
            let Some(entries) = if_there(fs::read_dir(&folder))? else { continue };
            for entry in entries {
                let entry = entry?;
                let path = entry.path();
                let Some(key) = path.strip_prefix(&self.root).ok().and_then(Path::to_str) else {
                    continue;
                };
                if key == METADATA {
                    continue;
                }
                let Ok(metadata) = entry.metadata() else { continue };
                if metadata.is_dir() {
                    folders.push(path);
                } else if metadata.is_file() && key.starts_with(prefix) {
                    found.push((key.to_owned(), metadata.len()));
                }
            }
        }
        found.sort();
        Ok(found)
    }
}

/// Locks a file, however many signals come.
fn lock(file: &File) -> io::Result<()> {
    loop {
        match file.lock() {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            locked => return locked,
        }
    }
}

/// Removes files without a name of which no process holds the lock. What can't be looked at stays:
/// it is never listed.
fn remove_left_over(metadata: &Path) {
    let Ok(entries) = fs::read_dir(metadata) else { return };
    for entry in entries.flatten() {
        let is_unnamed = entry.file_name().as_encoded_bytes().starts_with(UNNAMED.as_bytes());
        if !is_unnamed || !entry.file_type().is_ok_and(|kind| kind.is_file()) {
            continue;
        }
        let path = entry.path();
        if let Ok(file) = open_for_reading(&path)
            && file.try_lock().is_ok()
        {
            let _ = fs::remove_file(path);
        }
    }
}

/// Makes the folder of a file.
fn make_folder(file: &Path) -> io::Result<()> {
    file.parent().map_or(Ok(()), fs::create_dir_all)
}

/// Syncs the name of a file, and those of the folders between it and `root`.
fn sync_folders(file: &Path, root: &Path) -> io::Result<()> {
    let mut folders = file.ancestors().skip(1).take_while(|folder| folder.starts_with(root));
    folders.try_for_each(|folder| open_for_reading(folder)?.sync_all())
}
