//! The manifest in force and the state that it describes.
//!
//! All changes of the set of files go through [`Catalog::propose`], one at a time. An edit is
//! checked against the state before it is written. When it can't be appended it is not applied: its
//! bytes may be on disk, so the catalog starts another manifest file from the state before it.
//! Until that has worked, by itself or with a later edit, the edit is *uncertain*: an opening may
//! find it. A manifest that has become long is restated while edits go on (`restating`).

mod restating;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidesdb_base::error::{Error, Result};
use tidesdb_files::file_numbers::FileNumbers;
use tidesdb_files::manifest::{Change, Edit, ManifestWriter, Unsynced, closed, current};
use tidesdb_files::naming;
use tidesdb_sys::vfs::Vfs;

use super::edit_check::{admits, goes_forward};
use super::persisted_state::PersistedState;

use self::restating::ManifestRewrite;
pub(crate) use self::restating::restate_beside;

/// A manifest is restated in a new file when it is longer than this and half of it is history.
const LONG_MANIFEST_BYTES: u64 = 1 << 20;

/// How many times as long as it was when it was restated last it may become before it is restated
/// beside the edits.
const LONG_FACTOR: u64 = 2;
/// As [`LONG_FACTOR`], from where an edit restates it first and waits for that: no job came to it.
const TOO_LONG_FACTOR: u64 = 4;

/// What an edit that is uncertain would make undone.
pub(crate) trait InDoubt: Send + Sync + std::fmt::Debug {
    /// Says whether an opening may find the edit.
    fn set_in_doubt(&self, in_doubt: bool);
}

/// What came of an edit.
#[derive(Debug)]
#[must_use]
pub(crate) enum Outcome {
    /// It is on disk and in the state.
    Applied,
    /// It has no effect, and no opening will find it.
    Refused(Error),
    /// It is not in the state, but an opening may find it until another manifest is in force. What
    /// it would make undone must not be built upon until [`Catalog::settle`] has worked.
    Uncertain(Error),
}

impl Outcome {
    /// The error of an edit that was not applied, for those whose edit only makes files known that
    /// the catalog removes, or lets go of some that are kept: an opening that finds it does no
    /// harm.
    pub(crate) fn applied(self) -> Result<()> {
        match self {
            Self::Applied => Ok(()),
            Self::Refused(cause) | Self::Uncertain(cause) => Err(cause),
        }
    }
}

/// What is known of the file in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// All of it is on disk, and the next edit is appended.
    Sound,
    /// The opening found it, with the mark of a clean close that is valid as long as it is in
    /// force. So the next edit begins another one.
    Marked,
    /// It may end in an edit that was refused, or be in force in the kernel's cache only. The next
    /// edit begins another one.
    Uncertain,
}

/// The manifest in force.
#[derive(Debug)]
pub(crate) struct Catalog {
    vfs: Arc<dyn Vfs>,
    dir: PathBuf,
    numbers: Arc<FileNumbers>,
    writer: ManifestWriter,
    /// Length of the file after its first record.
    restated_bytes: u64,
    /// Manifests shorter than this are not restated.
    least_long_bytes: u64,
    /// What is to be known of another manifest that is written meanwhile.
    rewrite: ManifestRewrite,
    standing: Standing,
    /// Files that the uncertain edit may name.
    uncertain: Vec<PathBuf>,
    /// Cleared once it is certain that no opening finds the uncertain edit.
    in_doubt: Vec<Arc<dyn InDoubt>>,
    /// A change of the families is among what an opening may find.
    families_uncertain: bool,
    pub state: PersistedState,
}

impl Catalog {
    /// Starts a new manifest that restates `state` and makes it the one in force. `sync` makes
    /// files durable, and after their creation the directory, in whatever order.
    ///
    /// # Errors
    /// [`Error::Io`] when a file operation fails; that of `sync`.
    pub(crate) fn create(
        vfs: Arc<dyn Vfs>,
        dir: &Path,
        numbers: Arc<FileNumbers>,
        mut state: PersistedState,
        sync: impl FnOnce(Vec<Unsynced>) -> Result<()>,
    ) -> Result<Self> {
        let number = numbers.next();
        state.next_file = state.next_file.max(numbers.peek());
        let writer = Self::new_manifest(vfs.as_ref(), dir, number, &state, sync)?;
        Ok(Self::resume(vfs, dir, numbers, writer, state))
    }

    /// Goes on with the manifest in force.
    pub(crate) fn resume(
        vfs: Arc<dyn Vfs>,
        dir: &Path,
        numbers: Arc<FileNumbers>,
        writer: ManifestWriter,
        state: PersistedState,
    ) -> Self {
        Self {
            restated_bytes: writer.bytes(),
            least_long_bytes: LONG_MANIFEST_BYTES,
            rewrite: ManifestRewrite::default(),
            vfs,
            dir: dir.to_path_buf(),
            numbers,
            writer,
            standing: Standing::Sound,
            uncertain: Vec::new(),
            in_doubt: Vec::new(),
            families_uncertain: false,
            state,
        }
    }

    /// Never writes to the manifest in force: the next edit begins with another one.
    pub(crate) fn without_appending(self) -> Self {
        Self { standing: Standing::Uncertain, ..self }
    }

    /// As [`Catalog::without_appending`] of a manifest that has the mark of a clean close.
    pub(crate) fn marked(self) -> Self {
        Self { standing: Standing::Marked, ..self }
    }

    /// Whether the manifest in force, on disk, says what the state does.
    pub(crate) fn is_on_disk(&self) -> bool {
        self.standing != Standing::Uncertain
    }

    /// Leaves the mark of a clean close. Nothing is changed after it.
    pub(crate) fn leave_mark(&self) {
        if self.standing == Standing::Sound {
            // Without one the next opening writes what it could have spared.
            let _ = closed::leave_mark(self.vfs.as_ref(), &self.dir, &self.writer);
        }
    }

    /// Whether there is anything that could be read.
    pub(crate) fn has_families(&self) -> bool {
        !self.state.families.is_empty()
    }

    fn new_manifest(
        vfs: &dyn Vfs,
        dir: &Path,
        number: u64,
        state: &PersistedState,
        sync: impl FnOnce(Vec<Unsynced>) -> Result<()>,
    ) -> Result<ManifestWriter> {
        let make = || {
            let (writer, manifest) = ManifestWriter::write_new(vfs, dir, number, &state.restate())?;
            let next = current::write_next_unsynced(vfs, dir, number)?;
            // CRASH: until CURRENT is replaced nothing refers to either file, so any part of them
            // may be on disk. Then content and name of the manifest must be.
            sync(vec![manifest, next])?;
            current::put_in_force(vfs, dir)?;
            Ok(writer)
        };
        make().inspect_err(|_| {
            // A full disk is tried again and again, and what each try leaves would fill it further.
            if current::read_current(vfs, dir).is_ok_and(|current| current != Some(number)) {
                let _ = vfs.remove(&dir.join(naming::FileKind::Manifest(number).name()));
            }
        })
    }

    /// Makes an edit durable and applies it to the state.
    ///
    /// # Errors
    /// [`Error::Io`] when the manifest can't be written: see [`Outcome::applied`].
    pub(crate) fn commit(&mut self, changes: Vec<Change>) -> Result<()> {
        self.propose(changes).applied()
    }

    /// As [`Catalog::commit`], for an edit that makes files known. When it has no effect they are
    /// removed: at once, or as soon as it is certain that no manifest on disk names them.
    ///
    /// # Errors
    /// As [`Catalog::commit`].
    pub(crate) fn commit_files(
        &mut self,
        changes: Vec<Change>,
        files: impl FnOnce() -> Vec<PathBuf>,
    ) -> Result<()> {
        let outcome = self.propose(changes);
        match &outcome {
            // One that contradicts the state may name files that are in use.
            Outcome::Applied | Outcome::Refused(Error::Internal(_)) => {}
            Outcome::Refused(_) => self.remove(&files()),
            Outcome::Uncertain(_) => self.uncertain.extend(files()),
        }
        outcome.applied()
    }

    /// As [`Catalog::commit`], for a change of the families, of which callers are told when an
    /// opening may find it. While one is uncertain, so is each later one that fails: it may be the
    /// same change, tried again.
    ///
    /// # Errors
    /// As [`Catalog::commit`]; [`Error::ChangeUncertain`].
    pub(crate) fn change_families(&mut self, changes: Vec<Change>) -> Result<()> {
        let outcome = self.propose(changes);
        self.told_of_families(outcome)
    }

    /// As [`Catalog::change_families`], for a change after which some things must be refused while
    /// it is uncertain: `in_doubt` is called when that begins and ends.
    ///
    /// # Errors
    /// As [`Catalog::change_families`].
    pub(crate) fn change_or_doubt(
        &mut self,
        changes: Vec<Change>,
        in_doubt: Arc<dyn InDoubt>,
    ) -> Result<()> {
        let outcome = self.propose(changes);
        if matches!(outcome, Outcome::Uncertain(_)) {
            in_doubt.set_in_doubt(true);
            self.in_doubt.push(in_doubt);
        }
        self.told_of_families(outcome)
    }

    /// What the caller of a change of the families is told.
    fn told_of_families(&mut self, outcome: Outcome) -> Result<()> {
        self.families_uncertain |= matches!(outcome, Outcome::Uncertain(_));
        outcome.applied().map_err(|cause| match self.families_uncertain {
            true => Error::ChangeUncertain(Arc::new(cause)),
            false => cause,
        })
    }

    /// Of edits that tell of value logs that were closed a while ago, those whose file is listed
    /// still. One that a compaction has removed meanwhile must not be listed again (I-303).
    pub(crate) fn still_listed(&self, closed: impl IntoIterator<Item = Change>) -> Vec<Change> {
        let is_listed = |change: &Change| match change {
            Change::AddValueLog { family, file } => {
                let record = self.state.families.get(family);
                record.is_some_and(|record| record.value_logs.contains_key(&file.number))
            }
            _ => true,
        };
        closed.into_iter().filter(is_listed).collect()
    }

    /// Makes sure that no opening finds an edit that was not applied.
    ///
    /// # Errors
    /// [`Error::Io`] when another manifest can't be written; all is as before then.
    pub(crate) fn settle(&mut self) -> Result<()> {
        if self.is_on_disk() { Ok(()) } else { self.replace() }
    }

    /// Length of the manifest in force.
    pub(crate) fn bytes(&self) -> u64 {
        self.writer.bytes()
    }

    /// Whether the next edit begins another manifest.
    pub(crate) fn starts_another_manifest(&self) -> bool {
        self.standing != Standing::Sound || self.is_longer_than(TOO_LONG_FACTOR)
    }

    /// A shorter manifest than this is not restated.
    #[cfg(test)]
    pub(crate) const fn set_least_long_bytes(&mut self, bytes: u64) {
        self.least_long_bytes = bytes;
    }

    fn remove(&self, files: &[PathBuf]) {
        for file in files {
            // One that stays is unknown to the manifest and removed at the next open.
            let _ = self.vfs.remove(file);
        }
    }

    /// Makes an edit durable and applies it to the state.
    pub(crate) fn propose(&mut self, mut changes: Vec<Change>) -> Outcome {
        changes.push(Change::NextFile { number: self.numbers.peek() });
        let edit = Edit::new(changes);
        // Before it is written: an opening would refuse a manifest with such an edit.
        if !admits(&self.state, &edit) {
            let detail = format!("a manifest edit contradicts its state: {edit:?}");
            return Outcome::Refused(Error::Internal(detail));
        }
        // No bytes of a manifest lead here: the log goes on behind all that it says is flushed, in
        // segments with higher numbers than the one that it names.
        debug_assert!(goes_forward(&self.state, &edit), "the log goes back: {edit:?}");
        if self.starts_another_manifest() {
            let is_sound = self.standing == Standing::Sound;
            match self.begin_another_with(&edit) {
                // There is no space for all of it, and maybe for the edit.
                Outcome::Refused(cause) if is_sound && cause.is_disk_full() => {
                    self.standing = Standing::Sound;
                }
                other => return other,
            }
        }
        if let Err(cause) = self.writer.append(&edit) {
            self.standing = Standing::Uncertain;
            // Tried again by the next edit if it fails.
            return match self.replace() {
                Ok(()) => Outcome::Refused(cause),
                Err(_) => Outcome::Uncertain(cause),
            };
        }
        if self.state.apply(&edit) {
            self.rewrite.note(edit);
            Outcome::Applied
        } else {
            Outcome::Refused(does_not_apply())
        }
    }

    /// Starts another manifest, which begins with the edit.
    fn begin_another_with(&mut self, edit: &Edit) -> Outcome {
        let mut state = self.state.clone();
        if !state.apply(edit) {
            return Outcome::Refused(does_not_apply());
        }
        let number = self.numbers.next();
        match self.replace_by(number, state) {
            Ok(()) => Outcome::Applied,
            Err(cause) => {
                // Which manifest is in force is not known. An earlier edit may be in doubt still.
                self.standing = Standing::Uncertain;
                let current = current::read_current(self.vfs.as_ref(), &self.dir);
                let is_nowhere = current.is_ok_and(|current| current != Some(number));
                if is_nowhere { Outcome::Refused(cause) } else { Outcome::Uncertain(cause) }
            }
        }
    }

    fn is_longer_than(&self, factor: u64) -> bool {
        let bytes = self.writer.bytes();
        bytes > self.least_long_bytes && bytes > factor * self.restated_bytes
    }

    fn path_of(&self, number: u64) -> PathBuf {
        self.dir.join(naming::FileKind::Manifest(number).name())
    }

    fn replace(&mut self) -> Result<()> {
        let number = self.numbers.next();
        self.replace_by(number, self.state.clone())
    }

    /// Starts another manifest that says `state`.
    fn replace_by(&mut self, number: u64, mut state: PersistedState) -> Result<()> {
        // One that is being written beside it would begin with an uncertain end.
        self.rewrite.call_off();
        let old = self.path_of(self.writer.number());
        state.next_file = state.next_file.max(self.numbers.peek());
        let sync = |files| sync_in_turn(self.vfs.as_ref(), &self.dir, files);
        let writer = Self::new_manifest(self.vfs.as_ref(), &self.dir, number, &state, sync)?;
        self.restated_bytes = writer.bytes();
        self.writer = writer;
        self.state = state;
        self.standing = Standing::Sound;
        let uncertain = std::mem::take(&mut self.uncertain);
        self.remove(&uncertain);
        self.families_uncertain = false;
        for in_doubt in self.in_doubt.drain(..) {
            in_doubt.set_in_doubt(false);
        }
        // A leftover is dead, since CURRENT names another file, and removed at the next open.
        let _ = self.vfs.remove(&old);
        Ok(())
    }
}

/// Syncs files, and then the directory, one after the other.
pub(super) fn sync_in_turn(vfs: &dyn Vfs, dir: &Path, files: Vec<Unsynced>) -> Result<()> {
    files.iter().try_for_each(Unsynced::sync)?;
    vfs.sync_dir(dir).map_err(|e| Error::io("sync", dir, e))
}

fn does_not_apply() -> Error {
    Error::Internal("an edit that was checked does not apply".to_owned())
}
