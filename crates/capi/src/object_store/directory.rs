//! Objects as files: what the connector does, in Rust.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Folder of entity tags and epochs, which is never listed.
const METADATA: &str = ".tdb_objmeta";
/// File in it whose lock the writers of one root share.
const LOCK: &str = "LOCK";
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

impl Directory {
    /// Opens the root, and makes it and the folder of metadata if they are missing.
    pub(super) fn open(root: &Path) -> io::Result<Self> {
        for folder in [root.to_path_buf(), root.join(METADATA)] {
            match fs::create_dir(&folder) {
                Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
                _ => {}
            }
        }
        if !root.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        Ok(Self { root: root.to_path_buf(), counter: AtomicU64::new(0) })
    }

    /// The file of a key. Keys are relative paths that stay below the root.
    fn path(&self, key: &str) -> io::Result<PathBuf> {
        let path = Path::new(key);
        let plain = path.components().all(|part| matches!(part, Component::Normal(_)));
        if key.is_empty() || !plain || path.starts_with(METADATA) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Ok(self.root.join(path))
    }

    /// The file with the tag and epoch of an object.
    fn metadata_path(&self, key: &str) -> PathBuf {
        self.root.join(METADATA).join(TAGS).join(key)
    }

    fn take_turn(&self) -> io::Result<Turn> {
        let path = self.root.join(METADATA).join(LOCK);
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        loop {
            match file.lock() {
                // By a signal.
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                locked => return locked.map(|()| Turn(file)),
            }
        }
    }

    fn unique(&self) -> String {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        // ORDERING: relaxed; only distinct numbers are asked for.
        let number = self.counter.fetch_add(1, Ordering::Relaxed);
        format!("{:x}-{:x}-{number:x}", std::process::id(), since.as_nanos())
    }

    /// Stores a file as an object and answers its new entity tag; `None` when the condition does
    /// not hold.
    pub(super) fn put(
        &self,
        key: &str,
        put: &Put<'_>,
        condition: &Condition,
    ) -> io::Result<Option<String>> {
        let path = self.path(key)?;
        let mut from = File::open(put.from)?;
        let _turn = self.take_turn()?;
        let holds = match condition {
            Condition::Always => true,
            Condition::Absent => !path.try_exists()?,
            Condition::Tagged(tag) => self.head(key)?.is_some_and(|(present, _)| present == *tag),
        };
        if !holds {
            return Ok(None);
        }
        let tag = self.unique();
        // The tag first: a tag without its object does not match anything that is there.
        let text = format!("{tag}\n{}\n", put.epoch);
        self.write_whole(&self.metadata_path(key), &mut text.as_bytes(), None)?;
        self.write_whole(&path, &mut from, put.most_bytes)?;
        Ok(Some(tag))
    }

    fn write_whole(
        &self,
        path: &Path,
        from: &mut dyn Read,
        most_bytes: Option<u64>,
    ) -> io::Result<()> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let temporary = self.root.join(METADATA).join(format!("tmp-{}", self.unique()));
        let mut write = || {
            let mut file = File::create(&temporary)?;
            io::copy(&mut from.take(most_bytes.unwrap_or(u64::MAX)), &mut file)?;
            file.flush()?;
            file.sync_all()?;
            fs::rename(&temporary, path)
        };
        write().inspect_err(|_| {
            // What is left is never listed.
            let _ = fs::remove_file(&temporary);
        })
    }

    /// Copies an object to a file, whose folders are made.
    pub(super) fn get(&self, key: &str, to: &Path) -> io::Result<()> {
        let from = self.path(key)?;
        if !from.is_file() {
            return Err(io::ErrorKind::NotFound.into());
        }
        if let Some(folder) = to.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::copy(from, to).map(|_| ())
    }

    /// Reads a piece of an object; fewer bytes at its end.
    pub(super) fn read_range(&self, key: &str, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        let file = File::open(self.path(key)?)?;
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

    /// Removes an object and its tag; absent ones as well.
    pub(super) fn remove(&self, key: &str) -> io::Result<()> {
        let path = self.path(key)?;
        let _turn = self.take_turn()?;
        for path in [path, self.metadata_path(key)] {
            match fs::remove_file(path) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
                _ => {}
            }
        }
        Ok(())
    }

    /// Size of an object, `None` when there is none.
    pub(super) fn bytes_of(&self, key: &str) -> io::Result<Option<u64>> {
        match fs::metadata(self.path(key)?) {
            Ok(found) if found.is_file() => Ok(Some(found.len())),
            Ok(_) => Ok(None),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Entity tag and epoch of an object, `None` when there is no object. One that was stored by
    /// other means has neither.
    pub(super) fn head(&self, key: &str) -> io::Result<Option<(String, u64)>> {
        if self.bytes_of(key)?.is_none() {
            return Ok(None);
        }
        let text = match fs::read_to_string(self.metadata_path(key)) {
            Ok(text) => text,
            Err(e) if e.kind() == io::ErrorKind::NotFound => String::new(),
            Err(e) => return Err(e),
        };
        let mut lines = text.lines();
        let tag = lines.next().unwrap_or("").to_owned();
        let epoch = lines.next().and_then(|line| line.parse().ok()).unwrap_or(0);
        Ok(Some((tag, epoch)))
    }

    /// Keys and sizes of all objects whose key begins with `prefix`, in order.
    pub(super) fn list(&self, prefix: &str) -> io::Result<Vec<(String, u64)>> {
        let mut found = Vec::new();
        let mut folders = vec![self.root.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder)? {
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
                } else if key.starts_with(prefix) {
                    found.push((key.to_owned(), metadata.len()));
                }
            }
        }
        found.sort();
        Ok(found)
    }
}
