//! Changes of file content on a simulated disk: writes, lengths, reservations and syncs.
//!
//! The part of [`Disk`] that looks at all files together: how much space is left, which write
//! was the last (a power cut may tear that one), and which sync a test has ordered to fail. What
//! happens inside one file is [`FileState`]'s business. Pure state, behind the same lock.

use std::io;

use super::LogForm;
use super::content::MAX_FILE_BYTES;
use super::disk::{Disk, Node, NodeId};
use super::file::FileState;

/// The most recent write that no sync has covered, with what it replaced.
#[derive(Clone, Debug)]
pub(super) struct LastWrite {
    pub(super) node: NodeId,
    pub(super) at: u64,
    pub(super) replaced: Vec<u8>,
    pub(super) len_before: u64,
}

impl LastWrite {
    fn ends_at(&self, node: NodeId, at: u64) -> bool {
        self.node == node && self.at + self.replaced.len() as u64 == at
    }
}

/// Whether a write stands alone or continues the copy whose earlier piece came before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WritePart {
    First,
    Further,
}

impl Disk {
    /// Bytes that files may still grow by in all.
    pub(super) fn room(&self) -> u64 {
        let Some(capacity) = self.capacity else { return u64::MAX };
        // Each write that makes a file grow asks: a list takes a fraction of what a set does.
        let mut live: Vec<NodeId> = self.open.keys().copied().collect();
        for node in self.nodes.values() {
            if let Node::Dir { volatile, .. } = node {
                live.extend(volatile.values());
            }
        }
        live.sort_unstable();
        live.dedup();
        let used: u64 =
            live.iter().filter_map(|node| self.file(*node).ok()).map(FileState::footprint).sum();
        capacity.saturating_sub(used)
    }

    /// Makes a segment that is opened take space as its form says.
    pub(super) fn take_log_form(&mut self, node: NodeId) -> io::Result<()> {
        let taken = (self.log_form == LogForm::Written).then_some(0);
        self.file_mut(node)?.taken = taken;
        Ok(())
    }

    /// How far a file may reach with the space at hand.
    pub(super) fn reach(&self, node: NodeId) -> io::Result<u64> {
        let footprint = self.file(node)?.footprint();
        Ok(footprint.saturating_add(self.room()).min(MAX_FILE_BYTES))
    }

    /// Writes as many of `bytes` as the disk has room for; returns how many.
    pub(super) fn write(
        &mut self,
        node: NodeId,
        at: u64,
        bytes: &[u8],
        part: WritePart,
    ) -> io::Result<usize> {
        // What space was taken for before needs no room, which takes long to tell.
        let taken = self.file(node)?.footprint();
        let end = at.saturating_add(bytes.len() as u64);
        let reach = if end <= taken { taken } else { self.reach(node)? };
        let count = (bytes.len() as u64).min(reach.saturating_sub(at)) as usize;
        if count == 0 && !bytes.is_empty() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let bytes = &bytes[..count];
        self.remember_last_write(node, at, count, part)?;
        let mut random = self.random.clone();
        self.file_mut(node)?.write(at, bytes, &mut random);
        self.random = random;
        Ok(count)
    }

    fn remember_last_write(
        &mut self,
        node: NodeId,
        at: u64,
        count: usize,
        part: WritePart,
    ) -> io::Result<()> {
        let file = self.file(node)?;
        let len_before = file.volatile.len();
        let mut replaced = vec![0; count];
        file.volatile.read(at, &mut replaced);
        match &mut self.last_write {
            Some(last) if part == WritePart::Further && last.ends_at(node, at) => {
                last.replaced.extend_from_slice(&replaced);
            }
            last => *last = Some(LastWrite { node, at, replaced, len_before }),
        }
        Ok(())
    }

    pub(super) fn set_len(&mut self, node: NodeId, len: u64) -> io::Result<()> {
        if len > self.reach(node)? {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.forget_last_write(node, u64::MAX);
        self.file_mut(node)?.set_len(len);
        Ok(())
    }

    pub(super) fn allocate(&mut self, node: NodeId, len: u64) -> io::Result<()> {
        if len > self.reach(node)? {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let file = self.file_mut(node)?;
        file.reserved = file.reserved.max(len);
        Ok(())
    }

    /// Syncs the part of a file below `limit`, or fails as ordered by the test.
    pub(super) fn sync(&mut self, node: NodeId, limit: u64) -> io::Result<()> {
        self.forget_last_write(node, limit);
        match &mut self.syncs_before_failure {
            Some(0) => {
                self.syncs_before_failure = None;
                self.file_mut(node)?.lose_dirty();
                return Err(io::Error::from_raw_os_error(libc::EIO));
            }
            Some(left) => *left -= 1,
            None => {}
        }
        if !self.file(node)?.is_settled() {
            self.file_mut(node)?.sync(limit);
        }
        Ok(())
    }

    fn forget_last_write(&mut self, node: NodeId, below: u64) {
        if self.last_write.as_ref().is_some_and(|last| last.node == node && last.at < below) {
            self.last_write = None;
        }
    }
}
