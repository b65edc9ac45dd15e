//! Key orders: the built-in ones as functions, for programs that call or register them, and those
//! that programs register.
//!
//! A family whose order is built in names it `memcmp`, `reverse` and so on, and the engine sorts by it
//! wherever it is. An order that a program registers is called by iterators alone; see
//! [`tidesdb::KeyOrders`].

use std::cmp::Ordering;
use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::slice;
use std::sync::{Mutex, PoisonError};

use tidesdb::{Db, KeyOrder};

use crate::boundary::{Outcome, call, refuse, text};
use crate::codes;
use crate::database::{Database, database};
use crate::types::{ComparatorFn, MOST_COMPARATOR_NAME_BYTES};

/// The built-in orders: name, function, and the engine's.
const BUILT_IN: [(&str, ComparatorFn, KeyOrder); 6] = [
    ("memcmp", tidesdb_comparator_memcmp, KeyOrder::Bytewise),
    ("lexicographic", tidesdb_comparator_lexicographic, KeyOrder::Lexicographic),
    ("uint64", tidesdb_comparator_uint64, KeyOrder::Uint64),
    ("int64", tidesdb_comparator_int64, KeyOrder::Int64),
    ("reverse", tidesdb_comparator_reverse_memcmp, KeyOrder::Reverse),
    ("case_insensitive", tidesdb_comparator_case_insensitive, KeyOrder::CaseInsensitive),
];

/// A function and the pointer that it gets with each call.
#[derive(Clone, Copy)]
pub struct Comparator {
    pub function: ComparatorFn,
    pub context: *mut c_void,
}

// SAFETY: by the interface the caller has the function called on any thread with this pointer.
unsafe impl Send for Comparator {}
// SAFETY: as above.
unsafe impl Sync for Comparator {}

impl Comparator {
    fn compare(&self, one: &[u8], other: &[u8]) -> Ordering {
        let (key1, key2) = (one.as_ptr(), other.as_ptr());
        // SAFETY: the caller's function, by the interface callable with any two keys.
        unsafe { (self.function)(key1, one.len(), key2, other.len(), self.context) }.cmp(&0)
    }
}

/// The orders that a program has registered with a database.
#[derive(Default)]
pub struct Comparators(Mutex<HashMap<String, Comparator>>);

impl Comparators {
    /// Makes an order known to the database.
    fn register(&self, db: &Db, name: &str, comparator: Comparator) -> Outcome {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_built_in = BUILT_IN.iter().any(|(built_in, ..)| *built_in == name);
        if name.is_empty() || name.len() >= MOST_COMPARATOR_NAME_BYTES || is_built_in {
            return refuse(codes::INVALID);
        }
        db.register_key_order(name, move |one, other| comparator.compare(one, other))?;
        known.insert(name.to_owned(), comparator);
        Ok(())
    }

    /// The function of a name, built-in ones included; the empty name is `memcmp`.
    pub fn find(&self, name: &str) -> Option<Comparator> {
        let name = if name.is_empty() { "memcmp" } else { name };
        let built_in = BUILT_IN.iter().find(|(built_in, ..)| *built_in == name);
        built_in
            .map(|(_, function, _)| Comparator {
                function: *function,
                context: std::ptr::null_mut(),
            })
            .or_else(|| self.0.lock().unwrap_or_else(PoisonError::into_inner).get(name).copied())
    }
}

/// The engine's order of a name; the empty name is `memcmp`.
pub fn key_order(name: &str) -> KeyOrder {
    let name = if name.is_empty() { "memcmp" } else { name };
    let built_in = BUILT_IN.into_iter().find(|(built_in, ..)| *built_in == name);
    built_in.map_or_else(|| KeyOrder::Custom(name.to_owned()), |(.., order)| order)
}

/// The name of an order of the engine.
pub fn name_of(order: &KeyOrder) -> String {
    let built_in = BUILT_IN.into_iter().find(|(.., built_in)| built_in == order);
    match (built_in, order) {
        (Some((name, ..)), _) => name.to_owned(),
        (None, KeyOrder::Custom(name)) => name.clone(),
        (None, other) => other.to_string(),
    }
}

/// See `tidesdb_register_comparator` in `db.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidesdb_register_comparator(
    db: *mut Database,
    name: *const c_char,
    function: Option<ComparatorFn>,
    _ctx_str: *const c_char,
    context: *mut c_void,
) -> c_int {
    call("tidesdb_register_comparator", || {
        // SAFETY: the caller's handle and string, by the interface.
        let (database, name) = unsafe { (database(db)?, text(name)?) };
        let Some(function) = function else { return refuse(codes::INVALID) };
        database.comparators.register(&database.db, name, Comparator { function, context })
    })
}

/// See `tidesdb_get_comparator` in `db.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidesdb_get_comparator(
    db: *mut Database,
    name: *const c_char,
    function: *mut Option<ComparatorFn>,
    context: *mut *mut c_void,
) -> c_int {
    call("tidesdb_get_comparator", || {
        // SAFETY: the caller's handle and string, by the interface.
        let (database, name) = unsafe { (database(db)?, text(name)?) };
        let Some(found) = database.comparators.find(name) else {
            return refuse(codes::NOT_FOUND);
        };
        if !function.is_null() {
            // SAFETY: the caller's place, by the interface.
            unsafe { function.write(Some(found.function)) };
        }
        if !context.is_null() {
            // SAFETY: as above.
            unsafe { context.write(found.context) };
        }
        Ok(())
    })
}

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
