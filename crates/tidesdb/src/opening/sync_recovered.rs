//! Making durable what was recovered, and what an opening has written.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use tidesdb_base::error::{Error, Result};
use tidesdb_files::manifest::Unsynced;
use tidesdb_files::wal::RECORDS_OFFSET;
use tidesdb_lockfree::sync::lock;
use tidesdb_sys::vfs::{File, OpenMode, Vfs};

use super::workers::Workers;
use crate::wal::Retained;

/// Bytes written over themselves at a time.
const REWRITE_BYTES: usize = 1 << 20;

/// What an opening makes durable before anything is built upon it. No part has to come before
/// another: each is about bytes, or about names, that are there already.
enum Part {
    /// What was recovered of a segment.
    Segment(Retained),
    /// A file that nothing refers to yet.
    File(Unsynced),
    /// The names of all of them.
    Names,
}

/// What came of it: for the segments, and for the rest.
#[must_use]
pub(crate) struct Synced {
    pub segments: Result<()>,
    others: Result<()>,
}

impl Synced {
    /// The first failure, that of a segment before others.
    pub(crate) fn all(self) -> Result<()> {
        self.segments.and(self.others)
    }
}

/// What is made durable together with what was recovered.
pub(crate) struct Recovered<'a> {
    pub vfs: &'a Arc<dyn Vfs>,
    pub dir: &'a Path,
    pub segments: &'a [Retained],
    /// What lies in front of it is on disk: its writer had a sync of it succeed, and none fail
    /// before.
    pub synced: u64,
}

impl Recovered<'_> {
    /// Puts on disk what was recovered: from here on it must not be lost to a power cut, since
    /// tables and newer segments will build on it. Beside that, files, and all names. Of a
    /// directory that can't be written nothing will be built upon.
    ///
    /// A sync mostly waits for the disk, so all of them wait together, as far as there are threads.
    ///
    /// CRASH: the process that wrote the segments may have died before it made their names durable.
    /// The sync of the directory does so: no edit is on disk before a new manifest is in force.
    pub(crate) fn sync_with(&self, files: Vec<Unsynced>, workers: &Workers) -> Synced {
        let mut parts: Vec<_> = self.unsynced().cloned().map(Part::Segment).collect();
        parts.extend(files.into_iter().map(Part::File));
        parts.push(Part::Names);
        self.sync(parts, workers)
    }

    /// As [`Recovered::sync_with`], of the segments alone.
    pub(crate) fn sync_alone(&self, workers: &Workers) -> Result<()> {
        self.sync(self.unsynced().cloned().map(Part::Segment).collect(), workers).segments
    }

    fn unsynced(&self) -> impl Iterator<Item = &Retained> {
        // No mark covers the header of a segment without records.
        self.segments.iter().filter(|s| s.end > self.synced || s.end == s.base)
    }

    fn sync(&self, parts: Vec<Part>, workers: &Workers) -> Synced {
        let (vfs, dir, synced) = (Arc::clone(self.vfs), self.dir.to_path_buf(), self.synced);
        let (count, failures) = (parts.len(), Arc::new(Mutex::new(Failures::default())));
        let noted = Arc::clone(&failures);
        let sync = move |at: usize| {
            let Some(part) = parts.get(at) else { return };
            let outcome = match part {
                Part::Segment(segment) => make_durable(vfs.as_ref(), segment, synced),
                Part::File(file) => file.sync(),
                Part::Names => vfs.sync_dir(&dir).map_err(|e| Error::io("sync", &dir, e)),
            };
            if let Err(failure) = outcome {
                let of_segment = matches!(part, Part::Segment(_));
                lock(&noted).note(of_segment, failure);
            }
        };
        let ended = workers.run(count, sync, || ());
        let Failures { segments, others } = std::mem::take(&mut *lock(&failures));
        Synced {
            segments: segments.map_or(Ok(()), Err).and(ended),
            others: others.map_or(Ok(()), Err),
        }
    }
}

/// The first failure of each kind.
#[derive(Default)]
struct Failures {
    segments: Option<Error>,
    others: Option<Error>,
}

impl Failures {
    fn note(&mut self, of_segment: bool, failure: Error) {
        let first = if of_segment { &mut self.segments } else { &mut self.others };
        first.get_or_insert(failure);
    }
}

fn make_durable(vfs: &dyn Vfs, segment: &Retained, synced: u64) -> Result<()> {
    let path = &segment.path;
    let file = match vfs.open(path, OpenMode::ReadWrite) {
        Err(e) if is_read_only(&e) => return sync_as_it_is(vfs, path),
        other => other.map_err(|e| Error::io("open", path, e))?,
    };
    let until = segment.file_bytes.min(RECORDS_OFFSET + (segment.end - segment.base));
    // The header of a segment of which anything is synced was synced with it.
    let from = synced.checked_sub(segment.base).filter(|&records| records > 0);
    let from = from.map_or(0, |records| RECORDS_OFFSET + records).min(until);
    let rewritten = rewrite(file.as_ref(), from, until).and_then(|()| file.sync_data());
    match rewritten {
        Err(e) if is_read_only(&e) => Ok(()),
        other => other.map_err(|e| Error::io("sync", path, e)),
    }
}

/// Syncs a segment that may only be read. Its directory may be one that can be written to: then
/// newer segments build on it.
fn sync_as_it_is(vfs: &dyn Vfs, path: &Path) -> Result<()> {
    match vfs.open(path, OpenMode::Read).and_then(|file| file.sync_data()) {
        // A volume that nothing can be written to has nothing to sync.
        Err(e) if is_read_only(&e) => Ok(()),
        other => other.map_err(|e| Error::io("sync", path, e)),
    }
}

fn is_read_only(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

/// Writes these bytes of a file over themselves. A sync that failed in an earlier process
/// may have left them in the kernel's cache only, taken for written: syncing again would do
/// nothing. Every byte stays what it is, so an interruption does no harm.
fn rewrite(file: &dyn File, from: u64, until: u64) -> io::Result<()> {
    let bytes = usize::try_from(until - from).unwrap_or(REWRITE_BYTES);
    let mut chunk = vec![0; REWRITE_BYTES.min(bytes)];
    let mut at = from;
    while at < until {
        let count = usize::try_from(until - at).map_or(chunk.len(), |left| left.min(chunk.len()));
        let part = chunk.get_mut(..count).unwrap_or_default();
        file.read_exact_at(part, at)?;
        file.write_all_at(part, at)?;
        file.start_write_back(at, count as u64);
        at += count as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use tidesdb_sim::{CrashProfile, FaultError, FaultKind, FaultVfs, Op, OpSet, SimVfs};

    use super::*;

    /// Of another user, say, in a directory that both may write to.
    #[test]
    fn a_segment_that_may_only_be_read_is_synced_all_the_same() {
        let (sim, dir) = (SimVfs::new(1), Path::new("/db"));
        sim.create_dir(dir).unwrap();
        sim.sync_dir(Path::new("/")).unwrap();
        let path = dir.join("1.log");
        let file = sim.open(&path, OpenMode::CreateNew).unwrap();
        file.write_all_at(b"records that are not on disk", 0).unwrap();
        sim.sync_dir(dir).unwrap();
        let file_bytes = file.len().unwrap();
        let end = file_bytes.saturating_sub(RECORDS_OFFSET);
        let unsynced = None;
        let segment = Retained { number: 1, base: 0, end, path, file_bytes, unsynced };
        let faults = FaultVfs::new(Arc::clone(&sim) as _);
        faults.count_only(OpSet::of(&[Op::Open]));
        // The opening for writing; that for reading succeeds.
        let refused = FaultError::Kind(io::ErrorKind::PermissionDenied);
        faults.fail_call(0, FaultKind::Once, refused);
        make_durable(faults.as_ref(), &segment, 0).unwrap();
        assert_eq!(faults.fired(), 1);
        let image = sim.crash_image(CrashProfile::Nothing, 1);
        let left = image.open(&segment.path, OpenMode::Read).unwrap();
        let mut bytes = vec![0; usize::try_from(file_bytes).unwrap()];
        left.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(bytes, b"records that are not on disk");
    }
}
