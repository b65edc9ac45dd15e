//! What a commit to several families counts for each of them.

use tidesdb_base::entry::ValueKind;
use tidesdb_base::key_order::KeyOrder;
use tidesdb_files::wal::BatchReader;
use tidesdb_files::wal::record::record_bytes;

use super::WriteBatch;

/// Bytes of a key and its value as they were given; of the bounds of a range as they are stored. Of
/// a C string that is deleted the bytes behind its NUL are not stored, so they do not count.
fn given_bytes(order: &KeyOrder, kind: ValueKind, stored_key: &[u8], stored_value: &[u8]) -> u64 {
    if order.stores_keys_as_given() || kind == ValueKind::RangeTombstone {
        return (stored_key.len() + stored_value.len()) as u64;
    }
    let mut key = Vec::new();
    order.put_key(stored_key, stored_value, &mut key);
    (key.len() + order.value(stored_value).len()) as u64
}

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
        let Some(at) = families.position(operation.family) else { continue };
        let (Some(count), Some(family)) = (counts.get_mut(at), families.get(at)) else { continue };
        // What went to a value log is counted below.
        if operation.kind != ValueKind::ValuePointer {
            count[0] +=
                given_bytes(&family.keys.order, operation.kind, operation.key, operation.value);
        }
        count[1] += 1;
        count[2] += bytes;
    }
    for direct in &batch.direct {
        if let Some(count) = families.position(direct.family.id).and_then(|at| counts.get_mut(at)) {
            count[0] += given_bytes(
                &direct.family.keys.order,
                ValueKind::Value,
                &direct.key,
                &direct.value,
            );
            count[2] += direct.value.len() as u64;
        }
    }
    if let Some(first) = counts.first_mut() {
        first[2] += (record_bytes(payload.len()) - payload.len()) as u64;
    }
    for (family, [bytes, operations, log_bytes]) in families.iter().zip(counts) {
        family.counters.hot.add_commit(bytes, operations, log_bytes);
    }
}
