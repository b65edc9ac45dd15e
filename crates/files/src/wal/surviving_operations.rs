//! What is left of a batch once its range deletions have met the operations before them.
//!
//! All operations of a commit share one sequence number, and a range tombstone hides older ones
//! only. So what a batch does to a key before it deletes a range over that key is not applied at
//! all: the tombstone hides what earlier commits did, and what the batch does afterwards stays.
//! Commits and recovery both apply a payload through [`SurvivingOperations`], so they agree.
//!
//! A payload may have a gigabyte of operations of a few bytes each. So which ones are undone is
//! found backwards by [`AT_A_TIME`] operations: all of them at once would take ten times its bytes.
//!
//! Threads: plain data. A payload without range deletions costs one look at its operations more.

use std::collections::HashMap;

use tidesdb_base::codec::Malformed;
use tidesdb_base::entry::ValueKind;
use tidesdb_base::key_ranges::KeyRangeUnion;

use super::{BatchReader, Operation};

/// So many operations are decoded together.
const AT_A_TIME: usize = 4096;

/// Reads the operations of a payload in order, without those that a later one of them undoes. What
/// no commit can hold is malformed: [`Operation::checked`].
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
                return Some((offset, item.and_then(Operation::checked)));
            }
        }
    }
}

/// Which operations are undone, by their places.
fn undone(mut reader: BatchReader<'_>) -> Vec<bool> {
    // Readers at the beginning of each part of the payload.
    let (mut parts, mut count) = (Vec::new(), 0);
    loop {
        let begin = reader.clone();
        let operations = reader.by_ref().take(AT_A_TIME).flatten().count();
        if operations == 0 {
            break;
        }
        parts.push((begin, count));
        count += operations;
    }
    let mut deleted: HashMap<u32, KeyRangeUnion<'_>> = HashMap::new();
    let mut undone = vec![false; count];
    for (begin, first) in parts.into_iter().rev() {
        let operations: Vec<Operation<'_>> = begin.take(AT_A_TIME).flatten().collect();
        let places = undone.get_mut(first..).unwrap_or_default();
        for (operation, undone) in operations.iter().zip(places).rev() {
            let ranges = deleted.entry(operation.family).or_default();
            if operation.kind == ValueKind::RangeTombstone {
                ranges.insert(operation.key, operation.value);
            } else {
                *undone = ranges.contains(operation.key);
            }
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
    use tidesdb_base::limits::MAX_KEY_BYTES;

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
    fn a_range_deletion_undoes_what_stands_far_before_it() {
        let (count, mut payload) = (3 * AT_A_TIME + 7, Vec::new());
        let mut operation = |kind, key: &[u8], value: &[u8]| {
            let operation = Operation { family: 1, kind, expires_at: 0, key, value };
            BatchWriter::new(&mut payload).push(operation);
        };
        let keys: Vec<_> = (0..count).map(|n| format!("{n:06}").into_bytes()).collect();
        let (from, until) = (&keys[AT_A_TIME - 2], &keys[AT_A_TIME + 1]);
        for (n, key) in keys.iter().enumerate() {
            operation(ValueKind::Value, key, b"");
            if n == 2 * AT_A_TIME {
                operation(ValueKind::RangeTombstone, from, until);
            }
        }
        operation(ValueKind::RangeTombstone, &keys[count - 1], b"");
        let left: Vec<_> = SurvivingOperations::new(&payload)
            .map(Result::unwrap)
            .filter(|operation| operation.kind == ValueKind::Value)
            .map(|operation| operation.key.to_vec())
            .collect();
        let mut expected = keys.clone();
        expected.pop();
        expected.drain(AT_A_TIME - 2..=AT_A_TIME);
        assert_eq!(left, expected);
    }

    #[test]
    fn what_no_commit_can_hold_is_malformed() {
        use ValueKind::{RangeTombstone, Tombstone, Value};
        let long = vec![b'k'; MAX_KEY_BYTES];
        let longer = vec![b'k'; MAX_KEY_BYTES + 1];
        let is_sound = |kind, key: &[u8], value: &[u8]| {
            let mut payload = Vec::new();
            let operation = Operation { family: 1, kind, expires_at: 0, key, value };
            BatchWriter::new(&mut payload).push(operation);
            SurvivingOperations::new(&payload).all(|read| read == Ok(operation))
        };
        for kind in [Value, Tombstone, RangeTombstone] {
            assert!(is_sound(kind, &long, b""));
            assert!(!is_sound(kind, &longer, b""));
            assert!(!is_sound(kind, b"", b""));
        }
        assert!(is_sound(RangeTombstone, b"a", &long) && is_sound(Value, b"k", &longer));
        assert!(!is_sound(RangeTombstone, b"a", &longer));
        assert!(!is_sound(RangeTombstone, b"b", b"b") && !is_sound(RangeTombstone, b"b", b"a"));
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
