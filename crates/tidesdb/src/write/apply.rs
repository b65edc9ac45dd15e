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
            if operation.family != family.id {
                return Err(unknown_family(operation.family));
            }
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
            at = batch.families.position(operation.family).unwrap_or(usize::MAX);
        }
        let target = targets.get_mut(at);
        let (family, inserts) = target.ok_or_else(|| unknown_family(operation.family))?;
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

#[cfg(test)]
mod tests {
    use tidesdb_base::options::{DbOptions, FamilyOptions};

    use super::*;
    use crate::db::{Components, Db};

    /// It went to the memtable of the first family, or to none without a word.
    #[test]
    fn an_operation_of_a_family_that_the_batch_does_not_name_is_an_error() {
        let db = Db::open_with("/db", DbOptions::default(), Components::simulated()).unwrap();
        let [one, two, three] = ["one", "two", "three"]
            .map(|name| db.create_family(name, FamilyOptions::default()).unwrap());
        let mut other = WriteBatch::new();
        other.put(&three, b"key", b"value").unwrap();
        for families in [&[&one][..], &[&one, &two]] {
            for deletes_ranges in [false, true] {
                let mut batch = WriteBatch::new();
                families.iter().for_each(|family| batch.put(family, b"known", b"value").unwrap());
                let known = batch.record.clone();
                apply_batch(&batch, &known, 1).unwrap();
                batch.deletes_ranges = deletes_ranges;
                let refused = apply_batch(&batch, &other.record, 2);
                assert!(matches!(refused, Err(Error::Internal(_))), "{refused:?}");
            }
        }
        for family in [&one, &two, &three] {
            // Publishes what the memtables have.
            family.put(b"last", b"value").unwrap();
            assert_eq!(family.get(b"key").unwrap(), None);
        }
        assert_eq!(two.get(b"known").unwrap(), Some(b"value".to_vec()));
    }
}
