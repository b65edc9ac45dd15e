//! A decoded block that a read holds: pinned in the cache, or decoded for this read alone.
//!
//! A block of the second kind gives its memory back to the thread that lets go of it, for the next
//! block that this thread reads. So reads of blocks that are not worth caching allocate nothing.

use std::cell::Cell;

use tidesdb_base::thread_buffer::{keep_buffer, take_buffer};
use tidesdb_files::sstable::{Block, BlockHolder, BlockRef, BlockShape};
use tidesdb_lockfree::cache::Pinned;

/// Buffers larger than this are not kept.
pub(super) const LARGEST_KEPT_BYTES: usize = 256 << 10;

thread_local! {
    /// One buffer is enough: a walk lets go of its block once it has the next.
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// The thread's spare buffer, whatever is in it, or an empty one.
pub(super) fn spare_buffer() -> Vec<u8> {
    take_buffer(&SPARE)
}

/// A block that stays readable for as long as this lives.
#[derive(Debug)]
pub(crate) enum HeldBlock {
    /// In the cache, or evicted from it since.
    Cached(Pinned<BlockShape>),
    /// Not in the cache.
    Own(OwnBlock),
}

impl HeldBlock {
    /// Holds a block that the cache does not want.
    pub(super) const fn own(block: Block) -> Self {
        Self::Own(OwnBlock(block))
    }

    /// Bytes of memory that it keeps: of a block that is not cached, its whole buffer, which a
    /// larger block may have had before.
    pub(crate) fn memory_bytes(&self) -> usize {
        match self {
            Self::Cached(_) => self.view().memory_bytes(),
            Self::Own(block) => block.0.memory_bytes(),
        }
    }
}

impl BlockHolder for HeldBlock {
    #[inline]
    fn view(&self) -> BlockRef<'_> {
        match self {
            Self::Cached(block) => BlockRef::new(**block, block.tail()),
            Self::Own(block) => block.0.view(),
        }
    }

    fn own_memory_bytes(&self) -> usize {
        match self {
            Self::Cached(_) => 0,
            Self::Own(block) => block.0.memory_bytes(),
        }
    }
}

/// A block whose memory becomes the spare buffer of the thread that drops it.
#[derive(Debug)]
pub(crate) struct OwnBlock(Block);

impl Drop for OwnBlock {
    fn drop(&mut self) {
        let raw = std::mem::take(&mut self.0).into_raw();
        keep_buffer(&SPARE, raw, LARGEST_KEPT_BYTES);
    }
}

#[cfg(test)]
mod tests {
    use tidesdb_base::options::{DbOptions, FamilyOptions};

    use super::*;
    use crate::db::{Components, Db};
    use crate::iterator::ScanOptions;

    fn key(n: u32) -> Vec<u8> {
        format!("{n:08}").into_bytes()
    }

    /// Nested reads, walks over other blocks and drops in any order use one spare buffer.
    #[test]
    fn blocks_that_are_not_cached_never_share_a_buffer_in_use() {
        let options = DbOptions::default().block_cache_bytes(32 << 10);
        let db = Db::open_with("/db", options, Components::simulated()).unwrap();
        let family = db.create_family("blocks", FamilyOptions::default()).unwrap();
        for n in 0..4000 {
            family.put(&key(n), &key(n).repeat(12)).unwrap();
        }
        family.flush().unwrap();
        let full = db.core().storage.files.blocks.statistics()[1];
        for n in (0..4000).rev() {
            let other = (n * 1733) % 4000;
            let seen = family.get_with(&key(n), |value| {
                assert_eq!(family.get(&key(other)).unwrap(), Some(key(other).repeat(12)));
                value == key(n).repeat(12)
            });
            assert_eq!(seen.unwrap(), Some(true), "{n}");
        }
        let mut walks: Vec<_> =
            (0..3).map(|_| family.scan(ScanOptions::default()).unwrap()).collect();
        for n in 0..100_u32 {
            for (which, walk) in walks.iter_mut().enumerate() {
                let at = (n * 37 + which as u32 * 1301) % 4000;
                walk.seek(&key(at)).unwrap();
                assert_eq!(family.get(&key(3999 - at)).unwrap(), Some(key(3999 - at).repeat(12)));
                assert_eq!(walk.value().unwrap(), key(at).repeat(12), "{at}");
            }
        }
        assert!(db.core().storage.files.blocks.statistics()[0] <= full);
        assert!(SPARE.take().capacity() > 0, "nothing was put to the test");
    }
}
