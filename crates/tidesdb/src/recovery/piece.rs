//! A piece of the log on its way into the memtables.
//!
//! Operations are inserted in the order of their keys, which takes a fraction of the time that the
//! order of the log takes: neighbours in a memtable are in the processor's caches. Threads share a
//! piece twice. First each decodes some of the records and sorts the operations into *buckets* by
//! their keys; then each inserts some of the buckets. All versions of a key are in one bucket, in
//! the order of the log, and pieces follow one another, so that a key that is written all the time
//! costs no more than any other: a memtable links versions from new to old, and an older one that
//! came later would have to pass all newer ones.
//!
//! A piece holds whole records whose checksums hold and that follow each other in the log. So what
//! is in the memtables is a prefix of the log whenever all threads are done with a piece.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tidesdb_base::entry::{SequenceNumber, ValueKind};
use tidesdb_base::error::{Error, Result};
use tidesdb_files::vlog::ValuePointer;
use tidesdb_files::wal::{BatchReader, Operation, SurvivingOperations};
use tidesdb_lockfree::prefetch::prefetch;
use tidesdb_lockfree::sync::lock;

use crate::memtable::Memtable;
use crate::version::Version;

/// Keys looked at to choose the bounds of buckets.
const SAMPLED_KEYS: usize = 512;

/// Buckets for each thread, so that one that takes long is made up for.
const BUCKETS_PER_THREAD: usize = 4;

/// Bytes of a piece from which on it is worth sharing between threads.
const SHARED_BYTES: usize = 512 << 10;

/// How many operations ahead their bytes are asked for: in the order of the keys each lies
/// elsewhere.
const PREFETCHED_AHEAD: usize = 8;

/// Bytes of an operation that are asked for ahead. Of long ones the processor finds the rest.
const PREFETCHED_BYTES: usize = 192;

/// Bytes in a line of the cache.
const LINE_BYTES: usize = 64;

/// A family that takes what is replayed.
#[derive(Debug)]
pub(crate) struct Target {
    pub memtable: Arc<Memtable>,
    /// The files, value logs among them that commits may point into.
    pub version: Arc<Version>,
    /// Commits up to here are in its tables.
    pub flushed_through: SequenceNumber,
}

impl Target {
    fn insert(&self, operation: &Operation<'_>, sequence: SequenceNumber) -> Result<()> {
        // A pointer that does not decode is told of by the read that meets it.
        if operation.kind == ValueKind::ValuePointer
            && let Ok(pointer) = ValuePointer::decode(operation.value)
            && let Some(file) = self.version.value_logs.get(&pointer.file)
        {
            // The file stays until the commit is in a table.
            file.change_life(|life| life.note_replayed(sequence));
        }
        self.memtable.insert(operation, sequence)
    }
}

/// All families that there are, by number.
#[derive(Debug)]
pub(crate) struct Targets {
    pub families: BTreeMap<u32, Target>,
    /// The first number that no family was ever given.
    pub next_family: u32,
}

/// Why a piece can't be applied: at the commit with this sequence number.
#[derive(Debug)]
pub(super) enum Failure {
    Undecodable,
    /// An operation of a family whose number was never given.
    UnknownFamily(u32),
    Other(Error),
}

/// Whole records of the log, in order.
#[derive(Debug, Default)]
pub(super) struct Piece {
    payloads: Vec<u8>,
    records: Vec<Record>,
}

#[derive(Debug)]
struct Record {
    sequence: SequenceNumber,
    /// Where its payload lies in the piece.
    from: usize,
    to: usize,
}

impl Piece {
    /// An empty piece with the memory of one that was applied.
    pub(super) fn emptied(mut self) -> Self {
        self.payloads.clear();
        self.records.clear();
        self
    }

    /// Has the processor load the beginning of an operation.
    #[inline]
    fn prefetch(&self, at: usize) {
        let lines = self.payloads.get(at..).unwrap_or_default().chunks(LINE_BYTES);
        lines.take(PREFETCHED_BYTES / LINE_BYTES).filter_map(<[u8]>::first).for_each(prefetch);
    }

    /// Makes room for a piece of `full` bytes, or of all that is left to read.
    pub(super) fn reserve(&mut self, full: usize, left: u64) {
        let left = usize::try_from(left).unwrap_or(usize::MAX);
        self.payloads.reserve(left.min(full.saturating_sub(self.payloads.len())));
    }

    pub(super) fn push(&mut self, payload: &[u8], sequence: SequenceNumber) {
        let from = self.payloads.len();
        self.payloads.extend_from_slice(payload);
        self.records.push(Record { sequence, from, to: self.payloads.len() });
    }

    pub(super) const fn bytes(&self) -> usize {
        self.payloads.len()
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    fn payload(&self, record: &Record) -> &[u8] {
        self.payloads.get(record.from..record.to).unwrap_or_default()
    }
}

/// An operation that is to be inserted. The order is that of the insertions: versions of a key
/// have the same head, and follow by age.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    family: u32,
    /// Eight bytes of the key, behind what the keys of the family have in common.
    head: u64,
    sequence: SequenceNumber,
    /// Where the operation lies in the piece.
    at: usize,
}

/// What the threads that apply a piece share.
#[derive(Debug)]
pub(super) struct PieceWork {
    piece: Piece,
    targets: Arc<Targets>,
    /// Where the heads of a family's keys begin.
    skipped: BTreeMap<u32, usize>,
    /// The first family and head of each bucket but the first, ascending.
    bounds: Vec<(u32, u64)>,
    /// Entries of each share of the records, by bucket.
    shares: Vec<Mutex<Vec<Vec<Entry>>>>,
    /// The failure of the oldest commit that has one.
    failure: Mutex<Option<(SequenceNumber, Failure)>>,
}

impl PieceWork {
    pub(super) fn new(piece: Piece, targets: &Arc<Targets>, threads: usize) -> Self {
        let small = piece.bytes() < SHARED_BYTES;
        let parts = if small { 1 } else { threads * BUCKETS_PER_THREAD };
        let mut work = Self {
            shares: (0..parts).map(|_| Mutex::default()).collect(),
            piece,
            targets: Arc::clone(targets),
            skipped: BTreeMap::new(),
            bounds: Vec::new(),
            failure: Mutex::new(None),
        };
        work.choose_bounds();
        work
    }

    /// Number of shares, and of buckets at most.
    pub(super) fn parts(&self) -> usize {
        self.shares.len()
    }

    /// Cuts the keys of the piece into buckets of about the same size, judged by a few of them.
    /// Whatever the others are, an operation's bucket depends on its key alone.
    fn choose_bounds(&mut self) {
        let step = (self.piece.records.len() / SAMPLED_KEYS).max(1);
        let first = |record| {
            let mut operations = BatchReader::new(self.piece.payload(record));
            operations.next().and_then(std::result::Result::ok)
        };
        let sample: Vec<Operation<'_>> =
            self.piece.records.iter().step_by(step).filter_map(first).collect();
        let mut common: BTreeMap<u32, &[u8]> = BTreeMap::new();
        for operation in &sample {
            let prefix = common.entry(operation.family).or_insert(operation.key);
            let same = prefix.iter().zip(operation.key).take_while(|(a, b)| a == b).count();
            *prefix = prefix.get(..same).unwrap_or_default();
        }
        let skipped: BTreeMap<u32, usize> =
            common.into_iter().map(|(family, prefix)| (family, prefix.len())).collect();
        let mut heads: Vec<(u32, u64)> = sample
            .iter()
            .map(|operation| (operation.family, head_of(operation, &skipped)))
            .collect();
        heads.sort_unstable();
        let parts = self.parts();
        let mut bounds: Vec<_> =
            (1..parts).filter_map(|part| heads.get(part * heads.len() / parts).copied()).collect();
        bounds.dedup();
        (self.skipped, self.bounds) = (skipped, bounds);
    }

    /// Decodes one share of the records.
    pub(super) fn decode(&self, share: usize) {
        let count = self.piece.records.len();
        let (from, to) = (share * count / self.parts(), (share + 1) * count / self.parts());
        let mut buckets = vec![Vec::new(); self.bounds.len() + 1];
        for record in self.piece.records.get(from..to).unwrap_or_default() {
            if let Err(failure) = self.decode_record(record, &mut buckets) {
                self.fail(record.sequence, failure);
                break;
            }
        }
        if let Some(share) = self.shares.get(share) {
            *lock(share) = buckets;
        }
    }

    fn decode_record(&self, record: &Record, buckets: &mut [Vec<Entry>]) -> Result<(), Failure> {
        let sequence = record.sequence;
        let mut operations = SurvivingOperations::new(self.piece.payload(record));
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
            let (family, head) = (operation.family, head_of(&operation, &self.skipped));
            let bucket = self.bounds.partition_point(|bound| *bound <= (family, head));
            if let Some(bucket) = buckets.get_mut(bucket) {
                bucket.push(Entry { family, head, sequence, at: record.from + offset });
            }
        }
        Ok(())
    }

    /// Inserts the operations of one bucket.
    pub(super) fn insert(&self, bucket: usize) {
        let mut entries = Vec::new();
        for share in &self.shares {
            entries.append(lock(share).get_mut(bucket).unwrap_or(&mut Vec::new()));
        }
        entries.sort_unstable();
        for (place, entry) in entries.iter().enumerate() {
            if let Some(ahead) = entries.get(place + PREFETCHED_AHEAD) {
                self.piece.prefetch(ahead.at);
            }
            let bytes = self.piece.payloads.get(entry.at..).unwrap_or_default();
            let target = self.targets.families.get(&entry.family);
            let operation = BatchReader::new(bytes).next().and_then(std::result::Result::ok);
            let inserted = target.zip(operation).ok_or(Failure::Undecodable).and_then(
                |(target, operation)| {
                    target.insert(&operation, entry.sequence).map_err(Failure::Other)
                },
            );
            if let Err(failure) = inserted {
                return self.fail(entry.sequence, failure);
            }
        }
    }

    /// The piece, once all threads are done with it.
    pub(super) fn into_piece(self) -> Piece {
        self.piece
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
}

#[inline]
fn head_of(operation: &Operation<'_>, skipped: &BTreeMap<u32, usize>) -> u64 {
    let skipped = skipped.get(&operation.family).copied().unwrap_or(0);
    let rest = operation.key.get(skipped..).unwrap_or_default();
    if let Some(head) = rest.first_chunk() {
        return u64::from_be_bytes(*head);
    }
    let mut head = [0; 8];
    head.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
    u64::from_be_bytes(head)
}
