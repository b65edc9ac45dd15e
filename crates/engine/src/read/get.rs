//! Getting one key.

use std::cell::RefCell;
use std::sync::Arc;

use tidesdb_base::entry::{SequenceNumber, ValueKind, is_expired};
use tidesdb_base::error::{Error, Result};
use tidesdb_files::filter::key_hash;
use tidesdb_files::sstable::{BlockSource, Found};
use tidesdb_files::vlog::ValuePointer;
use tidesdb_lockfree::prefetch::prefetch;

use crate::cache::BlockCache;
use crate::core::Core;
use crate::family::{FamilyState, View};
use crate::memtable::kind_of;
use crate::version::{ValueLogFile, Version};

/// A version in a table, with the block that it lies in.
type FoundInTable = Found<<BlockCache as BlockSource>::Block>;

/// How many filters a get has the processor fetch before it asks the first of them.
const FILTERS_AT_ONCE: usize = 4;

thread_local! {
    static FETCHED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Buffers larger than this are not kept for the thread's next read.
const LARGEST_KEPT_BYTES: usize = 4 << 20;

impl Core {
    /// Calls `read` with the value that `key` has at `snapshot`, or now.
    ///
    /// # Errors
    /// See [`crate::Family::get`].
    #[inline]
    pub(crate) fn get_with<R>(
        &self,
        family: &FamilyState,
        snapshot: Option<SequenceNumber>,
        key: &[u8],
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        if key.is_empty() {
            return Err(Error::InvalidArgument("the key is empty".to_owned()));
        }
        self.check_readable(family)?;
        // The view first: it holds every commit published before it was loaded, and of what is
        // published later nothing can be missed, since merges of this view's files never drop
        // the newest version that is visible.
        let view = family.view.load();
        let snapshot = snapshot.unwrap_or_else(|| self.log.published());
        self.get_in_view(family, &view, snapshot, key, read)
    }

    #[inline]
    fn get_in_view<R>(
        &self,
        family: &FamilyState,
        view: &View,
        snapshot: SequenceNumber,
        key: &[u8],
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        for memtable in std::iter::once(&view.active).chain(&view.frozen) {
            let snapshot = memtable.visible_through(snapshot);
            let version = memtable.get(key, snapshot);
            // All that lies further down is older than whatever this memtable deletes.
            if memtable.hides(key, version.map_or(0, |version| version.seq), snapshot) {
                return Ok(None);
            }
            if let Some(version) = version {
                let found = (kind_of(&version), version.expires_at, version.value);
                // The value log may have come after the view, with a commit into its memtable.
                let current = || family.current_version();
                return self.answer(&view.version, current, found, read);
            }
        }
        if view.version.runs.is_empty() {
            return Ok(None);
        }
        family.reads.note();
        self.get_from_tables(view, snapshot, key, read)
    }

    fn get_from_tables<R>(
        &self,
        view: &View,
        snapshot: SequenceNumber,
        key: &[u8],
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        let Some(found) = self.find_in_tables(&view.version, snapshot, key)? else {
            return Ok(None);
        };
        let meta = found.meta();
        if view.version.range_tombstones.hides(key, meta.seq, snapshot) {
            return Ok(None);
        }
        let found = (meta.kind, meta.expires_at, found.value());
        self.answer(&view.version, || Arc::clone(&view.version), found, read)
    }

    /// The newest version of `key` in any table.
    #[inline]
    fn find_in_tables(
        &self,
        version: &Version,
        snapshot: SequenceNumber,
        key: &[u8],
    ) -> Result<Option<FoundInTable>> {
        let hash = key_hash(key);
        let (deleted, blocks) = (&version.range_tombstones, self.files.blocks.as_ref());
        let files = version.runs.iter().filter_map(|run| run.table_for(key));
        let mut files = files
            .filter(|file| !deleted.hides(key, file.record.highest_sequence, snapshot))
            .peekable();
        while files.peek().is_some() {
            // The lines of some filters are fetched at once: each is a line of memory that nothing
            // keeps in the cache, and there are more filters to ask than any other thing.
            let mut some = [const { None }; FILTERS_AT_ONCE];
            for (place, file) in some.iter_mut().zip(&mut files) {
                let open = file.if_open();
                if let Some(line) = open.as_ref().and_then(|table| table.filter_line(hash)) {
                    prefetch(line);
                }
                *place = Some((file, open));
            }
            // Files are opened, and errors met, only as far as the key is looked for.
            for (file, open) in some.into_iter().flatten() {
                let open = file.opened(open)?;
                let Some(table) = open.as_ref().filter(|table| table.may_contain(hash)) else {
                    continue;
                };
                let found = table.lookup(key, snapshot, blocks)?;
                if found.is_some() {
                    return Ok(found);
                }
            }
        }
        Ok(None)
    }

    /// What a version found means to the caller. `newer` is asked for a value log that `version` does
    /// not know.
    #[inline]
    fn answer<R>(
        &self,
        version: &Version,
        newer: impl FnOnce() -> Arc<Version>,
        (kind, expires_at, value): (ValueKind, u64, &[u8]),
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        if expires_at != 0 && is_expired(expires_at, self.clock.unix_seconds()) {
            return Ok(None);
        }
        match kind {
            ValueKind::Tombstone | ValueKind::SingleTombstone | ValueKind::RangeTombstone => {
                Ok(None)
            }
            ValueKind::Value => Ok(Some(read(value))),
            ValueKind::ValuePointer => {
                // Taken out of its cell: the caller may read other keys meanwhile.
                let mut fetched = FETCHED.take();
                let result = fetch(version, newer, value, &mut fetched);
                let result = result.map(|()| Some(read(&fetched)));
                if fetched.capacity() <= LARGEST_KEPT_BYTES {
                    FETCHED.set(fetched);
                }
                result
            }
        }
    }
}

/// Fetches the value that an encoded pointer of this version's tables or memtables points at.
///
/// # Errors
/// [`Error::Corruption`] when the pointer or the value is damaged; [`Error::Io`].
pub(crate) fn read_pointer(version: &Version, encoded: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let (pointer, file) = resolve(version, encoded)?;
    file.read(&pointer, out)
}

/// Where an encoded pointer of this version's tables or memtables points.
///
/// # Errors
/// [`Error::Corruption`] when the pointer is damaged or its file is unknown.
pub(crate) fn resolve<'v>(
    version: &'v Version,
    encoded: &[u8],
) -> Result<(ValuePointer, &'v ValueLogFile)> {
    let pointer = decode(encoded)?;
    let file = version.value_logs.get(&pointer.file).ok_or_else(|| unknown_file(&pointer))?;
    Ok((pointer, file))
}

/// Like [`read_pointer`]; a value log that `version` does not know is looked up in `newer`.
fn fetch(
    version: &Version,
    newer: impl FnOnce() -> Arc<Version>,
    encoded: &[u8],
    out: &mut Vec<u8>,
) -> Result<()> {
    let pointer = decode(encoded)?;
    match version.value_logs.get(&pointer.file) {
        Some(file) => file.read(&pointer, out),
        None => read_pointer(&newer(), encoded, out),
    }
}

fn decode(encoded: &[u8]) -> Result<ValuePointer> {
    ValuePointer::decode(encoded)
        .map_err(|_| Error::corruption("value pointer", 0, "the pointer does not decode"))
}

#[cold]
fn unknown_file(pointer: &ValuePointer) -> Error {
    let name = tidesdb_files::naming::FileKind::ValueLog(pointer.file).name();
    Error::corruption(name, pointer.offset, "the value-log file is unknown")
}

#[cfg(test)]
mod tests {
    use tidesdb_base::limits::DIRECT_VALUE_BYTES;
    use tidesdb_base::options::{DbOptions, FamilyOptions};

    use super::FILTERS_AT_ONCE;
    use crate::db::{Components, Db};

    /// A reader was interrupted between loading the view and the published position. In between,
    /// the family got its first value log.
    #[test]
    fn a_value_in_a_log_that_is_newer_than_the_view_is_found() {
        let db = Db::open_with("/db", DbOptions::default(), Components::simulated()).unwrap();
        let family = db.create_family("values", FamilyOptions::default()).unwrap();
        let (core, state) = (db.core(), family.state());
        let view = state.view.load_full();
        let value = vec![7; DIRECT_VALUE_BYTES];
        family.put(b"key", &value).unwrap();
        assert!(view.version.value_logs.is_empty(), "nothing was put to the test");
        let now = core.log.published();
        let found = core.get_in_view(state, &view, now, b"key", <[u8]>::to_vec).unwrap();
        assert_eq!(found, Some(value));
    }

    /// Runs are asked a few at a time.
    #[test]
    fn each_of_many_runs_is_asked_newest_first() {
        let db = Db::open_with("/db", DbOptions::default(), Components::simulated()).unwrap();
        // None of them is merged.
        let options = FamilyOptions { l1_file_count_trigger: 100, ..FamilyOptions::default() };
        let family = db.create_family("values", options).unwrap();
        let runs = 3 * FILTERS_AT_ONCE as u8 + 1;
        for run in 0..runs {
            // All runs span the same keys.
            for key in [[0, 0], [1, run], [2, run / 2], [9, 9]] {
                family.put(&key, &[run]).unwrap();
            }
            family.flush().unwrap();
        }
        assert_eq!(family.state().current_version().runs.len(), usize::from(runs));
        for run in 0..runs {
            assert_eq!(family.get(&[1, run]).unwrap(), Some(vec![run]), "only in one of them");
            let newer = (run / 2 * 2 + 1).min(runs - 1);
            assert_eq!(family.get(&[2, run / 2]).unwrap(), Some(vec![newer]), "in two of them");
        }
        assert_eq!(family.get(&[0, 0]).unwrap(), Some(vec![runs - 1]));
        assert_eq!(family.get(&[1, runs]).unwrap(), None);
    }
}
