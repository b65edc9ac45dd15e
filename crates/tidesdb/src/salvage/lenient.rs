//! A file of which not every byte can be read.
//!
//! A disk that fails returns an error for reads of some sectors. [`LenientFile`] gives zeros for a
//! page that can't be read, so that the parts around it are reached; whatever lay there fails its
//! checksum. Only what the kernel says of the medium counts so ([`vfs::means_damage`]). Any other
//! error, such as a descriptor or a permission that is missing, says nothing of the bytes: it is
//! passed on and ends the work. Read-only; shared by all threads.

use std::io;
use std::sync::Arc;

use tidesdb_base::error::Error;
use tidesdb_sys::vfs::{self, File, ReadAt};

/// Bytes that are given up together.
const PAGE_BYTES: u64 = 4096;

/// Whether an error of an opening or a read means that files are damaged: stored bytes are not what
/// was written, or the system blames the disk or the file system. `find_damage` tells more then.
/// Any other error of the system, such as a missing permission, says nothing of the data.
#[must_use]
pub fn means_damage(error: &Error) -> bool {
    match error {
        Error::Io { source, .. } => vfs::means_damage(source),
        other => other.is_corruption(),
    }
}

/// A file that reads zeros where the disk can't be read.
#[derive(Debug)]
pub(crate) struct LenientFile(pub(crate) Arc<dyn File>);

impl ReadAt for LenientFile {
    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        let error = match self.0.read_at(buffer, at) {
            Err(e) if vfs::means_damage(&e) => e,
            other => return other,
        };
        let left = self.0.len()?.saturating_sub(at);
        let page = (PAGE_BYTES - at % PAGE_BYTES).min(left);
        let count = usize::try_from(page).unwrap_or(usize::MAX).min(buffer.len());
        let Some(piece) = buffer.get_mut(..count).filter(|piece| !piece.is_empty()) else {
            return Err(error);
        };
        match self.0.read_at(piece, at) {
            Ok(read) if read > 0 => Ok(read),
            Err(e) if !vfs::means_damage(&e) => Err(e),
            _ => {
                piece.fill(0);
                Ok(count)
            }
        }
    }

    fn file_len(&self) -> io::Result<u64> {
        self.0.len()
    }
}
