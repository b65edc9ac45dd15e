//! What a scan of a transaction records in the transaction's read set.

use std::ops::Bound;
use std::sync::{Arc, Mutex};

use tidesdb_lockfree::sync::lock;

use super::{RangeEnd, ReadRange, ReadSet};
use crate::family::FamilyState;
use crate::iterator::RangesRead;

/// A scan's place in the read set.
#[derive(Debug)]
pub(in crate::transaction) struct ScanReads {
    reads: Arc<Mutex<ReadSet>>,
    family: u32,
    place: usize,
}

impl ScanReads {
    pub(in crate::transaction) fn new(
        reads: &Arc<Mutex<ReadSet>>,
        family: &Arc<FamilyState>,
    ) -> Self {
        let place = lock(reads).open_scan(family);
        Self { reads: Arc::clone(reads), family: family.id, place }
    }
}

impl RangesRead for ScanReads {
    fn leave(&self) {
        lock(&self.reads).begin_range(self.place, None);
    }

    fn enter(&self, start: &[u8], end: Bound<&[u8]>) {
        let (start, end) = (start.to_vec(), RangeEnd::of(end));
        let range = ReadRange { family: self.family, start, end };
        lock(&self.reads).begin_range(self.place, Some(range));
    }

    fn extend_end(&self, end: Bound<&[u8]>) {
        lock(&self.reads).extend_end(self.place, RangeEnd::of(end));
    }

    fn extend_start(&self, start: &[u8]) {
        lock(&self.reads).extend_start(self.place, start);
    }
}

impl Drop for ScanReads {
    fn drop(&mut self) {
        lock(&self.reads).close_scan(self.place);
    }
}
