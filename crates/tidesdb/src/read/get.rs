//! Getting one key.

use std::cell::Cell;

use tidesdb_base::entry::{SequenceNumber, ValueKind, is_expired};
use tidesdb_base::error::Result;
use tidesdb_base::latency::TimedOperation;
use tidesdb_base::thread_buffer::{keep_buffer, take_buffer};
use tidesdb_files::filter::key_hash;
use tidesdb_files::sstable::Found;
use tidesdb_lockfree::ordered::ValueVersion;
use tidesdb_lockfree::prefetch::prefetch;
use tidesdb_lockfree::snapshot_registry::ReadPoint;
use tidesdb_lockfree::stripe::ThisThread;

use super::copy_into;
use crate::cache::{HeldBlock, TalliedBlocks};
use crate::core::Core;
use crate::family::{FamilyState, View};
use crate::memtable::kind_of;
use crate::telemetry::counters::{Hot, ReadTally, tick};
use crate::telemetry::timing::TimedCall;
use crate::version::{FilterAnswer, Version, decode_pointer, unknown_file};

/// A version in a table, with the block that it lies in.
pub(super) type FoundInTable = Found<HeldBlock>;

/// How many filters a get has the processor fetch before it asks the first of them.
const FILTERS_AT_ONCE: usize = 4;

thread_local! {
    static FETCHED: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Buffers larger than this are not kept for the thread's next read.
const LARGEST_KEPT_BYTES: usize = 4 << 20;

impl Core {
    /// Calls `read` with the value that `key` has at a registered read point, or now.
    ///
    /// # Errors
    /// See [`crate::Family::get`].
    #[inline]
    pub(crate) fn get_with<R>(
        &self,
        family: &FamilyState,
        read_point: Option<ReadPoint>,
        key: &[u8],
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        let stored = family.keys.stored_key(key)?;
        let order = &family.keys.order;
        self.get_stored(family, read_point, &stored, |value| read(order.value(value)))
    }

    /// As [`Core::get_with`], with a stored key, and the value as it is stored.
    ///
    /// # Errors
    /// See [`crate::Family::get`].
    #[inline]
    pub(crate) fn get_stored<R>(
        &self,
        family: &FamilyState,
        read_point: Option<ReadPoint>,
        key: &[u8],
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        self.health.check_readable(family)?;
        let get = Get::new(self, family, key, read_point);
        let found =
            if self.telemetry.latencies.is_due() { get.look_timed(read) } else { get.look(read) }?;
        if found.is_none() {
            family.check_view()?;
        }
        Ok(found)
    }
}

/// A read of one key.
pub(super) struct Get<'a> {
    core: &'a Core,
    pub(super) family: &'a FamilyState,
    pub(super) key: &'a [u8],
    /// None for now.
    read_point: Option<ReadPoint>,
    /// A value log that nothing knows is damage, not the mark of an old view.
    is_last_try: bool,
    /// What it has met.
    pub(super) tally: ReadTally,
}

/// What the memtables of a view say of a key.
pub(super) enum InMemory<'v> {
    /// All versions are hidden by a range deletion.
    Dead,
    /// The newest version.
    Version(ValueVersion<'v>),
    /// Nothing: the tables may have it.
    Unknown,
}

impl<'a> Get<'a> {
    #[inline]
    pub(super) fn new(
        core: &'a Core,
        family: &'a FamilyState,
        key: &'a [u8],
        read_point: Option<ReadPoint>,
    ) -> Self {
        let tally = ReadTally::default();
        Self { core, family, key, read_point, is_last_try: false, tally }
    }
}

impl Get<'_> {
    #[inline]
    fn look<R>(&self, read: impl FnOnce(&[u8]) -> R) -> Result<Option<R>> {
        // The view first: it holds every commit published before it was loaded, and of what is
        // published later nothing can be missed, since compactions of this view's files never drop
        // the newest version that is visible.
        let view = self.family.view.load();
        self.look_in_view(&view, read)
    }

    #[inline(never)]
    fn look_timed<R>(&self, read: impl FnOnce(&[u8]) -> R) -> Result<Option<R>> {
        let (core, tally) = (self.core, &self.tally);
        let started = core.telemetry.start_timing();
        let result = self.look(read);
        let call = TimedCall {
            operation: TimedOperation::Get,
            family: Some(self.family),
            bytes: self.key.len() as u64,
            operations: 1,
        };
        core.telemetry.end_timing(started, call, || tally.profile());
        result
    }

    #[inline]
    fn look_in_view<R>(&self, view: &View, read: impl FnOnce(&[u8]) -> R) -> Result<Option<R>> {
        let snapshot = self.snapshot();
        match self.look_in_memtables(view, snapshot) {
            InMemory::Dead => return Ok(None),
            InMemory::Version(version) => {
                let found = (kind_of(&version), version.expires_at, version.value);
                return self.value_of(&view.version, found, read);
            }
            InMemory::Unknown => {}
        }
        if view.version.runs.is_empty() {
            return Ok(None);
        }
        self.family.reads.activity.note();
        self.look_in_tables(view, snapshot, read)
    }

    /// Everything committed up to here is seen. Asked once for each view, after it was loaded.
    #[inline]
    pub(super) fn snapshot(&self) -> SequenceNumber {
        match self.read_point {
            Some(read_point) => read_point.sequence,
            None => self.core.storage.log.published(),
        }
    }

    /// Searches the active memtable, then the frozen ones.
    // Always inlined: most gets find nothing there, and a call would take a third of that.
    #[inline(always)]
    pub(super) fn look_in_memtables<'v>(
        &self,
        view: &'v View,
        snapshot: SequenceNumber,
    ) -> InMemory<'v> {
        for memtable in std::iter::once(&view.active).chain(&view.frozen) {
            tick(&self.tally.memtables_searched);
            let snapshot = memtable.visible_through(snapshot);
            let version = memtable.get(self.key, snapshot);
            // All that lies further down is older than whatever this memtable deletes.
            if memtable.hides(self.key, version.map_or(0, |version| version.seq), snapshot) {
                return InMemory::Dead;
            }
            if let Some(version) = version {
                return InMemory::Version(version);
            }
        }
        InMemory::Unknown
    }

    fn look_in_tables<R>(
        &self,
        view: &View,
        snapshot: SequenceNumber,
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        let thread = ThisThread::get();
        let found = self.find_in_tables(&view.version, snapshot, thread);
        self.family.counters.hot.add_table_gets(thread, 1, &self.tally);
        let Some(found) = found? else { return Ok(None) };
        let meta = found.meta();
        if view.version.range_tombstones.hides(self.key, meta.seq, snapshot) {
            return Ok(None);
        }
        let found = (meta.kind, meta.expires_at, found.value());
        self.value_of(&view.version, found, read)
    }

    /// The newest version of `key` in any table.
    #[inline]
    pub(super) fn find_in_tables(
        &self,
        version: &Version,
        snapshot: SequenceNumber,
        thread: ThisThread,
    ) -> Result<Option<FoundInTable>> {
        let (key, hash) = (self.key, key_hash(self.key));
        let (deleted, tally) = (&version.range_tombstones, &self.tally);
        let cache = self.core.storage.files.blocks.as_ref();
        let blocks = TalliedBlocks { cache, tally, thread };
        let files = version.runs.iter().filter_map(|run| run.table_for(key));
        let mut files = files
            .filter(|file| !deleted.hides(key, file.record.highest_sequence, snapshot))
            .peekable();
        while files.peek().is_some() {
            // The lines of some filters are fetched at once: each is a line of memory that nothing
            // keeps in the cache, and there are more filters to ask than any other thing.
            let mut some = [const { None }; FILTERS_AT_ONCE];
            let mut taken = 0;
            for (place, file) in some.iter_mut().zip(&mut files) {
                let open = file.if_open();
                if let Some(word) = open.as_ref().and_then(|table| table.filter_word(hash)) {
                    prefetch(word);
                }
                *place = Some((file, open));
                taken += 1;
            }
            // Files are opened, and errors met, only as far as the key is looked for.
            for (at, (file, open)) in some.into_iter().flatten().enumerate() {
                let open = file.opened(open)?;
                let Some(table) = open.as_ref() else { continue };
                let is_last = || at + 1 == taken && files.peek().is_none();
                let answer = file.ask_filter(table, hash, is_last, &blocks)?;
                if answer != FilterAnswer::Unasked {
                    tick(&tally.filters_asked);
                }
                if answer == FilterAnswer::Excludes {
                    tick(&tally.filters_excluded);
                    continue;
                }
                tick(&tally.tables_searched);
                let found = table.lookup(key, snapshot, &blocks)?;
                if table.is_in_parts() {
                    file.found_in_parts(found.is_some());
                }
                if found.is_some() {
                    return Ok(found);
                }
                if answer == FilterAnswer::Passes {
                    tick(&tally.filters_wrong);
                }
            }
        }
        Ok(None)
    }

    /// What a version found means to the caller.
    #[inline]
    pub(super) fn value_of<R>(
        &self,
        version: &Version,
        (kind, expires_at, value): (ValueKind, u64, &[u8]),
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        if expires_at != 0 && is_expired(expires_at, self.now()) {
            return Ok(None);
        }
        match kind {
            ValueKind::Tombstone | ValueKind::SingleTombstone | ValueKind::RangeTombstone => {
                Ok(None)
            }
            ValueKind::Value => Ok(Some(read(value))),
            ValueKind::ValuePointer => self.fetch_for(version, value, read),
        }
    }

    /// Calls `read` with the value that a pointer found with `version` points at.
    #[inline(never)]
    fn fetch_for<R>(
        &self,
        version: &Version,
        encoded: &[u8],
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        // Taken out of its cell: the caller may read other keys meanwhile.
        let mut fetched = take_buffer(&FETCHED);
        let result = self.fetch(version, encoded, &mut fetched);
        let result = result.map(|is_there| is_there.then(|| read(&fetched)));
        keep_buffer(&FETCHED, fetched, LARGEST_KEPT_BYTES);
        result
    }

    pub(super) fn now(&self) -> u64 {
        self.read_point
            .map_or_else(|| self.core.env.clock.unix_seconds(), |read_point| read_point.now)
    }

    /// Fetches the value that a pointer found with `version` points at; false when the key has none
    /// any more.
    pub(super) fn fetch(
        &self,
        version: &Version,
        encoded: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<bool> {
        let pointer = decode_pointer(version, encoded)?;
        tick(&self.tally.values_read);
        self.family.counters.hot.add(Hot::ValuesRead, 1);
        if let Some(file) = version.value_logs.get(&pointer.file) {
            return file.read(&pointer, out).map(|()| true);
        }
        // The value log may have come after the view, with a commit into its memtable. It may even
        // have been collected since: then the view of now has the value elsewhere.
        let current = self.family.current_version();
        match current.value_logs.get(&pointer.file) {
            Some(file) => file.read(&pointer, out).map(|()| true),
            None if self.is_last_try => Err(unknown_file(&current, &pointer)),
            None => self.fetch_again(out),
        }
    }

    /// Looks once more, with a view of now.
    #[cold]
    fn fetch_again(&self, out: &mut Vec<u8>) -> Result<bool> {
        let view = self.family.view.load();
        let again = Get {
            is_last_try: true,
            ..Get::new(self.core, self.family, self.key, self.read_point)
        };
        let copy = |value: &[u8]| {
            out.clear();
            copy_into(value, out)
        };
        Ok(again.look_in_view(&view, copy)?.transpose()?.is_some())
    }
}

#[cfg(test)]
mod tests;
