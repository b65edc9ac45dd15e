//! The border between C and Rust: panics stop here, and raw arguments become checked ones.

use std::ffi::{CStr, OsStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::slice;

use tidesdb::{Error, ErrorKind};

use crate::codes;
use crate::engine_log::{self, Level, LogNumber, Repeated};

/// Why a call failed: an error of the engine, or a code by itself.
pub enum Failure {
    Code(c_int),
    Engine(Box<Error>),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Engine(Box::new(error))
    }
}

impl Failure {
    pub fn code(&self) -> c_int {
        match self {
            Self::Code(code) => *code,
            Self::Engine(error) => codes::of(error),
        }
    }

    /// Writes to the log why a call failed, unless that is what callers ask for.
    #[cold]
    pub fn log(&self, name: &str, log: Option<LogNumber>) {
        let Self::Engine(error) = self else { return };
        let level = match (self.code(), &**error) {
            // In a forked child the log may be locked for good.
            (_, Error::Forked) => return,
            (codes::NOT_FOUND, Error::KeyOrderNotRegistered { .. }) => Level::Warn,
            (codes::NOT_FOUND | codes::CONFLICT, _) => return,
            // The caller's own mistakes, as many as it makes.
            (codes::INVALID | codes::TOO_LARGE, _) => Level::Debug,
            _ => Level::Warn,
        };
        let text = format_args!("{name}: {error}");
        match (log, self.repeated()) {
            (Some(log), Some(kind)) if is_often_called(name) => {
                engine_log::write_seldom(log, kind, level, text);
            }
            _ => engine_log::write(log, level, text),
        }
    }

    /// What it is of the failures that callers meet again and again as long as their cause lasts.
    fn repeated(&self) -> Option<Repeated> {
        match (self, self.code()) {
            (Self::Engine(error), _) if matches!(**error, Error::NotDurable(_)) => {
                Some(Repeated::NotDurable)
            }
            // Commits return it as that.
            (Self::Engine(error), _) if error.kind() == ErrorKind::Full => Some(Repeated::Busy),
            (_, codes::BUSY) => Some(Repeated::Busy),
            (_, codes::IO) => Some(Repeated::Io),
            (_, codes::CORRUPTION) => Some(Repeated::Corruption),
            (_, codes::MEMORY) => Some(Repeated::Memory),
            _ => None,
        }
    }

    /// As [`Failure::log`], for a failure that the call returns as another code.
    #[cold]
    pub fn logged_as(self, code: c_int, name: &str, log: Option<LogNumber>) -> Self {
        self.log(name, log);
        Self::Code(code)
    }
}

/// Whether programs call a function so often that a line for each failure would fill the log.
fn is_often_called(name: &str) -> bool {
    ["tidesdb_txn_", "tidesdb_iter_", "tidesdb_sync_wal"]
        .iter()
        .any(|often| name.starts_with(often))
}

/// Outcome of what a function of the interface does.
pub type Outcome<T = ()> = Result<T, Failure>;

/// A failure with a code of its own.
pub const fn refuse<T>(code: c_int) -> Outcome<T> {
    Err(Failure::Code(code))
}

/// A handle of a database or of something in one.
pub trait OfDatabase {
    /// The database's log.
    fn log_number(&self) -> LogNumber;
}

/// The log in which the failure of a call about a handle is told. Asked before the call: the handle
/// of a family that is dropped meanwhile may be freed before the call has ended.
///
/// # Safety
/// The handle is null or valid.
#[inline]
pub unsafe fn log_of(handle: *const impl OfDatabase) -> Option<LogNumber> {
    // SAFETY: by contract.
    unsafe { handle.as_ref() }.map(OfDatabase::log_number)
}

/// Runs the body of a function of the interface that is about no database, or ends a handle. A
/// panic, which would be a defect of the engine, returns `TDB_ERR_IO` and is written to the log.
#[inline]
pub fn call(name: &str, body: impl FnOnce() -> Outcome) -> c_int {
    call_of(name, None, body)
}

/// As [`call`], about a handle, of which [`log_of`] has said what `log` is.
#[inline]
pub fn call_of(name: &str, log: Option<LogNumber>, body: impl FnOnce() -> Outcome) -> c_int {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => codes::SUCCESS,
        // What callers ask for, such as whether a key is there, is no more than a number.
        Ok(Err(Failure::Code(code))) => code,
        Ok(Err(failure)) => {
            tell(|| failure.log(name, log));
            failure.code()
        }
        Err(_) => panicked(name, log),
    }
}

/// As [`call`], for a function with another answer.
pub fn call_for<T>(name: &str, otherwise: T, body: impl FnOnce() -> T) -> T {
    call_for_of(name, None, otherwise, body)
}

/// As [`call_for`], about a handle: see [`call_of`].
#[inline]
pub fn call_for_of<T>(
    name: &str,
    log: Option<LogNumber>,
    otherwise: T,
    body: impl FnOnce() -> T,
) -> T {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| {
        panicked(name, log);
        otherwise
    })
}

#[cold]
fn panicked(name: &str, log: Option<LogNumber>) -> c_int {
    tell(|| {
        let text = format_args!("{name}: internal error (a panic was caught)");
        engine_log::write(log, Level::Error, text);
    });
    codes::IO
}

/// Writes to the log, which is no reason for a call to end the process either.
#[cold]
fn tell(line: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(line));
}

/// The object behind a pointer that must not be null.
///
/// # Safety
/// The pointer is null or valid for reads during the call, and nothing writes to the object.
pub unsafe fn object<'a, T>(pointer: *const T) -> Outcome<&'a T> {
    // SAFETY: by contract.
    match unsafe { pointer.as_ref() } {
        Some(object) => Ok(object),
        // Not made before it is needed, since it would have to be dropped.
        None => refuse(codes::INVALID),
    }
}

/// As [`object`], for one that only this thread uses.
///
/// # Safety
/// The pointer is null or valid, and nothing else uses the object during the call.
pub unsafe fn object_mut<'a, T>(pointer: *mut T) -> Outcome<&'a mut T> {
    // SAFETY: by contract.
    match unsafe { pointer.as_mut() } {
        Some(object) => Ok(object),
        None => refuse(codes::INVALID),
    }
}

/// The bytes at a pointer that must not be null; there may be none of them.
///
/// # Safety
/// The pointer is null or valid for `size` bytes during the call.
pub unsafe fn bytes<'a>(pointer: *const u8, size: usize) -> Outcome<&'a [u8]> {
    if pointer.is_null() || size > isize::MAX as usize {
        return refuse(codes::INVALID);
    }
    // SAFETY: by contract; the size was checked.
    Ok(unsafe { slice::from_raw_parts(pointer, size) })
}

/// A key: bytes at a pointer that must not be null, at least one.
///
/// # Safety
/// As [`bytes`].
pub unsafe fn key<'a>(pointer: *const u8, size: usize) -> Outcome<&'a [u8]> {
    if size == 0 {
        return refuse(codes::INVALID);
    }
    // SAFETY: by contract.
    unsafe { bytes(pointer, size) }
}

/// The bytes of a C string that must not be null.
///
/// # Safety
/// The pointer is null or a string with a terminating NUL.
pub unsafe fn c_string<'a>(pointer: *const c_char) -> Outcome<&'a [u8]> {
    if pointer.is_null() {
        return refuse(codes::INVALID);
    }
    // SAFETY: by contract.
    Ok(unsafe { CStr::from_ptr(pointer) }.to_bytes())
}

/// A C string that must not be null and must be UTF-8.
///
/// # Safety
/// As [`c_string`].
pub unsafe fn text<'a>(pointer: *const c_char) -> Outcome<&'a str> {
    // SAFETY: by contract.
    let bytes = unsafe { c_string(pointer) }?;
    str::from_utf8(bytes).map_err(|_| Failure::Code(codes::INVALID))
}

/// Bytes as a text that has a character for each, and nothing is lost: for names that are bytes in
/// C and texts in the engine.
pub fn any_text(bytes: &[u8]) -> String {
    bytes.iter().copied().map(char::from).collect()
}

/// The bytes of an [`any_text`].
pub fn any_text_bytes(text: &str) -> Vec<u8> {
    text.chars().filter_map(|character| u8::try_from(character).ok()).collect()
}

/// The path that a C string names; any bytes, as the system takes them.
///
/// # Safety
/// As [`c_string`].
pub unsafe fn path<'a>(pointer: *const c_char) -> Outcome<&'a Path> {
    // SAFETY: by contract.
    let bytes = unsafe { c_string(pointer) }?;
    Ok(Path::new(OsStr::from_bytes(bytes)))
}

/// Writes an answer to a pointer that must not be null.
///
/// # Safety
/// The pointer is null or valid for a write.
pub unsafe fn answer<T>(pointer: *mut T, value: T) -> Outcome {
    if pointer.is_null() {
        return refuse(codes::INVALID);
    }
    // SAFETY: by contract.
    unsafe { pointer.write(value) };
    Ok(())
}

/// The bytes in an array of a C structure, up to its first NUL.
pub fn bytes_of(array: &[c_char]) -> Vec<u8> {
    array.iter().take_while(|c| **c != 0).map(|c| c.cast_unsigned()).collect()
}

/// Puts bytes into an array of a C structure, cut so that a NUL ends them.
pub fn set_bytes(array: &mut [c_char], bytes: &[u8]) {
    array.fill(0);
    let room = array.len().saturating_sub(1);
    for (place, byte) in array.iter_mut().zip(bytes.iter().take(room)) {
        *place = byte.cast_signed();
    }
}

/// As [`set_bytes`], for a text.
pub fn set_text(array: &mut [c_char], text: &str) {
    set_bytes(array, text.as_bytes());
}
