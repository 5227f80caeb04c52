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
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
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
/// The delay while much memory is resident. With 0, the allocator would not return what it keeps already.
const AT_ONCE_MS: c_long = 1;

/// Bytes of a process that answers queries which are neither its cache nor memory of queries: the program, threads,
/// buffers of connections.
const PROCESS_BYTES: usize = 64 << 20;
/// Interval of the checks of resident memory.
const CHECK: Duration = Duration::from_millis(25);

/// True if freed memory is kept for queries.
static IS_KEPT: AtomicBool = AtomicBool::new(false);
/// Resident bytes from which on freed memory is not kept.
static MOST: AtomicUsize = AtomicUsize::new(PROCESS_BYTES);

#[expect(unsafe_code, reason = "the crate has no safe function for options")]
mod raw {
    use super::{c_int, c_long};

    unsafe extern "C" {
        // SAFETY: both are functions of the library that is linked as the allocator. They read and
        // write a number in a table and ignore unknown options. A number is an aligned word, which
        // other threads see as it was or as it is.
        pub(super) safe fn mi_option_get(option: c_int) -> c_long;
        pub(super) safe fn mi_option_set(option: c_int, value: c_long);
        // SAFETY: gives back pages that this thread and arenas keep; may be called at any time on
        // any thread.
        pub(super) safe fn mi_collect(force: bool);
    }
}

/// Sets how long the allocator keeps freed memory, unless that was set from outside (`MIMALLOC_PURGE_DELAY`).
pub(crate) fn keep_freed_memory(for_queries: bool) {
    if raw::mi_option_get(PURGE_DELAY) == DEFAULT_MS {
        let delay = if for_queries { QUERIES_MS } else { OTHERS_MS };
        raw::mi_option_set(PURGE_DELAY, delay);
        IS_KEPT.store(for_queries, Ordering::Relaxed);
    }
}

/// Lets queries use this much memory and this much for pages, beside what was allowed before. From now on, freed memory
/// is returned at once while more is resident than the process itself, all pages and three quarters of the memory of
/// queries take. Does nothing if freed memory is not kept for queries.
pub(crate) fn return_beyond(memory_bytes: usize, cache_bytes: usize) {
    static WATCH: Once = Once::new();
    if !IS_KEPT.load(Ordering::Relaxed) {
        return;
    }
    let more = cache_bytes.saturating_add(memory_bytes / 4 * 3);
    let add = |most: usize| Some(most.saturating_add(more));
    let _ = MOST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    WATCH.call_once(|| {
        let thread = std::thread::Builder::new().name("freed memory".into());
        // Without a thread to spare, memory is kept longer, which is no error.
        drop(thread.spawn(watch));
    });
}

/// Looks at resident memory as long as the process lives, if the system reports it.
fn watch() {
    while let Some(resident) = resident_bytes() {
        adjust(resident, MOST.load(Ordering::Relaxed));
        std::thread::sleep(CHECK);
    }
}

/// Returns freed memory, and lets it be returned at once, if too much is resident.
fn adjust(resident: usize, most: usize) {
    let is_beyond = resident > most;
    let delay = if is_beyond { AT_ONCE_MS } else { QUERIES_MS };
    if raw::mi_option_get(PURGE_DELAY) != delay {
        raw::mi_option_set(PURGE_DELAY, delay);
    }
    if is_beyond {
        raw::mi_collect(true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FREED: usize = 256 << 20;

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

        let resident = || resident_bytes().expect("Linux reports it");
        let before = resident();
        drop(vec![1_u8; FREED]);
        assert!(resident() > before + FREED / 2, "it is kept");
        adjust(2, 1);
        assert_eq!(raw::mi_option_get(PURGE_DELAY), AT_ONCE_MS);
        assert!(resident() < before + FREED / 2, "it was returned");
        adjust(1, 1);
        assert_eq!(raw::mi_option_get(PURGE_DELAY), QUERIES_MS);

        raw::mi_option_set(PURGE_DELAY, DEFAULT_MS);
        keep_freed_memory(false);
        assert_eq!(raw::mi_option_get(PURGE_DELAY), OTHERS_MS);
    }
}
