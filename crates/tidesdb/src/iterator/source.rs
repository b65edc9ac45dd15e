//! One sorted source of visible keys, whatever it is.

use std::path::PathBuf;

use tidesdb_base::entry::{SequenceNumber, ValueKind};
use tidesdb_base::error::Result;

use super::memtable_source::MemtableSource;
use super::own_writes::OwnSource;
use super::run_source::RunSource;

/// A source as a snapshot sees it: each key once, with its newest visible version, tombstones
/// included.
#[derive(Debug)]
pub(super) enum Source {
    Memtable(Box<MemtableSource>),
    Run(Box<RunSource>),
    /// What the transaction has written that scans.
    Own(Box<OwnSource>),
}

/// Calls the same method on whichever source it is.
macro_rules! each {
    ($self:expr, $source:ident => $call:expr) => {
        match $self {
            Self::Memtable($source) => $call,
            Self::Run($source) => $call,
            Self::Own($source) => $call,
        }
    };
}

/// Moves whichever source it is; moving among own writes can't fail.
macro_rules! move_each {
    ($self:expr, $source:ident => $call:expr) => {
        match $self {
            Self::Memtable($source) => $call,
            Self::Run($source) => $call,
            Self::Own($source) => {
                $call;
                Ok(())
            }
        }
    };
}

impl Source {
    pub(super) const fn is_own(&self) -> bool {
        matches!(self, Self::Own(_))
    }

    #[inline]
    pub(super) fn valid(&self) -> bool {
        each!(self, s => s.valid())
    }

    /// The table that it stands in; `None` of what lies in memory.
    pub(super) fn table_path(&self) -> Option<PathBuf> {
        match self {
            Self::Run(source) => source.table_path(),
            Self::Memtable(_) | Self::Own(_) => None,
        }
    }

    #[inline]
    pub(super) fn key(&self) -> &[u8] {
        each!(self, s => s.key())
    }

    #[inline]
    pub(super) fn sequence(&self) -> SequenceNumber {
        match self {
            Self::Memtable(source) => source.sequence(),
            Self::Run(source) => source.sequence(),
            // Newer than all that is committed.
            Self::Own(_) => SequenceNumber::MAX,
        }
    }

    #[inline]
    pub(super) fn expires_at(&self) -> u64 {
        each!(self, s => s.expires_at())
    }

    /// The kind and the expiry: whether there is something to show.
    #[inline]
    pub(super) fn kind_and_expiry(&self) -> (ValueKind, u64) {
        each!(self, s => (s.kind(), s.expires_at()))
    }

    /// The value or what stands for it.
    #[inline]
    pub(super) fn value(&self) -> &[u8] {
        each!(self, s => s.value())
    }

    /// The key, and the value or what stands for it.
    // Two slices that a call returns go through memory.
    #[inline(always)]
    pub(super) fn key_value(&self) -> (&[u8], &[u8]) {
        match self {
            Self::Memtable(source) => (source.key(), source.value()),
            Self::Run(source) => source.key_value(),
            Self::Own(source) => (source.key(), source.value()),
        }
    }

    /// Shows what was committed up to a later sequence number, from the next seek on.
    pub(super) fn show_through(&mut self, snapshot: SequenceNumber) {
        match self {
            Self::Memtable(source) => source.show_through(snapshot),
            Self::Run(source) => source.show_through(snapshot),
            Self::Own(_) => {}
        }
    }

    pub(super) fn seek(&mut self, key: &[u8]) -> Result<()> {
        move_each!(self, s => s.seek(key))
    }

    pub(super) fn seek_for_prev(&mut self, key: &[u8]) -> Result<()> {
        move_each!(self, s => s.seek_for_prev(key))
    }

    /// Goes to the last key before this one.
    pub(super) fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.seek_for_prev(key)?;
        if self.valid() && self.key() == key { self.prev() } else { Ok(()) }
    }

    pub(super) fn seek_to_first(&mut self) -> Result<()> {
        move_each!(self, s => s.seek_to_first())
    }

    pub(super) fn seek_to_last(&mut self) -> Result<()> {
        move_each!(self, s => s.seek_to_last())
    }

    #[inline]
    pub(super) fn next(&mut self) -> Result<()> {
        move_each!(self, s => s.next())
    }

    #[inline]
    pub(super) fn prev(&mut self) -> Result<()> {
        move_each!(self, s => s.prev())
    }
}
