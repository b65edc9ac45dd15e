//! The built-in key orders as functions, for programs that call or register them.

use std::cmp::Ordering;
use std::ffi::{CStr, c_int, c_void};
use std::slice;

/// The bytes of a key; none for a null pointer.
///
/// # Safety
/// The pointer is null or valid for the size.
unsafe fn key<'a>(pointer: *const u8, size: usize) -> &'a [u8] {
    if pointer.is_null() {
        return &[];
    }
    // SAFETY: by contract.
    unsafe { slice::from_raw_parts(pointer, size) }
}

/// The order of two keys as C wants it.
///
/// # Safety
/// Each pointer is null or valid for its size.
unsafe fn order(
    (key1, key1_size): (*const u8, usize),
    (key2, key2_size): (*const u8, usize),
    by: impl FnOnce(&[u8], &[u8]) -> Ordering,
) -> c_int {
    // SAFETY: by contract.
    as_int(by(unsafe { key(key1, key1_size) }, unsafe { key(key2, key2_size) }))
}

const fn as_int(order: Ordering) -> c_int {
    match order {
        Ordering::Less => -1,
        Ordering::Equal => 0,
        Ordering::Greater => 1,
    }
}

/// The order of the integers that two keys of eight bytes are; of their bytes for other lengths.
fn as_integers<T: Ord>(one: &[u8], two: &[u8], integer: impl Fn([u8; 8]) -> T) -> Ordering {
    match (one.try_into(), two.try_into()) {
        (Ok(first), Ok(second)) => integer(first).cmp(&integer(second)),
        _ => one.cmp(two),
    }
}

/// Bytes, then the shorter key first.
///
/// # Safety
/// Each pointer is null or valid for its size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidesdb_comparator_memcmp(
    key1: *const u8,
    key1_size: usize,
    key2: *const u8,
    key2_size: usize,
    _context: *mut c_void,
) -> c_int {
    // SAFETY: by contract.
    unsafe { order((key1, key1_size), (key2, key2_size), |one, two| one.cmp(two)) }
}

/// The opposite of [`tidesdb_comparator_memcmp`].
///
/// # Safety
/// As [`tidesdb_comparator_memcmp`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidesdb_comparator_reverse_memcmp(
    key1: *const u8,
    key1_size: usize,
    key2: *const u8,
    key2_size: usize,
    _context: *mut c_void,
) -> c_int {
    // SAFETY: by contract.
    unsafe { order((key1, key1_size), (key2, key2_size), |one, two| two.cmp(one)) }
}

/// The keys as C strings; the sizes are not looked at.
///
/// # Safety
/// Both keys are strings with a terminating NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidesdb_comparator_lexicographic(
    key1: *const u8,
    _key1_size: usize,
    key2: *const u8,
    _key2_size: usize,
    _context: *mut c_void,
) -> c_int {
    // SAFETY: by contract.
    let (one, two) = unsafe { (CStr::from_ptr(key1.cast()), CStr::from_ptr(key2.cast())) };
    as_int(one.to_bytes().cmp(two.to_bytes()))
}

/// Unsigned integers of eight bytes in the machine's order; other lengths as memcmp.
///
/// # Safety
/// As [`tidesdb_comparator_memcmp`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidesdb_comparator_uint64(
    key1: *const u8,
    key1_size: usize,
    key2: *const u8,
    key2_size: usize,
    _context: *mut c_void,
) -> c_int {
    // SAFETY: by contract.
    unsafe {
        order((key1, key1_size), (key2, key2_size), |one, two| {
            as_integers(one, two, u64::from_ne_bytes)
        })
    }
}

/// Signed integers of eight bytes in the machine's order; other lengths as memcmp.
///
/// # Safety
/// As [`tidesdb_comparator_memcmp`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidesdb_comparator_int64(
    key1: *const u8,
    key1_size: usize,
    key2: *const u8,
    key2_size: usize,
    _context: *mut c_void,
) -> c_int {
    // SAFETY: by contract.
    unsafe {
        order((key1, key1_size), (key2, key2_size), |one, two| {
            as_integers(one, two, i64::from_ne_bytes)
        })
    }
}

/// As memcmp, with ASCII letters in lower case.
///
/// # Safety
/// As [`tidesdb_comparator_memcmp`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidesdb_comparator_case_insensitive(
    key1: *const u8,
    key1_size: usize,
    key2: *const u8,
    key2_size: usize,
    _context: *mut c_void,
) -> c_int {
    let folded = |one: &[u8], two: &[u8]| {
        let one = one.iter().map(u8::to_ascii_lowercase);
        one.cmp(two.iter().map(u8::to_ascii_lowercase))
    };
    // SAFETY: by contract.
    unsafe { order((key1, key1_size), (key2, key2_size), folded) }
}
