//! Making durable what was recovered.

use std::io;

use tidesdb_base::error::{Error, Result};
use tidesdb_files::wal::RECORDS_OFFSET;
use tidesdb_sys::vfs::{File, OpenMode, Vfs};

use crate::wal::Retained;

/// Bytes written over themselves at a time.
const REWRITE_BYTES: usize = 1 << 20;

/// Puts on disk what was recovered: from here on it must not be lost to a power cut, since tables
/// and newer segments will build on it. What lies in front of `synced` is on disk: its writer had a
/// sync of it succeed, and none fail before. Of a directory that can't be written nothing will be
/// built upon.
///
/// CRASH: the process that wrote them may have died before it made their names durable. The sync of
/// the directory that follows does so: no edit is on disk before a new manifest has its name.
///
/// # Errors
/// [`Error::Io`].
pub(crate) fn make_durable(vfs: &dyn Vfs, retained: &[Retained], synced: u64) -> Result<()> {
    // No mark covers the header of a segment without records.
    let may_be_lost = |s: &&Retained| s.end > synced || s.end == s.base;
    for segment in retained.iter().filter(may_be_lost) {
        let path = &segment.path;
        let file = match vfs.open(path, OpenMode::ReadWrite) {
            Err(e) if is_read_only(&e) => continue,
            other => other.map_err(|e| Error::io("open", path, e))?,
        };
        let until = segment.file_bytes.min(RECORDS_OFFSET + (segment.end - segment.base));
        // The header of a segment of which anything is synced was synced with it.
        let from = synced.checked_sub(segment.base).filter(|&records| records > 0);
        let from = from.map_or(0, |records| RECORDS_OFFSET + records).min(until);
        let rewritten = rewrite(file.as_ref(), from, until).and_then(|()| file.sync_data());
        match rewritten {
            Err(e) if is_read_only(&e) => {}
            other => other.map_err(|e| Error::io("sync", path, e))?,
        }
    }
    Ok(())
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
