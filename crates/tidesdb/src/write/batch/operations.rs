//! A walk over the operations of a batch.

use tidesdb_base::entry::ValueKind;
use tidesdb_files::wal::{BatchReader, Operation};

use super::{DirectValue, WriteBatch};

impl WriteBatch {
    /// All operations in the order in which they were added, with their whole values.
    pub(crate) fn operations(&self) -> BatchOperations<'_> {
        self.operations_from(0, 0)
    }

    /// The operations from a place in the record and among the direct values on.
    pub(crate) fn operations_from(&self, position: usize, direct: usize) -> BatchOperations<'_> {
        let payload = self.record.get(position..).unwrap_or_default();
        BatchOperations { batch: self, reader: BatchReader::new(payload), direct }
    }
}

/// Walks the operations of a batch.
#[derive(Debug)]
pub(crate) struct BatchOperations<'a> {
    batch: &'a WriteBatch,
    reader: BatchReader<'a>,
    direct: usize,
}

impl BatchOperations<'_> {
    /// Where the next operation lies: its offset in the record, and the number of the next direct
    /// value. The direct value comes first when it was added at that offset.
    #[inline]
    pub(crate) fn place(&self) -> (usize, usize) {
        (self.batch.record.len() - self.reader.remaining_bytes(), self.direct)
    }
}

impl<'a> Iterator for BatchOperations<'a> {
    type Item = Operation<'a>;

    #[inline]
    fn next(&mut self) -> Option<Operation<'a>> {
        if let Some(value) = self.batch.direct.get(self.direct)
            && value.position <= self.place().0
        {
            self.direct += 1;
            return Some(value.operation());
        }
        // The batch wrote the record itself, so it decodes.
        self.reader.next().and_then(Result::ok)
    }
}

impl DirectValue {
    pub(crate) fn operation(&self) -> Operation<'_> {
        Operation {
            family: self.family.id,
            kind: ValueKind::Value,
            expires_at: self.expires_at,
            key: &self.key,
            value: &self.value,
        }
    }
}
