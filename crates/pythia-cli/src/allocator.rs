//! The allocator of the process, and how long it keeps memory that was freed.
//!
//! It gives freed pages back to the system after a second, by default. What works with large pieces of memory in
//! turn, as the merging of changes does, then has twice as much resident as it holds. After a tenth of a second
//! nearly none of that is left, and pages that are used again at once are still not given back in between.

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
        // SAFETY: both are functions of the library that is linked as the allocator. They read and write a number
        // in a table, at any time and on any thread, and ignore options that there are not.
        pub(super) safe fn mi_option_get(option: c_int) -> c_long;
        pub(super) safe fn mi_option_set(option: c_int, value: c_long);
    }
}

/// Has freed memory given back soon. Whoever has set the delay (`MIMALLOC_PURGE_DELAY`) keeps it.
pub(crate) fn give_back_soon() {
    if raw::mi_option_get(PURGE_DELAY) == DEFAULT_MS {
        raw::mi_option_set(PURGE_DELAY, KEPT_MS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Another version of the library may number its options otherwise, or wait for another time.
    #[test]
    fn freed_memory_is_given_back_soon() {
        give_back_soon();
        assert_eq!(raw::mi_option_get(PURGE_DELAY), KEPT_MS);
    }
}
