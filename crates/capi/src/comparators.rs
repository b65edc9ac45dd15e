//! Key orders: the built-in ones as functions, for programs that call or register them, and those
//! that programs register.
//!
//! A family whose order is built in names it `memcmp`, `reverse` and so on, and the engine sorts by
//! it wherever it is. An order that a program registers is called by iterators; see
//! [`tidesdb::KeyOrders`]. Which keys it calls equal, and so the same key, `spellings` knows.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::slice;
use std::sync::{Mutex, PoisonError};

use tidesdb::{Db, KeyOrder};

use crate::boundary::{Outcome, c_string, call_of, log_of, refuse};
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
    /// How two keys compare.
    pub fn compare(&self, one: &[u8], other: &[u8]) -> Ordering {
        let (key1, key2) = (one.as_ptr(), other.as_ptr());
        // SAFETY: the caller's function, by the interface callable with any two keys.
        unsafe { (self.function)(key1, one.len(), key2, other.len(), self.context) }.cmp(&0)
    }
}

/// The orders that a program has registered with a database, by name.
#[derive(Default)]
pub struct Comparators(Mutex<HashMap<Vec<u8>, Comparator>>);

impl Comparators {
    /// Makes an order known to the database.
    fn register(&self, db: &Db, name: &[u8], comparator: Comparator) -> Outcome {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = built_in(name).is_some() || known.contains_key(name);
        if name.is_empty() || name.len() >= MOST_COMPARATOR_NAME_BYTES || taken {
            return refuse(codes::INVALID);
        }
        let order = engine_name(name);
        db.register_key_order(&order, move |one, other| comparator.compare(one, other))?;
        known.insert(name.to_owned(), comparator);
        Ok(())
    }

    /// Whether no order is registered.
    pub fn is_empty(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// The function of a name, built-in ones included; the empty name is `memcmp`.
    pub fn find(&self, name: &[u8]) -> Option<Comparator> {
        built_in(name)
            .map(|(_, function, _)| Comparator { function, context: std::ptr::null_mut() })
            .or_else(|| self.0.lock().unwrap_or_else(PoisonError::into_inner).get(name).copied())
    }
}

/// The built-in order of a name; the empty name is `memcmp`.
fn built_in(name: &[u8]) -> Option<(&'static str, ComparatorFn, KeyOrder)> {
    let name = if name.is_empty() { b"memcmp" } else { name };
    BUILT_IN.into_iter().find(|(built_in, ..)| built_in.as_bytes() == name)
}

/// In front of the digits of a name that the engine does not take as it is.
const IN_DIGITS: &str = "c-interface:";

/// What an order is called in the engine. Some names mean something there, and all are text.
fn engine_name(name: &[u8]) -> String {
    let plain = str::from_utf8(name).ok().filter(|name| {
        !name.starts_with(IN_DIGITS) && KeyOrder::Custom((*name).to_owned()).problem().is_none()
    });
    plain.map_or_else(
        || name.iter().fold(IN_DIGITS.to_owned(), |all, byte| format!("{all}{byte:02x}")),
        str::to_owned,
    )
}

/// The name of which [`engine_name`] made this one.
fn own_name(engine_name: &str) -> Vec<u8> {
    let digits = engine_name.strip_prefix(IN_DIGITS).map(|digits| digits.as_bytes().chunks(2));
    let bytes = digits.and_then(|digits| {
        let byte = |digits| u8::from_str_radix(str::from_utf8(digits).ok()?, 16).ok();
        digits.map(byte).collect::<Option<Vec<u8>>>()
    });
    bytes.unwrap_or_else(|| engine_name.as_bytes().to_vec())
}

/// The engine's order of a name; the empty name is `memcmp`.
pub fn key_order(name: &[u8]) -> KeyOrder {
    built_in(name).map_or_else(|| KeyOrder::Custom(engine_name(name)), |(.., order)| order)
}

/// The name of an order of the engine.
pub fn name_of(order: &KeyOrder) -> Vec<u8> {
    let built_in = BUILT_IN.into_iter().find(|(.., built_in)| built_in == order);
    match (built_in, order) {
        (Some((name, ..)), _) => name.into(),
        (None, KeyOrder::Custom(name)) => own_name(name),
        (None, other) => other.to_string().into_bytes(),
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
    // SAFETY: the caller's handle, by the interface.
    let log = unsafe { log_of(db) };
    call_of("tidesdb_register_comparator", log, || {
        // SAFETY: the caller's handle and string, by the interface.
        let (database, name) = unsafe { (database(db)?, c_string(name)?) };
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
    // SAFETY: the caller's handle, by the interface.
    let log = unsafe { log_of(db) };
    call_of("tidesdb_get_comparator", log, || {
        // SAFETY: the caller's handle and string, by the interface.
        let (database, name) = unsafe { (database(db)?, c_string(name)?) };
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

/// Exports a built-in order as a function, which compares as the engine does.
macro_rules! exported {
    ($(#[$about:meta])* $name:ident, $order:expr) => {
        $(#[$about])*
        ///
        /// # Safety
        /// Each pointer is null or valid for its size.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            key1: *const u8,
            key1_size: usize,
            key2: *const u8,
            key2_size: usize,
            _context: *mut c_void,
        ) -> c_int {
            // SAFETY: by contract.
            let (one, two) = unsafe { (key(key1, key1_size), key(key2, key2_size)) };
            $order.compare(one, two).map_or(0, |order| order as c_int)
        }
    };
}

exported! {
    /// Bytes, then the shorter key first.
    tidesdb_comparator_memcmp, KeyOrder::Bytewise
}
exported! {
    /// The opposite of [`tidesdb_comparator_memcmp`].
    tidesdb_comparator_reverse_memcmp, KeyOrder::Reverse
}
exported! {
    /// Unsigned integers of eight bytes in the machine's order; keys of other lengths behind them.
    tidesdb_comparator_uint64, KeyOrder::Uint64
}
exported! {
    /// Signed integers of eight bytes in the machine's order; keys of other lengths behind them.
    tidesdb_comparator_int64, KeyOrder::Int64
}
exported! {
    /// As memcmp, with ASCII letters in lower case.
    tidesdb_comparator_case_insensitive, KeyOrder::CaseInsensitive
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
    one.cmp(two) as c_int
}
