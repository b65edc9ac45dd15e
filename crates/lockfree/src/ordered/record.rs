//! Records: a key with its chain of versions, as bytes in the arena.
//!
//! Both indexes store what this module builds and link to it by [`RecordRef`]; the record's layout
//! is known here only. A new key and its first version are one allocation, so that a look-up that
//! has found the key has the value on the next cache line.
//!
//! ```text
//! record   newest version u32 | key length u32 | key bytes, padded to 8 | first version
//! version  seq u64 | older version u32 | value length u32 | kind u8 | flags u8 |
//!          expiry u64 if it has one | value bytes
//! ```
//!
//! About every fourth version of a long chain has a shortcut in front of it, so that an old
//! snapshot does not pay for all newer versions of a key that is overwritten all the time
//! (`shortcut`).
//!
//! Threads: any. A record is filled by one thread and then published by a Release store of its
//! offset; from there on only the links change. Linking is a compare-and-swap on a list from which
//! nothing is ever removed.
//!
//! Invariants: a [`RecordRef`] or [`VersionRef`] read from a link names a filled record or version;
//! sequence numbers never increase along a chain.

#![expect(unsafe_code, reason = "lays records out in raw arena memory")]

use std::ptr;
use std::slice;

use super::shortcut::Shortcut;
use super::{MAX_KEY_BYTES, NewVersion, ValueVersion};
use crate::arena::{Arena, ArenaFull, Offset, UNIT_BYTES};
use crate::prefetch::prefetch_address;
use crate::sync::{AtomicU32, Ordering};

const KIND_AT: usize = 0;
const FLAGS_AT: usize = 1;
const EXPIRY_AT: usize = 2;
const EXPIRY_BYTES: usize = 8;

const HAS_EXPIRY: u8 = 1;
const HAS_SHORTCUT: u8 = 2;
/// The bits above the flags: how many versions lay behind this one when it was linked, or
/// [`LONGEST_COUNTED`] when there were more.
const LENGTH_SHIFT: u32 = 2;
const LONGEST_COUNTED: u8 = u8::MAX >> LENGTH_SHIFT;

/// Shortcuts lead over chains from this length on: looking for the one behind would cost those that
/// are overwritten a few times more than it gives them.
const LONG_CHAIN: u8 = if cfg!(loom) { 1 } else { 60 };
/// Of how many versions of a key one has room for a shortcut. A power of two.
const SHORTCUT_EVERY: u64 = if cfg!(loom) { 1 } else { 4 };
const SHORTCUT_UNITS: usize = size_of::<Shortcut>().div_ceil(UNIT_BYTES);

#[repr(C)]
struct KeyHeader {
    newest: AtomicU32,
    key_bytes: Once<u32>,
}

#[repr(C)]
struct VersionHeader {
    seq: Once<u64>,
    older: AtomicU32,
    value_bytes: u32,
}

/// A plain field that is written before its record is published and only read afterwards. In loom
/// models it is tracked, so that a publication with too weak an ordering is reported.
#[cfg(not(loom))]
struct Once<T>(T);
#[cfg(loom)]
struct Once<T>(loom::cell::UnsafeCell<T>);

impl<T: Copy> Once<T> {
    #[cfg(not(loom))]
    fn new(value: T) -> Self {
        Self(value)
    }

    #[cfg(not(loom))]
    #[inline(always)]
    fn get(&self) -> T {
        self.0
    }

    #[cfg(loom)]
    fn new(value: T) -> Self {
        let cell = loom::cell::UnsafeCell::new(value);
        // SAFETY: no other thread can reach the cell yet; the write is there for loom to see.
        cell.with_mut(|field| unsafe { field.write(value) });
        Self(cell)
    }

    #[cfg(loom)]
    fn get(&self) -> T {
        // SAFETY: never written after publication; loom verifies that the writes came before.
        self.0.with(|field| unsafe { field.read() })
    }
}

/// Names a record of one arena.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RecordRef(Offset);

/// Names a version of one arena.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct VersionRef(Offset);

/// A record that is not published yet, with its only version.
#[derive(Debug, Clone, Copy)]
pub(super) struct NewRecord {
    pub(super) record: RecordRef,
    pub(super) version: VersionRef,
}

impl RecordRef {
    /// The record a link names. The link must belong to the arena it is used with.
    #[inline]
    pub(super) fn from_raw(raw: u32) -> Option<Self> {
        Offset::from_raw(raw).map(Self)
    }

    #[inline]
    pub(super) fn raw(self) -> u32 {
        self.0.raw()
    }

    #[inline]
    fn header(self, arena: &Arena) -> &KeyHeader {
        let address = arena.resolve(self.0).cast::<KeyHeader>();
        // SAFETY: a record reference names a record of this arena that was filled before it was
        // published; records are aligned to a unit, never move and live as long as the arena.
        unsafe { &*address }
    }

    /// Brings the record's first lines into the cache.
    #[inline]
    pub(super) fn prefetch(self, arena: &Arena) {
        let address = arena.resolve(self.0);
        prefetch_address(address);
        prefetch_address(address.wrapping_add(64));
    }

    /// The record's key.
    #[inline]
    pub(super) fn key(self, arena: &Arena) -> &[u8] {
        let key_bytes = self.header(arena).key_bytes.get() as usize;
        let start = arena.resolve(self.0).wrapping_add(size_of::<KeyHeader>());
        // SAFETY: `key_bytes` bytes were written behind the header before publication and are
        // never written again.
        unsafe { slice::from_raw_parts(start, key_bytes) }
    }

    /// The versions, newest first.
    #[inline]
    pub(super) fn versions(self, arena: &Arena) -> Versions<'_> {
        // ORDERING: Acquire pairs with the Release in `link`: the version is complete.
        let newest = self.header(arena).newest.load(Ordering::Acquire);
        Versions { arena: Some(arena), next: newest }
    }

    /// Links a filled version into the chain at its place.
    pub(super) fn link(self, arena: &Arena, version: VersionRef) {
        let seq = version.header(arena).seq.get();
        let mut link = &self.header(arena).newest;
        // ORDERING: Acquire, because the version behind the link is looked at.
        let mut next = link.load(Ordering::Acquire);
        loop {
            // Pass what is newer. An equal sequence number stays behind: the later insert wins.
            while let Some(other) = VersionRef::from_raw(next) {
                let header = other.header(arena);
                if header.seq.get() <= seq {
                    break;
                }
                link = &header.older;
                next = link.load(Ordering::Acquire);
            }
            // ORDERING: Relaxed, published by the exchange below.
            version.header(arena).older.store(next, Ordering::Relaxed);
            if let Some(older) = VersionRef::from_raw(next) {
                version.count_behind(arena, older);
            }
            // ORDERING: PUBLISH (Release) publishes the version with all its bytes; Acquire on
            // failure as for the loads above. Nothing is ever unlinked, so on failure the walk goes
            // on from the same link.
            let raced =
                link.compare_exchange(next, version.0.raw(), super::PUBLISH, Ordering::Acquire);
            match raced {
                Ok(_) => return,
                Err(current) => next = current,
            }
        }
    }
}

impl VersionRef {
    #[inline]
    pub(super) fn from_raw(raw: u32) -> Option<Self> {
        Offset::from_raw(raw).map(Self)
    }

    #[inline]
    pub(super) fn raw(self) -> u32 {
        self.0.raw()
    }

    #[inline]
    pub(super) fn seq(self, arena: &Arena) -> u64 {
        self.header(arena).seq.get()
    }

    /// The version linked behind this one.
    #[inline]
    pub(super) fn older(self, arena: &Arena) -> Option<Self> {
        // ORDERING: Acquire pairs with the Release in `RecordRef::link`.
        Self::from_raw(self.header(arena).older.load(Ordering::Acquire))
    }

    #[inline]
    fn tail(self, arena: &Arena) -> *mut u8 {
        arena.resolve(self.0).wrapping_add(size_of::<VersionHeader>())
    }

    #[inline]
    fn flags(self, arena: &Arena) -> u8 {
        // SAFETY: the byte was written before publication, and is never written after it.
        unsafe { self.tail(arena).wrapping_add(FLAGS_AT).read() }
    }

    /// The version's shortcut, if it has one.
    #[inline]
    pub(super) fn shortcut(self, arena: &Arena) -> Option<&Shortcut> {
        if self.flags(arena) & HAS_SHORTCUT == 0 {
            return None;
        }
        let at = Offset::from_raw(self.raw().checked_sub(SHORTCUT_UNITS as u32)?)?;
        let address = arena.resolve(at).cast::<Shortcut>();
        // SAFETY: a version with the flag has a shortcut in front of it in the same allocation,
        // aligned to a unit and written before publication; only its atomic fields change.
        Some(unsafe { &*address })
    }

    /// Notes the length of the chain that this version is about to be linked in front of.
    #[inline]
    fn count_behind(self, arena: &Arena, older: Self) {
        let length = ((older.flags(arena) >> LENGTH_SHIFT) + 1).min(LONGEST_COUNTED);
        let kept = self.flags(arena) & (HAS_EXPIRY | HAS_SHORTCUT);
        let at = self.tail(arena).wrapping_add(FLAGS_AT);
        // SAFETY: the version is filled and not linked yet, so it is this thread's alone.
        unsafe { at.write(kept | length << LENGTH_SHIFT) };
        if length >= LONG_CHAIN
            && let Some(shortcut) = self.shortcut(arena)
        {
            shortcut.fill(arena, older);
        }
    }

    /// Where a reader at `snapshot`, who does not see this version, looks next.
    #[inline]
    fn next_at(self, arena: &Arena, snapshot: u64) -> Option<Self> {
        match self.shortcut(arena) {
            Some(shortcut) => shortcut.past(arena, snapshot).or_else(|| self.older(arena)),
            None => self.older(arena),
        }
    }

    #[inline]
    fn header(self, arena: &Arena) -> &VersionHeader {
        let address = arena.resolve(self.0).cast::<VersionHeader>();
        // SAFETY: as for `RecordRef::header`: filled before it was published, immovable.
        unsafe { &*address }
    }

    #[inline]
    fn read(self, arena: &Arena) -> ValueVersion<'_> {
        let header = self.header(arena);
        let tail = self.tail(arena);
        // SAFETY: the two bytes were written before publication and are never written again.
        let flags = unsafe { tail.cast::<[u8; EXPIRY_AT]>().read() };
        let mut value_at = EXPIRY_AT;
        let mut expires_at = 0;
        if flags[FLAGS_AT] & HAS_EXPIRY != 0 {
            let field = tail.wrapping_add(EXPIRY_AT).cast::<u64>();
            // SAFETY: a version with the flag has these eight bytes, written before publication.
            expires_at = unsafe { field.read_unaligned() };
            value_at += EXPIRY_BYTES;
        }
        let start = tail.wrapping_add(value_at);
        // SAFETY: `value_bytes` bytes were written there before publication and never again.
        let value = unsafe { slice::from_raw_parts(start, header.value_bytes as usize) };
        ValueVersion { seq: header.seq.get(), kind: flags[KIND_AT], expires_at, value }
    }
}

/// The versions of one key, newest first. Equal sequence numbers: the later insert first.
#[derive(Debug, Clone)]
pub struct Versions<'a> {
    arena: Option<&'a Arena>,
    next: u32,
}

impl<'a> Versions<'a> {
    /// No versions.
    pub(super) fn none() -> Self {
        Self { arena: None, next: 0 }
    }

    /// The newest version with a sequence number of at most `snapshot`. Cheaper than filtering:
    /// of many newer versions only a few are looked at, about twice the logarithm of their number,
    /// and none is decoded.
    #[inline]
    pub fn at(self, snapshot: u64) -> Option<ValueVersion<'a>> {
        let arena = self.arena?;
        let mut version = VersionRef::from_raw(self.next)?;
        while version.seq(arena) > snapshot {
            version = version.next_at(arena, snapshot)?;
        }
        Some(version.read(arena))
    }
}

impl<'a> Iterator for Versions<'a> {
    type Item = ValueVersion<'a>;

    #[inline]
    fn next(&mut self) -> Option<ValueVersion<'a>> {
        let arena = self.arena?;
        let version = VersionRef::from_raw(self.next)?;
        self.next = version.older(arena).map_or(0, VersionRef::raw);
        Some(version.read(arena))
    }
}

/// Bytes a version takes, headers included.
fn version_bytes(version: &NewVersion<'_>) -> Result<usize, ArenaFull> {
    let expiry_bytes = if version.expires_at == 0 { 0 } else { EXPIRY_BYTES };
    let value_bytes = u32::try_from(version.value.len()).map_err(|_| ArenaFull)? as usize;
    Ok(size_of::<VersionHeader>() + EXPIRY_AT + expiry_bytes + value_bytes)
}

/// Writes a record with its first version; no other thread sees it until the caller publishes it.
pub(super) fn create_record(
    arena: &Arena,
    key: &[u8],
    version: &NewVersion<'_>,
) -> Result<NewRecord, ArenaFull> {
    create_record_in(arena, key, version, |bytes| arena.allocate(bytes))
}

/// As [`create_record`], in memory of the arena that `take` returns for a number of bytes.
#[inline]
pub(super) fn create_record_in(
    arena: &Arena,
    key: &[u8],
    version: &NewVersion<'_>,
    take: impl FnOnce(usize) -> Result<Offset, ArenaFull>,
) -> Result<NewRecord, ArenaFull> {
    if key.len() > MAX_KEY_BYTES {
        return Err(ArenaFull);
    }
    let key_end = size_of::<KeyHeader>() + key.len();
    let version_at = key_end.next_multiple_of(UNIT_BYTES);
    let total = version_at + version_bytes(version)?;
    let record = take(total)?;
    let version_raw = record.raw() + (version_at / UNIT_BYTES) as u32;
    let version_ref = VersionRef(Offset::from_raw(version_raw).ok_or(ArenaFull)?);
    fill_version(arena, version_ref, version, 0);
    let base = arena.resolve(record);
    let header =
        KeyHeader { newest: AtomicU32::new(version_raw), key_bytes: Once::new(key.len() as u32) };
    // SAFETY: the allocation is this thread's alone, aligned to a unit and long enough.
    unsafe { base.cast::<KeyHeader>().write(header) };
    let key_start = base.wrapping_add(size_of::<KeyHeader>());
    // SAFETY: the allocation has room for the key behind the header; the two do not overlap.
    unsafe { ptr::copy_nonoverlapping(key.as_ptr(), key_start, key.len()) };
    Ok(NewRecord { record: RecordRef(record), version: version_ref })
}

/// Writes a version of a key that is there already; no other thread sees it until it is linked.
pub(super) fn create_version(
    arena: &Arena,
    version: &NewVersion<'_>,
) -> Result<VersionRef, ArenaFull> {
    let bytes = version_bytes(version)?;
    // Which versions have room for a shortcut is as good as chance: a look at the chain would have
    // the memory of the version in front wait for that of the one behind.
    let mixed = version.seq.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    if !mixed.is_multiple_of(SHORTCUT_EVERY) {
        let offset = VersionRef(arena.allocate(bytes)?);
        fill_version(arena, offset, version, 0);
        return Ok(offset);
    }
    let start = arena.allocate(SHORTCUT_UNITS * UNIT_BYTES + bytes)?;
    // SAFETY: the allocation is this thread's alone, aligned to a unit and long enough.
    unsafe { arena.resolve(start).cast::<Shortcut>().write(Shortcut::new()) };
    let raw = start.raw() + SHORTCUT_UNITS as u32;
    let offset = VersionRef(Offset::from_raw(raw).ok_or(ArenaFull)?);
    fill_version(arena, offset, version, HAS_SHORTCUT);
    Ok(offset)
}

/// Fills a version in memory that is long enough and still private to this thread.
fn fill_version(arena: &Arena, target: VersionRef, version: &NewVersion<'_>, flags: u8) {
    // `version_bytes` has refused what does not fit.
    let value_bytes = version.value.len() as u32;
    let base = arena.resolve(target.0);
    let header =
        VersionHeader { seq: Once::new(version.seq), older: AtomicU32::new(0), value_bytes };
    // SAFETY: the caller's allocation is private, aligned to a unit and long enough.
    unsafe { base.cast::<VersionHeader>().write(header) };
    let tail = target.tail(arena);
    let expires = if version.expires_at == 0 { 0 } else { HAS_EXPIRY };
    let flags = [version.kind, flags | expires];
    // SAFETY: the allocation continues behind the header.
    unsafe { tail.cast::<[u8; EXPIRY_AT]>().write(flags) };
    let mut value_at = EXPIRY_AT;
    if version.expires_at != 0 {
        let field = tail.wrapping_add(EXPIRY_AT).cast::<u64>();
        // SAFETY: `version_bytes` counted these eight bytes.
        unsafe { field.write_unaligned(version.expires_at) };
        value_at += EXPIRY_BYTES;
    }
    let start = tail.wrapping_add(value_at);
    // SAFETY: `version_bytes` counted the value; source and private target cannot overlap.
    unsafe { ptr::copy_nonoverlapping(version.value.as_ptr(), start, version.value.len()) };
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::arena::BlockPool;
    use crate::ordered::{BPlusTree, OrderedIndex};

    /// How many versions a reader at `snapshot` looks at.
    fn looks(tree: &BPlusTree, key: &[u8], snapshot: u64) -> usize {
        let versions = tree.versions(key);
        let arena = OrderedIndex::arena(tree);
        let first = VersionRef::from_raw(versions.next);
        let newer = std::iter::successors(first, |version| version.next_at(arena, snapshot));
        newer.take_while(|version| version.seq(arena) > snapshot).count()
    }

    #[test]
    fn an_old_snapshot_looks_at_few_of_many_newer_versions() {
        let count: u64 = if cfg!(miri) { 200 } else { 200_000 };
        let tree: BPlusTree = OrderedIndex::with_arena(Arena::new(BlockPool::new(0), u64::MAX));
        for seq in 1..=count {
            // Now and then two commits come the wrong way round.
            let seq = if seq % 100 >= 98 { 2 * (seq - seq % 100) + 197 - seq } else { seq };
            let version = NewVersion { seq, kind: 1, expires_at: seq % 3, value: b"value" };
            tree.insert(b"counter", version).unwrap();
        }
        let chain: Vec<u64> = tree.versions(b"counter").map(|version| version.seq).collect();
        assert!(chain.is_sorted_by(|a, b| a > b) && chain.len() as u64 == count);
        for snapshot in (0..=count).step_by(if cfg!(miri) { 7 } else { 997 }).chain([1, 2, count]) {
            let found = tree.get(b"counter", snapshot).map(|version| (version.seq, version.value));
            assert_eq!(found, (snapshot > 0).then_some((snapshot, &b"value"[..])));
            let most = 4 * usize::from(LONG_CHAIN) + 4 * count.ilog2() as usize;
            let looks = looks(&tree, b"counter", snapshot);
            assert!(looks <= most, "{looks} looks for {snapshot} of {count}");
        }
    }
}
