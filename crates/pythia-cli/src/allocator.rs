//! The process's allocator, and how long it keeps freed memory.
//!
//! By default the allocator returns freed pages to the system after a second. Work that uses large
//! buffers in turn, such as merging runs, then has twice as much memory resident as it holds. With
//! a tenth of a second nearly nothing of that remains, while pages that are reused immediately are
//! still not returned in between.

use std::ffi::{c_int, c_long};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// `mi_option_purge_delay` of mimalloc.h, and its default in milliseconds.
const PURGE_DELAY: c_int = 15;
const DEFAULT_MS: c_long = 1000;
const KEPT_MS: c_long = 100;

#[expect(unsafe_code, reason = "the crate has no safe function for options")]
mod raw {
    use super::{c_int, c_long};

    unsafe extern "C" {
        // SAFETY: both are functions of the library that is linked as the allocator. They read and
        // write a number in a table, may be called at any time on any thread, and ignore unknown
        // options.
        pub(super) safe fn mi_option_get(option: c_int) -> c_long;
        pub(super) safe fn mi_option_set(option: c_int, value: c_long);
    }
}

/// Makes the allocator return freed memory soon, unless the delay was set (`MIMALLOC_PURGE_DELAY`).
pub(crate) fn give_back_soon() {
    if raw::mi_option_get(PURGE_DELAY) == DEFAULT_MS {
        raw::mi_option_set(PURGE_DELAY, KEPT_MS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Another version of the library may number its options differently or have another default.
    #[test]
    fn freed_memory_is_given_back_soon() {
        give_back_soon();
        assert_eq!(raw::mi_option_get(PURGE_DELAY), KEPT_MS);
    }
}
