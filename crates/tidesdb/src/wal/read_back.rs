//! Reading back what was logged a moment ago, for commits that ask which keys have changed since.

use tidesdb_base::entry::SequenceNumber;
use tidesdb_files::wal::record::{self, RecordKind};
use tidesdb_sys::vfs::OpenMode;

use super::Wal;

impl Wal {
    /// Calls `each` with payload and sequence number of the commits behind `since`, up to
    /// `through`; both are ends of records, and all in between is published. False when they can't
    /// be read: they are more than `most_bytes`, not all in the segment that is written now, or
    /// can't be read. Some may have been read then.
    pub(crate) fn read_back(
        &self,
        (since, through): (SequenceNumber, SequenceNumber),
        most_bytes: u64,
        mut each: impl FnMut(&[u8], SequenceNumber),
    ) -> bool {
        let active = self.active.load();
        let length = through.saturating_sub(since);
        if since < active.header.base || length > most_bytes {
            return false;
        }
        let Ok(file) = self.config.vfs.open(&active.path, OpenMode::Read) else { return false };
        let (mut bytes, length) = (Vec::new(), usize::try_from(length).unwrap_or(0));
        if bytes.try_reserve_exact(length).is_err() {
            return false;
        }
        bytes.resize(length, 0);
        if file.read_exact_at(&mut bytes, active.offset_of(since)).is_err() {
            return false;
        }
        let (mut rest, mut position) = (bytes.as_slice(), since);
        while position < through {
            // A file that has begun another life meanwhile holds no record of this segment.
            let Some(view) = record::open(rest, active.header.number, position) else {
                return false;
            };
            position += view.length as u64;
            if view.kind == RecordKind::Commit {
                each(view.payload, position);
            }
            rest = rest.get(view.length..).unwrap_or_default();
        }
        position == through
    }
}
