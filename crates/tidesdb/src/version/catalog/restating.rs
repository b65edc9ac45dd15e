//! Another manifest, written beside the one in force while edits go on.
//!
//! Restating takes as long as writing and syncing all that the manifest says: tens of megabytes
//! where there are very many tables. Flushes and compactions would wait for it, and writers for
//! them. So the state is copied, which shares the tables, and written without the catalog's lock.
//! Edits go to the manifest in force meanwhile and are noted here; they follow in the new file, and
//! with the last few of them, under the lock, it becomes the one in force. Until then a crash
//! leaves the old one, from then on the new one, and each has every edit that returned (I-350).

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use tidesdb_base::error::{Error, Result};
use tidesdb_files::manifest::{Edit, ManifestWriter, current};
use tidesdb_lockfree::sync::lock;
use tidesdb_sys::vfs::Vfs;

use super::{Catalog, LONG_FACTOR, Standing};
use crate::version::PersistedState;

/// So often edits that were made meanwhile are appended before the last of them hold others up.
const MOST_ROUNDS: usize = 16;

/// What the catalog knows of a manifest that is written beside the one in force.
#[derive(Debug, Default)]
pub(super) struct ManifestRewrite {
    /// A job was asked to, and has not begun.
    is_due: bool,
    /// Number of the manifest, and edits that it lacks, once it was begun.
    begun: Option<(u64, Vec<Edit>)>,
    /// After a failure: how long the manifest in force has to be before it is tried again.
    not_before_bytes: u64,
}

impl ManifestRewrite {
    /// Notes an edit that was made durable and applied.
    pub(super) fn note(&mut self, edit: Edit) {
        if let Some((_, edits)) = &mut self.begun {
            edits.push(edit);
        }
    }

    /// What was begun is not to become the manifest in force.
    pub(super) fn call_off(&mut self) {
        self.begun = None;
        self.not_before_bytes = 0;
    }

    fn lacks(&mut self, number: u64) -> Option<&mut Vec<Edit>> {
        self.begun.as_mut().filter(|(begun, _)| *begun == number).map(|(_, edits)| edits)
    }
}

/// A manifest that was begun.
#[derive(Debug)]
pub(super) struct Begun {
    vfs: Arc<dyn Vfs>,
    dir: PathBuf,
    number: u64,
    state: PersistedState,
}

impl Begun {
    /// Writes the state, and makes file and name durable.
    ///
    /// # Errors
    /// [`Error::Io`]; the file may be left behind.
    pub(super) fn write(&self) -> Result<ManifestWriter> {
        let (vfs, dir): (_, &Path) = (self.vfs.as_ref(), &self.dir);
        let writer = ManifestWriter::create(vfs, dir, self.number, &self.state.restate())?;
        vfs.sync_dir(dir).map_err(|e| Error::io("sync", dir, e))?;
        Ok(writer)
    }
}

/// Writes another manifest that says the same as the one in force, and has it take that one's
/// place, unless another did meanwhile.
///
/// # Errors
/// [`Error::Io`]: the manifest in force stays, or the next edit writes another one.
pub(crate) fn restate_beside(catalog: &Mutex<Catalog>) -> Result<()> {
    let Some(begun) = lock(catalog).begin_beside() else { return Ok(()) };
    let written = begun.write().and_then(|mut writer| {
        let restated_bytes = writer.bytes();
        for _ in 0..MOST_ROUNDS {
            let edits = lock(catalog).take_lacking(begun.number);
            if edits.is_empty() {
                break;
            }
            writer.append_all(&edits)?;
        }
        Ok((writer, restated_bytes))
    });
    let (outcome, dead) = match written {
        Ok((writer, restated_bytes)) => lock(catalog).take_over(writer, restated_bytes),
        Err(cause) => {
            lock(catalog).put_off(begun.number);
            (Err(cause), Some(begun.number))
        }
    };
    if let Some(number) = dead {
        // Without the lock: it may be long. One that stays is removed at the next open.
        let path = lock(catalog).path_of(number);
        let _ = begun.vfs.remove(&path);
    }
    outcome
}

impl Catalog {
    /// True once when the manifest has become long: [`restate_beside`] is to be called.
    pub(crate) fn should_be_restated(&mut self) -> bool {
        let known = self.rewrite.is_due || self.rewrite.begun.is_some();
        let long = self.writer.bytes() >= self.rewrite.not_before_bytes;
        let should = !known && long && self.is_long();
        self.rewrite.is_due |= should;
        should
    }

    /// Whether the manifest, which the next edit is appended to, is long.
    fn is_long(&self) -> bool {
        self.standing == Standing::Sound && self.is_longer_than(LONG_FACTOR)
    }

    /// Begins another manifest, if no other was begun and this one is still long.
    pub(super) fn begin_beside(&mut self) -> Option<Begun> {
        self.rewrite.is_due = false;
        if self.rewrite.begun.is_some() || !self.is_long() {
            return None;
        }
        let number = self.numbers.next();
        let mut state = self.state.clone();
        state.next_file = state.next_file.max(self.numbers.peek());
        self.rewrite.begun = Some((number, Vec::new()));
        Some(Begun { vfs: Arc::clone(&self.vfs), dir: self.dir.clone(), number, state })
    }

    /// The edits that manifest `number` lacks, which the caller appends to it.
    pub(super) fn take_lacking(&mut self, number: u64) -> Vec<Edit> {
        self.rewrite.lacks(number).map(std::mem::take).unwrap_or_default()
    }

    /// Gives manifest `number` up. It is not tried again before the one in force has grown further:
    /// a full disk would be asked with each edit.
    pub(super) fn put_off(&mut self, number: u64) {
        if self.rewrite.lacks(number).is_some() {
            self.rewrite.begun = None;
            let more = self.least_long_bytes.max(self.restated_bytes / 2);
            self.rewrite.not_before_bytes = self.writer.bytes().saturating_add(more);
        }
    }

    /// Makes a manifest that lacks no other edits the one in force, unless it was called off.
    /// Returns which one is dead now, if it is certain.
    pub(super) fn take_over(
        &mut self,
        mut writer: ManifestWriter,
        restated_bytes: u64,
    ) -> (Result<()>, Option<u64>) {
        let number = writer.number();
        let Some(edits) = self.rewrite.lacks(number).map(std::mem::take) else {
            return (Ok(()), Some(number));
        };
        let (vfs, dir) = (Arc::clone(&self.vfs), self.dir.clone());
        let ready = writer.append_all(&edits);
        if let Err(cause) = ready.and_then(|()| current::write_next(vfs.as_ref(), &dir, number)) {
            // Nothing was switched: the manifest in force takes the next edit.
            self.put_off(number);
            return (Err(cause), Some(number));
        }
        self.rewrite.call_off();
        // CRASH: on either side of the switch the manifest that is in force has every edit that
        // returned, and no edit is written before it is certain which of them that is.
        if let Err(cause) = current::put_in_force(vfs.as_ref(), &dir) {
            self.standing = Standing::Uncertain;
            let old = current::read_current(vfs.as_ref(), &dir);
            let is_dead = old.is_ok_and(|current| current != Some(number));
            return (Err(cause), is_dead.then_some(number));
        }
        let old = std::mem::replace(&mut self.writer, writer);
        self.restated_bytes = restated_bytes;
        (Ok(()), Some(old.number()))
    }
}

#[cfg(test)]
mod tests;
