//! The writes of a transaction, in the order in which they were made.
//!
//! They are kept as a write batch, encoded as the log wants them: writing is appending, and a
//! commit hands the batch over as it is. An index by key is made when a key is looked up for the
//! first time and brought up to date at later look-ups, so a transaction that only writes never
//! pays for one. Of several writes of a key the last one counts. Rolling back to a savepoint cuts
//! the batch, and takes what was cut out of the index: it costs as much as what it takes back.
//!
//! Used by one thread at a time, like the transaction; looking up changes the index behind a
//! shared reference.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use tidesdb_base::entry::ValueKind;
use tidesdb_base::error::{Error, Result};
use tidesdb_files::wal::{BatchReader, Operation};

use super::offset_index::{OffsetIndex, hash_of};
use crate::family::FamilyState;
use crate::iterator::OwnWrites;
use crate::memory::MemoryBudget;
use crate::write::WriteBatch;
use crate::write::batch::{BatchMark, BatchOperations};

/// Up to this many operations are looked through one by one.
const UNINDEXED: usize = 8;

/// Marks the number of an entry as that of a direct value; others are offsets in the record,
/// which is shorter than this.
const DIRECT: u32 = 1 << 31;

/// Memory that is too little to be counted.
const LITTLE_BYTES: usize = 4 << 10;

/// Memory that is kept for the next transaction of the handle.
const MOST_KEPT_BYTES: usize = 4 << 20;

thread_local! {
    /// Of a transaction that is over, empty, for the thread's next one.
    static SPARE: Cell<Option<Box<WriteSet>>> = const { Cell::new(None) };
}

/// The last operation on each key.
#[derive(Debug, Default)]
struct Index {
    entries: OffsetIndex,
    /// How far the batch is indexed: offset in the record, number of direct values.
    through: (usize, usize),
    /// Entries in the order of the batch that took the place of another, and that one. Noted while
    /// there are savepoints: a rollback puts them back.
    displaced: Vec<(u32, u32)>,
    /// Of families that were scanned.
    in_order: Vec<InOrder>,
}

impl Index {
    /// Forgets all and keeps memory.
    fn clear(&mut self) {
        self.in_order.clear();
        self.entries.clear();
        self.displaced = Vec::new();
        self.through = (0, 0);
    }
}

/// An operation that a rollback takes back.
struct Cut {
    hash: u64,
    entry: u32,
}

/// The last operations on the keys of a family in key order, up to a place in the batch.
#[derive(Debug)]
struct InOrder {
    family: u32,
    own: Arc<OwnWrites>,
    /// As in [`Index`].
    through: (usize, usize),
}

/// A batch of the writes of a transaction, with an index by key once one is needed.
#[derive(Debug, Default)]
pub(super) struct WriteSet {
    batch: WriteBatch,
    index: RefCell<Index>,
    savepoints: Vec<(String, BatchMark)>,
    grown: Cell<bool>,
    /// There may be an index, a sorted copy, a savepoint, or much memory.
    is_more_than_a_batch: Cell<bool>,
}

impl WriteSet {
    /// An empty one, with the memory of the thread's last transaction if that was little.
    #[inline]
    pub(super) fn begin() -> Box<Self> {
        // On a thread that is ending there is no spare one.
        SPARE.try_with(Cell::take).ok().flatten().unwrap_or_default()
    }

    /// Lets go of everything but a little memory, which the thread keeps.
    #[inline]
    pub(super) fn end(mut self: Box<Self>) {
        let index = self.index.get_mut();
        let is_a_batch = index.in_order.capacity() == 0
            && index.entries.memory_bytes() == 0
            && self.savepoints.capacity() == 0;
        if is_a_batch && self.batch.is_little(LITTLE_BYTES) {
            self.clear();
            // It must not keep a family in memory that was dropped, or whose database was closed.
            self.batch.forget_families();
            let _ = SPARE.try_with(|spare| spare.set(Some(self)));
        }
    }

    pub(super) const fn batch(&self) -> &WriteBatch {
        &self.batch
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.batch.is_empty()
    }

    /// Adds an operation.
    ///
    /// # Errors
    /// As [`WriteBatch::put`].
    #[inline]
    pub(super) fn add(
        &mut self,
        family: &Arc<FamilyState>,
        kind: ValueKind,
        expires_at: u64,
        key: &[u8],
        value: &[u8],
    ) -> Result<()> {
        let capacity = self.batch.record.capacity();
        self.batch.add(family, kind, expires_at, key, value)?;
        if capacity != self.batch.record.capacity() || !self.batch.direct.is_empty() {
            self.grown.set(true);
            self.is_more_than_a_batch.set(true);
        }
        Ok(())
    }

    /// True when more memory may be held than when this was last asked.
    #[inline]
    pub(super) fn has_grown(&self) -> bool {
        self.grown.get() && self.grown.replace(false)
    }

    /// The last operation on a key.
    pub(super) fn find(&self, family: u32, key: &[u8]) -> Option<Operation<'_>> {
        if self.batch.len() <= UNINDEXED {
            let same = |op: &Operation<'_>| op.family == family && op.key == key;
            return self.batch.operations().filter(same).last();
        }
        let mut index = self.index.borrow_mut();
        self.bring_up_to_date(&mut index);
        let same = |entry| self.is_of(entry, family, key);
        let entry = index.entries.find(hash_of(family, key), same)?;
        self.operation(entry)
    }

    /// The last operations on the keys of a family, in key order.
    pub(super) fn in_order(&self, family: u32, budget: &Arc<MemoryBudget>) -> Arc<OwnWrites> {
        let mut index = self.index.borrow_mut();
        let known = index.in_order.iter_mut().find(|known| known.family == family);
        // What is much to what there is, is sorted at once.
        let has_most = |known: &InOrder| {
            !known.own.is_empty() || known.through.0 >= self.batch.record.len() / 2
        };
        if let Some(known) = known.filter(|known| has_most(known)) {
            self.bring_in_order(known, budget);
            return Arc::clone(&known.own);
        }
        self.bring_up_to_date(&mut index);
        let operations = index.entries.entries().filter_map(|entry| self.operation(entry));
        let operations = operations.filter(|op| op.family == family).collect();
        let own = Arc::new(OwnWrites::new(operations, budget));
        index.in_order.retain(|known| known.family != family);
        let through = index.through;
        index.in_order.push(InOrder { family, own: Arc::clone(&own), through });
        own
    }

    /// Adds what was written since it was made.
    fn bring_in_order(&self, known: &mut InOrder, budget: &Arc<MemoryBudget>) {
        let mut operations = self.batch.operations_from(known.through.0, known.through.1);
        for operation in operations.by_ref().filter(|op| op.family == known.family) {
            Arc::make_mut(&mut known.own).put(&operation, budget);
        }
        known.through = operations.place();
    }

    fn operation(&self, entry: u32) -> Option<Operation<'_>> {
        if entry & DIRECT != 0 {
            let value = self.batch.direct.get((entry & !DIRECT) as usize);
            return value.map(crate::write::batch::DirectValue::operation);
        }
        let bytes = self.batch.record.get(entry as usize..)?;
        BatchReader::new(bytes).next()?.ok()
    }

    fn is_of(&self, entry: u32, family: u32, key: &[u8]) -> bool {
        self.operation(entry).is_some_and(|op| op.family == family && op.key == key)
    }

    fn bring_up_to_date(&self, index: &mut Index) {
        let bytes_of = |index: &Index| (index.entries.memory_bytes(), index.displaced.capacity());
        let before = bytes_of(index);
        let mut operations = self.batch.operations_from(index.through.0, index.through.1);
        while let Some((entry, operation)) = next_entry(&mut operations) {
            let (family, key) = (operation.family, operation.key);
            let same = |entry| self.is_of(entry, family, key);
            let before = index.entries.put(hash_of(family, key), entry, same);
            if let Some(before) = before
                && !self.savepoints.is_empty()
            {
                index.displaced.push((entry, before));
            }
        }
        index.through = operations.place();
        if bytes_of(index) != before {
            self.grown.set(true);
        }
        self.is_more_than_a_batch.set(true);
    }

    /// Bytes of the batch that are indexed.
    #[cfg(test)]
    pub(super) fn indexed_bytes(&self) -> usize {
        self.index.borrow().through.0
    }

    /// True when there is a savepoint.
    pub(super) fn has_savepoints(&self) -> bool {
        !self.savepoints.is_empty()
    }

    /// Marks the present extent under a name. A name that is there already keeps its place in the
    /// order and takes the new mark.
    pub(super) fn savepoint(&mut self, name: &str) {
        self.is_more_than_a_batch.set(true);
        let mark = self.batch.end();
        match self.savepoints.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => *known = mark,
            None => self.savepoints.push((name.to_owned(), mark)),
        }
    }

    /// Removes what was written since the savepoint, it itself, and all that were created later.
    ///
    /// # Errors
    /// [`Error::SavepointNotFound`].
    pub(super) fn rollback_to(&mut self, name: &str, budget: &Arc<MemoryBudget>) -> Result<()> {
        let at = self.place_of(name)?;
        if let Some((_, mark)) = self.savepoints.get(at) {
            // A later savepoint whose mark was moved may lie before this one's.
            let mark = *mark;
            self.cut(mark, budget);
        }
        self.savepoints.truncate(at);
        self.forget_displaced();
        Ok(())
    }

    /// Forgets a savepoint.
    ///
    /// # Errors
    /// [`Error::SavepointNotFound`].
    pub(super) fn release(&mut self, name: &str) -> Result<()> {
        let at = self.place_of(name)?;
        self.savepoints.remove(at);
        self.forget_displaced();
        Ok(())
    }

    /// Without savepoints nothing is put back.
    fn forget_displaced(&mut self) {
        if self.savepoints.is_empty() {
            self.index.get_mut().displaced.clear();
        }
    }

    fn place_of(&self, name: &str) -> Result<usize> {
        let at = self.savepoints.iter().position(|(known, _)| known == name);
        at.ok_or_else(|| Error::SavepointNotFound(name.to_owned()))
    }

    fn cut(&mut self, mark: BatchMark, budget: &Arc<MemoryBudget>) {
        let place = (mark.record_bytes, mark.direct);
        let mut index = std::mem::take(self.index.get_mut());
        let has_copy_behind =
            |index: &Index, place| index.in_order.iter().any(|copy| is_behind(copy.through, place));
        if is_behind(index.through, place) || has_copy_behind(&index, place) {
            // What was displaced by all operations of a sorted copy has to be known.
            if has_copy_behind(&index, index.through) {
                self.bring_up_to_date(&mut index);
            }
            self.take_back(&mut index, place, budget);
        }
        *self.index.get_mut() = index;
        self.batch.truncate(mark);
        for (_, later) in &mut self.savepoints {
            if later.is_behind(mark) {
                *later = mark;
            }
        }
    }

    /// Takes the operations from this place on out of the index, as far as they are in it.
    fn take_back(&self, index: &mut Index, place: (usize, usize), budget: &Arc<MemoryBudget>) {
        let mut operations = self.batch.operations_from(place.0, place.1);
        let mut cut = Vec::new();
        while operations.place() != index.through
            && let Some((entry, operation)) = next_entry(&mut operations)
        {
            cut.push(Cut { hash: hash_of(operation.family, operation.key), entry });
        }
        for &Cut { hash, entry } in cut.iter().rev() {
            match index.displaced.pop_if(|(by, _)| *by == entry) {
                Some((_, before)) => {
                    index.entries.put(hash, before, |other| other == entry);
                }
                None => index.entries.remove(hash, entry),
            }
        }
        index.through = place;
        for known in index.in_order.iter_mut().filter(|known| is_behind(known.through, place)) {
            let own = Arc::make_mut(&mut known.own);
            for &Cut { hash, entry } in &cut {
                let Some(undone) = self.operation(entry) else { continue };
                if undone.family != known.family {
                    continue;
                }
                let same = |entry| self.is_of(entry, undone.family, undone.key);
                match index.entries.find(hash, same).and_then(|entry| self.operation(entry)) {
                    Some(before) => own.put(&before, budget),
                    None => own.remove(undone.key, budget),
                }
            }
            known.through = place;
        }
    }

    /// Forgets everything and keeps a moderate amount of memory.
    #[inline]
    pub(super) fn clear(&mut self) {
        if self.is_more_than_a_batch.replace(false) {
            self.clear_all();
        } else if !self.batch.is_empty() {
            self.batch.clear();
        }
    }

    #[inline(never)]
    fn clear_all(&mut self) {
        if self.batch.memory_bytes() > MOST_KEPT_BYTES {
            self.batch = WriteBatch::new();
        }
        self.index.get_mut().clear();
        self.savepoints.clear();
        self.batch.clear();
        // What is kept counts with the next transaction's first write, unless it is little.
        let much = self.memory_bytes() > LITTLE_BYTES;
        self.grown.set(much);
        self.is_more_than_a_batch.set(much);
    }

    /// Bytes of memory held.
    #[inline]
    pub(super) fn memory_bytes(&self) -> usize {
        let index = self.index.borrow();
        let displaced = index.displaced.capacity() * size_of::<(u32, u32)>();
        self.batch.memory_bytes() + index.entries.memory_bytes() + displaced
    }
}

/// Whether there are operations between `place` and `through`, a place behind it.
const fn is_behind(through: (usize, usize), place: (usize, usize)) -> bool {
    through.0 > place.0 || through.1 > place.1
}

/// The next operation of a batch, and its entry in the index.
fn next_entry<'b>(operations: &mut BatchOperations<'b>) -> Option<(u32, Operation<'b>)> {
    let (position, direct) = operations.place();
    let operation = operations.next()?;
    let is_direct = operations.place().1 != direct;
    let entry = if is_direct { direct as u32 | DIRECT } else { position as u32 };
    Some((entry, operation))
}
