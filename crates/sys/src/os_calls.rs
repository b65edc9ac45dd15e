//! Safe wrappers around the few operating-system calls that `std` does not offer.
//!
//! One function per call, each with the smallest signature that serves its one caller; no
//! policy. Together with [`crate::vfs`]'s mapped log segment this is the only module of the
//! crate that contains `unsafe`. Everything here is stateless and may be called from any thread.
#![expect(unsafe_code, reason = "foreign calls; each is wrapped by a safe function below")]

#[cfg(target_os = "linux")]
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
#[cfg(any(target_os = "linux", target_os = "android"))]
use std::os::fd::AsRawFd;
#[cfg(target_os = "linux")]
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Whether a reservation of disk space changes the length that the file reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReservedLength {
    /// Blocks are reserved; the reported length stays.
    Unchanged,
    /// The file's length becomes at least the reserved length, reading as zeros.
    Extended,
}

/// Reserves blocks for the first `len` bytes of `file`.
///
/// # Errors
/// `Unsupported` where the platform or file system has no such call; `StorageFull` when the disk
/// has no room; otherwise whatever the kernel says.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) fn reserve(file: &File, len: u64, length: ReservedLength) -> io::Result<()> {
    let mode = match length {
        ReservedLength::Unchanged => libc::FALLOC_FL_KEEP_SIZE,
        ReservedLength::Extended => 0,
    };
    fallocate(file, len, mode)
}

/// Calls `fallocate(2)` for the first `len` bytes of `file`.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn fallocate(file: &File, len: u64, mode: libc::c_int) -> io::Result<()> {
    let len = libc::off_t::try_from(len).map_err(|_| io::ErrorKind::InvalidInput)?;
    loop {
        // SAFETY: the descriptor is open for the duration of the borrow of `file`; the call
        // touches no memory of this process.
        let status = unsafe { libc::fallocate(file.as_raw_fd(), mode, 0, len) };
        if status == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR) => {}
            Some(libc::EOPNOTSUPP | libc::ENOSYS) => {
                return Err(io::ErrorKind::Unsupported.into());
            }
            _ => return Err(error),
        }
    }
}

/// Reserves blocks for the first `len` bytes of `file`: not offered on this platform.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) fn reserve(_file: &File, _len: u64, _length: ReservedLength) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Lets the calling thread have less processor time than the others of its process, if they want
/// it: its nice value grows by `steps`.
///
/// On Linux each thread has a value of its own (`nice(2)`, "C library/kernel differences"), and
/// any may raise it; should the kernel refuse, the thread works as before.
#[cfg(target_os = "linux")]
pub(crate) fn lower_thread_priority(steps: i32) {
    // SAFETY: takes and returns an integer only.
    unsafe {
        libc::nice(steps);
    }
}

/// Lowers the priority of the calling thread: elsewhere that would be the whole process's.
#[cfg(not(target_os = "linux"))]
pub(crate) fn lower_thread_priority(_steps: i32) {}

/// What a thread's own faults raise. Were they blocked, a fault would kill the process without the
/// handler that it has for them.
const OF_FAULTS: [libc::c_int; 7] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGSYS,
    libc::SIGABRT,
];

/// While this lives, its thread takes no signals but those of its own faults, and threads that it
/// starts never do.
pub(crate) struct SignalsBlocked {
    before: libc::sigset_t,
    /// It is this thread's and no other's.
    _of_thread: PhantomData<*const ()>,
}

/// See [`SignalsBlocked`].
pub(crate) fn block_signals() -> SignalsBlocked {
    let mut blocked = MaybeUninit::uninit();
    let mut before = MaybeUninit::uninit();
    // SAFETY: writable memory of the size that the call fills, whatever it returns.
    unsafe { libc::sigfillset(blocked.as_mut_ptr()) };
    for signal in OF_FAULTS {
        // SAFETY: the set was filled, and there is such a signal.
        unsafe { libc::sigdelset(blocked.as_mut_ptr(), signal) };
    }
    // SAFETY: the first set was filled, and the second is writable memory for it. The call fails
    // for an unknown first argument only.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, blocked.as_ptr(), before.as_mut_ptr()) };
    // SAFETY: filled by the call before.
    SignalsBlocked { before: unsafe { before.assume_init() }, _of_thread: PhantomData }
}

impl Drop for SignalsBlocked {
    fn drop(&mut self) {
        // SAFETY: the set was filled by `block_signals`; nothing is written.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, std::ptr::null_mut());
        }
    }
}

/// Has two names change places, in one step (`renameat2(2)`).
///
/// # Errors
/// Whatever the kernel says: `InvalidInput` where the file system can't do that, `Unsupported`
/// where the kernel can't.
#[cfg(target_os = "linux")]
pub(crate) fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    let as_c = |path: &Path| CString::new(path.as_os_str().as_bytes());
    let (one, other) = (as_c(one)?, as_c(other)?);
    let flags = libc::RENAME_EXCHANGE;
    let (at, by) = (libc::AT_FDCWD, libc::SYS_renameat2);
    // SAFETY: both strings end with a zero and live until the call returns; it writes to no memory.
    let status = unsafe { libc::syscall(by, at, one.as_ptr(), at, other.as_ptr(), flags) };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Has two names change places: not offered on this platform.
#[cfg(not(target_os = "linux"))]
pub(crate) fn exchange(_one: &Path, _other: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Begins to write a range of `file` to the disk without waiting for it.
///
/// An error is not worth reporting: the pages stay dirty, or fail for the sync that follows. Asking
/// only for the start of writing neither waits for nor reports earlier failures
/// (`sync_file_range(2)`).
#[cfg(target_os = "linux")]
pub(crate) fn start_write_back(file: &File, at: u64, len: u64) {
    let (Ok(at), Ok(len)) = (libc::off64_t::try_from(at), libc::off64_t::try_from(len)) else {
        return;
    };
    // SAFETY: the descriptor is open for the duration of the borrow of `file`; the call touches no
    // memory of this process.
    unsafe {
        libc::sync_file_range(file.as_raw_fd(), at, len, libc::SYNC_FILE_RANGE_WRITE);
    }
}

/// Begins to write a range of `file` to the disk: not offered on this platform.
#[cfg(not(target_os = "linux"))]
pub(crate) fn start_write_back(_file: &File, _at: u64, _len: u64) {}

/// Advises the system that `file` is read here and there, so that it reads no more than is asked
/// for (`posix_fadvise(2)`). A hint: a refusal changes nothing but speed.
pub(crate) fn expect_random_reads(file: &File) {
    advise(file, 0, 0, Advice::Random);
}

/// Asks the system to begin reading a range of `file`. A hint, as above.
pub(crate) fn start_reading(file: &File, at: u64, len: u64) {
    advise(file, at, len, Advice::WillNeed);
}

#[derive(Clone, Copy)]
enum Advice {
    Random,
    WillNeed,
}

#[cfg(target_os = "linux")]
fn advise(file: &File, at: u64, len: u64, advice: Advice) {
    let (Ok(at), Ok(len)) = (libc::off_t::try_from(at), libc::off_t::try_from(len)) else {
        return;
    };
    let advice = match advice {
        Advice::Random => libc::POSIX_FADV_RANDOM,
        Advice::WillNeed => libc::POSIX_FADV_WILLNEED,
    };
    // SAFETY: the descriptor is open for the duration of the borrow of `file`; the call touches no
    // memory of this process.
    unsafe {
        libc::posix_fadvise(file.as_raw_fd(), at, len, advice);
    }
}

/// Not offered on this platform.
#[cfg(not(target_os = "linux"))]
fn advise(_file: &File, _at: u64, _len: u64, _advice: Advice) {}

/// Gives the first `len` bytes of `file` blocks that no other file shares, and blocks where it has
/// holes.
///
/// # Errors
/// Whatever the kernel says, which includes that it can't.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) fn unshare(file: &File, len: u64) -> io::Result<()> {
    fallocate(file, len, libc::FALLOC_FL_UNSHARE_RANGE)
}

/// Gives `file` blocks of its own: not offered on this platform.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) fn unshare(_file: &File, _len: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// The magic number of the file system that holds `file`, if it is known.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) fn file_system_magic(file: &File) -> Option<u32> {
    let mut answer = MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: the descriptor is open for the duration of the borrow of `file`, and `answer` is
    // writable memory of the size the call fills.
    let status = unsafe { libc::fstatfs(file.as_raw_fd(), answer.as_mut_ptr()) };
    if status != 0 {
        return None;
    }
    // SAFETY: the call reported success, so it filled the whole structure.
    let answer = unsafe { answer.assume_init() };
    // Magic numbers are 32 bits wide whatever the field's width and sign.
    Some(answer.f_type as u32)
}

/// The magic number of the file system that holds `file`: not known on this platform.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) fn file_system_magic(_file: &File) -> Option<u32> {
    None
}

/// Registers functions to be called at each `fork` of the process: before it, and after it in the
/// parent and in the child. If memory for that is exhausted, they are not.
pub(crate) fn at_fork(before: extern "C" fn(), parent: extern "C" fn(), child: extern "C" fn()) {
    // SAFETY: the functions live as long as the program and may be called on any thread. In the
    // child only the calling thread exists: what they lock is locked by no other thread then (see
    // `forks`), and they do no more than close descriptors and store to atomics.
    unsafe {
        libc::pthread_atfork(Some(before), Some(parent), Some(child));
    }
}

/// Size of a virtual-memory page in bytes.
pub(crate) fn page_size() -> usize {
    // SAFETY: the call has no preconditions.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).ok().filter(|size| size.is_power_of_two()).unwrap_or(4096)
}

/// Physical memory of the machine in bytes, where the platform reports it.
pub(crate) fn physical_memory_bytes() -> Option<u64> {
    // SAFETY: the call has no preconditions.
    let pages = unsafe { libc::sysconf(libc::_SC_PHYS_PAGES) };
    let pages = u64::try_from(pages).ok().filter(|pages| *pages > 0)?;
    Some(pages.saturating_mul(page_size() as u64))
}

/// How many descriptors the process may have open, where there is a limit.
pub(crate) fn descriptor_limit() -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the call writes to the structure that it is given, which lives on.
    let result = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    (result == 0 && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}
