//! What is left of a batch once its range deletions have met the operations before them.
//!
//! All operations of a commit share one sequence number, and a range tombstone hides older ones
//! only. So what a batch does to a key before it deletes a range over that key is not applied at
//! all: the tombstone hides what earlier commits did, and what the batch does afterwards stays.
//! Commits and recovery both apply a payload through [`SurvivingOperations`], so they agree.
//!
//! Threads: plain data. A payload without range deletions costs one look at its operations more.

use std::collections::HashMap;

use tidesdb_base::codec::Malformed;
use tidesdb_base::entry::ValueKind;
use tidesdb_base::key_ranges::KeyRangeUnion;

use super::{BatchReader, Operation};

/// Reads the operations of a payload in order, without those that a later one of them undoes.
#[derive(Clone, Debug)]
pub struct SurvivingOperations<'a> {
    reader: BatchReader<'a>,
    payload_bytes: usize,
    /// Whether the operation at this place is undone; those behind the end are not.
    undone: Vec<bool>,
    at: usize,
}

impl<'a> SurvivingOperations<'a> {
    /// The survivors of a whole payload.
    #[must_use]
    pub fn new(payload: &'a [u8]) -> Self {
        let payload_bytes = payload.len();
        let reader = BatchReader::new(payload);
        let deletes_ranges = reader.clone().flatten().any(|o| o.kind == ValueKind::RangeTombstone);
        let undone = if deletes_ranges { undone(reader.clone()) } else { Vec::new() };
        Self { reader, payload_bytes, undone, at: 0 }
    }

    /// The next operation and where it begins in the payload.
    #[inline]
    pub fn next_with_offset(&mut self) -> Option<(usize, Result<Operation<'a>, Malformed>)> {
        loop {
            let offset = self.payload_bytes - self.reader.remaining_bytes();
            let item = self.reader.next()?;
            let undone = self.undone.get(self.at).copied().unwrap_or(false);
            self.at += 1;
            if !undone {
                return Some((offset, item));
            }
        }
    }
}

/// Which operations are undone, by their places.
fn undone(reader: BatchReader<'_>) -> Vec<bool> {
    let operations: Vec<Operation<'_>> = reader.flatten().collect();
    let mut deleted: HashMap<u32, KeyRangeUnion<'_>> = HashMap::new();
    let mut undone = vec![false; operations.len()];
    for (operation, undone) in operations.iter().zip(&mut undone).rev() {
        let ranges = deleted.entry(operation.family).or_default();
        if operation.kind == ValueKind::RangeTombstone {
            ranges.insert(operation.key, operation.value);
        } else {
            *undone = ranges.contains(operation.key);
        }
    }
    undone
}

impl<'a> Iterator for SurvivingOperations<'a> {
    type Item = Result<Operation<'a>, Malformed>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.next_with_offset().map(|(_, item)| item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wal::BatchWriter;

    fn survivors(operations: &[(u32, ValueKind, &[u8], &[u8])]) -> Vec<usize> {
        let mut payload = Vec::new();
        let operation =
            |&(family, kind, key, value)| Operation { family, kind, expires_at: 0, key, value };
        for given in operations {
            BatchWriter::new(&mut payload).push(operation(given));
        }
        let left: Vec<_> = SurvivingOperations::new(&payload).map(Result::unwrap).collect();
        // Values are unique in these tests, so that they tell the operations apart.
        let place = |o: Operation<'_>| operations.iter().position(|given| operation(given) == o);
        left.into_iter().map(|o| place(o).unwrap()).collect()
    }

    #[test]
    fn a_range_deletion_undoes_what_stands_before_it() {
        use ValueKind::{RangeTombstone, Tombstone, Value};
        assert_eq!(
            survivors(&[
                (1, Value, b"b", b"before"),
                (1, Value, b"d", b"outside"),
                (2, Value, b"b", b"another family"),
                (1, Tombstone, b"c", b""),
                (1, RangeTombstone, b"b", b"d"),
                (1, Value, b"b", b"after"),
                (1, RangeTombstone, b"c", b""),
            ]),
            [2, 4, 5, 6]
        );
        assert_eq!(survivors(&[(1, Value, b"b", b"1"), (1, Value, b"b", b"2")]), [0, 1]);
    }

    #[test]
    fn a_payload_that_breaks_off_still_ends_in_an_error() {
        let mut payload = Vec::new();
        let operation = Operation {
            family: 1,
            kind: ValueKind::RangeTombstone,
            expires_at: 0,
            key: b"a",
            value: b"b",
        };
        BatchWriter::new(&mut payload).push(operation);
        payload.push(0x7F);
        let read: Vec<_> = SurvivingOperations::new(&payload).collect();
        assert_eq!(read, [Ok(operation), Err(Malformed)]);
    }
}
