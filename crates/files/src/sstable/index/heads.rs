//! The heads of a table's separators, and the tree in which one is found.
//!
//! A binary search over the heads of a large table waits for a cache line in each of its steps. So
//! above the array lie levels of heads, as in a B+tree without pointers: one group is looked
//! through a level, all of its lines are fetched at once, and all levels but the array itself
//! usually stay in the cache (array layouts: Khuong and Morin, "Array Layouts for Comparison-Based
//! Searching", ACM Journal of Experimental Algorithmics 22, 2017). Where a block lies is kept
//! beside its head, so that knowing the block is having its place. A group of the array is one
//! line of memory, since of what a lookup touches here this alone is not in the cache, and what it
//! loads displaces something else.
//!
//! The levels take two bytes and an eighth for each block. Immutable once built. Heads that are not
//! sorted, as only a forged table's are, lead astray, and no more.

use tidesdb_sys::large_vec::{LargeVec, NoMemory};

/// Heads of one group of a level.
const GROUP: usize = 16;

/// Places of one group of the array: those of a line of memory, which is where large arrays begin.
const GROUP_OF_PLACES: usize = 4;

/// The head of a block's separator, and where the block ends in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) head: u64,
    pub(super) end: u64,
}

/// The heads of all separators of a table, with levels above them: of every fourth one, and then of
/// every sixteenth of the level below.
#[derive(Debug, Default)]
pub(super) struct Heads {
    places: LargeVec<Place>,
    /// The largest head of each group of the level below, the topmost level last. No level for an
    /// array of one group, and the topmost one has one group.
    levels: Vec<LargeVec<u64>>,
}

impl Heads {
    /// The heads of these blocks, which are in order.
    ///
    /// # Errors
    /// [`NoMemory`].
    pub(super) fn of(places: LargeVec<Place>) -> Result<Self, NoMemory> {
        let mut levels = Vec::new();
        let mut below = largest_of(places.chunks(GROUP_OF_PLACES), |place| place.head)?;
        while below.len() > 1 {
            let above = largest_of(below.chunks(GROUP), |&head| head)?;
            levels.push(below);
            below = above;
        }
        Ok(Self { places, levels })
    }

    /// The blocks in order.
    #[inline]
    pub(super) fn places(&self) -> &[Place] {
        &self.places
    }

    /// The first block whose head is at or above `wanted`; the number of blocks if there is none.
    #[inline]
    pub(super) fn lower_bound(&self, wanted: u64) -> usize {
        let mut at = 0;
        for level in self.levels.iter().rev() {
            at = below_in_group::<GROUP, _>(level, at, |&head| head < wanted);
        }
        below_in_group::<GROUP_OF_PLACES, _>(&self.places, at, |place| place.head < wanted)
    }

    /// Bytes of memory held besides the structure itself.
    pub(super) fn memory_bytes(&self) -> usize {
        let levels = self.levels.iter().map(|level| level.capacity() * size_of::<u64>());
        self.places.capacity() * size_of::<Place>()
            + self.levels.capacity() * size_of::<LargeVec<u64>>()
            + levels.sum::<usize>()
    }
}

fn largest_of<'a, T: 'a>(
    groups: impl ExactSizeIterator<Item = &'a [T]>,
    head: impl Fn(&T) -> u64,
) -> Result<LargeVec<u64>, NoMemory> {
    let mut largest = LargeVec::with_capacity(groups.len())?;
    for group in groups {
        largest.push(group.last().map_or(0, &head))?;
    }
    Ok(largest)
}

/// The first of group number `group` of a level that is not below, as a place in the level. A group
/// behind the last one begins at the level's end.
#[inline]
fn below_in_group<const N: usize, T>(
    level: &[T],
    group: usize,
    is_below: impl Fn(&T) -> bool,
) -> usize {
    let start = (group * N).min(level.len());
    let behind = level.get(start..).unwrap_or_default();
    // All of a whole group are looked at, whatever the first ones say: no step waits for another.
    let below = match behind.first_chunk::<N>() {
        Some(whole) => whole.iter().map(|entry| usize::from(is_below(entry))).sum::<usize>(),
        None => behind.iter().map(|entry| usize::from(is_below(entry))).sum(),
    };
    start + below
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heads(heads: &[u64]) -> Heads {
        let mut places = LargeVec::with_capacity(heads.len()).unwrap();
        heads.iter().for_each(|&head| places.push(Place { head, end: 0 }).unwrap());
        Heads::of(places).unwrap()
    }

    fn check(sorted: &[u64]) {
        let searched = heads(sorted);
        let mut wanted = vec![0, 1, u64::MAX];
        for &head in sorted {
            wanted.extend([head.saturating_sub(1), head, head.saturating_add(1)]);
        }
        for wanted in wanted {
            let expected = sorted.partition_point(|&head| head < wanted);
            assert_eq!(searched.lower_bound(wanted), expected, "{wanted} in {sorted:?}");
        }
        let bytes = searched.memory_bytes() - sorted.len() * size_of::<Place>();
        // And what is left of the last page.
        let most = 3 * sorted.len() + 256 + 4096;
        assert!(bytes <= most, "{bytes} bytes above {} heads", sorted.len());
    }

    #[test]
    fn every_head_is_found_however_many_and_however_spread() {
        for len in (0..70).chain([255, 256, 257, 272, 273, 4095, 4096, 4097, 5000]) {
            check(&(0..len).map(|at| at * 3 + 1).collect::<Vec<_>>());
            check(&(0..len).map(|at| at / 7).collect::<Vec<_>>());
        }
        check(&[u64::MAX; 100]);
        check(&[0; 33]);
        check(&(0..64).map(|bit| 1 << bit).collect::<Vec<_>>());
        let mut steps = vec![3; 50];
        steps.extend((0..200).map(|at| (1 << 60) + at / 7));
        steps.extend([u64::MAX; 9]);
        check(&steps);
    }

    #[test]
    fn unsorted_heads_do_no_harm() {
        let unsorted: Vec<u64> =
            (0..1000_u64).map(|at| at.wrapping_mul(0x9E37_79B9) % 77).collect();
        let searched = heads(&unsorted);
        for wanted in 0..80 {
            assert!(searched.lower_bound(wanted) <= unsorted.len());
        }
    }
}
