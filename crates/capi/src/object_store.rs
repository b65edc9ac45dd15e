//! The object store connector to a directory.
//!
//! An object is a file below the root, its key the path from there. Files appear by rename, so a
//! reader sees a whole object or none. Entity tags and epochs lie in a folder of their own, one
//! small file for each object that has some, and the writers of all connectors to one root
//! take turns by a lock on a file in it.

mod directory;
mod records;

use std::ffi::{c_char, c_int, c_void};
use std::path::Path;
use std::ptr;

use self::directory::{Condition, Directory, Put};
use crate::allocator;
use crate::boundary::{self, call_for};
use crate::codes::{PRECONDITION, SUCCESS};
use crate::types::{ListedFn, ObjectStore};

#[cfg(feature = "testing")]
pub use self::records::read_hostile as read_hostile_records;

/// `TDB_BACKEND_FS`.
const BACKEND_DIRECTORY: c_int = 0;
/// What the functions of a connector return on failure.
const FAILED: c_int = -1;

/// See `tidesdb_objstore_fs_create` in `objstore.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidesdb_objstore_fs_create(root_dir: *const c_char) -> *mut ObjectStore {
    call_for("tidesdb_objstore_fs_create", ptr::null_mut(), || {
        // SAFETY: the caller's string, by the interface.
        let Some(root) = (unsafe { path(root_dir) }) else { return ptr::null_mut() };
        let Ok(directory) = Directory::open(root) else { return ptr::null_mut() };
        let context = Box::into_raw(Box::new(directory));
        let store = allocator::boxed(connector(context.cast()));
        if store.is_null() {
            // SAFETY: made above, and not given out.
            drop(unsafe { Box::from_raw(context) });
        }
        store
    })
}

fn connector(ctx: *mut c_void) -> ObjectStore {
    ObjectStore {
        backend: BACKEND_DIRECTORY,
        put: Some(put),
        get: Some(get),
        range_get: Some(range_get),
        delete_object: Some(delete_object),
        exists: Some(exists),
        list: Some(list),
        put_if: Some(put_if),
        head: Some(head),
        destroy: Some(destroy),
        ctx,
    }
}

/// A string of the caller; `None` for null and for what is not UTF-8.
///
/// # Safety
/// As [`boundary::text`].
unsafe fn text<'a>(pointer: *const c_char) -> Option<&'a str> {
    // SAFETY: by contract.
    unsafe { boundary::text(pointer) }.ok()
}

/// A path of the caller; `None` for null.
///
/// # Safety
/// As [`boundary::path`].
unsafe fn path<'a>(pointer: *const c_char) -> Option<&'a Path> {
    // SAFETY: by contract.
    unsafe { boundary::path(pointer) }.ok()
}

/// The directory behind a connector's context.
///
/// # Safety
/// The context is that of a connector made here and not destroyed.
unsafe fn directory<'a>(ctx: *mut c_void) -> Option<&'a Directory> {
    // SAFETY: by contract it points to a directory or is null.
    unsafe { ctx.cast::<Directory>().as_ref() }
}

unsafe extern "C" fn put(ctx: *mut c_void, key: *const c_char, from: *const c_char) -> c_int {
    // SAFETY: the connector's context and the caller's strings.
    let (store, key, from) = unsafe { (directory(ctx), text(key), path(from)) };
    call_for("put of a directory", FAILED, || {
        let (Some(store), Some(key), Some(from)) = (store, key, from) else { return FAILED };
        let put = Put { from, most_bytes: None, epoch: 0 };
        match store.put(key, &put, &Condition::Always) {
            Ok(Some(_)) => SUCCESS,
            _ => FAILED,
        }
    })
}

unsafe extern "C" fn get(ctx: *mut c_void, key: *const c_char, to: *const c_char) -> c_int {
    // SAFETY: the connector's context and the caller's strings.
    let (store, key, to) = unsafe { (directory(ctx), text(key), path(to)) };
    call_for("get of a directory", FAILED, || {
        let (Some(store), Some(key), Some(to)) = (store, key, to) else { return FAILED };
        if store.get(key, to).is_ok() { SUCCESS } else { FAILED }
    })
}

unsafe extern "C" fn range_get(
    ctx: *mut c_void,
    key: *const c_char,
    offset: u64,
    buffer: *mut c_void,
    size: usize,
) -> isize {
    // SAFETY: the connector's context and the caller's string.
    let (store, key) = unsafe { (directory(ctx), text(key)) };
    call_for("range_get of a directory", -1, || {
        let (Some(store), Some(key)) = (store, key) else { return -1 };
        if size == 0 {
            return if store.bytes_of(key).is_ok_and(|bytes| bytes.is_some()) { 0 } else { -1 };
        }
        if buffer.is_null() || size > isize::MAX as usize {
            return -1;
        }
        // SAFETY: the caller's buffer has `size` bytes, by the interface.
        let buffer = unsafe { std::slice::from_raw_parts_mut(buffer.cast::<u8>(), size) };
        store.read_range(key, offset, buffer).map_or(-1, usize::cast_signed)
    })
}

unsafe extern "C" fn delete_object(ctx: *mut c_void, key: *const c_char) -> c_int {
    // SAFETY: the connector's context and the caller's string.
    let (store, key) = unsafe { (directory(ctx), text(key)) };
    call_for("delete_object of a directory", FAILED, || {
        let (Some(store), Some(key)) = (store, key) else { return FAILED };
        if store.remove(key).is_ok() { SUCCESS } else { FAILED }
    })
}

unsafe extern "C" fn exists(ctx: *mut c_void, key: *const c_char, size: *mut usize) -> c_int {
    // SAFETY: the connector's context and the caller's string.
    let (store, key) = unsafe { (directory(ctx), text(key)) };
    call_for("exists of a directory", FAILED, || {
        let (Some(store), Some(key)) = (store, key) else { return FAILED };
        match store.bytes_of(key) {
            Ok(Some(bytes)) => {
                if !size.is_null() {
                    // SAFETY: the caller's place, by the interface.
                    unsafe { size.write(usize::try_from(bytes).unwrap_or(usize::MAX)) };
                }
                1
            }
            Ok(None) => 0,
            Err(_) => FAILED,
        }
    })
}

unsafe extern "C" fn list(
    ctx: *mut c_void,
    prefix: *const c_char,
    listed: Option<ListedFn>,
    listed_ctx: *mut c_void,
) -> c_int {
    // SAFETY: the connector's context and the caller's string.
    let (store, given) = unsafe { (directory(ctx), text(prefix)) };
    call_for("list of a directory", FAILED, || {
        let (Some(store), Some(listed)) = (store, listed) else { return FAILED };
        // What is not UTF-8 must not pass for no prefix.
        let Some(prefix) = given.or(prefix.is_null().then_some("")) else { return FAILED };
        let Ok(objects) = store.list(prefix) else { return FAILED };
        for (key, bytes) in &objects {
            let Ok(key) = std::ffi::CString::new(key.as_str()) else { continue };
            let bytes = usize::try_from(*bytes).unwrap_or(usize::MAX);
            // SAFETY: the caller's function, with a string that lives during the call.
            unsafe { listed(key.as_ptr(), bytes, listed_ctx) };
        }
        c_int::try_from(objects.len()).unwrap_or(c_int::MAX)
    })
}

unsafe extern "C" fn put_if(
    ctx: *mut c_void,
    key: *const c_char,
    from: *const c_char,
    condition: c_int,
    expected_etag: *const c_char,
    epoch: u64,
    etag_out: *mut c_char,
    etag_room: usize,
    most_bytes: usize,
) -> c_int {
    // SAFETY: the connector's context and the caller's strings.
    let (store, key) = unsafe { (directory(ctx), text(key)) };
    // SAFETY: the caller's strings.
    let (from, expected) = unsafe { (path(from), text(expected_etag)) };
    call_for("put_if of a directory", FAILED, || {
        let (Some(store), Some(key), Some(from)) = (store, key, from) else { return FAILED };
        let condition = match (condition, expected) {
            (0, _) => Condition::Always,
            (1, _) => Condition::Absent,
            (2, Some(tag)) => Condition::Tagged(tag.to_owned()),
            _ => return FAILED,
        };
        let most_bytes = (most_bytes > 0).then_some(most_bytes as u64);
        match store.put(key, &Put { from, most_bytes, epoch }, &condition) {
            Ok(Some(tag)) => {
                // SAFETY: the caller's buffer, by the interface.
                unsafe { give_text(&tag, etag_out, etag_room) };
                SUCCESS
            }
            Ok(None) => PRECONDITION,
            Err(_) => FAILED,
        }
    })
}

unsafe extern "C" fn head(
    ctx: *mut c_void,
    key: *const c_char,
    etag_out: *mut c_char,
    etag_room: usize,
    epoch_out: *mut u64,
) -> c_int {
    // SAFETY: the connector's context and the caller's string.
    let (store, key) = unsafe { (directory(ctx), text(key)) };
    call_for("head of a directory", FAILED, || {
        let (Some(store), Some(key)) = (store, key) else { return FAILED };
        match store.head(key) {
            Ok(Some((tag, epoch))) => {
                // SAFETY: the caller's buffer, by the interface.
                unsafe { give_text(&tag, etag_out, etag_room) };
                if !epoch_out.is_null() {
                    // SAFETY: the caller's place, by the interface.
                    unsafe { epoch_out.write(epoch) };
                }
                1
            }
            Ok(None) => 0,
            Err(_) => FAILED,
        }
    })
}

/// Copies a text into a buffer, cut so that a NUL ends it.
///
/// # Safety
/// The buffer is null or has that much room.
unsafe fn give_text(text: &str, buffer: *mut c_char, room: usize) {
    if buffer.is_null() || room == 0 {
        return;
    }
    let length = text.len().min(room - 1);
    // SAFETY: the buffer has room for the bytes and the NUL.
    unsafe { ptr::copy_nonoverlapping(text.as_ptr().cast(), buffer, length) };
    // SAFETY: as above.
    unsafe { buffer.add(length).write(0) };
}

unsafe extern "C" fn destroy(ctx: *mut c_void) {
    if !ctx.is_null() {
        // SAFETY: made by `tidesdb_objstore_fs_create`; the interface calls this once.
        drop(unsafe { Box::from_raw(ctx.cast::<Directory>()) });
    }
}
