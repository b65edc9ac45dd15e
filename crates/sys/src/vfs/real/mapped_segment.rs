//! A log segment mapped into memory: the engine's only mapping.
//!
//! A commit's bytes are copied into pages shared with the kernel, so that they survive the death of
//! the process without a system call. The mapping is write-only as far as the engine is concerned:
//! recovery reads the file with `pread`, hence a disk error while reading is an error code and
//! never a signal. A signal for want of space while writing is excluded by three facts, each
//! established before the mapping is made: all blocks are reserved, the file system overwrites in
//! place (see [`super::mapping_rule`]), and the file is at least as long as the mapping. The
//! database's lock keeps others from cutting it. What remains is described in `docs/assumptions.md`
//!
//!
//! Threads: `write` is called by many committers at once on disjoint ranges (see the contract on
//! [`LogSegment`]); `sync`, `warm`, `cool` by background threads alongside them. No Rust reference
//! to the mapped bytes ever exists; they are touched through raw pointers only.
#![expect(unsafe_code, reason = "memory mapping; the invariants are stated above and per block")]

use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::{self, NonNull};

use super::claims::Claims;
use crate::forks::ProcessMark;
use crate::vfs::{LogSegment, check_segment_range};

/// Pages are made present in pieces of this size: the kernel holds a lock on the address space
/// meanwhile, for which others that map memory wait. Whole pages of any size that is in use.
const POPULATED_BYTES: usize = 256 << 10;

/// A shared, writable mapping of the first `len` bytes of a file; unmapped on drop.
#[derive(Debug)]
pub(super) struct Mapping {
    base: NonNull<u8>,
    len: usize,
    /// The process that has the mapping: its children don't inherit it.
    home: ProcessMark,
}

// SAFETY: the mapping belongs to the process, not to the thread that made it, and is unmapped
// once, by the owner's drop.
unsafe impl Send for Mapping {}
// SAFETY: through a shared reference the bytes are only written, via `copy_in`, whose callers
// keep to disjoint ranges; base and length never change.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `len` bytes of `file`, which must be at least that long.
    pub(super) fn new(file: &fs::File, len: u64) -> io::Result<Self> {
        let len = usize::try_from(len).map_err(|_| io::ErrorKind::InvalidInput)?;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address the kernel chooses disturbs no existing memory,
        // and the descriptor is open for the duration of the borrow of `file`.
        let base = unsafe {
            libc::mmap(ptr::null_mut(), len, protection, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        match NonNull::new(base.cast::<u8>()) {
            Some(base) => {
                let mapping = Self { base, len, home: ProcessMark::of_this() };
                mapping.keep_from_children();
                Ok(mapping)
            }
            None => Err(io::ErrorKind::OutOfMemory.into()),
        }
    }

    /// Leaves the mapping out of forked children: what one of them writes there must not reach the
    /// parent's log. It is ended by a signal instead.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn keep_from_children(&self) {
        // SAFETY: base and length are those of a live mapping, and this advice changes no byte of
        // it.
        let _ = unsafe { libc::madvise(self.base.as_ptr().cast(), self.len, libc::MADV_DONTFORK) };
    }

    /// Not offered on this platform.
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    fn keep_from_children(&self) {}

    /// Copies `bytes` to offset `at`. The caller has checked that they fit, and no other thread
    /// writes to the same range at the same time.
    fn copy_in(&self, at: usize, bytes: &[u8]) {
        debug_assert!(at <= self.len && bytes.len() <= self.len - at, "checked by the caller");
        // SAFETY: `at` is at most the length of the mapping, so the result stays inside it or
        // one past its end.
        let target = unsafe { self.base.as_ptr().add(at) };
        // SAFETY: source is a live slice, the target range lies inside the mapping (checked by the
        // caller), and the two cannot overlap because no slice of the mapping is ever made.
        // Concurrent calls write disjoint ranges: the log hands out each byte once, and `Claims`
        // has every test check that.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), target, bytes.len()) };
    }

    /// Asks the kernel to make the pages holding `from..to` present and writable.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn populate(&self, from: usize, to: usize) {
        let page = crate::os_calls::page_size();
        let start = from / page * page;
        let end = to.min(self.len);
        for at in (start..end).step_by(POPULATED_BYTES) {
            let bytes = POPULATED_BYTES.min(end - at);
            // SAFETY: `at` is below the length of the mapping.
            let address = unsafe { self.base.as_ptr().add(at) };
            // SAFETY: the range lies inside the mapping, starts on a page boundary as start and
            // pieces are whole pages, and this advice changes no byte of it. The result is ignored
            // on purpose: kernels before 5.14 refuse.
            let _ = unsafe { libc::madvise(address.cast(), bytes, libc::MADV_POPULATE_WRITE) };
        }
    }

    /// Takes all pages out of the process. Their bytes stay with the kernel, which writes them to
    /// the file in its time.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn let_go(&self) {
        // SAFETY: base and length are those of a live mapping. The mapping is shared, so this drops
        // no byte: a page that is touched again comes from the kernel's cache as it was.
        let _ = unsafe { libc::madvise(self.base.as_ptr().cast(), self.len, libc::MADV_DONTNEED) };
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    fn let_go(&self) {}

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    fn populate(&self, _from: usize, _to: usize) {}

    /// Hands dirty pages to the file, on systems whose file sync does not look at mappings.
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    fn write_back(&self) -> io::Result<()> {
        // SAFETY: base and length are those of a live mapping.
        let status = unsafe { libc::msync(self.base.as_ptr().cast(), self.len, libc::MS_SYNC) };
        if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Nothing to do: on Linux a file sync writes pages dirtied through a mapping too.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    #[expect(clippy::unnecessary_wraps, reason = "other systems can fail here")]
    fn write_back(&self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // In a child the range is not mapped, or something else is.
        if !self.home.is_here() {
            return;
        }
        // SAFETY: base and length are those of a mapping this value owns, and no caller holds a
        // pointer into it once the value is dropped. Failure is impossible for such a range.
        let _ = unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

/// A segment whose writes are copies into a shared mapping.
#[derive(Debug)]
pub(super) struct MappedSegment {
    mapping: Mapping,
    file: fs::File,
    claims: Claims,
}

impl MappedSegment {
    pub(super) fn new(file: fs::File, mapping: Mapping) -> Self {
        Self { mapping, file, claims: Claims::default() }
    }
}

impl LogSegment for MappedSegment {
    fn capacity(&self) -> u64 {
        self.mapping.len as u64
    }

    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        check_segment_range(at, bytes.len(), self.capacity())?;
        let _claim = self.claims.enter(at, bytes.len());
        self.mapping.copy_in(at as usize, bytes);
        Ok(())
    }

    fn write_two(&self, at: u64, first: &[u8], second: &[u8]) -> io::Result<()> {
        check_segment_range(at, first.len() + second.len(), self.capacity())?;
        let _claim = self.claims.enter(at, first.len() + second.len());
        self.mapping.copy_in(at as usize, first);
        self.mapping.copy_in(at as usize + first.len(), second);
        Ok(())
    }

    fn sync(&self, _upto: u64) -> io::Result<()> {
        self.mapping.write_back()?;
        self.file.sync_data()
    }

    fn warm(&self, from: u64, to: u64) {
        let from = from.min(self.capacity());
        let to = to.min(self.capacity());
        self.mapping.populate(from as usize, to as usize);
    }

    fn cool(&self) {
        self.mapping.let_go();
    }

    fn zero_fill(&self) -> io::Result<()> {
        super::write_zeros(&self.file, 0, self.capacity())?;
        self.sync(self.capacity())
    }
}

#[cfg(all(test, any(target_os = "linux", target_os = "android")))]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    /// What it wrote there would be in the parent's log.
    #[test]
    fn a_forked_child_that_writes_to_the_mapping_is_ended_by_a_signal() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(4096).unwrap();
        let mapping = Mapping::new(&file, 4096).unwrap();
        mapping.copy_in(0, b"parent");
        // SAFETY: the child copies some bytes and ends; it allocates nothing and takes no lock.
        let child = unsafe { libc::fork() };
        if child == 0 {
            mapping.copy_in(0, b"child ");
            // SAFETY: ends the process; nothing runs after it.
            unsafe { libc::_exit(0) };
        }
        let mut status = 0;
        // SAFETY: the status is a live integer.
        let ended = unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert!(child > 0 && ended == child, "no child");
        let signal = libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status));
        assert_eq!(signal, Some(libc::SIGSEGV));
        let mut found = [0; 6];
        file.read_exact_at(&mut found, 0).unwrap();
        assert_eq!(&found, b"parent");
    }
}
