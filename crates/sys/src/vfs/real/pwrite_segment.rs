//! A log segment written with system calls: the fallback for files that cannot be mapped.
//!
//! Same contract as the mapped one, at the price of a system call per write, and with one
//! difference: a write can fail. Chosen when the file system is not known to overwrite in place,
//! when mapping fails, or when the caller asks for it.

use std::fs;
use std::io;
use std::os::unix::fs::FileExt;

use crate::vfs::{LogSegment, check_segment_range};

/// A segment whose writes are `pwrite` calls.
#[derive(Debug)]
pub(super) struct PwriteSegment {
    file: fs::File,
    capacity: u64,
}

impl PwriteSegment {
    pub(super) fn new(file: fs::File, capacity: u64) -> Self {
        Self { file, capacity }
    }
}

impl LogSegment for PwriteSegment {
    fn capacity(&self) -> u64 {
        self.capacity
    }

    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        check_segment_range(at, bytes.len(), self.capacity)?;
        self.file.write_all_at(bytes, at)
    }

    fn sync(&self, _upto: u64) -> io::Result<()> {
        self.file.sync_data()
    }

    fn warm(&self, _from: u64, _to: u64) {}

    fn zero_fill(&self) -> io::Result<()> {
        super::write_zeros(&self.file, 0, self.capacity)?;
        self.file.sync_data()
    }
}
