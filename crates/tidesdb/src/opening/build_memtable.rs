//! Making the memtable of a family of what was decoded of the log.
//!
//! The versions are parted into buckets by bounds that a sample of them gives, each bucket is
//! sorted and becomes a row of leaves, and the rows are joined: three steps, the first two of which
//! threads share. A memtable that is not empty takes the versions one by one instead.

use std::sync::{Arc, Mutex};

use tidesdb_base::error::{Error, Result};
use tidesdb_lockfree::ordered::btree::{LoadedPart, Unlinked};
use tidesdb_lockfree::sync::lock;
use tidesdb_sys::large_vec::{LargeVec, NoMemory};

use super::decoded_versions::{DecodedVersions, common_bytes};
use crate::memtable::Memtable;

/// Versions looked at to choose the bounds of buckets, for each of them.
const SAMPLED_PER_BUCKET: usize = 64;

/// Versions that are parted at a time.
const SLICE_VERSIONS: usize = 64 << 10;

/// Versions of one thread that are parted as one.
#[derive(Clone, Copy, Debug)]
struct Slice {
    source: usize,
    from: usize,
    to: usize,
}

/// The memtable that a replay makes for a family, and the versions that it is made of.
#[derive(Debug)]
pub(super) struct MemtableBuild {
    memtable: Arc<Memtable>,
    sources: Vec<DecodedVersions>,
    /// Bytes that all keys share.
    shared: usize,
    slices: Vec<Slice>,
    /// The first head of each bucket but the first, ascending.
    bounds: Vec<u64>,
    /// Of each slice, the versions of each bucket.
    parted: Vec<Mutex<Vec<LargeVec<Unlinked>>>>,
    /// The leaves of each bucket.
    loaded: Vec<Mutex<LoadedPart>>,
    /// Memory of buckets that are done.
    spare: Mutex<Vec<LargeVec<Unlinked>>>,
    is_first: bool,
    failed: Mutex<Option<Error>>,
}

impl MemtableBuild {
    /// A load of what several threads decoded, at least one operation each.
    pub(super) fn new(
        memtable: &Arc<Memtable>,
        sources: Vec<DecodedVersions>,
        buckets: usize,
    ) -> Self {
        let sample = sources.first().map(|versions| versions.sample.clone()).unwrap_or_default();
        let both = |versions: &DecodedVersions| {
            versions.shared.min(common_bytes(&sample, &versions.sample))
        };
        let shared = sources.iter().map(both).min().unwrap_or(0);
        let mut slices = Vec::new();
        for (source, versions) in sources.iter().enumerate() {
            let count = versions.unlinked.len();
            let slice = |from| Slice { source, from, to: count.min(from + SLICE_VERSIONS) };
            slices.extend((0..count).step_by(SLICE_VERSIONS).map(slice));
        }
        let mut load = Self {
            memtable: Arc::clone(memtable),
            is_first: memtable.index().is_empty(),
            parted: slices.iter().map(|_| Mutex::default()).collect(),
            bounds: Vec::new(),
            loaded: Vec::new(),
            spare: Mutex::default(),
            failed: Mutex::default(),
            sources,
            shared,
            slices,
        };
        load.choose_bounds(buckets);
        load.loaded = (0..=load.bounds.len()).map(|_| Mutex::default()).collect();
        load
    }

    /// Cuts the keys into buckets of about the same size, judged by some of them. Equal keys are in
    /// one bucket, as their heads are equal.
    fn choose_bounds(&mut self, buckets: usize) {
        let count: usize = self.sources.iter().map(|versions| versions.unlinked.len()).sum();
        let step = (count / (buckets * SAMPLED_PER_BUCKET)).max(1);
        let mut heads = Vec::new();
        for versions in self.sources.iter().filter(|_| buckets > 1) {
            for (at, unlinked) in versions.unlinked.iter().enumerate().step_by(step) {
                heads.push(self.current(versions, at, unlinked).head());
            }
        }
        heads.sort_unstable();
        let bound = |bucket: usize| heads.get(bucket * heads.len() / buckets).copied();
        self.bounds = (1..buckets).filter_map(bound).collect();
        self.bounds.dedup();
    }

    /// A version with the head behind what all keys share.
    #[inline]
    fn current(&self, versions: &DecodedVersions, at: usize, unlinked: &Unlinked) -> Unlinked {
        if at >= versions.outdated && versions.shared == self.shared {
            return *unlinked;
        }
        self.memtable.index().with_head(unlinked, self.shared)
    }

    pub(super) fn slices(&self) -> usize {
        self.slices.len()
    }

    pub(super) fn buckets(&self) -> usize {
        self.loaded.len()
    }

    /// Parts one slice.
    pub(super) fn part(&self, slice: usize) {
        if self.try_part(slice).is_err() {
            self.fail();
        }
    }

    fn fail(&self) {
        *lock(&self.failed) = Some(Error::OutOfMemory("the memtable"));
    }

    fn try_part(&self, slice: usize) -> Result<(), NoMemory> {
        let (Some(&Slice { source, from, to }), Some(parted)) =
            (self.slices.get(slice), self.parted.get(slice))
        else {
            return Ok(());
        };
        let Some(versions) = self.sources.get(source) else { return Ok(()) };
        let mut buckets: Vec<LargeVec<Unlinked>> = Vec::new();
        // A quarter more than on the average: few have to grow.
        let usual = (to - from) / self.buckets() * 5 / 4;
        for _ in 0..self.buckets() {
            buckets.push(LargeVec::with_capacity(usual)?);
        }
        for (at, unlinked) in versions.unlinked.iter().enumerate().take(to).skip(from) {
            let unlinked = self.current(versions, at, unlinked);
            let bucket = self.bounds.partition_point(|&bound| bound <= unlinked.head());
            if let Some(bucket) = buckets.get_mut(bucket) {
                bucket.push(unlinked)?;
            }
        }
        *lock(parted) = buckets;
        Ok(())
    }

    /// Sorts one bucket and makes leaves of it, or inserts its versions.
    pub(super) fn load(&self, bucket: usize) {
        let Some(loaded) = self.loaded.get(bucket) else { return };
        let mut entries = lock(&self.spare).pop().unwrap_or_default();
        entries.clear();
        for slice in &self.parted {
            let slice = lock(slice);
            if entries.extend_from_slice(slice.get(bucket).map_or(&[], |part| part)).is_err() {
                return self.fail();
            }
        }
        let index = self.memtable.index();
        let outcome = if self.is_first {
            index.load_part(&mut entries, self.shared).map(|part| *lock(loaded) = part)
        } else {
            index.sort_unlinked(&mut entries, self.shared);
            entries.iter().try_for_each(|entry| index.insert_unlinked(entry))
        };
        if outcome.is_err() {
            self.fail();
        }
        lock(&self.spare).push(entries);
    }

    /// Makes the memtable of all leaves, once every bucket is loaded.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub(super) fn join(&self) -> Result<()> {
        if let Some(error) = lock(&self.failed).take() {
            return Err(error);
        }
        let parts = self.loaded.iter().map(|part| std::mem::take(&mut *lock(part))).collect();
        let joined = self.memtable.index().join(parts, self.shared);
        joined.map_err(|_| Error::OutOfMemory("the memtable"))
    }
}
