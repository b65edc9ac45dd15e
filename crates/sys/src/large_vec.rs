//! A vector whose memory comes from the system once it is large.
//!
//! The allocator of the C library keeps an arena for each of several threads, and learns from every
//! large piece that is freed to keep that much of each arena for later: a few megabytes that
//! flushes, merges and openings of tables take for a moment become tens of megabytes that the
//! process never gives back. So what is large and short-lived, or goes with a table, is mapped here
//! and unmapped when it is dropped. Pages that were reserved and not written take no memory.
//!
//! The system allows a process so many mappings (`vm.max_map_count`). Beyond that memory comes from
//! the allocator after all, and what can't be unmapped gives its pages back all the same.
//!
//! Where neither is to be had, the call that needed it returns [`NoMemory`], and what there was is
//! as before.
//!
//! Plain data only. Not shared between threads while it changes, as any vector.

#![expect(unsafe_code, reason = "owned memory, held as a typed slice")]

use std::alloc::{Layout, alloc, dealloc, realloc};
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};

use tidesdb_base::Error;

/// Bytes from which on memory is mapped: below what the allocator of the C library learns from.
const MAPPED_BYTES: usize = 64 << 10;
const PAGE_BYTES: usize = 4 << 10;

/// The system gave no memory for a [`LargeVec`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoMemory;

impl From<NoMemory> for Error {
    fn from(_: NoMemory) -> Self {
        Self::OutOfMemory("the contents of a file")
    }
}

/// A growing array of plain data.
///
/// ```
/// use tidesdb_sys::large_vec::LargeVec;
/// let mut numbers = LargeVec::new();
/// for n in 0..100_000u64 {
///     numbers.push(n)?;
/// }
/// assert_eq!(numbers.len(), 100_000);
/// assert_eq!(numbers.get(99_999), Some(&99_999));
/// # Ok::<(), tidesdb_sys::large_vec::NoMemory>(())
/// ```
pub struct LargeVec<T> {
    /// Points nowhere while `bytes` is 0.
    address: NonNull<T>,
    /// Elements that were written.
    len: usize,
    /// Bytes at `address`.
    bytes: usize,
    /// Whether they are mapped rather than allocated.
    is_mapped: bool,
    owns: PhantomData<T>,
}

// SAFETY: plain owned memory, bound to no thread.
unsafe impl<T: Send> Send for LargeVec<T> {}
// SAFETY: shared references only read it.
unsafe impl<T: Sync> Sync for LargeVec<T> {}

impl<T> Default for LargeVec<T> {
    fn default() -> Self {
        const { assert!(align_of::<T>() <= PAGE_BYTES && size_of::<T>() > 0) };
        let address = NonNull::dangling();
        Self { address, len: 0, bytes: 0, is_mapped: false, owns: PhantomData }
    }
}

impl<T: Copy> LargeVec<T> {
    /// Nothing, without memory.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Nothing, with room for so many.
    ///
    /// # Errors
    /// [`NoMemory`].
    pub fn with_capacity(count: usize) -> Result<Self, NoMemory> {
        let mut vec = Self::new();
        vec.reserve(count)?;
        Ok(vec)
    }

    /// So many copies of `value`.
    ///
    /// # Errors
    /// [`NoMemory`].
    pub fn filled(count: usize, value: T) -> Result<Self, NoMemory> {
        let mut vec = Self::new();
        vec.resize(count, value)?;
        Ok(vec)
    }

    /// Elements that there is room for.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        self.bytes / size_of::<T>()
    }

    /// Makes room for so many more.
    ///
    /// # Errors
    /// [`NoMemory`].
    #[inline]
    pub fn reserve(&mut self, more: usize) -> Result<(), NoMemory> {
        if more > self.capacity() - self.len { self.grow(more) } else { Ok(()) }
    }

    #[cold]
    fn grow(&mut self, more: usize) -> Result<(), NoMemory> {
        if refusals::is_due() {
            return Err(NoMemory);
        }
        let needed = self.len.checked_add(more).ok_or(NoMemory)?.max(8);
        let doubled = needed.max(self.len.saturating_mul(2));
        match self.grow_to(doubled) {
            // What is needed may be had where twice what there is may not.
            Err(NoMemory) if needed < doubled => self.grow_to(needed),
            grown => grown,
        }
    }

    /// Makes room for `wanted` elements in all, which are more than there is room for.
    fn grow_to(&mut self, wanted: usize) -> Result<(), NoMemory> {
        let bytes = wanted.checked_mul(size_of::<T>()).ok_or(NoMemory)?;
        let bytes = if maps(bytes) { pages(bytes).ok_or(NoMemory)? } else { bytes };
        #[cfg(test)]
        if tests::are_too_many(bytes) {
            return Err(NoMemory);
        }
        let old = (self.address.as_ptr().cast::<u8>(), self.bytes);
        if self.is_mapped
            && let Some(address) = remap(old, bytes)
        {
            (self.address, self.bytes) = (address.cast(), bytes);
        } else if maps(bytes)
            && !self.is_mapped
            && let Some(address) = map(bytes)
        {
            self.move_to(address, bytes, true);
        } else if self.is_mapped {
            let address = reallocate((ptr::null_mut(), 0), bytes, align_of::<T>())?;
            self.move_to(address, bytes, false);
        } else {
            let address = reallocate(old, bytes, align_of::<T>())?;
            (self.address, self.bytes) = (address.cast(), bytes);
        }
        Ok(())
    }

    /// Goes on in other memory, which has more bytes, and gives the present back.
    fn move_to(&mut self, address: NonNull<u8>, bytes: usize, is_mapped: bool) {
        let address = address.cast();
        // SAFETY: new memory, with room for the elements that there are.
        unsafe { ptr::copy_nonoverlapping(self.address.as_ptr(), address.as_ptr(), self.len) };
        self.give_back();
        (self.address, self.bytes, self.is_mapped) = (address, bytes, is_mapped);
    }

    /// Adds an element.
    ///
    /// # Errors
    /// [`NoMemory`].
    #[inline]
    pub fn push(&mut self, value: T) -> Result<(), NoMemory> {
        self.extend_from_slice(&[value])
    }

    /// Adds elements: all, or none.
    ///
    /// # Errors
    /// [`NoMemory`].
    #[inline]
    pub fn extend_from_slice(&mut self, values: &[T]) -> Result<(), NoMemory> {
        self.reserve(values.len())?;
        let end = self.address.as_ptr().wrapping_add(self.len);
        // SAFETY: there is room for them behind the `len` elements that there are, and `values` is
        // not of this memory, which is borrowed mutably.
        unsafe { ptr::copy_nonoverlapping(values.as_ptr(), end, values.len()) };
        self.len += values.len();
        Ok(())
    }

    /// Forgets all elements and keeps the memory.
    pub const fn clear(&mut self) {
        self.len = 0;
    }

    /// Forgets what lies behind the first `count` elements.
    pub fn truncate(&mut self, count: usize) {
        self.len = self.len.min(count);
    }

    /// Makes it `count` elements, new ones being `value`.
    ///
    /// # Errors
    /// [`NoMemory`].
    pub fn resize(&mut self, count: usize, value: T) -> Result<(), NoMemory> {
        self.reserve(count.saturating_sub(self.len))?;
        self.truncate(count);
        while self.len < count {
            let end = self.address.as_ptr().wrapping_add(self.len);
            // SAFETY: there is room for `count` elements.
            unsafe { end.write(value) };
            self.len += 1;
        }
        Ok(())
    }
}

const fn maps(bytes: usize) -> bool {
    cfg!(all(target_os = "linux", not(miri))) && bytes >= MAPPED_BYTES
}

fn pages(bytes: usize) -> Option<usize> {
    bytes.checked_next_multiple_of(PAGE_BYTES)
}

/// When it fails, `old` is as it was.
fn reallocate(
    (old, had): (*mut u8, usize),
    bytes: usize,
    align: usize,
) -> Result<NonNull<u8>, NoMemory> {
    let layout = |bytes| Layout::from_size_align(bytes, align).map_err(|_| NoMemory);
    let new = layout(bytes)?;
    let address = if had == 0 {
        // SAFETY: `bytes` is not 0.
        unsafe { alloc(new) }
    } else {
        // SAFETY: `old` was allocated with the layout of `had` bytes, and `bytes` is not 0 and has
        // a layout.
        unsafe { realloc(old, layout(had)?, bytes) }
    };
    NonNull::new(address).ok_or(NoMemory)
}

/// Growth that a test refuses to the calling thread.
#[cfg(any(test, feature = "sync_points"))]
pub mod refusals {
    use std::cell::Cell;

    thread_local! {
        static ORDERED: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
        static REFUSED: Cell<u64> = const { Cell::new(0) };
    }

    /// How many were refused to this thread so far.
    #[must_use]
    pub fn so_far() -> u64 {
        REFUSED.get()
    }

    /// Of the times that this thread makes a vector grow from now on, the first `given` work, and
    /// the next `refused` do not. Returns what is left of the order before.
    pub fn order(given: u64, refused: u64) -> (u64, u64) {
        ORDERED.replace((given, refused))
    }

    pub(super) fn is_due() -> bool {
        let (given, refused) = ORDERED.get();
        match (given, refused) {
            (_, 0) => false,
            (0, _) => {
                ORDERED.set((0, refused - 1));
                REFUSED.set(REFUSED.get() + 1);
                true
            }
            _ => {
                ORDERED.set((given - 1, refused));
                false
            }
        }
    }
}

/// No test is there to refuse any.
#[cfg(not(any(test, feature = "sync_points")))]
mod refusals {
    pub(super) const fn is_due() -> bool {
        false
    }
}

/// Frees memory that is not mapped.
fn free((address, bytes): (*mut u8, usize), align: usize) {
    if let Ok(layout) = Layout::from_size_align(bytes, align)
        && bytes > 0
    {
        // SAFETY: allocated with this layout, and not used again by the caller.
        unsafe { dealloc(address, layout) };
    }
}

#[cfg(all(target_os = "linux", not(miri)))]
fn map(bytes: usize) -> Option<NonNull<u8>> {
    #[cfg(test)]
    if tests::are_refused() {
        return None;
    }
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping at an address of the kernel's choice touches nothing else.
    let address = unsafe { libc::mmap(ptr::null_mut(), bytes, protection, flags, -1, 0) };
    mapped(address)
}

/// `None` when there are as many mappings as the system allows, or no memory.
#[cfg(all(target_os = "linux", not(miri)))]
fn mapped(address: *mut libc::c_void) -> Option<NonNull<u8>> {
    if address == libc::MAP_FAILED { None } else { NonNull::new(address.cast()) }
}

/// When it fails, the old mapping is as it was.
#[cfg(all(target_os = "linux", not(miri)))]
fn remap((old, had): (*mut u8, usize), bytes: usize) -> Option<NonNull<u8>> {
    #[cfg(test)]
    if tests::are_refused() {
        return None;
    }
    // SAFETY: the mapping of `had` bytes is the caller's, who uses the old address no more.
    let address = unsafe { libc::mremap(old.cast(), had, bytes, libc::MREMAP_MAYMOVE) };
    mapped(address)
}

#[cfg(all(target_os = "linux", not(miri)))]
fn unmap((address, bytes): (*mut u8, usize)) {
    #[cfg(test)]
    let is_refused = tests::are_refused();
    #[cfg(not(test))]
    let is_refused = false;
    // SAFETY: the mapping is the caller's, who does not use it again.
    if is_refused || unsafe { libc::munmap(address.cast(), bytes) } != 0 {
        // Cutting a piece out of what the kernel has joined makes two of one. The addresses are
        // lost then, and the memory is not.
        // SAFETY: as before.
        let _ = unsafe { libc::madvise(address.cast(), bytes, libc::MADV_DONTNEED) };
    }
}

/// Where nothing is mapped, these are never called.
#[cfg(not(all(target_os = "linux", not(miri))))]
fn map(_bytes: usize) -> Option<NonNull<u8>> {
    None
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn remap(_old: (*mut u8, usize), _bytes: usize) -> Option<NonNull<u8>> {
    None
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn unmap(_mapping: (*mut u8, usize)) {}

impl<T> LargeVec<T> {
    /// Gives the memory back, which is not used again.
    fn give_back(&mut self) {
        // Elements are `Copy`, so none has anything to drop.
        let memory = (self.address.as_ptr().cast(), self.bytes);
        if self.is_mapped { unmap(memory) } else { free(memory, align_of::<T>()) }
    }
}

impl<T> Drop for LargeVec<T> {
    fn drop(&mut self) {
        self.give_back();
    }
}

impl<T> Deref for LargeVec<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: the first `len` elements were written, and are changed through `&mut self` only.
        unsafe { std::slice::from_raw_parts(self.address.as_ptr(), self.len) }
    }
}

impl<T> DerefMut for LargeVec<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`; the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.address.as_ptr(), self.len) }
    }
}

impl<T: PartialEq> PartialEq for LargeVec<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: Eq> Eq for LargeVec<T> {}

impl<T: fmt::Debug> fmt::Debug for LargeVec<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(formatter)
    }
}

#[cfg(test)]
mod tests;
