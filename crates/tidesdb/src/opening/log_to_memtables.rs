//! From the log's operations to memtables.
//!
//! Threads that decode the log write each version into the memory of its memtable at once, one
//! behind the other, and remember it: eight bytes of its key, its place in the log, and where it
//! lies. When all is decoded, or the versions become too many, they are sorted, and memtables are
//! made of them (`super::build_memtable`). So what lies in no order is touched as seldom as can be:
//! that costs more than all else. All versions of a key are linked from old to new, so that a key
//! that is written all the time costs no more than any other.
//!
//! A version of a key that there is already takes the key's bytes anew; not more than the log does.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tidesdb_base::entry::{SequenceNumber, ValueKind};
use tidesdb_base::error::{Error, Result};
use tidesdb_files::wal::SurvivingOperations;
use tidesdb_lockfree::ordered::btree::Unlinked;
use tidesdb_lockfree::sync::lock;

use super::build_memtable::MemtableBuild;
use super::decoded_versions::DecodedVersions;
use super::log_chunk::{Failure, LogChunk, Record};
use super::replayed_families::ReplayedFamilies;
use super::workers::Workers;

/// Versions of a family that are worth sharing between threads.
const SHARED_VERSIONS: usize = 16 << 10;

/// What one thread at a time has decoded, by family.
type Decoded = BTreeMap<u32, DecodedVersions>;

/// What the threads share that replay the log.
#[derive(Debug)]
pub(super) struct MemtableLoad {
    targets: ReplayedFamilies,
    /// Of threads that are not decoding now.
    decoded: Mutex<Vec<Decoded>>,
    /// The failure of the oldest commit that has one.
    failure: Mutex<Option<(SequenceNumber, Failure)>>,
}

impl MemtableLoad {
    pub(super) fn new(targets: ReplayedFamilies) -> Self {
        Self { targets, decoded: Mutex::default(), failure: Mutex::default() }
    }

    /// Decodes one of so many shares of a chunk.
    pub(super) fn decode(&self, chunk: &LogChunk, share: usize, shares: usize) {
        let mut decoded = lock(&self.decoded).pop().unwrap_or_default();
        for record in chunk.share(share, shares) {
            if let Err(failure) = self.decode_record(chunk, record, &mut decoded) {
                self.fail(record.sequence, failure);
                break;
            }
        }
        lock(&self.decoded).push(decoded);
    }

    fn decode_record(
        &self,
        chunk: &LogChunk,
        record: &Record,
        decoded: &mut Decoded,
    ) -> Result<(), Failure> {
        let (sequence, payload) = (record.sequence, chunk.payload(record));
        // Where the payload begins, or less than a record header behind that.
        let start = sequence.saturating_sub(payload.len() as u64);
        let mut operations = SurvivingOperations::new(payload);
        while let Some((offset, operation)) = operations.next_with_offset() {
            let operation = operation.map_err(|_| Failure::Undecodable)?;
            let Some(target) = self.targets.families.get(&operation.family) else {
                // Its family was dropped; a number that was never given is damage.
                if operation.family < self.targets.next_family {
                    continue;
                }
                return Err(Failure::UnknownFamily(operation.family));
            };
            if sequence <= target.flushed_through {
                continue;
            }
            target.keep_value_log(&operation, sequence);
            let added = if operation.kind == ValueKind::RangeTombstone {
                target.memtable.insert(&operation, sequence)
            } else {
                let versions = decoded.entry(operation.family).or_default();
                versions.add(target, &operation, (sequence, start + offset as u64))
            };
            added.map_err(Failure::Other)?;
        }
        Ok(())
    }

    fn fail(&self, sequence: SequenceNumber, failure: Failure) {
        let mut first = lock(&self.failure);
        if first.as_ref().is_none_or(|(earlier, _)| sequence < *earlier) {
            *first = Some((sequence, failure));
        }
    }

    /// The failure of the oldest commit that has one, once all threads are done.
    pub(super) fn failure(&self) -> Option<(SequenceNumber, Failure)> {
        lock(&self.failure).take()
    }

    /// Bytes of all versions, while no thread is decoding.
    pub(super) fn decoded_bytes(&self) -> usize {
        let decoded = lock(&self.decoded);
        let versions =
            decoded.iter().flat_map(BTreeMap::values).map(|versions| versions.unlinked.len());
        versions.sum::<usize>() * size_of::<Unlinked>()
    }

    /// Whether there is no room for more, while no thread is decoding.
    pub(super) fn is_full(&self) -> bool {
        let taken = self.targets.memory.used_bytes() + self.decoded_bytes() as u64;
        taken > self.targets.most_bytes
    }

    /// Makes memtables of what was decoded, with the threads of `workers`.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::Internal`] when a thread panicked.
    pub(super) fn load(&self, workers: &Workers) -> Result<()> {
        let mut families: BTreeMap<u32, Vec<DecodedVersions>> = BTreeMap::new();
        for decoded in lock(&self.decoded).drain(..) {
            for (family, versions) in decoded {
                if !versions.unlinked.is_empty() {
                    families.entry(family).or_default().push(versions);
                }
            }
        }
        let mut small = Vec::new();
        for (family, versions) in families {
            let Some(target) = self.targets.families.get(&family) else { continue };
            let first =
                versions.iter().map(|versions| versions.first_sequence).min().unwrap_or(u64::MAX);
            target.memtable.note_first(first);
            let count: usize = versions.iter().map(|versions| versions.unlinked.len()).sum();
            let parts = if count < SHARED_VERSIONS { 1 } else { workers.threads() * 8 };
            let load = MemtableBuild::new(&target.memtable, versions, parts);
            if parts == 1 {
                small.push(load);
                continue;
            }
            let load = Arc::new(load);
            let shared = Arc::clone(&load);
            workers.run(load.slices(), move |slice| shared.part(slice), || ())?;
            let shared = Arc::clone(&load);
            workers.run(load.buckets(), move |bucket| shared.load(bucket), || ())?;
            load.join()?;
        }
        let (count, failed) = (small.len(), Arc::new(Mutex::new(None)));
        let shared = Arc::clone(&failed);
        let load_all = move |place: usize| {
            let Some(load) = small.get(place) else { return };
            (0..load.slices()).for_each(|slice| load.part(slice));
            (0..load.buckets()).for_each(|bucket| load.load(bucket));
            if let Err(e) = load.join() {
                *lock(&shared) = Some(e);
            }
        };
        workers.run(count, load_all, || ())?;
        let error: Option<Error> = lock(&failed).take();
        error.map_or(Ok(()), Err)
    }
}
