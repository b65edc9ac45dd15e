//! What a transaction has read, as far as its isolation level needs it at commit.
//!
//! Point reads are kept as exact keys. A scan is kept as the ranges it went over, gaps included:
//! from the target of a seek to where it stands now, or to the bound where it ended. Memory is
//! bounded: beyond a number of ranges, neighbours are joined over the gap between them, and beyond
//! a number of bytes the keys of a family become one range. That can only add conflicts.
//!
//! The transaction and its scans share one read set behind a lock, since a scan may be handed to
//! another owner; it is uncontended in practice.

mod range;
mod range_index;
mod scan_reads;

use std::sync::Arc;

pub(super) use self::range::{RangeEnd, ReadRange};
pub(super) use self::range_index::RangeIndex;
pub(super) use self::scan_reads::ScanReads;
use super::offset_index::{OffsetIndex, hash_of};
use crate::family::{FamilyList, FamilyState};
use crate::wal::{ANY_KEY, signature_of};

/// Closed ranges that are kept apart.
const MOST_RANGES: usize = 1024;

/// Bytes of keys that are kept one by one.
const MOST_POINT_BYTES: usize = 32 << 20;

/// Beyond as many keys nearly every bit of a signature would be set.
const MOST_SIGNED: usize = 64;

/// Memory that is kept for the next transaction of the handle.
const MOST_KEPT_BYTES: usize = 1 << 20;

/// Keys and ranges that a transaction has read.
#[derive(Debug, Default)]
pub(super) struct ReadSet {
    families: FamilyList,
    /// Family, length and bytes of each key.
    keys: Vec<u8>,
    index: OffsetIndex,
    closed: Vec<ReadRange>,
    /// The ranges that live scans are going over.
    open: Vec<Option<ReadRange>>,
    /// Places without a scan.
    free: Vec<usize>,
    /// Bytes of memory that the keys of all ranges hold.
    range_key_bytes: usize,
}

/// Family number and length in front of a key.
const KEY_HEADER_BYTES: usize = 6;

fn key_at(keys: &[u8], at: u32) -> Option<(u32, &[u8])> {
    let entry = keys.get(at as usize..)?;
    let family = u32::from_le_bytes(*entry.first_chunk()?);
    let length = u16::from_le_bytes(*entry.get(4..)?.first_chunk()?);
    let key = entry.get(KEY_HEADER_BYTES..KEY_HEADER_BYTES + usize::from(length))?;
    Some((family, key))
}

impl ReadSet {
    /// The families that were read.
    pub(super) const fn families(&self) -> &FamilyList {
        &self.families
    }

    /// True when nothing was read yet.
    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.ranges().next().is_none()
    }

    /// All ranges that were read.
    pub(super) fn ranges(&self) -> impl Iterator<Item = &ReadRange> {
        self.closed.iter().chain(self.open.iter().flatten())
    }

    /// All keys that were read one by one, with their families.
    pub(super) fn points(&self) -> impl Iterator<Item = (u32, &[u8])> {
        let mut at = 0;
        std::iter::from_fn(move || {
            let (family, key) = key_at(&self.keys, at)?;
            at += (KEY_HEADER_BYTES + key.len()) as u32;
            Some((family, key))
        })
    }

    /// Whether a key was read by itself.
    pub(super) fn has_point(&self, family: u32, key: &[u8]) -> bool {
        let same = |at| key_at(&self.keys, at) == Some((family, key));
        self.index.find(hash_of(family, key), same).is_some()
    }

    /// Signature of what was read; see [`signature_of`].
    pub(super) fn signature(&self) -> u64 {
        if self.ranges().next().is_some() || self.points().nth(MOST_SIGNED).is_some() {
            return ANY_KEY;
        }
        self.points().fold(0, |bits, (family, key)| bits | signature_of(family, key))
    }

    fn note_family(&mut self, family: &Arc<FamilyState>) {
        if self.families.find(family.id).is_none() {
            self.families.push(Arc::clone(family));
        }
    }

    /// Notes that a key was read.
    pub(super) fn add_point(&mut self, family: &Arc<FamilyState>, key: &[u8]) {
        let Ok(length) = u16::try_from(key.len()) else { return };
        let hash = hash_of(family.id, key);
        let same = |at| key_at(&self.keys, at) == Some((family.id, key));
        if self.index.find(hash, same).is_some() {
            return;
        }
        self.note_family(family);
        if self.keys.len() > MOST_POINT_BYTES {
            self.join_points();
        }
        let at = self.keys.len() as u32;
        self.keys.extend_from_slice(&family.id.to_le_bytes());
        self.keys.extend_from_slice(&length.to_le_bytes());
        self.keys.extend_from_slice(key);
        self.index.put(hash, at, |_| false);
    }

    /// Makes of the keys of each family one range.
    fn join_points(&mut self) {
        let mut joined: Vec<ReadRange> = Vec::new();
        for (family, key) in self.points() {
            match joined.iter_mut().find(|range| range.family == family) {
                None => {
                    let end = RangeEnd::Through(key.to_vec());
                    joined.push(ReadRange { family, start: key.to_vec(), end });
                }
                Some(range) if key < range.start.as_slice() => range.start = key.to_vec(),
                Some(range) if !range.end.admits(key) => {
                    range.end = RangeEnd::Through(key.to_vec())
                }
                Some(_) => {}
            }
        }
        self.range_key_bytes += joined.iter().map(ReadRange::key_bytes).sum::<usize>();
        self.closed.append(&mut joined);
        self.keys.clear();
        self.index.clear();
    }

    /// A place for the range of a new scan.
    pub(super) fn open_scan(&mut self, family: &Arc<FamilyState>) -> usize {
        self.note_family(family);
        self.free.pop().unwrap_or_else(|| {
            self.open.push(None);
            self.open.len() - 1
        })
    }

    /// The scan is gone.
    pub(super) fn close_scan(&mut self, scan: usize) {
        self.begin_range(scan, None);
        self.free.push(scan);
    }

    /// The scan goes over `range` now; what it went over before stays.
    pub(super) fn begin_range(&mut self, scan: usize, range: Option<ReadRange>) {
        let Some(place) = self.open.get_mut(scan) else { return };
        self.range_key_bytes += range.as_ref().map_or(0, ReadRange::key_bytes);
        let Some(old) = std::mem::replace(place, range) else { return };
        if self.closed.last().is_some_and(|last| last.covers(&old)) {
            self.range_key_bytes -= old.key_bytes();
            return;
        }
        self.closed.push(old);
        if self.closed.len() > MOST_RANGES {
            self.join_ranges();
            self.range_key_bytes = self.ranges().map(ReadRange::key_bytes).sum();
        }
    }

    /// The scan has come as far as this, forwards.
    pub(super) fn extend_end(&mut self, scan: usize, end: RangeEnd) {
        if let Some(Some(range)) = self.open.get_mut(scan)
            && end.is_behind(&range.end)
        {
            self.range_key_bytes += end.memory_bytes();
            self.range_key_bytes -= range.end.memory_bytes();
            range.end = end;
        }
    }

    /// The scan has come as far as this, backwards.
    pub(super) fn extend_start(&mut self, scan: usize, start: &[u8]) {
        if let Some(Some(range)) = self.open.get_mut(scan)
            && start < range.start.as_slice()
        {
            self.range_key_bytes -= range.start.capacity();
            range.start.clear();
            range.start.extend_from_slice(start);
            self.range_key_bytes += range.start.capacity();
        }
    }

    /// Joins ranges that overlap and, if that is not enough, pairs of neighbours.
    fn join_ranges(&mut self) {
        self.closed.sort_by(|a, b| (a.family, &a.start).cmp(&(b.family, &b.start)));
        self.closed.dedup_by(|later, kept| kept.join(later));
        if self.closed.len() <= MOST_RANGES / 2 {
            return;
        }
        let mut second = false;
        self.closed.dedup_by(|later, kept| {
            second = !second && later.family == kept.family;
            if second && later.end.is_behind(&kept.end) {
                std::mem::swap(&mut kept.end, &mut later.end);
            }
            second
        });
    }

    /// Forgets everything and keeps a moderate amount of memory.
    pub(super) fn clear(&mut self) {
        if self.memory_bytes() > MOST_KEPT_BYTES {
            *self = Self::default();
        }
        self.families.clear();
        self.keys.clear();
        self.index.clear();
        self.closed.clear();
        self.open.clear();
        self.free.clear();
        self.range_key_bytes = 0;
    }

    /// About how many bytes of memory are held.
    pub(super) const fn memory_bytes(&self) -> usize {
        let ranges = self.closed.capacity() + self.open.capacity();
        let ranges = ranges * size_of::<ReadRange>() + self.range_key_bytes;
        self.keys.capacity() + self.index.memory_bytes() + ranges
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: &str, end: RangeEnd) -> Option<ReadRange> {
        Some(ReadRange { family: 1, start: start.as_bytes().to_vec(), end })
    }

    #[test]
    fn ends_are_ordered_by_what_they_admit() {
        let (through, before) = (RangeEnd::Through(b"k".to_vec()), RangeEnd::Before(b"k".to_vec()));
        assert!(through.is_behind(&before) && !before.is_behind(&through));
        assert!(
            RangeEnd::Unbounded.is_behind(&through) && !through.is_behind(&RangeEnd::Unbounded)
        );
        assert!(through.admits(b"k") && !before.admits(b"k") && RangeEnd::Unbounded.admits(b"z"));
        assert!(!through.is_behind(&through) && !before.is_behind(&before));
    }

    #[test]
    fn ten_thousand_ranges_become_few_that_cover_them_all() {
        let mut set = ReadSet { open: vec![None], ..ReadSet::default() };
        let key = |n: u32| format!("{n:08}");
        for n in 0..10_000u32 {
            let start = key(n * 7919 % 10_000 * 10);
            let end = RangeEnd::Through(key(n * 7919 % 10_000 * 10 + 3).into_bytes());
            set.begin_range(0, range(&start, end));
        }
        set.begin_range(0, None);
        assert!(set.ranges().count() <= MOST_RANGES + 1, "{}", set.ranges().count());
        for n in 0..10_000u32 {
            let wanted = range(&key(n * 10), RangeEnd::Through(key(n * 10 + 3).into_bytes()));
            let wanted = wanted.unwrap();
            assert!(set.ranges().any(|range| range.covers(&wanted)), "{n}");
        }
    }

    /// The keys of ranges, up to two of 64 KiB each, counted for nothing but a guess.
    #[test]
    fn the_keys_of_ranges_count_for_what_they_take() {
        let mut set = ReadSet { open: vec![None; 2], ..ReadSet::default() };
        let key = |n: usize| {
            let mut key = format!("{n:08}").into_bytes();
            key.resize(8000, b'x');
            key
        };
        let check = |set: &ReadSet| {
            let held = |range: &ReadRange| {
                let end = match &range.end {
                    RangeEnd::Through(key) | RangeEnd::Before(key) => key.capacity(),
                    RangeEnd::Unbounded => 0,
                };
                range.start.capacity() + end
            };
            let ranges = set.closed.capacity() + set.open.capacity();
            let keys: usize = set.ranges().map(held).sum();
            let wanted = keys + ranges * size_of::<ReadRange>() + set.keys.capacity();
            assert_eq!(set.memory_bytes(), wanted + set.index.memory_bytes());
        };
        for n in 0..MOST_RANGES * 3 {
            let (scan, start) = (n % 2, key(n * 7919 % 10_000));
            let end = RangeEnd::Through(start.clone());
            set.begin_range(scan, Some(ReadRange { family: 1, start, end }));
            check(&set);
            set.extend_end(scan, RangeEnd::Before(vec![b'9'; 60_000 - n]));
            set.extend_start(scan, &key(n % 7));
            check(&set);
        }
        set.close_scan(1);
        check(&set);
        set.join_points();
        check(&set);
        set.clear();
        check(&set);
        assert!(set.memory_bytes() < 1 << 20, "{} bytes", set.memory_bytes());
    }
}
