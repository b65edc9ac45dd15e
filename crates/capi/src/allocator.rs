//! The allocator of everything that is handed out to the caller.
//!
//! `tidesdb_init` installs it; without, it is that of the C library. What the engine allocates
//! inside stays with the engine's own allocator. Pointers carry no header of ours, so that the
//! `free` that belongs to the allocator releases them.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::codes::{MEMORY, SUCCESS};

/// `tidesdb_malloc_fn`.
pub type MallocFn = unsafe extern "C" fn(usize) -> *mut c_void;
/// `tidesdb_calloc_fn`.
pub type CallocFn = unsafe extern "C" fn(usize, usize) -> *mut c_void;
/// `tidesdb_realloc_fn`.
pub type ReallocFn = unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void;
/// `tidesdb_free_fn`.
pub type FreeFn = unsafe extern "C" fn(*mut c_void);

/// `tidesdb_allocator_t`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Allocator {
    malloc: MallocFn,
    calloc: CallocFn,
    realloc: ReallocFn,
    free: FreeFn,
}

const C_LIBRARY: Allocator = Allocator {
    malloc: libc::malloc,
    calloc: libc::calloc,
    realloc: libc::realloc,
    free: libc::free,
};

/// The allocator in force. It changes only in `tidesdb_init` and `tidesdb_finalize`, which the
/// caller must not run beside other calls of the interface.
#[unsafe(export_name = "tidesdb_allocator")]
static mut IN_FORCE: Allocator = C_LIBRARY;

/// Whether an allocator was chosen, by `tidesdb_init` or by the first `tidesdb_open`. No lock: a
/// forked child may open a database while a thread of its parent was here at the fork.
static CHOSEN: AtomicBool = AtomicBool::new(false);

fn in_force() -> Allocator {
    // SAFETY: written only in `tidesdb_init` and `tidesdb_finalize`, which are documented not to
    // run beside other calls; the read makes a copy.
    unsafe { (&raw const IN_FORCE).read() }
}

fn set_in_force(allocator: Allocator) {
    // SAFETY: as in `in_force`; of several calls of `tidesdb_init` one gets here.
    unsafe { (&raw mut IN_FORCE).write(allocator) }
}

/// See `tidesdb_init` in `db.h`.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_init(
    malloc: Option<MallocFn>,
    calloc: Option<CallocFn>,
    realloc: Option<ReallocFn>,
    free: Option<FreeFn>,
) -> c_int {
    // ORDERING: relaxed, as below; the caller runs no other call beside this one.
    if CHOSEN.swap(true, Ordering::Relaxed) {
        return MEMORY;
    }
    set_in_force(Allocator {
        malloc: malloc.unwrap_or(libc::malloc),
        calloc: calloc.unwrap_or(libc::calloc),
        realloc: realloc.unwrap_or(libc::realloc),
        free: free.unwrap_or(libc::free),
    });
    SUCCESS
}

/// See `tidesdb_finalize` in `db.h`.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_finalize() {
    set_in_force(C_LIBRARY);
    // ORDERING: as in `tidesdb_init`.
    CHOSEN.store(false, Ordering::Relaxed);
}

/// See `tidesdb_ensure_initialized` in `tidesdb.h`.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_ensure_initialized() {
    // ORDERING: as in `tidesdb_init`.
    CHOSEN.store(true, Ordering::Relaxed);
}

/// See `tidesdb_free` in `db.h`.
///
/// # Safety
/// `pointer` is null or was handed out by this library and not released yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidesdb_free(pointer: *mut c_void) {
    if !pointer.is_null() {
        // SAFETY: by the function's contract the pointer came from the allocator in force.
        unsafe { (in_force().free)(pointer) }
    }
}

/// Memory for `count` values of a type, all bytes zero; null when there is none.
pub fn zeroed<T>(count: usize) -> *mut T {
    // SAFETY: an allocator takes any sizes; a count of 0 asks for one, so that null means failure.
    unsafe { (in_force().calloc)(count.max(1), size_of::<T>().max(1)).cast() }
}

/// A copy of the bytes; null when there is no memory. Empty bytes give a pointer that can be freed.
pub fn copy(bytes: &[u8]) -> *mut u8 {
    // SAFETY: an allocator takes any size; 0 asks for 1, so that null means failure.
    let memory: *mut u8 = unsafe { (in_force().malloc)(bytes.len().max(1)) }.cast();
    if !memory.is_null() {
        // SAFETY: the memory is new and has room for the bytes.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), memory, bytes.len()) };
    }
    memory
}

/// A copy of the text with a terminating NUL; null when there is no memory.
pub fn copy_text(text: &str) -> *mut std::ffi::c_char {
    // SAFETY: an allocator takes any size.
    let memory: *mut u8 = unsafe { (in_force().malloc)(text.len() + 1) }.cast();
    if !memory.is_null() {
        // SAFETY: the memory is new and has room for the bytes.
        unsafe { ptr::copy_nonoverlapping(text.as_ptr(), memory, text.len()) };
        // SAFETY: the last byte of the new memory.
        unsafe { memory.add(text.len()).write(0) };
    }
    memory.cast()
}

/// A value in memory of its own, for a handle; null when there is none. Released by [`unbox`].
pub fn boxed<T>(value: T) -> *mut T {
    const { assert!(align_of::<T>() <= 16, "allocators align to 16 bytes") };
    // SAFETY: an allocator takes any size.
    let memory: *mut T = unsafe { (in_force().malloc)(size_of::<T>().max(1)) }.cast();
    if memory.is_null() {
        drop(value);
    } else {
        // SAFETY: new memory of the type's size, aligned for it.
        unsafe { memory.write(value) };
    }
    memory
}

/// Takes the value of [`boxed`] back and releases its memory.
///
/// # Safety
/// The pointer came from [`boxed`] and is not used afterwards.
pub unsafe fn unbox<T>(pointer: *mut T) -> T {
    // SAFETY: by contract it holds a value that is taken once.
    let value = unsafe { pointer.read() };
    // SAFETY: by contract it came from the allocator.
    unsafe { tidesdb_free(pointer.cast()) };
    value
}
