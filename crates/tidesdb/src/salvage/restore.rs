//! Makes a verified copy of a backup.
//!
//! The files are copied as they are, `CURRENT` last, so a copy that was interrupted is no database.
//! Then the copy is opened for reading and read in full.

use std::path::Path;
use std::sync::Arc;

use tidesdb_base::error::{Error, Result};
use tidesdb_base::options::DbOptions;
use tidesdb_base::progress::Progress;
use tidesdb_files::naming::FileKind;
use tidesdb_sys::vfs::{OpenMode, RealVfs, Vfs};

use crate::Db;

use crate::salvage::place::Place;
use crate::salvage::source::Source;

/// Bytes copied at a time.
const PIECE_BYTES: u64 = 1 << 20;

/// What a restore did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Restored {
    /// Files copied.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Entries that were read back: those of tables, and keys of the log.
    pub entries: u64,
}

/// Copies the database in `backup` to `destination`, which must be absent or an empty directory,
/// and reads the copy back. The backup may be any database that is not being written: a backup, a
/// checkpoint, or one that was closed or killed.
///
/// # Errors
/// [`Error::NotEmpty`] for the destination; [`Error::Locked`] when the backup is open for writing;
/// [`Error::NotADatabase`]; [`Error::Corruption`] when the copy is damaged, which is removed then;
/// [`Error::Io`].
pub fn restore(
    backup: &Path,
    destination: &Path,
    progress: &mut dyn FnMut(Progress) -> Result<()>,
) -> Result<Restored> {
    let source = Source::open(backup)?;
    source.check_is_elsewhere(destination)?;
    let vfs: Arc<dyn Vfs> = Arc::new(RealVfs::new());
    let place = Place::prepare(Arc::clone(&vfs), destination)?;
    let restored = copy_all(vfs.as_ref(), &source, place.working(), progress);
    match restored.and_then(|restored| verify(place.working(), restored, progress)) {
        Ok(restored) => place.take().map(|()| restored),
        Err(e) => {
            let e = of_the_backup(e, &source.dir, place.working());
            place.abandon();
            Err(e)
        }
    }
}

/// Damage is that of the backup, whose copy is removed.
fn of_the_backup(error: Error, backup: &Path, copy: &Path) -> Error {
    match error {
        Error::Corruption { file, offset, detail } => match file.strip_prefix(copy) {
            Ok(name) => Error::corruption(backup.join(name), offset, detail),
            Err(_) => Error::corruption(file, offset, detail),
        },
        other => other,
    }
}

fn copy_all(
    vfs: &dyn Vfs,
    source: &Source,
    to: &Path,
    progress: &mut dyn FnMut(Progress) -> Result<()>,
) -> Result<Restored> {
    let copied =
        |kind: &FileKind| !matches!(kind, FileKind::Closed | FileKind::Lock | FileKind::EventLog);
    let mut files: Vec<_> = source.files.iter().filter(|(kind, _)| copied(kind)).copied().collect();
    // What makes it a database comes last.
    files.sort_by_key(|(kind, _)| *kind == FileKind::Current);
    let total = files.iter().map(|(_, len)| len).sum();
    let mut restored = Restored::default();
    for (kind, len) in files {
        if kind == FileKind::Current {
            vfs.sync_dir(to).map_err(|e| Error::io("sync", to, e))?;
        }
        let (from, target) = (source.path(kind), to.join(kind.name()));
        // A page that the disk can't read must not become zeros of the copy.
        let from = vfs.open(&from, OpenMode::Read).map_err(|e| Error::io("open", &from, e))?;
        let file = vfs.open(&target, OpenMode::CreateNew);
        let file = file.map_err(|e| Error::io("create", &target, e))?;
        let mut at = 0;
        while at < len {
            let count = (len - at).min(PIECE_BYTES);
            let mut piece = vec![0; usize::try_from(count).unwrap_or(0)];
            let path = source.path(kind);
            from.read_exact_at(&mut piece, at).map_err(|e| Error::io("read", path, e))?;
            file.write_all_at(&piece, at).map_err(|e| Error::io("write", &target, e))?;
            at += count;
            restored.bytes += count;
            progress(Progress::at("copying", restored.bytes, total))?;
        }
        file.sync_data().map_err(|e| Error::io("sync", &target, e))?;
        restored.files += 1;
    }
    vfs.sync_dir(to).map_err(|e| Error::io("sync", to, e))?;
    Ok(restored)
}

fn verify(
    copy: &Path,
    restored: Restored,
    progress: &mut dyn FnMut(Progress) -> Result<()>,
) -> Result<Restored> {
    let db = Db::open(copy, DbOptions::default().read_only(true))?;
    let report = db.verify_with_progress(progress)?;
    db.close()?;
    match report.problems.into_iter().next() {
        None => Ok(Restored { entries: report.entries + report.keys_in_memory, ..restored }),
        Some(problem) => Err(problem),
    }
}
