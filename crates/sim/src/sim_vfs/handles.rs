//! Open files, log segments and locks of the simulated disk.
//!
//! A handle is a node number and a reference to the disk. Every change goes through
//! [`SimVfs::mutate`], so that hooks see it and the trace records it. A log segment's write is
//! cut into aligned 64-byte pieces, each a change of its own, so that a crash image may fall
//! between any two pieces of one writer or of several.

use std::io;
use std::path::{Path, PathBuf};

use super::disk::NodeId;
use super::writes::WritePart;
use super::{LogForm, MutationKind, PAGE_BYTES, SEGMENT_PIECE_BYTES, SimVfs, Site};
use tidesdb_sys::vfs::{File, FileStamp, LockGuard, LockMode, LogSegment, check_segment_range};

/// Keeps a node's content alive while a handle is open, also when its last name goes.
#[derive(Debug)]
pub(super) struct OpenNode {
    sim: SimVfs,
    node: NodeId,
    path: PathBuf,
}

impl OpenNode {
    pub(super) fn new(sim: &SimVfs, node: NodeId, path: &Path) -> Self {
        *sim.disk().open.entry(node).or_insert(0) += 1;
        Self { sim: sim.handle(), node, path: path.to_path_buf() }
    }

    fn site(&self, kind: MutationKind, at: u64, len: u64) -> Site<'_> {
        Site { kind, path: &self.path, at, len }
    }
}

impl Drop for OpenNode {
    fn drop(&mut self) {
        let mut disk = self.sim.disk();
        if let Some(count) = disk.open.get_mut(&self.node) {
            *count -= 1;
            if *count == 0 {
                disk.open.remove(&self.node);
            }
        }
    }
}

#[derive(Debug)]
pub(super) struct SimFile {
    pub(super) open: OpenNode,
    pub(super) writable: bool,
}

impl SimFile {
    fn check_writable(&self) -> io::Result<()> {
        if self.writable { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::EBADF)) }
    }

    fn sync(&self) -> io::Result<()> {
        let node = self.open.node;
        let site = self.open.site(MutationKind::Sync, 0, 0);
        self.open.sim.mutate(&site, &[], |disk| disk.sync(node, u64::MAX))
    }
}

impl File for SimFile {
    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        self.open.sim.disk().file(self.open.node)?.read(at, buffer)
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<usize> {
        self.check_writable()?;
        let node = self.open.node;
        let site = self.open.site(MutationKind::Write, at, bytes.len() as u64);
        self.open.sim.mutate(&site, bytes, |disk| disk.write(node, at, bytes, WritePart::First))
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.open.sim.disk().file(self.open.node)?.volatile.len())
    }

    fn stamp(&self) -> io::Result<FileStamp> {
        // There is no clock here that tells of changes.
        Ok(FileStamp([self.open.node, 0, 0]))
    }

    fn links(&self) -> io::Result<u64> {
        Ok(self.open.sim.disk().links(self.open.node))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.check_writable()?;
        let node = self.open.node;
        let site = self.open.site(MutationKind::SetLen, 0, len);
        self.open.sim.mutate(&site, &[], |disk| disk.set_len(node, len))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.sync()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.sync()
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.check_writable()?;
        let node = self.open.node;
        let site = self.open.site(MutationKind::Allocate, 0, len);
        self.open.sim.mutate(&site, &[], |disk| disk.allocate(node, len))
    }

    fn discard_unsynced(&self) {
        self.open.sim.lose_dirty(self.open.node);
    }
}

#[derive(Debug)]
pub(super) struct SimSegment {
    pub(super) open: OpenNode,
    pub(super) capacity: u64,
    pub(super) form: LogForm,
}

impl LogSegment for SimSegment {
    fn capacity(&self) -> u64 {
        self.capacity
    }

    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        check_segment_range(at, bytes.len(), self.capacity)?;
        let node = self.open.node;
        let unit = match self.form {
            LogForm::Mapped => SEGMENT_PIECE_BYTES,
            LogForm::Written => PAGE_BYTES,
        };
        let (mut done, mut part) = (0, WritePart::First);
        while done < bytes.len() {
            let from = at + done as u64;
            let to_boundary = (unit - from % unit) as usize;
            let count = to_boundary.min(bytes.len() - done);
            let piece = &bytes[done..done + count];
            let site = self.open.site(MutationKind::SegmentPiece, from, count as u64);
            let taken =
                self.open.sim.mutate(&site, piece, |disk| disk.write(node, from, piece, part))?;
            part = WritePart::Further;
            done += taken;
        }
        Ok(())
    }

    fn sync(&self, upto: u64) -> io::Result<()> {
        let node = self.open.node;
        let site = self.open.site(MutationKind::SegmentSync, 0, upto);
        let covered = if self.form == LogForm::Mapped { upto } else { u64::MAX };
        self.open.sim.mutate(&site, &[], |disk| disk.sync(node, covered))
    }

    fn warm(&self, _from: u64, _to: u64) {}

    fn zero_fill(&self) -> io::Result<()> {
        let node = self.open.node;
        let zeros = vec![0; self.capacity as usize];
        let site = self.open.site(MutationKind::SegmentZero, 0, self.capacity);
        self.open.sim.mutate(&site, &[], |disk| {
            disk.write(node, 0, &zeros, WritePart::First)?;
            disk.sync(node, u64::MAX)
        })
    }

    fn discard_unsynced(&self) {
        self.open.sim.lose_dirty(self.open.node);
    }
}

/// Who holds the lock of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LockHolders {
    One,
    /// So many share it.
    Sharing(usize),
}

#[derive(Debug)]
pub(super) struct SimLock {
    open: OpenNode,
}

impl SimLock {
    /// Takes the lock of an open lock file.
    pub(super) fn take(open: OpenNode, how: LockMode) -> io::Result<Self> {
        let mut disk = open.sim.disk();
        let holders = match (disk.locked.get(&open.node), how) {
            (None, LockMode::Exclusive) => LockHolders::One,
            (None, LockMode::Shared) => LockHolders::Sharing(1),
            (Some(LockHolders::Sharing(count)), LockMode::Shared) => {
                LockHolders::Sharing(count + 1)
            }
            _ => {
                let text = "the lock is held by another opener";
                return Err(io::Error::new(io::ErrorKind::WouldBlock, text));
            }
        };
        disk.locked.insert(open.node, holders);
        drop(disk);
        Ok(Self { open })
    }
}

impl Drop for SimLock {
    fn drop(&mut self) {
        let mut disk = self.open.sim.disk();
        match disk.locked.get_mut(&self.open.node) {
            Some(LockHolders::Sharing(count)) if *count > 1 => *count -= 1,
            _ => {
                disk.locked.remove(&self.open.node);
            }
        }
    }
}

impl LockGuard for SimLock {
    fn is_still_named(&self) -> bool {
        let named = self.open.sim.disk().find_file(&self.open.path);
        named.is_ok_and(|node| node == self.open.node)
    }
}
