//! The large values that a scan meets.
//!
//! A scan over keys whose values lie in value logs jumps between these logs, but in each of them it
//! mostly goes forward: a flush writes values in key order. So it reads ahead in each on its own,
//! and one read serves many values.

use std::cell::{Cell, OnceCell, RefCell};

use tidesdb_base::error::Result;
use tidesdb_files::vlog::RecordReadahead;

use crate::core::Owner;
use crate::memory::{Holder, MemoryReservation};
use crate::version::{Version, resolve};

/// Value logs in which a scan reads ahead at the same time.
const MOST_FILES: usize = 16;

/// Buffers larger than this are not kept for the next scan: only short ones are so many that it
/// pays.
const LARGEST_SPARE_BYTES: usize = 8 << 10;

/// Buffers larger than this are not kept for the next value.
const LARGEST_KEPT_BYTES: usize = 1 << 20;

thread_local! {
    /// The buffers of a scan that has ended, for the thread's next one: many scans are short.
    static SPARE: Cell<Vec<RecordReadahead>> = const { Cell::new(Vec::new()) };
}

/// Fetches the values of a scan from value logs, and reads ahead in each.
#[derive(Debug)]
pub(super) struct ScannedValues {
    /// The value of the present key, once it is fetched.
    present: OnceCell<Vec<u8>>,
    ahead: RefCell<ReadAhead>,
}

impl ScannedValues {
    /// Values of a scan of this database, in whose budget they count as they are read.
    pub(super) fn new(owner: &Owner) -> Self {
        let reservation = owner.core().memory.budget.reserve(Holder::Scans, 0);
        let (files, buffers) = (Vec::new(), Vec::new());
        let ahead = ReadAhead { files, buffers, hand: 0, spare: Vec::new(), reservation };
        Self { present: OnceCell::new(), ahead: RefCell::new(ahead) }
    }

    /// The value of the present key, which an encoded pointer of this version points at.
    ///
    /// # Errors
    /// [`tidesdb_base::Error::Corruption`] when the pointer or the value is damaged;
    /// [`tidesdb_base::Error::Io`].
    #[cold]
    pub(super) fn fetch(&self, version: &Version, encoded: &[u8]) -> Result<&[u8]> {
        if self.present.get().is_none() {
            let value = self.ahead.borrow_mut().fetch(version, encoded)?;
            let _ = self.present.set(value);
        }
        Ok(self.present.get().map_or(&[], Vec::as_slice))
    }

    /// The scan takes up what was committed since, so nothing that it has read ahead counts. A
    /// large value goes to its log before its commit is certain, and the value of another commit
    /// takes its place when that is called off. Both have the checksum of that place.
    pub(super) fn forget(&mut self) {
        self.leave();
        self.ahead.get_mut().files.clear();
    }

    /// Bytes of memory held.
    #[cfg(test)]
    pub(super) fn memory_bytes(&self) -> u64 {
        let ahead = self.ahead.borrow();
        let buffers: usize = ahead.buffers.iter().map(RecordReadahead::memory_bytes).sum();
        let present = self.present.get().map_or(0, Vec::capacity);
        (buffers + present + ahead.spare.capacity()) as u64
    }

    /// What is noted of it.
    #[cfg(test)]
    pub(super) fn noted_bytes(&self) -> u64 {
        self.ahead.borrow().reservation.bytes()
    }

    /// The scan leaves the present key.
    #[inline]
    pub(super) fn leave(&mut self) {
        if let Some(value) = self.present.take() {
            self.ahead.get_mut().reuse(value);
        }
    }
}

/// Where a scan reads ahead.
#[derive(Debug)]
struct ReadAhead {
    /// Numbers of the value logs that are read ahead in.
    files: Vec<u64>,
    /// Their buffers, and some that are free.
    buffers: Vec<RecordReadahead>,
    /// Whose place the next file takes when all are taken.
    hand: usize,
    spare: Vec<u8>,
    /// What the buffers and the present value take.
    reservation: MemoryReservation,
}

impl ReadAhead {
    fn fetch(&mut self, version: &Version, encoded: &[u8]) -> Result<Vec<u8>> {
        let (pointer, file) = resolve(version, encoded)?;
        let mut value = std::mem::take(&mut self.spare);
        let spare_bytes = value.capacity();
        let ahead = self.ahead_in(pointer.file);
        let before = spare_bytes + ahead.memory_bytes();
        let read = file.read_along(&pointer, ahead, &mut value);
        let after = value.capacity() + ahead.memory_bytes();
        if after != before {
            let others = self.reservation.bytes().saturating_sub(before as u64);
            self.reservation.change_to(others + after as u64);
        }
        match read {
            Ok(()) => Ok(value),
            Err(e) => {
                self.reuse(value);
                Err(e)
            }
        }
    }

    /// Takes the memory of a value that is not needed any more.
    fn reuse(&mut self, value: Vec<u8>) {
        if value.capacity() <= LARGEST_KEPT_BYTES {
            self.spare = value;
        } else {
            let left = self.reservation.bytes().saturating_sub(value.capacity() as u64);
            self.reservation.change_to(left);
        }
    }

    fn ahead_in(&mut self, file: u64) -> &mut RecordReadahead {
        let at = self.files.iter().position(|&number| number == file).unwrap_or_else(|| {
            let at = if self.files.len() < MOST_FILES {
                self.files.push(file);
                self.files.len() - 1
            } else {
                self.hand = (self.hand + 1) % MOST_FILES;
                self.files[self.hand] = file;
                self.hand
            };
            if self.buffers.is_empty() {
                self.buffers = SPARE.try_with(Cell::take).unwrap_or_default();
                let bytes: usize = self.buffers.iter().map(RecordReadahead::memory_bytes).sum();
                self.reservation.change_to(self.reservation.bytes() + bytes as u64);
            }
            if self.buffers.len() <= at {
                self.buffers.push(RecordReadahead::default());
            }
            self.buffers[at].clear();
            at
        });
        &mut self.buffers[at]
    }
}

impl Drop for ReadAhead {
    fn drop(&mut self) {
        if !self.buffers.is_empty() {
            let mut buffers = std::mem::take(&mut self.buffers);
            buffers.retain(|ahead| ahead.memory_bytes() <= LARGEST_SPARE_BYTES);
            // A thread that is ending has no spare buffers any more: the memory is freed.
            let _ = SPARE.try_with(|spare| spare.set(buffers));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tidesdb_base::options::{DbOptions, FamilyOptions};
    use tidesdb_sim::{FaultError, FaultKind, FaultVfs, Op, OpSet, SimVfs};

    use super::*;
    use crate::db::{Components, Db};
    use crate::iterator::ScanOptions;

    fn key(n: usize) -> Vec<u8> {
        format!("{n:06}").into_bytes()
    }

    fn value(n: usize) -> Vec<u8> {
        key(n).repeat(100 + n % 90)
    }

    #[test]
    fn keys_without_values_read_no_value_log() {
        let faults = FaultVfs::new(SimVfs::new(1) as _);
        let components = Components { vfs: Arc::clone(&faults) as _, ..Components::simulated() };
        let db = Db::open_with("/db", DbOptions::default(), components).unwrap();
        let family = db.create_family("values", FamilyOptions::default()).unwrap();
        for n in 0..100 {
            family.put(&key(n), &value(n)).unwrap();
        }
        family.flush().unwrap();
        // From here on the blocks are in the cache.
        assert_eq!(family.iter().unwrap().keys().count(), 100);
        faults.reset();
        faults.count_only(OpSet::of(&[Op::Read]));
        faults.fail_call(0, FaultKind::Forever, FaultError::Kind(std::io::ErrorKind::Other));
        let found: Result<Vec<_>> = family.iter().unwrap().keys().collect();
        assert_eq!(found.unwrap(), (0..100).map(key).collect::<Vec<_>>());
        let backward: Result<Vec<_>> = family.iter().unwrap().keys().rev().collect();
        assert_eq!(backward.unwrap(), (0..100).rev().map(key).collect::<Vec<_>>());
        assert!(family.iter().unwrap().entries().next().unwrap().is_err());
    }

    /// Neighbouring keys have their values in different logs, of which there are more than a scan
    /// reads ahead in, and some values are not looked at.
    #[test]
    fn values_of_many_logs_are_their_own_in_both_directions() {
        let db = Db::open_with("/db", DbOptions::default(), Components::simulated()).unwrap();
        // No compaction joins the logs.
        let options = FamilyOptions::default().l1_file_count_trigger(100);
        let family = db.create_family("values", options).unwrap();
        let (logs, each) = (MOST_FILES + 5, 60);
        for log in 0..logs {
            for n in 0..each {
                family.put(&key(n * logs + log), &value(n * logs + log)).unwrap();
            }
            family.flush().unwrap();
        }
        assert!(family.state().current_version().value_logs.len() > MOST_FILES);
        for looked_at in [1, 2, 7, logs] {
            let mut scan = family.scan(ScanOptions::default()).unwrap();
            scan.seek_to_first().unwrap();
            for n in 0..logs * each {
                assert_eq!(scan.key(), key(n));
                if n % looked_at == 0 {
                    assert_eq!(scan.value().unwrap(), value(n), "{n}");
                }
                scan.next().unwrap();
            }
            scan.seek_to_last().unwrap();
            for n in (0..logs * each).rev() {
                if n % looked_at == 0 {
                    assert_eq!(scan.value().unwrap(), value(n), "{n}");
                }
                scan.prev().unwrap();
            }
            assert!(!scan.valid());
        }
    }
}
