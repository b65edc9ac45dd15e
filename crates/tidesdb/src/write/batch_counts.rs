//! What a commit to several families counts for each of them.

use tidesdb_base::entry::ValueKind;
use tidesdb_files::wal::BatchReader;
use tidesdb_files::wal::record::record_bytes;

use super::WriteBatch;

/// Counts a commit to several families: to each what is its own, to the first what the record takes
/// besides operations.
pub(super) fn count_by_family(batch: &WriteBatch, payload: &[u8]) {
    let families = &batch.families;
    let mut counts = vec![[0_u64; 3]; families.len()];
    let mut reader = BatchReader::new(payload);
    let mut left = reader.remaining_bytes();
    while let Some(Ok(operation)) = reader.next() {
        let bytes = (left - reader.remaining_bytes()) as u64;
        left = reader.remaining_bytes();
        let Some(count) = families.position(operation.family).and_then(|at| counts.get_mut(at))
        else {
            continue;
        };
        // A value that went to a value log is counted below.
        let is_pointer = operation.kind == ValueKind::ValuePointer;
        let value = if is_pointer { 0 } else { operation.value.len() };
        count[0] += (operation.key.len() + value) as u64;
        count[1] += 1;
        count[2] += bytes;
    }
    for direct in &batch.direct {
        if let Some(count) = families.position(direct.family.id).and_then(|at| counts.get_mut(at)) {
            count[0] += direct.value.len() as u64;
        }
    }
    if let Some(first) = counts.first_mut() {
        first[2] += (record_bytes(payload.len()) - payload.len()) as u64;
    }
    for (family, [bytes, operations, log_bytes]) in families.iter().zip(counts) {
        family.counters.hot.add_commit(bytes, operations, log_bytes);
    }
}
