//! The process's allocator, and how long it keeps freed memory.
//!
//! By default the allocator returns freed pages to the system after a second. Queries use the same buffers again and again:
//! a page that was returned costs a fault when it is used again, and returning it interrupts the other cores. So a
//! process that answers queries keeps pages for ten seconds. The commands that load or rewrite a store use large buffers
//! in turn, and would have much more memory resident than they hold: they return pages after a tenth of a second.

use std::ffi::{c_int, c_long};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// `mi_option_purge_delay` of mimalloc.h, and its default in milliseconds.
const PURGE_DELAY: c_int = 15;
const DEFAULT_MS: c_long = 1000;
/// Delays in milliseconds: of processes that answer queries, and of others.
const QUERIES_MS: c_long = 10_000;
const OTHERS_MS: c_long = 100;

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

/// Sets how long the allocator keeps freed memory, unless that was set from outside (`MIMALLOC_PURGE_DELAY`).
pub(crate) fn keep_freed_memory(for_queries: bool) {
    if raw::mi_option_get(PURGE_DELAY) == DEFAULT_MS {
        let delay = if for_queries { QUERIES_MS } else { OTHERS_MS };
        raw::mi_option_set(PURGE_DELAY, delay);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Another version of the library may number its options differently or have another default.
    #[test]
    fn a_delay_is_set_unless_one_was_given() {
        keep_freed_memory(true);
        assert_eq!(raw::mi_option_get(PURGE_DELAY), QUERIES_MS);
        keep_freed_memory(false);
        assert_eq!(
            raw::mi_option_get(PURGE_DELAY),
            QUERIES_MS,
            "it is not the default"
        );
        raw::mi_option_set(PURGE_DELAY, DEFAULT_MS);
        keep_freed_memory(false);
        assert_eq!(raw::mi_option_get(PURGE_DELAY), OTHERS_MS);
    }
}
