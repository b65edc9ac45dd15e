//! Hints to the processor what will be read soon.
//!
//! A search that has several lines of memory to read, none of which says where the next one lies,
//! waits for them all at once instead of one after the other.

/// Asks the processor to load the cache line that `place` begins in.
#[inline(always)]
pub fn prefetch<T>(place: &T) {
    prefetch_address(std::ptr::from_ref(place).cast());
}

/// Asks the processor to load the cache line at `address`; any address is allowed.
#[inline(always)]
pub(crate) fn prefetch_address(address: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        #[expect(unsafe_code, reason = "the prefetch instruction is an intrinsic")]
        // SAFETY: a prefetch has no effect beyond the cache, whatever the address.
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(address.cast());
        }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = address;
}
