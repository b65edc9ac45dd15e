//! The value logs of a family that grow: flushes and compactions append to them until they are
//! full, which follows from how many bytes of values the family has.
//!
//! If each flush made a file of its own, a family would have as many value logs as flushes. Its
//! tables would point into most of them, so what is known of tables would grow as tables times
//! logs, and each new version would count all of that. Where a full log is a fixed part of all
//! values there are about as many logs at any size, and what is known grows as the tables do.
//!
//! ```text
//! idle in `GrowingValueLogs` --take--> `GrowingValueLog`, of one output --keep--> idle, longer
//!         ^                                   |    |                        `---> full: settled
//!         `------ cut to where it ended ------'    `--- may be named: settled as it was, not cut
//! ```
//!
//! The manifest names such a file with a length of 0 until it is full, as it does with those that
//! commits append to. One that a crash leaves is not appended to again.

use std::path::Path;
use std::sync::{Arc, Mutex};

use tidesdb_base::compress::Compression;
use tidesdb_base::error::Result;
use tidesdb_files::manifest::ValueLogRecord;
use tidesdb_files::vlog::{ValuePointer, VlogSummary};
use tidesdb_lockfree::sync::lock;
use tidesdb_sys::vfs::{File, Vfs};

use super::{Extent, OpenForAppending, ValueLogAppender, ValueLogFile, ValueLogLife};

/// A log is full when it has one part in so many of the family's values. Those of the time when the
/// family was smaller are smaller: ten times the values add two to three thousand logs. A log is
/// collected as a whole, so a larger part would have more garbage wait for that.
const MOST_VALUE_LOGS: u64 = 1024;

/// A log that is smaller than the write buffer is full when it has one part in so many: one that
/// is not full keeps its garbage.
const PART_OF_SMALL: u64 = 32;

/// More than these are not kept to be appended to: each keeps its garbage. Outputs of many threads
/// or families at once may begin that many.
const MOST_IDLE: usize = 8;

/// A log of so many bytes is full, whatever the family has: a compaction that collects one moves
/// what is alive of it. It may be longer by what the last output has appended.
const LARGEST_FULL_BYTES: u64 = 4 << 30;

/// From how many bytes on a value log is full, in a family with so many bytes of values.
pub(crate) fn full_value_log_bytes(value_bytes: u64, write_buffer_bytes: u64) -> u64 {
    let of_small = write_buffer_bytes.min(value_bytes / PART_OF_SMALL);
    of_small.max(value_bytes / MOST_VALUE_LOGS).min(LARGEST_FULL_BYTES)
}

/// The growing value logs of a family that no output appends to now.
#[derive(Debug, Default)]
pub(crate) struct GrowingValueLogs(Mutex<Idle>);

#[derive(Debug, Default)]
struct Idle {
    appenders: Vec<ValueLogAppender>,
    /// The family is dropped.
    ended: bool,
}

impl GrowingValueLogs {
    /// Takes out the longest, for an output that appends to it.
    pub(crate) fn take(self: &Arc<Self>, vfs: &Arc<dyn Vfs>) -> Option<GrowingValueLog> {
        let appenders = &mut lock(&self.0).appenders;
        let lengths = appenders.iter().map(|appender| appender.summary.file_len).enumerate();
        let (longest, _) = lengths.max_by_key(|(_, length)| *length)?;
        let appender = appenders.swap_remove(longest);
        let before = Some(appender.summary);
        Some(GrowingValueLog::of(self, vfs, appender, before))
    }

    /// Whether tables point into none of some of them, of which `is_used` tells.
    pub(crate) fn has_unused(&self, is_used: impl Fn(u64) -> bool) -> bool {
        lock(&self.0).appenders.iter().any(|appender| !is_used(appender.options.number))
    }

    /// Appends to none of those any more, so that they go.
    pub(crate) fn settle_unused(&self, is_used: impl Fn(u64) -> bool) {
        let mut idle = lock(&self.0);
        let unused = idle.appenders.extract_if(.., |log| !is_used(log.options.number));
        unused.for_each(|appender| settle(&appender.known, appender.summary.file_len));
    }

    /// Appends to none of them any more. Returns what the manifest is to say of them.
    pub(crate) fn settle_all(&self) -> Vec<ValueLogRecord> {
        let ended = std::mem::take(&mut lock(&self.0).appenders).into_iter().map(|appender| {
            let (number, bytes) = (appender.options.number, appender.summary.file_len);
            settle(&appender.known, bytes);
            ValueLogRecord { number, bytes }
        });
        ended.collect()
    }

    /// The family is dropped: lets go of them, and of those that outputs have when they are done.
    pub(crate) fn end(&self) {
        let idle = Idle { appenders: Vec::new(), ended: true };
        drop(std::mem::replace(&mut *lock(&self.0), idle));
    }

    fn give(&self, appender: ValueLogAppender) {
        let mut idle = lock(&self.0);
        if idle.appenders.len() >= MOST_IDLE {
            settle(&appender.known, appender.summary.file_len);
        } else if !idle.ended {
            idle.appenders.push(appender);
        }
    }
}

/// Nothing is appended any more to a file that has so many bytes.
fn settle(known: &ValueLogFile, bytes: u64) {
    let extent = Extent::whole(bytes);
    known.change_life(|life| *life = ValueLogLife::Settled { extent });
}

/// A value log that an output appends to. When this is dropped, it is as it was before, unless an
/// edit may name what points into it.
#[derive(Debug)]
pub(crate) struct GrowingValueLog {
    of: Arc<GrowingValueLogs>,
    vfs: Arc<dyn Vfs>,
    /// `None` when all is over.
    appender: Option<ValueLogAppender>,
    known: Arc<ValueLogFile>,
    /// What the file held before; `None` of a new one, which is removed with the output.
    before: Option<VlogSummary>,
    /// What it holds since the output is complete.
    after: VlogSummary,
    is_full: bool,
    may_be_named: bool,
    sync_failed: bool,
}

impl GrowingValueLog {
    /// A new file.
    pub(crate) fn new(
        of: &Arc<GrowingValueLogs>,
        vfs: &Arc<dyn Vfs>,
        appender: ValueLogAppender,
    ) -> Self {
        Self::of(of, vfs, appender, None)
    }

    fn of(
        of: &Arc<GrowingValueLogs>,
        vfs: &Arc<dyn Vfs>,
        appender: ValueLogAppender,
        before: Option<VlogSummary>,
    ) -> Self {
        Self {
            of: Arc::clone(of),
            vfs: Arc::clone(vfs),
            known: Arc::clone(&appender.known),
            after: appender.summary,
            appender: Some(appender),
            before,
            is_full: false,
            may_be_named: false,
            sync_failed: false,
        }
    }

    /// Opens the file, to compress what comes now by this codec. False when it can't be opened:
    /// then it is not appended to any more.
    pub(crate) fn open(&mut self, compression: Compression) -> bool {
        let Some(appender) = &mut self.appender else { return false };
        appender.options.compression = compression;
        let is_open = !self.known.is_damaged() && appender.open(self.vfs.as_ref()).is_ok();
        if !is_open {
            self.give_up();
        }
        is_open
    }

    fn opened(&mut self) -> Option<&mut OpenForAppending> {
        self.appender.as_mut()?.open.as_mut()
    }

    /// Appends a value to the open file. Returns the pointer to it and the length of the file.
    ///
    /// # Errors
    /// As [`tidesdb_files::vlog::VlogWriter::append`].
    pub(crate) fn append(&mut self, value: &[u8]) -> Result<(ValuePointer, u64)> {
        let closed = || tidesdb_base::Error::Internal("no open value log".to_owned());
        let open = self.opened().ok_or_else(closed)?;
        let pointer = open.writer.append(value)?;
        Ok((pointer, open.writer.file_len()))
    }

    /// Length of the file without what is appended.
    pub(crate) fn bytes_before(&self) -> u64 {
        self.before.map_or(0, |before| before.file_len)
    }

    /// Writes all out. It is full with `full_bytes`. Returns the file if anything was appended: it
    /// has to be synced before an edit names what points there. It is not kept open here: there may
    /// be very many families.
    ///
    /// # Errors
    /// [`tidesdb_base::Error::Io`].
    pub(crate) fn complete(&mut self, full_bytes: u64) -> Result<Option<Arc<dyn File>>> {
        let mut unsynced = None;
        if let Some(open) = self.opened() {
            open.writer.flush()?;
            let (summary, file) = (open.writer.summary(), Arc::clone(&open.file));
            self.after = summary;
            unsynced = Some(file);
        }
        if let Some(appender) = &mut self.appender {
            appender.open = None;
        }
        self.is_full = self.after.file_len >= full_bytes;
        Ok(unsynced)
    }

    /// Bytes that were appended, when it is complete.
    pub(crate) fn appended_bytes(&self) -> u64 {
        self.after.file_len - self.bytes_before()
    }

    /// The file.
    pub(crate) fn known(&self) -> &Arc<ValueLogFile> {
        &self.known
    }

    /// The file's name.
    pub(crate) fn path(&self) -> &Path {
        self.known.path()
    }

    /// What the edit says of it that names what points into it.
    pub(crate) fn record(&self) -> Option<ValueLogRecord> {
        let number = self.known.number;
        match (self.is_full, self.before) {
            (true, _) => Some(ValueLogRecord { number, bytes: self.after.file_len }),
            (false, None) => Some(ValueLogRecord::open(number)),
            (false, Some(_)) => None,
        }
    }

    /// An edit is written that names what points into it. Unless no opening can find that edit,
    /// nothing is cut off any more (I-407).
    pub(crate) fn note_named(&mut self) {
        self.may_be_named = true;
    }

    /// No opening finds that edit.
    pub(crate) fn note_not_named(&mut self) {
        self.may_be_named = false;
    }

    /// A sync of the file failed: what it left behind is unknown.
    pub(crate) fn note_sync_failed(&mut self) {
        self.sync_failed = true;
    }

    /// The edit is in force. If the file is not full, later outputs append to it.
    pub(crate) fn keep(mut self) {
        let Some(mut appender) = self.appender.take() else { return };
        let bytes = self.after.file_len;
        appender.summary = self.after;
        if self.is_full {
            settle(&self.known, bytes);
        } else {
            self.known.change_life(|life| *life = ValueLogLife::Appending { bytes });
            self.of.give(appender);
        }
    }

    /// Nothing is appended to the file any more, whose end is unknown behind what it held before.
    fn give_up(&mut self) {
        self.appender = None;
        if let Some(VlogSummary { file_len: whole, .. }) = self.before {
            let extent = Extent { bytes: whole.max(self.after.file_len), whole };
            self.known.change_life(|life| *life = ValueLogLife::Settled { extent });
        }
    }

    /// Cuts off what was appended. False when the end of the file is not known any more.
    fn cut(&mut self, to: VlogSummary) -> bool {
        let Some(appender) = &mut self.appender else { return false };
        // While values are appended the file is open, and closed when all are.
        let is_open = self.after == to || appender.open(self.vfs.as_ref()).is_ok();
        is_open && appender.cut(to) && !self.sync_failed
    }
}

impl Drop for GrowingValueLog {
    fn drop(&mut self) {
        if let Some(before) = self.before
            && self.appender.is_some()
        {
            let is_as_before = !self.may_be_named && self.cut(before);
            match self.appender.take_if(|_| is_as_before) {
                Some(appender) => self.of.give(appender),
                None => self.give_up(),
            }
        }
    }
}

#[cfg(test)]
mod tests;
