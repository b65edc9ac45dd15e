//! Buffers that a thread keeps from one call to the next.
//!
//! A buffer is taken out of its cell while it is used, so that work within the work finds an empty
//! one. The engine may be called by the destructor of a thread-local value of the user's, when the
//! thread's buffers are gone already: such a call works with a buffer of its own.

use std::cell::Cell;
use std::thread::LocalKey;

/// The place of a thread's buffer.
pub type ThreadBuffer = LocalKey<Cell<Vec<u8>>>;

/// The thread's buffer, whatever is in it, or an empty one.
#[inline]
pub fn take_buffer(place: &'static ThreadBuffer) -> Vec<u8> {
    place.try_with(Cell::take).unwrap_or_default()
}

/// Keeps a buffer for the thread's next call, unless it is larger than `most_bytes`.
#[inline]
pub fn keep_buffer(place: &'static ThreadBuffer, buffer: Vec<u8>, most_bytes: usize) {
    if buffer.capacity() <= most_bytes {
        // On a thread that is ending the memory is freed.
        let _ = place.try_with(|kept| kept.set(buffer));
    }
}
