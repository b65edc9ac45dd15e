//! One simulated file: what readers see, what a power cut leaves, and the difference.
//!
//! `volatile` is the kernel's cache, `durable` the medium. A write changes the cache and marks
//! sectors *dirty*; a sync copies dirty sectors and the length to the medium. A failed sync turns
//! dirty sectors into *lost* ones: the cache still shows them, but only writing them again makes
//! them dirty, so that retrying the sync is caught. Now and then the state of a dirty sector is
//! remembered as *early*: a version that the kernel may have written back on its own before the
//! sector changed again. Pure state: no lock, no hook, no path.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use super::SECTOR_BYTES;
use super::content::{Content, Sector, SectorSet, sectors_of};
use crate::rng::SplitMix64;

#[derive(Clone, Debug, Default)]
pub(super) struct FileState {
    pub(super) volatile: Content,
    pub(super) durable: Content,
    /// Sectors as they were on the medium before the sync that last replaced them.
    pub(super) previous: Content,
    pub(super) dirty: SectorSet,
    pub(super) lost: SectorSet,
    pub(super) early: BTreeMap<u64, Arc<Sector>>,
    pub(super) unreadable: BTreeSet<u64>,
    /// Bytes reserved on the disk beyond what the length needs.
    pub(super) reserved: u64,
    /// Of a segment for which nothing is reserved: how far it was written since it was opened.
    pub(super) taken: Option<u64>,
    len_dirty: bool,
}

impl FileState {
    /// A file that is the same in cache and on the medium, as after a restart.
    pub(super) fn settled(content: Content, old: &Self) -> Self {
        Self {
            reserved: old.reserved,
            taken: old.taken,
            unreadable: old.unreadable.clone(),
            previous: old.previous.clone(),
            durable: content.clone(),
            volatile: content,
            ..Self::default()
        }
    }

    /// Whether a crash of any kind leaves exactly what readers see now.
    pub(super) fn is_settled(&self) -> bool {
        !self.len_dirty && self.dirty.is_empty() && self.lost.is_empty()
    }

    /// Bytes of disk space the file takes.
    pub(super) fn footprint(&self) -> u64 {
        self.taken.unwrap_or_else(|| self.volatile.len().max(self.reserved))
    }

    pub(super) fn read(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let visible = self.volatile.len().saturating_sub(at).min(buffer.len() as u64) as usize;
        let touched = sectors_of(at, visible);
        if !self.unreadable.is_empty() && self.unreadable.range(touched).next().is_some() {
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        Ok(self.volatile.read(at, buffer))
    }

    pub(super) fn write(&mut self, at: u64, bytes: &[u8], random: &mut SplitMix64) {
        for sector in sectors_of(at, bytes.len()) {
            if self.dirty.contains(sector) && random.chance(1, 8) {
                self.early.insert(sector, Arc::new(self.volatile.sector(sector)));
            }
            self.mark_dirty(sector);
        }
        if let Some(taken) = &mut self.taken {
            *taken = (*taken).max(at + bytes.len() as u64);
        }
        let old_len = self.volatile.len();
        self.volatile.write(at, bytes);
        self.len_dirty |= self.volatile.len() != old_len;
    }

    fn mark_dirty(&mut self, sector: u64) {
        self.dirty.insert(sector);
        self.lost.remove(sector);
        self.unreadable.remove(&sector);
    }

    pub(super) fn set_len(&mut self, len: u64) {
        let old_len = self.volatile.len();
        if len == old_len {
            return;
        }
        let cut_off = old_len.saturating_sub(len) as usize;
        for sector in sectors_of(len, cut_off) {
            self.mark_dirty(sector);
        }
        self.volatile.set_len(len);
        self.reserved = self.reserved.min(len);
        self.len_dirty = true;
    }

    /// Makes the dirty sectors that start below `limit`, and the length, durable.
    pub(super) fn sync(&mut self, limit: u64) {
        let limit_sector = limit.div_ceil(SECTOR_BYTES);
        let pages: Vec<(usize, u8)> = self.dirty.pages().collect();
        let mut still_dirty = SectorSet::default();
        for (page, mask) in pages {
            let first = page as u64 * 8;
            self.keep_previous(page, mask);
            if first + 8 <= limit_sector && self.lost.page(page) == 0 {
                self.durable.share_page(page, &self.volatile);
                continue;
            }
            for sector in (first..first + 8).filter(|sector| mask & (1 << (sector - first)) != 0) {
                if sector < limit_sector {
                    self.durable.set_sector(sector, &self.volatile.sector(sector));
                } else {
                    still_dirty.insert(sector);
                }
            }
        }
        self.dirty = still_dirty;
        self.early.retain(|sector, _| *sector >= limit_sector);
        if self.len_dirty {
            self.durable.set_len(self.volatile.len());
            self.len_dirty = false;
        }
    }

    /// Remembers the medium's state of the sectors of one page that are about to be replaced.
    fn keep_previous(&mut self, page: usize, mask: u8) {
        if mask == u8::MAX {
            self.previous.share_page(page, &self.durable);
            return;
        }
        let first = page as u64 * 8;
        for sector in (first..first + 8).filter(|sector| mask & (1 << (sector - first)) != 0) {
            self.previous.set_sector(sector, &self.durable.sector(sector));
        }
    }

    /// What a failed write-back does: the dirty sectors will never reach the medium.
    pub(super) fn lose_dirty(&mut self) {
        self.lost.merge(&self.dirty);
        self.dirty.clear();
        self.early.clear();
    }

    /// Applies `change` to one sector in the cache and on the medium alike. Returns whether any
    /// byte that readers see changed.
    pub(super) fn damage(&mut self, sector: u64, replacement: &Sector) -> bool {
        let before = self.volatile.sector(sector);
        let len = self.volatile.len();
        self.volatile.set_sector(sector, replacement);
        self.volatile.set_len(len);
        let durable_len = self.durable.len();
        self.durable.set_sector(sector, replacement);
        self.durable.set_len(durable_len);
        self.volatile.sector(sector) != before
    }
}
