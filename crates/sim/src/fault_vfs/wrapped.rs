//! Files and log segments whose calls go through the fault plan.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::{FaultError, Op, Shared};
use crate::rng::{SplitMix64, mix64};
use crate::sim_vfs::PAGE_BYTES;
use tidesdb_sys::sync::lock;
use tidesdb_sys::vfs::{File, FileStamp, LogSegment};

#[derive(Debug)]
pub(super) struct FaultFile {
    pub(super) inner: Arc<dyn File>,
    pub(super) shared: Arc<Shared>,
    pub(super) path: Arc<Path>,
}

impl FaultFile {
    fn admit(&self, op: Op) -> io::Result<()> {
        self.shared.admit(op, &self.path)
    }

    fn admit_sync(&self) -> io::Result<()> {
        self.admit(Op::Sync).inspect_err(|_| self.inner.discard_unsynced())
    }
}

impl File for FaultFile {
    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        self.admit(Op::Read)?;
        if lock(&self.shared.plan).is_unreadable(&self.path, at, buffer.len()) {
            return Err(FaultError::IO.to_error());
        }
        let flip = lock(&self.shared.plan).next_read_flip();
        let count = self.inner.read_at(buffer, at)?;
        if let Some(bit) = flip.filter(|_| count > 0) {
            let bit = bit % (count as u64 * 8);
            buffer[(bit / 8) as usize] ^= 1 << (bit % 8);
            lock(&self.shared.plan).fired += 1;
        }
        Ok(count)
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<usize> {
        if let Err(error) = self.admit(Op::Write) {
            let taken = taken_bytes(lock(&self.shared.plan).fired, at, bytes.len());
            if taken > 0 {
                self.inner.write_at(&bytes[..taken], at)?;
            }
            return Err(error);
        }
        let count = lock(&self.shared.plan).write_limit(bytes.len());
        if count == 0 {
            return Ok(0);
        }
        self.inner.write_at(&bytes[..count], at)
    }

    fn len(&self) -> io::Result<u64> {
        self.admit(Op::Len)?;
        self.inner.len()
    }

    fn stamp(&self) -> io::Result<FileStamp> {
        self.admit(Op::Len)?;
        self.inner.stamp()
    }

    fn links(&self) -> io::Result<u64> {
        self.admit(Op::Len)?;
        self.inner.links()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.admit(Op::SetLen)?;
        self.inner.set_len(len)
    }

    fn expect_random_reads(&self) {
        self.inner.expect_random_reads();
    }

    fn start_reading(&self, at: u64, len: u64) {
        self.inner.start_reading(at, len);
    }

    fn start_write_back(&self, at: u64, len: u64) {
        self.inner.start_write_back(at, len);
    }

    fn sync_data(&self) -> io::Result<()> {
        self.admit_sync()?;
        self.inner.sync_data()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.admit_sync()?;
        self.inner.sync_all()
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.admit(Op::Allocate)?;
        self.inner.allocate(len)
    }

    fn discard_unsynced(&self) {
        self.inner.discard_unsynced();
    }
}

/// How many of `len` bytes at `at` the `fired`-th failing call takes, which finds no space or no
/// device in the middle: none, all, or any number between.
fn taken_bytes(fired: u64, at: u64, len: usize) -> usize {
    let mut random = SplitMix64::new(mix64(fired) ^ at);
    match random.below(4) {
        0 => 0,
        1 => len,
        _ => random.index(len + 1),
    }
}

/// How many of `len` bytes at `at` the `fired`-th failing call takes: up to one of the pages' ends
/// in them, or none.
fn taken_prefix(fired: u64, at: u64, len: usize) -> usize {
    let inside = (at % PAGE_BYTES + len as u64).saturating_sub(1) / PAGE_BYTES;
    let pages = SplitMix64::new(mix64(fired) ^ at).below(inside + 1);
    if pages == 0 { 0 } else { (pages * PAGE_BYTES - at % PAGE_BYTES) as usize }
}

#[derive(Debug)]
pub(super) struct FaultSegment {
    pub(super) inner: Arc<dyn LogSegment>,
    pub(super) shared: Arc<Shared>,
    pub(super) path: Arc<Path>,
}

impl FaultSegment {
    fn admit(&self, op: Op) -> io::Result<()> {
        self.shared.admit(op, &self.path)
    }
}

impl LogSegment for FaultSegment {
    fn capacity(&self) -> u64 {
        self.inner.capacity()
    }

    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let Err(error) = self.admit(Op::SegmentWrite) else { return self.inner.write(at, bytes) };
        // A file system that finds no space or no device in the middle has taken whole pages.
        let taken = taken_prefix(lock(&self.shared.plan).fired, at, bytes.len());
        if taken > 0 {
            self.inner.write(at, &bytes[..taken])?;
        }
        Err(error)
    }

    fn sync(&self, upto: u64) -> io::Result<()> {
        self.admit(Op::SegmentSync).inspect_err(|_| self.inner.discard_unsynced())?;
        self.inner.sync(upto)
    }

    fn warm(&self, from: u64, to: u64) {
        self.inner.warm(from, to);
    }

    fn cool(&self) {
        self.inner.cool();
    }

    fn zero_fill(&self) -> io::Result<()> {
        self.admit(Op::SegmentZero)?;
        self.inner.zero_fill()
    }

    fn discard_unsynced(&self) {
        self.inner.discard_unsynced();
    }
}
