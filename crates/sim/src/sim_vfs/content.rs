//! The bytes of one simulated file, shared between a disk and its crash images.
//!
//! Content is a vector of 4 KiB pages behind reference counts, so that copying it costs one count
//! and writing after a copy costs one page. A missing page reads as zeros. The length is
//! independent of the pages: bytes of a page beyond the length are kept zero by the code that
//! changes the length. Also here: the set of sectors, one bit each.

use std::sync::Arc;

use super::SECTOR_BYTES;

pub(super) const SECTOR: usize = SECTOR_BYTES as usize;
const PAGE: usize = 4096;
const SECTORS_PER_PAGE: usize = PAGE / SECTOR;

/// Larger files are refused: a page vector for an absurd offset must not eat the test's memory.
pub(super) const MAX_FILE_BYTES: u64 = 4 << 30;

/// The content of one 512-byte sector.
pub(super) type Sector = [u8; SECTOR];

#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    pages: Arc<Vec<Option<Arc<[u8; PAGE]>>>>,
    len: u64,
}

impl Content {
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Copies bytes from `at` on into `buffer`; returns how many there were.
    pub(super) fn read(&self, at: u64, buffer: &mut [u8]) -> usize {
        let count = (buffer.len() as u64).min(self.len.saturating_sub(at)) as usize;
        let mut done = 0;
        while done < count {
            let position = at as usize + done;
            let (page, inside) = (position / PAGE, position % PAGE);
            let piece = (PAGE - inside).min(count - done);
            let target = &mut buffer[done..done + piece];
            match self.pages.get(page) {
                Some(Some(bytes)) => target.copy_from_slice(&bytes[inside..inside + piece]),
                _ => target.fill(0),
            }
            done += piece;
        }
        count
    }

    /// Writes `bytes` at `at`, extending the length if they end beyond it. The caller keeps the
    /// end within [`MAX_FILE_BYTES`].
    pub(super) fn write(&mut self, at: u64, bytes: &[u8]) {
        self.put(at as usize, bytes);
        self.len = self.len.max(at + bytes.len() as u64);
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        let mut done = 0;
        while done < bytes.len() {
            let (page, inside) = ((at + done) / PAGE, (at + done) % PAGE);
            let piece = (PAGE - inside).min(bytes.len() - done);
            let target = &mut self.page_mut(page)[inside..inside + piece];
            target.copy_from_slice(&bytes[done..done + piece]);
            done += piece;
        }
    }

    fn page_mut(&mut self, page: usize) -> &mut [u8; PAGE] {
        let pages = Arc::make_mut(&mut self.pages);
        if pages.len() <= page {
            pages.resize(page + 1, None);
        }
        Arc::make_mut(pages[page].get_or_insert_with(|| Arc::new([0; PAGE])))
    }

    /// Changes the length; bytes cut off read as zeros should the file grow again.
    pub(super) fn set_len(&mut self, len: u64) {
        self.len = len;
        self.clear_beyond_len();
    }

    fn clear_beyond_len(&mut self) {
        let whole = self.len as usize / PAGE;
        let inside = self.len as usize % PAGE;
        if self.pages.len() > whole {
            let pages = Arc::make_mut(&mut self.pages);
            pages.truncate(whole + 1);
            if inside == 0 {
                pages.truncate(whole);
            } else if let Some(Some(page)) = pages.get_mut(whole) {
                Arc::make_mut(page)[inside..].fill(0);
            }
        }
    }

    /// One sector, zero-filled where nothing was written; ignores the length.
    pub(super) fn sector(&self, sector: u64) -> Sector {
        let (page, inside) = position_of(sector);
        let mut bytes = [0; SECTOR];
        if let Some(Some(page)) = self.pages.get(page) {
            bytes.copy_from_slice(&page[inside..inside + SECTOR]);
        }
        bytes
    }

    /// Replaces one sector; the length stays.
    pub(super) fn set_sector(&mut self, sector: u64, bytes: &Sector) {
        self.put(sector as usize * SECTOR, bytes);
    }

    /// Makes page `page` the same as in `from`, sharing it.
    pub(super) fn share_page(&mut self, page: usize, from: &Self) {
        let source = from.pages.get(page).cloned().flatten();
        let pages = Arc::make_mut(&mut self.pages);
        if pages.len() <= page {
            if source.is_none() {
                return;
            }
            pages.resize(page + 1, None);
        }
        pages[page] = source;
    }
}

fn position_of(sector: u64) -> (usize, usize) {
    let sector = sector as usize;
    (sector / SECTORS_PER_PAGE, sector % SECTORS_PER_PAGE * SECTOR)
}

/// A set of sectors of one file: a bit each, a byte per page.
#[derive(Clone, Debug, Default)]
pub(super) struct SectorSet {
    masks: Vec<u8>,
}

impl SectorSet {
    pub(super) fn is_empty(&self) -> bool {
        self.masks.iter().all(|mask| *mask == 0)
    }

    pub(super) fn len(&self) -> usize {
        self.masks.iter().map(|mask| mask.count_ones() as usize).sum()
    }

    pub(super) fn contains(&self, sector: u64) -> bool {
        let (page, bit) = bit_of(sector);
        self.masks.get(page).is_some_and(|mask| mask & bit != 0)
    }

    pub(super) fn insert(&mut self, sector: u64) {
        let (page, bit) = bit_of(sector);
        if self.masks.len() <= page {
            self.masks.resize(page + 1, 0);
        }
        self.masks[page] |= bit;
    }

    pub(super) fn remove(&mut self, sector: u64) {
        let (page, bit) = bit_of(sector);
        if let Some(mask) = self.masks.get_mut(page) {
            *mask &= !bit;
        }
    }

    pub(super) fn clear(&mut self) {
        self.masks.clear();
    }

    /// Adds all of `other`.
    pub(super) fn merge(&mut self, other: &Self) {
        if self.masks.len() < other.masks.len() {
            self.masks.resize(other.masks.len(), 0);
        }
        for (mask, added) in self.masks.iter_mut().zip(&other.masks) {
            *mask |= added;
        }
    }

    /// The members, ascending.
    pub(super) fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        self.pages().flat_map(|(page, mask)| {
            let first = (page * SECTORS_PER_PAGE) as u64;
            (0..SECTORS_PER_PAGE as u64)
                .filter(move |bit| mask & (1 << bit) != 0)
                .map(move |bit| first + bit)
        })
    }

    /// The pages with members, each with its mask of members.
    pub(super) fn pages(&self) -> impl Iterator<Item = (usize, u8)> + '_ {
        self.masks.iter().copied().enumerate().filter(|(_, mask)| *mask != 0)
    }

    /// The mask of members in one page.
    pub(super) fn page(&self, page: usize) -> u8 {
        self.masks.get(page).copied().unwrap_or(0)
    }
}

fn bit_of(sector: u64) -> (usize, u8) {
    let sector = sector as usize;
    (sector / SECTORS_PER_PAGE, 1 << (sector % SECTORS_PER_PAGE))
}

/// The sectors touched by `count` bytes at `at`.
pub(super) fn sectors_of(at: u64, count: usize) -> std::ops::Range<u64> {
    if count == 0 {
        return 0..0;
    }
    at / SECTOR_BYTES..(at + count as u64).div_ceil(SECTOR_BYTES)
}
