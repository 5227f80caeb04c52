//! The process's allocator, and how long it keeps freed memory.
//!
//! By default the allocator returns freed pages to the system after a second. Queries use the same buffers again and again:
//! a page that was returned costs a fault when it is used again, and returning it interrupts the other cores. So a
//! process that answers queries keeps pages for ten seconds. The commands that load or rewrite a store use large buffers
//! in turn, and would have much more memory resident than they hold: they return pages after a tenth of a second.
//!
//! A process that answers queries returns pages at once while most of the memory that its limits allow is resident:
//! kept pages must not take more than that from other processes.

use std::ffi::{c_int, c_long};
use std::time::Duration;

use pythia_io::system::resident_bytes;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// `mi_option_purge_delay` of mimalloc.h, and its default in milliseconds.
const PURGE_DELAY: c_int = 15;
const DEFAULT_MS: c_long = 1000;
/// Delays in milliseconds: of processes that answer queries, and of others.
const QUERIES_MS: c_long = 10_000;
const OTHERS_MS: c_long = 100;

/// Bytes of a process that answers queries which are neither its cache nor memory of queries: the program, threads,
/// buffers of connections.
const PROCESS_BYTES: usize = 64 << 20;
/// Interval of the checks of resident memory.
const CHECK: Duration = Duration::from_millis(25);

#[expect(unsafe_code, reason = "the crate has no safe function for options")]
mod raw {
    use super::{c_int, c_long};

    unsafe extern "C" {
        // SAFETY: both are functions of the library that is linked as the allocator. They read and
        // write a number in a table, may be called at any time on any thread, and ignore unknown
        // options.
        pub(super) safe fn mi_option_get(option: c_int) -> c_long;
        pub(super) safe fn mi_option_set(option: c_int, value: c_long);
        // SAFETY: returns freed memory to the system; may be called at any time on any thread.
        pub(super) safe fn mi_collect(force: bool);
    }
}

/// Sets how long the allocator keeps freed memory, unless that was set from outside (`MIMALLOC_PURGE_DELAY`).
pub(crate) fn keep_freed_memory(for_queries: bool) {
    if raw::mi_option_get(PURGE_DELAY) == DEFAULT_MS {
        let delay = if for_queries { QUERIES_MS } else { OTHERS_MS };
        raw::mi_option_set(PURGE_DELAY, delay);
    }
}

/// Returns freed memory at once while more is resident than the process itself needs and three quarters of
/// `limit_bytes`: it grows on until the next check. Does nothing if freed memory is not kept for queries, or where
/// resident memory is unknown.
pub(crate) fn return_beyond(limit_bytes: usize) {
    if raw::mi_option_get(PURGE_DELAY) != QUERIES_MS || resident_bytes().is_none() {
        return;
    }
    let most = PROCESS_BYTES + limit_bytes / 4 * 3;
    let watch = move || {
        loop {
            let is_beyond = resident_bytes().is_some_and(|bytes| bytes > most);
            raw::mi_option_set(PURGE_DELAY, if is_beyond { 0 } else { QUERIES_MS });
            if is_beyond {
                raw::mi_collect(true);
            }
            std::thread::sleep(CHECK);
        }
    };
    let thread = std::thread::Builder::new().name("freed memory".into());
    // Without a thread to spare, memory is kept longer, which is no error.
    drop(thread.spawn(watch));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Another version of the library may number its options differently or have another default. One test, because
    /// the options are the process's.
    #[test]
    fn a_delay_is_set_unless_one_was_given_and_ends_beyond_the_limit() {
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

        raw::mi_option_set(PURGE_DELAY, QUERIES_MS);
        return_beyond(0);
        let held = vec![1_u8; 2 * PROCESS_BYTES];
        wait_until(|| raw::mi_option_get(PURGE_DELAY) == 0);
        drop(held);
        wait_until(|| raw::mi_option_get(PURGE_DELAY) == QUERIES_MS);
    }

    fn wait_until(is_true: impl Fn() -> bool) {
        let begun = std::time::Instant::now();
        while !is_true() {
            assert!(begun.elapsed() < Duration::from_secs(60), "waited in vain");
            std::thread::sleep(CHECK);
        }
    }
}
