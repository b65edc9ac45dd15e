//! A file in memory and helpers for this crate's tests.
//!
//! The file takes writes only in short pieces, as the kernel may, so that every writer is tested
//! against short writes all the time.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tidesdb_base::{Error, Result};
use tidesdb_sim::rng::SplitMix64;
use tidesdb_sys::vfs::File;

/// The path that tests give their files; errors must name it.
pub(crate) const PATH: &str = "database/000007.klog";

/// A file in memory. Writes at most `LONGEST_WRITE` bytes at once.
#[derive(Debug, Default)]
pub(crate) struct MemoryFile {
    bytes: Mutex<Vec<u8>>,
    reads: AtomicUsize,
    /// Which read fails, counted as `reads` is; 0 for none.
    failing_read: AtomicUsize,
}

const LONGEST_WRITE: usize = 10_000;

impl MemoryFile {
    pub(crate) fn new(bytes: Vec<u8>) -> Arc<Self> {
        Arc::new(Self { bytes: Mutex::new(bytes), ..Self::default() })
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.bytes.lock().unwrap().clone()
    }

    /// Reads so far.
    pub(crate) fn reads(&self) -> usize {
        // ORDERING: one thread; here and below.
        self.reads.load(Ordering::Relaxed)
    }

    /// Lets the read fail that comes after so many others; those behind it work.
    pub(crate) fn fail_read_after(&self, others: usize) {
        self.failing_read.store(self.reads() + others + 1, Ordering::Relaxed);
    }

    /// Changes the content in place, without copying it.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Vec<u8>)) {
        change(&mut self.bytes.lock().unwrap());
    }
}

impl File for MemoryFile {
    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        let number = self.reads.fetch_add(1, Ordering::Relaxed) + 1;
        if number == self.failing_read.load(Ordering::Relaxed) {
            return Err(io::Error::other("the device is not ready"));
        }
        let bytes = self.bytes.lock().unwrap();
        let rest = bytes.get(at as usize..).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    fn write_at(&self, piece: &[u8], at: u64) -> io::Result<usize> {
        let mut bytes = self.bytes.lock().unwrap();
        let (at, count) = (at as usize, piece.len().min(LONGEST_WRITE));
        let new_len = bytes.len().max(at + count);
        bytes.resize(new_len, 0);
        bytes[at..at + count].copy_from_slice(&piece[..count]);
        Ok(count)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes.lock().unwrap().len() as u64)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.bytes.lock().unwrap().resize(len as usize, 0);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn sync_all(&self) -> io::Result<()> {
        Ok(())
    }

    fn allocate(&self, _len: u64) -> io::Result<()> {
        Ok(())
    }
}

/// The seed of a random test: from `TIDESDB_SEED`, or fixed; printed, so that a failure shows it.
pub(crate) fn seeded() -> SplitMix64 {
    let seed = std::env::var("TIDESDB_SEED").ok().and_then(|text| text.parse().ok());
    let seed = seed.unwrap_or(0x7469_6465);
    println!("TIDESDB_SEED={seed}");
    SplitMix64::new(seed)
}

/// Passes only corruption errors that name our file and an offset inside it, or at its old end, and
/// say what was expected there.
pub(crate) fn assert_names_place<T>(result: Result<T>, len: usize, context: &str) {
    match result {
        Err(Error::Corruption { file, offset, detail }) => {
            assert!(detail.contains("expected"), "{context}: {detail}");
            assert_eq!(file, Path::new(PATH), "{context}");
            assert!(offset <= len as u64, "{context}: offset {offset} of {len}");
        }
        Err(other) => panic!("{context}: not a corruption error: {other}"),
        Ok(_) => panic!("{context}: no error"),
    }
}
