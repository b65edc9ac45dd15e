//! Step 5 of a put: its operations go into the active memtables of their families.

use tidesdb_base::codec::Malformed;
use tidesdb_base::entry::SequenceNumber;
use tidesdb_base::error::{Error, Result};
use tidesdb_files::wal::{BatchReader, Operation, SurvivingOperations};

use super::WriteBatch;
use crate::family::FamilyState;
use crate::memtable::Memtable;

/// Applies one operation. True when the memtable is full then.
#[inline]
pub(super) fn apply_operation(
    family: &FamilyState,
    operation: &Operation<'_>,
    sequence: SequenceNumber,
) -> Result<bool> {
    let view = family.view.load();
    note(family, operation);
    view.active.insert(operation, sequence)?;
    Ok(is_full(family, &view.active))
}

/// Applies the operations of a logged payload to the memtables of the batch's families. True when
/// one of those is full then.
pub(super) fn apply_batch(
    batch: &WriteBatch,
    payload: &[u8],
    sequence: SequenceNumber,
) -> Result<bool> {
    if let [family] = &*batch.families
        && !batch.deletes_ranges
    {
        let view = family.view.load();
        let mut inserts = view.active.inserts();
        for operation in BatchReader::new(payload) {
            let operation = operation.map_err(undecodable)?;
            note(family, &operation);
            inserts.insert(&operation, sequence)?;
        }
        return Ok(is_full(family, &view.active));
    }
    let views: Vec<_> = batch.families.iter().map(|family| (family, family.view.load())).collect();
    let mut targets: Vec<_> =
        views.iter().map(|(family, view)| (family, view.active.inserts())).collect();
    let mut at = 0;
    let insert = |operation: std::result::Result<Operation<'_>, Malformed>| {
        let operation = operation.map_err(undecodable)?;
        if targets.get(at).is_none_or(|target| target.0.id != operation.family) {
            let of_family = batch.families.position(operation.family);
            at = of_family.ok_or_else(|| unknown_family(operation.family))?;
        }
        let Some((family, inserts)) = targets.get_mut(at) else { return Ok(()) };
        note(family, &operation);
        inserts.insert(&operation, sequence)
    };
    if batch.deletes_ranges {
        SurvivingOperations::new(payload).try_for_each(insert)?;
    } else {
        BatchReader::new(payload).try_for_each(insert)?;
    }
    Ok(views.iter().any(|(family, view)| is_full(family, &view.active)))
}

/// Notes an operation that is about to be inserted where it is remembered that nothing lives.
#[inline]
fn note(family: &FamilyState, operation: &Operation<'_>) {
    if !operation.kind.is_tombstone() {
        family.reads.dead_ranges.note_put(operation.key);
    }
}

#[inline]
fn is_full(family: &FamilyState, memtable: &Memtable) -> bool {
    memtable.used_bytes() >= family.options.freeze_bytes()
}

#[cold]
fn unknown_family(id: u32) -> Error {
    Error::Internal(format!("a write batch names family {id}, which it does not know"))
}

#[cold]
fn undecodable(_: Malformed) -> Error {
    Error::Internal("a write batch does not decode".to_owned())
}
